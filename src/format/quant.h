/* quant.h: affine quantization with groups of 64, the only lossy step between checkpoint and
 * install.
 *
 * Owns:      the layout of words, scales and biases; encoder and decoder.
 * Not here:  which tensor gets which width (repack/policy.h), kernels that multiply by quantized
 *            rows (backend/).
 * Laws:      (1) w = scale * code + bias, scale and bias bf16 widened to f32, scale signed;  (2)
 *            the encoder takes bias = min, scale = (max - min) / (2^bits - 1), rounds both to bf16
 *            first, then code = clamp(rint((w - bias) / scale), 0, 2^bits - 1), ties to even, all
 *            in f32 and a zero bias is +0;  (3) a group with max = min, or whose scale underflows
 *            to 0 in bf16: scale 1, bias bf16(min), every code 0;  (4) NaN, Inf and groups whose
 *            scale or bias would not be finite are refused with their place;  (5) value j of a row
 *            stands in word j*bits/32 at bit (j*bits) mod 32: least significant first.
 * Threads:   pure on their arguments; the encoder may use a pool.
 */
#ifndef TT_FORMAT_QUANT_H
#define TT_FORMAT_QUANT_H

#include "base/limits.h"
#include "base/pool.h"
#include "format/dtype.h"

/* Bytes of `cols` values of one row; cols is a multiple of TT_GROUP. */
static inline uint64_t tt_quant_row_words_bytes(uint32_t bits, uint64_t cols)
{
    return cols * bits / 8;
}
static inline uint64_t tt_quant_row_scales_bytes(uint64_t cols)
{
    return cols / TT_GROUP * 2;
}

static inline uint32_t tt_dtype_bits(tt_dtype t) /* 4, 8 for affine types, 0 for others */
{
    return t == TT_DTYPE_Q4 ? 4 : t == TT_DTYPE_Q8 ? 8 : 0;
}

/* Encodes rows x cols f32 values (row-major, contiguous). words: rows*cols*bits/32 u32; scales,
 * biases: rows*cols/64 bf16 each. bits is 4 or 8; cols a multiple of 64. pool may be NULL.
 * Vectorised where the machine can, with the same bytes as the scalar definition. TT_ERR_NUMERIC
 * names row and column of the first NaN or Inf; the output buffers then hold unfinished work. */
TT_MUST_CHECK tt_status tt_quant_encode(uint32_t bits, const float *w, uint64_t rows, uint64_t cols,
                                        uint32_t *words, uint16_t *scales, uint16_t *biases,
                                        tt_pool *pool, tt_error *err);
/* The scalar definition of tt_quant_encode, for tests and as documentation. */
TT_MUST_CHECK tt_status tt_quant_encode_ref(uint32_t bits, const float *w, uint64_t rows,
                                            uint64_t cols, uint32_t *words, uint16_t *scales,
                                            uint16_t *biases, tt_error *err);
/* Decodes one row of cols values. */
void tt_quant_decode_row(uint32_t bits, const uint32_t *words, const uint16_t *scales,
                         const uint16_t *biases, uint64_t cols, float *out);

#endif
