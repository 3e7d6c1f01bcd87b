/* wire.h: a server in a thread of the test, and clients on plain sockets.
 *
 * Owns:      both ends of every connection.
 * Not here:  what is asked and expected (*_wire_test.c).
 * Laws:      a client waits for bytes and never for time.
 * Threads:   the test's.
 */
#ifndef TT_TEST_WIRE_H
#define TT_TEST_WIRE_H

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/prompt_render.h"
#include "server/server.h"
#include "support/scripted_engine.h"
#include "support/tempdir.h"

#define LONG_ENOUGH 120000 /* milliseconds: a test that waits so long has failed */

#define WIRE_MODELS 4

typedef struct wire {
    scripted_engine *engine; /* the first */
    scripted_engine *engines[WIRE_MODELS];
    tt_server_engine seams[WIRE_MODELS];
    size_t n_engines;
    scripted_journal *journal;
    tt_model_set_options models;
    tt_model_set *set;
    tt_server_config config;
    tt_server *server;
    pthread_t thread;
    char dir[512], log[600];
    bool ended;
} wire;

static wire w;

static inline void *wire_run(void *ctx)
{
    int sig;
    tt_error err;
    (void)ctx;
    if (tt_server_run(w.server, &sig, &err) != TT_OK)
        fail_msg("%s", err.message);
    return NULL;
}

static inline scripted_engine *wire_add_model(const char *id, const char *script, uint32_t context)
{
    scripted_engine *e = scripted_engine_open(script, context, tt_prompt_render);
    scripted_engine_set_id(e, id);
    scripted_engine_join(e, w.journal);
    w.seams[w.n_engines] = scripted_engine_seam(e);
    w.engines[w.n_engines++] = e;
    return e;
}

/* Everything that a test may change in w.config and w.models comes between these two. */
static inline void wire_prepare(const char *script)
{
    memset(&w, 0, sizeof w);
    signal(SIGPIPE, SIG_IGN); /* as the program has it (base/stop.h) */
    tempdir_make(w.dir);
    tempdir_file(w.dir, "log", "", 0, w.log);
    w.journal = scripted_journal_open();
    w.engine = wire_add_model("scripted_4-Bit", script, 2048);
    w.config.queue_limit = 4;
    w.config.log.fd = open(w.log, O_WRONLY | O_APPEND | O_CLOEXEC);
    tt_server_bounds_default(&w.config.bounds);
}

