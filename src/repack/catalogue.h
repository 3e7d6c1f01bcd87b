/* catalogue.h: checkpoints that are known by a short name: repository, commit, what is known of
 * them.
 *
 * Owns:      reading catalogue.json, which is compiled in as it lies in the tree.
 * Not here:  asking a hub about them (hub_source.h).
 * Laws:      a revision of 40 digits is a commit that the hub must have; fewer are its first
 *            digits, which what the repository has now must begin with; none: what the repository
 *            has now.
 * Threads:   read-only after opening.
 */
#ifndef TT_REPACK_CATALOGUE_H
#define TT_REPACK_CATALOGUE_H

#include "base/json.h"

typedef struct tt_catalogue_model {
    const char *name, *title, *repository, *family;
    const char *revision;      /* "" when it is not pinned */
    const char *licence;       /* "" when it is not known */
    const char *index_sha256;  /* NULL when it is not known */
    uint64_t checkpoint_bytes; /* 0 when it is not known */
    bool mtp;
} tt_catalogue_model;

typedef struct tt_catalogue {
    json_t *tree; /* owns the strings */
    tt_catalogue_model *models;
    size_t count;
} tt_catalogue;

/* The one that is compiled in. */
TT_MUST_CHECK tt_status tt_catalogue_open(tt_catalogue *out, tt_error *err);
/* One of the same form. */
TT_MUST_CHECK tt_status tt_catalogue_parse(const char *text, size_t len, const char *file,
                                           tt_catalogue *out, tt_error *err);
void tt_catalogue_free(tt_catalogue *c);
/* TT_ERR_NOT_FOUND with the names that there are. */
TT_MUST_CHECK tt_status tt_catalogue_find(const tt_catalogue *c, const char *name,
                                          const tt_catalogue_model **out, tt_error *err);

#endif
