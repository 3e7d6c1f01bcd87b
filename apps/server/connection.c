/* One connection: bytes to requests, answers to bytes, deadlines. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/messages_answer.h"
#include "server/server_int.h"

#define EVENTS_A_TURN 64 /* of the reader of requests, in one callback */
#define RETRY_NOW     1
#define MOST_EXTRA    16 /* connections over the bound that are told so; others are closed */

static void process(tt_conn *c);

/* ---- the end of a connection ---- */

static void forget_request(tt_conn *c)
{
    tt_buf_free(&c->body);
    tt_buf_init(&c->body, TT_BODY_MOST);
    tt_request_memory_give(&c->server->memory, c->reserved);
    c->reserved = 0;
    c->have_head = c->streaming = c->told = false;
    c->refusal.status = 0;
    c->verdict = (tt_http_verdict){0};
    c->retry_after = 0;
    c->head_begun = 0;
}

void tt_conn_close(tt_conn *c)
{
    tt_server *s = c->server;
    if (c->job != NULL) {
        tt_job *job = c->job;
        c->job = NULL;
        job->conn = NULL;
        tt_server_drop_job(s, job, TT_WHY_LEFT);
    }
    forget_request(c);
    tt_buf_free(&c->body);
    struct event *events[] = {c->read, c->write, c->timer};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i] != NULL)
            event_free(events[i]);
    if (c->in != NULL)
        evbuffer_free(c->in);
    if (c->out != NULL)
        evbuffer_free(c->out);
    tt_http1_free(&c->http);
    close(c->fd);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        s->connections = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    s->n_connections -= !c->extra;
    s->n_extra -= c->extra;
    free(c);
    if (!s->ended && s->tcp != NULL)
        evconnlistener_enable(s->tcp);
    if (!s->ended && s->local != NULL)
        evconnlistener_enable(s->local);
    tt_server_check_end(s);
}

/* ---- deadlines ---- */

static double deadline(const tt_conn *c)
{
    const tt_server_bounds *b = &c->server->bounds;
    if (c->state == TT_CONN_DRAINING)
        return c->drain_end;
    if (c->state == TT_CONN_WORKING)
        return c->streaming ? c->last_out + b->heartbeat : 0;
    if (c->state == TT_CONN_READING && c->head_begun > 0)
        return c->head_begun + b->header;
    if (c->state == TT_CONN_READING && tt_http1_in_body(&c->http))
        return c->moved + b->body;
    return c->moved + b->keep_alive;
}

void tt_conn_arm(tt_conn *c)
{
    double at = deadline(c), now = tt_now();
    if (at <= 0 || (c->armed > 0 && c->armed <= at && c->armed > now))
        return;
    double left = at > now ? at - now : 0;
    struct timeval tv = {.tv_sec = (time_t)left,
                         .tv_usec = (suseconds_t)((left - (double)(time_t)left) * 1e6) + 1000};
    if (tv.tv_usec >= 1000000) {
        tv.tv_sec++;
        tv.tv_usec -= 1000000;
    }
    c->armed = at;
    event_add(c->timer, &tv);
}

void tt_conn_drain(tt_conn *c)
{
    c->state = TT_CONN_DRAINING;
    c->drain_end = tt_now() + c->server->bounds.drained;
    c->drained = evbuffer_get_length(c->in);
    evbuffer_drain(c->in, c->drained);
    event_active(c->read, EV_READ, RETRY_NOW);
    tt_conn_arm(c);
}

/* Answers and lets the client read it although it is still sending. */
static void refuse_and_drain(tt_conn *c, int status, const char *code, const char *param,
                             const char *message)
{
    tt_conn_drain(c);
    tt_answer_refusal(c, status, code, param, message);
    tt_answer_log(c->server, c, NULL, NULL, tt_reply_status(c->envelope, status), code);
    forget_request(c);
    (void)tt_conn_send(c);
}

