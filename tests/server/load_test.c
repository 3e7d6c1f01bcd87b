/* Proves that many clients at once get what each would get alone: active connections, streams that
 * wait, clients that read late or not at all; and that nothing is left behind when they have gone.
 * With the number of a port as its argument it does so to the server that listens there.
 * LOAD_ROUNDS says how often (1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "base/json.h"
#include "wire.h"

#define ACTIVE 64
#define IDLE   500
#define SLOW   8
#define LATE   8

static const char script[] =
    "[{\"match\":\"hold\",\"steps\":[{\"gate\":true},{\"text\":\"through\"}]},"
    "{\"match\":\"flood\",\"steps\":[{\"text\":\"0123456789012345678901234567890123456789\"},"
    "{\"times\":40000}]},"
    "{\"match\":\"late\",\"steps\":[{\"text\":\"0123456789012345678901234567890123456789\"},"
    "{\"times\":2000}]},"
    "{\"match\":\"think\",\"steps\":[{\"thought\":\"hm\"},{\"text\":\"so\"},{\"call\":{\"name\":"
    "\"look\",\"arguments\":{\"at\":1}}}]},"
    "{\"steps\":[{\"text\":\"Once \"},{\"text\":\"upon \"},{\"text\":\"a time\"}]}]";

static uint16_t port; /* of another process; 0: the server of this one */
static char model[128];
static unsigned rounds = 1;

/* ---- requests; %s is the model ---- */

#define USER(text) "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"

typedef struct ask_for {
    const char *method, *path, *body;
    int status;
} ask_for;

static const ask_for pages[] = {
    {"GET", "/v1/models", NULL, 200},
    {"POST", "/tokenize", USER("How many?") "}", 200},
    {"GET", "/metrics", NULL, 200},
    {"POST", "/v1/chat/completions", "{\"model\":\"%s", 400},
    {"GET", "/v1/status", NULL, 200},
    {"POST", "/v1/chat/completions", "{\"model\":\"not-%s\"}", 404},
};
static const ask_for chats[] = {
    {"POST", "/v1/chat/completions", USER("think") ",\"stream\":true,\"max_tokens\":8}", 200},
    {"POST", "/v1/chat/completions", USER("Tell.") ",\"max_tokens\":8,\"logprobs\":true}", 200},
    {"POST", "/v1/completions",
     "{\"model\":\"%s\",\"prompt\":\"Once\",\"stream\":true,\"max_tokens\":6}", 200},
    {"GET", "/health", NULL, 200},
    {"POST", "/v1/chat/completions", USER("Two.") ",\"n\":2,\"stream\":true,\"max_tokens\":4}",
     200},
};
/* One that is over before the server has heard that it began. */
static const ask_for at_once = {"POST", "/v1/chat/completions", USER("x") ",\"max_tokens\":1}",
                                200};
static const ask_for first_idle = {"POST", "/v1/chat/completions",
                                   USER("hold") ",\"stream\":true,\"max_tokens\":2000}", 200};
static const ask_for idle = {"POST", "/v1/chat/completions",
                             USER("hold") ",\"stream\":true,\"max_tokens\":3}", 200};
/* Much text a token, and no end of it: many choices, every chance, every word as good. */
static const ask_for flood = {"POST", "/v1/chat/completions",
                              USER("flood") ",\"stream\":true,\"n\":8,\"logprobs\":true,"
                                            "\"top_logprobs\":20,\"temperature\":2,\"top_k\":0,"
                                            "\"top_p\":1,\"min_p\":0}",
                              200};
static const ask_for late = {"POST", "/v1/chat/completions",
                             USER("late") ",\"stream\":true,\"max_tokens\":1000}", 200};

/* ---- clients ---- */

typedef struct client {
    int fd;
    char *in;
    size_t n, cap;
    const ask_for *list; /* in turn, `left` requests in all */
    size_t n_list, at, left;
    bool overflow; /* it is to be told so */
    bool begun;    /* the head of its answer has come */
    unsigned pings;
} client;

/* Little is received ahead, but more than a segment of the loopback: below that the kernel tells of
 * room only when asked, less and less often, and an answer may stand still for two minutes. */
