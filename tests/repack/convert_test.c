/* Proves that converted bytes are the quantizer's bytes of the source rows, for every type, cut and
 * spelling, that quantized input keeps its codes, scales and biases, and that values that are not
 * finite are refused with tensor and index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/install.h"
#include "format/quant.h"
#include "repack/convert.h"
#include "support/mini_install.h"
#include "support/mlx_writer.h"
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

/* What the scalar definition makes of a mini tensor's values. */
static void expect_rows(uint32_t bits, const char *canonical, uint64_t first, uint64_t rows,
                        uint64_t cols, const char *words, const char *scales, const char *biases)
{
    const uint64_t n = tt_quant_stored_rows(rows) * cols;
    float *w = malloc(rows * cols * sizeof *w);
    uint32_t *want_words = malloc(n * bits / 8);
    uint16_t *want_scales = malloc(n / 32), *want_biases = malloc(n / 32);
    for (uint64_t i = 0; i < rows * cols; i++)
        w[i] = mini_value(canonical, first * cols + i);
    assert_int_equal(
        tt_quant_encode_ref(bits, w, rows, cols, want_words, want_scales, want_biases, NULL),
        TT_OK);
    assert_memory_equal(words, want_words, n * bits / 8);
    assert_memory_equal(scales, want_scales, n / 32);
    assert_memory_equal(biases, want_biases, n / 32);
    free(w);
    free(want_words);
    free(want_scales);
    free(want_biases);
}

static void check_resident(const tt_install *in, const char *bytes, const char *name)
{
    const tt_index_entry *e = tt_index_find(tt_install_index(in), name);
    uint32_t bits = tt_dtype_bits(e->dtype);
    if (bits != 0)
        expect_rows(bits, name, 0, e->shape[0], e->shape[1], bytes + e->offset,
                    bytes + e->scales_offset, bytes + e->biases_offset);
    for (uint64_t i = 0; bits == 0 && i < e->bytes / tt_dtype_bytes(e->dtype); i++) {
        float want = mini_value(name, i), is;
        uint16_t h;
        memcpy(&h, bytes + e->offset + 2 * i, 2);
        memcpy(&is, bytes + e->offset + 4 * i, e->dtype == TT_DTYPE_F32 ? 4 : 0);
        if (e->dtype != TT_DTYPE_F32)
            is = e->dtype == TT_DTYPE_BF16 ? tt_bf16_to_f32(h) : tt_f16_to_f32(h);
        assert_true(is == want);
    }
}

static void check_expert(const tt_install *in, uint32_t layer, uint32_t expert)
{
    static const char *const names[3] = {"gate", "up", "down"};
    const tt_expert_layout *l = tt_install_expert_layout(in);
    const tt_expert_mat *mats[3] = {&l->gate, &l->up, &l->down};
    size_t len = 0;
    char *file = NULL, canonical[128];
    assert_int_equal(
        tt_file_read(tt_install_expert_path(in, layer, false), TT_GIB, &file, &len, NULL), TT_OK);
    const char *p = file + expert * l->stride;
    assert_int_equal(tt_crc32c(0, p, l->payload_bytes),
                     tt_install_expert_crc(in, layer, expert, false));
    for (int m = 0; m < 3; m++) {
        uint32_t bits = tt_dtype_bits(mats[m]->dtype);
        snprintf(canonical, sizeof canonical, "layers.%u.expert.%u.%s", layer, expert, names[m]);
        if (bits != 0)
            expect_rows(bits, canonical, 0, mats[m]->rows, mats[m]->cols, p + mats[m]->words_offset,
                        p + mats[m]->scales_offset, p + mats[m]->biases_offset);
        else
            assert_int_equal(mats[m]->words_bytes,
                             mats[m]->rows * mats[m]->cols * tt_dtype_bytes(mats[m]->dtype));
    }
    free(file);
}