/* What is refused before its head was read needs a name and an envelope too. */
static void name_request(tt_conn *c)
{
    const char *target = tt_http1_target(&c->http);
    char id[128];
    if (c->have_head)
        return;
    tt_random_id("req_", c->request_id);
    c->envelope = tt_reply_envelope(target, false);
    c->route = target != NULL ? tt_route_find(target, id) : TT_ROUTE_OTHER;
    c->arrived = tt_now();
}

static void ping(tt_conn *c)
{
    tt_buf b;
    tt_buf_init(&b, 256);
    if (c->route == TT_ROUTE_MESSAGES && c->told)
        tt_messages_write_ping(&b, !tt_http1_is_old(&c->http));
    else
        tt_sse_write_comment(&b, !tt_http1_is_old(&c->http), "ping");
    /* One that does not read is told so by what is computed. */
    if (b.failed == TT_OK && evbuffer_get_length(c->out) + b.len <= c->server->bounds.outbox)
        evbuffer_add(c->out, b.data, b.len);
    tt_buf_free(&b);
    c->last_out = tt_now();
    tt_conn_arm(c);
    (void)tt_conn_send(c);
}

static void expire(tt_conn *c)
{
    bool waits = c->state == TT_CONN_READING && (c->head_begun > 0 || tt_http1_in_body(&c->http));
    if (c->state == TT_CONN_WORKING)
        ping(c);
    else if (waits) {
        name_request(c);
        refuse_and_drain(c, 408, "request_timeout", NULL, "the request did not come in time");
    } else
        tt_conn_close(c);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    tt_conn *c = ctx;
    tt_server *s = c->server;
    double begun = tt_now(), at = deadline(c);
    (void)fd;
    (void)what;
    c->armed = 0;
    if (at > 0 && at <= begun)
        expire(c);
    else
        tt_conn_arm(c);
    tt_server_timed(s, begun);
}

/* ---- sending ---- */

bool tt_conn_send(tt_conn *c)
{
    for (size_t written = 0; evbuffer_get_length(c->out) > 0;) {
        int n = evbuffer_write_atmost(c->out, c->fd, TT_WRITE_AT_ONCE);
        if (n > 0) {
            c->moved = tt_now();
            c->drain_end = c->moved + c->server->bounds.drained; /* it reads */
            written += (size_t)n;
            /* One that reads as fast as we write does not keep the others waiting. */
            if (written < TT_WRITE_AT_ONCE || evbuffer_get_length(c->out) == 0)
                continue;
            event_active(c->write, EV_WRITE, RETRY_NOW);
            return true;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            event_add(c->write, NULL);
            return true;
        }
        tt_conn_close(c);
        return false;
    }
    /* To close while something is unread would take the answer from the client again. */
    if (c->state == TT_CONN_FLUSHING)
        tt_conn_drain(c);
    if (c->state == TT_CONN_DRAINING)
        shutdown(c->fd, SHUT_WR);
    return true;
}

static void on_write(evutil_socket_t fd, short what, void *ctx)
{
    tt_conn *c = ctx;
    tt_server *s = c->server;
    double begun = tt_now();
    (void)fd;
    (void)what;
    if (tt_conn_send(c))
        process(c);
    tt_server_timed(s, begun);
}

bool tt_conn_done(tt_conn *c)
{
    bool closes = tt_conn_closes(c);
    c->job = NULL;
    forget_request(c);
    tt_http1_next(&c->http);
    c->moved = tt_now();
    c->state = closes ? TT_CONN_FLUSHING : TT_CONN_READING;
    if (!tt_conn_send(c))
        return false;
    /* Requests that wait behind this one are looked at by the next turn of the loop. */
    if (!closes && (c->paused || evbuffer_get_length(c->in) > 0))
        event_active(c->read, EV_READ, RETRY_NOW);
    tt_conn_arm(c);
    return true;
}

/* ---- a head ---- */

static void refuse_later(tt_conn *c, int status, const char *code, const char *text)
{
    tt_refuse(&c->refusal, status, code, NULL, "%s", text);
}

