/* Proves that stop strings are found however the text is cut, that nothing of them gets out, and
 * that text is held back only while it may begin one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop_match.h"

static char out[256];

/* Pushes `text` in pieces of `piece` bytes; what is handed out collects in `out`. */
static bool feed(const char *const *strings, size_t n, const char *text, size_t piece)
{
    tt_stop_match m;
    bool matched = false;
    const char *ready;
    size_t len = strlen(text), n_ready;
    tt_stop_match_init(&m, strings, n);
    out[0] = '\0';
    for (size_t i = 0; i < len && !matched; i += piece) {
        size_t k = len - i < piece ? len - i : piece;
        assert_int_equal(tt_stop_match_push(&m, text + i, k, &ready, &n_ready, &matched, NULL), 0);
        strncat(out, ready, n_ready);
    }
    if (!matched) {
        tt_stop_match_flush(&m, &ready, &n_ready);
        strncat(out, ready, n_ready);
    }
    tt_stop_match_free(&m);
    return matched;
}

static void every_cut_gives_the_same(void **state)
{
    (void)state;
    static const char *const stops[] = {"\n\nUser:", "END", "aab"};
    static const struct {
        const char *text, *want;
        bool matched;
    } cases[] = {
        {"a story END of it", "a story ", true},
        {"EN END", "EN ", true},
        {"ENEND", "EN", true},
        {"one\n\nUse two", "one\n\nUse two", false},
        {"one\n\n\nUser: two", "one\n", true},
        {"aaab", "a", true},
        {"aaa", "aaa", false},
        {"", "", false},
        {"END", "", true},
        {"\xc3\xa9\xc3\xa9 EN", "\xc3\xa9\xc3\xa9 EN", false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (size_t piece = 1; piece < 20; piece++) {
            assert_int_equal(feed(stops, 3, cases[c].text, piece), cases[c].matched);
            assert_string_equal(out, cases[c].want);
        }
    }
}

/* What is handed out after each push. */
static void expect_push(tt_stop_match *m, const char *text, const char *want, bool want_match)
{
    const char *ready;
    size_t n;
    bool matched = !want_match;
    assert_int_equal(tt_stop_match_push(m, text, strlen(text), &ready, &n, &matched, NULL), TT_OK);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(ready, want, n);
    assert_int_equal(matched, want_match);
}

static void holds_back_no_more_than_needed(void **state)
{
    (void)state;
    static const char *const stops[] = {"STOP", "TOPIC"};
    tt_stop_match m;
    tt_stop_match_init(&m, stops, 2);
    expect_push(&m, "abc", "abc", false);
    expect_push(&m, "dST", "d", false);
    expect_push(&m, "O", "", false);
    expect_push(&m, "x", "STOx", false);
    expect_push(&m, "STOT", "STO", false);
    expect_push(&m, "OPI", "", false);
    expect_push(&m, "C", "", true);
    tt_stop_match_free(&m);
}

static void the_first_to_begin_wins(void **state)
{
    (void)state;
    static const char *const stops[] = {"world", "lo wor"};
    assert_true(feed(stops, 2, "hello world", 64));
    assert_string_equal(out, "hel");
}

static void without_strings_everything_passes(void **state)
{
    (void)state;
    tt_stop_match m;
    tt_stop_match_init(&m, NULL, 0);
    expect_push(&m, "", "", false);
    expect_push(&m, "text", "text", false);
    tt_stop_match_free(&m);
    tt_stop_match_free(&m);
}

/* Random texts of two letters against the plain definition. */
static void agrees_with_a_search_in_the_whole(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 3000; round++) {
        char text[40], stop[6];
        size_t len = (size_t)(rand() % 39), n = 1 + (size_t)(rand() % 5);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + rand() % 2);
        for (size_t i = 0; i < n; i++)
            stop[i] = (char)('a' + rand() % 2);
        text[len] = stop[n] = '\0';
        const char *stops[] = {stop}, *at = strstr(text, stop);
        assert_int_equal(feed(stops, 1, text, 1 + (size_t)(rand() % 4)), at != NULL);
        if (at != NULL)
            text[at - text] = '\0';
        assert_string_equal(out, text);
    }
}

/* Which one it was, in one piece and in many. */
static void what_was_found_is_known(void **state)
{
    (void)state;
    static const char *const stops[] = {"END of", "END", "EN DE", "x"};
    static const struct {
        const char *text;
        size_t found;
    } cases[] = {{"a END of it", 1}, {"EN DEN", 2}, {"axEND", 3}, {"EN", 4}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (size_t piece = 1; piece < 16; piece++) {
            tt_stop_match m;
            bool matched = false;
            const char *ready;
            size_t len = strlen(cases[c].text), n_ready;
            tt_stop_match_init(&m, stops, 4);
            for (size_t i = 0; i < len && !matched; i += piece) {
                size_t k = len - i < piece ? len - i : piece;
                assert_int_equal(
                    tt_stop_match_push(&m, cases[c].text + i, k, &ready, &n_ready, &matched, NULL),
                    TT_OK);
            }
            assert_int_equal(matched, cases[c].found < 4);
            if (matched)
                assert_int_equal(tt_stop_match_found(&m), cases[c].found);
            tt_stop_match_free(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(holds_back_no_more_than_needed),
        cmocka_unit_test(the_first_to_begin_wins),
        cmocka_unit_test(what_was_found_is_known),
        cmocka_unit_test(without_strings_everything_passes),
        cmocka_unit_test(agrees_with_a_search_in_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
