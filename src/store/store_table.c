#include "store/store_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/le.h"

typedef tt_store_node node;

/* ---- trees ---- */

/* The next node in depth-first order below `root`, parents first. */
static node *walk(const node *root, node *x)
{
    if (x->child != NULL)
        return x->child;
    while (x != root && x->next == NULL)
        x = x->parent;
    return x == root ? NULL : x->next;
}

static node **bucket_of(const tt_store_table *t, const tt_digest *chain)
{
    return &t->bucket[tt_get_u64(chain->b) % t->n_buckets];
}

tt_store_node *tt_store_table_get(const tt_store_table *t, const tt_digest *chain)
{
    node *x = *bucket_of(t, chain);
    while (x != NULL && memcmp(&x->chain, chain, sizeof *chain) != 0)
        x = x->hashed;
    return x;
}

static uint64_t file_bytes(uint64_t payload)
{
    return payload > 0 ? payload + TT_STORE_HEAD : 0;
}

tt_store_node *tt_store_table_add(tt_store_table *t, tt_store_node *parent, const tt_digest *chain,
                                  uint8_t made, uint64_t kv_bytes)
{
    node *x = t->n_nodes < t->max_nodes ? calloc(1, sizeof *x) : NULL;
    if (x == NULL)
        return NULL;
    *x = (node){.chain = *chain,
                .parent = parent,
                .next = parent->child,
                .tokens = parent->tokens + TT_BLOCK,
                .prompted = parent->prompted + made,
                .key = parent->key,
                .made = made,
                .kv_pending = true,
                .kv_bytes = kv_bytes};
    parent->child = x;
    node **b = bucket_of(t, chain);
    x->hashed = *b;
    *b = x;
    t->n_nodes++;
    return x;
}

void tt_store_table_there(tt_store_table *t, tt_store_node *x, tt_store_part part, uint32_t kind)
{
    if (part == TT_STORE_KV) {
        x->kv_pending = false;
        t->bytes += file_bytes(x->kv_bytes);
        t->blocks++;
    } else {
        x->state_pending = false;
        x->kind = kind;
        t->bytes += file_bytes(x->state_bytes);
        t->checkpoints++;
    }
}

static void lose_state(tt_store_table *t, node *x)
{
    if (x->kind == 0)
        return;
    t->bytes -= file_bytes(x->state_bytes);
    t->checkpoints--;
    x->kind = 0;
    x->state_bytes = 0;
}

/* One without children. */
static void remove_leaf(tt_store_table *t, node *x)
{
    if (t->gone != NULL)
        t->gone(t->ctx, x);
    lose_state(t, x);
    if (!x->kv_pending) {
        t->bytes -= file_bytes(x->kv_bytes);
        t->blocks--;
    }
    node **at = &x->parent->child;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    at = bucket_of(t, &x->chain);
    while (*at != x)
        at = &(*at)->hashed;
    *at = x->hashed;
    t->n_nodes--;
    free(x);
}

void tt_store_table_prune(tt_store_table *t, tt_store_node *x)
{
    while (x->tokens > 0 && x->child == NULL && x->kind == 0 && !x->kv_pending &&
           !x->state_pending) {
        node *parent = x->parent;
        remove_leaf(t, x);
        x = parent;
    }
}

void tt_store_table_remove(tt_store_table *t, tt_store_node *x)
{
    node *parent = x->parent, *k = x;
    for (bool last = false; !last;) {
        while (k->child != NULL)
            k = k->child;
        last = k == x;
        node *above = k->parent;
        remove_leaf(t, k);
        k = above;
    }
    tt_store_table_prune(t, parent);
}

void tt_store_table_forget(tt_store_table *t, tt_store_node *x)
{
    lose_state(t, x);
    tt_store_table_prune(t, x);
}

/* Tokens that are to be computed when this checkpoint is gone, by how long nobody has used it. */
static double worth(const tt_store_table *t, const node *x)
{
    const node *before = x->parent;
    while (before->tokens > 0 && before->kind == 0)
        before = before->parent;
    return (double)(x->tokens - before->tokens) / (double)(1 + t->clock - x->used);
}

tt_store_node *tt_store_table_cheapest(const tt_store_table *t, const tt_store_node *but)
{
    node *least = NULL;
    double least_worth = 0;
    for (uint32_t k = 0; k < t->n_keys; k++) {
        node *root = (node *)&t->root[k];
        for (node *x = walk(root, root); x != NULL; x = walk(root, x)) {
            if (x->kind == 0 || x == but)
                continue;
            double w = worth(t, x);
            if (least == NULL || w < least_worth) {
                least = x;
                least_worth = w;
            }
        }
    }
    return least;
}

/* ---- finding ---- */

/* Of the siblings from k on the first that is there and that these ids name. */
static node *first_match(node *k, const uint32_t *ids)
{
    tt_digest named;
    int made = -1;
    for (; k != NULL; k = k->next) {
        if (k->kv_pending)
            continue;
        if (made != k->made && tt_store_chain(&k->parent->chain, ids, k->made, &named, NULL))
            return NULL;
        made = k->made;
        if (memcmp(&named, &k->chain, sizeof named) == 0)
            return k;
    }
    return NULL;
}