static void every_type_becomes_the_quantizers_bytes(void **state)
{
    static const tt_st_dtype types[] = {TT_ST_BF16, TT_ST_F16, TT_ST_F32};
    for (int k = 0; k < 9; k++) {
        char path[600], name[32];
        mini_options o = mini_default();
        uint32_t bits = 4u << k % 3;
        o.dtype = types[k / 3];
        o.layout = (mini_layout)(k % 3);
        snprintf(name, sizeof name, "t%d", k);
        mini_install(dir, name, &o, bits, path);
        tt_install *in = NULL;
        size_t len = 0;
        assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, NULL), TT_OK);
        char *bytes = mini_slurp(path, TT_WEIGHTS_NAME, &len);
        check_resident(in, bytes, "embed_tokens.weight");
        check_resident(in, bytes, "lm_head.weight");
        check_resident(in, bytes, "norm.weight");
        check_resident(in, bytes, "layers.0.linear_attn.in_proj_qkv.weight");
        check_resident(in, bytes, "layers.0.linear_attn.conv1d.weight");
        check_resident(in, bytes, "layers.0.linear_attn.A_log");
        check_resident(in, bytes, "layers.1.self_attn.q_proj.weight");
        check_resident(in, bytes, "layers.1.mlp.shared_expert.down_proj.weight");
        check_expert(in, 0, 0);
        check_expert(in, 1, MINI_EXPERTS - 1);
        free(bytes);
        tt_install_close(&in);
    }
}

/* Scales of tensors that are too big to be held back come from passes of their own. */
static void tensors_of_any_size(void **state)
{
    char small[600], large[600];
    tt_error err = {0};
    snprintf(small, sizeof small, "%s/small", dir);
    snprintf(large, sizeof large, "%s/large", dir);
    tt_repack_options ro = {.input = "models/tales", .output = large, .threads = 2};
    ro.policy.role_bits[TT_ROLE_MTP_FC] =
        16; /* has the longest rows: a chunk is at least a panel */
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_OK);
    ro.output = small;
    ro.chunk_values = 8192; /* 12 x 8,192 bytes are held back; the embeddings have 128 KiB */
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_OK);
    assert_true(mini_same(small, large, "model_weights.bin"));
    assert_true(mini_same(small, large, "mtp_weights.bin"));
    assert_true(mini_same(small, large, "manifest.json"));
}

/* ---- quantized input ---- */

/* Rows [row, row + rows) of a tensor of a checkpoint are those at a place of the install, in
 * panels. */
static void same_rows(const tt_safetensors *st, const char *name, uint64_t row, uint64_t rows,
                      const char *is)
{
    const tt_st_tensor *t = tt_safetensors_find(st, name);
    assert_non_null(t);
    uint64_t per_row = t->shape[t->rank - 1];
    uint32_t unit = tt_st_dtype_bytes(t->dtype);
    char *want = malloc(rows * per_row * unit), *got = malloc(rows * per_row * unit);
    assert_int_equal(
        tt_safetensors_read(st, t, row * per_row * unit, want, rows * per_row * unit, NULL), TT_OK);
    tt_quant_from_panels(unit, rows, per_row, is, got);
    assert_memory_equal(got, want, rows * per_row * unit);
    free(want);
    free(got);
}

