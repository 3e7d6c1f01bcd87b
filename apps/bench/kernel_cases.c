#include "bench/kernel_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- operands ---- */

static uint32_t random_u32(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 32);
}

/* About normal, of unit size. */
static void fill(float *x, size_t n, uint64_t *s)
{
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (int32_t)(random_u32(s) >> 16) - 32768;
        x[i] = (float)sum / 37837.0f;
    }
}

/* One block of memory that is handed out piece by piece: counted first, then taken. */
typedef struct room {
    char *base;
    size_t used;
} room;

static void *take(room *r, size_t bytes)
{
    void *p = r->base != NULL ? r->base + r->used : NULL;
    r->used += (bytes + 63) / 64 * 64;
    return p;
}

/* Fills large operands from a small random part: what is multiplied does not matter, and memory is
 * touched before anything is timed. */
static void repeat(void *to, size_t bytes, const void *part, size_t n)
{
    for (size_t at = 0; at < bytes; at += n)
        memcpy((char *)to + at, part, bytes - at < n ? bytes - at : n);
}

/* Weights of `turns` matrices one below the other. */
static tt_mat take_weights(room *r, tt_dtype dtype, uint32_t rows, uint32_t cols, uint32_t turns)
{
    tt_mat m = {.dtype = dtype, .rows = rows, .cols = cols};
    /* rows of the cases are multiples of a panel's */
    size_t n = (size_t)rows * cols * turns, meta = n / TT_GROUP * 2;
    bool affine = dtype == TT_DTYPE_Q4 || dtype == TT_DTYPE_Q8;
    size_t bytes = dtype == TT_DTYPE_Q4   ? n / 2
                   : dtype == TT_DTYPE_Q8 ? n
                                          : n * (dtype == TT_DTYPE_F32 ? 4 : 2);
    m.words = take(r, bytes);
    if (affine) {
        m.scales = take(r, meta);
        m.biases = take(r, meta);
    }
    if (r->base == NULL)
        return m;
    uint64_t s = 1;
    uint32_t part[4096];
    uint16_t pair[2][512];
    for (int i = 0; i < 4096; i++)
        part[i] = random_u32(&s);
    for (int i = 0; i < 512; i++) {
        float scale = (1 + (float)(random_u32(&s) >> 8) * 0x1p-24f) * (affine ? 0.004f : 0.05f);
        pair[0][i] = tt_f32_to_bf16(dtype == TT_DTYPE_Q8 ? scale / 16 : scale);
        pair[1][i] = tt_f32_to_bf16(-7.5f * scale);
    }
    if (!affine) { /* 16-bit values of unit size: exponents of random bits would not do */
        uint16_t *half = (uint16_t *)(void *)part;
        float x[2];
        for (int i = 0; i < 8192; i++) {
            fill(x, 1, &s);
            half[i] = tt_f32_to_bf16(x[0] * 0.05f);
        }
    }
    repeat((void *)(uintptr_t)m.words, bytes, part, sizeof part);
    if (affine) {
        repeat((void *)(uintptr_t)m.scales, meta, pair[0], sizeof pair[0]);
        repeat((void *)(uintptr_t)m.biases, meta, pair[1], sizeof pair[1]);
    }
    return m;
}

static tt_mat turn_of(tt_mat m, uint32_t turn)
{
    size_t n = (size_t)m.rows * m.cols * turn;
    m.words =
        (const char *)m.words + (m.dtype == TT_DTYPE_Q4   ? n / 2
                                 : m.dtype == TT_DTYPE_Q8 ? n
                                                          : n * (m.dtype == TT_DTYPE_F32 ? 4 : 2));
    if (m.scales != NULL) {
        m.scales += n / TT_GROUP;
        m.biases += n / TT_GROUP;
    }
    return m;
}

static double weight_bytes(const tt_mat *m)
{
    double n = (double)m->rows * m->cols;
    return m->dtype == TT_DTYPE_Q4   ? n * 0.5625
           : m->dtype == TT_DTYPE_Q8 ? n * 1.0625
                                     : n * (m->dtype == TT_DTYPE_F32 ? 4 : 2);
}

