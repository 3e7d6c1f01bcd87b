/* session.h: one timeline: prefix sync, chunked prefill, decode, rewind, snapshots.
 *
 * Owns:      tokens, KV rows, recurrent state and one checkpoint of it, the last logits.
 * Not here:  the forward pass (model/), sampling, text.
 * Laws:      (1) state, KV rows and tokens always describe the same prefix; a step that fails
 *            falls back to the checkpoint or to the empty prefix;  (2) prompt tokens go through
 *            the prefill kernels however few remain, in chunks that end at absolute multiples of
 *            the chunk;  (3) decode allocates nothing;  (4) the checkpoint stands at the end of
 *            the last prompt.
 * Threads:   one at a time, and one session of a model at a time.
 */
#ifndef TT_SESSION_SESSION_H
#define TT_SESSION_SESSION_H

#include "model/model.h"

struct tt_session {
    tt_model *model;
    uint32_t *tokens; /* [max_context] */
    uint32_t n;       /* tokens that state and KV rows describe */
    tt_kv_cache kv;
    tt_recurrent recurrent;
    float *logits; /* [vocab] after token n - 1 ... */
    float *top;    /* ... and behind them the largest of every block (base/block_max.h) */
    bool logits_valid;
    /* checkpoint */
    tt_recurrent kept;
    float *kept_logits;
    uint32_t kept_n; /* 0: none (the empty prefix needs no copy); never more than n */
    bool kept_logits_valid;
    const tt_trace *trace; /* may be NULL */
};

/* Shows every stage of later steps to `trace`, which must outlive them; NULL stops. */
void tt_session_set_trace(tt_session *s, const tt_trace *trace);

/* Bytes of a row of logits and its maxima. */
size_t tt_session_row_bytes(const tt_session *s);

/* Runs `n` tokens from the present end as one prefill in chunks, whatever is there already. What
 * sync uses. */
TT_MUST_CHECK tt_status tt_session_prefill(tt_session *s, const uint32_t *ids, size_t n,
                                           const tt_prefill_options *opts, tt_error *err);

#endif
