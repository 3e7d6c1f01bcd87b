/* kv_cache.h: the KV rows of one timeline, all full-attention layers.
 *
 * Owns:      address space for max_context rows a layer, committed by doubling from 8,192 tokens
 *            without copying; for sparse attention also one index key (f32) a block of tokens.
 * Not here:  the row formats (backend/backend.h), writing and reading rows (ops kv_append,
 *            attend).
 * Laws:      (1) rows are token-major and never move;  (2) commit happens between steps, never
 *            inside one.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_KV_CACHE_H
#define TT_MODEL_KV_CACHE_H

#include "backend/backend.h"
#include "format/arch.h"

typedef struct tt_kv_cache {
    tt_kv_layer *layer; /* [n_layers], numbered by full-attention layer */
    uint32_t n_layers;
    uint32_t max_tokens, committed_tokens;
    float **index;                   /* [n_layers] of [max_tokens / index_block, index_dim] */
    uint32_t index_dim, index_block; /* dim 0: attention is dense */
} tt_kv_cache;

/* Bytes of one token in all layers. */
uint64_t tt_kv_token_bytes(const tt_arch *arch, uint32_t kv_bits);
TT_MUST_CHECK tt_status tt_kv_cache_init(tt_kv_cache *kv, const tt_arch *arch, uint32_t kv_bits,
                                         uint32_t max_tokens, tt_error *err);
void tt_kv_cache_free(tt_kv_cache *kv);
/* Makes room for `tokens` rows. */
TT_MUST_CHECK tt_status tt_kv_cache_grow(tt_kv_cache *kv, uint32_t tokens, tt_error *err);
/* Index keys of a layer. */
static inline float *tt_kv_index(const tt_kv_cache *kv, uint32_t layer)
{
    return kv->index[layer];
}
/* Copies `tokens` rows from `first` on of every layer out of or into the cache: tokens * token
 * bytes, layer after layer. `first` is a multiple of TT_BLOCK; index keys of blocks that are not
 * complete are saved as zeros. */
void tt_kv_cache_save(const tt_kv_cache *kv, uint32_t first, uint32_t tokens, void *out);
void tt_kv_cache_load(tt_kv_cache *kv, uint32_t first, uint32_t tokens, const void *in);

#endif
