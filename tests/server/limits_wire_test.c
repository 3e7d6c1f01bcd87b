/* Proves on the wire that the limits of section 8 of docs/http.md are kept, each on both sides
 * where it has two: heads, bodies, connections, what is read ahead and dropped, the queue, what a
 * request may hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/resource.h>

#include "server/server_limits.h"
#include "wire.h"

#define CHAT  "/v1/chat/completions"
#define MODEL "\"model\":\"scripted_4-Bit\""
#define USER  MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static const char script[] = "[{\"match\":\"gate\",\"steps\":[{\"gate\":true},{\"text\":\"by\"}]},"
                             "{\"steps\":[{\"text\":\"yes\"}]}]";

static tt_buf b;

static int prepare(void)
{
    wire_prepare(script);
    tt_buf_init(&b, 256 * TT_MIB);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    prepare();
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    tt_buf_free(&b);
    return 0;
}

/* n times the character. */
static void fill(char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tt_buf_putc(&b, c);
}

static void expect_answer(int fd, const char *want)
{
    char *a = take_answer(fd);
    expect(a, want);
    free(a);
}

/* What is in `b`, on a connection of its own. */
static void send_raw(const char *want)
{
    int fd = dial();
    put(fd, b.data);
    expect_answer(fd, want);
    close(fd);
    tt_buf_clear(&b);
}

static void post_body(const char *want)
{
    int fd = dial();
    post(fd, CHAT, b.data);
    expect_answer(fd, want);
    close(fd);
    tt_buf_clear(&b);
}

/* ---- heads ---- */

static void first_lines(void **state)
{
    (void)state;
    const size_t around = strlen("GET /? HTTP/1.1");
    for (size_t more = 0; more < 2; more++) {
        tt_buf_puts(&b, "GET /?");
        fill('a', TT_HTTP1_LINE_MAX - around + more);
        tt_buf_puts(&b, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
        send_raw(more == 0 ? "HTTP/1.1 200 " : "HTTP/1.1 414 ");
    }
}

static void fields(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        tt_buf_puts(&b, "GET / HTTP/1.1\r\nHost: localhost\r\n");
        for (unsigned i = 1; i < TT_HTTP1_FIELDS + more; i++)
            tt_buf_printf(&b, "a%u: b\r\n", i);
        tt_buf_puts(&b, "\r\n");
        send_raw(more == 0 ? "HTTP/1.1 200 " : "\"code\":\"request_headers_too_large\"");
    }
}

static void header_blocks(void **state)
{
    (void)state;
    static const char begin[] = "GET / HTTP/1.1\r\nHost: localhost\r\na: ", end[] = "\r\n\r\n";
    for (size_t more = 0; more < 2; more++) {
        tt_buf_puts(&b, begin);
        fill('a', TT_HTTP1_HEAD_MAX - strlen(begin) - strlen(end) + more);
        tt_buf_puts(&b, end);
        send_raw(more == 0 ? "HTTP/1.1 200 " : "HTTP/1.1 431 ");
    }
}

/* ---- bodies ---- */

static void chunked_bodies(void **state)
{
    (void)state;
    static const char head[] =
        "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    /* One chunk that is too large is refused before it comes, many when they have become so. */
    tt_buf_printf(&b, "%s%llx\r\n", head, (unsigned long long)tt_body_limit(2048) + 1);
    send_raw("HTTP/1.1 413 ");
    int fd = dial();
    put(fd, head);
    fill(' ', 1 << 20);
    for (int i = 0; i < 16; i++) {
        put(fd, "100000\r\n");
        put(fd, b.data);
        put(fd, "\r\n");
    }
    put(fd, "1\r\n");
    expect_answer(fd, "\"code\":\"request_too_large\"");
    close(fd);
}

/* The largest body that may come is read to its end. */
static void the_largest_body(void **state)
{
    (void)state;
    int fd = dial();
    tt_buf_puts(&b, "{" USER "}");
    fill(' ', tt_body_limit(2048) - b.len);
    post(fd, CHAT, b.data);
    expect_answer(fd, "\"content\":\"yes\"");
    close(fd);
}

/* ---- dropped after a refusal ---- */

static int with_time_to_drop(void **state)
{
    (void)state;
    prepare();
    w.config.bounds.drained = 1000; /* the clock does not come first */
    wire_start();
    return 0;
}

static int with_no_time_to_drop(void **state)
{
    (void)state;
    prepare();
    w.config.bounds.drained = 0.05;
    wire_start();
    return 0;
}

#define REFUSED                                                                                    \
    "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"              \
    "Content-Length: 9999999999\r\n\r\n"

