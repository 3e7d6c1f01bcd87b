/* Proves of automata over characters that products and least lengths take what they should of all
 * short texts, that nothing useless and nothing twice is left in them, and that their bytes are the
 * characters of a set and no others, as text and as JSON, with a count or without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/pattern.h"
#include "support/approx.h"
#include "support/taken.h"

#define LONGEST 5

static tt_dfa made(tt_builder *b, const char *pattern)
{
    tt_dfa d = {0};
    tt_error err = {0};
    if (tt_pattern_dfa(b, pattern, strlen(pattern), &d, &err) != TT_OK)
        fail_msg("%s: %s", pattern, err.message);
    return d;
}

/* The i-th text over "abc", the shortest first; false behind the last one. */
static bool text_at(uint32_t i, char out[LONGEST + 1])
{
    uint32_t n = 0, all = 1;
    for (; i >= all; all *= 3, n++)
        i -= all;
    for (uint32_t k = 0; k < n && n <= LONGEST; k++, i /= 3)
        out[k] = (char)('a' + i % 3);
    out[n <= LONGEST ? n : 0] = '\0';
    return n <= LONGEST;
}

static const char *const patterns[] = {"^a*b$", "^(a|bc)*$",      "b",    "^[ab]{2,3}$", "^$",
                                       "c$",    "^(ab|ba|c){2}$", "^a|c", "^[^a]*$",     "^x$"};
#define N_PATTERNS (sizeof patterns / sizeof *patterns)

/* Every state leads to an accepting one, and no two take the same. */
static void is_tidy(const tt_dfa *d)
{
    uint32_t columns = d->n_classes + d->n_symbols;
    bool some = false;
    for (uint32_t i = 0; i < d->n; i++)
        some |= d->accept[i];
    assert_true(some || d->n == 1);
    bool *ends = calloc(d->n, sizeof *ends);
    for (uint32_t round = 0; round < d->n; round++)
        for (uint32_t i = 0; i < d->n; i++) {
            ends[i] |= d->accept[i];
            for (uint32_t c = 0; c < columns; c++) {
                uint32_t to = d->next[i * columns + c];
                ends[i] |= to != TT_NO_STATE && ends[to];
            }
        }
    for (uint32_t i = 0; some && i < d->n; i++)
        assert_true(ends[i]);
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = i + 1; k < d->n; k++)
            assert_true(d->accept[i] != d->accept[k] ||
                        memcmp(d->next + i * columns, d->next + k * columns,
                               columns * sizeof *d->next) != 0);
    free(ends);
}

static void products_are_of_both(void **state)
{
    for (size_t i = 0; i < N_PATTERNS; i++)
        for (size_t k = 0; k < N_PATTERNS; k++)
            for (int minus = 0; minus < 2; minus++) {
                tt_builder b;
                tt_dfa p = {0};
                char text[LONGEST + 1];
                tt_builder_init(&b);
                tt_dfa x = made(&b, patterns[i]), y = made(&b, patterns[k]);
                assert_int_equal(tt_dfa_product(&b, &x, &y, minus, &p, NULL), TT_OK);
                is_tidy(&p);
                for (uint32_t t = 0; text_at(t, text); t++) {
                    size_t n = strlen(text);
                    bool want = tt_dfa_accepts(&x, text, n) && tt_dfa_accepts(&y, text, n) != minus;
                    if (tt_dfa_accepts(&p, text, n) != want)
                        fail_msg("%s %s %s: %s", patterns[i], minus ? "without" : "and",
                                 patterns[k], text);
                }
                tt_dfa_free(&x);
                tt_dfa_free(&y);
                tt_dfa_free(&p);
                tt_builder_free(&b);
            }
}

static void least_lengths_leave_the_longer_ones(void **state)
{
    for (size_t i = 0; i < N_PATTERNS; i++)
        for (uint32_t min = 0; min <= 4; min++) {
            tt_builder b;
            tt_dfa p = {0};
            char text[LONGEST + 1];
            tt_builder_init(&b);
            tt_dfa x = made(&b, patterns[i]);
            assert_int_equal(tt_dfa_least(&b, &x, min, &p, NULL), TT_OK);
            is_tidy(&p);
            for (uint32_t t = 0; text_at(t, text); t++)
                assert_int_equal(tt_dfa_accepts(&p, text, strlen(text)),
                                 strlen(text) >= min && tt_dfa_accepts(&x, text, strlen(text)));
            tt_dfa_free(&x);
            tt_dfa_free(&p);
            tt_builder_free(&b);
        }
}

