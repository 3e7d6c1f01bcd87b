/* kernels.h: the leaf functions that a level fills in; the drivers (ops.c) cut an op into them.
 *
 * Owns:      the table, the filling order, the size of a worker's scratch.
 * Not here:  threads, thresholds (ops.c); which level this machine has (cpu/dispatch.c).
 * Laws:      (1) a leaf works on a range and is pure on its arguments;  (2) the bytes of a result
 *            do not depend on the range it was computed in;  (3) levels overwrite the table upward:
 *            ref, avx2, avx512, or ref, neon; an entry that a level has no better body for stays;
 *            (4) code of a level runs only after dispatch has seen that the machine has it.
 * Threads:   leaves run on every worker at once, each with its own scratch.
 */
#ifndef TT_BACKEND_KERNELS_H
#define TT_BACKEND_KERNELS_H

#include "backend/backend.h"

/* Row cuts of matrices are multiples of this: affine ones stand in panels (quant.h), and r0 of a
 * leaf is the beginning of one. */
#define TT_ROW_GRAIN 32u
/* Column cuts of the recurrent state and of the convolution's channels: whole cache lines. */
#define TT_COL_GRAIN 64u

/* Keys of a segment of attention: each has a softmax and sums of its own. */
#define TT_ATTEND_KEYS 1024u
/* Queries of a piece at most, rows times heads. */
#define TT_ATTEND_QUERIES 64u

/* A piece of attention: query heads [h0, h1), which share a KV head or are all of several, of rows
 * [t0, t1), over keys [k0, k1) of one segment; row t sees those up to pos0 + t. What comes of query
 * (t, h) is record (t - t0) * ld + h - h0 (below). */
typedef struct tt_attend_piece {
    uint32_t h0, h1, t0, t1, k0, k1;
    uint32_t pos0, ld;
} tt_attend_piece;

typedef struct tt_kernels {
    const char *level;

    /* one row: y[cols] = row `id` of W */
    void (*embed)(float *y, const tt_mat *W, uint32_t id);
    /* rows r of [r0, r1), all T rows of x: y[t * ldy + r] */
    void (*matmul)(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W, uint32_t r0,
                   uint32_t r1, uint32_t T, void *scratch);
    void (*swiglu)(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *Wg,
                   const tt_mat *Wu, uint32_t r0, uint32_t r1, uint32_t T, void *scratch);
    void (*add)(float *y, const float *x, size_t n);
    /* y += a * x, product rounded into the sum in one way for every n */
    void (*axpy)(float *y, float a, const float *x, size_t n);
    /* the largest of n values, NaN when there is one */
    float (*largest)(const float *x, size_t n);
    /* one row of n */
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n, float eps);

    /* channels [c0, c1) of all T rows; state likewise */
    void (*conv_silu)(float *c, float *state, const float *u, const float *w, uint32_t C,
                      uint32_t c0, uint32_t c1, uint32_t T);
    /* one row */
    void (*delta_qk_norm)(float *c, const tt_delta_shape *s);
    void (*delta_gates)(float *g, float *beta, const float *a, const float *b, const float *A_log,
                        const float *dt_bias, uint32_t heads);
    /* columns [v0, v1) of value head `head`, all T rows */
    void (*delta_recurrent)(float *o, float *S, const float *c, size_t ld, const float *g,
                            const float *beta, const tt_delta_shape *s, uint32_t head, uint32_t v0,
                            uint32_t v1, uint32_t T);
    /* value heads [h0, h1), all T rows */
    void (*delta_chunked)(float *o, float *S, const float *c, size_t ld, const float *g,
                          const float *beta, const tt_delta_shape *s, uint32_t h0, uint32_t h1,
                          uint32_t pos0, uint32_t T, void *scratch);
    /* one row of heads */
    void (*gated_norm)(float *y, const float *x, const float *z, const float *w, uint32_t heads,
                       uint32_t dim, float eps, tt_gate_act act);

    /* one row of heads */
    void (*norm_rope)(float *y, const float *x, size_t head_stride, const float *w, uint32_t heads,
                      uint32_t dim, float eps, const float *cosine, const float *sine,
                      uint32_t rotary);
    /* one row as position `pos` */
    void (*kv_append)(const tt_kv_layer *kv, const float *k, const float *v, uint32_t pos);
    /* query heads [h0, h1), which share a KV head, of rows [t0, t1); o and q are of row 0 */
    void (*attend)(float *o, const float *q, const tt_kv_layer *kv, uint32_t q_heads, uint32_t h0,
                   uint32_t h1, uint32_t pos0, uint32_t t0, uint32_t t1);
    /* One piece; q is of row 0. Levels that have it need no `attend`. */
    void (*attend_keys)(float *records, const float *q, const tt_kv_layer *kv, uint32_t q_heads,
                        const tt_attend_piece *piece, void *scratch);
    /* The same over rows of 8 or 4 bits in whole numbers; NULL at levels that have none. */
    void (*attend_codes)(float *records, const float *q, const tt_kv_layer *kv, uint32_t q_heads,
                         const tt_attend_piece *piece, uint32_t planes, void *scratch);
    /* One query: the record of the next segment into what earlier ones left. */
    void (*attend_join)(float *all, const float *record, uint32_t dim);
    /* o[dim] = the sums of a record over its total */
    void (*attend_end)(float *o, const float *record, uint32_t dim);
    void (*sigmoid_gate)(float *o, const float *r, size_t head_stride, uint32_t heads,
                         uint32_t dim);

    /* Products in whole numbers (below); NULL at levels that have none. */
    uint32_t dot_grain;   /* rows that go together: W is cut at its multiples, r0 is one */
    uint32_t dot_rows[2]; /* rows of x of a tile, by planes - 1 */
    /* groups [g0, g1) of a tile of T rows, for weights of one type */
    void (*quantize)(int32_t *tile, const float *const *row, uint32_t T, uint32_t g0, uint32_t g1,
                     tt_dtype weights, uint32_t planes);
    /* rows r of [r0, r1) of an affine W: y[t * ldy + r], or silu of it times the product of `up` */
    void (*dot)(float *y, size_t ldy, const int32_t *xq, const tt_mat *W, const tt_mat *up,
                uint32_t r0, uint32_t r1, uint32_t T, uint32_t planes, void *scratch);

    /* The most that the level's multiply-add and its product of whole numbers can do, in registers:
     * both return the multiply-adds of `rounds` rounds. For measuring; NULL where there is none. */
    uint64_t (*peak_f32)(uint32_t rounds);
    uint64_t (*peak_dot)(uint32_t rounds);

    /* one row */
    void (*route)(uint32_t *ids, float *weights, const float *logits, uint32_t E, uint32_t K);
    /* one row of H */
    void (*moe_add)(float *h, const float *acc, const float *shared, float sg, uint32_t H);

    /* n values */
    void (*silu_scaled)(float *x, float f, size_t n);
    /* one row */
    void (*mix_streams)(float *x, const float *m, const float *r, uint32_t S, uint32_t H);
    void (*ngram_gate)(float *p, const float *k, const float *q, const float *v, uint32_t S,
                       uint32_t H);
    /* channels [c0, c1) of all T rows; state likewise */
    void (*conv_dilated)(float *c, float *state, const float *u, const float *w, uint32_t C,
                         uint32_t c0, uint32_t c1, uint32_t D, uint32_t T);
    /* one row that sees B > K blocks */
    void (*pick_blocks)(uint32_t *picks, float *scores, uint32_t heads, size_t ld, uint32_t B,
                        uint32_t K);
} tt_kernels;

