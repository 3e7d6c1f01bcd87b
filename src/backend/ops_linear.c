/* The drivers of products with weights: every op is a list of parts, one matrix (or gate and up)
 * and its rows of x each, whose work is cut evenly over the pool. */
#include "backend/ops_int.h"

enum { PARTS = 64 /* of a list, on the stack */ };

/* Rows of W that are multiplied before maxima are taken of them: so few that the results are still
 * in a near cache, and so many that streams of weights seldom begin anew. */
#define MAX_RUN (8 * TT_BLOCK_MAX)

_Static_assert(TT_BLOCK_MAX % TT_ROW_GRAIN == 0, "a cut between blocks is a cut between panels");

/* Rows of activations: row t is x[t], or x[from[t]]. */
typedef struct rows_of_x {
    const float *x;
    const uint32_t *from; /* may be NULL */
    size_t ld;
    uint32_t T, cols;
} rows_of_x;

typedef struct part {
    const tt_mat *W, *up; /* `up` for silu(W x) * (up x), else NULL */
    rows_of_x x;
    float *y;
    float *top; /* block maxima of y, or NULL */
    size_t ldy;
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

static const float *row_of(const rows_of_x *x, uint32_t t)
{
    return x->x + (x->from != NULL ? x->from[t] : t) * x->ld;
}

/* Rows [t, t + n) of x. */
static rows_of_x some_rows(rows_of_x x, uint32_t t, uint32_t n)
{
    if (x.from != NULL)
        x.from += t;
    else
        x.x += t * x.ld;
    x.T = n;
    return x;
}

/* ---- activations in whole numbers ---- */

typedef struct source {
    rows_of_x x;
    int32_t *xq;
    tt_dtype weights;
    uint32_t planes;
} source;

typedef struct source_list {
    const tt_cpu_impl *im;
    const source *s;
    uint32_t n;
} source_list;

static uint32_t tile_rows(const tt_cpu_impl *im, uint32_t planes)
{
    return im->k.dot_rows[planes - 1];
}

static void quantize_tile(const tt_cpu_impl *im, const source *s, uint32_t t, size_t g0, size_t g1)
{
    const float *row[TT_DOT_MOST];
    uint32_t tile = tile_rows(im, s->planes), n = s->x.T - t < tile ? s->x.T - t : tile;
    for (uint32_t i = 0; i < n; i++)
        row[i] = row_of(&s->x, t + i);
    im->k.quantize(s->xq + t * tt_dot_words(s->x.cols, s->planes), row, n, (uint32_t)g0,
                   (uint32_t)g1, s->weights, s->planes);
}

/* Items are the groups of all tiles, tile after tile and source after source. */
static void quantize_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const source_list *z = ctx;
    size_t at = 0;
    for (uint32_t i = 0; i < z->n && at < end; i++) {
        const source *s = &z->s[i];
        size_t groups = s->x.cols / TT_GROUP;
        uint32_t tile = tile_rows(z->im, s->planes);
        for (uint32_t t = 0; t < s->x.T && at < end; t += tile, at += groups) {
            size_t g0 = begin > at ? begin - at : 0, g1 = end - at < groups ? end - at : groups;
            if (g0 < g1)
                quantize_tile(z->im, s, t, g0, g1);
        }
    }
}

static void quantize(tt_backend *be, const source *s, uint32_t n)
{
    source_list z = {tt_impl_of(be), s, n};
    size_t items = 0;
    uint64_t work = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tile = tile_rows(z.im, s[i].planes);
        items += (size_t)((s[i].x.T + tile - 1) / tile) * (s[i].x.cols / TT_GROUP);
        work += (uint64_t)s[i].x.T * s[i].x.cols * 8;
    }
    tt_ops_run(be, items, 1, work, quantize_part, &z);
}

/* ---- a list cut over the pool ---- */

/* Rows of W that stay together. */
static uint32_t grain_of(const tt_cpu_impl *im, const part *p)
{
    if (p->top != NULL)
        return TT_BLOCK_MAX;
    if (p->xq == NULL)
        return TT_ROW_GRAIN;
    return im->k.dot_grain;
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
        bits[p->W->dtype] * 16u + (uint64_t)p->x.T * (p->xq != NULL ? 3 * p->planes : 20);
    return weight * p->W->cols * grain_of(im, p) * (p->up != NULL ? 2 : 1);
}

