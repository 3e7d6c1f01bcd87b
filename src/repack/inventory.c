#include "repack/inventory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends tensors; the first failure is remembered and makes the rest no-ops. */
typedef struct build {
    tt_inventory inv;
    char prefix[64]; /* "layers.3." or "mtp." */
    bool mtp, failed;
} build;

static tt_want *add(build *b, tt_role role, const char *name, uint32_t rank, uint64_t d0,
                    uint64_t d1)
{
    static tt_want nowhere; /* where writes go after a failure */
    tt_inventory *inv = &b->inv;
    if (!b->failed && inv->count == inv->cap) {
        size_t cap = inv->cap < 64 ? 64 : 2 * inv->cap;
        tt_want *items = realloc(inv->items, cap * sizeof *items);
        if (items == NULL) {
            b->failed = true;
            return &nowhere;
        }
        inv->items = items;
        inv->cap = cap;
    }
    char full[TT_MAX_NAME];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    char *copy = b->failed ? NULL : strdup(full);
    if (copy == NULL) {
        b->failed = true;
        return &nowhere;
    }
    tt_want *w = &inv->items[inv->count++];
    *w = (tt_want){.name = copy, .rank = rank, .shape = {d0, d1}, .role = role, .mtp = b->mtp};
    return w;
}

static void matrix(build *b, tt_role role, const char *name, uint64_t rows, uint64_t cols)
{
    add(b, role, name, 2, rows, cols);
}

static void vector(build *b, const char *name, uint64_t n)
{
    add(b, TT_ROLE_PLAIN, name, 1, n, 0);
}

static void norm(build *b, const char *name, uint64_t n)
{
    add(b, TT_ROLE_PLAIN, name, 1, n, 0)->offset_norm = true;
}

static void linear_attention(build *b, const tt_arch *a)
{
    uint64_t h = a->hidden_size, hv = a->lin_value_heads;
    uint64_t conv = tt_arch_conv_dim(a), value = tt_arch_value_dim(a);
    matrix(b, TT_ROLE_DELTANET, "linear_attn.in_proj_qkv.weight", conv, h);
    matrix(b, TT_ROLE_DELTANET, "linear_attn.in_proj_z.weight", value, h);
    matrix(b, TT_ROLE_DELTA_AB, "linear_attn.in_proj_b.weight", hv, h);
    matrix(b, TT_ROLE_DELTA_AB, "linear_attn.in_proj_a.weight", hv, h);
    add(b, TT_ROLE_PLAIN, "linear_attn.conv1d.weight", 2, conv, a->conv_kernel)->conv = true;
    vector(b, "linear_attn.A_log", hv);
    vector(b, "linear_attn.dt_bias", hv);
    vector(b, "linear_attn.norm.weight", a->lin_value_dim); /* the factor itself, never offset */
    matrix(b, TT_ROLE_DELTANET, "linear_attn.out_proj.weight", h, value);
}

static void full_attention(build *b, const tt_arch *a)
{
    uint64_t h = a->hidden_size, d = a->head_dim;
    matrix(b, TT_ROLE_ATTENTION, "self_attn.q_proj.weight", (uint64_t)a->n_heads * 2 * d, h);
    matrix(b, TT_ROLE_ATTENTION, "self_attn.k_proj.weight", a->n_kv_heads * d, h);
    matrix(b, TT_ROLE_ATTENTION, "self_attn.v_proj.weight", a->n_kv_heads * d, h);
    matrix(b, TT_ROLE_ATTENTION, "self_attn.o_proj.weight", h, a->n_heads * d);
    norm(b, "self_attn.q_norm.weight", d);
    norm(b, "self_attn.k_norm.weight", d);
}

