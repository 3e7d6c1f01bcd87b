#include "server/engine_library.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/channels.h"
#include "server/prompt_render.h"
#include "server/server_options.h"
#include "server/server_plan.h"
#include "server/step_gate.h"

/* A place for one answer. */
typedef struct seat {
    tt_session *session;
    bool taken; /* guarded by the engine's lock */
} seat;

struct tt_library_engine {
    char *install, *heat;
    tt_library_options o;
    tt_shelf *shelf;
    tt_install_info facts;
    pthread_mutex_t looking, lock;
    /* guarded by lock */
    tt_engine_info info;
    bool looked;
    /* loaded */
    const tt_tokenizer *tok;
    tt_model *model;
    tt_state_cache *cache; /* NULL: none */
    seat seats[TT_MOST_SEQUENCES];
    uint32_t n_seats; /* 0: not loaded */
    tt_step_gate *gate;
    tt_lexicon *lexicon; /* made for the first answer that has a grammar, under `lock` */
};

/* ---- what is known ---- */

tt_status tt_library_engine_create(const char *install, const tt_library_options *o,
                                   tt_shelf *shelf, tt_library_engine **out, tt_error *err)
{
    tt_library_engine *e = calloc(1, sizeof *e);
    if (e == NULL || (e->install = strdup(install)) == NULL) {
        free(e);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the engine");
    }
    e->o = *o;
    e->o.id = NULL; /* the caller's text may not last */
    e->o.heat = e->heat = o->heat != NULL ? strdup(o->heat) : NULL;
    e->shelf = shelf;
    pthread_mutex_init(&e->looking, NULL);
    pthread_mutex_init(&e->lock, NULL);
    tt_status st = tt_install_describe(install, &e->facts, err);
    if (st != TT_OK) {
        tt_library_engine_close(&e);
        return st;
    }
    if (o->id != NULL)
        snprintf(e->info.model, sizeof e->info.model, "%s", o->id);
    else
        snprintf(e->info.model, sizeof e->info.model, "%s_%u-Bit", e->facts.model_id,
                 e->facts.weight_bits);
    e->info.created = e->facts.installed_at;
    e->info.vocab_size = e->facts.vocab_size;
    snprintf(e->info.reason, sizeof e->info.reason, "nobody has looked at it yet");
    *out = e;
    return TT_OK;
}

/* What one look finds beside the plan. */
static tt_status look_at_text(tt_library_engine *e, tt_engine_info *info, tt_error *err)
{
    const tt_tokenizer *tok = NULL;
    TT_TRY(tt_shelf_take(e->shelf, e->install, &tok, err));
    info->has_template = tt_tokenizer_has_template(tok);
    tt_sampler_options_default(&info->sampling);
    (void)tt_tokenizer_sampling_defaults(tok, &info->sampling);
    tt_prompt_levels(tok, info->efforts, &info->thinks);
    tt_shelf_give(e->shelf, tok);
    return TT_OK;
}

static tt_status plan(tt_library_engine *e, bool measure, tt_model_options *load, tt_plan *out,
                      tt_error *err)
{
    *load = e->o.load;
    load->probe_file = measure ? e->o.probe : NULL;
    load->heat_profile = e->o.heat;
    return tt_server_plan(e->install, e->o.reserved, load, out, err);
}

static void set_reason(tt_engine_info *info, const tt_error *err)
{
    info->loadable = false;
    tt_server_options_sentence(err, info->reason);
}

static void set_loadable(const tt_library_engine *e, tt_engine_info *info)
{
    tt_install_info now;
    info->loadable = true;
    info->reason[0] = '\0';
    if (tt_install_describe(e->install, &now, NULL) == TT_OK && !now.has_receipt)
        snprintf(info->reason, sizeof info->reason,
                 "no receipt: every load hashes all files; TinyTitanRepack --verify-install "
                 "--input-gturbo %s writes one",
                 e->install);
}

static void publish(tt_library_engine *e, const tt_engine_info *info)
{
    pthread_mutex_lock(&e->lock);
    e->info = *info;
    e->looked = true;
    pthread_mutex_unlock(&e->lock);
}

/* Memory that others hold at this moment says nothing of the install. */
static bool is_for_ever(const tt_library_engine *e, tt_status st, const tt_plan *p)
{
    return st != TT_OK &&
           (st != TT_ERR_BUDGET || (e->o.load.ram_budget > 0 && p->total > p->budget));
}

