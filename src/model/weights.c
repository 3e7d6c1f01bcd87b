#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "io/reader.h"

/* A walk over every field of the model. With w NULL it only checks; with w it binds to loaded
 * memory. */
typedef struct binder {
    const tt_install *in;
    bool draft; /* names begin with "mtp." */
    const tt_index *ix;
    const tt_arch *arch;
    tt_weights *w;
    bool *used; /* [ix->count] */
    float *vector_next;
    uint64_t vector_floats;
    char file[TT_MAX_PATH];
    tt_error *err;
} binder;

static tt_status find(binder *b, const tt_index_entry **out, const char *name)
{
    char draft_name[TT_MAX_NAME];
    if (b->draft) {
        snprintf(draft_name, sizeof draft_name, "mtp.%s", name);
        name = draft_name;
    }
    const tt_index_entry *e = tt_index_find(b->ix, name);
    if (e == NULL)
        return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, -1, "tensor \"%s\" is missing", name);
    b->used[e - b->ix->entries] = true;
    *out = e;
    return TT_OK;
}

/* "[2, 3]", or "[2]" for rank 1. */
static void put_shape(char out[64], uint32_t rank, const uint64_t *shape)
{
    size_t len = 0;
    for (uint32_t i = 0; i < rank && len < 48; i++)
        len += (size_t)snprintf(out + len, 64 - len, "%s%llu", i > 0 ? ", " : "[",
                                (unsigned long long)shape[i]);
    snprintf(out + len, 64 - len, "]");
}

/* `cols` 0: a vector is needed. */
static tt_status misshapen(binder *b, const tt_index_entry *e, uint64_t rows, uint64_t cols)
{
    char is[64], must[64];
    put_shape(is, e->rank, e->shape);
    put_shape(must, cols > 0 ? 2 : 1, (const uint64_t[]){rows, cols});
    return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, (int64_t)e->offset,
                      "tensor \"%s\" has shape %s, the architecture needs %s", e->name, is, must);
}

static const void *at(const binder *b, uint64_t offset)
{
    return (const char *)b->w->payload + (offset - b->ix->index_bytes);
}

static tt_status bind_mat(binder *b, tt_mat *m, uint32_t rows, uint32_t cols, const char *name)
{
    const tt_index_entry *e;
    TT_TRY(find(b, &e, name));
    if (e->rank != 2 || e->shape[0] != rows || e->shape[1] != cols)
        return misshapen(b, e, rows, cols);
    if (e->dtype == TT_DTYPE_I64)
        return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, (int64_t)e->offset,
                          "tensor \"%s\" holds integers, weights are needed", name);
    if (b->w == NULL)
        return TT_OK;
    *m = (tt_mat){.dtype = e->dtype, .rows = rows, .cols = cols, .words = at(b, e->offset)};
    if (e->scales_bytes > 0) {
        m->scales = at(b, e->scales_offset);
        m->biases = at(b, e->biases_offset);
    }
    return TT_OK;
}

/* A small tensor as f32, [rows] or with cols > 0 [rows, cols]; `add` is folded in: 1 for offset
 * norms. */
static tt_status bind_values(binder *b, const float **out, uint32_t rows, uint32_t cols, float add,
                             const char *name)
{
    const tt_index_entry *e;
    TT_TRY(find(b, &e, name));
    uint64_t n = (uint64_t)rows * (cols > 0 ? cols : 1);
    if (e->rank != (cols > 0 ? 2 : 1) || e->shape[0] != rows || (cols > 0 && e->shape[1] != cols))
        return misshapen(b, e, rows, cols);
    if (tt_dtype_bytes(e->dtype) == 0 || e->dtype == TT_DTYPE_I64)
        return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, (int64_t)e->offset,
                          "tensor \"%s\" is %s, vectors are F32, F16 or BF16", name,
                          tt_dtype_name(e->dtype));
    b->vector_floats += (n + 15) / 16 * 16;
    if (b->w == NULL)
        return TT_OK;
    float *v = b->vector_next;
    const void *src = at(b, e->offset);
    for (uint64_t i = 0; i < n; i++) {
        float x = e->dtype == TT_DTYPE_F32   ? ((const float *)src)[i]
                  : e->dtype == TT_DTYPE_F16 ? tt_f16_to_f32(((const uint16_t *)src)[i])
                                             : tt_bf16_to_f32(((const uint16_t *)src)[i]);
        v[i] = x + add;
    }
    b->vector_next += (n + 15) / 16 * 16;
    *out = v;
    return TT_OK;
}

