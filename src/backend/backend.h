/* backend.h: the op table that the forward pages call, and the operands it works on.
 *
 * Owns:      the ops' contracts; backends (CPU levels, later CUDA) fill the table.
 * Not here:  what a model is (model/), where expert bytes come from (io/).
 * Laws:      (1) outputs first; shapes are row-major; activations are f32; outputs never alias
 *            inputs unless said;  (2) ref/ is the definition of every op; every level is proved
 *            against it;  (3) row t of a result depends on row t of the inputs alone and is the
 *            same bytes for every T, thread count and cut of the work, with one exception:
 *            delta_chunked, whose chunks start at absolute multiples of 64 (`prompt` below says
 *            which of two roundings a step takes, whatever its T);  (4) sums over a
 *            weight row run in one fixed order per level;  (5) no op allocates;  (6) ops do not
 *            fail: what they need is checked when the backend and the model are made.
 * Threads:   one caller; the backend's pool works inside each op.
 */
#ifndef TT_BACKEND_BACKEND_H
#define TT_BACKEND_BACKEND_H

#include "base/block_max.h"
#include "base/limits.h"
#include "base/pool.h"
#include "format/dtype.h"

typedef struct tt_backend tt_backend;

/* A weight matrix, y = W x: rows outputs, cols inputs. words: u32 words of affine types, which
 * stand in panels with their scales and biases (quant.h law 6); values of others, row by row. */
typedef struct tt_mat {
    tt_dtype dtype;
    uint32_t rows, cols;
    const void *words;
    const uint16_t *scales, *biases; /* bf16, one of each for 64 values, affine types only */
} tt_mat;

/* KV rows of one full-attention layer, token-major: row p of K holds heads * dim values. bits 32:
 * f32; 16: IEEE half; 8 and 4: codes packed as in quant.h law 5 with an IEEE half scale and bias
 * for every group of 64 values (dim is then a multiple of 64): meta[(p * heads * dim / 64 + g) * 2]
 * is the scale, the next one the bias. */
typedef struct tt_kv_layer {
    uint32_t bits, heads, dim;
    void *k, *v;
    uint16_t *k_meta, *v_meta;
} tt_kv_layer;

static inline uint64_t tt_kv_row_bytes(uint32_t bits, uint32_t heads,
                                       uint32_t dim) /* K or V, codes */
{
    return (uint64_t)heads * dim * bits / 8;
}
static inline uint64_t tt_kv_meta_bytes(uint32_t bits, uint32_t heads,
                                        uint32_t dim) /* K or V, scale and bias */
{
    return bits == 8 || bits == 4 ? (uint64_t)heads * dim / TT_GROUP * 4 : 0;
}

/* Shape of one gated DeltaNet mixer. A row of qkv is [q: key_heads * key_dim | k: the same | v:
 * value_heads * value_dim]; value head m uses key head m / (value_heads / key_heads). State:
 * [value_heads][key_dim][value_dim]. */
typedef struct tt_delta_shape {
    uint32_t key_heads, value_heads, key_dim, value_dim;
} tt_delta_shape;

typedef enum tt_gate_act { TT_GATE_SILU, TT_GATE_SIGMOID } tt_gate_act;

/* One of several products of the same x: y[t * W.rows + r] */
typedef struct tt_product {
    float *y;
    const tt_mat *W;
} tt_product;

/* One expert applied to n rows of x: m[i] = silu(gate x[row[i]]) * (up x[row[i]]), y[i] = down
 * m[i]. The reduction adds weight[i] * y[i] to acc[row[i]]. */
typedef struct tt_expert_job {
    tt_mat gate, up, down;
    const float *x;      /* [*, H] */
    float *m;            /* [n, F] */
    float *y;            /* [n, H] */
    const uint32_t *row; /* [n] */
    const float *weight; /* [n] */
    uint32_t n;
} tt_expert_job;

