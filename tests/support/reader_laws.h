/* reader_laws.h: the laws of io/reader.h, for each kind of reader, on a kernel that interrupts,
 * returns short and fails. Included by one source of a test program; it brings main's table.
 *
 * Owns:      pread, io_uring_submit and io_uring_submit_and_wait of the program, the fixture.
 * Not here:  what only one kind does.
 * Laws:      the kernel's faults follow from their numbers, not from time.
 * Threads:   readers may have some; the counters are atomic.
 */
#ifndef TT_TEST_READER_LAWS_H
#define TT_TEST_READER_LAWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "barred.h"
#include "io/reader.h"
#include "page_cache.h"
#include "tempdir.h"

#define LAWS_BYTES ((uint64_t)(24 * 16384)) /* of a file */
#define LAWS_FILES 3

/* ---- the kernel ---- */

static struct {
    size_t most;        /* bytes that one request returns; 0: no cut */
    unsigned interrupt; /* every n-th call is interrupted; 0: none */
    unsigned fail_at;   /* this request fails; 0: none */
    unsigned ragged;    /* bytes that pread returns less than it read, once in two */
    int ring_errno;     /* io_uring_enter fails with it */
    bool refuse_direct; /* reads around the page cache are EINVAL */
    atomic_uint requests, calls;
} kernel;

static inline void kernel_reset(void)
{
    kernel.most = 0;
    kernel.interrupt = kernel.fail_at = kernel.ragged = 0;
    kernel.ring_errno = 0;
    kernel.refuse_direct = false;
    atomic_store(&kernel.requests, 0);
    atomic_store(&kernel.calls, 0);
}

ssize_t pread(int fd, void *buf, size_t n, off_t offset);
ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    unsigned call = atomic_fetch_add(&kernel.calls, 1) + 1;
    if (kernel.interrupt > 0 && call % kernel.interrupt == 0) {
        errno = EINTR;
        return -1;
    }
    if (kernel.refuse_direct && (fcntl(fd, F_GETFL) & O_DIRECT)) {
        errno = EINVAL;
        return -1;
    }
    unsigned request = atomic_fetch_add(&kernel.requests, 1) + 1;
    if (kernel.fail_at == request) {
        errno = EIO;
        return -1;
    }
    if (kernel.most > 0 && n > kernel.most)
        n = kernel.most;
    ssize_t got = syscall(SYS_pread64, fd, buf, n, offset);
    if (got > (ssize_t)(4096 + kernel.ragged) && request % 2 == 0)
        got -= (ssize_t)kernel.ragged;
    return got;
}

/* Changes what is about to be handed over: shorter reads come back short, a descriptor that is not
 * open fails. */
static inline int spoil(struct io_uring *ring)
{
    unsigned call = atomic_fetch_add(&kernel.calls, 1) + 1;
    if (kernel.ring_errno != 0)
        return -kernel.ring_errno;
    if (kernel.interrupt > 0 && call % kernel.interrupt == 0)
        return call % 2 == 0 ? -EINTR : -EAGAIN;
    unsigned n = io_uring_sq_ready(ring);
    for (unsigned i = 0; i < n; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[(ring->sq.sqe_tail - n + i) & ring->sq.ring_mask];
        if (kernel.most > 0 && sqe->len > kernel.most)
            sqe->len = (unsigned)kernel.most;
        if (kernel.refuse_direct && sqe->fd % 2 == 0) /* the numbers of reader_piece.h */
            sqe->off += 1;
        if (kernel.fail_at == atomic_fetch_add(&kernel.requests, 1) + 1) {
            sqe->flags &= (uint8_t)~IOSQE_FIXED_FILE;
            sqe->fd = -1;
        }
    }
    return 0;
}

int io_uring_submit(struct io_uring *ring)
{
    static int (*next)(struct io_uring *);
    if (next == NULL)
        next = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
    int e = spoil(ring);
    return e != 0 ? e : next(ring);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
    static int (*next)(struct io_uring *, unsigned);
    if (next == NULL)
        next = (int (*)(struct io_uring *, unsigned))dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
    int e = spoil(ring);
    return e != 0 ? e : next(ring, n);
}

/* ---- the fixture ---- */

