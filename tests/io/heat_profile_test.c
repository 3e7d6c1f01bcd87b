/* Proves that a heat profile comes back as it was saved, and that damaged, foreign and unwritable
 * ones are refused with nothing changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/tempdir.h"
#include "base/file.h"
#include "base/hash.h"
#include "io/heat_profile.h"

#define LAYERS  3
#define EXPERTS 5
#define N       (LAYERS * EXPERTS)
#define KEY     "manifest 0123"

static char dir[512], path[600];

static int make(void **state)
{
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/heat", dir);
    return 0;
}

static int clean(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static void fill(float *heat)
{
    for (int i = 0; i < N; i++)
        heat[i] = i % 4 == 3 ? -INFINITY : (float)i * 0.37f - 3.0f;
}

static void comes_back_as_it_was(void **state)
{
    float heat[N], back[N] = {0};
    fill(heat);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL),
                     TT_ERR_NOT_FOUND);
    assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL), TT_OK);
    assert_memory_equal(heat, back, sizeof heat);
    /* Saved over the one before. */
    heat[4] = 9.0f;
    assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL), TT_OK);
    assert_true(back[4] == 9.0f);
}

static void other_models_are_refused(void **state)
{
    float heat[N * 2], back[N * 2];
    tt_error err = {0};
    fill(heat);
    memset(back, 7, sizeof back);
    assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
    assert_int_equal(tt_heat_profile_load(path, "manifest 0124", LAYERS, EXPERTS, back, &err),
                     TT_ERR_STATE);
    assert_non_null(strstr(err.message, KEY));
    assert_string_equal(err.file, path);
    assert_int_equal(tt_heat_profile_load(path, "manifest", LAYERS, EXPERTS, back, NULL),
                     TT_ERR_STATE);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS + 1, EXPERTS, back, NULL),
                     TT_ERR_STATE);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS - 1, back, NULL),
                     TT_ERR_STATE);
    assert_int_equal(tt_heat_profile_load(path, KEY, 0, EXPERTS, back, NULL), TT_ERR_INVALID);
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(((char *)back)[i], 7);
}

static void write_file(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Every bit, every length: none is believed. */
static void damage_is_seen(void **state)
{
    float heat[N], back[N];
    char *bytes = NULL;
    size_t n = 0;
    fill(heat);
    assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
    assert_int_equal(tt_file_read(path, 1 << 20, &bytes, &n, NULL), TT_OK);
    memset(back, 7, sizeof back);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0x20;
        write_file(bytes, n);
        assert_int_not_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL), TT_OK);
        bytes[i] ^= 0x20;
    }
    for (size_t cut = 0; cut < n; cut++) {
        write_file(bytes, cut);
        assert_int_not_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL), TT_OK);
    }
    tt_error err = {0};
    write_file("not a heat profile, but long enough", 35);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, &err), TT_ERR_FORMAT);
    assert_int_equal(err.offset, 0);
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(((char *)back)[i], 7);
    tt_free(bytes);
}

/* A right checksum over wrong numbers. */
static void numbers_are_checked(void **state)
{
    static const float bad[] = {NAN, INFINITY, 1e20f};
    for (int i = 0; i < 3; i++) {
        float heat[N], back[N] = {0};
        tt_error err = {0};
        (void)unlink(path);
        fill(heat);
        heat[6] = bad[i];
        assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
        assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, &err),
                         TT_ERR_FORMAT);
        assert_int_equal(err.offset, 24 + strlen(KEY) + 6 * 4);
        assert_true(back[0] == 0.0f);
    }
}

static void a_newer_version_is_unsupported(void **state)
{
    float heat[N], back[N];
    char *bytes = NULL;
    size_t n = 0;
    (void)unlink(path);
    fill(heat);
    assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
    assert_int_equal(tt_file_read(path, 1 << 20, &bytes, &n, NULL), TT_OK);
    bytes[8] = 2;
    write_file(bytes, n);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL),
                     TT_ERR_UNSUPPORTED);
    tt_free(bytes);
}

/* A place that cannot be written is told, and what stood there stays whole. */
static void failures_to_save_are_told(void **state)
{
    float heat[N], back[N];
    char elsewhere[700];
    tt_error err = {0};
    (void)unlink(path);
    fill(heat);
    snprintf(elsewhere, sizeof elsewhere, "%s/no/such/place", dir);
    assert_int_not_equal(tt_heat_profile_save(elsewhere, KEY, LAYERS, EXPERTS, heat, &err), TT_OK);
    assert_true(err.message[0] != '\0');
    assert_int_equal(tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL), TT_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* No byte fits: as on a full disk. */
        const struct rlimit none = {0, 0};
        signal(SIGXFSZ, SIG_IGN);
        heat[0] = 50.0f;
        _exit(setrlimit(RLIMIT_FSIZE, &none) == 0 &&
                      tt_heat_profile_save(path, KEY, LAYERS, EXPERTS, heat, NULL) != TT_OK
                  ? 0
                  : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(tt_heat_profile_load(path, KEY, LAYERS, EXPERTS, back, NULL), TT_OK);
    assert_memory_equal(heat, back, sizeof heat);
    char *key = malloc(TT_MAX_NAME + 2);
    memset(key, 'k', TT_MAX_NAME + 1);
    key[TT_MAX_NAME + 1] = '\0';
    assert_int_equal(tt_heat_profile_save(path, key, LAYERS, EXPERTS, heat, NULL), TT_ERR_INVALID);
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(a_newer_version_is_unsupported),
        cmocka_unit_test(failures_to_save_are_told),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
