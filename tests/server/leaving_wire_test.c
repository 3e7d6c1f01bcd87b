/* Proves on the wire that a client which leaves is noticed wherever its request stands, whichever
 * way it leaves, and that one which stays gets its answer whatever else it sends or leaves unread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "wire.h"

#define CHAT "/v1/chat/completions"
#define BODY(text, more)                                                                           \
    "{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"user\",\"content\":\"" text           \
    "\"}]" more "}"
#define STREAM ",\"stream\":true"

static const char script[] =
    "[{\"match\":\"prefill\",\"steps\":[{\"prefill\":[1,2]},{\"gate\":true},{\"text\":\"a\"}]},"
    "{\"match\":\"middle\",\"steps\":[{\"text\":\"begun\"},{\"gate\":true},{\"text\":\"a\"}]},"
    "{\"match\":\"holds\",\"steps\":[{\"gate\":true},{\"text\":\"through\"}]},"
    "{\"match\":\"flood\",\"steps\":[{\"text\":\"0123456789012345678901234567890123456789\"},"
    "{\"times\":40000}]},"
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

/* ---- ways to leave ---- */

enum way { FIN, HALF, RST, WAYS };

static void read_what_is_there(int fd)
{
    char some[4096];
    while (recv(fd, some, sizeof some, MSG_DONTWAIT) > 0)
        ;
}

static void leave(int fd, enum way way)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (way == FIN) {
        read_what_is_there(fd); /* with something unread it would be a reset */
    } else if (way == HALF) {
        shutdown(fd, SHUT_WR);
        char *rest = take_until(fd, NULL);
        expect_not(rest, "[DONE]");
        expect_not(rest, "\"finish_reason\":\"stop\"");
        free(rest);
    } else {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(fd);
}

static double metric(const char *name)
{
    char want[128];
    char *text = once("GET", "/metrics", "", NULL), *at;
    snprintf(want, sizeof want, "\ntinytitan_%s ", name);
    at = strstr(text, want);
    assert_non_null(at);
    double v = strtod(at + strlen(want), NULL);
    free(text);
    return v;
}

/* Asks again until it is so: the server hears of a client that left when it does. */
static void await_metric(const char *name, double v)
{
    while (metric(name) != v)
        ;
}

/* ---- where the request stands ---- */

static void in_prefill(int fd)
{
    post(fd, CHAT, BODY("prefill", ""));
}

static void before_the_first_byte(int fd)
{
    post(fd, CHAT, BODY("holds", ""));
}

static void behind_the_head(int fd)
{
    post(fd, CHAT, BODY("holds", STREAM));
    free(take_until(fd, "\r\n\r\n"));
}

static void in_the_middle(int fd)
{
    post(fd, CHAT, BODY("middle", STREAM));
    free(take_until(fd, "begun"));
}

/* More requests behind it than are read ahead, so that the server has stopped reading; no more than
 * the kernel takes from a client, behind which its leaving would be hidden. */
