/* Proves conversions of qwen4_exp: every spelling of experts and of the n-gram table gives the same
 * install, shards stand in the order of their numbers, an fp8 table is widened by its factor,
 * widths follow the policy, and what is missing, doubled or of the wrong kind is refused by name;
 * an install of it is verified, held against its checkpoint, and written back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "repack/against.h"
#include "repack/export.h"
#include "repack/repack.h"
#include "repack/segments.h"
#include "repack/verify.h"
#include "support/made_checkpoint.h"
#include "support/tempdir.h"

static char dir[512];
static tt_error err;

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

static void must(tt_status st)
{
    if (st != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
}

static const char *place(const char *name)
{
    static char paths[8][600];
    static unsigned turn;
    char *p = paths[turn++ % 8];
    snprintf(p, 600, "%s/%s", dir, name);
    return p;
}

static tt_status convert(const made_options *o, const char *from, const char *to, uint32_t bits)
{
    const char *source = place(from);
    if (o != NULL) {
        must(tt_dir_make(source, &err));
        made_write(source, o);
    }
    tt_repack_options ro = {.input = source,
                            .output = place(to),
                            .model_id = "m",
                            .threads = 2,
                            .chunk_values = 8192,
                            .policy = {.build_bits = bits}};
    return tt_repack_run(&ro, NULL, NULL, &err);
}

static void same_file(const char *a, const char *b, const char *rel)
{
    char path[700], x[65], y[65];
    snprintf(path, sizeof path, "%s/%s", place(a), rel);
    must(tt_file_sha256(path, x, NULL, NULL, NULL, &err));
    snprintf(path, sizeof path, "%s/%s", place(b), rel);
    must(tt_file_sha256(path, y, NULL, NULL, NULL, &err));
    if (strcmp(x, y) != 0)
        fail_msg("%s of %s and %s differ", rel, a, b);
}

static void same_payload(const char *a, const char *b)
{
    static const char *const files[] = {TT_WEIGHTS_NAME, TT_NGRAM_NAME, TT_CRC_NAME,
                                        "packed_experts/layer_00.bin",
                                        "packed_experts/layer_03.bin"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        same_file(a, b, files[i]);
}

static void every_spelling_gives_the_same(void **state)
{
    made_options o = made_default();
    must(convert(&o, "fused", "fused.gturbo", 4));
    o.single = true;
    o.shards = 2;
    must(convert(&o, "single", "single.gturbo", 4));
    same_payload("fused.gturbo", "single.gturbo");
    o.shards = 0;
    must(convert(&o, "whole", "whole.gturbo", 4));
    same_payload("fused.gturbo", "whole.gturbo");
}

/* Row by row: what the table must be. */
static void check_table(const char *install, const made_options *o, tt_dtype dtype)
{
    tt_install *in = NULL;
    char path[TT_MAX_PATH], *bytes = NULL;
    size_t len = 0;
    must(tt_install_open(place(install), 0, NULL, NULL, &in, &err));
    const tt_ngram_layout *l = tt_install_ngram_layout(in);
    assert_non_null(l);
    assert_int_equal(l->dtype, dtype);
    assert_int_equal(l->rows, 432);
    assert_int_equal(l->cols, 8);
    must(tt_install_path(in, TT_NGRAM_NAME, path, &err));
    must(tt_file_read(path, 1 << 20, &bytes, &len, &err));
    assert_int_equal(len, l->file_bytes);
    for (uint64_t i = 0; i < l->rows * l->cols; i++) {
        uint16_t is;
        memcpy(&is, bytes + 2 * i, 2);
        float want = made_table_value(o, tt_install_arch(in), i);
        assert_int_equal(is, dtype == TT_DTYPE_F16 ? tt_f32_to_f16(want) : tt_f32_to_bf16(want));
    }
    for (size_t i = l->rows * l->row_bytes; i < len; i++)
        assert_int_equal(bytes[i], 0);
    free(bytes);
    tt_install_close(&in);
}

