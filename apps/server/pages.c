/* The paths that are answered at once: what the server is and how it does. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/server_int.h"

#define MOST_PAGE (256u << 10)

static void write_name(tt_buf *b, const char *text)
{
    tt_reply_write_text(b, text, strlen(text));
}

static void root(tt_buf *b)
{
    tt_buf_printf(b, "{\"name\":\"TinyTitanServer\",\"version\":\"%s\"}", tt_version());
}

static void model(const tt_server *s, tt_buf *b)
{
    tt_buf_puts(b, "{\"id\":");
    write_name(b, s->info.model);
    tt_buf_printf(b, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"tinytitan\"}",
                  (long long)s->info.created);
}

static void models(const tt_server *s, tt_buf *b)
{
    tt_buf_puts(b, "{\"object\":\"list\",\"data\":[");
    model(s, b);
    tt_buf_puts(b, "]}");
}

static void status(const tt_server *s, tt_buf *b)
{
    const tt_plan *p = &s->info.plan;
    tt_work_view v;
    tt_work_look(s->work, &v);
    tt_buf_printf(b, "{\"version\":\"%s\",\"model\":", tt_version());
    write_name(b, s->info.model);
    tt_buf_printf(b,
                  ",\"uptime_seconds\":%.3f,\"queue\":{\"running\":%u,\"waiting\":%u,"
                  "\"limit\":%u},\"prefill\":{\"done\":%llu,\"total\":%llu},\"connections\":%u,"
                  "\"request_memory_bytes\":%llu,",
                  tt_now() - s->begun, v.running ? 1u : 0u, v.waiting, s->config.queue_limit,
                  (unsigned long long)v.prefill_done, (unsigned long long)v.prefill_total,
                  s->n_connections, (unsigned long long)atomic_load(&s->memory.used));
    tt_buf_printf(b,
                  "\"memory\":{\"budget\":%llu,\"total\":%llu,\"weights\":%llu,"
                  "\"expert_slots\":%llu,\"kv\":%llu,\"state\":%llu,\"scratch\":%llu,"
                  "\"fixed\":%llu}}",
                  (unsigned long long)p->budget, (unsigned long long)p->total,
                  (unsigned long long)p->weights, (unsigned long long)p->expert_slots,
                  (unsigned long long)p->kv, (unsigned long long)p->state,
                  (unsigned long long)p->scratch, (unsigned long long)p->fixed);
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
                          .model = v.stats};
    tt_metrics_write(&s->metrics, &now, b);
}

void tt_page_answer(tt_conn *c)
{
    tt_server *s = c->server;
    const char *type = NULL;
    int code = 200;
    tt_buf b;
    tt_buf_init(&b, MOST_PAGE);
    if (c->route == TT_ROUTE_MODEL && strcmp(c->model, s->info.model) != 0) {
        tt_answer_refusal(c, 404, "model_not_found", "model", "there is no such model here");
        tt_answer_log(s, c, NULL, NULL, 404, "model_not_found");
        return;
    }
    switch (c->route) {
    case TT_ROUTE_ROOT:
        root(&b);
        break;
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
        models(s, &b);
        break;
    default:
        model(s, &b);
    }
    if (b.failed == TT_OK)
        tt_answer_text(c, code, type, b.data, b.len);
    else
        tt_answer_refusal(c, 503, "memory_full", NULL, "there is no memory for the answer");
    tt_answer_log(s, c, NULL, NULL, b.failed == TT_OK ? code : 503,
                  b.failed == TT_OK ? NULL : "memory_full");
    tt_buf_free(&b);
}
