/* Proves the laws of io/reader.h on the buffered reader, with a kernel that interrupts, returns
 * short and fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/faulty_reader.h"
#include "../support/tempdir.h"
#include "base/limits.h"

#define BYTES (5 * TT_PAGE_ALIGN)

/* This pread stands in front of the C library's for everything linked into this program. */
static struct {
    size_t most;        /* bytes one call returns; 0: no cut */
    unsigned interrupt; /* every n-th call is interrupted; 0: none */
    unsigned fail_at;   /* this call fails with EIO; 0: none */
    unsigned calls;
} kernel;

ssize_t pread(int fd, void *buf, size_t n, off_t offset);
ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    kernel.calls++;
    if (kernel.interrupt > 0 && kernel.calls % kernel.interrupt == 0) {
        errno = EINTR;
        return -1;
    }
    if (kernel.fail_at > 0 && kernel.calls == kernel.fail_at) {
        errno = EIO;
        return -1;
    }
    if (kernel.most > 0 && n > kernel.most)
        n = kernel.most;
    return syscall(SYS_pread64, fd, buf, n, offset);
}

typedef struct fixture {
    char dir[512], path[2][600];
    unsigned char want[2][BYTES];
    unsigned char *dst; /* two pages more than BYTES */
    tt_reader *reader;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tempdir_make(f->dir);
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; i < BYTES; i++)
            f->want[k][i] = (unsigned char)(i * 31 + (i >> 8) * 7 + k);
        tempdir_file(f->dir, k == 0 ? "a" : "b", f->want[k], BYTES, f->path[k]);
    }
    f->dst = aligned_alloc(TT_PAGE_ALIGN, BYTES + TT_PAGE_ALIGN);
    assert_non_null(f->dst);
    memset(f->dst, 0xEE, BYTES + TT_PAGE_ALIGN);
    memset(&kernel, 0, sizeof kernel);
    const char *paths[] = {f->path[0], f->path[1]};
    assert_int_equal(tt_reader_open_buffered(paths, 2, &f->reader, NULL), TT_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    memset(&kernel, 0, sizeof kernel);
    tt_reader_close(&f->reader);
    assert_null(f->reader);
    tt_reader_close(&f->reader);
    tt_reader_close(NULL);
    tempdir_remove(f->dir);
    free(f->dst);
    free(f);
    return 0;
}

static tt_status read_at(tt_reader *r, uint32_t file, uint64_t offset, uint64_t n, void *dst,
                         tt_error *err)
{
    tt_read rd = {.file = file, .offset = offset, .bytes = n, .dst = dst};
    TT_TRY(r->ops->start(r, &rd, err));
    return r->ops->wait(r, &rd, err);
}

static void reads_exact_ranges(void **state)
{
    fixture *f = *state;
    assert_string_equal(f->reader->ops->name, "buffered");
    for (uint32_t file = 0; file < 2; file++) {
        assert_string_equal(f->reader->ops->path(f->reader, file), f->path[file]);
        for (uint64_t page = 0; page < 4; page++) {
            uint64_t n = TT_PAGE_ALIGN * (4 - page) / 2 + 1;
            memset(f->dst, 0xEE, BYTES);
            assert_int_equal(read_at(f->reader, file, page * TT_PAGE_ALIGN, n, f->dst, NULL),
                             TT_OK);
            assert_memory_equal(f->dst, f->want[file] + page * TT_PAGE_ALIGN, n);
            assert_int_equal(f->dst[n], 0xEE);
        }
    }
    assert_string_equal(f->reader->ops->path(f->reader, 2), "");
}

static void interruptions_and_short_reads_never_surface(void **state)
{
    fixture *f = *state;
    static const size_t most[] = {0, 1000, 4096, 7777};
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned interrupt = 0; interrupt <= 3; interrupt += interrupt == 0 ? 2 : 1) {
            memset(f->dst, 0xEE, BYTES);
            memset(&kernel, 0, sizeof kernel);
            kernel.most = most[i];
            kernel.interrupt = interrupt;
            assert_int_equal(read_at(f->reader, 1, 0, BYTES, f->dst, NULL), TT_OK);
            assert_memory_equal(f->dst, f->want[1], BYTES);
            if (most[i] > 0)
                assert_true(kernel.calls >= BYTES / most[i]);
        }
    }
}

