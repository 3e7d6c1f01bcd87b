/* Proves that JSON is bounded in depth and size, that duplicates are refused, and that getters
 * check type and range and name file and key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    assert_int_equal(tt_json_parse(text, strlen(text), "doc.json", &v, NULL), TT_OK);
    return v;
}

static void refuses(const char *text, size_t len, tt_status status, const char *words)
{
    json_t *v = NULL;
    tt_error err;
    assert_int_equal(tt_json_parse(text, len, "doc.json", &v, &err), status);
    assert_null(v);
    assert_string_equal(err.file, "doc.json");
    assert_non_null(strstr(err.message, words));
}

static void any_value_is_a_document(void **state)
{
    static const char *const texts[] = {"null", "true", "-12", "1.5e3", "\"x\"",
                                        "[]",   "{}",   " 1 ", "[[]]",  "{\"a\":[{}]}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        json_decref(parse(texts[i]));
    json_t *nul = parse("\"a\\u0000b\"");
    assert_int_equal(json_string_length(nul), 3);
    json_decref(nul);
}

static void broken_text_is_refused_with_its_place(void **state)
{
    static const char *const texts[] = {
        "",   "{",        "[1,]",  "{\"a\":}",    "nul", "\"\\x\"", "[1] 2", "{\"a\" 1}",
        "01", "\"\xff\"", "{1:2}", "\"\\ud800\"", "[1}", "+1",      "'x'"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        refuses(texts[i], strlen(texts[i]), TT_ERR_FORMAT, "broken JSON at line 1");
    refuses("[1,\n2,\nx]", 9, TT_ERR_FORMAT, "line 3");
    refuses("{\"a\":1,\"a\":2}", 13, TT_ERR_FORMAT, "duplicate");
    refuses("1\0", 2, TT_ERR_FORMAT, "NUL byte at offset 1");
    refuses("[1]\0[", 5, TT_ERR_FORMAT, "NUL byte at offset 3");
}

/* What 64 bits hold stays exact, what they do not is the double next to it. */
static void large_whole_numbers_are_read(void **state)
{
    static const struct {
        const char *text;
        json_int_t whole;
        double real; /* 0: it is whole */
    } rows[] = {
        {"9223372036854775807", INT64_MAX, 0},
        {"-9223372036854775808", INT64_MIN, 0},
        {"9223372036854775808", 0, 9223372036854775808.0},
        {"-9223372036854775809", 0, -9223372036854775808.0},
        {"18446744073709551615", 0, 18446744073709551616.0},
        {"123456789012345678901234567890", 0, 123456789012345678901234567890.0},
        {"9223372036854775808e-3", 0, 9223372036854775.808},
        {"0.9223372036854775808", 0, 0.9223372036854775808},
        {"1e+92233720368547758080", 0, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].real == -1) {
            refuses(rows[i].text, strlen(rows[i].text), TT_ERR_FORMAT, "overflow");
            continue;
        }
        json_t *v = parse(rows[i].text);
        if (rows[i].real == 0)
            assert_true(json_is_integer(v) && json_integer_value(v) == rows[i].whole);
        else
            assert_true(json_is_real(v) && json_real_value(v) == rows[i].real);
        json_decref(v);
    }
    /* Beside one another, across the pieces that are read at a time, and not in strings. */
    char text[4096] = "[\"18446744073709551616\\\"", *at = text + strlen(text);
    for (int i = 0; i < 1000; i++)
        *at++ = 'x';
    strcpy(at, "99999999999999999999\",18446744073709551615,-18446744073709551615 ,1]");
    json_t *v = parse(text);
    assert_int_equal(json_array_size(v), 4);
    assert_int_equal(json_string_length(json_array_get(v, 0)), 21 + 1000 + 20);
    assert_true(json_real_value(json_array_get(v, 1)) == 18446744073709551616.0);
    assert_true(json_real_value(json_array_get(v, 2)) == -18446744073709551616.0);
    assert_int_equal(json_integer_value(json_array_get(v, 3)), 1);
    json_decref(v);
    char many[3000] = "[1";
    for (int i = 0; i < 140; i++)
        strcat(many, ",18446744073709551615");
    strcat(many, "]");
    v = parse(many);
    assert_int_equal(json_array_size(v), 141);
    json_decref(v);
    /* A fault behind them is told where it stands. */
    tt_error err;
    const char broken[] = "[18446744073709551615,18446744073709551615,x]";
    assert_int_equal(tt_json_parse(broken, strlen(broken), "f", &v, &err), TT_ERR_FORMAT);
    assert_int_equal(err.offset, strlen("[18446744073709551615,18446744073709551615,x"));
}

