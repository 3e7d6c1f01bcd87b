/* Proves that an emitted file has exactly the bytes appended, with their digest, that it never
 * takes the place of another, and that progress can stop it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "repack/emit.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512], path[600];

static int setup(void **state)
{
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/out", dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static void bytes_and_digest(void **state)
{
    tt_emit e;
    tt_emitted r;
    uint64_t done = 5;
    size_t len = 0, n = 9 << 20;
    char hex[TT_SHA256_HEX], *big = malloc(n);
    struct stat sb;
    for (size_t i = 0; i < n; i++)
        big[i] = (char)(i * 7 + i / 251);
    assert_int_equal(tt_emit_create(&e, path, NULL, &done, 100, NULL), TT_OK);
    assert_int_equal(tt_emit_append(&e, "abc", 3, NULL), TT_OK);
    assert_int_equal(tt_emit_pad(&e, 64, NULL), TT_OK);
    assert_int_equal(tt_emit_pad(&e, 64, NULL), TT_OK);
    assert_int_equal(tt_emit_append(&e, big, n, NULL), TT_OK);
    assert_int_equal(tt_emit_pad(&e, 64, NULL), TT_ERR_INTERNAL);
    assert_int_equal(tt_emit_pad(&e, 64 + n + 40000, NULL), TT_OK);
    assert_int_equal(tt_emit_finish(&e, &r, NULL), TT_OK);
    tt_emit_drop(&e);
    assert_int_equal(done, 5 + 64 + n + 40000);
    char *is = mini_slurp(dir, "out", &len);
    assert_int_equal(len, 64 + n + 40000);
    assert_int_equal(r.size, len);
    assert_memory_equal(is, "abc\0\0", 5);
    assert_memory_equal(is + 64, big, n);
    assert_int_equal(is[len - 1], 0);
    assert_int_equal(tt_sha256_of(is, len, hex, NULL), TT_OK);
    assert_string_equal(hex, r.sha256);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(r.mtime_ns, (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec);
    free(is);
    free(big);
}

static void takes_nobodys_place(void **state)
{
    tt_emit e;
    tt_error err;
    uint64_t done = 0;
    mini_spew(dir, "out", "x", 1);
    assert_int_equal(tt_emit_create(&e, path, NULL, &done, 1, &err), TT_ERR_IO);
    mini_remove(dir, "out");
    char target[700];
    snprintf(target, sizeof target, "%s/elsewhere", dir);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(tt_emit_create(&e, path, NULL, &done, 1, &err), TT_ERR_IO);
    assert_int_equal(access(target, F_OK), -1);
}

static bool stop(void *ctx, uint64_t done, uint64_t total)
{
    assert_int_equal(total, 10);
    return ++*(int *)ctx < 3;
}

static void progress_stops(void **state)
{
    int calls = 0;
    tt_emit e;
    uint64_t done = 0;
    tt_repack_events ev = {&calls, stop, NULL};
    assert_int_equal(tt_emit_create(&e, path, &ev, &done, 10, NULL), TT_OK);
    assert_int_equal(tt_emit_append(&e, "abc", 3, NULL), TT_OK);
    assert_int_equal(tt_emit_append(&e, "", 0, NULL), TT_OK);
    assert_int_equal(tt_emit_append(&e, "abc", 3, NULL), TT_OK);
    assert_int_equal(tt_emit_append(&e, "abc", 3, NULL), TT_ERR_ABORTED);
    tt_emit_drop(&e);
    tt_emit_drop(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_and_digest, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_nobodys_place, setup, teardown),
        cmocka_unit_test_setup_teardown(progress_stops, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