typedef struct laws {
    char dir[512], path[LAWS_FILES][600];
    unsigned char *want[LAWS_FILES], *dst; /* dst: 4 MiB, a slab */
    tt_reader *reader;
    bool drops; /* the page cache lets go of the files */
} laws;

#define LAWS_DST ((size_t)4 << 20)

/* What the program tests; `plain` is the reader without threads. */
static tt_reader_options laws_options;
static bool laws_plain;

static inline tt_status laws_open_paths(const char *const *paths, uint32_t n, tt_reader **r,
                                        tt_error *err)
{
    if (laws_plain)
        return tt_reader_open_buffered(paths, n, r, err);
    return tt_reader_open(paths, n, &laws_options, r, err);
}

static inline void laws_reopen(laws *f)
{
    const char *paths[LAWS_FILES] = {f->path[0], f->path[1], f->path[2]};
    tt_error err = {0};
    tt_reader_close(&f->reader);
    if (laws_open_paths(paths, LAWS_FILES, &f->reader, &err) != TT_OK)
        fail_msg("%s", err.message);
}

static inline void laws_fill(unsigned char *bytes, unsigned file)
{
    for (size_t i = 0; i < LAWS_BYTES; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16) + file);
}

static inline int laws_set_up(void **state)
{
    laws *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tempdir_make(f->dir);
    f->drops = true;
    for (unsigned k = 0; k < LAWS_FILES; k++) {
        char name[] = {(char)('a' + k), '\0'};
        f->want[k] = malloc(LAWS_BYTES);
        assert_non_null(f->want[k]);
        laws_fill(f->want[k], k);
        tempdir_file(f->dir, name, f->want[k], LAWS_BYTES, f->path[k]);
        f->drops &= page_cache_drop(f->path[k]);
    }
    f->dst = aligned_alloc(TT_IO_ALIGN, LAWS_DST);
    assert_non_null(f->dst);
    memset(f->dst, 0xEE, LAWS_DST);
    kernel_reset();
    laws_reopen(f);
    kernel_reset();
    *state = f;
    return 0;
}

static inline int laws_tear_down(void **state)
{
    laws *f = *state;
    kernel_reset();
    tt_reader_close(&f->reader);
    assert_null(f->reader);
    tt_reader_close(&f->reader);
    tt_reader_close(NULL);
    tempdir_remove(f->dir);
    for (unsigned k = 0; k < LAWS_FILES; k++)
        free(f->want[k]);
    free(f->dst);
    free(f);
    return 0;
}

static inline tt_status laws_read(laws *f, uint32_t file, uint64_t offset, uint64_t n, void *dst,
                                  tt_error *err)
{
    tt_read rd = {.file = file, .offset = offset, .bytes = n, .dst = dst};
    TT_TRY(f->reader->ops->start(f->reader, &rd, err));
    return f->reader->ops->wait(f->reader, &rd, err);
}

static inline tt_reader_stats laws_stats(const laws *f)
{
    tt_reader_stats s;
    tt_reader_get_stats(f->reader, &s);
    return s;
}

static inline uint64_t laws_draw(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return *x >> 33;
}

static inline int laws_child_main(void *ctx)
{
    const struct CMUnitTest *test = ctx;
    return cmocka_run_group_tests_name("child", (const struct CMUnitTest[]){*test}, NULL, NULL);
}

/* A test in a process of its own, for what cannot be undone. It opens its reader itself. */
static inline void laws_in_child(CMUnitTestFunction fn, laws *f)
{
    tt_reader_close(&f->reader); /* a child has none of its parent's threads */
    struct CMUnitTest test = {.name = "child", .test_func = fn, .initial_state = f};
    int rc = barred_child(laws_child_main, &test);
    assert_int_equal(rc, 0);
}

/* ---- the laws ---- */

