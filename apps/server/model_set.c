#include "server/model_set.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/server_options.h"

#define FAST            "-fast"
#define UNKNOWN_CONTEXT 32768u

typedef struct model {
    tt_server_engine engine;
    char name[128];
    tt_model_state state; /* guarded */
} model;

struct tt_model_set {
    tt_model_set_options o;
    pthread_mutex_t lock;
    size_t n;
    size_t loaded; /* changed under the lock while nothing generates, read without while something
                      does */
    bool busy;     /* it was used since it was idle */
    double idle_since;
    tt_engine_stats before; /* of those that were unloaded */
    model models[TT_MODELS];
};

/* ---- making ---- */

static size_t find(const tt_model_set *s, const char *name, size_t len)
{
    for (size_t i = 0; i < s->n; i++)
        if (strncmp(s->models[i].name, name, len) == 0 && s->models[i].name[len] == '\0')
            return i;
    return TT_MODEL_NONE;
}

tt_status tt_model_set_create(const tt_server_engine *engines, size_t n,
                              const tt_model_set_options *o, tt_model_set **out, tt_error *err)
{
    tt_engine_info *info = malloc(sizeof *info);
    tt_model_set *s = calloc(1, sizeof *s);
    tt_status st =
        info == NULL || s == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for the models")
        : n == 0 || n > TT_MODELS
            ? tt_fail(err, TT_ERR_LIMIT, "there are %zu models, a server has 1 to %u", n, TT_MODELS)
            : TT_OK;
    for (size_t i = 0; st == TT_OK && i < n; i++) {
        engines[i].ops->describe(engines[i].self, info);
        s->models[i].engine = engines[i];
        memcpy(s->models[i].name, info->model, sizeof info->model);
        if (find(s, info->model, strlen(info->model)) != TT_MODEL_NONE)
            st = tt_fail(err, TT_ERR_EXISTS, "two models have the name %s", info->model);
        s->n++;
    }
    free(info);
    if (st != TT_OK) {
        free(s);
        return st;
    }
    s->o = *o;
    s->loaded = TT_MODEL_NONE;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return TT_OK;
}

void tt_model_set_close(tt_model_set **p)
{
    tt_model_set *s = p != NULL ? *p : NULL;
    if (s == NULL)
        return;
    (void)tt_model_set_unload(s, TT_MODEL_NONE);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *p = NULL;
}

/* ---- names ---- */

size_t tt_model_set_count(const tt_model_set *s)
{
    return s->n;
}

const char *tt_model_set_name(const tt_model_set *s, size_t i)
{
    return s->models[i].name;
}

size_t tt_model_set_find(const tt_model_set *s, const char *name, bool *fast)
{
    size_t n = strlen(name), tail = sizeof FAST - 1;
    size_t i = n < sizeof s->models[0].name ? find(s, name, n) : TT_MODEL_NONE;
    bool is_fast = false;
    if (i == TT_MODEL_NONE && n > tail && n - tail < sizeof s->models[0].name &&
        strcmp(name + n - tail, FAST) == 0) {
        i = find(s, name, n - tail);
        is_fast = i != TT_MODEL_NONE;
    }
    if (fast != NULL)
        *fast = is_fast;
    return i;
}

uint32_t tt_model_set_context(const tt_model_set *s)
{
    tt_engine_info info;
    uint32_t most = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->models[i].engine.ops->describe(s->models[i].engine.self, &info);
        uint32_t n = info.max_context > 0 ? info.max_context : UNKNOWN_CONTEXT;
        most = n > most ? n : most;
    }
    return most;
}

/* ---- under a name with -fast ---- */

static void fast_describe(void *self, tt_engine_info *info)
{
    const model *m = self;
    m->engine.ops->describe(m->engine.self, info);
    info->thinks = false;
    memset(info->efforts, 0, sizeof info->efforts);
}

