/* gguf_write: turns an install of the qwen3_5 families, experts or dense, into a GGUF file of the
 * same geometry, so that a peer computes on the same weights. Affine 4-bit tensors become Q4_0,
 * 8-bit ones Q8_0, of the same bits a weight; routers, norms and the like become F32.
 *
 *   gguf_write INSTALL OUTPUT.gguf [q4_0|q8_0]      the last word: embeddings and head
 *
 * What differs between the forms (docs/model.md has ours): offset norms carry the 1 already, ssm_a
 * is -exp(A_log), and value heads stand tiled, head kh * r + m at m * Hk + kh. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/pool.h"
#include "format/install.h"
#include "format/quant.h"

#define ALIGN     32u
#define BLOCK     32u /* values of a block of Q4_0 and Q8_0 */
#define MOST_COLS 65536u

enum { GGML_F32 = 0, GGML_Q4_0 = 2, GGML_Q8_0 = 8 };
enum { KV_U32 = 4, KV_F32 = 6, KV_STRING = 8, KV_ARRAY = 9, KV_I32 = 5 };

typedef enum change {
    PLAIN,
    PLUS_ONE,    /* offset norms */
    V_ROWS,      /* value heads tiled: rows from `from` on, `head` rows a head */
    V_COLUMNS,   /* of out_proj */
    MINUS_EXP_V, /* both */
} change;

/* A matrix as the install has it. */
typedef struct source {
    tt_dtype dtype;
    uint64_t rows, cols;
    const char *words, *scales, *biases; /* the last two of quantized ones */
} source;

/* A tensor to write: `stack` matrices of rows x cols. */
typedef struct tensor {
    char name[64];
    uint32_t type;
    uint32_t rank;
    uint64_t rows, cols, stack;
    change change;
    uint64_t from, head;
    /* where it comes from */
    const tt_index_entry *entry; /* NULL: experts */
    const tt_expert_mat *mat;
    uint32_t layer;
    uint64_t offset; /* in the data */
} tensor;

typedef struct job {
    tt_install *in;
    const tt_arch *arch;
    const char *family;  /* general.architecture */
    const char *weights; /* mapped model_weights.bin */
    size_t weights_bytes;
    const char **experts; /* [L] mapped */
    size_t experts_bytes;
    tensor *t;
    size_t n, cap;
    uint32_t tables; /* type of embeddings and head */
    FILE *out;
    uint64_t at;
    unsigned char *buf; /* rows being encoded */
    const tensor *now;
    uint64_t row0;
    tt_pool *pool;
} job;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "gguf_write: %s: %s\n", what, why);
    exit(1);
}

/* ---- sizes ---- */

static uint64_t row_bytes(uint32_t type, uint64_t cols)
{
    return type == GGML_F32 ? 4 * cols : type == GGML_Q4_0 ? cols / BLOCK * 18 : cols / BLOCK * 34;
}

static uint64_t tensor_bytes(const tensor *t)
{
    return t->stack * t->rows * row_bytes(t->type, t->cols);
}

/* ---- the list ---- */

static tensor *add(job *j, const char *name, uint32_t layer)
{
    if (j->n == j->cap) {
        j->cap = j->cap == 0 ? 256 : 2 * j->cap;
        j->t = realloc(j->t, j->cap * sizeof *j->t);
        if (j->t == NULL)
            die("list of tensors", "out of memory");
    }
    tensor *t = &j->t[j->n++];
    *t = (tensor){.layer = layer, .stack = 1};
    snprintf(t->name, sizeof t->name, name, layer);
    return t;
}

static uint32_t type_of(tt_dtype dtype)
{
    return dtype == TT_DTYPE_Q4 ? GGML_Q4_0 : dtype == TT_DTYPE_Q8 ? GGML_Q8_0 : GGML_F32;
}

/* `from` names the tensor of the install, with a layer's number for %u. */
static tensor *resident(job *j, const char *name, const char *from, uint32_t layer, change how)
{
    char source[160];
    snprintf(source, sizeof source, from, layer);
    tensor *t = add(j, name, layer);
    t->entry = tt_index_find(tt_install_index(j->in), source);
    if (t->entry == NULL)
        die(source, "the install has no such tensor");
    t->type = type_of(t->entry->dtype);
    t->rank = t->entry->rank;
    t->rows = t->rank == 2 ? t->entry->shape[0] : 1;
    t->cols = t->entry->shape[t->rank - 1];
    t->change = how;
    return t;
}

