/* Proves that requests are read the same however their bytes are cut, that what docs/http.md
 * refuses is refused with its own status, and that limits hold to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http1.h"

#define BODY_MOST 16

static tt_buf script; /* what happened, as text */
static bool in_piece;

static void write_head(const tt_http1 *h)
{
    unsigned n;
    const char *host = tt_http1_field(h, "HOST", &n);
    tt_buf_printf(&script, "%s %s host=%s*%u len=%lld%s%s%s\n", tt_http1_method(h),
                  tt_http1_target(h), host == NULL ? "-" : host, n,
                  (long long)tt_http1_content_length(h), tt_http1_keeps_alive(h) ? "" : " close",
                  tt_http1_expects_continue(h) ? " expects" : "", tt_http1_is_old(h) ? " old" : "");
}

static void write_event(tt_http1 *h, const tt_http1_event *e)
{
    if (in_piece && e->kind != TT_HTTP1_BODY && e->kind != TT_HTTP1_MORE) {
        tt_buf_puts(&script, "]\n");
        in_piece = false;
    }
    if (e->kind == TT_HTTP1_HEAD) {
        assert_true(tt_http1_in_body(h) && !tt_http1_in_head(h));
        write_head(h);
        (void)tt_http1_allow_body(h, BODY_MOST);
    } else if (e->kind == TT_HTTP1_BODY) {
        tt_buf_puts(&script, in_piece ? "" : "[");
        tt_buf_append(&script, e->data, e->len);
        in_piece = true;
    } else if (e->kind == TT_HTTP1_END) {
        tt_buf_puts(&script, "end\n");
        assert_true(!tt_http1_in_body(h) && !tt_http1_in_head(h));
        tt_http1_next(h);
    }
}

/* Feeds one piece to its end; false once refused. */
static bool feed(tt_http1 *h, const char *bytes, size_t n)
{
    tt_http1_event e = {0};
    do {
        size_t k = tt_http1_feed(h, bytes, n, &e);
        assert_true(k <= n);
        assert_true(e.kind != TT_HTTP1_BODY ||
                    (e.len > 0 && e.data >= bytes && e.data + e.len == bytes + k));
        bytes += k;
        n -= k;
        write_event(h, &e);
    } while (e.kind != TT_HTTP1_MORE && e.kind != TT_HTTP1_REFUSED);
    if (e.kind == TT_HTTP1_MORE) {
        assert_int_equal(n, 0);
        return true;
    }
    tt_buf_printf(&script, "%d %s %s", tt_http1_refusal_status(e.why), tt_http1_refusal_code(e.why),
                  tt_http1_target(h) == NULL ? "?" : tt_http1_target(h));
    assert_true(strlen(tt_http1_refusal_text(e.why)) > 10 && !tt_http1_keeps_alive(h));
    return false;
}

/* Reads `text` in pieces of `piece` bytes, the first of them of `first`. */
static const char *read_cut(const char *text, size_t len, size_t first, size_t piece)
{
    tt_http1 h;
    tt_http1_init(&h);
    tt_buf_clear(&script);
    in_piece = false;
    size_t at = first;
    bool more = feed(&h, text, first);
    for (; more && at < len; at += piece)
        more = feed(&h, text + at, len - at < piece ? len - at : piece);
    if (more && (tt_http1_in_head(&h) || tt_http1_in_body(&h)))
        tt_buf_puts(&script, "unfinished");
    tt_http1_free(&h);
    assert_int_equal(tt_buf_status(&script, NULL), TT_OK);
    return script.data;
}

static void check(const char *text, size_t len, const char *want)
{
    assert_string_equal(read_cut(text, len, len, 1), want);
    assert_string_equal(read_cut(text, len, 0, 1), want);
    for (size_t at = 1; at < len; at++)
        assert_string_equal(read_cut(text, len, at, len), want);
}

