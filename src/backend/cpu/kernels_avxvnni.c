/* Level avxvnni: affine weights times activations in whole numbers, over avx2. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions. */
#include "backend/cpu/dot_avx2.h"

#define LEVEL_FILL tt_avxvnni_fill
#include "backend/cpu/vec_dot_level.inc"
