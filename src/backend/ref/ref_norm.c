/* Normalisations, by definition (model-math 3.1, 3.4): statistics in double. */
#include "backend/ref/ref_math.h"

static double sum_of_squares(const float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

void tt_ref_rms_norm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    double f = 1.0 / sqrt(sum_of_squares(x, n) / n + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)(x[i] * f * w[i]);
}

void tt_ref_gated_norm(float *y, const float *x, const float *z, const float *w, uint32_t heads,
                       uint32_t dim, float eps, tt_gate_act act)
{
    for (uint32_t h = 0; h < heads; h++, x += dim, z += dim, y += dim) {
        double f = 1.0 / sqrt(sum_of_squares(x, dim) / dim + eps);
        for (uint32_t i = 0; i < dim; i++) {
            double gate = act == TT_GATE_SILU ? ref_silu(z[i]) : ref_sigmoid(z[i]);
            y[i] = (float)(x[i] * f * w[i] * gate);
        }
    }
}

void tt_ref_norm_rope(float *y, const float *x, size_t head_stride, const float *w, uint32_t heads,
                      uint32_t dim, float eps, const float *cosine, const float *sine,
                      uint32_t rotary)
{
    uint32_t half = rotary / 2;
    for (uint32_t h = 0; h < heads; h++, x += head_stride, y += dim) {
        double f = 1.0 / sqrt(sum_of_squares(x, dim) / dim + eps);
        for (uint32_t i = 0; i < half; i++) {
            double a = x[i] * f * w[i], b = x[i + half] * f * w[i + half];
            y[i] = (float)(a * cosine[i] - b * sine[i]);
            y[i + half] = (float)(b * cosine[i] + a * sine[i]);
        }
        for (uint32_t i = rotary; i < dim; i++)
            y[i] = (float)(x[i] * f * w[i]);
    }
}

static void l2_norm(float *x, uint32_t n, double factor)
{
    double f = factor / sqrt(sum_of_squares(x, n) + 1e-6);
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(x[i] * f);
}

void tt_ref_delta_qk_norm(float *c, const tt_delta_shape *s)
{
    float *q = c, *k = c + (size_t)s->key_heads * s->key_dim;
    for (uint32_t h = 0; h < s->key_heads; h++, q += s->key_dim, k += s->key_dim) {
        l2_norm(q, s->key_dim, 1.0 / sqrt(s->key_dim));
        l2_norm(k, s->key_dim, 1.0);
    }
}
