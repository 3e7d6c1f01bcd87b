/* Proves who is let in: every spelling of Host and Origin that counts, the key and its file,
 * content types, preflight, and that the checks answer in the order that docs/http.md gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/http_policy.h"

static const char *const named[] = {"https://app.example", "vscode-webview://abc:7"};
static const tt_http_policy open_policy = {.port = 8080, .origins = named, .n_origins = 2};
static const tt_http_policy locked = {
    .port = 8080, .origins = named, .n_origins = 2, .key = "sesame-12"};

static tt_http1 request; /* of the last call, for what the verdict borrows */

/* "POST /v1/x" and fields, to a request whose head has been read. */
static const tt_http1 *read_head(const char *line, const char *fields)
{
    char text[4096];
    tt_http1_event e;
    tt_http1_free(&request);
    tt_http1_init(&request);
    int n = snprintf(text, sizeof text, "%s HTTP/1.1\r\n%s\r\n", line, fields);
    assert_in_range(n, 1, sizeof text - 1);
    assert_int_equal(tt_http1_feed(&request, text, (size_t)n, &e), n);
    assert_int_equal(e.kind, TT_HTTP1_HEAD);
    return &request;
}

static tt_http_verdict admit(const tt_http_policy *p, const char *line, const char *fields)
{
    tt_http_verdict v;
    bool in = tt_http_admit(p, read_head(line, fields), &v);
    assert_int_equal(in, v.status == 0);
    assert_int_equal(in, v.code == NULL);
    assert_true(in || strlen(v.text) > 10);
    return v;
}

static void check_code(const tt_http_verdict *v, int status, const char *code)
{
    assert_int_equal(v->status, status);
    if (code == NULL)
        assert_null(v->code);
    else
        assert_string_equal(v->code, code);
}

#define HOST "Host: localhost:8080\r\n"

static void host_is_this_machine(void **state)
{
    (void)state;
    static const char *const in[] = {"127.0.0.1",   "localhost",      "LocalHost:1",      "[::1]",
                                     "[::1]:65535", "127.0.0.1:8080", " localhost:00080 "};
    static const char *const out[] = {"example.com",
                                      "localhost.",
                                      "localhost:",
                                      "localhost:0",
                                      "localhost:65536",
                                      "localhost:8080x",
                                      "localhost.evil",
                                      "127.0.0.1.evil",
                                      "127.0.0.11",
                                      "127.1",
                                      "::1",
                                      "[::1",
                                      "evil:80@localhost",
                                      "localhost:-1",
                                      "localhost:999999",
                                      "localhost, evil",
                                      "0.0.0.0:8080",
                                      "127.0.0.1@evil"};
    char field[128];
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        snprintf(field, sizeof field, "Host: %s\r\n", in[i]);
        tt_http_verdict v = admit(&open_policy, "GET /x", field);
        check_code(&v, 0, NULL);
    }
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
        snprintf(field, sizeof field, "Host: %s\r\n", out[i]);
        tt_http_verdict v = admit(&open_policy, "GET /x", field);
        check_code(&v, 403, "host_not_allowed");
    }
    tt_http_verdict v = admit(&open_policy, "GET /x", "");
    check_code(&v, 400, "missing_host");
    v = admit(&open_policy, "GET /health", "Host:\r\n");
    check_code(&v, 400, "missing_host");
}

