/* convert.h: rows of a checkpoint become bytes of an install.
 *
 * Owns:      the bounded buffers, widening, encoding, copying of quantized input, the refusal of
 *            values that are not finite.
 * Not here:  what goes where (tensor_plan.h), whole files (repack.c).
 * Laws:      (1) memory does not grow with the checkpoint;  (2) the bytes do not depend on threads
 *            or on how a tensor is cut;  (3) NaN and Inf are refused naming tensor and index.
 * Threads:   one at a time; works on a pool inside.
 */
#ifndef TT_REPACK_CONVERT_H
#define TT_REPACK_CONVERT_H

#include "base/pool.h"
#include "repack/emit.h"
#include "repack/tensor_plan.h"

typedef struct tt_converter tt_converter;

/* `chunk_values`: values converted at a time, 0 for the default; tests make it small. */
TT_MUST_CHECK tt_status tt_converter_create(const tt_safetensors *st, unsigned threads,
                                            uint64_t chunk_values, tt_converter **out,
                                            tt_error *err);
void tt_converter_close(tt_converter **c);

/* Encodes rows [row, row + n) of a piece with rows of `cols` values into panels of their own (row
 * is a multiple of TT_PANEL); n * cols is at most the chunk. */
TT_MUST_CHECK tt_status tt_convert_rows(tt_converter *c, const tt_piece *src, tt_dtype dtype,
                                        uint64_t cols, uint64_t row, uint64_t n, void *words,
                                        uint16_t *scales, uint16_t *biases, tt_error *err);
/* Values [first, first + n) of a tensor as they are, checked. */
TT_MUST_CHECK tt_status tt_convert_copy(tt_converter *c, const tt_st_tensor *t, uint64_t first,
                                        uint64_t n, void *out, tt_error *err);

/* Rows [row, row + n) of one part of quantized input, `per_row` units each, as panels of their own;
 * the values behind them are at most the chunk. */
TT_MUST_CHECK tt_status tt_convert_turn(tt_converter *c, const tt_st_tensor *t, uint64_t per_row,
                                        uint64_t row, uint64_t n, void *out, tt_error *err);

/* Appends rows of the n-gram table: those of one shard, `cols` values each. */
TT_MUST_CHECK tt_status tt_convert_table(tt_converter *c, const tt_piece *shard, tt_dtype dtype,
                                         uint64_t cols, tt_emit *out, tt_error *err);

/* Says that rows [row, row + n) of a piece will be converted soon. */
void tt_convert_expect(const tt_converter *c, const tt_piece *src, uint64_t cols, uint64_t row,
                       uint64_t n);

/* Appends a tensor to a file at the places that its index entry names. */
TT_MUST_CHECK tt_status tt_convert_tensor(tt_converter *c, const tt_index_entry *entry,
                                          const tt_piece *src, tt_emit *out, tt_error *err);
/* Converts one matrix of an expert into `expert`, the bytes of the whole expert. */
TT_MUST_CHECK tt_status tt_convert_mat(tt_converter *c, const tt_expert_mat *mat,
                                       const tt_piece *src, unsigned char *expert, tt_error *err);

#endif
