/* Proves on the wire that requests are read, refused and answered as sections 1 to 3 and 8 of
 * docs/http.md say: paths and methods, framing, Host, Origin, keys, deadlines, limits, sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/stat.h>

#include "wire.h"

#define CHAT "/v1/chat/completions"
#define OK_BODY                                                                                    \
    "{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"

static const char script[] = "[{\"match\":\"gate\",\"steps\":[{\"gate\":true}]},"
                             "{\"steps\":[{\"text\":\"yes\"}]}]";

static int set_up(void **state)
{
    (void)state;
    wire_prepare(script);
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

static void one(const char *method, const char *path, const char *fields, const char *want)
{
    char *a = once(method, path, fields, NULL);
    expect(a, want);
    free(a);
}

static void paths_and_methods(void **state)
{
    (void)state;
    one("GET", "/", "", "\r\n\r\n<!doctype html>\n<html lang=\"en\">\n");
    one("GET", "/?x", "", "\r\nContent-Type: text/html; charset=utf-8\r\n");
    one("GET", "/", "", "\r\nContent-Security-Policy: default-src 'none'; script-src 'sha256-");
    one("GET", "/", "", "\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n");
    one("GET", "/", "", "\r\nX-Content-Type-Options: nosniff\r\n");
    one("POST", "/", "", "\r\nContent-Type: application/json\r\n");
    one("GET", "/health?x=1", "", "{\"status\":\"ok\"}");
    one("GET", "/v1/models", "",
        "{\"object\":\"list\",\"data\":[{\"id\":\"scripted_4-Bit\",\"object\":\"model\","
        "\"created\":1700000000,\"owned_by\":\"tinytitan\",\"context_window\":2048,");
    one("GET", "/v1/models/scripted%5f4-Bit", "", "{\"id\":\"scripted_4-Bit\"");
    one("GET", "/v1/models/other", "", "\"param\":\"model\",\"code\":\"model_not_found\"");
    one("GET", "/v1/status", "",
        "\"queue\":{\"running\":0,\"waiting\":0,\"limit\":4,\"sequences\":1}");
    one("GET", "/nothing", "", "HTTP/1.1 404 Not Found\r\n");
    one("DELETE", "/health", "", "\r\nAllow: GET, HEAD, OPTIONS\r\n");
    one("GET", CHAT, "", "HTTP/1.1 405 Method Not Allowed\r\n");
    one("OPTIONS", CHAT, "", "HTTP/1.1 204 No Content\r\n");
    one("POST", "/tokenize", "", "HTTP/1.1 415 ");
    one("GET", "/v1/messages/none", "",
        "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\"");
    one("GET", "/v1/models/x", "anthropic-version: 1\r\n", "\r\nrequest-id: req_");
}

static void heads_without_bodies(void **state)
{
    (void)state;
    int fd = dial();
    put(fd, "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    char *all = take_until(fd, NULL);
    expect(all, "Content-Length: 15\r\n");
    assert_int_equal(strncmp(strstr(all, "\r\n\r\n") + 4, "HTTP/1.1 404", 12), 0);
    char *third = strstr(strstr(all, "HTTP/1.1 404"), "\r\n\r\n") + 4;
    assert_int_equal(strncmp(third, "HTTP/1.1 200", 12), 0);
    expect(third, "Connection: close\r\n\r\n{\"status\":\"ok\"}");
    free(all);
    close(fd);
}

/* Sends bytes and reads to the end. */
static char *raw(const char *text)
{
    int fd = dial();
    put(fd, text);
    char *all = take_until(fd, NULL);
    close(fd);
    return all;
}

static void framing(void **state)
{
    (void)state;
    static const struct {
        const char *request, *want;
    } rows[] = {
        {"GET / HTTP/1.1\nHost: localhost\n\n", "\"code\":\"invalid_line_ending\""},
        {"GET  / HTTP/1.1\r\n", "\"code\":\"invalid_request_line\""},
        {"GET / HTTP/2.0\r\n", "HTTP/1.1 505 "},
        {"GET http://x/ HTTP/1.1\r\n", "\"code\":\"invalid_request_target\""},
        {"GET / HTTP/1.1\r\nA b: c\r\n", "\"code\":\"invalid_header\""},
        {"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         "\"code\":\"conflicting_lengths\""},
        {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
         "\"code\":\"invalid_content_length\""},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n", "HTTP/1.1 501 "},
        {"POST / HTTP/1.1\r\nExpect: tea\r\n", "HTTP/1.1 417 "},
        {"POST /v1/messages HTTP/1.1\r\nA: \001\r\n", "{\"type\":\"error\",\"error\":"},
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
         "\"code\":\"invalid_chunk\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *a = raw(rows[i].request);
        expect(a, rows[i].want);
        expect(a, "\r\nConnection: close\r\n");
        free(a);
    }
}

