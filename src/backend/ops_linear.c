/* The drivers of products with weights: every op is a list of parts, one matrix (or gate and up)
 * and its rows of x each, whose work is cut evenly over the pool. */
#include "backend/ops_int.h"

enum { PARTS = 64 /* of a list, on the stack */ };

typedef struct part {
    const tt_mat *W, *up; /* `up` for silu(W x) * (up x), else NULL */
    const float *x;
    float *y;
    size_t ldx, ldy;
    uint32_t T;
    const int32_t *xq; /* x in whole numbers; NULL: the product takes f32 */
    uint32_t planes;   /* of xq */
} part;

typedef struct part_list {
    const tt_cpu_impl *im;
    const part *p;
    uint32_t n;
} part_list;

/* Gate and up go through one product of whole numbers, so both must be of one width. */
static bool is_affine(const part *p)
{
    return (p->W->dtype == TT_DTYPE_Q4 || p->W->dtype == TT_DTYPE_Q8) &&
           (p->up == NULL || p->up->dtype == p->W->dtype);
}

/* ---- activations in whole numbers ---- */

typedef struct source {
    const float *x;
    size_t ldx;
    int32_t *xq;
    uint32_t cols, T;
    tt_dtype weights;
    uint32_t planes;
} source;

typedef struct source_list {
    const tt_cpu_impl *im;
    const source *s;
    uint32_t n;
} source_list;

/* Items are the groups of all tiles, tile after tile and source after source. */
static void quantize_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const source_list *z = ctx;
    const tt_kernels *k = &z->im->k;
    size_t at = 0;
    for (uint32_t i = 0; i < z->n && at < end; i++) {
        const source *s = &z->s[i];
        size_t groups = s->cols / TT_GROUP;
        uint32_t tile = k->dot_tile / s->planes;
        for (uint32_t t = 0; t < s->T && at < end; t += tile, at += groups) {
            if (at + groups <= begin)
                continue;
            size_t g0 = begin > at ? begin - at : 0, g1 = end - at < groups ? end - at : groups;
            k->quantize(s->xq + t * tt_dot_words(s->cols, s->planes), s->x + t * s->ldx, s->ldx,
                        s->cols, (uint32_t)g0, (uint32_t)g1, s->T - t < tile ? s->T - t : tile,
                        s->weights, s->planes);
        }
    }
}

static void quantize(tt_backend *be, const source *s, uint32_t n)
{
    source_list z = {tt_impl_of(be), s, n};
    size_t items = 0;
    uint64_t work = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tile = z.im->k.dot_tile / s[i].planes;
        items += (size_t)((s[i].T + tile - 1) / tile) * (s[i].cols / TT_GROUP);
        work += (uint64_t)s[i].T * s[i].cols * 8;
    }
    tt_ops_run(be, items, 1, work, quantize_part, &z);
}

/* ---- a list cut over the pool ---- */

/* Rows of W that stay together. */
static uint32_t grain_of(const tt_cpu_impl *im, const part *p)
{
    if (p->xq == NULL)
        return TT_ROW_GRAIN;
    return p->up != NULL ? im->k.dot_grain / 2 : im->k.dot_grain;
}

/* Of a block of rows, by what was measured: reading a weight bit counts 16, a product with an f32
 * activation 20 and one of whole numbers 3. */
static uint64_t block_cost(const tt_cpu_impl *im, const part *p)
{
    static const uint8_t bits[] = {[TT_DTYPE_F32] = 32,
                                   [TT_DTYPE_F16] = 16,
                                   [TT_DTYPE_BF16] = 16,
                                   [TT_DTYPE_Q4] = 5,
                                   [TT_DTYPE_Q8] = 9};
    uint64_t weight =
        bits[p->W->dtype] * 16u + (uint64_t)p->T * (p->xq != NULL ? 3 * p->planes : 20);
    return weight * p->W->cols * grain_of(im, p) * (p->up != NULL ? 2 : 1);
}

