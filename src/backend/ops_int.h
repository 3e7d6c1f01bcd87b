/* ops_int.h: what the files of the drivers share.
 *
 * Owns:      the way work is handed to the pool; the matrix ops and those of qwen4_exp, which have
 *            files of their own.
 * Not here:  leaves (kernels.h).
 * Laws:      results do not depend on the cut.
 * Threads:   as in backend.h.
 */
#ifndef TT_BACKEND_OPS_INT_H
#define TT_BACKEND_OPS_INT_H

#include "backend/kernels.h"

/* Work below this many multiply-adds (or their like) is done before a second thread has heard of
 * it: crossing the barrier costs about a microsecond, in which a core does forty thousand. */
#define WORTH_A_BARRIER ((uint64_t)80000)
/* Cost of an exponential, in multiply-adds of a vector level. */
#define EXP_COST 16u

static inline const tt_cpu_impl *tt_impl_of(const tt_backend *be)
{
    return be->impl;
}

static inline void *tt_scratch_of(const tt_cpu_impl *im, unsigned worker)
{
    return im->scratch + worker * im->scratch_bytes;
}

/* Runs fn over [0, n), on the pool when `work` is worth it. */
static inline void tt_ops_run(tt_backend *be, size_t n, size_t grain, uint64_t work, tt_pool_fn fn,
                              void *ctx)
{
    if (n == 0)
        return;
    if (work < WORTH_A_BARRIER)
        fn(ctx, 0, n, 0);
    else
        tt_pool_run(be->pool, n, grain, fn, ctx);
}

/* ops_linear.c */
void tt_op_matmul(tt_backend *be, float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W,
                  uint32_t T);
void tt_op_matmul_max(tt_backend *be, float *y, float *top, const float *x, size_t ldx,
                      const tt_mat *W, uint32_t T);
void tt_op_matmul_many(tt_backend *be, const tt_product *p, uint32_t n, const float *x, size_t ldx,
                       uint32_t T);
void tt_op_swiglu(tt_backend *be, float *y, const float *x, const tt_mat *Wg, const tt_mat *Wu,
                  uint32_t T);
void tt_op_experts_gate_up(tt_backend *be, const tt_expert_job *jobs, uint32_t n);
void tt_op_experts_down(tt_backend *be, const tt_expert_job *jobs, uint32_t n);

/* ops_streams.c */
void tt_op_stream_norm(tt_backend *be, float *y, const float *x, const float *w, uint32_t S,
                       uint32_t H, float eps, uint32_t T);
void tt_op_silu_scaled(tt_backend *be, float *x, float f, size_t n);
void tt_op_mix_streams(tt_backend *be, float *x, const float *m, const float *r, uint32_t S,
                       uint32_t H, uint32_t T);
void tt_op_add_streams(tt_backend *be, float *R, const float *y, const float *inject, uint32_t S,
                       uint32_t H, uint32_t T);
void tt_op_ngram_gate(tt_backend *be, float *p, const float *k, const float *q, const float *v,
                      uint32_t S, uint32_t H, uint32_t T);
void tt_op_conv_dilated(tt_backend *be, float *c, float *state, const float *u, const float *w,
                        uint32_t C, uint32_t D, uint32_t T);
void tt_op_mean_rows(tt_backend *be, float *y, const float *x, uint32_t d, uint32_t block,
                     uint32_t n);
void tt_op_pick_blocks(tt_backend *be, uint32_t *picks, float *scores, uint32_t heads, size_t ld,
                       uint32_t block, uint32_t K, uint32_t pos0, uint32_t T);
void tt_op_attend_blocks(tt_backend *be, float *o, const float *q, const tt_kv_layer *kv,
                         const tt_kv_layer *work, const uint32_t *picks, uint32_t block, uint32_t K,
                         uint32_t q_heads, uint32_t pos0, uint32_t T);

#endif
