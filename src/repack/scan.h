/* scan.h: reads files whole, several at a time: digests, and a look at every block.
 *
 * Owns:      the threads, the order of files, progress.
 * Not here:  what a block must be (verify.c, hub_install.c).
 * Laws:      (1) a file that changes while it is read is an error;  (2) the first failure ends the
 *            scan;  (3) memory is one block a thread.
 * Threads:   looks run on any of the threads, one a file at a time; progress on the calling thread.
 */
#ifndef TT_REPACK_SCAN_H
#define TT_REPACK_SCAN_H

#include "repack/emit.h"

typedef struct tt_scan_file {
    char path[TT_MAX_PATH];
    size_t step; /* bytes of a block; 0: the default */
    /* May be NULL. `at` is a multiple of the step. */
    tt_status (*look)(void *ctx, size_t file, uint64_t at, const unsigned char *block, size_t n,
                      tt_error *err);
    void *ctx;
    tt_emitted is; /* what was found */
} tt_scan_file;

TT_MUST_CHECK tt_status tt_scan(tt_scan_file *files, size_t n, unsigned threads,
                                const tt_repack_events *ev, tt_error *err);

#endif
