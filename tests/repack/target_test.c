/* Proves that a conversion's directory is found, locked, cleaned of dead leftovers only, and put in
 * place or refused for lack of room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "repack/target.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512], path[600];

static int setup(void **state)
{
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/t.gturbo", dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static void published_whole_or_not_at_all(void **state)
{
    tt_target t;
    char partial[TT_MAX_PATH];
    assert_int_equal(tt_target_init(&t, path, false, NULL), TT_OK);
    assert_int_equal(tt_target_create(&t, NULL, NULL), TT_OK);
    strcpy(partial, t.partial);
    assert_int_equal(strncmp(partial, path, strlen(path)), 0);
    assert_non_null(strstr(partial, ".gturbo.partial-"));
    mini_spew(partial, "x", "x", 1);
    assert_false(tt_dir_exists(path));
    assert_int_equal(tt_target_publish(&t, NULL), TT_OK);
    assert_true(tt_dir_exists(path));
    assert_false(tt_dir_exists(partial));
    tt_target_drop(&t);
    assert_true(tt_dir_exists(path));
    /* Dropped instead. */
    strcat(path, "2");
    assert_int_equal(tt_target_init(&t, path, false, NULL), TT_OK);
    assert_int_equal(tt_target_create(&t, NULL, NULL), TT_OK);
    mini_spew(t.partial, "manifest.json", "x", 1);
    strcpy(partial, t.partial);
    tt_target_drop(&t);
    assert_false(tt_dir_exists(partial));
    assert_false(tt_dir_exists(path));
}

static void a_name_taken_meanwhile_is_kept(void **state)
{
    tt_target t;
    tt_error err;
    assert_int_equal(tt_target_init(&t, path, false, NULL), TT_OK);
    assert_int_equal(tt_target_create(&t, NULL, NULL), TT_OK);
    assert_int_equal(mkdir(path, 0755), 0);
    mini_spew(path, "manifest.json", "theirs", 6);
    assert_int_equal(tt_target_publish(&t, &err), TT_ERR_EXISTS);
    assert_non_null(strstr(err.message, "was made while this conversion ran"));
    assert_non_null(strstr(err.message, "--overwrite"));
    tt_target_drop(&t);
    size_t len = 0;
    char *is = mini_slurp(path, "manifest.json", &len);
    assert_string_equal(is, "theirs");
    tt_free(is);
}

static void a_link_is_not_replaced(void **state)
{
    tt_target t;
    tt_error err;
    char real[600];
    snprintf(real, sizeof real, "%s/real", dir);
    assert_int_equal(mkdir(real, 0755), 0);
    mini_spew(real, "manifest.json", "x", 1);
    assert_int_equal(symlink(real, path), 0);
    assert_int_equal(tt_target_init(&t, path, true, &err), TT_ERR_EXISTS);
    assert_non_null(strstr(err.message, "is a symbolic link"));
}

static void an_install_is_exchanged(void **state)
{
    tt_target t;
    char partial[TT_MAX_PATH];
    assert_int_equal(mkdir(path, 0755), 0);
    mini_spew(path, "manifest.json", "old", 3);
    assert_int_equal(tt_target_init(&t, path, true, NULL), TT_OK);
    assert_true(t.replace);
    assert_int_equal(tt_target_create(&t, NULL, NULL), TT_OK);
    strcpy(partial, t.partial);
    mini_spew(t.partial, "manifest.json", "new", 3);
    assert_int_equal(tt_target_publish(&t, NULL), TT_OK);
    size_t len = 0;
    char *is = mini_slurp(path, "manifest.json", &len);
    assert_string_equal(is, "new");
    tt_free(is);
    assert_false(tt_dir_exists(partial));
}

static void leftovers(void **state)
{
    tt_target dead, living, t;
    mini_notes notes;
    tt_repack_events ev = mini_events(&notes);
    char dead_path[TT_MAX_PATH];
    /* One whose owner is gone, and one of another target. */
    assert_int_equal(tt_target_init(&dead, path, false, NULL), TT_OK);
    pid_t pid = fork();
    if (pid == 0)
        _exit(tt_target_create(&dead, NULL, NULL) == TT_OK ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snprintf(dead_path, sizeof dead_path, "%s.partial-%ld", path, (long)pid);
    assert_true(tt_dir_exists(dead_path));
    char other[700];
    snprintf(other, sizeof other, "%s/other.gturbo.partial-1", dir);
    assert_int_equal(mkdir(other, 0755), 0);
    /* One that is alive: this process has it locked under another number. */
    assert_int_equal(tt_target_init(&living, path, false, NULL), TT_OK);
    assert_int_equal(tt_target_create(&living, &ev, NULL), TT_OK);
    assert_false(tt_dir_exists(dead_path));
    assert_non_null(strstr(notes.text, "left over from an interrupted conversion"));
    char renamed[700];
    snprintf(renamed, sizeof renamed, "%s.partial-0", path);
    assert_int_equal(rename(living.partial, renamed), 0);
    strcpy(living.partial, renamed);
    assert_int_equal(tt_target_init(&t, path, false, NULL), TT_OK);
    assert_int_equal(tt_target_create(&t, &ev, NULL), TT_OK);
    assert_true(tt_dir_exists(renamed));
    assert_true(tt_dir_exists(other));
    tt_target_drop(&t);
    tt_target_drop(&living);
}

static void too_little_room_is_refused_with_both_figures(void **state)
{
    tt_error err = {0};
    tt_target t;
    struct statvfs vfs;
    assert_int_equal(tt_target_init(&t, path, false, &err), TT_OK);
    assert_int_equal(tt_target_space(&t, 1, &err), TT_OK);
    assert_int_equal(statvfs(dir, &vfs), 0);
    uint64_t need = (uint64_t)vfs.f_bavail * vfs.f_frsize + 123456789012;
    char figure[32];
    assert_int_equal(tt_target_space(&t, need, &err), TT_ERR_NO_SPACE);
    snprintf(figure, sizeof figure, "%llu bytes", (unsigned long long)need);
    assert_non_null(strstr(err.message, figure));
    assert_non_null(strstr(err.message, "free"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(published_whole_or_not_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_is_not_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_taken_meanwhile_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(an_install_is_exchanged, setup, teardown),
        cmocka_unit_test_setup_teardown(leftovers, setup, teardown),
        cmocka_unit_test_setup_teardown(too_little_room_is_refused_with_both_figures, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
