#include "session/draft_line.h"

#include <string.h>

#include "base/mem.h"
#include "model/forward.h"

static size_t width(const tt_draft_line *d)
{
    return d->model->arch.hidden_size;
}

static uint64_t hidden_bytes(const tt_model *m)
{
    return (uint64_t)TT_DRAFT_HIDDEN * m->arch.hidden_size * sizeof(float);
}

tt_status tt_draft_line_init(tt_draft_line *d, tt_model *m, tt_error *err)
{
    void *hidden = NULL;
    *d = (tt_draft_line){.model = m};
    TT_TRY(tt_mem_alloc(hidden_bytes(m), "hidden states for the draft", &hidden, err));
    d->hidden = hidden;
    tt_status st =
        tt_kv_cache_init(&d->kv, &m->draft->arch, m->plan.kv_bits, m->plan.max_context, err);
    if (st != TT_OK)
        tt_draft_line_free(d);
    return st;
}

void tt_draft_line_free(tt_draft_line *d)
{
    if (d->model == NULL)
        return;
    tt_mem_free(d->hidden, hidden_bytes(d->model));
    tt_kv_cache_free(&d->kv);
    *d = (tt_draft_line){0};
}

void tt_draft_line_reset(tt_draft_line *d)
{
    d->first = d->end = d->n = 0;
}

/* ---- steps of the draft ---- */

/* Of T pairs from position p on, whose tokens are at `next`. */
static tt_step make_step(tt_draft_line *d, uint32_t p, const uint32_t *next, uint32_t T,
                         tt_error *err)
{
    tt_model *m = d->model;
    m->be->prompt = false;
    return (tt_step){.model = m,
                     .be = m->be,
                     .arch = &m->draft->arch,
                     .s = &m->draft->scratch,
                     .draft = true,
                     .kv = &d->kv,
                     .tokens = next,
                     .pos0 = p - d->first,
                     .T = T,
                     .err = err};
}

static void end_step(const tt_draft_line *d)
{
    d->model->be->prompt = d->model->reading;
}

/* Rows for the next pairs begin at position p: over what is there, or anew when rows between are
 * missing. */
static void begin_at(tt_draft_line *d, uint32_t p)
{
    if (d->end < p || d->first > p)
        d->first = p;
    d->end = p;
}

/* Rows of the first `count` states kept, which leave the list. */
static tt_status make_rows(tt_draft_line *d, const uint32_t *tokens, uint32_t count, tt_error *err)
{
    if (count == 0)
        return TT_OK;
    begin_at(d, d->at);
    TT_TRY(tt_kv_cache_grow(&d->kv, d->at + count - d->first, err));
    tt_step s = make_step(d, d->at, tokens + d->at + 1, count, err);
    tt_draft_hidden_qwen3_5(&s, d->hidden, d->hidden);
    tt_draft_rows_qwen3_5(&s, d->hidden);
    end_step(d);
    d->at += count;
    d->end = d->at;
    d->n -= count;
    memmove(d->hidden, d->hidden + count * width(d), d->n * width(d) * sizeof(float));
    return s.status;
}

/* States of positions from p on are of another timeline, or were guesses. */
static void forget_from(tt_draft_line *d, uint32_t p)
{
    if (d->n > 0 && p < d->at + d->n)
        d->n = p > d->at ? p - d->at : 0;
    if (d->end > p)
        d->end = p;
}

tt_status tt_draft_line_note(tt_draft_line *d, const uint32_t *tokens, const float *h,
                             uint32_t pos0, uint32_t T, tt_error *err)
{
    forget_from(d, pos0);
    if (d->at + d->n != pos0)
        d->n = 0;
    while (T > 0) {
        uint32_t some = T < TT_DRAFT_HIDDEN ? T : TT_DRAFT_HIDDEN;
        if (d->n + some > TT_DRAFT_HIDDEN)
            TT_TRY(make_rows(d, tokens, d->n, err));
        if (d->n == 0)
            d->at = pos0;
        memcpy(d->hidden + d->n * width(d), h, some * width(d) * sizeof *h);
        d->n += some;
        h += some * width(d);
        pos0 += some;
        T -= some;
    }
    return TT_OK;
}

/* ---- guesses ---- */

/* The first of the largest. */
static uint32_t likeliest(const float *logits, const float *top, uint32_t vocab)
{
    uint32_t block = 0;
    for (uint32_t b = 1; b < tt_block_count(vocab); b++)
        block = top[b] > top[block] ? b : block;
    uint32_t at = block * TT_BLOCK_MAX, end = at + TT_BLOCK_MAX < vocab ? at + TT_BLOCK_MAX : vocab;
    for (uint32_t i = at; i < end; i++)
        at = logits[i] > logits[at] ? i : at;
    return at;
}

/* One pair at position p: a guess of the token after `token`, and what the pair after it takes for
 * hidden. */
static tt_status guess_one(tt_draft_line *d, uint32_t p, uint32_t token, float *hidden,
                           uint32_t *out, tt_error *err)
{
    tt_scratch *scratch = &d->model->draft->scratch;
    tt_step s = make_step(d, p, &token, 1, err);
    tt_draft_qwen3_5(&s, hidden, hidden);
    if (s.status == TT_OK) {
        tt_draft_head_qwen3_5(&s, scratch->logits, scratch->top, hidden);
        *out = likeliest(scratch->logits, scratch->top, d->model->arch.vocab_size);
    }
    end_step(d);
    return s.status;
}

tt_status tt_draft_line_guess(tt_draft_line *d, const uint32_t *tokens, uint32_t n, uint32_t id,
                              uint32_t most, uint32_t *out, uint32_t *count, tt_error *err)
{
    *count = 0;
    forget_from(d, n);
    if (n == 0 || d->n == 0 || d->at + d->n != n)
        return TT_OK;
    TT_TRY(make_rows(d, tokens, d->n - 1, err));
    begin_at(d, n - 1);
    TT_TRY(tt_kv_cache_grow(&d->kv, n + most - 1 - d->first, err));
    tt_step s = make_step(d, n - 1, &id, 1, err);
    tt_draft_hidden_qwen3_5(&s, d->hidden, d->hidden);
    end_step(d);
    for (uint32_t k = 0; k < most; k++)
        TT_TRY(guess_one(d, n - 1 + k, k == 0 ? id : out[k - 1], d->hidden, &out[k], err));
    d->n = 0; /* the pair of n - 1 is in a row now */
    d->end = n;
    *count = most;
    return TT_OK;
}
