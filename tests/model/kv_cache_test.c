/* Proves that KV rows never move while they grow, grow by doubling, end at the maximum, and are
 * saved and loaded whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/kv_cache.h"

static tt_arch small_arch(void)
{
    return (tt_arch){
        .n_layers = 4,
        .n_kv_heads = 2,
        .head_dim = 64,
        .layer_kind = {TT_LAYER_LINEAR, TT_LAYER_FULL, TT_LAYER_LINEAR, TT_LAYER_FULL}};
}

static void token_bytes(void **state)
{
    tt_arch a = small_arch();
    /* 2 layers x (K and V) x 128 values, and 2 groups x 2 halves for quantized rows */
    assert_int_equal(tt_kv_token_bytes(&a, 32), 2 * 2 * 128 * 4);
    assert_int_equal(tt_kv_token_bytes(&a, 16), 2 * 2 * 128 * 2);
    assert_int_equal(tt_kv_token_bytes(&a, 8), 2 * 2 * (128 + 2 * 4));
    assert_int_equal(tt_kv_token_bytes(&a, 4), 2 * 2 * (64 + 2 * 4));
}

static void rows_stay_while_space_doubles(void **state)
{
    tt_arch a = small_arch();
    tt_kv_cache kv;
    assert_int_equal(tt_kv_cache_init(&kv, &a, 8, 40000, NULL), TT_OK);
    assert_int_equal(kv.n_layers, 2);
    assert_int_equal(tt_kv_cache_grow(&kv, 1, NULL), TT_OK);
    assert_int_equal(kv.committed_tokens, 8192);
    unsigned char *k = kv.layer[1].k;
    memset(k, 0x5a, 8192 * 128);
    assert_int_equal(tt_kv_cache_grow(&kv, 8193, NULL), TT_OK);
    assert_int_equal(kv.committed_tokens, 16384);
    assert_int_equal(tt_kv_cache_grow(&kv, 33000, NULL), TT_OK);
    assert_int_equal(kv.committed_tokens, 40000);
    assert_ptr_equal(kv.layer[1].k, k);
    assert_int_equal(k[8192 * 128 - 1], 0x5a);
    k[40000 * 128 - 1] = 1; /* the last row is there */
    kv.layer[0].v_meta[40000 * 2 * 2 - 1] = 1;
    tt_kv_cache_free(&kv);
    tt_kv_cache_free(&kv);
}

static void save_and_load(void **state)
{
    static const uint32_t widths[] = {32, 16, 8, 4};
    tt_arch a = small_arch();
    for (int w = 0; w < 4; w++) {
        tt_kv_cache one, two;
        uint32_t n = 100;
        size_t bytes = n * tt_kv_token_bytes(&a, widths[w]);
        unsigned char *x = malloc(bytes), *y = malloc(bytes);
        assert_int_equal(tt_kv_cache_init(&one, &a, widths[w], 128, NULL), TT_OK);
        assert_int_equal(tt_kv_cache_init(&two, &a, widths[w], 128, NULL), TT_OK);
        assert_int_equal(tt_kv_cache_grow(&one, 100, NULL), TT_OK);
        assert_int_equal(tt_kv_cache_grow(&two, 100, NULL), TT_OK);
        for (size_t i = 0; i < bytes; i++)
            x[i] = (unsigned char)(i * 7 + i / 251);
        tt_kv_cache_load(&one, 0, n, x);
        tt_kv_cache_save(&one, 0, n, y);
        assert_memory_equal(x, y, bytes);
        /* in two pieces, from the middle on first */
        tt_kv_cache_save(&one, 37, n - 37, y);
        tt_kv_cache_load(&two, 37, n - 37, y);
        tt_kv_cache_save(&one, 0, 37, y);
        tt_kv_cache_load(&two, 0, 37, y);
        assert_memory_equal(one.layer[1].v, two.layer[1].v, n * tt_kv_row_bytes(widths[w], 2, 64));
        tt_kv_cache_save(&two, 0, n, y);
        assert_memory_equal(x, y, bytes);
        tt_kv_cache_free(&one);
        tt_kv_cache_free(&two);
        free(x);
        free(y);
    }
}

/* One index key for every four tokens; what belongs to no complete block is saved as zeros. */
static void index_keys(void **state)
{
    tt_arch a = small_arch();
    a.indexer_dim = 8;
    a.indexer_block = 4;
    tt_kv_cache kv, other;
    size_t row = tt_kv_token_bytes(&a, 16), n = 66;
    assert_int_equal(row, 2 * (2 * 128 * 2 + 8));
    unsigned char *x = malloc(n * row), *y = malloc(n * row);
    assert_int_equal(tt_kv_cache_init(&kv, &a, 16, 128, NULL), TT_OK);
    assert_int_equal(tt_kv_cache_init(&other, &a, 16, 128, NULL), TT_OK);
    assert_int_equal(tt_kv_cache_grow(&kv, 128, NULL), TT_OK);
    assert_int_equal(tt_kv_cache_grow(&other, 128, NULL), TT_OK);
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t i = 0; i < 128 / 4 * 8; i++)
            tt_kv_index(&kv, l)[i] = (float)(1000 * l + i);
    memset(x, 0x77, n * row);
    tt_kv_cache_save(&kv, 0, n, x);
    const unsigned char *last = x + n * row - n * 8; /* index keys of the last layer */
    float value;
    memcpy(&value, last + (16 * 8 - 1) * 4, 4);
    assert_true(value == 1000 + 16 * 8 - 1);
    for (size_t i = 16 * 8 * 4; i < n * 8; i++)
        assert_int_equal(last[i], 0);
    tt_kv_cache_load(&other, 0, n, x);
    assert_memory_equal(tt_kv_index(&kv, 1), tt_kv_index(&other, 1), 16 * 8 * 4);
    assert_true(tt_kv_index(&other, 1)[16 * 8] == 0);
    tt_kv_cache_save(&other, 0, n, y);
    assert_memory_equal(x, y, n * row);
    /* from a block on */
    tt_kv_cache_save(&kv, 64, 64, x);
    tt_kv_cache_load(&other, 64, 64, x);
    assert_memory_equal(tt_kv_index(&kv, 0), tt_kv_index(&other, 0), 32 * 8 * 4);
    tt_kv_cache_free(&kv);
    tt_kv_cache_free(&other);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_bytes),
        cmocka_unit_test(rows_stay_while_space_doubles),
        cmocka_unit_test(save_and_load),
        cmocka_unit_test(index_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
