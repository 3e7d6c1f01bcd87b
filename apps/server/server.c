/* Listeners, admission, what becomes of jobs, the end. */
#include "server/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "server/answer.h"
#include "server/messages_answer.h"
#include "server/readiness.h"
#include "server/response_answer.h"
#include "server/server_int.h"
#include "server/server_options.h"

#define BACKLOG      128
#define LAST_SECONDS 2    /* what has been answered may still be read, once all work is done */
#define NEWER_SHARE  0.25 /* of the mean that a request takes */
#define NEWS_AT_ONCE 32

void tt_server_bounds_default(tt_server_bounds *b)
{
    *b = (tt_server_bounds){.header = TT_HEADER_SECONDS,
                            .body = TT_BODY_SECONDS,
                            .keep_alive = TT_KEEP_ALIVE,
                            .drained = TT_DRAINED_SECONDS,
                            .heartbeat = TT_HEARTBEAT_SECONDS,
                            .shutdown = TT_SHUTDOWN_SECONDS,
                            .outbox = TT_OUTBOX,
                            .request_memory = TT_REQUEST_MEMORY};
}

void tt_server_timed(tt_server *s, double begun)
{
    tt_histogram_add(&s->metrics.loop, tt_now() - begun);
}

static void wake(void *ctx)
{
    tt_server *s = ctx;
    uint64_t one = 1;
    ssize_t n = write(s->wake_fd, &one, sizeof one);
    (void)n; /* a counter that is full wakes as well */
}

/* ---- jobs ---- */

static void free_job(tt_server *s, tt_job *job)
{
    tt_request_memory_give(&s->memory, job->reserved);
    tt_job_free(job);
    tt_server_check_end(s);
}

/* Ends the request of a connection with a refusal, or, once its stream has begun, with an event. */
static void fail_conn(tt_conn *c, int status, const char *code, const char *param,
                      const char *message)
{
    tt_buf b;
    const tt_job *job = c->job;
    if (!c->streaming) {
        tt_answer_refusal(c, status, code, param, message);
    } else {
        tt_buf_init(&b, TT_BODY_MOST);
        if (job->kind == TT_JOB_RESPONSE)
            tt_response_write_failure(&b, job->chunked, &job->response, job->created, job->sequence,
                                      code, message);
        else if (job->kind == TT_JOB_MESSAGES)
            tt_messages_write_failure(&b, job->chunked, status, code, message, c->request_id);
        else
            tt_answer_write_failure(&b, job->chunked, status, code, message);
        if (b.failed == TT_OK)
            evbuffer_add(c->out, b.data, b.len);
        tt_buf_free(&b);
    }
}

void tt_server_drop_job(tt_server *s, tt_job *job, tt_job_why why)
{
    atomic_store(&job->cancel, true);
    if (job->why == TT_WHY_NOT)
        job->why = why;
    if (why == TT_WHY_LEFT)
        s->metrics.cancelled++;
    if (!job->admitted || !tt_work_remove(s->work, job))
        return; /* it is being prepared or computed: there will be news */
    s->admitted--;
    if (job->conn == NULL) {
        tt_answer_log(s, NULL, job, NULL, 499, NULL);
        free_job(s, job);
    }
}

static unsigned retry_after(tt_server *s)
{
    tt_work_view v;
    tt_work_look(s->work, &v);
    double left = s->mean_seconds - (v.running > 0 ? tt_now() - v.running_since : 0);
    return left < 1 ? 1 : left > 3600 ? 3600 : (unsigned)(left + 0.999);
}

static tt_job_kind kind_of(tt_route route)
{
    switch (route) {
    case TT_ROUTE_CHAT:
        return TT_JOB_CHAT;
    case TT_ROUTE_TEXT:
        return TT_JOB_TEXT;
    case TT_ROUTE_MESSAGES:
        return TT_JOB_MESSAGES;
    case TT_ROUTE_MESSAGES_COUNT:
        return TT_JOB_MESSAGES_COUNT;
    case TT_ROUTE_UNLOAD:
        return TT_JOB_UNLOAD;
    case TT_ROUTE_RESPONSES:
        return TT_JOB_RESPONSE;
    case TT_ROUTE_RESPONSE_COMPACT:
        return TT_JOB_COMPACT;
    default:
        return TT_JOB_COUNT;
    }
}