static void product(const tt_cpu_impl *im, const part *p, uint32_t r0, uint32_t r1, void *scratch)
{
    const rows_of_x *x = &p->x;
    if (p->xq != NULL)
        im->k.dot(p->y, p->ldy, p->xq, p->W, p->up, r0, r1, x->T, p->planes, scratch);
    else if (p->up != NULL)
        im->k.swiglu(p->y, p->ldy, x->x, x->ld, p->W, p->up, r0, r1, x->T, scratch);
    else
        im->k.matmul(p->y, p->ldy, x->x, x->ld, p->W, r0, r1, x->T, scratch);
}

static void maxima(const tt_cpu_impl *im, const part *p, uint32_t r0, uint32_t r1)
{
    size_t ldt = tt_block_count(p->W->rows);
    for (uint32_t t = 0; t < p->x.T; t++)
        for (uint32_t r = r0; r < r1; r += TT_BLOCK_MAX)
            p->top[t * ldt + r / TT_BLOCK_MAX] =
                im->k.largest(p->y + t * p->ldy + r, r1 - r < TT_BLOCK_MAX ? r1 - r : TT_BLOCK_MAX);
}

static void part_rows(const tt_cpu_impl *im, const part *p, uint32_t r0, uint32_t r1, void *scratch)
{
    uint32_t step = p->top != NULL ? MAX_RUN : r1 - r0;
    for (uint32_t r = r0; r < r1; r += step) {
        uint32_t end = r1 - r < step ? r1 : r + step;
        product(im, p, r, end, scratch);
        if (p->top != NULL)
            maxima(im, p, r, end);
    }
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
    p.x = some_rows(p.x, (uint32_t)begin, (uint32_t)(end - begin));
    p.y += begin * p.ldy;
    if (p.top != NULL)
        p.top += begin * tt_block_count(p.W->rows);
    if (p.xq != NULL)
        p.xq += begin * tt_dot_words(p.x.cols, p.planes);
    part_rows(z->im, &p, 0, p.W->rows, tt_scratch_of(z->im, worker));
}

static void multiply(tt_backend *be, const part *p, uint32_t n)
{
    part_list z = {tt_impl_of(be), p, n};
    uint64_t cost = 0, work = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t grain = grain_of(z.im, &p[i]);
        cost += (p[i].W->rows + grain - 1) / grain * block_cost(z.im, &p[i]);
        work += (uint64_t)p[i].W->rows * p[i].x.cols * p[i].x.T * (p[i].up != NULL ? 2 : 1);
    }
    unsigned threads = z.im->threads;
    uint32_t tile = p->xq != NULL ? tile_rows(z.im, p->planes) : 1;
    if (n == 1 && p->W->rows < 4 * grain_of(z.im, p) * threads && p->x.T >= 4 * tile * threads)
        tt_ops_run(be, p->x.T, tile, work, row_piece, &z);
    else
        tt_ops_run(be, (size_t)cost, 1, work, list_piece, &z);
}

/* ---- lists of any length ---- */

typedef struct batch {
    part p[PARTS];
    source s[PARTS];
    uint32_t n, sources;
    size_t words; /* of im->xq taken */
} batch;

static void flush(tt_backend *be, batch *b)
{
    if (b->sources > 0)
        quantize(be, b->s, b->sources);
    if (b->n > 0)
        multiply(be, b->p, b->n);
    b->n = b->sources = 0;
    b->words = 0;
}

static bool same_rows(const rows_of_x *a, const rows_of_x *b)
{
    if (a->T != b->T || a->cols != b->cols || a->ld != b->ld)
        return false;
    return a->T == 1 ? row_of(a, 0) == row_of(b, 0) : a->x == b->x && a->from == b->from;
}

/* Activations of `p`: what another part of the batch has, or to be made at im->xq + words. */
static void add_source(const tt_cpu_impl *im, batch *b, part *p)
{
    for (uint32_t i = 0; i < b->sources; i++) {
        const source *s = &b->s[i];
        if (s->weights == p->W->dtype && same_rows(&s->x, &p->x)) {
            p->xq = s->xq;
            return;
        }
    }
    int32_t *at = im->xq + b->words;
    b->s[b->sources++] = (source){p->x, at, p->W->dtype, p->planes};
    b->words += p->x.T * tt_dot_words(p->x.cols, p->planes);
    p->xq = at;
}

