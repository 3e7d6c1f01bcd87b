#include "model/recurrent.h"

#include <string.h>

#include "base/mem.h"

static uint64_t state_floats(const tt_arch *a)
{
    return (uint64_t)a->lin_value_heads * a->lin_key_dim * a->lin_value_dim;
}

static uint64_t whole_lines(uint64_t floats) /* everything starts on a cache line */
{
    return (floats + 15) / 16 * 16;
}

static uint32_t layers_of(const tt_arch *a, tt_layer_kind kind)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < a->n_layers; l++)
        n += a->layer_kind[l] == kind;
    return n;
}

static tt_recurrent lay_out(const tt_arch *a)
{
    tt_recurrent r = {.state_floats = state_floats(a)};
    uint32_t linear = layers_of(a, TT_LAYER_LINEAR), sparse = 0;
    r.layer_floats = whole_lines(r.state_floats + (uint64_t)TT_CONV_ROWS * tt_arch_conv_dim(a));
    if (a->streams > 0) {
        sparse = layers_of(a, TT_LAYER_FULL);
        r.ngram_floats = (uint64_t)3 * a->ngram_size * tt_arch_residual(a);
        r.index_floats = (uint64_t)(a->indexer_block - 1) * a->indexer_dim;
    }
    r.index_step = whole_lines(r.index_floats);
    r.ngram_at = linear * r.layer_floats;
    r.index_at = r.ngram_at + whole_lines(r.ngram_floats);
    r.bytes = (r.index_at + sparse * r.index_step) * sizeof(float);
    return r;
}

uint64_t tt_recurrent_bytes(const tt_arch *a)
{
    return lay_out(a).bytes;
}

tt_status tt_recurrent_init(tt_recurrent *r, const tt_arch *a, tt_error *err)
{
    *r = lay_out(a);
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