void tt_server_admit(tt_server *s, tt_conn *c)
{
    tt_job *job = tt_job_new(kind_of(c->route));
    if (job == NULL) {
        tt_answer_refusal(c, 503, "memory_full", NULL, "there is no memory for the request");
        tt_answer_log(s, c, NULL, NULL, 503, "memory_full");
        (void)tt_conn_done(c);
        return;
    }
    job->conn = c;
    job->arrived = c->arrived;
    memcpy(job->request_id, c->request_id, sizeof c->request_id);
    job->path = tt_route_names[c->route];
    job->chunked = !tt_http1_is_old(&c->http);
    job->created = (int64_t)time(NULL);
    job->responses = s->responses;
    job->grammars = s->grammars;
    tt_buf_free(&job->body);
    job->body = c->body;
    tt_buf_init(&c->body, TT_BODY_MOST);
    job->reserved = c->reserved;
    c->reserved = 0;
    c->job = job;
    s->preparing++;
    tt_work_prepare(s->work, job);
}

/* Answers a job that is not computed, and forgets it. */
static void refuse_job(tt_server *s, tt_job *job, int status, const char *code, const char *param,
                       const char *message, unsigned after)
{
    tt_conn *c = job->conn;
    c->retry_after = after;
    fail_conn(c, status, code, param, message);
    tt_answer_log(s, NULL, job, NULL, c->streaming ? 200 : tt_reply_status(c->envelope, status),
                  code);
    c->job = NULL;
    job->conn = NULL;
    free_job(s, job);
    (void)tt_conn_done(c);
}

static void begin_stream(tt_conn *c)
{
    tt_answer_stream_head(c);
    c->streaming = true;
    c->last_out = tt_now();
    tt_conn_arm(c);
    (void)tt_conn_send(c);
}

static void on_prepared(tt_server *s, tt_job *job, tt_job_news *news)
{
    tt_conn *c = job->conn;
    job->told_prepared = true;
    s->preparing--;
    if (c == NULL) {
        tt_answer_log(s, NULL, job, NULL, 499, NULL);
        free_job(s, job);
    } else if (job->refusal.status != 0) {
        tt_refusal why = job->refusal;
        refuse_job(s, job, why.status, why.code, why.param, why.message,
                   strcmp(why.code, "memory_full") == 0 ? 1 : 0);
    } else if (tt_job_counts(job->kind)) {
        tt_answer_json(c, &news->out);
        tt_answer_log(s, NULL, job, NULL, 200, NULL);
        c->job = NULL;
        free_job(s, job);
        (void)tt_conn_done(c);
    } else if (s->stopping) {
        refuse_job(s, job, 503, "shutting_down", NULL, "the server is ending", TT_SHUTDOWN_SECONDS);
    } else if (s->admitted >= s->config.queue_limit + s->config.sequences) {
        refuse_job(s, job, 429, "queue_full", NULL, "as many requests wait as may wait",
                   retry_after(s));
    } else {
        s->admitted++;
        job->admitted = true;
        job->admitted_at = tt_now();
        tt_work_run(s->work, job);
        if (job->request.stream)
            begin_stream(c);
    }
}

static void overflow(tt_server *s, tt_job *job)
{
    tt_conn *c = job->conn;
    fail_conn(c, 500, "stream_overflow", NULL, "the client does not read what it asked for");
    c->job = NULL;
    job->conn = NULL;
    tt_server_drop_job(s, job, TT_WHY_OVERFLOW);
    c->state = TT_CONN_FLUSHING; /* what was told before it, and this, may still be read */
    c->moved = tt_now();
    tt_conn_arm(c);
    (void)tt_conn_send(c);
}

