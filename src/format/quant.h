/* quant.h: affine quantization with groups of 64, the only lossy step between checkpoint and
 * install.
 *
 * Owns:      the layout of words, scales and biases; encoder and decoder; the turn between rows, as
 *            checkpoints have them, and panels, as installs do.
 * Not here:  which tensor gets which width (repack/policy.h), kernels that multiply by quantized
 *            rows (backend/).
 * Laws:      (1) w = scale * code + bias, scale and bias bf16 widened to f32, scale signed;  (2)
 *            the encoder takes bias = min, scale = (max - min) / (2^bits - 1), rounds both to bf16
 *            first, then code = clamp(rint((w - bias) / scale), 0, 2^bits - 1), ties to even, all
 *            in f32 and a zero bias is +0;  (3) a group with max = min, or whose scale underflows
 *            to 0 in bf16: scale 1, bias bf16(min), every code 0;  (4) NaN, Inf and groups whose
 *            scale or bias would not be finite are refused with their place;  (5) value j of a row
 *            stands in word j*bits/32 at bit (j*bits) mod 32: least significant first;  (6) a
 * matrix is stored in panels of 32 rows, the last one filled up with rows of zeros: word k of row r
 *            is unit (r / 32 * n + k) * 32 + r mod 32 of n words a row, and scales and biases
 *            likewise. So what kernels multiply side by side lies side by side, and a thread reads
 *            its rows as one stream.
 * Threads:   pure on their arguments; the encoder may use a pool.
 */
#ifndef TT_FORMAT_QUANT_H
#define TT_FORMAT_QUANT_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/pool.h"
#include "format/dtype.h"

#define TT_PANEL 32u /* rows */

static inline uint64_t tt_quant_stored_rows(uint64_t rows)
{
    return (rows + TT_PANEL - 1) / TT_PANEL * TT_PANEL;
}

/* Bytes of `cols` values of one row; cols is a multiple of TT_GROUP. */
static inline uint64_t tt_quant_row_words_bytes(uint32_t bits, uint64_t cols)
{
    return cols * bits / 8;
}
static inline uint64_t tt_quant_row_scales_bytes(uint64_t cols)
{
    return cols / TT_GROUP * 2;
}

/* Where unit k (word, scale or bias) of row r stands in panels of `per_row` units a row. */
static inline uint64_t tt_quant_place(uint64_t per_row, uint64_t r, uint64_t k)
{
    return (r / TT_PANEL * per_row + k) * TT_PANEL + r % TT_PANEL;
}

static inline uint32_t tt_dtype_bits(tt_dtype t) /* 4, 8 for affine types, 0 for others */
{
    return t == TT_DTYPE_Q4 ? 4 : t == TT_DTYPE_Q8 ? 8 : 0;
}

/* Encodes rows x cols f32 values (row-major, contiguous) into panels of S = stored_rows(rows) rows.
 * words: S*cols*bits/32 u32; scales, biases: S*cols/64 bf16 each. bits is 4 or 8; cols a multiple
 * of
 * 64. pool may be NULL. Vectorised where the machine can, with the same bytes as the scalar
 * definition. TT_ERR_NUMERIC names row and column of the first NaN or Inf; the output buffers then
 * hold unfinished work. */
TT_MUST_CHECK tt_status tt_quant_encode(uint32_t bits, const float *w, uint64_t rows, uint64_t cols,
                                        uint32_t *words, uint16_t *scales, uint16_t *biases,
                                        tt_pool *pool, tt_error *err);
/* The scalar definition of tt_quant_encode, for tests and as documentation. */
TT_MUST_CHECK tt_status tt_quant_encode_ref(uint32_t bits, const float *w, uint64_t rows,
                                            uint64_t cols, uint32_t *words, uint16_t *scales,
                                            uint16_t *biases, tt_error *err);
/* Decodes values [c0, c0 + n) of row `row` of a matrix of `cols` columns. */
void tt_quant_decode(uint32_t bits, const uint32_t *words, const uint16_t *scales,
                     const uint16_t *biases, uint64_t cols, uint64_t row, uint64_t c0, uint64_t n,
                     float *out);

/* Rows of `per_row` units of `unit` bytes (4: words, 2: scales and biases) into panels, `to` of
 * stored_rows(rows) rows, and back. The two do not overlap. */
void tt_quant_to_panels(uint32_t unit, uint64_t rows, uint64_t per_row, const void *from, void *to);
void tt_quant_from_panels(uint32_t unit, uint64_t rows, uint64_t per_row, const void *from,
                          void *to);
/* True when the rows that fill up the last panel, which `panel` is, are zeros. */
bool tt_quant_filling_is_zero(uint32_t unit, uint64_t rows, uint64_t per_row, const void *panel);

#endif
