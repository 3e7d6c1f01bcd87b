#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Of a chunk: what the caller names, every interval of the largest chunk, its end. */
#define MOST_MARKS (TT_MOST_CHECKPOINTS + 65536 / TT_STATE_INTERVAL + 2)

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
    s->made = calloc(tt_blocks(context), 1);
    s->logits = calloc(1, tt_session_row_bytes(s));
    if (s->tokens == NULL || s->made == NULL || s->logits == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a session of %u tokens", context);
    s->top = s->logits + vocab;
    TT_TRY(tt_kv_cache_init(&s->kv, &m->arch, m->plan.kv_bits, context, err));
    TT_TRY(tt_recurrent_init(&s->recurrent, &m->arch, err));
    TT_TRY(tt_recurrent_init(&s->kept, &m->arch, err));
    return m->plan.draft_kind != TT_DRAFT_OFF ? tt_ahead_create(s->model, &s->ahead, err) : TT_OK;
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
    tt_session_settle(s);
    tt_ahead_close(&s->ahead);
    tt_kv_cache_free(&s->kv);
    tt_recurrent_free(&s->recurrent);
    tt_recurrent_free(&s->kept);
    free(s->tokens);
    free(s->made);
    free(s->logits);
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

void tt_session_keep(tt_session *s)
{
    tt_recurrent_copy(&s->kept, &s->recurrent);
    s->kept_n = s->n;
    s->left_n = 0;
}

static void go_back_to_checkpoint(tt_session *s)
{
    tt_recurrent_copy(&s->recurrent, &s->kept);
    s->logits_valid = false;
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
    tt_ahead_drop(s);
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
        if (n % TT_BLOCK != 0) /* part of what was made as a whole */
            s->made[n / TT_BLOCK] = TT_MADE_UNKNOWN;
    }
    return TT_OK;
}

/* A failed step has moved some layers' state and not others'. KV rows behind the prefix are
 * harmless. */
void tt_session_recover(tt_session *s)
{
    if (s->recurrent.bytes == 0)
        s->logits_valid = false;
    else if (s->kept_n > 0 && s->kept_n <= s->n)
        go_back_to_checkpoint(s);
    else
        go_back_to_start(s);
}

/* ---- steps ---- */