static inline void laws_exact_ranges(void **state)
{
    laws *f = *state;
    for (uint32_t file = 0; file < LAWS_FILES; file++) {
        assert_string_equal(f->reader->ops->path(f->reader, file), f->path[file]);
        for (uint64_t at = 0; at < LAWS_BYTES; at += 5 * TT_IO_ALIGN) {
            uint64_t n = (LAWS_BYTES - at) / TT_IO_ALIGN / (file + 1) * TT_IO_ALIGN;
            n = n > 0 ? n : TT_IO_ALIGN;
            memset(f->dst, 0xEE, LAWS_BYTES + TT_IO_ALIGN);
            assert_int_equal(laws_read(f, file, at, n, f->dst + TT_IO_ALIGN, NULL), TT_OK);
            assert_memory_equal(f->dst + TT_IO_ALIGN, f->want[file] + at, n);
            assert_int_equal(f->dst[TT_IO_ALIGN - 1], 0xEE);
            assert_int_equal(f->dst[TT_IO_ALIGN + n], 0xEE);
        }
    }
    assert_string_equal(f->reader->ops->path(f->reader, LAWS_FILES), "");
}

#define LAWS_MANY 64

/* Starts many reads of all sizes, waits in another order, and looks at every byte. */
static inline void laws_burst(laws *f, uint64_t seed, bool flush, bool polled)
{
    tt_read rd[LAWS_MANY];
    uint64_t x = seed;
    const uint64_t room = LAWS_DST / LAWS_MANY;
    memset(f->dst, 0xEE, LAWS_DST);
    for (unsigned i = 0; i < LAWS_MANY; i++) {
        uint64_t n = (1 + laws_draw(&x) % (room / TT_IO_ALIGN - 1)) * TT_IO_ALIGN;
        uint64_t at = laws_draw(&x) % ((LAWS_BYTES - n) / TT_IO_ALIGN + 1) * TT_IO_ALIGN;
        rd[i] = (tt_read){.file = (uint32_t)(laws_draw(&x) % LAWS_FILES),
                          .offset = at,
                          .bytes = n,
                          .dst = f->dst + i * room};
        assert_int_equal(f->reader->ops->start(f->reader, &rd[i], NULL), TT_OK);
        if (flush && i % 7 == 0)
            tt_reader_flush(f->reader);
    }
    if (flush)
        tt_reader_flush(f->reader);
    for (unsigned i = 0; polled && i < LAWS_MANY; i++)
        while (!tt_read_done(&rd[i])) {
            tt_reader_poll(f->reader);
            sched_yield();
        }
    for (unsigned i = 0; i < LAWS_MANY; i++) {
        tt_read *r = &rd[(i * 37 + seed) % LAWS_MANY];
        assert_int_equal(f->reader->ops->wait(f->reader, r, NULL), TT_OK);
        assert_true(tt_read_done(r));
        assert_memory_equal(r->dst, f->want[r->file] + r->offset, r->bytes);
        assert_int_equal(((unsigned char *)r->dst)[r->bytes], 0xEE);
    }
}

static inline void laws_many_in_any_order(void **state)
{
    laws *f = *state;
    uint64_t reads = 0;
    for (unsigned i = 0; i < 8; i++) {
        laws_burst(f, i, i & 1, false);
        reads += LAWS_MANY;
        assert_int_equal(laws_stats(f).reads, reads);
        assert_int_equal(laws_stats(f).failed_reads, 0);
    }
}

static inline void laws_poll_completes(void **state)
{
    laws *f = *state;
    for (unsigned i = 0; i < 4 && !laws_plain; i++)
        laws_burst(f, i, i & 1, true);
    /* With nothing on its way both are fine. */
    tt_reader_poll(f->reader);
    tt_reader_flush(f->reader);
}

static inline void laws_slabs(void **state)
{
    laws *f = *state;
    tt_error err = {0};
    char *half = (char *)f->dst + LAWS_DST / 2;
    assert_int_equal(tt_reader_register_memory(f->reader, f->dst, LAWS_DST / 2, &err), TT_OK);
    assert_int_equal(tt_reader_register_memory(f->reader, half, LAWS_DST / 2, &err), TT_OK);
    laws_burst(f, 100, true, false);
    tt_reader_forget_memory(f->reader, f->dst);
    laws_burst(f, 101, true, false);
    assert_int_equal(tt_reader_register_memory(f->reader, f->dst, LAWS_DST / 2, &err), TT_OK);
    laws_burst(f, 102, true, false);
    tt_reader_forget_memory(f->reader, half);
    tt_reader_forget_memory(f->reader, f->dst);
    tt_reader_forget_memory(f->reader, f->dst + 1);
    laws_burst(f, 103, true, false);
    assert_int_equal(tt_reader_register_memory(f->reader, f->dst + 1, 4096, &err), TT_ERR_INVALID);
    assert_int_equal(tt_reader_register_memory(f->reader, f->dst, 4095, &err), TT_ERR_INVALID);
    assert_int_equal(tt_reader_register_memory(f->reader, NULL, 4096, &err), TT_ERR_INVALID);
    assert_int_equal(
        tt_reader_register_memory(f->reader, f->dst, TT_IO_MAX_SLAB + TT_IO_ALIGN, &err),
        TT_ERR_INVALID);
}