static void the_table_is_in_numeric_order(void **state)
{
    made_options o = made_default();
    must(convert(&o, "bf16", "bf16.gturbo", 16));
    check_table("bf16.gturbo", &o, TT_DTYPE_BF16);
    o.table = TT_ST_F16;
    must(convert(&o, "f16", "f16.gturbo", 16));
    check_table("f16.gturbo", &o, TT_DTYPE_F16);
    o.table = TT_ST_F8_E4M3;
    must(convert(&o, "fp8", "fp8.gturbo", 16));
    check_table("fp8.gturbo", &o, TT_DTYPE_BF16);
}

/* The cut for downloads writes the same table. */
static void segments_make_the_same_table(void **state)
{
    static const tt_st_dtype types[] = {TT_ST_BF16, TT_ST_F8_E4M3};
    for (int i = 0; i < 2; i++) {
        made_options o = made_default();
        tt_safetensors *st = NULL;
        json_t *config = NULL;
        tt_policy policy = {.build_bits = 16};
        tt_repack_plan plan = {0};
        tt_segments seg = {0};
        uint64_t covered = 0;
        o.table = types[i];
        must(tt_dir_make(place(i == 0 ? "s0" : "s1"), &err));
        made_write(place(i == 0 ? "s0" : "s1"), &o);
        must(tt_safetensors_open_dir(place(i == 0 ? "s0" : "s1"), &st, &err));
        must(tt_json_load(o.config, 1 << 20, &config, &err));
        must(tt_repack_plan_create(st, config, o.config, &policy, NULL, &plan, &err));
        must(tt_segments_create(st, &plan, 65536, 1024, &seg, &err));
        assert_string_equal(seg.files[seg.n_files - 1].rel, TT_NGRAM_NAME);
        for (size_t k = 0; k < seg.count; k++)
            covered += seg.items[k].file == seg.n_files - 1 ? seg.items[k].bytes : 0;
        assert_int_equal(covered, 432 * 8 * 2);
        tt_segments_free(&seg);
        tt_repack_plan_free(&plan);
        json_decref(config);
        tt_safetensors_close(&st);
    }
}

/* ---- widths ---- */

static const char wide_config[] = "wide.json";

/* The same model, wide enough for groups of 64. */
static void write_wide_config(void)
{
    static const char *const wider[] = {"hidden_size", "moe_intermediate_size", "ple_embed_dim",
                                        "shared_expert_intermediate_size", "hc_lowrank"};
    json_t *config = NULL;
    must(tt_json_load(made_default().config, 1 << 20, &config, &err));
    json_t *text = json_object_get(config, "text_config");
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
        json_object_set_new(text, wider[i], json_integer(64));
    char *dump = json_dumps(config, 0);
    must(tt_file_publish(place(wide_config), dump, strlen(dump), &err));
    free(dump);
    json_decref(config);
}

static void widths_follow_the_policy(void **state)
{
    static const struct {
        const char *name;
        tt_dtype is;
    } want[] = {{"layers.0.attn_hyper_connection.input_mix_weight_down.weight", TT_DTYPE_Q8},
                {"layers.0.mlp_hyper_connection.input_mix_weight_up.weight", TT_DTYPE_Q8},
                {"hyper_connection_mixer.input_mix_weight_up.weight", TT_DTYPE_Q8},
                {"layers.0.attn_hyper_connection.block_inject_weight.weight", TT_DTYPE_BF16},
                {"layers.3.self_attn.indexer.index_qk_proj.weight", TT_DTYPE_BF16},
                {"layers.1.ple.key_proj.weight", TT_DTYPE_BF16},
                {"layers.1.ple.value_proj.weight", TT_DTYPE_Q4},
                {"layers.1.ple.conv1d.weight", TT_DTYPE_BF16},
                {"layers.1.ple.norm_key.weight", TT_DTYPE_BF16},
                {"layers.1.ple.ple_embedding.ngram_heads_offsets", TT_DTYPE_I64},
                {"layers.3.self_attn.q_proj.weight", TT_DTYPE_Q4},
                {"layers.3.mlp.gate.weight", TT_DTYPE_BF16}};
    made_options o = made_default();
    tt_install *in = NULL;
    char config[600];
    write_wide_config();
    snprintf(config, sizeof config, "%s", place(wide_config));
    o.config = config;
    o.mtp = true;
    must(convert(&o, "wide", "wide.gturbo", 4));
    must(tt_install_open(place("wide.gturbo"), 0, NULL, NULL, &in, &err));
    assert_int_equal(tt_install_arch(in)->n_mtp_layers, 1);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const tt_index_entry *e = tt_index_find(tt_install_index(in), want[i].name);
        if (e == NULL || e->dtype != want[i].is)
            fail_msg("%s is %s", want[i].name, e != NULL ? tt_dtype_name(e->dtype) : "missing");
    }
    const tt_index *draft = tt_install_mtp_index(in);
    assert_non_null(tt_index_find(draft, "mtp.fc_hidden.weight"));
    assert_null(tt_index_find(draft, "mtp.norm.weight"));
    tt_install_close(&in);
}

