#include "session/state_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HUGE_PAGE (2 * TT_MIB)
#define MAPPED    (64 * TT_KIB) /* blocks of so much and more have pages of their own */

typedef struct tt_state_node {
    struct tt_state_node *parent, *child, *next;
    uint32_t ids[TT_BLOCK];
    uint32_t end;      /* tokens to the end of the block */
    uint32_t prompted; /* of those, rows from prefill */
    uint8_t made;
    bool pinned; /* stays though nothing below it does */
    tt_checkpoint_kind kind;
    void *kv;
    float *state;
    uint64_t used; /* prompt that used the checkpoint last */
} node;

struct tt_state_cache {
    tt_model *model;
    node root;
    uint64_t kv_bytes, state_bytes; /* of a block, of a checkpoint */
    tt_state_cache_stats stats;
    tt_state_refusal last;
};

/* ---- memory ---- */

/* What a piece of memory takes, its last page included. */
static uint64_t taken(uint64_t bytes)
{
    uint64_t page = bytes >= HUGE_PAGE ? HUGE_PAGE : bytes >= MAPPED ? 4096 : 16;
    return (bytes + page - 1) / page * page;
}

static void *get(uint64_t bytes)
{
    void *p = NULL;
    if (bytes < MAPPED)
        return malloc(bytes > 0 ? bytes : 1);
    return tt_mem_alloc(bytes, "prompt state", &p, NULL) == TT_OK ? p : NULL;
}

static void drop(void *p, uint64_t bytes)
{
    if (bytes < MAPPED)
        free(p);
    else
        tt_mem_free(p, bytes);
}

static uint64_t block_cost(const tt_state_cache *c)
{
    return taken(c->kv_bytes) + taken(sizeof(node));
}

/* ---- eviction ---- */

/* The next node in depth-first order. */
static node *walk(const tt_state_cache *c, node *x)
{
    if (x->child != NULL)
        return x->child;
    while (x != &c->root && x->next == NULL)
        x = x->parent;
    return x == &c->root ? NULL : x->next;
}

static void unlink_node(node *x)
{
    node **at = &x->parent->child;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
}

/* Drops blocks that serve nobody, from here up. */
static void prune(tt_state_cache *c, node *x)
{
    while (x != &c->root && x->child == NULL && x->kind == TT_CHECKPOINT_NONE && !x->pinned) {
        node *parent = x->parent;
        unlink_node(x);
        drop(x->kv, c->kv_bytes);
        free(x);
        c->stats.bytes -= block_cost(c);
        c->stats.blocks--;
        x = parent;
    }
}

static void forget(tt_state_cache *c, node *x)
{
    drop(x->state, c->state_bytes);
    x->state = NULL;
    x->kind = TT_CHECKPOINT_NONE;
    c->stats.bytes -= taken(c->state_bytes);
    c->stats.checkpoints--;
    prune(c, x);
}

/* Tokens that are to be computed when this checkpoint is gone, by how long nobody has used it. */
static double worth(const tt_state_cache *c, const node *x)
{
    const node *before = x->parent;
    while (before != &c->root && before->kind == TT_CHECKPOINT_NONE)
        before = before->parent;
    return (double)(x->end - before->end) / (double)(1 + c->stats.prompts - x->used);
}

static bool evict_one(tt_state_cache *c)
{
    node *least = NULL;
    double least_worth = 0;
    for (node *x = walk(c, &c->root); x != NULL; x = walk(c, x)) {
        if (x->kind == TT_CHECKPOINT_NONE)
            continue;
        double w = worth(c, x);
        if (least == NULL || w < least_worth) {
            least = x;
            least_worth = w;
        }
    }
    if (least == NULL)
        return false;
    forget(c, least);
    c->stats.evicted++;
    return true;
}

static bool make_room(tt_state_cache *c, uint64_t bytes)
{
    while (bytes <= c->stats.limit && c->stats.bytes + bytes > c->stats.limit)
        if (!evict_one(c))
            return false;
    return bytes <= c->stats.limit;
}

bool tt_state_cache_take(tt_state_cache *c, float **block)
{
    /* A checkpoint is no use without a block to stand on. */
    if (taken(c->state_bytes) + block_cost(c) > c->stats.limit ||
        !make_room(c, taken(c->state_bytes))) {
        tt_state_cache_refuse(c, TT_REFUSED_TOO_LARGE);
        return false;
    }
    float *p = get(c->state_bytes);
    if (p == NULL) {
        tt_state_cache_refuse(c, TT_REFUSED_NO_MEMORY);
        return false;
    }
    c->stats.bytes += taken(c->state_bytes);
    *block = p;
    return true;
}