static int dial_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(port > 0 ? port : tt_server_port(w.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), few = 128 << 10;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void send_next(client *c)
{
    const ask_for *a = &c->list[c->at++ % c->n_list];
    char body[1024];
    if (a->body != NULL)
        snprintf(body, sizeof body, a->body, model); /* NOLINT: the formats are those above */
    ask(c->fd, a->method, a->path, "", a->body != NULL ? body : NULL);
    c->begun = false;
}

static void begin(client *c, const ask_for *list, size_t n_list, size_t at, size_t requests)
{
    *c = (client){.fd = dial_server(), .list = list, .n_list = n_list, .at = at, .left = requests};
    send_next(c);
}

static void end(client *c)
{
    close(c->fd);
    free(c->in);
    *c = (client){.fd = -1};
}

/* ---- answers ---- */

static void check_json(const char *text, size_t n)
{
    json_error_t e;
    json_t *v = json_loadb(text, n, JSON_ALLOW_NUL, &e);
    if (v == NULL)
        fail_msg("no JSON (%s at byte %d of %zu): %.*s", e.text, e.position, n,
                 (int)(n < 600 ? n : 600), text + (e.position > 300 ? e.position - 300 : 0));
    json_decref(v);
}

/* Every event is JSON, the last one is the end, and nothing but pings comes between. */
static void check_stream(const client *c, const char *answer)
{
    char *events = unchunked(answer), *next;
    size_t n = 0;
    bool done = false;
    for (char *at = events; *at != '\0'; at = next + 2, n++) {
        next = strstr(at, "\n\n");
        assert_non_null(next);
        assert_false(done);
        *next = '\0';
        done = strcmp(at, "data: [DONE]") == 0;
        if (strncmp(at, "data: ", 6) == 0 && !done)
            check_json(at + 6, strlen(at + 6));
        else
            assert_true(done || strcmp(at, ": ping") == 0);
    }
    assert_true(done && n > 1);
    free(events);
    /* A real model may come to an end before its reader is too far behind; its script counts. */
    if (c->overflow && port == 0)
        expect(answer + strlen(answer) - 400, "\"code\":\"stream_overflow\"");
    else if (!c->overflow)
        expect_not(answer, "{\"error\":");
}

/* Length of the answer that stands at the beginning, or 0 when it is not whole. */
static size_t answer_length(const char *text, size_t n)
{
    const char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "\r\nContent-Length: ");
    if (body == NULL)
        return 0;
    body += 4;
    if (length != NULL && length < body) {
        size_t all = (size_t)(body - text) + strtoul(length + 18, NULL, 10);
        return all <= n ? all : 0;
    }
    return n >= 7 && memcmp(text + n - 7, "\r\n0\r\n\r\n", 7) == 0 ? n : 0;
}

static void check_answer(const client *c, char *text, size_t n)
{
    char want[32];
    const ask_for *a = &c->list[(c->at - 1) % c->n_list];
    char after = text[n];
    snprintf(want, sizeof want, "HTTP/1.1 %d ", a->status);
    if (strncmp(text, want, strlen(want)) != 0)
        fail_msg("%s %s: %s", a->method, a->path, text);
    text[n] = '\0';
    if (strstr(text, "text/event-stream") != NULL)
        check_stream(c, text);
    else if (strstr(text, "Content-Type: application/json") != NULL)
        check_json(strstr(text, "\r\n\r\n") + 4, strlen(strstr(text, "\r\n\r\n") + 4));
    text[n] = after;
}

/* What has come; false when nothing more is expected of this client. */
static bool take(client *c)
{
    if (c->cap < c->n + 65537) {
        c->cap = c->cap * 2 + 65537;
        c->in = realloc(c->in, c->cap);
        assert_non_null(c->in);
    }
    ssize_t got = recv(c->fd, c->in + c->n, 65536, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        fail_msg("closed (%s) before %s, with %zu left; %zu bytes of the answer came, the last: %s",
                 got < 0 ? strerror(errno) : "FIN", c->list[(c->at - 1) % c->n_list].path, c->left,
                 c->n,
                 c->n > 300 ? c->in + c->n - 300
                 : c->n > 0 ? c->in
                            : "none");
    c->n += (size_t)got;
    c->in[c->n] = '\0';
    c->begun |= strstr(c->in, "\r\n\r\n") != NULL;
    if (got <= 64 && strstr(c->in + c->n - (size_t)got, ": ping") != NULL)
        c->pings++;
    size_t len = answer_length(c->in, c->n);
    if (len == 0)
        return true;
    check_answer(c, c->in, len);
    memmove(c->in, c->in + len, c->n - len + 1);
    c->n -= len;
    assert_int_equal(c->n, 0);
    if (--c->left > 0)
        send_next(c);
    return c->left > 0;
}

static bool all_done(const client *c, size_t n, unsigned pings)
{
    for (size_t i = 0; i < n; i++)
        if (c[i].left > 0 && (pings == 0 || !c[i].begun || c[i].pings < pings))
            return false;
    return true;
}

/* Reads until everybody is done, or, with `pings`, has begun and heard so many. */
static void drive(client *c, size_t n, unsigned pings)
{
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e[64];
    for (size_t i = 0; i < n; i++) {
        e[0] = (struct epoll_event){.events = EPOLLIN, .data.ptr = &c[i]};
        assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, c[i].fd, &e[0]), 0);
    }
    while (!all_done(c, n, pings)) {
        int k = epoll_wait(ep, e, 64, LONG_ENOUGH);
        assert_true(k > 0 || (k < 0 && errno == EINTR)); /* stopped and continued */
        for (int i = 0; i < k; i++) {
            client *one = e[i].data.ptr;
            if (!take(one))
                epoll_ctl(ep, EPOLL_CTL_DEL, one->fd, NULL);
        }
    }
    close(ep);
}

