/* recurrent.h: the state of the linear-attention layers of one timeline.
 *
 * Owns:      one block with, a linear layer, S [Hv][dk][dv] and the last three raw convolution rows
 *            [3][conv_dim]; of qwen4_exp also the last rows that the n-gram block's convolution
 *            reaches back to, and the raw index keys of each sparse layer's last block, which is
 *            not complete (zeros behind them); all f32.
 * Not here:  the delta rule (ops), when to keep a copy (session/).
 * Laws:      (1) the block is the whole state: copying it is saving it;  (2) orientation is
 *            [dk][dv], key index first, and every snapshot says so (docs/model.md);  (3) it cannot
 *            be rewound, only replaced by a copy.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_RECURRENT_H
#define TT_MODEL_RECURRENT_H

#include "format/arch.h"

#define TT_CONV_ROWS 3u /* raw rows kept: conv_kernel - 1 */

typedef struct tt_recurrent {
    float *block;
    uint64_t bytes; /* of the block; 0 when the model has no linear layers */
    uint64_t state_floats, layer_floats;
    uint64_t ngram_at, ngram_floats;             /* [3 * ngram_size][S * H] */
    uint64_t index_at, index_floats, index_step; /* a sparse layer: [block - 1][index dim] */
} tt_recurrent;

uint64_t tt_recurrent_bytes(const tt_arch *arch);
TT_MUST_CHECK tt_status tt_recurrent_init(tt_recurrent *r, const tt_arch *arch,
                                          tt_error *err); /* zeros */
void tt_recurrent_free(tt_recurrent *r);
void tt_recurrent_clear(tt_recurrent *r);
void tt_recurrent_copy(tt_recurrent *to, const tt_recurrent *from);

static inline float *tt_recurrent_ngram(const tt_recurrent *r)
{
    return r->block + r->ngram_at;
}
/* Of sparse layer i (counted among them). */
static inline float *tt_recurrent_index(const tt_recurrent *r, uint32_t i)
{
    return r->block + r->index_at + i * r->index_step;
}
/* Of linear layer i (counted among linear layers). */
static inline float *tt_recurrent_state(const tt_recurrent *r, uint32_t i)
{
    return r->block + i * r->layer_floats;
}
static inline float *tt_recurrent_conv(const tt_recurrent *r, uint32_t i)
{
    return r->block + i * r->layer_floats + r->state_floats;
}

#endif