/* Variables of the template without those that ask for thoughts. */
static tt_status without_thoughts(const char *extra, char **out, tt_error *err)
{
    json_t *vars = NULL;
    TT_TRY(tt_json_parse_deep(extra, strlen(extra), TT_REQUEST_DEPTH, "template variables", &vars,
                              err));
    json_object_del(vars, "enable_thinking");
    json_object_del(vars, "reasoning_effort");
    *out = json_dumps(vars, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(vars);
    return *out != NULL ? TT_OK : tt_fail(err, TT_ERR_NOMEM, "out of memory for the template");
}

static tt_status fast_render(void *self, const tt_engine_render *r, tt_engine_prompt *out,
                             tt_error *err)
{
    const model *m = self;
    tt_engine_render plain = *r;
    char *extra = NULL;
    plain.thinking = TT_THINKING_OFF;
    if (r->extra != NULL)
        TT_TRY(without_thoughts(r->extra, &extra, err));
    plain.extra = extra;
    tt_status st = m->engine.ops->render(m->engine.self, &plain, out, err);
    tt_free(extra);
    return st;
}

static tt_status fast_look(void *self, tt_error *err)
{
    const model *m = self;
    return m->engine.ops->look(m->engine.self, err);
}

static tt_status fast_generate(void *self, const tt_engine_request *r, tt_engine_event_fn fn,
                               void *ctx, tt_engine_result *result, tt_error *err)
{
    const model *m = self;
    return m->engine.ops->generate(m->engine.self, r, fn, ctx, result, err);
}

tt_server_engine tt_model_set_engine(const tt_model_set *s, size_t i, bool fast)
{
    static const tt_server_engine_ops ops = {.describe = fast_describe,
                                             .look = fast_look,
                                             .render = fast_render,
                                             .generate = fast_generate};
    return fast ? (tt_server_engine){&ops, (void *)&s->models[i]} : s->models[i].engine;
}

/* ---- what is in memory ---- */

static void say(const tt_model_set *s, const char *what, size_t i, const char *more)
{
    if (s->o.log != NULL)
        tt_log_say(s->o.log, "%s %s%s%s", s->models[i].name, what, more[0] != '\0' ? ": " : "",
                   more);
}

void tt_model_set_state(tt_model_set *s, size_t i, tt_model_state *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->models[i].state;
    pthread_mutex_unlock(&s->lock);
}

size_t tt_model_set_loaded(tt_model_set *s)
{
    pthread_mutex_lock(&s->lock);
    size_t i = s->loaded;
    pthread_mutex_unlock(&s->lock);
    return i;
}

static void set_loading(tt_model_set *s, size_t i, bool loading)
{
    pthread_mutex_lock(&s->lock);
    s->models[i].state.loading = loading;
    pthread_mutex_unlock(&s->lock);
}

static void add_model(tt_model_stats *sum, const tt_model_stats *more)
{
    sum->expert_asks += more->expert_asks;
    sum->expert_hits += more->expert_hits;
    sum->expert_misses += more->expert_misses;
    sum->expert_joins += more->expert_joins;
    sum->expert_evictions += more->expert_evictions;
    sum->expert_bytes_read += more->expert_bytes_read;
    sum->expert_wait_seconds += more->expert_wait_seconds;
    sum->expert_bytes_disk += more->expert_bytes_disk;
    sum->expert_bytes_cached += more->expert_bytes_cached;
    sum->expert_bytes_mirror += more->expert_bytes_mirror;
    sum->warm_bytes += more->warm_bytes;
}

/* What has happened is added; what is there is that of `sum`. */
static void add_stats(tt_engine_stats *sum, const tt_engine_stats *more)
{
    tt_state_cache_stats *c = &sum->cache;
    add_model(&sum->model, &more->model);
    c->prompts += more->cache.prompts;
    c->prompt_tokens += more->cache.prompt_tokens;
    c->evicted += more->cache.evicted;
    c->disk.writes += more->cache.disk.writes;
    c->disk.written += more->cache.disk.written;
    c->disk.index_written += more->cache.disk.index_written;
    c->disk.reads += more->cache.disk.reads;
    c->disk.read += more->cache.disk.read;
    c->disk.dropped += more->cache.disk.dropped;
    c->disk.evicted += more->cache.disk.evicted;
    c->disk.swept += more->cache.disk.swept;
    for (int t = 0; t < TT_TIERS; t++)
        for (int k = 0; k < TT_CHECKPOINTS; k++)
            c->served[t][k] += more->cache.served[t][k];
    for (int r = 0; r < TT_REFUSALS; r++)
        c->refused[r] += more->cache.refused[r];
}

size_t tt_model_set_unload(tt_model_set *s, size_t i)
{
    tt_engine_stats stats;
    size_t was = s->loaded;
    if (was == TT_MODEL_NONE || (i != TT_MODEL_NONE && i != was))
        return TT_MODEL_NONE;
    const tt_server_engine *e = &s->models[was].engine;
    e->ops->stats(e->self, &stats);
    add_stats(&s->before, &stats);
    pthread_mutex_lock(&s->lock);
    s->loaded = TT_MODEL_NONE;
    s->models[was].state.loaded = false;
    pthread_mutex_unlock(&s->lock);
    e->ops->unload(e->self);
    say(s, "is unloaded", was, "");
    return was;
}

static tt_status load(tt_model_set *s, size_t i, bool (*go_on)(void *ctx), void *ctx, tt_error *err)
{
    const tt_server_engine *e = &s->models[i].engine;
    TT_TRY(e->ops->look(e->self, err));
    (void)tt_model_set_unload(s, TT_MODEL_NONE);
    return e->ops->load(e->self, go_on, ctx, err);
}

static void say_of_cache(const tt_model_set *s, size_t i)
{
    const tt_server_engine *e = &s->models[i].engine;
    tt_engine_info info;
    e->ops->describe(e->self, &info);
    if (info.cache_note[0] != '\0')
        say(s, "prompt cache", i, info.cache_note);
}

tt_status tt_model_set_use(tt_model_set *s, size_t i, bool (*go_on)(void *ctx), void *ctx,
                           tt_error *err)
{
    double begun = tt_now();
    tt_error why = {.offset = -1};
    char text[TT_SENTENCE];
    s->busy = true;
    if (s->loaded == i)
        return TT_OK;
    say(s, "is being loaded", i, "");
    set_loading(s, i, true);
    tt_status st = load(s, i, go_on, ctx, &why);
    pthread_mutex_lock(&s->lock);
    tt_model_state *state = &s->models[i].state;
    state->loading = false;
    if (st == TT_OK) {
        state->loaded = true;
        state->loads++;
        state->load_seconds = tt_now() - begun;
        s->loaded = i;
    } else if (st != TT_ERR_ABORTED) {
        state->failures++;
    }
    pthread_mutex_unlock(&s->lock);
    if (st == TT_OK)
        snprintf(text, sizeof text, "%.3f s", tt_now() - begun);
    else
        tt_server_options_sentence(&why, text);
    say(s, st == TT_OK ? "is loaded" : "cannot be loaded", i, text);
    if (st == TT_OK)
        say_of_cache(s, i);
    if (st != TT_OK && err != NULL)
        *err = why;
    return st;
}

double tt_model_set_idle(tt_model_set *s)
{
    double now = tt_now(), left = -1, wish;
    if (s->busy)
        s->idle_since = now;
    s->busy = false;
    if (s->loaded == TT_MODEL_NONE)
        return -1;
    if (s->o.idle_unload > 0) {
        left = s->idle_since + s->o.idle_unload - now;
        if (left <= 0) {
            (void)tt_model_set_unload(s, TT_MODEL_NONE);
            return -1;
        }
    }
    const tt_server_engine *e = &s->models[s->loaded].engine;
    wish = e->ops->idle(e->self);
    return wish < 0 ? left : left < 0 || wish < left ? wish : left;
}

void tt_model_set_stats(tt_model_set *s, tt_engine_stats *out)
{
    tt_engine_stats now = {0};
    if (s->loaded != TT_MODEL_NONE) {
        const tt_server_engine *e = &s->models[s->loaded].engine;
        e->ops->stats(e->self, &now);
    }
    add_stats(&now, &s->before);
    *out = now;
}
