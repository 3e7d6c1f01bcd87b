/* Proves that schemas are taken apart into the alternatives that they have: how many, of which
 * types, bounds and values; where places are; which keywords are known; and what excludes what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/shape.h"

#define NULL_  TT_TYPE_NULL
#define BOOL   TT_TYPE_BOOLEAN
#define WHOLE  TT_TYPE_WHOLE
#define NUMBER (TT_TYPE_WHOLE | TT_TYPE_BROKEN)
#define STRING TT_TYPE_STRING
#define ARRAY  TT_TYPE_ARRAY
#define OBJECT TT_TYPE_OBJECT
#define ALL    TT_TYPE_ALL
#define MOST   6

typedef struct taken_apart {
    tt_builder b;
    tt_schema s;
    json_t *root, *relaxed;
    tt_leaves leaves;
    tt_status status;
    tt_error err;
} taken_apart;

static void take_apart(const char *text, bool strict, taken_apart *t)
{
    json_error_t fault;
    tt_conj c = {0};
    *t = (taken_apart){.err = {.offset = -1}};
    t->root = json_loads(text, JSON_DECODE_ANY, &fault);
    if (t->root == NULL)
        fail_msg("%s: %s", text, fault.text);
    t->relaxed = json_array();
    tt_builder_init(&t->b);
    assert_int_equal(tt_schema_init(&t->s, &t->b, t->root, "schema", strict, t->relaxed, &t->err),
                     TT_OK);
    t->status = tt_conj_add(&t->s, &c, t->root, TT_NO_STATE, NULL, NULL, TT_NO_STATE, &t->err);
    if (t->status == TT_OK)
        t->status = tt_shape_expand(&t->s, &c, &t->leaves, &t->err);
    tt_conj_free(&c);
}

static void put_together(taken_apart *t)
{
    tt_leaves_free(&t->leaves);
    tt_schema_free(&t->s);
    tt_builder_free(&t->b);
    json_decref(t->relaxed);
    json_decref(t->root);
}

static void alternatives_have_their_types(void **state)
{
    static const struct {
        const char *schema;
        uint32_t n, types[MOST];
    } cases[] = {
        {"true", 1, {ALL}},
        {"{}", 1, {ALL}},
        {"false", 0, {0}},
        {"{\"type\":\"integer\"}", 1, {WHOLE}},
        {"{\"type\":\"number\",\"nullable\":true}", 1, {NUMBER | NULL_}},
        {"{\"nullable\":true,\"maxLength\":1}", 1, {ALL}},
        {"{\"type\":[\"string\",\"null\"]}", 1, {STRING | NULL_}},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"},{}]}", 3, {STRING, NULL_, ALL}},
        {"{\"type\":\"string\",\"anyOf\":[{\"type\":\"null\"},{\"type\":[\"string\",\"array\"]}]}",
         1,
         {STRING}},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"object\"}],\"allOf\":[{\"anyOf\":[{"
         "\"type\":\"object\"},{\"type\":\"string\"}]}]}",
         2,
         {OBJECT, STRING}},
        {"{\"allOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", 1, {WHOLE}},
        {"{\"allOf\":[{\"type\":\"number\"},{\"type\":\"string\"}]}", 0, {0}},
        {"{\"allOf\":[{},false]}", 0, {0}},
        {"{\"anyOf\":[false,{\"type\":\"null\"}]}", 1, {NULL_}},
        {"{\"minLength\":3,\"maxLength\":2}", 1, {ALL & ~STRING}},
        {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", 0, {0}},
        {"{\"minimum\":1e300}", 1, {ALL & ~NUMBER}},
        {"{\"maximum\":1e300}", 1, {ALL}},
        {"{\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/b\"}]},\"b\":{"
         "\"oneOf\":[{\"type\":\"array\"},{\"type\":\"boolean\"}]}},\"$ref\":\"#/$defs/a\"}",
         3,
         {NULL_, ARRAY, BOOL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        taken_apart t;
        take_apart(cases[i].schema, true, &t);
        if (t.status != TT_OK || t.leaves.n != cases[i].n)
            fail_msg("%s: %u alternatives, %s", cases[i].schema, t.leaves.n, t.err.message);
        for (uint32_t k = 0; k < t.leaves.n; k++)
            if (t.leaves.v[k].types != cases[i].types[k])
                fail_msg("%s: alternative %u of %x", cases[i].schema, k, t.leaves.v[k].types);
        put_together(&t);
    }
}

static void bounds_are_the_narrower_ones(void **state)
{
    taken_apart t;
    take_apart(
        "{\"minLength\":2,\"maxLength\":9,\"minItems\":1,\"pattern\":\"a\",\"format\":\"date\","
        "\"allOf\":[{\"minLength\":1,\"maxLength\":5,\"maxItems\":7,\"minItems\":4},{"
        "\"pattern\":\"b\"},{\"pattern\":\"a\",\"maxItems\":8},{\"minimum\":3},{"
        "\"exclusiveMinimum\":3,\"maximum\":9},{\"exclusiveMaximum\":9.5}]}",
        true, &t);
    assert_int_equal(t.status, TT_OK);
    assert_int_equal(t.leaves.n, 1);
    const tt_leaf *x = &t.leaves.v[0];
    assert_int_equal(x->min_length, 2);
    assert_int_equal(x->max_length, 5);
    assert_int_equal(x->min_items, 4);
    assert_int_equal(x->max_items, 7);
    assert_int_equal(x->n_patterns, 2); /* the same one counts once */
    assert_int_equal(x->n_formats, 1);
    assert_true(x->range.has_min && x->range.open_min && x->range.has_max && !x->range.open_max);
    assert_int_equal(x->range.min.digits[0], '3');
    assert_int_equal(x->range.max.digits[0], '9');
    put_together(&t);
    take_apart("{\"format\":\"hostname\",\"type\":\"string\",\"maxLength\":300}", true, &t);
    assert_int_equal(t.leaves.v[0].max_length, 253);
    put_together(&t);
    take_apart("{\"type\":\"integer\",\"format\":\"uint8\",\"minimum\":7}", true, &t);
    assert_true(t.leaves.v[0].range.whole);
    assert_memory_equal(t.leaves.v[0].range.max.digits, "255", 3);
    assert_memory_equal(t.leaves.v[0].range.min.digits, "7", 1);
    put_together(&t);
}