tt_step tt_session_step(tt_session *s, const uint32_t *ids, uint32_t T, bool prefill, tt_error *err)
{
    tt_model *m = s->model;
    bool beside = !prefill && m->beside.scratch.block != NULL;
    return (tt_step){.model = m,
                     .be = m->be,
                     .arch = &m->arch,
                     .s = beside ? &m->beside.scratch : &m->scratch,
                     .beside = beside,
                     .kv = &s->kv,
                     .recurrent = &s->recurrent,
                     .tokens = ids,
                     .past = s->tokens,
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

/* Checkpoints that a chunk takes as it goes by. */
typedef struct chunk_marks {
    tt_state_mark at[MOST_MARKS];
    tt_checkpoint_kind kind[MOST_MARKS];
    uint32_t n;
    bool into_kept; /* the last one is the session's own, whose old contents are given up */
} chunk_marks;

/* In ascending order; of two in one place the first. */
static void add_mark(chunk_marks *m, uint32_t at, tt_checkpoint_kind kind)
{
    uint32_t i = m->n;
    while (i > 0 && m->at[i - 1].at > at)
        i--;
    if (m->n == MOST_MARKS || (i > 0 && m->at[i - 1].at == at))
        return;
    memmove(m->at + i + 1, m->at + i, (m->n - i) * sizeof m->at[0]);
    memmove(m->kind + i + 1, m->kind + i, (m->n - i) * sizeof m->kind[0]);
    m->at[i] = (tt_state_mark){.at = at};
    m->kind[i] = kind;
    m->n++;
}

/* The places between the present end and `end` that are worth a checkpoint in the cache. */
static void choose_marks(const tt_session *s, uint32_t end, bool last, const tt_prefill_options *o,
                         chunk_marks *m)
{
    for (size_t i = 0; o != NULL && i < o->n_checkpoints; i++) {
        uint32_t at = tt_block_floor(o->checkpoints[i].at);
        if (at > s->n && at <= end)
            add_mark(m, at, o->checkpoints[i].kind);
    }
    if (last && tt_block_floor(end) > s->n)
        add_mark(m, tt_block_floor(end), TT_CHECKPOINT_PROMPT);
    for (uint32_t at = (s->n / TT_STATE_INTERVAL + 1) * TT_STATE_INTERVAL; at <= end;
         at += TT_STATE_INTERVAL)
        add_mark(m, at, TT_CHECKPOINT_INTERVAL);
}

/* Gives every mark a block of the cache; those that get none are left out. */
static void take_blocks(tt_session *s, chunk_marks *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        m->at[n] = m->at[i];
        m->kind[n] = m->kind[i];
        n += tt_state_cache_take(s->cache, &m->at[n].block);
    }
    m->n = n;
}

static void begin_marks(tt_session *s, uint32_t end, bool last, const tt_prefill_options *o,
                        chunk_marks *m)
{
    uint32_t at = tt_block_floor(end);
    if (s->cache != NULL) {
        choose_marks(s, end, last, o, m);
        take_blocks(s, m);
    }
    /* Where a chunk does not end at a multiple of 64 the state there is to be had on the way
     * only. */
    if (at <= s->n || at == end || s->recurrent.bytes == 0 ||
        (m->n > 0 && m->at[m->n - 1].at == at))
        return;
    m->at[m->n++] = (tt_state_mark){.at = at, .block = s->kept.block};
    m->into_kept = true;
    s->kept_n = 0;
}

static void drop_marks(tt_session *s, const chunk_marks *m)
{
    for (uint32_t i = 0; i < m->n - m->into_kept; i++)
        tt_state_cache_give(s->cache, m->at[i].block);
}

static tt_state_line line_of(tt_session *s)
{
    return (tt_state_line){.tokens = s->tokens, .made = s->made, .n = s->n, .kv = &s->kv};
}

/* After a chunk that went from `from` to the present end. */
static void end_marks(tt_session *s, uint32_t from, const chunk_marks *m)
{
    tt_state_line line = line_of(s);
    uint32_t at = tt_block_floor(s->n);
    if (at == s->n) {
        tt_session_keep(s);
    } else if (at > from) {
        const float *block = m->n > 0 ? m->at[m->n - 1].block : NULL;
        if (!m->into_kept && s->kept.bytes > 0)
            memcpy(s->kept.block, block, s->kept.bytes);
        s->kept_n = at;
        s->left_n = 0;
    }
    for (uint32_t i = 0; i < m->n - m->into_kept; i++) {
        tt_state_cache_put(s->cache, &line, m->at[i].at, m->kind[i], m->at[i].block);
        if (m->at[i].at == s->kept_n)
            s->left_n = s->kept_n;
    }
}

/* T rows more, which began at `from`: whole blocks, and the beginning of one. */
static void note_prefill(tt_session *s, uint32_t from)
{
    for (uint32_t b = from / TT_BLOCK; b < tt_blocks(s->n); b++) {
        uint32_t rows = s->n - b * TT_BLOCK;
        s->made[b] = b * TT_BLOCK < from ? TT_MADE_UNKNOWN : rows < TT_BLOCK ? rows : TT_BLOCK;
    }
}

/* Tokens [done, done + T) of n. */
static tt_status prefill_chunk(tt_session *s, const uint32_t *ids, size_t done, uint32_t T,
                               size_t n, const tt_prefill_options *o, tt_error *err)
{
    bool last = done + T == n;
    TT_TRY(tt_kv_cache_grow(&s->kv, s->n + T, err));
    ids += done;
    tt_step step = tt_session_step(s, ids, T, true, err);
    layer_progress p = {.model = s->model,
                        .o = o,
                        .done = done,
                        .total = n,
                        .T = T,
                        .n_layers = step.arch->n_layers};
    chunk_marks marks = {.n = 0};
    begin_marks(s, s->n + T, last, o, &marks);
    step.go_on = tell_layer;
    step.go_on_ctx = &p;
    step.marks = marks.at;
    step.n_marks = marks.n;
    tt_model_forward(&step);
    tt_status st = step.status;
    if (st == TT_OK && o != NULL && o->logits != NULL)
        st = give_logits(&step, o, err);
    if (st != TT_OK) {
        drop_marks(s, &marks);
        tt_session_recover(s);
        return st;
    }
    if (last)
        tt_model_head(&step, s->logits, s->top, T - 1, 1);
    memmove(s->tokens + s->n, ids, T * sizeof *ids);
    uint32_t from = s->n;
    s->n += T;
    tt_ahead_note(s, step.s->h, from, T);
    s->logits_valid = last;
    note_prefill(s, from);
    end_marks(s, from, &marks);
    return TT_OK;
}

tt_status tt_session_prefill(tt_session *s, const uint32_t *ids, size_t n,
                             const tt_prefill_options *o, tt_error *err)
{
    uint32_t chunk = s->model->plan.prefill_chunk;
    tt_ahead_drop(s);
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

/* ---- sync ---- */

/* Leaves the checkpoint to the cache. */
static void leave(tt_session *s, tt_checkpoint_kind kind)
{
    float *block = NULL;
    tt_state_line line = line_of(s);
    if (s->cache == NULL || s->kept_n == 0 || s->kept_n % TT_BLOCK != 0 || s->left_n == s->kept_n)
        return;
    s->left_n = s->kept_n;
    if (!tt_state_cache_take(s->cache, &block))
        return;
    if (s->kept.bytes > 0)
        memcpy(block, s->kept.block, s->kept.bytes);
    tt_state_cache_put(s->cache, &line, s->kept_n, kind, block);
}

void tt_session_settle(tt_session *s)
{
    tt_state_line line = line_of(s);
    leave(s, TT_CHECKPOINT_GENERATION);
    if (s->cache != NULL && s->open_turn)
        tt_state_cache_settle(s->cache, &line);
    s->open_turn = false;
}

static bool is_cold(const tt_session *s, uint32_t at)
{
    for (uint32_t b = 0; b < at / TT_BLOCK; b++)
        if (s->made[b] != TT_BLOCK)
            return false;
    return true;
}

/* What the session itself has of ids[0..n), with n the most tokens that are of use. */
static tt_state_found find_here(const tt_session *s, const uint32_t *ids, size_t n)
{
    size_t common = 0;
    while (common < n && common < s->n && s->tokens[common] == ids[common])
        common++;
    uint32_t at = tt_block_floor(common);
    if (s->recurrent.bytes > 0)
        at = s->kept_n <= at && s->kept_n % TT_BLOCK == 0 ? s->kept_n : 0;
    return (tt_state_found){.at = at,
                            .tier = at > 0 ? TT_TIER_SESSION : TT_TIER_NONE,
                            .kind = at > 0 ? TT_CHECKPOINT_GENERATION : TT_CHECKPOINT_NONE,
                            .cold = is_cold(s, at)};
}

static bool all_there(const tt_session *s, const uint32_t *ids, size_t n)
{
    return n == s->n && s->logits_valid && memcmp(s->tokens, ids, n * sizeof *ids) == 0;
}

/* Brings the session to the longest prefix of ids that has a checkpoint. */
static tt_status begin_at(tt_session *s, const uint32_t *ids, size_t n, tt_state_found *out,
                          tt_error *err)
{
    tt_state_found f = find_here(s, ids, n - 1), there = {0};
    if (s->cache != NULL)
        there = tt_state_cache_find(s->cache, ids, tt_block_floor(n - 1));
    if (there.at > f.at || (there.at == f.at && there.cold && !f.cold)) {
        tt_state_line line = line_of(s);
        TT_TRY(tt_kv_cache_grow(&s->kv, there.at, err));
        tt_state_cache_load(s->cache, &there, &line, &s->recurrent);
        tt_ahead_reset(s);
        s->n = line.n;
        s->logits_valid = false;
        tt_session_keep(s);
        s->left_n = s->kept_n;
        f = there;
    } else {
        TT_TRY(tt_session_rewind(s, f.at, err));
        if (there.at == f.at && f.at > 0)
            f.kind = there.kind;
    }
    *out = f;
    return TT_OK;
}

static void note_reuse(tt_session *s, const tt_state_found *f, size_t reused, size_t n)
{
    s->reuse =
        (tt_session_reuse){.tokens = reused, .tier = f->tier, .kind = f->kind, .cold = f->cold};
    if (s->cache == NULL)
        return;
    s->reuse.refused = tt_state_cache_last_refusal(s->cache);
    tt_state_cache_served(s->cache, f, n);
}

void tt_session_get_reuse(const tt_session *s, tt_session_reuse *reuse)
{
    *reuse = s->reuse;
}

tt_status tt_session_use_cache(tt_session *s, tt_state_cache *cache, tt_error *err)
{
    if (cache != NULL && tt_state_cache_model(cache) != s->model)
        return tt_fail(err, TT_ERR_INVALID, "the prompt cache was made for another model");
    tt_session_settle(s);
    s->cache = cache;
    s->left_n = 0;
    return TT_OK;
}

static tt_status check_prefill_options(const tt_prefill_options *o, tt_error *err)
{
    for (size_t i = 0; o != NULL && i < sizeof o->reserved / sizeof o->reserved[0]; i++)
        if (o->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID,
                           "a reserved field of tt_prefill_options is not zero: start from zeros");
    if (o == NULL)
        return TT_OK;
    if (o->n_checkpoints > TT_MOST_CHECKPOINTS)
        return tt_fail(err, TT_ERR_INVALID, "%zu checkpoints are named, at most %u can be",
                       o->n_checkpoints, TT_MOST_CHECKPOINTS);
    for (size_t i = 0; i < o->n_checkpoints; i++)
        if (o->checkpoints[i].kind <= TT_CHECKPOINT_NONE ||
            o->checkpoints[i].kind >= TT_CHECKPOINTS)
            return tt_fail(err, TT_ERR_INVALID, "checkpoint %zu has the unknown kind %d", i,
                           (int)o->checkpoints[i].kind);
    return TT_OK;
}

tt_status tt_session_sync(tt_session *s, const uint32_t *ids, size_t n, const tt_prefill_options *o,
                          size_t *reused, tt_error *err)
{
    TT_TRY(check_prefill_options(o, err));
    TT_TRY(check_ids(s, ids, n, err));
    bool all = o != NULL && o->logits != NULL;
    tt_state_found f = {0};
    if (s->model->reading)
        return tt_fail(err, TT_ERR_STATE, "another session of this model is reading a prompt");
    tt_ahead_drop(s);
    tt_session_settle(s);
    s->open_turn = true;
    if (!all && all_there(s, ids, n)) {
        f = (tt_state_found){.at = (uint32_t)n,
                             .tier = TT_TIER_SESSION,
                             .kind = TT_CHECKPOINT_PROMPT,
                             .cold = is_cold(s, s->n)};
    } else if (all) {
        TT_TRY(tt_session_rewind(s, 0, err));
    } else {
        TT_TRY(begin_at(s, ids, n, &f, err));
    }
    if (f.at < n) {
        s->reading = true;
        tt_status st = tt_session_prefill(s, ids + f.at, n - f.at, o, err);
        s->reading = false;
        if (st != TT_OK) {
            leave(s, TT_CHECKPOINT_CANCEL);
            return st;
        }
        leave(s, TT_CHECKPOINT_PROMPT); /* where a chunk ended just before the end */
    }
    note_reuse(s, &f, f.at, n);
    if (reused != NULL)
        *reused = f.at;
    return TT_OK;
}

/* ---- decode ---- */

static tt_status check_decode(tt_session *const *s, const uint32_t *ids, size_t n, tt_error *err)
{
    if (n == 0 || n > TT_DECODE_ROWS)
        return tt_fail(err, TT_ERR_INVALID, "%zu sessions are to decode, must be 1 to %u", n,
                       TT_DECODE_ROWS);
    if (n > 1 && s[0]->model->arch.family == TT_FAMILY_QWEN4_EXP)
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "%zu sessions: models of this family decode one at a time", n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            if (s[k] == s[i])
                return tt_fail(err, TT_ERR_INVALID, "sessions %zu and %zu are the same one", k, i);
        if (s[i]->model != s[0]->model)
            return tt_fail(err, TT_ERR_INVALID, "session %zu is of another model than the first",
                           i);
        if (s[i]->reading)
            return tt_fail(err, TT_ERR_STATE, "session %zu is reading a prompt", i);
        if (s[i]->n >= s[i]->model->plan.max_context)
            return tt_fail(err, TT_ERR_CONTEXT, "the context of %u tokens is full",
                           s[i]->model->plan.max_context);
        TT_TRY(check_ids(s[i], &ids[i], 1, err));
    }
    if (!tt_model_can_decode(s[0]->model))
        return tt_fail(
            err, TT_ERR_STATE,
            "no token can be decoded inside this prompt: it leaves too few expert slots, "
            "or the model was opened for one sequence (sequences)");
    return TT_OK;
}

/* Logits of the rows of a step, which stand one after another, to their sessions. */
static void head_rows(tt_step *step, tt_session *const *s, uint32_t n)
{
    if (n == 1) {
        tt_model_head(step, s[0]->logits, s[0]->top, 0, 1);
        return;
    }
    size_t vocab = step->arch->vocab_size, blocks = tt_block_count((uint32_t)vocab);
    tt_model_head(step, step->s->logits, step->s->top, 0, n);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(s[i]->logits, step->s->logits + i * vocab, vocab * sizeof(float));
        memcpy(s[i]->top, step->s->top + i * blocks, blocks * sizeof(float));
    }
}

