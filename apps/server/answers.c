/* Answers into the outgoing bytes of a connection, their lines in the log, their counts. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/server_int.h"

#define MOST_HEAD (64u << 10)

bool tt_conn_closes(const tt_conn *c)
{
    return !c->have_head || !tt_http1_keeps_alive(&c->http) || c->server->stopping;
}

static bool is_head(const tt_conn *c)
{
    return c->have_head && strcmp(tt_http1_method(&c->http), "HEAD") == 0;
}

static tt_reply_head head_of(const tt_conn *c, int status)
{
    return (tt_reply_head){.status = status,
                           .envelope = c->envelope,
                           .request_id = c->request_id,
                           .now = (int64_t)time(NULL),
                           .old = c->have_head && tt_http1_is_old(&c->http),
                           .close = tt_conn_closes(c),
                           .retry_after = c->retry_after,
                           .verdict = &c->verdict};
}

static void put(tt_conn *c, tt_buf *b)
{
    if (b->failed == TT_OK)
        evbuffer_add(c->out, b->data, b->len);
    tt_buf_free(b);
}

void tt_answer_refusal(tt_conn *c, int status, const char *code, const char *param,
                       const char *message)
{
    tt_buf b;
    tt_reply_head head = head_of(c, status);
    tt_reply_error error = {.status = status,
                            .code = code,
                            .message = message,
                            .param = param != NULL && param[0] != '\0' ? param : NULL};
    if (status == 405)
        head.allow = tt_route_methods(c->route);
    if (c->state == TT_CONN_DRAINING)
        head.close = true;
    tt_buf_init(&b, MOST_HEAD);
    tt_reply_write_refusal(&b, &head, &error, is_head(c));
    put(c, &b);
    c->retry_after = 0;
}

void tt_answer_text(tt_conn *c, int status, const char *type, const char *text, size_t len)
{
    tt_buf b;
    tt_reply_head head = head_of(c, status);
    head.type = type;
    head.length = (int64_t)len;
    if (status == 204)
        head.allow = tt_route_methods(c->route);
    tt_buf_init(&b, MOST_HEAD);
    tt_reply_write_head(&b, &head);
    put(c, &b);
    if (!is_head(c) && status != 204)
        evbuffer_add(c->out, text, len);
}

void tt_answer_chat_page(tt_conn *c)
{
    tt_buf b;
    size_t len;
    const char *text = tt_chat_page(&len);
    tt_reply_head head = head_of(c, 200);
    head.type = "text/html; charset=utf-8";
    head.fields = c->server->page_fields;
    head.length = (int64_t)len;
    tt_buf_init(&b, MOST_HEAD);
    tt_reply_write_head(&b, &head);
    put(c, &b);
    if (!is_head(c))
        evbuffer_add_reference(c->out, text, len, NULL, NULL);
}

static void free_text(const void *text, size_t len, void *ctx)
{
    (void)len;
    (void)ctx;
    tt_free((void *)text);
}

bool tt_answer_json_head(tt_conn *c, size_t len)
{
    tt_buf b;
    tt_reply_head head = head_of(c, 200);
    head.length = (int64_t)len;
    tt_buf_init(&b, MOST_HEAD);
    tt_reply_write_head(&b, &head);
    put(c, &b);
    return !is_head(c);
}

void tt_answer_json(tt_conn *c, tt_buf *text)
{
    size_t len = 0;
    char *bytes;
    if (text->len <= TT_READ_AT_ONCE || is_head(c)) {
        tt_answer_text(c, 200, NULL, text->data, text->len);
        return;
    }
    bytes = tt_buf_steal(text, &len);
    (void)tt_answer_json_head(c, len);
    if (evbuffer_add_reference(c->out, bytes, len, free_text, NULL) != 0)
        tt_free(bytes);
}

void tt_answer_stream_head(tt_conn *c)
{
    tt_buf b;
    tt_reply_head head = head_of(c, 200);
    head.type = "text/event-stream; charset=utf-8";
    head.length = TT_LENGTH_STREAM;
    tt_buf_init(&b, MOST_HEAD);
    tt_reply_write_head(&b, &head);
    put(c, &b);
}

/* Methods of clients are not our words. */
static const char *method_word(const char *method)
{
    static const char *const words[] = {"GET",    "HEAD",  "POST",  "OPTIONS", "PUT",
                                        "DELETE", "PATCH", "TRACE", "CONNECT"};
    for (size_t i = 0; method != NULL && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(method, words[i]) == 0)
            return words[i];
    return "other";
}

static const char *words_of(const tt_buf *b)
{
    return b->len > 0 ? b->data : "";
}

static void note_reuse(const tt_session_reuse *reuse, tt_log_request *r)
{
    if (reuse->tier != TT_TIER_NONE) {
        r->tier = tt_state_tier_name(reuse->tier);
        r->kind = tt_checkpoint_name(reuse->kind);
    }
    if (reuse->refused != TT_REFUSED_NOTHING)
        r->refused = tt_state_refusal_name(reuse->refused);
}

void tt_answer_log(tt_server *s, const tt_conn *c, const tt_job *job, const tt_job_news *news,
                   int status, const char *code)
{
    double now = tt_now();
    tt_log_request r = {.status = status,
                        .code = code,
                        .adjusted = "",
                        .ignored = "",
                        .repaired = "",
                        .relaxed = ""};
    if (c != NULL) {
        r.id = c->request_id;
        r.method = method_word(c->have_head ? tt_http1_method(&c->http) : NULL);
        r.path = tt_route_names[c->route];
        r.run_seconds = c->arrived > 0 ? now - c->arrived : 0;
    }
    if (job != NULL) {
        r.id = job->request_id;
        r.method = "POST";
        r.path = job->path;
        r.model = news != NULL && job->model != TT_MODEL_NONE
                      ? tt_model_set_name(s->models, job->model)
                      : NULL;
        r.wait_seconds = (news != NULL && news->started ? news->started_at : now) - job->arrived;
        r.run_seconds = news != NULL && news->finished ? news->ended_at - news->started_at : 0;
        r.adjusted = words_of(&job->adjusted);
        r.ignored = words_of(&job->ignored);
        r.repaired = words_of(&job->repaired);
        r.relaxed = words_of(&job->relaxed);
    }
    if (job != NULL && news != NULL && news->finished) {
        r.computed = true;
        r.prompt = job->usage.prompt;
        r.cached = job->usage.cached;
        note_reuse(&job->usage.reuse, &r);
        r.generated = job->usage.generated;
        r.thought = job->usage.thought;
        r.bad_calls = job->usage.bad_calls;
        r.detail = job->st != TT_OK && job->st != TT_ERR_ABORTED ? job->err.message : NULL;
    }
    tt_log_answer(&s->config.log, &r);
    uint32_t path = TT_ROUTE_OTHER;
    for (uint32_t i = 0; tt_route_names[i] != NULL; i++)
        if (r.path != NULL && strcmp(tt_route_names[i], r.path) == 0)
            path = i;
    tt_metrics_answer(&s->metrics, path, status, code);
}
