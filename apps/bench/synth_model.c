/* Presets, the list of tensors, and the directions and pulls that their values are made from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "bench/synth.h"
#include "bench/synth_random.h"
#include "format/install_layout.h"

/* All layers together add this much to an embedding of size 1: little, so that the router sees the
 * token whatever the layers did. */
#define LAYERS_ADD 0.15f
/* Pulls are this much wider than chances alone say: it makes up for what layers add, and for taking
 * exactly top_k. Found by decoding: overlap and distinct experts are then the chain's. */
#define PULL_WIDER 1.02f

/* ---- presets ---- */

typedef struct preset {
    const char *name;
    tt_family family;
    uint32_t hidden, layers, vocab, context;
    uint32_t heads, kv_heads, head_dim;
    uint32_t key_heads, value_heads, lin_dim;
    uint32_t experts, top_k, moe_width, shared_width; /* MoE */
    uint32_t width;                                   /* dense */
    bool tied;
} preset;

static const preset presets[] = {
    {"qwen3.6-35b-a3b", TT_FAMILY_QWEN3_5_MOE, 2048, 40, 248320, 262144, 16, 2, 256, 16, 32, 128,
     256, 8, 512, 512, 0, false},
    {"qwen3.8-flash-next", TT_FAMILY_QWEN4_EXP, 2560, 48, 248320, 262144, 24, 2, 256, 16, 48, 128,
     512, 10, 640, 640, 0, false},
    {"tiny-next", TT_FAMILY_QWEN4_EXP, 256, 4, 4096, 8192, 4, 2, 64, 2, 4, 64, 64, 4, 64, 64, 0,
     false},
    {"qwen3.5-2b", TT_FAMILY_QWEN3_5, 2048, 24, 248320, 262144, 8, 2, 256, 16, 16, 128, 0, 0, 0, 0,
     6144, true},
    {"qwen3.5-4b", TT_FAMILY_QWEN3_5, 2560, 32, 248320, 262144, 16, 4, 256, 16, 32, 128, 0, 0, 0, 0,
     9216, true},
    {"tiny-dense", TT_FAMILY_QWEN3_5, 256, 4, 4096, 8192, 4, 2, 64, 2, 4, 64, 0, 0, 0, 0, 512,
     true},
    {"tiny", TT_FAMILY_QWEN3_5_MOE, 256, 4, 4096, 8192, 4, 2, 64, 2, 4, 64, 64, 4, 64, 64, 0,
     false},
};

#define N_PRESETS (sizeof presets / sizeof *presets)

const char *const synth_presets[] = {"qwen3.6-35b-a3b", "qwen3.8-flash-next",
                                     "qwen3.5-2b",      "qwen3.5-4b",
                                     "tiny-dense",      "tiny",
                                     "tiny-next",       NULL};

/* What qwen4_exp has beside the rest, in the published sizes or scaled with the width. */
static tt_status add_streams(const synth_options *o, const preset *p, tt_arch *a, uint32_t *base,
                             tt_error *err)
{
    bool large = p->hidden > 1024;
    uint32_t sizes[TT_MAX_NGRAM_ROWS];
    uint64_t rows = 0;
    if (p->family != TT_FAMILY_QWEN4_EXP)
        return o->ngram_base == 0
                   ? TT_OK
                   : tt_fail(err, TT_ERR_INVALID, "%s has no n-gram table (--ngram-base)", p->name);
    a->streams = 4;
    a->mix_rank = large ? p->hidden / 8 : 64;
    a->indexer_heads = 4;
    a->indexer_dim = p->head_dim / 2;
    a->indexer_budget = large ? 2048 : 128;
    a->indexer_block = 4;
    a->ngram_layer = 1;
    a->ngram_size = 3;
    a->ngram_heads = 8;
    a->ngram_dim = p->hidden;
    a->ngram_eos = large ? 248044 : 0;
    *base = o->ngram_base > 0 ? o->ngram_base : large ? 20000000 : 1000;
    tt_arch_ngram_sizes(*base, tt_arch_ngrams(a), sizes);
    for (uint32_t h = 0; h < tt_arch_ngrams(a); h++)
        rows += sizes[h];
    rows = (rows + 127) / 128 * 128;
    if (rows > UINT32_MAX)
        return tt_fail(err, TT_ERR_INVALID, "an n-gram table of %llu rows is too large",
                       (unsigned long long)rows);
    a->ngram_rows = (uint32_t)rows;
    return TT_OK;
}