static float *take_floats(room *r, size_t n, uint64_t seed)
{
    float *x = take(r, n * sizeof *x);
    if (x != NULL)
        fill(x, n < 65536 ? n : 65536, &seed);
    if (x != NULL && n > 65536)
        repeat(x + 65536, (n - 65536) * sizeof *x, x, 65536 * sizeof *x);
    return x;
}

static double relative_error(const float *got, const float *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        error += d * d;
        size += (double)want[i] * want[i];
    }
    return sqrt(error / (size > 0 ? size : 1));
}

/* ---- what every case keeps ---- */

typedef struct work {
    room room;
    size_t bytes;
    uint32_t T, turns;
    bool prompt;
    tt_mat W, up, down;
    float *x, *y, *y2, *top, *state, *g, *beta;
    tt_expert_job *job;
    uint32_t n_jobs;
    tt_kv_layer kv;
    uint32_t q_heads, keys;
    tt_delta_shape delta;
} work;

/* What a level that multiplies whole numbers may differ by. */
static double allowed_of(const work *w, tt_backend *be)
{
    const tt_cpu_impl *im = be->impl;
    if (im->k.dot == NULL || (w->W.dtype != TT_DTYPE_Q4 && w->W.dtype != TT_DTYPE_Q8))
        return 1e-5;
    return w->prompt ? 0.03 : 3e-4;
}

/* ---- one matrix, or gate and up ---- */

static void run_matmul(void *ctx, tt_backend *be, uint32_t turn)
{
    work *w = ctx;
    tt_mat W = turn_of(w->W, turn);
    be->prompt = w->prompt;
    be->ops->matmul(be, w->y, W.rows, w->x, W.cols, &W, w->T);
}

static double prove_matmul(void *ctx, tt_backend *be, tt_backend *ref, double *allowed)
{
    work *w = ctx;
    uint32_t T = w->T < 20 ? w->T : 20; /* the reference is slow */
    tt_mat few = w->W;
    few.rows = few.rows < 100 ? few.rows : 100;
    be->prompt = w->prompt;
    be->ops->matmul(be, w->y, few.rows, w->x, few.cols, &few, T);
    ref->ops->matmul(ref, w->y2, few.rows, w->x, few.cols, &few, T);
    *allowed = allowed_of(w, be);
    return relative_error(w->y, w->y2, (size_t)few.rows * T);
}

static void make_matmul(kernel_case *c, work *w, tt_dtype dtype, uint32_t rows, uint32_t cols,
                        uint32_t T, bool prompt, uint32_t turns)
{
    w->W = take_weights(&w->room, dtype, rows, cols, turns);
    w->x = take_floats(&w->room, (size_t)T * cols, 2);
    w->y = take(&w->room, (size_t)T * rows * 4);
    w->y2 = take(&w->room, (size_t)20 * 100 * 4);
    w->T = T;
    w->prompt = prompt;
    c->op = "matmul";
    snprintf(c->shape, sizeof c->shape, "%s [%u, %u] x %u%s", tt_dtype_name(dtype), rows, cols, T,
             prompt ? ", prompt" : "");
    c->macs = (double)rows * cols * T;
    c->bytes = weight_bytes(&w->W);
    c->run = run_matmul;
    c->prove = prove_matmul;
}

/* ---- the head, which notes the largest of every block of its row ---- */

static void run_head(void *ctx, tt_backend *be, uint32_t turn)
{
    work *w = ctx;
    tt_mat W = turn_of(w->W, turn);
    be->prompt = w->prompt;
    be->ops->matmul_max(be, w->y, w->top, w->x, W.cols, &W, w->T);
}

/* A product like any other, and the maxima of what it gave. */
static double prove_head(void *ctx, tt_backend *be, tt_backend *ref, double *allowed)
{
    work *w = ctx;
    float want[4];
    tt_mat few = w->W;
    few.rows = 4 * TT_BLOCK_MAX - 5;
    be->prompt = w->prompt;
    be->ops->matmul_max(be, w->y, w->top, w->x, few.cols, &few, 1);
    ref->ops->matmul(ref, w->y2, few.rows, w->x, few.cols, &few, 1);
    *allowed = allowed_of(w, be);
    tt_block_max(want, w->y, few.rows);
    for (int i = 0; i < 4; i++)
        if (want[i] != w->top[i])
            return INFINITY;
    return relative_error(w->y, w->y2, few.rows);
}

