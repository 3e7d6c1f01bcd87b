/* approx.h: random numbers, guarded buffers and comparisons for numeric tests.
 *
 * Owns:      a small generator with a seed (the same numbers on every machine), float buffers
 *            between canaries, comparisons that name the first difference.
 * Not here:  what a kernel should be held to.
 * Laws:      a failed check ends the test with the index, both values and the allowance.
 * Threads:   a generator belongs to one thread.
 */
#ifndef TT_TESTS_APPROX_H
#define TT_TESTS_APPROX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tt_rng {
    uint64_t s;
} tt_rng;

uint32_t tt_rng_u32(tt_rng *r);
uint32_t tt_rng_below(tt_rng *r, uint32_t n);
float tt_rng_uniform(tt_rng *r, float lo, float hi);
float tt_rng_normal(tt_rng *r); /* mean 0, variance 1, sum of twelve uniform numbers */
/* n numbers: normal times `scale`. */
void tt_rng_fill(tt_rng *r, float *x, size_t n, float scale);
/* Signs and magnitudes from 1e-6 to 1e6, with zeros and negative zeros among them. */
void tt_rng_fill_wild(tt_rng *r, float *x, size_t n);

/* n floats between canaries, filled with a pattern that is a NaN; freed by tt_guard_free. The
 * returned address is not aligned beyond 4 bytes. */
float *tt_guard_new(size_t n);
/* Fails when a canary round `p` was written over. */
void tt_guard_check(const float *p);
void tt_guard_free(float *p); /* checks, then frees */

/* |got - want| <= floor + rel * mag[i] for all i; mag NULL means |want[i]|. NaN agrees with NaN. */
void tt_assert_close(const char *what, const float *got, const float *want, const float *mag,
                     size_t n, double floor, double rel);
void tt_assert_same_bytes(const char *what, const void *a, const void *b, size_t bytes);

#endif