static void part_rows(const tt_cpu_impl *im, const part *p, uint32_t r0, uint32_t r1, void *scratch)
{
    if (p->xq != NULL)
        im->k.dot(p->y, p->ldy, p->xq, p->W, p->up, r0, r1, p->T, p->planes, scratch);
    else if (p->up != NULL)
        im->k.swiglu(p->y, p->ldy, p->x, p->ldx, p->W, p->up, r0, r1, p->T, scratch);
    else
        im->k.matmul(p->y, p->ldy, p->x, p->ldx, p->W, r0, r1, p->T, scratch);
}

/* Items are units of cost: a block of rows belongs to the piece in which it starts. */
static void list_piece(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const part_list *z = ctx;
    uint64_t at = 0;
    for (uint32_t i = 0; i < z->n && at < end; i++) {
        const part *p = &z->p[i];
        uint64_t cost = block_cost(z->im, p), grain = grain_of(z->im, p), rows = p->W->rows;
        uint64_t blocks = (rows + grain - 1) / grain;
        uint64_t b0 = begin > at ? (begin - at + cost - 1) / cost : 0;
        uint64_t b1 = (end - at + cost - 1) / cost;
        b1 = b1 < blocks ? b1 : blocks;
        if (b0 < b1)
            part_rows(z->im, p, (uint32_t)(b0 * grain),
                      (uint32_t)(b1 * grain < rows ? b1 * grain : rows),
                      tt_scratch_of(z->im, worker));
        at += blocks * cost;
    }
}

/* Items are rows of x of the only part, a matrix with too few rows to be cut. */
static void row_piece(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const part_list *z = ctx;
    part p = *z->p;
    p.x += begin * p.ldx;
    p.y += begin * p.ldy;
    p.T = (uint32_t)(end - begin);
    if (p.xq != NULL)
        p.xq += begin * tt_dot_words(p.W->cols, p.planes);
    part_rows(z->im, &p, 0, p.W->rows, tt_scratch_of(z->im, worker));
}

static void multiply(tt_backend *be, const part *p, uint32_t n)
{
    part_list z = {tt_impl_of(be), p, n};
    uint64_t cost = 0, work = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t grain = grain_of(z.im, &p[i]);
        cost += (p[i].W->rows + grain - 1) / grain * block_cost(z.im, &p[i]);
        work += (uint64_t)p[i].W->rows * p[i].W->cols * p[i].T * (p[i].up != NULL ? 2 : 1);
    }
    uint32_t grain = n == 1 ? grain_of(z.im, p) : 1,
             tile = p->xq != NULL ? z.im->k.dot_tile / p->planes : 1;
    if (n == 1 && p->W->rows < 4 * grain * z.im->threads && p->T >= 4 * tile * z.im->threads)
        tt_ops_run(be, p->T, tile, work, row_piece, &z);
    else
        tt_ops_run(be, (size_t)cost, 1, work, list_piece, &z);
}

/* ---- lists of any length ---- */

/* Rows of x of `p` that fit `words`. */
static uint32_t rows_that_fit(const part *p, size_t words)
{
    size_t fit = words / tt_dot_words(p->W->cols, p->planes);
    return fit < p->T ? (uint32_t)fit : p->T;
}

/* One part, as many rows of x at a time as fit. */
static void run_long(tt_backend *be, part p)
{
    const tt_cpu_impl *im = tt_impl_of(be);
    uint32_t tile = im->k.dot_tile / p.planes, step = rows_that_fit(&p, TT_DOT_BYTES / 4);
    step = step > tile && step < p.T ? step / tile * tile : step;
    for (uint32_t t = 0; t < p.T; t += step) {
        part now = p;
        now.x += t * p.ldx, now.y += t * p.ldy;
        now.T = p.T - t < step ? p.T - t : step;
        now.xq = im->xq;
        source s = {now.x, p.ldx, im->xq, p.W->cols, now.T, p.W->dtype, p.planes};
        quantize(be, &s, 1);
        multiply(be, &now, 1);
    }
}

