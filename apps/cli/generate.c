#include "cli/generate.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/stop_match.h"
#include "cli/interrupt.h"
#include "cli/text_out.h"

#define MAX_ANSWER     (256 * TT_MIB)
#define QUIET_SECONDS  0.5 /* a prompt shorter than this shows no progress */
#define PROGRESS_EVERY 0.1

typedef struct run {
    tt_engine *e;
    tt_answer *a;
    bool silent;
    double begun, shown;
    tt_decoder *dec;
    tt_stop_match stops;
    bool matched; /* a stop string ended the text: what is held back is part of it */
} run;

const char *tt_finish_word(tt_finish finish)
{
    static const char *const words[] = {[TT_FINISH_STOP] = "stop",
                                        [TT_FINISH_LENGTH] = "length",
                                        [TT_FINISH_STOP_STRING] = "stop_string",
                                        [TT_FINISH_INTERRUPTED] = "interrupted"};
    return words[finish];
}

void tt_answer_init(tt_answer *a)
{
    *a = (tt_answer){.first_text_s = -1};
    tt_buf_init(&a->text, MAX_ANSWER);
}

void tt_answer_free(tt_answer *a)
{
    tt_buf_free(&a->text);
}

static void start_over(tt_answer *a)
{
    tt_buf text = a->text;
    tt_buf_clear(&text);
    *a = (tt_answer){.text = text, .first_text_s = -1};
}

/* ---- prompt ---- */

static bool on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    run *r = ctx;
    double now = tt_now();
    if (now - r->begun > QUIET_SECONDS && now - r->shown > PROGRESS_EVERY && done < total) {
        r->shown = now;
        tt_out_progress("reading the prompt: %llu of %llu tokens", (unsigned long long)done,
                        (unsigned long long)total);
    }
    return !tt_interrupted();
}

static bool goes_on(void *ctx)
{
    (void)ctx;
    return !tt_interrupted();
}

static tt_status prefill(run *r, const tt_prompt *prompt, tt_error *err)
{
    tt_engine *e = r->e;
    tt_answer *a = r->a;
    tt_checkpoint places[TT_MOST_CHECKPOINTS];
    tt_prefill_options o = {
        .progress = on_prefill, .progress_ctx = r, .go_on = goes_on, .checkpoints = places};
    o.n_checkpoints = tt_chat_checkpoints(e->tok, prompt->ids, prompt->n, places);
    a->prompt_tokens = prompt->n;
    tt_status st = tt_session_sync(e->session, prompt->ids, prompt->n, &o, &a->reused_tokens, err);
    if (st == TT_OK)
        tt_session_get_reuse(e->session, &a->reuse);
    tt_out_progress_end();
    a->prefill_s = tt_now() - r->begun;
    if (st == TT_ERR_ABORTED) /* what was read until then */
        a->prompt_tokens = tt_session_n_tokens(e->session);
    if (st == TT_ERR_ABORTED && tt_interrupted())
        a->finish = TT_FINISH_INTERRUPTED;
    for (size_t i = 0; st == TT_OK && i < prompt->n; i++)
        tt_sampler_accept(e->sampler, prompt->ids[i], false);
    return st;
}

/* ---- text ---- */

static tt_status emit(run *r, const char *text, size_t len, tt_error *err)
{
    tt_answer *a = r->a;
    if (len == 0)
        return TT_OK;
    if (a->first_text_s < 0)
        a->first_text_s = tt_now() - r->begun;
    tt_buf_append(&a->text, text, len);
    TT_TRY(tt_buf_status(&a->text, err));
    if (!r->silent && !tt_out_text(text, len))
        return tt_fail(err, TT_ERR_IO, "standard output cannot be written");
    return TT_OK;
}

static tt_status push_text(run *r, const char *text, size_t len, tt_error *err)
{
    const char *ready;
    size_t n;
    TT_TRY(tt_stop_match_push(&r->stops, text, len, &ready, &n, &r->matched, err));
    if (r->matched)
        r->a->finish = TT_FINISH_STOP_STRING;
    return emit(r, ready, n, err);
}

/* What decoder and matcher still hold, once no more tokens come. */
static tt_status flush_text(run *r, tt_error *err)
{
    const char *text;
    size_t len;
    tt_decoder_flush(r->dec, &text, &len);
    TT_TRY(push_text(r, text, len, err));
    if (r->matched)
        return TT_OK;
    tt_stop_match_flush(&r->stops, &text, &len);
    return emit(r, text, len, err);
}

/* ---- tokens ---- */