static tt_status make_arch(const synth_options *o, tt_arch *a, uint32_t *base, tt_error *err)
{
    const preset *p = NULL;
    for (size_t i = 0; i < N_PRESETS && p == NULL; i++)
        if (strcmp(presets[i].name, o->preset) == 0)
            p = &presets[i];
    if (p == NULL)
        return tt_fail(err, TT_ERR_INVALID, "\"%s\" is not a preset", o->preset);
    if (o->layers > p->layers)
        return tt_fail(err, TT_ERR_INVALID, "%s has %u layers, %u were asked for", p->name,
                       p->layers, o->layers);
    *a = (tt_arch){.family = p->family,
                   .hidden_size = p->hidden,
                   .n_layers = o->layers > 0 ? o->layers : p->layers,
                   .vocab_size = p->vocab,
                   .max_position = p->context,
                   .n_heads = p->heads,
                   .n_kv_heads = p->kv_heads,
                   .head_dim = p->head_dim,
                   .lin_key_heads = p->key_heads,
                   .lin_value_heads = p->value_heads,
                   .lin_key_dim = p->lin_dim,
                   .lin_value_dim = p->lin_dim,
                   .conv_kernel = 4,
                   .n_experts = p->experts,
                   .top_k = p->top_k,
                   .moe_intermediate = p->moe_width,
                   .shared_intermediate = p->shared_width,
                   .intermediate = p->width,
                   .rope_theta = 1e7,
                   .partial_rotary = 0.25,
                   .yarn_factor = 1,
                   .rms_eps = 1e-6,
                   .tied_head = p->tied,
                   .norm_offset = true,
                   .mtp_norm_offset = true};
    for (uint32_t l = 0; l < a->n_layers; l++)
        a->layer_kind[l] = (l + 1) % 4 == 0 ? TT_LAYER_FULL : TT_LAYER_LINEAR;
    TT_TRY(add_streams(o, p, a, base, err));
    tt_status st = tt_arch_check(a, NULL, err);
    return st == TT_OK ? TT_OK : tt_fail_context(err, st, "preset %s", p->name);
}

/* ---- tensors ---- */

typedef struct list {
    synth_model *m;
    size_t cap;
    char prefix[32];
    bool failed;
} list;

static synth_tensor *add(list *l, const char *name, uint64_t rows, uint64_t cols)
{
    static synth_tensor nowhere; /* where writes go after a failure */
    synth_model *m = l->m;
    if (!l->failed && m->n_tensors == l->cap) {
        size_t cap = l->cap < 64 ? 64 : 2 * l->cap;
        synth_tensor *t = realloc(m->tensors, cap * sizeof *t);
        l->failed = t == NULL;
        if (t != NULL) {
            m->tensors = t;
            l->cap = cap;
        }
    }
    if (l->failed)
        return &nowhere;
    synth_tensor *t = &m->tensors[m->n_tensors++];
    *t = (synth_tensor){.rows = rows, .cols = cols};
    snprintf(t->name, sizeof t->name, "%s%s", l->prefix, name);
    t->seed = synth_seed(m->o.seed, synth_hash(t->name), 0);
    return t;
}

static tt_dtype affine(uint32_t bits)
{
    return bits == 4 ? TT_DTYPE_Q4 : bits == 8 ? TT_DTYPE_Q8 : TT_DTYPE_BF16;
}

/* y = W x with x of deviation `from` gives y of deviation `to`. */
static void linear(list *l, const char *name, uint64_t rows, uint64_t cols, uint32_t bits,
                   float from, float to)
{
    synth_tensor *t = add(l, name, rows, cols);
    t->kind = SYNTH_RANDOM;
    t->dtype = affine(bits);
    t->a = to / (from * sqrtf((float)cols));
}

static void even(list *l, const char *name, uint64_t rows, uint64_t cols, float low, float high)
{
    synth_tensor *t = add(l, name, rows, cols);
    t->kind = SYNTH_EVEN;
    t->dtype = TT_DTYPE_BF16;
    t->a = low;
    t->b = high;
}

/* Stored as w of (1 + w). */
static void norm(list *l, const char *name, uint64_t n)
{
    even(l, name, n, 0, -0.02f, 0.02f);
}

/* What one block adds to the residual stream. */
static float block_adds(const tt_arch *a)
{
    return LAYERS_ADD / sqrtf(2.0f * (float)a->n_layers);
}