static void make_head(kernel_case *c, work *w, tt_dtype dtype, uint32_t rows, uint32_t cols,
                      uint32_t turns)
{
    make_matmul(c, w, dtype, rows, cols, 1, false, turns);
    w->top = take(&w->room, tt_block_count(rows) * sizeof *w->top);
    c->op = "matmul, block maxima";
    c->run = run_head;
    c->prove = prove_head;
}

/* ---- experts ---- */

static void bind_jobs(work *w, uint32_t turn)
{
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        uint32_t e = turn * w->n_jobs + i;
        w->job[i].gate = turn_of(w->W, e);
        w->job[i].up = turn_of(w->up, e);
        w->job[i].down = turn_of(w->down, e);
    }
}

static void run_experts(void *ctx, tt_backend *be, uint32_t turn)
{
    work *w = ctx;
    be->prompt = w->prompt;
    bind_jobs(w, turn);
    be->ops->experts_gate_up(be, w->job, w->n_jobs);
    be->ops->experts_down(be, w->job, w->n_jobs);
}

static double prove_experts(void *ctx, tt_backend *be, tt_backend *ref, double *allowed)
{
    work *w = ctx;
    tt_expert_job *j = &w->job[0];
    be->prompt = w->prompt;
    bind_jobs(w, 0);
    be->ops->experts_gate_up(be, j, 1);
    be->ops->experts_down(be, j, 1);
    size_t n = (size_t)j->n * w->down.rows;
    memcpy(w->y2, j->y, n * 4);
    ref->ops->experts_gate_up(ref, j, 1);
    ref->ops->experts_down(ref, j, 1);
    *allowed = 2 * allowed_of(w, be); /* two products one after the other */
    return relative_error(w->y2, j->y, n);
}

static void make_experts(kernel_case *c, work *w, uint32_t jobs, uint32_t rows, bool prompt,
                         uint32_t turns)
{
    enum { H = 2048, F = 512 };
    uint32_t T = prompt ? jobs * rows / 8 : rows;
    w->W = take_weights(&w->room, TT_DTYPE_Q4, F, H, jobs * turns);
    w->up = take_weights(&w->room, TT_DTYPE_Q4, F, H, jobs * turns);
    w->down = take_weights(&w->room, TT_DTYPE_Q4, H, F, jobs * turns);
    w->x = take_floats(&w->room, (size_t)T * H, 3);
    w->y = take(&w->room, (size_t)jobs * rows * H * 4);
    w->y2 = take(&w->room, (size_t)rows * H * 4);
    float *m = take(&w->room, (size_t)jobs * rows * F * 4);
    uint32_t *row = take(&w->room, (size_t)jobs * rows * 4);
    w->job = take(&w->room, jobs * sizeof *w->job);
    w->n_jobs = jobs;
    w->T = T;
    w->prompt = prompt;
    for (uint32_t i = 0; i < jobs && w->room.base != NULL; i++) {
        size_t at = (size_t)i * rows;
        w->job[i] = (tt_expert_job){
            .x = w->x, .m = m + at * F, .y = w->y + at * H, .row = row + at, .n = rows};
        for (uint32_t k = 0; k < rows; k++)
            row[at + k] = (i + k * 7) % T;
    }
    c->op = "experts";
    snprintf(c->shape, sizeof c->shape, "%u of q4 [%u, %u] x %u%s", jobs, F, H, rows,
             prompt ? ", prompt" : "");
    c->macs = 3.0 * jobs * H * F * rows;
    c->bytes = jobs * 3 * weight_bytes(&w->W);
    c->run = run_experts;
    c->prove = prove_experts;
}

/* ---- attention ---- */