void tt_session_took(tt_session *s, uint32_t id)
{
    s->logits_valid = true;
    if (s->n % TT_BLOCK == 0)
        s->made[s->n / TT_BLOCK] = 0;
    s->tokens[s->n++] = id;
    if (s->n % TT_BLOCK == 0)
        tt_session_keep(s);
}

tt_status tt_session_decode_all(tt_session *const *s, const uint32_t *ids, size_t n, tt_error *err)
{
    TT_TRY(check_decode(s, ids, n, err));
    tt_line lines[TT_DECODE_ROWS];
    tt_model *m = s[0]->model;
    tt_model_tick(m);
    if (n == 1 && s[0]->ahead != NULL)
        return tt_ahead_decode(s[0], ids[0], err);
    for (uint32_t i = 0; i < n; i++) {
        tt_ahead_drop(s[i]);
        TT_TRY(tt_kv_cache_grow(&s[i]->kv, s[i]->n + 1, err));
        lines[i] = (tt_line){&s[i]->kv, &s[i]->recurrent, s[i]->n, i, 1};
    }
    tt_step step = tt_session_step(s[0], ids, (uint32_t)n, false, err);
    if (n > 1) {
        step.kv = NULL;
        step.recurrent = NULL;
        step.trace = NULL;
        step.pos0 = 0;
        step.lines = lines;
        step.n_lines = (uint32_t)n;
    }
    tt_model_forward(&step);
    for (size_t i = 0; i < n && step.status != TT_OK; i++)
        tt_session_recover(s[i]);
    TT_TRY(step.status);
    head_rows(&step, s, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        tt_session_took(s[i], ids[i]);
        tt_ahead_note(s[i], step.s->h + i * m->arch.hidden_size, s[i]->n - 1, 1);
    }
    return TT_OK;
}

tt_status tt_session_decode(tt_session *s, uint32_t id, tt_error *err)
{
    return tt_session_decode_all(&s, &id, 1, err);
}
