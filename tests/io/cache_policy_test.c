/* Proves that scores follow the rules of each policy, that decay needs no sweep, and that scores
 * survive long clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "io/cache_policy.h"

static tt_cache_policy make(tt_cache_policy_kind kind, double half_life)
{
    tt_cache_policy p;
    assert_int_equal(tt_cache_policy_init(&p, kind, 4, half_life, NULL), TT_OK);
    return p;
}

/* log2 F, which heat is but for what a steady use of one a token adds up to. */
static double f_of(const tt_cache_policy *p, uint32_t key)
{
    return p->score[key] - p->clock / p->half_life;
}

static void use_halves_over_a_half_life(void **state)
{
    tt_cache_policy p = make(TT_CACHE_LFU_DECAY, 10);
    assert_true(isinf(f_of(&p, 0)) && f_of(&p, 0) < 0);
    for (int i = 0; i < 4; i++)
        tt_cache_policy_touch(&p, 0, 1);
    tt_cache_policy_touch(&p, 1, 1);
    assert_true(fabs(f_of(&p, 0) - 2.0) < 1e-12);
    assert_true(fabs(f_of(&p, 1)) < 1e-12);
    double before = p.score[0];
    tt_cache_policy_advance(&p, 10);
    assert_true(p.score[0] == before); /* time does not sweep */
    assert_true(fabs(f_of(&p, 0) - 1.0) < 1e-12);
    /* 4 / 2 + 0.5 */
    tt_cache_policy_touch(&p, 0, 0.5);
    assert_true(fabs(f_of(&p, 0) - log2(2.5)) < 1e-12);
    /* One use now against two 10 tokens ago: even, and what was touched last stays. */
    tt_cache_policy_touch(&p, 2, 1);
    tt_cache_policy_touch(&p, 2, 1);
    tt_cache_policy_advance(&p, 10);
    tt_cache_policy_touch(&p, 3, 1);
    assert_true(fabs(p.score[2] - p.score[3]) < 1e-12);
    p.score[2] = p.score[3];
    assert_true(tt_cache_policy_before(&p, 2, 3));
    assert_false(tt_cache_policy_before(&p, 3, 2));
    assert_false(tt_cache_policy_admits(&p, 3, 2));
    assert_true(tt_cache_policy_admits(&p, 0, 1));
    assert_false(tt_cache_policy_admits(&p, 1, 0));
    tt_cache_policy_free(&p);
}

/* Ten million tokens on, a touch still counts for what it is worth. */
static void clocks_may_run_long(void **state)
{
    tt_cache_policy p = make(TT_CACHE_LFU_DECAY, 1);
    tt_cache_policy_advance(&p, 1e7);
    for (int i = 0; i < 3; i++)
        tt_cache_policy_touch(&p, 1, 1);
    tt_cache_policy_touch(&p, 2, 1);
    assert_true(fabs(f_of(&p, 1) - log2(3)) < 1e-7);
    assert_true(tt_cache_policy_before(&p, 2, 1));
    tt_cache_policy_advance(&p, 1e7);
    tt_cache_policy_touch(&p, 1, 1); /* what there was has long gone */
    assert_true(fabs(f_of(&p, 1)) < 1e-7);
    tt_cache_policy_free(&p);
}

static void heat_comes_back(void **state)
{
    tt_cache_policy p = make(TT_CACHE_LFU_DECAY, 7);
    tt_cache_policy_advance(&p, 21);
    tt_cache_policy_set_heat(&p, 1, 1.5);
    tt_cache_policy_set_heat(&p, 2, -(double)INFINITY);
    assert_true(fabs(tt_cache_policy_heat(&p, 1) - 1.5) < 1e-12);
    tt_cache_policy_touch(&p, 2, 1);
    assert_true(fabs(f_of(&p, 2)) < 1e-12);
    /* Another half-life: heat is what it was, and fades otherwise. */
    tt_cache_policy_set_half_life(&p, 100);
    assert_true(fabs(tt_cache_policy_heat(&p, 1) - 1.5) < 1e-12);
    assert_true(isinf(tt_cache_policy_heat(&p, 0)));
    tt_cache_policy_advance(&p, 50);
    assert_true(fabs(tt_cache_policy_heat(&p, 1) - 1.0) < 1e-12);
    tt_cache_policy_free(&p);

    /* Used in every fourth token for long: heat -2, to within one use. */
    p = make(TT_CACHE_LFU_DECAY, 200);
    for (int t = 0; t < 4000; t++) {
        tt_cache_policy_advance(&p, 1);
        if (t % 4 == 0)
            tt_cache_policy_touch(&p, 3, 1);
    }
    assert_true(fabs(tt_cache_policy_heat(&p, 3) + 2.0) < 0.02);
    tt_cache_policy_free(&p);
}

