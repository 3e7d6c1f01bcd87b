#include "base/block_max.h"

#include <math.h>

enum { LANES = 8 };

/* Lanes, because one chain of comparisons would wait for itself. */
float tt_largest(const float *x, size_t n)
{
    float best[LANES];
    int bad[LANES] = {0};
    size_t i = 0;
    for (int k = 0; k < LANES; k++)
        best[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            best[k] = x[i + k] > best[k] ? x[i + k] : best[k];
            bad[k] |= x[i + k] != x[i + k];
        }
    }
    for (; i < n; i++) {
        best[0] = x[i] > best[0] ? x[i] : best[0];
        bad[0] |= x[i] != x[i];
    }
    for (int k = 1; k < LANES; k++) {
        best[0] = best[k] > best[0] ? best[k] : best[0];
        bad[0] |= bad[k];
    }
    return bad[0] ? NAN : best[0];
}

void tt_block_max(float *top, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += TT_BLOCK_MAX)
        top[i / TT_BLOCK_MAX] = tt_largest(x + i, n - i < TT_BLOCK_MAX ? n - i : TT_BLOCK_MAX);
}