/* Events of a stream. False: there is no connection for them any more. */
static bool on_events(tt_server *s, tt_job *job, const tt_job_news *news)
{
    tt_conn *c = job->conn;
    if (c == NULL || !job->request.stream || news->out.len == 0)
        return c != NULL;
    /* What is unread counts, not what comes: one event may be long. */
    if (evbuffer_get_length(c->out) > s->bounds.outbox) {
        overflow(s, job);
        return false;
    }
    evbuffer_add(c->out, news->out.data, news->out.len);
    c->told = true;
    job->sequence = news->sequence;
    c->last_out = tt_now();
    return news->finished || tt_conn_send(c);
}

static void count_job(tt_server *s, const tt_job *job, const tt_job_news *news)
{
    const tt_turn_usage *u = &job->usage;
    double seconds = news->ended_at - news->started_at;
    tt_metrics *m = &s->metrics;
    if (job->kind == TT_JOB_UNLOAD)
        return;
    if (!job->load_failed)
        m->models[job->model].requests++;
    m->models[job->model].prompt_tokens += u->prompt;
    m->models[job->model].generated_tokens += u->generated;
    m->prompt_tokens += u->prompt;
    m->cached_tokens += u->cached;
    m->generated_tokens += u->generated;
    if (u->prefill_seconds > 0)
        m->prefill_rate = (double)(u->prompt - u->cached) / u->prefill_seconds;
    if (u->decode_seconds > 0)
        m->decode_rate = (double)u->generated / u->decode_seconds;
    s->mean_seconds =
        s->mean_seconds > 0 ? s->mean_seconds + NEWER_SHARE * (seconds - s->mean_seconds) : seconds;
}

static int end_status(const tt_job *job, const char **code)
{
    *code = job->st == TT_OK              ? NULL
            : job->why == TT_WHY_SHUTDOWN ? "shutting_down"
            : job->why == TT_WHY_OVERFLOW ? "stream_overflow"
            : job->why == TT_WHY_LEFT     ? NULL
            : job->load_failed            ? "model_load_failed"
                                          : "internal_error";
    return job->st == TT_OK              ? 200
           : job->why == TT_WHY_SHUTDOWN ? 503
           : job->why == TT_WHY_LEFT     ? 499
           : job->why == TT_WHY_OVERFLOW ? 500
           : job->load_failed            ? 503
                                         : 500;
}

static void fail_load(tt_conn *c, const tt_job *job)
{
    char sentence[TT_SENTENCE], message[TT_SENTENCE + 64];
    tt_server_options_sentence(&job->err, sentence);
    snprintf(message, sizeof message, "the model cannot be loaded: %s", sentence);
    fail_conn(c, 503, "model_load_failed", "model", message);
}

static void on_finished(tt_server *s, tt_job *job, tt_job_news *news)
{
    tt_conn *c = job->conn;
    const char *code;
    int status = end_status(job, &code);
    s->admitted--;
    count_job(s, job, news);
    if (c != NULL && job->st != TT_OK && job->load_failed && job->why == TT_WHY_NOT) {
        fail_load(c, job);
    } else if (c != NULL && job->st != TT_OK) {
        c->retry_after = status == 503 && !c->streaming ? TT_SHUTDOWN_SECONDS : 0;
        fail_conn(c, status, code, NULL,
                  status == 503 ? "the server is ending" : "the answer could not be computed");
    } else if (c != NULL && !job->request.stream) {
        tt_answer_json(c, &news->out);
    }
    /* The head of a stream said 200 whatever came later. */
    tt_answer_log(s, NULL, job, news, job->request.stream && status != 499 ? 200 : status, code);
    if (c != NULL)
        c->job = NULL;
    job->conn = NULL;
    free_job(s, job);
    if (c != NULL)
        (void)tt_conn_done(c);
}

static void on_news(tt_server *s, tt_job *job, tt_job_news *news)
{
    if (news->prepared && !job->told_prepared) {
        on_prepared(s, job, news);
        return;
    }
    if (news->started && job->admitted_at > 0) {
        tt_histogram_add(&s->metrics.queue, news->started_at - job->admitted_at);
        job->admitted_at = 0;
    }
    (void)on_events(s, job, news);
    if (news->finished)
        on_finished(s, job, news);
}

