#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "approx.h"
#include "base/file.h"
#include "base/hash.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/quant.h"
#include "repack/inventory.h"
#include "tempdir.h"

static void must(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("tiny model: %s: %s: %s", tt_status_name(st), err->file, err->message);
}

/* ---- architectures ---- */

static uint32_t between(tt_rng *r, uint32_t low, uint32_t high)
{
    return low + tt_rng_below(r, high - low + 1);
}

static uint32_t one_of(tt_rng *r, const uint32_t *list, uint32_t n)
{
    return list[tt_rng_below(r, n)];
}

static void draw_layers(tt_rng *r, tt_arch *a)
{
    uint32_t style = tt_rng_below(r, 4); /* 0 linear only, 1 full only, else mixed */
    a->n_layers = between(r, 1, 4);
    for (uint32_t l = 0; l < a->n_layers; l++)
        a->layer_kind[l] = style == 0   ? TT_LAYER_LINEAR
                           : style == 1 ? TT_LAYER_FULL
                                        : (uint8_t)tt_rng_below(r, 2);
}

static void draw_experts(tt_rng *r, tt_arch *a)
{
    static const uint32_t widths[] = {8, 33, 64, 64, 128};
    a->family = tt_rng_below(r, 3) == 0 ? TT_FAMILY_QWEN3_5 : TT_FAMILY_QWEN3_5_MOE;
    if (a->family == TT_FAMILY_QWEN3_5) {
        a->intermediate = one_of(r, widths, 5) + tt_rng_below(r, 2);
        return;
    }
    a->n_experts = between(r, 1, 20);
    a->top_k = between(r, 1, a->n_experts < 6 ? a->n_experts : 6);
    a->moe_intermediate = one_of(r, widths, 5);
    a->shared_intermediate = one_of(r, widths, 5);
}

tt_arch tiny_arch(uint64_t seed)
{
    static const uint32_t hidden[] = {24, 50, 64, 64, 96, 128, 192}, head[] = {16, 40, 64, 64, 128},
                          delta[] = {8, 20, 32, 64, 64};
    tt_rng r = {seed * 7919 + 1};
    tt_arch a = {.conv_kernel = 4, .max_position = 1024, .rope_theta = 1e4, .yarn_factor = 1};
    a.hidden_size = one_of(&r, hidden, 7);
    a.vocab_size = between(&r, 17, 300);
    draw_layers(&r, &a);
    a.n_kv_heads = between(&r, 1, 3);
    a.n_heads = a.n_kv_heads * between(&r, 1, 3);
    a.head_dim = one_of(&r, head, 5);
    a.partial_rotary = 2.0 * between(&r, 1, a.head_dim / 2) / a.head_dim;
    a.lin_key_heads = between(&r, 1, 3);
    a.lin_value_heads = a.lin_key_heads * between(&r, 1, 3);
    a.lin_key_dim = one_of(&r, delta, 5);
    a.lin_value_dim = one_of(&r, delta, 5);
    draw_experts(&r, &a);
    a.rms_eps = 1e-6;
    a.tied_head = tt_rng_below(&r, 2);
    a.norm_offset = tt_rng_below(&r, 2);
    a.mtp_norm_offset = a.norm_offset;
    return a;
}

tt_arch tiny_arch_streams(uint64_t seed)
{
    static const uint32_t blocks[] = {1, 2, 4, 8};
    tt_arch a = tiny_arch(seed);
    tt_rng r = {seed * 104729 + 3};
    uint32_t rotary = (uint32_t)(a.head_dim * a.partial_rotary + 0.5);
    a.family = TT_FAMILY_QWEN4_EXP;
    a.intermediate = 0;
    a.n_experts = between(&r, 2, 20);
    a.top_k = between(&r, 1, a.n_experts < 6 ? a.n_experts : 6);
    a.moe_intermediate = between(&r, 1, 2) * 33;
    a.shared_intermediate = between(&r, 1, 2) * 32;
    a.streams = between(&r, 1, 4);
    a.mix_rank = between(&r, 1, 2) * 32 + tt_rng_below(&r, 3);
    a.indexer_heads = between(&r, 1, 3);
    a.indexer_block = one_of(&r, blocks, 4);
    a.indexer_dim = (rotary + between(&r, 0, 20) + 7) / 8 * 8;
    a.indexer_budget = a.indexer_block * (seed % 2 == 0 ? between(&r, 1, 6) : 256);
    a.ngram_layer = tt_rng_below(&r, a.n_layers);
    a.ngram_size = between(&r, 2, 4);
    a.ngram_heads = between(&r, 1, 3);
    a.ngram_dim = tt_arch_ngrams(&a) * between(&r, 1, 20);
    a.ngram_rows = 61 * tt_arch_ngrams(&a) + tt_rng_below(&r, 9);
    a.ngram_eos = tt_rng_below(&r, a.vocab_size);
    return a;
}

