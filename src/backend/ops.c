/* The drivers: every op of the table cut into ranges over the pool and handed to the level's
 * leaves. What is too small to pay for a barrier runs on the caller; results do not depend on the
 * cut. */
#include "backend/ops_int.h"

/* ---- rows: ops whose rows are independent and small ---- */

typedef struct embed_job {
    const tt_cpu_impl *im;
    float *y;
    const tt_mat *W;
    const uint32_t *ids;
} embed_job;

static void embed_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const embed_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.embed(j->y + t * j->W->cols, j->W, j->ids[t]);
}

static void op_embed(tt_backend *be, float *y, const tt_mat *W, const uint32_t *ids, uint32_t T)
{
    embed_job j = {tt_impl_of(be), y, W, ids};
    tt_ops_run(be, T, 1, (uint64_t)T * W->cols, embed_part, &j);
}

typedef struct norm_job {
    const tt_cpu_impl *im;
    float *y;
    const float *x, *w;
    uint32_t n;
    float eps;
} norm_job;

static void norm_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const norm_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.rms_norm(j->y + t * j->n, j->x + t * j->n, j->w, j->n, j->eps);
}

static void op_rms_norm(tt_backend *be, float *y, const float *x, const float *w, uint32_t n,
                        float eps, uint32_t T)
{
    norm_job j = {tt_impl_of(be), y, x, w, n, eps};
    tt_ops_run(be, T, 1, (uint64_t)T * n * 2, norm_part, &j);
}

typedef struct add_job {
    const tt_cpu_impl *im;
    float *y;
    const float *x;
} add_job;

static void add_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const add_job *j = ctx;
    j->im->k.add(j->y + begin, j->x + begin, end - begin);
}

static void op_add(tt_backend *be, float *y, const float *x, size_t n)
{
    add_job j = {tt_impl_of(be), y, x};
    tt_ops_run(be, n, TT_COL_GRAIN, n, add_part, &j);
}

typedef struct gated_job {
    const tt_cpu_impl *im;
    float *y;
    const float *x, *z, *w;
    uint32_t heads, dim;
    float eps;
    tt_gate_act act;
} gated_job;

/* Items are heads of all rows. */
static void gated_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const gated_job *j = ctx;
    size_t at = begin * j->dim;
    j->im->k.gated_norm(j->y + at, j->x + at, j->z + at, j->w, (uint32_t)(end - begin), j->dim,
                        j->eps, j->act);
}

static void op_gated_norm(tt_backend *be, float *y, const float *x, const float *z, const float *w,
                          uint32_t heads, uint32_t dim, float eps, tt_gate_act act, uint32_t T)
{
    gated_job j = {tt_impl_of(be), y, x, z, w, heads, dim, eps, act};
    size_t n = (size_t)T * heads;
    tt_ops_run(be, n, 1, (uint64_t)n * dim * EXP_COST, gated_part, &j);
}

typedef struct rope_job {
    const tt_cpu_impl *im;
    float *y;
    const float *x, *w, *cosine, *sine;
    size_t ldx, head_stride;
    uint32_t heads, dim, rotary;
    float eps;
} rope_job;

static void rope_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const rope_job *j = ctx;
    size_t half = j->rotary / 2;
    for (size_t t = begin; t < end; t++)
        j->im->k.norm_rope(j->y + t * j->heads * j->dim, j->x + t * j->ldx, j->head_stride, j->w,
                           j->heads, j->dim, j->eps, j->cosine + t * half, j->sine + t * half,
                           j->rotary);
}

static void op_norm_rope(tt_backend *be, float *y, const float *x, size_t ldx, size_t head_stride,
                         const float *w, uint32_t heads, uint32_t dim, float eps,
                         const float *cosine, const float *sine, uint32_t rotary, uint32_t T)
{
    rope_job j = {.im = tt_impl_of(be),
                  .y = y,
                  .x = x,
                  .w = w,
                  .cosine = cosine,
                  .sine = sine,
                  .ldx = ldx,
                  .head_stride = head_stride,
                  .heads = heads,
                  .dim = dim,
                  .rotary = rotary,
                  .eps = eps};
    tt_ops_run(be, T, 1, (uint64_t)T * heads * dim * 3, rope_part, &j);
}