static tt_kv_layer kv_at(const work *w, uint32_t turn)
{
    tt_kv_layer kv = w->kv;
    size_t rows = (size_t)w->keys * turn;
    size_t codes = rows * tt_kv_row_bytes(kv.bits, kv.heads, kv.dim);
    kv.k = (char *)kv.k + codes;
    kv.v = (char *)kv.v + codes;
    if (kv.k_meta != NULL) {
        size_t meta = rows * tt_kv_meta_bytes(kv.bits, kv.heads, kv.dim) / 2;
        kv.k_meta += meta;
        kv.v_meta += meta;
    }
    return kv;
}

static void run_attend(void *ctx, tt_backend *be, uint32_t turn)
{
    work *w = ctx;
    tt_kv_layer kv = kv_at(w, turn);
    be->prompt = w->prompt;
    be->ops->attend(be, w->y, w->x, &kv, w->q_heads, w->keys - w->T, w->T);
}

static double prove_attend(void *ctx, tt_backend *be, tt_backend *ref, double *allowed)
{
    work *w = ctx;
    uint32_t T = w->T < 4 ? w->T : 4, keys = w->keys < 300 ? w->keys : 300;
    size_t n = (size_t)T * w->q_heads * w->kv.dim;
    be->prompt = w->prompt;
    be->ops->attend(be, w->y, w->x, &w->kv, w->q_heads, keys - T, T);
    ref->ops->attend(ref, w->y2, w->x, &w->kv, w->q_heads, keys - T, T);
    *allowed = w->kv.bits > 8 ? 1e-5 : 0.02;
    return relative_error(w->y, w->y2, n);
}

/* Rows as the reference stores them: a few hundred random ones, again and again. */
static void fill_kv(const work *w, uint32_t rows)
{
    enum { SOME = 256 };
    const tt_kv_layer *kv = &w->kv;
    size_t n = (size_t)kv->heads * kv->dim, codes = tt_kv_row_bytes(kv->bits, kv->heads, kv->dim);
    size_t meta = tt_kv_meta_bytes(kv->bits, kv->heads, kv->dim);
    tt_kernels k;
    if (tt_cpu_kernels("ref", &k, NULL) != TT_OK)
        return;
    float *row = malloc(2 * n * sizeof *row);
    uint64_t s = 9;
    for (uint32_t i = 0; i < SOME && i < rows && row != NULL; i++) {
        fill(row, 2 * n, &s);
        k.kv_append(kv, row, row + n, i);
    }
    free(row);
    for (uint32_t i = SOME; i < rows; i++) {
        uint32_t of = i % SOME;
        memcpy((char *)kv->k + i * codes, (char *)kv->k + of * codes, codes);
        memcpy((char *)kv->v + i * codes, (char *)kv->v + of * codes, codes);
        if (meta > 0) {
            memcpy((char *)kv->k_meta + i * meta, (char *)kv->k_meta + of * meta, meta);
            memcpy((char *)kv->v_meta + i * meta, (char *)kv->v_meta + of * meta, meta);
        }
    }
}

static void make_attend(kernel_case *c, work *w, uint32_t bits, uint32_t keys, uint32_t T,
                        uint32_t turns)
{
    w->kv = (tt_kv_layer){.bits = bits, .heads = 2, .dim = 256};
    w->q_heads = 16;
    w->keys = keys;
    w->T = T;
    w->prompt = T > 16;
    size_t rows = (size_t)keys * turns, codes = tt_kv_row_bytes(bits, 2, 256),
           meta = tt_kv_meta_bytes(bits, 2, 256), n = (size_t)T * w->q_heads * w->kv.dim;
    w->kv.k = take(&w->room, rows * codes);
    w->kv.v = take(&w->room, rows * codes);
    if (meta > 0) {
        w->kv.k_meta = take(&w->room, rows * meta);
        w->kv.v_meta = take(&w->room, rows * meta);
    }
    w->x = take_floats(&w->room, n, 4);
    w->y = take(&w->room, n * 4);
    w->y2 = take(&w->room, n * 4);
    if (w->room.base != NULL)
        fill_kv(w, (uint32_t)rows);
    c->op = "attend";
    snprintf(c->shape, sizeof c->shape, "%u-bit rows, 16 heads of 256, %u row%s at %u keys", bits,
             T, T > 1 ? "s" : "", keys);
    c->macs = 2.0 * T * w->q_heads * w->kv.dim * (keys - T / 2.0);
    c->bytes = 2.0 * keys * (double)(codes + meta);
    c->run = run_attend;
    c->prove = prove_attend;
}

