/* Proves that tests/support/mlx_writer rebuilds the MLX-style checkpoint byte for byte, and that
 * our reader, architecture and affine decoder understand what it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../support/mlx_writer.h"
#include "base/file.h"
#include "base/hash.h"
#include "format/arch.h"
#include "format/quant.h"
#include "format/safetensors.h"

/* SHA-256 of model.safetensors as the MLX conversion of models/tales gives it. */
#define PINNED "444868452daa038da8486fe8129c7bb50ca4cfd1c870ea2b99b725bd1cc7d940"
#define CONFIG "tests/vectors/tales-mlx-4bit/config.json"

static char dir[] = "/tmp/tt-mlx-XXXXXX";

static int write_once(void **state)
{
    tt_error err = {0};
    if (mkdtemp(dir) == NULL || tt_mlx_write("models/tales", CONFIG, dir, &err) != TT_OK) {
        print_error("%s: %s\n", err.file, err.message);
        return 1;
    }
    return 0;
}

static int remove_all(void **state)
{
    return tt_dir_remove(dir, NULL) != TT_OK;
}

static void path_of(const char *name, char *path)
{
    assert_int_equal(tt_path_join(path, dir, name, NULL), TT_OK);
}

static void has_the_pinned_digest(void **state)
{
    char path[TT_MAX_PATH], hex[TT_SHA256_HEX];
    uint64_t size = 0;
    path_of("model.safetensors", path);
    assert_int_equal(tt_file_sha256(path, hex, &size, NULL, NULL, NULL), TT_OK);
    assert_int_equal(size, 9816768);
    assert_string_equal(hex, PINNED);
}

static void is_a_whole_checkpoint(void **state)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json"};
    char path[TT_MAX_PATH];
    for (size_t i = 0; i < 3; i++) {
        path_of(names[i], path);
        assert_true(tt_file_exists(path));
    }
    json_t *config = NULL;
    tt_arch arch;
    path_of("config.json", path);
    assert_int_equal(tt_json_load(path, TT_MAX_CONFIG_JSON, &config, NULL), TT_OK);
    assert_int_equal(tt_arch_from_config(config, path, &arch, NULL), TT_OK);
    assert_int_equal(arch.n_experts, 32);
    json_decref(config);
}

static void *read_all(const tt_safetensors *st, const char *name, tt_st_dtype dtype,
                      const tt_st_tensor **t)
{
    *t = tt_safetensors_find(st, name);
    assert_non_null(*t);
    assert_int_equal((*t)->dtype, dtype);
    void *bytes = malloc((*t)->bytes);
    assert_int_equal(tt_safetensors_read(st, *t, 0, bytes, (*t)->bytes, NULL), TT_OK);
    return bytes;
}

/* Decodes a module and holds it against its bf16 source: within one step (the far end of a range
 * may be cut off) and what rounding the scale to bf16 moves. Scales of both signs must occur. */
static void compare_module(const tt_safetensors *mlx, const tt_safetensors *src, const char *stem,
                           const char *source, uint32_t bits)
{
    char name[128];
    const tt_st_tensor *tw, *ts, *tb, *t0;
    snprintf(name, sizeof name, "%s.weight", stem);
    uint32_t *words = read_all(mlx, name, TT_ST_U32, &tw);
    snprintf(name, sizeof name, "%s.scales", stem);
    uint16_t *scales = read_all(mlx, name, TT_ST_BF16, &ts);
    snprintf(name, sizeof name, "%s.biases", stem);
    uint16_t *biases = read_all(mlx, name, TT_ST_BF16, &tb);
    uint16_t *w = read_all(src, source, TT_ST_BF16, &t0);
    uint64_t rows = t0->shape[0], cols = t0->shape[1];
    assert_int_equal(tw->shape[1], cols * bits / 32);
    float *y = malloc(cols * sizeof *y);
    uint32_t *panels = malloc(tt_quant_stored_rows(rows) * cols * bits / 8);
    uint16_t *meta = malloc(tt_quant_stored_rows(rows) * cols / 64 * 4);
    uint16_t *panel_biases = meta + tt_quant_stored_rows(rows) * cols / 64;
    size_t negative = 0;
    tt_quant_to_panels(4, rows, cols * bits / 32, words, panels);
    tt_quant_to_panels(2, rows, cols / 64, scales, meta);
    tt_quant_to_panels(2, rows, cols / 64, biases, panel_biases);
    for (uint64_t r = 0; r < rows; r++) {
        const uint16_t *s = scales + r * cols / 64;
        tt_quant_decode(bits, panels, meta, panel_biases, cols, r, 0, cols, y);
        for (uint64_t c = 0; c < cols; c++) {
            float step = fabsf(tt_bf16_to_f32(s[c / 64]));
            float far = (float)(1u << bits) * step / 256.0f;
            assert_true(fabsf(y[c] - tt_bf16_to_f32(w[r * cols + c])) <= step + far);
            negative += c % 64 == 0 && tt_bf16_to_f32(s[c / 64]) < 0;
        }
    }
    assert_in_range(negative, 1, rows * cols / 64 - 1);
    free(words);
    free(scales);
    free(biases);
    free(w);
    free(y);
    free(panels);
    free(meta);
}

static void decodes_to_what_it_came_from(void **state)
{
    tt_safetensors *mlx = NULL, *src = NULL;
    assert_int_equal(tt_safetensors_open_dir(dir, &mlx, NULL), TT_OK);
    assert_int_equal(tt_safetensors_open_dir("models/tales", &src, NULL), TT_OK);
    assert_int_equal(tt_safetensors_count(mlx), 357);
    assert_null(tt_safetensors_index_path(mlx));
    compare_module(mlx, src, "language_model.lm_head", "lm_head.weight", 4);
    compare_module(mlx, src, "language_model.model.layers.3.self_attn.q_proj",
                   "model.language_model.layers.3.self_attn.q_proj.weight", 4);
    compare_module(mlx, src, "language_model.model.layers.5.mlp.gate",
                   "model.language_model.layers.5.mlp.gate.weight", 8);
    const tt_st_tensor *conv =
        tt_safetensors_find(mlx, "language_model.model.layers.0.linear_attn.conv1d.weight");
    assert_int_equal(conv->shape[1], 4);
    assert_int_equal(conv->shape[2], 1);
    tt_safetensors_close(&mlx);
    tt_safetensors_close(&src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_pinned_digest),
        cmocka_unit_test(is_a_whole_checkpoint),
        cmocka_unit_test(decodes_to_what_it_came_from),
    };
    return cmocka_run_group_tests(tests, write_once, remove_all);
}
