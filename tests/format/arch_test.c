/* Proves that every spelling of config.json gives the same record, that what this engine does not
 * compute is refused by name, and that a manifest carries the record without loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/arch.h"

/* The published 35B-A3B: a vision-language wrapper around the text model. */
static const char big[] =
    "{\"architectures\":[\"Qwen3_5MoeForConditionalGeneration\"],\"model_type\":\"qwen3_5_moe\","
    "\"image_token_id\":248056,\"video_token_id\":248057,\"vision_start_token_id\":248053,"
    "\"vision_end_token_id\":248054,\"tie_word_embeddings\":false,"
    "\"vision_config\":{\"model_type\":\"qwen3_5_moe\",\"depth\":27,\"hidden_size\":1152},"
    "\"text_config\":{\"model_type\":\"qwen3_5_moe_text\",\"attention_bias\":false,"
    "\"attention_dropout\":0.0,\"attn_output_gate\":true,\"dtype\":\"bfloat16\","
    "\"eos_token_id\":248044,\"full_attention_interval\":4,\"head_dim\":256,"
    "\"hidden_act\":\"silu\",\"hidden_size\":2048,\"linear_conv_kernel_dim\":4,"
    "\"linear_key_head_dim\":128,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
    "\"linear_value_head_dim\":128,\"mamba_ssm_dtype\":\"float32\","
    "\"max_position_embeddings\":262144,\"mlp_only_layers\":[],\"moe_intermediate_size\":512,"
    "\"mtp_num_hidden_layers\":1,\"mtp_use_dedicated_embeddings\":false,"
    "\"num_attention_heads\":16,\"num_experts\":256,\"num_experts_per_tok\":8,"
    "\"num_hidden_layers\":40,\"num_key_value_heads\":2,\"output_router_logits\":false,"
    "\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"mrope_interleaved\":true,"
    "\"mrope_section\":[11,11,10],\"partial_rotary_factor\":0.25,\"rope_theta\":10000000,"
    "\"rope_type\":\"default\"},\"router_aux_loss_coef\":0.001,"
    "\"shared_expert_intermediate_size\":512,\"vocab_size\":248320}}";

/* The published Qwen3.8-Flash-Next, its text part alone. */
static const char next[] =
    "{\"model_type\":\"qwen4_exp_text\",\"eos_token_id\":248044,\"head_dim\":256,"
    "\"hidden_act\":\"silu\",\"hidden_size\":2560,\"linear_key_head_dim\":128,"
    "\"linear_num_key_heads\":16,\"linear_num_value_heads\":48,\"linear_value_head_dim\":128,"
    "\"max_position_embeddings\":262144,\"moe_intermediate_size\":640,"
    "\"num_attention_heads\":24,\"num_experts\":512,\"num_experts_per_tok\":10,"
    "\"num_hidden_layers\":48,\"full_attention_interval\":4,\"num_key_value_heads\":2,"
    "\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"partial_rotary_factor\":0.25,"
    "\"rope_theta\":10000000,\"rope_type\":\"default\"},"
    "\"shared_expert_intermediate_size\":640,\"vocab_size\":248320,\"hc_count\":4,"
    "\"hc_lowrank\":320,\"indexer_n_heads\":4,\"indexer_kv_heads\":1,"
    "\"indexer_head_dim\":128,\"indexer_budget\":2048,\"indexer_compress_ratio\":4,"
    "\"ple_layer_ids\":[2],\"ple_embed_dim\":2560,\"ple_conv_kernel_size\":4,"
    "\"ngram_size\":3,\"heads_per_ngram\":8,\"ngram_vocab_size_base\":20000000,"
    "\"make_ngram_vocab_size_divisible_by\":128,\"split_ngram_parts\":128,"
    "\"output_gate_type\":\"sigmoid\"}";

