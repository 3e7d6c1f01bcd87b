/* Proves what answers look like, byte for byte: heads, both error envelopes, text as JSON whatever
 * its bytes are, and events in their chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/reply.h"

#define NOW 784111777 /* Sun, 06 Nov 1994 08:49:37 GMT */

static tt_buf out;

static const char *written(void)
{
    static char copy[8192];
    assert_int_equal(tt_buf_status(&out, NULL), TT_OK);
    assert_true(out.len < sizeof copy && strlen(out.data) == out.len);
    memcpy(copy, out.data, out.len + 1);
    tt_buf_clear(&out);
    return copy;
}

#define ALWAYS "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
#define DATE   "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"

static void heads_are_exact(void **state)
{
    (void)state;
    tt_reply_head h = {.status = 200, .request_id = "req_1", .length = 15, .now = NOW};
    tt_reply_write_head(&out, &h);
    assert_string_equal(written(), "HTTP/1.1 200 OK\r\n" DATE "Content-Type: application/json\r\n"
                                   "Content-Length: 15\r\n" ALWAYS "x-request-id: req_1\r\n\r\n");

    h = (tt_reply_head){.status = 200,
                        .envelope = TT_ENVELOPE_ANTHROPIC,
                        .request_id = "req_2",
                        .type = "text/event-stream; charset=utf-8",
                        .length = TT_LENGTH_STREAM,
                        .now = NOW};
    tt_reply_write_head(&out, &h);
    assert_string_equal(
        written(), "HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/event-stream; charset=utf-8\r\n"
                   "Transfer-Encoding: chunked\r\n" ALWAYS "request-id: req_2\r\n\r\n");
    h.old = true;
    tt_reply_write_head(&out, &h);
    assert_string_equal(written(), "HTTP/1.1 200 OK\r\n" DATE
                                   "Content-Type: text/event-stream; charset=utf-8\r\n" ALWAYS
                                   "request-id: req_2\r\nConnection: close\r\n\r\n");
}

static void access_fields_follow_the_verdict(void **state)
{
    (void)state;
    tt_http_verdict v = {.allow_origin = "https://a.example",
                         .allow_headers = "authorization",
                         .preflight = true,
                         .ask_for_key = true};
    tt_reply_head h = {.status = 204, .now = NOW, .allow = "POST, OPTIONS", .verdict = &v};
#define CORS                                                                                       \
    "Access-Control-Allow-Origin: https://a.example\r\nVary: Origin\r\n"                           \
    "Access-Control-Expose-Headers: x-request-id, request-id, retry-after\r\n"
    tt_reply_write_head(&out, &h);
    assert_string_equal(written(),
                        "HTTP/1.1 204 No Content\r\n" DATE ALWAYS "Allow: POST, OPTIONS\r\n" CORS
                        "Access-Control-Allow-Methods: POST, OPTIONS\r\n"
                        "Access-Control-Max-Age: 600\r\n"
                        "Access-Control-Allow-Headers: authorization\r\n\r\n");
    h = (tt_reply_head){.status = 401, .now = NOW, .length = 0, .close = true, .verdict = &v};
    tt_reply_write_head(&out, &h);
    assert_string_equal(written(), "HTTP/1.1 401 Unauthorized\r\n" DATE
                                   "Content-Type: application/json\r\nContent-Length: 0\r\n" ALWAYS
                                   "WWW-Authenticate: Bearer\r\n" CORS "Connection: close\r\n\r\n");
    v = (tt_http_verdict){0};
    h.close = false;
    tt_reply_write_head(&out, &h);
    assert_null(strstr(written(), "Access-Control"));
}

