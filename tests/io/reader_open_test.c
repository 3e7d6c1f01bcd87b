/* Proves which reader is chosen where io_uring is barred, where O_DIRECT is refused and where
 * memory may not be locked, and what a mirror does when it is fine, wrong and torn away. */
#include "../support/reader_laws.h"

#include <sys/stat.h>

static const tt_reader_options every_kind[] = {
    {.kind = TT_READER_URING, .piece_bytes = 16384},
    {.kind = TT_READER_POOL, .threads = 3, .piece_bytes = 16384},
    {.kind = TT_READER_BUFFERED, .threads = 2, .piece_bytes = 16384},
};
#define KINDS 3u

static void says(const laws *f, const char *text)
{
    if (strstr(f->reader->describe, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", f->reader->describe, text);
}

/* ---- the choice ---- */

static void options_are_checked(void **state)
{
    laws *f = *state;
    static const tt_reader_options bad[] = {{.depth = 257},
                                            {.piece_bytes = 4096},
                                            {.piece_bytes = 16384 + 512},
                                            {.piece_bytes = TT_IO_MAX_PIECE + 4096},
                                            {.threads = 65}};
    const char *paths[] = {f->path[0]};
    tt_reader_kind kind;
    tt_error err = {0};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tt_reader *r = NULL;
        assert_int_equal(tt_reader_open(paths, 1, &bad[i], &r, &err), TT_ERR_INVALID);
        assert_null(r);
    }
    assert_int_equal(tt_reader_kind_parse("pool", &kind, &err), TT_OK);
    assert_int_equal(kind, TT_READER_POOL);
    assert_int_equal(tt_reader_kind_parse("auto", &kind, &err), TT_OK);
    assert_int_equal(kind, TT_READER_AUTO);
    assert_int_equal(tt_reader_kind_parse("", &kind, &err), TT_ERR_INVALID);
    assert_int_equal(tt_reader_kind_parse("mmap", &kind, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "mmap"));
}

static void no_files_are_fine(void **state)
{
    (void)state;
    tt_reader *r = NULL;
    assert_int_equal(tt_reader_open(NULL, 0, NULL, &r, NULL), TT_OK);
    assert_string_equal(r->ops->path(r, 0), "");
    tt_reader_close(&r);
    assert_int_equal(tt_reader_open_buffered(NULL, 0, &r, NULL), TT_OK);
    tt_reader_close(&r);
}

static void uring_is_barred(void **state)
{
    laws *f = *state;
    if (!barred_call(SYS_io_uring_setup, EPERM, 0, 0)) {
        print_message("skip: no seccomp filters here\n");
        return;
    }
    laws_reopen(f);
    assert_string_equal(f->reader->ops->name, "pool");
    says(f, "io_uring");
    says(f, "not permitted");
    laws_burst(f, 3, true, true);
    tt_reader *r = NULL;
    tt_error err = {0};
    const char *paths[] = {f->path[0]};
    assert_int_equal(tt_reader_open(paths, 1, &every_kind[0], &r, &err), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "io_uring"));
}

static void uring_is_not_there(void **state)
{
    laws *f = *state;
    if (!barred_call(SYS_io_uring_setup, ENOSYS, 0, 0))
        return;
    laws_reopen(f);
    assert_string_equal(f->reader->ops->name, "pool");
    laws_burst(f, 4, true, true);
}

/* It can be made and does not work: entering it is barred. */
static void uring_cannot_be_entered(void **state)
{
    laws *f = *state;
    if (!barred_call(SYS_io_uring_enter, EPERM, 0, 0))
        return;
    laws_reopen(f);
    assert_string_equal(f->reader->ops->name, "pool");
    laws_burst(f, 5, true, true);
}

static void nothing_may_be_locked(void **state)
{
    laws *f = *state;
    if (!barred_memlock(0)) {
        print_message("skip: capabilities cannot be given up here\n");
        return;
    }
    laws_reopen(f);
    assert_int_equal(tt_reader_register_memory(f->reader, f->dst, LAWS_DST, NULL), TT_OK);
    laws_burst(f, 6, true, true);
}