void tt_state_cache_give(tt_state_cache *c, float *block)
{
    drop(block, c->state_bytes);
    c->stats.bytes -= taken(c->state_bytes);
}

/* ---- leaving ---- */

static bool same_ids(const node *x, const uint32_t *ids)
{
    return memcmp(x->ids, ids, sizeof x->ids) == 0;
}

static node *child_named(node *x, const uint32_t *ids, uint8_t made)
{
    for (node *k = x->child; k != NULL; k = k->next)
        if (k->made == made && same_ids(k, ids))
            return k;
    return NULL;
}

/* The deepest block of the line that is here, up to `at`. */
static node *deepest(tt_state_cache *c, const tt_state_line *line, uint32_t at)
{
    node *x = &c->root;
    while (x->end < at) {
        node *k = child_named(x, line->tokens + x->end, line->made[x->end / TT_BLOCK]);
        if (k == NULL)
            break;
        x = k;
    }
    return x;
}

static node *add_block(tt_state_cache *c, node *parent, const tt_state_line *line)
{
    node *x = calloc(1, sizeof *x);
    void *kv = get(c->kv_bytes);
    if (x == NULL || kv == NULL) {
        free(x);
        drop(kv, c->kv_bytes);
        return NULL;
    }
    memcpy(x->ids, line->tokens + parent->end, sizeof x->ids);
    x->parent = parent;
    x->made = line->made[parent->end / TT_BLOCK];
    x->end = parent->end + TT_BLOCK;
    x->prompted = parent->prompted + x->made;
    x->kv = kv;
    tt_kv_cache_save(line->kv, parent->end, TT_BLOCK, kv);
    x->next = parent->child;
    parent->child = x;
    c->stats.bytes += block_cost(c);
    c->stats.blocks++;
    return x;
}

/* The chain up to `at`, made longer as it must be; NULL when it cannot be. */
static node *reach(tt_state_cache *c, const tt_state_line *line, uint32_t at)
{
    node *x = deepest(c, line, at), *from = x;
    uint64_t bytes = (uint64_t)(at - x->end) / TT_BLOCK * block_cost(c);
    tt_state_refusal why = TT_REFUSED_TOO_LARGE;
    from->pinned = true;
    if (make_room(c, bytes)) {
        why = TT_REFUSED_NO_MEMORY;
        for (node *k = x; x->end < at && k != NULL;)
            if ((k = add_block(c, x, line)) != NULL)
                x = k;
    }
    from->pinned = false;
    if (x->end == at)
        return x;
    prune(c, x);
    tt_state_cache_refuse(c, why);
    return NULL;
}

static bool known(const tt_state_line *line, uint32_t at)
{
    for (uint32_t b = 0; b < at / TT_BLOCK; b++)
        if (line->made[b] == TT_MADE_UNKNOWN)
            return false;
    return true;
}

void tt_state_cache_put(tt_state_cache *c, const tt_state_line *line, uint32_t at,
                        tt_checkpoint_kind kind, float *block)
{
    node *x = NULL;
    if (!known(line, at))
        tt_state_cache_refuse(c, TT_REFUSED_SNAPSHOT);
    else
        x = reach(c, line, at);
    if (x == NULL || x->kind != TT_CHECKPOINT_NONE) {
        tt_state_cache_give(c, block);
    } else {
        x->state = block;
        x->kind = kind;
        c->stats.checkpoints++;
    }
    if (x != NULL)
        x->used = c->stats.prompts;
}

/* ---- finding ---- */

static node *first_match(node *k, const uint32_t *ids)
{
    while (k != NULL && !same_ids(k, ids))
        k = k->next;
    return k;
}

/* The next node whose chain begins `ids`, in depth-first order. */
static node *next_match(const tt_state_cache *c, node *x, const uint32_t *ids, uint32_t most)
{
    node *k = NULL;
    if (x->end + TT_BLOCK <= most)
        k = first_match(x->child, ids + x->end);
    while (k == NULL && x != &c->root) {
        k = first_match(x->next, ids + x->end - TT_BLOCK);
        x = x->parent;
    }
    return k;
}

static bool better(const node *x, const node *than)
{
    if (x->kind == TT_CHECKPOINT_NONE)
        return false;
    return than == NULL || x->end > than->end ||
           (x->end == than->end && x->prompted > than->prompted);
}