static tt_status look(void *self, tt_error *err)
{
    tt_library_engine *e = self;
    tt_model_options load;
    tt_error why = {.offset = -1};
    tt_engine_info info;
    pthread_mutex_lock(&e->looking);
    pthread_mutex_lock(&e->lock);
    info = e->info;
    bool before = e->looked && info.loadable;
    pthread_mutex_unlock(&e->lock);
    info.max_context = 0;
    memset(&info.plan, 0, sizeof info.plan);
    tt_status st = look_at_text(e, &info, &why);
    if (st == TT_OK)
        st = plan(e, false, &load, &info.plan, &why);
    if (st == TT_OK || st == TT_ERR_BUDGET)
        info.max_context = info.plan.max_context;
    bool failed = is_for_ever(e, st, &info.plan);
    if (st == TT_OK || (before && !failed))
        set_loadable(e, &info);
    else
        set_reason(&info, &why);
    publish(e, &info);
    pthread_mutex_unlock(&e->looking);
    if (failed && err != NULL)
        *err = why;
    return failed ? st : TT_OK;
}

/* ---- loading ---- */

static void unload(void *self)
{
    tt_library_engine *e = self;
    tt_lexicon_close(&e->lexicon);
    tt_step_gate_close(&e->gate);
    for (uint32_t i = 0; i < TT_MOST_SEQUENCES; i++) {
        tt_session_close(&e->seats[i].session);
        e->seats[i] = (seat){0};
    }
    e->n_seats = 0;
    tt_state_cache_close(&e->cache);
    tt_model_close(&e->model);
    tt_shelf_give(e->shelf, e->tok);
    e->tok = NULL;
}

typedef struct loading {
    bool (*go_on)(void *ctx);
    void *ctx;
} loading;

static bool on_load(void *ctx, uint64_t done, uint64_t total)
{
    const loading *l = ctx;
    (void)done;
    (void)total;
    return l->go_on(l->ctx);
}

static tt_status open_cache(tt_library_engine *e, tt_engine_info *info, tt_error *err)
{
    TT_TRY(tt_state_cache_create(e->model, &e->cache, err));
    if (e->o.disk.dir != NULL) {
        tt_state_disk_options disk = e->o.disk;
        disk.render = "chat";
        TT_TRY(tt_state_cache_use_disk(e->cache, &disk, err));
        snprintf(info->cache_note, sizeof info->cache_note, "%s",
                 tt_state_cache_disk_note(e->cache));
    }
    return TT_OK;
}

static tt_status load_all(tt_library_engine *e, const loading *l, tt_engine_info *info,
                          tt_error *err)
{
    tt_model_options load;
    TT_TRY(plan(e, true, &load, &info->plan, err));
    TT_TRY(tt_shelf_take(e->shelf, e->install, &e->tok, err));
    TT_TRY(tt_model_open(e->install, &load, on_load, (void *)l, &e->model, err));
    info->plan = *tt_model_get_plan(e->model);
    if (info->plan.prompt_cache > 0)
        TT_TRY(open_cache(e, info, err));
    for (uint32_t i = 0; i < info->plan.sequences; i++) {
        TT_TRY(tt_session_create(e->model, &e->seats[i].session, err));
        TT_TRY(tt_session_use_cache(e->seats[i].session, e->cache, err));
    }
    TT_TRY(tt_step_gate_create(e->model, e->cache, &e->gate, err));
    e->n_seats = info->plan.sequences;
    info->max_context = info->plan.max_context;
    return TT_OK;
}

static tt_status load(void *self, bool (*go_on)(void *ctx), void *ctx, tt_error *err)
{
    tt_library_engine *e = self;
    loading l = {go_on, ctx};
    tt_error why = {.offset = -1};
    tt_engine_info info;
    if (e->n_seats > 0)
        return TT_OK;
    pthread_mutex_lock(&e->lock);
    info = e->info;
    pthread_mutex_unlock(&e->lock);
    tt_status st = load_all(e, &l, &info, &why);
    if (st == TT_OK)
        set_loadable(e, &info);
    else if (st != TT_ERR_ABORTED)
        set_reason(&info, &why);
    publish(e, &info);
    if (st == TT_OK)
        return TT_OK;
    unload(e);
    if (err != NULL)
        *err = why;
    return st;
}

void tt_library_engine_close(tt_library_engine **p)
{
    tt_library_engine *e = p != NULL ? *p : NULL;
    if (e == NULL)
        return;
    unload(e);
    pthread_mutex_destroy(&e->looking);
    pthread_mutex_destroy(&e->lock);
    free(e->install);
    free(e->heat);
    free(e);
    *p = NULL;
}

const char *tt_library_engine_install(const tt_library_engine *e)
{
    return e->install;
}

