#include "made_checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/dtype.h"
#include "format/fp8.h"
#include "repack/inventory.h"

#define TABLE "ple.ple_embedding.ngram_embedding."

static void must(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("made checkpoint: %s: %s", err->file, err->message);
}

made_options made_default(void)
{
    return (made_options){
        .config = "tests/vectors/qwen4exp-made/config.json", .shards = 12, .table = TT_ST_BF16};
}

/* ---- values ---- */

static uint64_t seed_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static uint8_t byte_at(uint64_t seed, uint64_t i)
{
    uint64_t v = seed + 0x9e3779b97f4a7c15u * (i + 1);
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return (uint8_t)((v ^ v >> 31) >> 56);
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Matrices keep the size of what they multiply. */
static int exponent(const char *name, uint64_t cols)
{
    if (has(name, "embed_tokens") || has(name, "lm_head"))
        return -7;
    if (has(name, "ngram_embedding") || has(name, "dt_bias"))
        return -6;
    if (has(name, "conv1d"))
        return -8;
    if (cols == 0)
        return -9;
    return -(int)lrint(log2(74 * sqrt((double)cols))) + has(name, "mlp.gate.weight");
}

float made_value(const char *name, uint64_t cols, uint64_t i)
{
    int code = (int)byte_at(seed_of(name), i) - 128;
    if (has(name, "linear_attn.norm."))
        return (float)(128 + code / 2) / 128;
    if (has(name, "A_log"))
        return (float)(code + 128) / 256;
    return ldexpf((float)code, exponent(name, cols));
}

static uint8_t fp8_code(uint64_t i)
{
    uint8_t b = byte_at(seed_of("fp8"), i);
    return (b & 0x7f) == 0x7f ? 0 : b; /* no NaN */
}

float made_table_value(const made_options *o, const tt_arch *a, uint64_t i)
{
    if (o->table == TT_ST_F8_E4M3)
        return tt_f8_e4m3_to_f32(fp8_code(i)) / 4;
    return made_value(TABLE, tt_arch_ngram_cols(a), i);
}

static int64_t integer(const char *name, const tt_arch *a, uint64_t i)
{
    static const int64_t multipliers[] = {23703573157769, 20109073645365, 8052911324071};
    if (has(name, "multipliers"))
        return multipliers[i];
    /* The primes that the rows of the heads are counted by, from the base 100 on. */
    static const int64_t primes[] = {101, 103, 107, 109};
    int64_t before = 0;
    assert_int_equal(tt_arch_ngrams(a), 4);
    for (uint64_t h = 0; h < i; h++)
        before += primes[h];
    return has(name, "offsets") ? before : primes[i];
}

/* ---- the file ---- */

typedef struct tensor {
    char name[256], canonical[200];
    tt_st_dtype dtype;
    uint32_t rank;
    uint64_t shape[TT_MAX_SOURCE_RANK], values;
    uint64_t first; /* value of the canonical tensor that it begins with */
} tensor;

typedef struct list {
    const made_options *o;
    tt_arch arch;
    tensor *items;
    size_t n;
} list;

static tensor *add(list *l, const char *name, tt_st_dtype dtype, uint32_t rank, uint64_t d0,
                   uint64_t d1, uint64_t d2)
{
    bool rooted = strncmp(name, "mtp.", 4) == 0 || strncmp(name, "lm_head.", 8) == 0;
    l->items = realloc(l->items, (l->n + 1) * sizeof *l->items);
    assert_non_null(l->items);
    tensor *t = &l->items[l->n];
    *t = (tensor){.dtype = dtype, .rank = rank, .shape = {d0, d1, d2}, .values = 1};
    snprintf(t->name, sizeof t->name, "%s%s", rooted ? "" : "model.language_model.", name);
    snprintf(t->canonical, sizeof t->canonical, "%s", name);
    if (l->o->edit != NULL)
        l->o->edit(l->o->ctx, t->name, &t->dtype, &t->shape[0]);
    for (uint32_t i = 0; i < rank; i++)
        t->values *= t->shape[i];
    l->n += t->name[0] != '\0';
    return t;
}

static void add_resident(list *l)
{
    tt_inventory inv = {0};
    tt_error err = {0};
    must(tt_inventory_create(&l->arch, &inv, &err), &err);
    for (size_t i = 0; i < inv.count; i++) {
        const tt_want *w = &inv.items[i];
        if (w->conv)
            add(l, w->name, TT_ST_BF16, 3, w->shape[0], 1, w->shape[1]);
        else
            add(l, w->name, w->integers ? TT_ST_I64 : TT_ST_BF16, w->rank, w->shape[0], w->shape[1],
                0);
    }
    tt_inventory_free(&inv);
}

static void add_experts(list *l, const char *stem, uint32_t layer)
{
    static const char *const mats[] = {"gate_proj", "up_proj", "down_proj"};
    uint64_t E = l->arch.n_experts, F = l->arch.moe_intermediate, H = l->arch.hidden_size;
    char fused[2][200], name[200];
    snprintf(fused[0], 200, "%slayers.%u.mlp.experts.gate_up_proj", stem, layer);
    snprintf(fused[1], 200, "%slayers.%u.mlp.experts.down_proj", stem, layer);
    if (!l->o->single) {
        add(l, fused[0], TT_ST_BF16, 3, E, 2 * F, H);
        add(l, fused[1], TT_ST_BF16, 3, E, H, F);
        return;
    }
    for (uint64_t e = E; e-- > 0;) /* they are filed by their numbers */
        for (unsigned m = 0; m < 3; m++) {
            snprintf(name, sizeof name, "%slayers.%u.mlp.experts.%u.%s.weight", stem, layer,
                     (unsigned)e, mats[m]);
            tensor *t = add(l, name, TT_ST_BF16, 2, m == 2 ? H : F, m == 2 ? F : H, 0);
            memcpy(t->canonical, fused[m == 2], sizeof t->canonical);
            t->first = m == 2 ? e * H * F : (2 * e + m) * F * H;
        }
}

static void add_table(list *l)
{
    const tt_arch *a = &l->arch;
    uint32_t n = l->o->shards > 0 ? l->o->shards : 1;
    uint64_t rows = a->ngram_rows / n, cols = tt_arch_ngram_cols(a);
    char name[200];
    assert_int_equal(rows * n, a->ngram_rows);
    for (uint32_t i = 0; i < n; i++) {
        if (l->o->shards > 0)
            snprintf(name, sizeof name, "layers.%u." TABLE "shard_%u.weight", a->ngram_layer, i);
        else
            snprintf(name, sizeof name, "layers.%u." TABLE "weight", a->ngram_layer);
        tensor *t = add(l, name, l->o->table, 2, rows, cols, 0);
        snprintf(t->canonical, sizeof t->canonical, TABLE);
        t->first = i * rows * cols;
    }
    snprintf(name, sizeof name, "layers.%u." TABLE "weight_scale", a->ngram_layer);
    if (l->o->table == TT_ST_F8_E4M3)
        add(l, name, TT_ST_BF16, 0, 0, 0, 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name);
}

static uint32_t store(unsigned char *out, const list *l, const tensor *t, uint64_t i)
{
    uint64_t cols = t->rank >= 2 ? t->shape[t->rank - 1] : 0;
    if (t->dtype == TT_ST_I64) {
        bool hashed = has(t->canonical, "layer_") || has(t->canonical, "ngram_heads_");
        int64_t v = hashed ? integer(t->canonical, &l->arch, i) : 0;
        memcpy(out, &v, 8);
        return 8;
    }
    if (t->dtype == TT_ST_F8_E4M3) {
        *out = fp8_code(t->first + i);
        return 1;
    }
    float v = has(t->name, "weight_scale") ? 0.25f : made_value(t->canonical, cols, t->first + i);
    uint16_t half = t->dtype == TT_ST_F16 ? tt_f32_to_f16(v) : tt_f32_to_bf16(v);
    memcpy(out, &half, 2);
    return 2;
}

static void write_values(const list *l, tt_st_writer *w)
{
    tt_error err = {0};
    unsigned char buf[8192];
    for (size_t k = 0; k < l->n; k++) {
        uint32_t n = 0;
        for (uint64_t i = 0; i < l->items[k].values; i++) {
            n += store(buf + n, l, &l->items[k], i);
            if (n > sizeof buf - 8 || i + 1 == l->items[k].values) {
                must(tt_st_writer_append(w, buf, n, &err), &err);
                n = 0;
            }
        }
    }
}

void made_write(const char *dir, const made_options *o)
{
    char path[600], *text = NULL;
    size_t len = 0;
    json_t *config = NULL;
    tt_error err = {0};
    tt_st_writer *w = NULL;
    list l = {.o = o};
    must(tt_file_read(o->config, 1 << 20, &text, &len, &err), &err);
    snprintf(path, sizeof path, "%s/config.json", dir);
    must(tt_file_publish(path, text, len, &err), &err);
    must(tt_json_parse(text, len, o->config, &config, &err), &err);
    must(tt_arch_from_config(config, o->config, &l.arch, &err), &err);
    l.arch.n_mtp_layers = o->mtp;
    add_resident(&l);
    for (uint32_t i = 0; i < l.arch.n_layers; i++)
        add_experts(&l, "", i);
    if (o->mtp)
        add_experts(&l, "mtp.", 0);
    add_table(&l);
    qsort(l.items, l.n, sizeof *l.items, by_name); /* shard_10 before shard_2 */
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    must(tt_st_writer_create(path, &w, &err), &err);
    for (size_t i = 0; i < l.n; i++)
        must(tt_st_writer_declare(w, l.items[i].name, l.items[i].dtype, l.items[i].rank,
                                  l.items[i].shape, &err),
             &err);
    write_values(&l, w);
    must(tt_st_writer_finish(&w, &err), &err);
    json_decref(config);
    free(l.items);
    free(text);
}
