/* hub_state.h: what a journal says of an installation from a hub.
 *
 * Owns:      the facts: what is installed from where, files that were fetched whole, the plan,
 *            ranges that are done; their lines.
 * Not here:  the form of a line (journal.h), whether the facts are still true (hub_install.c
 *            hashes).
 * Laws:      (1) a line of a kind that is not known, or that contradicts an earlier one, refuses
 *            the journal with the remedy;  (2) names are plain file names.
 * Threads:   plain data.
 */
#ifndef TT_REPACK_HUB_STATE_H
#define TT_REPACK_HUB_STATE_H

#include "base/hash.h"
#include "base/json.h"
#include "repack/hub_client.h"
#include "repack/journal.h"
#include "repack/policy.h"

#define TT_HUB_STATE_VERSION 2u /* of the facts */

typedef struct tt_hub_state {
    bool begun;
    char repository[TT_HUB_MAX_REPO + 1], requested[129], commit[65];
    char model_id[TT_MAX_MODEL_ID + 1];
    tt_policy policy;
    uint64_t range_bytes;
    json_t *names; /* array of the small files that the repository has */
    json_t *sizes; /* of those, where the hub says so */
    json_t *files; /* name -> {size, sha256, total, id, etag} of what stands in source/ */
    char plan[TT_SHA256_HEX];
    size_t n_ranges;
    char (*ranges)[TT_SHA256_HEX];  /* digest of what each range became; "" when it is not done */
    char (*sources)[TT_SHA256_HEX]; /* digest of the bytes of each range as they came, or "" */
    json_t *shards;                 /* name -> SHA-256 of those that came whole, in order, and had
                                     * the digest that the hub names */
    size_t done;
} tt_hub_state;

void tt_hub_state_init(tt_hub_state *s);
void tt_hub_state_free(tt_hub_state *s);
/* Takes one line in. A tt_journal_fn; `ctx` is the state. */
TT_MUST_CHECK tt_status tt_hub_state_line(void *ctx, char *text, tt_error *err);

/* Append a fact to the journal and take it in. The first writes what stands in the state. */
TT_MUST_CHECK tt_status tt_hub_state_begin(tt_hub_state *s, tt_journal *j, tt_error *err);
TT_MUST_CHECK tt_status tt_hub_state_file(tt_hub_state *s, tt_journal *j, const char *sha256,
                                          uint64_t size, const tt_hub_file *f, tt_error *err);
TT_MUST_CHECK tt_status tt_hub_state_plan(tt_hub_state *s, tt_journal *j, const char *fingerprint,
                                          size_t n_ranges, tt_error *err);
TT_MUST_CHECK tt_status tt_hub_state_range(tt_hub_state *s, tt_journal *j, size_t i,
                                           const char *sha256, const char *source_sha256,
                                           tt_error *err);
TT_MUST_CHECK tt_status tt_hub_state_shard(tt_hub_state *s, tt_journal *j, const char *name,
                                           const char *sha256, tt_error *err);
/* A plain file name, as shards and small files have it. */
bool tt_hub_file_name_valid(const char *name);

#endif