const tt_install_info *tt_library_engine_info(const tt_library_engine *e)
{
    return &e->facts;
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
static void report_token(const tt_library_engine *e, const float *logits, uint32_t id,
                         uint32_t most, tt_token_report *out)
{
    uint32_t best[TT_MOST_CHANCES], n = 0, vocab = e->facts.vocab_size;
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
    tt_session *session; /* of its seat */
    const tt_engine_request *r;
    tt_engine_event_fn fn;
    void *ctx;
    tt_engine_result *result;
    tt_sampler *sampler;
    tt_constraint *constraint; /* NULL: there is no grammar */
    tt_decoder *dec;
    tt_channels channels;
    bool started; /* TT_EVENT_START was told */
} run;

static bool go_on(void *ctx)
{
    const run *u = ctx;
    return !atomic_load_explicit(u->r->cancel, memory_order_relaxed);
}

static void tell_start(run *u)
{
    if (u->started)
        return;
    u->started = true;
    (void)u->fn(u->ctx, &(tt_engine_event){.kind = TT_EVENT_START,
                                           .done = tt_session_n_tokens(u->session),
                                           .total = u->r->n});
}

/* Before the first layer the session holds what is not computed again, and nothing else. */
static bool go_on_reading(void *ctx)
{
    tell_start(ctx);
    return go_on(ctx);
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
    tt_checkpoint places[TT_MOST_CHECKPOINTS];
    tt_prefill_options o = {.progress = on_prefill,
                            .progress_ctx = u,
                            .go_on = go_on_reading,
                            .go_on_ctx = u,
                            .checkpoints = places};
    o.n_checkpoints = tt_chat_checkpoints(u->e->tok, r->ids, r->n, places);
    tt_status st = tt_step_gate_sync(u->e->gate, u->session, r->ids, r->n, &o, r->cancel, err);
    if (st == TT_OK)
        tt_session_get_reuse(u->session, &u->result->reuse);
    u->result->prefill_seconds = tt_now() - begun;
    if (st == TT_OK)
        tell_start(u); /* nothing had to be computed */
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

/* The next token, among those that the grammar lets follow. */
static tt_status sample(run *u, uint32_t *id, tt_error *err)
{
    tt_session *s = u->session;
    const uint64_t *mask = NULL;
    if (u->constraint == NULL) {
        TT_TRY(tt_session_sample(s, u->sampler, id, err));
    } else {
        TT_TRY(tt_constraint_mask(u->constraint, &mask, err));
        TT_TRY(tt_sampler_sample_masked(u->sampler, tt_session_logits(s), mask, id, err));
        TT_TRY(tt_constraint_accept(u->constraint, *id, err));
    }
    tt_sampler_accept(u->sampler, *id, true);
    return TT_OK;
}

static bool complete(const run *u)
{
    return u->constraint != NULL && tt_constraint_where(u->constraint) == TT_PLACE_OVER;
}

/* Takes the next token in. *done when it ends the answer. */
static tt_status take_token(run *u, bool *done, uint32_t *id, tt_error *err)
{
    const char *text;
    size_t len;
    tt_token_report report;
    TT_TRY(sample(u, id, err));
    u->result->generated_tokens++;
    *done = true;
    u->result->finish = TT_ENGINE_STOP;
    if (is_end(u->e->tok, *id))
        return TT_OK;
    if (tt_channels_in_thought(&u->channels))
        u->result->thought_tokens++;
    if (u->r->logprobs)
        report_token(u->e, tt_session_logits(u->session), *id, u->r->top_logprobs, &report);
    TT_TRY(tt_decoder_push(u->dec, *id, &text, &len, err));
    TT_TRY(tt_channels_push(&u->channels, text, len, u->r->logprobs ? &report : NULL, err));
    u->result->finish = u->channels.enough ? TT_ENGINE_ENOUGH
                        : complete(u)      ? TT_ENGINE_STOP
                                           : TT_ENGINE_LENGTH;
    *done =
        u->result->finish != TT_ENGINE_LENGTH || u->result->generated_tokens >= u->r->max_tokens;
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
            TT_TRY(tt_step_gate_decode(u->e->gate, u->session, id, err));
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
    if (st == TT_OK) {
        tt_step_gate_begin(u->e->gate);
        st = decode(u, err);
        tt_step_gate_end(u->e->gate);
    }
    u->result->decode_seconds = tt_now() - begun;
    if (st == TT_OK && u->result->finish != TT_ENGINE_CANCELLED && !u->channels.enough)
        st = flush(u, err);
    return st;
}

/* Thoughts come before what is held to the grammar. */
static tt_status constrain(run *u, tt_error *err)
{
    tt_library_engine *e = u->e;
    const tt_engine_request *r = u->r;
    if (r->grammar == NULL)
        return TT_OK;
    pthread_mutex_lock(&e->lock);
    tt_status st = e->lexicon != NULL
                       ? TT_OK
                       : tt_lexicon_create(e->tok, e->facts.vocab_size, &e->lexicon, err);
    pthread_mutex_unlock(&e->lock);
    TT_TRY(st);
    tt_constraint_start start = r->in_thought  ? TT_START_THOUGHT
                                : r->may_think ? TT_START_MAY_THINK
                                               : TT_START_ANSWER;
    return tt_constraint_create(r->grammar, e->lexicon, start, &u->constraint, err);
}

/* ---- seats ---- */

static size_t common(const tt_session *s, const tt_engine_request *r)
{
    const uint32_t *ids = tt_session_tokens(s);
    size_t n = 0, most = tt_session_n_tokens(s);
    while (n < most && n < r->n && ids[n] == r->ids[n])
        n++;
    return n;
}

/* The free one whose timeline has most in common with the prompt; of several the shortest. */
static seat *take_seat(tt_library_engine *e, const tt_engine_request *r, tt_error *err)
{
    seat *best = NULL;
    size_t most = 0, length = 0;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < e->n_seats; i++) {
        seat *s = &e->seats[i];
        if (s->taken)
            continue;
        size_t n = common(s->session, r), tokens = tt_session_n_tokens(s->session);
        if (best == NULL || n > most || (n == most && tokens < length)) {
            best = s;
            most = n;
            length = tokens;
        }
    }
    if (best != NULL)
        best->taken = true;
    pthread_mutex_unlock(&e->lock);
    if (best == NULL)
        (void)!tt_fail(err, TT_ERR_STATE, "more answers at once than sequences");
    return best;
}

static void leave_seat(tt_library_engine *e, seat *s)
{
    tt_step_gate_settle(e->gate, s->session);
    pthread_mutex_lock(&e->lock);
    s->taken = false;
    pthread_mutex_unlock(&e->lock);
}

static tt_status generate_on(run *u, tt_error *err)
{
    tt_library_engine *e = u->e;
    const tt_engine_request *r = u->r;
    TT_TRY(tt_sampler_create(&r->sampling, e->facts.vocab_size, &u->sampler, err));
    tt_status st = tt_decoder_create(e->tok, true, &u->dec, err);
    tt_channels_init(&u->channels, r, u->fn, u->ctx);
    if (st == TT_OK)
        st = constrain(u, err);
    if (st == TT_OK)
        st = answer(u, err);
    tt_channels_free(&u->channels);
    tt_constraint_close(&u->constraint);
    tt_decoder_close(&u->dec);
    tt_sampler_close(&u->sampler);
    return st;
}

static tt_status generate(void *self, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx,
                          tt_engine_result *result, tt_error *err)
{
    tt_library_engine *e = self;
    tt_error why = {.offset = -1};
    *result = (tt_engine_result){0};
    seat *s = take_seat(e, r, &why);
    tt_status st = why.status;
    if (s != NULL) {
        run u = {.e = e, .session = s->session, .r = r, .fn = fn, .ctx = ctx, .result = result};
        st = generate_on(&u, &why);
        leave_seat(e, s);
    }
    if (st != TT_OK && err != NULL)
        *err = why;
    return st;
}

/* ---- the seam ---- */

static void describe(void *self, tt_engine_info *info)
{
    tt_library_engine *e = self;
    pthread_mutex_lock(&e->lock);
    *info = e->info;
    pthread_mutex_unlock(&e->lock);
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    tt_library_engine *e = self;
    const tt_tokenizer *tok = NULL;
    TT_TRY(tt_shelf_take(e->shelf, e->install, &tok, err));
    tt_status st = tt_prompt_render(tok, r, out, err);
    tt_shelf_give(e->shelf, tok);
    return st;
}

static void stats(void *self, tt_engine_stats *out)
{
    const tt_library_engine *e = self;
    tt_step_gate_stats(e->gate, out);
}

static double idle(void *self)
{
    return tt_step_gate_idle(((tt_library_engine *)self)->gate);
}

tt_server_engine tt_library_engine_seam(tt_library_engine *e)
{
    static const tt_server_engine_ops ops = {.describe = describe,
                                             .look = look,
                                             .load = load,
                                             .unload = unload,
                                             .render = render,
                                             .generate = generate,
                                             .stats = stats,
                                             .idle = idle};
    return (tt_server_engine){&ops, e};
}
