/* Proves which path a request target names: queries, percent signs, slashes that were written as
 * percent signs, ids of models; and that methods are those of section 4 of docs/http.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "server/routes.h"

static char id[128];

static void targets_name_paths(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        tt_route route;
        const char *id;
    } rows[] = {
        {"/", TT_ROUTE_ROOT, ""},
        {"/?a=b", TT_ROUTE_ROOT, ""},
        {"/health", TT_ROUTE_HEALTH, ""},
        {"/health?/v1/models/x", TT_ROUTE_HEALTH, ""},
        {"/%68ealth", TT_ROUTE_HEALTH, ""},
        {"/metrics", TT_ROUTE_METRICS, ""},
        {"/v1/status", TT_ROUTE_STATUS, ""},
        {"/v1/models", TT_ROUTE_MODELS, ""},
        {"/v1/models?limit=1", TT_ROUTE_MODELS, ""},
        {"/v1/chat/completions", TT_ROUTE_CHAT, ""},
        {"/v1/completions", TT_ROUTE_TEXT, ""},
        {"/tokenize", TT_ROUTE_COUNT, ""},
        {"/v1/models/unload", TT_ROUTE_UNLOAD, ""},
        {"/v1/models/%75nload?x", TT_ROUTE_UNLOAD, ""},
        {"/v1/models/unload/", TT_ROUTE_OTHER, ""},
        {"/v1/models/Unload", TT_ROUTE_MODEL, "Unload"},
        {"/v1/responses", TT_ROUTE_RESPONSES, ""},
        {"/v1/responses/compact", TT_ROUTE_RESPONSE_COMPACT, ""},
        {"/v1/responses/resp_1", TT_ROUTE_RESPONSE, "resp_1"},
        {"/v1/responses/comp%61ct?x", TT_ROUTE_RESPONSE_COMPACT, ""},
        {"/v1/responses/compacted", TT_ROUTE_RESPONSE, "compacted"},
        {"/v1/responses/a%2Fcancel", TT_ROUTE_RESPONSE, "a/cancel"},
        {"/v1/responses/resp%5F1/input_items?limit=2", TT_ROUTE_RESPONSE_ITEMS, "resp_1"},
        {"/v1/responses/resp_1/cancel", TT_ROUTE_RESPONSE_CANCEL, "resp_1"},
        {"/v1/responses/", TT_ROUTE_OTHER, ""},
        {"/v1/responses//cancel", TT_ROUTE_OTHER, ""},
        {"/v1/responses/resp_1/", TT_ROUTE_OTHER, ""},
        {"/v1/responses/resp_1/output_items", TT_ROUTE_OTHER, ""},
        {"/v1/responses/resp_1/cancel/now", TT_ROUTE_OTHER, ""},
        {"/v1/models/tales_4-Bit", TT_ROUTE_MODEL, "tales_4-Bit"},
        {"/v1/models/tales%5F4-Bit?x", TT_ROUTE_MODEL, "tales_4-Bit"},
        {"/v1/%6dodels/x", TT_ROUTE_MODEL, "x"},
        /* The path is split before its percent signs are read. */
        {"/v1/models/a%2Fb", TT_ROUTE_MODEL, "a/b"},
        {"/v1/models%2Fx", TT_ROUTE_OTHER, ""},
        {"/v1%2fmodels", TT_ROUTE_OTHER, ""},
        {"/v1%2Fmodels/x", TT_ROUTE_OTHER, ""},
        {"/v1/chat%2Fcompletions", TT_ROUTE_OTHER, ""},
        /* And they are read once. */
        {"/%2568ealth", TT_ROUTE_OTHER, ""},
        {"/v1/models/a%252Fb", TT_ROUTE_MODEL, "a%2Fb"},
        {"/v1/models/", TT_ROUTE_OTHER, ""},
        {"/v1/models/a/b", TT_ROUTE_OTHER, ""},
        {"/v1/models//", TT_ROUTE_OTHER, ""},
        {"/v1/models/{id}", TT_ROUTE_MODEL, "{id}"},
        {"//health", TT_ROUTE_OTHER, ""},
        {"/health/", TT_ROUTE_OTHER, ""},
        {"/Health", TT_ROUTE_OTHER, ""},
        {"/v1", TT_ROUTE_OTHER, ""},
        {"/other", TT_ROUTE_OTHER, ""},
        {"/v1/messages", TT_ROUTE_MESSAGES, ""},
        {"/v1/messages?beta=true", TT_ROUTE_MESSAGES, ""},
        {"/v1/messages/count_tokens", TT_ROUTE_MESSAGES_COUNT, ""},
        {"/v1/messages/count_tokens?beta=true", TT_ROUTE_MESSAGES_COUNT, ""},
        {"/v1/messages/batches", TT_ROUTE_OTHER, ""},
        {"*", TT_ROUTE_OTHER, ""},
        {"", TT_ROUTE_OTHER, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tt_route found = tt_route_find(rows[i].target, id);
        if (found != rows[i].route || strcmp(id, rows[i].id) != 0)
            fail_msg("%s: %s with \"%s\"", rows[i].target, tt_route_names[found], id);
    }
}

