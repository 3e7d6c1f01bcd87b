/* Proves that settings of other programs are changed member by member: comments, commas at the end,
 * line ends and indentation stay, a second change changes nothing, what comes out reads as what was
 * put in, and a text that cannot be read is left alone with a word on where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "connect/settings_json.h"

static tt_buf text;
static tt_error err;

static int set_up(void **state)
{
    (void)state;
    tt_buf_init(&text, TT_SETTINGS_MAX);
    err = (tt_error){.offset = -1};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tt_buf_free(&text);
    return 0;
}

static void give(const char *t)
{
    tt_buf_clear(&text);
    tt_buf_puts(&text, t);
}

#define PATH(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void set_to(const char *const *path, const char *json)
{
    json_t *v = json_loads(json, JSON_DECODE_ANY, NULL), *whole = NULL;
    assert_non_null(v);
    if (tt_settings_set(&text, path, v, "file", &err) != TT_OK)
        fail_msg("%s", err.message);
    /* It reads as that. */
    assert_int_equal(tt_settings_load(&text, "file", &whole, &err), TT_OK);
    const json_t *at = whole;
    for (; *path != NULL; path++)
        at = json_object_get(at, *path);
    assert_true(json_equal(at, v));
    json_decref(whole);
    json_decref(v);
}

/* Sets and expects; once more changes nothing. */
static void becomes(const char *before, const char *const *path, const char *json,
                    const char *after)
{
    give(before);
    set_to(path, json);
    assert_string_equal(text.data, after);
    set_to(path, json);
    assert_string_equal(text.data, after);
}

static void nothing_there_yet(void **state)
{
    (void)state;
    becomes("", PATH("a"), "1", "{\n  \"a\": 1\n}\n");
    becomes(" \n", PATH("a", "b"), "\"x\"", " \n{\n  \"a\": {\n    \"b\": \"x\"\n  }\n}\n");
    becomes("{}", PATH("a"), "[]", "{\n  \"a\": []\n}");
    becomes("{\n}\n", PATH("a"), "{\"b\":[1,{}]}",
            "{\n  \"a\": {\n    \"b\": [\n      1,\n      {}\n    ]\n  }\n}\n");
    becomes("// mine\n", PATH("a"), "true", "// mine\n{\n  \"a\": true\n}\n");
    becomes("// mine", PATH("a"), "true", "// mine\n{\n  \"a\": true\n}\n");
    becomes("{ // mine\n}", PATH("a"), "null", "{ // mine\n  \"a\": null\n}");
    becomes("{ /* mine */ }", PATH("a"), "1", "{ /* mine */\n  \"a\": 1\n}");
}

static void beside_others(void **state)
{
    (void)state;
    becomes("{\n    \"x\": 1\n}\n", PATH("a"), "{\"b\":2}",
            "{\n    \"x\": 1,\n    \"a\": {\n        \"b\": 2\n    }\n}\n");
    becomes("{\n\t\"x\": {\n\t\t\"y\": 1\n\t}\n}", PATH("x", "z"), "{\"b\":2}",
            "{\n\t\"x\": {\n\t\t\"y\": 1,\n\t\t\"z\": {\n\t\t\t\"b\": 2\n\t\t}\n\t}\n}");
    becomes("{\"x\":1}", PATH("a"), "2", "{\"x\":1,\n  \"a\": 2\n}");
    /* Commas at the end stay the custom of the house. */
    becomes("{\n  \"x\": 1, // one\n}", PATH("a"), "2", "{\n  \"x\": 1, // one\n  \"a\": 2,\n}");
    /* A comment stays with what it is about. */
    becomes("{\n  \"x\": 1 // one\n  /* end */\n}", PATH("a"), "2",
            "{\n  \"x\": 1, // one\n  \"a\": 2\n  /* end */\n}");
    becomes("{\r\n  \"x\": 1\r\n}\r\n", PATH("a", "b"), "2",
            "{\r\n  \"x\": 1,\r\n  \"a\": {\r\n    \"b\": 2\r\n  }\r\n}\r\n");
    becomes("\xef\xbb\xbf{\n  \"x\": \"}\"\n}", PATH("a"), "2",
            "\xef\xbb\xbf{\n  \"x\": \"}\",\n  \"a\": 2\n}");
}

static void in_the_place_of_another(void **state)
{
    (void)state;
    becomes("{\n  \"a\": [1, 2], // why\n  \"x\": 0\n}", PATH("a"), "{\"b\":1}",
            "{\n  \"a\": {\n    \"b\": 1\n  }, // why\n  \"x\": 0\n}");
    /* What is the same is left as it was written. */
    becomes("{\"a\":{\"b\":[1,/* two */2,]}}", PATH("a"), "{\"b\":[1,2]}",
            "{\"a\":{\"b\":[1,/* two */2,]}}");
    becomes("{\"a\": \"\\u0061\"}", PATH("a"), "\"a\"", "{\"a\": \"\\u0061\"}");
    /* Names are compared as they read; of two the last one counts. */
    becomes("{\"\\u0061\": 1}", PATH("a"), "2", "{\"\\u0061\": 2}");
    becomes("{\"a\": 1, \"a\": 2}", PATH("a"), "3", "{\"a\": 1, \"a\": 3}");
    becomes("{\"a\": \"// no comment, {\"}", PATH("b"), "1",
            "{\"a\": \"// no comment, {\",\n  \"b\": 1\n}");
}