static void feed_forward(build *b, const tt_arch *a)
{
    uint64_t h = a->hidden_size, fs = a->shared_intermediate;
    if (!tt_arch_is_moe(a)) {
        matrix(b, TT_ROLE_MLP, "mlp.gate_proj.weight", a->intermediate, h);
        matrix(b, TT_ROLE_MLP, "mlp.up_proj.weight", a->intermediate, h);
        matrix(b, TT_ROLE_MLP, "mlp.down_proj.weight", h, a->intermediate);
        return;
    }
    matrix(b, TT_ROLE_ROUTER, "mlp.gate.weight", a->n_experts, h);
    if (fs == 0)
        return;
    matrix(b, TT_ROLE_SHARED, "mlp.shared_expert.gate_proj.weight", fs, h);
    matrix(b, TT_ROLE_SHARED, "mlp.shared_expert.up_proj.weight", fs, h);
    matrix(b, TT_ROLE_SHARED, "mlp.shared_expert.down_proj.weight", h, fs);
    matrix(b, TT_ROLE_SHARED_GATE, "mlp.shared_expert_gate.weight", 1, h);
}

/* One gated residual: what a block reads of the streams, and what each of them takes of it. */
static void mixer(build *b, const tt_arch *a, const char *stem, bool inject)
{
    char name[96];
    uint64_t w = tt_arch_residual(a);
    snprintf(name, sizeof name, "%s.hc_norm.weight", stem);
    norm(b, name, w);
    snprintf(name, sizeof name, "%s.input_mix_weight_down.weight", stem);
    matrix(b, TT_ROLE_MIX, name, a->mix_rank, w);
    snprintf(name, sizeof name, "%s.input_mix_weight_up.weight", stem);
    matrix(b, TT_ROLE_MIX, name, w, a->mix_rank);
    snprintf(name, sizeof name, "%s.block_inject_weight.weight", stem);
    if (inject)
        matrix(b, TT_ROLE_INJECT, name, a->streams, w);
}

static void indexer(build *b, const tt_arch *a)
{
    uint64_t d = a->indexer_dim;
    matrix(b, TT_ROLE_INDEXER, "self_attn.indexer.index_qk_proj.weight", (a->indexer_heads + 1) * d,
           a->hidden_size);
    norm(b, "self_attn.indexer.q_layernorm.weight", d);
    norm(b, "self_attn.indexer.k_layernorm.weight", d);
}

static void integers(build *b, const char *name, uint64_t n)
{
    add(b, TT_ROLE_PLAIN, name, 1, n, 0)->integers = true;
}

/* The n-gram block; its table is a file of its own. */
static void ngrams(build *b, const tt_arch *a)
{
    uint64_t w = tt_arch_residual(a), heads = tt_arch_ngrams(a);
    matrix(b, TT_ROLE_NGRAM_KEY, "ple.key_proj.weight", w, a->ngram_dim);
    matrix(b, TT_ROLE_NGRAM_VALUE, "ple.value_proj.weight", a->hidden_size, a->ngram_dim);
    norm(b, "ple.norm_key.weight", w);
    norm(b, "ple.norm_query.weight", w);
    norm(b, "ple.norm_conv.weight", w);
    add(b, TT_ROLE_PLAIN, "ple.conv1d.weight", 2, w, 4)->conv = true;
    integers(b, "ple.ple_embedding.layer_multipliers", a->ngram_size);
    integers(b, "ple.ple_embedding.ngram_heads_vocab_sizes", heads);
    integers(b, "ple.ple_embedding.ngram_heads_offsets", heads);
}

static void residual(build *b, const tt_arch *a)
{
    if (a->streams > 0) {
        mixer(b, a, "attn_hyper_connection", true);
        mixer(b, a, "mlp_hyper_connection", true);
        return;
    }
    norm(b, "input_layernorm.weight", a->hidden_size);
    norm(b, "post_attention_layernorm.weight", a->hidden_size);
}

static void layer(build *b, const tt_arch *a, const char *stem, uint32_t i, bool full)
{
    snprintf(b->prefix, sizeof b->prefix, "%slayers.%u.", stem, i);
    residual(b, a);
    if (a->streams > 0 && full)
        indexer(b, a);
    if (a->streams > 0 && !b->mtp && i == a->ngram_layer)
        ngrams(b, a);
    if (full)
        full_attention(b, a);
    else
        linear_attention(b, a);
    feed_forward(b, a);
}