static inline void laws_interruptions_and_short_reads(void **state)
{
    laws *f = *state;
    static const size_t most[] = {0, 4096, 12288};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned interrupt = 0; interrupt <= 3; interrupt += interrupt == 0 ? 2 : 1) {
            for (unsigned k = 0; k < LAWS_FILES; k++)
                (void)page_cache_drop(f->path[k]);
            tt_reader_stats before = laws_stats(f);
            kernel_reset();
            kernel.most = most[i];
            kernel.interrupt = interrupt;
            kernel.ragged = i == 2 ? 100 : 0;
            laws_burst(f, i * 4 + interrupt, true, false);
            tt_reader_stats after = laws_stats(f);
            if (f->drops && most[i] > 0)
                assert_true(after.short_reads > before.short_reads);
        }
}

static inline void laws_first_error_wins_and_stays(void **state)
{
    laws *f = *state;
    for (unsigned at = 1; f->drops && at <= 6; at++) {
        tt_error err = {0};
        tt_read rd = {.file = 0, .bytes = LAWS_BYTES, .dst = f->dst};
        tt_read next = {.file = 1, .bytes = LAWS_BYTES, .dst = f->dst + LAWS_BYTES};
        kernel_reset();
        kernel.most = 4096;
        kernel.fail_at = at;
        assert_int_equal(f->reader->ops->start(f->reader, &rd, &err), TT_OK);
        tt_reader_flush(f->reader);
        assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_ERR_IO);
        assert_string_equal(err.file, f->path[0]);
        assert_in_range(err.offset, 0, LAWS_BYTES - 1);
        kernel_reset();
        /* Complete once: asked again it says the same, and nothing comes late. */
        memset(f->dst, 0xEE, LAWS_BYTES);
        assert_int_equal(f->reader->ops->start(f->reader, &next, NULL), TT_OK);
        assert_int_equal(f->reader->ops->wait(f->reader, &next, NULL), TT_OK);
        assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_ERR_IO);
        for (size_t i = 0; i < LAWS_BYTES; i++)
            assert_int_equal(f->dst[i], 0xEE);
        assert_memory_equal(f->dst + LAWS_BYTES, f->want[1], LAWS_BYTES);
        assert_int_equal(laws_read(f, 0, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
        assert_memory_equal(f->dst, f->want[0], LAWS_BYTES);
        assert_int_equal(laws_stats(f).failed_reads, at);
    }
    if (!f->drops)
        print_message("skip: the file system keeps pages, no request reaches the kernel\n");
}

/* One of many fails; the others do not notice, whatever the order. */
static inline void laws_failures_stay_alone(void **state)
{
    laws *f = *state;
    for (unsigned at = 1; f->drops && at <= 12; at += 3) {
        tt_read rd[6];
        unsigned failed = 0;
        for (unsigned k = 0; k < LAWS_FILES; k++)
            (void)page_cache_drop(f->path[k]);
        kernel_reset();
        kernel.fail_at = at;
        for (unsigned i = 0; i < 6; i++) {
            rd[i] = (tt_read){
                .file = i % LAWS_FILES, .bytes = LAWS_BYTES, .dst = f->dst + i * LAWS_BYTES};
            assert_int_equal(f->reader->ops->start(f->reader, &rd[i], NULL), TT_OK);
        }
        for (unsigned i = 6; i-- > 0;) {
            tt_status st = f->reader->ops->wait(f->reader, &rd[i], NULL);
            failed += st != TT_OK;
            assert_true(st == TT_OK || st == TT_ERR_IO);
            if (st == TT_OK)
                assert_memory_equal(rd[i].dst, f->want[i % LAWS_FILES], LAWS_BYTES);
        }
        assert_true(failed <= 1);
        if (kernel.requests >= at)
            assert_int_equal(failed, 1);
    }
}