static tt_status bind_vector(binder *b, const float **out, uint32_t n, float add, const char *name)
{
    return bind_values(b, out, n, 0, add, name);
}

/* Names of a layer: "layers.L.REST". */
typedef struct layer_name {
    char text[TT_MAX_NAME];
} layer_name;

static const char *in_layer(layer_name *n, uint32_t l, const char *rest)
{
    snprintf(n->text, sizeof n->text, "layers.%u.%s", l, rest);
    return n->text;
}

/* ---- qwen4_exp ---- */

static tt_status bind_mix(binder *b, tt_mix_weights *w, const char *stem, bool inject)
{
    const tt_arch *a = b->arch;
    uint32_t R = tt_arch_residual(a);
    char name[TT_MAX_NAME];
    snprintf(name, sizeof name, "%s.hc_norm.weight", stem);
    TT_TRY(bind_vector(b, &w->norm, R, a->norm_offset ? 1.0f : 0.0f, name));
    snprintf(name, sizeof name, "%s.input_mix_weight_down.weight", stem);
    TT_TRY(bind_mat(b, &w->down, a->mix_rank, R, name));
    snprintf(name, sizeof name, "%s.input_mix_weight_up.weight", stem);
    TT_TRY(bind_mat(b, &w->up, R, a->mix_rank, name));
    snprintf(name, sizeof name, "%s.block_inject_weight.weight", stem);
    return inject ? bind_mat(b, &w->inject, a->streams, R, name) : TT_OK;
}

static tt_status bind_integers(binder *b, const int64_t **out, uint32_t n, const char *name)
{
    const tt_index_entry *e;
    TT_TRY(find(b, &e, name));
    if (e->rank != 1 || e->shape[0] != n)
        return misshapen(b, e, n, 0);
    if (e->dtype != TT_DTYPE_I64)
        return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, (int64_t)e->offset,
                          "tensor \"%s\" is %s, integers are needed", name,
                          tt_dtype_name(e->dtype));
    if (b->w != NULL)
        *out = at(b, e->offset);
    return TT_OK;
}

/* Every row that can be asked for is one of the table. */
static tt_status check_ngrams(binder *b, const tt_ngram_weights *w)
{
    const tt_arch *a = b->arch;
    for (uint32_t i = 0; b->w != NULL && i < tt_arch_ngrams(a); i++)
        if (w->sizes[i] < 1 || w->offsets[i] < 0 || w->sizes[i] > a->ngram_rows ||
            w->offsets[i] > (int64_t)a->ngram_rows - w->sizes[i])
            return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, -1,
                              "head %u of the n-gram table has %lld rows from %lld on, the table "
                              "has %u",
                              i, (long long)w->sizes[i], (long long)w->offsets[i], a->ngram_rows);
    return TT_OK;
}

static tt_status bind_ngram(binder *b, tt_ngram_weights *w)
{
    const tt_arch *a = b->arch;
    uint32_t R = tt_arch_residual(a), l = a->ngram_layer, n = tt_arch_ngrams(a);
    float add = a->norm_offset ? 1.0f : 0.0f;
    layer_name s;
    TT_TRY(bind_mat(b, &w->key, R, a->ngram_dim, in_layer(&s, l, "ple.key_proj.weight")));
    TT_TRY(bind_mat(b, &w->value, a->hidden_size, a->ngram_dim,
                    in_layer(&s, l, "ple.value_proj.weight")));
    TT_TRY(bind_vector(b, &w->norm_key, R, add, in_layer(&s, l, "ple.norm_key.weight")));
    TT_TRY(bind_vector(b, &w->norm_query, R, add, in_layer(&s, l, "ple.norm_query.weight")));
    TT_TRY(bind_vector(b, &w->norm_conv, R, add, in_layer(&s, l, "ple.norm_conv.weight")));
    TT_TRY(bind_values(b, &w->conv, R, 4, 0, in_layer(&s, l, "ple.conv1d.weight")));
    TT_TRY(bind_integers(b, &w->multipliers, a->ngram_size,
                         in_layer(&s, l, "ple.ple_embedding.layer_multipliers")));
    TT_TRY(bind_integers(b, &w->sizes, n,
                         in_layer(&s, l, "ple.ple_embedding.ngram_heads_vocab_sizes")));
    TT_TRY(
        bind_integers(b, &w->offsets, n, in_layer(&s, l, "ple.ple_embedding.ngram_heads_offsets")));
    return check_ngrams(b, w);
}

