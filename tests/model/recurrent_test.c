/* Proves that the recurrent block is the whole state of the linear layers: its size, places that do
 * not meet, zeros, copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "../support/tiny_model.h"
#include "model/recurrent.h"

static void places_do_not_meet(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        tt_arch a = tiny_arch(seed);
        tt_recurrent r;
        uint32_t linear = 0;
        uint64_t S = (uint64_t)a.lin_value_heads * a.lin_key_dim * a.lin_value_dim,
                 conv = (uint64_t)TT_CONV_ROWS * tt_arch_conv_dim(&a);
        for (uint32_t l = 0; l < a.n_layers; l++)
            linear += a.layer_kind[l] == TT_LAYER_LINEAR;
        assert_int_equal(tt_recurrent_init(&r, &a, NULL), TT_OK);
        assert_int_equal(r.bytes, tt_recurrent_bytes(&a));
        assert_true(r.bytes >= linear * (S + conv) * sizeof(float));
        assert_true(r.bytes < linear * (S + conv + 16) * sizeof(float) + 1);
        assert_int_equal(r.block == NULL, linear == 0);
        for (uint32_t i = 0; i < linear; i++) {
            assert_int_equal((uintptr_t)tt_recurrent_state(&r, i) % TT_TENSOR_ALIGN, 0);
            for (uint64_t k = 0; k < S; k++) {
                assert_true(tt_recurrent_state(&r, i)[k] == 0);
                tt_recurrent_state(&r, i)[k] = 1 + (float)i;
            }
            for (uint64_t k = 0; k < conv; k++) {
                assert_true(tt_recurrent_conv(&r, i)[k] == 0);
                tt_recurrent_conv(&r, i)[k] = -1 - (float)i;
            }
        }
        for (uint32_t i = 0; i < linear; i++) {
            for (uint64_t k = 0; k < S; k++)
                assert_true(tt_recurrent_state(&r, i)[k] == 1 + (float)i);
            for (uint64_t k = 0; k < conv; k++)
                assert_true(tt_recurrent_conv(&r, i)[k] == -1 - (float)i);
            assert_true((char *)(tt_recurrent_conv(&r, i) + conv) <= (char *)r.block + r.bytes);
        }
        tt_recurrent_free(&r);
        assert_null(r.block);
        tt_recurrent_free(&r);
    }
}

/* Of qwen4_exp there is more, behind the linear layers. */
static void streams_have_places_of_their_own(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        tt_arch a = tiny_arch_streams(seed);
        tt_recurrent r;
        uint32_t layers[2] = {0, 0};
        assert_int_equal(tt_recurrent_init(&r, &a, NULL), TT_OK);
        for (uint32_t l = 0; l < a.n_layers; l++)
            layers[a.layer_kind[l]]++;
        assert_int_equal(r.ngram_floats, 3 * a.ngram_size * tt_arch_residual(&a));
        assert_int_equal(r.index_floats, (a.indexer_block - 1) * a.indexer_dim);
        const float *end = r.block + r.bytes / sizeof(float), *at = tt_recurrent_ngram(&r);
        assert_true(at >= r.block + layers[TT_LAYER_LINEAR] * r.layer_floats);
        at += r.ngram_floats;
        for (uint32_t i = 0; i < layers[TT_LAYER_FULL]; i++) {
            assert_true(tt_recurrent_index(&r, i) >= at);
            at = tt_recurrent_index(&r, i) + r.index_floats;
        }
        assert_true(at <= end && at + 16 > end);
        tt_recurrent_free(&r);
    }
}

static void a_copy_is_the_state(void **state)
{
    tt_arch a = tiny_arch_plain("lfl", 0, 0), none = tiny_arch_plain("ff", 0, 0);
    tt_recurrent r, copy, empty;
    assert_int_equal(tt_recurrent_init(&r, &a, NULL), TT_OK);
    assert_int_equal(tt_recurrent_init(&copy, &a, NULL), TT_OK);
    assert_int_equal(tt_recurrent_init(&empty, &none, NULL), TT_OK);
    memset(r.block, 0x3c, r.bytes);
    tt_recurrent_copy(&copy, &r);
    assert_memory_equal(copy.block, r.block, r.bytes);
    tt_recurrent_clear(&r);
    for (uint64_t i = 0; i < r.bytes / sizeof(float); i++)
        assert_true(r.block[i] == 0);
    assert_true(((unsigned char *)copy.block)[copy.bytes - 1] == 0x3c);
    /* a model without linear layers has a state of nothing */
    assert_int_equal(empty.bytes, 0);
    tt_recurrent_clear(&empty);
    tt_recurrent_copy(&empty, &empty);
    tt_recurrent_free(&empty);
    tt_recurrent_free(&copy);
    tt_recurrent_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_do_not_meet),
        cmocka_unit_test(streams_have_places_of_their_own),
        cmocka_unit_test(a_copy_is_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
