#include "session/ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "session/lookup.h"
#include "session/session.h"

static uint64_t rows_bytes(const tt_model *m)
{
    uint32_t vocab = m->arch.vocab_size;
    return TT_DRAFT_ROWS * ((uint64_t)vocab + tt_block_count(vocab)) * sizeof(float);
}

tt_status tt_ahead_create(tt_model *m, tt_ahead **out, tt_error *err)
{
    tt_status st = TT_OK;
    void *rows = NULL;
    tt_ahead *a = calloc(1, sizeof *a);
    if (a == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for guesses");
    a->kind = m->plan.draft_kind;
    a->width = m->plan.draft_width;
    tt_price_init(&a->price);
    TT_GOTO(tt_undo_init(&a->undo, &m->arch, TT_DRAFT_ROWS, err), fail);
    TT_GOTO(tt_mem_alloc(rows_bytes(m), "logits of guesses", &rows, err), fail);
    a->rows = rows;
    a->rows_bytes = rows_bytes(m);
    if (a->kind == TT_DRAFT_MTP)
        TT_GOTO(tt_draft_line_init(&a->line, m, err), fail);
    *out = a;
    return TT_OK;
fail:
    tt_ahead_close(&a);
    return st;
}

void tt_ahead_close(tt_ahead **ahead)
{
    if (ahead == NULL || *ahead == NULL)
        return;
    tt_ahead *a = *ahead;
    tt_draft_line_free(&a->line);
    tt_undo_free(&a->undo);
    tt_mem_free(a->rows, a->rows_bytes);
    free(a);
    *ahead = NULL;
}

/* ---- the end of a step ---- */

/* What the last step brought is known: `missed` when the guess after those taken was wrong. */
static void end_step(tt_session *s, bool missed)
{
    tt_ahead *a = s->ahead;
    if (!a->open)
        return;
    a->open = false;
    tt_price_note(&a->price, 1 + a->n_guess, a->taken, missed, a->seconds);
    a->stats.steps[1 + a->n_guess]++;
    a->stats.seconds[1 + a->n_guess] += a->seconds;
    a->stats.guessed += a->n_guess;
    a->stats.right += a->taken;
    s->model->guessed += a->n_guess;
    s->model->right += a->taken;
}

static void go_back(tt_session *s)
{
    tt_ahead *a = s->ahead;
    if (a->waiting && s->recurrent.bytes > 0) {
        double begin = tt_now();
        tt_undo_to(&a->undo, s->model->be, 1 + a->taken, &s->recurrent);
        a->seconds += tt_now() - begin;
    }
    a->waiting = false;
}

void tt_ahead_drop(tt_session *s)
{
    tt_ahead *a = s->ahead;
    if (a == NULL)
        return;
    go_back(s);
    end_step(s, false);
    a->n_guess = a->taken = 0;
}

/* ---- what the draft is told ---- */

/* A draft that fails once is not asked again: it costs more than it brings, and says so. */
static void give_up(tt_ahead *a, const tt_error *err)
{
    a->kind = TT_DRAFT_OFF;
    memcpy(a->stats.failure, err->message, sizeof a->stats.failure - 1);
}

void tt_ahead_note(tt_session *s, const float *h, uint32_t pos0, uint32_t T)
{
    tt_error err = {0};
    if (s->ahead != NULL && s->ahead->kind == TT_DRAFT_MTP &&
        tt_draft_line_note(&s->ahead->line, s->tokens, h, pos0, T, &err) != TT_OK)
        give_up(s->ahead, &err);
}

void tt_ahead_reset(tt_session *s)
{
    if (s->ahead == NULL)
        return;
    s->ahead->waiting = false;
    s->ahead->n_guess = s->ahead->taken = 0;
    if (s->ahead->line.model != NULL)
        tt_draft_line_reset(&s->ahead->line);
}

/* ---- a step ---- */

static uint32_t rows_of(const tt_session *s)
{
    const tt_ahead *a = s->ahead;
    uint32_t left = s->model->plan.max_context - s->n, room = TT_BLOCK - s->n % TT_BLOCK;
    uint32_t most = room < TT_DRAFT_ROWS ? room : TT_DRAFT_ROWS;
    most = left < most ? left : most;
    if (a->width > 0)
        return a->width < most ? a->width : most;
    return tt_price_rows(&a->price, most);
}

static void guess(tt_session *s, uint32_t id, uint32_t most)
{
    tt_ahead *a = s->ahead;
    tt_error err = {0};
    a->n_guess = a->taken = 0;
    if (most == 0)
        return;
    if (a->kind == TT_DRAFT_LOOKUP)
        a->n_guess = tt_lookup(s->tokens, s->n, id, most, a->guess);
    if (a->kind == TT_DRAFT_MTP && tt_draft_line_guess(&a->line, s->tokens, s->n, id, most,
                                                       a->guess, &a->n_guess, &err) != TT_OK)
        give_up(a, &err);
}

static void impose(tt_session *s, uint32_t most)
{
    tt_ahead *a = s->ahead;
    if (a->impose == NULL)
        return;
    a->n_guess = most;
    for (uint32_t j = 0; j < most; j++)
        a->guess[j] = a->impose(a->impose_ctx, s->n + 1 + j);
}

static float *tops_of(const tt_session *s)
{
    return s->ahead->rows + (size_t)TT_DRAFT_ROWS * s->model->arch.vocab_size;
}

/* Logits of the step's row become the session's. */
static void show_row(tt_session *s, uint32_t row)
{
    size_t vocab = s->model->arch.vocab_size, blocks = tt_block_count((uint32_t)vocab);
    memcpy(s->logits, s->ahead->rows + row * vocab, vocab * sizeof(float));
    memcpy(s->top, tops_of(s) + row * blocks, blocks * sizeof(float));
}

static tt_status make_step(tt_session *s, uint32_t id, tt_error *err)
{
    tt_ahead *a = s->ahead;
    uint32_t ids[TT_DRAFT_ROWS] = {id}, rows = rows_of(s), at = s->n;
    double begin = tt_now();
    a->seconds = 0;
    guess(s, id, rows - 1);
    impose(s, rows - 1);
    memcpy(ids + 1, a->guess, a->n_guess * sizeof *ids);
    rows = 1 + a->n_guess;
    TT_TRY(tt_kv_cache_grow(&s->kv, at + rows, err));
    tt_step step = tt_session_step(s, ids, rows, false, err);
    step.undo = rows > 1 ? &a->undo : NULL;
    tt_model_forward(&step);
    if (step.status != TT_OK) {
        a->n_guess = 0;
        tt_session_recover(s);
        return step.status;
    }
    if (rows > 1) {
        tt_model_head(&step, a->rows, tops_of(s), 0, rows);
        show_row(s, 0);
    } else {
        tt_model_head(&step, s->logits, s->top, 0, 1);
    }
    a->waiting = rows > 1;
    a->open = true;
    tt_session_took(s, id);
    tt_ahead_note(s, step.s->h, at, rows);
    a->seconds = tt_now() - begin;
    return TT_OK;
}

tt_status tt_ahead_decode(tt_session *s, uint32_t id, tt_error *err)
{
    tt_ahead *a = s->ahead;
    if (!a->waiting || a->guess[a->taken] != id) {
        go_back(s);
        end_step(s, a->taken < a->n_guess);
        return make_step(s, id, err);
    }
    a->taken++;
    a->waiting = a->taken < a->n_guess;
    show_row(s, a->taken);
    tt_session_took(s, id);
    return TT_OK;
}

void tt_session_get_draft_stats(const tt_session *s, tt_draft_stats *stats)
{
    *stats = (tt_draft_stats){.rows = 1, .gain = 1};
    if (s->ahead == NULL)
        return;
    *stats = s->ahead->stats;
    stats->rows = tt_price_best(&s->ahead->price, &stats->gain);
}