typedef struct tt_ops {
    /* y[T,cols] = row id of W, dequantized */
    void (*embed)(tt_backend *be, float *y, const tt_mat *W, const uint32_t *ids, uint32_t T);
    /* y[t,i] = x[t,i] * (mean_j x[t,j]^2 + eps)^-1/2 * w[i]; w is the whole factor (1 + w folded at
     * load). May be in place. model-math 3.1 (a) */
    void (*rms_norm)(tt_backend *be, float *y, const float *x, const float *w, uint32_t n,
                     float eps, uint32_t T);
    /* y[t * ldy + r] = sum_c W[r,c] x[t * ldx + c] */
    void (*matmul)(tt_backend *be, float *y, size_t ldy, const float *x, size_t ldx,
                   const tt_mat *W, uint32_t T);
    /* matmul of contiguous rows that notes the largest value of every block of TT_BLOCK_MAX results
     * beside them: top[t * tt_block_count(rows) + b], NaN when one is. top may be NULL. */
    void (*matmul_max)(tt_backend *be, float *y, float *top, const float *x, size_t ldx,
                       const tt_mat *W, uint32_t T);
    /* n products of one x, whose weights are read in one pass */
    void (*matmul_many)(tt_backend *be, const tt_product *p, uint32_t n, const float *x, size_t ldx,
                        uint32_t T);
    /* y[T,F] = silu(Wg x) * (Wu x), contiguous rows. 3.8 */
    void (*swiglu)(tt_backend *be, float *y, const float *x, const tt_mat *Wg, const tt_mat *Wu,
                   uint32_t T);
    /* y += x, n values */
    void (*add)(tt_backend *be, float *y, const float *x, size_t n);

    /* c[T,C] = silu(causal depthwise conv of u), taps w[C,4], w[.,3] on the current row; state[3,C]
     * holds the last three raw rows, oldest first, and is brought up to date. c may not alias
     * u. 3.5 */
    void (*conv_silu)(tt_backend *be, float *c, float *state, const float *u, const float *w,
                      uint32_t C, uint32_t T);
    /* In place on the q and k parts of c[T, ld]: q = L2(q) / sqrt(key_dim), k = L2(k); L2 adds 1e-6
     * to the sum. */
    void (*delta_qk_norm)(tt_backend *be, float *c, size_t ld, const tt_delta_shape *s, uint32_t T);
    /* g = -exp(A_log) * softplus(a + dt_bias) and beta = sigmoid(b); all [T, value_heads] */
    void (*delta_gates)(tt_backend *be, float *g, float *beta, const float *a, const float *b,
                        const float *A_log, const float *dt_bias, uint32_t heads, uint32_t T);
    /* The delta rule, row after row. o[T, value_heads * value_dim]; S is brought up to date. 3.5 */
    void (*delta_recurrent)(tt_backend *be, float *o, float *S, const float *c, size_t ld,
                            const float *g, const float *beta, const tt_delta_shape *s, uint32_t T);
    /* The same in chunks (WY form, 3.6) that start at absolute multiples of 64: pos0 is the
     * position of row 0. */
    void (*delta_chunked)(tt_backend *be, float *o, float *S, const float *c, size_t ld,
                          const float *g, const float *beta, const tt_delta_shape *s, uint32_t pos0,
                          uint32_t T);
    /* y = x * (mean x^2 + eps)^-1/2 * w * act(z) a head; x, z, y [T, heads * dim], w[dim]. In place
     * allowed. 3.1 (b) */
    void (*gated_norm)(tt_backend *be, float *y, const float *x, const float *z, const float *w,
                       uint32_t heads, uint32_t dim, float eps, tt_gate_act act, uint32_t T);

    /* y[T, heads * dim] = RoPE(rms norm of each head of x): head h of row t starts at x[t * ldx + h
     * * head_stride]; w[dim] is the whole factor; cos, sin [T, rotary / 2] of the rows' positions;
     * pairs (i, i + rotary / 2). 3.3, 3.4 */
    void (*norm_rope)(tt_backend *be, float *y, const float *x, size_t ldx, size_t head_stride,
                      const float *w, uint32_t heads, uint32_t dim, float eps, const float *cosine,
                      const float *sine, uint32_t rotary, uint32_t T);
    /* Stores k and v [T, heads * dim] as rows pos0..pos0+T-1. Quantized rows: per group of 64, bias
     * = min, scale = (max - min) / (2^bits - 1), both rounded to half first, codes as in quant.h
     * law 2. */
    void (*kv_append)(tt_backend *be, const tt_kv_layer *kv, const float *k, const float *v,
                      uint32_t pos0, uint32_t T);
    /* o[T, q_heads * dim]: row t attends to rows 0..pos0+t; scores q.k / sqrt(dim); softmax in f32,
     * online over key blocks of 64 that start at multiples of 64. 3.3 */
    void (*attend)(tt_backend *be, float *o, const float *q, const tt_kv_layer *kv,
                   uint32_t q_heads, uint32_t pos0, uint32_t T);
    /* o[t, h * dim + i] *= sigmoid(r[t * ldr + h * head_stride + i]) */
    void (*sigmoid_gate)(tt_backend *be, float *o, const float *r, size_t ldr, size_t head_stride,
                         uint32_t heads, uint32_t dim, uint32_t T);

    /* Top K of logits[T, E] (higher logit, then lower index) in that order, weights softmaxed over
     * the chosen. 3.7 */
    void (*route)(tt_backend *be, uint32_t *ids, float *weights, const float *logits, uint32_t E,
                  uint32_t K, uint32_t T);
    /* The two halves of n jobs, whose outputs do not depend on one another: m, which needs gate, up
     * and x of a job alone; then y, which needs down and m. */
    void (*experts_gate_up)(tt_backend *be, const tt_expert_job *jobs, uint32_t n);
    void (*experts_down)(tt_backend *be, const tt_expert_job *jobs, uint32_t n);
    /* acc[T,H]: for each job in order, acc[row[i]] += weight[i] * y[i]. The caller gives jobs in
     * ascending expert id. */
    void (*experts_reduce)(tt_backend *be, float *acc, uint32_t H, const tt_expert_job *jobs,
                           uint32_t n);
    /* h[t] += acc[t] + sigmoid(sg[t]) * shared[t], rows of H */
    void (*moe_add)(tt_backend *be, float *h, const float *acc, const float *shared,
                    const float *sg, uint32_t H, uint32_t T);

    /* ---- qwen4_exp; S streams of H values stand side by side in a row: [T, S, H] ---- */

    /* rms_norm of every stream, with its own factors w[S, H]. May be in place. 5.2 */
    void (*stream_norm)(tt_backend *be, float *y, const float *x, const float *w, uint32_t S,
                        uint32_t H, float eps, uint32_t T);
    /* x = silu(f * x), n values */
    void (*silu_scaled)(tt_backend *be, float *x, float f, size_t n);
    /* x[T, H] = mean over streams of sigmoid(m) * r; m, r [T, S, H] */
    void (*mix_streams)(tt_backend *be, float *x, const float *m, const float *r, uint32_t S,
                        uint32_t H, uint32_t T);
    /* R[t, s] += 2 sigmoid(inject[t, s] / S) * y[t] */
    void (*add_streams)(tt_backend *be, float *R, const float *y, const float *inject, uint32_t S,
                        uint32_t H, uint32_t T);
    /* p[t, s] = sigmoid(sign(d) sqrt(max(|d|, 1e-6))) * v[t], d = k[t, s] . q[t, s] / sqrt(H).
     * p may be k or q. 5.5 */
    void (*ngram_gate)(tt_backend *be, float *p, const float *k, const float *q, const float *v,
                       uint32_t S, uint32_t H, uint32_t T);
    /* conv_silu with D rows from tap to tap; state[3 * D, C]. */
    void (*conv_dilated)(tt_backend *be, float *c, float *state, const float *u, const float *w,
                         uint32_t C, uint32_t D, uint32_t T);
    /* y[n, d] = mean of each `block` rows of x[n * block, d] */
    void (*mean_rows)(tt_backend *be, float *y, const float *x, uint32_t d, uint32_t block,
                      uint32_t n);
    /* The K best of the blocks that are complete at position pos0 + t, by the sum over heads of
     * max(0, scores[t, h, b]): higher sum, then lower block; ascending. There are more than K.
     * scores[T, heads, ld] is used up. 5.4 */
    void (*pick_blocks)(tt_backend *be, uint32_t *picks, float *scores, uint32_t heads, size_t ld,
                        uint32_t block, uint32_t K, uint32_t pos0, uint32_t T);
    /* attend of row t to the blocks picks[t, K] and to the rows behind the last complete block.
     * `work` has room for K * block + block - 1 rows. */
    void (*attend_blocks)(tt_backend *be, float *o, const float *q, const tt_kv_layer *kv,
                          const tt_kv_layer *work, const uint32_t *picks, uint32_t block,
                          uint32_t K, uint32_t q_heads, uint32_t pos0, uint32_t T);
} tt_ops;