static const struct {
    const char *text, *want;
} good[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / host=a*1 len=0\nend\n"},
    {"\r\nGET /a?b=%2F HTTP/1.1\r\n\r\n", "GET /a?b=%2F host=-*0 len=0\nend\n"},
    {"GET / HTTP/1.0\r\nhost:\t a b \t\r\n\r\n", "GET / host=a b*1 len=0 close old\nend\n"},
    {"GET / HTTP/1.1\r\nHost:\r\nhOST: 2\r\n\r\n", "GET / host=*2 len=0\nend\n"},
    {"GET / HTTP/1.1\r\nX: \xc3\xa9\r\nHost: b\r\nConnection: x, Close\r\n\r\n",
     "GET / host=b*1 len=0 close\nend\n"},
    {"GET / HTTP/1.1\r\nConnection: closed, keep-alive\r\n\r\n", "GET / host=-*0 len=0\nend\n"},
    {"POST /p HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
     "POST /p host=-*0 len=5\n[hello]\nend\n"},
    {"POST /p HTTP/1.1\r\nContent-Length: 0000000000000000016\r\n\r\n0123456789abcdef",
     "POST /p host=-*0 len=16\n[0123456789abcdef]\nend\n"},
    {"POST /p HTTP/1.1\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
     "POST /p host=-*0 len=0\nend\n"},
    {"POST /p HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
     "POST /p host=-*0 len=1 expects\n[x]\nend\n"},
    {"POST /p HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n00D;a=\"b\"\r\n"
     "0123456789\r\n.\r\n0\r\n\r\n",
     "POST /p host=-*0 len=-1\n[abc0123456789\r\n.]\nend\n"},
    {"POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n"
     "Content-Length: 9\r\n\r\nGET / HTTP/1.1\r\n\r\n",
     "POST /p host=-*0 len=-1\n[a]\nend\nGET / host=-*0 len=0\nend\n"},
    {"GET /1 HTTP/1.1\r\n\r\nPOST /2 HTTP/1.1\r\nContent-Length: 2\r\n\r\nab\r\n"
     "GET /3 HTTP/1.1\r\nHost: c\r\n\r\nGE",
     "GET /1 host=-*0 len=0\nend\nPOST /2 host=-*0 len=2\n[ab]\nend\nGET /3 host=c*1 "
     "len=0\nend\nunfinished"},
    {"", ""},
    {"\r\n", ""},
};

static void requests_are_read_at_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check(good[i].text, strlen(good[i].text), good[i].want);
}

#define G  "GET /g HTTP/1.1\r\n"
#define P  "POST /p HTTP/1.1\r\n"
#define PC P "Transfer-Encoding: chunked\r\n\r\n"
#define H  "POST /p host=-*0 len=-1\n"

