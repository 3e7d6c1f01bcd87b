/* ref_math.h: scalar functions that the reference definitions share.
 *
 * Owns:      the logistic family in double, single weights and KV values decoded.
 * Not here:  ops.
 * Laws:      results are rounded to f32 once, where an op stores them.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_REF_MATH_H
#define TT_BACKEND_REF_MATH_H

#include <math.h>

#include "backend/kernels.h"

static inline double ref_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static inline double ref_silu(double x)
{
    return x / (1.0 + exp(-x));
}

/* ln(1 + e^x); above 20 it is x to f32 precision, and e^x could overflow. */
static inline double ref_softplus(double x)
{
    return x > 20.0 ? x : log1p(exp(x));
}

/* Weights [c0, c0 + n) of row r of W as f32. */
void tt_ref_weights(float *out, const tt_mat *W, uint32_t r, uint32_t c0, uint32_t n);

void tt_ref_embed(float *y, const tt_mat *W, uint32_t id);
void tt_ref_matmul(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W, uint32_t r0,
                   uint32_t r1, uint32_t T, void *scratch);
void tt_ref_swiglu(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *Wg,
                   const tt_mat *Wu, uint32_t r0, uint32_t r1, uint32_t T, void *scratch);
void tt_ref_add(float *y, const float *x, size_t n);
void tt_ref_axpy(float *y, float a, const float *x, size_t n);

void tt_ref_rms_norm(float *y, const float *x, const float *w, uint32_t n, float eps);
void tt_ref_gated_norm(float *y, const float *x, const float *z, const float *w, uint32_t heads,
                       uint32_t dim, float eps, tt_gate_act act);
void tt_ref_norm_rope(float *y, const float *x, size_t head_stride, const float *w, uint32_t heads,
                      uint32_t dim, float eps, const float *cosine, const float *sine,
                      uint32_t rotary);
void tt_ref_delta_qk_norm(float *c, const tt_delta_shape *s);

void tt_ref_conv_silu(float *c, float *state, const float *u, const float *w, uint32_t C,
                      uint32_t c0, uint32_t c1, uint32_t T);
void tt_ref_delta_gates(float *g, float *beta, const float *a, const float *b, const float *A_log,
                        const float *dt_bias, uint32_t heads);
void tt_ref_delta_recurrent(float *o, float *S, const float *c, size_t ld, const float *g,
                            const float *beta, const tt_delta_shape *s, uint32_t head, uint32_t v0,
                            uint32_t v1, uint32_t T);
void tt_ref_delta_chunked(float *o, float *S, const float *c, size_t ld, const float *g,
                          const float *beta, const tt_delta_shape *s, uint32_t h0, uint32_t h1,
                          uint32_t pos0, uint32_t T, void *scratch);

void tt_ref_kv_append(const tt_kv_layer *kv, const float *k, const float *v, uint32_t pos);
void tt_ref_attend(float *o, const float *q, const tt_kv_layer *kv, uint32_t q_heads, uint32_t h0,
                   uint32_t h1, uint32_t pos0, uint32_t t0, uint32_t t1);
void tt_ref_sigmoid_gate(float *o, const float *r, size_t head_stride, uint32_t heads,
                         uint32_t dim);

void tt_ref_route(uint32_t *ids, float *weights, const float *logits, uint32_t E, uint32_t K);
void tt_ref_moe_add(float *h, const float *acc, const float *shared, float sg, uint32_t H);

void tt_ref_silu_scaled(float *x, float f, size_t n);
void tt_ref_mix_streams(float *x, const float *m, const float *r, uint32_t S, uint32_t H);
void tt_ref_ngram_gate(float *p, const float *k, const float *q, const float *v, uint32_t S,
                       uint32_t H);
void tt_ref_conv_dilated(float *c, float *state, const float *u, const float *w, uint32_t C,
                         uint32_t c0, uint32_t c1, uint32_t D, uint32_t T);
void tt_ref_pick_blocks(uint32_t *picks, float *scores, uint32_t heads, size_t ld, uint32_t B,
                        uint32_t K);

#endif