static void heads_have_come(client *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        while (!c[i].begun) {
            struct pollfd p = {.fd = c[i].fd, .events = POLLIN};
            assert_int_equal(poll(&p, 1, LONG_ENOUGH), 1);
            if (!take(&c[i]))
                break;
        }
}

/* ---- what is left behind ---- */

static char *page(const char *path)
{
    int fd = dial_server();
    ask(fd, "GET", path, "", NULL);
    char *text = take_answer(fd);
    close(fd);
    return text;
}

static bool says(const char *path, const char *what)
{
    char *text = page(path);
    bool found = strstr(text, what) != NULL;
    free(text);
    return found;
}

/* What is told below becomes true when the server hears that its clients have gone. */
static void nothing_is_left(void)
{
    while (!says("/v1/status", "\"connections\":1,\"request_memory_bytes\":0,"))
        ;
    assert_true(says("/v1/status", "\"queue\":{\"running\":0,\"waiting\":0,"));
    char *text = page("/metrics");
    printf("# %s", strstr(text, "\ntinytitan_loop_max_seconds ") + 1);
    free(text);
}

/* ---- the load ---- */

static client idles[IDLE], actives[ACTIVE], slows[SLOW], lates[LATE];

static void begin_actives(const ask_for *list, size_t n_list)
{
    for (size_t i = 0; i < ACTIVE; i++)
        begin(&actives[i], list, n_list, i, n_list * 4);
}

static void end_all(client *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        end(&c[i]);
}

/* 500 streams wait; 64 connections are answered meanwhile; then everybody is. */
static void idle_streams(void)
{
    for (size_t i = 0; i < IDLE; i++)
        begin(&idles[i], i == 0 ? &first_idle : &idle, 1, 0, 1);
    heads_have_come(idles, IDLE);
    begin_actives(pages, sizeof pages / sizeof pages[0]);
    drive(actives, ACTIVE, 0);
    end_all(actives, ACTIVE);
    if (port == 0) {
        drive(idles, IDLE, 2);
        scripted_engine_open_gate(w.engine);
    }
    begin_actives(chats, sizeof chats / sizeof chats[0]);
    drive(actives, ACTIVE, 0);
    drive(idles, IDLE, 0);
    end_all(actives, ACTIVE);
    end_all(idles, IDLE);
    if (port == 0)
        scripted_engine_shut_gate(w.engine);
}

/* Those that do not read are cut off, those that read late are not, and nobody waits for them. */
static void slow_readers(void)
{
    for (size_t i = 0; i < SLOW; i++) {
        begin(&slows[i], &flood, 1, 0, 1);
        slows[i].overflow = true;
    }
    for (size_t i = 0; i < LATE; i++)
        begin(&lates[i], &late, 1, 0, 1);
    begin_actives(chats, sizeof chats / sizeof chats[0]);
    drive(actives, ACTIVE, 0);
    drive(slows, SLOW, 0);
    drive(lates, LATE, 0);
    char end_of_file;
    for (size_t i = 0; port == 0 && i < SLOW; i++)
        assert_int_equal(recv(slows[i].fd, &end_of_file, 1, 0), 0);
    end_all(actives, ACTIVE);
    end_all(slows, SLOW);
    end_all(lates, LATE);
}

static void short_answers(void)
{
    for (size_t i = 0; i < ACTIVE; i++)
        begin(&actives[i], &at_once, 1, 0, 50);
    drive(actives, ACTIVE, 0);
    end_all(actives, ACTIVE);
}

static void load(void **state)
{
    (void)state;
    json_t *list;
    char *text = page("/v1/models");
    assert_int_equal(tt_json_parse(strstr(text, "{"), strlen(strstr(text, "{")), "m", &list, NULL),
                     TT_OK);
    const json_t *first = json_array_get(json_object_get(list, "data"), 0);
    snprintf(model, sizeof model, "%s", json_string_value(json_object_get(first, "id")));
    json_decref(list);
    free(text);
    for (unsigned i = 0; i < rounds; i++) {
        idle_streams();
        slow_readers();
        short_answers();
        nothing_is_left();
    }
}

static int scripted(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.queue_limit = 600;
    w.config.bounds.heartbeat = 0.1;
    w.config.bounds.connections = 1024;
    wire_start();
    return 0;
}

static int scripted_end(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

/* Both ends are in this process. */
static void raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < 2048) {
        r.rlim_cur = r.rlim_max < 2048 ? r.rlim_max : 2048;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

int main(int argc, char **argv)
{
    const char *n = getenv("LOAD_ROUNDS");
    const struct CMUnitTest there[] = {cmocka_unit_test(load)};
    const struct CMUnitTest here[] = {
        cmocka_unit_test_setup_teardown(load, scripted, scripted_end)};
    rounds = n != NULL ? (unsigned)strtoul(n, NULL, 10) : 1;
    raise_descriptors();
    if (argc > 1)
        port = (uint16_t)strtoul(argv[1], NULL, 10);
    return argc > 1 ? cmocka_run_group_tests(there, NULL, NULL)
                    : cmocka_run_group_tests(here, NULL, NULL);
}
