/* draft_line.h: what the draft of a model knows of one timeline, and its guesses.
 *
 * Owns:      the draft's KV rows, the target's latest hidden states until rows are made of them.
 * Not here:  the draft itself (model/draft.h), what becomes of a guess (ahead.h).
 * Laws:      (1) row p stands for the pair of the target's hidden state at p and the token at
 *            p + 1; rows are made of what the target computed, a guess's own rows are written over;
 *            (2) rows begin where the target's hidden states did: a prompt that came from a cache
 *            leaves none;  (3) a row whose token changed by a rewind keeps the old one: that costs
 *            a guess, never a token;  (4) no allocation after init.
 * Threads:   as the session's.
 */
#ifndef TT_SESSION_DRAFT_LINE_H
#define TT_SESSION_DRAFT_LINE_H

#include "model/model.h"

typedef struct tt_draft_line {
    tt_model *model;
    tt_kv_cache kv;
    uint32_t first, end; /* positions that rows 0 .. end - first - 1 stand for */
    float *hidden;       /* [TT_DRAFT_HIDDEN, H] residuals at positions at .. at + n - 1 */
    uint32_t at, n;
} tt_draft_line;

TT_MUST_CHECK tt_status tt_draft_line_init(tt_draft_line *d, tt_model *m, tt_error *err);
void tt_draft_line_free(tt_draft_line *d);
/* The timeline is another one now. */
void tt_draft_line_reset(tt_draft_line *d);
/* The target has gone over positions pos0 .. pos0 + T - 1 and left h [T, H]; tokens [pos0 + T] are
 * the timeline's, of which those after pos0 need not be settled in a decode step. */
TT_MUST_CHECK tt_status tt_draft_line_note(tt_draft_line *d, const uint32_t *tokens, const float *h,
                                           uint32_t pos0, uint32_t T, tt_error *err);
/* Guesses what follows tokens[0..n) and `id` behind them: `most` ids to out, or none, which is
 * what *count says. Uses the model's scratch for logits. */
TT_MUST_CHECK tt_status tt_draft_line_guess(tt_draft_line *d, const uint32_t *tokens, uint32_t n,
                                            uint32_t id, uint32_t most, uint32_t *out,
                                            uint32_t *count, tt_error *err);

#endif
