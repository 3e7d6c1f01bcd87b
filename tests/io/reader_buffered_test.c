/* Proves the laws of io/reader.h on the plain reader, and those of the faulty reader that other
 * tests lean on. */
#include "../support/reader_laws.h"

#include "../support/faulty_reader.h"

/* The plain reader works inside wait and nowhere else. */
static void reads_inside_wait(void **state)
{
    laws *f = *state;
    tt_read rd = {.file = 1, .bytes = 16384, .dst = f->dst};
    assert_string_equal(f->reader->ops->name, "buffered");
    assert_int_equal(f->reader->ops->start(f->reader, &rd, NULL), TT_OK);
    tt_reader_flush(f->reader);
    tt_reader_poll(f->reader);
    assert_false(tt_read_done(&rd));
    assert_int_equal(f->dst[0], 0xEE);
    assert_int_equal(f->reader->ops->wait(f->reader, &rd, NULL), TT_OK);
    assert_memory_equal(f->dst, f->want[1], 16384);
}

static void faulty_reader_keeps_the_laws(void **state)
{
    laws *f = *state;
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
        tt_reader *r = NULL;
        laws_reopen(f);
        assert_int_equal(faulty_reader_open(&f->reader, &o, &r, NULL), TT_OK);
        assert_null(f->reader);
        tt_read rd[6];
        for (unsigned i = 0; i < 6; i++) {
            rd[i] = (tt_read){.file = i % 2, .bytes = LAWS_BYTES, .dst = f->dst + i * LAWS_BYTES};
            assert_int_equal(r->ops->start(r, &rd[i], NULL), i == 1 ? TT_ERR_IO : TT_OK);
        }
        tt_reader_flush(r);
        tt_reader_poll(r);
        for (unsigned i = 6; i-- > 0;) {
            if (i == 1)
                continue;
            tt_status want = i == 3 ? TT_ERR_IO : i == 4 ? TT_ERR_FORMAT : TT_OK;
            assert_int_equal(r->ops->wait(r, &rd[i], NULL), want);
            assert_true(tt_read_done(&rd[i]));
            assert_int_equal(r->ops->wait(r, &rd[i], NULL), want);
            if (want == TT_OK)
                assert_memory_equal(rd[i].dst, f->want[i % 2], LAWS_BYTES);
        }
        assert_int_equal(faulty_reader_pending(r), 0);
        assert_int_equal(faulty_reader_started(r), 6);
        tt_reader_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAWS_TABLE, LAWS_TEST(reads_inside_wait),
                                       LAWS_TEST(faulty_reader_keeps_the_laws)};
    laws_plain = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
