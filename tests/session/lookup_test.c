/* Proves guesses by lookup against a plain search over random timelines, and by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "../support/approx.h"
#include "session/lookup.h"

static void by_hand(void **state)
{
    static const uint32_t t[] = {7, 1, 2, 3, 4, 9, 1, 2, 5, 6, 1};
    uint32_t out[4] = {0};
    /* "1 2" came last at 6, and before at 1 */
    assert_int_equal(tt_lookup(t, 11, 2, 2, out), 2);
    assert_int_equal(out[0], 5);
    assert_int_equal(out[1], 6);
    assert_int_equal(tt_lookup(t, 11, 2, 4, out), 4);
    assert_int_equal(out[2], 1);
    assert_int_equal(out[3], 2); /* the id itself */
    /* the longer match wins over the later one */
    static const uint32_t u[] = {8, 1, 2, 3, 9, 1, 2, 4, 8, 1};
    assert_int_equal(tt_lookup(u, 10, 2, 1, out), 1);
    assert_int_equal(out[0], 3);
    assert_int_equal(tt_lookup(u, 10, 4, 4, out), 0); /* "1 4" never came */
    assert_int_equal(tt_lookup(u, 0, 4, 4, out), 0);
    assert_int_equal(tt_lookup(u, 10, 2, 0, out), 0);
}

/* The definition: for every length from the longest down, the last place where it stands. */
static uint32_t plainly(const uint32_t *seq, uint32_t n, uint32_t most, uint32_t *out)
{
    for (uint32_t k = TT_LOOKUP_MOST; k >= TT_LOOKUP_LEAST; k--)
        for (uint32_t end = n - 1; end >= k && k < n; end--)
            if (memcmp(seq + end - k, seq + n - k, k * sizeof *seq) == 0) {
                uint32_t count = n - end < most ? n - end : most;
                memcpy(out, seq + end, count * sizeof *out);
                return count;
            }
    return 0;
}

static void as_the_definition(void **state)
{
    tt_rng r = {4};
    unsigned found = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t seq[60], n = 1 + tt_rng_below(&r, 59), letters = 2 + tt_rng_below(&r, 8);
        uint32_t a[4], b[4], most = 1 + tt_rng_below(&r, 4);
        for (uint32_t k = 0; k < n; k++)
            seq[k] = tt_rng_below(&r, letters);
        uint32_t have = tt_lookup(seq, n - 1, seq[n - 1], most, a), want = plainly(seq, n, most, b);
        assert_int_equal(have, want);
        assert_memory_equal(a, b, have * sizeof *a);
        found += have > 0;
    }
    assert_true(found > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand),
                                       cmocka_unit_test(as_the_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
