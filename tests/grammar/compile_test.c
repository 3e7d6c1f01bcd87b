/* Proves that a JSON Schema takes exactly the documents it should, byte by byte, that what cannot
 * be honoured is refused by its pointer or relaxed and written down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/compile.h"
#include "support/taken.h"

#define MOST_DOCUMENTS 16
#define NEST           (int)TT_AUTOMATON_NEST

/* `at`: the byte that cannot follow, or TAKEN_SHORT, or TAKEN_ALL. */
typedef struct document {
    const char *text;
    int at;
} document;

typedef struct sample {
    const char *schema;
    document documents[MOST_DOCUMENTS];
} sample;

static void compile(const char *schema, tt_automaton *out)
{
    tt_error err = {0};
    *out = (tt_automaton){0};
    if (tt_compile_schema(schema, strlen(schema), true, NULL, out, &err) != TT_OK)
        fail_msg("%s: %s", schema, err.message);
}

static void hold(const sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tt_automaton m;
        compile(samples[i].schema, &m);
        for (const document *d = samples[i].documents; d->text != NULL; d++)
            if (taken(&m, d->text) != d->at)
                fail_msg("%s takes %s up to %d, not %d", samples[i].schema, d->text,
                         taken(&m, d->text), d->at);
        tt_automaton_free(&m);
    }
}

#define HOLD(samples) hold(samples, sizeof(samples) / sizeof *(samples))
#define ALL           TAKEN_ALL
#define SHORT         TAKEN_SHORT

static void scalars(void **state)
{
    static const sample samples[] = {
        {"{\"type\":\"boolean\"}",
         {{"true", ALL}, {"false", ALL}, {"tru", SHORT}, {"trUe", 2}, {"null", 0}, {"true ", 4}}},
        {"{\"type\":\"null\"}", {{"null", ALL}, {"nul", SHORT}, {"nil", 1}, {"\"null\"", 0}}},
        {"{\"type\":[\"integer\",\"null\"]}",
         {{"0", ALL}, {"-7", ALL}, {"null", ALL}, {"01", 1}, {"1.5", 1}, {"-", SHORT}, {"+1", 0}}},
        {"{\"type\":\"integer\",\"nullable\":true}", {{"null", ALL}, {"3", ALL}, {"true", 0}}},
        {"{\"type\":\"number\"}",
         {{"1.25", ALL}, {"-0.5", ALL}, {"1e9", ALL}, {"1.", SHORT}, {".5", 0}, {"1..5", 2}}},
        {"{\"const\":\"a\\\"b\"}", {{"\"a\\\"b\"", ALL}, {"\"a\"", 2}, {"\"a\\nb\"", 3}}},
        {"{\"enum\":[\"red\",\"reed\",3,null,true,1.5]}",
         {{"\"red\"", ALL},
          {"\"reed\"", ALL},
          {"3", ALL},
          {"null", ALL},
          {"true", ALL},
          {"1.5", ALL},
          {"1", SHORT},
          {"\"rod\"", 2},
          {"\"re\"", 3},
          {"false", 0},
          {"31", 1}}},
        {"{\"enum\":[\"red\",4],\"type\":\"string\"}", {{"\"red\"", ALL}, {"4", 0}}},
        {"{\"const\":{\"a\":[1,{}]}}", {{"{\"a\":[1,{}]}", ALL}, {"{\"a\":[2", 6}}},
        {"true", {{"[1,{\"a\":null}]", ALL}, {"\"x\"", ALL}, {"x", 0}}},
        {"{}", {{"{}", ALL}, {"[true,false]", ALL}, {"[,", 1}}},
    };
    HOLD(samples);
}

