/* What qwen4_exp adds, by definition (model-math 5.2, 5.4, 5.5): streams of the residual, the
 * n-gram block, the choice of key blocks. */
#include "backend/ref/ref_math.h"

void tt_ref_silu_scaled(float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)ref_silu((double)f * x[i]);
}

void tt_ref_mix_streams(float *x, const float *m, const float *r, uint32_t S, uint32_t H)
{
    for (uint32_t i = 0; i < H; i++) {
        double sum = 0;
        for (uint32_t s = 0; s < S; s++)
            sum += ref_sigmoid(m[(size_t)s * H + i]) * r[(size_t)s * H + i];
        x[i] = (float)(sum / S);
    }
}

void tt_ref_ngram_gate(float *p, const float *k, const float *q, const float *v, uint32_t S,
                       uint32_t H)
{
    for (uint32_t s = 0; s < S; s++, p += H, k += H, q += H) {
        double d = 0;
        for (uint32_t i = 0; i < H; i++)
            d += (double)k[i] * q[i];
        d /= sqrt(H);
        double root = sqrt(fabs(d) > 1e-6 ? fabs(d) : 1e-6);
        double a = ref_sigmoid(d > 0 ? root : d < 0 ? -root : 0);
        for (uint32_t i = 0; i < H; i++)
            p[i] = (float)(a * v[i]);
    }
}

/* Row `t` of the inputs, which begins 3 * D rows before this step. */
static const float *row_before(const float *state, const float *u, uint32_t C, uint32_t D,
                               uint32_t t)
{
    return t < 3 * D ? state + (size_t)t * C : u + (size_t)(t - 3 * D) * C;
}

void tt_ref_conv_dilated(float *c, float *state, const float *u, const float *w, uint32_t C,
                         uint32_t c0, uint32_t c1, uint32_t D, uint32_t T)
{
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t n = c0; n < c1; n++) {
            double sum = 0;
            for (uint32_t j = 0; j < 4; j++)
                sum += (double)w[(size_t)n * 4 + j] * row_before(state, u, C, D, t + j * D)[n];
            c[(size_t)t * C + n] = (float)ref_silu(sum);
        }
    for (uint32_t j = 0; j < 3 * D; j++) /* a row comes from one that stands behind it */
        memmove(state + (size_t)j * C + c0, row_before(state, u, C, D, T + j) + c0,
                (c1 - c0) * sizeof *state);
}

/* Higher score first, then lower index; NaN comes after every number. */
static bool comes_before(const float *score, uint32_t a, uint32_t b)
{
    if (isnan(score[a]) || isnan(score[b]))
        return isnan(score[a]) == isnan(score[b]) ? a < b : isnan(score[b]);
    return score[a] > score[b] || (score[a] == score[b] && a < b);
}

/* The last of the heap's members is its root. */
static void sink(uint32_t *heap, uint32_t n, uint32_t i, const float *score)
{
    uint32_t x = heap[i];
    for (uint32_t k; (k = 2 * i + 1) < n; i = k) {
        k += k + 1 < n && comes_before(score, heap[k], heap[k + 1]);
        if (!comes_before(score, x, heap[k]))
            break;
        heap[i] = heap[k];
    }
    heap[i] = x;
}

void tt_ref_pick_blocks(uint32_t *picks, float *scores, uint32_t heads, size_t ld, uint32_t B,
                        uint32_t K)
{
    for (uint32_t b = 0; b < B; b++) {
        float sum = 0;
        for (uint32_t h = 0; h < heads; h++) {
            float x = scores[h * ld + b];
            sum += x < 0 ? 0 : x;
        }
        scores[b] = sum;
    }
    for (uint32_t b = 0; b < K; b++)
        picks[b] = b;
    for (uint32_t i = K / 2; i-- > 0;)
        sink(picks, K, i, scores);
    for (uint32_t b = K; b < B; b++)
        if (comes_before(scores, b, picks[0])) {
            picks[0] = b;
            sink(picks, K, 0, scores);
        }
    uint32_t last = picks[0], n = 0;
    for (uint32_t b = 0; b < B; b++)
        if (b == last || comes_before(scores, b, last))
            picks[n++] = b;
}