static void direct_is_refused_at_open(void **state)
{
    laws *f = *state;
    if (!barred_call(SYS_openat, EINVAL, 2, O_DIRECT))
        return;
    laws_reopen(f);
    assert_string_equal(f->reader->ops->name, "buffered");
    says(f, "refuses O_DIRECT");
    laws_burst(f, 7, true, true);
    laws_page_cache(state);
    for (unsigned i = 0; i < 2; i++) {
        tt_reader *r = NULL;
        tt_error err = {0};
        const char *paths[] = {f->path[0]};
        assert_int_equal(tt_reader_open(paths, 1, &every_kind[i], &r, &err), TT_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "O_DIRECT"));
        assert_string_equal(err.file, f->path[0]);
    }
}

static void threads_are_refused(void **state)
{
    laws *f = *state;
    if (!barred_call(SYS_io_uring_setup, ENOSYS, 0, 0) || !barred_call(SYS_clone, EAGAIN, 0, 0) ||
        !barred_call(435 /* clone3 */, EAGAIN, 0, 0))
        return;
    laws_reopen(f);
    assert_string_equal(f->reader->ops->name, "buffered");
    says(f, "thread");
    laws_burst(f, 8, true, false);
}

static void each_obstacle_has_its_reader(void **state)
{
    laws *f = *state;
    says(f, "pieces of 512 KiB");
    laws_in_child(uring_is_barred, f);
    laws_in_child(uring_is_not_there, f);
    laws_in_child(uring_cannot_be_entered, f);
    laws_in_child(nothing_may_be_locked, f);
    laws_in_child(direct_is_refused_at_open, f);
    laws_in_child(threads_are_refused, f);
}

