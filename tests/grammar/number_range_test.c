/* Proves that a rule of numbers takes exactly those within its bounds: every number of at most two
 * digits before and after the point, against all bounds of a small set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/number_range.h"
#include "support/taken.h"

/* Bounds in hundredths. */
static const int bounds[] = {-1250, -1000, -101, -100, -99, -25, -1, 0, 1, 30, 99, 100, 250, 1099};
#define N_BOUNDS (int)(sizeof bounds / sizeof *bounds)

static tt_decimal hundredths(int x)
{
    json_t *v = json_real(x / 100.0);
    tt_decimal d;
    assert_true(tt_decimal_of(v, &d));
    json_decref(v);
    return d;
}

static void rule(const tt_number_range *r, tt_automaton *m)
{
    tt_builder b;
    tt_builder_init(&b);
    uint32_t entry = tt_number_rule(&b, r);
    taken_finish(&b, entry, 0, m);
}

static bool in(const tt_number_range *r, int min, int max, int x)
{
    return (!r->has_min || (r->open_min ? x > min : x >= min)) &&
           (!r->has_max || (r->open_max ? x < max : x <= max)) && !(r->whole && x % 100 != 0);
}

static bool some_in(const tt_number_range *r, int min, int max)
{
    if (!r->whole)
        return !r->has_min || !r->has_max || min < max ||
               (min == max && !r->open_min && !r->open_max);
    for (int x = -10000; x <= 10000; x += 100)
        if (in(r, min, max, x))
            return true;
    return false;
}

static void try_all(const tt_number_range *r, int min, int max)
{
    tt_automaton m;
    char text[32];
    rule(r, &m);
    for (int digits = 0; digits <= (r->whole ? 0 : 2); digits++) {
        int step = digits == 0 ? 100 : digits == 1 ? 10 : 1;
        for (int x = -1300; x <= 1300; x += step) {
            int a = abs(x);
            int n = snprintf(text, sizeof text, "%s%d", x < 0 ? "-" : "", a / 100);
            if (digits > 0)
                snprintf(text + n, sizeof text - (size_t)n, ".%0*d", digits, a % 100 / step);
            if ((taken(&m, text) == TAKEN_ALL) != in(r, min, max, x))
                fail_msg("%s in %s%d, %d%s hundredths%s: %d", text, r->open_min ? "]" : "[", min,
                         max, r->open_max ? "[" : "]", r->whole ? ", whole" : "", taken(&m, text));
        }
    }
    tt_automaton_free(&m);
}

static void takes_what_is_within(void **state)
{
    for (int i = -1; i < N_BOUNDS; i++) {
        for (int k = -1; k < N_BOUNDS; k++) {
            for (int how = 0; how < 8; how++) {
                tt_number_range r = {.has_min = i >= 0, .has_max = k >= 0, .whole = how & 1};
                int min = i < 0 ? 0 : bounds[i], max = k < 0 ? 0 : bounds[k];
                r.open_min = i >= 0 && (how & 2);
                r.open_max = k >= 0 && (how & 4);
                if (i >= 0)
                    r.min = hundredths(min);
                if (k >= 0)
                    r.max = hundredths(max);
                /* Every eighth: all of them take minutes. */
                if ((unsigned)(7 * i + 3 * k + how + 10) % 8 == 0 && some_in(&r, min, max))
                    try_all(&r, min, max);
            }
        }
    }
}

static void says_so_of_decimals(void **state)
{
    for (int i = 0; i < N_BOUNDS; i++) {
        for (int k = 0; k < N_BOUNDS; k++) {
            tt_decimal a = hundredths(bounds[i]), b = hundredths(bounds[k]);
            int c = tt_decimal_compare(&a, &b);
            assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
            tt_number_range r = {.has_min = true, .open_min = true, .min = b};
            assert_int_equal(tt_number_in(&r, &a), i > k);
        }
    }
}

