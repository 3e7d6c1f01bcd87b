/* Proves of automata that building ends at its limits and remembers why, that it can go back, that
 * what has no end is cut off or refused, and that what states are said to take of plain text is
 * what they take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "support/grammar_text.h"
#include "support/taken.h"

/* ---- building ---- */

static void refused(tt_builder *b, const char *words)
{
    tt_error err = {0};
    assert_int_equal(tt_builder_status(b, &err), TT_ERR_LIMIT);
    if (strstr(err.message, words) == NULL)
        fail_msg("%s", err.message);
    /* From there on nothing happens. */
    uint32_t states = b->n_states, edges = b->n_edges, calls = b->n_calls;
    assert_int_equal(tt_builder_state(b), 0);
    tt_builder_edge(b, 0, 'a', 'a', 0);
    tt_builder_call(b, 0, 0, 0, 0);
    tt_builder_set_final(b, 0);
    assert_false(tt_builder_work(b, 0));
    assert_true(b->n_states == states && b->n_edges == edges && b->n_calls == calls);
    tt_builder_free(b);
}

static void building_ends_at_its_limits(void **state)
{
    tt_builder b;
    tt_builder_init(&b);
    while (b.failed == TT_OK)
        (void)tt_builder_state(&b);
    assert_int_equal(b.n_states, TT_AUTOMATON_STATES);
    refused(&b, "more than 100,000 states");
    tt_builder_init(&b);
    uint32_t s = tt_builder_state(&b);
    while (b.failed == TT_OK)
        tt_builder_edge(&b, s, 'a', 'a', s);
    assert_int_equal(b.n_edges, TT_AUTOMATON_EDGES);
    refused(&b, "more than 600,000 edges");
    tt_builder_init(&b);
    s = tt_builder_state(&b);
    while (b.failed == TT_OK)
        tt_builder_call(&b, s, s, 0, s);
    assert_int_equal(b.n_calls, TT_AUTOMATON_CALLS);
    refused(&b, "more than 300,000 calls");
    tt_builder_init(&b);
    while (tt_builder_work(&b, 1000))
        continue;
    assert_true(b.work > TT_AUTOMATON_WORK);
    refused(&b, "too much work");
    tt_builder_init(&b);
    for (int i = 0; i <= 64; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "<%d>", i);
        tt_builder_token(&b, 0, name, (size_t)n, 0);
        tt_builder_token(&b, 0, name, (size_t)n, 0); /* known by now */
        assert_int_equal(b.failed, i < 64 ? TT_OK : TT_ERR_LIMIT);
    }
    refused(&b, "more than 64 special tokens");
}

static void a_share_of_the_work_is_no_more(void **state)
{
    tt_builder b;
    tt_builder_init(&b);
    assert_true(tt_builder_work(&b, 1000));
    uint64_t all = tt_builder_ration(&b, 3);
    assert_int_equal(all, TT_AUTOMATON_WORK);
    assert_int_equal(b.limit, 1000 + TT_AUTOMATON_WORK / 3);
    uint64_t third = tt_builder_ration(&b, 2);
    assert_int_equal(b.limit, third); /* no more than the share that it is a share of */
    b.limit = all;
    assert_true(tt_builder_work(&b, TT_AUTOMATON_WORK / 2));
    tt_builder_free(&b);
}

static void going_back_forgets(void **state)
{
    tt_builder b;
    tt_automaton m = {0};
    tt_builder_init(&b);
    uint32_t entry = tt_builder_state(&b), end = tt_builder_final(&b);
    tt_builder_edge(&b, entry, 'a', 'a', end);
    tt_builder_mark mark = tt_builder_marked(&b);
    uint32_t states = b.n_states, edges = b.n_edges;
    (void)tt_builder_text(&b, tt_builder_state(&b), "xyz", 3);
    (void)tt_builder_count(&b, 3, 7);
    while (b.failed == TT_OK)
        (void)tt_builder_state(&b);
    tt_builder_rewind(&b, &mark);
    assert_int_equal(tt_builder_status(&b, NULL), TT_OK);
    assert_true(b.n_states == states && b.n_edges == edges && b.n_counts == 1);
    taken_finish(&b, entry, 0, &m);
    assert_int_equal(taken(&m, "a"), TAKEN_ALL);
    tt_automaton_free(&m);
}

/* ---- ends ---- */

