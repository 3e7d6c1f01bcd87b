/* Proves that the library and the header that it was built with tell the same version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tinytitan/tinytitan.h"

static void version_is_that_of_the_header(void **state)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TT_VERSION_MAJOR, TT_VERSION_MINOR, TT_VERSION_PATCH);
    assert_string_equal(tt_version(), text);
    assert_string_equal(tt_version(), TT_VERSION_STRING);
    tt_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version_is_that_of_the_header)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