/* ---- delta rule ---- */

static void run_delta(void *ctx, tt_backend *be, uint32_t turn)
{
    work *w = ctx;
    const tt_delta_shape *s = &w->delta;
    size_t state = (size_t)s->value_heads * s->key_dim * s->value_dim;
    size_t ld = 2 * (size_t)s->key_heads * s->key_dim + (size_t)s->value_heads * s->value_dim;
    if (w->T == 1)
        be->ops->delta_recurrent(be, w->y, w->state + turn * state, w->x, ld, w->g, w->beta, s, 1);
    else
        be->ops->delta_chunked(be, w->y, w->state, w->x, ld, w->g, w->beta, s, 0, w->T);
}

static double prove_delta(void *ctx, tt_backend *be, tt_backend *ref, double *allowed)
{
    work *w = ctx;
    const tt_delta_shape *s = &w->delta;
    size_t state = (size_t)s->value_heads * s->key_dim * s->value_dim;
    work few = *w;
    few.T = w->T < 70 ? w->T : 70;
    size_t n = (size_t)few.T * s->value_heads * s->value_dim;
    float *S = malloc(state * sizeof *S), *o = malloc(n * sizeof *o);
    double error = INFINITY;
    if (S != NULL && o != NULL) {
        memcpy(S, w->state, state * sizeof *S);
        run_delta(&few, be, 0);
        memcpy(o, w->y, n * sizeof *o);
        few.state = S;
        run_delta(&few, ref, 0);
        error = relative_error(o, w->y, n) + relative_error(w->state, S, state);
    }
    free(S);
    free(o);
    *allowed = 1e-5;
    return error;
}

static void make_delta(kernel_case *c, work *w, uint32_t T, uint32_t turns)
{
    tt_delta_shape s = {16, 32, 128, 128};
    size_t state = (size_t)s.value_heads * s.key_dim * s.value_dim, C = 2 * 16 * 128 + 32 * 128;
    w->delta = s;
    w->T = T;
    w->state = take_floats(&w->room, state * turns, 5);
    w->x = take_floats(&w->room, T * C, 6);
    w->g = take_floats(&w->room, (size_t)T * s.value_heads, 7);
    w->beta = take_floats(&w->room, (size_t)T * s.value_heads, 8);
    w->y = take(&w->room, (size_t)T * s.value_heads * s.value_dim * 4);
    for (size_t i = 0; i < (size_t)T * s.value_heads && w->room.base != NULL; i++) {
        w->g[i] = -fabsf(w->g[i]) * 0.1f;
        w->beta[i] = 1 / (1 + expf(-w->beta[i]));
    }
    for (size_t i = 0; i < T * C && w->room.base != NULL; i++)
        w->x[i] *= i % C < 4096 ? 0.088f : 1; /* queries and keys of unit length */
    c->op = T == 1 ? "delta rule, row by row" : "delta rule, in chunks";
    snprintf(c->shape, sizeof c->shape, "32 heads of 128 x 128, %u row%s", T, T > 1 ? "s" : "");
    c->bytes = 2.0 * (double)state * 4;
    /* In chunks: K S, Q S and K' V' whole, P V' and the triangle half, K K' and Q K' a key head. */
    c->macs = T == 1 ? 2.0 * (double)state
                     : (double)T * (32 * (3 * 128.0 * 128 + 2 * 32 * 128.0) + 16 * 64 * 128.0);
    c->run = run_delta;
    c->prove = prove_delta;
}

/* ---- the list ---- */

typedef struct recipe {
    enum { MATMUL, HEAD, EXPERTS, ATTEND, DELTA } kind;
    tt_dtype dtype;
    uint32_t a, b, T;
    kernel_bound bound;
} recipe;

