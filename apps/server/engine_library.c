#include "server/engine_library.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/channels.h"
#include "server/prompt_render.h"

struct tt_library_engine {
    tt_tokenizer *tok;
    tt_model *model;
    tt_session *session;
    tt_engine_info info;
};

/* ---- opening ---- */

static void fill_info(tt_library_engine *e, const char *id)
{
    tt_model_info m;
    tt_model_get_info(e->model, &m);
    if (id != NULL)
        snprintf(e->info.model, sizeof e->info.model, "%s", id);
    else
        snprintf(e->info.model, sizeof e->info.model, "%s_%u-Bit", m.model_id, m.weight_bits);
    e->info.vocab_size = m.vocab_size;
    e->info.created = m.installed_at;
    e->info.max_context = m.max_context;
    e->info.plan = *tt_model_get_plan(e->model);
    e->info.has_template = tt_tokenizer_has_template(e->tok);
    tt_sampler_options_default(&e->info.sampling);
    (void)tt_tokenizer_sampling_defaults(e->tok, &e->info.sampling);
    tt_prompt_efforts(e->tok, e->info.efforts);
}

tt_status tt_library_engine_open(const char *install, const tt_model_options *opts, const char *id,
                                 tt_progress_fn progress, void *ctx, tt_library_engine **out,
                                 tt_error *err)
{
    tt_library_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the engine");
    tt_status st = tt_tokenizer_open(install, &e->tok, err);
    if (st == TT_OK)
        st = tt_chat_check_template(e->tok, err);
    if (st == TT_OK)
        st = tt_model_open(install, opts, progress, ctx, &e->model, err);
    if (st == TT_OK)
        st = tt_session_create(e->model, &e->session, err);
    if (st != TT_OK) {
        tt_library_engine_close(&e);
        return st;
    }
    fill_info(e, id);
    *out = e;
    return TT_OK;
}

void tt_library_engine_close(tt_library_engine **p)
{
    tt_library_engine *e = p != NULL ? *p : NULL;
    if (e == NULL)
        return;
    tt_session_close(&e->session);
    tt_model_close(&e->model);
    tt_tokenizer_close(&e->tok);
    free(e);
    *p = NULL;
}

/* ---- log probabilities ---- */

static void set_chance(const tt_tokenizer *tok, uint32_t id, float logprob, tt_token_chance *out)
{
    size_t n = 0;
    const char *text = tt_tokenizer_piece(tok, id, &n, NULL);
    out->len = text == NULL ? 0 : n < sizeof out->text ? (uint8_t)n : sizeof out->text;
    if (out->len > 0)
        memcpy(out->text, text, out->len);
    out->logprob = logprob;
}

/* Log-softmax of the raw logits; the `most` best in falling order, lower ids first among equals. */
static void report_token(const tt_library_engine *e, uint32_t id, uint32_t most,
                         tt_token_report *out)
{
    const float *logits = tt_session_logits(e->session);
    uint32_t best[TT_MOST_CHANCES], n = 0, vocab = e->info.vocab_size;
    float top = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - (double)top);
    double base = (double)top + log(sum);
    for (uint32_t i = 0; most > 0 && i < vocab; i++) {
        if (n == most && !(logits[i] > logits[best[n - 1]]))
            continue;
        uint32_t at = n < most ? n++ : n - 1;
        for (; at > 0 && logits[i] > logits[best[at - 1]]; at--)
            best[at] = best[at - 1];
        best[at] = i;
    }
    memset(out, 0, sizeof *out);
    set_chance(e->tok, id, (float)((double)logits[id] - base), &out->token);
    out->n_top = n;
    for (uint32_t i = 0; i < n; i++)
        set_chance(e->tok, best[i], (float)((double)logits[best[i]] - base), &out->top[i]);
}

/* ---- one answer ---- */

typedef struct run {
    tt_library_engine *e;
    const tt_engine_request *r;
    tt_engine_event_fn fn;
    void *ctx;
    tt_engine_result *result;
    tt_sampler *sampler;
    tt_decoder *dec;
    tt_channels channels;
} run;

static bool go_on(void *ctx)
{
    const run *u = ctx;
    return !atomic_load_explicit(u->r->cancel, memory_order_relaxed);
}

static bool on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    run *u = ctx;
    (void)u->fn(u->ctx, &(tt_engine_event){.kind = TT_EVENT_PREFILL, .done = done, .total = total});
    return go_on(ctx);
}

