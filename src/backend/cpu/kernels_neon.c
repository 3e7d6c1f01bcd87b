/* Level neon: the shared bodies over four lanes. Every AArch64 machine runs it. */
#include "backend/cpu/vec_neon.h"

#define LEVEL_FILL tt_neon_fill
#include "backend/cpu/vec_level.inc"