static void values_are_those_that_fit(void **state)
{
    static const char *const cases[][2] = {
        {"{\"enum\":[1,2,\"a\"]}", "[1,2,\"a\"]"},
        {"{\"enum\":[1,2,\"a\"],\"type\":\"integer\"}", "[1,2]"},
        {"{\"enum\":[1,1.5,2.0],\"type\":\"integer\"}", "[1,2.0]"},
        {"{\"enum\":[1,2,3],\"minimum\":2}", "[2,3]"},
        {"{\"enum\":[1,2,3],\"exclusiveMinimum\":2,\"const\":3}", "[3]"},
        {"{\"enum\":[\"a\",\"bb\",\"\\u00e9\\u00e9\"],\"minLength\":2,\"maxLength\":2}",
         "[\"bb\",\"\\u00e9\\u00e9\"]"},
        {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[3.0,2,4]}]}", "[2,3]"},
        {"{\"enum\":[[1],[1,2],[]],\"minItems\":1,\"maxItems\":1}", "[[1]]"},
        {"{\"const\":{\"a\":1}}", "[{\"a\":1}]"},
        {"{\"const\":null,\"type\":\"null\"}", "[null]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        taken_apart t;
        json_t *want = json_loads(cases[i][1], 0, NULL);
        take_apart(cases[i][0], true, &t);
        if (t.status != TT_OK || t.leaves.n != 1 || !json_equal(t.leaves.v[0].values, want))
            fail_msg("%s: %s", cases[i][0], json_dumps(t.leaves.v[0].values, 0));
        json_decref(want);
        put_together(&t);
    }
}