static void taken_away(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"{\n  \"a\": 1\n}", "{\n}"},
        {"{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"b\": 2\n}"},
        {"{\n  \"x\": 0,\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"x\": 0,\n  \"b\": 2\n}"},
        {"{\n  \"x\": 0, // zero\n  \"a\": {\"a\": 1}\n}", "{\n  \"x\": 0\n}"},
        {"{\n  \"x\": 0,\n  \"a\": 1,\n}", "{\n  \"x\": 0,\n}"},
        {"{\"b\": 1}", "{\"b\": 1}"},
        /* All of that name: the one before would count otherwise. */
        {"{\"a\": 1, \"b\": 2, \"a\": 3}", "{ \"b\": 2}"},
        {"{\"a\": 1, \"\\u0061\": 2}", "{}"},
        {"", "{}\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        give(rows[i].before);
        assert_int_equal(tt_settings_remove(&text, PATH("a"), "file", &err), TT_OK);
        assert_string_equal(text.data, rows[i].after);
        assert_int_equal(tt_settings_check(&text, "file", &err), TT_OK);
    }
    give("{\"x\": 1}");
    assert_int_equal(tt_settings_remove(&text, PATH("a", "b"), "file", &err), TT_OK);
    assert_string_equal(text.data, "{\"x\": 1}");
}

static void own_elements_of_an_array(void **state)
{
    (void)state;
    json_t *mine = json_loads("[{\"k\":\"o\",\"n\":1},{\"k\":\"o\",\"n\":2}]", 0, NULL);
    give("{\n  \"l\": [\n    { \"k\": \"theirs\" /* c */ },\n    {\"k\": \"o\"},\n    7\n  ]\n}");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tt_settings_replace(&text, PATH("l"), "k", "o", mine, "file", &err),
                         TT_OK);
        assert_string_equal(text.data, "{\n  \"l\": [\n    { \"k\": \"theirs\" /* c */ },\n    7,\n"
                                       "    {\n      \"k\": \"o\",\n      \"n\": 1\n    },\n"
                                       "    {\n      \"k\": \"o\",\n      \"n\": 2\n    }\n  ]\n}");
    }
    give("{}");
    assert_int_equal(tt_settings_replace(&text, PATH("m", "l"), "k", "o", mine, "file", &err),
                     TT_OK);
    json_t *whole = NULL;
    assert_int_equal(tt_settings_load(&text, "file", &whole, &err), TT_OK);
    assert_true(json_equal(json_object_get(json_object_get(whole, "m"), "l"), mine));
    json_decref(whole);
    give("{\"l\": {}}");
    assert_int_equal(tt_settings_replace(&text, PATH("l"), "k", "o", mine, "file", &err),
                     TT_ERR_FORMAT);
    assert_string_equal(text.data, "{\"l\": {}}");
    json_decref(mine);
}

static void what_cannot_be_read_is_left(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"{\n  \"a\": 1\n", "line 3, column 1 lacks a comma or }"},
        {"{\n  \"a\" 1\n}", "line 2, column 7 lacks a colon"},
        {"{\n  a: 1\n}", "line 2, column 3 lacks a name in quotes"},
        {"{\"a\": 1 \"b\": 2}", "lacks a comma or }"},
        {"{\"a\": }", "lacks a value"},
        {"{\"a\": 1,, }", "lacks a name in quotes"},
        {"{\"a\": [1 2]}", "lacks a comma or ]"},
        {"{\"a\": \"x", "lacks the end of a text"},
        {"{\"a\": \"x\ny\"}", "lacks the end of a text"},
        {"{\"a\": \"x\\", "lacks the end of a text"},
        {"{ /* a", "lacks the end of a comment"},
        {"{} {}", "lacks the end of the file"},
        {"[1]", "line 1, column 1 lacks an object"},
        {"\"a\"", "lacks an object"},
        {"{\"a\": tru}", "a text, number or word in it is none"},
        {"{\"a\": 01}", "a text, number or word in it is none"},
        {"{\"a\": tr/**/ue}", "lacks a comma or }"},
        {"{\"a\": \"\\x\"}", "a text, number or word in it is none"},
        {"{\"a\": \"\xff\"}", "a text, number or word in it is none"},
    };
    json_t *v = json_true();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        give(rows[i].text);
        assert_int_equal(tt_settings_set(&text, PATH("z"), v, "file", &err), TT_ERR_FORMAT);
        assert_string_equal(text.data, rows[i].text);
        if (strstr(err.message, rows[i].words) == NULL)
            fail_msg("%s: \"%s\" lacks \"%s\"", rows[i].text, err.message, rows[i].words);
        assert_string_equal(err.file, "file");
    }
    give("{\"a\": [], \"b\": 1}");
    assert_int_equal(tt_settings_set(&text, PATH("a", "b"), v, "file", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"a\" in it is no object"));
    assert_string_equal(text.data, "{\"a\": [], \"b\": 1}");
    /* Deeper than anybody writes. */
    tt_buf_clear(&text);
    tt_buf_puts(&text, "{\"a\":");
    for (int i = 0; i < 100000; i++)
        tt_buf_putc(&text, '[');
    assert_int_equal(tt_settings_check(&text, "file", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "lacks less nesting"));
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_there_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(beside_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_the_place_of_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(taken_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(own_elements_of_an_array, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_left, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