void tt_ref_fill(tt_kernels *k);
#if defined(__x86_64__)
void tt_avx2_fill(tt_kernels *k);
void tt_avx512_fill(tt_kernels *k);
void tt_avxvnni_fill(tt_kernels *k);
void tt_avx512vnni_fill(tt_kernels *k);
void tt_amx_fill(tt_kernels *k);
/* The product of avx512vnni, for levels above it. */
void tt_avx512vnni_dot(float *y, size_t ldy, const int32_t *xq, const tt_mat *W, const tt_mat *up,
                       uint32_t r0, uint32_t r1, uint32_t T, uint32_t planes, void *scratch);
#elif defined(__aarch64__)
void tt_neon_fill(tt_kernels *k);
void tt_neon_dotprod_fill(tt_kernels *k);
#endif

/* Fills `k` with a level of this machine: NULL or "auto" is the best one. */
TT_MUST_CHECK tt_status tt_cpu_kernels(const char *level, tt_kernels *k, tt_error *err);

/* The drivers, one table for every level. */
extern const tt_ops tt_cpu_ops;

/* ---- activations in whole numbers ----
 *
 * Every group of 64 values of a row of x is rounded to whole numbers. With one plane: number = x *
 * 127 / max|x|, to even; scale = max|x| / 127. With two: the same with 127 * 256, and number = 256
 * * high + low, high = floor((number + 128) / 256). sum = scale * (sum of the numbers). A group
 * that holds NaN or Inf has scale and sum NaN, one below TT_DOT_LEAST is zero. A result is one
 * chain over the groups, ascending: y = fma(dot of the numbers, scale of w * scale of x, y);  y =
 * fma(bias of w, sum of x, y) Two planes cost little where weights come from memory and lose next
 * to nothing; one halves the work of prompts.
 *
 * T rows of x stand in tiles of dot_rows[planes - 1] (the last one has what is left). A tile of n
 * rows is, for every group, 16 words of four codes, [16][n][planes], then [n] scales and [n] sums.
 * Words hold columns in ascending order for Q8; for Q4 words 0..7 hold the even columns and 8..15
 * the odd ones, as they fall out of the bytes of the weights. */
