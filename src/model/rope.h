/* rope.h: rotary position angles, plain and YaRN.
 *
 * Owns:      inverse frequencies and the attention factor; cos and sin rows of a step.
 * Not here:  applying them (op norm_rope).
 * Laws:      angles are formed in double and rounded once to f32 (design.md, Numerics).
 * Threads:   read-only after init.
 */
#ifndef TT_MODEL_ROPE_H
#define TT_MODEL_ROPE_H

#include "format/arch.h"

typedef struct tt_rope {
    uint32_t rotary;                       /* R: rotated dims of a head, even */
    double frequency[TT_MAX_HEAD_DIM / 2]; /* f_i, i < R / 2 */
    double factor;                         /* multiplies cos and sin; 1 without YaRN */
} tt_rope;

/* R of an architecture. */
uint32_t tt_rope_rotary(const tt_arch *arch);
/* model-math 3.4; YaRN as NTK-by-parts (Peng et al. 2023, section 3.2) with beta 32 and 1,
 * model-math 1.2. */
void tt_rope_init(tt_rope *rope, const tt_arch *arch);
/* cosine, sine [T, R / 2] of positions pos0 .. pos0 + T - 1. */
void tt_rope_rows(const tt_rope *rope, float *cosine, float *sine, uint32_t pos0, uint32_t T);
/* The same of positions pos0, pos0 + step, ...: n of them. */
void tt_rope_rows_every(const tt_rope *rope, float *cosine, float *sine, uint32_t pos0,
                        uint32_t step, uint32_t n);

#endif