/* Taken at open, refused at the first read; and refused by one file later on. */
static void direct_is_refused_by_reads(void **state)
{
    laws *f = *state;
    kernel.refuse_direct = true;
    laws_reopen(f);
    assert_string_equal(f->reader->ops->name, "buffered");
    laws_burst(f, 9, true, true);
    for (unsigned i = 0; i < 2 && f->drops; i++) {
        kernel_reset();
        laws_options = every_kind[i];
        laws_reopen(f);
        assert_int_not_equal(strcmp(f->reader->ops->name, "buffered"), 0);
        kernel.refuse_direct = true;
        laws_burst(f, 10 + i, true, true);
        assert_true(laws_stats(f).retries > 0);
        /* What was read through the page cache is given back: by reads that do not meet. Of two
         * that do, one may find the pages of the other, which are then not its own to give. */
        for (unsigned k = 0; k < LAWS_FILES; k++) {
            assert_true(page_cache_drop(f->path[k]));
            assert_int_equal(laws_read(f, k, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
            assert_int_equal(page_cache_count(f->path[k], 0, LAWS_BYTES), 0);
        }
    }
    laws_options = (tt_reader_options){0};
}

/* ---- the mirror ---- */

/* A copy of the files in "mirror" or "other/SUB". */
static void make_mirror(laws *f, const char *sub, char dir[600], char path[LAWS_FILES][700])
{
    snprintf(dir, 600, "%s/%s", f->dir, sub[0] == '\0' ? "mirror" : "other");
    mkdir(dir, 0755);
    char deeper[660];
    snprintf(deeper, sizeof deeper, "%s%s", dir, sub);
    mkdir(deeper, 0755);
    for (unsigned k = 0; k < LAWS_FILES; k++) {
        char name[] = {(char)('a' + k), '\0'};
        snprintf(path[k], 700, "%s/%s", deeper, name);
        FILE *out = fopen(path[k], "w");
        assert_non_null(out);
        assert_int_equal(fwrite(f->want[k], 1, LAWS_BYTES, out), LAWS_BYTES);
        assert_int_equal(fclose(out), 0);
        (void)page_cache_drop(path[k]);
    }
}

static void with_mirror(laws *f, unsigned kind, const char *dir)
{
    laws_options = every_kind[kind];
    laws_options.mirror_dir = dir;
    for (unsigned k = 0; k < LAWS_FILES; k++)
        (void)page_cache_drop(f->path[k]);
    laws_reopen(f);
    says(f, "mirror");
}

static void a_mirror_takes_its_share(void **state)
{
    laws *f = *state;
    char dir[600], path[LAWS_FILES][700], folder[40];
    /* The name of the files' own folder, as when the whole install is copied. */
    snprintf(folder, sizeof folder, "/%.30s", strrchr(f->dir, '/') + 1);
    for (unsigned i = 0; i < KINDS; i++) {
        make_mirror(f, i % 2 == 0 ? "" : folder, dir, path);
        with_mirror(f, i, dir);
        laws_burst(f, i, true, true);
        tt_reader_stats s = laws_stats(f);
        assert_false(s.mirror_lost);
        if (f->drops) {
            /* Whoever is free takes the next piece: how much that is, the machine's other work
             * says. */
            assert_true(s.bytes_mirror > s.bytes_disk / 16);
            assert_true(s.bytes_mirror < s.bytes_disk / 16 * 15);
        }
        /* It is its bytes that come. */
        if (f->drops && i < 2) {
            memset(f->want[2], 0x77, LAWS_BYTES);
            make_mirror(f, i % 2 == 0 ? "" : folder, dir, path);
            unsigned from_mirror = 0;
            for (unsigned k = 0; k < 8; k++) {
                assert_int_equal(laws_read(f, 2, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
                from_mirror += memcmp(f->dst, f->want[2], LAWS_BYTES) == 0;
            }
            assert_int_equal(from_mirror, 4);
            laws_fill(f->want[2], 2);
            make_mirror(f, i % 2 == 0 ? "" : folder, dir, path);
        }
    }
    laws_options = (tt_reader_options){0};
}

static void a_mirror_that_differs_is_refused_by_name(void **state)
{
    laws *f = *state;
    char dir[600], path[LAWS_FILES][700];
    tt_error err = {0};
    tt_reader *r = NULL;
    make_mirror(f, "", dir, path);
    const char *paths[LAWS_FILES] = {f->path[0], f->path[1], f->path[2]};
    tt_reader_options o = {.mirror_dir = dir};
    f->want[1][LAWS_BYTES - 100] ^= 1; /* in the last block, which is always looked at */
    make_mirror(f, "", dir, path);
    f->want[1][LAWS_BYTES - 100] ^= 1;
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_FORMAT);
    assert_string_equal(err.file, path[1]);
    assert_non_null(strstr(err.message, "differs from the original"));
    make_mirror(f, "", dir, path);
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_OK);
    tt_reader_close(&r);
    assert_int_equal(truncate(path[1], LAWS_BYTES - 4096), 0);
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_FORMAT);
    assert_string_equal(err.file, path[1]);
    assert_int_equal(remove(path[1]), 0);
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_NOT_FOUND);
    assert_string_equal(err.file, path[1]);
    assert_int_equal(symlink(f->path[1], path[1]), 0);
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_INVALID);
    /* a pipe is no file, and is not waited for; both places that were looked at are named */
    assert_int_equal(remove(path[1]), 0);
    assert_int_equal(mkfifo(path[1], 0600), 0);
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_NOT_FOUND);
    const char *name = strrchr(f->path[1], '/'), *folder = strrchr(f->dir, '/');
    char deeper[700];
    snprintf(deeper, sizeof deeper, "no file %s%s:", folder + 1, name);
    assert_non_null(strstr(err.message, deeper));
    o.mirror_dir = f->dir;
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "very file"));
    o.mirror_dir = "/nonexistent";
    assert_int_equal(tt_reader_open(paths, LAWS_FILES, &o, &r, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent"));
    assert_null(r);
}

/* Its files end under it, wholly or half way: no request fails, and it is left for good. */
static void a_mirror_torn_away_fails_no_request(void **state)
{
    laws *f = *state;
    static const off_t left[] = {0, 5 * 16384, 5 * 16384 + 700};
    char dir[600], path[LAWS_FILES][700];
    for (unsigned i = 0; i < KINDS && f->drops; i++)
        for (unsigned k = 0; k < 3; k++) {
            make_mirror(f, "", dir, path);
            with_mirror(f, i, dir);
            laws_burst(f, k, true, true);
            for (unsigned n = 0; n < LAWS_FILES; n++)
                assert_int_equal(truncate(path[n], left[k]), 0);
            for (unsigned n = 0; n < 2 * LAWS_FILES; n++) {
                assert_int_equal(laws_read(f, n / 2, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
                assert_memory_equal(f->dst, f->want[n / 2], LAWS_BYTES);
            }
            tt_reader_stats s = laws_stats(f);
            assert_true(s.mirror_lost);
            assert_int_equal(s.failed_reads, 0);
            assert_non_null(strstr(s.note, "truncated"));
            assert_non_null(strstr(s.note, "mirror"));
            laws_burst(f, 20 + k, true, true);
            assert_int_equal(laws_stats(f).bytes_mirror, s.bytes_mirror);
        }
    laws_options = (tt_reader_options){0};
}

/* A disk that is gone answers with EIO. */
static void a_mirror_with_errors_fails_no_request(void **state)
{
    laws *f = *state;
    char dir[600], path[LAWS_FILES][700];
    make_mirror(f, "", dir, path);
    for (unsigned i = 0; i < KINDS && f->drops; i++) {
        with_mirror(f, i, dir);
        kernel_reset();
        kernel.fail_at = 1; /* with equal work the mirror is asked first */
        assert_int_equal(laws_read(f, 0, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
        assert_memory_equal(f->dst, f->want[0], LAWS_BYTES);
        tt_reader_stats s = laws_stats(f);
        assert_true(s.mirror_lost);
        assert_true(s.retries > 0);
        assert_non_null(strstr(s.note, path[0] + strlen(path[0]) - 8));
    }
    laws_options = (tt_reader_options){0};
}

/* Files that the user may not read are named. */
static void unreadable(void **state)
{
    laws *f = *state;
    tt_reader *r = NULL;
    tt_error err = {0};
    const char *paths[] = {f->path[0]};
    if (geteuid() == 0 && seteuid(65534) != 0) {
        print_message("skip: this user reads everything\n");
        return;
    }
    assert_int_equal(tt_reader_open(paths, 1, NULL, &r, &err), TT_ERR_IO);
    assert_string_equal(err.file, f->path[0]);
    assert_non_null(strstr(err.message, "ermission"));
}

static void an_unreadable_directory_is_named(void **state)
{
    laws *f = *state;
    assert_int_equal(chmod(f->dir, 0), 0);
    laws_in_child(unreadable, f);
    assert_int_equal(chmod(f->dir, 0755), 0);
}

/* Nothing but the directory can be written to for the owner; nothing is written at all. */
static void a_read_only_install_is_enough(void **state)
{
    laws *f = *state;
    for (unsigned k = 0; k < LAWS_FILES; k++)
        assert_int_equal(chmod(f->path[k], 0444), 0);
    assert_int_equal(chmod(f->dir, 0555), 0);
    laws_reopen(f);
    laws_burst(f, 30, true, true);
    assert_int_equal(chmod(f->dir, 0755), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        LAWS_TEST(options_are_checked),
        LAWS_TEST(no_files_are_fine),
        LAWS_TEST(each_obstacle_has_its_reader),
        LAWS_TEST(direct_is_refused_by_reads),
        LAWS_TEST(a_mirror_takes_its_share),
        LAWS_TEST(a_mirror_that_differs_is_refused_by_name),
        LAWS_TEST(a_mirror_torn_away_fails_no_request),
        LAWS_TEST(a_mirror_with_errors_fails_no_request),
        LAWS_TEST(an_unreadable_directory_is_named),
        LAWS_TEST(a_read_only_install_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
