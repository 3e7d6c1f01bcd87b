/* target.h: the directory that a conversion is written into, and its publication.
 *
 * Owns:      the partial directory beside the target, its lock, free space, the final rename.
 * Not here:  what is in it.
 * Laws:      (1) the target is absent, or complete, or what it was before;  (2) a partial directory
 *            never opens as an install: its manifest is written last, after a receipt for another
 *            path;  (3) leftovers of dead conversions are removed, those of living ones are not;
 *            (4) only an install is ever replaced;  (5) a resumable target keeps its work directory
 *            until the install stands, or until it is discarded.
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
    char work[TT_MAX_PATH];    /* of a resumable target: holds `partial`, journal, source; or "" */
    int lock;                  /* descriptor of `partial`, or of `work`; -1: none */
    bool replace;              /* an install stands at `path` */
    bool published;            /* ours stands there by now */
    char manifest_sha256[65];  /* of a resumable target: set before it is published */
} tt_target;

/* Finds the final place and checks that it is free, or holds an install that may be replaced. */
TT_MUST_CHECK tt_status tt_target_init(tt_target *t, const char *output, bool overwrite,
                                       tt_error *err);
/* TT_ERR_NO_SPACE with both figures when the file system has less than `need` bytes for us. */
TT_MUST_CHECK tt_status tt_target_space(const tt_target *t, uint64_t need, tt_error *err);
/* Removes leftovers, makes and locks the partial directory. */
TT_MUST_CHECK tt_status tt_target_create(tt_target *t, const tt_repack_events *ev, tt_error *err);
/* What stands of an interrupted installation. */
typedef enum tt_target_work {
    TT_WORK_NONE,
    TT_WORK_THERE,   /* PATH.partial is there */
    TT_WORK_FINISHED /* it is there, and its install stands at PATH already */
} tt_target_work;
/* Finds the final place without any check of it. */
TT_MUST_CHECK tt_status tt_target_locate(tt_target *t, const char *output, tt_error *err);
tt_target_work tt_target_find_work(const tt_target *t);
/* Makes, or takes over, and locks the work directory PATH.partial with its `install` inside.
 * TT_ERR_STATE when another process works in it. */
TT_MUST_CHECK tt_status tt_target_take_work(tt_target *t, tt_error *err);
/* Removes a locked work directory. */
TT_MUST_CHECK tt_status tt_target_discard(tt_target *t, tt_error *err);
/* Syncs and renames the partial directory into its place; what stood there is removed after. */
TT_MUST_CHECK tt_status tt_target_publish(tt_target *t, tt_error *err);
/* Removes the partial directory if it is still there, but not that of a resumable target. Harmless
 * after publish. */
void tt_target_drop(tt_target *t);

#endif
