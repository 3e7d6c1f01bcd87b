#include "session/state_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "session/state_disk.h"

#define HUGE_PAGE (2 * TT_MIB)
#define MAPPED    (64 * TT_KIB) /* blocks of so much and more have pages of their own */

typedef struct tt_state_node {
    struct tt_state_node *parent, *child, *next;
    uint32_t ids[TT_BLOCK];
    uint32_t end;      /* tokens to the end of the block */
    uint32_t prompted; /* of those, rows from prefill */
    uint32_t saved;    /* scratch of most_missed */
    uint8_t made;
    bool pinned; /* stays though nothing below it does */
    tt_checkpoint_kind kind;
    void *kv;
    float *state;
    uint64_t used;   /* prompt that used the checkpoint last */
    tt_digest chain; /* with a directory */
} node;

struct tt_state_cache {
    tt_model *model;
    node root;
    uint64_t kv_bytes, state_bytes; /* of a block, of a checkpoint */
    tt_state_cache_stats stats;
    tt_state_refusal last;
    tt_state_disk disk;
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

/* Of a node: what is to be written of it no longer is. */
static void drop_payload(tt_state_cache *c, void *p, uint64_t bytes)
{
    if (c->disk.store != NULL)
        tt_store_withdraw(c->disk.store, p);
    drop(p, bytes);
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
        drop_payload(c, x->kv, c->kv_bytes);
        free(x);
        c->stats.bytes -= block_cost(c);
        c->stats.blocks--;
        x = parent;
    }
}