/* f32 kernels want their rows beside one another. */
static void gather(const tt_cpu_impl *im, batch *b, part *p)
{
    float *at = (float *)im->xq + b->words;
    for (uint32_t t = 0; t < p->x.T; t++)
        memcpy(at + (size_t)t * p->x.cols, row_of(&p->x, t), p->x.cols * sizeof *at);
    b->words += (size_t)p->x.T * p->x.cols;
    p->x = (rows_of_x){at, NULL, p->x.cols, p->x.T, p->x.cols};
}

/* Adds a part, cut by rows of x where its activations do not fit at once. */
static void add_part(tt_backend *be, batch *b, part p)
{
    const tt_cpu_impl *im = tt_impl_of(be);
    const size_t room = TT_DOT_BYTES / sizeof *im->xq;
    bool dot = im->k.dot != NULL && is_affine(&p);
    uint32_t left = p.x.T, t = 0;
    p.planes = be->prompt ? 1 : 2;
    size_t words = dot ? tt_dot_words(p.x.cols, p.planes) : p.x.from != NULL ? p.x.cols : 0;
    while (left > 0) {
        part now = p;
        uint32_t n = left, tile = dot ? tile_rows(im, p.planes) : 1;
        if (n * words > room - b->words) {
            flush(be, b);
            n = n * words > room ? (uint32_t)(room / words) / tile * tile : n;
        }
        now.x = some_rows(p.x, t, n);
        now.y += t * p.ldy;
        if (p.top != NULL)
            now.top += (size_t)t * tt_block_count(p.W->rows);
        if (dot)
            add_source(im, b, &now);
        else if (words > 0)
            gather(im, b, &now);
        b->p[b->n++] = now;
        if (b->n == PARTS)
            flush(be, b);
        left -= n;
        t += n;
    }
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
    run_one(be, (part){.W = W, .x = {x, NULL, ldx, T, W->cols}, .y = y, .ldy = ldy});
}

void tt_op_matmul_max(tt_backend *be, float *y, float *top, const float *x, size_t ldx,
                      const tt_mat *W, uint32_t T)
{
    run_one(be,
            (part){.W = W, .x = {x, NULL, ldx, T, W->cols}, .y = y, .ldy = W->rows, .top = top});
}

void tt_op_matmul_many(tt_backend *be, const tt_product *p, uint32_t n, const float *x, size_t ldx,
                       uint32_t T)
{
    batch b = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        add_part(be, &b,
                 (part){.W = p[i].W,
                        .x = {x, NULL, ldx, T, p[i].W->cols},
                        .y = p[i].y,
                        .ldy = p[i].W->rows});
    flush(be, &b);
}

void tt_op_swiglu(tt_backend *be, float *y, const float *x, const tt_mat *Wg, const tt_mat *Wu,
                  uint32_t T)
{
    run_one(
        be,
        (part){.W = Wg, .up = Wu, .x = {x, NULL, Wg->cols, T, Wg->cols}, .y = y, .ldy = Wg->rows});
}

void tt_op_experts_gate_up(tt_backend *be, const tt_expert_job *jobs, uint32_t n)
{
    batch b = {.n = 0};
    for (uint32_t i = 0; i < n; i++) {
        const tt_expert_job *e = &jobs[i];
        uint32_t H = e->gate.cols;
        add_part(be, &b,
                 (part){.W = &e->gate,
                        .up = &e->up,
                        .x = {e->x, e->row, H, e->n, H},
                        .y = e->m,
                        .ldy = e->gate.rows});
    }
    flush(be, &b);
}

void tt_op_experts_down(tt_backend *be, const tt_expert_job *jobs, uint32_t n)
{
    batch b = {.n = 0};
    for (uint32_t i = 0; i < n; i++) {
        const tt_expert_job *e = &jobs[i];
        uint32_t F = e->down.cols;
        add_part(
            be, &b,
            (part){.W = &e->down, .x = {e->m, NULL, F, e->n, F}, .y = e->y, .ldy = e->down.rows});
    }
    flush(be, &b);
}