static inline void laws_truncated_files_are_named(void **state)
{
    laws *f = *state;
    static const uint64_t sizes[] = {10 * 16384, 10 * 16384 + 4096, 10 * 16384 + 1234, 0};
    for (unsigned i = 0; i < 4; i++) {
        tt_error err = {0};
        assert_int_equal(truncate(f->path[1], (off_t)sizes[i]), 0);
        assert_int_equal(laws_read(f, 1, 0, LAWS_BYTES, f->dst, &err), TT_ERR_FORMAT);
        assert_string_equal(err.file, f->path[1]);
        assert_non_null(strstr(err.message, "truncated"));
        assert_in_range(err.offset, sizes[i], LAWS_BYTES - 1);
        /* Wholly behind the end. */
        assert_int_equal(laws_read(f, 1, 20 * 16384, 16384, f->dst, &err), TT_ERR_FORMAT);
        assert_int_equal(err.offset, 20 * 16384);
        assert_int_equal(laws_read(f, 2, 0, LAWS_BYTES, f->dst, &err), TT_OK);
        assert_memory_equal(f->dst, f->want[2], LAWS_BYTES);
        if (sizes[i] > 0) {
            assert_int_equal(laws_read(f, 1, 0, 10 * 16384, f->dst, &err), TT_OK);
            assert_memory_equal(f->dst, f->want[1], 10 * 16384);
        }
    }
}

