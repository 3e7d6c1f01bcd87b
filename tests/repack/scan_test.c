/* Proves that a scan finds the digest of every file with any number of threads, shows every block
 * once, and ends with the first failure or when it is told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repack/scan.h"
#include "support/tempdir.h"

#define FILES 7

static char dir[512];
static tt_scan_file files[FILES];
static char sums[FILES][TT_SHA256_HEX];
static atomic_uint_fast64_t seen;
static tt_error err;

static int setup(void **state)
{
    char path[600], name[32];
    tempdir_make(dir);
    for (unsigned i = 0; i < FILES; i++) {
        size_t n = i * 400009;
        unsigned char *bytes = malloc(n + 1);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (unsigned char)(k * 7 + i);
        snprintf(name, sizeof name, "f%u", i);
        tempdir_file(dir, name, bytes, n, path);
        files[i] = (tt_scan_file){.step = 4096};
        snprintf(files[i].path, sizeof files[i].path, "%s", path);
        tt_status st = tt_sha256_of(bytes, n, sums[i], NULL);
        free(bytes);
        if (st != TT_OK)
            return 1;
    }
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static tt_status look(void *ctx, size_t file, uint64_t at, const unsigned char *block, size_t n,
                      tt_error *e)
{
    for (size_t k = 0; k < n; k++)
        if (block[k] != (unsigned char)((at + k) * 7 + file))
            return tt_fail(e, TT_ERR_CORRUPT, "another byte");
    atomic_fetch_add(&seen, n);
    return ctx == NULL || file != 5 ? TT_OK : tt_fail(e, TT_ERR_NUMERIC, "file five");
}

static bool stop(void *ctx, uint64_t done, uint64_t total)
{
    return false;
}

static void all_digests(void **state)
{
    for (unsigned threads = 0; threads < 10; threads += 3) {
        uint64_t all = 0;
        atomic_store(&seen, 0);
        for (unsigned i = 0; i < FILES; i++)
            files[i].look = look;
        assert_int_equal(tt_scan(files, FILES, threads, NULL, &err), TT_OK);
        for (unsigned i = 0; i < FILES; i++) {
            assert_string_equal(files[i].is.sha256, sums[i]);
            assert_int_equal(files[i].is.size, i * 400009);
            all += files[i].is.size;
        }
        assert_int_equal(atomic_load(&seen), all);
    }
}

static void failures(void **state)
{
    tt_repack_events ev = {NULL, stop, NULL};
    files[5].look = look;
    files[5].ctx = dir;
    assert_int_equal(tt_scan(files, FILES, 3, NULL, &err), TT_ERR_NUMERIC);
    assert_string_equal(err.message, "file five");
    files[5].look = NULL;
    assert_int_equal(tt_scan(files, FILES, 2, &ev, &err), TT_ERR_ABORTED);
    strcat(files[6].path, "x");
    assert_int_equal(tt_scan(files, FILES, 2, NULL, &err), TT_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_digests, setup, teardown),
        cmocka_unit_test_setup_teardown(failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
