/* Proves that the clock never goes backwards and that it moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void moves_forward(void **state)
{
    double first = tt_now(), before = first;
    for (long i = 0; i < 100000000L; i++) {
        double now = tt_now();
        assert_true(now >= before);
        if (now > first + 1e-6)
            return;
        before = now;
    }
    fail_msg("the clock stands still");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(moves_forward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