static void hosts_and_origins(void **state)
{
    (void)state;
    char own[64];
    char *a = raw("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
    expect(a, "\"code\":\"missing_host\"");
    free(a);
    a = raw("GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    expect(a, "\"code\":\"host_not_allowed\"");
    free(a);
    one("GET", "/health", "Origin: http://evil.example\r\n", "\"code\":\"origin_not_allowed\"");
    one("GET", "/health", "Origin: null\r\n", "HTTP/1.1 403 ");
    snprintf(own, sizeof own, "Origin: http://localhost:%u\r\n", tt_server_port(w.server));
    one("GET", "/health", own, "HTTP/1.1 200 ");
    one("GET", "/health", "Origin: https://app.example\r\n",
        "\r\nAccess-Control-Allow-Origin: https://app.example\r\n");
    one("OPTIONS", CHAT, "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n",
        "\r\nAccess-Control-Allow-Methods: POST, OPTIONS\r\n");
}

static int with_key(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.key = "sesame";
    wire_start();
    return 0;
}

static int with_origin(void **state)
{
    static const char *const origins[] = {"https://app.example"};
    (void)state;
    wire_prepare(script);
    w.config.origins = origins;
    w.config.n_origins = 1;
    wire_start();
    return 0;
}

static void keys(void **state)
{
    (void)state;
    one("GET", "/health", "", "HTTP/1.1 200 ");
    one("GET", "/v1/models", "", "\r\nWWW-Authenticate: Bearer\r\n");
    one("GET", "/v1/models", "Authorization: Bearer wrong\r\n", "HTTP/1.1 401 ");
    one("GET", "/v1/models", "Authorization: Bearer sesame\r\n", "HTTP/1.1 200 ");
    one("GET", "/v1/models", "x-api-key: sesame\r\n", "HTTP/1.1 200 ");
    /* The refusal comes before the body, and can be read while it is sent. */
    int fd = dial();
    put(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
    char *a = take_answer(fd);
    expect(a, "HTTP/1.1 401 ");
    free(a);
    put(fd, "some of it");
    a = take_until(fd, NULL);
    assert_string_equal(a, "");
    free(a);
    close(fd);
}

static void bodies(void **state)
{
    (void)state;
    /* In chunks, with 100 Continue. */
    int fd = dial();
    put(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    char *a = take_until(fd, "\r\n\r\n"), chunk[512];
    expect(a, "HTTP/1.1 100 Continue\r\n\r\n");
    free(a);
    snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n0\r\n\r\n", strlen(OK_BODY), OK_BODY);
    put(fd, chunk);
    a = take_answer(fd);
    expect(a, "\"content\":\"yes\"");
    free(a);
    /* Too large: told at once, although the client goes on sending. */
    put(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 16777217\r\n\r\n{");
    a = take_answer(fd);
    expect(a, "HTTP/1.1 413 Content Too Large\r\n");
    expect(a, "\"code\":\"request_too_large\"");
    free(a);
    static char piece[1 << 16];
    memset(piece, ' ', sizeof piece - 1);
    for (int i = 0; i < 64; i++)
        if (send(fd, piece, sizeof piece - 1, MSG_NOSIGNAL) <= 0)
            fail_msg("the server did not read on: %s", strerror(errno));
    close(fd);
    one("GET", "/health", "Content-Length: 0\r\n", "HTTP/1.1 200 ");
    a = raw("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab");
    expect(a, "\"code\":\"unexpected_body\"");
    free(a);
}

/* ---- memory and connections ---- */

static int with_little(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.bounds.request_memory = 200000;
    w.config.bounds.connections = 2;
    wire_start();
    return 0;
}

static void memory_is_bounded(void **state)
{
    (void)state;
    int a = dial(), b = dial();
    put(a, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: 150000\r\nExpect: 100-continue\r\n\r\n");
    free(take_until(a, "\r\n\r\n"));
    put(b, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: 100000\r\n\r\n");
    char *text = take_answer(b);
    expect(text, "HTTP/1.1 503 ");
    expect(text, "\r\nRetry-After: 1\r\n");
    expect(text, "\"code\":\"memory_full\"");
    free(text);
    close(b);
    /* A third connection is one too many. */
    b = dial();
    ask(b, "GET", "/health", "", NULL);
    free(take_answer(b));
    int c = dial();
    text = take_until(c, NULL);
    expect(text, "HTTP/1.1 503 ");
    expect(text, "\"code\":\"too_many_connections\"");
    free(text);
    close(c);
    close(a);
    close(b);
    /* A tree that alone is too much; then everything has been given back. */
    char *body = malloc(120000);
    strcpy(body, "[");
    for (int i = 0; i < 30000; i++)
        strcpy(body + 1 + 2 * i, "1,");
    do {
        text = once("POST", CHAT, "", body);
        if (strstr(text, "too_many_connections") == NULL)
            break;
        free(text); /* the closed ones are not noticed yet */
    } while (true);
    expect(text, "HTTP/1.1 413 ");
    free(text);
    free(body);
    text = once("GET", "/v1/status", "", NULL);
    expect(text, "\"request_memory_bytes\":0,");
    free(text);
}

/* ---- deadlines ---- */

static int with_short_times(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.bounds.header = w.config.bounds.body = 0.05;
    w.config.bounds.keep_alive = 0.1;
    w.config.bounds.drained = 0.05;
    wire_start();
    return 0;
}

static void slow_senders(void **state)
{
    (void)state;
    char *a = raw("GET /health HT");
    expect(a, "HTTP/1.1 408 ");
    expect(a, "\"code\":\"request_timeout\"");
    expect(a, "\r\nx-request-id: req_");
    free(a);
    a = raw("POST /v1/messages HTTP/1.1\r\nHost:");
    expect(a, "\r\nrequest-id: req_");
    expect(a, "{\"type\":\"error\",");
    free(a);
    a = raw("POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 10\r\n\r\n{");
    expect(a, "HTTP/1.1 408 ");
    free(a);
    /* Nothing at all: closed without a word, before a request and after one. */
    a = raw("");
    assert_string_equal(a, "");
    free(a);
    a = raw("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(a, "{\"status\":\"ok\"}");
    free(a);
}

/* ---- the Unix socket, readiness ---- */

static int notify_fd;

static void name_socket(struct sockaddr_un *at, const char *path)
{
    assert_true(strlen(path) < sizeof at->sun_path);
    memcpy(at->sun_path, path, strlen(path) + 1);
}

static int with_socket(void **state)
{
    static char path[600], notify[600];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)state;
    wire_prepare(script);
    snprintf(path, sizeof path, "%s/socket", w.dir);
    snprintf(notify, sizeof notify, "%s/notify", w.dir);
    w.config.unix_socket = path;
    w.config.notify_socket = notify;
    /* A socket that nobody listens on is replaced. */
    name_socket(&at, path);
    int old = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(old, (struct sockaddr *)&at, sizeof at), 0);
    close(old);
    notify_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    name_socket(&at, notify);
    assert_int_equal(bind(notify_fd, (struct sockaddr *)&at, sizeof at), 0);
    wire_start();
    return 0;
}

static void sockets_and_readiness(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat sb;
    char word[64];
    ssize_t n = recv(notify_fd, word, sizeof word, 0);
    assert_true(n == 8 && memcmp(word, "READY=1\n", 8) == 0);
    assert_int_equal(stat(w.config.unix_socket, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    name_socket(&at, w.config.unix_socket);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    ask(fd, "GET", "/health", "", NULL);
    char *a = take_answer(fd);
    expect(a, "{\"status\":\"ok\"}");
    free(a);
    close(fd);
    /* A second server does not take the socket from the first, nor a file from anybody. */
    tt_server *second = NULL;
    tt_error err;
    tt_server_config config = w.config;
    config.port = 0;
    assert_int_equal(tt_server_create(&config, w.set, &second, &err), TT_ERR_EXISTS);
    config.unix_socket = w.log;
    assert_int_equal(tt_server_create(&config, w.set, &second, &err), TT_ERR_EXISTS);
    config.unix_socket = NULL;
    config.port = tt_server_port(w.server);
    assert_int_not_equal(tt_server_create(&config, w.set, &second, &err), TT_OK);
    tt_server_stop(w.server);
    n = recv(notify_fd, word, sizeof word, 0);
    assert_true(n == 11 && memcmp(word, "STOPPING=1\n", 11) == 0);
    close(notify_fd);
    wire_join();
    tt_server_close(&w.server);
    assert_int_not_equal(stat(w.config.unix_socket, &sb), 0);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(paths_and_methods),
        WITH(heads_without_bodies),
        WITH(framing),
        cmocka_unit_test_setup_teardown(hosts_and_origins, with_origin, tear_down),
        cmocka_unit_test_setup_teardown(keys, with_key, tear_down),
        WITH(bodies),
        cmocka_unit_test_setup_teardown(memory_is_bounded, with_little, tear_down),
        cmocka_unit_test_setup_teardown(slow_senders, with_short_times, tear_down),
        cmocka_unit_test_setup_teardown(sockets_and_readiness, with_socket, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
