/* Proves that a journal keeps every whole line, drops what a crash cut off or a disk spoiled, and
 * goes on behind the last good line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "repack/journal.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512], path[600], seen[4096];
static tt_error err;

static int setup(void **state)
{
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/journal", dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static tt_status keep(void *ctx, char *text, tt_error *e)
{
    if (strcmp(text, "bad") == 0)
        return tt_fail(e, TT_ERR_CORRUPT, "bad");
    strcat(seen, text);
    strcat(seen, "|");
    return TT_OK;
}

static tt_status reopen(tt_journal **j)
{
    seen[0] = '\0';
    *j = NULL;
    return tt_journal_open(path, keep, NULL, j, &err);
}

static void lines_come_back(void **state)
{
    tt_journal *j;
    assert_int_equal(reopen(&j), TT_OK);
    assert_string_equal(seen, "");
    for (int i = 0; i < 3; i++)
        assert_int_equal(tt_journal_append(j, &err, "line %d", i), TT_OK);
    assert_int_equal(tt_journal_sync(j, &err), TT_OK);
    assert_int_equal(tt_journal_append(j, &err, "a\nb"), TT_ERR_INTERNAL);
    tt_journal_close(&j);
    assert_int_equal(reopen(&j), TT_OK);
    assert_string_equal(seen, "line 0|line 1|line 2|");
    tt_journal_close(&j);
    tt_journal_close(&j);
}

/* Whatever is cut off or changed: the lines before it stay, and the journal can be written on. */
static void cut_and_spoiled(void **state)
{
    tt_journal *j;
    size_t n = 0;
    assert_int_equal(reopen(&j), TT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tt_journal_append(j, &err, "line %d", i), TT_OK);
    tt_journal_close(&j);
    char *whole = mini_slurp(dir, "journal", &n);
    for (size_t at = 0; at < 2 * n; at++) {
        char *bytes = malloc(n);
        memcpy(bytes, whole, n);
        if (at >= n)
            bytes[at - n] ^= 0x04;
        mini_spew(dir, "journal", bytes, at < n ? at : n);
        free(bytes);
        assert_int_equal(reopen(&j), TT_OK);
        size_t lines = (at < n ? at : at - n) / (n / 3);
        assert_int_equal(strlen(seen), lines * strlen("line 0|"));
        assert_int_equal(tt_journal_append(j, &err, "more"), TT_OK);
        tt_journal_close(&j);
        assert_int_equal(reopen(&j), TT_OK);
        assert_string_equal(seen + lines * strlen("line 0|"), "more|");
        tt_journal_close(&j);
    }
    free(whole);
}

static void refusals(void **state)
{
    tt_journal *j;
    assert_int_equal(reopen(&j), TT_OK);
    assert_int_equal(tt_journal_append(j, &err, "bad"), TT_OK);
    tt_journal_close(&j);
    assert_int_equal(reopen(&j), TT_ERR_CORRUPT);
    assert_null(j);
    assert_int_equal(tt_journal_open(dir, keep, NULL, &j, &err), TT_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_and_spoiled, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
