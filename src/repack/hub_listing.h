/* hub_listing.h: what a hub says a revision of a repository is.
 *
 * Owns:      the commit, which files an install is made of, their sizes; the refusal of
 *            repositories of other formats.
 * Not here:  asking (hub_source.h).
 * Laws:      (1) names are plain file names, each once;  (2) what the hub does not say is absent.
 * Threads:   pure on its arguments.
 */
#ifndef TT_REPACK_HUB_LISTING_H
#define TT_REPACK_HUB_LISTING_H

#include "base/json.h"

#define TT_HUB_INDEX_NAME  "model.safetensors.index.json"
#define TT_HUB_SINGLE_NAME "model.safetensors"

typedef struct tt_hub_listing {
    char commit[41];
    json_t *names; /* array; of the shards only those that the index does not name */
    json_t *sizes; /* name -> bytes, where the hub says so */
} tt_hub_listing;

/* The fuzz target of descriptions. `repository` and `revision` are for errors. */
TT_MUST_CHECK tt_status tt_hub_listing_parse(const char *text, size_t len, const char *repository,
                                             const char *revision, tt_hub_listing *out,
                                             tt_error *err);
void tt_hub_listing_free(tt_hub_listing *l);
bool tt_hub_listing_has(const json_t *names, const char *name);

#endif
