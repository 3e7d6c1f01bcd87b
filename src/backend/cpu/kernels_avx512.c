/* Level avx512: the shared bodies over sixteen lanes. Compiled with flags of its own; dispatch.c
 * calls in here only on machines that have the instructions. */
#include "backend/cpu/vec_avx512.h"

#define LEVEL_FILL tt_avx512_fill
#include "backend/cpu/vec_level.inc"