/* What leads nowhere is no way on; where nothing else is left, there is no automaton. */
static void blind_alleys_are_cut_off(void **state)
{
    tt_builder b;
    tt_automaton m = {0};
    tt_builder_init(&b);
    uint32_t entry = tt_builder_state(&b), end = tt_builder_final(&b), loop = tt_builder_state(&b);
    uint32_t rule = tt_builder_state(&b), inner = tt_builder_state(&b);
    tt_builder_edge(&b, entry, 'a', 'a', end);
    tt_builder_text_to(&b, entry, "bcd", 3, loop); /* and never out of there */
    tt_builder_edge(&b, loop, 'x', 'x', loop);
    tt_builder_call(&b, entry, rule, 0, end); /* a rule that never ends */
    tt_builder_edge(&b, rule, 'r', 'r', inner);
    tt_builder_call(&b, inner, rule, 0, inner);
    taken_finish(&b, entry, 0, &m);
    assert_int_equal(taken(&m, "a"), TAKEN_ALL);
    assert_int_equal(taken(&m, "bcd"), 0);
    assert_int_equal(taken(&m, "r"), 0);
    tt_automaton_free(&m);

    tt_builder_init(&b);
    tt_error err = {0};
    uint32_t lost = tt_builder_state(&b);
    tt_builder_edge(&b, lost, 'a', 'z', lost);
    tt_starts starts = {lost, lost, lost};
    assert_int_equal(tt_automaton_finish(&b, &starts, &m, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "no document can satisfy it"));
    tt_builder_free(&b);
}

static void left_recursion_is_refused(void **state)
{
    tt_builder b;
    tt_automaton m = {0};
    tt_error err = {0};
    tt_builder_init(&b);
    uint32_t rule = tt_builder_state(&b), end = tt_builder_final(&b);
    tt_builder_call(&b, rule, rule, 0, end);
    tt_builder_edge(&b, rule, 'a', 'a', end);
    tt_starts starts = {rule, rule, rule};
    assert_int_equal(tt_automaton_finish(&b, &starts, &m, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "begins with itself"));
    tt_builder_free(&b);
}

/* ---- what states take of plain text ---- */

/* A plain character of a class. */
static size_t plain_char(uint8_t class, char out[4])
{
    static const char *const longs[] = {"\303\251",         "\346\274\242",     "\355\237\277",
                                        "\360\237\230\200", "\364\217\277\277", "\341\232\201",
                                        "\343\201\202"};
    static const char marks[] = "!#$%&'()*+,-./:;=>?@[]^_`{|}~\177";
    const char *l = longs[grammar_noise(7)];
    switch (class) {
    case TT_CHARS_LOWER:
        out[0] = (char)('a' + grammar_noise(26));
        return 1;
    case TT_CHARS_UPPER:
        out[0] = (char)('A' + grammar_noise(26));
        return 1;
    case TT_CHARS_DIGIT:
        out[0] = (char)('0' + grammar_noise(10));
        return 1;
    case TT_CHARS_SPACE:
        out[0] = ' ';
        return 1;
    case TT_CHARS_MARK:
        out[0] = marks[grammar_noise(sizeof marks - 1)];
        return 1;
    default:
        memcpy(out, l, strlen(l));
        return strlen(l);
    }
}

static void put_chars(tt_buf *t, uint8_t set, uint32_t n)
{
    while (n > 0) {
        char c[4];
        uint8_t class = (uint8_t)(1u << grammar_noise(6));
        if (!(set & class))
            continue;
        tt_buf_append(t, c, plain_char(class, c));
        n--;
    }
}

/* Whether a matcher takes n characters of a set behind a text, whichever they are: tried at random.
 */
static bool takes_chars(const tt_automaton *m, const char *begin, uint8_t set, uint32_t n)
{
    tt_gmatcher t = matcher_at(m, m->starts.plain);
    bool ok = true;
    for (int round = 0; round < 50 && ok; round++) {
        tt_buf text;
        tt_buf_init(&text, 1 << 16);
        tt_buf_puts(&text, begin);
        put_chars(&text, set, n);
        tt_gmatcher_reset(&t, m->starts.plain);
        ok = tt_gmatcher_push(&t, text.data, text.len) == text.len;
        tt_buf_free(&text);
    }
    tt_gmatcher_free(&t);
    return ok;
}

static const struct {
    const char *schema, *begin;
    uint8_t set, room, loops; /* room: 1 + characters; TT_ROOM_ANY: no end */
    bool exact;
} places[] = {
    {"{\"type\":\"string\"}", "\"", TT_CHARS_PLAIN, TT_ROOM_ANY, 0, true},
    {"{\"type\":\"string\"}", "\"a", TT_CHARS_PLAIN, TT_ROOM_ANY, TT_CHARS_PLAIN, true},
    {"{\"pattern\":\"^[a-z]*$\",\"type\":\"string\"}", "\"a", TT_CHARS_LOWER, TT_ROOM_ANY,
     TT_CHARS_LOWER, false},
    {"{\"pattern\":\"^[a-zA-Z0-9_-]{1,20}$\",\"type\":\"string\"}", "\"abc",
     TT_CHARS_LOWER | TT_CHARS_UPPER | TT_CHARS_DIGIT, 18, 0, false},
    {"{\"pattern\":\"^.{2,8}$\",\"type\":\"string\"}", "\"", TT_CHARS_PLAIN, 9, 0, true},
    {"{\"pattern\":\"^.{2,8}$\",\"type\":\"string\"}", "\"abcdefg", TT_CHARS_PLAIN, 2, 0, true},
    {"{\"pattern\":\"^.{2,8}$\",\"type\":\"string\"}", "\"abcdefgh", 0, 0, 0, true},
    {"{\"pattern\":\"^\\\\S+$\",\"type\":\"string\"}", "\"a", TT_CHARS_PLAIN & ~TT_CHARS_SPACE,
     TT_ROOM_ANY, TT_CHARS_PLAIN & ~TT_CHARS_SPACE, false},
    {"{\"pattern\":\"a|e\",\"type\":\"string\"}", "\"x", TT_CHARS_PLAIN, TT_ROOM_ANY,
     TT_CHARS_PLAIN & ~TT_CHARS_LOWER, false},
    {"{\"pattern\":\"^[a-y]*$\",\"type\":\"string\"}", "\"a", 0, 0, 0, false},
    {"{\"pattern\":\"^[^\\u00e9]*$\",\"type\":\"string\"}", "\"a", TT_CHARS_PLAIN & ~TT_CHARS_LONG,
     TT_ROOM_ANY, TT_CHARS_PLAIN & ~TT_CHARS_LONG, false},
    {"{\"pattern\":\"^\\\\s*\\\\S+\\\\s*$\",\"type\":\"string\"}", "\"a ", TT_CHARS_SPACE,
     TT_ROOM_ANY, TT_CHARS_SPACE, false},
};

