#include "model/recurrent.h"

#include <string.h>

#include "base/mem.h"

static uint64_t state_floats(const tt_arch *a)
{
    return (uint64_t)a->lin_value_heads * a->lin_key_dim * a->lin_value_dim;
}

static uint64_t layer_floats(const tt_arch *a)
{
    uint64_t n = state_floats(a) + (uint64_t)TT_CONV_ROWS * tt_arch_conv_dim(a);
    return (n + 15) / 16 * 16; /* every layer starts on a cache line */
}

static uint32_t linear_layers(const tt_arch *a)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < a->n_layers; l++)
        n += a->layer_kind[l] == TT_LAYER_LINEAR;
    return n;
}

uint64_t tt_recurrent_bytes(const tt_arch *a)
{
    return linear_layers(a) * layer_floats(a) * sizeof(float);
}

tt_status tt_recurrent_init(tt_recurrent *r, const tt_arch *a, tt_error *err)
{
    *r = (tt_recurrent){.bytes = tt_recurrent_bytes(a),
                        .state_floats = state_floats(a),
                        .layer_floats = layer_floats(a)};
    if (r->bytes == 0)
        return TT_OK;
    void *block = NULL;
    TT_TRY(tt_mem_alloc(r->bytes, "recurrent state", &block, err));
    r->block = block;
    return TT_OK;
}

void tt_recurrent_free(tt_recurrent *r)
{
    tt_mem_free(r->block, r->bytes);
    *r = (tt_recurrent){0};
}

void tt_recurrent_clear(tt_recurrent *r)
{
    if (r->bytes > 0)
        memset(r->block, 0, r->bytes);
}

void tt_recurrent_copy(tt_recurrent *to, const tt_recurrent *from)
{
    if (from->bytes > 0)
        memcpy(to->block, from->block, from->bytes);
}
