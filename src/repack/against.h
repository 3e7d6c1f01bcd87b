/* against.h: an install held against the checkpoint that it was made of.
 *
 * Owns:      the widths that an install was made with, the choice of parts, their comparison.
 * Not here:  the conversion (segments.h), what an install is by itself (verify.h).
 * Laws:      (1) the architecture and every place and type must be those that the checkpoint gives;
 *            (2) of the bytes, parts of every file are converted again, all of them when they are
 *            few.
 * Threads:   one at a time, with a pool inside.
 */
#ifndef TT_REPACK_AGAINST_H
#define TT_REPACK_AGAINST_H

#include "repack/tensor_plan.h"

typedef struct tt_against_report {
    size_t parts, compared; /* segments of the plan */
    uint64_t source_bytes;  /* that were converted again */
} tt_against_report;

/* `most_bytes`: of the checkpoint to convert again, 0 for the default. */
TT_MUST_CHECK tt_status tt_against_run(const char *install, const char *snapshot,
                                       uint64_t most_bytes, unsigned threads,
                                       const tt_repack_events *ev, tt_against_report *report,
                                       tt_error *err);

#endif
