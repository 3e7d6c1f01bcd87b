/* Proves that an index survives encoding and parsing, and that every flipped bit of it outside the
 * letters of names is refused, with truncated and inflated ones, by its own structure alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/le.h"

#define N 6

static tt_index_entry entries[N];
static tt_index ix;
static unsigned char *bytes;

static int setup(void **state)
{
    const tt_index_entry all[N] = {
        {.name = "embed_tokens.weight", .dtype = TT_DTYPE_Q8, .rank = 2, .shape = {10, 64}},
        {.name = "layers.0.a", .dtype = TT_DTYPE_BF16, .rank = 1, .shape = {7}},
        {.name = "layers.0.b", .dtype = TT_DTYPE_F32, .rank = 3, .shape = {2, 3, 5}},
        {.name = "layers.10.a", .dtype = TT_DTYPE_Q4, .rank = 2, .shape = {4, 192}},
        {.name = "layers.2.a", .dtype = TT_DTYPE_I64, .rank = 1, .shape = {3}},
        {.name = "norm.weight", .dtype = TT_DTYPE_F16, .rank = 4, .shape = {1, 2, 3, 4}}};
    memcpy(entries, all, sizeof all);
    ix = (tt_index){.entries = entries, .count = N};
    return tt_index_layout(&ix, "w.bin", NULL) != TT_OK ||
           tt_index_encode(&ix, (void **)&bytes, NULL) != TT_OK;
}

static int teardown(void **state)
{
    free(bytes);
    bytes = NULL;
    return 0;
}

static tt_status parse(tt_index *out, tt_error *err)
{
    *err = (tt_error){0};
    return tt_index_parse(bytes, ix.index_bytes, ix.file_bytes, "w.bin", out, err);
}

static void round_trip(void **state)
{
    tt_index back;
    tt_error err;
    assert_int_equal(ix.index_bytes, 16384);
    assert_int_equal(parse(&back, &err), TT_OK);
    assert_int_equal(back.count, N);
    assert_int_equal(back.file_bytes, ix.file_bytes);
    for (size_t i = 0; i < N; i++) {
        const tt_index_entry *a = &back.entries[i], *b = &entries[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
        assert_int_equal(a->offset, b->offset);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->scales_offset, b->scales_offset);
        assert_int_equal(a->biases_offset, b->biases_offset);
        assert_ptr_equal(tt_index_find(&back, b->name), a);
        assert_int_equal(a->offset % TT_TENSOR_ALIGN, 0);
    }
    assert_int_equal(back.entries[0].bytes, 32 * 64); /* a panel */
    assert_int_equal(back.entries[0].scales_bytes, 64);
    assert_int_equal(back.entries[3].bytes, 32 * 96);
    assert_null(tt_index_find(&back, "layers.1.a"));
    assert_null(tt_index_find(&back, ""));
    assert_null(tt_index_find(NULL, "x"));
    tt_index_free(&back);
    tt_index_free(&back);
    tt_index_free(NULL);
}

/* The layout of section 5, byte by byte, so that it cannot change by accident. */
static void the_bytes_are_those_of_the_page(void **state)
{
    static const unsigned char head[24] = {'G', 'T', 'W', 'E', 'I', 'G',  'H',  'T',  1, 0, 0, 0,
                                           0xd, 0xc, 0xb, 0xa, 0,   0x40, 0xed, 0xc2, 0, 0, 0, 0};
    assert_memory_equal(bytes, head, sizeof head);
    assert_int_equal(tt_get_u64(bytes + 24), 16384);
    assert_int_equal(tt_get_u64(bytes + 32), ix.file_bytes);
    assert_int_equal(tt_get_u64(bytes + 40), N);
    assert_int_equal(tt_get_u64(bytes + 48), 128);
    assert_int_equal(tt_get_u64(bytes + 56), 128 + 128 * N);
    const unsigned char *e = bytes + 128 + 3 * 128;
    assert_memory_equal(bytes + tt_get_u64(e), "layers.10.a", 11);
    assert_int_equal(tt_get_u32(e + 8), 11);
    assert_int_equal(tt_get_u32(e + 12), 3);
    assert_int_equal(tt_get_u32(e + 16), 2);
    assert_int_equal(tt_get_u64(e + 24), 4);
    assert_int_equal(tt_get_u64(e + 32), 192);
    assert_int_equal(tt_get_u64(e + 56), entries[3].offset);
    assert_int_equal(tt_get_u64(e + 64), 32 * 96);
    assert_int_equal(tt_get_u64(e + 80), 32 * 6);
    assert_int_equal(tt_get_u64(e + 96), 32 * 6);
}