/* A small text-only model, flat, in the older spelling. */
static const char flat[] =
    "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":128,\"intermediate_size\":320,"
    "\"num_hidden_layers\":8,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"head_dim\":128,\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
    "\"linear_key_head_dim\":64,\"linear_value_head_dim\":64,\"rms_norm_eps\":1e-6,"
    "\"max_position_embeddings\":4096,\"rope_theta\":1e6,\"partial_rotary_factor\":0.5,"
    "\"rope_scaling\":null,\"vocab_size\":512,\"tie_word_embeddings\":true}";

static json_t *parse(const char *text)
{
    json_t *tree = NULL;
    tt_error err = {0};
    if (tt_json_parse(text, strlen(text), "config.json", &tree, &err) != TT_OK)
        fail_msg("%s", err.message);
    return tree;
}

static tt_status from_text(const char *text, tt_arch *out, tt_error *err)
{
    json_t *tree = parse(text);
    tt_status st = tt_arch_from_config(tree, "config.json", out, err);
    json_decref(tree);
    return st;
}

/* `base` with `member` ("\"key\":value") put into its text part; a null value removes the key. */
static json_t *changed(const char *base, const char *member)
{
    char text[600];
    snprintf(text, sizeof text, "{%s}", member);
    json_t *tree = parse(base), *patch = parse(text);
    json_t *inner = json_object_get(tree, "text_config");
    json_object_update_recursive(inner != NULL ? inner : tree, patch);
    json_decref(patch);
    return tree;
}

static void refused(const char *base, const char *member, tt_status want, const char *words)
{
    json_t *tree = changed(base, member);
    tt_arch arch, before;
    tt_error err = {0};
    memset(&arch, 77, sizeof arch);
    memcpy(&before, &arch, sizeof arch);
    tt_status got = tt_arch_from_config(tree, "config.json", &arch, &err);
    if (got != want || strstr(err.message, words) == NULL)
        print_message("%s: got %s \"%s\"\n", member, tt_status_name(got), err.message);
    assert_int_equal(got, want);
    assert_non_null(strstr(err.message, words));
    assert_string_equal(err.file, "config.json");
    assert_memory_equal(&arch, &before, sizeof arch);
    json_decref(tree);
}

static void load(const char *path, tt_arch *out)
{
    json_t *tree = NULL;
    tt_error err = {0};
    if (tt_json_load(path, TT_MAX_CONFIG_JSON, &tree, &err) != TT_OK ||
        tt_arch_from_config(tree, path, out, &err) != TT_OK)
        fail_msg("%s: %s", path, err.message);
    json_decref(tree);
}

static void reads_the_35b(void **state)
{
    tt_arch a;
    assert_int_equal(from_text(big, &a, NULL), TT_OK);
    assert_int_equal(a.family, TT_FAMILY_QWEN3_5_MOE);
    assert_true(tt_arch_is_moe(&a));
    assert_int_equal(a.hidden_size, 2048);
    assert_int_equal(a.n_layers, 40);
    assert_int_equal(a.vocab_size, 248320);
    assert_int_equal(a.max_position, 262144);
    assert_int_equal(a.n_heads, 16);
    assert_int_equal(a.n_kv_heads, 2);
    assert_int_equal(a.head_dim, 256);
    assert_int_equal(tt_arch_key_dim(&a), 2048);
    assert_int_equal(tt_arch_value_dim(&a), 4096);
    assert_int_equal(tt_arch_conv_dim(&a), 8192);
    assert_int_equal(a.conv_kernel, 4);
    assert_int_equal(a.n_experts, 256);
    assert_int_equal(a.top_k, 8);
    assert_int_equal(a.moe_intermediate, 512);
    assert_int_equal(a.shared_intermediate, 512);
    assert_int_equal(a.intermediate, 0);
    assert_true(a.rope_theta == 1e7 && a.partial_rotary == 0.25 && a.rms_eps == 1e-6);
    assert_true(a.yarn_factor == 1 && a.yarn_original_context == 0);
    assert_false(a.tied_head);
    assert_true(a.norm_offset && a.mtp_norm_offset);
    assert_int_equal(a.n_mtp_layers, 1);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(a.layer_kind[i], i % 4 == 3 ? TT_LAYER_FULL : TT_LAYER_LINEAR);
}