static void attention(list *l, const tt_arch *a, uint32_t bits)
{
    uint64_t H = a->hidden_size, d = a->head_dim, q = a->n_heads * d, kv = a->n_kv_heads * d;
    linear(l, "self_attn.q_proj.weight", 2 * q, H, bits, 1, 1);
    linear(l, "self_attn.k_proj.weight", kv, H, bits, 1, 1);
    linear(l, "self_attn.v_proj.weight", kv, H, bits, 1, 1);
    linear(l, "self_attn.o_proj.weight", H, q, bits, 0.5f, block_adds(a)); /* gated by a half */
    norm(l, "self_attn.q_norm.weight", d);
    norm(l, "self_attn.k_norm.weight", d);
}

static void delta_net(list *l, const tt_arch *a, uint32_t bits)
{
    uint64_t H = a->hidden_size, Hv = a->lin_value_heads, V = tt_arch_value_dim(a);
    linear(l, "linear_attn.in_proj_qkv.weight", tt_arch_conv_dim(a), H, bits, 1, 1);
    linear(l, "linear_attn.in_proj_z.weight", V, H, bits, 1, 1);
    linear(l, "linear_attn.in_proj_b.weight", Hv, H, 16, 1, 1);
    linear(l, "linear_attn.in_proj_a.weight", Hv, H, 16, 1, 1);
    even(l, "linear_attn.conv1d.weight", tt_arch_conv_dim(a), a->conv_kernel, -0.8f, 0.8f);
    even(l, "linear_attn.A_log", Hv, 0, 0, 1.5f);
    even(l, "linear_attn.dt_bias", Hv, 0, -5, -2);
    even(l, "linear_attn.norm.weight", a->lin_value_dim, 0, 0.9f, 1.1f);
    linear(l, "linear_attn.out_proj.weight", H, V, bits, 0.6f, block_adds(a)); /* gated by silu */
}

static void mlp(list *l, const tt_arch *a, const char *where, uint64_t F, uint32_t bits)
{
    char name[64];
    uint64_t H = a->hidden_size;
    snprintf(name, sizeof name, "%s.gate_proj.weight", where);
    linear(l, name, F, H, bits, 1, 1);
    snprintf(name, sizeof name, "%s.up_proj.weight", where);
    linear(l, name, F, H, bits, 1, 1);
    snprintf(name, sizeof name, "%s.down_proj.weight", where);
    linear(l, name, H, F, bits, 0.6f, block_adds(a));
}

/* ---- qwen4_exp ---- */

/* Half of every stream is read, and each takes the whole of a block, give or take a little. */
static void mixer(list *l, const tt_arch *a, const char *stem, bool inject, uint32_t bits)
{
    char name[96];
    uint64_t R = tt_arch_residual(a), rank = a->mix_rank;
    uint32_t mix = bits < 16 ? 8 : 16;
    snprintf(name, sizeof name, "%s.hc_norm.weight", stem);
    norm(l, name, R);
    snprintf(name, sizeof name, "%s.input_mix_weight_down.weight", stem);
    linear(l, name, rank, R, mix, 1, (float)a->streams);
    snprintf(name, sizeof name, "%s.input_mix_weight_up.weight", stem);
    linear(l, name, R, rank, mix, 0.6f, 0.3f);
    snprintf(name, sizeof name, "%s.block_inject_weight.weight", stem);
    if (inject)
        linear(l, name, a->streams, R, 16, 1, 0.5f);
}

static void indexer(list *l, const tt_arch *a)
{
    uint64_t d = a->indexer_dim;
    linear(l, "self_attn.indexer.index_qk_proj.weight", (a->indexer_heads + 1) * d, a->hidden_size,
           16, 1, 1);
    norm(l, "self_attn.indexer.q_layernorm.weight", d);
    norm(l, "self_attn.indexer.k_layernorm.weight", d);
}

static void integers(list *l, const char *name, uint64_t n)
{
    synth_tensor *t = add(l, name, n, 0);
    t->kind = SYNTH_INTEGERS;
    t->dtype = TT_DTYPE_I64;
}

/* Adds about as much as another block does. */
static void ngrams(list *l, const tt_arch *a, uint32_t bits)
{
    uint64_t R = tt_arch_residual(a), D = a->ngram_dim, n = tt_arch_ngrams(a);
    linear(l, "ple.key_proj.weight", R, D, 16, 1, 1);
    linear(l, "ple.value_proj.weight", a->hidden_size, D, bits, 1, block_adds(a));
    norm(l, "ple.norm_key.weight", R);
    norm(l, "ple.norm_query.weight", R);
    norm(l, "ple.norm_conv.weight", R);
    even(l, "ple.conv1d.weight", R, 4, -0.02f, 0.02f);
    integers(l, "ple.ple_embedding.layer_multipliers", a->ngram_size);
    integers(l, "ple.ple_embedding.ngram_heads_vocab_sizes", n);
    integers(l, "ple.ple_embedding.ngram_heads_offsets", n);
}