static void reads_decimals(void **state)
{
    static const struct {
        double value;
        const char *digits;
        int whole, fraction;
        bool negative;
    } good[] = {{0.1, "01", 1, 1, false},        {-12.5, "125", 2, 1, true},
                {1e-7, "00000001", 1, 7, false}, {1e15, "1000000000000000", 16, 0, false},
                {-0.0, "0", 1, 0, false},        {100.25, "10025", 3, 2, false}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        json_t *v = json_real(good[i].value);
        tt_decimal d;
        assert_true(tt_decimal_of(v, &d));
        assert_int_equal(d.n_whole, good[i].whole);
        assert_int_equal(d.n_fraction, good[i].fraction);
        assert_memory_equal(d.digits, good[i].digits, strlen(good[i].digits));
        assert_int_equal(d.negative, good[i].negative);
        json_decref(v);
    }
    static const double bad[] = {1e30, 1e-40, -1e300};
    for (size_t i = 0; i < 3; i++) {
        json_t *v = json_real(bad[i]);
        tt_decimal d;
        assert_false(tt_decimal_of(v, &d));
        json_decref(v);
    }
}

static void limits_digits(void **state)
{
    tt_automaton m;
    rule(&(tt_number_range){.whole = true}, &m);
    assert_int_equal(taken(&m, "999999999999999999"), TAKEN_ALL);
    assert_int_equal(taken(&m, "9999999999999999990"), 18);
    assert_int_equal(taken(&m, "-0"), 1);
    assert_int_equal(taken(&m, "00"), 1);
    assert_int_equal(taken(&m, "1e5"), 1);
    tt_automaton_free(&m);
    rule(&(tt_number_range){0}, &m);
    assert_int_equal(taken(&m, "1234567890.12345"), TAKEN_ALL);
    assert_int_equal(taken(&m, "1234567890.123456"), 16);
    assert_int_equal(taken(&m, "0.123456789012345"), TAKEN_ALL);
    assert_int_equal(taken(&m, "0.1234567890123456"), 17);
    assert_int_equal(taken(&m, "1.5e-10"), TAKEN_ALL);
    assert_int_equal(taken(&m, "1E+9"), TAKEN_ALL);
    assert_int_equal(taken(&m, "1e100"), 4);
    tt_automaton_free(&m);
    /* A bound with more digits than others may have. */
    json_t *tiny = json_real(1.25e-20);
    tt_number_range r = {.has_max = true, .has_min = true, .min = hundredths(0)};
    assert_true(tt_decimal_of(tiny, &r.max));
    json_decref(tiny);
    rule(&r, &m);
    assert_int_equal(taken(&m, "0.0000000000000000000125"), TAKEN_ALL);
    assert_int_equal(taken(&m, "0.0000000000000000000126"), 23);
    tt_automaton_free(&m);
}