static bool holds(const uint32_t *ids, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Where an answer that has a grammar begins: thoughts come before it. */
static tt_constraint_start start_of(const tt_engine *e, const tt_prompt *prompt)
{
    if (prompt->in_thought)
        return TT_START_THOUGHT;
    bool thinks = e->chat && e->o->thinking != TT_THINKING_OFF &&
                  tt_tokenizer_special_id(e->tok, "<think>") >= 0;
    return thinks ? TT_START_MAY_THINK : TT_START_ANSWER;
}

static tt_status sample(tt_engine *e, uint32_t *id, tt_error *err)
{
    const uint64_t *mask = NULL;
    if (e->constraint == NULL) {
        TT_TRY(tt_session_sample(e->session, e->sampler, id, err));
    } else {
        TT_TRY(tt_constraint_mask(e->constraint, &mask, err));
        TT_TRY(tt_sampler_sample_masked(e->sampler, tt_session_logits(e->session), mask, id, err));
        TT_TRY(tt_constraint_accept(e->constraint, *id, err));
    }
    tt_sampler_accept(e->sampler, *id, true);
    return TT_OK;
}

static bool complete(const tt_engine *e)
{
    return e->constraint != NULL && tt_constraint_where(e->constraint) == TT_PLACE_OVER;
}

/* Takes the next token in. *done when it ends the answer. */
static tt_status take_token(run *r, bool *done, uint32_t *id, tt_error *err)
{
    tt_engine *e = r->e;
    tt_answer *a = r->a;
    size_t n_end, len;
    const char *text;
    const uint32_t *end = tt_tokenizer_stop_ids(e->tok, &n_end);
    TT_TRY(sample(e, id, err));
    a->completion_tokens++;
    *done = true;
    if (holds(end, n_end, *id)) {
        a->finish = TT_FINISH_STOP;
        return TT_OK;
    }
    if (holds(e->stop_ids, e->n_stop_ids, *id)) {
        a->finish = TT_FINISH_STOP_STRING;
        return TT_OK;
    }
    TT_TRY(tt_decoder_push(r->dec, *id, &text, &len, err));
    TT_TRY(push_text(r, text, len, err));
    if (r->matched)
        return TT_OK;
    if (complete(e)) {
        a->finish = TT_FINISH_STOP;
        return TT_OK;
    }
    if (e->o->max_new > 0 && a->completion_tokens >= e->o->max_new) {
        a->finish = TT_FINISH_LENGTH;
        return TT_OK;
    }
    *done = false;
    return TT_OK;
}

static tt_status token_loop(run *r, tt_error *err)
{
    tt_answer *a = r->a;
    for (;;) {
        bool done = false;
        uint32_t id;
        if (tt_interrupted()) {
            a->finish = TT_FINISH_INTERRUPTED;
            return TT_OK;
        }
        TT_TRY(take_token(r, &done, &id, err));
        if (done)
            return TT_OK;
        if (tt_session_n_tokens(r->e->session) >= r->e->plan.max_context) {
            a->finish = TT_FINISH_LENGTH;
            a->context_full = true;
            return TT_OK;
        }
        TT_TRY(tt_session_decode(r->e->session, id, err));
        a->decoded_tokens++;
    }
}

static tt_status decode(run *r, tt_error *err)
{
    tt_answer *a = r->a;
    double begun = tt_now();
    tt_status st = token_loop(r, err);
    if (st == TT_OK && !r->matched)
        st = flush_text(r, err);
    a->decode_s = tt_now() - begun;
    return st;
}

tt_status tt_generate(tt_engine *e, const tt_prompt *prompt, uint64_t seed, bool silent,
                      tt_answer *a, tt_error *err)
{
    run r = {.e = e, .a = a, .silent = silent, .begun = tt_now()};
    start_over(a);
    a->in_thought = prompt->in_thought;
    tt_model_get_stats(e->model, &a->at_start);
    a->at_decode = a->at_end = a->at_start;
    TT_TRY(tt_decoder_create(e->tok, true, &r.dec, err));
    tt_stop_match_init(&r.stops, e->stop_texts, e->n_stop_texts);
    tt_sampler_reset(e->sampler, seed);
    if (e->constraint != NULL)
        tt_constraint_reset(e->constraint, start_of(e, prompt));
    tt_status st = prefill(&r, prompt, err);
    tt_model_get_stats(e->model, &a->at_decode);
    if (st == TT_OK)
        st = decode(&r, err);
    else if (a->finish == TT_FINISH_INTERRUPTED)
        st = TT_OK;
    tt_model_get_stats(e->model, &a->at_end);
    tt_stop_match_free(&r.stops);
    tt_decoder_close(&r.dec);
    return st;
}

tt_status tt_answer_parse(const tt_answer *a, const char *tools, char **json, tt_error *err)
{
    if (!a->in_thought)
        return tt_chat_parse(a->text.len > 0 ? a->text.data : "", a->text.len, tools, json, err);
    /* The prompt has opened the thought, so the answer lacks its beginning. */
    tt_buf whole;
    tt_buf_init(&whole, MAX_ANSWER + 64);
    tt_buf_puts(&whole, "<think>\n");
    tt_buf_append(&whole, a->text.data != NULL ? a->text.data : "", a->text.len);
    tt_status st = tt_buf_status(&whole, err);
    if (st == TT_OK)
        st = tt_chat_parse(whole.data, whole.len, tools, json, err);
    tt_buf_free(&whole);
    return st;
}
