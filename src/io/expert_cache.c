#include "io/expert_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#define NO_SLOT UINT32_MAX

typedef enum slot_state { SLOT_EMPTY, SLOT_LOADING, SLOT_READY } slot_state;

typedef struct slot {
    slot_state state;
    uint32_t users;
    uint32_t expert;    /* meaningful in LOADING and READY, and in EMPTY after a failed read */
    tt_status failed;   /* why the last read of this slot failed, for those who joined it */
    uint64_t last_used; /* larger is later; least recently used goes first */
    tt_read read;
} slot;

struct tt_expert_cache {
    tt_expert_cache_options o;
    uint32_t n_slots; /* a layer */
    void *block;
    size_t block_bytes;
    char *bytes;         /* first slot, aligned */
    slot *slots;         /* [n_layers][n_slots] */
    uint32_t *where;     /* [n_layers][n_experts] slot of the layer, or NO_SLOT */
    uint64_t *asked;     /* [n_experts] number of the last ask that named it: finds duplicates */
    uint64_t ask_number; /* counts calls of ask */
    uint64_t tick;       /* recency */
    tt_expert_cache_stats stats;
};

/* False when a product leaves 64 bits, which only absurd options do. */
static bool count_bytes(const tt_expert_cache_options *o, uint64_t *block, uint64_t *tables)
{
    uint64_t slots = (uint64_t)o->n_layers * o->slots_per_layer, b;
    if (__builtin_mul_overflow(slots, o->stride, &b) ||
        __builtin_add_overflow(b, (uint64_t)TT_PAGE_ALIGN, &b))
        return false;
    *block = b;
    *tables = sizeof(tt_expert_cache) + slots * sizeof(slot) +
              (uint64_t)o->n_layers * o->n_experts * sizeof(uint32_t) +
              (uint64_t)o->n_experts * sizeof(uint64_t);
    return true;
}

uint64_t tt_expert_cache_cost(const tt_expert_cache_options *o)
{
    uint64_t block, tables, sum;
    if (!count_bytes(o, &block, &tables) || __builtin_add_overflow(block, tables, &sum))
        return UINT64_MAX;
    return sum;
}

static tt_status check_options(const tt_expert_cache_options *o, tt_error *err)
{
    if (o->n_layers < 1 || o->n_layers > TT_MAX_LAYERS)
        return tt_fail(err, TT_ERR_INVALID, "expert cache for %u layers, must be 1 to %u",
                       o->n_layers, TT_MAX_LAYERS);
    if (o->n_experts < 1 || o->n_experts > TT_MAX_EXPERTS)
        return tt_fail(err, TT_ERR_INVALID, "expert cache for %u experts, must be 1 to %u",
                       o->n_experts, TT_MAX_EXPERTS);
    if (o->top_k < 1 || o->top_k > o->n_experts)
        return tt_fail(err, TT_ERR_INVALID, "top-k is %u, must be 1 to %u", o->top_k, o->n_experts);
    if (o->slots_per_layer < o->top_k || o->slots_per_layer > o->n_experts)
        return tt_fail(err, TT_ERR_INVALID,
                       "%u expert slots a layer, must be %u (one token's experts) to %u (all)",
                       o->slots_per_layer, o->top_k, o->n_experts);
    if (o->stride == 0 || o->stride % TT_PAGE_ALIGN != 0)
        return tt_fail(err, TT_ERR_INVALID, "expert stride is %llu, must be a multiple of %u",
                       (unsigned long long)o->stride, TT_PAGE_ALIGN);
    if (o->payload_bytes > o->stride)
        return tt_fail(err, TT_ERR_INVALID, "expert payload of %llu bytes exceeds the stride %llu",
                       (unsigned long long)o->payload_bytes, (unsigned long long)o->stride);
    if (o->reader == NULL)
        return tt_fail(err, TT_ERR_INVALID, "expert cache without a reader");
    return TT_OK;
}