static void tiled(tensor *t, change how, uint64_t from, uint64_t head)
{
    t->change = how;
    t->from = from;
    t->head = head;
}

static void delta_net(job *j, uint32_t l)
{
    const tt_arch *a = j->arch;
    uint64_t qk = 2 * (uint64_t)tt_arch_key_dim(a), dv = a->lin_value_dim;
#define LIN "layers.%u.linear_attn."
    tiled(resident(j, "blk.%u.attn_qkv.weight", LIN "in_proj_qkv.weight", l, V_ROWS), V_ROWS, qk,
          dv);
    tiled(resident(j, "blk.%u.attn_gate.weight", LIN "in_proj_z.weight", l, V_ROWS), V_ROWS, 0, dv);
    tiled(resident(j, "blk.%u.ssm_conv1d.weight", LIN "conv1d.weight", l, V_ROWS), V_ROWS, qk, dv);
    tiled(resident(j, "blk.%u.ssm_dt.bias", LIN "dt_bias", l, V_COLUMNS), V_COLUMNS, 0, 1);
    tiled(resident(j, "blk.%u.ssm_a", LIN "A_log", l, MINUS_EXP_V), MINUS_EXP_V, 0, 1);
    tiled(resident(j, "blk.%u.ssm_beta.weight", LIN "in_proj_b.weight", l, V_ROWS), V_ROWS, 0, 1);
    tiled(resident(j, "blk.%u.ssm_alpha.weight", LIN "in_proj_a.weight", l, V_ROWS), V_ROWS, 0, 1);
    resident(j, "blk.%u.ssm_norm.weight", LIN "norm.weight", l, PLAIN);
    tiled(resident(j, "blk.%u.ssm_out.weight", LIN "out_proj.weight", l, V_COLUMNS), V_COLUMNS, 0,
          dv);
#undef LIN
}

static void attention(job *j, uint32_t l)
{
#define ATT "layers.%u.self_attn."
    resident(j, "blk.%u.attn_q.weight", ATT "q_proj.weight", l, PLAIN);
    resident(j, "blk.%u.attn_k.weight", ATT "k_proj.weight", l, PLAIN);
    resident(j, "blk.%u.attn_v.weight", ATT "v_proj.weight", l, PLAIN);
    resident(j, "blk.%u.attn_output.weight", ATT "o_proj.weight", l, PLAIN);
    resident(j, "blk.%u.attn_q_norm.weight", ATT "q_norm.weight", l, PLUS_ONE);
    resident(j, "blk.%u.attn_k_norm.weight", ATT "k_norm.weight", l, PLUS_ONE);
#undef ATT
}

static void expert_mats(job *j, uint32_t l)
{
    const tt_expert_layout *x = tt_install_expert_layout(j->in);
    const struct {
        const char *name;
        const tt_expert_mat *mat;
    } mats[] = {{"blk.%u.ffn_gate_exps.weight", &x->gate},
                {"blk.%u.ffn_up_exps.weight", &x->up},
                {"blk.%u.ffn_down_exps.weight", &x->down}};
    for (int i = 0; i < 3; i++) {
        tensor *t = add(j, mats[i].name, l);
        t->mat = mats[i].mat;
        t->type = type_of(t->mat->dtype);
        t->rank = 3;
        t->rows = t->mat->rows;
        t->cols = t->mat->cols;
        t->stack = x->n_experts;
    }
}

#define MLP "layers.%u.mlp."

static void dense(job *j, uint32_t l)
{
    resident(j, "blk.%u.ffn_gate.weight", MLP "gate_proj.weight", l, PLAIN);
    resident(j, "blk.%u.ffn_up.weight", MLP "up_proj.weight", l, PLAIN);
    resident(j, "blk.%u.ffn_down.weight", MLP "down_proj.weight", l, PLAIN);
}

static void experts(job *j, uint32_t l)
{
    resident(j, "blk.%u.ffn_gate_inp.weight", MLP "gate.weight", l, PLAIN);
    tensor *gate =
        resident(j, "blk.%u.ffn_gate_inp_shexp.weight", MLP "shared_expert_gate.weight", l, PLAIN);
    gate->rank = 1;
    resident(j, "blk.%u.ffn_gate_shexp.weight", MLP "shared_expert.gate_proj.weight", l, PLAIN);
    resident(j, "blk.%u.ffn_up_shexp.weight", MLP "shared_expert.up_proj.weight", l, PLAIN);
    resident(j, "blk.%u.ffn_down_shexp.weight", MLP "shared_expert.down_proj.weight", l, PLAIN);
    expert_mats(j, l);
}