static void equal_states_are_joined(void **state)
{
    static const struct {
        const char *pattern;
        uint32_t states;
    } sizes[] = {{"^a*$", 1},
                 {"^(a|b)*a(a|b)$", 4},
                 {"^(ab|cb|db)*$", 2},
                 {"^a{5}$", 6},
                 {"^(aa|ba|ca)$", 3},
                 {"^x{0,3}$", 4},
                 {"", 1},
                 {"a", 2},
                 {"^(?!a)[a-c]$", 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tt_builder b;
        tt_builder_init(&b);
        tt_dfa d = made(&b, sizes[i].pattern);
        /* The start is no other state, even where it could be. */
        if (d.n != sizes[i].states && d.n != sizes[i].states + 1)
            fail_msg("%s: %u states", sizes[i].pattern, d.n);
        is_tidy(&d);
        tt_dfa_free(&d);
        tt_builder_free(&b);
    }
}

/* ---- bytes ---- */

static size_t utf8(uint32_t c, size_t bytes, char *out)
{
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(bytes == 1 ? c : lead[bytes] | c);
    return bytes;
}

static size_t bytes_of(uint32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static bool in(const tt_range *v, uint32_t n, uint32_t c)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].lo <= c && v[i].hi >= c)
            return true;
    return false;
}

/* An automaton of one character of a set, RAW. */
static void one_of(const tt_range *v, uint32_t n, tt_automaton *out)
{
    tt_builder b;
    tt_rx rx;
    tt_dfa d = {0};
    tt_charset set = {0};
    tt_builder_init(&b);
    tt_rx_init(&rx, &b);
    for (uint32_t i = 0; i < n; i++)
        tt_charset_add(&b, &set, v[i].lo, v[i].hi);
    uint32_t root = tt_rx_set(&rx, &set);
    assert_int_equal(tt_dfa_make(&rx, root, 0, false, &d, NULL), TT_OK);
    uint32_t *states = tt_dfa_states(&b, &d, TT_SPELL_RAW, TT_NO_LIMIT);
    assert_non_null(states);
    for (uint32_t i = 0; i < d.n; i++)
        if (d.accept[i])
            tt_builder_set_final(&b, states[i]);
    uint32_t entry = states[d.n];
    free(states);
    tt_rx_free(&rx);
    tt_dfa_free(&d);
    taken_finish(&b, entry, 0, out);
}

static const uint32_t borders[] = {0x1,     0x20,    0x7f,     0x80,     0xbf,    0xc0,
                                   0x7ff,   0x800,   0xfff,    0x1000,   0xcfff,  0xd000,
                                   0xd7ff,  0xe000,  0xfffd,   0xffff,   0x10000, 0x3ffff,
                                   0x40000, 0xfffff, 0x100000, 0x10fffd, 0x10ffff};
#define N_BORDERS (sizeof borders / sizeof *borders)

static void try_set(const tt_range *v, uint32_t n)
{
    tt_automaton m = {0};
    char text[8];
    one_of(v, n, &m);
    for (size_t i = 0; i < N_BORDERS; i++)
        for (int step = -2; step <= 2; step++) {
            uint32_t c = borders[i] + (uint32_t)step;
            bool valid = c > 0 && c <= TT_LAST_CHAR && !(c >= 0xd800 && c < 0xe000);
            if (c > 0x1fffff)
                continue;
            /* Written as short as it can be, and longer. */
            for (size_t bytes = bytes_of(c); bytes <= 4; bytes++) {
                bool want = valid && bytes == bytes_of(c) && in(v, n, c);
                size_t len = utf8(c, bytes, text);
                if ((taken_bytes(&m, text, len) == TAKEN_ALL) != want)
                    fail_msg("U+%04X in %zu bytes, first range %x-%x: %d", c, bytes, v[0].lo,
                             v[0].hi, taken_bytes(&m, text, len));
            }
        }
    tt_automaton_free(&m);
}

static void bytes_are_the_characters_of_a_set(void **state)
{
    tt_rng r = {7};
    for (size_t i = 0; i < N_BORDERS; i++)
        for (size_t k = i; k < N_BORDERS; k += 1 + i % 3)
            try_set(&(tt_range){borders[i], borders[k]}, 1);
    for (int round = 0; round < 60; round++) {
        tt_range v[4];
        for (int i = 0; i < 4; i++) {
            uint32_t at = borders[tt_rng_below(&r, N_BORDERS)] + tt_rng_below(&r, 3);
            v[i].lo = at > TT_LAST_CHAR ? TT_LAST_CHAR : at;
            v[i].hi = v[i].lo + tt_rng_below(&r, 5000);
            v[i].hi = v[i].hi > TT_LAST_CHAR ? TT_LAST_CHAR : v[i].hi;
        }
        try_set(v, 4);
    }
}

