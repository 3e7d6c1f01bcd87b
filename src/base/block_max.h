/* block_max.h: the largest value of every block of a row, noted beside the row so that a search
 * descends only where it must.
 *
 * Owns:      the size of a block, the definition of its maximum.
 * Not here:  kernels that find maxima while the row is written (backend/), the search (sample/).
 * Laws:      (1) a block that holds NaN has NaN for its maximum, so that one look at the maxima
 *            tells whether the row is sound;  (2) blocks stand at multiples of their size,
 *            whoever writes them.
 * Threads:   pure functions.
 */
#ifndef TT_BASE_BLOCK_MAX_H
#define TT_BASE_BLOCK_MAX_H

#include <stddef.h>
#include <stdint.h>

/* Values that share a maximum: of a vocabulary row of 248,320 about as many blocks must be entered
 * for its best twenty as makes both walks short. */
#define TT_BLOCK_MAX 128u

static inline uint32_t tt_block_count(uint32_t n)
{
    return (n + TT_BLOCK_MAX - 1) / TT_BLOCK_MAX;
}

/* The largest of n values; NaN when there is one, -INFINITY when there are none. Of zeros of both
 * signs either may come out. */
float tt_largest(const float *x, size_t n);
/* top[tt_block_count(n)] of a row of n values */
void tt_block_max(float *top, const float *x, uint32_t n);

#endif
