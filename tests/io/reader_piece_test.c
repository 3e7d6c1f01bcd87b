/* Proves what becomes of a piece after each answer of the kernel: how far it moves, where it goes
 * on, when it is given up. */
#include "../support/reader_laws.h"

#include <sys/stat.h>

#include "io/reader_piece.h"

typedef struct bench {
    tt_reader_files *files;
    tt_read rd;
    tt_reader_stats s;
} bench;

static bench lay_out(laws *f, bool mirror)
{
    const char *paths[LAWS_FILES] = {f->path[0], f->path[1], f->path[2]};
    char dir[600];
    snprintf(dir, sizeof dir, "%s/m", f->dir);
    mkdir(dir, 0755);
    for (unsigned k = 0; k < LAWS_FILES; k++) {
        char path[600], name[] = {'m', '/', (char)('a' + k), '\0'};
        tempdir_file(f->dir, name, f->want[k], LAWS_BYTES, path);
    }
    tt_reader_options o = {.mirror_dir = mirror ? dir : NULL};
    bench b = {.rd = {.file = 1, .offset = 16384, .bytes = 65536 + 4096, .dst = f->dst}};
    assert_int_equal(tt_reader_files_open(paths, LAWS_FILES, &o, &b.files, NULL), TT_OK);
    return b;
}

static void pieces_cover_a_read(void **state)
{
    bench b = lay_out(*state, false);
    uint64_t at = 0;
    for (unsigned i = 0; i < 5; i++) {
        tt_piece p = tt_piece_next(b.files, &b.rd, true, 16384);
        assert_ptr_equal(p.rd, &b.rd);
        assert_int_equal(p.begin, at);
        assert_int_equal(p.at, at);
        assert_int_equal(p.end, i < 4 ? at + 16384 : b.rd.bytes);
        assert_int_equal(tt_piece_offset(&p), 16384 + at);
        assert_ptr_equal(tt_piece_dst(&p), (char *)b.rd.dst + at);
        assert_int_equal(p.buffered, !b.files->direct);
        assert_true(tt_piece_next(b.files, &b.rd, false, 16384).buffered);
        b.rd.issued = at = p.end;
    }
    assert_int_equal(at, b.rd.bytes);
    tt_reader_files_close(&b.files);
}

static void slots_and_descriptors_agree(void **state)
{
    bench b = lay_out(*state, true);
    bool seen[4 * LAWS_FILES] = {false};
    for (uint32_t file = 0; file < LAWS_FILES; file++)
        for (unsigned way = 0; way < 4; way++) {
            tt_read rd = {.file = file};
            tt_piece p = {.rd = &rd, .copy = way / 2, .buffered = way % 2};
            uint32_t slot = tt_piece_slot(file, p.copy, p.buffered);
            assert_true(slot < 4 * LAWS_FILES && !seen[slot]);
            seen[slot] = true;
            const tt_file_copy *c = &b.files->file[file].copy[p.copy];
            assert_int_equal(tt_piece_fd(b.files, &p), p.buffered ? c->cached : c->direct);
        }
    tt_reader_files_close(&b.files);
}

static void bytes_move_a_piece_on(void **state)
{
    bench b = lay_out(*state, false);
    tt_piece p = tt_piece_next(b.files, &b.rd, true, 16384);
    p.buffered = false;
    /* Around the page cache by whole blocks, through it by bytes. */
    assert_int_equal(tt_piece_judge(b.files, &p, 4096, &b.s), TT_PIECE_GO_ON);
    assert_int_equal(p.at, 4096);
    assert_int_equal(tt_piece_judge(b.files, &p, 5000, &b.s), TT_PIECE_GO_ON);
    assert_int_equal(p.at, 8192);
    p.buffered = true;
    assert_int_equal(tt_piece_judge(b.files, &p, 5000, &b.s), TT_PIECE_GO_ON);
    assert_int_equal(p.at, 13192);
    assert_int_equal(tt_piece_judge(b.files, &p, 16384 - 13192, &b.s), TT_PIECE_DONE);
    assert_int_equal(p.at, p.end);
    assert_int_equal(b.s.short_reads, 3);
    assert_int_equal(b.s.bytes_disk, 4096 + 5000 + 5000 + 16384 - 13192);
    tt_reader_files_close(&b.files);
}

static void ends_of_files_are_failures(void **state)
{
    bench b = lay_out(*state, false);
    tt_piece p = tt_piece_next(b.files, &b.rd, true, 16384);
    p.buffered = false;
    assert_int_equal(tt_piece_judge(b.files, &p, 100, &b.s), TT_PIECE_FAILED);
    assert_int_equal(p.failed_errno, 0);
    assert_int_equal(p.failed_at, 16384 + 100);
    assert_int_equal(tt_piece_judge(b.files, &p, 8192, &b.s), TT_PIECE_GO_ON);
    assert_int_equal(tt_piece_judge(b.files, &p, 0, &b.s), TT_PIECE_FAILED);
    assert_int_equal(p.failed_at, 16384 + 8192);
    /* The first failure of a read counts. */
    tt_piece_fail(&p);
    assert_int_equal(b.rd.status, TT_ERR_FORMAT);
    p.failed_errno = EIO;
    tt_piece_fail(&p);
    assert_int_equal(b.rd.status, TT_ERR_FORMAT);
    assert_int_equal(b.rd.failed_errno, 0);
    tt_reader_files_close(&b.files);
}

