/* Level neon+dotprod: affine weights times activations in whole numbers, over neon. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions. */
#include "backend/cpu/dot_neon.h"

#define LEVEL_FILL tt_neon_dotprod_fill
#include "backend/cpu/vec_dot_level.inc"