struct tt_backend {
    const tt_ops *ops;
    tt_pool *pool;
    const char *name;  /* "cpu" or "ref" */
    const char *level; /* a name of tt_cpu_level_at */
    void *impl;        /* private to the implementation */
    /* Set before the ops of a step: they work on a prompt, and a level may round the activations of
     * products with codes, of weights or of KV rows, to 8 bits of the largest of 64; otherwise to
     * no less than 15. */
    bool prompt;
};

/* What the largest step will need; scratch is taken at create from these. */
typedef struct tt_backend_limits {
    uint32_t head_dim;    /* full attention; 0 when there is none */
    tt_delta_shape delta; /* zeros when there is none */
} tt_backend_limits;

/* name "cpu" or "ref"; level NULL or "auto" takes the best that this machine has, another name
 * forces it and is refused (TT_ERR_UNSUPPORTED, naming what there is) when the machine lacks it.
 * threads >= 1. */
TT_MUST_CHECK tt_status tt_backend_create(const char *name, const char *level, unsigned threads,
                                          const tt_backend_limits *limits, tt_backend **out,
                                          tt_error *err);
void tt_backend_close(tt_backend **be);
/* Scratch bytes that create takes with these limits. */
uint64_t tt_backend_cost(unsigned threads, const tt_backend_limits *limits);
/* Level i of those this machine can run, lowest first ("ref" is 0); NULL past the end. */
const char *tt_cpu_level_at(unsigned i);
/* The same of all that this build has. */
const char *tt_cpu_level_known(unsigned i);

#endif