static void texts_have_the_room_that_is_said(void **state)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        tt_automaton m = automaton_of_schema(places[i].schema);
        tt_gmatcher t = matcher_at(&m, m.starts.plain);
        size_t n = strlen(places[i].begin);
        assert_int_equal(tt_gmatcher_push(&t, places[i].begin, n), n);
        assert_int_equal(t.tops.n, 1);
        const tt_gstate *s = &m.states[t.tops.v[0].state];
        if (s->set != places[i].set || s->room != places[i].room || s->loops != places[i].loops ||
            !!(s->flags & TT_STATE_EXACT) != places[i].exact)
            fail_msg("%s behind %s: set %02x, room %u, loops %02x, flags %x", places[i].schema,
                     places[i].begin, s->set, s->room, s->loops, s->flags);
        uint32_t chars = s->room == TT_ROOM_ANY ? 40 : s->room > 0 ? s->room - 1u : 0;
        assert_true(chars == 0 || takes_chars(&m, places[i].begin, s->set, chars));
        if (places[i].exact && s->room < TT_ROOM_ANY)
            assert_false(takes_chars(&m, places[i].begin, TT_CHARS_PLAIN, chars + 1));
        assert_true(s->loops == 0 || takes_chars(&m, places[i].begin, s->loops, 60));
        tt_gmatcher_free(&t);
        tt_automaton_free(&m);
    }
}

/* The same of every state of many automata: what is said is taken, by the states themselves. */
static void no_state_promises_too_much(void **state)
{
    static const char *const schemas[] = {
        "{\"type\":\"string\",\"pattern\":\"^([a-z]{2,5}[ -]?){1,3}$\"}",
        "{\"type\":\"string\",\"pattern\":\"^[^a-f\\u3042]{1,9}(x|yy)*$\",\"maxLength\":12}",
        "{\"type\":\"string\",\"format\":\"hostname\"}",
        "{\"type\":\"string\",\"format\":\"uri\",\"maxLength\":50}",
        "{\"type\":\"string\",\"pattern\":\"the\",\"minLength\":4}",
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\",\"maxLength\":9}}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        tt_automaton m = automaton_of_schema(schemas[i]);
        unsigned some = 0;
        for (uint32_t s = 0; s < m.n_states; s++) {
            const tt_gstate *st = &m.states[s];
            if (st->room < 2 || (st->flags & TT_STATE_INSIDE))
                continue;
            some++;
            for (int round = 0; round < 20; round++) {
                tt_gmatcher t = matcher_at(&m, s);
                tt_buf text;
                uint32_t n = st->room == TT_ROOM_ANY ? 30 : st->room - 1u;
                tt_buf_init(&text, 1 << 16);
                /* Where characters are counted there are at least nine, with nothing counted. */
                n = (st->flags & TT_STATE_COUNTED) && n > 9 ? 9 : n;
                t.tops.v[0].param = 0;
                put_chars(&text, st->set, n);
                size_t at = tt_gmatcher_push(&t, text.data, text.len);
                if (at != text.len)
                    fail_msg("%s, state %u: %s at %zu", schemas[i], s, shown(text.data, text.len),
                             at);
                tt_buf_free(&text);
                tt_gmatcher_free(&t);
            }
        }
        assert_true(some > 0);
        tt_automaton_free(&m);
    }
}

static int seed(void **state)
{
    grammar_noise_seed(5);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(building_ends_at_its_limits),
        cmocka_unit_test(a_share_of_the_work_is_no_more),
        cmocka_unit_test(going_back_forgets),
        cmocka_unit_test(blind_alleys_are_cut_off),
        cmocka_unit_test(left_recursion_is_refused),
        cmocka_unit_test(texts_have_the_room_that_is_said),
        cmocka_unit_test(no_state_promises_too_much),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