/* ---- the whole way ---- */

static void verified_compared_and_written_back(void **state)
{
    made_options o = made_default();
    tt_verify_report v;
    tt_against_report a;
    tt_export_report x;
    char rel[700];
    o.mtp = true;
    must(convert(&o, "source", "made.gturbo", 8));
    must(tt_verify_run(place("made.gturbo"), true, 2, NULL, &v, &err));
    assert_int_equal(v.unlisted, 0);
    must(tt_against_run(place("made.gturbo"), place("source"), 0, 2, NULL, &a, &err));
    assert_int_equal(a.parts, a.compared);
    /* config.json stands among the tokenizer's files */
    must(tt_export_run(place("made.gturbo"), place("back"), NULL, &x, &err));
    must(convert(NULL, "back", "again.gturbo", 8));
    same_payload("made.gturbo", "again.gturbo");
    same_file("made.gturbo", "again.gturbo", TT_MTP_WEIGHTS_NAME);

    /* one bit of the table, and one of what stands behind it */
    snprintf(rel, sizeof rel, "%s/" TT_NGRAM_NAME, place("made.gturbo"));
    FILE *f = fopen(rel, "r+e");
    assert_non_null(f);
    assert_int_equal(fseek(f, 432 * 16 + 5, SEEK_SET), 0);
    assert_int_equal(fputc(1, f), 1);
    fclose(f);
    assert_int_equal(tt_verify_run(place("made.gturbo"), false, 2, NULL, &v, &err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "padding"));
    f = fopen(rel, "r+e");
    assert_int_equal(fseek(f, 432 * 16 + 5, SEEK_SET), 0);
    assert_int_equal(fputc(0, f), 0);
    assert_int_equal(fseek(f, 1000, SEEK_SET), 0);
    int was = fgetc(f);
    assert_int_equal(fseek(f, 1000, SEEK_SET), 0);
    assert_int_not_equal(fputc(was ^ 1, f), EOF);
    fclose(f);
    assert_int_equal(tt_verify_run(place("made.gturbo"), false, 2, NULL, &v, &err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, TT_NGRAM_NAME));
}

/* Installs of one checkpoint have one table, whose file they may share. */
static void tables_may_be_linked(void **state)
{
    made_options o = made_default();
    tt_verify_report v;
    tt_install *in = NULL;
    char a[700], b[700];
    must(convert(&o, "source", "a.gturbo", 16));
    must(convert(NULL, "source", "b.gturbo", 8));
    snprintf(a, sizeof a, "%s/" TT_NGRAM_NAME, place("a.gturbo"));
    snprintf(b, sizeof b, "%s/" TT_NGRAM_NAME, place("b.gturbo"));
    same_file("a.gturbo", "b.gturbo", TT_NGRAM_NAME);
    assert_int_equal(unlink(b), 0);
    assert_int_equal(link(a, b), 0);
    must(tt_verify_run(place("b.gturbo"), true, 2, NULL, &v, &err));
    must(tt_install_open(place("a.gturbo"), 0, NULL, NULL, &in, &err));
    tt_install_close(&in);
    must(tt_install_open(place("b.gturbo"), 0, NULL, NULL, &in, &err));
    assert_true(tt_install_has_receipt(in));
    tt_install_close(&in);
}

