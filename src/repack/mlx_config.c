#include "repack/mlx_config.h"

#include <string.h>

#include "base/limits.h"

/* "weight_block_size": [128, 128]; absent means the same. */
static tt_status check_fp8(const json_t *obj, const char *file, tt_error *err)
{
    const json_t *block = json_object_get(obj, "weight_block_size");
    const char *format = NULL;
    TT_TRY(tt_json_opt_string(obj, "fmt", file, &format, err));
    if (format != NULL && strcmp(format, "e4m3") != 0)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "the checkpoint is fp8 in the format \"%.40s\"; only e4m3 can be read",
                          format);
    if (block == NULL || json_is_null(block))
        return TT_OK;
    for (size_t i = 0; i < 2; i++)
        if (json_array_size(block) != 2 || json_integer_value(json_array_get(block, i)) != 128)
            return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                              "the checkpoint is fp8 with scales of other blocks than 128 x 128: "
                              "convert from the original weights");
    return TT_OK;
}

tt_status tt_mlx_config_read(const json_t *config, const char *file, tt_mlx_config *out,
                             tt_error *err)
{
    const json_t *obj = json_object_get(config, "quantization");
    if (obj == NULL || json_is_null(obj))
        obj = json_object_get(config, "quantization_config");
    if (obj == NULL || json_is_null(obj)) {
        *out = (tt_mlx_config){NULL, file};
        return TT_OK;
    }
    if (!json_is_object(obj))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"quantization\" must be an object");
    const char *method = NULL;
    TT_TRY(tt_json_opt_string(obj, "quant_method", file, &method, err));
    if (method != NULL && strcmp(method, "fp8") == 0) {
        TT_TRY(check_fp8(obj, file, err));
        *out = (tt_mlx_config){NULL, file};
        return TT_OK;
    }
    if (method != NULL)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1,
                          "the checkpoint is quantized by \"%.40s\"; only MLX affine quantization "
                          "and fp8 can be read: convert from the original weights",
                          method);
    *out = (tt_mlx_config){obj, file};
    return TT_OK;
}

tt_status tt_mlx_config_bits(const tt_mlx_config *c, const char *module, uint32_t *bits_out,
                             tt_error *err)
{
    if (c->obj == NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, c->file, -1,
                          "\"%.200s\" has .scales, but the config has no \"quantization\"", module);
    const json_t *own = json_object_get(c->obj, module);
    if (own != NULL && !json_is_object(own) && !json_is_true(own))
        return tt_fail_at(err, TT_ERR_FORMAT, c->file, -1,
                          "\"%.200s\" has .scales, but the config says that it is not quantized",
                          module);
    const json_t *from = json_is_object(own) ? own : c->obj;
    const char *mode = NULL;
    uint32_t bits = 0, group = 0;
    /* An override without a mode is affine, whatever the default mode is: so MLX reads it. */
    TT_TRY(tt_json_opt_string(from, "mode", c->file, &mode, err));
    if (mode != NULL && strcmp(mode, "affine") != 0)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, c->file, -1,
                          "\"%.200s\" is quantized in mode \"%.40s\"; only affine can be read",
                          module, mode);
    tt_status st = tt_json_get_u32(from, "bits", c->file, 1, 64, &bits, err);
    if (st == TT_OK)
        st = tt_json_get_u32(from, "group_size", c->file, 1, 65536, &group, err);
    if (st != TT_OK)
        return tt_fail_context(err, st, "quantization of \"%.200s\"", module);
    if (bits != 4 && bits != 8)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, c->file, -1,
                          "\"%.200s\" is quantized with %u bits; 4 and 8 can be read", module,
                          bits);
    if (group != TT_GROUP)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, c->file, -1,
                          "\"%.200s\" is quantized in groups of %u; only groups of %u can be read",
                          module, group, TT_GROUP);
    *bits_out = bits;
    return TT_OK;
}
