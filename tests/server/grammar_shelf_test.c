/* Proves that the same wish is the same grammar, that wishes which differ in anything are not, and
 * that the shelf never has more than it was made for: what is lent stays, what is not goes when
 * room is needed, and what does not fit then is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/grammar_shelf.h"
#include "server/server_limits.h"

#define TOOLS "[{\"name\":\"a\"},{\"name\":\"b\"}]"

static tt_lent_grammar *take(tt_grammar_shelf *s, const tt_grammar_wish *wish)
{
    tt_lent_grammar *g = NULL;
    tt_error err = {.offset = -1};
    if (tt_grammar_shelf_take(s, wish, &g, &err) != TT_OK)
        fail_msg("%s", err.message);
    return g;
}

static tt_grammar_shelf *shelf_of(size_t most)
{
    tt_grammar_shelf *s = NULL;
    assert_int_equal(tt_grammar_shelf_create(most, &s, NULL), TT_OK);
    return s;
}

static void wishes_are_told_apart(void **state)
{
    (void)state;
    static const char *const a[] = {"a"}, *const b[] = {"b"}, *const both[] = {"a", "b"};
    static const tt_grammar_wish wishes[] = {
        {.schema = "{}"},
        {.schema = "{ }"},
        {.tools = TOOLS},
        {.tools = TOOLS " "},
        {.tools = TOOLS, .choice = {.mode = TT_TOOLS_AUTO}},
        {.tools = TOOLS, .choice = {.one_call = true}},
        {.tools = TOOLS, .choice = {.names = a, .n_names = 1}},
        {.tools = TOOLS, .choice = {.names = b, .n_names = 1}},
        {.tools = TOOLS, .choice = {.names = both, .n_names = 2}},
        {.tools = TOOLS, .choice = {.document = "{}"}},
        {.tools = TOOLS, .choice = {.document = "true"}},
    };
    enum { N = sizeof wishes / sizeof wishes[0] };
    tt_grammar_shelf *s = shelf_of(TT_GRAMMARS);
    tt_lent_grammar *first[N], *again;
    for (size_t i = 0; i < N; i++)
        first[i] = take(s, &wishes[i]);
    size_t bytes = tt_grammar_shelf_bytes(s);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < i; k++)
            if (tt_lent_grammar_get(first[i]) == tt_lent_grammar_get(first[k]))
                fail_msg("%zu is %zu", i, k);
    }
    for (size_t i = 0; i < N; i++) {
        const tt_grammar *g = tt_lent_grammar_get(first[i]);
        if (i % 2 == 0)
            tt_grammar_shelf_give(&first[i]);
        again = take(s, &wishes[i]);
        assert_ptr_equal(tt_lent_grammar_get(again), g);
        tt_grammar_shelf_give(&again);
        assert_null(again);
    }
    assert_int_equal(tt_grammar_shelf_bytes(s), bytes);
    for (size_t i = 0; i < N; i++)
        tt_grammar_shelf_give(&first[i]);
    tt_grammar_shelf_close(&s);
    assert_null(s);
}

static void what_is_lent_stays(void **state)
{
    (void)state;
    static const tt_grammar_wish one = {.schema = "{\"const\":1}"},
                                 two = {.schema = "{\"const\":2}"},
                                 three = {.schema = "{\"const\":3}"};
    tt_error err = {.offset = -1};
    tt_grammar_shelf *s = shelf_of(TT_GRAMMARS);
    tt_lent_grammar *a = take(s, &one), *b = NULL, *c = NULL;
    size_t room = tt_grammar_shelf_bytes(s) * 5 / 2; /* for two of them */
    tt_grammar_shelf_give(&a);
    tt_grammar_shelf_close(&s);

    s = shelf_of(room);
    a = take(s, &one);
    b = take(s, &two);
    assert_int_equal(tt_grammar_shelf_take(s, &three, &c, &err), TT_ERR_BUDGET);
    assert_null(c);
    tt_lent_grammar *more = take(s, &two); /* lent twice */
    tt_grammar_shelf_give(&b);
    assert_int_equal(tt_grammar_shelf_take(s, &three, &c, &err), TT_ERR_BUDGET);
    tt_grammar_shelf_give(&more);
    c = take(s, &three);
    assert_true(tt_grammar_shelf_bytes(s) <= room);
    /* Of two that nobody has, the one that was used last stays. */
    const tt_grammar *last = tt_lent_grammar_get(a);
    tt_grammar_shelf_give(&c);
    tt_grammar_shelf_give(&a);
    a = take(s, &one);
    tt_grammar_shelf_give(&a);
    b = take(s, &two);
    a = take(s, &one);
    assert_ptr_equal(tt_lent_grammar_get(a), last);
    tt_grammar_shelf_give(&a);
    tt_grammar_shelf_give(&b);
    tt_grammar_shelf_close(&s);

    s = shelf_of(1000);
    assert_int_equal(tt_grammar_shelf_take(s, &one, &a, &err), TT_ERR_BUDGET);
    assert_int_equal(tt_grammar_shelf_bytes(s), 0);
    tt_grammar_shelf_close(&s);
}

static void failures_are_those_of_the_library(void **state)
{
    (void)state;
    static const tt_grammar_wish schema = {.schema = "{\"not\":{}}"}, text = {.schema = "{"},
                                 tools = {.tools = "[]"};
    tt_error err = {.offset = -1};
    tt_grammar_shelf *s = shelf_of(TT_GRAMMARS);
    tt_lent_grammar *g = NULL;
    assert_int_equal(tt_grammar_shelf_take(s, &schema, &g, &err), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "#/not"));
    assert_int_equal(tt_grammar_shelf_take(s, &text, &g, &err), TT_ERR_FORMAT);
    assert_int_equal(tt_grammar_shelf_take(s, &tools, &g, &err), TT_ERR_INVALID);
    assert_null(g);
    assert_int_equal(tt_grammar_shelf_bytes(s), 0);
    tt_grammar_shelf_give(&g);
    tt_grammar_shelf_close(&s);
    tt_grammar_shelf_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_are_told_apart),
        cmocka_unit_test(what_is_lent_stays),
        cmocka_unit_test(failures_are_those_of_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
