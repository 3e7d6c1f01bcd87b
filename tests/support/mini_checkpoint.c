#include "mini_checkpoint.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "format/dtype.h"
#include "format/fp8.h"

/* The dimensions that the config states; experts are MINI_WIDTH wide unless told otherwise. */
enum { HEADS = 2, KV_HEADS = 1, HEAD_DIM = 32, KEY_HEADS = 1, VALUE_HEADS = 2, LIN_DIM = 32 };
enum { KEY_DIM = KEY_HEADS * LIN_DIM, VALUE_DIM = VALUE_HEADS * LIN_DIM };
enum { CONV_DIM = 2 * KEY_DIM + VALUE_DIM, TAPS = 4 };

typedef struct mini {
    const mini_options *o;
    const char *dir;
    mini_tensor *list;
    size_t n, cap;
    char stem[64]; /* canonical prefix of the layer, "layers.0." or "mtp.layers.0." */
} mini;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "mini checkpoint: %s\n", what);
    abort();
}

float mini_value(const char *canonical, uint64_t index)
{
    uint64_t h = 14695981039346656037u;
    for (const char *p = canonical; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    h = (h ^ index) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    h ^= h >> 32;
    /* Multiples of 1/256 in [-0.5, 0.5): eight bits, exact in bf16. */
    return (float)((int)(h & 255) - 128) / 256.0f;
}

mini_options mini_default(void)
{
    mini_options o = {.dtype = TT_ST_BF16, .tokenizer = true, .template = true};
    o.extras[0].bad_at = o.extras[1].bad_at = -1;
    return o;
}

static mini_tensor *push(mini *m)
{
    if (m->n == m->cap) {
        m->cap = m->cap < 64 ? 64 : 2 * m->cap;
        m->list = realloc(m->list, m->cap * sizeof *m->list);
        check(m->list != NULL, "out of memory");
    }
    mini_tensor *t = &m->list[m->n++];
    *t = (mini_tensor){.dtype = m->o->dtype, .bad_at = -1};
    return t;
}

/* A tensor with the body's prefix (or the draft's none), spelled as in the stem and `name`. */
static mini_tensor *add(mini *m, const char *name, uint32_t rank, uint64_t a, uint64_t b,
                        uint64_t c)
{
    static const char *const prefixes[] = {"model.language_model.", "language_model.model.",
                                           "model."};
    mini_tensor *t = push(m);
    bool rooted = strncmp(m->stem, "mtp.", 4) == 0;
    snprintf(t->canonical, sizeof t->canonical, "%s%s", m->stem, name);
    snprintf(t->name, sizeof t->name, "%s%s", rooted ? "" : prefixes[m->o->prefix], t->canonical);
    t->rank = rank;
    t->shape[0] = a;
    t->shape[1] = b;
    t->shape[2] = c;
    return t;
}

static void norm(mini *m, const char *name, uint64_t n)
{
    bool draft = strncmp(m->stem, "mtp.", 4) == 0;
    add(m, name, 1, n, 0, 0)->offset =
        (draft ? m->o->mtp_converted : m->o->converted) ? 1.0f : 0.0f;
}

static void linear_layer(mini *m)
{
    add(m, "linear_attn.in_proj_qkv.weight", 2, CONV_DIM, MINI_HIDDEN, 0);
    add(m, "linear_attn.in_proj_z.weight", 2, VALUE_DIM, MINI_HIDDEN, 0);
    add(m, "linear_attn.in_proj_b.weight", 2, VALUE_HEADS, MINI_HIDDEN, 0);
    add(m, "linear_attn.in_proj_a.weight", 2, VALUE_HEADS, MINI_HIDDEN, 0);
    if (m->o->converted)
        add(m, "linear_attn.conv1d.weight", 3, CONV_DIM, TAPS, 1);
    else
        add(m, "linear_attn.conv1d.weight", 3, CONV_DIM, 1, TAPS);
    add(m, "linear_attn.A_log", 1, VALUE_HEADS, 0, 0);
    add(m, "linear_attn.dt_bias", 1, VALUE_HEADS, 0, 0);
    add(m, "linear_attn.norm.weight", 1, LIN_DIM, 0, 0)->offset = 1.0f;
    add(m, "linear_attn.out_proj.weight", 2, MINI_HIDDEN, VALUE_DIM, 0);
}

static void full_layer(mini *m)
{
    add(m, "self_attn.q_proj.weight", 2, 2 * HEADS * HEAD_DIM, MINI_HIDDEN, 0);
    add(m, "self_attn.k_proj.weight", 2, KV_HEADS * HEAD_DIM, MINI_HIDDEN, 0);
    add(m, "self_attn.v_proj.weight", 2, KV_HEADS * HEAD_DIM, MINI_HIDDEN, 0);
    add(m, "self_attn.o_proj.weight", 2, MINI_HIDDEN, HEADS * HEAD_DIM, 0);
    norm(m, "self_attn.q_norm.weight", HEAD_DIM);
    norm(m, "self_attn.k_norm.weight", HEAD_DIM);
}

static uint64_t width(const mini *m)
{
    return m->o->width != 0 ? m->o->width : MINI_WIDTH;
}

static void experts(mini *m)
{
    static const char *const mats[3] = {"gate_proj", "up_proj", "down_proj"};
    uint64_t f = width(m), h = MINI_HIDDEN;
    char name[64];
    switch (m->o->layout) {
    case MINI_FUSED:
        add(m, "mlp.experts.gate_up_proj", 3, MINI_EXPERTS, 2 * f, h);
        add(m, "mlp.experts.down_proj", 3, MINI_EXPERTS, h, f);
        break;
    case MINI_STACKED:
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "mlp.switch_mlp.%s.weight", mats[i]);
            add(m, name, 3, MINI_EXPERTS, i == 2 ? h : f, i == 2 ? f : h);
        }
        break;
    case MINI_SINGLE: /* last expert first: ids count, not order */
        for (int e = MINI_EXPERTS - 1; e >= 0; e--)
            for (int i = 2; i >= 0; i--) {
                snprintf(name, sizeof name, "mlp.experts.%d.%s.weight", e, mats[i]);
                add(m, name, 2, i == 2 ? h : f, i == 2 ? f : h, 0);
            }
        break;
    }
}