#undef MLP

static void layer(job *j, uint32_t l)
{
    resident(j, "blk.%u.attn_norm.weight", "layers.%u.input_layernorm.weight", l, PLUS_ONE);
    resident(j, "blk.%u.post_attention_norm.weight", "layers.%u.post_attention_layernorm.weight", l,
             PLUS_ONE);
    if (j->arch->layer_kind[l] == TT_LAYER_FULL)
        attention(j, l);
    else
        delta_net(j, l);
    if (tt_arch_is_moe(j->arch))
        experts(j, l);
    else
        dense(j, l);
}

static void list_all(job *j)
{
    tensor *embed = resident(j, "token_embd.weight", "embed_tokens.weight", 0, PLAIN);
    embed->type = j->tables != 0 ? j->tables : embed->type;
    for (uint32_t l = 0; l < j->arch->n_layers; l++)
        layer(j, l);
    resident(j, "output_norm.weight", "norm.weight", 0, PLUS_ONE);
    if (!j->arch->tied_head) {
        tensor *head = resident(j, "output.weight", "lm_head.weight", 0, PLAIN);
        head->type = j->tables != 0 ? j->tables : head->type;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < j->n; i++) {
        j->t[i].offset = at;
        at += (tensor_bytes(&j->t[i]) + ALIGN - 1) / ALIGN * ALIGN;
        if (j->t[i].change == PLUS_ONE && !j->arch->norm_offset)
            j->t[i].change = PLAIN;
    }
}

/* ---- rows ---- */

/* Where tiled head `to` comes from. */
static uint64_t grouped(const tt_arch *a, uint64_t to)
{
    uint64_t r = a->lin_value_heads / a->lin_key_heads, Hk = a->lin_key_heads;
    return to % Hk * r + to / Hk;
}

/* Row of the source for row i of what is written. */
static uint64_t source_row(const job *j, const tensor *t, uint64_t i)
{
    if (t->change != V_ROWS || i < t->from)
        return i;
    uint64_t at = i - t->from;
    return t->from + grouped(j->arch, at / t->head) * t->head + at % t->head;
}

/* The only place that knows how a matrix of the install lies in memory. */
static void decode_row(const source *m, uint64_t row, float *out)
{
    uint32_t bits = tt_dtype_bits(m->dtype);
    if (bits > 0) {
        tt_quant_decode(bits, (const uint32_t *)(const void *)m->words,
                        (const uint16_t *)(const void *)m->scales,
                        (const uint16_t *)(const void *)m->biases, m->cols, row, 0, m->cols, out);
        return;
    }
    for (uint64_t i = 0; i < m->cols; i++) {
        const char *at = m->words + (row * m->cols + i) * tt_dtype_bytes(m->dtype);
        uint16_t half;
        memcpy(&half, at, 2);
        if (m->dtype == TT_DTYPE_F32)
            memcpy(&out[i], at, 4);
        else
            out[i] = m->dtype == TT_DTYPE_BF16 ? tt_bf16_to_f32(half) : tt_f16_to_f32(half);
    }
}

static void read_row(const job *j, const tensor *t, uint64_t i, float *out)
{
    if (t->mat != NULL) {
        const tt_expert_layout *x = tt_install_expert_layout(j->in);
        const char *e = j->experts[t->layer] + i / t->rows * x->stride;
        const source m = {t->mat->dtype,
                          t->rows,
                          t->cols,
                          e + t->mat->words_offset,
                          e + t->mat->scales_offset,
                          e + t->mat->biases_offset};
        decode_row(&m, i % t->rows, out);
        return;
    }
    const tt_index_entry *e = t->entry;
    const source m = {e->dtype,
                      t->rows,
                      t->cols,
                      j->weights + e->offset,
                      j->weights + e->scales_offset,
                      j->weights + e->biases_offset};
    decode_row(&m, source_row(j, t, i), out);
}