static tt_status bind_indexer(binder *b, tt_attention_weights *w, uint32_t l)
{
    const tt_arch *a = b->arch;
    uint32_t d = a->indexer_dim;
    float add = a->norm_offset ? 1.0f : 0.0f;
    layer_name n;
    TT_TRY(bind_mat(b, &w->index_qk, (a->indexer_heads + 1) * d, a->hidden_size,
                    in_layer(&n, l, "self_attn.indexer.index_qk_proj.weight")));
    TT_TRY(bind_vector(b, &w->index_q_norm, d, add,
                       in_layer(&n, l, "self_attn.indexer.q_layernorm.weight")));
    return bind_vector(b, &w->index_k_norm, d, add,
                       in_layer(&n, l, "self_attn.indexer.k_layernorm.weight"));
}

/* ---- layers ---- */

static tt_status bind_attention(binder *b, tt_attention_weights *w, uint32_t l)
{
    const tt_arch *a = b->arch;
    uint32_t H = a->hidden_size, q = a->n_heads * a->head_dim, kv = a->n_kv_heads * a->head_dim;
    float add = a->norm_offset ? 1.0f : 0.0f;
    layer_name n;
    TT_TRY(bind_mat(b, &w->q, 2 * q, H, in_layer(&n, l, "self_attn.q_proj.weight")));
    TT_TRY(bind_mat(b, &w->k, kv, H, in_layer(&n, l, "self_attn.k_proj.weight")));
    TT_TRY(bind_mat(b, &w->v, kv, H, in_layer(&n, l, "self_attn.v_proj.weight")));
    TT_TRY(bind_mat(b, &w->o, H, q, in_layer(&n, l, "self_attn.o_proj.weight")));
    TT_TRY(
        bind_vector(b, &w->q_norm, a->head_dim, add, in_layer(&n, l, "self_attn.q_norm.weight")));
    return bind_vector(b, &w->k_norm, a->head_dim, add, in_layer(&n, l, "self_attn.k_norm.weight"));
}

static tt_status bind_delta(binder *b, tt_delta_weights *w, uint32_t l)
{
    const tt_arch *a = b->arch;
    uint32_t H = a->hidden_size, C = tt_arch_conv_dim(a), V = tt_arch_value_dim(a),
             Hv = a->lin_value_heads;
    layer_name n;
    TT_TRY(bind_mat(b, &w->qkv, C, H, in_layer(&n, l, "linear_attn.in_proj_qkv.weight")));
    TT_TRY(bind_mat(b, &w->z, V, H, in_layer(&n, l, "linear_attn.in_proj_z.weight")));
    TT_TRY(bind_mat(b, &w->b, Hv, H, in_layer(&n, l, "linear_attn.in_proj_b.weight")));
    TT_TRY(bind_mat(b, &w->a, Hv, H, in_layer(&n, l, "linear_attn.in_proj_a.weight")));
    TT_TRY(bind_mat(b, &w->out, H, V, in_layer(&n, l, "linear_attn.out_proj.weight")));
    TT_TRY(bind_values(b, &w->conv, C, a->conv_kernel, 0,
                       in_layer(&n, l, "linear_attn.conv1d.weight")));
    TT_TRY(bind_vector(b, &w->A_log, Hv, 0, in_layer(&n, l, "linear_attn.A_log")));
    TT_TRY(bind_vector(b, &w->dt_bias, Hv, 0, in_layer(&n, l, "linear_attn.dt_bias")));
    /* never an offset norm: model-math 3.1 (b) */
    return bind_vector(b, &w->norm, a->lin_value_dim, 0,
                       in_layer(&n, l, "linear_attn.norm.weight"));
}

