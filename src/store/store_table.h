/* store_table.h: which blocks a directory of prompt state has, as trees of digests.
 *
 * Owns:      the nodes, their sizes, what is worth least, the index as bytes.
 * Not here:  files (store_files.h), when they are written (state_store.h).
 * Laws:      (1) a node has the nodes above it;  (2) what is pending is in no index and is never
 *            found;  (3) there are at most as many nodes as were asked for.
 * Threads:   one at a time: the lock is state_store.h's.
 */
#ifndef TT_STORE_STORE_TABLE_H
#define TT_STORE_STORE_TABLE_H

#include "store/store_format.h"

typedef struct tt_store_node {
    tt_digest chain;
    struct tt_store_node *parent, *child, *next, *hashed;
    uint32_t tokens;   /* to the end of the block; 0: the root of a key */
    uint32_t prompted; /* of those, rows from prefill */
    uint32_t key, kind;
    uint8_t made;
    bool kv_pending, state_pending; /* to be written; `kind` is 0 until the state is */
    uint64_t kv_bytes, state_bytes; /* payloads; 0: no file */
    uint64_t used;
} tt_store_node;

typedef struct tt_store_table {
    char *key[TT_STORE_MAX_KEYS];
    tt_store_node root[TT_STORE_MAX_KEYS];
    uint32_t n_keys; /* the first is this process's own */
    tt_store_node **bucket;
    uint32_t n_buckets, n_nodes, max_nodes;
    uint64_t clock;
    uint64_t bytes; /* of files that are there */
    uint64_t blocks, checkpoints;
    /* Told of every node that goes, while it is still whole; its files go with it. */
    void (*gone)(void *ctx, tt_store_node *x);
    void *ctx;
} tt_store_table;

/* Memory that max_nodes nodes take, with an index of them. */
uint64_t tt_store_table_cost(uint32_t max_nodes);
TT_MUST_CHECK tt_status tt_store_table_init(tt_store_table *t, const char *own_key,
                                            uint32_t max_nodes, tt_error *err);
void tt_store_table_free(tt_store_table *t); /* tells nobody */

/* Takes in what an index says, as far as `keep` finds its files: `keep` may take the checkpoint
 * out of the item, and returns whether the block stays. */
TT_MUST_CHECK tt_status tt_store_table_load(tt_store_table *t, const tt_store_index *ix,
                                            bool (*keep)(void *ctx, tt_store_item *item), void *ctx,
                                            tt_error *err);
void tt_store_table_write(const tt_store_table *t, tt_buf *b);
/* Bytes of the index that would be written. */
uint64_t tt_store_table_index_bytes(const tt_store_table *t);

tt_store_node *tt_store_table_get(const tt_store_table *t, const tt_digest *chain);
/* A block after `parent`, both of its parts pending or absent. NULL: no room. */
tt_store_node *tt_store_table_add(tt_store_table *t, tt_store_node *parent, const tt_digest *chain,
                                  uint8_t made, uint64_t kv_bytes);
/* The file of a part has come to be. */
void tt_store_table_there(tt_store_table *t, tt_store_node *x, tt_store_part part, uint32_t kind);
/* The node and all below it go, and what above it serves nobody. */
void tt_store_table_remove(tt_store_table *t, tt_store_node *x);
/* Its checkpoint goes; then what serves nobody. The caller removes the file of the state. */
void tt_store_table_forget(tt_store_table *t, tt_store_node *x);
/* Nodes that serve nobody, from here up. */
void tt_store_table_prune(tt_store_table *t, tt_store_node *x);
void tt_store_table_tidy(tt_store_table *t); /* all of them */
/* The checkpoint that costs least to make again, `but` excepted; NULL when there is none. */
tt_store_node *tt_store_table_cheapest(const tt_store_table *t, const tt_store_node *but);

/* The longest prefix of at most `most` ids with a checkpoint under the own key, of two as long the
 * one with more from prefill; NULL: none. `reached` (may be NULL): the deepest block that is the
 * ids', checkpoint or not. */
tt_store_node *tt_store_table_find(const tt_store_table *t, const uint32_t *ids, uint32_t most,
                                   tt_store_node **reached);
/* Whether a checkpoint stands below x, beyond so many tokens. */
bool tt_store_table_beyond(const tt_store_table *t, tt_store_node *x, uint32_t tokens);
/* "kv-bits 4, not kv-bits 8": the first line of the own key that the other key used last has
 * otherwise; "" when there is no other or the own has blocks. */
void tt_store_table_other_key(const tt_store_table *t, char *out, size_t n);

#endif
