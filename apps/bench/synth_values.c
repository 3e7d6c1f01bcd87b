/* Values, row by row: every row has a stream of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/synth.h"
#include "bench/synth_random.h"
#include "format/quant.h"

/* An embedding is its cluster's direction and the token's own, half of its square each. */
#define CLUSTER_PART 0.70710678f
#define TOKEN_PART   0.70710678f
/* Affine embeddings have one scale, a power of two, that reaches 4 deviations and more. */
#define EMBED_SCALE_4 0.5f
#define EMBED_SCALE_8 0.03125f

static float embed_scale(uint32_t bits)
{
    return bits == 4 ? EMBED_SCALE_4 : EMBED_SCALE_8;
}

static float embed_bias(uint32_t bits)
{
    return -embed_scale(bits) * (float)((1u << bits) - 1) / 2;
}

/* ---- rows as numbers ---- */

static uint64_t number_cols(const synth_tensor *t)
{
    return t->cols > 0 ? t->cols : 1;
}

static void embed_row(const synth_model *m, const synth_tensor *t, uint64_t row, float *out)
{
    uint64_t state = synth_seed(t->seed, row, 0);
    uint32_t cluster = bench_locality_cluster(m->chain, (uint32_t)row);
    const float *c = m->clusters + (size_t)cluster * t->cols;
    uint64_t bits = 0;
    for (uint64_t i = 0; i < number_cols(t); i++) {
        bits = i % 4 == 0 ? synth_draw(&state) : bits >> 16;
        out[i] = CLUSTER_PART * c[i] + TOKEN_PART * synth_spread(bits & 0xffff);
    }
}

/* The logit of an embedding is its cluster's pull and a normal number of the token. */
static void router_row(const synth_model *m, const synth_tensor *t, uint64_t e, float *out)
{
    uint32_t H = (uint32_t)number_cols(t), C = m->lo.clusters, E = m->arch.n_experts;
    uint64_t state = synth_seed(t->seed, e, 0);
    for (uint32_t i = 0; i < H; i++)
        out[i] = synth_unit_spread(&state);
    synth_project_off(out, m->clusters, C, H);
    /* Of streams a router sees the half. */
    float seen = m->arch.streams > 0 ? 0.5f : 1;
    float own = 1 / (TOKEN_PART * sqrtf((float)H) * seen);
    for (uint32_t i = 0; i < H; i++)
        out[i] *= own;
    for (uint32_t k = 0; k < C; k++) {
        const float *c = m->clusters + (size_t)k * H;
        float pull = m->pull[((size_t)t->layer * C + k) * E + e] / (CLUSTER_PART * (float)H * seen);
        for (uint32_t i = 0; i < H; i++)
            out[i] += pull * c[i];
    }
}

static void number_row(const synth_model *m, const synth_tensor *t, uint64_t row, float *out)
{
    uint64_t n = number_cols(t), state = synth_seed(t->seed, row, 0);
    if (t->kind == SYNTH_EMBED)
        embed_row(m, t, row, out);
    else if (t->kind == SYNTH_ROUTER)
        router_row(m, t, row, out);
    else
        for (uint64_t i = 0; i < n; i++)
            out[i] = t->kind == SYNTH_EVEN ? t->a + (t->b - t->a) * synth_unit(&state)
                                           : t->a * synth_unit_spread(&state);
}

/* ---- rows as stored ---- */

static int64_t integer(const synth_model *m, const char *name, uint64_t i)
{
    static const int64_t multipliers[] = {23703573157769, 20109073645365, 8052911324071};
    uint32_t sizes[TT_MAX_NGRAM_ROWS];
    int64_t before = 0;
    if (strstr(name, "multipliers") != NULL)
        return multipliers[i];
    tt_arch_ngram_sizes(m->ngram_base, (uint32_t)i + 1, sizes);
    for (uint64_t h = 0; h < i; h++)
        before += sizes[h];
    return strstr(name, "offsets") != NULL ? before : sizes[i];
}

