#include "support/scripted_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"

struct scripted_engine {
    tt_tokenizer *tok;
    tt_lexicon *lexicon;
    json_t *script;
    scripted_render_fn render;
    uint32_t max_context;
    tt_engine_info info; /* guarded once it is used */
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool open, loaded, hold_loads;
    const char *load_failure, *look_failure; /* words of the test */
    unsigned begun, cancelled;
    scripted_journal *journal;
};

struct scripted_journal {
    pthread_mutex_t lock;
    tt_buf text;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "scripted engine: %s\n", what);
    abort();
}

scripted_engine *scripted_engine_open(const char *script, uint32_t max_context,
                                      scripted_render_fn render)
{
    scripted_engine *e = calloc(1, sizeof *e);
    tt_error err = {.offset = -1};
    must(e != NULL, "no memory");
    must(tt_tokenizer_open("models/tales", &e->tok, &err) == TT_OK, err.message);
    must(tt_json_parse(script, strlen(script), "script", &e->script, &err) == TT_OK, err.message);
    e->render = render;
    must(tt_lexicon_create(e->tok, tt_tokenizer_vocab_size(e->tok), &e->lexicon, &err) == TT_OK,
         err.message);
    snprintf(e->info.model, sizeof e->info.model, "scripted_4-Bit");
    e->info.created = 1700000000;
    e->info.max_context = e->max_context = max_context;
    e->info.vocab_size = tt_tokenizer_vocab_size(e->tok);
    e->info.has_template = e->info.thinks = e->info.loadable = true;
    tt_sampler_options_default(&e->info.sampling);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->change, NULL);
    return e;
}

void scripted_engine_close(scripted_engine *e)
{
    json_decref(e->script);
    tt_lexicon_close(&e->lexicon);
    tt_tokenizer_close(&e->tok);
    pthread_cond_destroy(&e->change);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* ---- several ---- */

scripted_journal *scripted_journal_open(void)
{
    scripted_journal *j = calloc(1, sizeof *j);
    must(j != NULL, "no memory");
    pthread_mutex_init(&j->lock, NULL);
    tt_buf_init(&j->text, 1 << 20);
    return j;
}

void scripted_journal_close(scripted_journal *j)
{
    pthread_mutex_destroy(&j->lock);
    tt_buf_free(&j->text);
    free(j);
}

char *scripted_journal_text(scripted_journal *j)
{
    pthread_mutex_lock(&j->lock);
    char *text = tt_copy_text(j->text.len > 0 ? j->text.data : "", j->text.len);
    pthread_mutex_unlock(&j->lock);
    must(text != NULL, "no memory");
    return text;
}

void scripted_engine_join(scripted_engine *e, scripted_journal *j)
{
    e->journal = j;
}

static void tell(scripted_engine *e, const char *what)
{
    if (e->journal == NULL)
        return;
    pthread_mutex_lock(&e->journal->lock);
    tt_buf_printf(&e->journal->text, "%s %s\n", what, e->info.model);
    pthread_mutex_unlock(&e->journal->lock);
}

void scripted_engine_set_id(scripted_engine *e, const char *id)
{
    snprintf(e->info.model, sizeof e->info.model, "%s", id);
}

void scripted_engine_fail_loads(scripted_engine *e, const char *words)
{
    pthread_mutex_lock(&e->lock);
    e->load_failure = words;
    pthread_mutex_unlock(&e->lock);
}

void scripted_engine_fail_looks(scripted_engine *e, const char *words)
{
    pthread_mutex_lock(&e->lock);
    e->look_failure = words;
    pthread_mutex_unlock(&e->lock);
}

void scripted_engine_hold_loads(scripted_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->hold_loads = true;
    pthread_mutex_unlock(&e->lock);
}

bool scripted_engine_loaded(scripted_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool loaded = e->loaded;
    pthread_mutex_unlock(&e->lock);
    return loaded;
}

/* ---- the gate ---- */

static void set_gate(scripted_engine *e, bool open)
{
    pthread_mutex_lock(&e->lock);
    e->open = open;
    pthread_cond_broadcast(&e->change);
    pthread_mutex_unlock(&e->lock);
}

void scripted_engine_open_gate(scripted_engine *e)
{
    set_gate(e, true);
}

void scripted_engine_shut_gate(scripted_engine *e)
{
    set_gate(e, false);
}

/* A cancellation has no condition of its own: it is looked for every millisecond. */
static void wait_a_little(scripted_engine *e)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&e->change, &e->lock, &until);
}

static void pass_gate(scripted_engine *e, const atomic_bool *cancel)
{
    pthread_mutex_lock(&e->lock);
    while (!e->open && !atomic_load(cancel))
        wait_a_little(e);
    pthread_mutex_unlock(&e->lock);
}

static void note(scripted_engine *e, unsigned *count)
{
    pthread_mutex_lock(&e->lock);
    ++*count;
    pthread_cond_broadcast(&e->change);
    pthread_mutex_unlock(&e->lock);
}

unsigned scripted_engine_begun(scripted_engine *e)
{
    pthread_mutex_lock(&e->lock);
    unsigned n = e->begun;
    pthread_mutex_unlock(&e->lock);
    return n;
}

