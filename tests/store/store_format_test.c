/* Proves the bytes of a directory of prompt state: what is written is read back, one byte changed
 * anywhere is seen, what is out of range is not believed, digests are those of the document, names
 * are the store's own or are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/le.h"
#include "store/store_format.h"

static void heads(void **state)
{
    (void)state;
    uint8_t bytes[TT_STORE_HEAD];
    tt_store_head h = {.part = TT_STORE_STATE, .tokens = 640, .made = 32, .bytes = 12345, .crc = 9};
    tt_store_head got;
    memset(h.chain.b, 7, 32);
    memset(h.key.b, 8, 32);
    tt_store_head_write(&h, bytes);
    assert_int_equal(tt_store_head_read(bytes, &got, NULL), TT_OK);
    assert_memory_equal(&got.chain, &h.chain, 32);
    assert_memory_equal(&got.key, &h.key, 32);
    assert_int_equal(got.part, h.part);
    assert_int_equal(got.tokens, 640);
    assert_int_equal(got.made, 32);
    assert_int_equal(got.bytes, 12345);
    assert_int_equal(got.crc, 9);
    for (unsigned at = 0; at < sizeof bytes; at++)
        for (unsigned bit = 1; bit < 256; bit <<= 1) {
            bytes[at] ^= (uint8_t)bit;
            assert_int_equal(tt_store_head_read(bytes, &got, NULL), TT_ERR_CORRUPT);
            bytes[at] ^= (uint8_t)bit;
        }
}

static void heads_out_of_range(void **state)
{
    (void)state;
    static const tt_store_head bad[] = {
        {.part = 3, .tokens = 64, .bytes = 1},
        {.part = TT_STORE_KV, .tokens = 65, .bytes = 1},
        {.part = TT_STORE_KV, .tokens = 0, .bytes = 1},
        {.part = TT_STORE_KV, .tokens = TT_MAX_CONTEXT + TT_BLOCK, .bytes = 1},
        {.part = TT_STORE_KV, .tokens = 64, .made = 65, .bytes = 1},
        {.part = TT_STORE_KV, .tokens = 64, .bytes = 0},
        {.part = TT_STORE_KV, .tokens = 64, .bytes = TT_STORE_MAX_PAYLOAD + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t bytes[TT_STORE_HEAD];
        tt_store_head got;
        tt_store_head_write(&bad[i], bytes);
        assert_int_equal(tt_store_head_read(bytes, &got, NULL), TT_ERR_CORRUPT);
    }
}

static tt_store_item item(uint32_t i)
{
    tt_store_item it = {.tokens = TT_BLOCK * (i + 1), .made = 64, .kv_bytes = 100, .used = i};
    memset(it.chain.b, (int)i + 1, 32);
    memset(it.parent.b, (int)i, 32); /* of the first: zeros */
    if (i % 2 == 1) {
        it.kind = 5;
        it.state_bytes = 200;
    }
    return it;
}

static void write_index(tt_buf *b, const tt_store_item *items, uint32_t n, uint64_t clock)
{
    tt_buf_init(b, 1 << 20);
    tt_store_index_begin(b);
    tt_store_index_add_key(b, "state 1\n");
    tt_store_index_add_key(b, "state 2\nmodel x\n");
    for (uint32_t i = 0; i < n; i++)
        tt_store_index_add_item(b, &items[i]);
    tt_store_index_end(b, 2, n, clock);
    assert_int_equal(tt_buf_status(b, NULL), TT_OK);
}

static void indexes(void **state)
{
    (void)state;
    tt_buf b;
    tt_store_item items[4];
    tt_store_index ix;
    for (uint32_t i = 0; i < 4; i++)
        items[i] = item(i);
    items[3].key = 1;
    write_index(&b, items, 4, 77);
    assert_int_equal(tt_store_index_parse(b.data, b.len, 9, &ix, NULL), TT_OK);
    assert_int_equal(ix.clock, 77);
    assert_int_equal(ix.n_keys, 2);
    assert_int_equal(ix.key_len[1], 16);
    assert_memory_equal(ix.key[1], "state 2\nmodel x\n", 16);
    for (uint32_t i = 0; i < ix.n_items; i++) {
        tt_store_item got;
        memset(&got, 0, sizeof got);
        tt_store_index_item(&ix, i, &got);
        assert_memory_equal(&got, &items[i], sizeof got);
    }
    /* one bit anywhere, and every end that is too early or too late */
    for (size_t at = 0; at < b.len; at++) {
        b.data[at] ^= (char)(1 << at % 8);
        assert_int_equal(tt_store_index_parse(b.data, b.len, 9, &ix, NULL), TT_ERR_CORRUPT);
        b.data[at] ^= (char)(1 << at % 8);
        assert_int_equal(tt_store_index_parse(b.data, at, 9, &ix, NULL), TT_ERR_CORRUPT);
    }
    assert_int_equal(tt_store_index_parse(b.data, b.len + 1, 9, &ix, NULL), TT_ERR_CORRUPT);
    tt_buf_free(&b);
    write_index(&b, items, 0, 0);
    assert_int_equal(tt_store_index_parse(b.data, b.len, 9, &ix, NULL), TT_OK);
    assert_int_equal(ix.n_items, 0);
    tt_buf_free(&b);
}

