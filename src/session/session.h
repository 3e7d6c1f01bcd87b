/* session.h: one timeline: prefix sync, chunked prefill, decode, rewind, snapshots.
 *
 * Owns:      tokens, KV rows, recurrent state and one checkpoint of it, the last logits.
 * Not here:  the forward pass (model/), sampling, text, the state of other timelines
 *            (state_cache.h).
 * Laws:      (1) state, KV rows and tokens always describe the same prefix; a step that fails
 *            falls back to the checkpoint or to the empty prefix;  (2) prompt tokens go through
 *            the prefill kernels however few remain, in chunks that end at absolute multiples of
 *            the chunk;  (3) decode allocates nothing;  (4) the checkpoint stands at the last
 *            multiple of 64 tokens that the timeline has passed, and sync begins at such a place;
 *            (5) rows of several sessions in one decode step are the bytes of each alone.
 * Threads:   one at a time, and one session of a model at a time; inside a prefill's callbacks
 *            other sessions may decode.
 */
#ifndef TT_SESSION_SESSION_H
#define TT_SESSION_SESSION_H

#include "session/ahead.h"
#include "session/state_cache.h"

struct tt_session {
    tt_model *model;
    uint32_t *tokens; /* [max_context] */
    uint32_t n;       /* tokens that state and KV rows describe */
    uint8_t *made;    /* [blocks of max_context] of each block: rows from prefill (state_cache.h) */
    tt_kv_cache kv;
    tt_recurrent recurrent;
    float *logits; /* [vocab] after token n - 1 ... */
    float *top;    /* ... and behind them the largest of every block (base/block_max.h) */
    bool logits_valid;
    /* checkpoint */
    tt_recurrent kept;
    uint32_t kept_n; /* 0: none (the empty prefix needs no copy); never more than n */
    /* cache */
    tt_state_cache *cache; /* may be NULL */
    uint32_t left_n;       /* the checkpoint that it was left last; 0: not the present one */
    bool open_turn;        /* a prompt was begun since the directory was left something */
    tt_session_reuse reuse;
    tt_ahead *ahead;       /* NULL: every decode is a step of its own */
    bool reading;          /* inside sync */
    const tt_trace *trace; /* may be NULL */
};

/* Shows every stage of later steps to `trace`, which must outlive them; NULL stops. Steps of
 * several sessions show nothing. */
void tt_session_set_trace(tt_session *s, const tt_trace *trace);

/* Makes the present place the checkpoint. */
void tt_session_keep(tt_session *s);

/* What a decode step is made of (session.c, ahead.c): the step itself, T rows from the present end;
 * where the session falls back to when it failed; and a token that it was over. */
tt_step tt_session_step(tt_session *s, const uint32_t *ids, uint32_t T, bool prefill,
                        tt_error *err);
void tt_session_recover(tt_session *s);
void tt_session_took(tt_session *s, uint32_t id);

/* Bytes of a row of logits and its maxima. */
size_t tt_session_row_bytes(const tt_session *s);

/* Runs `n` tokens from the present end as one prefill in chunks, whatever is there already. What
 * sync uses. */
TT_MUST_CHECK tt_status tt_session_prefill(tt_session *s, const uint32_t *ids, size_t n,
                                           const tt_prefill_options *opts, tt_error *err);

#endif
