#include "model/kv_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static uint32_t full_layers(const tt_arch *arch)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < arch->n_layers; l++)
        n += arch->layer_kind[l] == TT_LAYER_FULL;
    return n;
}

/* The arrays of a layer in snapshot order, with their bytes a token. */
#define ARRAYS 5
typedef struct array {
    void **base;
    uint64_t row;
    uint32_t block; /* tokens that make bytes of their own together */
} array;

/* A token's share of an index key. */
static uint64_t index_row(uint32_t dim, uint32_t block)
{
    return dim == 0 ? 0 : dim / block * sizeof(float);
}

static void arrays(const tt_kv_cache *kv, uint32_t layer, array out[ARRAYS])
{
    tt_kv_layer *l = &kv->layer[layer];
    uint64_t code = tt_kv_row_bytes(l->bits, l->heads, l->dim),
             meta = tt_kv_meta_bytes(l->bits, l->heads, l->dim);
    out[0] = (array){&l->k, code, 1};
    out[1] = (array){&l->v, code, 1};
    out[2] = (array){(void **)&l->k_meta, meta, 1};
    out[3] = (array){(void **)&l->v_meta, meta, 1};
    out[4] = (array){(void **)&kv->index[layer], index_row(kv->index_dim, kv->index_block),
                     kv->index_block};
}

uint64_t tt_kv_token_bytes(const tt_arch *a, uint32_t bits)
{
    uint64_t layer = 2 * (tt_kv_row_bytes(bits, a->n_kv_heads, a->head_dim) +
                          tt_kv_meta_bytes(bits, a->n_kv_heads, a->head_dim)) +
                     index_row(a->indexer_dim, a->indexer_block);
    return full_layers(a) * layer;
}

tt_status tt_kv_cache_init(tt_kv_cache *kv, const tt_arch *a, uint32_t bits, uint32_t max_tokens,
                           tt_error *err)
{
    *kv = (tt_kv_cache){.n_layers = full_layers(a),
                        .max_tokens = max_tokens,
                        .index_dim = a->indexer_dim,
                        .index_block = a->indexer_block};
    kv->layer = calloc(kv->n_layers + 1, sizeof *kv->layer);
    kv->index = calloc(kv->n_layers + 1, sizeof *kv->index);
    if (kv->layer == NULL || kv->index == NULL) {
        tt_kv_cache_free(kv);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the KV table");
    }
    for (uint32_t l = 0; l < kv->n_layers; l++) {
        kv->layer[l] = (tt_kv_layer){.bits = bits, .heads = a->n_kv_heads, .dim = a->head_dim};
        array arr[ARRAYS];
        arrays(kv, l, arr);
        for (int i = 0; i < ARRAYS; i++) {
            if (arr[i].row == 0)
                continue;
            tt_status st = tt_mem_reserve(arr[i].row * max_tokens, "KV rows", arr[i].base, err);
            if (st != TT_OK) {
                tt_kv_cache_free(kv);
                return st;
            }
        }
    }
    return TT_OK;
}

void tt_kv_cache_free(tt_kv_cache *kv)
{
    for (uint32_t l = 0; kv->layer != NULL && kv->index != NULL && l < kv->n_layers; l++) {
        array arr[ARRAYS];
        arrays(kv, l, arr);
        for (int i = 0; i < ARRAYS; i++)
            tt_mem_free(*arr[i].base, arr[i].row * kv->max_tokens);
    }
    free(kv->layer);
    free(kv->index);
    *kv = (tt_kv_cache){0};
}

tt_status tt_kv_cache_grow(tt_kv_cache *kv, uint32_t tokens, tt_error *err)
{
    if (tokens <= kv->committed_tokens)
        return TT_OK;
    uint32_t want = kv->committed_tokens == 0 ? TT_KV_FIRST_TOKENS : kv->committed_tokens;
    while (want < tokens)
        want *= 2;
    want = want > kv->max_tokens ? kv->max_tokens : want;
    for (uint32_t l = 0; l < kv->n_layers; l++) {
        array arr[ARRAYS];
        arrays(kv, l, arr);
        for (int i = 0; i < ARRAYS; i++)
            if (arr[i].row > 0)
                TT_TRY(tt_mem_commit(*arr[i].base, arr[i].row * want, "KV rows", err));
    }
    kv->committed_tokens = want;
    return TT_OK;
}

/* Bytes of `tokens` rows that mean something: blocks begin where the rows do. */
static uint64_t whole(const array *a, uint32_t tokens)
{
    return a->row * (tokens - (a->block > 1 ? tokens % a->block : 0));
}

void tt_kv_cache_save(const tt_kv_cache *kv, uint32_t first, uint32_t tokens, void *out)
{
    char *p = out;
    for (uint32_t l = 0; l < kv->n_layers; l++) {
        array arr[ARRAYS];
        arrays(kv, l, arr);
        for (int i = 0; i < ARRAYS; i++) {
            uint64_t n = whole(&arr[i], tokens);
            if (n > 0)
                memcpy(p, (const char *)*arr[i].base + arr[i].row * first, n);
            memset(p + n, 0, arr[i].row * tokens - n);
            p += arr[i].row * tokens;
        }
    }
}

void tt_kv_cache_load(tt_kv_cache *kv, uint32_t first, uint32_t tokens, const void *in)
{
    const char *p = in;
    for (uint32_t l = 0; l < kv->n_layers; l++) {
        array arr[ARRAYS];
        arrays(kv, l, arr);
        for (int i = 0; i < ARRAYS; i++) {
            uint64_t n = whole(&arr[i], tokens);
            if (n > 0)
                memcpy((char *)*arr[i].base + arr[i].row * first, p, n);
            p += arr[i].row * tokens;
        }
    }
}
