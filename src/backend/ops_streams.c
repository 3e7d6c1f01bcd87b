/* The drivers of what qwen4_exp adds: streams of the residual, the n-gram block, sparse attention.
 */
#include <math.h>
#include <string.h>

#include "backend/ops_int.h"

/* ---- streams ---- */

typedef struct streams_job {
    const tt_cpu_impl *im;
    float *y;
    const float *x, *w;
    uint32_t S, H;
    float eps;
} streams_job;

/* Items are streams of all rows. */
static void norm_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const streams_job *j = ctx;
    for (size_t i = begin; i < end; i++)
        j->im->k.rms_norm(j->y + i * j->H, j->x + i * j->H, j->w + i % j->S * j->H, j->H, j->eps);
}

void tt_op_stream_norm(tt_backend *be, float *y, const float *x, const float *w, uint32_t S,
                       uint32_t H, float eps, uint32_t T)
{
    streams_job j = {tt_impl_of(be), y, x, w, S, H, eps};
    tt_ops_run(be, (size_t)T * S, 1, (uint64_t)T * S * H * 2, norm_part, &j);
}

typedef struct silu_job {
    const tt_cpu_impl *im;
    float *x, f;
} silu_job;

static void silu_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const silu_job *j = ctx;
    j->im->k.silu_scaled(j->x + begin, j->f, end - begin);
}

void tt_op_silu_scaled(tt_backend *be, float *x, float f, size_t n)
{
    silu_job j = {tt_impl_of(be), x, f};
    tt_ops_run(be, n, TT_COL_GRAIN, n * EXP_COST, silu_part, &j);
}

static void mix_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const streams_job *j = ctx;
    size_t n = (size_t)j->S * j->H;
    for (size_t t = begin; t < end; t++)
        j->im->k.mix_streams(j->y + t * j->H, j->x + t * n, j->w + t * n, j->S, j->H);
}

void tt_op_mix_streams(tt_backend *be, float *x, const float *m, const float *r, uint32_t S,
                       uint32_t H, uint32_t T)
{
    streams_job j = {tt_impl_of(be), x, m, r, S, H, 0};
    tt_ops_run(be, T, 1, (uint64_t)T * S * H * EXP_COST, mix_part, &j);
}

static void add_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const streams_job *j = ctx;
    for (size_t i = begin; i < end; i++) {
        float a = 2.0f / (1.0f + expf(-j->w[i] / (float)j->S));
        j->im->k.axpy(j->y + i * j->H, a, j->x + i / j->S * j->H, j->H);
    }
}

void tt_op_add_streams(tt_backend *be, float *R, const float *y, const float *inject, uint32_t S,
                       uint32_t H, uint32_t T)
{
    streams_job j = {tt_impl_of(be), R, y, inject, S, H, 0};
    tt_ops_run(be, (size_t)T * S, 1, (uint64_t)T * S * H, add_part, &j);
}

/* ---- the n-gram block ---- */

typedef struct gate_job {
    const tt_cpu_impl *im;
    float *p;
    const float *k, *q, *v;
    uint32_t S, H;
} gate_job;

static void gate_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const gate_job *j = ctx;
    size_t n = (size_t)j->S * j->H;
    for (size_t t = begin; t < end; t++)
        j->im->k.ngram_gate(j->p + t * n, j->k + t * n, j->q + t * n, j->v + t * j->H, j->S, j->H);
}

void tt_op_ngram_gate(tt_backend *be, float *p, const float *k, const float *q, const float *v,
                      uint32_t S, uint32_t H, uint32_t T)
{
    gate_job j = {tt_impl_of(be), p, k, q, v, S, H};
    tt_ops_run(be, T, 1, (uint64_t)T * S * H * 2, gate_part, &j);
}

typedef struct conv_job {
    const tt_cpu_impl *im;
    float *c, *state;
    const float *u, *w;
    uint32_t C, D, T;
} conv_job;

static void conv_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const conv_job *j = ctx;
    j->im->k.conv_dilated(j->c, j->state, j->u, j->w, j->C, (uint32_t)begin, (uint32_t)end, j->D,
                          j->T);
}

