/* Weights times activations, by definition: sums in double, columns ascending. */
#include "backend/ref/ref_math.h"
#include "format/quant.h"

#define TILE 16u /* rows of x that share one decoding of the weights */

void tt_ref_weights(float *out, const tt_mat *W, uint32_t r, uint32_t c0, uint32_t n)
{
    size_t at = (size_t)r * W->cols + c0;
    switch (W->dtype) {
    case TT_DTYPE_F32:
        memcpy(out, (const float *)W->words + at, n * sizeof *out);
        break;
    case TT_DTYPE_F16:
        for (uint32_t j = 0; j < n; j++)
            out[j] = tt_f16_to_f32(((const uint16_t *)W->words)[at + j]);
        break;
    case TT_DTYPE_BF16:
        for (uint32_t j = 0; j < n; j++)
            out[j] = tt_bf16_to_f32(((const uint16_t *)W->words)[at + j]);
        break;
    default:
        tt_quant_decode(W->dtype == TT_DTYPE_Q4 ? 4 : 8, W->words, W->scales, W->biases, W->cols, r,
                        c0, n, out);
    }
}

void tt_ref_embed(float *y, const tt_mat *W, uint32_t id)
{
    tt_ref_weights(y, W, id, 0, W->cols);
}

/* sum[t] = row r of W times row t of x, T <= TILE */
static void dots(double *sum, const float *x, size_t ldx, const tt_mat *W, uint32_t r, uint32_t T)
{
    float w[TT_GROUP];
    for (uint32_t t = 0; t < T; t++)
        sum[t] = 0;
    for (uint32_t c0 = 0; c0 < W->cols; c0 += TT_GROUP) {
        uint32_t n = W->cols - c0 < TT_GROUP ? W->cols - c0 : TT_GROUP;
        tt_ref_weights(w, W, r, c0, n);
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t t = 0; t < T; t++)
                sum[t] += (double)w[j] * x[t * ldx + c0 + j];
    }
}

void tt_ref_matmul(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W, uint32_t r0,
                   uint32_t r1, uint32_t T, void *scratch)
{
    double sum[TILE];
    for (uint32_t t0 = 0; t0 < T; t0 += TILE) {
        uint32_t n = T - t0 < TILE ? T - t0 : TILE;
        for (uint32_t r = r0; r < r1; r++) {
            dots(sum, x + t0 * ldx, ldx, W, r, n);
            for (uint32_t t = 0; t < n; t++)
                y[(t0 + t) * ldy + r] = (float)sum[t];
        }
    }
}

void tt_ref_swiglu(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *Wg,
                   const tt_mat *Wu, uint32_t r0, uint32_t r1, uint32_t T, void *scratch)
{
    double gate[TILE], up[TILE];
    for (uint32_t t0 = 0; t0 < T; t0 += TILE) {
        uint32_t n = T - t0 < TILE ? T - t0 : TILE;
        for (uint32_t r = r0; r < r1; r++) {
            dots(gate, x + t0 * ldx, ldx, Wg, r, n);
            dots(up, x + t0 * ldx, ldx, Wu, r, n);
            for (uint32_t t = 0; t < n; t++)
                y[(t0 + t) * ldy + r] = (float)(ref_silu(gate[t]) * up[t]);
        }
    }
}

void tt_ref_add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void tt_ref_axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}