static node *next_match(const node *root, node *x, const uint32_t *ids, uint32_t most)
{
    node *k = NULL;
    if (x->tokens + TT_BLOCK <= most)
        k = first_match(x->child, ids + x->tokens);
    while (k == NULL && x != root) {
        k = first_match(x->next, ids + x->tokens - TT_BLOCK);
        x = x->parent;
    }
    return k;
}

static bool better(const node *x, const node *than)
{
    return x->kind > 0 && (than == NULL || x->tokens > than->tokens ||
                           (x->tokens == than->tokens && x->prompted > than->prompted));
}

tt_store_node *tt_store_table_find(const tt_store_table *t, const uint32_t *ids, uint32_t most,
                                   tt_store_node **reached)
{
    node *root = (node *)&t->root[0], *best = NULL, *deep = root;
    for (node *x = next_match(root, root, ids, most); x != NULL;
         x = next_match(root, x, ids, most)) {
        if (better(x, best))
            best = x;
        if (x->tokens > deep->tokens)
            deep = x;
    }
    if (reached != NULL)
        *reached = deep;
    return best;
}

bool tt_store_table_beyond(const tt_store_table *t, tt_store_node *x, uint32_t tokens)
{
    (void)t;
    for (node *k = walk(x, x); k != NULL; k = walk(x, k))
        if (k->kind > 0 && k->tokens > tokens)
            return true;
    return false;
}

/* ---- keys ---- */

static uint64_t last_use(const node *root)
{
    uint64_t last = 0;
    for (node *x = walk(root, (node *)root); x != NULL; x = walk(root, x))
        last = x->used > last ? x->used : last;
    return last;
}

static size_t line_end(const char *s)
{
    return strcspn(s, "\n");
}

void tt_store_table_other_key(const tt_store_table *t, char *out, size_t n)
{
    const char *other = NULL;
    uint64_t last = 0;
    *out = '\0';
    for (uint32_t k = 1; k < t->n_keys && t->root[0].child == NULL; k++)
        if (t->root[k].child != NULL && (other == NULL || last_use(&t->root[k]) >= last)) {
            last = last_use(&t->root[k]);
            other = t->key[k];
        }
    if (other == NULL)
        return;
    const char *own = t->key[0];
    while (*own != '\0' && *other != '\0' && line_end(own) == line_end(other) &&
           memcmp(own, other, line_end(own)) == 0) {
        own += line_end(own) + (own[line_end(own)] == '\n');
        other += line_end(other) + (other[line_end(other)] == '\n');
    }
    snprintf(out, n, "%.*s, not %.*s", (int)line_end(other), other, (int)line_end(own), own);
}

static tt_status add_key(tt_store_table *t, const char *text, size_t len, tt_error *err)
{
    uint32_t k = t->n_keys;
    t->key[k] = tt_copy_text(text, len);
    if (t->key[k] == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a key");
    t->root[k] = (node){.key = k};
    t->n_keys++;
    return tt_store_key(t->key[k], &t->root[k].chain, err);
}

/* ---- the index ---- */

/* Of the keys of an index the one that was used longest ago. */
static uint32_t oldest_key(const tt_store_index *ix)
{
    uint64_t used[TT_STORE_MAX_KEYS] = {0};
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < ix->n_items; i++) {
        tt_store_item it;
        tt_store_index_item(ix, i, &it);
        used[it.key] = it.used > used[it.key] ? it.used : used[it.key];
    }
    for (uint32_t k = 1; k < ix->n_keys; k++)
        oldest = used[k] < used[oldest] ? k : oldest;
    return oldest;
}

/* Where each key of an index stands here; UINT32_MAX: nowhere. */
static tt_status take_keys(tt_store_table *t, const tt_store_index *ix, uint32_t *to, tt_error *err)
{
    bool own = false;
    for (uint32_t k = 0; k < ix->n_keys; k++) {
        bool same = !own && strlen(t->key[0]) == ix->key_len[k] &&
                    memcmp(t->key[0], ix->key[k], ix->key_len[k]) == 0;
        own = own || same;
        to[k] = same ? 0 : 1;
    }
    uint32_t leave = !own && ix->n_keys == TT_STORE_MAX_KEYS ? oldest_key(ix) : UINT32_MAX;
    for (uint32_t k = 0; k < ix->n_keys; k++) {
        if (k == leave) {
            to[k] = UINT32_MAX;
        } else if (to[k] != 0) {
            to[k] = t->n_keys;
            TT_TRY(add_key(t, ix->key[k], ix->key_len[k], err));
        }
    }
    return TT_OK;
}

