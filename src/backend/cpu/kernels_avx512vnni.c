/* Level avx512vnni: affine weights times activations in whole numbers, over avx512. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions. */
#include "backend/cpu/dot_avx512.h"

#define LEVEL_FILL tt_avx512vnni_fill
#include "backend/cpu/vec_dot_level.inc"

void tt_avx512vnni_dot(float *y, size_t ldy, const int32_t *xq, const tt_mat *W, const tt_mat *up,
                       uint32_t r0, uint32_t r1, uint32_t T, uint32_t planes, void *scratch)
{
    vec_dot(y, ldy, xq, W, up, r0, r1, T, planes, scratch);
}