unsigned scripted_engine_cancelled(scripted_engine *e)
{
    pthread_mutex_lock(&e->lock);
    unsigned n = e->cancelled;
    pthread_mutex_unlock(&e->lock);
    return n;
}

void scripted_engine_await(scripted_engine *e, unsigned begun, unsigned cancelled)
{
    pthread_mutex_lock(&e->lock);
    while (e->begun < begun || e->cancelled < cancelled)
        pthread_cond_wait(&e->change, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

/* ---- playing ---- */

static size_t count_tokens(const scripted_engine *e, const char *text, size_t len)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    must(tt_tokenizer_encode(e->tok, text, len, true, &ids, &n, NULL) == TT_OK, "text of a step");
    tt_free(ids);
    return n;
}

static const json_t *part_for(const scripted_engine *e, const tt_engine_request *r)
{
    char *prompt = NULL;
    size_t len, i;
    json_t *part;
    const json_t *found = NULL;
    must(tt_tokenizer_decode(e->tok, r->ids, r->n, false, &prompt, &len, NULL) == TT_OK, "prompt");
    json_array_foreach(e->script, i, part)
    {
        const char *match = json_string_value(json_object_get(part, "match"));
        if (found == NULL && (match == NULL || strstr(prompt, match) != NULL))
            found = part;
    }
    tt_free(prompt);
    must(found != NULL, "no part of the script matches the prompt");
    return found;
}

typedef struct play {
    scripted_engine *e;
    const tt_engine_request *r;
    tt_engine_event_fn fn;
    void *ctx;
    tt_engine_result *result;
} play;

static bool say(play *p, tt_engine_event_kind kind, const json_t *v)
{
    const char *text = json_string_value(v);
    size_t len = json_string_length(v), n = count_tokens(p->e, text, len);
    tt_token_report report = {.token = {.logprob = -0.5f}};
    report.token.len = (uint8_t)(len < sizeof report.token.text ? len : sizeof report.token.text);
    memcpy(report.token.text, text, report.token.len);
    p->result->generated_tokens += n;
    if (kind == TT_EVENT_THOUGHT)
        p->result->thought_tokens += n;
    bool shown = kind == TT_EVENT_TEXT && p->r->logprobs;
    return p->fn(p->ctx, &(tt_engine_event){.kind = kind,
                                            .text = text,
                                            .len = len,
                                            .reports = shown ? &report : NULL,
                                            .n_reports = shown ? 1 : 0});
}

static bool call(play *p, const json_t *v)
{
    char *text = json_dumps(json_object_get(v, "arguments"), JSON_COMPACT);
    must(text != NULL, "arguments of a call");
    p->result->generated_tokens += count_tokens(p->e, text, strlen(text));
    bool more =
        p->fn(p->ctx, &(tt_engine_event){.kind = TT_EVENT_CALL,
                                         .name = json_string_value(json_object_get(v, "name")),
                                         .text = text,
                                         .len = strlen(text)});
    tt_free(text);
    return more;
}

static bool play_step(play *p, const json_t *step)
{
    const json_t *v;
    if ((v = json_object_get(step, "prefill")) != NULL)
        return p->fn(p->ctx, &(tt_engine_event){
                                 .kind = TT_EVENT_PREFILL,
                                 .done = (uint64_t)json_integer_value(json_array_get(v, 0)),
                                 .total = (uint64_t)json_integer_value(json_array_get(v, 1))});
    if ((v = json_object_get(step, "thought")) != NULL)
        return say(p, TT_EVENT_THOUGHT, v);
    if ((v = json_object_get(step, "text")) != NULL)
        return say(p, TT_EVENT_TEXT, v);
    if ((v = json_object_get(step, "call")) != NULL)
        return call(p, v);
    if (json_object_get(step, "bad_call") != NULL)
        return p->fn(p->ctx, &(tt_engine_event){.kind = TT_EVENT_BAD_CALL});
    must(json_object_get(step, "gate") != NULL, "unknown step");
    pass_gate(p->e, p->r->cancel);
    return true;
}

static tt_status play_steps(play *p, const json_t *steps, tt_error *err)
{
    const json_t *before = NULL;
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        const json_t *times = json_object_get(step, "times");
        const char *failure = json_string_value(json_object_get(step, "fail"));
        json_int_t n = times != NULL ? json_integer_value(times) : 1;
        if (failure != NULL)
            return tt_fail(err, TT_ERR_IO, "%s", failure);
        for (; n > 0; n--) {
            if (atomic_load(p->r->cancel)) {
                p->result->finish = TT_ENGINE_CANCELLED;
                note(p->e, &p->e->cancelled);
                return TT_OK;
            }
            if (!play_step(p, times != NULL ? before : step)) {
                p->result->finish = TT_ENGINE_ENOUGH;
                return TT_OK;
            }
        }
        before = step;
    }
    if (atomic_load(p->r->cancel)) {
        p->result->finish = TT_ENGINE_CANCELLED;
        note(p->e, &p->e->cancelled);
    }
    return TT_OK;
}

/* ---- grammars ---- */