static void refusals_speak_both_languages(void **state)
{
    (void)state;
    tt_reply_error e = {429, "queue_full", "the queue is \"full\"", NULL};
    tt_reply_head h = {.request_id = "req_3", .now = NOW, .retry_after = 7};
#define OPENAI_BODY                                                                                \
    "{\"error\":{\"message\":\"the queue is \\\"full\\\"\",\"type\":\"rate_limit_error\","         \
    "\"param\":null,\"code\":\"queue_full\"}}"
    tt_reply_write_refusal(&out, &h, &e, false);
    assert_string_equal(written(),
                        "HTTP/1.1 429 Too Many Requests\r\n" DATE
                        "Content-Type: application/json\r\nContent-Length: 104\r\n" ALWAYS
                        "x-request-id: req_3\r\nRetry-After: 7\r\n\r\n" OPENAI_BODY);
    tt_reply_write_refusal(&out, &h, &e, true);
    const char *head = written();
    assert_non_null(strstr(head, "Content-Length: 104\r\n"));
    assert_string_equal(head + strlen(head) - 4, "\r\n\r\n");

    h.envelope = TT_ENVELOPE_ANTHROPIC;
    tt_reply_write_refusal(&out, &h, &e, false);
    const char *text = written();
    assert_true(strncmp(text, "HTTP/1.1 529 Overloaded\r\n", 25) == 0);
    assert_string_equal(strstr(text, "\r\n\r\n") + 4,
                        "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                        "\"the queue is \\\"full\\\"\"},\"request_id\":\"req_3\"}");
    e = (tt_reply_error){404, "model_not_found", "there is no model x", "model"};
    tt_reply_write_error(&out, TT_ENVELOPE_ANTHROPIC, &e, "req_4");
    assert_string_equal(written(),
                        "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":"
                        "\"model: there is no model x\"},\"request_id\":\"req_4\"}");
    tt_reply_write_error(&out, TT_ENVELOPE_OPENAI, &e, "req_4");
    assert_string_equal(written(), "{\"error\":{\"message\":\"there is no model x\",\"type\":"
                                   "\"invalid_request_error\",\"param\":\"model\",\"code\":"
                                   "\"model_not_found\"}}");
}

/* The rows of section 3 of docs/http.md. */
static void types_follow_the_status(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *openai, *anthropic;
    } rows[] = {
        {400, "invalid_request_error", "invalid_request_error"},
        {401, "invalid_request_error", "authentication_error"},
        {403, "invalid_request_error", "permission_error"},
        {404, "invalid_request_error", "not_found_error"},
        {405, "invalid_request_error", "invalid_request_error"},
        {408, "invalid_request_error", "invalid_request_error"},
        {413, "invalid_request_error", "request_too_large"},
        {414, "invalid_request_error", "invalid_request_error"},
        {415, "invalid_request_error", "invalid_request_error"},
        {417, "invalid_request_error", "invalid_request_error"},
        {429, "rate_limit_error", "overloaded_error"},
        {431, "invalid_request_error", "invalid_request_error"},
        {500, "server_error", "api_error"},
        {501, "invalid_request_error", "invalid_request_error"},
        {503, "server_error", "overloaded_error"},
        {505, "invalid_request_error", "invalid_request_error"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tt_reply_error e = {rows[i].status, "code", "message", NULL};
        for (int k = 0; k < 2; k++) {
            char want[64];
            snprintf(want, sizeof want, "\"type\":\"%s\"",
                     k == 0 ? rows[i].openai : rows[i].anthropic);
            tt_reply_write_error(&out, k == 0 ? TT_ENVELOPE_OPENAI : TT_ENVELOPE_ANTHROPIC, &e,
                                 "r");
            assert_non_null(strstr(written(), want));
        }
        tt_reply_head h = {.status = rows[i].status, .now = NOW};
        tt_reply_write_head(&out, &h);
        assert_null(strstr(written(), " \r\n")); /* every status has its words */
    }
    for (int why = 1; why <= TT_HTTP1_REFUSED_MEMORY; why++) {
        tt_reply_head h = {.status = tt_http1_refusal_status((tt_http1_refusal)why), .now = NOW};
        tt_reply_write_head(&out, &h);
        assert_null(strstr(written(), " \r\n"));
    }
}

