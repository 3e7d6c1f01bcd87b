/* bounds.h: what a run of decode or prefill could reach at most on this machine.
 *
 * Owns:      the work of a token: bytes of decode, operations of prefill; the machine's limits,
 *            measured between runs.
 * Not here:  the patterns that measure them (ceilings.h), the runs (speed.c).
 * Laws:      (1) limits are measured right before and right after a run, since memory and clocks of
 *            shared machines drift, and the better of both is held against it;  (2) the work is
 *            what the model's arithmetic asks for, not what the program happens to do.
 * Threads:   one caller; the pool of the model's backend does the work.
 */
#ifndef TT_BENCH_BOUNDS_H
#define TT_BENCH_BOUNDS_H

#include "bench/ceilings.h"
#include "model/model.h"

typedef struct bench_bounds {
    void *block; /* what is read; larger than every cache */
    ceilings before, after;
} bench_bounds;

TT_MUST_CHECK tt_status bench_bounds_open(bench_bounds *b, tt_error *err);
void bench_bounds_close(bench_bounds *b);
/* Measures the limits into `c`, about a tenth of a second. */
void bench_bounds_measure(const bench_bounds *b, tt_backend *be, ceilings *c);

/* Bytes that decoding one token touches when `rows` positions are in the KV cache: weights, routed
 * experts, recurrent state read and written, KV rows read. */
double bench_token_bytes(const tt_model *m, double rows);
/* Operations of a token of a prompt of n: two for every multiply-add of a product with weights, the
 * head once a prompt. */
double bench_token_operations(const tt_model *m, uint32_t n);

#endif
