#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- life ---- */

size_t tt_session_row_bytes(const tt_session *s)
{
    uint32_t vocab = s->model->arch.vocab_size;
    return ((size_t)vocab + tt_block_count(vocab)) * sizeof(float);
}

static tt_status take_memory(tt_session *s, tt_error *err)
{
    const tt_model *m = s->model;
    uint32_t context = m->plan.max_context, vocab = m->arch.vocab_size;
    s->tokens = calloc(context, sizeof *s->tokens);
    s->logits = calloc(1, tt_session_row_bytes(s));
    s->kept_logits = calloc(1, tt_session_row_bytes(s));
    if (s->tokens == NULL || s->logits == NULL || s->kept_logits == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a session of %u tokens", context);
    s->top = s->logits + vocab;
    TT_TRY(tt_kv_cache_init(&s->kv, &m->arch, m->plan.kv_bits, context, err));
    TT_TRY(tt_recurrent_init(&s->recurrent, &m->arch, err));
    return tt_recurrent_init(&s->kept, &m->arch, err);
}

tt_status tt_session_create(tt_model *model, tt_session **out, tt_error *err)
{
    tt_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a session");
    s->model = model;
    tt_status st = take_memory(s, err);
    if (st != TT_OK) {
        tt_session_close(&s);
        return st;
    }
    *out = s;
    return TT_OK;
}

void tt_session_close(tt_session **session)
{
    if (session == NULL || *session == NULL)
        return;
    tt_session *s = *session;
    tt_kv_cache_free(&s->kv);
    tt_recurrent_free(&s->recurrent);
    tt_recurrent_free(&s->kept);
    free(s->tokens);
    free(s->logits);
    free(s->kept_logits);
    free(s);
    *session = NULL;
}

void tt_session_set_trace(tt_session *s, const tt_trace *trace)
{
    s->trace = trace;
}

const float *tt_session_logits(const tt_session *s)
{
    return s->logits_valid ? s->logits : NULL;
}

size_t tt_session_n_tokens(const tt_session *s)
{
    return s->n;
}

const uint32_t *tt_session_tokens(const tt_session *s)
{
    return s->tokens;
}

/* ---- checkpoint and rewind ---- */

static void keep(tt_session *s)
{
    tt_recurrent_copy(&s->kept, &s->recurrent);
    memcpy(s->kept_logits, s->logits, tt_session_row_bytes(s));
    s->kept_logits_valid = s->logits_valid;
    s->kept_n = s->n;
}

static void go_back_to_checkpoint(tt_session *s)
{
    tt_recurrent_copy(&s->recurrent, &s->kept);
    memcpy(s->logits, s->kept_logits, tt_session_row_bytes(s));
    s->logits_valid = s->kept_logits_valid;
    s->n = s->kept_n;
}

static void go_back_to_start(tt_session *s)
{
    tt_recurrent_clear(&s->recurrent);
    s->logits_valid = false;
    s->n = 0;
    s->kept_n = 0;
}

size_t tt_session_reusable(const tt_session *s, size_t n)
{
    if (n >= s->n)
        return s->n;
    if (s->recurrent.bytes == 0)
        return n;
    return s->kept_n > 0 && s->kept_n <= n ? s->kept_n : 0;
}

tt_status tt_session_rewind(tt_session *s, size_t n, tt_error *err)
{
    if (n == s->n)
        return TT_OK;
    if (n > s->n)
        return tt_fail(err, TT_ERR_STATE, "cannot rewind to %zu tokens, there are %u", n, s->n);
    if (tt_session_reusable(s, n) != n)
        return tt_fail(
            err, TT_ERR_STATE,
            "cannot rewind from %u to %zu tokens: the recurrent state is kept at %u and at 0 only",
            s->n, n, s->kept_n);
    if (n == 0) {
        go_back_to_start(s);
    } else if (n == s->kept_n) {
        go_back_to_checkpoint(s);
    } else {
        s->n = (uint32_t)n;
        s->logits_valid = false;
        if (s->kept_n > s->n)
            s->kept_n = 0;
    }
    return TT_OK;
}

/* A failed step has moved some layers' state and not others'. KV rows behind the prefix are
 * harmless. */
static void recover(tt_session *s)
{
    if (s->recurrent.bytes == 0)
        s->logits_valid = false;
    else if (s->kept_n > 0 && s->kept_n <= s->n)
        go_back_to_checkpoint(s);
    else
        go_back_to_start(s);
}

/* ---- steps ---- */

static tt_step make_step(tt_session *s, const uint32_t *ids, uint32_t T, bool prefill,
                         tt_error *err)
{
    tt_model *m = s->model;
    return (tt_step){.model = m,
                     .be = m->be,
                     .arch = &m->arch,
                     .s = &m->scratch,
                     .kv = &s->kv,
                     .recurrent = &s->recurrent,
                     .tokens = ids,
                     .pos0 = s->n,
                     .T = T,
                     .prefill = prefill,
                     .trace = s->trace,
                     .err = err};
}

/* Every row's logits to the sink, in blocks that the logits buffer holds. */
static tt_status give_logits(tt_step *step, const tt_prefill_options *o, tt_error *err)
{
    size_t vocab = step->arch->vocab_size;
    for (uint32_t row = 0; row < step->T; row += TT_LOGITS_ROWS) {
        uint32_t n = step->T - row < TT_LOGITS_ROWS ? step->T - row : TT_LOGITS_ROWS;
        tt_model_head(step, step->s->logits, NULL, row, n);
        for (uint32_t i = 0; i < n; i++)
            if (!o->logits(o->logits_ctx, step->pos0 + row + i, step->s->logits + i * vocab))
                return tt_fail(err, TT_ERR_ABORTED, "stopped at position %u", step->pos0 + row + i);
    }
    return TT_OK;
}

/* What a chunk has done before a layer, in tokens. */
typedef struct layer_progress {
    tt_model *model;
    const tt_prefill_options *o;
    size_t done, total;
    uint32_t T, n_layers, begun; /* begun: layers */
} layer_progress;

static bool tell_layer(void *ctx, uint32_t layer)
{
    layer_progress *p = ctx;
    const tt_prefill_options *o = p->o;
    uint64_t part = (uint64_t)p->T * layer / p->n_layers;
    if (o != NULL && o->go_on != NULL && !o->go_on(o->go_on_ctx))
        return false;
    if (layer < p->begun) /* asked within a layer, which may hold experts */
        return true;
    p->begun = layer + 1;
    /* A long chunk takes minutes: memory is looked after in between as well. */
    tt_model_tick(p->model);
    if (o == NULL)
        return true;
    if (o->progress == NULL || layer == 0 || p->T <= TT_BLOCK)
        return true;
    return o->progress(o->progress_ctx, p->done + part, p->total);
}

/* Tokens [done, done + T) of n. */
static tt_status prefill_chunk(tt_session *s, const uint32_t *ids, size_t done, uint32_t T,
                               size_t n, const tt_prefill_options *o, tt_error *err)
{
    bool last = done + T == n;
    TT_TRY(tt_kv_cache_grow(&s->kv, s->n + T, err));
    ids += done;
    tt_step step = make_step(s, ids, T, true, err);
    layer_progress p = {.model = s->model,
                        .o = o,
                        .done = done,
                        .total = n,
                        .T = T,
                        .n_layers = step.arch->n_layers};
    step.go_on = tell_layer;
    step.go_on_ctx = &p;
    tt_model_forward(&step);
    tt_status st = step.status;
    if (st == TT_OK && o != NULL && o->logits != NULL)
        st = give_logits(&step, o, err);
    if (st != TT_OK) {
        recover(s);
        return st;
    }
    if (last)
        tt_model_head(&step, s->logits, s->top, T - 1, 1);
    memmove(s->tokens + s->n, ids, T * sizeof *ids);
    s->n += T;
    s->logits_valid = last;
    return TT_OK;
}

tt_status tt_session_prefill(tt_session *s, const uint32_t *ids, size_t n,
                             const tt_prefill_options *o, tt_error *err)
{
    uint32_t chunk = s->model->plan.prefill_chunk;
    for (size_t done = 0; done < n;) {
        uint32_t room = chunk - s->n % chunk;
        uint32_t T = n - done < room ? (uint32_t)(n - done) : room;
        TT_TRY(prefill_chunk(s, ids, done, T, n, o, err));
        done += T;
        if (o != NULL && o->progress != NULL && !o->progress(o->progress_ctx, done, n) && done < n)
            return tt_fail(err, TT_ERR_ABORTED, "stopped after %zu of %zu prompt tokens", done, n);
    }
    return TT_OK;
}

static tt_status check_ids(const tt_session *s, const uint32_t *ids, size_t n, tt_error *err)
{
    if (n == 0)
        return tt_fail(err, TT_ERR_INVALID, "the prompt is empty: at least one token is needed");
    if (n > s->model->plan.max_context)
        return tt_fail(
            err, TT_ERR_CONTEXT,
            "the prompt has %zu tokens, the context is %u: shorten it or raise max_context", n,
            s->model->plan.max_context);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= s->model->arch.vocab_size)
            return tt_fail(err, TT_ERR_INVALID, "token %zu is %u, the vocabulary has %u entries", i,
                           ids[i], s->model->arch.vocab_size);
    return TT_OK;
}