static void with_much_behind_it(int fd)
{
    static char ahead[100000];
    post(fd, CHAT, BODY("holds", ""));
    for (size_t n = 0; n + 64 < sizeof ahead;)
        n += (size_t)sprintf(ahead + n, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    put(fd, ahead);
}

static void running_requests_are_cancelled(void **state)
{
    (void)state;
    static void (*const stages[])(int) = {in_prefill, before_the_first_byte, behind_the_head,
                                          in_the_middle, with_much_behind_it};
    unsigned n = 0;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        for (int way = 0; way < WAYS; way++, n++) {
            int fd = dial();
            stages[i](fd);
            scripted_engine_await(w.engine, n + 1, n);
            leave(fd, (enum way)way);
            scripted_engine_await(w.engine, n + 1, n + 1);
        }
    await_metric("cancelled_total", n);
    assert_int_equal(scripted_engine_begun(w.engine), n);
    await_metric("connections", 1);
    assert_int_equal(metric("request_memory_bytes"), 0);
}

static void waiting_requests_never_begin(void **state)
{
    (void)state;
    int running = dial();
    post(running, CHAT, BODY("holds", ""));
    scripted_engine_await(w.engine, 1, 0);
    for (int way = 0; way < WAYS; way++)
        for (int stream = 0; stream < 2; stream++) {
            int fd = dial();
            post(fd, CHAT, stream ? BODY("x", STREAM) : BODY("x", ""));
            await_metric("queue_waiting", 1);
            leave(fd, (enum way)way);
            await_metric("queue_waiting", 0);
        }
    assert_int_equal(metric("cancelled_total"), 2 * WAYS);
    scripted_engine_open_gate(w.engine);
    char *a = take_answer(running);
    expect(a, "\"content\":\"through\"");
    free(a);
    close(running);
    a = once("POST", CHAT, "", BODY("x", ""));
    expect(a, "\"content\":\"yes\"");
    free(a);
    assert_int_equal(scripted_engine_begun(w.engine), 2);
    assert_int_equal(scripted_engine_cancelled(w.engine), 0);
}

static void half_sent_bodies_are_forgotten(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        int fd = dial();
        put(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 1000\r\n\r\n{\"model\":");
        await_metric("request_memory_bytes", 1000);
        leave(fd, (enum way)way);
        await_metric("request_memory_bytes", 0);
    }
    await_metric("connections", 1);
    assert_int_equal(scripted_engine_begun(w.engine), 0);
}

/* ---- clients that stay ---- */

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

/* Answers that nobody reads stop the reading of requests, and nothing is lost. */
static void requests_whose_answers_are_not_read(void **state)
{
    (void)state;
    static const char one[] = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    enum { MANY = 64 << 20, TRIES = 300 };
    int fd = dial(), tries = 0;
    size_t sent = 0, size = sizeof one - 1;
    /* Whole requests only, so that what is counted at the end is known. */
    while (tries < TRIES && sent < MANY) {
        char piece[sizeof one * 64];
        size_t n = 0, at = sent % size;
        for (; n + sizeof one < sizeof piece; n += size)
            memcpy(piece + n, one, size);
        ssize_t k = send(fd, piece + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(k > 0 || errno == EAGAIN);
        sent += k > 0 ? (size_t)k : 0;
        tries = k > 0 ? 0 : tries + 1;
        if (k < 0)
            free(once("GET", "/health", "", NULL)); /* the loop has had its turn */
    }
    assert_true(sent < MANY);
    char *text = calloc(1, 1), got[65536];
    size_t len = 0, answers = 0, want = sent / size;
    assert_non_null(text);
    while (answers < want) {
        ssize_t k = recv(fd, got, sizeof got, 0);
        assert_true(k > 0);
        text = realloc(text, len + (size_t)k + 1);
        assert_non_null(text);
        memcpy(text + len, got, (size_t)k);
        len += (size_t)k;
        text[len] = '\0';
        answers += count(text, "HTTP/1.1 200 OK\r\n");
        /* What may be the beginning of the next head is kept. */
        size_t keep = len < 16 ? len : 16;
        if (strstr(text + len - keep, "HTTP/1.1 200 OK\r\n") != NULL)
            keep = 0;
        memmove(text, text + len - keep, keep + 1);
        len = keep;
    }
    free(text);
    close(fd);
}

/* The last answer of a connection arrives although the client is still sending. */
static void the_last_answer_is_not_taken_back(void **state)
{
    (void)state;
    static char junk[4 << 20];
    int fd = dial();
    memset(junk, 'x', sizeof junk - 1);
    put(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    put(fd, junk);
    char *a = take_answer(fd), end;
    expect(a, "\r\nConnection: close\r\n");
    expect(a, "{\"status\":\"ok\"}");
    free(a);
    assert_int_equal(recv(fd, &end, 1, 0), 0);
    close(fd);
    await_metric("connections", 1);
}

/* The same behind a stream that nobody read, with more sent than is read ahead. */
static void an_overflow_is_told(void **state)
{
    (void)state;
    static char junk[1 << 20];
    int fd = dial();
    memset(junk, ' ', sizeof junk - 1);
    post(fd, CHAT, BODY("flood", STREAM));
    put(fd, junk);
    scripted_engine_await(w.engine, 1, 1);
    char *all = take_until(fd, NULL);
    expect(all + strlen(all) - 400, "\"code\":\"stream_overflow\"");
    expect(all + strlen(all) - 40, "data: [DONE]");
    free(all);
    close(fd);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(running_requests_are_cancelled),    WITH(waiting_requests_never_begin),
        WITH(half_sent_bodies_are_forgotten),    WITH(requests_whose_answers_are_not_read),
        WITH(the_last_answer_is_not_taken_back), WITH(an_overflow_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