static void the_others_follow_their_names(void **state)
{
    tt_cache_policy p = make(TT_CACHE_LFU, 0);
    tt_cache_policy_touch(&p, 0, 1);
    tt_cache_policy_touch(&p, 0, 1);
    tt_cache_policy_touch(&p, 1, 1);
    tt_cache_policy_advance(&p, 1e6);
    tt_cache_policy_touch(&p, 2, 1);
    assert_true(p.score[0] == 2 && p.score[1] == 1);
    assert_true(tt_cache_policy_before(&p, 1, 2) && tt_cache_policy_before(&p, 2, 0));
    tt_cache_policy_free(&p);

    p = make(TT_CACHE_LRU, 0);
    tt_cache_policy_touch(&p, 0, 1);
    tt_cache_policy_touch(&p, 1, 0.1);
    tt_cache_policy_touch(&p, 0, 0);
    assert_true(tt_cache_policy_before(&p, 1, 0) && tt_cache_policy_before(&p, 2, 1));
    tt_cache_policy_free(&p);

    p = make(TT_CACHE_BELADY, 0);
    tt_cache_policy_touch(&p, 0, 70);
    tt_cache_policy_touch(&p, 1, 1e30);
    tt_cache_policy_touch(&p, 2, 8);
    assert_true(tt_cache_policy_before(&p, 1, 0) && tt_cache_policy_before(&p, 0, 2));
    tt_cache_policy_free(&p);
}

static void names_and_options_are_checked(void **state)
{
    tt_cache_policy p;
    tt_cache_policy_kind kind;
    for (int k = 0; k < 4; k++) {
        const char *name = tt_cache_policy_name((tt_cache_policy_kind)k);
        assert_true(tt_cache_policy_parse(name, &kind));
        assert_int_equal(kind, k);
    }
    assert_null(tt_cache_policy_name((tt_cache_policy_kind)4));
    assert_false(tt_cache_policy_parse("mru", &kind));
    assert_int_equal(tt_cache_policy_init(&p, (tt_cache_policy_kind)4, 4, 0, NULL), TT_ERR_INVALID);
    assert_int_equal(tt_cache_policy_init(&p, TT_CACHE_LFU_DECAY, 4, -1, NULL), TT_ERR_INVALID);
    assert_int_equal(tt_cache_policy_init(&p, TT_CACHE_LFU_DECAY, 4, (double)NAN, NULL),
                     TT_ERR_INVALID);
    p = make(TT_CACHE_LFU_DECAY, 0);
    assert_true(p.half_life == TT_CACHE_LONG_HALF_LIFE);
    tt_cache_policy_free(&p);
}

static void half_lives_suit_the_slots(void **state)
{
    assert_true(tt_cache_half_life(40 * 128, 40, 8) == 128);
    assert_true(tt_cache_half_life(40 * 16, 40, 8) == 2);
    assert_true(tt_cache_half_life(40 * 8, 40, 8) == 0.5);
    assert_true(tt_cache_half_life(40 * 8 - 1, 40, 8) == TT_CACHE_LONG_HALF_LIFE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_halves_over_a_half_life),
        cmocka_unit_test(clocks_may_run_long),
        cmocka_unit_test(heat_comes_back),
        cmocka_unit_test(the_others_follow_their_names),
        cmocka_unit_test(names_and_options_are_checked),
        cmocka_unit_test(half_lives_suit_the_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