static void strings(void **state)
{
    static const sample samples[] = {
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {{"\"ab\"", ALL},
          {"\"abc\"", ALL},
          {"\"a\"", 2},
          {"\"abcd\"", 4},
          {"\"\303\251\360\237\230\200\"", ALL}, /* characters, not bytes */
          {"\"\\u00e9\\ud83d\\ude00\"", ALL},
          {"\"\\ud83d\\ude00\"", 13},
          {"\"ab\303\251d\"", 5}}},
        {"{\"type\":\"string\",\"maxLength\":0}", {{"\"\"", ALL}, {"\"a\"", 1}, {"\"\\n\"", 1}}},
        {"{\"type\":\"string\"}",
         {{"\"\"", ALL},
          {"\"\\/\\b\\u0001\"", ALL},
          {"\"\n\"", 1},
          {"\"\\x\"", 2},
          {"\"\\u0000\"", 6},
          {"\"\\ud800\"", 7},
          {"\"\\udc00\"", 4},
          {"\"\300\200\"", 1},
          {"\"\355\240\200\"", 2},
          {"\"\364\220\200\200\"", 2},
          {"\"\340\200\200\"", 2},
          {"\"\377\"", 1},
          {"\"\303\"", 2}}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}",
         {{"\"abc\"", ALL}, {"\"\"", 1}, {"\"abd\"", 3}}},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", {{"\"abc\"", ALL}, {"\"ac\"", 3}}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]*$\",\"minLength\":2,\"maxLength\":3}",
         {{"\"ab\"", ALL}, {"\"abc\"", ALL}, {"\"a\"", 2}, {"\"abca\"", 4}}},
        /* What cannot end within the length is not begun. */
        {"{\"type\":\"string\",\"pattern\":\"^(ab|cdef)$\",\"maxLength\":3}",
         {{"\"ab\"", ALL}, {"\"cdef\"", 1}}},
        {"{\"type\":\"string\",\"pattern\":\"^(\303\251ab|\303\251)$\",\"maxLength\":2}",
         {{"\"\303\251\"", ALL}, {"\"\303\251ab\"", 3}}},
        /* An alternative of which no text is short enough is none. */
        {"{\"anyOf\":[{\"type\":\"string\",\"format\":\"date\",\"maxLength\":9},"
         "{\"type\":\"string\",\"format\":\"ipv4\",\"maxLength\":7},{\"type\":\"null\"}]}",
         {{"null", ALL}, {"\"1.2.3.4\"", ALL}, {"\"2026-01-02\"", 2}}},
        {"{\"type\":\"string\",\"pattern\":\"^a\",\"enum\":[\"ab\",\"b\"]}",
         {{"\"ab\"", ALL}, {"\"b\"", 1}}},
    };
    HOLD(samples);
}

static void numbers(void **state)
{
    static const sample samples[] = {
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":120}",
         {{"5", ALL},
          {"120", ALL},
          {"99", ALL},
          {"4", SHORT},
          {"121", 2},
          {"0", 0},
          {"-5", 0},
          {"5.0", 1},
          {"5e1", 1}}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":5,\"exclusiveMaximum\":7}",
         {{"6", ALL}, {"5", 0}, {"7", 0}, {"66", 1}}},
        {"{\"type\":\"number\",\"minimum\":-0.5,\"maximum\":0.25}",
         {{"0", ALL},
          {"-0.5", ALL},
          {"0.25", ALL},
          {"0.26", 3},
          {"-0.51", 4},
          {"0.3", 2},
          {"1", 0},
          {"-1", 1},
          {"0.250", ALL},
          {"0.251", 4}}},
        {"{\"type\":\"integer\",\"format\":\"uint8\"}",
         {{"255", ALL}, {"0", ALL}, {"256", 2}, {"-1", 0}}},
        {"{\"type\":\"integer\",\"minimum\":1.5}", {{"2", ALL}, {"1", SHORT}, {"10", ALL}}},
    };
    HOLD(samples);
}

static void objects(void **state)
{
#define AB                                                                                         \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":"          \
    "\"integer\"},\"c\":{\"type\":\"integer\"}},\"required\":[\"ab\"]"
    static const sample samples[] = {
        {AB ",\"additionalProperties\":false}",
         {{"{\"a\":1,\"ab\":2,\"c\":3}", ALL},
          {"{\"ab\":2}", ALL},
          {"{\"ab\":2,\"c\":3}", ALL},
          {"{\"a\":1}", 6},
          {"{}", 1},
          {"{\"c\":1", 2},
          {"{\"ab\":2,\"a\":1}", 9},
          {"{\"ab\":2,\"ab\":2}", 9},
          {"{\"ab\":2,}", 8},
          {"{\"ad\"", 3},
          {"{\"ab\":true", 6},
          {"{ \"ab\": 2\n}", ALL},
          {"{  \"ab\"", 2},
          {"{\"ab\":2}}", 8},
          {"{\"ab\":2} ", 8}}},
        {AB ",\"additionalProperties\":{\"type\":\"boolean\"}}",
         {{"{\"ab\":2,\"z\":true}", ALL},
          {"{\"ab\":2,\"z\":1", 12},
          {"{\"ab\":2,\"abc\":true}", ALL},
          {"{\"z\":true", 2},
          {"{\"ab\":2,\"z\":true,\"c\":1}", 19}}},
        {AB "}", {{"{\"ab\":2,\"z\":[null]}", ALL}, {"{\"ab\":2,\"a\\u0062\":2}", 11}}},
        {"{\"type\":\"object\",\"additionalProperties\":false}", {{"{}", ALL}, {"{\"", 1}}},
        {"{\"type\":\"object\",\"required\":[\"q\"]}", {{"{\"q\":1}", ALL}, {"{}", 1}}},
        {"{\"type\":\"object\",\"properties\":{\"a\":false,\"b\":true}}",
         {{"{\"b\":1}", ALL}, {"{\"a\":1}", 3}}},
        {"{\"type\":\"object\",\"properties\":{\"\":{\"const\":1},\"\\\"\":{\"const\":2}},"
         "\"additionalProperties\":false}",
         {{"{\"\":1,\"\\\"\":2}", ALL}, {"{\"\":2", 4}}},
    };
    HOLD(samples);
}

