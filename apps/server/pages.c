/* The paths that are answered at once: what the server is and how it does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/anthropic_models.h"
#include "server/model_list.h"
#include "server/server_int.h"

#define MOST_PAGE (256u << 10)

static void write_name(tt_buf *b, const char *text)
{
    tt_reply_write_text(b, text, strlen(text));
}

static void name_or_null(tt_buf *b, const tt_server *s, size_t i)
{
    if (i == TT_MODEL_NONE)
        tt_buf_puts(b, "null");
    else
        write_name(b, tt_model_set_name(s->models, i));
}

static void status_of_models(const tt_server *s, tt_buf *b)
{
    tt_buf_puts(b, ",\"models\":[");
    for (size_t i = 0; i < tt_model_set_count(s->models); i++) {
        tt_model_state state;
        tt_model_set_state(s->models, i, &state);
        tt_buf_puts(b, i > 0 ? ",{\"id\":" : "{\"id\":");
        write_name(b, tt_model_set_name(s->models, i));
        tt_buf_printf(b,
                      ",\"state\":\"%s\",\"loads\":%llu,\"load_failures\":%llu,"
                      "\"load_seconds\":%.3f,\"requests\":%llu,\"prompt_tokens\":%llu,"
                      "\"generated_tokens\":%llu}",
                      state.loaded    ? "loaded"
                      : state.loading ? "loading"
                                      : "unloaded",
                      (unsigned long long)state.loads, (unsigned long long)state.failures,
                      state.load_seconds, (unsigned long long)s->metrics.models[i].requests,
                      (unsigned long long)s->metrics.models[i].prompt_tokens,
                      (unsigned long long)s->metrics.models[i].generated_tokens);
    }
    tt_buf_putc(b, ']');
}

static void status_of_disk(const tt_state_disk_stats *d, tt_buf *b)
{
    if (d->limit == 0) {
        tt_buf_puts(b, ",\"disk\":null");
        return;
    }
    tt_buf_printf(b,
                  ",\"disk\":{\"bytes\":%llu,\"limit\":%llu,\"blocks\":%llu,"
                  "\"checkpoints\":%llu,\"files_written\":%llu,\"bytes_written\":%llu,"
                  "\"index_bytes_written\":%llu,\"files_read\":%llu,\"bytes_read\":%llu,"
                  "\"waiting\":%llu,\"dropped\":%llu,\"evicted\":%llu,\"swept\":%llu}",
                  (unsigned long long)d->bytes, (unsigned long long)d->limit,
                  (unsigned long long)d->blocks, (unsigned long long)d->checkpoints,
                  (unsigned long long)d->writes, (unsigned long long)d->written,
                  (unsigned long long)d->index_written, (unsigned long long)d->reads,
                  (unsigned long long)d->read, (unsigned long long)d->waiting,
                  (unsigned long long)d->dropped, (unsigned long long)d->evicted,
                  (unsigned long long)d->swept);
}

/* Counters that are not 0, by their names. */
static void status_of_prompt_cache(const tt_state_cache_stats *c, tt_buf *b)
{
    const char *comma = "";
    tt_buf_printf(b,
                  ",\"prompt_cache\":{\"bytes\":%llu,\"limit\":%llu,\"blocks\":%llu,"
                  "\"checkpoints\":%llu,\"evicted\":%llu,\"prompts\":%llu,"
                  "\"prompt_tokens\":%llu,\"served\":[",
                  (unsigned long long)c->bytes, (unsigned long long)c->limit,
                  (unsigned long long)c->blocks, (unsigned long long)c->checkpoints,
                  (unsigned long long)c->evicted, (unsigned long long)c->prompts,
                  (unsigned long long)c->prompt_tokens);
    for (int t = 0; t < TT_TIERS; t++)
        for (int k = 0; k < TT_CHECKPOINTS; k++)
            if (c->served[t][k] > 0) {
                tt_buf_printf(b, "%s{\"tier\":\"%s\",\"kind\":\"%s\",\"tokens\":%llu}", comma,
                              tt_state_tier_name((tt_state_tier)t),
                              tt_checkpoint_name((tt_checkpoint_kind)k),
                              (unsigned long long)c->served[t][k]);
                comma = ",";
            }
    tt_buf_puts(b, "],\"refused\":{");
    comma = "";
    for (int r = 0; r < TT_REFUSALS; r++)
        if (c->refused[r] > 0) {
            tt_buf_printf(b, "%s\"%s\":%llu", comma, tt_state_refusal_name((tt_state_refusal)r),
                          (unsigned long long)c->refused[r]);
            comma = ",";
        }
    tt_buf_putc(b, '}');
    status_of_disk(&c->disk, b);
    tt_buf_putc(b, '}');
}

