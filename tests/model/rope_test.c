/* Proves the rotary frequencies and YaRN's parts against the figures of docs/model.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "model/rope.h"

static void near(double have, double want, double relative)
{
    if (!(fabs(have - want) <= relative * fabs(want)))
        fail_msg("%.12g is not %.12g", have, want);
}

static tt_arch arch_35b(void)
{
    return (tt_arch){
        .head_dim = 256, .partial_rotary = 0.25, .rope_theta = 1e7, .yarn_factor = 1.0};
}

static void plain_frequencies(void **state)
{
    tt_arch a = arch_35b();
    tt_rope r;
    tt_rope_init(&r, &a);
    assert_int_equal(r.rotary, 64);
    near(r.frequency[0], 1.0, 0);
    near(r.frequency[1], 0.60429639, 1e-7);
    near(r.frequency[16], 3.16227766e-4, 1e-8);
    near(r.frequency[31], 1.65481710e-7, 1e-8);
    near(r.factor, 1.0, 0);
}

static void yarn_by_parts(void **state)
{
    tt_arch a = arch_35b();
    tt_rope plain, r;
    tt_rope_init(&plain, &a);
    a.yarn_factor = 4.0;
    a.yarn_original_context = 262144;
    tt_rope_init(&r, &a);
    near(r.factor, 1.138629436, 1e-9);
    /* fast dimensions turn as before, slow ones are stretched, between 14 and 22 there is a ramp */
    for (int i = 0; i <= 14; i++)
        near(r.frequency[i], plain.frequency[i], 1e-12);
    for (int i = 22; i < 32; i++)
        near(r.frequency[i], plain.frequency[i] / 4.0, 1e-12);
    near(r.frequency[18], plain.frequency[18] * (0.5 / 4.0 + 0.5), 1e-12);
}

static void rows_are_the_angles_of_positions(void **state)
{
    tt_arch a = arch_35b();
    tt_rope r;
    float cosine[3 * 32], sine[3 * 32];
    tt_rope_init(&r, &a);
    tt_rope_rows(&r, cosine, sine, 200000, 3);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < 32; i++) {
            double angle = (200000.0 + t) * pow(1e7, -2.0 * i / 64.0);
            assert_true(fabs(cosine[t * 32 + i] - cos(angle)) < 1e-6);
            assert_true(fabs(sine[t * 32 + i] - sin(angle)) < 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_frequencies),
        cmocka_unit_test(yarn_by_parts),
        cmocka_unit_test(rows_are_the_angles_of_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
