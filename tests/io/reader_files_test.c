/* Proves what readers know of their files: sizes, the page cache before anything is read, the
 * choice between a file and its mirror, the name of the file system. */
#include "../support/reader_laws.h"

#include <sys/stat.h>

#include "io/reader_files.h"

static tt_reader_files *open_files(const laws *f, const char *mirror)
{
    const char *paths[LAWS_FILES] = {f->path[0], f->path[1], f->path[2]};
    tt_reader_options o = {.mirror_dir = mirror};
    tt_reader_files *files = NULL;
    tt_error err = {0};
    if (tt_reader_files_open(paths, LAWS_FILES, &o, &files, &err) != TT_OK)
        fail_msg("%s", err.message);
    return files;
}

/* Against mincore, over whole files and parts; asking changes nothing. */
static void cached_is_what_is_there(void **state)
{
    laws *f = *state;
    tt_reader_files *files = open_files(f, NULL);
    if (files->residency == TT_RESIDENCY_NONE || !f->drops) {
        print_message("skip: the page cache cannot be asked here\n");
        tt_reader_files_close(&files);
        return;
    }
    (void)page_cache_drop(f->path[0]);
    for (unsigned i = 0; i < 50; i++)
        assert_false(tt_reader_files_cached(files, 0, i % 24 * 16384, 16384));
    assert_int_equal(page_cache_count(f->path[0], 0, LAWS_BYTES), 0);
    page_cache_load(f->path[0], 4 * 16384, 3 * 16384);
    assert_true(tt_reader_files_cached(files, 0, 4 * 16384, 3 * 16384));
    assert_true(tt_reader_files_cached(files, 0, 5 * 16384, 4096));
    assert_false(tt_reader_files_cached(files, 0, 4 * 16384 - 4096, 8192));
    assert_false(tt_reader_files_cached(files, 0, 6 * 16384, 2 * 16384));
    assert_false(tt_reader_files_cached(files, 0, 0, LAWS_BYTES));
    page_cache_load(f->path[0], 0, LAWS_BYTES);
    assert_true(tt_reader_files_cached(files, 0, 0, LAWS_BYTES));
    /* Behind the end there is nothing. */
    assert_false(tt_reader_files_cached(files, 0, LAWS_BYTES - 4096, 8192));
    assert_false(tt_reader_files_cached(files, 0, LAWS_BYTES + 4096, 4096));
    tt_reader_files_close(&files);
}

static void without_cachestat(void **state)
{
    if (barred_call(451, ENOSYS, 0, 0))
        cached_is_what_is_there(state);
}

static void cached_without_cachestat(void **state)
{
    laws_in_child(without_cachestat, *state);
}

/* Law 8 of reader.h stands on this: leaving the page cache alone means not asking it. */
static void skipping_the_page_cache_is_total(void **state)
{
    laws *f = *state;
    const char *paths[] = {f->path[0]};
    tt_reader_options o = {.skip_page_cache = true};
    tt_reader_files *files = NULL;
    assert_int_equal(tt_reader_files_open(paths, 1, &o, &files, NULL), TT_OK);
    page_cache_load(f->path[0], 0, LAWS_BYTES);
    assert_false(tt_reader_files_cached(files, 0, 0, LAWS_BYTES));
    tt_reader_files_close(&files);
}

static void less_to_do_is_chosen(void **state)
{
    laws *f = *state;
    tt_reader_stats s = {0};
    char dir[600];
    snprintf(dir, sizeof dir, "%s/m", f->dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    for (unsigned k = 0; k < LAWS_FILES; k++) {
        char path[600], name[] = {'m', '/', (char)('a' + k), '\0'};
        tempdir_file(f->dir, name, f->want[k], LAWS_BYTES, path);
    }
    tt_reader_files *files = open_files(f, dir);
    tt_read rd[8] = {{0}};
    for (unsigned i = 0; i < 8; i++) {
        rd[i] = (tt_read){.bytes = 4096 * (i + 1)};
        tt_reader_files_choose(files, &rd[i]);
        tt_reader_files_choose(files, &rd[i]); /* once chosen it stays */
        assert_in_range(rd[i].copy, 1, 2);
        uint64_t a = files->busy[0], b = files->busy[1];
        assert_true((a > b ? a - b : b - a) <= rd[i].bytes);
    }
    for (unsigned i = 0; i < 8; i++)
        tt_reader_files_finish(files, &rd[i], &s);
    assert_int_equal(files->busy[0], 0);
    assert_int_equal(files->busy[1], 0);
    assert_int_equal(s.reads, 8);
    tt_reader_files_lose_mirror(files, 1, EIO, 4096);
    tt_reader_files_lose_mirror(files, 2, ENOENT, 0); /* the first reason counts */
    tt_read after = {.bytes = 4096};
    tt_reader_files_choose(files, &after);
    assert_int_equal(after.copy, 1);
    tt_reader_stats out;
    tt_reader_files_stats(files, &s, &out);
    assert_true(out.mirror_lost);
    assert_non_null(strstr(out.note, "m/b"));
    assert_non_null(strstr(out.note, "4096"));
    tt_reader_files_close(&files);
    tt_reader_files_close(&files);
    tt_reader_files_close(NULL);
}

static void file_systems_have_names(void **state)
{
    (void)state;
    char name[32];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    tt_file_system_name(fd, name);
    assert_string_equal(name, "file system 9fa0");
    close(fd);
    tt_file_system_name(-1, name);
    assert_string_equal(name, "file system 0");
    fd = open("/dev/shm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    tt_file_system_name(fd, name);
    assert_string_equal(name, "tmpfs");
    close(fd);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        LAWS_TEST(cached_is_what_is_there),          LAWS_TEST(cached_without_cachestat),
        LAWS_TEST(skipping_the_page_cache_is_total), LAWS_TEST(less_to_do_is_chosen),
        LAWS_TEST(file_systems_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