static const recipe recipes[] = {
    {MATMUL, TT_DTYPE_Q4, 8192, 2048, 1, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_Q4, 2048, 4096, 1, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_Q8, 8192, 2048, 1, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_BF16, 8192, 2048, 1, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_Q8, 32768, 2048, 1, BOUND_MEMORY},
    {HEAD, TT_DTYPE_Q8, 32768, 2048, 1, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_Q4, 8192, 2048, 4, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_Q4, 8192, 2048, 16, BOUND_MEMORY},
    {EXPERTS, TT_DTYPE_Q4, 8, 1, 0, BOUND_MEMORY},
    {ATTEND, TT_DTYPE_F32, 16, 32768, 1, BOUND_MEMORY},
    {ATTEND, TT_DTYPE_F32, 8, 32768, 1, BOUND_MEMORY},
    {ATTEND, TT_DTYPE_F32, 4, 32768, 1, BOUND_MEMORY},
    {ATTEND, TT_DTYPE_F32, 8, 131072, 1, BOUND_MEMORY},
    {ATTEND, TT_DTYPE_F32, 8, 32768, 4, BOUND_MEMORY},
    {DELTA, TT_DTYPE_F32, 0, 0, 1, BOUND_MEMORY},
    {MATMUL, TT_DTYPE_Q4, 2048, 2048, 512, BOUND_DOT},
    {MATMUL, TT_DTYPE_Q4, 2048, 4096, 512, BOUND_DOT},
    {MATMUL, TT_DTYPE_Q8, 2048, 2048, 512, BOUND_DOT},
    {EXPERTS, TT_DTYPE_Q4, 32, 16, 512, BOUND_DOT},
    {EXPERTS, TT_DTYPE_Q4, 32, 64, 512, BOUND_DOT},
    {MATMUL, TT_DTYPE_BF16, 256, 2048, 512, BOUND_F32},
    {ATTEND, TT_DTYPE_F32, 8, 2048, 512, BOUND_F32},
    {DELTA, TT_DTYPE_F32, 0, 0, 512, BOUND_F32},
};

static void make(const recipe *r, kernel_case *c, work *w, uint32_t turns)
{
    switch (r->kind) {
    case MATMUL:
        make_matmul(c, w, r->dtype, r->a, r->b, r->T, r->T > 16, turns);
        break;
    case HEAD:
        make_head(c, w, r->dtype, r->a, r->b, turns);
        break;
    case EXPERTS:
        make_experts(c, w, r->a, r->b, r->T > 16, turns);
        break;
    case ATTEND:
        make_attend(c, w, r->a, r->b, r->T, turns);
        break;
    case DELTA:
        make_delta(c, w, r->T, turns);
        break;
    }
}

tt_status kernel_case_make(unsigned i, uint64_t memory, kernel_case *out, tt_error *err)
{
    if (i >= sizeof recipes / sizeof *recipes)
        return TT_ERR_NOT_FOUND;
    kernel_case c = {.bound = recipes[i].bound};
    work count = {.T = 0}, *w = calloc(1, sizeof *w);
    if (w == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a kernel's operands");
    make(&recipes[i], &c, &count, 1); /* learns the bytes of one turn */
    double turns = c.bound == BOUND_MEMORY ? (double)memory / c.bytes : 1;
    c.turns = turns > 1 ? (uint32_t)turns : 1;
    memset(&count, 0, sizeof count);
    make(&recipes[i], &c, &count, c.turns);
    w->bytes = count.room.used;
    tt_status st = tt_mem_alloc(w->bytes, "a kernel's operands", (void **)&w->room.base, err);
    if (st != TT_OK) {
        free(w);
        return st;
    }
    make(&recipes[i], &c, w, c.turns);
    c.work = w;
    *out = c;
    return TT_OK;
}

void kernel_case_free(kernel_case *c)
{
    work *w = c->work;
    if (w != NULL)
        tt_mem_free(w->room.base, w->bytes);
    free(w);
    *c = (kernel_case){0};
}
