/* ahead.h: decode that looks ahead: a step goes over guesses of the coming tokens too, and a decode
 * of a token that was guessed takes its row instead of making a step.
 *
 * Owns:      the guesses and logits of the last step, going back from those that were wrong, when
 *            to guess and how many (price.h).
 * Not here:  where guesses come from (draft_line.h, lookup.h), choosing tokens: whoever decodes
 *            says what comes next, by any sampler, mask or list.
 * Laws:      (1) logits, KV rows and state after any call are the bytes of plain decode;  (2) while
 *            rows wait, state and KV rows are ahead of the session's tokens; tt_ahead_drop brings
 *            them back, and every other call of the session does that first;  (3) a step stays
 *            inside a block of 64, so that checkpoints fall where plain decode has them;  (4) what
 *            cannot be guessed, by any failure of the draft, is decoded plainly;  (5) decode
 *            allocates nothing.
 * Threads:   as the session's.
 */
#ifndef TT_SESSION_AHEAD_H
#define TT_SESSION_AHEAD_H

#include "session/draft_line.h"
#include "session/price.h"

struct tt_session;

typedef struct tt_ahead {
    tt_draft_kind kind;
    uint32_t width; /* rows of every step; 0: by price */
    tt_undo undo;
    float *rows; /* logits [TT_DRAFT_ROWS, vocab], then their maxima [TT_DRAFT_ROWS, blocks] */
    uint64_t rows_bytes;
    tt_draft_line line; /* TT_DRAFT_MTP */
    /* the last step */
    uint32_t guess[TT_DRAFT_ROWS - 1], n_guess, taken;
    bool waiting; /* guesses that were not taken yet are in state and KV rows */
    bool open;    /* its price is not noted yet */
    double seconds;
    tt_price price;
    tt_draft_stats stats;
    /* For measurements: replaces the guess of the token at position `at`; where there was none, one
     * is made. Guessing costs what it costs. NULL: guesses stay. */
    uint32_t (*impose)(void *ctx, uint32_t at);
    void *impose_ctx;
} tt_ahead;

TT_MUST_CHECK tt_status tt_ahead_create(tt_model *m, tt_ahead **out, tt_error *err);
void tt_ahead_close(tt_ahead **ahead);
/* The guess that waits for the next decode. */
static inline bool tt_ahead_waits(const tt_ahead *a, uint32_t *id)
{
    if (a->waiting)
        *id = a->guess[a->taken];
    return a->waiting;
}

/* Decodes `id`: takes a row that waits for it, or makes a step. Checked before. */
TT_MUST_CHECK tt_status tt_ahead_decode(struct tt_session *s, uint32_t id, tt_error *err);
/* These do nothing for a session that does not look ahead. */
/* State and KV rows become those of the session's tokens. */
void tt_ahead_drop(struct tt_session *s);
/* The target went over positions pos0 .. pos0 + T - 1 in a step of another kind and left h [T, H].
 */
void tt_ahead_note(struct tt_session *s, const float *h, uint32_t pos0, uint32_t T);
/* The session's tokens came from elsewhere. */
void tt_ahead_reset(struct tt_session *s);

#endif