static void check_route(tt_conn *c)
{
    const char *method = tt_http1_method(&c->http);
    if (c->route == TT_ROUTE_OTHER)
        refuse_later(c, 404, "not_found", "there is no such path");
    else if (!tt_route_takes(c->route, method))
        refuse_later(c, 405, "method_not_allowed", "the path does not take this method");
    else if (!(tt_route_is_bare(c->route) && !tt_http1_has_body(&c->http)) &&
             !tt_http_check_content(&c->http, &c->verdict))
        refuse_later(c, c->verdict.status, c->verdict.code, c->verdict.text);
    else if (c->server->stopping && strcmp(method, "POST") == 0) {
        c->retry_after = TT_SHUTDOWN_SECONDS;
        refuse_later(c, 503, "shutting_down", "the server is ending");
    }
}

static void refuse_memory(tt_conn *c, uint64_t own)
{
    if (atomic_load(&c->server->memory.used) <= own) {
        refuse_later(c, 413, "request_too_large", "the body is larger than it may be here");
        return;
    }
    c->retry_after = 1;
    refuse_later(c, 503, "memory_full", "the memory for requests is full at this moment");
}

static void reserve_body(tt_conn *c)
{
    uint64_t most = tt_body_limit(c->server->context);
    int64_t n = tt_http1_content_length(&c->http);
    if (!tt_http1_allow_body(&c->http, most)) {
        refuse_later(c, 413, "request_too_large", "the body is larger than it may be here");
        return;
    }
    if (n > 0 && !tt_request_memory_take(&c->server->memory, (uint64_t)n))
        refuse_memory(c, 0);
    else if (n > 0)
        c->reserved = (uint64_t)n;
}

static void begin_request(tt_conn *c)
{
    tt_server *s = c->server;
    const char *target = tt_http1_target(&c->http);
    tt_http_policy policy = {.port = c->local ? 0 : s->port,
                             .origins = s->config.origins,
                             .n_origins = s->config.n_origins,
                             .key = s->config.key};
    c->have_head = true;
    c->head_begun = 0;
    c->arrived = c->moved = tt_now();
    tt_random_id("req_", c->request_id);
    c->envelope =
        tt_reply_envelope(target, tt_http1_field(&c->http, "anthropic-version", NULL) != NULL);
    c->route = tt_route_find(target, c->model);
    if (c->route == TT_ROUTE_MESSAGES || c->route == TT_ROUTE_MESSAGES_COUNT)
        c->envelope = TT_ENVELOPE_ANTHROPIC; /* however it was written */
    if (!tt_http_admit(&policy, &c->http, &c->verdict))
        refuse_later(c, c->verdict.status, c->verdict.code, c->verdict.text);
    else if (!c->verdict.preflight)
        check_route(c);
    if (c->refusal.status == 0 && tt_http1_has_body(&c->http))
        reserve_body(c);
}

