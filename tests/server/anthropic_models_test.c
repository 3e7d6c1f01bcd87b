/* Proves the pages of the list of models as docs/http.md, section 14.7, has them, and a model's
 * object to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/anthropic_models.h"

static const bool none[TT_EFFORTS];
static const tt_listed_model list[] = {
    {"a", 1, 10, none}, {"b c", 2, 20, none}, {"c&d", 3, 30, none}, {"e", 4, 40, none}};

/* The ids of the page, then what it says of itself; the refusal's field when there is one. */
static const char *page(const char *target, size_t n)
{
    static char text[512];
    json_t *tree = NULL, *m;
    tt_refusal why;
    tt_buf b;
    size_t i;
    tt_buf_init(&b, 1 << 20);
    text[0] = '\0';
    if (!tt_listed_models_write(target, list, n, &b, &why)) {
        assert_int_equal(why.status, 400);
        assert_string_equal(why.code, "invalid_value");
        snprintf(text, sizeof text, "!%s", why.param);
        tt_buf_free(&b);
        return text;
    }
    assert_int_equal(tt_json_parse(b.data, b.len, "page", &tree, NULL), TT_OK);
    json_array_foreach(json_object_get(tree, "data"), i, m)
    {
        strcat(text, json_string_value(json_object_get(m, "id")));
        strcat(text, ";");
    }
    strcat(text, json_is_true(json_object_get(tree, "has_more")) ? "more" : "all");
    const char *const ends[] = {"first_id", "last_id"};
    for (i = 0; i < 2; i++) {
        const char *id = json_string_value(json_object_get(tree, ends[i]));
        strcat(text, " ");
        strcat(text, id != NULL ? id : "null");
    }
    json_decref(tree);
    tt_buf_free(&b);
    return text;
}

static void pages(void **state)
{
    (void)state;
    static const struct {
        const char *query, *want;
    } rows[] = {
        {"", "a;b c;c&d;e;all a e"},
        {"?", "a;b c;c&d;e;all a e"},
        {"?limit=4", "a;b c;c&d;e;all a e"},
        {"?limit=3", "a;b c;c&d;more a c&d"},
        {"?beta=true&limit=1", "a;more a a"},
        {"?after_id=a", "b c;c&d;e;all b c e"},
        {"?after_id=b%20c&limit=1", "c&d;more c&d c&d"},
        {"?limit=1&after_id=c%26d", "e;all e e"},
        {"?after_id=e", "all null null"},
        {"?before_id=e", "a;b c;c&d;all a c&d"},
        {"?before_id=e&limit=2", "b c;c&d;more b c c&d"},
        {"?before_id=b%20c&limit=2", "a;all a a"},
        {"?before_id=a", "all null null"},
        {"?limit=1000", "a;b c;c&d;e;all a e"},
        {"?limits=0", "a;b c;c&d;e;all a e"},
        {"?limit=0", "!limit"},
        {"?limit=1001", "!limit"},
        {"?limit=", "!limit"},
        {"?limit=-1", "!limit"},
        {"?limit=1x", "!limit"},
        {"?limit=99999999999999999999", "!limit"},
        {"?after_id=f", "!after_id"},
        {"?after_id=a%00", "!after_id"},
        {"?before_id=", "!before_id"},
        {"?after_id=a&before_id=e", "!before_id"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[256];
        snprintf(target, sizeof target, "/v1/models%s", rows[i].query);
        assert_string_equal(page(target, 4), rows[i].want);
    }
    assert_string_equal(page("/v1/models", 0), "all null null");
    assert_string_equal(page("/v1/models?after_id=a", 0), "!after_id");
}

/* Pages in either direction hold every model once. */
static void walks(void **state)
{
    (void)state;
    for (int limit = 1; limit <= 5; limit++)
        for (int back = 0; back < 2; back++) {
            char target[256], cursor[64] = "";
            size_t seen = 0;
            const char *text = "more";
            while (strstr(text, "more") != NULL) {
                snprintf(target, sizeof target, "/v1/models?limit=%d%s%s", limit,
                         cursor[0] == '\0' ? ""
                         : back            ? "&before_id="
                                           : "&after_id=",
                         cursor);
                if (back && cursor[0] == '\0')
                    strcat(target, "&before_id=e");
                text = page(target, 4);
                for (const char *at = text; (at = strchr(at, ';')) != NULL; at++)
                    seen++;
                json_int_t place = back ? 3 - (json_int_t)seen : (json_int_t)seen - 1;
                const char *id = place >= 0 && place < 4 ? list[place].id : "";
                snprintf(cursor, sizeof cursor, "%s",
                         strcmp(id, "b c") == 0   ? "b%20c"
                         : strcmp(id, "c&d") == 0 ? "c%26d"
                                                  : id);
            }
            assert_int_equal(seen, back ? 3 : 4);
        }
}

/* clang-format off */
#define YES(name) "\"" name "\":{\"supported\":true}"
#define NO(name)  "\"" name "\":{\"supported\":false}"

static const char object[] =
    "{\"type\":\"model\",\"id\":\"x\\\"y\",\"display_name\":\"x\\\"y\","
    "\"created_at\":\"2023-11-14T22:13:20Z\",\"max_input_tokens\":4096,\"max_tokens\":4096,"
    "\"lifecycle\":\"active\",\"line\":null,\"deprecated_at\":null,\"retires_at\":null,"
    "\"capabilities\":{"
    NO("batch") "," NO("citations") "," NO("code_execution") "," NO("image_input") ","
    NO("pdf_input") "," YES("structured_outputs") ","
    "\"context_management\":{" NO("clear_thinking_20251015") "," NO("clear_tool_uses_20250919") ","
    NO("compact_20260112") ",\"supported\":false},"
    "\"effort\":{" YES("low") "," NO("medium") "," NO("high") "," NO("xhigh") "," YES("max")
    ",\"supported\":true},"
    "\"server_tools\":{" NO("code_execution") "," NO("web_search") ",\"supported\":false},"
    "\"thinking\":{\"supported\":true,\"types\":{"
    YES("adaptive") "," YES("between_tools") "," YES("disabled") "," YES("enabled") "}}}}";
/* clang-format on */

static void one_model(void **state)
{
    (void)state;
    static const bool efforts[TT_EFFORTS] = {[TT_EFFORT_LOW] = true, [TT_EFFORT_MAX] = true};
    const tt_listed_model m = {"x\"y", 1700000000, 4096, efforts};
    tt_buf b;
    tt_buf_init(&b, 1 << 16);
    tt_listed_model_write(&m, &b);
    assert_string_equal(b.data, object);
    tt_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages),
        cmocka_unit_test(walks),
        cmocka_unit_test(one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