typedef struct append_job {
    const tt_cpu_impl *im;
    const tt_kv_layer *kv;
    const float *k, *v;
    uint32_t pos0;
} append_job;

static void append_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const append_job *j = ctx;
    size_t n = (size_t)j->kv->heads * j->kv->dim;
    for (size_t t = begin; t < end; t++)
        j->im->k.kv_append(j->kv, j->k + t * n, j->v + t * n, j->pos0 + (uint32_t)t);
}

static void op_kv_append(tt_backend *be, const tt_kv_layer *kv, const float *k, const float *v,
                         uint32_t pos0, uint32_t T)
{
    append_job j = {tt_impl_of(be), kv, k, v, pos0};
    tt_ops_run(be, T, 1, (uint64_t)T * kv->heads * kv->dim * 8, append_part, &j);
}

typedef struct gate_job {
    const tt_cpu_impl *im;
    float *o;
    const float *r;
    size_t ldr, head_stride;
    uint32_t heads, dim;
} gate_job;

static void gate_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const gate_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.sigmoid_gate(j->o + t * j->heads * j->dim, j->r + t * j->ldr, j->head_stride,
                              j->heads, j->dim);
}

static void op_sigmoid_gate(tt_backend *be, float *o, const float *r, size_t ldr,
                            size_t head_stride, uint32_t heads, uint32_t dim, uint32_t T)
{
    gate_job j = {tt_impl_of(be), o, r, ldr, head_stride, heads, dim};
    tt_ops_run(be, T, 1, (uint64_t)T * heads * dim * EXP_COST, gate_part, &j);
}

typedef struct route_job {
    const tt_cpu_impl *im;
    uint32_t *ids;
    float *weights;
    const float *logits;
    uint32_t E, K;
} route_job;

static void route_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const route_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.route(j->ids + t * j->K, j->weights + t * j->K, j->logits + t * j->E, j->E, j->K);
}

static void op_route(tt_backend *be, uint32_t *ids, float *weights, const float *logits, uint32_t E,
                     uint32_t K, uint32_t T)
{
    route_job j = {tt_impl_of(be), ids, weights, logits, E, K};
    tt_ops_run(be, T, 1, (uint64_t)T * (E * 8 + K * 64), route_part, &j);
}

typedef struct moe_job {
    const tt_cpu_impl *im;
    float *h;
    const float *acc, *shared, *sg;
    uint32_t H;
} moe_job;

static void moe_add_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const moe_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.moe_add(j->h + t * j->H, j->acc + t * j->H, j->shared + t * j->H, j->sg[t], j->H);
}

static void op_moe_add(tt_backend *be, float *h, const float *acc, const float *shared,
                       const float *sg, uint32_t H, uint32_t T)
{
    moe_job j = {tt_impl_of(be), h, acc, shared, sg, H};
    tt_ops_run(be, T, 1, (uint64_t)T * H * 2, moe_add_part, &j);
}

/* ---- experts' sum ---- */

typedef struct reduce_job {
    const tt_cpu_impl *im;
    float *acc;
    uint32_t H;
    const tt_expert_job *jobs;
    uint32_t n;
} reduce_job;

/* Items are columns: every sum is made by one worker, in the order of the jobs. */
static void reduce_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const reduce_job *p = ctx;
    for (uint32_t e = 0; e < p->n; e++) {
        const tt_expert_job *j = &p->jobs[e];
        for (uint32_t i = 0; i < j->n; i++)
            p->im->k.axpy(p->acc + (size_t)j->row[i] * p->H + begin, j->weight[i],
                          j->y + (size_t)i * p->H + begin, end - begin);
    }
}

