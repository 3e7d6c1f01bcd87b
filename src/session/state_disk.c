#include "session/state_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "session/state_key.h"

#define LIMIT         (8 * TT_GIB)
#define LEAST_BLOCKS  16u
#define KEY_OF_OTHERS "the directory has state of another key only: "

/* Blocks that limit and memory have room for. */
static uint32_t most_blocks(uint64_t limit, uint64_t memory, uint64_t kv_bytes)
{
    uint64_t files = limit / (kv_bytes + TT_STORE_HEAD) + 1;
    uint64_t fit = memory / tt_store_table_cost(1024) * 1024;
    uint64_t n = files < fit ? files : fit;
    n = n < LEAST_BLOCKS ? LEAST_BLOCKS : n;
    return n < TT_STORE_MAX_ITEMS ? (uint32_t)n : TT_STORE_MAX_ITEMS;
}

static tt_status open_store(tt_state_disk *d, const tt_model *m, const tt_state_disk_options *o,
                            const tt_store_io *io, uint64_t memory, tt_error *err)
{
    tt_state_key key;
    char text[TT_STATE_KEY];
    tt_store_options so = {.dir = o->dir,
                           .key = text,
                           .limit = o->limit > 0 ? o->limit : LIMIT,
                           .kv_bytes = d->block_bytes,
                           .state_bytes = tt_recurrent_bytes(&m->arch),
                           .kinds = TT_CHECKPOINTS,
                           .io = io};
    TT_TRY(tt_state_key_of(m, o->render != NULL ? o->render : "none", &key, err));
    tt_state_key_write(&key, text);
    so.max_blocks = most_blocks(so.limit, memory, so.kv_bytes);
    d->memory = tt_store_table_cost(so.max_blocks) + so.kv_bytes;
    return tt_store_open(&so, &d->store, err);
}

tt_status tt_state_disk_open(tt_state_disk *d, const tt_model *m, const tt_state_disk_options *o,
                             const tt_store_io *io, uint64_t memory, tt_state_refusal *why,
                             tt_error *err)
{
    tt_error e = {.offset = -1};
    *d = (tt_state_disk){.block_bytes = TT_BLOCK * tt_kv_token_bytes(&m->arch, m->plan.kv_bits)};
    *why = TT_REFUSED_NOTHING;
    tt_status st = TT_OK;
    if (d->block_bytes > 0)
        st = tt_mem_alloc(d->block_bytes, "prompt state", &d->block, err);
    if (st == TT_OK)
        st = open_store(d, m, o, io, memory, &e);
    if (st == TT_OK && tt_store_other_key(d->store)[0] != '\0')
        snprintf(d->note, sizeof d->note, KEY_OF_OTHERS "%.400s", tt_store_other_key(d->store));
    if (st == TT_OK)
        return TT_OK;
    tt_state_disk_close(d);
    if (st == TT_ERR_INVALID || st == TT_ERR_NOMEM) {
        if (err != NULL && e.status != TT_OK)
            *err = e;
        return st;
    }
    snprintf(d->note, sizeof d->note, "the directory is not used: %.180s%s%.280s", e.file,
             e.file[0] != '\0' ? ": " : "", e.message);
    *why = st == TT_ERR_STATE ? TT_REFUSED_IN_USE : TT_REFUSED_IO;
    return TT_OK;
}

void tt_state_disk_close(tt_state_disk *d)
{
    tt_store_close(&d->store);
    tt_mem_free(d->block, d->block_bytes);
    d->block = NULL;
    d->memory = 0;
}

/* Leading blocks of the timeline that are those of the chain with this end. */
static uint32_t same_blocks(const tt_store_node *end, const uint32_t *ids,
                            const tt_state_line *line)
{
    uint32_t same = 0;
    for (const tt_store_node *x = end; x->tokens > 0; x = x->parent) {
        uint32_t b = x->tokens / TT_BLOCK - 1, first = b * TT_BLOCK;
        bool equal = x->tokens <= line->n && line->made[b] == x->made &&
                     memcmp(line->tokens + first, ids + first, TT_BLOCK * sizeof *ids) == 0;
        same = !equal ? 0 : same > 0 ? same : b + 1;
    }
    return same;
}

bool tt_state_disk_load(tt_state_disk *d, const tt_store_found *f, const uint32_t *ids,
                        tt_state_line *line, tt_recurrent *into)
{
    uint32_t same = same_blocks(f->node, ids, line);
    line->n = 0; /* until all of it is there */
    bool ok = tt_store_read(d->store, f->node, TT_STORE_STATE, into->block, NULL) == TT_OK;
    for (const tt_store_node *x = f->node; ok && x->tokens / TT_BLOCK > same; x = x->parent) {
        uint32_t first = x->tokens - TT_BLOCK;
        ok = tt_store_read(d->store, x, TT_STORE_KV, d->block, NULL) == TT_OK;
        if (!ok)
            break;
        if (d->block_bytes > 0)
            tt_kv_cache_load(line->kv, first, TT_BLOCK, d->block);
        memcpy(line->tokens + first, ids + first, TT_BLOCK * sizeof *ids);
        line->made[first / TT_BLOCK] = x->made;
    }
    if (ok)
        line->n = f->tokens;
    else
        tt_recurrent_clear(into);
    return ok;
}