/* False: the connection is in another state now, or gone. */
static bool on_head(tt_conn *c)
{
    begin_request(c);
    if (c->refusal.status != 0 && tt_http1_has_body(&c->http)) {
        tt_refusal why = c->refusal;
        refuse_and_drain(c, why.status, why.code, why.param, why.message);
        return false;
    }
    if (tt_http1_expects_continue(&c->http)) {
        evbuffer_add_printf(c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        return tt_conn_send(c);
    }
    return true;
}

/* ---- a body ---- */

/* A large body is not moved while it grows: its memory is asked for at once, and costs nothing
 * until it is written to. */
static void make_room(tt_conn *c, size_t n)
{
    uint64_t most = tt_body_limit(c->server->context);
    if (c->body.len == 0 && c->reserved > 0)
        tt_buf_reserve(&c->body, c->reserved);
    else if (c->body.len + n >= c->body.cap && c->body.len > TT_READ_AT_ONCE)
        tt_buf_reserve(&c->body, most - c->body.len);
}

static bool on_body(tt_conn *c, const char *bytes, size_t n)
{
    uint64_t need = c->body.len + n;
    c->moved = tt_now();
    if (need > c->reserved) {
        uint64_t more = need - c->reserved;
        more = more < TT_READ_AT_ONCE ? TT_READ_AT_ONCE : more;
        if (!tt_request_memory_take(&c->server->memory, more)) {
            refuse_memory(c, c->reserved);
            tt_refusal why = c->refusal;
            refuse_and_drain(c, why.status, why.code, why.param, why.message);
            return false;
        }
        c->reserved += more;
    }
    make_room(c, n);
    tt_buf_append(&c->body, bytes, n);
    if (c->body.failed == TT_OK)
        return true;
    refuse_and_drain(c, 503, "memory_full", NULL, "there is no memory for the body");
    return false;
}

/* ---- the end of a request ---- */

static bool is_stored(const tt_conn *c)
{
    return c->route == TT_ROUTE_RESPONSE || c->route == TT_ROUTE_RESPONSE_ITEMS ||
           c->route == TT_ROUTE_RESPONSE_CANCEL;
}

static bool is_work(const tt_conn *c)
{
    return c->route == TT_ROUTE_UNLOAD ||
           (c->route >= TT_ROUTE_CHAT && c->route < TT_ROUTE_OTHER && !is_stored(c));
}

static bool on_end(tt_conn *c)
{
    tt_server *s = c->server;
    if (c->refusal.status != 0) {
        tt_answer_refusal(c, c->refusal.status, c->refusal.code, c->refusal.param,
                          c->refusal.message);
        tt_answer_log(s, c, NULL, NULL, tt_reply_status(c->envelope, c->refusal.status),
                      c->refusal.code);
    } else if (c->verdict.preflight || strcmp(tt_http1_method(&c->http), "OPTIONS") == 0) {
        tt_answer_text(c, 204, NULL, "", 0);
        tt_answer_log(s, c, NULL, NULL, 204, NULL);
    } else if (is_work(c)) {
        c->state = TT_CONN_WORKING;
        tt_server_admit(s, c);
        return false;
    } else if (is_stored(c)) {
        tt_response_page(c);
    } else {
        tt_page_answer(c);
    }
    return tt_conn_done(c) && c->state == TT_CONN_READING;
}

static void on_refused(tt_conn *c, tt_http1_refusal why)
{
    name_request(c);
    refuse_and_drain(c, tt_http1_refusal_status(why), tt_http1_refusal_code(why), NULL,
                     tt_http1_refusal_text(why));
}

/* ---- reading ---- */

enum { GO_ON, WAIT, LEAVE /* the connection is in another state now, or gone */ };

/* One event of the reader. */
static int step(tt_conn *c)
{
    tt_http1_event event;
    size_t have = evbuffer_get_contiguous_space(c->in);
    const char *bytes = have > 0 ? (const char *)evbuffer_pullup(c->in, (ev_ssize_t)have) : "";
    size_t took = tt_http1_feed(&c->http, bytes, have, &event);
    if (event.kind == TT_HTTP1_REFUSED) {
        on_refused(c, event.why);
        return LEAVE;
    }
    if (event.kind == TT_HTTP1_BODY && !on_body(c, event.data, event.len))
        return LEAVE;
    evbuffer_drain(c->in, took);
    if (event.kind == TT_HTTP1_HEAD)
        return on_head(c) ? GO_ON : LEAVE;
    if (event.kind == TT_HTTP1_END)
        return on_end(c) ? GO_ON : LEAVE;
    return event.kind == TT_HTTP1_BODY || evbuffer_get_length(c->in) > 0 ? GO_ON : WAIT;
}

static void process(tt_conn *c)
{
    int turns = 0, next = GO_ON;
    /* A client that does not read its answers gets no more of them. */
    while (next == GO_ON && c->state == TT_CONN_READING &&
           evbuffer_get_length(c->out) < c->server->bounds.outbox) {
        if (turns++ == EVENTS_A_TURN) {
            event_active(c->read, EV_READ, RETRY_NOW);
            break;
        }
        next = step(c);
    }
    if (next == LEAVE)
        return;
    if (c->state == TT_CONN_READING && c->head_begun <= 0 && tt_http1_in_head(&c->http))
        c->head_begun = tt_now();
    if (c->paused && evbuffer_get_length(c->in) < TT_PIPELINED_AHEAD)
        event_active(c->read, EV_READ, RETRY_NOW);
    tt_conn_arm(c);
}

static void drain(tt_conn *c)
{
    size_t n = evbuffer_get_length(c->in);
    evbuffer_drain(c->in, n);
    c->drained += n;
    if (c->drained > TT_DRAINED_BYTES)
        tt_conn_close(c);
}

/* What is not read now stays where it is, until there is room and somebody says so: that more came
 * is told once. That the connection broke is told too, and must not wait. */
static bool pause_reading(tt_conn *c)
{
    int e = 0;
    socklen_t len = sizeof e;
    c->paused = true;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &len) == 0 && e == 0)
        return true;
    tt_conn_close(c);
    return false;
}