/* One whose parent is not here, or that does not follow it, is left out. */
static void take_item(tt_store_table *t, const tt_store_item *it)
{
    node *parent = it->tokens == TT_BLOCK ? &t->root[it->key] : tt_store_table_get(t, &it->parent);
    if (parent == NULL || parent->key != it->key || parent->tokens + TT_BLOCK != it->tokens ||
        tt_store_table_get(t, &it->chain) != NULL)
        return;
    node *x = tt_store_table_add(t, parent, &it->chain, (uint8_t)it->made, it->kv_bytes);
    if (x == NULL)
        return;
    x->used = it->used;
    tt_store_table_there(t, x, TT_STORE_KV, 0);
    x->state_bytes = it->state_bytes;
    if (it->kind > 0)
        tt_store_table_there(t, x, TT_STORE_STATE, it->kind);
}

void tt_store_table_tidy(tt_store_table *t)
{
    for (uint32_t k = 0; k < t->n_keys; k++) {
        node *root = &t->root[k], *x = walk(root, root);
        while (x != NULL) {
            if (x->child != NULL || x->kind > 0) {
                x = walk(root, x);
                continue;
            }
            /* the next in order is no ancestor's and stays */
            node *after = walk(root, x);
            tt_store_table_prune(t, x);
            x = after;
        }
    }
}

tt_status tt_store_table_load(tt_store_table *t, const tt_store_index *ix,
                              bool (*keep)(void *ctx, tt_store_item *item), void *ctx,
                              tt_error *err)
{
    uint32_t to[TT_STORE_MAX_KEYS];
    TT_TRY(take_keys(t, ix, to, err));
    t->clock = ix->clock;
    for (uint32_t i = 0; i < ix->n_items; i++) {
        tt_store_item it;
        tt_store_index_item(ix, i, &it);
        it.key = to[it.key];
        if (it.key != UINT32_MAX && keep(ctx, &it))
            take_item(t, &it);
    }
    tt_store_table_tidy(t);
    return TT_OK;
}

/* Whether a node is in an index: what is pending is not, nor what is below it. */
static bool is_written(const node *x)
{
    return !x->kv_pending;
}

/* Numbers of keys in the index: those without a block are left out. */
static uint32_t number_keys(const tt_store_table *t, uint32_t *number)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < t->n_keys; k++) {
        const node *x = t->root[k].child;
        while (x != NULL && !is_written(x))
            x = x->next;
        number[k] = x != NULL ? n++ : UINT32_MAX;
    }
    return n;
}

static void write_node(const node *x, uint32_t key, tt_buf *b)
{
    tt_store_item it = {.chain = x->chain,
                        .tokens = x->tokens,
                        .key = key,
                        .made = x->made,
                        .kind = x->kind,
                        .kv_bytes = x->kv_bytes,
                        .state_bytes = x->kind > 0 ? x->state_bytes : 0,
                        .used = x->used};
    if (x->parent->tokens > 0)
        it.parent = x->parent->chain;
    tt_store_index_add_item(b, &it);
}

void tt_store_table_write(const tt_store_table *t, tt_buf *b)
{
    uint32_t number[TT_STORE_MAX_KEYS], n = number_keys(t, number), items = 0;
    tt_store_index_begin(b);
    for (uint32_t k = 0; k < t->n_keys; k++)
        if (number[k] != UINT32_MAX)
            tt_store_index_add_key(b, t->key[k]);
    for (uint32_t k = 0; k < t->n_keys; k++) {
        node *root = (node *)&t->root[k];
        for (node *x = walk(root, root); x != NULL; x = walk(root, x))
            if (is_written(x)) {
                write_node(x, number[k], b);
                items++;
            }
    }
    tt_store_index_end(b, n, items, t->clock);
}

uint64_t tt_store_table_index_bytes(const tt_store_table *t)
{
    uint64_t n = TT_STORE_INDEX_HEAD + t->blocks * TT_STORE_ITEM;
    for (uint32_t k = 0; k < t->n_keys; k++)
        n += 4 + strlen(t->key[k]);
    return n;
}

/* ---- life ---- */

uint64_t tt_store_table_cost(uint32_t max_nodes)
{
    return max_nodes * (sizeof(node) + 16 + 2 * sizeof(node *) + TT_STORE_ITEM) +
           TT_STORE_INDEX_HEAD + (uint64_t)TT_STORE_MAX_KEYS * (4 + TT_STORE_MAX_KEY);
}

tt_status tt_store_table_init(tt_store_table *t, const char *own_key, uint32_t max_nodes,
                              tt_error *err)
{
    *t = (tt_store_table){.max_nodes = max_nodes, .n_buckets = max_nodes | 1};
    t->bucket = calloc(t->n_buckets, sizeof(node *));
    if (t->bucket == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a table of %u blocks", max_nodes);
    return add_key(t, own_key, strlen(own_key), err);
}

void tt_store_table_free(tt_store_table *t)
{
    for (uint32_t i = 0; i < t->n_buckets && t->bucket != NULL; i++)
        while (t->bucket[i] != NULL) {
            node *x = t->bucket[i];
            t->bucket[i] = x->hashed;
            free(x);
        }
    free(t->bucket);
    for (uint32_t k = 0; k < t->n_keys; k++)
        free(t->key[k]);
    *t = (tt_store_table){0};
}