static void first_error_wins_and_stays(void **state)
{
    fixture *f = *state;
    for (unsigned at = 1; at <= 5; at++) {
        tt_error err = {0};
        tt_read rd = {.file = 0, .offset = 0, .bytes = BYTES, .dst = f->dst};
        memset(&kernel, 0, sizeof kernel);
        kernel.most = TT_PAGE_ALIGN;
        kernel.fail_at = at;
        assert_int_equal(f->reader->ops->start(f->reader, &rd, &err), TT_OK);
        assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_ERR_IO);
        assert_string_equal(err.file, f->path[0]);
        assert_int_equal(kernel.calls, at);
        /* Complete once: asked again, it says the same and reads nothing. */
        memset(f->dst, 0xEE, BYTES);
        assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_ERR_IO);
        assert_int_equal(kernel.calls, at);
        assert_int_equal(f->dst[0], 0xEE);
        assert_int_equal(read_at(f->reader, 0, 0, BYTES, f->dst, NULL), TT_OK);
        assert_memory_equal(f->dst, f->want[0], BYTES);
    }
}

static void destination_is_left_alone_after_completion(void **state)
{
    fixture *f = *state;
    tt_read rd = {.file = 0, .offset = 0, .bytes = TT_PAGE_ALIGN, .dst = f->dst};
    assert_int_equal(f->reader->ops->start(f->reader, &rd, NULL), TT_OK);
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, NULL), TT_OK);
    f->dst[5] ^= 0xFF;
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, NULL), TT_OK);
    assert_int_equal(f->dst[5], f->want[0][5] ^ 0xFF);
}

static void truncated_files_are_named(void **state)
{
    fixture *f = *state;
    tt_error err = {0};
    assert_int_equal(read_at(f->reader, 1, 4 * TT_PAGE_ALIGN, 2 * TT_PAGE_ALIGN, f->dst, &err),
                     TT_ERR_FORMAT);
    assert_string_equal(err.file, f->path[1]);
    assert_int_equal(err.offset, BYTES);
    assert_non_null(strstr(err.message, "truncated"));
}

static void wrong_use_is_refused(void **state)
{
    fixture *f = *state;
    tt_error err = {0};
    tt_read rd = {.bytes = 1, .dst = f->dst};
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_ERR_STATE);
    assert_int_equal(read_at(f->reader, 2, 0, 1, f->dst, &err), TT_ERR_INVALID);
    assert_int_equal(read_at(f->reader, 0, 0, 1, f->dst + 4096, &err), TT_ERR_INVALID);

    tt_reader *r = NULL;
    char missing[600];
    snprintf(missing, sizeof missing, "%s/missing", f->dir);
    const char *paths[] = {f->path[0], missing};
    assert_int_equal(tt_reader_open_buffered(paths, 2, &r, &err), TT_ERR_NOT_FOUND);
    assert_string_equal(err.file, missing);
    assert_null(r);
    paths[1] = f->dir;
    assert_int_equal(tt_reader_open_buffered(paths, 2, &r, &err), TT_ERR_IO);
    assert_null(r);
}

/* The tool that other tests lean on keeps the same laws. */
static void faulty_reader_keeps_the_laws(void **state)
{
    fixture *f = *state;
    for (unsigned mode = 0; mode < 16; mode++) {
        faulty_options o;
        faulty_options_default(&o);
        o.seed = mode;
        o.eager = mode & 1;
        o.reorder = mode & 2;
        o.threaded = mode & 4;
        o.piece = mode & 8 ? TT_PAGE_ALIGN : 0;
        o.fail_start = 1;
        o.fail_read = 3;
        o.shorten = 4;
        tt_reader *inner = NULL, *r = NULL;
        const char *paths[] = {f->path[0], f->path[1]};
        assert_int_equal(tt_reader_open_buffered(paths, 2, &inner, NULL), TT_OK);
        assert_int_equal(faulty_reader_open(&inner, &o, &r, NULL), TT_OK);
        assert_null(inner);
        tt_read rd[6];
        unsigned char *dst[6];
        for (unsigned i = 0; i < 6; i++) {
            dst[i] = aligned_alloc(TT_PAGE_ALIGN, BYTES);
            assert_non_null(dst[i]);
            rd[i] = (tt_read){.file = i % 2, .bytes = BYTES, .dst = dst[i]};
            assert_int_equal(r->ops->start(r, &rd[i], NULL), i == 1 ? TT_ERR_IO : TT_OK);
        }
        for (unsigned i = 6; i-- > 0;) {
            if (i == 1)
                continue;
            tt_status want = i == 3 ? TT_ERR_IO : i == 4 ? TT_ERR_FORMAT : TT_OK;
            assert_int_equal(r->ops->wait(r, &rd[i], NULL), want);
            assert_int_equal(r->ops->wait(r, &rd[i], NULL), want);
            if (want == TT_OK)
                assert_memory_equal(dst[i], f->want[i % 2], BYTES);
        }
        assert_int_equal(faulty_reader_pending(r), 0);
        assert_int_equal(faulty_reader_started(r), 6);
        tt_reader_close(&r);
        for (unsigned i = 0; i < 6; i++)
            free(dst[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_exact_ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interruptions_and_short_reads_never_surface, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(first_error_wins_and_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(destination_is_left_alone_after_completion, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(truncated_files_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_use_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faulty_reader_keeps_the_laws, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
