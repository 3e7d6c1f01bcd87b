/* dtype.h: the element types of tensors, on disk and in memory, and scalar conversions.
 *
 * Owns:      the enum (numbers frozen, they stand in installs), sizes, names, bf16 and half
 *            conversions.
 * Not here:  affine blocks (quant.h).
 * Laws:      conversions round to nearest, ties to even; NaN stays NaN.
 * Threads:   pure functions.
 */
#ifndef TT_FORMAT_DTYPE_H
#define TT_FORMAT_DTYPE_H

#include <stdint.h>
#include <string.h>

/* Numbers are frozen: they stand in the binary index of installs. 6 and 7 are kept free for other
 * affine widths. */
typedef enum tt_dtype {
    TT_DTYPE_F32 = 0,
    TT_DTYPE_F16 = 1,
    TT_DTYPE_BF16 = 2,
    TT_DTYPE_Q4 = 3,  /* affine, group 64, u32 words, 8 values a word, bf16 scale and bias */
    TT_DTYPE_Q8 = 4,  /* affine, group 64, u32 words, 4 values a word, bf16 scale and bias */
    TT_DTYPE_I64 = 5, /* integer buffers (n-gram tables of qwen4_exp) */
    TT_DTYPE_COUNT = 6
} tt_dtype;

static inline float tt_bf16_to_f32(uint16_t v)
{
    uint32_t u = (uint32_t)v << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint16_t tt_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* IEEE 754 binary16. Defined in dtype.c, portable; vector levels have their own instructions. */
float tt_f16_to_f32(uint16_t v);
uint16_t tt_f32_to_f16(float f);

/* "F32", "BF16", "Q4" ...; "?" for a number outside the enum. */
const char *tt_dtype_name(tt_dtype t);
/* Bytes of one value for F32, F16, BF16, I64; 0 for affine types (see tt_quant_*_bytes). */
uint32_t tt_dtype_bytes(tt_dtype t);

#endif