/* Four values of a draw: sign and fraction are random, and one bit of the exponent. */
static void table_row(const synth_tensor *t, uint64_t row, unsigned char *out)
{
    uint64_t state = synth_seed(t->seed, row, 0), bits = 0;
    for (uint64_t i = 0; i < t->cols; i++) {
        bits = i % 4 == 0 ? synth_draw(&state) : bits >> 16;
        out[2 * i] = (unsigned char)bits;
        out[2 * i + 1] = (unsigned char)(bits >> 8 & 0x80) | 0x3f;
    }
}

static void random_words(const synth_tensor *t, uint32_t bits, uint64_t row, unsigned char *out)
{
    uint64_t state = synth_seed(t->seed, row, 0), n = tt_quant_row_words_bytes(bits, t->cols);
    for (uint64_t i = 0; i < n; i += 8) {
        uint64_t word = synth_draw(&state);
        for (unsigned j = 0; j < 8; j++)
            out[i + j] = (unsigned char)(word >> 8 * j);
    }
}

static void embed_words(const float *v, uint32_t bits, uint64_t n, unsigned char *out)
{
    float per = 1 / embed_scale(bits), bias = embed_bias(bits);
    float most = (float)((1u << bits) - 1);
    memset(out, 0, tt_quant_row_words_bytes(bits, n));
    for (uint64_t i = 0; i < n; i++) {
        float q = (v[i] - bias) * per + 0.5f;
        uint32_t code = q <= 0 ? 0 : q >= most ? (uint32_t)most : (uint32_t)q;
        out[i * bits / 8] |= (unsigned char)(code << (i * bits % 8));
    }
}

static void store_row(const synth_model *m, const synth_tensor *t, tt_dtype dtype, uint64_t row,
                      unsigned char *out)
{
    float v[TT_MAX_HIDDEN];
    uint32_t bits = tt_dtype_bits(dtype);
    if (t->kind == SYNTH_INTEGERS) {
        int64_t n = integer(m, t->name, row);
        memcpy(out, &n, sizeof n);
        return;
    }
    if (t->kind == SYNTH_TABLE) {
        table_row(t, row, out);
        return;
    }
    if (bits > 0 && t->kind == SYNTH_RANDOM) {
        random_words(t, bits, row, out);
        return;
    }
    number_row(m, t, row, v);
    if (bits > 0) {
        embed_words(v, bits, t->cols, out);
        return;
    }
    for (uint64_t i = 0; i < number_cols(t); i++) {
        uint16_t x = tt_f32_to_bf16(v[i]);
        out[2 * i] = (unsigned char)x;
        out[2 * i + 1] = (unsigned char)(x >> 8);
    }
}

/* Row i of a matrix in panels. */
static void store_in_panel(const synth_model *m, const synth_tensor *t, tt_dtype dtype,
                           uint64_t row, uint64_t i, uint32_t *words)
{
    uint32_t own[TT_MAX_HIDDEN / 4];
    const uint64_t n = tt_quant_row_words_bytes(tt_dtype_bits(dtype), t->cols) / 4;
    store_row(m, t, dtype, row, (unsigned char *)own);
    for (uint64_t k = 0; k < n; k++)
        words[tt_quant_place(n, i, k)] = own[k];
}

void synth_rows(const synth_model *m, const synth_tensor *t, tt_dtype dtype, uint64_t row0,
                uint64_t n, void *words)
{
    uint32_t bits = tt_dtype_bits(dtype);
    uint64_t cols = number_cols(t);
    if (bits > 0 && n % TT_PANEL != 0)
        memset((unsigned char *)words +
                   n / TT_PANEL * TT_PANEL * tt_quant_row_words_bytes(bits, cols),
               0, TT_PANEL * tt_quant_row_words_bytes(bits, cols));
    for (uint64_t i = 0; i < n; i++)
        if (bits > 0)
            store_in_panel(m, t, dtype, row0 + i, i, words);
        else
            store_row(m, t, dtype, row0 + i,
                      (unsigned char *)words + i * cols * tt_dtype_bytes(dtype));
}