static void origin_is_ours_or_named(void **state)
{
    (void)state;
    static const struct {
        const char *origin;
        uint16_t port;
        int status;
        bool cors;
    } cases[] = {
        {"http://localhost:8080", 8080, 0, false},
        {"http://127.0.0.1:8080", 8080, 0, false},
        {"http://[::1]:8080", 8080, 0, false},
        {"HTTP://LOCALHOST:8080", 8080, 0, false},
        {"http://localhost", 80, 0, false},
        {"http://localhost", 8080, 403, false},
        {"http://localhost:8081", 8080, 403, false},
        {"https://localhost:8080", 8080, 403, false},
        {"http://localhost:8080", 0, 403, false},
        {"http://localhost:0", 0, 403, false},
        {"http://localhost", 0, 403, false},
        {"http://localhost:8080/", 8080, 403, false},
        {"http://localhost.evil:8080", 8080, 403, false},
        {"http://evil.example:8080", 8080, 403, false},
        {"null", 8080, 403, false},
        {"NULL", 8080, 403, false},
        {"", 8080, 403, false},
        {"https://app.example", 8080, 0, true},
        {"https://App.Example", 8080, 0, true},
        {"https://app.example", 0, 0, true},
        {"http://app.example", 8080, 403, false},
        {"https://app.example:443", 8080, 403, false},
        {"https://app.example.evil", 8080, 403, false},
        {"vscode-webview://abc:7", 8080, 0, true},
    };
    char field[160];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tt_http_policy p = open_policy;
        p.port = cases[i].port;
        snprintf(field, sizeof field, HOST "Origin: %s\r\n", cases[i].origin);
        tt_http_verdict v = admit(&p, "GET /x", field);
        check_code(&v, cases[i].status, cases[i].status == 0 ? NULL : "origin_not_allowed");
        assert_int_equal(v.allow_origin != NULL, cases[i].cors);
        if (cases[i].cors)
            assert_string_equal(v.allow_origin, cases[i].origin);
    }
    /* Somebody who named "null" all the same does not get it. */
    static const char *const null_named[] = {"null"};
    tt_http_policy p = {.port = 8080, .origins = null_named, .n_origins = 1};
    tt_http_verdict v = admit(&p, "GET /x", HOST "Origin: null\r\n");
    check_code(&v, 403, "origin_not_allowed");
}

static void preflight_needs_a_named_origin_and_no_key(void **state)
{
    (void)state;
#define ASK "Access-Control-Request-Method: POST\r\n"
    tt_http_verdict v = admit(&locked, "OPTIONS /v1/x",
                              HOST "Origin: https://app.example\r\n" ASK
                                   "Access-Control-Request-Headers: authorization, X-a_b\r\n");
    check_code(&v, 0, NULL);
    assert_true(v.preflight);
    assert_string_equal(v.allow_origin, "https://app.example");
    assert_string_equal(v.allow_headers, "authorization, X-a_b");

    v = admit(&locked, "OPTIONS /v1/x", HOST "Origin: https://app.example\r\n" ASK);
    assert_true(v.preflight);
    assert_null(v.allow_headers);
    v = admit(&locked, "OPTIONS /v1/x",
              HOST "Origin: https://app.example\r\n" ASK
                   "Access-Control-Request-Headers: a<b>\r\n");
    assert_true(v.preflight);
    assert_null(v.allow_headers);

    v = admit(&locked, "OPTIONS /v1/x", HOST "Origin: https://evil.example\r\n" ASK);
    check_code(&v, 403, "origin_not_allowed");
    v = admit(&locked, "OPTIONS /v1/x", HOST "Origin: http://localhost:8080\r\n" ASK);
    check_code(&v, 401, "invalid_api_key");
    v = admit(&locked, "OPTIONS /v1/x", HOST "Origin: https://app.example\r\n");
    check_code(&v, 401, "invalid_api_key");
    v = admit(&locked, "POST /v1/x", HOST "Origin: https://app.example\r\n" ASK);
    check_code(&v, 401, "invalid_api_key");
    assert_false(v.preflight);
    assert_string_equal(v.allow_origin, "https://app.example"); /* so that the page can read it */
}

static void the_key_is_asked_for(void **state)
{
    (void)state;
    static const char *const right[] = {
        "Authorization: Bearer sesame-12\r\n", "authorization: bEARER   sesame-12\r\n",
        "X-API-Key: sesame-12\r\n", "Authorization: Bearer no\r\nx-api-key: sesame-12\r\n",
        "x-api-key: no\r\nAuthorization: Bearer sesame-12\r\n"};
    static const char *const wrong[] = {
        "",
        "Authorization: sesame-12\r\n",
        "Authorization: Basic sesame-12\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer sesame-1\r\n",
        "Authorization: Bearer sesame-123\r\n",
        "Authorization: Bearer sesame-13\r\n",
        "Authorization: Bearer tesame-12\r\n",
        "Authorization: Bearer Sesame-12\r\n",
        "x-api-key:\r\n",
        "x-api-key: ssssssssssssssssssssssssssss\r\n",
    };
    char fields[256];
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        snprintf(fields, sizeof fields, HOST "%s", right[i]);
        tt_http_verdict v = admit(&locked, "GET /v1/models", fields);
        check_code(&v, 0, NULL);
        assert_false(v.ask_for_key);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(fields, sizeof fields, HOST "%s", wrong[i]);
        tt_http_verdict v = admit(&locked, "GET /v1/models", fields);
        check_code(&v, 401, "invalid_api_key");
        assert_true(v.ask_for_key);
        v = admit(&open_policy, "GET /v1/models", fields);
        check_code(&v, 0, NULL);
    }
    static const char *const opened[] = {"GET /", "GET /?a", "HEAD /health", "GET /health?a=b"};
    static const char *const closed[] = {"GET /health/", "GET /healthy",  "GET /metrics",
                                         "GET //",       "GET /heal%74h", "GET /HEALTH"};
    for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++) {
        tt_http_verdict v = admit(&locked, opened[i], HOST);
        check_code(&v, 0, NULL);
    }
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        tt_http_verdict v = admit(&locked, closed[i], HOST);
        check_code(&v, 401, "invalid_api_key");
    }
}