static void what_is_too_long_is_no_path(void **state)
{
    (void)state;
    char target[1024] = "/v1/models/";
    size_t n = strlen(target);
    memset(target + n, 'a', 127);
    assert_int_equal(tt_route_find(target, id), TT_ROUTE_MODEL);
    assert_int_equal(strlen(id), 127);
    target[n + 127] = 'a';
    assert_int_equal(tt_route_find(target, id), TT_ROUTE_OTHER);
    memset(target, '/', 1000);
    assert_int_equal(tt_route_find(target, id), TT_ROUTE_OTHER);
}

static void methods(void **state)
{
    (void)state;
    assert_true(tt_route_takes(TT_ROUTE_HEALTH, "GET"));
    assert_true(tt_route_takes(TT_ROUTE_HEALTH, "HEAD"));
    assert_true(tt_route_takes(TT_ROUTE_HEALTH, "OPTIONS"));
    assert_false(tt_route_takes(TT_ROUTE_HEALTH, "POST"));
    assert_true(tt_route_takes(TT_ROUTE_CHAT, "POST"));
    /* Parts of the list are no methods. */
    static const char *const wrong[] = {"", "GE", "ET", "EAD", ",", " ", "get"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(tt_route_takes(TT_ROUTE_HEALTH, wrong[i]));
    assert_false(tt_route_takes(TT_ROUTE_CHAT, "GET"));
    assert_true(tt_route_takes(TT_ROUTE_RESPONSE, "DELETE"));
    assert_false(tt_route_takes(TT_ROUTE_RESPONSE, "POST"));
    assert_false(tt_route_takes(TT_ROUTE_RESPONSE_ITEMS, "DELETE"));
    assert_false(tt_route_takes(TT_ROUTE_OTHER, "GET"));
}

/* Every path of the page with its methods, and none beside them. */
static void the_page_says_the_same(void **state)
{
    (void)state;
    char *page, row[128];
    size_t len, rows = 0;
    assert_int_equal(tt_file_read("docs/http.md", 1 << 20, &page, &len, NULL), TT_OK);
    char *section = strstr(page, "\n## 4. "), *end = strstr(section, "\n## 5. ");
    *end = '\0';
    for (char *at = section; (at = strstr(at, "\n| `/")) != NULL; at++)
        rows++;
    assert_int_equal(rows, TT_ROUTE_OTHER);
    for (int i = 0; i < TT_ROUTE_OTHER; i++) {
        const char *list = tt_route_methods((tt_route)i), *last = strstr(list, ", OPTIONS");
        assert_non_null(last);
        snprintf(row, sizeof row, "\n| `%s` | %.*s |", tt_route_names[i], (int)(last - list), list);
        if (strstr(section, row) == NULL)
            fail_msg("docs/http.md, section 4, lacks:%s", row);
    }
    tt_free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_name_paths),
        cmocka_unit_test(what_is_too_long_is_no_path),
        cmocka_unit_test(methods),
        cmocka_unit_test(the_page_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