static tt_status prefill(run *u, tt_error *err)
{
    const tt_engine_request *r = u->r;
    double begun = tt_now();
    tt_prefill_options o = {
        .progress = on_prefill, .progress_ctx = u, .go_on = go_on, .go_on_ctx = u};
    tt_status st = tt_session_sync(u->e->session, r->ids, r->n, &o, &u->result->cached_tokens, err);
    u->result->prefill_seconds = tt_now() - begun;
    for (size_t i = 0; st == TT_OK && i < r->n; i++)
        tt_sampler_accept(u->sampler, r->ids[i], false);
    return st;
}

static bool is_end(const tt_tokenizer *tok, uint32_t id)
{
    size_t n;
    const uint32_t *ids = tt_tokenizer_stop_ids(tok, &n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Takes the next token in. *done when it ends the answer. */
static tt_status take_token(run *u, bool *done, uint32_t *id, tt_error *err)
{
    const char *text;
    size_t len;
    tt_token_report report;
    tt_session *s = u->e->session;
    TT_TRY(tt_session_sample(s, u->sampler, id, err));
    tt_sampler_accept(u->sampler, *id, true);
    u->result->generated_tokens++;
    *done = true;
    u->result->finish = TT_ENGINE_STOP;
    if (is_end(u->e->tok, *id))
        return TT_OK;
    if (tt_channels_in_thought(&u->channels))
        u->result->thought_tokens++;
    if (u->r->logprobs)
        report_token(u->e, *id, u->r->top_logprobs, &report);
    TT_TRY(tt_decoder_push(u->dec, *id, &text, &len, err));
    TT_TRY(tt_channels_push(&u->channels, text, len, u->r->logprobs ? &report : NULL, err));
    u->result->finish = u->channels.enough ? TT_ENGINE_ENOUGH : TT_ENGINE_LENGTH;
    *done = u->channels.enough || u->result->generated_tokens >= u->r->max_tokens;
    return TT_OK;
}

static tt_status decode(run *u, tt_error *err)
{
    bool done = u->r->max_tokens == 0;
    uint32_t id;
    u->result->finish = TT_ENGINE_LENGTH;
    while (!done) {
        if (!go_on(u)) {
            u->result->finish = TT_ENGINE_CANCELLED;
            return TT_OK;
        }
        TT_TRY(take_token(u, &done, &id, err));
        if (!done)
            TT_TRY(tt_session_decode(u->e->session, id, err));
    }
    return TT_OK;
}

static tt_status flush(run *u, tt_error *err)
{
    const char *text;
    size_t len;
    tt_decoder_flush(u->dec, &text, &len);
    TT_TRY(tt_channels_push(&u->channels, text, len, NULL, err));
    TT_TRY(tt_channels_end(&u->channels, err));
    if (u->channels.enough)
        u->result->finish = TT_ENGINE_ENOUGH;
    return TT_OK;
}

static tt_status answer(run *u, tt_error *err)
{
    tt_status st = prefill(u, err);
    if (st == TT_ERR_ABORTED && !go_on(u)) {
        u->result->finish = TT_ENGINE_CANCELLED;
        return TT_OK;
    }
    double begun = tt_now();
    if (st == TT_OK)
        st = decode(u, err);
    u->result->decode_seconds = tt_now() - begun;
    if (st == TT_OK && u->result->finish != TT_ENGINE_CANCELLED && !u->channels.enough)
        st = flush(u, err);
    return st;
}

static tt_status generate(void *self, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx,
                          tt_engine_result *result, tt_error *err)
{
    tt_library_engine *e = self;
    run u = {.e = e, .r = r, .fn = fn, .ctx = ctx, .result = result};
    *result = (tt_engine_result){0};
    TT_TRY(tt_sampler_create(&r->sampling, e->info.vocab_size, &u.sampler, err));
    tt_status st = tt_decoder_create(e->tok, true, &u.dec, err);
    tt_channels_init(&u.channels, r, fn, ctx);
    if (st == TT_OK)
        st = answer(&u, err);
    tt_channels_free(&u.channels);
    tt_decoder_close(&u.dec);
    tt_sampler_close(&u.sampler);
    return st;
}

/* ---- the seam ---- */

static void describe(void *self, tt_engine_info *info)
{
    *info = ((tt_library_engine *)self)->info;
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    return tt_prompt_render(((tt_library_engine *)self)->tok, r, out, err);
}

static void stats(void *self, tt_model_stats *out)
{
    tt_model_get_stats(((tt_library_engine *)self)->model, out);
}

static double idle(void *self)
{
    return tt_model_idle(((tt_library_engine *)self)->model);
}

tt_server_engine tt_library_engine_seam(tt_library_engine *e)
{
    static const tt_server_engine_ops ops = {
        .describe = describe, .render = render, .generate = generate, .stats = stats, .idle = idle};
    return (tt_server_engine){&ops, e};
}