static void body(build *b, const tt_arch *a)
{
    for (uint32_t i = 0; i < a->n_layers; i++)
        layer(b, a, "", i, a->layer_kind[i] == TT_LAYER_FULL);
    b->prefix[0] = '\0';
    matrix(b, TT_ROLE_EMBED, "embed_tokens.weight", a->vocab_size, a->hidden_size);
    if (a->streams > 0)
        mixer(b, a, "hyper_connection_mixer", false);
    else
        norm(b, "norm.weight", a->hidden_size);
    if (!a->tied_head)
        matrix(b, TT_ROLE_HEAD, "lm_head.weight", a->vocab_size, a->hidden_size);
}

static void draft(build *b, const tt_arch *a)
{
    uint64_t h = a->hidden_size;
    b->mtp = true;
    for (uint32_t i = 0; i < a->n_mtp_layers; i++)
        layer(b, a, "mtp.", i, true);
    snprintf(b->prefix, sizeof b->prefix, "mtp.");
    norm(b, "pre_fc_norm_embedding.weight", h);
    if (a->streams > 0) {
        matrix(b, TT_ROLE_MTP_FC, "fc_embedding.weight", h, h);
        matrix(b, TT_ROLE_MTP_FC, "fc_hidden.weight", h, h);
        norm(b, "pre_fc_norm_hidden.weight", tt_arch_residual(a));
        mixer(b, a, "hyper_connection_mixer", false);
        return;
    }
    matrix(b, TT_ROLE_MTP_FC, "fc.weight", h, 2 * h);
    norm(b, "pre_fc_norm_hidden.weight", h);
    norm(b, "norm.weight", h);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tt_want *)a)->name, ((const tt_want *)b)->name);
}

tt_status tt_inventory_create(const tt_arch *arch, tt_inventory *out, tt_error *err)
{
    build b = {0};
    body(&b, arch);
    if (arch->n_mtp_layers > 0)
        draft(&b, arch);
    if (b.failed) {
        tt_inventory_free(&b.inv);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the list of tensors");
    }
    qsort(b.inv.items, b.inv.count, sizeof *b.inv.items, by_name);
    *out = b.inv;
    return TT_OK;
}

void tt_inventory_free(tt_inventory *inv)
{
    if (inv == NULL)
        return;
    for (size_t i = 0; i < inv->count; i++)
        free(inv->items[i].name);
    free(inv->items);
    *inv = (tt_inventory){0};
}

const tt_want *tt_inventory_find(const tt_inventory *inv, const char *name)
{
    tt_want key = {.name = (char *)name};
    return bsearch(&key, inv->items, inv->count, sizeof *inv->items, by_name);
}

tt_status tt_inventory_check_index(const tt_inventory *inv, const tt_index *ix, bool mtp,
                                   const char *file, tt_error *err)
{
    size_t k = 0;
    for (size_t i = 0; i < inv->count; i++) {
        const tt_want *w = &inv->items[i];
        if (w->mtp != mtp)
            continue;
        if (k == ix->count || strcmp(ix->entries[k].name, w->name) != 0)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              tt_index_find(ix, w->name) == NULL
                                  ? "the model calls for the tensor \"%s\", which is missing"
                                  : "there is a tensor before \"%s\" that the model does not have",
                              w->name);
        const tt_index_entry *e = &ix->entries[k++];
        if (e->rank != w->rank || memcmp(e->shape, w->shape, sizeof e->shape) != 0)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "tensor \"%s\" does not have the shape that the architecture calls "
                              "for (%llu x %llu)",
                              w->name, (unsigned long long)w->shape[0],
                              (unsigned long long)w->shape[1]);
        if (w->integers != (e->dtype == TT_DTYPE_I64) ||
            (w->role == TT_ROLE_PLAIN && (e->dtype == TT_DTYPE_Q4 || e->dtype == TT_DTYPE_Q8)))
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "tensor \"%s\" must not be %s", w->name,
                              tt_dtype_name(e->dtype));
    }
    if (k != ix->count)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "there is a tensor \"%.200s\" that the model does not have",
                          ix->entries[k].name);
    return TT_OK;
}