static void arrays(void **state)
{
    static const sample samples[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
         {{"[1,2]", ALL},
          {"[1, 2,\n3]", ALL},
          {"[1]", 2},
          {"[]", 1},
          {"[1,2,3,4]", 6},
          {"[1,2,]", 5},
          {"[1,true]", 3},
          {"[1,  2]", 4}}},
        {"{\"type\":\"array\",\"maxItems\":0}", {{"[]", ALL}, {"[1]", 1}}},
        {"{\"type\":\"array\",\"items\":false}", {{"[]", ALL}, {"[1]", 1}}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"const\":7}}"
         "}",
         {{"[[7],[7,7]]", ALL}, {"[[]]", 2}, {"[[7],[8", 6}}},
    };
    HOLD(samples);
}

static void combinations(void **state)
{
#define KIND(name, field)                                                                          \
    "{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"" name "\"},\"" field              \
    "\":{\"type\":\"integer\"}},\"required\":[\"kind\",\"" field "\"],"                            \
    "\"additionalProperties\":false}"
    static const sample samples[] = {
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
         {{"12", ALL}, {"\"a\"", ALL}, {"\"ab\"", 2}, {"null", 0}}},
        {"{\"anyOf\":[" KIND("x", "p") "," KIND("xy", "q") "]}",
         {{"{\"kind\":\"x\",\"p\":1}", ALL},
          {"{\"kind\":\"xy\",\"q\":1}", ALL},
          {"{\"kind\":\"x\",\"q\"", 13},
          {"{\"kind\":\"xy\",\"p\"", 14}}},
        {"{\"oneOf\":[" KIND("x", "p") "," KIND("y", "q") "]}",
         {{"{\"kind\":\"x\",\"p\":1}", ALL}, {"{\"kind\":\"z\"", 9}}},
        {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":3},{\"type\":\"integer\",\"minimum\":7}]}",
         {{"3", ALL}, {"7", ALL}, {"5", SHORT}, {"0", ALL}, {"40", ALL}}},
        {"{\"allOf\":[{\"type\":\"integer\",\"minimum\":3},{\"maximum\":5}]}",
         {{"3", ALL}, {"5", ALL}, {"6", 0}, {"\"a\"", 0}}},
        {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
         "\"required\":[\"a\"]},{\"properties\":{\"a\":{\"minimum\":9},\"b\":{\"const\":1}},"
         "\"required\":[\"b\"]}]}",
         {{"{\"a\":9,\"b\":1}", ALL}, {"{\"a\":9}", 6}, {"{\"a\":-1", 5}}},
        {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[3.0,2,4]}]}",
         {{"2", ALL}, {"3", ALL}, {"1", 0}, {"4", 0}}},
        {"{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"$ref\":\"#/$defs/n\",\"minimum\":5}",
         {{"5", ALL}, {"-5", 0}}},
        {"{\"$defs\":{\"a/b~c\":{\"const\":1}},\"$ref\":\"#/$defs/a~1b~0c\"}",
         {{"1", ALL}, {"2", 0}}},
        {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":["
         "{\"$ref\":\"#\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"],"
         "\"additionalProperties\":false}",
         {{"{\"v\":1,\"next\":null}", ALL},
          {"{\"v\":1,\"next\":{\"v\":2,\"next\":null}}", ALL},
          {"{\"v\":1,\"next\":{\"v\":2}", 20},
          {"{\"v\":1,\"next\":{\"w\"", 16},
          {"{\"v\":1,\"next\":{\"v\":2,\"next\":null}", SHORT}}},
    };
    HOLD(samples);
}

/* ---- depth ---- */

/* `depth` times `open`, `inside`, and `depth` times `close`. */
static char *nested(int depth, const char *open, const char *inside, const char *close)
{
    tt_buf text;
    tt_buf_init(&text, 1u << 20);
    for (int i = 0; i < depth; i++)
        tt_buf_puts(&text, open);
    tt_buf_puts(&text, inside);
    for (int i = 0; i < depth; i++)
        tt_buf_puts(&text, close);
    char *s = tt_buf_steal(&text, NULL);
    assert_non_null(s);
    return s;
}

