/* Proves of matchers that bytes which cannot follow leave them where they were, that they stand in
 * the same place however bytes are cut into pieces, that copies go their own way, that stacks are
 * given up beyond a bound without leading astray, and that long texts need no more memory. */
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

static const char *const schemas[] = {
    "{}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":3},\"ab\":{"
    "\"$ref\":\"#\"}},\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"integer\"}}",
    "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},{\"type\":\"array\","
    "\"items\":{\"enum\":[1,12,null]},\"maxItems\":3}]}",
};

/* A byte that may follow, or -1. */
static int some_byte(const tt_gmatcher *t, tt_gmatcher *trial)
{
    int found = -1;
    uint32_t n = 0;
    for (int b = 1; b < 255; b++) {
        char c = (char)b;
        tt_gmatcher_copy(trial, t);
        if (tt_gmatcher_push(trial, &c, 1) == 1 && grammar_noise(++n) == 0)
            found = b;
    }
    return found;
}

static void a_text(const tt_automaton *m, tt_buf *text)
{
    tt_gmatcher t = matcher_at(m, m->starts.plain), trial = matcher_at(m, m->starts.plain);
    for (int i = 0; i < 60; i++) {
        int b = some_byte(&t, &trial);
        char c = (char)b;
        assert_int_equal(tt_gmatcher_goes_on(&t), b >= 0);
        if (b < 0)
            break;
        assert_int_equal(tt_gmatcher_push(&t, &c, 1), 1);
        tt_buf_putc(text, c);
    }
    tt_gmatcher_free(&t);
    tt_gmatcher_free(&trial);
}

static void pieces_make_no_difference(void **state)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        tt_automaton m = automaton_of_schema(schemas[i]);
        for (int round = 0; round < 20; round++) {
            tt_buf text;
            tt_buf_init(&text, 1 << 16);
            a_text(&m, &text);
            tt_gmatcher one = matcher_at(&m, m.starts.plain);
            tt_gmatcher other = matcher_at(&m, m.starts.plain);
            for (size_t at = 0; at < text.len;) {
                size_t n = 1 + grammar_noise(9);
                n = n < text.len - at ? n : text.len - at;
                assert_int_equal(tt_gmatcher_push(&one, text.data + at, n), n);
                for (size_t k = 0; k < n; k++)
                    assert_int_equal(tt_gmatcher_push(&other, text.data + at + k, 1), 1);
                assert_true(matcher_place(&one) == matcher_place(&other));
                at += n;
            }
            tt_gmatcher_free(&one);
            tt_gmatcher_free(&other);
            tt_buf_free(&text);
        }
        tt_automaton_free(&m);
    }
}

static void what_cannot_follow_changes_nothing(void **state)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        tt_automaton m = automaton_of_schema(schemas[i]);
        for (int round = 0; round < 20; round++) {
            tt_buf text;
            tt_buf_init(&text, 1 << 16);
            a_text(&m, &text);
            tt_gmatcher t = matcher_at(&m, m.starts.plain);
            size_t at = grammar_noise((uint32_t)text.len + 1);
            assert_int_equal(tt_gmatcher_push(&t, text.data, at), at);
            uint64_t before = matcher_place(&t);
            /* The rest of the text, with a byte somewhere that no text has. */
            size_t good = grammar_noise((uint32_t)(text.len - at) + 1);
            char bad[80];
            memcpy(bad, text.data + at, good);
            bad[good] = (char)0xc0;
            assert_int_equal(tt_gmatcher_push(&t, bad, good + 1), good);
            assert_true(matcher_place(&t) == before);
            assert_int_equal(tt_gmatcher_push(&t, text.data + at, text.len - at), text.len - at);
            tt_gmatcher_free(&t);
            tt_buf_free(&text);
        }
        tt_automaton_free(&m);
    }
}

static void copies_go_their_own_way(void **state)
{
    tt_automaton m = automaton_of_schema(schemas[1]);
    tt_gmatcher a = matcher_at(&m, m.starts.plain), b = matcher_at(&m, m.starts.plain);
    assert_int_equal(tt_gmatcher_push(&a, "{\"a\":\"", 6), 6);
    tt_gmatcher_copy(&b, &a);
    assert_true(matcher_place(&a) == matcher_place(&b));
    assert_int_equal(tt_gmatcher_push(&a, "xyz\"}", 5), 5);
    assert_true(tt_gmatcher_complete(&a) && !tt_gmatcher_goes_on(&a));
    assert_false(tt_gmatcher_complete(&b));
    assert_int_equal(tt_gmatcher_push(&b, "\",\"ab\":{\"a\":\"\"}}", 16), 16);
    assert_true(tt_gmatcher_complete(&b));
    tt_gmatcher_reset(&a, m.starts.plain);
    assert_int_equal(tt_gmatcher_push(&a, "{}", 2), 1);
    tt_gmatcher_free(&a);
    tt_gmatcher_free(&a);
    tt_gmatcher_free(&b);
    tt_automaton_free(&m);
}