static void reads_a_flat_dense_config(void **state)
{
    tt_arch a;
    assert_int_equal(from_text(flat, &a, NULL), TT_OK);
    assert_int_equal(a.family, TT_FAMILY_QWEN3_5);
    assert_false(tt_arch_is_moe(&a));
    assert_int_equal(a.intermediate, 320);
    assert_true(a.rope_theta == 1e6 && a.partial_rotary == 0.5);
    assert_true(a.tied_head);
    assert_int_equal(a.n_mtp_layers, 0);
    assert_int_equal(a.layer_kind[7], TT_LAYER_FULL);
    assert_int_equal(a.layer_kind[6], TT_LAYER_LINEAR);
}

static void reads_flash_next(void **state)
{
    tt_arch a;
    assert_int_equal(from_text(next, &a, NULL), TT_OK);
    assert_int_equal(a.family, TT_FAMILY_QWEN4_EXP);
    assert_int_equal(a.streams, 4);
    assert_int_equal(tt_arch_residual(&a), 10240);
    assert_int_equal(a.ngram_layer, 1); /* counted from 1 in the config */
    assert_int_equal(a.ngram_rows, 320001536);
    assert_int_equal(tt_arch_ngrams(&a), 16);
    assert_int_equal(tt_arch_ngram_cols(&a), 160);
    assert_int_equal(a.ngram_eos, 248044);
    assert_int_equal(a.layer_kind[47], TT_LAYER_FULL);
    load("tests/vectors/qwen4exp-made/config.json", &a);
    assert_int_equal(a.ngram_rows, 432);
    assert_int_equal(a.layer_kind[3], TT_LAYER_FULL);
}

static void refuses_what_flash_next_is_not(void **state)
{
    const tt_status no = TT_ERR_UNSUPPORTED, bad = TT_ERR_FORMAT;
    tt_arch a, b;
    json_t *tree = changed(next, "\"num_hidden_layers\":4,\"layer_types\":[\"linear_attention\","
                                 "\"linear_attention\",\"linear_attention\",\"full_attention\"]"),
           *sparse = changed(next, "\"num_hidden_layers\":4,\"layer_types\":[\"linear_attention\","
                                   "\"linear_attention\",\"linear_attention\","
                                   "\"qwen_sparse_attention\"]");
    assert_int_equal(tt_arch_from_config(tree, "config.json", &a, NULL), TT_OK);
    assert_int_equal(tt_arch_from_config(sparse, "config.json", &b, NULL), TT_OK);
    assert_memory_equal(&a, &b, sizeof a); /* two names of one kind */
    json_decref(tree);
    json_decref(sparse);
    refused(next, "\"output_gate_type\":\"swish\"", no, "output_gate_type \"swish\"");
    refused(next, "\"output_gate_type\":null", bad, "output_gate_type");
    refused(next, "\"ple_layer_ids\":[2,3]", no, "ple_layer_ids");
    refused(next, "\"ple_layer_ids\":[0]", no, "ple_layer_ids");
    refused(next, "\"ple_layer_ids\":[49]", no, "ple_layer_ids");
    refused(next, "\"ple_layer_ids\":null", no, "ple_layer_ids");
    refused(next, "\"ple_conv_kernel_size\":3", no, "ple_conv_kernel_size 3");
    refused(next, "\"indexer_kv_heads\":2", no, "indexer_kv_heads 2");
    refused(next, "\"indexer_compress_ratio\":3", bad, "indexer_block 3");
    refused(next, "\"indexer_budget\":2047", bad, "indexer_budget 2047");
    refused(next, "\"indexer_budget\":1048576", bad, "indexer_budget 1048576");
    refused(next, "\"indexer_head_dim\":32", bad, "indexer_dim 32");
    refused(next, "\"hc_count\":9", TT_ERR_LIMIT, "hc_count");
    refused(next, "\"ngram_size\":1", TT_ERR_LIMIT, "ngram_size");
    refused(next, "\"heads_per_ngram\":1000", bad, "heads of n-grams");
    refused(next, "\"heads_per_ngram\":7", bad, "ngram_dim 2560");
    refused(next, "\"ngram_vocab_size_base\":1000000000", bad, "n-gram table would have");
}