static inline void laws_page_cache(void **state)
{
    laws *f = *state;
    if (!f->drops || getenv("EMULATED") != NULL) {
        print_message("skip: the file system does not let go of pages, or an emulator has no "
                      "preadv2 to take them with\n");
        return;
    }
    /* Cold: the disk has it all, and the page cache nothing afterwards. */
    tt_reader_stats a = laws_stats(f);
    assert_int_equal(laws_read(f, 0, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
    tt_reader_stats b = laws_stats(f);
    assert_int_equal(b.bytes_disk - a.bytes_disk, LAWS_BYTES);
    assert_int_equal(b.bytes_cached - a.bytes_cached, 0);
    assert_int_equal(page_cache_count(f->path[0], 0, LAWS_BYTES), 0);
    /* Warm: the disk is not asked, and the pages stay. */
    page_cache_load(f->path[0], 0, LAWS_BYTES);
    assert_int_equal(laws_read(f, 0, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
    assert_memory_equal(f->dst, f->want[0], LAWS_BYTES);
    a = laws_stats(f);
    assert_int_equal(a.bytes_disk, b.bytes_disk);
    assert_int_equal(a.bytes_cached - b.bytes_cached, LAWS_BYTES);
    assert_int_equal(a.pieces, b.pieces);
    assert_int_equal(page_cache_count(f->path[0], 0, LAWS_BYTES), LAWS_BYTES);
    /* Half: the middle third is there. */
    page_cache_load(f->path[1], LAWS_BYTES / 3, LAWS_BYTES / 3);
    memset(f->dst, 0xEE, LAWS_BYTES);
    assert_int_equal(laws_read(f, 1, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
    assert_memory_equal(f->dst, f->want[1], LAWS_BYTES);
    b = laws_stats(f);
    assert_int_equal(b.bytes_cached - a.bytes_cached + b.bytes_disk - a.bytes_disk, LAWS_BYTES);
    assert_true(page_cache_count(f->path[1], 0, LAWS_BYTES) <= LAWS_BYTES / 3);
    /* Warm and cold by turns, many at once. */
    for (unsigned i = 0; i < 4; i++) {
        (void)page_cache_drop(f->path[i % LAWS_FILES]);
        page_cache_load(f->path[i % LAWS_FILES], i * 16384, LAWS_BYTES / 2);
        laws_burst(f, 50 + i, i & 1, i & 2 && !laws_plain);
    }
}

/* The same where the kernel has no cachestat: by mincore. */
static inline void laws_without_cachestat(void **state)
{
    laws *f = *state;
    if (!barred_call(451, ENOSYS, 0, 0)) {
        print_message("skip: no seccomp filters here\n");
        return;
    }
    laws_reopen(f);
    assert_non_null(strstr(f->reader->describe, "mincore"));
    laws_page_cache(state);
}

static inline void laws_page_cache_by_mincore(void **state)
{
    laws_in_child(laws_without_cachestat, *state);
}

static inline void laws_wrong_use(void **state)
{
    laws *f = *state;
    tt_error err = {0};
    tt_read rd = {.bytes = TT_IO_ALIGN, .dst = f->dst};
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_ERR_STATE);
    assert_int_equal(f->reader->ops->start(f->reader, &rd, &err), TT_OK);
    assert_int_equal(f->reader->ops->start(f->reader, &rd, &err), TT_ERR_STATE);
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_OK);
    /* One that is done may be started again. */
    assert_int_equal(f->reader->ops->start(f->reader, &rd, &err), TT_OK);
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, &err), TT_OK);
    assert_int_equal(laws_read(f, LAWS_FILES, 0, 4096, f->dst, &err), TT_ERR_INVALID);
    assert_int_equal(laws_read(f, 0, 0, 0, f->dst, &err), TT_ERR_INVALID);
    assert_int_equal(laws_read(f, 0, 0, 4097, f->dst, &err), TT_ERR_INVALID);
    assert_int_equal(laws_read(f, 0, 512, 4096, f->dst, &err), TT_ERR_INVALID);
    assert_int_equal(laws_read(f, 0, 0, 4096, f->dst + 512, &err), TT_ERR_INVALID);
    assert_int_equal(laws_read(f, 0, UINT64_MAX - 4095, 4096, f->dst, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "4096"));
}

/* Whoever closes with reads on their way loses them, and his memory is his again. */
static inline void laws_close_waits(void **state)
{
    laws *f = *state;
    for (unsigned i = 0; i < 8; i++) {
        tt_read rd[8];
        for (unsigned k = 0; k < 8; k++) {
            rd[k] = (tt_read){
                .file = k % LAWS_FILES, .bytes = LAWS_BYTES, .dst = f->dst + k * LAWS_BYTES};
            assert_int_equal(f->reader->ops->start(f->reader, &rd[k], NULL), TT_OK);
        }
        if (i % 2 == 0)
            tt_reader_flush(f->reader);
        if (i % 4 == 0)
            assert_int_equal(f->reader->ops->wait(f->reader, &rd[i % 8], NULL), TT_OK);
        laws_reopen(f);
        memset(f->dst, 0xEE, LAWS_DST);
        assert_int_equal(laws_read(f, 0, 0, 16384, f->dst, NULL), TT_OK);
        for (size_t k = 16384; k < LAWS_DST; k += 512)
            assert_int_equal(f->dst[k], 0xEE);
    }
}

static inline void laws_bad_paths(void **state)
{
    laws *f = *state;
    tt_reader *r = NULL;
    tt_error err = {0};
    char other[700];
    snprintf(other, sizeof other, "%s/missing", f->dir);
    const char *paths[] = {f->path[0], other};
    assert_int_equal(laws_open_paths(paths, 2, &r, &err), TT_ERR_NOT_FOUND);
    assert_string_equal(err.file, other);
    paths[1] = f->dir;
    assert_int_equal(laws_open_paths(paths, 2, &r, &err), TT_ERR_IO);
    snprintf(other, sizeof other, "%s/below", f->path[0]);
    paths[1] = other;
    assert_int_equal(laws_open_paths(paths, 2, &r, &err), TT_ERR_IO);
    assert_string_equal(err.file, other);
    assert_null(r);
}

#define LAWS_TEST(fn) cmocka_unit_test_setup_teardown(fn, laws_set_up, laws_tear_down)
#define LAWS_TABLE                                                                                 \
    LAWS_TEST(laws_exact_ranges), LAWS_TEST(laws_many_in_any_order),                               \
        LAWS_TEST(laws_poll_completes), LAWS_TEST(laws_slabs),                                     \
        LAWS_TEST(laws_interruptions_and_short_reads), LAWS_TEST(laws_first_error_wins_and_stays), \
        LAWS_TEST(laws_failures_stay_alone), LAWS_TEST(laws_truncated_files_are_named),            \
        LAWS_TEST(laws_page_cache), LAWS_TEST(laws_page_cache_by_mincore),                         \
        LAWS_TEST(laws_wrong_use), LAWS_TEST(laws_close_waits), LAWS_TEST(laws_bad_paths)

#endif
