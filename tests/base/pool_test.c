/* Proves that every item of a range is visited exactly once, at every thread count and grain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"

#define N 1000

typedef struct visit {
    uint8_t seen[N];
    size_t grain;
} visit;

static void mark(void *ctx, size_t begin, size_t end, unsigned worker)
{
    visit *v = ctx;
    assert_int_equal(begin % v->grain, 0);
    for (size_t i = begin; i < end; i++)
        v->seen[i]++;
}

static void covers_the_range_once(void **state)
{
    for (unsigned threads = 1; threads <= 5; threads++) {
        tt_pool *pool = NULL;
        assert_int_equal(tt_pool_create(threads, &pool, NULL), TT_OK);
        for (size_t n = 0; n <= N; n += 37) {
            for (size_t grain = 1; grain <= 64; grain *= 4) {
                visit v = {.grain = grain};
                tt_pool_run(pool, n, grain, mark, &v);
                for (size_t i = 0; i < N; i++)
                    assert_int_equal(v.seen[i], i < n ? 1 : 0);
            }
        }
        tt_pool_close(&pool);
        assert_null(pool);
    }
}

static void refuses_bad_counts(void **state)
{
    tt_pool *pool = NULL;
    tt_error err = {0};
    assert_int_equal(tt_pool_create(0, &pool, &err), TT_ERR_INVALID);
    assert_int_equal(tt_pool_create(100000, &pool, &err), TT_ERR_INVALID);
    assert_null(pool);
    tt_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_the_range_once),
        cmocka_unit_test(refuses_bad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