static void reads_the_shipped_configs(void **state)
{
    tt_arch a;
    load("models/tales/config.json", &a);
    assert_int_equal(a.family, TT_FAMILY_QWEN3_5_MOE);
    assert_int_equal(a.n_layers, 8);
    assert_int_equal(a.n_mtp_layers, 1);
    assert_int_equal(a.n_experts, 32);
    load("tests/vectors/dense-random-tied/config.json", &a);
    assert_int_equal(a.family, TT_FAMILY_QWEN3_5);
    assert_true(a.tied_head);
    load("tests/vectors/moe-random/config.json", &a);
    assert_int_equal(a.top_k, 8);
    assert_true(a.yarn_factor == 1);
    load("tests/vectors/moe-yarn/config.json", &a);
    assert_true(a.yarn_factor == 4);
    assert_int_equal(a.yarn_original_context, 64);
    assert_int_equal(a.max_position, 256);
}

/* The record of `base` after a change that must be accepted. */
static tt_arch accepted(const char *base, const char *member)
{
    json_t *tree = changed(base, member);
    tt_arch a;
    tt_error err = {0};
    if (tt_arch_from_config(tree, "config.json", &a, &err) != TT_OK)
        fail_msg("%s: %s", member, err.message);
    json_decref(tree);
    return a;
}

static void reads_other_spellings(void **state)
{
    tt_arch a = accepted(flat, "\"full_attention_interval\":3");
    assert_int_equal(a.layer_kind[2], TT_LAYER_FULL);
    assert_int_equal(a.layer_kind[3], TT_LAYER_LINEAR);
    /* layer_types wins over the interval */
    a = accepted(flat, "\"num_hidden_layers\":2,\"full_attention_interval\":2,"
                       "\"layer_types\":[\"full_attention\",\"linear_attention\"]");
    assert_int_equal(a.layer_kind[0], TT_LAYER_FULL);
    assert_int_equal(a.layer_kind[1], TT_LAYER_LINEAR);
    const char *yarn[] = {
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
        "\"original_max_position_embeddings\":1024}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"beta_fast\":32,"
        "\"attention_factor\":1.138629436,\"original_max_position_embeddings\":1024}",
        "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"rope_theta\":1e6,"
        "\"original_max_position_embeddings\":1024,\"partial_rotary_factor\":0.5}",
    };
    for (size_t i = 0; i < 3; i++) {
        a = accepted(flat, yarn[i]);
        assert_true(a.yarn_factor == 4 && a.yarn_original_context == 1024);
        assert_true(a.rope_theta == 1e6 && a.partial_rotary == 0.5);
    }
    a = accepted(flat, "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":1,"
                       "\"original_max_position_embeddings\":1024}");
    assert_true(a.yarn_factor == 1 && a.yarn_original_context == 0);
    a = accepted(flat, "\"rope_parameters\":{\"rope_theta\":5e6}");
    assert_true(a.rope_theta == 5e6 && a.partial_rotary == 0.5);
    a = accepted(big, "\"tie_word_embeddings\":true"); /* the root has the last word */
    assert_false(a.tied_head);
    a = accepted(flat, "\"num_experts\":0,\"layer_types\":null,\"norm_topk_prob\":false,"
                       "\"output_gate_type\":\"swish\"");
    assert_int_equal(a.n_experts, 0);
}

static void a_root_without_ties_asks_the_text_part(void **state)
{
    json_t *tree = changed(big, "\"tie_word_embeddings\":true");
    tt_arch a;
    json_object_del(tree, "tie_word_embeddings");
    assert_int_equal(tt_arch_from_config(tree, "config.json", &a, NULL), TT_OK);
    assert_true(a.tied_head);
    json_decref(tree);
}

