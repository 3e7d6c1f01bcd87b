/* Proves the laws of io/reader.h on io_uring: with one piece in flight and with many, with memory
 * that may not be registered, and with a ring that stops working. */
#include "../support/reader_laws.h"

/* The ring is taken away with pieces in it: they are waited for and the rest is read by hand. */
static void a_broken_ring_is_left(void **state)
{
    laws *f = *state;
    static const int errors[] = {EPERM, ENOSYS, EAGAIN};
    for (unsigned i = 0; i < 3; i++) {
        void *dst = aligned_alloc(TT_IO_ALIGN, LAWS_BYTES);
        assert_non_null(dst);
        tt_read rd = {.file = 0, .bytes = LAWS_BYTES, .dst = dst};
        kernel_reset();
        laws_reopen(f);
        assert_int_equal(f->reader->ops->start(f->reader, &rd, NULL), TT_OK);
        tt_reader_flush(f->reader);
        kernel.ring_errno = errors[i];
        laws_burst(f, i, true, true);
        assert_int_equal(f->reader->ops->wait(f->reader, &rd, NULL), TT_OK);
        assert_memory_equal(dst, f->want[0], LAWS_BYTES);
        free(dst);
        laws_burst(f, 10 + i, false, false);
        assert_int_equal(laws_read(f, 2, 0, LAWS_BYTES, f->dst, NULL), TT_OK);
        assert_memory_equal(f->dst, f->want[2], LAWS_BYTES);
    }
}

/* Room for a small ring and no more. */
static void with_little_memlock(void **state)
{
    laws *f = *state;
    tt_error err = {0};
    if (!barred_memlock(512 * TT_KIB)) {
        print_message("skip: capabilities cannot be given up here\n");
        return;
    }
    const char *paths[LAWS_FILES] = {f->path[0], f->path[1], f->path[2]};
    laws_options.depth = 4;
    /* What may be locked counts over all processes of a user. */
    if (laws_open_paths(paths, LAWS_FILES, &f->reader, &err) != TT_OK) {
        print_message("skip: %s\n", err.message);
        return;
    }
    assert_int_equal(tt_reader_register_memory(f->reader, f->dst, LAWS_DST, &err), TT_OK);
    assert_non_null(strstr(f->reader->describe, "memory not registered"));
    laws_burst(f, 7, true, false);
    /* What is forgotten is no longer spoken of. */
    tt_reader_forget_memory(f->reader, f->dst);
    assert_null(strstr(f->reader->describe, "not registered"));
}

static void memory_that_may_not_be_locked(void **state)
{
    laws *f = *state;
    laws_in_child(with_little_memlock, f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {LAWS_TABLE, LAWS_TEST(a_broken_ring_is_left),
                                              LAWS_TEST(memory_that_may_not_be_locked)};
    static const tt_reader_options cases[] = {
        {.kind = TT_READER_URING, .depth = 1, .piece_bytes = 16384},
        {.kind = TT_READER_URING, .depth = 5, .piece_bytes = 32768},
        {.kind = TT_READER_URING},
        {.kind = TT_READER_URING, .depth = 256, .piece_bytes = 16384},
    };
    char dir[512], path[600];
    tt_reader *r = NULL;
    tt_error err = {0};
    tempdir_make(dir);
    tempdir_file(dir, "a", "", 0, path);
    tt_status st = tt_reader_open((const char *const[]){path}, 1, &cases[0], &r, &err);
    tt_reader_close(&r);
    tempdir_remove(dir);
    if (st == TT_ERR_UNSUPPORTED) {
        printf("skip: %s\n", err.message);
        return 77;
    }
    int failed = 0;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        laws_options = cases[i];
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
