/* Level avx512vnni: affine weights times activations in whole numbers, over avx512. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions. */
#include <math.h>
#include <string.h>

#include "backend/cpu/dot_avx512.h"
#include "backend/kernels.h"

#include "backend/cpu/vec_math.inc"

#include "backend/cpu/vec_dot.inc"

void tt_avx512vnni_fill(tt_kernels *k)
{
    k->dot_grain = DV * VL;
    k->dot_tile = DT;
    k->quantize = vec_quantize;
    k->dot = vec_dot;
}
