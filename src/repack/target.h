/* target.h: the directory that a conversion is written into, and its publication.
 *
 * Owns:      the partial directory beside the target, its lock, free space, the final rename.
 * Not here:  what is in it.
 * Laws:      (1) the target is absent, or complete, or what it was before;  (2) a partial directory
 *            never opens as an install: its manifest is written last, after a receipt for another
 *            path;  (3) leftovers of dead conversions are removed, those of living ones are not;
 *            (4) only an install is ever replaced.
 * Threads:   one at a time.
 */
#ifndef TT_REPACK_TARGET_H
#define TT_REPACK_TARGET_H

#include "base/limits.h"
#include "repack/tensor_plan.h"

typedef struct tt_target {
    char path[TT_MAX_PATH];    /* absolute path that the install will have */
    char parent[TT_MAX_PATH];  /* the directory that it stands in */
    char partial[TT_MAX_PATH]; /* where it is written; "" before tt_target_create */
    int lock;                  /* descriptor of `partial`, -1: none */
    bool replace;              /* an install stands at `path` */
} tt_target;

/* Finds the final place and checks that it is free, or holds an install that may be replaced. */
TT_MUST_CHECK tt_status tt_target_init(tt_target *t, const char *output, bool overwrite,
                                       tt_error *err);
/* TT_ERR_NO_SPACE with both figures when the file system has less than `need` bytes for us. */
TT_MUST_CHECK tt_status tt_target_space(const tt_target *t, uint64_t need, tt_error *err);
/* Removes leftovers, makes and locks the partial directory. */
TT_MUST_CHECK tt_status tt_target_create(tt_target *t, const tt_repack_events *ev, tt_error *err);
/* Syncs and renames the partial directory into its place; what stood there is removed after. */
TT_MUST_CHECK tt_status tt_target_publish(tt_target *t, tt_error *err);
/* Removes the partial directory if it is still there. Harmless after publish. */
void tt_target_drop(tt_target *t);

#endif