static void refuses_by_name(void **state)
{
    tt_arch a;
    json_t *tree = NULL;
    tt_error err = {0};
    const tt_status no = TT_ERR_UNSUPPORTED;
    refused(big, "\"num_hidden_layers\":1,\"layer_types\":[\"qwen_sparse_attention\"]", no,
            "qwen_sparse_attention");
    refused(flat, "\"model_type\":\"qwen3_next\"", no, "\"qwen3_next\" is not supported");
    refused(flat, "\"model_type\":\"qwen3_5_other\"", no, "\"qwen3_5_other\" is not supported");
    refused(flat, "\"model_type\":\"qwen3\"", no, "\"qwen3\" is not supported");
    refused(flat, "\"model_type\":null", TT_ERR_FORMAT, "\"model_type\" is missing");
    refused(big, "\"model_type\":\"qwen3_5_text\"", TT_ERR_FORMAT, "\"qwen3_5_text\" in text");
    refused(big, "\"hidden_act\":\"gelu\"", no, "hidden_act \"gelu\"");
    refused(big, "\"attention_bias\":true", no, "attention_bias true");
    refused(big, "\"attn_output_gate\":false", no, "attn_output_gate false");
    refused(big, "\"linear_conv_kernel_dim\":3", no, "linear_conv_kernel_dim 3");
    refused(big, "\"mlp_only_layers\":[0]", no, "mlp_only_layers");
    refused(big, "\"decoder_sparse_step\":2", no, "decoder_sparse_step 2");
    refused(big, "\"mtp_use_dedicated_embeddings\":true", no, "mtp_use_dedicated_embeddings");
    refused(flat, "\"rope_scaling\":{\"type\":\"linear\"}", no, "rope_type \"linear\"");
    refused(big, "\"rope_parameters\":{\"rope_type\":\"llama3\"}", no, "rope_type \"llama3\"");
    refused(big, "\"layer_types\":[\"full_attention\"]", TT_ERR_FORMAT, "num_hidden_layers = 40");
    refused(flat,
            "\"num_hidden_layers\":2,"
            "\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
            no, "layer_types[1] \"sliding_attention\"");
    refused(flat, "\"num_hidden_layers\":1,\"layer_types\":[3]", TT_ERR_FORMAT, "layer_types[0]");
    if (tt_json_parse("[]", 2, "config.json", &tree, NULL) != TT_OK)
        fail();
    assert_int_equal(tt_arch_from_config(tree, "config.json", &a, &err), TT_ERR_FORMAT);
    json_decref(tree);
    assert_int_equal(from_text("{\"text_config\":[]}", &a, &err), TT_ERR_FORMAT);
    assert_int_equal(from_text("{}", &a, &err), TT_ERR_FORMAT);
}

static void refuses_other_yarn(void **state)
{
#define YARN(more)                                                                                 \
    "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"                                    \
    "\"original_max_position_embeddings\":262144" more "}"
    accepted(big, YARN(""));
    refused(big, YARN(",\"beta_fast\":16"), TT_ERR_UNSUPPORTED, "beta_fast 16");
    refused(big, YARN(",\"beta_slow\":2"), TT_ERR_UNSUPPORTED, "beta_slow 2");
    refused(big, YARN(",\"attention_factor\":1"), TT_ERR_UNSUPPORTED, "attention_factor 1 ");
    refused(big, YARN(",\"truncate\":false"), TT_ERR_UNSUPPORTED, "truncate false");
    refused(big, YARN(",\"mscale\":1"), TT_ERR_UNSUPPORTED, "mscale of YaRN");
    refused(big, "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4}", TT_ERR_FORMAT,
            "\"original_max_position_embeddings\" is missing");
    refused(big,
            "\"rope_parameters\":{\"rope_type\":\"yarn\",\"original_max_position_embeddings\":9}",
            TT_ERR_FORMAT, "\"factor\" is missing");
    refused(big, "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":0.5}", TT_ERR_LIMIT,
            "\"factor\" is 0.5");
    refused(big, "\"rope_scaling\":{\"type\":\"yarn\"}", TT_ERR_FORMAT, "rope_scaling \"yarn\"");
}

