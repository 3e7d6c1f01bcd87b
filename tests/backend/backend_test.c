/* Proves how backends are made: names, levels, what they say when refused, what they cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"

static const tt_backend_limits none;

static void expect_refused(const char *name, const char *level, unsigned threads, tt_status want,
                           const char *text)
{
    tt_backend *be = NULL;
    tt_error err = {0};
    assert_int_equal(tt_backend_create(name, level, threads, &none, &be, &err), want);
    assert_null(be);
    if (strstr(err.message, text) == NULL)
        fail_msg("'%s' is not in: %s", text, err.message);
}

static void levels_can_be_forced(void **state)
{
    const char *level, *best = NULL;
    unsigned n = 0;
    for (; (level = tt_cpu_level_at(n)) != NULL; n++) {
        tt_backend *be = NULL;
        assert_int_equal(tt_backend_create("cpu", level, 1, &none, &be, NULL), TT_OK);
        assert_string_equal(be->level, level);
        assert_string_equal(be->name, "cpu");
        tt_backend_close(&be);
        assert_null(be);
        best = level;
    }
    assert_string_equal(tt_cpu_level_at(0), "ref");
    assert_null(tt_cpu_level_at(n + 7));
    static const char *const automatic[] = {NULL, "auto"};
    for (int i = 0; i < 2; i++) {
        tt_backend *be = NULL;
        assert_int_equal(tt_backend_create("cpu", automatic[i], 2, &none, &be, NULL), TT_OK);
        assert_string_equal(be->level, best);
        tt_backend_close(&be);
    }
}

static void the_reference_is_a_backend(void **state)
{
    tt_backend *be = NULL;
    assert_int_equal(tt_backend_create("ref", NULL, 1, &none, &be, NULL), TT_OK);
    assert_string_equal(be->name, "ref");
    assert_string_equal(be->level, "ref");
    tt_backend_close(&be);
    tt_backend_close(&be);
    tt_backend_close(NULL);
}

static void refusals_say_what_there_is(void **state)
{
    expect_refused("cpu", "neon9", 1, TT_ERR_UNSUPPORTED, "this machine has: ref");
    expect_refused("gpu", NULL, 1, TT_ERR_UNSUPPORTED, "cpu, ref");
    expect_refused("ref", "avx2", 1, TT_ERR_UNSUPPORTED, "backend 'cpu'");
    expect_refused("cpu", NULL, 0, TT_ERR_INVALID, "threads");
    expect_refused("cpu", NULL, TT_MAX_THREADS + 1, TT_ERR_INVALID, "threads");
}

static void limits_are_checked(void **state)
{
    tt_backend *be = NULL;
    tt_backend_limits lim = {.head_dim = TT_MAX_HEAD_DIM + 1};
    assert_int_equal(tt_backend_create("cpu", NULL, 1, &lim, &be, NULL), TT_ERR_UNSUPPORTED);
    lim = (tt_backend_limits){.delta = {.key_heads = 2, .value_heads = 3}};
    assert_int_equal(tt_backend_create("cpu", NULL, 1, &lim, &be, NULL), TT_ERR_INVALID);
    assert_null(be);
}

static void cost_is_told_beforehand(void **state)
{
    tt_backend_limits lim = {.head_dim = 256, .delta = {16, 32, 128, 128}};
    uint64_t one = tt_backend_cost(1, &lim);
    uint64_t more = tt_backend_cost(2, &lim) - one; /* of one thread, beside what all share */
    assert_true(more > 0 && more < TT_MIB && one < 3 * TT_MIB);
    assert_int_equal(tt_backend_cost(8, &lim), one + 7 * more);
    assert_true(tt_backend_cost(1, &none) < one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_can_be_forced),       cmocka_unit_test(the_reference_is_a_backend),
        cmocka_unit_test(refusals_say_what_there_is), cmocka_unit_test(limits_are_checked),
        cmocka_unit_test(cost_is_told_beforehand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
