/* Attention over the KV rows, by definition (model-math 3.3), and how rows are stored. */
#include "backend/ref/ref_math.h"

/* One group of 64 values: bias = min, scale = (max - min) / (2^bits - 1), both rounded to half
 * first and kept inside its range; codes round ties to even. A group without spread (or with less
 * than half can hold) takes scale 1; one that holds NaN or Inf is stored as NaN, so that the fault
 * shows. */
static void store_group(uint8_t *codes, uint16_t *meta, uint32_t bits, const float *x)
{
    float lo = x[0], hi = x[0], levels = bits == 8 ? 255.0f : 15.0f;
    bool finite = true;
    for (uint32_t i = 0; i < TT_GROUP; i++) {
        finite = finite && isfinite(x[i]);
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    if (!finite) {
        memset(codes, 0, TT_GROUP * bits / 8);
        meta[0] = 0;
        meta[1] = 0x7e00;
        return;
    }
    lo += 0.0f; /* -0 is stored as 0, whichever stood first */
    float spread = (hi - lo) / levels;
    meta[0] = tt_f32_to_f16(spread < 65504.0f ? spread : 65504.0f);
    meta[1] = tt_f32_to_f16(lo < -65504.0f ? -65504.0f : lo > 65504.0f ? 65504.0f : lo);
    if ((meta[0] & 0x7fff) == 0)
        meta[0] = 0x3c00;
    float scale = tt_f16_to_f32(meta[0]), bias = tt_f16_to_f32(meta[1]);
    if (bits == 4)
        memset(codes, 0, TT_GROUP / 2);
    for (uint32_t i = 0; i < TT_GROUP; i++) {
        float code = rintf((x[i] - bias) / scale);
        code = code < 0 ? 0 : code > levels ? levels : code;
        if (bits == 8)
            codes[i] = (uint8_t)code;
        else /* least significant first: a byte holds the even value below the odd one */
            codes[i / 2] |= (uint8_t)((uint32_t)code << (i % 2 * 4));
    }
}

static void store_row(void *rows, uint16_t *meta, const tt_kv_layer *kv, const float *x,
                      uint32_t pos)
{
    size_t n = (size_t)kv->heads * kv->dim, groups = n / TT_GROUP;
    if (kv->bits == 32) {
        memcpy((float *)rows + pos * n, x, n * sizeof *x);
    } else if (kv->bits == 16) {
        uint16_t *half = (uint16_t *)rows + pos * n;
        for (size_t i = 0; i < n; i++)
            half[i] = tt_f32_to_f16(x[i]);
    } else {
        uint8_t *codes = (uint8_t *)rows + pos * tt_kv_row_bytes(kv->bits, kv->heads, kv->dim);
        for (size_t g = 0; g < groups; g++)
            store_group(codes + g * (TT_GROUP * kv->bits / 8), meta + (pos * groups + g) * 2,
                        kv->bits, x + g * TT_GROUP);
    }
}

void tt_ref_kv_append(const tt_kv_layer *kv, const float *k, const float *v, uint32_t pos)
{
    store_row(kv->k, kv->k_meta, kv, k, pos);
    store_row(kv->v, kv->v_meta, kv, v, pos);
}

/* x[dim] = head `head` of row `pos` */
static void load_head(float *x, const void *rows, const uint16_t *meta, const tt_kv_layer *kv,
                      uint32_t head, uint32_t pos)
{
    size_t at = ((size_t)pos * kv->heads + head) * kv->dim;
    for (uint32_t i = 0; i < kv->dim; i++, at++) {
        if (kv->bits == 32) {
            x[i] = ((const float *)rows)[at];
        } else if (kv->bits == 16) {
            x[i] = tt_f16_to_f32(((const uint16_t *)rows)[at]);
        } else {
            const uint8_t *codes = rows;
            const uint16_t *m = meta + at / TT_GROUP * 2;
            uint32_t code = kv->bits == 8 ? codes[at] : codes[at / 2] >> (at % 2 * 4) & 15;
            x[i] = tt_f16_to_f32(m[0]) * (float)code + tt_f16_to_f32(m[1]);
        }
    }
}

/* One query over rows 0..n-1 of its KV head: online softmax over blocks of TT_BLOCK keys. */
static void attend_one(float *o, const float *q, const tt_kv_layer *kv, uint32_t head, uint32_t n)
{
    double acc[TT_MAX_HEAD_DIM] = {0}, score[TT_BLOCK], top = -INFINITY, total = 0;
    float x[TT_MAX_HEAD_DIM];
    uint32_t dim = kv->dim;
    for (uint32_t b = 0; b < n; b += TT_BLOCK) {
        uint32_t keys = n - b < TT_BLOCK ? n - b : TT_BLOCK;
        double new_top = top;
        for (uint32_t j = 0; j < keys; j++) {
            double dot = 0;
            load_head(x, kv->k, kv->k_meta, kv, head, b + j);
            for (uint32_t i = 0; i < dim; i++)
                dot += (double)q[i] * x[i];
            score[j] = dot / sqrt(dim);
            new_top = score[j] > new_top ? score[j] : new_top;
        }
        double shrink = exp(top - new_top);
        total *= shrink;
        for (uint32_t i = 0; i < dim; i++)
            acc[i] *= shrink;
        for (uint32_t j = 0; j < keys; j++) {
            double p = exp(score[j] - new_top);
            total += p;
            load_head(x, kv->v, kv->v_meta, kv, head, b + j);
            for (uint32_t i = 0; i < dim; i++)
                acc[i] += p * x[i];
        }
        top = new_top;
    }
    for (uint32_t i = 0; i < dim; i++)
        o[i] = (float)(acc[i] / total);
}

void tt_ref_attend(float *o, const float *q, const tt_kv_layer *kv, uint32_t q_heads, uint32_t h0,
                   uint32_t h1, uint32_t pos0, uint32_t t0, uint32_t t1)
{
    for (uint32_t t = t0; t < t1; t++)
        for (uint32_t h = h0; h < h1; h++) {
            size_t at = ((size_t)t * q_heads + h) * kv->dim;
            attend_one(o + at, q + at, kv, h / (q_heads / kv->heads), pos0 + t + 1);
        }
}

void tt_ref_sigmoid_gate(float *o, const float *r, size_t head_stride, uint32_t heads, uint32_t dim)
{
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < dim; i++)
            o[(size_t)h * dim + i] =
                (float)(o[(size_t)h * dim + i] * ref_sigmoid(r[h * head_stride + i]));
}
