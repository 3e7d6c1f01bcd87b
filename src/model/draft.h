/* draft.h: the draft of a model (MTP), loaded: one layer that guesses the token after the next.
 *
 * Owns:      its weights, its few expert slots and their reader, its scratch.
 * Not here:  its mathematics (forward_draft_qwen3_5.c), KV rows of a timeline and what is done with
 *            a guess (session/ahead.h), embedding and head, which are the target's.
 * Laws:      (1) a draft comes from the target's own install and no other;  (2) its architecture
 *            is the target's with one full-attention layer;  (3) at most TT_DECODE_ROWS rows a
 *            step;  (4) after open it allocates nothing.
 * Threads:   as the model's.
 */
#ifndef TT_MODEL_DRAFT_H
#define TT_MODEL_DRAFT_H

#include "model/moe.h"
#include "model/weights.h"

/* Hidden states of the target that a session keeps until the draft's rows are made of them. */
#define TT_DRAFT_HIDDEN 16u

typedef struct tt_draft {
    tt_arch arch;
    tt_weights weights;
    tt_scratch scratch; /* its logits are the model's scratch's */
    float *pair;        /* [TT_DECODE_ROWS, 2H] embedding | hidden, both normed */
    tt_reader *reader;  /* MoE only, like the next three */
    uint32_t *crc;
    tt_expert_cache *cache;
    tt_moe moe;
    bool pre_norm; /* takes the target's hidden before its final norm (docs/model.md 10); for
                      measurements */
} tt_draft;

/* The draft layer of `target` as an architecture of its own. */
tt_arch tt_draft_arch(const tt_arch *target);
/* Bytes that open takes. 0 for an install without a draft. */
uint64_t tt_draft_cost(const tt_install *in, const tt_arch *target);
/* `scratch`: the model's. TT_ERR_UNSUPPORTED when the install has no draft. */
TT_MUST_CHECK tt_status tt_draft_open(const tt_install *in, const tt_arch *target,
                                      const tt_model_options *o, const tt_scratch *scratch,
                                      tt_pool *pool, tt_draft **out, tt_error *err);
void tt_draft_close(tt_draft **draft);

#endif