static inline void wire_start(void)
{
    tt_error err = {.offset = -1};
    w.models.log = &w.config.log;
    if (tt_model_set_create(w.seams, w.n_engines, &w.models, &w.set, &err) != TT_OK ||
        tt_server_create(&w.config, w.set, &w.server, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    assert_int_equal(pthread_create(&w.thread, NULL, wire_run, NULL), 0);
}

static inline void wire_join(void)
{
    pthread_join(w.thread, NULL);
    w.ended = true;
}

static inline void wire_end(void)
{
    if (!w.ended) {
        tt_server_stop(w.server);
        for (size_t i = 0; i < w.n_engines; i++)
            scripted_engine_open_gate(w.engines[i]);
        wire_join();
    }
    tt_server_close(&w.server);
    tt_model_set_close(&w.set);
    for (size_t i = 0; i < w.n_engines; i++)
        scripted_engine_close(w.engines[i]);
    scripted_journal_close(w.journal);
    close(w.config.log.fd);
    tempdir_remove(w.dir);
}

/* ---- clients ---- */

static inline int dial(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(tt_server_port(w.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static inline void put(int fd, const char *text)
{
    size_t n = strlen(text);
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
}

/* Reads until `marker` has come or the server has closed; the text so far. */
static inline char *take_until(int fd, const char *marker)
{
    char *text = calloc(1, 1);
    size_t n = 0;
    while (marker == NULL || strstr(text, marker) == NULL) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, LONG_ENOUGH) != 1)
            fail_msg("nothing came; so far: %s", text);
        text = realloc(text, n + 65537);
        /* One byte at a time past nothing: what follows the marker is left for the next call. */
        ssize_t got = recv(fd, text + n, marker != NULL ? 1 : 65536, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        text[n] = '\0';
    }
    return text;
}

/* One answer with a Content-Length; head and body. */
static inline char *take_answer(int fd)
{
    char *head = take_until(fd, "\r\n\r\n"), *at = strstr(head, "Content-Length: ");
    size_t len = at != NULL ? strtoul(at + 16, NULL, 10) : 0, have = strlen(head);
    head = realloc(head, have + len + 1);
    for (size_t got = 0; got < len;) {
        ssize_t k = recv(fd, head + have + got, len - got, 0);
        assert_true(k > 0);
        got += (size_t)k;
    }
    head[have + len] = '\0';
    return head;
}

static inline char *request_text(const char *method, const char *path, const char *fields,
                                 const char *body)
{
    char *text = malloc(strlen(path) + strlen(fields) + (body != NULL ? strlen(body) : 0) + 256);
    if (text == NULL)
        abort();
    if (body == NULL)
        sprintf(text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path, fields);
    else
        sprintf(text,
                "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: %zu\r\n%s\r\n%s",
                method, path, strlen(body), fields, body);
    return text;
}

static inline void ask(int fd, const char *method, const char *path, const char *fields,
                       const char *body)
{
    char *text = request_text(method, path, fields, body);
    put(fd, text);
    free(text);
}

static inline void post(int fd, const char *path, const char *body)
{
    ask(fd, "POST", path, "", body);
}

/* Removes what differs from run to run: ids to ID, times to N, Date. */
static inline char *plain(char *text)
{
    static const char *const prefixes[] = {"chatcmpl-", "cmpl-", "call_", "req_", "resp_", "msg_",
                                           "fc_",       "ctc_",  "rs_",   "cmp_", "toolu_"};
    static const char *const times[] = {"\"created\":", "\"created_at\":", "\"completed_at\":"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        for (char *at = text; (at = strstr(at, prefixes[i])) != NULL;) {
            at += strlen(prefixes[i]);
            size_t n = strspn(at, "0123456789abcdef");
            if (n == 24)
                memmove(at, at + n, strlen(at + n) + 1);
        }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        for (char *at = text; (at = strstr(at, times[i])) != NULL;) {
            at += strlen(times[i]);
            size_t n = strspn(at, "0123456789");
            memmove(at, at + n, strlen(at + n) + 1);
        }
    return text;
}

/* The body of a chunked stream without its framing. */
static inline char *unchunked(const char *text)
{
    const char *at = strstr(text, "\r\n\r\n");
    char *out = calloc(1, strlen(text) + 1);
    size_t n = 0;
    assert_non_null(at);
    at += 4;
    for (;;) {
        char *end;
        size_t k = strtoul(at, &end, 16);
        assert_true(strncmp(end, "\r\n", 2) == 0);
        if (k == 0)
            break;
        memcpy(out + n, end + 2, k);
        n += k;
        at = end + 2 + k;
        assert_true(strncmp(at, "\r\n", 2) == 0);
        at += 2;
    }
    return out;
}

static inline void expect(const char *text, const char *want)
{
    if (strstr(text, want) == NULL)
        fail_msg("lacks: %s\nin: %s", want, text);
}

static inline void expect_not(const char *text, const char *want)
{
    if (strstr(text, want) != NULL)
        fail_msg("holds: %s\nin: %s", want, text);
}

/* Equal; a long text is told from the first difference on. */
static inline void same(const char *text, const char *want)
{
    size_t i = 0;
    while (text[i] != '\0' && text[i] == want[i])
        i++;
    if (text[i] != want[i])
        fail_msg("at byte %zu: %.200s\ninstead of: %.200s", i, text + i, want + i);
}

static inline char *log_text(void)
{
    FILE *f = fopen(w.log, "r");
    char *text = calloc(1, 1 << 20);
    assert_non_null(f);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

/* Answer to one request on a connection of its own. */
static inline char *once(const char *method, const char *path, const char *fields, const char *body)
{
    int fd = dial();
    ask(fd, method, path, fields, body);
    char *text = take_answer(fd);
    close(fd);
    return text;
}

#endif