static void begin_end(tt_server *s);

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
    tt_server *s = ctx;
    double begun = tt_now();
    tt_job_news news;
    tt_job *job;
    uint64_t n;
    int taken = 0;
    (void)what;
    ssize_t got = read(fd, &n, sizeof n);
    (void)got;
    if (atomic_load(&s->stop_asked) && !s->stopping)
        begin_end(s);
    while (taken++ < NEWS_AT_ONCE && (job = tt_work_news(s->work, &news)) != NULL) {
        on_news(s, job, &news);
        tt_buf_free(&news.out);
    }
    if (taken > NEWS_AT_ONCE)
        wake(s);
    tt_server_timed(s, begun);
}

/* ---- the end ---- */

void tt_server_check_end(tt_server *s)
{
    struct timeval tv = {.tv_sec = LAST_SECONDS};
    if (!s->stopping || s->ended || s->preparing > 0 || s->admitted > 0)
        return;
    bool open = false;
    for (tt_conn *c = s->connections; c != NULL; c = c->next)
        open |= evbuffer_get_length(c->out) > 0;
    if (!open)
        event_base_loopbreak(s->base);
    else if (!s->flushing)
        event_add(s->last_call, &tv);
    s->flushing = true;
}

/* The time of the running requests is over, or that of the last bytes. */
static void on_last_call(evutil_socket_t fd, short what, void *ctx)
{
    tt_server *s = ctx;
    double begun = tt_now();
    (void)fd;
    (void)what;
    tt_work_hurry(s->work);
    if (s->preparing == 0 && s->admitted == 0)
        event_base_loopbreak(s->base);
    else
        for (tt_conn *c = s->connections; c != NULL; c = c->next)
            if (c->job != NULL)
                tt_server_drop_job(s, c->job, TT_WHY_SHUTDOWN);
    tt_server_timed(s, begun);
}

/* Waiting requests are told at once; those that run have their time. */
static void begin_end(tt_server *s)
{
    struct timeval tv = {
        .tv_sec = (time_t)s->bounds.shutdown,
        .tv_usec = (suseconds_t)((s->bounds.shutdown - (double)(time_t)s->bounds.shutdown) * 1e6)};
    s->stopping = true;
    tt_log_say(&s->config.log, "ending: %u requests in work", s->admitted + s->preparing);
    tt_readiness_send(s->config.notify_socket, "STOPPING=1\n");
    for (tt_conn *c = s->connections, *next; c != NULL; c = next) {
        next = c->next;
        tt_job *job = c->job;
        if (job == NULL || !job->admitted || !tt_work_remove(s->work, job))
            continue;
        s->admitted--;
        job->why = TT_WHY_SHUTDOWN;
        refuse_job(s, job, 503, "shutting_down", NULL, "the server is ending", TT_SHUTDOWN_SECONDS);
    }
    event_add(s->last_call, &tv);
    tt_server_check_end(s);
}

void tt_server_stop(tt_server *s)
{
    atomic_store(&s->stop_asked, true);
    wake(s);
}

static void on_signal(evutil_socket_t sig, short what, void *ctx)
{
    tt_server *s = ctx;
    double begun = tt_now();
    (void)what;
    s->signal = (int)sig;
    for (size_t i = 0; i < 3; i++)
        if (s->signals[i] != NULL) {
            int which = (int)event_get_signal(s->signals[i]);
            event_del(s->signals[i]);
            signal(which, SIG_DFL); /* the second ends the program at once */
        }
    tt_log_say(&s->config.log, "%s", tt_stop_name((int)sig));
    tt_server_stop(s);
    tt_server_timed(s, begun);
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int len,
                      void *ctx)
{
    tt_server *s = ctx;
    double begun = tt_now();
    (void)from;
    (void)len;
    tt_conn_accept(s, fd, l == s->local);
    tt_server_timed(s, begun);
}