static void forget(tt_state_cache *c, node *x)
{
    drop_payload(c, x->state, c->state_bytes);
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

static bool name_block(const tt_state_cache *c, const node *parent, node *x)
{
    const tt_digest *above = parent != &c->root      ? &parent->chain
                             : c->disk.store != NULL ? tt_store_root(c->disk.store)
                                                     : NULL;
    return c->disk.store == NULL ||
           tt_store_chain(above, x->ids, x->made, &x->chain, NULL) == TT_OK;
}

static node *add_block(tt_state_cache *c, node *parent, const tt_state_line *line)
{
    node *x = calloc(1, sizeof *x);
    void *kv = get(c->kv_bytes);
    if (x != NULL) {
        memcpy(x->ids, line->tokens + parent->end, sizeof x->ids);
        x->made = line->made[parent->end / TT_BLOCK];
    }
    if (x == NULL || kv == NULL || !name_block(c, parent, x)) {
        free(x);
        drop(kv, c->kv_bytes);
        return NULL;
    }
    x->parent = parent;
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

static tt_state_found find_in_memory(tt_state_cache *c, const uint32_t *ids, uint32_t most)
{
    tt_state_found f = {.ids = ids, .most = most};
    node *best = NULL;
    for (node *x = next_match(c, &c->root, ids, most); x != NULL; x = next_match(c, x, ids, most))
        if (better(x, best))
            best = x;
    if (best == NULL)
        return f;
    f.at = best->end;
    f.tier = TT_TIER_RAM;
    f.kind = best->kind;
    f.cold = best->prompted == best->end;
    f.node = best;
    return f;
}

/* What the directory has, if that is better. */
static void or_on_disk(tt_state_found *f, const tt_store_found *disk)
{
    if (disk->tokens < f->at || disk->tokens == 0 ||
        (disk->tokens == f->at && (f->cold || !disk->cold)))
        return;
    f->at = disk->tokens;
    f->tier = TT_TIER_DISK;
    f->kind = (tt_checkpoint_kind)disk->kind;
    f->cold = disk->cold;
    f->disk = *disk;
}

tt_state_found tt_state_cache_find(tt_state_cache *c, const uint32_t *ids, uint32_t most)
{
    tt_store_found disk = {0};
    c->stats.prompts++;
    tt_state_found f = find_in_memory(c, ids, most);
    if (c->disk.store != NULL)
        disk = tt_store_find(c->disk.store, ids, most, c->model->plan.max_context);
    or_on_disk(&f, &disk);
    return f;
}

static void load_from_memory(tt_state_cache *c, const tt_state_found *f, tt_state_line *line,
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

/* What was read once is had from memory the next time. */
static void remember(tt_state_cache *c, const tt_state_found *f, const tt_state_line *line,
                     const tt_recurrent *from)
{
    float *block = NULL;
    if (!tt_state_cache_take(c, &block))
        return;
    if (from->bytes > 0)
        memcpy(block, from->block, from->bytes);
    tt_state_cache_put(c, line, f->at, f->kind, block);
}

void tt_state_cache_load(tt_state_cache *c, tt_state_found *f, tt_state_line *line,
                         tt_recurrent *into)
{
    while (f->tier == TT_TIER_DISK) {
        if (tt_state_disk_load(&c->disk, &f->disk, f->ids, line, into)) {
            remember(c, f, line, into);
            return;
        }
        tt_store_found disk = tt_store_find_again(c->disk.store, f->ids, f->most);
        *f = find_in_memory(c, f->ids, f->most);
        or_on_disk(f, &disk);
    }
    if (f->at > 0)
        load_from_memory(c, f, line, into);
}

/* ---- the directory ---- */

/* The block and its checkpoint, with what is missing above it. */
static bool hand_over(tt_state_cache *c, node *x)
{
    tt_store *s = c->disk.store;
    node *from = x;
    if (!tt_store_fits(s, x->end)) {
        tt_state_cache_refuse(c, TT_REFUSED_TOO_LARGE);
        return false;
    }
    /* What is there has all above it. */
    while (from->parent != &c->root && !tt_store_has(s, &from->parent->chain, TT_STORE_KV))
        from = from->parent;
    for (uint32_t at = from->end; at <= x->end; at += TT_BLOCK) {
        node *k = x;
        while (k->end > at)
            k = k->parent;
        const tt_digest *above = k->parent == &c->root ? tt_store_root(s) : &k->parent->chain;
        if (!tt_store_has(s, &k->chain, TT_STORE_KV) &&
            !tt_store_put_kv(s, above, &k->chain, k->made, k->kv))
            return false;
    }
    return tt_store_put_state(s, &x->chain, x->kind, x->state);
}

static bool is_saved(tt_state_cache *c, const node *x)
{
    return x->kind != TT_CHECKPOINT_NONE && tt_store_has(c->disk.store, &x->chain, TT_STORE_STATE);
}

/* The checkpoint whose loss would cost the most tokens, as the directory is; what all conversations
 * begin with comes first. */
static node *most_missed(tt_state_cache *c)
{
    node *most = NULL;
    uint64_t most_tokens = 0;
    c->root.saved = 0;
    for (node *x = walk(c, &c->root); x != NULL; x = walk(c, x)) {
        bool saved = is_saved(c, x);
        x->saved = saved ? x->end : x->parent->saved;
        if (saved || x->kind == TT_CHECKPOINT_NONE)
            continue;
        uint64_t tokens = x->end - x->saved;
        tokens += x->kind == TT_CHECKPOINT_SYSTEM ? UINT32_MAX : 0;
        if (tokens > most_tokens) {
            most = x;
            most_tokens = tokens;
        }
    }
    return most;
}

void tt_state_cache_settle(tt_state_cache *c, const tt_state_line *line)
{
    unsigned left = 2;
    if (c->disk.store == NULL)
        return;
    node *x = deepest(c, line, tt_block_floor(line->n));
    while (x != &c->root && x->kind == TT_CHECKPOINT_NONE)
        x = x->parent;
    if (x != &c->root && !is_saved(c, x) && hand_over(c, x))
        left--;
    while (left > 0 && (x = most_missed(c)) != NULL && hand_over(c, x))
        left--;
    tt_store_handed_over(c->disk.store);
}

static void on_read(void *ctx)
{
    tt_store_hold(ctx);
}

tt_status tt_state_cache_use_disk_io(tt_state_cache *c, const tt_state_disk_options *o,
                                     const tt_store_io *io, tt_error *err)
{
    tt_state_refusal why = TT_REFUSED_NOTHING;
    for (size_t i = 0; i < sizeof o->reserved / sizeof o->reserved[0]; i++)
        if (o->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID,
                           "a reserved field of tt_state_disk_options is not zero: start from "
                           "zeros");
    if (c->root.child != NULL || c->disk.store != NULL)
        return tt_fail(err, TT_ERR_STATE, "the prompt cache is in use already");
    TT_TRY(tt_state_disk_open(&c->disk, c->model, o, io, c->stats.limit / 8, &why, err));
    if (why != TT_REFUSED_NOTHING)
        tt_state_cache_refuse(c, why);
    c->stats.limit -= c->disk.memory < c->stats.limit ? c->disk.memory : c->stats.limit;
    if (c->disk.store != NULL && c->model->cache != NULL)
        tt_expert_cache_on_read(c->model->cache, on_read, c->disk.store);
    return TT_OK;
}

tt_status tt_state_cache_use_disk(tt_state_cache *c, const tt_state_disk_options *o, tt_error *err)
{
    return tt_state_cache_use_disk_io(c, o, NULL, err);
}

const char *tt_state_cache_disk_note(const tt_state_cache *c)
{
    return c->disk.note;
}

void tt_state_cache_flush(tt_state_cache *c)
{
    if (c->disk.store != NULL)
        tt_store_wait(c->disk.store);
}

/* Writes what was handed over; the payloads must be there still. */
static void leave_disk(tt_state_cache *c)
{
    if (c->disk.store != NULL && c->model->cache != NULL)
        tt_expert_cache_on_read(c->model->cache, NULL, NULL);
    tt_state_disk_close(&c->disk);
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
    tt_state_refusal why = c->last, disk = TT_REFUSED_NOTHING;
    c->last = TT_REFUSED_NOTHING;
    if (c->disk.store != NULL)
        disk = tt_store_last_refusal(c->disk.store);
    return why != TT_REFUSED_NOTHING ? why : disk;
}

void tt_state_cache_get_stats(const tt_state_cache *c, tt_state_cache_stats *stats)
{
    tt_store_stats s;
    *stats = c->stats;
    if (c->disk.store == NULL)
        return;
    tt_store_get_stats(c->disk.store, &s);
    for (int r = 0; r < TT_REFUSALS; r++)
        stats->refused[r] += s.refused[r];
    stats->disk = (tt_state_disk_stats){.limit = s.limit,
                                        .bytes = s.bytes,
                                        .blocks = s.blocks,
                                        .checkpoints = s.checkpoints,
                                        .writes = s.writes,
                                        .written = s.written,
                                        .index_written = s.index_written,
                                        .reads = s.reads,
                                        .read = s.read,
                                        .waiting = s.waiting,
                                        .dropped = s.dropped,
                                        .evicted = s.evicted,
                                        .swept = s.swept};
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
    leave_disk(c);
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