static void every_flipped_bit_is_seen(void **state)
{
    size_t names = 128 + 128 * N, names_end = names;
    for (size_t i = 0; i < N; i++)
        names_end += strlen(entries[i].name);
    for (size_t at = 0; at < ix.index_bytes; at++) {
        /* Another letter makes another name; only the digest of the index tells. */
        if (at >= names && at < names_end)
            continue;
        for (int bit = 0; bit < 8; bit++) {
            /* As many rows as still fill the same panel: the digest and the architecture tell. */
            if ((at == 128 + 24 || at == 128 + 3 * 128 + 24) && bit < 5)
                continue;
            tt_index back;
            tt_error err;
            bytes[at] ^= (unsigned char)(1 << bit);
            tt_status st = parse(&back, &err);
            if (st == TT_OK)
                fail_msg("bit %d of byte %zu was not seen", bit, at);
            assert_true(st == TT_ERR_FORMAT || st == TT_ERR_UNSUPPORTED || st == TT_ERR_LIMIT);
            assert_true(err.message[0] != '\0');
            bytes[at] ^= (unsigned char)(1 << bit);
        }
    }
}

static void names_are_checked(void **state)
{
    static const struct {
        size_t entry, letter;
        char to;
    } bad[] = {{0, 0, '/'},
               {0, 5, '\0'},
               {1, 0, ' '},
               {1, 9, 'b'} /* doubled */,
               {1, 9, 'z'} /* out of order */,
               {5, 0, 'a'},
               {3, 3, (char)0xc3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_index back;
        tt_error err;
        size_t at = tt_get_u64(bytes + 128 + bad[i].entry * 128) + bad[i].letter;
        unsigned char before = bytes[at];
        bytes[at] = (unsigned char)bad[i].to;
        assert_int_equal(parse(&back, &err), TT_ERR_FORMAT);
        bytes[at] = before;
    }
}

static void sizes_that_do_not_fit(void **state)
{
    tt_index back;
    tt_error err;
    const uint64_t n = ix.index_bytes, file = ix.file_bytes;
    assert_int_not_equal(tt_index_parse(bytes, 0, file, "w", &back, &err), TT_OK);
    assert_int_not_equal(tt_index_parse(bytes, 127, file, "w", &back, &err), TT_OK);
    assert_int_not_equal(tt_index_parse(bytes, n - 1, file, "w", &back, &err), TT_OK);
    assert_int_not_equal(tt_index_parse(bytes, n, file - 1, "w", &back, &err), TT_OK);
    assert_int_not_equal(tt_index_parse(bytes, n, file + TT_PAGE_ALIGN, "w", &back, &err), TT_OK);
    assert_int_not_equal(tt_index_parse(bytes, n, 0, "w", &back, &err), TT_OK);
    /* Counts and shapes whose products wrap. */
    static const uint64_t huge[] = {UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 57,
                                    ((uint64_t)1 << 57) + 6, TT_MAX_TENSORS + 1};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        for (size_t at = 24; at <= 64; at += 8) {
            uint64_t before = tt_get_u64(bytes + at);
            tt_put_u64(bytes + at, huge[i]);
            assert_int_not_equal(parse(&back, &err), TT_OK);
            tt_put_u64(bytes + at, before);
        }
        for (size_t at = 128 + 24; at < 128 + 104; at += 8) {
            uint64_t before = tt_get_u64(bytes + at);
            tt_put_u64(bytes + at, huge[i]);
            assert_int_not_equal(parse(&back, &err), TT_OK);
            tt_put_u64(bytes + at, before);
        }
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(round_trip),
        WITH(the_bytes_are_those_of_the_page),
        WITH(every_flipped_bit_is_seen),
        WITH(names_are_checked),
        WITH(sizes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