/* Each with a sum that is right. */
static void indexes_out_of_range(void **state)
{
    (void)state;
    for (int what = 0; what < 10; what++) {
        tt_store_item it = item(what == 1 || what == 2);
        uint64_t clock = 50;
        tt_store_index ix;
        tt_buf b;
        switch (what) {
        case 0:
            it.key = 2;
            break;
        case 1:
            it.kind = 9;
            break;
        case 2:
            it.kind = 0;
            break; /* with a state */
        case 3:
            it.tokens = 128;
            break;
        case 4:
            it.tokens = 63;
            break;
        case 5:
            it.made = 65;
            break;
        case 6:
            it.used = 51;
            break;
        case 7:
            it.kv_bytes = TT_STORE_MAX_PAYLOAD + 1;
            break;
        case 8:
            it.parent.b[31] = 1;
            break;
        default:
            clock = UINT64_MAX;
            break;
        }
        write_index(&b, &it, 1, clock);
        assert_int_equal(tt_store_index_parse(b.data, b.len, 9, &ix, NULL), TT_ERR_CORRUPT);
        tt_buf_free(&b);
    }
}

/* SHA-256(parent | 64 ids, u32 little-endian | made), written out another way. */
static void digests(void **state)
{
    (void)state;
    static const char text[] = "state 1\n";
    uint32_t ids[TT_BLOCK];
    tt_digest key, first;
    char hex[65], name[TT_STORE_NAME];
    uint8_t bytes[289];
    for (uint32_t i = 0; i < TT_BLOCK; i++)
        ids[i] = 0x01020304u * i;
    assert_int_equal(tt_store_key(text, &key, NULL), TT_OK);
    assert_int_equal(tt_sha256_of(text, 8, hex, NULL), TT_OK);
    tt_store_file_name(&key, TT_STORE_STATE, name);
    assert_memory_equal(name, hex, 64);
    assert_string_equal(name + 64, ".state");
    memcpy(bytes, key.b, 32);
    for (uint32_t i = 0; i < 256; i++)
        bytes[32 + i] = (uint8_t)(ids[i / 4] >> 8 * (i % 4));
    bytes[288] = 17;
    assert_int_equal(tt_store_chain(&key, ids, 17, &first, NULL), TT_OK);
    assert_int_equal(tt_sha256_of(bytes, sizeof bytes, hex, NULL), TT_OK);
    tt_store_file_name(&first, TT_STORE_KV, name);
    assert_memory_equal(name, hex, 64);
    assert_string_equal(name + 64, ".kv");
}

static void names(void **state)
{
    (void)state;
    char name[100];
    tt_digest chain, got;
    int part;
    for (unsigned i = 0; i < 32; i++)
        chain.b[i] = (uint8_t)(i * 9);
    for (int p = TT_STORE_KV; p <= TT_STORE_STATE; p++) {
        tt_store_file_name(&chain, (tt_store_part)p, name);
        assert_true(tt_store_name_is_ours(name, &got, &part));
        assert_int_equal(part, p);
        assert_memory_equal(&got, &chain, sizeof got);
        strcat(name, ".tmp");
        assert_true(tt_store_name_is_ours(name, &got, &part));
        assert_int_equal(part, 0);
        strcat(name, "x");
        assert_false(tt_store_name_is_ours(name, &got, &part));
        name[63] = 'g';
        assert_false(tt_store_name_is_ours(name, &got, &part));
    }
    assert_true(tt_store_name_is_ours("index", &got, &part));
    assert_true(tt_store_name_is_ours("index.tmp", &got, &part));
    assert_false(tt_store_name_is_ours("lock", &got, &part));
    assert_false(tt_store_name_is_ours("", &got, &part));
    assert_false(tt_store_name_is_ours("0", &got, &part));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),   cmocka_unit_test(heads_out_of_range),
        cmocka_unit_test(indexes), cmocka_unit_test(indexes_out_of_range),
        cmocka_unit_test(digests), cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