static void mlp(mini *m)
{
    uint64_t f = width(m), h = MINI_HIDDEN;
    if (m->o->dense) {
        add(m, "mlp.gate_proj.weight", 2, f, h, 0);
        add(m, "mlp.up_proj.weight", 2, f, h, 0);
        add(m, "mlp.down_proj.weight", 2, h, f, 0);
        return;
    }
    add(m, "mlp.gate.weight", 2, MINI_EXPERTS, h, 0);
    add(m, "mlp.shared_expert.gate_proj.weight", 2, f, h, 0);
    add(m, "mlp.shared_expert.up_proj.weight", 2, f, h, 0);
    add(m, "mlp.shared_expert.down_proj.weight", 2, h, f, 0);
    add(m, "mlp.shared_expert_gate.weight", 2, 1, h, 0);
    experts(m);
}

static void layer(mini *m, const char *stem, unsigned i, bool full)
{
    snprintf(m->stem, sizeof m->stem, "%slayers.%u.", stem, i);
    norm(m, "input_layernorm.weight", MINI_HIDDEN);
    norm(m, "post_attention_layernorm.weight", MINI_HIDDEN);
    if (full)
        full_layer(m);
    else
        linear_layer(m);
    mlp(m);
}

static void all_tensors(mini *m)
{
    for (unsigned i = 0; i < MINI_LAYERS; i++)
        layer(m, "", i, i == MINI_LAYERS - 1);
    m->stem[0] = '\0';
    add(m, "embed_tokens.weight", 2, MINI_VOCAB, MINI_HIDDEN, 0);
    norm(m, "norm.weight", MINI_HIDDEN);
    if (!m->o->tied) {
        mini_tensor *t = add(m, "lm_head.weight", 2, MINI_VOCAB, MINI_HIDDEN, 0);
        snprintf(t->name, sizeof t->name, "%slm_head.weight",
                 m->o->prefix == 1 ? "language_model." : "");
    }
    if (m->o->mtp) {
        layer(m, "mtp.", 0, true);
        strcpy(m->stem, "mtp.");
        add(m, "fc.weight", 2, MINI_HIDDEN, 2 * MINI_HIDDEN, 0);
        norm(m, "pre_fc_norm_embedding.weight", MINI_HIDDEN);
        norm(m, "pre_fc_norm_hidden.weight", MINI_HIDDEN);
        norm(m, "norm.weight", MINI_HIDDEN);
    }
    if (m->o->vision) {
        mini_tensor *t = push(m);
        strcpy(t->name, "model.visual.patch_embed.proj.weight");
        t->rank = 5;
        for (int i = 0; i < 5; i++)
            t->shape[i] = 2;
    }
    for (int i = 0; i < 2; i++)
        if (m->o->extras[i].name[0] != '\0')
            *push(m) = m->o->extras[i];
}