static void refuses_numbers_that_cannot_be(void **state)
{
    static const char *const sizes[] = {"hidden_size",
                                        "num_hidden_layers",
                                        "vocab_size",
                                        "max_position_embeddings",
                                        "num_attention_heads",
                                        "num_key_value_heads",
                                        "head_dim",
                                        "linear_num_key_heads",
                                        "linear_num_value_heads",
                                        "linear_key_head_dim",
                                        "linear_value_head_dim",
                                        "num_experts",
                                        "num_experts_per_tok",
                                        "moe_intermediate_size",
                                        "shared_expert_intermediate_size"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char member[100];
        snprintf(member, sizeof member, "\"%s\":0", sizes[i]);
        refused(big, member, TT_ERR_LIMIT, sizes[i]);
        snprintf(member, sizeof member, "\"%s\":4294967297", sizes[i]);
        refused(big, member, TT_ERR_LIMIT, sizes[i]);
        snprintf(member, sizeof member, "\"%s\":\"8\"", sizes[i]);
        refused(big, member, TT_ERR_FORMAT, sizes[i]);
        snprintf(member, sizeof member, "\"%s\":null", sizes[i]);
        refused(big, member, TT_ERR_FORMAT, sizes[i]);
    }
    refused(big, "\"num_key_value_heads\":3", TT_ERR_FORMAT, "multiple of n_kv_heads");
    refused(big, "\"linear_num_key_heads\":3", TT_ERR_FORMAT, "multiple of lin_key_heads");
    refused(big, "\"num_experts_per_tok\":9,\"num_experts\":8", TT_ERR_FORMAT, "top_k 9");
    refused(big, "\"rms_norm_eps\":0", TT_ERR_LIMIT, "rms_norm_eps");
    refused(big, "\"rope_parameters\":{\"rope_theta\":0}", TT_ERR_LIMIT, "rope_theta");
    refused(big, "\"rope_parameters\":{\"partial_rotary_factor\":0.253}", TT_ERR_FORMAT, "even");
    refused(big, "\"rope_parameters\":{\"partial_rotary_factor\":1.5}", TT_ERR_LIMIT, "1.5");
    refused(big, "\"rope_parameters\":7", TT_ERR_FORMAT, "\"rope_parameters\" must be an object");
    refused(flat, "\"rope_theta\":null", TT_ERR_FORMAT, "\"rope_theta\" must be a number");
    refused(flat, "\"num_experts\":8", TT_ERR_FORMAT, "num_experts is 8 in a dense model");
    refused(flat, "\"intermediate_size\":null", TT_ERR_FORMAT,
            "\"intermediate_size\" must be an integer");
    refused(flat, "\"full_attention_interval\":0", TT_ERR_LIMIT, "full_attention_interval");
    refused(big, "\"mtp_num_hidden_layers\":2", TT_ERR_LIMIT, "mtp_num_hidden_layers");
}

/* ---- manifests ---- */