static tt_status bind_ffn(binder *b, tt_layer_weights *w, uint32_t l)
{
    const tt_arch *a = b->arch;
    uint32_t H = a->hidden_size;
    bool moe = tt_arch_is_moe(a);
    uint32_t F = moe ? a->shared_intermediate : a->intermediate;
    const char *where = moe ? "mlp.shared_expert" : "mlp";
    char rest[64];
    layer_name n;
    snprintf(rest, sizeof rest, "%s.gate_proj.weight", where);
    TT_TRY(bind_mat(b, &w->mlp.gate, F, H, in_layer(&n, l, rest)));
    snprintf(rest, sizeof rest, "%s.up_proj.weight", where);
    TT_TRY(bind_mat(b, &w->mlp.up, F, H, in_layer(&n, l, rest)));
    snprintf(rest, sizeof rest, "%s.down_proj.weight", where);
    TT_TRY(bind_mat(b, &w->mlp.down, H, F, in_layer(&n, l, rest)));
    if (!moe)
        return TT_OK;
    TT_TRY(bind_mat(b, &w->router, a->n_experts, H, in_layer(&n, l, "mlp.gate.weight")));
    return bind_mat(b, &w->shared_gate, 1, H, in_layer(&n, l, "mlp.shared_expert_gate.weight"));
}

static tt_status bind_layer(binder *b, tt_layer_weights *w, uint32_t l)
{
    const tt_arch *a = b->arch;
    float add = a->norm_offset ? 1.0f : 0.0f;
    layer_name n;
    w->kind = a->layer_kind[l];
    if (a->streams > 0) {
        TT_TRY(bind_mix(b, &w->mix_attn, in_layer(&n, l, "attn_hyper_connection"), true));
        TT_TRY(bind_mix(b, &w->mix_ffn, in_layer(&n, l, "mlp_hyper_connection"), true));
        if (w->kind == TT_LAYER_FULL)
            TT_TRY(bind_indexer(b, &w->attn, l));
    } else {
        TT_TRY(bind_vector(b, &w->norm_in, a->hidden_size, add,
                           in_layer(&n, l, "input_layernorm.weight")));
        TT_TRY(bind_vector(b, &w->norm_post, a->hidden_size, add,
                           in_layer(&n, l, "post_attention_layernorm.weight")));
    }
    if (w->kind == TT_LAYER_FULL)
        TT_TRY(bind_attention(b, &w->attn, l));
    else
        TT_TRY(bind_delta(b, &w->delta, l));
    return bind_ffn(b, w, l);
}

/* What a model has outside its layers, and what a draft has. */
static tt_status bind_ends(binder *b, tt_weights *w)
{
    const tt_arch *a = b->arch;
    uint32_t H = a->hidden_size;
    float add = a->norm_offset ? 1.0f : 0.0f;
    if (a->streams > 0) {
        TT_TRY(bind_mix(b, &w->mix, "hyper_connection_mixer", false));
        TT_TRY(bind_ngram(b, &w->ngram));
    } else {
        TT_TRY(bind_vector(b, &w->norm, H, add, "norm.weight"));
    }
    if (b->draft) {
        TT_TRY(bind_mat(b, &w->fc, H, 2 * H, "fc.weight"));
        TT_TRY(bind_vector(b, &w->norm_embed, H, add, "pre_fc_norm_embedding.weight"));
        return bind_vector(b, &w->norm_hidden, H, add, "pre_fc_norm_hidden.weight");
    }
    TT_TRY(bind_mat(b, &w->embed, a->vocab_size, H, "embed_tokens.weight"));
    if (!a->tied_head)
        return bind_mat(b, &w->head, a->vocab_size, H, "lm_head.weight");
    w->head = w->embed;
    return TT_OK;
}

static tt_status bind_all(binder *b)
{
    const tt_arch *a = b->arch;
    uint32_t seen[2] = {0, 0};
    tt_weights dummy = {0};
    tt_weights *w = b->w != NULL ? b->w : &dummy;
    TT_TRY(bind_ends(b, w));
    for (uint32_t l = 0; l < a->n_layers; l++) {
        tt_layer_weights unbound = {0}, *layer = b->w != NULL ? &w->layer[l] : &unbound;
        TT_TRY(bind_layer(b, layer, l));
        layer->kind_index = seen[layer->kind]++;
    }
    for (size_t i = 0; i < b->ix->count; i++)
        if (!b->used[i])
            return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, (int64_t)b->ix->entries[i].offset,
                              "tensor \"%s\" is not part of a %s model", b->ix->entries[i].name,
                              tt_family_name(a->family));
    return TT_OK;
}

/* `draft`: its architecture, or NULL for the model. */
static const tt_index *index_of(const tt_install *in, const tt_arch *draft)
{
    return draft != NULL ? tt_install_mtp_index(in) : tt_install_index(in);
}

static const char *name_of(const tt_arch *draft)
{
    return draft != NULL ? TT_MTP_WEIGHTS_NAME : TT_WEIGHTS_NAME;
}

