/* Proves that files are read whole or refused, published whole or not at all, and that trees are
 * removed without following links. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"

static char dir[256];

static const char *in_dir(const char *name)
{
    static char path[TT_MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/file_test.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    return tt_dir_remove(dir, NULL) != TT_OK || tt_dir_exists(dir);
}

static void what_is_published_is_read(void **state)
{
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(tt_file_publish(in_dir("a"), "he\0lo", 5, NULL), TT_OK);
    assert_int_equal(tt_file_read(in_dir("a"), 5, &bytes, &len, NULL), TT_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(bytes, "he\0lo", 6);
    tt_free(bytes);
    /* Again over the old one, and empty. */
    assert_int_equal(tt_file_publish(in_dir("a"), "", 0, NULL), TT_OK);
    assert_int_equal(tt_file_read(in_dir("a"), 0, &bytes, &len, NULL), TT_OK);
    assert_int_equal(len, 0);
    assert_string_equal(bytes, "");
    tt_free(bytes);
    struct stat st;
    assert_int_equal(stat(in_dir("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
}

static void too_long_missing_and_irregular_are_refused(void **state)
{
    char *bytes = NULL;
    size_t len = 77;
    tt_error err;
    assert_int_equal(tt_file_publish(in_dir("a"), "12345", 5, NULL), TT_OK);
    assert_int_equal(tt_file_read(in_dir("a"), 4, &bytes, &len, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "5 bytes"));
    assert_string_equal(err.file, in_dir("a"));
    assert_int_equal(tt_file_read(in_dir("none"), 4, &bytes, &len, &err), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_file_read(dir, 4, &bytes, &len, &err), TT_ERR_IO);
    /* A pipe nobody writes to must not hang the reader. */
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(tt_file_read(in_dir("pipe"), 4, &bytes, &len, &err), TT_ERR_IO);
    assert_null(bytes);
    assert_int_equal(len, 77);
}

/* Links and pipes are neither followed nor replaced, at the path or at its temporary sibling. */
static void publishing_follows_no_link(void **state)
{
    char tmp[TT_MAX_PATH + 32];
    struct stat sb;
    tt_error err = {0};
    assert_int_equal(tt_file_publish(in_dir("precious"), "gold", 4, NULL), TT_OK);
    assert_int_equal(symlink("precious", in_dir("alias")), 0);
    assert_int_equal(tt_file_publish(in_dir("alias"), "x", 1, &err), TT_ERR_EXISTS);
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(tt_file_publish(in_dir("pipe"), "x", 1, &err), TT_ERR_EXISTS);
    snprintf(tmp, sizeof tmp, "%s.tmp.%ld", in_dir("new"), (long)getpid());
    assert_int_equal(symlink("precious", tmp), 0);
    assert_int_equal(tt_file_publish(in_dir("new"), "x", 1, &err), TT_OK);
    assert_int_equal(mkfifo(tmp, 0600), 0);
    assert_int_equal(tt_file_publish(in_dir("new"), "y", 1, &err), TT_OK);
    assert_int_not_equal(lstat(tmp, &sb), 0);
    assert_int_equal(lstat(in_dir("new"), &sb), 0);
    assert_true(S_ISREG(sb.st_mode) && sb.st_size == 1);
    assert_int_equal(lstat(in_dir("precious"), &sb), 0);
    assert_int_equal(sb.st_size, 4);
}

static void only_its_own_kind_is_replaced(void **state)
{
    tt_error err = {0};
    assert_int_equal(tt_file_check_replaced(in_dir("none"), "a thing", "MAGIC", 5, &err), TT_OK);
    assert_int_equal(tt_file_publish(in_dir("empty"), "", 0, NULL), TT_OK);
    assert_int_equal(tt_file_check_replaced(in_dir("empty"), "a thing", "MAGIC", 5, &err), TT_OK);
    assert_int_equal(tt_file_publish(in_dir("own"), "MAGIC and more", 14, NULL), TT_OK);
    assert_int_equal(tt_file_check_replaced(in_dir("own"), "a thing", "MAGIC", 5, &err), TT_OK);
    static const char *const others[] = {"MAG", "MAGI ", "something else"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tt_file_publish(in_dir("other"), others[i], strlen(others[i]), NULL),
                         TT_OK);
        assert_int_equal(tt_file_check_replaced(in_dir("other"), "a thing", "MAGIC", 5, &err),
                         TT_ERR_EXISTS);
        assert_non_null(strstr(err.message, "not a thing"));
    }
    assert_int_equal(tt_file_check_replaced(in_dir("."), "a thing", "MAGIC", 5, &err),
                     TT_ERR_EXISTS);
}

static void a_failed_publish_leaves_nothing(void **state)
{
    tt_error err;
    assert_int_equal(tt_dir_make(in_dir("taken"), NULL), TT_OK);
    assert_int_equal(tt_file_publish(in_dir("taken/file"), "x", 1, NULL), TT_OK);
    /* A directory with something in it cannot be replaced by a file. */
    assert_int_not_equal(tt_file_publish(in_dir("taken"), "x", 1, &err), TT_OK);
    assert_true(tt_dir_exists(in_dir("taken")));
    char command[600];
    snprintf(command, sizeof command, "test \"$(ls %s)\" = taken", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(tt_file_publish(in_dir("no/such/dir"), "x", 1, &err), TT_ERR_NOT_FOUND);
}

static void exact_reads_and_writes(void **state)
{
    char buf[8] = "";
    tt_error err;
    int fd = open(in_dir("rw"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(tt_file_pwrite(fd, "rw", "abcdef", 6, 2, NULL), TT_OK);
    assert_int_equal(tt_file_pread(fd, "rw", buf, 4, 4, NULL), TT_OK);
    assert_string_equal(buf, "cdef");
    assert_int_equal(tt_file_pread(fd, "rw", buf, 5, 4, &err), TT_ERR_FORMAT);
    assert_int_equal(err.offset, 8);
    assert_non_null(strstr(err.message, "truncated"));
    assert_int_equal(tt_file_pread(fd, "rw", buf, 0, 100, NULL), TT_OK);
    close(fd);
    int ro = -1;
    uint64_t size = 0;
    assert_int_equal(tt_file_open(in_dir("rw"), &ro, &size, NULL), TT_OK);
    assert_int_equal(size, 8);
    assert_int_equal(tt_file_pwrite(ro, "rw", "x", 1, 0, &err), TT_ERR_IO);
    close(ro);
}

static bool count_calls(void *ctx, uint64_t done, uint64_t total)
{
    assert_int_equal(total, 3 << 20);
    assert_true(done <= total);
    return --*(int *)ctx > 0;
}

static void hashing_reports_and_stops(void **state)
{
    char *zeros = calloc(3, 1 << 20), hex[65] = "";
    uint64_t size = 0;
    int calls = 100;
    assert_non_null(zeros);
    assert_int_equal(tt_file_publish(in_dir("zeros"), zeros, 3 << 20, NULL), TT_OK);
    free(zeros);
    assert_int_equal(tt_file_sha256(in_dir("zeros"), hex, &size, count_calls, &calls, NULL), TT_OK);
    assert_int_equal(size, 3 << 20);
    assert_int_equal(calls, 97);
    assert_string_equal(hex, "bbd05cf6097ac9b1f89ea29d2542c1b7b67ee46848393895f5a9e43fa1f621e5");
    calls = 2;
    assert_int_equal(tt_file_sha256(in_dir("zeros"), hex, &size, count_calls, &calls, NULL),
                     TT_ERR_ABORTED);
    assert_int_equal(tt_file_sha256(in_dir("none"), hex, NULL, NULL, NULL, NULL), TT_ERR_NOT_FOUND);
}

static void trees_are_removed_without_following_links(void **state)
{
    char outside[512];
    snprintf(outside, sizeof outside, "%s.keep", dir);
    assert_int_equal(tt_dir_make(outside, NULL), TT_OK);
    assert_int_equal(tt_dir_make(in_dir("t"), NULL), TT_OK);
    assert_int_equal(tt_dir_make(in_dir("t"), NULL), TT_OK);
    assert_int_equal(tt_dir_make(in_dir("t/u"), NULL), TT_OK);
    assert_int_equal(tt_file_publish(in_dir("t/u/f"), "x", 1, NULL), TT_OK);
    assert_int_equal(symlink(outside, in_dir("t/link")), 0);
    assert_int_equal(tt_dir_remove(in_dir("t"), NULL), TT_OK);
    assert_false(tt_dir_exists(in_dir("t")));
    assert_true(tt_dir_exists(outside));
    assert_int_equal(tt_dir_remove(in_dir("t"), NULL), TT_OK);
    assert_int_equal(tt_dir_remove(outside, NULL), TT_OK);
    assert_int_equal(tt_file_publish(in_dir("f"), "x", 1, NULL), TT_OK);
    assert_int_not_equal(tt_dir_make(in_dir("f"), NULL), TT_OK);
    assert_true(tt_file_exists(in_dir("f")));
    assert_false(tt_file_exists(dir));
    assert_int_equal(tt_dir_sync(dir, NULL), TT_OK);
    assert_int_equal(tt_dir_sync(in_dir("none"), NULL), TT_ERR_NOT_FOUND);
}

static void joined_paths_have_a_bound(void **state)
{
    char out[TT_MAX_PATH], name[TT_MAX_PATH];
    assert_int_equal(tt_path_join(out, "a/b", "c", NULL), TT_OK);
    assert_string_equal(out, "a/b/c");
    memset(name, 'x', sizeof name);
    name[TT_MAX_PATH - 3] = '\0';
    assert_int_equal(tt_path_join(out, "a", name, NULL), TT_OK);
    assert_int_equal(strlen(out), TT_MAX_PATH - 1);
    name[TT_MAX_PATH - 3] = 'x';
    name[TT_MAX_PATH - 2] = '\0';
    assert_int_equal(tt_path_join(out, "a", name, NULL), TT_ERR_LIMIT);
}

int main(void)
{
#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        IN_DIR(what_is_published_is_read),
        IN_DIR(too_long_missing_and_irregular_are_refused),
        IN_DIR(publishing_follows_no_link),
        IN_DIR(only_its_own_kind_is_replaced),
        IN_DIR(a_failed_publish_leaves_nothing),
        IN_DIR(exact_reads_and_writes),
        IN_DIR(hashing_reports_and_stops),
        IN_DIR(trees_are_removed_without_following_links),
        cmocka_unit_test(joined_paths_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