static void quantized_input_keeps_its_codes(void **state)
{
    char source[600], path[600];
    tt_error err = {0};
    snprintf(source, sizeof source, "%s/mlx", dir);
    snprintf(path, sizeof path, "%s/t", dir);
    assert_int_equal(
        tt_mlx_write("models/tales", "tests/vectors/tales-mlx-4bit/config.json", source, &err),
        TT_OK);
    assert_int_equal(mini_convert(source, path, 4, &err), TT_OK);
    tt_install *in = NULL;
    tt_safetensors *st = NULL;
    size_t len = 0;
    assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, &err), TT_OK);
    assert_int_equal(tt_safetensors_open_dir(source, &st, &err), TT_OK);
    assert_false(tt_install_arch(in)->norm_offset);
    char *bytes = mini_slurp(path, TT_WEIGHTS_NAME, &len);
    const tt_index_entry *e = tt_index_find(tt_install_index(in), "layers.1.mlp.gate.weight");
    assert_int_equal(e->dtype, TT_DTYPE_Q8);
    same_rows(st, "language_model.model.layers.1.mlp.gate.weight", 0, e->shape[0],
              bytes + e->offset);
    e = tt_index_find(tt_install_index(in), "embed_tokens.weight");
    assert_int_equal(e->dtype, TT_DTYPE_Q4);
    same_rows(st, "language_model.model.embed_tokens.weight", 0, e->shape[0], bytes + e->offset);
    same_rows(st, "language_model.model.embed_tokens.scales", 0, e->shape[0],
              bytes + e->scales_offset);
    same_rows(st, "language_model.model.embed_tokens.biases", 0, e->shape[0],
              bytes + e->biases_offset);
    free(bytes);
    bytes = mini_slurp(path, "packed_experts/layer_05.bin", &len);
    const tt_expert_layout *l = tt_install_expert_layout(in);
    const char *p = bytes + 7 * l->stride;
    const char *const stem = "language_model.model.layers.5.mlp.switch_mlp.down_proj";
    char name[128];
    snprintf(name, sizeof name, "%s.weight", stem);
    same_rows(st, name, 7 * l->down.rows, l->down.rows, p + l->down.words_offset);
    snprintf(name, sizeof name, "%s.biases", stem);
    same_rows(st, name, 7 * l->down.rows, l->down.rows, p + l->down.biases_offset);
    free(bytes);
    tt_safetensors_close(&st);
    tt_install_close(&in);
}

/* ---- not finite ---- */

typedef struct bad_value {
    const char *name;
    int64_t at;
} bad_value;

static void spoil(void *ctx, mini_tensor *t)
{
    const bad_value *b = ctx;
    if (strcmp(t->canonical, b->name) == 0)
        t->bad_at = b->at;
}

static void values_that_are_not_finite_are_refused(void **state)
{
    static const bad_value cases[] = {
        {"layers.0.linear_attn.A_log", 1},        {"layers.1.self_attn.k_norm.weight", 31},
        {"embed_tokens.weight", 64 * 64 - 1},     {"layers.1.mlp.gate.weight", 100},
        {"layers.1.mlp.experts.down_proj", 8191}, {"layers.0.mlp.experts.gate_up_proj", 0},
        {"layers.0.linear_attn.conv1d.weight", 7}};
    char source[600], path[600];
    snprintf(source, sizeof source, "%s/source", dir);
    snprintf(path, sizeof path, "%s/t", dir);
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bad_value b = cases[i / 2];
        mini_options o = mini_default();
        tt_error err = {0};
        char where[64];
        o.edit = spoil;
        o.ctx = &b;
        mini_write(source, &o);
        assert_int_equal(mini_convert(source, path, i % 2 ? 4 : 16, &err), TT_ERR_NUMERIC);
        snprintf(where, sizeof where, "(NaN) at index %lld", (long long)b.at);
        assert_non_null(strstr(err.message, b.name));
        assert_non_null(strstr(err.message, where));
        assert_non_null(strstr(err.file, "model.safetensors"));
        assert_false(tt_dir_exists(path));
    }
}

static void rows_longer_than_the_buffers_are_refused(void **state)
{
    char source[600], path[600];
    tt_error err = {0};
    mini_options o = mini_default();
    snprintf(source, sizeof source, "%s/source", dir);
    snprintf(path, sizeof path, "%s/t", dir);
    assert_int_equal(tt_dir_make(source, NULL), TT_OK);
    mini_write(source, &o);
    tt_repack_options ro = {
        .input = source, .output = path, .model_id = "m", .threads = 1, .chunk_values = 32};
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "rows of 64 values"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_type_becomes_the_quantizers_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(tensors_of_any_size, setup, teardown),
        cmocka_unit_test_setup_teardown(quantized_input_keeps_its_codes, setup, teardown),
        cmocka_unit_test_setup_teardown(values_that_are_not_finite_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_longer_than_the_buffers_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
