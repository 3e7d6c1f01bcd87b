/* Proves that the inventory counts and sizes published models exactly, and that an index is held
 * against it in name, shape and kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "format/install_layout.h"
#include "repack/inventory.h"

/* 35B-A3B, as model-math 1.3 has it. */
static tt_arch big(void)
{
    tt_arch a = {.family = TT_FAMILY_QWEN3_5_MOE,
                 .hidden_size = 2048,
                 .n_layers = 40,
                 .vocab_size = 248320,
                 .n_heads = 16,
                 .n_kv_heads = 2,
                 .head_dim = 256,
                 .lin_key_heads = 16,
                 .lin_value_heads = 32,
                 .lin_key_dim = 128,
                 .lin_value_dim = 128,
                 .conv_kernel = 4,
                 .n_experts = 256,
                 .top_k = 8,
                 .moe_intermediate = 512,
                 .shared_intermediate = 512,
                 .n_mtp_layers = 1};
    for (uint32_t i = 3; i < 40; i += 4)
        a.layer_kind[i] = TT_LAYER_FULL;
    return a;
}

static uint64_t parameters(const tt_inventory *inv, bool mtp, size_t *count)
{
    uint64_t sum = 0;
    *count = 0;
    for (size_t i = 0; i < inv->count; i++) {
        const tt_want *w = &inv->items[i];
        uint64_t n = 1;
        for (uint32_t d = 0; d < w->rank; d++)
            n *= w->shape[d];
        sum += w->mtp == mtp ? n : 0;
        *count += w->mtp == mtp;
    }
    return sum;
}

static void the_35b_counts_as_published(void **state)
{
    tt_arch a = big();
    tt_inventory inv;
    size_t n = 0;
    assert_int_equal(tt_inventory_create(&a, &inv, NULL), TT_OK);
    const uint64_t experts = (uint64_t)256 * 3 * 512 * 2048;
    /* 693 text tensors with two fused ones a layer, 19 of the draft likewise. */
    assert_int_equal(parameters(&inv, false, &n) + 40 * experts, 34660610688);
    assert_int_equal(n + 80, 693);
    assert_int_equal(parameters(&inv, true, &n) + experts, 844640768);
    assert_int_equal(n + 2, 19);
    for (size_t i = 1; i < inv.count; i++)
        assert_true(strcmp(inv.items[i - 1].name, inv.items[i].name) < 0);
    assert_int_equal(tt_inventory_find(&inv, "layers.3.self_attn.q_proj.weight")->shape[0], 8192);
    assert_null(tt_inventory_find(&inv, "layers.3.linear_attn.A_log"));
    assert_true(tt_inventory_find(&inv, "layers.3.self_attn.q_norm.weight")->offset_norm);
    assert_false(tt_inventory_find(&inv, "layers.0.linear_attn.norm.weight")->offset_norm);
    assert_true(tt_inventory_find(&inv, "layers.0.linear_attn.conv1d.weight")->conv);
    tt_inventory_free(&inv);
}

static void dense_models(void **state)
{
    tt_arch a = big();
    tt_inventory inv;
    size_t n = 0;
    /* 0.8B: parameters 0.752 billion. */
    a.family = TT_FAMILY_QWEN3_5;
    a.hidden_size = 1024;
    a.n_layers = 24;
    a.n_heads = 8;
    a.lin_value_heads = 16;
    a.n_experts = a.top_k = a.moe_intermediate = a.shared_intermediate = 0;
    a.intermediate = 3584;
    a.tied_head = true;
    a.n_mtp_layers = 0;
    assert_int_equal(tt_inventory_create(&a, &inv, NULL), TT_OK);
    assert_int_equal(parameters(&inv, false, &n) / 1000000, 752);
    assert_null(tt_inventory_find(&inv, "lm_head.weight"));
    assert_null(tt_inventory_find(&inv, "layers.0.mlp.gate.weight"));
    assert_non_null(tt_inventory_find(&inv, "layers.0.mlp.gate_proj.weight"));
    tt_inventory_free(&inv);
}

/* Qwen3.8-Flash-Next-FP8: 152,089 tensors, of them 333 of vision, experts one by one with a grid of
 * factors each, the table in 128 shards with one factor. */