/* Bounds as schemas write them, and the byte with which a number leaves them. */
static void leaves_its_bounds_at_the_right_byte(void **state)
{
    static const struct {
        const char *min, *max;
        int how; /* 1: whole, 2: open below, 4: open above */
        const char *text;
        int at;
    } cases[] = {
        {"0.1", "0.3", 0, "0.1", TAKEN_ALL},
        {"0.1", "0.3", 0, "0.10", TAKEN_ALL},
        {"0.1", "0.3", 0, "0.09", 2},
        {"0.1", "0.3", 0, "0.3", TAKEN_ALL},
        {"0.1", "0.3", 0, "0.30", TAKEN_ALL},
        {"0.1", "0.3", 0, "0.31", 3},
        {"0.1", "0.3", 0, "0.301", 4},
        {"0.1", "0.3", 0, "0", TAKEN_SHORT},
        {"0.1", "0.3", 0, "-", 0},
        {"0.1", "0.3", 4, "0.3", 2},
        {"0.1", "0.3", 4, "0.2999999", TAKEN_ALL},
        {"0.1", "0.3", 2, "0.1", TAKEN_SHORT},
        {"0.1", "0.3", 2, "0.10000001", TAKEN_ALL},
        {"0.1", "0.3", 2, "0.10", TAKEN_SHORT},
        {"-0.5", "-0.25", 0, "-0.25", TAKEN_ALL},
        {"-0.5", "-0.25", 0, "-0.249", 4},
        {"-0.5", "-0.25", 0, "-0.50", TAKEN_ALL},
        {"-0.5", "-0.25", 0, "-0.501", 5},
        {"-0.5", "-0.25", 0, "0", 0},
        {"-0.5", "0.5", 0, "-0", TAKEN_SHORT},
        {"-0.5", "0.5", 0, "0", TAKEN_ALL},
        {"-0.5", "0.5", 0, "0.0", TAKEN_ALL},
        {"-0.5", "0.5", 0, "-0.0", TAKEN_SHORT},
        {"-0.5", "0.5", 0, "-0.01", TAKEN_ALL},
        {"99.95", "100", 0, "99.94", 4},
        {"99.95", "100", 0, "99.9", TAKEN_SHORT},
        {"99.95", "100", 0, "100", TAKEN_ALL},
        {"99.95", "100", 0, "100.0", TAKEN_ALL},
        {"99.95", "100", 0, "100.01", 5},
        {"99.95", "100", 0, "98", 1},
        {"99.95", "100", 0, "1", TAKEN_SHORT},
        {"99.95", "100", 0, "101", 2},
        {"99.95", "100", 1, "100", TAKEN_ALL},
        {"99.95", "100", 1, "99", 0},
        {"1e-7", "1e-6", 0, "0.0000001", TAKEN_ALL},
        {"1e-7", "1e-6", 0, "0.00000099", TAKEN_ALL},
        {"1e-7", "1e-6", 0, "0.0000011", 8},
        {"1e15", "1e16", 1, "1000000000000000", TAKEN_ALL},
        {"1e15", "1e16", 1, "10000000000000000", TAKEN_ALL},
        {"1e15", "1e16", 1, "10000000000000001", 16},
        {"1e15", "1e16", 1, "999999999999999", TAKEN_SHORT},
        {"1", "1", 1, "1", TAKEN_ALL},
        {"1", "1", 1, "2", 0},
        {"1", "1", 0, "1.0", TAKEN_ALL},
        {"1", "1", 0, "1.01", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_number_range r = {.has_min = true, .has_max = true, .whole = cases[i].how & 1};
        json_t *min = json_loads(cases[i].min, JSON_DECODE_ANY, NULL);
        json_t *max = json_loads(cases[i].max, JSON_DECODE_ANY, NULL);
        tt_automaton m;
        r.open_min = cases[i].how & 2;
        r.open_max = cases[i].how & 4;
        assert_true(tt_decimal_of(min, &r.min) && tt_decimal_of(max, &r.max));
        rule(&r, &m);
        if (taken(&m, cases[i].text) != cases[i].at)
            fail_msg("%s to %s, %d: %s at %d", cases[i].min, cases[i].max, cases[i].how,
                     cases[i].text, taken(&m, cases[i].text));
        tt_automaton_free(&m);
        json_decref(min);
        json_decref(max);
    }
}

static tt_decimal decimal(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    tt_decimal d;
    assert_true(tt_decimal_of(v, &d));
    json_decref(v);
    return d;
}

/* Of bounds beyond 64 bits the last digits are not known, but what 64 bits hold is within. */
static void whole_numbers_stay_within_64_bits(void **state)
{
    (void)state;
    tt_automaton m;
    tt_number_range r = {.has_max = true, .whole = true, .max = decimal("18446744073709551615.0")};
    rule(&r, &m);
    assert_int_equal(taken(&m, "9223372036854775807"), TAKEN_ALL);
    assert_int_not_equal(taken(&m, "9223372036854775808"), TAKEN_ALL);
    assert_int_not_equal(taken(&m, "18446744073709551616"), TAKEN_ALL);
    assert_int_equal(taken(&m, "-5"), TAKEN_ALL);
    tt_automaton_free(&m);
    r = (tt_number_range){.has_min = true, .whole = true, .min = decimal("-1e19")};
    rule(&r, &m);
    assert_int_equal(taken(&m, "-9223372036854775808"), TAKEN_ALL);
    assert_int_not_equal(taken(&m, "-9223372036854775809"), TAKEN_ALL);
    tt_automaton_free(&m);
    /* Where nothing within is allowed, what is beyond is. */
    r = (tt_number_range){.has_min = true, .whole = true, .min = decimal("1e19")};
    rule(&r, &m);
    assert_int_equal(taken(&m, "10000000000000000000"), TAKEN_ALL);
    assert_int_not_equal(taken(&m, "9999999999999999999"), TAKEN_ALL);
    tt_automaton_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_within),
        cmocka_unit_test(whole_numbers_stay_within_64_bits),
        cmocka_unit_test(says_so_of_decimals),
        cmocka_unit_test(reads_decimals),
        cmocka_unit_test(limits_digits),
        cmocka_unit_test(leaves_its_bounds_at_the_right_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