static void change_row(const job *j, const tensor *t, float *v, float *spare)
{
    for (uint64_t i = 0; t->change == PLUS_ONE && i < t->cols; i++)
        v[i] += 1;
    for (uint64_t i = 0; t->change == MINUS_EXP_V && i < t->cols; i++)
        v[i] = -expf(v[i]);
    if (t->change != V_COLUMNS && t->change != MINUS_EXP_V)
        return;
    memcpy(spare, v, t->cols * sizeof *v);
    for (uint64_t i = 0; i < t->cols; i++)
        v[i] = spare[grouped(j->arch, i / t->head) * t->head + i % t->head];
}

static void put_half(unsigned char *out, float f)
{
    uint16_t h = tt_f32_to_f16(f);
    out[0] = (unsigned char)h;
    out[1] = (unsigned char)(h >> 8);
}

/* The scale is such that the value of largest size becomes code 0. */
static void encode_q4_0(const float *v, unsigned char *out)
{
    float most = 0;
    for (unsigned i = 0; i < BLOCK; i++)
        if (fabsf(v[i]) > fabsf(most))
            most = v[i];
    float d = most / -8, inverse = d != 0 ? 1 / d : 0;
    put_half(out, d);
    for (unsigned i = 0; i < BLOCK / 2; i++) {
        unsigned low = (unsigned)(v[i] * inverse + 8.5f), high;
        high = (unsigned)(v[i + BLOCK / 2] * inverse + 8.5f);
        low = low > 15 ? 15 : low;
        high = high > 15 ? 15 : high;
        out[2 + i] = (unsigned char)(low | high << 4);
    }
}

static void encode_q8_0(const float *v, unsigned char *out)
{
    float most = 0;
    for (unsigned i = 0; i < BLOCK; i++)
        most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
    float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    put_half(out, d);
    for (unsigned i = 0; i < BLOCK; i++)
        out[2 + i] = (unsigned char)(signed char)lrintf(v[i] * inverse);
}

static void encode_rows(void *ctx, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    job *j = ctx;
    const tensor *t = j->now;
    float v[MOST_COLS], spare[MOST_COLS];
    uint64_t bytes = row_bytes(t->type, t->cols);
    for (size_t i = begin; i < end; i++) {
        unsigned char *out = j->buf + i * bytes;
        read_row(j, t, j->row0 + i, v);
        change_row(j, t, v, spare);
        if (t->type == GGML_F32)
            memcpy(out, v, bytes);
        for (uint64_t b = 0; t->type != GGML_F32 && b < t->cols / BLOCK; b++)
            if (t->type == GGML_Q4_0)
                encode_q4_0(v + b * BLOCK, out + b * 18);
            else
                encode_q8_0(v + b * BLOCK, out + b * 34);
    }
}

/* ---- the file ---- */

static void put(job *j, const void *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, j->out) != n)
        die("writing", strerror(errno));
    j->at += n;
}

static void put_zeros(job *j, uint64_t to)
{
    static const char zeros[ALIGN];
    while (j->at < to)
        put(j, zeros, to - j->at < ALIGN ? to - j->at : ALIGN);
}

#define BUFFER ((uint64_t)32 << 20)

static void put_tensor(job *j, const tensor *t)
{
    uint64_t bytes = row_bytes(t->type, t->cols), rows = t->rows * t->stack, step = BUFFER / bytes;
    j->now = t;
    for (j->row0 = 0; j->row0 < rows; j->row0 += step) {
        uint64_t n = rows - j->row0 < step ? rows - j->row0 : step;
        tt_pool_run(j->pool, n, 1, encode_rows, j);
        put(j, j->buf, n * bytes);
    }
}

static void u32(tt_buf *b, uint32_t v)
{
    tt_buf_append(b, &v, 4);
}

static void u64(tt_buf *b, uint64_t v)
{
    tt_buf_append(b, &v, 8);
}

static void text(tt_buf *b, const char *s)
{
    u64(b, strlen(s));
    tt_buf_puts(b, s);
}

static void kv_text(tt_buf *b, const char *key, const char *value)
{
    text(b, key);
    u32(b, KV_STRING);
    text(b, value);
}

static void kv_u32(tt_buf *b, const char *key, uint32_t value)
{
    text(b, key);
    u32(b, KV_U32);
    u32(b, value);
}

static void kv_f32(tt_buf *b, const char *key, double value)
{
    float f = (float)value;
    text(b, key);
    u32(b, KV_F32);
    tt_buf_append(b, &f, 4);
}