static void there_and_back(const tt_arch *a)
{
    json_t *obj = NULL, *again = NULL, *last = NULL;
    tt_arch b;
    tt_error err = {0};
    assert_int_equal(tt_arch_to_json(a, &obj, NULL), TT_OK);
    char *text = json_dumps(obj, JSON_SORT_KEYS);
    assert_int_equal(tt_json_parse(text, strlen(text), "manifest.json", &again, NULL), TT_OK);
    if (tt_arch_from_json(again, "manifest.json", &b, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(tt_arch_to_json(&b, &last, NULL), TT_OK);
    assert_true(json_equal(obj, last));
    assert_memory_equal(a->layer_kind, b.layer_kind, sizeof b.layer_kind);
    free(text);
    json_decref(last);
    json_decref(obj);
    json_decref(again);
}

static void a_manifest_keeps_everything(void **state)
{
    static const char *const paths[] = {
        "models/tales/config.json", "tests/vectors/dense-random-tied/config.json",
        "tests/vectors/moe-random/config.json", "tests/vectors/moe-yarn/config.json"};
    tt_arch a;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        load(paths[i], &a);
        there_and_back(&a);
        a.norm_offset = false;
        a.tied_head = !a.tied_head;
        there_and_back(&a);
    }
    assert_int_equal(from_text(big, &a, NULL), TT_OK);
    there_and_back(&a);
    assert_int_equal(from_text(next, &a, NULL), TT_OK);
    there_and_back(&a);
}

static void a_manifest_has_every_key_and_no_other(void **state)
{
    const char *const bases[] = {big, flat, next};
    const size_t keys[] = {27, 24, 39};
    for (int i = 0; i < 3; i++) {
        tt_arch a, b;
        tt_error err = {0};
        json_t *obj = NULL, *copy, *value;
        const char *key;
        assert_int_equal(from_text(bases[i], &a, NULL), TT_OK);
        assert_int_equal(tt_arch_to_json(&a, &obj, NULL), TT_OK);
        assert_int_equal(json_object_size(obj), keys[i]);
        json_object_foreach(obj, key, value)
        {
            copy = json_copy(obj);
            json_object_del(copy, key);
            assert_int_equal(tt_arch_from_json(copy, "manifest.json", &b, &err), TT_ERR_FORMAT);
            assert_non_null(strstr(err.message, key));
            json_object_set_new(copy, key, json_string("x"));
            assert_int_not_equal(tt_arch_from_json(copy, "manifest.json", &b, &err), TT_OK);
            json_decref(copy);
        }
        json_object_set_new(obj, "top_p", json_integer(1));
        assert_int_equal(tt_arch_from_json(obj, "manifest.json", &b, &err), TT_ERR_FORMAT);
        assert_non_null(strstr(err.message, "\"top_p\" is unknown"));
        json_decref(obj);
    }
}

static void a_bad_record_is_not_written(void **state)
{
    tt_arch a, good;
    tt_error err = {0};
    json_t *obj = NULL;
    assert_int_equal(from_text(big, &good, NULL), TT_OK);
    a = good;
    a.family = TT_FAMILY_QWEN4_EXP;
    assert_int_equal(tt_arch_to_json(&a, &obj, &err), TT_ERR_LIMIT); /* no streams */
    a.family = (tt_family)9;
    assert_int_equal(tt_arch_to_json(&a, &obj, &err), TT_ERR_FORMAT);
    a = good;
    a.intermediate = 5;
    assert_int_equal(tt_arch_to_json(&a, &obj, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "intermediate is 5"));
    a = good;
    a.layer_kind[3] = 2;
    assert_int_equal(tt_arch_to_json(&a, &obj, &err), TT_ERR_FORMAT);
    a = good;
    a.yarn_factor = 2;
    assert_int_equal(tt_arch_to_json(&a, &obj, &err), TT_ERR_FORMAT);
    a = good;
    a.rms_eps = 0.0 / 0.0;
    assert_int_equal(tt_arch_to_json(&a, &obj, &err), TT_ERR_LIMIT);
    assert_null(obj);
    assert_string_equal(tt_family_name(TT_FAMILY_QWEN3_5_MOE), "qwen3_5_moe");
    assert_string_equal(tt_family_name((tt_family)0), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_35b),
        cmocka_unit_test(reads_a_flat_dense_config),
        cmocka_unit_test(reads_flash_next),
        cmocka_unit_test(refuses_what_flash_next_is_not),
        cmocka_unit_test(reads_the_shipped_configs),
        cmocka_unit_test(reads_other_spellings),
        cmocka_unit_test(a_root_without_ties_asks_the_text_part),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_other_yarn),
        cmocka_unit_test(refuses_numbers_that_cannot_be),
        cmocka_unit_test(a_manifest_keeps_everything),
        cmocka_unit_test(a_manifest_has_every_key_and_no_other),
        cmocka_unit_test(a_bad_record_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