/* Out of descriptors: the next connection that ends lets the next one in. */
static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    tt_server *s = ctx;
    if (s->n_connections > 0)
        evconnlistener_disable(l);
}

static tt_status listen_tcp(tt_server *s, tt_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(s->config.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    s->tcp = evconnlistener_new_bind(
        s->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
        BACKLOG, (struct sockaddr *)&at, sizeof at);
    if (s->tcp == NULL)
        return tt_fail_errno(err, errno, NULL,
                             "cannot listen on 127.0.0.1:%u; --port names another port",
                             s->config.port);
    evconnlistener_set_error_cb(s->tcp, on_accept_error);
    getsockname(evconnlistener_get_fd(s->tcp), (struct sockaddr *)&at, &len);
    s->port = ntohs(at.sin_port);
    return TT_OK;
}

/* Whether somebody listens on the socket that is there. */
static bool is_alive(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool alive = fd < 0 || connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 ||
                 errno != ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return alive;
}

static tt_status make_place(const struct sockaddr_un *at, tt_error *err)
{
    struct stat sb;
    if (lstat(at->sun_path, &sb) != 0)
        return TT_OK;
    if (!S_ISSOCK(sb.st_mode))
        return tt_fail_at(err, TT_ERR_EXISTS, at->sun_path, -1,
                          "is there and no socket; --unix-socket names another place");
    if (is_alive(at))
        return tt_fail_at(err, TT_ERR_EXISTS, at->sun_path, -1,
                          "another program listens on this socket");
    return unlink(at->sun_path) == 0
               ? TT_OK
               : tt_fail_errno(err, errno, at->sun_path, "the old socket cannot be removed");
}

static tt_status listen_local(tt_server *s, tt_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat sb;
    const char *path = s->config.unix_socket;
    if (strlen(path) >= sizeof at.sun_path)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "the path of a socket has at most %zu bytes",
                          sizeof at.sun_path - 1);
    memcpy(at.sun_path, path, strlen(path));
    TT_TRY(make_place(&at, err));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "no socket");
    mode_t old = umask(0177);
    int e = bind(fd, (struct sockaddr *)&at, sizeof at) == 0 ? 0 : errno;
    umask(old);
    if (e == 0 && listen(fd, BACKLOG) != 0)
        e = errno;
    if (e == 0 && stat(path, &sb) == 0) {
        s->bound_socket = true;
        s->socket_dev = sb.st_dev;
        s->socket_ino = sb.st_ino;
        s->local = evconnlistener_new(s->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE, 0, fd);
    }
    if (s->local != NULL) {
        evconnlistener_set_error_cb(s->local, on_accept_error);
        return TT_OK;
    }
    close(fd);
    return tt_fail_errno(err, e, path, "cannot listen on the socket");
}

static void remove_socket(tt_server *s)
{
    struct stat sb;
    if (s->bound_socket && stat(s->config.unix_socket, &sb) == 0 && sb.st_dev == s->socket_dev &&
        sb.st_ino == s->socket_ino)
        unlink(s->config.unix_socket);
}

/* ---- making and ending ---- */

static uint32_t connections_bound(const tt_server *s)
{
    struct rlimit r;
    uint64_t most = s->bounds.connections > 0 ? s->bounds.connections : TT_CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur != RLIM_INFINITY) {
        uint64_t left = r.rlim_cur > TT_DESCRIPTORS_SPARE ? r.rlim_cur - TT_DESCRIPTORS_SPARE : 1;
        most = most < left ? most : left;
    }
    return (uint32_t)most;
}

static tt_status make_base(tt_server *s, tt_error *err)
{
    struct event_config *config = event_config_new();
    if (config != NULL) {
        event_config_require_features(config, EV_FEATURE_EARLY_CLOSE);
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        s->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->base == NULL || s->wake_fd < 0)
        return tt_fail(err, TT_ERR_UNSUPPORTED, "no event loop that notices closed connections");
    s->woken = event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s);
    s->last_call = evtimer_new(s->base, on_last_call, s);
    if (s->woken == NULL || s->last_call == NULL || event_add(s->woken, NULL) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the event loop");
    return TT_OK;
}