#define TT_DOT_MOST  16u        /* columns of a tile, at every level */
#define TT_DOT_LEAST 1e-30f     /* the levels over it are finite, and nothing is lost */
#define TT_DOT_BYTES (3u << 19) /* of activations at a time: they stay in the second cache */

static inline size_t tt_dot_words(uint32_t cols, uint32_t planes) /* of a row */
{
    return (size_t)(cols / TT_GROUP) * (TT_GROUP / 4 * planes + 2);
}

/* The definition: one row as a tile of its own, and one row of W times it. */
void tt_ref_quantize(int32_t *xq, const float *x, uint32_t cols, tt_dtype weights, uint32_t planes);
float tt_ref_dot(const int32_t *xq, const tt_mat *W, uint32_t row, uint32_t planes);

/* ---- attention in segments ----
 *
 * Keys are cut at absolute multiples of TT_ATTEND_KEYS, so that a long context can be read by many
 * threads at once and the result says nothing of how many they were. A record holds what a segment
 * (or all up to one) makes of a query: dim sums of weights times values, then the largest score
 * and the sum of the weights against it. Records are joined in ascending order. */
static inline uint32_t tt_attend_sets(const tt_attend_piece *p, uint32_t q_heads,
                                      const tt_kv_layer *kv) /* KV heads of a piece */
{
    uint32_t group = q_heads / kv->heads;
    return p->h1 - p->h0 > group ? (p->h1 - p->h0) / group : 1;
}

static inline size_t tt_attend_record(uint32_t dim) /* floats */
{
    return ((size_t)dim + 2 + 15) / 16 * 16;
}

/* ---- scratch of one worker ---- */

#define TT_LINEAR_ROWS  8u    /* weight rows decoded at a time ... */
#define TT_LINEAR_COLS  1024u /* ... this many columns of them ... */
#define TT_LINEAR_BATCH 48u   /* ... for this many rows of x */

/* Decoded weights and vector accumulators (64 bytes at most) of the blocked matmul. */
#define TT_LINEAR_SCRATCH                                                                          \
    ((size_t)TT_LINEAR_ROWS * TT_LINEAR_COLS * 4 + (size_t)TT_LINEAR_ROWS * TT_LINEAR_BATCH * 64)

#define TT_DOT_GROUPS 64u /* of a panel of 32 rows that is decoded at a time */
/* The panel, and the sums of its rows with those of x that are at hand when it is one of several.
 */
#define TT_DOT_PANEL   ((size_t)TT_DOT_GROUPS * (TT_GROUP / 4 + 2) * 32 * 4)
#define TT_DOT_SCRATCH (TT_DOT_PANEL + TT_DOT_BYTES / (TT_DOT_GROUPS * 72) * 128 + 8192)

static inline size_t tt_scratch_bytes(const tt_backend_limits *lim)
{
    /* delta_chunked of the reference, the larger one: K K', Q K' and a row of V', U, W in double */
    size_t C = TT_BLOCK;
    size_t delta =
        sizeof(double) *
        (2 * C * C + C * (2 * (size_t)lim->delta.value_dim + (size_t)lim->delta.key_dim));
    /* attend_codes: for 64 queries two planes, scale and sum; scales and biases of 128 keys; a
     * group of up to 32 keys; two groups of values of 128; weights of all queries, as they are and
     * in two planes */
    size_t groups = lim->head_dim / TT_GROUP + 1, queries = TT_ATTEND_QUERIES;
    size_t attend = groups * (queries * 34 + 4 * 128) + 16 * 32 + 2 * 128 * 16;
    attend = 4 * (attend + queries * (128 + 2 * 128 / 4)) + 1024;
    /* and records of the segment in work and of those before it */
    attend += 4 * 2 * TT_ATTEND_QUERIES * tt_attend_record(lim->head_dim);
    size_t most = TT_DOT_SCRATCH > TT_LINEAR_SCRATCH ? TT_DOT_SCRATCH : TT_LINEAR_SCRATCH;
    most = attend > most ? attend : most;
    if (lim->delta.value_heads > 0 && delta > most)
        most = delta;
    return (most + 127) / 128 * 128;
}

typedef struct tt_cpu_impl {
    tt_kernels k;
    unsigned threads;
    size_t scratch_bytes; /* of one worker */
    size_t total_bytes;
    char *scratch; /* threads of them, 64-byte aligned */
    int32_t *xq;   /* TT_DOT_BYTES of activations, or of records of attention */
} tt_cpu_impl;

#endif