static void checks_come_in_order(void **state)
{
    (void)state;
    tt_http_verdict v = admit(&locked, "GET /x", "Host: evil\r\nHost: evil\r\nOrigin: null\r\n");
    check_code(&v, 400, "duplicate_header");
    v = admit(&locked, "GET /x", "Host: evil\r\nOrigin: null\r\n");
    check_code(&v, 403, "host_not_allowed");
    v = admit(&locked, "GET /x", HOST "Origin: null\r\n");
    check_code(&v, 403, "origin_not_allowed");
    static const char *const once[] = {"Origin", "Content-Type", "content-encoding",
                                       "AUTHORIZATION", "x-api-key"};
    char fields[160];
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
        snprintf(fields, sizeof fields, HOST "%s: a\r\nAccept: b\r\n%s: a\r\n", once[i], once[i]);
        v = admit(&open_policy, "GET /x", fields);
        check_code(&v, 400, "duplicate_header");
    }
    v = admit(&open_policy, "GET /x", HOST "Accept: a\r\nAccept: b\r\n");
    check_code(&v, 0, NULL);
}

static void content_is_json(void **state)
{
    (void)state;
    static const struct {
        const char *line, *fields, *code;
    } cases[] = {
        {"POST /x", "Content-Type: application/json\r\n", NULL},
        {"POST /x", "Content-Type: Application/JSON ; charset=UTF-8\r\n", NULL},
        {"POST /x", "Content-Type: application/json;a=b; charset=\"utf-8\"\r\n", NULL},
        {"POST /x", "Content-Type: application/json\r\nContent-Encoding: identity\r\n", NULL},
        {"POST /x", "", "unsupported_media_type"},
        {"POST /x", "Content-Type: text/plain\r\n", "unsupported_media_type"},
        {"POST /x", "Content-Type: application/json-seq\r\n", "unsupported_media_type"},
        {"POST /x", "Content-Type: application/jsonx; a\r\n", "unsupported_media_type"},
        {"POST /x", "Content-Type: application/json, text/plain\r\n", "unsupported_media_type"},
        {"POST /x", "Content-Type: application/json; charset=latin1\r\n", "unsupported_media_type"},
        {"POST /x", "Content-Type: application/json; charset=utf-8x\r\n", "unsupported_media_type"},
        {"POST /x", "Content-Type: application/x-www-form-urlencoded\r\n",
         "unsupported_media_type"},
        {"POST /x", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
         "unsupported_media_type"},
        {"GET /x", "", NULL},
        {"GET /x", "Content-Length: 0\r\n", NULL},
        {"GET /x", "Content-Length: 1\r\n", "unexpected_body"},
        {"DELETE /x", "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n",
         "unexpected_body"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tt_http_verdict v = {0};
        bool ok = tt_http_check_content(read_head(cases[i].line, cases[i].fields), &v);
        assert_int_equal(ok, cases[i].code == NULL);
        int status = ok ? 0 : strcmp(cases[i].code, "unexpected_body") == 0 ? 400 : 415;
        check_code(&v, status, cases[i].code);
    }
}

static void origins_of_the_command_line(void **state)
{
    (void)state;
    static const char *const fine[] = {"https://a.example", "http://localhost:3000",
                                       "http://[::1]:1",    "http://[::1]",
                                       "app://x",           "vscode-webview://1a-2b"};
    static const char *const not_fine[] = {"null",
                                           "*",
                                           "https://",
                                           "https://*",
                                           "a.example",
                                           "https://a.example/",
                                           "https://a:",
                                           "https://a:0",
                                           "https://a:b",
                                           "https://u@a",
                                           "://a",
                                           "https://a b",
                                           "http://[::1",
                                           "http://[]",
                                           "",
                                           "https://a\xc3\xa9",
                                           "http://[::1]x",
                                           "https://a?b"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        assert_true(tt_http_origin_valid(fine[i]));
    for (size_t i = 0; i < sizeof not_fine / sizeof not_fine[0]; i++)
        assert_false(tt_http_origin_valid(not_fine[i]));
}

/* ---- the file of the key ---- */

static void write_file(const char *path, const char *text, size_t n, mode_t mode)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void key_files_are_private(void **state)
{
    (void)state;
    char dir[256], path[300], link[300], key[TT_API_KEY_MAX + 1] = "as before";
    const char *tmp = getenv("TMPDIR");
    tt_error err = {0};
    snprintf(dir, sizeof dir, "%s/keyXXXXXX", tmp == NULL ? "/tmp" : tmp);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/key", dir);
    snprintf(link, sizeof link, "%s/link", dir);

    static const mode_t open_to_others[] = {0640, 0604, 0660, 0610, 0601};
    for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
        write_file(path, "k", 1, open_to_others[i]);
        assert_int_equal(tt_api_key_load(path, key, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "chmod 600"));
    }
    static const struct {
        const char *text, *want;
    } cases[] = {{"k", "k"},     {"k-1\n", "k-1"}, {"k\r\n", "k"},
                 {"", NULL},     {"\n", NULL},     {"a b\n", NULL},
                 {"a\nb", NULL}, {"a\n\n", NULL},  {"\xc3\xa9", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(path, cases[i].text, strlen(cases[i].text), 0600);
        strcpy(key, "as before");
        tt_status st = tt_api_key_load(path, key, &err);
        assert_int_equal(st, cases[i].want == NULL ? TT_ERR_INVALID : TT_OK);
        assert_string_equal(key, cases[i].want == NULL ? "as before" : cases[i].want);
    }
    write_file(path, "a\0b", 3, 0600);
    assert_int_equal(tt_api_key_load(path, key, &err), TT_ERR_INVALID);

    char most[TT_API_KEY_MAX + 8];
    memset(most, 'k', sizeof most);
    memcpy(most + TT_API_KEY_MAX, "\r\n", 2);
    write_file(path, most, TT_API_KEY_MAX + 2, 0400);
    assert_int_equal(tt_api_key_load(path, key, &err), TT_OK);
    assert_int_equal(strlen(key), TT_API_KEY_MAX);
    /* Only root can make a file that is another's. */
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, 1), 0);
        assert_int_equal(tt_api_key_load(path, key, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "belongs to user 1"));
    }
    unlink(path);
    memset(most, 'k', sizeof most);
    write_file(path, most, TT_API_KEY_MAX + 1, 0600);
    assert_int_equal(tt_api_key_load(path, key, &err), TT_ERR_INVALID);

    write_file(path, "k", 1, 0600);
    assert_int_equal(tt_api_key_load(path, key, &err), TT_OK);
    assert_int_equal(symlink(path, link), 0);
    assert_int_not_equal(tt_api_key_load(link, key, &err), TT_OK);
    assert_int_not_equal(tt_api_key_load(dir, key, &err), TT_OK);
    unlink(link);
    unlink(path);
    assert_int_equal(tt_api_key_load(path, key, &err), TT_ERR_NOT_FOUND);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tt_api_key_load(path, key, &err), TT_ERR_INVALID);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    tt_http1_init(&request);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_this_machine),
        cmocka_unit_test(origin_is_ours_or_named),
        cmocka_unit_test(preflight_needs_a_named_origin_and_no_key),
        cmocka_unit_test(the_key_is_asked_for),
        cmocka_unit_test(checks_come_in_order),
        cmocka_unit_test(content_is_json),
        cmocka_unit_test(origins_of_the_command_line),
        cmocka_unit_test(key_files_are_private),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    tt_http1_free(&request);
    return rc;
}