static void catch_signals(tt_server *s)
{
    static const int all[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        struct sigaction old;
        if (sigaction(all[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue; /* nohup */
        s->signals[i] = evsignal_new(s->base, all[i], on_signal, s);
        if (s->signals[i] != NULL)
            event_add(s->signals[i], NULL);
    }
}

tt_status tt_server_create(const tt_server_config *config, tt_model_set *models, tt_server **out,
                           tt_error *err)
{
    tt_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the server");
    s->config = *config;
    s->config.sequences = config->sequences > 0 ? config->sequences : 1;
    s->bounds = config->bounds;
    s->models = models;
    s->context = tt_model_set_context(models);
    s->memory.most = s->bounds.request_memory;
    s->begun = tt_now();
    s->wake_fd = -1;
    s->most_connections = connections_bound(s);
    tt_metrics_init(&s->metrics);
    tt_tree_memory_install();
    tt_status st = tt_chat_page_fields(s->page_fields, err);
    if (st == TT_OK)
        st = make_base(s, err);
    if (st == TT_OK)
        st = listen_tcp(s, err);
    if (st == TT_OK && config->unix_socket != NULL)
        st = listen_local(s, err);
    s->responses = tt_response_store_create(TT_STORED_RESPONSES, TT_STORED_BYTES);
    if (st == TT_OK && s->responses == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the server");
    if (st == TT_OK)
        st = tt_grammar_shelf_create(TT_GRAMMARS, &s->grammars, err);
    if (st == TT_OK)
        st = tt_work_create(models, s->config.sequences, &s->memory, wake, s, &s->work, err);
    if (st != TT_OK) {
        tt_server_close(&s);
        return st;
    }
    if (config->signals)
        catch_signals(s);
    *out = s;
    return TT_OK;
}

uint16_t tt_server_port(const tt_server *s)
{
    return s->port;
}

tt_status tt_server_run(tt_server *s, int *sig, tt_error *err)
{
    char several[32];
    snprintf(several, sizeof several, "a folder of %zu models", tt_model_set_count(s->models));
    tt_log_say(&s->config.log, "%s listens on 127.0.0.1:%u%s%s",
               tt_model_set_count(s->models) > 1 ? several : tt_model_set_name(s->models, 0),
               s->port, s->config.unix_socket != NULL ? " and " : "",
               s->config.unix_socket != NULL ? s->config.unix_socket : "");
    tt_readiness_send(s->config.notify_socket, "READY=1\n");
    /* One that came before the loop could see it. */
    if (s->config.signals && tt_stop_signal() != 0)
        on_signal(tt_stop_signal(), 0, s);
    if (event_base_dispatch(s->base) < 0)
        return tt_fail(err, TT_ERR_INTERNAL, "the event loop failed");
    tt_log_say(&s->config.log, "ended");
    *sig = s->signal;
    return TT_OK;
}

void tt_server_close(tt_server **p)
{
    tt_server *s = p != NULL ? *p : NULL;
    if (s == NULL)
        return;
    s->ended = true;
    for (tt_conn *c = s->connections; c != NULL; c = c->next) {
        if (c->job != NULL)
            c->job->conn = NULL; /* freed with the work */
        c->job = NULL;
    }
    while (s->connections != NULL)
        tt_conn_close(s->connections);
    tt_work_close(&s->work);
    tt_response_store_close(&s->responses);
    tt_grammar_shelf_close(&s->grammars);
    if (s->tcp != NULL)
        evconnlistener_free(s->tcp);
    if (s->local != NULL)
        evconnlistener_free(s->local);
    remove_socket(s);
    struct event *events[] = {s->woken, s->last_call, s->signals[0], s->signals[1], s->signals[2]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i] != NULL)
            event_free(events[i]);
    if (s->base != NULL)
        event_base_free(s->base);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    free(s);
    *p = NULL;
}