static void again_has_an_end(void **state)
{
    bench b = lay_out(*state, false);
    static const int again[] = {EINTR, EAGAIN, ECANCELED};
    for (unsigned i = 0; i < 3; i++) {
        tt_piece p = tt_piece_next(b.files, &b.rd, false, 16384);
        unsigned n = 0;
        while (tt_piece_judge(b.files, &p, -again[i], &b.s) == TT_PIECE_GO_ON)
            assert_true(++n < 100000);
        assert_true(n >= 100);
        assert_int_equal(p.failed_errno, again[i]);
        assert_int_equal(p.at, 0);
        /* Whatever moves it on starts the count again. */
        p = tt_piece_next(b.files, &b.rd, false, 16384);
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(tt_piece_judge(b.files, &p, -again[i], &b.s), TT_PIECE_GO_ON);
        assert_int_equal(tt_piece_judge(b.files, &p, 4096, &b.s), TT_PIECE_GO_ON);
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(tt_piece_judge(b.files, &p, -again[i], &b.s), TT_PIECE_GO_ON);
    }
    tt_reader_files_close(&b.files);
}

static void refused_direct_goes_on_buffered(void **state)
{
    bench b = lay_out(*state, false);
    tt_piece p = tt_piece_next(b.files, &b.rd, true, 16384);
    p.buffered = false;
    assert_int_equal(tt_piece_judge(b.files, &p, -EINVAL, &b.s), TT_PIECE_GO_ON);
    assert_true(p.buffered);
    assert_int_equal(tt_piece_judge(b.files, &p, -EINVAL, &b.s), TT_PIECE_FAILED);
    assert_int_equal(p.failed_errno, EINVAL);
    tt_piece_fail(&p);
    assert_int_equal(b.rd.status, TT_ERR_IO);
    tt_reader_files_close(&b.files);
}

static void a_failing_mirror_hands_its_piece_over(void **state)
{
    static const long answers[] = {-EIO, -ENODEV, -ESTALE, 0, 100};
    for (unsigned i = 0; i < 5; i++) {
        bench b = lay_out(*state, true);
        tt_piece p = tt_piece_next(b.files, &b.rd, true, 16384);
        p.copy = 1;
        p.buffered = false;
        assert_int_equal(tt_piece_judge(b.files, &p, 8192, &b.s), TT_PIECE_GO_ON);
        assert_int_equal(b.s.bytes_mirror, 8192);
        assert_int_equal(tt_piece_judge(b.files, &p, answers[i], &b.s), TT_PIECE_GO_ON);
        assert_int_equal(p.copy, 0);
        assert_int_equal(p.at, 8192);
        assert_true(atomic_load(&b.files->mirror_lost));
        tt_piece next = tt_piece_next(b.files, &b.rd, true, 16384);
        assert_int_equal(next.copy, 0);
        assert_int_equal(tt_piece_judge(b.files, &p, -EIO, &b.s), TT_PIECE_FAILED);
        tt_reader_files_close(&b.files);
    }
}

/* All of it on the calling thread, half of it out of the page cache. */
static void runs_to_the_end(void **state)
{
    laws *f = *state;
    bench b = lay_out(f, false);
    (void)page_cache_drop(f->path[1]);
    for (unsigned warm = 0; warm < 2; warm++) {
        if (warm)
            page_cache_load(f->path[1], 0, LAWS_BYTES);
        b.s = (tt_reader_stats){0};
        memset(f->dst, 0xEE, LAWS_BYTES);
        tt_piece p = tt_piece_next(b.files, &b.rd, true, 65536);
        assert_int_equal(tt_piece_run(b.files, &p, &b.s), TT_PIECE_DONE);
        assert_memory_equal(f->dst, f->want[1] + 16384, 65536);
        assert_int_equal(f->dst[65536], 0xEE);
        assert_int_equal(b.s.bytes_disk + b.s.bytes_cached, 65536);
        if (f->drops && b.files->residency != TT_RESIDENCY_NONE && getenv("EMULATED") == NULL)
            assert_int_equal(b.s.bytes_cached, warm ? 65536 : 0); /* emulators lack preadv2 */
        assert_true(b.s.kernel_seconds >= 0);
    }
    tt_reader_stats sum = {0};
    b.s.reads = 1;
    tt_reader_stats_add(&sum, &b.s);
    tt_reader_stats_add(&sum, &b.s);
    assert_int_equal(sum.reads, 2);
    assert_int_equal(sum.bytes_cached, 2 * b.s.bytes_cached);
    tt_reader_files_close(&b.files);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        LAWS_TEST(pieces_cover_a_read),
        LAWS_TEST(slots_and_descriptors_agree),
        LAWS_TEST(bytes_move_a_piece_on),
        LAWS_TEST(ends_of_files_are_failures),
        LAWS_TEST(again_has_an_end),
        LAWS_TEST(refused_direct_goes_on_buffered),
        LAWS_TEST(a_failing_mirror_hands_its_piece_over),
        LAWS_TEST(runs_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
