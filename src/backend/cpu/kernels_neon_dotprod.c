/* Level neon+dotprod: affine weights times activations in whole numbers, over neon. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions. */
#include <math.h>
#include <string.h>

#include "backend/cpu/dot_neon.h"
#include "backend/kernels.h"

#include "backend/cpu/vec_math.inc"

#include "backend/cpu/vec_softmax.inc"

#include "backend/cpu/vec_dot.inc"

#include "backend/cpu/vec_attend_dot.inc"

void tt_neon_dotprod_fill(tt_kernels *k)
{
    k->dot_grain = DV * VL;
    k->dot_rows[0] = DT;
    k->dot_rows[1] = DT / 2;
    k->quantize = vec_quantize;
    k->dot = vec_dot;
    k->attend_codes = vec_attend_codes;
    k->peak_dot = vec_peak_dot;
}