static tt_status walk(const tt_install *in, const tt_arch *draft, tt_weights *w,
                      uint64_t *vector_floats, tt_error *err)
{
    binder b = {.in = in,
                .draft = draft != NULL,
                .ix = index_of(in, draft),
                .arch = draft != NULL ? draft : tt_install_arch(in),
                .w = w,
                .err = err};
    TT_TRY(tt_install_path(in, name_of(draft), b.file, err));
    b.used = calloc(b.ix->count + 1, sizeof *b.used);
    if (b.used == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu index entries", b.ix->count);
    if (w != NULL)
        b.vector_next = w->vectors;
    tt_status st = bind_all(&b);
    free(b.used);
    if (st == TT_OK && vector_floats != NULL)
        *vector_floats = b.vector_floats;
    return st;
}

tt_status tt_weights_check(const tt_install *in, tt_error *err)
{
    return walk(in, NULL, NULL, NULL, err);
}

tt_status tt_draft_weights_check(const tt_install *in, const tt_arch *draft, tt_error *err)
{
    if (tt_install_mtp_index(in) == NULL)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, tt_install_dir(in), -1,
                          "the install has no draft (mtp): draft by lookup, or not at all");
    return walk(in, draft, NULL, NULL, err);
}

static uint64_t cost(const tt_install *in, const tt_arch *draft)
{
    const tt_index *ix = index_of(in, draft);
    uint64_t floats = 0;
    if (walk(in, draft, NULL, &floats, NULL) != TT_OK)
        floats = 0;
    return ix->file_bytes - ix->index_bytes + floats * sizeof(float) +
           (draft != NULL ? draft : tt_install_arch(in))->n_layers * sizeof(tt_layer_weights);
}

uint64_t tt_weights_cost(const tt_install *in)
{
    return cost(in, NULL);
}

uint64_t tt_draft_weights_cost(const tt_install *in, const tt_arch *draft)
{
    return cost(in, draft);
}

/* ---- reading the payload ---- */

/* Two rounds of reads are in flight, so that the disk is busy while the pool touches the memory of
 * the next; progress and abort stay alive between rounds. */
#define PIECE ((uint64_t)4 << 20)
#define ROUND 16u

typedef struct loader {
    tt_reader *reader;
    tt_pool *pool;
    char *to;
    uint64_t from, bytes; /* file offset of the payload, its size */
    uint64_t rounds;
    tt_read rd[2][ROUND];
    uint32_t n[2];
} loader;

typedef struct touching {
    volatile char *base;
} touching;

static void touch_pages(void *ctx, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const touching *t = ctx;
    for (size_t i = begin; i < end; i++)
        t->base[i * TT_IO_ALIGN] = 0;
}

static tt_status start_round(loader *ld, uint64_t round, tt_error *err)
{
    uint64_t begin = round * ROUND * PIECE, end = begin + ROUND * PIECE;
    uint32_t turn = round % 2;
    ld->n[turn] = 0;
    if (round >= ld->rounds)
        return TT_OK;
    end = end < ld->bytes ? end : ld->bytes;
    touching t = {.base = ld->to + begin};
    tt_pool_run(ld->pool, (end - begin) / TT_IO_ALIGN, TT_MIB / TT_IO_ALIGN, touch_pages, &t);
    for (uint64_t off = begin; off < end; off += PIECE) {
        tt_read *rd = &ld->rd[turn][ld->n[turn]];
        *rd = (tt_read){.offset = ld->from + off,
                        .bytes = end - off < PIECE ? end - off : PIECE,
                        .dst = ld->to + off};
        TT_TRY(ld->reader->ops->start(ld->reader, rd, err));
        ld->n[turn]++;
    }
    tt_reader_flush(ld->reader);
    return TT_OK;
}

/* Every read is waited for, whatever failed: they go to memory of ours. */
static tt_status end_round(loader *ld, uint32_t turn, tt_status st, tt_error *err)
{
    for (uint32_t i = 0; i < ld->n[turn]; i++) {
        tt_status one =
            ld->reader->ops->wait(ld->reader, &ld->rd[turn][i], st == TT_OK ? err : NULL);
        st = st != TT_OK ? st : one;
    }
    ld->n[turn] = 0;
    return st;
}