tt_status tt_expert_cache_create(const tt_expert_cache_options *o, tt_expert_cache **out,
                                 tt_error *err)
{
    TT_TRY(check_options(o, err));
    uint64_t block, tables;
    if (!count_bytes(o, &block, &tables) || block > SIZE_MAX / 2)
        return tt_fail(err, TT_ERR_NOMEM, "%u x %u expert slots of %llu bytes cannot be counted",
                       o->n_layers, o->slots_per_layer, (unsigned long long)o->stride);
    size_t n_slots = (size_t)o->n_layers * o->slots_per_layer;
    size_t n_where = (size_t)o->n_layers * o->n_experts;
    tt_expert_cache *c = calloc(1, sizeof *c);
    tt_status st = TT_OK;
    if (c == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the expert cache");
    c->o = *o;
    c->n_slots = o->slots_per_layer;
    c->block_bytes = block;
    c->slots = calloc(n_slots, sizeof *c->slots);
    c->where = malloc(n_where * sizeof *c->where);
    c->asked = calloc(o->n_experts, sizeof *c->asked);
    if (c->slots == NULL || c->where == NULL || c->asked == NULL) {
        st =
            tt_fail(err, TT_ERR_NOMEM, "out of memory for the tables of %zu expert slots", n_slots);
        goto fail;
    }
    TT_GOTO(tt_mem_alloc(c->block_bytes, "expert slots", &c->block, err), fail);
    uintptr_t first = ((uintptr_t)c->block + TT_PAGE_ALIGN - 1) / TT_PAGE_ALIGN * TT_PAGE_ALIGN;
    c->bytes = (char *)first;
    for (size_t i = 0; i < n_where; i++)
        c->where[i] = NO_SLOT;
    *out = c;
    return TT_OK;
fail:
    tt_expert_cache_close(&c);
    return st;
}

static slot *slot_at(const tt_expert_cache *c, uint32_t layer, uint32_t index)
{
    return &c->slots[(size_t)layer * c->n_slots + index];
}

static void *slot_bytes(const tt_expert_cache *c, uint32_t layer, uint32_t index)
{
    return c->bytes + ((size_t)layer * c->n_slots + index) * c->o.stride;
}

static uint32_t *where(const tt_expert_cache *c, uint32_t layer, uint32_t expert)
{
    return &c->where[(size_t)layer * c->o.n_experts + expert];
}

static tt_status check_crc(tt_expert_cache *c, uint32_t layer, const slot *s, tt_error *err)
{
    if (c->o.crc == NULL)
        return TT_OK;
    uint32_t want = c->o.crc[(size_t)layer * c->o.n_experts + s->expert];
    uint32_t got = tt_crc32c(0, s->read.dst, c->o.payload_bytes);
    if (got == want)
        return TT_OK;
    c->stats.crc_failures++;
    return tt_fail_at(err, TT_ERR_CORRUPT, c->o.reader->ops->path(c->o.reader, layer),
                      (int64_t)s->read.offset,
                      "layer %u expert %u does not match its checksum (CRC-32C %08x, expected "
                      "%08x); verify the install and convert it again",
                      layer, s->expert, got, want);
}

/* LOADING -> READY, or -> EMPTY with the reason kept for whoever else holds the slot. */
static tt_status finish_load(tt_expert_cache *c, uint32_t layer, uint32_t index, tt_error *err)
{
    slot *s = slot_at(c, layer, index);
    double begin = tt_now();
    tt_status st = c->o.reader->ops->wait(c->o.reader, &s->read, err);
    c->stats.wait_seconds += tt_now() - begin;
    if (st == TT_OK) {
        c->stats.bytes_read += s->read.bytes;
        st = check_crc(c, layer, s, err);
    } else {
        tt_fail_context(err, st, "layer %u expert %u", layer, s->expert);
    }
    s->failed = st;
    s->state = st == TT_OK ? SLOT_READY : SLOT_EMPTY;
    if (st != TT_OK)
        *where(c, layer, s->expert) = NO_SLOT;
    return st;
}

/* A slot without users: EMPTY, else the least recently used READY one, else one whose load nobody
 * waits for any more, which is let finish first. NO_SLOT when every slot is under lease. */
static uint32_t take_slot(tt_expert_cache *c, uint32_t layer)
{
    uint32_t oldest = NO_SLOT, loading = NO_SLOT;
    for (uint32_t i = 0; i < c->n_slots; i++) {
        const slot *s = slot_at(c, layer, i);
        if (s->users > 0)
            continue;
        if (s->state == SLOT_EMPTY)
            return i;
        uint32_t *best = s->state == SLOT_READY ? &oldest : &loading;
        if (*best == NO_SLOT || s->last_used < slot_at(c, layer, *best)->last_used)
            *best = i;
    }
    if (oldest == NO_SLOT && loading == NO_SLOT)
        return NO_SLOT;
    /* A failure here belongs to an ask that has gone; either way the slot may be taken. */
    if (oldest == NO_SLOT && finish_load(c, layer, loading, NULL) != TT_OK)
        return loading;
    uint32_t victim = oldest != NO_SLOT ? oldest : loading;
    slot *s = slot_at(c, layer, victim);
    *where(c, layer, s->expert) = NO_SLOT;
    s->state = SLOT_EMPTY;
    c->stats.evictions++;
    return victim;
}

static tt_status start_load(tt_expert_cache *c, uint32_t layer, uint32_t expert, uint32_t *out,
                            tt_error *err)
{
    uint32_t index = take_slot(c, layer);
    if (index == NO_SLOT)
        return tt_fail(err, TT_ERR_LIMIT,
                       "layer %u: all %u expert slots are under lease; release one or open the "
                       "model with more",
                       layer, c->n_slots);
    slot *s = slot_at(c, layer, index);
    s->expert = expert;
    s->failed = TT_OK;
    s->read = (tt_read){.file = layer,
                        .offset = (uint64_t)expert * c->o.stride,
                        .bytes = c->o.stride,
                        .dst = slot_bytes(c, layer, index)};
    tt_status st = c->o.reader->ops->start(c->o.reader, &s->read, err);
    if (st != TT_OK)
        return tt_fail_context(err, st, "layer %u expert %u", layer, expert);
    s->state = SLOT_LOADING;
    *where(c, layer, expert) = index;
    *out = index;
    return TT_OK;
}

static tt_status check_ask(tt_expert_cache *c, const tt_expert_lease *lease, tt_error *err)
{
    if (lease->layer >= c->o.n_layers)
        return tt_fail(err, TT_ERR_INVALID, "layer %u asked, the cache has %u", lease->layer,
                       c->o.n_layers);
    if (lease->n > c->n_slots)
        return tt_fail(err, TT_ERR_LIMIT, "%u experts of a layer asked at once, it has %u slots",
                       lease->n, c->n_slots);
    c->ask_number++;
    for (uint32_t i = 0; i < lease->n; i++) {
        uint32_t e = lease->expert[i];
        if (e >= c->o.n_experts)
            return tt_fail(err, TT_ERR_INVALID, "layer %u: expert %u asked, it has %u",
                           lease->layer, e, c->o.n_experts);
        if (c->asked[e] == c->ask_number)
            return tt_fail(err, TT_ERR_INVALID, "layer %u: expert %u asked twice in one ask",
                           lease->layer, e);
        c->asked[e] = c->ask_number;
    }
    return TT_OK;
}

tt_status tt_expert_cache_ask(tt_expert_cache *c, tt_expert_lease *lease, tt_error *err)
{
    TT_TRY(check_ask(c, lease, err));
    uint32_t layer = lease->layer, hits = 0, joins = 0;
    tt_status st = TT_OK;
    /* What is there is leased first, so that making room for the rest cannot evict it. */
    for (uint32_t i = 0; i < lease->n; i++) {
        uint32_t index = *where(c, layer, lease->expert[i]);
        lease->slot[i] = index;
        lease->hit[i] = false;
        if (index == NO_SLOT)
            continue;
        slot *s = slot_at(c, layer, index);
        s->users++;
        s->last_used = ++c->tick;
        lease->hit[i] = s->state == SLOT_READY;
        hits += s->state == SLOT_READY;
        joins += s->state == SLOT_LOADING;
    }
    for (uint32_t i = 0; i < lease->n && st == TT_OK; i++) {
        if (lease->slot[i] != NO_SLOT)
            continue;
        st = start_load(c, layer, lease->expert[i], &lease->slot[i], err);
        if (st == TT_OK) {
            slot *s = slot_at(c, layer, lease->slot[i]);
            s->users++;
            s->last_used = ++c->tick;
        }
    }
    tt_reader_flush(c->o.reader);
    if (st != TT_OK) {
        tt_expert_cache_release(c, lease);
        return st;
    }
    c->stats.asks += lease->n;
    c->stats.hits += hits;
    c->stats.joins += joins;
    c->stats.misses += lease->n - hits - joins;
    return TT_OK;
}

tt_status tt_expert_cache_wait(tt_expert_cache *c, const tt_expert_lease *lease, uint32_t i,
                               const void **bytes, tt_error *err)
{
    if (i >= lease->n || lease->slot[i] == NO_SLOT)
        return tt_fail(err, TT_ERR_STATE, "expert %u of a lease of %u is not held", i, lease->n);
    uint32_t layer = lease->layer, index = lease->slot[i];
    slot *s = slot_at(c, layer, index);
    if (s->state == SLOT_LOADING)
        TT_TRY(finish_load(c, layer, index, err));
    if (s->state != SLOT_READY)
        return tt_fail_at(err, s->failed, c->o.reader->ops->path(c->o.reader, layer),
                          (int64_t)s->read.offset, "layer %u expert %u: its read had failed (%s)",
                          layer, s->expert, tt_status_text(s->failed));
    *bytes = slot_bytes(c, layer, index);
    return TT_OK;
}

void tt_expert_cache_release(tt_expert_cache *c, tt_expert_lease *lease)
{
    for (uint32_t i = 0; i < lease->n; i++) {
        if (lease->slot[i] != NO_SLOT)
            slot_at(c, lease->layer, lease->slot[i])->users--;
        lease->slot[i] = NO_SLOT;
    }
}

void tt_expert_cache_set_reader(tt_expert_cache *c, tt_reader *reader)
{
    for (uint32_t layer = 0; layer < c->o.n_layers; layer++)
        for (uint32_t i = 0; i < c->n_slots; i++)
            if (slot_at(c, layer, i)->state == SLOT_LOADING)
                (void)!finish_load(c, layer, i, NULL); /* whoever waits for it will be told */
    c->o.reader = reader;
}

uint32_t tt_expert_cache_slots(const tt_expert_cache *c)
{
    return c->n_slots;
}

void tt_expert_cache_get_stats(const tt_expert_cache *c, tt_expert_cache_stats *out)
{
    *out = c->stats;
}

void tt_expert_cache_close(tt_expert_cache **cp)
{
    if (cp == NULL || *cp == NULL)
        return;
    tt_expert_cache *c = *cp;
    size_t n_slots = (size_t)c->o.n_layers * c->n_slots;
    /* A read in flight still owns its destination. */
    for (size_t i = 0; c->slots != NULL && i < n_slots; i++)
        if (c->slots[i].state == SLOT_LOADING)
            (void)!c->o.reader->ops->wait(c->o.reader, &c->slots[i].read, NULL);
    tt_mem_free(c->block, c->block_bytes);
    free(c->slots);
    free(c->where);
    free(c->asked);
    free(c);
    *cp = NULL;
}
