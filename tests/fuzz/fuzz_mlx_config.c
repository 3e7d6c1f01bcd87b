/* Proves that no JSON, taken as the config.json of a quantized checkpoint, does harm, and that a
 * module's width is 4, 8 or refused in words. */
#include <stdlib.h>

#include "repack/mlx_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const tt_mlx_config *c, const char *module)
{
    uint32_t bits = 77;
    tt_error err = {0};
    tt_status st = tt_mlx_config_bits(c, module, &bits, &err);
    if (st == TT_OK ? bits != 4 && bits != 8 : bits != 77 || err.message[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tree = NULL, *value;
    tt_mlx_config c;
    tt_error err = {0};
    const char *module;
    if (tt_json_parse((const char *)data, size, "config.json", &tree, &err) != TT_OK)
        return 0;
    if (tt_mlx_config_read(tree, "config.json", &c, &err) == TT_OK) {
        ask(&c, "model.layers.0.mlp.gate");
        json_object_foreach((json_t *)c.obj, module, value) ask(&c, module);
    } else if (err.message[0] == '\0') {
        abort();
    }
    json_decref(tree);
    return 0;
}