/* Projections become fp8, or what fp8 would hold. */
static void code_tensors(mini *m)
{
    size_t n = m->n;
    for (size_t i = 0; i < n; i++) {
        if (m->list[i].rank < 2 || strstr(m->list[i].canonical, "_proj") == NULL)
            continue;
        m->list[i].coded = true;
        if (!m->o->fp8)
            continue;
        m->list[i].dtype = TT_ST_F8_E4M3;
        mini_tensor *f = push(m), *t = &m->list[i];
        snprintf(f->name, sizeof f->name, "%.240s_scale_inv", t->name);
        f->dtype = TT_ST_F32;
        f->factors = true;
        f->rank = f->of_rank = t->rank;
        memcpy(f->shape, t->shape, sizeof f->shape);
        memcpy(f->of_shape, t->shape, sizeof f->of_shape);
        for (uint32_t d = t->rank - 2; d < t->rank; d++)
            f->shape[d] = (t->shape[d] + 127) / 128;
    }
}

static uint64_t count_of(const mini_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

/* A power of two for every block of 128 x 128. */
static float factor(uint64_t mat, uint64_t block_row, uint64_t block_col)
{
    return ldexpf(1.0f, -6 - (int)((mat + 2 * block_row + 5 * block_col) % 4));
}

static float factor_at(const mini_tensor *f, uint64_t i)
{
    uint64_t cols = f->shape[f->rank - 1], rows = f->shape[f->rank - 2];
    return factor(i / (rows * cols), i / cols % rows, i % cols);
}

static uint8_t code_of(const mini_tensor *t, uint64_t i)
{
    uint8_t code = (uint8_t)(int)(mini_value(t->canonical, i) * 256.0f);
    return (code & 0x7f) == 0x7f ? 0 : code;
}

static float coded_value(const mini_tensor *t, uint64_t i)
{
    uint64_t cols = t->shape[t->rank - 1], rows = t->shape[t->rank - 2];
    return tt_f8_e4m3_to_f32(code_of(t, i)) *
           factor(i / (rows * cols), i / cols % rows / 128, i % cols / 128);
}

/* Value i of a tensor: experts follow from layer, id and matrix, whatever they are packed in. */
static float value_of(const mini_tensor *t, uint64_t i)
{
    char name[256], *at = strstr(t->canonical, "mlp.experts.");
    const char *mat = NULL;
    uint64_t expert = 0, inner = i;
    if (at == NULL && (at = strstr(t->canonical, "mlp.switch_mlp.")) == NULL)
        return mini_value(t->canonical, i) + t->offset;
    bool fused = strstr(at, "gate_up_proj") != NULL;
    if (t->rank == 3) { /* an expert's slice of a stack */
        uint64_t each = t->shape[1] * t->shape[2];
        expert = i / each;
        inner = i % each;
    } else {
        expert = strtoull(at + strlen("mlp.experts."), NULL, 10);
    }
    if (fused) {
        uint64_t half = t->shape[1] / 2 * t->shape[2];
        mat = inner < half ? "gate" : "up";
        inner -= inner < half ? 0 : half;
    } else {
        mat = strstr(at, "gate_proj") != NULL ? "gate" : strstr(at, "up_proj") ? "up" : "down";
    }
    snprintf(name, sizeof name, "%.*sexpert.%llu.%s", (int)(at - t->canonical), t->canonical,
             (unsigned long long)expert, mat);
    return mini_value(name, inner) + t->offset;
}

static void write_values(tt_st_writer *w, const mini_tensor *t)
{
    uint64_t n = count_of(t);
    uint32_t each = tt_st_dtype_bytes(t->dtype);
    unsigned char *bytes = calloc(n + 1, each);
    check(bytes != NULL, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        float f = (int64_t)i == t->bad_at ? (float)NAN
                  : t->factors            ? factor_at(t, i)
                  : t->coded              ? coded_value(t, i)
                                          : value_of(t, i);
        if (t->dtype == TT_ST_F8_E4M3)
            bytes[i] = (int64_t)i == t->bad_at ? 0x7f : code_of(t, i);
        uint16_t h = t->dtype == TT_ST_BF16 ? tt_f32_to_bf16(f) : tt_f32_to_f16(f);
        if (t->dtype == TT_ST_F32)
            memcpy(bytes + 4 * i, &f, 4);
        else if (t->dtype == TT_ST_BF16 || t->dtype == TT_ST_F16)
            memcpy(bytes + 2 * i, &h, 2);
    }
    check(tt_st_writer_append(w, bytes, n * each, NULL) == TT_OK, "cannot append");
    free(bytes);
}

/* Shard number of a tensor; that of the draft's own file comes after all others. */
static unsigned shard_of(const mini *m, size_t i, unsigned shards)
{
    bool draft = strncmp(m->list[i].name, "mtp.", 4) == 0;
    return m->o->draft_file && draft ? shards : (unsigned)(i % shards);
}

static void write_shard(const mini *m, unsigned shard, unsigned shards, tt_buf *map)
{
    char name[64], path[TT_MAX_PATH];
    tt_st_writer *w = NULL;
    tt_error err;
    if (shard == shards)
        strcpy(name, "mtp.safetensors");
    else if (shards > 1)
        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", shard + 1, shards);
    else
        strcpy(name, "model.safetensors");
    check(tt_path_join(path, m->dir, name, NULL) == TT_OK, "path");
    check(tt_st_writer_create(path, &w, NULL) == TT_OK, "cannot create a shard");
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < m->n; i++) {
            const mini_tensor *t = &m->list[i];
            if (t->skip || shard_of(m, i, shards) != shard)
                continue;
            if (pass == 1) {
                write_values(w, t);
                continue;
            }
            if (tt_st_writer_declare(w, t->name, t->dtype, t->rank, t->shape, &err) != TT_OK)
                check(false, err.message);
            if (shard < shards)
                tt_buf_printf(map, "%s\"%s\": \"%s\"", map->len > 0 ? ", " : "", t->name, name);
        }
    check(tt_st_writer_finish(&w, NULL) == TT_OK, "cannot finish a shard");
}

