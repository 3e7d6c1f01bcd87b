/* Proves the value of every one of the 256 codes of FP8 E4M3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "format/fp8.h"

static void every_code(void **state)
{
    for (unsigned v = 0; v < 256; v++) {
        unsigned exp = v >> 3 & 15, man = v & 7;
        double want = exp == 0 ? ldexp(man, -9) : ldexp(8 + man, (int)exp - 10);
        float is = tt_f8_e4m3_to_f32((uint8_t)v);
        if (exp == 15 && man == 7) {
            assert_true(isnan(is));
            continue;
        }
        assert_true((double)fabsf(is) == want);
        assert_int_equal(signbit(is) != 0, v >> 7);
    }
    assert_true(tt_f8_e4m3_to_f32(0x7e) == 448.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
