/* hub_source.h: the part of a checkpoint that is fetched before a plan can be made: its small files
 * and the headers of its shards.
 *
 * Owns:      which files a repository has that matter, the directory `source` that holds them.
 * Not here:  the weights (hub_install.c), the facts about what was fetched (hub_state.h).
 * Laws:      (1) what stands in the directory is believed when it has the recorded digest, and
 *            fetched again otherwise;  (2) of a shard two small ranges are fetched, of
 *            several shards at once.
 * Threads:   one at a time.
 */
#ifndef TT_REPACK_HUB_SOURCE_H
#define TT_REPACK_HUB_SOURCE_H

#include "format/safetensors.h"
#include "repack/hub_listing.h"
#include "repack/hub_state.h"

/* Asks what a revision is. Repositories of other formats are refused with the reason. */
TT_MUST_CHECK tt_status tt_hub_source_list(tt_hub *hub, const char *revision, tt_hub_listing *out,
                                           tt_error *err);

typedef struct tt_hub_source {
    char dir[TT_MAX_PATH];
    tt_hub_file *shards; /* sorted by name, as tt_safetensors has them */
    uint32_t n_shards;
} tt_hub_source;

/* Fetches what is missing. */
TT_MUST_CHECK tt_status tt_hub_source_fetch(tt_hub *hub, const char *dir, tt_hub_state *state,
                                            tt_journal *journal, const tt_repack_events *ev,
                                            tt_hub_source *out, tt_error *err);
void tt_hub_source_free(tt_hub_source *s);
/* For tt_st_remote.size; `ctx` is the source. */
TT_MUST_CHECK tt_status tt_hub_source_size(void *ctx, const char *shard, uint64_t *bytes,
                                           tt_error *err);

#endif