/* False: the connection is gone. */
static bool read_bytes(tt_conn *c)
{
    char *bytes = c->server->scratch;
    if (c->state == TT_CONN_FLUSHING ||
        (c->state != TT_CONN_DRAINING && evbuffer_get_length(c->in) >= TT_PIPELINED_AHEAD))
        return pause_reading(c);
    c->paused = false;
    ssize_t n = recv(c->fd, bytes, TT_READ_AT_ONCE, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        tt_conn_close(c);
        return false;
    }
    if (n > 0) {
        c->moved = tt_now();
        evbuffer_add(c->in, bytes, (size_t)n);
    }
    /* That there is something to read is told once: until there is nothing, we come back. */
    if (n > 0 || errno == EINTR)
        event_active(c->read, EV_READ, RETRY_NOW);
    return true;
}

static void on_read(evutil_socket_t fd, short what, void *ctx)
{
    tt_conn *c = ctx;
    tt_server *s = c->server;
    double begun = tt_now();
    (void)fd;
    if (what & EV_CLOSED)
        tt_conn_close(c);
    else if (read_bytes(c)) {
        if (c->state == TT_CONN_DRAINING)
            drain(c);
        else if (c->state == TT_CONN_READING)
            process(c);
    }
    tt_server_timed(s, begun);
}

/* ---- accepting ---- */

/* Edges: a connection whose bytes are left unread must still be heard when it breaks, and a level
 * would be told again and again. */
static bool make_events(tt_conn *c)
{
    struct event_base *base = c->server->base;
    c->read = event_new(base, c->fd, EV_READ | EV_CLOSED | EV_PERSIST | EV_ET, on_read, c);
    c->write = event_new(base, c->fd, EV_WRITE | EV_ET, on_write, c);
    c->timer = evtimer_new(base, on_timer, c);
    c->in = evbuffer_new();
    c->out = evbuffer_new();
    return c->read != NULL && c->write != NULL && c->timer != NULL && c->in != NULL &&
           c->out != NULL && event_add(c->read, NULL) == 0;
}

void tt_conn_accept(tt_server *s, int fd, bool local)
{
    int one = 1, send_buffer = TT_SEND_BUFFER;
    bool extra = s->n_connections >= s->most_connections;
    tt_conn *c = !extra || s->n_extra < MOST_EXTRA ? calloc(1, sizeof *c) : NULL;
    if (c == NULL) {
        close(fd);
        return;
    }
    c->server = s;
    c->fd = fd;
    c->local = local;
    c->extra = extra;
    c->next = s->connections;
    if (c->next != NULL)
        c->next->prev = c;
    s->connections = c;
    s->n_connections += !extra;
    s->n_extra += extra;
    c->moved = tt_now();
    c->route = TT_ROUTE_OTHER;
    tt_http1_init(&c->http);
    tt_buf_init(&c->body, TT_BODY_MOST);
    if (!local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
    if (!make_events(c)) {
        tt_conn_close(c);
        return;
    }
    if (extra) {
        tt_random_id("req_", c->request_id);
        c->retry_after = 1;
        refuse_and_drain(c, 503, "too_many_connections", NULL,
                         "there are as many connections as there may be");
        return;
    }
    tt_conn_arm(c);
}
