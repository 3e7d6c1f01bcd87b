/* verify.h: proves every byte of an install and issues its receipt.
 *
 * Owns:      the checks of docs/format-gturbo.md section 11 that loading leaves out.
 * Not here:  structure (format/install.h).
 * Laws:      (1) cheap checks come before hashing;  (2) a file that changes meanwhile is an error;
 *            (3) the receipt is written last, whole, and only after every check passed.
 * Threads:   one at a time; several files are read at once inside.
 */
#ifndef TT_REPACK_VERIFY_H
#define TT_REPACK_VERIFY_H

#include "repack/origin.h"
#include "repack/tensor_plan.h"

typedef struct tt_verify_report {
    char path[TT_MAX_PATH]; /* the install, absolute */
    size_t files;           /* with the manifest */
    uint64_t bytes, experts;
    tt_origin origin;
    size_t unlisted; /* files that the manifest does not know; told as notes */
} tt_verify_report;

/* Progress counts bytes read. `write_receipt` false only checks; `threads` 0: one a physical core.
 */
TT_MUST_CHECK tt_status tt_verify_run(const char *dir, bool write_receipt, unsigned threads,
                                      const tt_repack_events *ev, tt_verify_report *report,
                                      tt_error *err);

#endif