static void op_experts_reduce(tt_backend *be, float *acc, uint32_t H, const tt_expert_job *jobs,
                              uint32_t n)
{
    reduce_job p = {tt_impl_of(be), acc, H, jobs, n};
    uint64_t rows = 0;
    for (uint32_t i = 0; i < n; i++)
        rows += jobs[i].n;
    tt_ops_run(be, H, TT_COL_GRAIN, rows * H, reduce_part, &p);
}

/* ---- gated DeltaNet ---- */

typedef struct conv_job {
    const tt_cpu_impl *im;
    float *c, *state;
    const float *u, *w;
    uint32_t C, T;
} conv_job;

static void conv_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const conv_job *j = ctx;
    j->im->k.conv_silu(j->c, j->state, j->u, j->w, j->C, (uint32_t)begin, (uint32_t)end, j->T);
}

static void op_conv_silu(tt_backend *be, float *c, float *state, const float *u, const float *w,
                         uint32_t C, uint32_t T)
{
    conv_job j = {tt_impl_of(be), c, state, u, w, C, T};
    if (T > 0)
        tt_ops_run(be, C, TT_COL_GRAIN, (uint64_t)C * (T * EXP_COST + 8), conv_part, &j);
}

typedef struct delta_job {
    const tt_cpu_impl *im;
    float *o, *S;
    const float *c, *g, *beta;
    size_t ld;
    const tt_delta_shape *s;
    uint32_t pos0, T;
} delta_job;

typedef struct qk_job {
    const tt_cpu_impl *im;
    float *c;
    size_t ld;
    const tt_delta_shape *s;
} qk_job;

static void qk_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const qk_job *j = ctx;
    for (size_t t = begin; t < end; t++)
        j->im->k.delta_qk_norm(j->c + t * j->ld, j->s);
}

static void op_delta_qk_norm(tt_backend *be, float *c, size_t ld, const tt_delta_shape *s,
                             uint32_t T)
{
    qk_job j = {tt_impl_of(be), c, ld, s};
    tt_ops_run(be, T, 1, (uint64_t)T * s->key_heads * s->key_dim * 4, qk_part, &j);
}

typedef struct gates_job {
    const tt_cpu_impl *im;
    float *g, *beta;
    const float *a, *b, *A_log, *dt_bias;
    uint32_t heads;
} gates_job;

static void gates_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const gates_job *j = ctx;
    for (size_t t = begin; t < end; t++) {
        size_t at = t * j->heads;
        j->im->k.delta_gates(j->g + at, j->beta + at, j->a + at, j->b + at, j->A_log, j->dt_bias,
                             j->heads);
    }
}

static void op_delta_gates(tt_backend *be, float *g, float *beta, const float *a, const float *b,
                           const float *A_log, const float *dt_bias, uint32_t heads, uint32_t T)
{
    gates_job j = {tt_impl_of(be), g, beta, a, b, A_log, dt_bias, heads};
    tt_ops_run(be, T, 1, (uint64_t)T * heads * 500, gates_part,
               &j); /* four scalar library calls each */
}

/* Columns of a value head that one item covers: whole cache lines, or all when there are few. */
static uint32_t column_blocks(const tt_delta_shape *s)
{
    return (s->value_dim + TT_COL_GRAIN - 1) / TT_COL_GRAIN;
}

/* Items are blocks of columns of the state, head after head; a run of them in one head is one call.
 */
static void recurrent_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const delta_job *j = ctx;
    uint32_t blocks = column_blocks(j->s);
    for (size_t i = begin; i < end;) {
        uint32_t head = (uint32_t)(i / blocks);
        size_t stop = (size_t)(head + 1) * blocks < end ? (size_t)(head + 1) * blocks : end;
        uint32_t v0 = (uint32_t)(i % blocks) * TT_COL_GRAIN;
        uint32_t v1 = (uint32_t)(stop - (size_t)head * blocks) * TT_COL_GRAIN;
        if (v1 > j->s->value_dim)
            v1 = j->s->value_dim;
        j->im->k.delta_recurrent(j->o, j->S, j->c, j->ld, j->g, j->beta, j->s, head, v0, v1, j->T);
        i = stop;
    }
}