static tt_status read_rounds(loader *ld, const char *path, tt_progress_fn progress, void *ctx,
                             tt_error *err)
{
    tt_status st = start_round(ld, 0, err);
    for (uint64_t r = 0; st == TT_OK && r < ld->rounds; r++) {
        st = start_round(ld, r + 1, err);
        st = end_round(ld, r % 2, st, err);
        uint64_t done = (r + 1) * ROUND * PIECE;
        done = done < ld->bytes ? done : ld->bytes;
        if (st == TT_OK && progress != NULL && !progress(ctx, done, ld->bytes))
            st = tt_fail_at(err, TT_ERR_ABORTED, path, -1, "stopped while loading %s", path);
    }
    for (uint32_t turn = 0; turn < 2; turn++)
        st = end_round(ld, turn, st, err);
    return st;
}

static tt_status check_size(const char *path, uint64_t want, tt_error *err)
{
    int fd;
    uint64_t size = 0;
    TT_TRY(tt_file_open(path, &fd, &size, err));
    close(fd);
    if (size != want)
        return tt_fail_at(err, TT_ERR_CORRUPT, path, -1,
                          "file has %llu bytes, the manifest says %llu", (unsigned long long)size,
                          (unsigned long long)want);
    return TT_OK;
}

/* By a reader of expert files: what the page cache holds comes from there, and nothing is left in
 * it that was not there before, so that the budget holds while loading too. */
static tt_status read_payload(tt_weights *w, const tt_install *in, const tt_arch *draft,
                              tt_pool *pool, tt_progress_fn progress, void *ctx, tt_error *err)
{
    const tt_index *ix = index_of(in, draft);
    char path[TT_MAX_PATH];
    const char *paths[] = {path};
    TT_TRY(tt_install_path(in, name_of(draft), path, err));
    TT_TRY(check_size(path, ix->file_bytes, err));
    loader *ld = calloc(1, sizeof *ld);
    if (ld == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for loading %s", path);
    ld->pool = pool;
    ld->to = w->payload;
    ld->from = ix->index_bytes;
    ld->bytes = w->payload_bytes;
    ld->rounds = (ld->bytes + ROUND * PIECE - 1) / (ROUND * PIECE);
    tt_status st = tt_reader_open(paths, 1, NULL, &ld->reader, err);
    if (st == TT_OK)
        st = read_rounds(ld, path, progress, ctx, err);
    tt_reader_close(&ld->reader);
    free(ld);
    return st;
}

static tt_status load(tt_weights *w, const tt_install *in, const tt_arch *draft, tt_pool *pool,
                      tt_progress_fn progress, void *ctx, tt_error *err)
{
    const tt_index *ix = index_of(in, draft);
    uint64_t floats = 0;
    *w = (tt_weights){0};
    TT_TRY(walk(in, draft, NULL, &floats, err));
    tt_status st = TT_OK;
    void *block = NULL;
    w->payload_bytes = ix->file_bytes - ix->index_bytes;
    w->vectors_bytes = floats * sizeof(float);
    w->layer = calloc((draft != NULL ? draft : tt_install_arch(in))->n_layers, sizeof *w->layer);
    if (w->layer == NULL) {
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the layer table");
        goto fail;
    }
    TT_GOTO(tt_mem_alloc(w->payload_bytes, "resident weights", &w->payload, err), fail);
    TT_GOTO(tt_mem_alloc(w->vectors_bytes, "resident vectors", &block, err), fail);
    w->vectors = block;
    TT_GOTO(read_payload(w, in, draft, pool, progress, ctx, err), fail);
    TT_GOTO(walk(in, draft, w, NULL, err), fail);
    return TT_OK;
fail:
    tt_weights_free(w);
    return st;
}

tt_status tt_weights_load(tt_weights *w, const tt_install *in, tt_pool *pool,
                          tt_progress_fn progress, void *ctx, tt_error *err)
{
    return load(w, in, NULL, pool, progress, ctx, err);
}

tt_status tt_draft_weights_load(tt_weights *w, const tt_install *in, const tt_arch *draft,
                                tt_pool *pool, tt_error *err)
{
    TT_TRY(tt_draft_weights_check(in, draft, err));
    return load(w, in, draft, pool, NULL, NULL, err);
}

void tt_weights_free(tt_weights *w)
{
    tt_mem_free(w->payload, w->payload_bytes);
    tt_mem_free(w->vectors, w->vectors_bytes);
    free(w->layer);
    *w = (tt_weights){0};
}
