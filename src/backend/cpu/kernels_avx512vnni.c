/* Level avx512vnni: affine weights times activations in whole numbers, over avx512. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions. */
#include <math.h>
#include <string.h>

#include "backend/cpu/dot_avx512.h"
#include "backend/kernels.h"

#include "backend/cpu/vec_math.inc"

#include "backend/cpu/vec_softmax.inc"

#include "backend/cpu/vec_dot.inc"

#include "backend/cpu/vec_attend_dot.inc"

void tt_avx512vnni_dot(float *y, size_t ldy, const int32_t *xq, const tt_mat *W, const tt_mat *up,
                       uint32_t r0, uint32_t r1, uint32_t T, uint32_t planes, void *scratch)
{
    vec_dot(y, ldy, xq, W, up, r0, r1, T, planes, scratch);
}

void tt_avx512vnni_fill(tt_kernels *k)
{
    k->dot_grain = DV * VL;
    k->dot_rows[0] = DT;
    k->dot_rows[1] = DT / 2;
    k->quantize = vec_quantize;
    k->dot = tt_avx512vnni_dot;
    k->attend_codes = vec_attend_codes;
    k->peak_dot = vec_peak_dot;
}
