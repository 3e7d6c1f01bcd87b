/* Proves that a buffer holds what was appended, stops at its maximum, and remembers its failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void holds_what_was_appended(void **state)
{
    tt_buf b;
    tt_buf_init(&b, 1000);
    assert_null(b.data);
    tt_buf_puts(&b, "abc");
    tt_buf_putc(&b, '-');
    tt_buf_append(&b, "x\0y", 3);
    tt_buf_printf(&b, "<%d %s>", 42, "é");
    assert_int_equal(tt_buf_status(&b, NULL), TT_OK);
    assert_int_equal(b.len, 14);
    assert_memory_equal(b.data, "abc-x\0y<42 é>", 15);
    tt_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    tt_buf_free(&b);
    assert_null(b.data);
}

static void grows_to_its_maximum_and_no_further(void **state)
{
    for (size_t max = 0; max < 200; max += 7) {
        tt_buf b;
        tt_error err;
        tt_buf_init(&b, max);
        for (size_t i = 0; i < max; i++)
            tt_buf_putc(&b, (char)('a' + i % 26));
        assert_int_equal(tt_buf_status(&b, &err), TT_OK);
        assert_int_equal(b.len, max);
        tt_buf_putc(&b, '!');
        assert_int_equal(tt_buf_status(&b, &err), TT_ERR_LIMIT);
        assert_non_null(strstr(err.message, "longer than"));
        for (size_t i = 0; i < max; i++)
            assert_int_equal(b.data[i], 'a' + i % 26);
        tt_buf_free(&b);
    }
}

static void first_failure_stops_later_appends(void **state)
{
    tt_buf b;
    tt_buf_init(&b, 4);
    tt_buf_puts(&b, "ab");
    tt_buf_puts(&b, "cdefgh");
    tt_buf_puts(&b, "c");
    tt_buf_printf(&b, "%d", 7);
    assert_int_equal(tt_buf_status(&b, NULL), TT_ERR_LIMIT);
    assert_int_equal(b.len, 2);
    assert_string_equal(b.data, "ab");
    assert_null(tt_buf_steal(&b, NULL));
    tt_buf_clear(&b);
    tt_buf_puts(&b, "cd");
    assert_int_equal(tt_buf_status(&b, NULL), TT_OK);
    assert_string_equal(b.data, "cd");
    tt_buf_append(&b, "x", SIZE_MAX);
    assert_int_equal(tt_buf_status(&b, NULL), TT_ERR_LIMIT);
    tt_buf_free(&b);
}

static void what_was_reserved_does_not_move(void **state)
{
    (void)state;
    tt_buf b;
    tt_buf_init(&b, 1000);
    tt_buf_puts(&b, "ab");
    tt_buf_reserve(&b, 900);
    assert_string_equal(b.data, "ab");
    const char *at = b.data;
    for (int i = 0; i < 900; i++)
        tt_buf_putc(&b, 'x');
    assert_ptr_equal(b.data, at);
    assert_int_equal(b.len, 902);
    tt_buf_reserve(&b, 99);
    assert_int_equal(b.failed, TT_ERR_LIMIT);
    assert_int_equal(b.len, 902);
    tt_buf_free(&b);
}

static void stealing_empties_it(void **state)
{
    tt_buf b;
    size_t len = 99;
    tt_buf_init(&b, 10);
    char *empty = tt_buf_steal(&b, &len);
    assert_int_equal(len, 0);
    assert_string_equal(empty, "");
    tt_free(empty);
    tt_buf_puts(&b, "hello");
    char *text = tt_buf_steal(&b, &len);
    assert_int_equal(len, 5);
    assert_string_equal(text, "hello");
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.max, 10);
    tt_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_what_was_appended),
        cmocka_unit_test(grows_to_its_maximum_and_no_further),
        cmocka_unit_test(first_failure_stops_later_appends),
        cmocka_unit_test(what_was_reserved_does_not_move),
        cmocka_unit_test(stealing_empties_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