static void publish(const mini *m, const char *name, const char *text, size_t n)
{
    char path[TT_MAX_PATH];
    check(tt_path_join(path, m->dir, name, NULL) == TT_OK, "path");
    check(tt_file_publish(path, text, n, NULL) == TT_OK, "cannot write a file");
}

static void write_config(const mini *m)
{
    const mini_options *o = m->o;
    tt_buf b;
    tt_buf_init(&b, TT_MIB);
    tt_buf_printf(&b,
                  "{\"model_type\": \"%s\", \"tie_word_embeddings\": %s, \"text_config\": {"
                  "\"hidden_size\": %d, \"num_hidden_layers\": %d, \"vocab_size\": %d, "
                  "\"max_position_embeddings\": 128, \"num_attention_heads\": %d, "
                  "\"num_key_value_heads\": %d, \"head_dim\": %d, "
                  "\"linear_num_key_heads\": %d, \"linear_num_value_heads\": %d, "
                  "\"linear_key_head_dim\": %d, \"linear_value_head_dim\": %d, "
                  "\"layer_types\": [\"linear_attention\", \"full_attention\"], "
                  "\"rms_norm_eps\": 1e-06, \"mtp_num_hidden_layers\": %d, "
                  "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0, "
                  "\"partial_rotary_factor\": 0.25}, ",
                  o->dense ? "qwen3_5" : "qwen3_5_moe", o->tied ? "true" : "false", MINI_HIDDEN,
                  MINI_LAYERS, MINI_VOCAB, HEADS, KV_HEADS, HEAD_DIM, KEY_HEADS, VALUE_HEADS,
                  LIN_DIM, LIN_DIM, o->mtp);
    if (o->dense)
        tt_buf_printf(&b, "\"intermediate_size\": %u}", (unsigned)width(m));
    else
        tt_buf_printf(&b,
                      "\"num_experts\": %d, \"num_experts_per_tok\": 2, "
                      "\"moe_intermediate_size\": %u, \"shared_expert_intermediate_size\": %u}",
                      MINI_EXPERTS, (unsigned)width(m), (unsigned)width(m));
    if (o->quantization != NULL)
        tt_buf_printf(&b, ", \"quantization\": %s", o->quantization);
    tt_buf_puts(&b, "}\n");
    publish(m, "config.json", b.data, b.len);
    tt_buf_free(&b);
}

void mini_write(const char *dir, const mini_options *o)
{
    mini m = {.o = o, .dir = dir};
    unsigned shards = o->shards > 1 ? o->shards : 1;
    tt_buf map;
    tt_buf_init(&map, TT_MIB);
    all_tensors(&m);
    if (o->coded)
        code_tensors(&m);
    for (size_t i = 0; i < m.n && o->edit != NULL; i++)
        o->edit(o->ctx, &m.list[i]);
    for (unsigned s = 0; s < shards + o->draft_file; s++)
        write_shard(&m, s, shards, &map);
    if (shards > 1) {
        tt_buf index;
        tt_buf_init(&index, TT_MIB);
        tt_buf_printf(&index, "{\"metadata\": {}, \"weight_map\": {%s}}\n", map.data);
        publish(&m, "model.safetensors.index.json", index.data, index.len);
        tt_buf_free(&index);
    }
    write_config(&m);
    if (o->tokenizer)
        publish(&m, "tokenizer.json", "{}\n", 3);
    if (o->template)
        publish(&m, "tokenizer_config.json", "{\"chat_template\": \"x\"}\n", 23);
    tt_buf_free(&map);
    free(m.list);
}