static void flash_next_counts_as_published(void **state)
{
    tt_arch a = big();
    tt_inventory inv;
    size_t n = 0;
    a.family = TT_FAMILY_QWEN4_EXP;
    a.hidden_size = 2560;
    a.n_layers = 48;
    a.n_heads = 24;
    a.lin_value_heads = 48;
    a.n_experts = 512;
    a.top_k = 10;
    a.moe_intermediate = a.shared_intermediate = 640;
    a.streams = 4;
    a.mix_rank = 320;
    a.indexer_heads = 4;
    a.indexer_dim = 128;
    a.ngram_layer = 1;
    a.ngram_size = 3;
    a.ngram_heads = 8;
    a.ngram_dim = 2560;
    for (uint32_t i = 3; i < 48; i += 4)
        a.layer_kind[i] = TT_LAYER_FULL;
    assert_int_equal(tt_inventory_create(&a, &inv, NULL), TT_OK);
    const uint64_t each = (uint64_t)640 * 2560, grid = 5 * 20, matrices = 48 * 512 * 3;
    const uint64_t table = (uint64_t)320001536 * 160;
    uint64_t text = parameters(&inv, false, &n);
    assert_int_equal(n + 2 * matrices + 128 + 1, 148655);
    assert_int_equal(text + matrices * (each + grid) + table + 1, 176951272356);
    uint64_t draft = parameters(&inv, true, &n);
    assert_int_equal(n + 2, 31);
    assert_int_equal(n + 2 * 512 * 3, 3101);
    assert_int_equal(draft + 512 * 3 * each, 2607150848);
    assert_int_equal(draft + 512 * 3 * (each + grid), 2607304448);
    assert_null(tt_inventory_find(&inv, "layers.0.input_layernorm.weight"));
    assert_true(tt_inventory_find(&inv, "layers.1.ple.norm_conv.weight")->offset_norm);
    assert_true(tt_inventory_find(&inv, "layers.1.ple.conv1d.weight")->conv);
    assert_int_equal(tt_inventory_find(&inv, "layers.0.attn_hyper_connection."
                                             "input_mix_weight_up.weight")
                         ->role,
                     TT_ROLE_MIX);
    tt_inventory_free(&inv);
}

static void an_index_is_held_against_it(void **state)
{
    tt_arch a = big();
    tt_inventory inv;
    tt_error err;
    static tt_index_entry entries[1024];
    tt_index ix = {.entries = entries};
    a.n_layers = 4;
    assert_int_equal(tt_inventory_create(&a, &inv, NULL), TT_OK);
    for (size_t i = 0; i < inv.count; i++) {
        const tt_want *w = &inv.items[i];
        if (w->mtp)
            continue;
        entries[ix.count] =
            (tt_index_entry){.name = w->name, .dtype = TT_DTYPE_BF16, .rank = w->rank};
        memcpy(entries[ix.count++].shape, w->shape, sizeof w->shape);
    }
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_OK);
    assert_int_equal(tt_inventory_check_index(&inv, &ix, true, "w", &err), TT_ERR_FORMAT);
    /* The last one missing, the first one missing, another one instead, one more. */
    ix.count--;
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"norm.weight\", which is missing"));
    ix.count++;
    ix.entries++;
    ix.count--;
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"embed_tokens.weight\", which is missing"));
    ix.entries--;
    ix.count++;
    const tt_index_entry before = entries[5];
    entries[5].name = "layers.0.linear_attn.x";
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_ERR_FORMAT);
    entries[5] = before;
    entries[ix.count++] = (tt_index_entry){.name = "zz", .dtype = TT_DTYPE_F32};
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"zz\""));
    ix.count--;
    entries[0].shape[0]--;
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "shape"));
    entries[0].shape[0]++;
    entries[1].dtype = TT_DTYPE_Q4; /* a norm */
    assert_int_equal(tt_inventory_check_index(&inv, &ix, false, "w", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "must not be Q4"));
    tt_inventory_free(&inv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_35b_counts_as_published),
        cmocka_unit_test(dense_models),
        cmocka_unit_test(flash_next_counts_as_published),
        cmocka_unit_test(an_index_is_held_against_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