/* ---- refusals ---- */

typedef struct change {
    const char *name;   /* a part of the tensor's */
    const char *rename; /* NULL: unchanged */
    tt_st_dtype dtype;
    bool retype;
    int64_t rows; /* added */
} change;

static void edit(void *ctx, char *name, tt_st_dtype *dtype, uint64_t *rows)
{
    const change *c = ctx;
    if (strstr(name, c->name) == NULL)
        return;
    if (c->retype)
        *dtype = c->dtype;
    *rows += (uint64_t)c->rows;
    if (c->rename != NULL)
        snprintf(name, 256, "%s", c->rename);
}

static void refused(const change *c, tt_st_dtype table, tt_status want, const char *words)
{
    static unsigned n;
    char from[32], to[32];
    made_options o = made_default();
    o.table = table;
    o.edit = edit;
    o.ctx = (void *)(uintptr_t)c;
    snprintf(from, sizeof from, "r%u", n);
    snprintf(to, sizeof to, "r%u.gturbo", n++);
    tt_status st = convert(&o, from, to, 16);
    if (st != want || strstr(err.message, words) == NULL)
        fail_msg("%s: %s \"%s\", wanted \"%s\"", c->name, tt_status_name(st), err.message, words);
    assert_false(tt_dir_exists(place(to)));
}

static void broken_tables_are_refused(void **state)
{
    const tt_st_dtype bf16 = TT_ST_BF16, fp8 = TT_ST_F8_E4M3;
    refused(&(change){.name = "shard_7.", .rename = ""}, bf16, TT_ERR_NOT_FOUND, "no shard 7");
    refused(&(change){.name = "shard_11.", .rename = ""}, bf16, TT_ERR_FORMAT, "396 rows in 11");
    refused(&(change){.name = "shard_3.", .rows = 1}, bf16, TT_ERR_FORMAT, "433 rows");
    refused(&(change){.name = "shard_3.", .retype = true, .dtype = TT_ST_F16}, bf16,
            TT_ERR_UNSUPPORTED, "different types");
    refused(&(change){.name = "shard_", .retype = true, .dtype = TT_ST_I64}, bf16,
            TT_ERR_UNSUPPORTED, "must be BF16, F16 or fp8");
    refused(&(change){.name = "shard_3.",
                      .rename = "model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight"},
            bf16, TT_ERR_FORMAT, "gives the same weights");
    refused(&(change){.name = "shard_3.",
                      .rename = "model.layers.2.ple.ple_embedding.ngram_embedding.shard_3.weight"},
            bf16, TT_ERR_FORMAT, "no n-gram table there");
    refused(&(change){.name = "shard_3.",
                      .rename = "model.layers.1.ple.ple_embedding.ngram_embedding.shard_03.weight"},
            bf16, TT_ERR_FORMAT, "has no such tensor");
    refused(&(change){.name = "weight_scale", .rename = ""}, fp8, TT_ERR_NOT_FOUND,
            "no weight_scale");
    refused(&(change){.name = "ngram_heads_offsets", .retype = true, .dtype = TT_ST_BF16}, bf16,
            TT_ERR_UNSUPPORTED, "I64");
    refused(&(change){.name = "block_inject_weight", .rename = ""}, bf16, TT_ERR_NOT_FOUND,
            "block_inject_weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_spelling_gives_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(the_table_is_in_numeric_order, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_make_the_same_table, setup, teardown),
        cmocka_unit_test_setup_teardown(widths_follow_the_policy, setup, teardown),
        cmocka_unit_test_setup_teardown(verified_compared_and_written_back, setup, teardown),
        cmocka_unit_test_setup_teardown(tables_may_be_linked, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_tables_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