/* Ids are forced and no text is made; the peer wants names for them all the same. */
static void put_vocabulary(tt_buf *b, uint32_t n)
{
    char name[16];
    text(b, "tokenizer.ggml.tokens");
    u32(b, KV_ARRAY);
    u32(b, KV_STRING);
    u64(b, n);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "t%u", i);
        text(b, name);
    }
    text(b, "tokenizer.ggml.merges");
    u32(b, KV_ARRAY);
    u32(b, KV_STRING);
    u64(b, 1);
    text(b, "t 1");
}

/* "family.name" */
static const char *key(const job *j, const char *name)
{
    static char out[96];
    snprintf(out, sizeof out, "%s.%s", j->family, name);
    return out;
}

static uint64_t put_numbers(tt_buf *b, const job *j)
{
    const tt_arch *a = j->arch;
    bool moe = tt_arch_is_moe(a);
    const struct {
        const char *name;
        uint32_t value;
        bool left_out;
    } numbers[] = {
        {"block_count", a->n_layers, false},
        {"context_length", a->max_position, false},
        {"embedding_length", a->hidden_size, false},
        {"feed_forward_length", moe ? a->moe_intermediate : a->intermediate, false},
        {"vocab_size", a->vocab_size, false},
        {"attention.head_count", a->n_heads, false},
        {"attention.head_count_kv", a->n_kv_heads, false},
        {"attention.key_length", a->head_dim, false},
        {"attention.value_length", a->head_dim, false},
        {"rope.dimension_count", (uint32_t)(a->head_dim * a->partial_rotary), false},
        {"expert_count", a->n_experts, !moe},
        {"expert_used_count", a->top_k, !moe},
        {"expert_feed_forward_length", a->moe_intermediate, !moe},
        {"expert_shared_feed_forward_length", a->shared_intermediate, !moe},
        {"ssm.conv_kernel", a->conv_kernel, false},
        {"ssm.inner_size", tt_arch_value_dim(a), false},
        {"ssm.state_size", a->lin_key_dim, false},
        {"ssm.time_step_rank", a->lin_value_heads, false},
        {"ssm.group_count", a->lin_key_heads, false},
        {"full_attention_interval", 4, false},
    };
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!numbers[i].left_out)
            kv_u32(b, key(j, numbers[i].name), numbers[i].value), n++;
    return n;
}

static uint64_t put_metadata(tt_buf *b, const job *j)
{
    const tt_arch *a = j->arch;
    uint64_t n = 0;
    kv_text(b, "general.architecture", j->family), n++;
    kv_text(b, "general.name", tt_install_model_id(j->in)), n++;
    kv_u32(b, "general.alignment", ALIGN), n++;
    kv_text(b, "tokenizer.ggml.model", "gpt2"), n++;
    kv_text(b, "tokenizer.ggml.pre", "default"), n++;
    kv_u32(b, "tokenizer.ggml.bos_token_id", a->vocab_size - 1), n++;
    kv_u32(b, "tokenizer.ggml.eos_token_id", a->vocab_size - 1), n++;
    put_vocabulary(b, a->vocab_size), n += 2;
    kv_f32(b, key(j, "attention.layer_norm_rms_epsilon"), a->rms_eps), n++;
    kv_f32(b, key(j, "rope.freq_base"), a->rope_theta), n++;
    n += put_numbers(b, j);
    /* Three grids of positions that are the same one: any split of the 32 angles will do. */
    uint32_t angles = (uint32_t)(a->head_dim * a->partial_rotary) / 2;
    const uint32_t sections[4] = {angles - 2 * (angles / 3), angles / 3, angles / 3, 0};
    text(b, key(j, "rope.dimension_sections"));
    u32(b, KV_ARRAY);
    u32(b, KV_I32);
    u64(b, 4);
    tt_buf_append(b, sections, sizeof sections);
    return n + 1;
}