/* What qwen4_exp has beside the rest. */
static void add_streams(tt_arch *a)
{
    a->family = TT_FAMILY_QWEN4_EXP;
    a->streams = 2;
    a->mix_rank = 64;
    a->indexer_heads = 2;
    a->indexer_dim = 32;
    a->indexer_budget = 32;
    a->indexer_block = 4;
    a->ngram_size = 3;
    a->ngram_heads = 2;
    a->ngram_dim = 64;
    a->ngram_rows = 250;
    a->ngram_eos = 5;
}

tt_arch tiny_arch_plain(const char *kinds, uint32_t experts, uint32_t top_k)
{
    bool streams = kinds[0] == 'S';
    kinds += streams;
    tt_arch a = {.family = experts > 0 ? TT_FAMILY_QWEN3_5_MOE : TT_FAMILY_QWEN3_5,
                 .hidden_size = 64,
                 .n_layers = (uint32_t)strlen(kinds),
                 .vocab_size = 96,
                 .max_position = 1024,
                 .n_heads = 2,
                 .n_kv_heads = 1,
                 .head_dim = 64,
                 .lin_key_heads = 1,
                 .lin_value_heads = 2,
                 .lin_key_dim = 32,
                 .lin_value_dim = 32,
                 .conv_kernel = 4,
                 .n_experts = experts,
                 .top_k = top_k,
                 .moe_intermediate = experts > 0 ? 64 : 0,
                 .shared_intermediate = experts > 0 ? 64 : 0,
                 .intermediate = experts > 0 ? 0 : 64,
                 .rope_theta = 1e4,
                 .partial_rotary = 0.25,
                 .yarn_factor = 1,
                 .rms_eps = 1e-6,
                 .norm_offset = true,
                 .mtp_norm_offset = true};
    for (uint32_t l = 0; l < a.n_layers; l++)
        a.layer_kind[l] = kinds[l] == 'f' ? TT_LAYER_FULL : TT_LAYER_LINEAR;
    if (streams)
        add_streams(&a);
    return a;
}

/* ---- values ---- */

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static void draw_values(tt_rng *r, const tt_arch *a, const char *name, float *v, size_t n,
                        uint64_t cols)
{
    bool norm = ends_with(name, "norm.weight");
    float base = norm && (!a->norm_offset || ends_with(name, "linear_attn.norm.weight")) ? 1 : 0;
    float scale = norm                               ? 0.1f
                  : ends_with(name, "conv1d.weight") ? 0.4f
                  : ends_with(name, "A_log")         ? 0.5f
                  : ends_with(name, "embed_tokens.weight")
                      ? 1.0f
                      : 1.0f / sqrtf((float)(cols > 0 ? cols : 1));
    for (size_t i = 0; i < n; i++)
        v[i] = base + scale * tt_rng_normal(r);
}

static tt_dtype draw_type(tt_rng *r, const tiny_options *o, bool matrix, uint64_t cols)
{
    static const tt_dtype plain[] = {TT_DTYPE_F32, TT_DTYPE_F16, TT_DTYPE_BF16};
    bool fits = matrix && cols % TT_GROUP == 0;
    if (o->mixed)
        return fits && tt_rng_below(r, 3) > 0 ? TT_DTYPE_Q4 + tt_rng_below(r, 2)
                                              : plain[tt_rng_below(r, 3)];
    if (!matrix || (tt_dtype_bits(o->mat) != 0 && !fits))
        return TT_DTYPE_BF16;
    return o->mat;
}