/* Up to 64 levels are taken, be there something in the last or not; the next one is refused at its
 * bracket. `value`: in the text of a level, where the next one begins. */
static void nest_64(const char *schema, const char *open, const char *close, int value)
{
    static const char *const inside[] = {"", "1"};
    tt_automaton m;
    compile(schema, &m);
    for (int depth = 1; depth <= NEST + 6; depth++) {
        for (int i = 0; i < 2; i++) {
            if (strcmp(open, "[") != 0 && i == 0)
                continue;
            char *text = nested(depth, open, inside[i], close);
            int begin = (NEST * (int)strlen(open)) + value;
            assert_int_equal(taken(&m, text), depth <= NEST ? ALL : begin);
            free(text);
        }
    }
    tt_automaton_free(&m);
}

static void nests_64_deep(void **state)
{
    tt_automaton m;
    nest_64("{}", "[", "]", 0);
    nest_64("{\"type\":[\"array\",\"integer\"],\"items\":{\"$ref\":\"#\"}}", "[", "]", 0);
    nest_64("{}", "{\"a\":", "}", 0);
    nest_64("{\"type\":[\"object\",\"integer\"],\"additionalProperties\":{\"$ref\":\"#\"}}",
            "{\"a\":", "}", 0);
    /* Where a value of one more level would be needed, nothing is begun that cannot end. */
    compile("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"$ref\":"
            "\"#\"},\"minItems\":1},\"b\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
            &m);
    char *deep = nested(31, "{\"a\":[", "{\"", "");
    assert_int_equal(taken(&m, deep), TAKEN_SHORT);
    free(deep);
    deep = nested(31, "{\"a\":[", "{\"a", "");
    assert_int_equal(taken(&m, deep), (int)strlen(deep) - 1);
    free(deep);
    deep = nested(31, "{\"a\":[", "{\"b\":1}", "]}");
    assert_int_equal(taken(&m, deep), ALL);
    free(deep);
    tt_automaton_free(&m);
}

/* In a call the arguments are the first level, and tags are none. */
static void arguments_nest_64_deep(void **state)
{
    static const char tools[] =
        "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{"
        "\"type\":\"array\"}},\"required\":[\"a\"]}}]";
    static const char begin[] = "<tool_call>\n<function=f>\n<parameter=a>\n";
    static const char end[] = "\n</parameter>\n</function>\n</tool_call>";
    for (int several = 0; several < 2; several++) {
        tt_automaton m = {0};
        tt_error err = {0};
        const tt_call_choice choice = {.required = true, .several = several};
        assert_int_equal(tt_compile_tools(tools, sizeof tools - 1, &choice, NULL, NULL, &m, &err),
                         TT_OK);
        for (int levels = NEST - 1; levels <= NEST + 1; levels++) {
            char *value = nested(levels - 1, "[", "", "]"), text[400];
            snprintf(text, sizeof text, "%s%s%s", begin, value, end);
            assert_int_equal(taken(&m, text), levels <= NEST ? ALL : (int)strlen(begin) + NEST - 1);
            free(value);
        }
        tt_automaton_free(&m);
    }
}