tt_state_found tt_state_cache_find(tt_state_cache *c, const uint32_t *ids, uint32_t most)
{
    node *best = NULL;
    c->stats.prompts++;
    for (node *x = next_match(c, &c->root, ids, most); x != NULL; x = next_match(c, x, ids, most))
        if (better(x, best))
            best = x;
    if (best == NULL)
        return (tt_state_found){0};
    return (tt_state_found){.at = best->end,
                            .tier = TT_TIER_RAM,
                            .kind = best->kind,
                            .cold = best->prompted == best->end,
                            .node = best};
}

void tt_state_cache_load(tt_state_cache *c, const tt_state_found *f, tt_state_line *line,
                         tt_recurrent *into)
{
    node *x = f->node;
    uint32_t same = 0; /* leading blocks of the timeline that are those of the chain */
    x->used = c->stats.prompts;
    if (into->bytes > 0)
        memcpy(into->block, x->state, into->bytes);
    /* From the last block to the first: the chain is known by its end. */
    for (node *k = x; k != &c->root; k = k->parent) {
        uint32_t b = k->end / TT_BLOCK - 1;
        bool equal = k->end <= line->n && line->made[b] == k->made &&
                     same_ids(k, line->tokens + k->end - TT_BLOCK);
        same = !equal ? 0 : same > 0 ? same : b + 1;
    }
    for (node *k = x; k != &c->root && k->end / TT_BLOCK > same; k = k->parent) {
        memcpy(line->tokens + k->end - TT_BLOCK, k->ids, sizeof k->ids);
        line->made[k->end / TT_BLOCK - 1] = k->made;
        tt_kv_cache_load(line->kv, k->end - TT_BLOCK, TT_BLOCK, k->kv);
    }
    line->n = f->at;
}

/* ---- counters ---- */

void tt_state_cache_served(tt_state_cache *c, const tt_state_found *f, size_t prompt)
{
    c->stats.prompt_tokens += prompt;
    c->stats.served[f->tier][f->kind] += f->at;
}

void tt_state_cache_refuse(tt_state_cache *c, tt_state_refusal why)
{
    c->stats.refused[why]++;
    c->last = why;
}

tt_state_refusal tt_state_cache_last_refusal(tt_state_cache *c)
{
    tt_state_refusal why = c->last;
    c->last = TT_REFUSED_NOTHING;
    return why;
}

void tt_state_cache_get_stats(const tt_state_cache *c, tt_state_cache_stats *stats)
{
    *stats = c->stats;
}

const tt_model *tt_state_cache_model(const tt_state_cache *c)
{
    return c->model;
}

/* ---- life ---- */

tt_status tt_state_cache_create(tt_model *m, tt_state_cache **out, tt_error *err)
{
    if (m->plan.prompt_cache == 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "the model was planned without a prompt cache: open it with prompt_cache");
    tt_state_cache *c = calloc(1, sizeof *c);
    if (c == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the prompt cache");
    c->model = m;
    c->kv_bytes = TT_BLOCK * tt_kv_token_bytes(&m->arch, m->plan.kv_bits);
    c->state_bytes = tt_recurrent_bytes(&m->arch);
    c->stats.limit = m->plan.prompt_cache;
    *out = c;
    return TT_OK;
}

void tt_state_cache_close(tt_state_cache **cache)
{
    tt_state_cache *c = cache != NULL ? *cache : NULL;
    if (c == NULL)
        return;
    for (node *x = c->root.child, *next; x != NULL; x = next) {
        /* What is below comes before what is beside. */
        node *last = x->child;
        while (last != NULL && last->next != NULL)
            last = last->next;
        next = last != NULL ? x->child : x->next;
        if (last != NULL)
            last->next = x->next;
        drop(x->kv, c->kv_bytes);
        if (x->kind != TT_CHECKPOINT_NONE)
            drop(x->state, c->state_bytes);
        free(x);
    }
    free(c);
    *cache = NULL;
}

/* ---- names ---- */

#define NAME(name, number, text) [number] = text,

static const char *name_in(const char *const *names, unsigned n, unsigned i)
{
    return i < n && names[i] != NULL ? names[i] : "none";
}

const char *tt_state_tier_name(tt_state_tier tier)
{
    static const char *const names[TT_TIERS] = {TT_STATE_TIER_LIST(NAME)};
    return name_in(names, TT_TIERS, tier);
}

const char *tt_checkpoint_name(tt_checkpoint_kind kind)
{
    static const char *const names[TT_CHECKPOINTS] = {TT_CHECKPOINT_LIST(NAME)};
    return name_in(names, TT_CHECKPOINTS, kind);
}

const char *tt_state_refusal_name(tt_state_refusal reason)
{
    static const char *const names[TT_REFUSALS] = {TT_STATE_REFUSAL_LIST(NAME)};
    return name_in(names, TT_REFUSALS, reason);
}
