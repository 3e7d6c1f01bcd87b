/* Level avx2: the shared bodies over eight lanes. Compiled with flags of its own; dispatch.c calls
 * in here only on machines that have the instructions. */
#include "backend/cpu/vec_avx2.h"

#define LEVEL_FILL tt_avx2_fill
#include "backend/cpu/vec_level.inc"