void tt_op_conv_dilated(tt_backend *be, float *c, float *state, const float *u, const float *w,
                        uint32_t C, uint32_t D, uint32_t T)
{
    conv_job j = {tt_impl_of(be), c, state, u, w, C, D, T};
    if (T > 0)
        tt_ops_run(be, C, TT_COL_GRAIN, (uint64_t)C * (T * EXP_COST + 8), conv_part, &j);
}

/* ---- sparse attention ---- */

void tt_op_mean_rows(tt_backend *be, float *y, const float *x, uint32_t d, uint32_t block,
                     uint32_t n)
{
    for (uint32_t b = 0; b < n; b++, y += d)
        for (uint32_t i = 0; i < d; i++) {
            float sum = 0;
            for (uint32_t r = 0; r < block; r++)
                sum += x[((size_t)b * block + r) * d + i];
            y[i] = sum / (float)block;
        }
}

typedef struct pick_job {
    const tt_cpu_impl *im;
    uint32_t *picks;
    float *scores;
    size_t ld;
    uint32_t heads, block, K, pos0;
} pick_job;

static void pick_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const pick_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.pick_blocks(j->picks + t * j->K, j->scores + t * j->heads * j->ld, j->heads, j->ld,
                             (j->pos0 + (uint32_t)t + 1) / j->block, j->K);
}

void tt_op_pick_blocks(tt_backend *be, uint32_t *picks, float *scores, uint32_t heads, size_t ld,
                       uint32_t block, uint32_t K, uint32_t pos0, uint32_t T)
{
    pick_job j = {tt_impl_of(be), picks, scores, ld, heads, block, K, pos0};
    tt_ops_run(be, T, 1, (uint64_t)T * (pos0 / block + 1) * (heads + 2), pick_part, &j);
}

typedef struct gather_job {
    const tt_kv_layer *from, *to;
    const uint32_t *picks;
    uint32_t block, K, tail; /* tail: rows behind the last complete block */
    uint32_t complete;       /* blocks */
} gather_job;

static void copy_rows(void *to, const void *from, uint64_t row, uint32_t at, uint32_t first,
                      uint32_t n)
{
    if (row > 0)
        memcpy((char *)to + at * row, (const char *)from + first * row, n * row);
}

/* Items are blocks; the last one is the tail. */
static void gather_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const gather_job *j = ctx;
    const tt_kv_layer *a = j->from, *b = j->to;
    uint64_t row = tt_kv_row_bytes(a->bits, a->heads, a->dim),
             meta = tt_kv_meta_bytes(a->bits, a->heads, a->dim);
    for (size_t i = begin; i < end; i++) {
        uint32_t n = i < j->K ? j->block : j->tail, at = (uint32_t)i * j->block;
        uint32_t first = (i < j->K ? j->picks[i] : j->complete) * j->block;
        copy_rows(b->k, a->k, row, at, first, n);
        copy_rows(b->v, a->v, row, at, first, n);
        copy_rows(b->k_meta, a->k_meta, meta, at, first, n);
        copy_rows(b->v_meta, a->v_meta, meta, at, first, n);
    }
}

void tt_op_attend_blocks(tt_backend *be, float *o, const float *q, const tt_kv_layer *kv,
                         const tt_kv_layer *work, const uint32_t *picks, uint32_t block, uint32_t K,
                         uint32_t q_heads, uint32_t pos0, uint32_t T)
{
    uint64_t row = 2 * tt_kv_row_bytes(kv->bits, kv->heads, kv->dim);
    size_t n = (size_t)q_heads * kv->dim;
    for (uint32_t t = 0; t < T; t++) {
        uint32_t complete = (pos0 + t + 1) / block, tail = (pos0 + t + 1) % block;
        gather_job j = {kv, work, picks + (size_t)t * K, block, K, tail, complete};
        tt_ops_run(be, K + 1, 1, K * block * row / 8, gather_part, &j);
        be->ops->attend(be, o + t * n, q + t * n, work, q_heads, K * block + tail - 1, 1);
    }
}