static void residual(list *l, const tt_arch *a, uint32_t i, uint32_t bits)
{
    if (a->streams == 0) {
        norm(l, "input_layernorm.weight", a->hidden_size);
        norm(l, "post_attention_layernorm.weight", a->hidden_size);
        return;
    }
    mixer(l, a, "attn_hyper_connection", true, bits);
    mixer(l, a, "mlp_hyper_connection", true, bits);
    if (a->layer_kind[i] == TT_LAYER_FULL)
        indexer(l, a);
    if (i == a->ngram_layer)
        ngrams(l, a, bits);
}

/* ---- layers ---- */

static void layer(list *l, const tt_arch *a, uint32_t i, uint32_t bits)
{
    uint64_t H = a->hidden_size;
    snprintf(l->prefix, sizeof l->prefix, "layers.%u.", i);
    residual(l, a, i, bits);
    if (a->layer_kind[i] == TT_LAYER_FULL)
        attention(l, a, bits);
    else
        delta_net(l, a, bits);
    if (!tt_arch_is_moe(a)) {
        mlp(l, a, "mlp", a->intermediate, bits);
        return;
    }
    mlp(l, a, "mlp.shared_expert", a->shared_intermediate, bits);
    linear(l, "mlp.shared_expert_gate.weight", 1, H, 16, 1, 1);
    synth_tensor *router = add(l, "mlp.gate.weight", a->n_experts, H);
    router->kind = SYNTH_ROUTER;
    router->dtype = TT_DTYPE_BF16;
    router->layer = i;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const synth_tensor *)a)->name, ((const synth_tensor *)b)->name);
}

static tt_status list_tensors(synth_model *m, tt_error *err)
{
    const tt_arch *a = &m->arch;
    list l = {.m = m};
    for (uint32_t i = 0; i < a->n_layers; i++)
        layer(&l, a, i, m->o.bits);
    l.prefix[0] = '\0';
    synth_tensor *embed = add(&l, "embed_tokens.weight", a->vocab_size, a->hidden_size);
    embed->kind = SYNTH_EMBED;
    embed->dtype = affine(m->o.table_bits);
    if (a->streams > 0)
        mixer(&l, a, "hyper_connection_mixer", false, m->o.bits);
    else
        norm(&l, "norm.weight", a->hidden_size);
    if (!a->tied_head)
        linear(&l, "lm_head.weight", a->vocab_size, a->hidden_size, m->o.table_bits, 1, 2);
    if (l.failed)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the list of tensors");
    qsort(m->tensors, m->n_tensors, sizeof *m->tensors, by_name);
    return TT_OK;
}

void synth_expert(const synth_model *m, uint32_t layer_, uint32_t expert, unsigned mat,
                  synth_tensor *out)
{
    const tt_expert_mat *mats[] = {&m->experts.gate, &m->experts.up, &m->experts.down};
    *out = (synth_tensor){.kind = SYNTH_RANDOM,
                          .dtype = mats[mat]->dtype,
                          .rows = mats[mat]->rows,
                          .cols = mats[mat]->cols,
                          .a = mat == 2 ? m->down_spread : m->gate_spread,
                          .layer = layer_,
                          .seed = synth_seed(m->o.seed, (uint64_t)layer_ << 32 | expert, 1 + mat)};
}

static void lay_out_ngrams(synth_model *m)
{
    if (tt_arch_ngrams(&m->arch) == 0)
        return;
    tt_ngram_layout_init(&m->ngrams, &m->arch, TT_DTYPE_BF16);
    m->table = (synth_tensor){.name = TT_NGRAM_NAME,
                              .kind = SYNTH_TABLE,
                              .dtype = TT_DTYPE_BF16,
                              .rows = m->ngrams.rows,
                              .cols = m->ngrams.cols,
                              .seed = synth_seed(m->o.seed, synth_hash(TT_NGRAM_NAME), 0)};
}

static tt_status lay_out_experts(synth_model *m, tt_error *err)
{
    const tt_arch *a = &m->arch;
    if (!tt_arch_is_moe(a))
        return TT_OK;
    tt_dtype t = affine(m->o.bits);
    m->gate_spread = 1 / sqrtf((float)a->hidden_size);
    /* Weighted by the router, a token's experts add up to less than one of them. */
    m->down_spread = block_adds(a) * 2 / (0.6f * sqrtf((float)a->moe_intermediate));
    return tt_expert_layout_init(&m->experts, a->n_experts, a->hidden_size, a->moe_intermediate, t,
                                 t, t, NULL, err);
}

