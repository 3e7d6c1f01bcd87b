/* Proves that no control character of a model reaches a terminal, wherever its text is cut, and
 * that every other text is shown as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cli/controls.h"

/* Whole, and cut in two at every place. */
static void shows(const char *text, size_t n, const char *want)
{
    for (size_t cut = 0; cut <= n; cut++) {
        tt_controls c = {0};
        tt_buf b;
        tt_buf_init(&b, 1 << 16);
        tt_controls_show(&c, text, cut, &b);
        tt_controls_show(&c, text + cut, n - cut, &b);
        tt_buf_putc(&b, '\0');
        assert_int_equal(tt_buf_status(&b, NULL), TT_OK);
        assert_string_equal(b.data, want);
        tt_buf_free(&b);
    }
}

#define SHOWS(text, want) shows((text), sizeof(text) - 1, (want))

static void controls_are_visible(void **state)
{
    SHOWS("\x1b[31mred\x1b]0;title\x07", "^[[31mred^[]0;title^G");
    SHOWS("a\rb\bc\x7f\0d", "a^Mb^Hc^?^@d");
    SHOWS("\xc2\x9b"
          "31m\xc2\x80\xc2\x9f",
          "\xef\xbf\xbd"
          "31m\xef\xbf\xbd\xef\xbf\xbd");
}

static void everything_else_stays(void **state)
{
    SHOWS("", "");
    SHOWS("two\nlines\tand a tab", "two\nlines\tand a tab");
    SHOWS("\xc2\xa0\xc2\xbf \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x99\x82",
          "\xc2\xa0\xc2\xbf \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x99\x82");
    /* Bytes of C1 inside other characters are none. */
    SHOWS("\xe2\x80\x9b \xf0\x9f\x9b\x9b", "\xe2\x80\x9b \xf0\x9f\x9b\x9b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_visible),
        cmocka_unit_test(everything_else_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