static void op_delta_recurrent(tt_backend *be, float *o, float *S, const float *c, size_t ld,
                               const float *g, const float *beta, const tt_delta_shape *s,
                               uint32_t T)
{
    delta_job j = {tt_impl_of(be), o, S, c, g, beta, ld, s, 0, T};
    tt_ops_run(be, (size_t)s->value_heads * column_blocks(s), 1,
               (uint64_t)T * s->value_heads * s->key_dim * s->value_dim * 4, recurrent_part, &j);
}

static void chunked_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const delta_job *j = ctx;
    j->im->k.delta_chunked(j->o, j->S, j->c, j->ld, j->g, j->beta, j->s, (uint32_t)begin,
                           (uint32_t)end, j->pos0, j->T, tt_scratch_of(j->im, worker));
}

static void op_delta_chunked(tt_backend *be, float *o, float *S, const float *c, size_t ld,
                             const float *g, const float *beta, const tt_delta_shape *s,
                             uint32_t pos0, uint32_t T)
{
    delta_job j = {tt_impl_of(be), o, S, c, g, beta, ld, s, pos0, T};
    tt_ops_run(be, s->value_heads, 1, (uint64_t)T * s->value_heads * s->key_dim * s->value_dim * 4,
               chunked_part, &j);
}

/* ---- attention ---- */

/* Rows of a tile share the keys they read. */
#define ATTEND_ROWS 8u
/* Units of work a thread: with fewer, segments of keys are what is handed out. */
#define ATTEND_UNITS 4u

/* A unit: one tile of rows, `heads` query heads, of one KV head (whose last unit may have less) or
 * of `sets` whole ones (of which the last unit may have less). */
typedef struct attend_job {
    const tt_cpu_impl *im;
    float *o;
    const float *q;
    const tt_kv_layer *kv;
    uint32_t q_heads, pos0, T, planes;
    uint32_t heads, chunks; /* chunks: units of a KV head */
    uint32_t sets, tiles, units;
    size_t record;  /* floats */
    float *records; /* of [segment of the wave][row][head], after those that all is joined into */
    uint32_t s0;    /* first segment of the wave */
    uint32_t slot0; /* and where it stands */
} attend_job;

/* Later rows see more keys, so tiles are taken from both ends in turn: any contiguous part of the
 * items is then about equally heavy. */
static uint32_t folded(uint32_t i, uint32_t n)
{
    return i % 2 == 0 ? i / 2 : n - 1 - i / 2;
}

static uint32_t segments_of(uint32_t pos) /* that a row at `pos` sees */
{
    return pos / TT_ATTEND_KEYS + 1;
}

/* Heads and rows of a unit, and keys of segment s as far as they matter; false when none does. */
static bool piece_of(tt_attend_piece *p, const attend_job *j, uint32_t unit, uint32_t s)
{
    uint32_t group = j->q_heads / j->kv->heads, across = j->units / j->tiles, i = unit % across;
    p->h0 = i / j->chunks * j->sets * group + i % j->chunks * j->heads;
    p->h1 = (i / j->chunks + 1) * j->sets * group;
    if (p->h1 > j->q_heads)
        p->h1 = j->q_heads;
    if (j->sets == 1 && p->h1 - p->h0 > j->heads)
        p->h1 = p->h0 + j->heads;
    p->t0 = folded(unit / across, j->tiles) * ATTEND_ROWS;
    p->t1 = p->t0 + ATTEND_ROWS < j->T ? p->t0 + ATTEND_ROWS : j->T;
    p->pos0 = j->pos0;
    p->k0 = s * TT_ATTEND_KEYS;
    p->k1 = j->pos0 + p->t1;
    if (p->k1 > p->k0 + TT_ATTEND_KEYS)
        p->k1 = p->k0 + TT_ATTEND_KEYS;
    return p->k0 < p->k1;
}

static void attend_piece(const attend_job *j, float *records, const tt_attend_piece *p,
                         void *scratch)
{
    if (j->im->k.attend_codes != NULL && j->kv->bits <= 8)
        j->im->k.attend_codes(records, j->q, j->kv, j->q_heads, p, j->planes, scratch);
    else
        j->im->k.attend_keys(records, j->q, j->kv, j->q_heads, p, scratch);
}