/* Integers of the n-gram hash: every head has 61 rows. */
static void draw_integers(const char *name, char *out, size_t n)
{
    static const int64_t multipliers[] = {1000003, 998244353, 2147483647, 4294967291};
    for (size_t i = 0; i < n; i++) {
        int64_t v = ends_with(name, "sizes")     ? 61
                    : ends_with(name, "offsets") ? 61 * (int64_t)i
                                                 : multipliers[i];
        memcpy(out + 8 * i, &v, 8);
    }
}

/* Encodes n values as `type` at words, scales, biases. */
static void encode(tt_dtype type, const float *v, size_t n, uint64_t cols, char *words,
                   char *scales, char *biases)
{
    tt_error err = {0};
    switch (type) {
    case TT_DTYPE_F32:
        memcpy(words, v, n * sizeof *v);
        return;
    case TT_DTYPE_F16:
    case TT_DTYPE_BF16:
        for (size_t i = 0; i < n; i++) {
            uint16_t h = type == TT_DTYPE_F16 ? tt_f32_to_f16(v[i]) : tt_f32_to_bf16(v[i]);
            memcpy(words + 2 * i, &h, 2);
        }
        return;
    case TT_DTYPE_Q4:
    case TT_DTYPE_Q8:
        must(tt_quant_encode(tt_dtype_bits(type), v, n / cols, cols, (void *)words, (void *)scales,
                             (void *)biases, NULL, &err),
             &err);
        return;
    default:
        memset(words, 0, n * 8);
    }
}

/* ---- files ---- */

typedef struct writer {
    const tiny_options *o;
    const char *dir;
    tt_rng rng;
    tt_install_file files[TT_MAX_LAYERS + 4];
    char rel[TT_MAX_LAYERS + 4][64], sha[TT_MAX_LAYERS + 4][65];
    size_t n_files;
} writer;

static void put_file(writer *w, const char *rel, const void *bytes, size_t n, bool listed)
{
    char path[700];
    tt_error err = {0};
    struct stat sb;
    snprintf(path, sizeof path, "%s/%s", w->dir, rel);
    FILE *f = fopen(path, "we");
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0 || stat(path, &sb) != 0)
        fail_msg("cannot write %s", path);
    if (!listed)
        return;
    size_t i = w->n_files++;
    snprintf(w->rel[i], sizeof w->rel[i], "%s", rel);
    must(tt_sha256_of(bytes, n, w->sha[i], &err), &err);
    w->files[i] =
        (tt_install_file){.rel = w->rel[i],
                          .size = n,
                          .sha256 = w->sha[i],
                          .mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec};
}

static void put_weights(writer *w, tt_index *ix, char index_sha[65])
{
    tt_error err = {0};
    void *region = NULL;
    must(tt_index_layout(ix, TT_WEIGHTS_NAME, &err), &err);
    must(tt_index_encode(ix, &region, &err), &err);
    must(tt_sha256_of(region, ix->index_bytes, index_sha, &err), &err);
    char *all = calloc(1, ix->file_bytes);
    assert_non_null(all);
    memcpy(all, region, ix->index_bytes);
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        uint64_t cols = e->shape[e->rank - 1], n = 1;
        for (uint32_t d = 0; d < e->rank; d++)
            n *= e->shape[d];
        if (e->dtype == TT_DTYPE_I64 && strstr(e->name, "ple_embedding") != NULL) {
            draw_integers(e->name, all + e->offset, n);
            continue;
        }
        float *v = malloc(n * sizeof *v);
        assert_non_null(v);
        draw_values(&w->rng, &w->o->arch, e->name, v, n, e->rank > 1 ? cols : 0);
        encode(e->dtype, v, n, cols, all + e->offset, all + e->scales_offset,
               all + e->biases_offset);
        free(v);
    }
    put_file(w, TT_WEIGHTS_NAME, all, ix->file_bytes, true);
    free(all);
    free(region);
}

