/* Proves block maxima against one comparison after the other: every length and place, values of
 * every kind, NaN seen wherever it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/block_max.h"

static float plain(const float *x, size_t n)
{
    float top = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return NAN;
        top = x[i] > top ? x[i] : top;
    }
    return top;
}

static void same(float a, float b)
{
    assert_true(a == b || (isnan(a) && isnan(b)));
}

static void the_largest_wherever_it_stands(void **state)
{
    static const float special[] = {NAN, -NAN, INFINITY, FLT_MAX, 3, -0.0f, -FLT_MAX, -INFINITY};
    float x[70];
    for (size_t n = 0; n <= 70; n++)
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k < sizeof special / sizeof *special; k++) {
                for (size_t i = 0; i < n; i++)
                    x[i] = k < 5 ? (float)(i * 7 % 5) - 3 : -INFINITY;
                x[at] = special[k];
                same(tt_largest(x, n), plain(x, n));
                if (k < 5)
                    same(tt_largest(x, n), k == 1 ? NAN : special[k]);
            }
    assert_true(tt_largest(x, 0) == -INFINITY);
}

static void blocks_stand_at_multiples_of_their_size(void **state)
{
    enum { MOST = 5 * TT_BLOCK_MAX + 3 };
    float *x = malloc(MOST * sizeof *x), top[8];
    for (uint32_t i = 0; i < MOST; i++)
        x[i] = (float)(i * 2654435761u >> 8) - 8e6f;
    x[2 * TT_BLOCK_MAX + 5] = NAN;
    for (uint32_t n = 1; n <= MOST; n++) {
        top[tt_block_count(n)] = 77;
        tt_block_max(top, x, n);
        assert_true(top[tt_block_count(n)] == 77);
        for (uint32_t b = 0; b < tt_block_count(n); b++) {
            uint32_t from = b * TT_BLOCK_MAX, left = n - from;
            assert_true(from < n);
            same(top[b], plain(x + from, left < TT_BLOCK_MAX ? left : TT_BLOCK_MAX));
        }
        assert_true(tt_block_count(n) * TT_BLOCK_MAX >= n);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_wherever_it_stands),
        cmocka_unit_test(blocks_stand_at_multiples_of_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
