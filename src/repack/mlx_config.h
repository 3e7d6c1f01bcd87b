/* mlx_config.h: the `quantization` object of a checkpoint's config.json.
 *
 * Owns:      MLX's defaults and per-module overrides; refusing what is not affine with groups of
 *            64; which fp8 checkpoints can be read.
 * Not here:  whether a tensor is quantized (its .scales decide, see tensor_plan.h).
 * Laws:      nothing is refused that no tensor uses.
 * Threads:   read-only after reading; borrows the tree.
 */
#ifndef TT_REPACK_MLX_CONFIG_H
#define TT_REPACK_MLX_CONFIG_H

#include "base/json.h"

typedef struct tt_mlx_config {
    const json_t *obj; /* NULL: the checkpoint is not quantized */
    const char *file;
} tt_mlx_config;

/* Finds the object. Fp8 with blocks of 128 x 128 is no quantization here: its tensors say
 * themselves what they are (tensor_plan.h). Other kinds (awq, …) are refused by name. */
TT_MUST_CHECK tt_status tt_mlx_config_read(const json_t *config, const char *file,
                                           tt_mlx_config *out, tt_error *err);
/* Width of a quantized module (its tensor's name without ".weight"): 4 or 8; anything else, and any
 * mode but affine, is refused naming the module. */
TT_MUST_CHECK tt_status tt_mlx_config_bits(const tt_mlx_config *c, const char *module,
                                           uint32_t *bits, tt_error *err);

#endif