/* What stands on a stack of its own at every place of a long text is bounded by depth, not length.
 */
static void long_texts_need_no_more_frames(void **state)
{
    tt_automaton m = automaton_of_schema(schemas[2]);
    tt_gmatcher t = matcher_at(&m, m.starts.plain);
    assert_int_equal(tt_gmatcher_push(&t, "[1", 2), 2);
    uint32_t frames = t.frames.n;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(tt_gmatcher_push(&t, ",1", 2), 2);
    assert_true(t.frames.n <= frames);
    /* The same in one piece, which compacts on its way. */
    tt_buf text;
    tt_buf_init(&text, 1 << 20);
    tt_buf_puts(&text, "[1");
    for (int i = 0; i < 20000; i++)
        tt_buf_puts(&text, ",1");
    tt_buf_puts(&text, "]");
    tt_gmatcher_reset(&t, m.starts.plain);
    assert_int_equal(tt_gmatcher_push(&t, text.data, text.len), text.len);
    assert_true(tt_gmatcher_complete(&t));
    tt_buf_free(&text);
    tt_gmatcher_free(&t);
    tt_automaton_free(&m);
}

/* 300 rules that begin alike: of the stacks the first 256 are followed. */
static void stacks_beyond_the_bound_are_given_up(void **state)
{
    tt_buf text;
    tt_buf_init(&text, 1 << 20);
    tt_buf_puts(&text, "root ::= r0");
    for (int i = 1; i < 300; i++)
        tt_buf_printf(&text, " | r%d", i);
    for (int i = 0; i < 300; i++)
        tt_buf_printf(&text, "\nr%d ::= \"x\" ([a-c] | \"%03d\")", i, i);
    tt_automaton m = automaton_of_ebnf(text.data);
    tt_gmatcher t = matcher_at(&m, m.starts.plain);
    unsigned taken = 0;
    assert_int_equal(tt_gmatcher_push(&t, "x", 1), 1);
    assert_int_equal(t.tops.n, TT_MATCH_PARALLEL);
    for (int i = 0; i < 300; i++) {
        char word[8];
        snprintf(word, sizeof word, "%03d", i);
        tt_gmatcher_reset(&t, m.starts.plain);
        assert_int_equal(tt_gmatcher_push(&t, "x", 1), 1);
        bool ok = tt_gmatcher_push(&t, word, 3) == 3;
        assert_true(!ok || tt_gmatcher_complete(&t));
        taken += ok;
    }
    assert_int_equal(taken, TT_MATCH_PARALLEL);
    tt_gmatcher_reset(&t, m.starts.plain);
    assert_int_equal(tt_gmatcher_push(&t, "xb", 2), 2);
    assert_true(tt_gmatcher_complete(&t));
    tt_gmatcher_free(&t);
    tt_automaton_free(&m);
    tt_buf_free(&text);
}

/* What follows the end of the rule on top is asked for apart from what it goes on with. */
static void beyond_is_what_follows_the_rule(void **state)
{
    tt_automaton m = automaton_of_ebnf("root ::= word [ !] word?\nword ::= [a-z]+");
    tt_gmatcher t = matcher_at(&m, m.starts.plain);
    tt_frame v[4];
    assert_int_equal(tt_gmatcher_push(&t, "ab", 2), 2);
    assert_int_equal(t.tops.n, 1);
    for (unsigned b = 0; b < 256; b++) {
        tt_tops out = {.v = v, .cap = 4}, all = {.v = v + 2, .cap = 2};
        uint32_t frames = t.frames.n;
        tt_match_beyond(&m, &t.frames, &t.tops.v[0], (uint8_t)b, &out);
        assert_int_equal(out.n > 0, b == ' ' || b == '!');
        tt_match_step(&m, &t.frames, &t.tops.v[0], (uint8_t)b, &all);
        assert_int_equal(all.n > 0, b == ' ' || b == '!' || (b >= 'a' && b <= 'z'));
        t.frames.n = frames;
    }
    tt_gmatcher_free(&t);
    tt_automaton_free(&m);
}

static int seed(void **state)
{
    grammar_noise_seed(11);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(what_cannot_follow_changes_nothing),
        cmocka_unit_test(copies_go_their_own_way),
        cmocka_unit_test(long_texts_need_no_more_frames),
        cmocka_unit_test(stacks_beyond_the_bound_are_given_up),
        cmocka_unit_test(beyond_is_what_follows_the_rule),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
