/* Proves that a plan finds every tensor of a checkpoint in its published spellings, gives it the
 * width of its role, and refuses unknown, doubled, missing, misshapen and unreadable ones by
 * name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "repack/checkpoint.h"
#include "repack/tensor_plan.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512];

static int setup(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

/* Writes the checkpoint and plans its conversion; *snap must be closed by the caller. */
static tt_status plan_it(const mini_options *o, const tt_policy *policy, mini_notes *notes,
                         tt_snapshot *snap, tt_repack_plan *plan, tt_error *err)
{
    mini_notes mine;
    tt_repack_events ev = mini_events(notes != NULL ? notes : &mine);
    tt_policy build4 = {.build_bits = 4};
    mini_write(dir, o);
    *err = (tt_error){0};
    *snap = (tt_snapshot){0};
    TT_TRY(tt_snapshot_open(dir, NULL, snap, err));
    return tt_repack_plan_create(snap->st, snap->config, snap->config_path,
                                 policy != NULL ? policy : &build4, &ev, plan, err);
}

static void refused(const mini_options *o, tt_status want, const char *words)
{
    tt_snapshot snap;
    tt_repack_plan plan = {0};
    tt_error err;
    tt_status st = plan_it(o, NULL, NULL, &snap, &plan, &err);
    if (st != want || strstr(err.message, words) == NULL)
        print_message("got %s \"%s\", wanted %s \"%s\"\n", tt_status_name(st), err.message,
                      tt_status_name(want), words);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.message, words));
    tt_snapshot_close(&snap);
}

static tt_dtype type_of(const tt_index *ix, const char *name)
{
    const tt_index_entry *e = tt_index_find(ix, name);
    assert_non_null(e);
    return e->dtype;
}