static void draw_mat(writer *w, const tt_expert_mat *m, char *expert, float *v)
{
    size_t n = (size_t)m->rows * m->cols;
    draw_values(&w->rng, &w->o->arch, "expert", v, n, m->cols);
    encode(m->dtype, v, n, m->cols, expert + m->words_offset, expert + m->scales_offset,
           expert + m->biases_offset);
}

/* A first expert, or for coarse ones the one before with its bytes of words shifted by an odd
 * number: other weights of the same size. */
static void draw_expert(writer *w, const tt_expert_layout *l, char *expert, float *v, bool first)
{
    if (!w->o->coarse || first) {
        draw_mat(w, &l->gate, expert, v);
        draw_mat(w, &l->up, expert, v);
        draw_mat(w, &l->down, expert, v);
        return;
    }
    const tt_expert_mat *mats[] = {&l->gate, &l->up, &l->down};
    for (int i = 0; i < 3; i++)
        for (uint64_t b = 0; tt_dtype_bits(mats[i]->dtype) != 0 && b < mats[i]->words_bytes; b += 7)
            expert[mats[i]->words_offset + b] ^= (char)(b + 0x5b);
}

static void put_experts(writer *w, const tt_expert_layout *l)
{
    const tt_arch *a = &w->o->arch;
    size_t most = (size_t)a->hidden_size * a->moe_intermediate;
    uint32_t *crc = calloc((size_t)a->n_layers * a->n_experts, sizeof *crc);
    char *file = calloc(a->n_experts, l->stride), *expert = aligned_alloc(64, l->stride), rel[64];
    float *v = malloc(most * sizeof *v);
    tt_error err = {0};
    assert_non_null(crc);
    assert_non_null(file);
    assert_non_null(expert);
    assert_non_null(v);
    memset(expert, 0, l->stride);
    for (uint32_t layer = 0; layer < a->n_layers; layer++) {
        for (uint32_t e = 0; e < a->n_experts; e++) {
            draw_expert(w, l, expert, v, layer == 0 && e == 0);
            crc[layer * a->n_experts + e] = tt_crc32c(0, expert, l->payload_bytes);
            memcpy(file + e * l->stride, expert, l->stride);
        }
        tt_expert_file_name(rel, layer, false);
        put_file(w, rel, file, a->n_experts * l->stride, true);
    }
    void *table = NULL;
    size_t len = 0;
    must(tt_crc_table_encode(crc, a->n_experts, a->n_layers, 0, &table, &len, &err), &err);
    put_file(w, TT_CRC_NAME, table, len, true);
    free(table);
    free(v);
    free(expert);
    free(file);
    free(crc);
}

static void put_ngrams(writer *w, const tt_ngram_layout *l)
{
    char *table = calloc(1, l->file_bytes);
    float *v = malloc(l->cols * sizeof *v);
    assert_non_null(table);
    assert_non_null(v);
    for (uint64_t row = 0; row < l->rows; row++) {
        draw_values(&w->rng, &w->o->arch, "table", v, l->cols, 0);
        encode(l->dtype, v, l->cols, l->cols, table + row * l->row_bytes, NULL, NULL);
    }
    put_file(w, TT_NGRAM_NAME, table, l->file_bytes, true);
    free(v);
    free(table);
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const tt_install_file *)a)->rel, ((const tt_install_file *)b)->rel);
}

static void put_manifest(writer *w, tt_manifest_content *c)
{
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    tt_error err = {0};
    char *text = NULL, *receipt = NULL, sha[65], *real = realpath(w->dir, NULL);
    size_t len = 0, receipt_len = 0;
    json_t *source = json_pack("{s:s, s:s, s:s, s:{s:{s:I, s:s}}}", "repository", "tiny",
                               "revision", "", "index_sha256", zeros, "files", "model.safetensors",
                               "size", (json_int_t)1, "sha256", zeros);
    assert_non_null(real);
    assert_non_null(source);
    qsort(w->files, w->n_files, sizeof *w->files, by_rel);
    c->writer = "tests";
    c->model_id = "tiny";
    c->arch = &w->o->arch;
    c->source = source;
    c->files = w->files;
    c->n_files = w->n_files;
    must(tt_manifest_encode(c, &text, &len, &err), &err);
    must(tt_sha256_of(text, len, sha, &err), &err);
    must(tt_receipt_encode(sha, real, w->files, w->n_files, "tests", "2026-01-31T12:00:00Z",
                           &receipt, &receipt_len, &err),
         &err);
    put_file(w, TT_MANIFEST_NAME, text, len, false);
    put_file(w, TT_RECEIPT_NAME, receipt, receipt_len, false);
    json_decref(source);
    free(text);
    free(receipt);
    free(real);
}

