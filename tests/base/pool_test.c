/* Proves that every item of a range is visited exactly once, at every thread count and grain, also
 * by workers that come late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
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

typedef struct sum {
    uint32_t items[64];
    uint32_t by_worker[16];
} sum;

static void add_one(void *ctx, size_t begin, size_t end, unsigned worker)
{
    sum *s = ctx;
    for (size_t i = begin; i < end; i++)
        s->items[i]++;
    s->by_worker[worker] += (uint32_t)(end - begin);
}

/* Far more threads than cores: workers come late all the time, and their parts are done by the
 * caller. Nothing is lost, nothing is done twice, and no worker's scratch is used by two at once.
 */
static void late_workers_lose_nothing(void **state)
{
    enum { JOBS = 20000 };
    (void)state;
    tt_pool *pool = NULL;
    sum s;
    memset(&s, 0, sizeof s);
    assert_int_equal(tt_pool_create(16, &pool, NULL), TT_OK);
    for (uint32_t job = 1; job <= JOBS; job++) {
        tt_pool_run(pool, 64, 1, add_one, &s);
        for (size_t i = 0; i < 64; i++)
            if (s.items[i] != job)
                fail_msg("item %zu was visited %u times in %u jobs", i, s.items[i], job);
    }
    tt_pool_close(&pool);
    uint64_t all = 0;
    for (unsigned i = 0; i < 16; i++)
        all += s.by_worker[i];
    assert_true(all == 64 * (uint64_t)JOBS);
}

/* Busy for far longer than anybody waits awake. */
static void dawdle(void)
{
    for (volatile uint32_t i = 0; i < 500000; i++)
        ;
}

static void slow(void *ctx, size_t begin, size_t end, unsigned worker)
{
    dawdle();
    add_one(ctx, begin, end, worker);
}

/* Jobs with pauses between and within them, longer than anybody stays awake: a new job wakes
 * workers that sleep, the last part wakes the caller. Without the second nothing would go on;
 * without the first the caller would do everything. */
static void sleepers_are_woken(void **state)
{
    enum { JOBS = 200 };
    (void)state;
    tt_pool *pool = NULL;
    sum s;
    memset(&s, 0, sizeof s);
    assert_int_equal(tt_pool_create(4, &pool, NULL), TT_OK);
    for (uint32_t job = 1; job <= JOBS; job++) {
        dawdle();
        tt_pool_run(pool, 64, 1, slow, &s);
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(s.items[i], job);
    }
    tt_pool_close(&pool);
    assert_true(s.by_worker[0] < 64 * JOBS);
}

typedef struct held {
    _Atomic uint32_t others; /* items done, but for the first */
    bool gave_up;
} held;

/* The first item is done when all others are, or never. */
static void hold_the_first(void *ctx, size_t begin, size_t end, unsigned worker)
{
    held *h = ctx;
    double until = tt_now() + 60;
    if (begin > 0) {
        atomic_fetch_add(&h->others, (uint32_t)(end - begin));
        return;
    }
    while (atomic_load(&h->others) < 8 - 1 && !h->gave_up)
        h->gave_up = tt_now() > until;
}

/* A thread that is held up keeps one item from being done; the others take the rest of its share.
 */
static void shares_are_helped_with(void **state)
{
    (void)state;
    tt_pool *pool = NULL;
    assert_int_equal(tt_pool_create(2, &pool, NULL), TT_OK);
    for (int i = 0; i < 100; i++) {
        held h = {.gave_up = false};
        tt_pool_run(pool, 8, 1, hold_the_first, &h);
        assert_false(h.gave_up);
        assert_int_equal(h.others, 7);
    }
    tt_pool_close(&pool);
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
        cmocka_unit_test(covers_the_range_once), cmocka_unit_test(late_workers_lose_nothing),
        cmocka_unit_test(sleepers_are_woken),    cmocka_unit_test(shares_are_helped_with),
        cmocka_unit_test(refuses_bad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