/* Items are units, which go through all their segments. */
static void attend_units(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const attend_job *j = ctx;
    char *scratch = tt_scratch_of(j->im, worker);
    float *all = (float *)(void *)scratch, *one = all + TT_ATTEND_QUERIES * j->record;
    void *rest = one + TT_ATTEND_QUERIES * j->record;
    for (size_t u = begin; u < end; u++) {
        tt_attend_piece p;
        for (uint32_t s = 0; piece_of(&p, j, (uint32_t)u, s); s++) {
            p.ld = p.h1 - p.h0;
            attend_piece(j, s == 0 ? all : one, &p, rest);
            for (uint32_t i = 0; s > 0 && i < (p.t1 - p.t0) * p.ld; i++)
                if (s < segments_of(j->pos0 + p.t0 + i / p.ld))
                    j->im->k.attend_join(all + i * j->record, one + i * j->record, j->kv->dim);
        }
        for (uint32_t i = 0; i < (p.t1 - p.t0) * p.ld; i++) {
            size_t row = p.t0 + i / p.ld, head = p.h0 + i % p.ld;
            j->im->k.attend_end(j->o + (row * j->q_heads + head) * j->kv->dim, all + i * j->record,
                                j->kv->dim);
        }
    }
}

/* Items are units of one segment after another: neighbours read the same rows. */
static void attend_segments(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const attend_job *j = ctx;
    for (size_t i = begin; i < end; i++) {
        uint32_t at = (uint32_t)(i / j->units);
        tt_attend_piece p;
        if (!piece_of(&p, j, (uint32_t)(i % j->units), j->s0 + at))
            continue;
        p.ld = j->q_heads;
        size_t query = (((size_t)j->slot0 + at) * j->T + p.t0) * j->q_heads + p.h0;
        attend_piece(j, j->records + query * j->record, &p, tt_scratch_of(j->im, worker));
    }
}

/* Items are queries: what a wave of segments has made of them is joined. */
static void join_wave(const attend_job *j, uint32_t n, size_t begin, size_t end)
{
    size_t step = (size_t)j->T * j->q_heads * j->record;
    for (size_t i = begin; i < end; i++) {
        float *all = j->records + i * j->record;
        uint32_t sees = segments_of(j->pos0 + (uint32_t)(i / j->q_heads));
        for (uint32_t k = 1; k < j->slot0 + n && j->s0 + k - j->slot0 < sees; k++)
            j->im->k.attend_join(all, all + k * step, j->kv->dim);
        if (sees <= j->s0 + n) /* again in every later wave, which adds nothing */
            j->im->k.attend_end(j->o + i * j->kv->dim, all, j->kv->dim);
    }
}

typedef struct wave_job {
    const attend_job *job;
    uint32_t n;
} wave_job;

static void join_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const wave_job *w = ctx;
    join_wave(w->job, w->n, begin, end);
}

/* Waves of as many segments as there is room for; false when there is too little. */
static bool attend_in_waves(tt_backend *be, attend_job *j)
{
    size_t queries = (size_t)j->T * j->q_heads;
    size_t slots = TT_DOT_BYTES / sizeof(float) / (queries * j->record);
    uint32_t segments = segments_of(j->pos0 + j->T - 1), n;
    if (slots < 3 || segments < 2)
        return false;
    j->records = (float *)(void *)j->im->xq;
    for (j->s0 = 0; j->s0 < segments; j->s0 += n) {
        j->slot0 = j->s0 > 0;
        n = segments - j->s0;
        if (n > slots - j->slot0)
            n = (uint32_t)slots - j->slot0;
        tt_pool_run(be->pool, (size_t)n * j->units, 1, attend_segments, j);
        wave_job w = {j, n};
        tt_ops_run(be, queries, 1, (uint64_t)n * queries * j->kv->dim, join_part, &w);
    }
    return true;
}