static void fill_index(writer *w, const tt_inventory *inv, tt_index *ix)
{
    ix->entries = calloc(inv->count + 1, sizeof *ix->entries);
    assert_non_null(ix->entries);
    for (size_t i = 0; i < inv->count; i++) {
        const tt_want *want = &inv->items[i];
        tt_index_entry *e = &ix->entries[ix->count++];
        *e = (tt_index_entry){.name = want->name, .rank = want->rank};
        memcpy(e->shape, want->shape, sizeof e->shape);
        e->dtype = want->integers
                       ? TT_DTYPE_I64
                       : draw_type(&w->rng, w->o, want->role != TT_ROLE_PLAIN, want->shape[1]);
    }
    if (w->o->alter != NULL)
        w->o->alter(ix, w->o->ctx);
}

void tiny_install(const tiny_options *o, const char *dir)
{
    const tt_arch *a = &o->arch;
    writer *w = calloc(1, sizeof *w);
    tt_inventory inv = {0};
    tt_index ix = {0};
    tt_expert_layout layout;
    tt_manifest_content content = {.weights = &ix};
    tt_error err = {0};
    char path[600];
    assert_non_null(w);
    w->o = o;
    w->dir = dir;
    w->rng.s = o->seed + 17;
    assert_int_equal(mkdir(dir, 0755), 0);
    must(tt_inventory_create(a, &inv, &err), &err);
    fill_index(w, &inv, &ix);
    put_weights(w, &ix, content.weights_index_sha256);
    if (tt_arch_is_moe(a)) {
        tt_dtype gate = draw_type(&w->rng, o, true, a->hidden_size),
                 up = draw_type(&w->rng, o, true, a->hidden_size),
                 down = draw_type(&w->rng, o, true, a->moe_intermediate);
        must(tt_expert_layout_init(&layout, a->n_experts, a->hidden_size, a->moe_intermediate, gate,
                                   up, down, "tiny", &err),
             &err);
        snprintf(path, sizeof path, "%s/%s", dir, TT_EXPERTS_DIR);
        assert_int_equal(mkdir(path, 0755), 0);
        put_experts(w, &layout);
        content.experts = &layout;
    }
    tt_ngram_layout ngrams;
    if (tt_arch_ngrams(a) > 0) {
        tt_ngram_layout_init(&ngrams, a, o->seed % 2 == 0 ? TT_DTYPE_BF16 : TT_DTYPE_F16);
        put_ngrams(w, &ngrams);
        content.ngrams = &ngrams;
    }
    put_manifest(w, &content);
    free(ix.entries);
    tt_inventory_free(&inv);
    free(w);
}

static char root[512];
static char paths[256][600];
static unsigned n_paths;

const char *tiny_install_new(const tiny_options *o)
{
    if (root[0] == '\0')
        tempdir_make(root);
    assert_true(n_paths < sizeof paths / sizeof paths[0]);
    char *path = paths[n_paths];
    snprintf(path, sizeof paths[0], "%s/%u.gturbo", root, n_paths);
    n_paths++;
    tiny_install(o, path);
    return path;
}

void tiny_remove(void)
{
    if (root[0] != '\0')
        tempdir_remove(root);
    root[0] = '\0';
    n_paths = 0;
}

tt_model *tiny_open(const char *install, const tt_model_options *o)
{
    tt_model *m = NULL;
    tt_error err = {0};
    must(tt_model_open(install, o, NULL, NULL, &m, &err), &err);
    return m;
}