static const struct {
    const char *text, *want;
} bad[] = {
    {"GET / HTTP/1.1\n", "400 invalid_line_ending /"},
    {G "Host: a\n\r\n", "400 invalid_line_ending /g"},
    {G "Host: a\r\r\n", "400 invalid_line_ending /g"},
    {G "Host: a\r\n\n", "400 invalid_line_ending /g"},
    {G "\rX", "400 invalid_line_ending /g"},
    {"\n", "400 invalid_line_ending ?"},
    {"\r\n\r\n", "400 invalid_request_line ?"},
    {" GET / HTTP/1.1\r\n", "400 invalid_request_line ?"},
    {"G@T / HTTP/1.1\r\n", "400 invalid_request_line ?"},
    {"GET\r\n", "400 invalid_request_line ?"},
    {"GET  / HTTP/1.1\r\n", "400 invalid_request_line ?"},
    {"GET /\r\n", "400 invalid_request_line ?"},
    {"GET / HTTP/1.1 \r\n", "400 invalid_request_line /"},
    {"GET / http/1.1\r\n", "400 invalid_request_line /"},
    {"GET /  HTTP/1.1\r\n", "400 invalid_request_line /"},
    {"\x16\x03\x01", "400 invalid_request_line ?"},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / ", "400 invalid_request_line ?"},
    {"GET / HTTP/2.0\r\n", "505 http_version_not_supported /"},
    {"GET / HTTP/1.2\r\n", "505 http_version_not_supported /"},
    {"GET / HTTP/0.9\r\n", "505 http_version_not_supported /"},
    {"GET http://a/ HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"OPTIONS * HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"GET /a#b HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"GET /\xc3\xa9 HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"GET /\x7f HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"GET /%0 HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"GET /%0g HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {"GET /%00 HTTP/1.1\r\n", "400 invalid_request_target ?"},
    {G "Host : a\r\n", "400 invalid_header /g"},
    {G ": a\r\n", "400 invalid_header /g"},
    {G " Host: a\r\n", "400 invalid_header /g"},
    {G "A: b\r\n c\r\n", "400 invalid_header /g"},
    {G "A: b\r\n\tc\r\n", "400 invalid_header /g"},
    {G "A: b\x01\r\n", "400 invalid_header /g"},
    {G "A: b\x7f\r\n", "400 invalid_header /g"},
    {G "A\r\n", "400 invalid_header /g"},
    {P "Content-Length: 1\r\nContent-Length: 1\r\n", "400 invalid_content_length /p"},
    {P "Content-Length: 1, 1\r\n", "400 invalid_content_length /p"},
    {P "Content-Length: +1\r\n", "400 invalid_content_length /p"},
    {P "Content-Length: 0x1\r\n", "400 invalid_content_length /p"},
    {P "Content-Length: \r\n", "400 invalid_content_length /p"},
    {P "Content-Length: 12345678901234567890\r\n", "400 invalid_content_length /p"},
    {P "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 conflicting_lengths /p"},
    {P "Transfer-Encoding: chunked\r\ncontent-length: 1\r\n\r\n", "400 conflicting_lengths /p"},
    {P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
     "400 invalid_transfer_encoding /p"},
    {"POST /p HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", "400 invalid_transfer_encoding /p"},
    {P "Transfer-Encoding: gzip, chunked\r\n", "501 unsupported_transfer_encoding /p"},
    {P "Transfer-Encoding: \r\n", "501 unsupported_transfer_encoding /p"},
    {P "Transfer-Encoding: chunked;a\r\n", "501 unsupported_transfer_encoding /p"},
    {P "Expect: 200-ok\r\n", "417 unsupported_expectation /p"},
    {P "Content-Length: 17\r\n\r\n", "POST /p host=-*0 len=17\n413 request_too_large /p"},
    {PC "\r\n", H "400 invalid_chunk /p"},
    {PC "-1\r\n", H "400 invalid_chunk /p"},
    {PC "0x1\r\n", H "400 invalid_chunk /p"},
    {PC "1 \r\n", H "400 invalid_chunk /p"},
    {PC ";a\r\n", H "400 invalid_chunk /p"},
    {PC "1;\x01\r\n", H "400 invalid_chunk /p"},
    {PC "1\n", H "400 invalid_line_ending /p"},
    {PC "1\ra", H "400 invalid_line_ending /p"},
    {PC "1\r\nab", H "[a]\n400 invalid_chunk /p"},
    {PC "1\r\na\n", H "[a]\n400 invalid_chunk /p"},
    {PC "1\r\na\rb", H "[a]\n400 invalid_chunk /p"},
    {PC "11\r\n", H "413 request_too_large /p"},
    {PC "f\r\n0123456789abcde\r\n2\r\n", H "[0123456789abcde]\n413 request_too_large /p"},
    {PC "10000000000000001\r\n", H "413 request_too_large /p"},
    {PC "0\r\nA: b\n", H "400 invalid_line_ending /p"},
    {PC "0\r\nA b\r\n", H "400 invalid_header /p"},
    {PC "0\r\nA: b\r\n c\r\n", H "400 invalid_header /p"},
    {PC "0\r\n\rx", H "400 invalid_line_ending /p"},
};

static void refusals_have_their_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check(bad[i].text, strlen(bad[i].text), bad[i].want);
    check(G "A: \0\r\n", sizeof(G "A: \0\r\n") - 1, "400 invalid_header /g");
}

/* `text`, then `n` times `c`, then `end`. */
static const char *read_long(const char *text, size_t n, char c, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    char *all = malloc(a + n + b + 1);
    assert_non_null(all);
    memcpy(all, text, a);
    memset(all + a, c, n);
    memcpy(all + a + n, end, b + 1);
    const char *got = read_cut(all, a + n + b, 0, 7);
    free(all);
    return got;
}

static bool ends(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static void limits_hold_to_the_byte(void **state)
{
    (void)state;
    /* "GET /" and " HTTP/1.1" are 14 bytes of the line. */
    size_t room = TT_HTTP1_LINE_MAX - 14;
    assert_true(ends(read_long("GET /", room, 'a', " HTTP/1.1\r\n\r\n"), "end\n"));
    (void)read_long("GET /", room + 1, 'a', " HTTP/1.1\r\n\r\n");
    assert_true(strncmp(script.data, "414 request_target_too_long /a", 30) == 0);
    assert_string_equal(read_long("GET /", 2 * TT_HTTP1_LINE_MAX, 'a', ""),
                        "414 request_target_too_long ?");

    room = TT_HTTP1_HEAD_MAX - strlen(G "A: \r\n\r\n");
    assert_true(ends(read_long(G "A: ", room, 'a', "\r\n\r\n"), "end\n"));
    assert_string_equal(read_long(G "A: ", room + 1, 'a', "\r\n\r\n"),
                        "431 request_headers_too_large /g");
    /* Blanks and names count like everything else. */
    assert_string_equal(read_long(G "A: ", room + 1, ' ', "\r\n\r\n"),
                        "431 request_headers_too_large /g");
    assert_string_equal(read_long(G, TT_HTTP1_HEAD_MAX, 'a', ""),
                        "431 request_headers_too_large /g");
    assert_string_equal(read_long(PC "0\r\nA: ", TT_HTTP1_HEAD_MAX, 'a', ""),
                        H "431 request_headers_too_large /p");

    assert_true(ends(read_long(PC "0;", TT_HTTP1_CHUNK_MAX - 3, 'a', "\r\n\r\n"), "end\n"));
    assert_string_equal(read_long(PC "0;", TT_HTTP1_CHUNK_MAX - 2, 'a', "\r\n\r\n"),
                        H "400 invalid_chunk /p");
    assert_string_equal(read_long(PC, TT_HTTP1_CHUNK_MAX + 1, '0', ""), H "400 invalid_chunk /p");
}

static const char *read_fields(const char *begin, int n, const char *end)
{
    static char text[8192];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", begin);
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "f%d: %d\r\n", i, i);
    len += (size_t)snprintf(text + len, sizeof text - len, "%s", end);
    return read_cut(text, len, 0, 11);
}

