/* forward.h: the pages. One file a family; each brings the residual stream of a step from tokens
 * to the last layer.
 *
 * Owns:      the order of the mathematics.
 * Not here:  how an op is computed (backend/), which tokens (session/).
 * Laws:      law 1 of design.md: one call per equation line, output first, the symbols of
 *            docs/model.md; one body for prefill and decode.
 * Threads:   one step at a time uses a model.
 */
#ifndef TT_MODEL_FORWARD_H
#define TT_MODEL_FORWARD_H

#include "model/step.h"
#include "model/weights.h"

/* Qwen 3.5 family, dense and mixture of experts: tokens -> s->s->h [T, H] after the last layer;
 * state and KV rows are brought up to date. On failure s->status is set and the state is not to be
 * used. */
void tt_forward_qwen3_5(tt_step *s);
/* logits[n, vocab] = W_head N(h; w_final) of rows row0 .. row0 + n - 1 of the step; n <=
 * TT_LOGITS_ROWS. top[n, tt_block_count(vocab)]: the largest of every block of them; may be NULL.
 */
void tt_head_qwen3_5(tt_step *s, float *logits, float *top, uint32_t row0, uint32_t n);
/* One layer of it, for the draft's page: s->s->h to s->s->h. */
void tt_layer_qwen3_5(tt_step *s, const tt_layer_weights *w, uint32_t l);

/* The draft of that family. s->arch and s->s are the draft's, s->tokens are the tokens after those
 * whose hidden states are given, s->pos0 the first row of the draft's KV rows.
 *
 * hidden[T, H] = what the draft takes of h[T, H], the target's residual after its last layer. */
void tt_draft_hidden_qwen3_5(tt_step *s, float *hidden, const float *h);
/* KV rows of T pairs alone: no expert is asked for. */
void tt_draft_rows_qwen3_5(tt_step *s, const float *hidden);
/* The whole layer: KV rows, and y[T, H], which the head takes and the next pair's `hidden` may
 * be. `y` may be `hidden`. */
void tt_draft_qwen3_5(tt_step *s, float *y, const float *hidden);
/* logits[T, vocab] of y, with the target's head, and block maxima. */
void tt_draft_head_qwen3_5(tt_step *s, float *logits, float *top, const float *y);

/* Qwen3.8-Flash-Next (qwen4_exp), docs/model-qwen4.md: the same, with s->s->h [T, S * H]. */
void tt_forward_qwen4_exp(tt_step *s);
void tt_head_qwen4_exp(tt_step *s, float *logits, float *top, uint32_t row0, uint32_t n);

#endif