static void depth_is_bounded(void **state)
{
    char text[2 * TT_MAX_JSON_DEPTH + 8];
    for (size_t depth = TT_MAX_JSON_DEPTH; depth <= TT_MAX_JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        if (depth <= TT_MAX_JSON_DEPTH) {
            text[2 * depth] = '\0';
            json_decref(parse(text));
        } else {
            refuses(text, 2 * depth, TT_ERR_LIMIT, "deeper than 64");
        }
    }
    /* Brackets in strings do not nest. */
    json_decref(
        parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\"]"));
}

static void getters_check_type_and_range(void **state)
{
    json_t *doc = parse("{\"o\":{},\"a\":[1],\"s\":\"text\",\"nul\":\"a\\u0000b\",\"i\":7,"
                        "\"neg\":-1,\"big\":4294967296,\"f\":0.5,\"t\":true,\"null\":null}");
    json_t *tree = NULL;
    const char *text = NULL;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    double number = 0;
    bool flag = false;
    tt_error err;
    const char *f = "doc.json";
    assert_int_equal(tt_json_get_object(doc, "o", f, &tree, NULL), TT_OK);
    assert_true(json_is_object(tree));
    assert_int_equal(tt_json_get_array(doc, "a", f, &tree, NULL), TT_OK);
    assert_int_equal(json_array_size(tree), 1);
    assert_int_equal(tt_json_get_string(doc, "s", f, &text, NULL), TT_OK);
    assert_string_equal(text, "text");
    assert_int_equal(tt_json_get_u32(doc, "i", f, 7, 7, &u32, NULL), TT_OK);
    assert_int_equal(u32, 7);
    assert_int_equal(tt_json_get_u64(doc, "big", f, 0, UINT64_MAX, &u64, NULL), TT_OK);
    assert_int_equal(u64, 4294967296);
    assert_int_equal(tt_json_get_number(doc, "f", f, 0, 1, &number, NULL), TT_OK);
    assert_true(number == 0.5);
    assert_int_equal(tt_json_get_number(doc, "i", f, 0, 10, &number, NULL), TT_OK);
    assert_true(number == 7);
    assert_int_equal(tt_json_get_bool(doc, "t", f, &flag, NULL), TT_OK);
    assert_true(flag);

    tree = NULL;
    assert_int_equal(tt_json_get_object(doc, "a", f, &tree, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"a\""));
    assert_string_equal(err.file, f);
    assert_int_equal(tt_json_get_object(doc, "none", f, &tree, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"none\" is missing"));
    assert_int_equal(tt_json_get_array(doc, "o", f, &tree, NULL), TT_ERR_FORMAT);
    assert_null(tree);
    assert_int_equal(tt_json_get_string(doc, "i", f, &text, NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_json_get_string(doc, "nul", f, &text, NULL), TT_ERR_FORMAT);
    assert_string_equal(text, "text");
    assert_int_equal(tt_json_get_u32(doc, "i", f, 8, 9, &u32, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "is 7, must be 8 to 9"));
    assert_int_equal(tt_json_get_u32(doc, "i", f, 0, 6, &u32, NULL), TT_ERR_LIMIT);
    assert_int_equal(tt_json_get_u32(doc, "neg", f, 0, 6, &u32, NULL), TT_ERR_LIMIT);
    assert_int_equal(tt_json_get_u32(doc, "big", f, 0, UINT32_MAX, &u32, NULL), TT_ERR_LIMIT);
    assert_int_equal(tt_json_get_u32(doc, "f", f, 0, 6, &u32, NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_json_get_u32(doc, "t", f, 0, 6, &u32, NULL), TT_ERR_FORMAT);
    assert_int_equal(u32, 7);
    assert_int_equal(tt_json_get_number(doc, "f", f, 1, 2, &number, NULL), TT_ERR_LIMIT);
    assert_int_equal(tt_json_get_number(doc, "s", f, 1, 2, &number, NULL), TT_ERR_FORMAT);
    assert_true(number == 7);
    assert_int_equal(tt_json_get_bool(doc, "i", f, &flag, NULL), TT_ERR_FORMAT);
    json_decref(doc);
}

static void optional_members_may_be_absent_or_null(void **state)
{
    json_t *doc = parse("{\"null\":null,\"i\":7,\"f\":0.5,\"t\":true,\"s\":\"x\"}");
    uint32_t u32 = 3;
    double number = 2;
    bool flag = false;
    const char *text = "kept";
    static const char *const absent[] = {"null", "none"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tt_json_opt_u32(doc, absent[i], "f", 0, 9, &u32, NULL), TT_OK);
        assert_int_equal(tt_json_opt_number(doc, absent[i], "f", 0, 9, &number, NULL), TT_OK);
        assert_int_equal(tt_json_opt_bool(doc, absent[i], "f", &flag, NULL), TT_OK);
        assert_int_equal(tt_json_opt_string(doc, absent[i], "f", &text, NULL), TT_OK);
    }
    assert_int_equal(u32, 3);
    assert_true(number == 2 && !flag);
    assert_string_equal(text, "kept");
    assert_int_equal(tt_json_opt_u32(doc, "i", "f", 0, 9, &u32, NULL), TT_OK);
    assert_int_equal(tt_json_opt_number(doc, "f", "f", 0, 9, &number, NULL), TT_OK);
    assert_int_equal(tt_json_opt_bool(doc, "t", "f", &flag, NULL), TT_OK);
    assert_int_equal(tt_json_opt_string(doc, "s", "f", &text, NULL), TT_OK);
    assert_int_equal(u32, 7);
    assert_true(number == 0.5 && flag);
    assert_string_equal(text, "x");
    assert_int_equal(tt_json_opt_u32(doc, "s", "f", 0, 9, &u32, NULL), TT_ERR_FORMAT);
    json_decref(doc);
}

static void files_have_a_bound(void **state)
{
    json_t *v = NULL;
    tt_error err;
    assert_int_equal(tt_json_load("models/tales/config.json", 1 << 20, &v, NULL), TT_OK);
    assert_true(json_is_object(v));
    json_decref(v);
    v = NULL;
    assert_int_equal(tt_json_load("models/tales/config.json", 100, &v, &err), TT_ERR_LIMIT);
    assert_int_equal(tt_json_load("models/none.json", 100, &v, &err), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_json_load("LICENSE", 1 << 20, &v, &err), TT_ERR_FORMAT);
    assert_string_equal(err.file, "LICENSE");
    assert_null(v);
}

static void the_caller_may_name_a_depth(void **state)
{
    (void)state;
    json_t *v = NULL;
    assert_int_equal(tt_json_parse_deep("[[[]]]", 6, 3, "t", &v, NULL), TT_OK);
    json_decref(v);
    assert_int_equal(tt_json_parse_deep("[[[]]]", 6, 2, "t", &v, NULL), TT_ERR_LIMIT);
}

static unsigned asked;
static bool at_once(void)
{
    return true;
}
static bool later(void)
{
    return ++asked > 3;
}
static bool never(void)
{
    return false;
}

static void parsing_can_be_given_up(void **state)
{
    (void)state;
    json_t *v = NULL;
    char text[20000] = "[\"";
    memset(text + 2, 'x', sizeof text - 5);
    strcat(text, "\"]");
    size_t n = strlen(text);
    assert_int_equal(tt_json_parse_until(text, n, 3, "t", at_once, &v, NULL), TT_ERR_NOMEM);
    assert_int_equal(tt_json_parse_until(text, n, 3, "t", later, &v, NULL), TT_ERR_NOMEM);
    assert_true(asked < 8);
    assert_null(v);
    assert_int_equal(tt_json_parse_until(text, n, 3, "t", never, &v, NULL), TT_OK);
    assert_int_equal(json_string_length(json_array_get(v, 0)), n - 4);
    json_decref(v);
    v = NULL;
    assert_int_equal(tt_json_parse_until("[1,", 3, 3, "t", never, &v, NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_json_parse_until("[1] 2", 5, 3, "t", never, &v, NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_json_parse_until("{\"a\":1,\"a\":2}", 13, 3, "t", never, &v, NULL),
                     TT_ERR_FORMAT);
    assert_null(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_may_name_a_depth),
        cmocka_unit_test(parsing_can_be_given_up),
        cmocka_unit_test(any_value_is_a_document),
        cmocka_unit_test(broken_text_is_refused_with_its_place),
        cmocka_unit_test(large_whole_numbers_are_read),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(getters_check_type_and_range),
        cmocka_unit_test(optional_members_may_be_absent_or_null),
        cmocka_unit_test(files_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