/* Levels without pieces, which is the reference: items are the query heads of a row. */
static void attend_rows(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const attend_job *j = ctx;
    for (size_t i = begin; i < end; i++) {
        uint32_t t = folded((uint32_t)(i / j->q_heads), j->T), h = (uint32_t)(i % j->q_heads);
        j->im->k.attend(j->o, j->q, j->kv, j->q_heads, h, h + 1, j->pos0, t, t + 1);
    }
}

/* As many heads together as a piece can hold, so that rows of keys are read once and from end to
 * end; fewer where threads would be idle. */
static void cut_units(attend_job *j, unsigned threads)
{
    uint32_t rows = j->T < ATTEND_ROWS ? j->T : ATTEND_ROWS, group = j->q_heads / j->kv->heads;
    uint32_t most = TT_ATTEND_QUERIES / rows;
    bool alone = segments_of(j->pos0 + j->T - 1) == 1;
    j->tiles = (j->T + ATTEND_ROWS - 1) / ATTEND_ROWS;
    j->heads = group < most ? group : most;
    j->sets = alone || most < group ? 1 : most / group < j->kv->heads ? most / group : j->kv->heads;
    for (;; j->heads = (j->heads + 1) / 2) {
        j->chunks = j->sets > 1 ? 1 : (group + j->heads - 1) / j->heads;
        j->units = j->tiles * ((j->kv->heads + j->sets - 1) / j->sets) * j->chunks;
        if (!alone || j->units >= threads || j->heads == 1)
            return;
    }
}

static void op_attend(tt_backend *be, float *o, const float *q, const tt_kv_layer *kv,
                      uint32_t q_heads, uint32_t pos0, uint32_t T)
{
    const tt_cpu_impl *im = tt_impl_of(be);
    attend_job j = {.im = im,
                    .o = o,
                    .q = q,
                    .kv = kv,
                    .q_heads = q_heads,
                    .pos0 = pos0,
                    .T = T,
                    .planes = be->prompt ? 1 : 2,
                    .record = tt_attend_record(kv->dim)};
    uint64_t work = (uint64_t)T * q_heads * (pos0 + (T + 1) / 2) * kv->dim * 2;
    if (T == 0)
        return;
    if (im->k.attend_keys == NULL) {
        tt_ops_run(be, (size_t)T * q_heads, 1, work, attend_rows, &j);
        return;
    }
    cut_units(&j, im->threads);
    if (j.units >= im->threads * ATTEND_UNITS || !attend_in_waves(be, &j))
        tt_ops_run(be, j.units, 1, work, attend_units, &j);
}

const tt_ops tt_cpu_ops = {
    .embed = op_embed,
    .rms_norm = op_rms_norm,
    .matmul = tt_op_matmul,
    .matmul_max = tt_op_matmul_max,
    .matmul_many = tt_op_matmul_many,
    .swiglu = tt_op_swiglu,
    .add = op_add,
    .conv_silu = op_conv_silu,
    .delta_qk_norm = op_delta_qk_norm,
    .delta_gates = op_delta_gates,
    .delta_recurrent = op_delta_recurrent,
    .delta_chunked = op_delta_chunked,
    .gated_norm = op_gated_norm,
    .norm_rope = op_norm_rope,
    .kv_append = op_kv_append,
    .attend = op_attend,
    .sigmoid_gate = op_sigmoid_gate,
    .route = op_route,
    .experts_gate_up = tt_op_experts_gate_up,
    .experts_down = tt_op_experts_down,
    .experts_reduce = op_experts_reduce,
    .moe_add = op_moe_add,
    .stream_norm = tt_op_stream_norm,
    .silu_scaled = tt_op_silu_scaled,
    .mix_streams = tt_op_mix_streams,
    .add_streams = tt_op_add_streams,
    .ngram_gate = tt_op_ngram_gate,
    .conv_dilated = tt_op_conv_dilated,
    .mean_rows = tt_op_mean_rows,
    .pick_blocks = tt_op_pick_blocks,
    .attend_blocks = tt_op_attend_blocks,
};
