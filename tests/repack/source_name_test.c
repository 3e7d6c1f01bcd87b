/* Proves that published tensor names of every spelling are taken apart right, and that look-alikes
 * are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/source_name.h"
#include "repack/tensor_plan.h"

static void prefixes(void **state)
{
    static const struct {
        const char *name, *canonical;
    } cases[] = {
        {"model.language_model.layers.0.mlp.gate.weight", "layers.0.mlp.gate.weight"},
        {"language_model.model.layers.0.mlp.gate.weight", "layers.0.mlp.gate.weight"},
        {"model.layers.0.mlp.gate.weight", "layers.0.mlp.gate.weight"},
        {"model.language_model.norm.weight", "norm.weight"},
        {"lm_head.weight", "lm_head.weight"},
        {"language_model.lm_head.weight", "lm_head.weight"},
        {"language_model.lm_head.scales", "lm_head.scales"},
        {"mtp.fc.weight", "mtp.fc.weight"},
        {"language_model.mtp.fc.weight", "mtp.fc.weight"},
        {"model.mtp.fc.weight", NULL},
        {"model.lm_head.weight", NULL},
        {"layers.0.mlp.gate.weight", NULL},
        {"language_model.layers.0.x", NULL},
        {"Model.layers.0.x", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *is = tt_source_canonical(cases[i].name);
        if (cases[i].canonical == NULL)
            assert_null(is);
        else
            assert_string_equal(is, cases[i].canonical);
    }
}

static void vision(void **state)
{
    assert_true(tt_source_is_vision("model.visual.blocks.0.attn.qkv.weight"));
    assert_true(tt_source_is_vision("visual.patch_embed.proj.weight"));
    assert_true(tt_source_is_vision("vision_tower.blocks.0.norm1.weight"));
    assert_false(tt_source_is_vision("model.visualiser.weight"));
    assert_false(tt_source_is_vision("model.language_model.layers.0.visual.weight"));
}

static void experts(void **state)
{
    static const struct {
        const char *name;
        tt_expert_name is;
    } good[] = {
        {"layers.3.mlp.experts.gate_up_proj", {false, 3, TT_EXPERT_FUSED_GATE_UP, 0, 0}},
        {"layers.12.mlp.experts.down_proj", {false, 12, TT_EXPERT_FUSED_DOWN, 0, 0}},
        {"mtp.layers.0.mlp.experts.down_proj", {true, 0, TT_EXPERT_FUSED_DOWN, 0, 0}},
        {"layers.0.mlp.experts.255.up_proj.weight", {false, 0, TT_EXPERT_SINGLE, 255, TT_MAT_UP}},
        {"layers.0.mlp.switch_mlp.down_proj.weight", {false, 0, TT_EXPERT_STACKED, 0, TT_MAT_DOWN}},
        {"layers.0.mlp.switch_mlp.gate_proj.weight", {false, 0, TT_EXPERT_STACKED, 0, TT_MAT_GATE}},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tt_expert_name n = {0};
        assert_true(tt_source_expert(good[i].name, &n));
        assert_int_equal(n.mtp, good[i].is.mtp);
        assert_int_equal(n.layer, good[i].is.layer);
        assert_int_equal(n.form, good[i].is.form);
        assert_int_equal(n.expert, good[i].is.expert);
        assert_int_equal(n.mat, good[i].is.mat);
    }
    static const char *const bad[] = {"layers.03.mlp.experts.gate_up_proj",
                                      "layers.mlp.experts.gate_up_proj",
                                      "layers.3.mlp.experts.gate_up_proj.weight",
                                      "layers.3.mlp.experts.gate_proj.weight",
                                      "layers.3.mlp.experts.01.up_proj.weight",
                                      "layers.3.mlp.experts.-1.up_proj.weight",
                                      "layers.3.mlp.experts.1.up_proj.bias",
                                      "layers.3.mlp.experts.1.up_proj",
                                      "layers.3.mlp.experts.99999999999.up_proj.weight",
                                      "layers.3.mlp.switch_mlp.up_proj.scales",
                                      "layers.3.mlp.shared_expert.up_proj.weight",
                                      "layers.-3.mlp.experts.gate_up_proj",
                                      "mtp.mlp.experts.gate_up_proj",
                                      "layers.4294967299.mlp.experts.gate_up_proj"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_expert_name n = {0};
        assert_false(tt_source_expert(bad[i], &n));
    }
}

static void layers(void **state)
{
    assert_int_equal(tt_source_layer("layers.17.mlp.gate.weight"), 17);
    assert_int_equal(tt_source_layer("norm.weight"), -1);
    assert_int_equal(tt_source_layer("layers.x.y"), -1);
    assert_int_equal(tt_source_layer("layers.1"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes),
        cmocka_unit_test(vision),
        cmocka_unit_test(experts),
        cmocka_unit_test(layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
