/* Affine weights times activations in whole numbers, by definition: what the integer-dot levels
 * give, byte for byte. The reference level itself multiplies by f32 activations (ref_linear.c). */
#include "backend/ref/ref_math.h"
#include "format/quant.h"

enum { WORDS = TT_GROUP / 4 };

/* Column of code i (0..63) of a group, in the order of the words. */
static uint32_t column(uint32_t i, tt_dtype weights)
{
    if (weights == TT_DTYPE_Q8)
        return i;
    uint32_t word = i / 4, half = word / (WORDS / 2); /* even columns first */
    return word % (WORDS / 2) * 8 + i % 4 * 2 + half;
}

/* codes[p]: plane p, high parts first */
static void quantize_group(int8_t codes[2][TT_GROUP], float pair[2], const float *x,
                           tt_dtype weights, uint32_t planes)
{
    float most = 0, levels = planes == 1 ? 127 : 127 * 256;
    bool finite = true;
    for (uint32_t i = 0; i < TT_GROUP; i++) {
        finite = finite && isfinite(x[i]);
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    memset(codes, 0, sizeof(int8_t[2][TT_GROUP]));
    pair[0] = pair[1] = finite ? 0 : NAN;
    if (!finite || most < TT_DOT_LEAST)
        return;
    float per = levels / most;
    int32_t total = 0;
    for (uint32_t i = 0; i < TT_GROUP; i++) {
        float number = rintf(x[column(i, weights)] * per);
        float high = planes == 1 ? number : floorf((number + 128) / 256);
        codes[0][i] = (int8_t)high;
        codes[1][i] = planes == 1 ? 0 : (int8_t)(number - 256 * high);
        total += (int32_t)number;
    }
    pair[0] = most / levels;
    pair[1] = pair[0] * (float)total;
}

void tt_ref_quantize(int32_t *xq, const float *x, uint32_t cols, tt_dtype weights, uint32_t planes)
{
    for (uint32_t g = 0; g < cols / TT_GROUP; g++, x += TT_GROUP) {
        int8_t codes[2][TT_GROUP];
        float pair[2];
        quantize_group(codes, pair, x, weights, planes);
        for (uint32_t k = 0; k < WORDS; k++)
            for (uint32_t p = 0; p < planes; p++)
                memcpy(xq++, codes[p] + 4 * k, 4);
        memcpy(xq, pair, sizeof pair);
        xq += 2;
    }
}

static int32_t code_of(const tt_mat *W, uint32_t row, size_t col)
{
    const uint32_t bits = W->dtype == TT_DTYPE_Q8 ? 8 : 4, per = 32 / bits;
    uint32_t word = ((const uint32_t *)W->words)[tt_quant_place(W->cols / per, row, col / per)];
    return (int32_t)(word >> (col % per * bits) & ((1u << bits) - 1));
}

/* Number i (0..63, in the order of the words) of a group of x. */
static int32_t number_of(const int32_t *xq, uint32_t i, uint32_t planes)
{
    const int8_t *codes = (const int8_t *)(xq + i / 4 * planes);
    return planes == 1 ? codes[i % 4] : 256 * codes[i % 4] + codes[4 + i % 4];
}

float tt_ref_dot(const int32_t *xq, const tt_mat *W, uint32_t row, uint32_t planes)
{
    float y = 0;
    size_t groups = W->cols / TT_GROUP;
    for (size_t g = 0; g < groups; g++, xq += WORDS * planes + 2) {
        size_t at = tt_quant_place(groups, row, g);
        float pair[2];
        int32_t dot = 0;
        memcpy(pair, xq + WORDS * planes, sizeof pair);
        for (uint32_t i = 0; i < TT_GROUP; i++)
            dot += number_of(xq, i, planes) * code_of(W, row, g * TT_GROUP + column(i, W->dtype));
        y = fmaf((float)dot, tt_bf16_to_f32(W->scales[at]) * pair[0], y);
        y = fmaf(tt_bf16_to_f32(W->biases[at]), pair[1], y);
    }
    return y;
}
