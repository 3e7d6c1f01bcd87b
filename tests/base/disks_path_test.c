/* Proves where the measurements of disks go, and that odd environments keep none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/disks_path.h"

static void paths(void **state)
{
    (void)state;
    char out[TT_MAX_PATH], longest[TT_MAX_PATH + 1];
    assert_true(tt_disks_path("/c", "/h", out));
    assert_string_equal(out, "/c/tinytitan/disks.json");
    assert_true(tt_disks_path("relative", "/h", out));
    assert_string_equal(out, "/h/.cache/tinytitan/disks.json");
    assert_true(tt_disks_path("", "/h", out));
    assert_true(tt_disks_path(NULL, "/h", out));
    assert_false(tt_disks_path(NULL, NULL, out));
    assert_false(tt_disks_path(NULL, "h", out));
    memset(longest, '/', sizeof longest);
    longest[TT_MAX_PATH] = '\0';
    assert_false(tt_disks_path(longest, NULL, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
