/* mlx_writer.h: rebuilds the MLX-style 4-bit form of a qwen3_5_moe checkpoint for tests.
 *
 * Owns:      MLX's affine quantizer, its tensor names, norm shift and transposed convolution.
 * Not here:  the quantizer of the product: nothing of format/quant.c is used, so that one can be
 * held against the other.
 * Laws:      the same source gives the same bytes, whose digest the test of this file pins.
 * Threads:   one at a time.
 */
#ifndef TT_TESTS_MLX_WRITER_H
#define TT_TESTS_MLX_WRITER_H

#include "base/status.h"

/* Writes a checkpoint into `dir` (made when missing): `config` as config.json, which also says the
 * width of every module, model.safetensors, and the tokenizer files of `source`, a checkpoint of
 * bf16 tensors with fused experts. */
TT_MUST_CHECK tt_status tt_mlx_write(const char *source, const char *config, const char *dir,
                                     tt_error *err);

#endif
