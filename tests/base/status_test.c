/* Proves that error records carry status, file and sentence, and survive long ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void numbers_are_frozen(void **state)
{
    static const char *const names[] = {"TT_OK",
                                        "TT_ERR_NOMEM",
                                        "TT_ERR_INVALID",
                                        "TT_ERR_IO",
                                        "TT_ERR_NOT_FOUND",
                                        "TT_ERR_FORMAT",
                                        "TT_ERR_UNSUPPORTED",
                                        "TT_ERR_CORRUPT",
                                        "TT_ERR_LIMIT",
                                        "TT_ERR_BUDGET",
                                        "TT_ERR_RECEIPT",
                                        "TT_ERR_EXISTS",
                                        "TT_ERR_NO_SPACE",
                                        "TT_ERR_ABORTED",
                                        "TT_ERR_NUMERIC",
                                        "TT_ERR_CONTEXT",
                                        "TT_ERR_STATE",
                                        "TT_ERR_TEMPLATE",
                                        "TT_ERR_INTERNAL"};
    for (int i = 0; i < 19; i++) {
        assert_string_equal(tt_status_name((tt_status)i), names[i]);
        assert_true(strlen(tt_status_text((tt_status)i)) > 3);
    }
    assert_string_equal(tt_status_name((tt_status)19), "TT_UNKNOWN");
    assert_string_equal(tt_status_name((tt_status)-1), "TT_UNKNOWN");
    assert_non_null(tt_status_text((tt_status)1000));
}

static void record_holds_the_fault(void **state)
{
    tt_error err;
    memset(&err, 0xff, sizeof err);
    assert_int_equal(tt_fail_at(&err, TT_ERR_FORMAT, "a/b.bin", 12, "row %d", 3), TT_ERR_FORMAT);
    assert_int_equal(err.status, TT_ERR_FORMAT);
    assert_int_equal(err.offset, 12);
    assert_string_equal(err.file, "a/b.bin");
    assert_string_equal(err.message, "row 3");
    assert_int_equal(tt_fail(&err, TT_ERR_LIMIT, "no file"), TT_ERR_LIMIT);
    assert_int_equal(err.offset, -1);
    assert_string_equal(err.file, "");
    assert_int_equal(tt_fail(NULL, TT_ERR_LIMIT, "nobody listens"), TT_ERR_LIMIT);
}

static void long_paths_keep_their_end(void **state)
{
    char path[1000];
    tt_error err;
    memset(path, 'x', sizeof path);
    memcpy(path + sizeof path - 10, "/name.bin", 10);
    (void)tt_fail_at(&err, TT_ERR_IO, path, -1, "%s", path);
    assert_int_equal(strlen(err.file), sizeof err.file - 1);
    assert_memory_equal(err.file, "...xxx", 6);
    assert_string_equal(err.file + strlen(err.file) - 9, "/name.bin");
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    path[255] = '\0';
    (void)tt_fail_at(&err, TT_ERR_IO, path, -1, "fits");
    assert_string_equal(err.file, path);
}

static void system_errors_become_statuses(void **state)
{
    static const struct {
        int number;
        tt_status status;
    } cases[] = {{ENOSPC, TT_ERR_NO_SPACE}, {EDQUOT, TT_ERR_NO_SPACE}, {ENOENT, TT_ERR_NOT_FOUND},
                 {ENOMEM, TT_ERR_NOMEM},    {EACCES, TT_ERR_IO},       {EIO, TT_ERR_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tt_error err;
        assert_int_equal(tt_fail_errno(&err, cases[i].number, "f", "cannot read %s", "f"),
                         cases[i].status);
        assert_int_equal(tt_fail_errno(NULL, cases[i].number, "f", "x"), cases[i].status);
        assert_memory_equal(err.message, "cannot read f: ", 15);
        assert_string_equal(err.message + 15, strerror(cases[i].number));
    }
    tt_error err;
    (void)tt_fail_errno(&err, EMFILE, "f", "cannot open f");
    assert_non_null(strstr(err.message, "ulimit -n"));
}

static void context_goes_in_front(void **state)
{
    tt_error err;
    (void)tt_fail_at(&err, TT_ERR_IO, "f", 7, "inner");
    assert_int_equal(tt_fail_context(&err, TT_ERR_INTERNAL, "layer %d", 3), TT_ERR_IO);
    assert_string_equal(err.message, "layer 3: inner");
    assert_int_equal(err.offset, 7);
    assert_string_equal(err.file, "f");
    for (int i = 0; i < 200; i++)
        (void)tt_fail_context(&err, TT_ERR_INTERNAL, "layer %d", i);
    assert_memory_equal(err.message, "layer 199: layer 198: ", 22);
    assert_true(strlen(err.message) < sizeof err.message);
    assert_int_equal(tt_fail_context(NULL, TT_ERR_LIMIT, "x"), TT_ERR_LIMIT);
}

static tt_status forwards(int *steps, tt_status first)
{
    TT_TRY(first);
    ++*steps;
    tt_status st;
    TT_GOTO(first, out);
    ++*steps;
    TT_GOTO(TT_ERR_STATE, out);
    ++*steps;
out:
    return st;
}

static void macros_forward(void **state)
{
    int steps = 0;
    assert_int_equal(forwards(&steps, TT_ERR_IO), TT_ERR_IO);
    assert_int_equal(steps, 0);
    assert_int_equal(forwards(&steps, TT_OK), TT_ERR_STATE);
    assert_int_equal(steps, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_frozen),
        cmocka_unit_test(record_holds_the_fault),
        cmocka_unit_test(long_paths_keep_their_end),
        cmocka_unit_test(system_errors_become_statuses),
        cmocka_unit_test(context_goes_in_front),
        cmocka_unit_test(macros_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