/* A schema whose documents must be so deep. */
static void asks_for_64_levels(void **state)
{
    static const char *const opens[] = {
        "{\"type\":\"array\",\"minItems\":1,\"items\":",
        "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":"};
    static const char *const insides[] = {"{\"type\":\"null\"}", "{}", "{\"type\":\"string\"}"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            for (int depth = NEST - 2; depth <= NEST + 2; depth++) {
                char *text = nested(depth, opens[i], insides[k], i == 0 ? "}" : "}}");
                tt_automaton m = {0};
                tt_error err = {0};
                tt_status st = tt_compile_schema(text, strlen(text), true, NULL, &m, &err);
                if (st != (depth <= NEST ? TT_OK : TT_ERR_LIMIT))
                    fail_msg("%d levels: %d %s", depth, st, err.message);
                if (st != TT_OK)
                    assert_non_null(strstr(err.message, "at most 64"));
                tt_automaton_free(&m);
                free(text);
            }
}

/* ---- refusals ---- */

typedef struct refusal {
    const char *schema;
    tt_status status;
    const char *words;
} refusal;

static const refusal refusals[] = {
    {"{\"properties\":{\"a\":{\"type\":\"string\",\"contentEncoding\":\"x\"}}}", TT_ERR_UNSUPPORTED,
     "#/properties/a/contentEncoding"},
    {"{\"items\":{\"multipleOf\":2}}", TT_ERR_UNSUPPORTED, "#/items/multipleOf"},
    {"{\"$defs\":{\"d/e\":{\"not\":{}}},\"$ref\":\"#/$defs/d~1e\"}", TT_ERR_UNSUPPORTED,
     "#/$defs/d~1e/not"},
    {"{\"anyOf\":[{},{\"type\":\"text\"}]}", TT_ERR_UNSUPPORTED, "#/anyOf/1/type"},
    {"{\"type\":\"string\",\"format\":\"iri\"}", TT_ERR_UNSUPPORTED, "#/format"},
    {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", TT_ERR_UNSUPPORTED, "#/pattern"},
    {"{\"type\":\"string\",\"pattern\":\"(\"}", TT_ERR_UNSUPPORTED, "#/pattern"},
    {"{\"$ref\":\"#/$defs/none\"}", TT_ERR_UNSUPPORTED, "#/$defs/none"},
    {"{\"$ref\":\"http://e.org/s\"}", TT_ERR_UNSUPPORTED, "#/$ref"},
    {"{\"$ref\":\"#\"}", TT_ERR_UNSUPPORTED, "made of itself"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", TT_ERR_UNSUPPORTED, "#/oneOf"},
    {"{\"minLength\":-1}", TT_ERR_UNSUPPORTED, "#/minLength"},
    {"{\"uniqueItems\":true}", TT_ERR_UNSUPPORTED, "#/uniqueItems"},
    {"{\"enum\":[]}", TT_ERR_UNSUPPORTED, "#/enum"},
    {"{\"required\":\"a\"}", TT_ERR_UNSUPPORTED, "#/required"},
    {"false", TT_ERR_INVALID, "schema"},
    {"3", TT_ERR_INVALID, "schema"},
    {"{\"a\"", TT_ERR_FORMAT, "broken JSON"},
    {"{\"type\":\"integer\",\"minimum\":4,\"maximum\":3}", TT_ERR_INVALID, "no document"},
    {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", TT_ERR_INVALID, "no document"},
    {"{\"type\":\"string\",\"format\":\"uuid\",\"maxLength\":35}", TT_ERR_INVALID, "no document"},
    {"{\"type\":\"string\",\"pattern\":\"^a{3}\",\"maxLength\":2}", TT_ERR_INVALID, "no document"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
     TT_ERR_INVALID, "no document"},
};

static void refuses_by_name(void **state)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        tt_error err = {0};
        tt_automaton m = {.n_states = 77};
        tt_status st = tt_compile_schema(r->schema, strlen(r->schema), true, NULL, &m, &err);
        if (st != r->status || strstr(err.message, r->words) == NULL)
            fail_msg("%s: %d %s", r->schema, st, err.message);
        assert_int_equal(m.n_states, 77);
    }
}

static void relaxes_and_says_so(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"multipleOf\":2},"
        "\"t\":{\"type\":\"string\",\"pattern\":\"a\\\\b\",\"maxLength\":2},"
        "\"f\":{\"type\":\"boolean\"}},\"required\":[\"n\",\"t\",\"f\"],"
        "\"additionalProperties\":false}";
    json_t *relaxed = json_array();
    tt_automaton m;
    assert_int_equal(tt_compile_schema(schema, strlen(schema), false, relaxed, &m, NULL), TT_OK);
    assert_int_equal(json_array_size(relaxed), 2);
    static const char *const places[][2] = {{"#/properties/n", "multipleOf"},
                                            {"#/properties/t", "pattern"}};
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(relaxed, i);
        const char *pointer = json_string_value(json_object_get(one, "pointer"));
        assert_memory_equal(pointer, places[i][0], strlen(places[i][0]));
        assert_string_equal(json_string_value(json_object_get(one, "keyword")), places[i][1]);
    }
    /* Any value of the type, and the rest is still held. */
    assert_int_equal(taken(&m, "{\"n\":3,\"t\":\"long\",\"f\":true}"), ALL);
    assert_int_equal(taken(&m, "{\"n\":\"3\""), 5);
    assert_int_equal(taken(&m, "{\"n\":3,\"t\":\"\",\"f\":1"), 18);
    json_decref(relaxed);
    tt_automaton_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),
        cmocka_unit_test(strings),
        cmocka_unit_test(numbers),
        cmocka_unit_test(objects),
        cmocka_unit_test(arrays),
        cmocka_unit_test(combinations),
        cmocka_unit_test(nests_64_deep),
        cmocka_unit_test(arguments_nest_64_deep),
        cmocka_unit_test(asks_for_64_levels),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(relaxes_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