/* A rule for a pattern's texts between quotes, as JSON or raw, of at most `max` characters. */
static void quoted(const char *pattern, tt_spelling spelling, uint32_t max, tt_automaton *out)
{
    tt_builder b;
    tt_builder_init(&b);
    tt_dfa d = made(&b, pattern);
    bool counted = max != TT_NO_LIMIT;
    uint32_t *states = tt_dfa_states(&b, &d, spelling, max);
    assert_non_null(states);
    uint32_t entry = tt_builder_state(&b), end = tt_builder_final(&b);
    tt_builder_edge(&b, entry, '"', '"', states[d.n]);
    for (uint32_t i = 0; i < d.n; i++)
        if (d.accept[i])
            tt_builder_edge(&b, states[i], '"', '"', end);
    if (counted && d.accept[0])
        tt_builder_edge(&b, states[d.n], '"', '"', end);
    uint32_t param = counted ? tt_builder_count(&b, 0, max) : 0;
    free(states);
    tt_dfa_free(&d);
    taken_finish(&b, entry, param, out);
}

static void json_has_one_way_to_write_a_character(void **state)
{
    static const struct {
        const char *text;
        int at;
    } texts[] = {{"\"a\"", TAKEN_ALL},
                 {"\"\\n\"", TAKEN_ALL},
                 {"\"\n\"", 1},
                 {"\"\\u000a\"", 6},
                 {"\"\\u0001\"", TAKEN_ALL},
                 {"\"\\u0000\"", 6},
                 {"\"\\u001f\"", TAKEN_ALL},
                 {"\"\\u0061\"", 5},
                 {"\"\\\"\"", TAKEN_ALL},
                 {"\"\\\\\"", TAKEN_ALL},
                 {"\"\\/\"", 2},
                 {"\"/\"", TAKEN_ALL},
                 {"\"\\u001F\"", 6},
                 {"\"\303\251\"", TAKEN_ALL},
                 {"\"\\u00e9\"", 5},
                 {"\"\177\"", TAKEN_ALL}};
    tt_automaton m = {0};
    quoted("^[^]?$", TT_SPELL_JSON, TT_NO_LIMIT, &m);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (taken(&m, texts[i].text) != texts[i].at)
            fail_msg("%s: %d", texts[i].text, taken(&m, texts[i].text));
    tt_automaton_free(&m);
}

/* A count ends texts where the pattern alone would not, and begins none that cannot end in time. */
static void counts_characters(void **state)
{
    static const struct {
        const char *pattern, *text;
        uint32_t max;
        int at;
    } texts[] = {
        {"^a*$", "\"aaa\"", 3, TAKEN_ALL},
        {"^a*$", "\"aaaa\"", 3, 4},
        {"^a*$", "\"\"", 0, TAKEN_ALL},
        {"^a*$", "\"a\"", 0, 1},
        {"^(ab)*$", "\"abab\"", 5, TAKEN_ALL},
        {"^(ab)*$", "\"ababa\"", 5, 5},
        {"^a(bcd)?$", "\"abcd\"", 4, TAKEN_ALL},
        {"^a(bcd)?$", "\"abcd\"", 3, 2},
        {"^(\303\251|\360\237\230\200\360\237\230\200)$", "\"\303\251\"", 1, TAKEN_ALL},
        {"^(\303\251|\360\237\230\200\360\237\230\200)$", "\"\360\237\230\200", 1, 1},
        {"^\\n*$", "\"\\n\\n\"", 2, TAKEN_ALL},
        {"^\\n*$", "\"\\n\\n\\n\"", 2, 5},
        {"^(\\u0001a|b)$", "\"\\u0001a\"", 2, TAKEN_ALL},
        {"^(\\u0001a|b)$", "\"\\u0001a\"", 1, 1},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tt_automaton m = {0};
        quoted(texts[i].pattern, TT_SPELL_JSON, texts[i].max, &m);
        if (taken(&m, texts[i].text) != texts[i].at)
            fail_msg("%s of %u, %s: %d", texts[i].pattern, texts[i].max, texts[i].text,
                     taken(&m, texts[i].text));
        tt_automaton_free(&m);
    }
}

static void limits_are_told(void **state)
{
    static const char *const large[][2] = {{"^(a|b)*a(a|b){24}$", "more than 50,000 states"},
                                           {"^(a{300}){300}$", "more than 60,000 parts"}};
    for (size_t i = 0; i < 2; i++) {
        tt_builder b;
        tt_dfa d = {.n = 77};
        tt_error err = {0};
        tt_builder_init(&b);
        assert_int_equal(tt_pattern_dfa(&b, large[i][0], strlen(large[i][0]), &d, &err),
                         TT_ERR_LIMIT);
        assert_non_null(strstr(err.message, large[i][1]));
        assert_int_equal(d.n, 77);
        tt_builder_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_of_both),
        cmocka_unit_test(least_lengths_leave_the_longer_ones),
        cmocka_unit_test(equal_states_are_joined),
        cmocka_unit_test(bytes_are_the_characters_of_a_set),
        cmocka_unit_test(json_has_one_way_to_write_a_character),
        cmocka_unit_test(counts_characters),
        cmocka_unit_test(limits_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