/* How much of ids is already in the timeline and can be built on. */
static size_t reusable_prefix(const tt_session *s, const uint32_t *ids, size_t n)
{
    size_t common = 0;
    while (common < n && common < s->n && s->tokens[common] == ids[common])
        common++;
    size_t at = tt_session_reusable(s, common);
    bool logits = at == s->n ? s->logits_valid : at == s->kept_n && at > 0 && s->kept_logits_valid;
    /* At the very end the logits must be there too, or the last token is computed again. */
    return at == n && !logits ? tt_session_reusable(s, n - 1) : at;
}

static tt_status check_prefill_options(const tt_prefill_options *o, tt_error *err)
{
    for (size_t i = 0; o != NULL && i < sizeof o->reserved / sizeof o->reserved[0]; i++)
        if (o->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID,
                           "a reserved field of tt_prefill_options is not zero: start from zeros");
    return TT_OK;
}

tt_status tt_session_sync(tt_session *s, const uint32_t *ids, size_t n, const tt_prefill_options *o,
                          size_t *reused, tt_error *err)
{
    TT_TRY(check_prefill_options(o, err));
    TT_TRY(check_ids(s, ids, n, err));
    bool all = o != NULL && o->logits != NULL;
    size_t at = all ? 0 : reusable_prefix(s, ids, n);
    TT_TRY(tt_session_rewind(s, at, err));
    if (at < n)
        TT_TRY(tt_session_prefill(s, ids + at, n - at, o, err));
    keep(s);
    if (reused != NULL)
        *reused = at;
    return TT_OK;
}

tt_status tt_session_decode(tt_session *s, uint32_t id, tt_error *err)
{
    if (s->n >= s->model->plan.max_context)
        return tt_fail(err, TT_ERR_CONTEXT, "the context of %u tokens is full",
                       s->model->plan.max_context);
    TT_TRY(check_ids(s, &id, 1, err));
    tt_model_tick(s->model);
    TT_TRY(tt_kv_cache_grow(&s->kv, s->n + 1, err));
    tt_step step = make_step(s, &id, 1, false, err);
    tt_model_forward(&step);
    if (step.status != TT_OK) {
        recover(s);
        return step.status;
    }
    tt_model_head(&step, s->logits, s->top, 0, 1);
    s->logits_valid = true;
    s->tokens[s->n++] = id;
    return TT_OK;
}
