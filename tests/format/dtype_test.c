/* Proves that bf16 and half conversions round to nearest even over their whole range and that NaN,
 * infinities and signs survive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "format/dtype.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* The value of a half by its definition, in double. */
static double half_value(uint16_t h)
{
    int exp = h >> 10 & 31, man = h & 0x3ff;
    double v = exp == 0 ? ldexp(man, -24) : ldexp(1024 + man, exp - 25);
    return h & 0x8000 ? -v : v;
}

static void every_half_widens_exactly(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = tt_f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            assert_true(h & 0x3ff ? isnan(f) : isinf(f));
            assert_int_equal(signbit(f) != 0, h >> 15);
            continue;
        }
        assert_true((double)f == half_value((uint16_t)h));
        assert_int_equal(bits_of(f) >> 31, h >> 15);
        assert_int_equal(tt_f32_to_f16(f), h);
    }
}

static void halves_round_to_nearest_even(void **state)
{
    for (uint32_t h = 0; h < 0x7bff; h++) { /* between every two finite neighbours */
        double lo = half_value((uint16_t)h), hi = half_value((uint16_t)(h + 1));
        float mid = (float)((lo + hi) / 2); /* exact: one more bit */
        uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(tt_f32_to_f16(mid), even);
        assert_int_equal(tt_f32_to_f16(-mid), even | 0x8000);
        assert_int_equal(tt_f32_to_f16(from_bits(bits_of(mid) - 1)), h);
        assert_int_equal(tt_f32_to_f16(from_bits(bits_of(mid) + 1)), h + 1);
    }
    assert_int_equal(tt_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(tt_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(tt_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(tt_f32_to_f16(1e-30f), 0);
    assert_int_equal(tt_f32_to_f16(-1e-30f), 0x8000);
    assert_int_equal(tt_f32_to_f16(NAN) & 0x7e00, 0x7e00);
    /* A NaN whose payload stands only in the bits that are cut off must stay a NaN. */
    assert_int_equal(tt_f32_to_f16(from_bits(0x7f800001u)) & 0x7e00, 0x7e00);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    for (uint32_t h = 0; h < 0x7f80; h++) {
        uint32_t mid = h << 16 | 0x8000, even = h & 1 ? h + 1 : h;
        assert_int_equal(tt_f32_to_bf16(from_bits(mid)), even);
        assert_int_equal(tt_f32_to_bf16(from_bits(mid | 0x80000000u)), even | 0x8000);
        assert_int_equal(tt_f32_to_bf16(from_bits(mid - 1)), h);
        assert_int_equal(tt_f32_to_bf16(from_bits(mid + 1)), h + 1);
        assert_int_equal(bits_of(tt_bf16_to_f32((uint16_t)h)), h << 16);
    }
    assert_int_equal(tt_f32_to_bf16(INFINITY), 0x7f80);
    assert_true(isnan(tt_bf16_to_f32(tt_f32_to_bf16(from_bits(0x7f800001u)))));
    assert_true(isnan(tt_bf16_to_f32(tt_f32_to_bf16(from_bits(0xffffffffu)))));
}

static void names_and_sizes(void **state)
{
    assert_string_equal(tt_dtype_name(TT_DTYPE_BF16), "BF16");
    assert_string_equal(tt_dtype_name(TT_DTYPE_Q8), "Q8");
    assert_string_equal(tt_dtype_name((tt_dtype)TT_DTYPE_COUNT), "?");
    assert_string_equal(tt_dtype_name((tt_dtype)-1), "?");
    assert_int_equal(tt_dtype_bytes(TT_DTYPE_F32), 4);
    assert_int_equal(tt_dtype_bytes(TT_DTYPE_F16), 2);
    assert_int_equal(tt_dtype_bytes(TT_DTYPE_I64), 8);
    assert_int_equal(tt_dtype_bytes(TT_DTYPE_Q4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_widens_exactly),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
