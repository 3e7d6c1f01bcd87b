/* kernel_cases.h: kernels as they are met in a model of 35 billion parameters, three of them
 * active.
 *
 * Owns:      operands of random values, what a run reads and multiplies, the proof of a case.
 * Not here:  timing (kernels.c).
 * Laws:      (1) a case proves itself against the reference before it is timed, on the operands of
 *            its first turn;  (2) cases that are bound by memory walk through more of it than any
 *            cache holds: every turn has operands of its own.
 * Threads:   one caller.
 */
#ifndef TT_BENCH_KERNEL_CASES_H
#define TT_BENCH_KERNEL_CASES_H

#include "backend/kernels.h"

typedef enum kernel_bound { BOUND_MEMORY, BOUND_F32, BOUND_DOT } kernel_bound;

typedef struct kernel_case {
    const char *op;
    char shape[72];
    kernel_bound bound; /* the ceiling it is held against */
    double bytes, macs; /* of one run */
    uint32_t turns;     /* sets of operands */
    /* private */
    void *work;
    void (*run)(void *work, tt_backend *be, uint32_t turn);
    /* relative error of the first turn against `ref`, and what is allowed */
    double (*prove)(void *work, tt_backend *be, tt_backend *ref, double *allowed);
} kernel_case;

enum { KERNEL_CASES_MOST = 64 };

/* Makes case i (0, 1, ...): TT_ERR_NOT_FOUND past the last one. `memory`: bytes that a case bound
 * by memory walks through. */
TT_MUST_CHECK tt_status kernel_case_make(unsigned i, uint64_t memory, kernel_case *out,
                                         tt_error *err);
void kernel_case_free(kernel_case *c);

#endif
