/* Proves base64 against the vectors of RFC 4648, that every length comes back, and that a text with
 * another letter, length or padding is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/base64.h"

static void vectors(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"},
                                          {"\xff\xfe\xfb", "//77"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tt_buf text, bytes;
        tt_buf_init(&text, 64);
        tt_buf_init(&bytes, 64);
        tt_base64_write(&text, rows[i][0], strlen(rows[i][0]));
        assert_string_equal(text.len > 0 ? text.data : "", rows[i][1]);
        assert_true(tt_base64_read(&bytes, rows[i][1], strlen(rows[i][1])));
        assert_string_equal(bytes.len > 0 ? bytes.data : "", rows[i][0]);
        tt_buf_free(&text);
        tt_buf_free(&bytes);
    }
}

static void every_length_comes_back(void **state)
{
    (void)state;
    unsigned char all[256];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)(i * 7 + 3);
    for (size_t n = 0; n <= sizeof all; n++) {
        tt_buf text, bytes;
        tt_buf_init(&text, 512);
        tt_buf_init(&bytes, 512);
        tt_base64_write(&text, all, n);
        assert_int_equal(text.len, (n + 2) / 3 * 4);
        assert_true(tt_base64_read(&bytes, text.data, text.len));
        assert_int_equal(bytes.len, n);
        if (n > 0)
            assert_memory_equal(bytes.data, all, n);
        tt_buf_free(&text);
        tt_buf_free(&bytes);
    }
}

static void others_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"Z",    "Zg",    "Zg=",      "Zg===", "=Zg=", "Z===",
                                        "Zh==", "Zm9=",  "Zm-v",     "Zm_v",  "Zm 9", "Zg==Zm9v",
                                        "====", "Zm9v=", "Zm9vZ=g=", "Zm\n9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tt_buf bytes;
        tt_buf_init(&bytes, 64);
        if (tt_base64_read(&bytes, wrong[i], strlen(wrong[i])))
            fail_msg("%s", wrong[i]);
        tt_buf_free(&bytes);
    }
    tt_buf bytes;
    tt_buf_init(&bytes, 64);
    assert_false(tt_base64_read(&bytes, "Zm9\0", 4));
    tt_buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