/* Sends pieces until the server does not take any more; how many bytes it took. */
static uint64_t send_on(int fd, const char *piece, size_t n, uint64_t most)
{
    uint64_t sent = 0;
    while (sent < most) {
        ssize_t k = send(fd, piece, n, MSG_NOSIGNAL);
        if (k < 0)
            break;
        sent += (uint64_t)k;
    }
    return sent;
}

static void bytes_are_dropped_up_to_a_bound(void **state)
{
    (void)state;
    int fd = dial();
    put(fd, REFUSED);
    expect_answer(fd, "HTTP/1.1 404 ");
    fill(' ', 1 << 18);
    uint64_t sent = send_on(fd, b.data, b.len, 4 * TT_DRAINED_BYTES);
    assert_in_range(sent, TT_DRAINED_BYTES - b.len, 2 * TT_DRAINED_BYTES);
    close(fd);
}

static void bytes_are_dropped_for_a_while(void **state)
{
    (void)state;
    int fd = dial();
    put(fd, REFUSED);
    expect_answer(fd, "HTTP/1.1 404 ");
    /* Byte by byte: the clock comes before the bound. */
    assert_in_range(send_on(fd, " ", 1, TT_DRAINED_BYTES / 2), 0, TT_DRAINED_BYTES / 2 - 1);
    close(fd);
}

/* ---- connections ---- */

static struct rlimit files;