/* ---- directions and pulls ---- */

/* Random vectors, each made orthogonal to those before it. */
static void make_clusters(synth_model *m)
{
    uint32_t H = m->arch.hidden_size;
    for (uint32_t k = 0; k < m->lo.clusters; k++) {
        float *c = m->clusters + (size_t)k * H;
        uint64_t state = synth_seed(m->o.seed, k, 10);
        double norm = 0;
        for (uint32_t i = 0; i < H; i++)
            c[i] = synth_unit_spread(&state);
        synth_project_off(c, m->clusters, k, H);
        for (uint32_t i = 0; i < H; i++)
            norm += (double)c[i] * c[i];
        float factor = (float)sqrt(H / norm);
        for (uint32_t i = 0; i < H; i++)
            c[i] *= factor;
    }
}

/* x with Phi(x) = p, by halving. */
static double probit(double p)
{
    double low = -8, high = 8;
    for (int i = 0; i < 50; i++) {
        double mid = (low + high) / 2;
        if (erfc(-mid * M_SQRT1_2) / 2 < p)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static double picked(const float *chance, uint32_t n, double draws)
{
    double sum = 0;
    for (uint32_t e = 0; e < n; e++)
        sum += -expm1(-draws * chance[e]);
    return sum;
}

/* In place: chances of one draw to pulls. Drawn at random times, the experts that came within
 * `draws` are top_k on average, expert e with probability 1 - exp(-draws * chance); a pull to which
 * the token adds a normal number passes 0 as often. */
static void to_pulls(float *chance, uint32_t n, uint32_t top_k)
{
    double low = 0, high = 1;
    while (picked(chance, n, high) < top_k && high < 1e9)
        high *= 2;
    for (int i = 0; i < 60; i++) {
        double mid = (low + high) / 2;
        if (picked(chance, n, mid) < top_k)
            low = mid;
        else
            high = mid;
    }
    for (uint32_t e = 0; e < n; e++)
        chance[e] = PULL_WIDER * (float)probit(-expm1(-low * chance[e]));
}

static tt_status make_routing(synth_model *m, tt_error *err)
{
    const tt_arch *a = &m->arch;
    uint32_t E = a->n_experts;
    /* Dense models have embeddings and chains too, and nothing that is picked. */
    bench_locality_default(&m->lo, E > 0 ? a->n_layers : 1, E > 0 ? E : 1, E > 0 ? a->top_k : 1);
    m->lo.n_tokens = a->vocab_size;
    m->lo.locality = m->o.locality;
    m->lo.seed = m->o.seed;
    TT_TRY(bench_locality_open(&m->lo, &m->chain, err));
    size_t C = m->lo.clusters;
    m->clusters = calloc(C, a->hidden_size * sizeof *m->clusters);
    m->pull = calloc(a->n_layers * C + 1, (E + 1) * sizeof *m->pull);
    if (m->clusters == NULL || m->pull == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the directions of clusters");
    make_clusters(m);
    for (size_t i = 0; E > 0 && i < a->n_layers * C; i++) {
        float *pull = m->pull + i * E;
        bench_locality_chances(m->chain, (uint32_t)(i / C), (uint32_t)(i % C), pull);
        to_pulls(pull, E, a->top_k);
    }
    return TT_OK;
}

tt_status synth_open(const synth_options *o, synth_model *out, tt_error *err)
{
    synth_model m = {.o = *o};
    tt_status st;
    TT_TRY(make_arch(o, &m.arch, &m.ngram_base, err));
    if (o->layers > 0)
        snprintf(m.model_id, sizeof m.model_id, "synth/%s-%u-layers", o->preset, o->layers);
    else
        snprintf(m.model_id, sizeof m.model_id, "synth/%s", o->preset);
    lay_out_ngrams(&m);
    TT_GOTO(lay_out_experts(&m, err), fail);
    TT_GOTO(make_routing(&m, err), fail);
    TT_GOTO(list_tensors(&m, err), fail);
    synth_parameters(&m.lo, m.parameters, sizeof m.parameters);
    *out = m;
    return TT_OK;
fail:
    synth_close(&m);
    return st;
}

void synth_close(synth_model *m)
{
    bench_locality_close(&m->chain);
    free(m->clusters);
    free(m->pull);
    free(m->tensors);
    *m = (synth_model){0};
}