static void status(const tt_server *s, tt_buf *b)
{
    size_t loaded = tt_model_set_loaded(s->models);
    tt_engine_info info = {0};
    const tt_plan *p = &info.plan;
    tt_work_view v;
    tt_work_look(s->work, &v);
    if (loaded != TT_MODEL_NONE) {
        tt_server_engine e = tt_model_set_engine(s->models, loaded, false);
        e.ops->describe(e.self, &info);
    }
    tt_buf_printf(b, "{\"version\":\"%s\",\"model\":", tt_version());
    name_or_null(b, s, loaded);
    status_of_models(s, b);
    tt_buf_printf(b,
                  ",\"uptime_seconds\":%.3f,\"queue\":{\"running\":%u,\"waiting\":%u,"
                  "\"limit\":%u,\"sequences\":%u},\"prefill\":{\"done\":%llu,\"total\":%llu},"
                  "\"connections\":%u,"
                  "\"request_memory_bytes\":%llu,",
                  tt_now() - s->begun, v.running, v.waiting, s->config.queue_limit,
                  s->config.sequences, (unsigned long long)v.prefill_done,
                  (unsigned long long)v.prefill_total, s->n_connections,
                  (unsigned long long)atomic_load(&s->memory.used));
    tt_buf_printf(b,
                  "\"memory\":{\"budget\":%llu,\"total\":%llu,\"weights\":%llu,"
                  "\"expert_slots\":%llu,\"kv\":%llu,\"state\":%llu,\"prompt_cache\":%llu,"
                  "\"draft\":%llu,\"scratch\":%llu,\"fixed\":%llu}",
                  (unsigned long long)p->budget, (unsigned long long)p->total,
                  (unsigned long long)p->weights, (unsigned long long)p->expert_slots,
                  (unsigned long long)p->kv, (unsigned long long)p->state,
                  (unsigned long long)p->prompt_cache, (unsigned long long)p->draft,
                  (unsigned long long)p->scratch, (unsigned long long)p->fixed);
    status_of_prompt_cache(&v.stats.cache, b);
    tt_buf_putc(b, '}');
}

static void metrics(const tt_server *s, tt_buf *b)
{
    tt_work_view v;
    tt_response_store_view stored;
    tt_work_look(s->work, &v);
    tt_response_store_look(s->responses, &stored);
    tt_metrics_now now = {.paths = tt_route_names,
                          .connections = s->n_connections,
                          .running = v.running,
                          .waiting = v.waiting,
                          .request_memory = atomic_load(&s->memory.used),
                          .stored_responses = stored.responses,
                          .stored_bytes = stored.bytes,
                          .prefill_done = v.prefill_done,
                          .prefill_total = v.prefill_total,
                          .stats = v.stats,
                          .models = s->models};
    tt_metrics_write(&s->metrics, &now, b);
}

/* Model i for the list in the shape of Anthropic's interface, which borrows from `info`. */
static tt_listed_model to_list(const tt_server *s, size_t i, tt_engine_info *info)
{
    tt_server_engine e = tt_model_set_engine(s->models, i, false);
    e.ops->describe(e.self, info);
    return (tt_listed_model){.id = tt_model_set_name(s->models, i),
                             .created = info->created,
                             .max_context = info->max_context,
                             .efforts = info->efforts};
}

static void listed_object(const tt_server *s, size_t i, tt_buf *b)
{
    tt_engine_info info;
    const tt_listed_model m = to_list(s, i, &info);
    tt_listed_model_write(&m, b);
}

/* False with `why`. */
static bool listed(const tt_server *s, const char *target, tt_buf *b, tt_refusal *why)
{
    size_t n = tt_model_set_count(s->models);
    tt_engine_info *info = malloc(n * sizeof *info);
    tt_listed_model list[TT_MODELS];
    if (info == NULL) {
        tt_refuse(why, 503, "memory_full", NULL, "there is no memory for the answer");
        return false;
    }
    for (size_t i = 0; i < n; i++)
        list[i] = to_list(s, i, &info[i]);
    bool ok = tt_listed_models_write(target, list, n, b, why);
    free(info);
    return ok;
}

static void refuse_page(tt_conn *c, const tt_refusal *why)
{
    tt_answer_refusal(c, why->status, why->code, why->param, why->message);
    tt_answer_log(c->server, c, NULL, NULL, why->status, why->code);
}

void tt_page_answer(tt_conn *c)
{
    tt_server *s = c->server;
    const char *type = NULL;
    int code = 200;
    tt_refusal why;
    tt_buf b;
    if (c->route == TT_ROUTE_ROOT) {
        tt_answer_chat_page(c);
        tt_answer_log(s, c, NULL, NULL, 200, NULL);
        return;
    }
    tt_buf_init(&b, MOST_PAGE);
    size_t model = c->route == TT_ROUTE_MODEL ? tt_model_set_find(s->models, c->model, NULL) : 0;
    if (model == TT_MODEL_NONE) {
        tt_answer_refusal(c, 404, "model_not_found", "model", "there is no such model here");
        tt_answer_log(s, c, NULL, NULL, 404, "model_not_found");
        return;
    }
    switch (c->route) {
    case TT_ROUTE_HEALTH:
        code = s->stopping ? 503 : 200;
        tt_buf_printf(&b, "{\"status\":\"%s\"}", s->stopping ? "stopping" : "ok");
        break;
    case TT_ROUTE_METRICS:
        type = "text/plain; version=0.0.4; charset=utf-8";
        metrics(s, &b);
        break;
    case TT_ROUTE_STATUS:
        status(s, &b);
        break;
    case TT_ROUTE_MODELS:
        if (c->envelope != TT_ENVELOPE_ANTHROPIC) {
            tt_model_list_all(s->models, &b);
        } else if (!listed(s, tt_http1_target(&c->http), &b, &why)) {
            refuse_page(c, &why);
            tt_buf_free(&b);
            return;
        }
        break;
    default:
        if (c->envelope != TT_ENVELOPE_ANTHROPIC)
            tt_model_list_object(s->models, model, &b);
        else
            listed_object(s, model, &b);
    }
    if (b.failed == TT_OK)
        tt_answer_text(c, code, type, b.data, b.len);
    else
        tt_answer_refusal(c, 503, "memory_full", NULL, "there is no memory for the answer");
    tt_answer_log(s, c, NULL, NULL, b.failed == TT_OK ? code : 503,
                  b.failed == TT_OK ? NULL : "memory_full");
    tt_buf_free(&b);
}