static void widths_follow_roles(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    mini_options o = mini_default();
    o.mtp = true;
    assert_int_equal(plan_it(&o, NULL, NULL, &snap, &p, &err), TT_OK);
    const tt_index *w = &p.weights;
    assert_int_equal(w->count, 3 + 11 + 8 + 2 * 5);
    assert_int_equal(type_of(w, "embed_tokens.weight"), TT_DTYPE_Q8);
    assert_int_equal(type_of(w, "lm_head.weight"), TT_DTYPE_Q8);
    assert_int_equal(type_of(w, "norm.weight"), TT_DTYPE_BF16);
    assert_int_equal(type_of(w, "layers.0.linear_attn.in_proj_qkv.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(w, "layers.0.linear_attn.in_proj_a.weight"), TT_DTYPE_BF16);
    assert_int_equal(type_of(w, "layers.0.linear_attn.conv1d.weight"), TT_DTYPE_BF16);
    assert_int_equal(type_of(w, "layers.1.self_attn.o_proj.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(w, "layers.1.mlp.gate.weight"), TT_DTYPE_BF16);
    assert_int_equal(type_of(w, "layers.1.mlp.shared_expert.up_proj.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(w, "layers.1.mlp.shared_expert_gate.weight"), TT_DTYPE_BF16);
    const tt_index_entry *conv = tt_index_find(w, "layers.0.linear_attn.conv1d.weight");
    assert_int_equal(conv->rank, 2);
    assert_int_equal(conv->shape[0], 128);
    assert_int_equal(conv->shape[1], 4);
    assert_int_equal(type_of(&p.mtp, "mtp.fc.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(&p.mtp, "mtp.layers.0.self_attn.q_proj.weight"), TT_DTYPE_Q4);
    assert_null(tt_index_find(w, "mtp.fc.weight"));
    assert_int_equal(p.experts.gate.dtype, TT_DTYPE_Q4);
    assert_int_equal(p.mtp_experts.n_experts, MINI_EXPERTS);
    assert_int_equal(p.arch.n_mtp_layers, 1);
    assert_true(p.arch.norm_offset);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
}

static void role_overrides_reach_their_tensors(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    mini_options o = mini_default();
    tt_policy policy = {.build_bits = 16};
    assert_int_equal(tt_policy_parse_roles("experts=8,router=4,delta-ab=8,head=4", &policy, &err),
                     TT_OK);
    assert_int_equal(plan_it(&o, &policy, NULL, &snap, &p, &err), TT_OK);
    assert_int_equal(p.experts.down.dtype, TT_DTYPE_Q8);
    assert_int_equal(type_of(&p.weights, "layers.0.mlp.gate.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(&p.weights, "layers.0.linear_attn.in_proj_b.weight"), TT_DTYPE_Q8);
    assert_int_equal(type_of(&p.weights, "lm_head.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(&p.weights, "embed_tokens.weight"), TT_DTYPE_BF16);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
}

static void rows_that_64_does_not_divide_stay(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    mini_notes notes;
    mini_options o = mini_default();
    o.width = 48;
    assert_int_equal(plan_it(&o, NULL, &notes, &snap, &p, &err), TT_OK);
    assert_int_equal(p.experts.gate.dtype, TT_DTYPE_Q4);
    assert_int_equal(p.experts.down.dtype, TT_DTYPE_BF16);
    assert_int_equal(type_of(&p.weights, "layers.0.mlp.shared_expert.down_proj.weight"),
                     TT_DTYPE_BF16);
    assert_int_equal(p.kept_tensors, 4); /* down of shared and routed experts, two layers */
    assert_non_null(
        strstr(notes.text, "shared_expert.down_proj.weight keeps its source precision"));
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
}

static void experts_are_filed_by_id(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    mini_options o = mini_default();
    o.layout = MINI_SINGLE;
    assert_int_equal(plan_it(&o, NULL, NULL, &snap, &p, &err), TT_OK);
    for (size_t l = 0; l < MINI_LAYERS; l++)
        for (uint32_t e = 0; e < MINI_EXPERTS; e++) {
            char name[128];
            snprintf(name, sizeof name,
                     "model.language_model.layers.%zu.mlp.experts.%u.up_proj.weight", l, e);
            assert_string_equal(tt_repack_plan_expert(&p, l, e, TT_MAT_UP)->values->name, name);
        }
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
    o.layout = MINI_FUSED;
    assert_int_equal(plan_it(&o, NULL, NULL, &snap, &p, &err), TT_OK);
    assert_int_equal(tt_repack_plan_expert(&p, 1, 2, TT_MAT_GATE)->first_row, 2 * 2 * MINI_WIDTH);
    assert_int_equal(tt_repack_plan_expert(&p, 1, 2, TT_MAT_UP)->first_row,
                     2 * 2 * MINI_WIDTH + MINI_WIDTH);
    assert_int_equal(tt_repack_plan_expert(&p, 1, 2, TT_MAT_DOWN)->first_row, 2 * MINI_HIDDEN);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
}

/* ---- what is wrong with one tensor ---- */

typedef struct change {
    const char *name; /* end of the canonical name */
    enum { SKIP, RENAME, DTYPE, RESHAPE, RANK } what;
    const char *to;
    uint64_t value;
} change;

static void apply(void *ctx, mini_tensor *t)
{
    const change *c = ctx;
    size_t n = strlen(t->canonical), m = strlen(c->name);
    if (n < m || strcmp(t->canonical + n - m, c->name) != 0)
        return;
    switch (c->what) {
    case SKIP:
        t->skip = true;
        break;
    case RENAME:
        strcpy(t->name, c->to);
        break;
    case DTYPE:
        t->dtype = (tt_st_dtype)c->value;
        break;
    case RESHAPE:
        t->shape[t->rank - 1] = c->value;
        break;
    case RANK:
        t->shape[t->rank++] = 1;
        break;
    }
}

static void one_wrong_tensor_is_named(void **state)
{
    static const struct {
        change c;
        mini_layout layout;
        tt_status status;
        const char *words;
    } cases[] = {
        {{"0.linear_attn.A_log", SKIP, NULL, 0},
         0,
         TT_ERR_NOT_FOUND,
         "\"layers.0.linear_attn.A_log\""},
        {{"norm.weight", SKIP, NULL, 0}, 0, TT_ERR_NOT_FOUND, "no tensor \""},
        {{"lm_head.weight", SKIP, NULL, 0}, 0, TT_ERR_NOT_FOUND, "\"lm_head.weight\""},
        {{"1.mlp.experts.down_proj", SKIP, NULL, 0},
         0,
         TT_ERR_NOT_FOUND,
         "down projection of expert 0 in layer 1"},
        {{"1.mlp.experts.2.up_proj.weight", SKIP, NULL, 0},
         MINI_SINGLE,
         TT_ERR_NOT_FOUND,
         "up projection of expert 2 in layer 1"},
        {{"0.mlp.switch_mlp.gate_proj.weight", SKIP, NULL, 0},
         MINI_STACKED,
         TT_ERR_NOT_FOUND,
         "gate projection of expert 0 in layer 0"},
        {{"1.self_attn.q_proj.weight", RENAME, "model.layers.1.self_attn.q_proj.bias", 0},
         0,
         TT_ERR_FORMAT,
         "\"model.layers.1.self_attn.q_proj.bias\""},
        {{"1.self_attn.q_proj.weight", RENAME, "model.layers.7.self_attn.q_proj.weight", 0},
         0,
         TT_ERR_FORMAT,
         "no such tensor"},
        {{"1.self_attn.q_proj.weight", RENAME, "transformer.h.1.q", 0},
         0,
         TT_ERR_FORMAT,
         "\"transformer.h.1.q\""},
        {{"0.mlp.experts.1.up_proj.weight", RENAME, "model.layers.0.mlp.experts.3.up_proj.weight",
          0},
         MINI_SINGLE,
         TT_ERR_FORMAT,
         "no such layer or expert"},
        {{"0.mlp.experts.1.up_proj.weight", RENAME, "model.layers.0.mlp.experts.01.up_proj.weight",
          0},
         MINI_SINGLE,
         TT_ERR_FORMAT,
         "experts.01"},
        {{"0.mlp.experts.1.up_proj.weight", RENAME, "model.layers.0.mlp.experts.2.up_proj.weight",
          0},
         MINI_SINGLE,
         TT_ERR_FORMAT,
         "gives the same weights"},
        {{"0.mlp.experts.1.up_proj.weight", RENAME,
          "model.layers.0.mlp.experts.4294967297.up_proj.weight", 0},
         MINI_SINGLE,
         TT_ERR_FORMAT,
         "4294967297"},
        {{"0.mlp.gate.weight", RENAME, "model.layers.1.mlp.gate.weight", 0},
         0,
         TT_ERR_FORMAT,
         "gives the same weights"},
        {{"0.mlp.gate.weight", DTYPE, NULL, TT_ST_I64},
         0,
         TT_ERR_UNSUPPORTED,
         "weights must be F32, F16, BF16"},
        {{"1.self_attn.k_proj.weight", DTYPE, NULL, TT_ST_F8_E4M3},
         0,
         TT_ERR_UNSUPPORTED,
         "F8_E4M3"},
        {{"1.self_attn.k_proj.weight", DTYPE, NULL, TT_ST_U32}, 0, TT_ERR_UNSUPPORTED, "k_proj"},
        {{"1.self_attn.k_proj.weight", RESHAPE, NULL, 63},
         0,
         TT_ERR_FORMAT,
         "[32 x 63], the config calls for [32 x 64]"},
        {{"1.self_attn.k_norm.weight", RESHAPE, NULL, 31}, 0, TT_ERR_FORMAT, "[31]"},
        {{"1.self_attn.k_norm.weight", RANK, NULL, 0}, 0, TT_ERR_FORMAT, "[32 x 1]"},
        {{"0.mlp.experts.gate_up_proj", RESHAPE, NULL, 32}, 0, TT_ERR_FORMAT, "[3 x 128 x 32]"},
        {{"0.linear_attn.conv1d.weight", RESHAPE, NULL, 3}, 0, TT_ERR_FORMAT, "conv1d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mini_options o = mini_default();
        change c = cases[i].c;
        o.layout = cases[i].layout;
        o.edit = apply;
        o.ctx = &c;
        refused(&o, cases[i].status, cases[i].words);
    }
}

static void mixed_expert_types_are_refused_when_they_would_differ(void **state)
{
    change c = {"1.mlp.experts.gate_up_proj", DTYPE, NULL, TT_ST_F16};
    mini_options o = mini_default();
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    o.edit = apply;
    o.ctx = &c;
    /* Quantized, they are all the same; at source precision they are not. */
    assert_int_equal(plan_it(&o, NULL, NULL, &snap, &p, &err), TT_OK);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
    tt_policy policy = {.build_bits = 16};
    assert_int_equal(plan_it(&o, &policy, NULL, &snap, &p, &err), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "layers.1.mlp.experts.gate_up_proj"));
    tt_snapshot_close(&snap);
}

/* ---- tied heads, drafts, vision ---- */

static void repeat_embeddings(void *ctx, mini_tensor *t)
{
    if (strcmp(t->name, "lm_head.weight") == 0)
        strcpy(t->canonical, ctx);
}

static void a_head_beside_tied_embeddings(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    mini_notes notes;
    mini_options o = mini_default();
    o.tied = true;
    o.extras[0] = (mini_tensor){.name = "lm_head.weight",
                                .canonical = "embed_tokens.weight",
                                .dtype = TT_ST_BF16,
                                .rank = 2,
                                .shape = {MINI_VOCAB, MINI_HIDDEN},
                                .bad_at = -1};
    assert_int_equal(plan_it(&o, NULL, &notes, &snap, &p, &err), TT_OK);
    assert_null(tt_index_find(&p.weights, "lm_head.weight"));
    assert_non_null(strstr(notes.text, "lm_head.weight repeats the embeddings"));
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
    o.edit = repeat_embeddings;
    o.ctx = "something else";
    refused(&o, TT_ERR_FORMAT, "another head");
    o.edit = NULL;
    o.extras[0].shape[0]++;
    refused(&o, TT_ERR_FORMAT, "another head");
}

static void drafts_are_counted_by_their_tensors(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    mini_options o = mini_default();
    /* A config may promise a draft that the files do not have. */
    o.mtp = true;
    change c = {"mtp.norm.weight", SKIP, NULL, 0};
    o.edit = apply;
    o.ctx = &c;
    refused(&o, TT_ERR_NOT_FOUND, "\"mtp.norm.weight\"");
    c = (change){"mtp.fc.weight", RENAME, "mtp.layers.1.fc.weight", 0};
    refused(&o, TT_ERR_FORMAT, "draft layers");
    o = mini_default();
    o.vision = true;
    assert_int_equal(plan_it(&o, NULL, NULL, &snap, &p, &err), TT_OK);
    assert_int_equal(p.arch.n_mtp_layers, 0);
    assert_int_equal(p.vision_tensors, 1);
    assert_int_equal(p.vision_bytes, 64);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
}

static void other_quantizations_are_refused_by_name(void **state)
{
    mini_options o = mini_default();
    o.quantization = "{\"quant_method\": \"awq\"}";
    refused(&o, TT_ERR_UNSUPPORTED, "\"awq\"");
    o.quantization = "{\"quant_method\": \"fp8\", \"weight_block_size\": [64, 128]}";
    refused(&o, TT_ERR_UNSUPPORTED, "128 x 128");
    o.quantization = "{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}";
    refused(&o, TT_ERR_UNSUPPORTED, "e5m2");
    o.quantization = "[]";
    refused(&o, TT_ERR_FORMAT, "must be an object");
}

/* ---- quantized input ---- */

static const char k_proj[] = "model.language_model.layers.1.self_attn.k_proj";

/* k_proj (32 x 64) as words with companions; every part may be made wrong. */
typedef struct packed {
    const char *quantization;
    tt_st_dtype words, scales, biases;
    uint64_t words_cols, scales_cols, biases_rows; /* biases_rows 0: no biases */
    bool no_scales;
} packed;

static const packed good = {
    "{\"group_size\": 64, \"bits\": 4}", TT_ST_U32, TT_ST_BF16, TT_ST_BF16, 8, 1, 32, false};

static void pack(void *ctx, mini_tensor *t)
{
    const packed *p = ctx;
    if (strcmp(t->canonical, "layers.1.self_attn.k_proj.weight") != 0)
        return;
    t->dtype = p->words;
    t->shape[1] = p->words_cols;
}

static mini_options packed_options(const packed *p)
{
    mini_options o = mini_default();
    o.quantization = p->quantization;
    o.edit = pack;
    o.ctx = (void *)p;
    if (!p->no_scales)
        o.extras[0] = (mini_tensor){.canonical = "s",
                                    .dtype = p->scales,
                                    .rank = 2,
                                    .shape = {32, p->scales_cols},
                                    .bad_at = -1};
    if (p->biases_rows != 0)
        o.extras[1] = (mini_tensor){.canonical = "b",
                                    .dtype = p->biases,
                                    .rank = 2,
                                    .shape = {p->biases_rows, 1},
                                    .bad_at = -1};
    if (!p->no_scales)
        snprintf(o.extras[0].name, sizeof o.extras[0].name, "%s.scales", k_proj);
    if (p->biases_rows != 0)
        snprintf(o.extras[1].name, sizeof o.extras[1].name, "%s.biases", k_proj);
    return o;
}

static void quantized_input_is_taken_as_it_is(void **state)
{
    tt_snapshot snap;
    tt_repack_plan p = {0};
    tt_error err;
    packed q = good;
    tt_policy none = {0};
    mini_options o = packed_options(&q);
    assert_int_equal(plan_it(&o, &none, NULL, &snap, &p, &err), TT_OK);
    assert_true(p.quantized_input);
    assert_int_equal(type_of(&p.weights, "layers.1.self_attn.k_proj.weight"), TT_DTYPE_Q4);
    /* The rest was left alone by whoever quantized it. */
    assert_int_equal(type_of(&p.weights, "layers.1.self_attn.v_proj.weight"), TT_DTYPE_BF16);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
    tt_policy build8 = {.build_bits = 8};
    assert_int_equal(plan_it(&o, &build8, NULL, &snap, &p, &err), TT_OK);
    assert_int_equal(type_of(&p.weights, "layers.1.self_attn.k_proj.weight"), TT_DTYPE_Q4);
    assert_int_equal(type_of(&p.weights, "layers.1.self_attn.v_proj.weight"), TT_DTYPE_Q8);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
    q.quantization = "{\"group_size\": 64, \"bits\": 4, "
                     "\"model.language_model.layers.1.self_attn.k_proj\": "
                     "{\"group_size\": 64, \"bits\": 8}}";
    q.words_cols = 16;
    o = packed_options(&q);
    assert_int_equal(plan_it(&o, &none, NULL, &snap, &p, &err), TT_OK);
    assert_int_equal(type_of(&p.weights, "layers.1.self_attn.k_proj.weight"), TT_DTYPE_Q8);
    tt_repack_plan_free(&p);
    tt_snapshot_close(&snap);
}

static void wrong_quantized_input_is_refused(void **state)
{
    struct {
        packed p;
        tt_status status;
        const char *words;
    } cases[16];
    size_t n = 0;
    for (n = 0; n < 11; n++)
        cases[n].p = good;
    n = 0;
#define CASE(change, st, text)                                                                     \
    do {                                                                                           \
        packed *q = &cases[n].p;                                                                   \
        change;                                                                                    \
        cases[n].status = st;                                                                      \
        cases[n++].words = text;                                                                   \
    } while (0)
    CASE(q->biases_rows = 0, TT_ERR_UNSUPPORTED, ".scales without .biases");
    CASE(q->no_scales = true, TT_ERR_FORMAT, ".biases without .scales");
    CASE(q->words = TT_ST_I32, TT_ERR_FORMAT, "not made of U32 words");
    CASE(q->quantization = NULL, TT_ERR_FORMAT, "the config has no \"quantization\"");
    CASE(q->words_cols = 16, TT_ERR_FORMAT, "[32 x 16], the config calls for [32 x 8]");
    CASE(q->scales_cols = 2, TT_ERR_FORMAT, "k_proj.scales\" has shape [32 x 2]");
    CASE(q->biases_rows = 31, TT_ERR_FORMAT, "k_proj.biases\" has shape [31 x 1]");
    CASE(q->scales = TT_ST_F16, TT_ERR_UNSUPPORTED, "must be BF16");
    CASE(q->biases = TT_ST_F16, TT_ERR_UNSUPPORTED, "must be BF16");
    CASE(q->quantization = "{\"group_size\": 64, \"bits\": 4, \"mode\": \"mxfp4\"}",
         TT_ERR_UNSUPPORTED, "\"mxfp4\"");
    CASE(q->quantization = "{\"group_size\": 32, \"bits\": 4}", TT_ERR_UNSUPPORTED, "groups of 32");
#undef CASE
    for (size_t i = 0; i < n; i++) {
        mini_options o = packed_options(&cases[i].p);
        refused(&o, cases[i].status, cases[i].words);
    }
    /* Companions of nothing. */
    mini_options o = mini_default();
    o.extras[0] = (mini_tensor){.name = "model.layers.1.self_attn.x_proj.scales",
                                .canonical = "s",
                                .dtype = TT_ST_BF16,
                                .rank = 1,
                                .shape = {1},
                                .bad_at = -1};
    refused(&o, TT_ERR_FORMAT, "x_proj.scales");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(widths_follow_roles, setup, teardown),
        cmocka_unit_test_setup_teardown(role_overrides_reach_their_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_that_64_does_not_divide_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(experts_are_filed_by_id, setup, teardown),
        cmocka_unit_test_setup_teardown(one_wrong_tensor_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(mixed_expert_types_are_refused_when_they_would_differ,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_beside_tied_embeddings, setup, teardown),
        cmocka_unit_test_setup_teardown(drafts_are_counted_by_their_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(other_quantizations_are_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(quantized_input_is_taken_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_quantized_input_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