typedef struct batch {
    part p[PARTS];
    source s[PARTS];
    uint32_t n, sources;
    size_t words; /* of im->xq taken */
} batch;

static void flush(tt_backend *be, batch *b)
{
    if (b->n > 0) {
        quantize(be, b->s, b->sources);
        multiply(be, b->p, b->n);
    }
    b->n = b->sources = 0;
    b->words = 0;
}

/* The activations of `p`, made already for another part or to be made. */
static void add_source(const tt_cpu_impl *im, batch *b, part *p)
{
    for (uint32_t i = 0; i < b->sources; i++) {
        const source *s = &b->s[i];
        if (s->x == p->x && s->T == p->T && s->weights == p->W->dtype && s->cols == p->W->cols) {
            p->xq = s->xq;
            return;
        }
    }
    int32_t *at = im->xq + b->words;
    b->s[b->sources++] = (source){p->x, p->ldx, at, p->W->cols, p->T, p->W->dtype, p->planes};
    b->words += p->T * tt_dot_words(p->W->cols, p->planes);
    p->xq = at;
}

static void add_part(tt_backend *be, batch *b, part p)
{
    const tt_cpu_impl *im = tt_impl_of(be);
    if (p.T == 0)
        return;
    if (im->k.dot != NULL && is_affine(&p)) {
        p.planes = be->prompt ? 1 : 2;
        size_t words = p.T * tt_dot_words(p.W->cols, p.planes), room = TT_DOT_BYTES / 4;
        if (words > room - b->words)
            flush(be, b);
        if (words > room) {
            run_long(be, p);
            return;
        }
        add_source(im, b, &p);
    }
    b->p[b->n++] = p;
    if (b->n == PARTS)
        flush(be, b);
}

/* ---- ops ---- */

static void run_one(tt_backend *be, part p)
{
    batch b = {.n = 0};
    add_part(be, &b, p);
    flush(be, &b);
}

void tt_op_matmul(tt_backend *be, float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W,
                  uint32_t T)
{
    run_one(be, (part){.W = W, .x = x, .y = y, .ldx = ldx, .ldy = ldy, .T = T});
}

void tt_op_matmul_many(tt_backend *be, const tt_product *p, uint32_t n, const float *x, size_t ldx,
                       uint32_t T)
{
    batch b = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        add_part(be, &b,
                 (part){.W = p[i].W, .x = x, .y = p[i].y, .ldx = ldx, .ldy = p[i].W->rows, .T = T});
    flush(be, &b);
}

void tt_op_swiglu(tt_backend *be, float *y, const float *x, const tt_mat *Wg, const tt_mat *Wu,
                  uint32_t T)
{
    run_one(be,
            (part){.W = Wg, .up = Wu, .x = x, .y = y, .ldx = Wg->cols, .ldy = Wg->rows, .T = T});
}

void tt_op_experts_gate_up(tt_backend *be, const tt_expert_job *jobs, uint32_t n)
{
    batch b = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        add_part(be, &b,
                 (part){.W = &jobs[i].gate,
                        .up = &jobs[i].up,
                        .x = jobs[i].x,
                        .y = jobs[i].m,
                        .ldx = jobs[i].gate.cols,
                        .ldy = jobs[i].gate.rows,
                        .T = jobs[i].n});
    flush(be, &b);
}

void tt_op_experts_down(tt_backend *be, const tt_expert_job *jobs, uint32_t n)
{
    batch b = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        add_part(be, &b,
                 (part){.W = &jobs[i].down,
                        .x = jobs[i].m,
                        .y = jobs[i].y,
                        .ldx = jobs[i].down.cols,
                        .ldy = jobs[i].down.rows,
                        .T = jobs[i].n});
    flush(be, &b);
}