static void put_header(job *j)
{
    tt_buf kv, b;
    tt_buf_init(&kv, 1 << 26);
    tt_buf_init(&b, 1 << 27);
    uint64_t n_kv = put_metadata(&kv, j);
    tt_buf_puts(&b, "GGUF");
    u32(&b, 3);
    u64(&b, j->n);
    u64(&b, n_kv);
    tt_buf_append(&b, kv.data, kv.len);
    for (size_t i = 0; i < j->n; i++) {
        const tensor *t = &j->t[i];
        text(&b, t->name);
        u32(&b, t->rank);
        u64(&b, t->cols);
        if (t->rank > 1)
            u64(&b, t->rows);
        if (t->rank > 2)
            u64(&b, t->stack);
        u32(&b, t->type);
        u64(&b, t->offset);
    }
    if (tt_buf_status(&b, NULL) != TT_OK || tt_buf_status(&kv, NULL) != TT_OK)
        die("header", "out of memory");
    put(j, b.data, b.len);
    put_zeros(j, (j->at + ALIGN - 1) / ALIGN * ALIGN);
    tt_buf_free(&kv);
    tt_buf_free(&b);
}

static const char *map(const char *path, size_t *bytes)
{
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) != 0)
        die(path, strerror(errno));
    void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        die(path, strerror(errno));
    close(fd);
    *bytes = (size_t)sb.st_size;
    return p;
}

/* Pages behind the tensor are not needed again: the file is larger than memory may be. */
static void forget(const job *j, const tensor *t)
{
    if (t->mat != NULL)
        madvise((void *)(uintptr_t)j->experts[t->layer], j->experts_bytes, MADV_DONTNEED);
    fflush(j->out);
    posix_fadvise(fileno(j->out), 0, 0, POSIX_FADV_DONTNEED);
}

static void write_file(job *j, const char *output)
{
    char tmp[4200];
    double begin = tt_now();
    snprintf(tmp, sizeof tmp, "%s.partial", output);
    j->out = fopen(tmp, "wb");
    if (j->out == NULL)
        die(tmp, strerror(errno));
    put_header(j);
    uint64_t data = j->at;
    for (size_t i = 0; i < j->n; i++) {
        put_zeros(j, data + j->t[i].offset);
        put_tensor(j, &j->t[i]);
        forget(j, &j->t[i]);
        if (i % 64 == 0 || i + 1 == j->n)
            fprintf(stderr, "%zu of %zu tensors, %.2f GB, %.0f MB/s\n", i + 1, j->n,
                    (double)j->at / 1e9, (double)j->at / 1e6 / (tt_now() - begin));
    }
    put_zeros(j, (j->at + ALIGN - 1) / ALIGN * ALIGN);
    if (fflush(j->out) != 0 || fsync(fileno(j->out)) != 0 || fclose(j->out) != 0)
        die(tmp, strerror(errno));
    if (rename(tmp, output) != 0)
        die(output, strerror(errno));
}

int main(int argc, char **argv)
{
    job j = {0};
    tt_error err = {0};
    char path[TT_MAX_PATH];
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: gguf_write INSTALL OUTPUT.gguf [q4_0|q8_0]\n");
        return 2;
    }
    if (argc == 4)
        j.tables = strcmp(argv[3], "q4_0") == 0   ? GGML_Q4_0
                   : strcmp(argv[3], "q8_0") == 0 ? GGML_Q8_0
                                                  : 0;
    if (argc == 4 && j.tables == 0)
        die(argv[3], "embeddings and head can be q4_0 or q8_0");
    if (tt_install_open(argv[1], TT_INSTALL_NO_HASH, NULL, NULL, &j.in, &err) != TT_OK)
        die(argv[1], err.message);
    j.arch = tt_install_arch(j.in);
    j.family = j.arch->family == TT_FAMILY_QWEN3_5_MOE ? "qwen35moe"
               : j.arch->family == TT_FAMILY_QWEN3_5   ? "qwen35"
                                                       : NULL;
    if (j.family == NULL)
        die(argv[1], "only the families qwen3_5_moe and qwen3_5 are written");
    j.buf = malloc(BUFFER);
    j.experts = calloc(j.arch->n_layers, sizeof *j.experts);
    if (j.buf == NULL || j.experts == NULL ||
        tt_pool_create(tt_physical_cores(), &j.pool, &err) != TT_OK)
        die("start", "out of memory");
    if (tt_install_path(j.in, TT_WEIGHTS_NAME, path, &err) != TT_OK)
        die(argv[1], err.message);
    j.weights = map(path, &j.weights_bytes);
    for (uint32_t l = 0; l < j.arch->n_layers && tt_arch_is_moe(j.arch); l++)
        j.experts[l] = map(tt_install_expert_path(j.in, l, false), &j.experts_bytes);
    list_all(&j);
    write_file(&j, argv[2]);
    tt_pool_close(&j.pool);
    tt_install_close(&j.in);
    return 0;
}