static int with_few_descriptors(void **state)
{
    (void)state;
    prepare();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    struct rlimit few = {.rlim_cur = TT_DESCRIPTORS_SPARE + 2, .rlim_max = files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    wire_start();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    return 0;
}

static void connections_follow_the_descriptors(void **state)
{
    (void)state;
    int fds[2] = {dial(), dial()};
    for (int i = 0; i < 2; i++) {
        ask(fds[i], "GET", "/health", "", NULL);
        expect_answer(fds[i], "HTTP/1.1 200 ");
    }
    int third = dial();
    expect_answer(third, "\"code\":\"too_many_connections\"");
    close(third);
    /* The place of one that leaves is free again. */
    close(fds[0]);
    for (bool in = false; !in;) {
        char *a = once("GET", "/health", "", NULL);
        in = strstr(a, "too_many_connections") == NULL;
        free(a);
    }
    close(fds[1]);
}

/* ---- read ahead ---- */

static int with_socket(void **state)
{
    static char path[600];
    (void)state;
    prepare();
    snprintf(path, sizeof path, "%s/socket", w.dir);
    w.config.unix_socket = path;
    wire_start();
    return 0;
}

static int dial_local(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(strlen(w.config.unix_socket) < sizeof at.sun_path);
    memcpy(at.sun_path, w.config.unix_socket, strlen(w.config.unix_socket) + 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

#define AHEAD (16 * TT_MIB)

/* Behind a request in work the next ones are read up to the bound, and all are answered after it. A
 * Unix socket holds little by itself: what does not fit any more, the server has not read. */
static void requests_behind_one_in_work(void **state)
{
    (void)state;
    char one[8192];
    size_t sent = 0, n;
    int fd = dial_local(), stuck = 0;
    post(fd, CHAT, "{" MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"gate\"}]}");
    scripted_engine_await(w.engine, 1, 0);
    n = (size_t)snprintf(one, sizeof one,
                         "GET /health HTTP/1.1\r\nHost: localhost\r\na: %04000d\r\n\r\n", 0);
    while (stuck < 20 && sent < AHEAD) {
        ssize_t k = send(fd, one + sent % n, n - sent % n, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(k > 0 || errno == EAGAIN);
        sent += k > 0 ? (size_t)k : 0;
        stuck = k > 0 ? 0 : stuck + 1;
        if (k <= 0) /* the server has its turn */
            free(once("GET", "/health", "", NULL));
    }
    assert_in_range(sent, TT_PIPELINED_AHEAD, AHEAD / 2);
    scripted_engine_open_gate(w.engine);
    expect_answer(fd, "\"content\":\"by\"");
    for (size_t whole = sent / n; whole > 0; whole--)
        expect_answer(fd, "{\"status\":\"ok\"}");
    if (sent % n > 0) {
        put(fd, one + sent % n);
        expect_answer(fd, "{\"status\":\"ok\"}");
    }
    close(fd);
}

/* ---- the queue ---- */

static int with_no_queue(void **state)
{
    (void)state;
    prepare();
    w.config.queue_limit = 0;
    wire_start();
    return 0;
}

static void a_queue_of_none(void **state)
{
    (void)state;
    int fd = dial();
    post(fd, CHAT, "{" MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"gate\"}]}");
    scripted_engine_await(w.engine, 1, 0);
    tt_buf_puts(&b, "{" USER "}");
    post_body("\"code\":\"queue_full\"");
    /* What takes no place is answered. */
    char *a = once("POST", "/tokenize", "", "{" MODEL ",\"content\":\"x\"}");
    expect(a, "\"count\":1,");
    free(a);
    scripted_engine_open_gate(w.engine);
    expect_answer(fd, "\"content\":\"by\"");
    close(fd);
    tt_buf_puts(&b, "{" USER "}");
    post_body("\"content\":\"yes\"");
}

/* ---- what a request may hold ---- */

static void messages(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        tt_buf_puts(&b, "{" MODEL ",\"messages\":[");
        for (unsigned i = 0; i < TT_MESSAGES + more; i++)
            tt_buf_printf(&b, "%s{\"role\":\"user\",\"content\":\"\"}", i > 0 ? "," : "");
        tt_buf_puts(&b, "]}");
        post_body(more == 0 ? "\"code\":\"context_length_exceeded\""
                            : "\"param\":\"messages\",\"code\":\"value_too_large\"");
    }
}

static void add_tool(unsigned i, size_t schema)
{
    static const char empty[] = "{\"a\":\"\"}";
    tt_buf_printf(&b, "%s{\"type\":\"function\",\"function\":{\"name\":\"f%u\"", i > 0 ? "," : "",
                  i);
    if (schema > 0) {
        tt_buf_puts(&b, ",\"parameters\": { \"a\" : \""); /* it counts as compact JSON */
        fill('x', schema - strlen(empty));
        tt_buf_puts(&b, "\" }");
    }
    tt_buf_puts(&b, "}}");
}

/* n tools with schemas of so many bytes, the last of `last`. */
static void with_tools(unsigned n, size_t schema, size_t last, const char *want)
{
    tt_buf_puts(&b, "{" USER ",\"tool_choice\":\"none\",\"tools\":[");
    for (unsigned i = 0; i < n; i++)
        add_tool(i, i + 1 < n ? schema : last);
    tt_buf_puts(&b, "]}");
    post_body(want);
}

static void tools(void **state)
{
    (void)state;
    with_tools(TT_TOOLS, 0, 0, "\"content\":\"yes\"");
    with_tools(TT_TOOLS + 1, 0, 0, "\"param\":\"tools\",\"code\":\"value_too_large\"");
    with_tools(1, 0, TT_SCHEMA, "\"content\":\"yes\"");
    with_tools(1, 0, TT_SCHEMA + 1,
               "\"param\":\"tools[0].function.parameters\",\"code\":\"value_too_large\"");
    with_tools(16, TT_SCHEMA, TT_SCHEMA, "\"content\":\"yes\"");
    with_tools(17, TT_SCHEMA, 8,
               "\"param\":\"tools[16].function.parameters\",\"code\":\"value_too_large\"");
}

static void stop_strings(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        tt_buf_puts(&b, "{" USER ",\"stop\":[");
        for (unsigned i = 0; i < TT_STOP_STRINGS; i++) {
            tt_buf_puts(&b, i > 0 ? ",\"" : "\"");
            fill('z', i > 0 ? 1 : TT_STOP_BYTES + more);
            tt_buf_putc(&b, '"');
        }
        tt_buf_puts(&b, "]}");
        post_body(more == 0 ? "\"content\":\"yes\""
                            : "\"param\":\"stop\",\"code\":\"value_too_large\"");
    }
}

static void depth(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        tt_buf_puts(&b, "{" USER ",\"user\":");
        fill('[', TT_REQUEST_DEPTH - 1 + more); /* the object is the first level */
        fill(']', TT_REQUEST_DEPTH - 1 + more);
        tt_buf_puts(&b, "}");
        post_body(more == 0 ? "\"content\":\"yes\"" : "\"code\":\"invalid_json\"");
    }
}

int main(void)
{
#define WITH(test, how) cmocka_unit_test_setup_teardown(test, how, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(first_lines, set_up),
        WITH(fields, set_up),
        WITH(header_blocks, set_up),
        WITH(chunked_bodies, set_up),
        WITH(the_largest_body, set_up),
        WITH(bytes_are_dropped_up_to_a_bound, with_time_to_drop),
        WITH(bytes_are_dropped_for_a_while, with_no_time_to_drop),
        WITH(connections_follow_the_descriptors, with_few_descriptors),
        WITH(requests_behind_one_in_work, with_socket),
        WITH(a_queue_of_none, with_no_queue),
        WITH(messages, set_up),
        WITH(tools, set_up),
        WITH(stop_strings, set_up),
        WITH(depth, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