static void values_are_the_same_to_json(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {{"1", "1.0", true},
                 {"1", "1.5", false},
                 {"0", "-0.0", true},
                 {"1e2", "100", true},
                 {"1", "true", false},
                 {"\"1\"", "1", false},
                 {"[1,2]", "[1,2]", true},
                 {"[1,2]", "[2,1]", false},
                 {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
                 {"null", "null", true},
                 {"1e300", "1e300", true},
                 {"1e300", "2e300", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *a = json_loads(cases[i].a, JSON_DECODE_ANY, NULL);
        json_t *b = json_loads(cases[i].b, JSON_DECODE_ANY, NULL);
        if (tt_shape_same(a, b) != cases[i].same)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
        json_decref(a);
        json_decref(b);
    }
}

/* Pairs of alternatives, and whether they can be shown to exclude each other. */
static void some_alternatives_exclude_each_other(void **state)
{
#define OBJ(props, required)                                                                       \
    "{\"type\":\"object\",\"properties\":{" props "},\"required\":[" required "]}"
    static const struct {
        const char *a, *b;
        bool apart;
    } cases[] = {
        {"{\"type\":\"string\"}", "{\"type\":\"integer\"}", true},
        {"{\"type\":\"number\"}", "{\"type\":\"integer\"}", false},
        {"{\"type\":[\"string\",\"null\"]}", "{\"type\":[\"null\",\"array\"]}", false},
        {"{\"type\":\"integer\",\"maximum\":3}", "{\"type\":\"integer\",\"minimum\":4}", true},
        {"{\"type\":\"integer\",\"maximum\":3}", "{\"type\":\"integer\",\"minimum\":3}", false},
        {"{\"type\":\"number\",\"maximum\":3}", "{\"type\":\"number\",\"exclusiveMinimum\":3}",
         true},
        {"{\"type\":\"string\",\"maxLength\":3}", "{\"type\":\"string\",\"minLength\":4}", true},
        {"{\"type\":\"string\",\"pattern\":\"^a\"}", "{\"type\":\"string\",\"pattern\":\"^b\"}",
         false},
        {"{\"type\":\"array\",\"minItems\":2}", "{\"type\":\"array\",\"maxItems\":1}", true},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"}}",
         "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", false}, /* both take [] */
        {"{\"enum\":[1,2]}", "{\"enum\":[3,\"1\"]}", true},
        {"{\"enum\":[1,2]}", "{\"enum\":[2.0]}", false},
        {"{\"enum\":[1,2]}", "{\"type\":\"integer\",\"minimum\":3}", true},
        {"{\"enum\":[\"ab\"]}", "{\"type\":\"string\",\"pattern\":\"^a\"}", false},
        {"{\"enum\":[\"ab\"]}", "{\"type\":\"string\",\"pattern\":\"^b\"}", true},
        {"{\"const\":true}", "{\"type\":\"boolean\"}", false},
        {OBJ("\"k\":{\"const\":1}", "\"k\""), OBJ("\"k\":{\"const\":2}", "\"k\""), true},
        {OBJ("\"k\":{\"const\":1}", "\"k\""), OBJ("\"k\":{\"enum\":[\"1\"]}", "\"k\""), true},
        {OBJ("\"k\":{\"const\":1}", "\"k\""), OBJ("\"k\":{\"const\":2}", ""), false},
        {OBJ("\"k\":{\"type\":\"string\"}", "\"k\""), OBJ("\"k\":{\"type\":\"null\"}", "\"k\""),
         true},
        {OBJ("\"k\":{\"anyOf\":[{\"const\":1},{\"const\":2}]}", "\"k\""),
         OBJ("\"k\":{\"enum\":[2,3]}", "\"k\""), false},
        {OBJ("\"k\":{\"anyOf\":[{\"const\":1},{\"const\":2}]}", "\"k\""),
         OBJ("\"k\":{\"enum\":[3,4]}", "\"k\""), true},
        {OBJ("\"a\":{\"const\":1}", "\"a\""),
         "{\"type\":\"object\",\"properties\":{\"b\":{}},\"additionalProperties\":false}", true},
        {OBJ("\"o\":" OBJ("\"k\":{\"const\":1}", "\"k\""), "\"o\""),
         OBJ("\"o\":" OBJ("\"k\":{\"const\":2}", "\"k\""), "\"o\""), true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int turn = 0; turn < 2; turn++) {
            taken_apart t;
            char text[600];
            bool apart = false;
            const char *a = turn ? cases[i].b : cases[i].a, *b = turn ? cases[i].a : cases[i].b;
            snprintf(text, sizeof text, "{\"anyOf\":[%s,%s]}", a, b);
            take_apart(text, true, &t);
            assert_int_equal(t.leaves.n, 2);
            assert_int_equal(
                tt_shape_disjoint(&t.s, &t.leaves.v[0], &t.leaves.v[1], 0, &apart, &t.err), TT_OK);
            if (apart != cases[i].apart)
                fail_msg("%s and %s: %d", a, b, apart);
            put_together(&t);
        }
}

static void properties_are_what_all_schemas_say(void **state)
{
    taken_apart t;
    tt_conj c = {0};
    take_apart(
        "{\"properties\":{\"a\":{\"type\":\"string\"}},\"additionalProperties\":{\"const\":1},"
        "\"required\":[\"a\"],\"items\":{\"type\":\"null\"},\"allOf\":[{\"properties\":{\"b\":"
        "{}},\"additionalProperties\":false,\"required\":[\"b\"]},{\"properties\":{\"c\":{}},"
        "\"items\":true}]}",
        true, &t);
    assert_int_equal(t.leaves.n, 1);
    const tt_leaf *x = &t.leaves.v[0];
    assert_int_equal(tt_shape_property(&t.s, x, "a", &c, NULL), TT_OK);
    assert_true(c.never && c.n == 1); /* the second schema takes b alone */
    tt_conj_free(&c);
    assert_int_equal(tt_shape_property(&t.s, x, "b", &c, NULL), TT_OK);
    assert_true(!c.never && c.n == 1); /* what the first says of others */
    tt_conj_free(&c);
    assert_int_equal(tt_shape_property(&t.s, x, NULL, &c, NULL), TT_OK);
    assert_true(c.never);
    tt_conj_free(&c);
    assert_int_equal(tt_shape_items(&t.s, x, &c, NULL), TT_OK);
    assert_true(!c.never && c.n == 1);
    tt_conj_free(&c);
    assert_true(tt_shape_requires(&t.s, x, "a") && tt_shape_requires(&t.s, x, "b"));
    assert_false(tt_shape_requires(&t.s, x, "c"));
    put_together(&t);
}

/* Where something stands is told as a JSON pointer, through references too. */
static void places_have_pointers(void **state)
{
    static const char *const cases[][2] = {
        {"{\"not\":{}}", "schema: #/not: "},
        {"{\"anyOf\":[{},{\"not\":{}}]}", "schema: #/anyOf/1/not: "},
        {"{\"$defs\":{\"a/b\":{\"allOf\":[{\"not\":{}}]}},\"$ref\":\"#/$defs/a~1b\"}",
         "schema: #/$defs/a~1b/allOf/0/not: "},
        {"{\"$ref\":\"#/x/0\",\"x\":[{\"type\":3}]}", "schema: #/x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        taken_apart t;
        take_apart(cases[i][0], true, &t);
        if (t.status != TT_ERR_UNSUPPORTED ||
            strncmp(t.err.message, cases[i][1], strlen(cases[i][1])) != 0)
            fail_msg("%s: %d %s", cases[i][0], t.status, t.err.message);
        put_together(&t);
    }
}

/* Not strict: the place takes any value of its type, and the list says so once. */
static void what_is_not_strict_is_relaxed(void **state)
{
    static const struct {
        const char *schema;
        uint32_t types, relaxed;
    } cases[] = {
        {"{\"type\":\"string\",\"contentEncoding\":\"x\",\"maxLength\":3}", STRING, 1},
        {"{\"type\":\"string\",\"format\":\"iri\",\"not\":{}}", STRING, 1},
        {"{\"type\":[\"string\",\"null\"],\"oneOf\":[{},{}]}", STRING | NULL_, 1},
        {"{\"$ref\":\"other.json\"}", ALL, 1},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":2}", ARRAY, 1},
        {"{\"type\":\"wrong\"}", ALL, 1},
        {"{\"type\":\"integer\",\"minimum\":\"1\"}", WHOLE, 1},
        {"{\"type\":\"integer\",\"minimum\":1,\"x-order\":3,\"title\":\"t\"}", WHOLE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        taken_apart t;
        take_apart(cases[i].schema, false, &t);
        if (t.status != TT_OK || t.leaves.n != 1 || t.leaves.v[0].types != cases[i].types ||
            json_array_size(t.relaxed) != cases[i].relaxed ||
            t.leaves.v[0].max_length != TT_NO_LIMIT || t.leaves.v[0].max_items != TT_NO_LIMIT)
            fail_msg("%s: %d, %zu relaxed", cases[i].schema, t.status, json_array_size(t.relaxed));
        put_together(&t);
    }
}

static void types_have_names(void **state)
{
    static const struct {
        const char *type;
        uint32_t bits;
    } cases[] = {{"\"integer\"", WHOLE},
                 {"\"number\"", NUMBER},
                 {"[\"null\",\"object\"]", NULL_ | OBJECT},
                 {"[]", 0},
                 {"\"Integer\"", 0},
                 {"[\"null\",\"x\"]", 0},
                 {"3", 0}};
    static const struct {
        const char *value;
        uint32_t bits;
    } values[] = {{"1", WHOLE},     {"1.0", WHOLE}, {"1.5", TT_TYPE_BROKEN}, {"null", NULL_},
                  {"\"\"", STRING}, {"[]", ARRAY},  {"{}", OBJECT},          {"false", BOOL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *v = json_loads(cases[i].type, JSON_DECODE_ANY, NULL);
        assert_int_equal(tt_shape_types(v), cases[i].bits);
        json_decref(v);
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        json_t *v = json_loads(values[i].value, JSON_DECODE_ANY, NULL);
        assert_int_equal(tt_shape_type_of(v), values[i].bits);
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alternatives_have_their_types),
        cmocka_unit_test(bounds_are_the_narrower_ones),
        cmocka_unit_test(values_are_those_that_fit),
        cmocka_unit_test(values_are_the_same_to_json),
        cmocka_unit_test(some_alternatives_exclude_each_other),
        cmocka_unit_test(properties_are_what_all_schemas_say),
        cmocka_unit_test(places_have_pointers),
        cmocka_unit_test(what_is_not_strict_is_relaxed),
        cmocka_unit_test(types_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