static void fields_are_counted(void **state)
{
    (void)state;
    assert_true(ends(read_fields(G, 100, "\r\n"), "end\n"));
    assert_string_equal(read_fields(G, 101, "\r\n"), "431 request_headers_too_large /g");
    assert_true(ends(read_fields(PC "0\r\n", 99, "\r\n"), "end\n"));
    assert_string_equal(read_fields(PC "0\r\n", 100, "\r\n"), H "431 request_headers_too_large /p");
}

static void a_body_nobody_allowed_is_refused(void **state)
{
    (void)state;
    tt_http1 h;
    tt_http1_event e;
    static const char text[] = P "Content-Length: 1\r\n\r\n";
    tt_http1_init(&h);
    assert_int_equal(tt_http1_feed(&h, text, strlen(text), &e), strlen(text));
    assert_int_equal(e.kind, TT_HTTP1_HEAD);
    assert_false(tt_http1_allow_body(&h, 0));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tt_http1_feed(&h, "x", 1, &e), 0);
        assert_int_equal(e.kind, TT_HTTP1_REFUSED);
        assert_int_equal(e.why, TT_HTTP1_REFUSED_BODY_LARGE);
    }
    assert_string_equal(tt_http1_method(&h), "POST");
    tt_http1_next(&h); /* no way back */
    assert_int_equal(tt_http1_feed(&h, "x", 1, &e), 0);
    assert_int_equal(e.kind, TT_HTTP1_REFUSED);
    tt_http1_free(&h);
}

static void memory_is_given_back_after_a_large_head(void **state)
{
    (void)state;
    tt_http1 h;
    tt_http1_event e;
    char blanks[6000];
    tt_http1_init(&h);
    memset(blanks, 'v', sizeof blanks);
    tt_http1_feed(&h, G "A: ", strlen(G "A: "), &e);
    tt_http1_feed(&h, blanks, sizeof blanks, &e);
    tt_http1_feed(&h, "\r\n\r\n", 4, &e);
    assert_int_equal(e.kind, TT_HTTP1_HEAD);
    tt_http1_feed(&h, "", 0, &e);
    assert_int_equal(e.kind, TT_HTTP1_END);
    /* Nothing is taken before the server says that it is done with this one. */
    assert_int_equal(tt_http1_feed(&h, "G", 1, &e), 0);
    assert_int_equal(e.kind, TT_HTTP1_MORE);
    tt_http1_next(&h);
    assert_null(h.text.data);
    assert_int_equal(tt_http1_feed(&h, "G", 1, &e), 1);
    assert_true(tt_http1_in_head(&h));
    tt_http1_free(&h);
}

static void paths_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *path, *want;
    } cases[] = {{"a", "a"},    {"a%2Fb%3a", "a/b:"},   {"", ""},
                 {"%", NULL},   {"%2", NULL},           {"%zz", NULL},
                 {"%00", NULL}, {"1234567", "1234567"}, {"12345678", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[8];
        bool ok = tt_http1_decode(cases[i].path, strlen(cases[i].path), out, sizeof out);
        assert_int_equal(ok, cases[i].want != NULL);
        if (ok)
            assert_string_equal(out, cases[i].want);
    }
    char out[8];
    assert_true(tt_http1_decode("%41%42", 3, out, sizeof out));
    assert_string_equal(out, "A");
}

int main(void)
{
    tt_buf_init(&script, 1 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read_at_every_cut),
        cmocka_unit_test(refusals_have_their_status),
        cmocka_unit_test(limits_hold_to_the_byte),
        cmocka_unit_test(fields_are_counted),
        cmocka_unit_test(a_body_nobody_allowed_is_refused),
        cmocka_unit_test(memory_is_given_back_after_a_large_head),
        cmocka_unit_test(paths_are_decoded),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    tt_buf_free(&script);
    return rc;
}