/* Scales of random codes differ from group to group, as real ones do. */
void synth_scales(const synth_model *m, const synth_tensor *t, uint64_t row0, uint64_t n,
                  uint16_t *scales, uint16_t *biases)
{
    uint32_t bits = tt_dtype_bits(t->dtype);
    uint64_t groups = t->cols / TT_GROUP;
    float codes = (float)((1u << bits) - 1);
    float deviation = sqrtf((codes * (codes + 2)) / 12); /* of an even code */
    for (uint64_t r = 0; r < tt_quant_stored_rows(n); r++) {
        uint64_t state = synth_seed(t->seed, row0 + r, 1);
        for (uint64_t g = 0; g < groups; g++) {
            uint64_t at = tt_quant_place(groups, r, g);
            if (r >= n) {
                scales[at] = biases[at] = 0;
            } else if (t->kind == SYNTH_EMBED) {
                scales[at] = tt_f32_to_bf16(embed_scale(bits));
                biases[at] = tt_f32_to_bf16(embed_bias(bits));
            } else {
                scales[at] = tt_f32_to_bf16(t->a / deviation * (0.75f + 0.5f * synth_unit(&state)));
                biases[at] = tt_f32_to_bf16(-tt_bf16_to_f32(scales[at]) * codes / 2);
            }
        }
    }
}

/* ---- the chain in a manifest ---- */

typedef struct parameter {
    const char *name;
    size_t at;
    bool number; /* a float; else a u32 */
} parameter;

#define P(member, number)                                                                          \
    {                                                                                              \
#member, offsetof(bench_locality_options, member), number                                  \
    }
static const parameter parameters[] = {P(clusters, false), P(pool, false), P(topic, false),
                                       P(stay, true),      P(drift, true), P(stray, true),
                                       P(skew, true),      P(peak, true),  P(locality, true)};
#undef P
#define N_PARAMETERS (sizeof parameters / sizeof *parameters)

void synth_parameters(const bench_locality_options *o, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "seed=%llu", (unsigned long long)o->seed);
    for (size_t i = 0; i < N_PARAMETERS && len < size; i++) {
        const void *at = (const char *)o + parameters[i].at;
        len +=
            (size_t)(parameters[i].number ? snprintf(out + len, size - len, " %s=%.9g",
                                                     parameters[i].name, (double)*(const float *)at)
                                          : snprintf(out + len, size - len, " %s=%u",
                                                     parameters[i].name, *(const uint32_t *)at));
    }
}

static bool read_parameter(const char *text, const char *name, char value[32])
{
    size_t n = strlen(name);
    for (const char *at = text; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, n) != 0 || at[n] != '=')
            continue;
        size_t len = strcspn(at + n + 1, " ");
        if (len == 0 || len >= 32)
            return false;
        memcpy(value, at + n + 1, len);
        value[len] = '\0';
        return true;
    }
    return false;
}

tt_status synth_chain_of(const tt_install *in, bench_locality **out, uint64_t *seed, tt_error *err)
{
    const json_t *source = json_object_get(tt_install_manifest(in), "source");
    const char *who = json_string_value(json_object_get(source, "repository"));
    const char *text = json_string_value(json_object_get(source, "revision"));
    const tt_arch *a = tt_install_arch(in);
    bench_locality_options o;
    char value[32];
    if (who == NULL || text == NULL || strcmp(who, SYNTH_SOURCE) != 0)
        return tt_fail_at(err, TT_ERR_INVALID, tt_install_dir(in), -1,
                          "%s was not made by synth and has no chain of ids: give a file of them",
                          tt_install_dir(in));
    bool moe = tt_arch_is_moe(a);
    bench_locality_default(&o, moe ? a->n_layers : 1, moe ? a->n_experts : 1, moe ? a->top_k : 1);
    o.n_tokens = a->vocab_size;
    bool ok = read_parameter(text, "seed", value);
    o.seed = ok ? strtoull(value, NULL, 10) : 0;
    for (size_t i = 0; i < N_PARAMETERS && ok; i++) {
        void *at = (char *)&o + parameters[i].at;
        ok = read_parameter(text, parameters[i].name, value);
        if (ok && parameters[i].number)
            *(float *)at = strtof(value, NULL);
        else if (ok)
            *(uint32_t *)at = (uint32_t)strtoul(value, NULL, 10);
    }
    if (!ok)
        return tt_fail_at(err, TT_ERR_FORMAT, tt_install_dir(in), -1,
                          "the manifest's source lacks a parameter of the chain: \"%.200s\"", text);
    TT_TRY(bench_locality_open(&o, out, err));
    *seed = o.seed;
    return TT_OK;
}