static void envelopes_follow_the_path(void **state)
{
    (void)state;
    assert_int_equal(tt_reply_envelope(NULL, true), TT_ENVELOPE_OPENAI);
    assert_int_equal(tt_reply_envelope("/v1/messages", false), TT_ENVELOPE_ANTHROPIC);
    assert_int_equal(tt_reply_envelope("/v1/messages?beta=true", false), TT_ENVELOPE_ANTHROPIC);
    assert_int_equal(tt_reply_envelope("/v1/messages/count_tokens", false), TT_ENVELOPE_ANTHROPIC);
    assert_int_equal(tt_reply_envelope("/v1/messagesx", true), TT_ENVELOPE_OPENAI);
    assert_int_equal(tt_reply_envelope("/v1/models", false), TT_ENVELOPE_OPENAI);
    assert_int_equal(tt_reply_envelope("/v1/models", true), TT_ENVELOPE_ANTHROPIC);
    assert_int_equal(tt_reply_envelope("/v1/models/a", true), TT_ENVELOPE_ANTHROPIC);
    assert_int_equal(tt_reply_envelope("/v1/chat/completions", true), TT_ENVELOPE_OPENAI);
}

static void check_text(const char *text, size_t len, const char *want)
{
    tt_reply_write_text(&out, text, len);
    assert_string_equal(written(), want);
}

static void text_is_json_whatever_it_is(void **state)
{
    (void)state;
    check_text("", 0, "\"\"");
    check_text("a\"b\\c/\n\r\t\b\f", 11, "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\"");
    check_text("\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\"");
    check_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
               "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
#define BAD "\xef\xbf\xbd"
    check_text("a\xff"
               "b",
               3, "\"a" BAD "b\"");
    check_text("\xc3", 1, "\"" BAD "\"");
    check_text("\xc0\x80", 2, "\"" BAD BAD "\"");
    check_text("\xed\xa0\x80", 3, "\"" BAD BAD BAD "\"");
    check_text("\xf4\x90\x80\x80", 4, "\"" BAD BAD BAD BAD "\"");
    check_text("\xe0\x9f\xbf", 3, "\"" BAD BAD BAD "\"");
    check_text("\xf0\x8f\xbf\xbf", 4, "\"" BAD BAD BAD BAD "\"");
    check_text("\xe2\x82"
               "x",
               3, "\"" BAD BAD "x\"");

    /* Two bytes of every value: jansson, which is strict, reads what was written. */
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const char pair[2] = {(char)a, (char)b};
            tt_reply_write_text(&out, pair, 2);
            json_t *v = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            assert_non_null(v);
            assert_true(json_string_length(v) >= 2);
            assert_null(memchr(out.data, '\n', out.len));
            json_decref(v);
            tt_buf_clear(&out);
        }
    }
}

static void events_are_framed(void **state)
{
    (void)state;
    tt_sse_write(&out, true, NULL, "{\"a\":1}", 7);
    assert_string_equal(written(), "f\r\ndata: {\"a\":1}\n\n\r\n");
    tt_sse_write(&out, true, "message_stop", "{}", 2);
    assert_string_equal(written(), "1e\r\nevent: message_stop\ndata: {}\n\n\r\n");
    tt_sse_write(&out, false, NULL, "[DONE]", 6);
    assert_string_equal(written(), "data: [DONE]\n\n");
    tt_sse_write_comment(&out, true, "ping");
    assert_string_equal(written(), "8\r\n: ping\n\n\r\n");
    tt_sse_write_comment(&out, false, "ping");
    assert_string_equal(written(), ": ping\n\n");
    tt_sse_write_end(&out, true);
    assert_string_equal(written(), "0\r\n\r\n");
    tt_sse_write_end(&out, false);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    tt_buf_init(&out, 1 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_exact),
        cmocka_unit_test(access_fields_follow_the_verdict),
        cmocka_unit_test(refusals_speak_both_languages),
        cmocka_unit_test(types_follow_the_status),
        cmocka_unit_test(envelopes_follow_the_path),
        cmocka_unit_test(text_is_json_whatever_it_is),
        cmocka_unit_test(events_are_framed),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    tt_buf_free(&out);
    return rc;
}