/* Whether `text` is an answer to the request. */
static bool takes(const scripted_engine *e, const tt_engine_request *r, const char *text)
{
    tt_constraint *c = NULL;
    tt_error err;
    uint32_t *ids = NULL;
    size_t n = 0;
    tt_constraint_start start = r->in_thought  ? TT_START_THOUGHT
                                : r->may_think ? TT_START_MAY_THINK
                                               : TT_START_ANSWER;
    must(tt_constraint_create(r->grammar, e->lexicon, start, &c, NULL) == TT_OK, "a constraint");
    must(tt_tokenizer_encode(e->tok, text, strlen(text), true, &ids, &n, NULL) == TT_OK, "a text");
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = tt_constraint_accept(c, ids[i], &err) == TT_OK;
    ok = ok && tt_constraint_where(c) != TT_PLACE_OPEN;
    tt_free(ids);
    tt_constraint_close(&c);
    return ok;
}

static tt_status try_texts(const scripted_engine *e, const tt_engine_request *r,
                           const json_t *texts, bool may, tt_error *err)
{
    size_t i;
    json_t *text;
    json_array_foreach(texts, i, text)
    {
        if (takes(e, r, json_string_value(text)) != may)
            return tt_fail(err, TT_ERR_INVALID, "the grammar %s %s", may ? "refuses" : "takes",
                           json_string_value(text));
    }
    return TT_OK;
}

static tt_status try_grammar(const scripted_engine *e, const tt_engine_request *r,
                             const json_t *part, tt_error *err)
{
    const json_t *good = json_object_get(part, "takes"), *bad = json_object_get(part, "refuses");
    bool wanted = good != NULL || bad != NULL;
    if (wanted != (r->grammar != NULL))
        return tt_fail(err, TT_ERR_INVALID, "there is %s grammar", wanted ? "no" : "a");
    TT_TRY(try_texts(e, r, good, true, err));
    return try_texts(e, r, bad, false, err);
}

static tt_status generate(void *self, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx,
                          tt_engine_result *result, tt_error *err)
{
    scripted_engine *e = self;
    const json_t *part = part_for(e, r);
    const char *finish = json_string_value(json_object_get(part, "finish"));
    play p = {.e = e, .r = r, .fn = fn, .ctx = ctx, .result = result};
    *result = (tt_engine_result){
        .finish =
            finish != NULL && strcmp(finish, "length") == 0 ? TT_ENGINE_LENGTH : TT_ENGINE_STOP,
        .reuse = {.tokens = (size_t)json_integer_value(json_object_get(part, "cached"))}};
    must(e->loaded, "asked for an answer without being loaded");
    tell(e, "begin");
    note(e, &e->begun);
    (void)fn(ctx, &(tt_engine_event){
                      .kind = TT_EVENT_START, .done = result->reuse.tokens, .total = r->n});
    TT_TRY(try_grammar(e, r, part, err));
    return play_steps(&p, json_object_get(part, "steps"), err);
}

/* ---- the seam ---- */

static void describe(void *self, tt_engine_info *info)
{
    scripted_engine *e = self;
    pthread_mutex_lock(&e->lock);
    *info = e->info;
    pthread_mutex_unlock(&e->lock);
}

/* Under the lock. */
static tt_status verdict(scripted_engine *e, const char *failure, tt_error *err)
{
    e->info.loadable = failure == NULL;
    snprintf(e->info.reason, sizeof e->info.reason, "%s", failure != NULL ? failure : "");
    return failure == NULL ? TT_OK : tt_fail(err, TT_ERR_FORMAT, "%s", failure);
}

static tt_status look(void *self, tt_error *err)
{
    scripted_engine *e = self;
    pthread_mutex_lock(&e->lock);
    tt_status st = verdict(e, e->look_failure, err);
    e->info.max_context = st == TT_OK ? e->max_context : 0;
    pthread_mutex_unlock(&e->lock);
    return st;
}

static tt_status load(void *self, bool (*go_on)(void *ctx), void *ctx, tt_error *err)
{
    scripted_engine *e = self;
    tell(e, "load");
    pthread_mutex_lock(&e->lock);
    while (e->hold_loads && !e->open && go_on(ctx))
        wait_a_little(e);
    tt_status st = go_on(ctx) ? verdict(e, e->load_failure, err)
                              : tt_fail(err, TT_ERR_ABORTED, "the load was aborted");
    e->loaded = st == TT_OK;
    pthread_mutex_unlock(&e->lock);
    return st;
}

static void unload(void *self)
{
    scripted_engine *e = self;
    tell(e, "unload");
    pthread_mutex_lock(&e->lock);
    e->loaded = false;
    pthread_mutex_unlock(&e->lock);
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    scripted_engine *e = self;
    return e->render(e->tok, r, out, err);
}

static void stats(void *self, tt_engine_stats *out)
{
    (void)self;
    *out = (tt_engine_stats){.model = {.expert_asks = 10, .expert_hits = 9, .expert_misses = 1}};
}

static double idle(void *self)
{
    (void)self;
    return -1;
}

tt_server_engine scripted_engine_seam(scripted_engine *e)
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
