#include "io/expert_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "io/slot_memory.h"
#include "io/slot_table.h"

#define MOST_PARTS 2u
#define RELEASED   UINT64_MAX
#define WARM_DEPTH 4u /* experts read ahead at once: enough to keep a disk busy */

/* The load of a slot. It is in flight while the slot is LOADING. */
typedef struct load {
    tt_read read[MOST_PARTS];
    uint32_t started;  /* parts handed to the reader */
    uint32_t position; /* in the list of those in flight */
    bool warm;
    tt_status failed; /* why the last load of this slot failed, for those who joined it */
} load;

typedef struct warming {
    bool on;
    double deadline;
    uint64_t bytes_left;
    uint32_t in_flight;
    unsigned char *tried; /* [keys] */
} warming;

struct tt_expert_cache {
    tt_expert_cache_options o;
    uint64_t part_begin[MOST_PARTS + 1];
    uint32_t n_parts;
    tt_slot_table table;
    tt_slot_memory memory;
    tt_cache_policy heat; /* the same touches, remembered longer */
    load *loads;          /* [slots] */
    uint32_t *flying;     /* [slots] those LOADING, in no order */
    uint32_t n_flying;
    uint32_t slabs_leaving;
    uint64_t *asked;    /* [n_experts] number of the last ask that named it: finds duplicates */
    uint32_t *index;    /* [n_experts] scratch of release */
    uint64_t ask_calls; /* of ask, those refused included */
    uint64_t leases;    /* handed out */
    tt_cache_recorder recorder;
    void (*reading)(void *ctx);
    void *reading_ctx;
    warming warm;
    tt_error failure; /* the last failed load in words, and whose it was */
    uint32_t failure_slot, failure_generation;
    tt_expert_cache_stats stats;
};

/* ---- create and close ---- */

uint64_t tt_expert_cache_cost(const tt_expert_cache_options *o)
{
    tt_slot_table_options to = {
        .n_layers = o->n_layers, .n_experts = o->n_experts, .n_slots = o->slots_total};
    uint64_t slots = tt_slot_memory_cost(o->slots_total, o->stride, o->slab_bytes);
    uint64_t table = tt_slot_table_cost(&to);
    if (slots == UINT64_MAX || table == UINT64_MAX)
        return UINT64_MAX;
    return sizeof(tt_expert_cache) + slots + table +
           tt_cache_policy_cost(o->n_layers * o->n_experts) +
           (uint64_t)o->slots_total * (sizeof(load) + sizeof(uint32_t)) +
           (uint64_t)o->n_experts * (sizeof(uint64_t) + sizeof(uint32_t)) +
           (uint64_t)o->n_layers * o->n_experts;
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
    if (o->slots_total < o->top_k || o->slots_total > o->n_layers * o->n_experts)
        return tt_fail(err, TT_ERR_INVALID,
                       "%u expert slots, must be %u (a token's experts in one layer) to %u (all)",
                       o->slots_total, o->top_k, o->n_layers * o->n_experts);
    if (o->stride == 0 || o->stride % TT_PAGE_ALIGN != 0)
        return tt_fail(err, TT_ERR_INVALID, "expert stride is %llu, must be a multiple of %u",
                       (unsigned long long)o->stride, TT_PAGE_ALIGN);
    if (o->payload_bytes > o->stride || o->split > o->stride)
        return tt_fail(err, TT_ERR_INVALID,
                       "expert payload of %llu bytes, its down part at %llu: more than the stride "
                       "%llu",
                       (unsigned long long)o->payload_bytes, (unsigned long long)o->split,
                       (unsigned long long)o->stride);
    if (o->policy == TT_CACHE_BELADY)
        return tt_fail(err, TT_ERR_INVALID, "cache policy belady is for replays");
    if (o->reader == NULL)
        return tt_fail(err, TT_ERR_INVALID, "expert cache without a reader");
    return TT_OK;
}

/* Where the parts of an expert begin. */
static void cut_parts(tt_expert_cache *c)
{
    uint64_t split = (c->o.split + TT_IO_ALIGN - 1) / TT_IO_ALIGN * TT_IO_ALIGN;
    if (split > 0 && split < c->o.stride)
        c->part_begin[++c->n_parts] = split;
    c->part_begin[++c->n_parts] = c->o.stride;
}

static tt_status take_memory(tt_expert_cache *c, tt_error *err)
{
    const tt_expert_cache_options *o = &c->o;
    tt_slot_table_options to = {.n_layers = o->n_layers,
                                .n_experts = o->n_experts,
                                .top_k = o->top_k,
                                .n_slots = o->slots_total,
                                .policy = o->policy,
                                .half_life = o->half_life};
    TT_TRY(tt_slot_table_init(&c->table, &to, err));
    TT_TRY(tt_cache_policy_init(&c->heat, TT_CACHE_LFU_DECAY, o->n_layers * o->n_experts,
                                TT_HEAT_HALF_LIFE, err));
    c->loads = calloc(o->slots_total, sizeof *c->loads);
    c->flying = calloc(o->slots_total, sizeof *c->flying);
    c->asked = calloc(o->n_experts, sizeof *c->asked);
    c->index = calloc(o->n_experts, sizeof *c->index);
    c->warm.tried = calloc((size_t)o->n_layers * o->n_experts, 1);
    if (c->loads == NULL || c->flying == NULL || c->asked == NULL || c->index == NULL ||
        c->warm.tried == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tables of %u expert slots",
                       o->slots_total);
    return tt_slot_memory_alloc(&c->memory, o->slots_total, o->stride, o->slab_bytes, o->touch,
                                o->lock, err);
}

tt_status tt_expert_cache_create(const tt_expert_cache_options *o, tt_expert_cache **out,
                                 tt_error *err)
{
    TT_TRY(check_options(o, err));
    tt_expert_cache *c = calloc(1, sizeof *c);
    if (c == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the expert cache");
    c->o = *o;
    c->o.touch = NULL;
    cut_parts(c);
    tt_status st = take_memory(c, err);
    for (uint32_t i = 0; st == TT_OK && i < o->slots_total; i++)
        c->loads[i].position = TT_NO_SLOT;
    if (st != TT_OK) {
        tt_expert_cache_close(&c);
        return st;
    }
    tt_slot_memory_register(&c->memory, c->o.reader);
    *out = c;
    return TT_OK;
}

void tt_expert_cache_close(tt_expert_cache **cp)
{
    if (cp == NULL || *cp == NULL)
        return;
    tt_expert_cache *c = *cp;
    /* A read in flight still owns its destination. */
    for (uint32_t i = 0; i < c->n_flying; i++)
        for (uint32_t k = 0; k < c->loads[c->flying[i]].started; k++)
            (void)!c->o.reader->ops->wait(c->o.reader, &c->loads[c->flying[i]].read[k], NULL);
    tt_slot_memory_forget(&c->memory, c->o.reader);
    tt_slot_memory_free(&c->memory);
    tt_slot_table_free(&c->table);
    tt_cache_policy_free(&c->heat);
    free(c->loads);
    free(c->flying);
    free(c->asked);
    free(c->index);
    free(c->warm.tried);
    free(c);
    *cp = NULL;
}

/* ---- loads ---- */

static void record(const tt_expert_cache *c, const tt_cache_event *e)
{
    if (c->recorder.event != NULL)
        c->recorder.event(c->recorder.ctx, e);
}

static void begin_load(tt_expert_cache *c, uint32_t slot, bool warm)
{
    load *l = &c->loads[slot];
    l->started = 0;
    l->failed = TT_OK;
    l->warm = warm;
    l->position = c->n_flying;
    c->flying[c->n_flying++] = slot;
    c->warm.in_flight += warm;
}

static tt_status start_part(tt_expert_cache *c, uint32_t slot, uint32_t part, tt_error *err)
{
    load *l = &c->loads[slot];
    uint32_t layer = tt_slot_layer(&c->table, slot), expert = tt_slot_expert(&c->table, slot);
    uint64_t begin = c->part_begin[part];
    l->read[part] = (tt_read){.file = layer,
                              .offset = (uint64_t)expert * c->o.stride + begin,
                              .bytes = c->part_begin[part + 1] - begin,
                              .dst = (char *)tt_slot_memory_at(&c->memory, slot) + begin};
    tt_status st = c->o.reader->ops->start(c->o.reader, &l->read[part], err);
    if (st != TT_OK)
        return tt_fail_context(err, st, "layer %u expert %u", layer, expert);
    l->started++;
    return TT_OK;
}

static tt_status check_crc(tt_expert_cache *c, uint32_t slot, tt_error *err)
{
    uint32_t layer = tt_slot_layer(&c->table, slot), expert = tt_slot_expert(&c->table, slot);
    if (c->o.crc == NULL)
        return TT_OK;
    uint32_t want = c->o.crc[(size_t)layer * c->o.n_experts + expert];
    uint32_t got = tt_crc32c(0, tt_slot_memory_at(&c->memory, slot), c->o.payload_bytes);
    if (got == want)
        return TT_OK;
    c->stats.crc_failures++;
    tt_reader_stats s;
    tt_reader_get_stats(c->o.reader, &s);
    return tt_fail_at(err, TT_ERR_CORRUPT, c->o.reader->ops->path(c->o.reader, layer),
                      (int64_t)(expert * c->o.stride),
                      "layer %u expert %u does not match its checksum (CRC-32C %08x, expected "
                      "%08x); %s",
                      layer, expert, got, want,
                      s.bytes_mirror > 0 ? "it may be the expert mirror's copy that is damaged: "
                                           "copy it again, and verify the install"
                                         : "verify the install and convert it again");
}

/* Waits for one part of a load. */
static tt_status wait_part(tt_expert_cache *c, uint32_t slot, uint32_t part, tt_error *err)
{
    double begin = tt_now();
    tt_status st = c->o.reader->ops->wait(c->o.reader, &c->loads[slot].read[part], err);
    c->stats.wait_seconds += tt_now() - begin;
    if (st != TT_OK)
        tt_fail_context(err, st, "layer %u expert %u", tt_slot_layer(&c->table, slot),
                        tt_slot_expert(&c->table, slot));
    return st;
}

static void count_load(tt_expert_cache *c, const load *l, bool ok)
{
    if (l->warm) {
        c->warm.in_flight--;
        c->stats.warm_failures += !ok;
    } else if (ok) {
        c->stats.bytes_read += c->o.stride;
    }
}

/* The pages of a slab go back when its last slot has retired. */
static void settle_slab(tt_expert_cache *c, uint32_t slot)
{
    uint32_t at = slot / c->memory.per_slab;
    const tt_slab *s = &c->memory.slabs[at];
    if (!s->leaving)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        if (c->table.slots[s->first + i].state != TT_SLOT_RETIRED)
            return;
    tt_slot_memory_retire(&c->memory, at, c->o.reader);
    c->slabs_leaving--;
}

/* LOADING -> READY, or -> EMPTY with the reason kept for whoever else holds the slot. Every part is
 * waited for, whatever failed; `st` is what failed before. */
static tt_status end_load(tt_expert_cache *c, uint32_t slot, tt_status st, tt_error *err)
{
    load *l = &c->loads[slot];
    const tt_slot *s = &c->table.slots[slot];
    uint32_t layer = tt_slot_layer(&c->table, slot), expert = tt_slot_expert(&c->table, slot);
    tt_error why = {.offset = -1};
    if (st != TT_OK && err != NULL)
        why = *err;
    for (uint32_t k = 0; k < l->started; k++) {
        tt_status part = wait_part(c, slot, k, st == TT_OK ? &why : NULL);
        st = st == TT_OK ? part : st;
    }
    if (st == TT_OK)
        st = check_crc(c, slot, &why);
    count_load(c, l, st == TT_OK);
    uint32_t last = c->flying[--c->n_flying];
    c->flying[l->position] = last;
    c->loads[last].position = l->position;
    l->position = TT_NO_SLOT;
    l->failed = st;
    tt_slot_loaded(&c->table, slot, st == TT_OK);
    if (st != TT_OK) {
        c->failure = why;
        c->failure_slot = slot;
        c->failure_generation = s->generation;
        if (err != NULL)
            *err = why;
    }
    record(c, &(tt_cache_event){.kind = st == TT_OK ? TT_TRACE_READY : TT_TRACE_FAILED,
                                .layer = layer,
                                .n = 1,
                                .expert = &expert});
    if (c->slabs_leaving > 0)
        settle_slab(c, slot);
    return st;
}

static void finish_abandoned(void *ctx, uint32_t slot)
{
    /* A failure here belongs to an ask that has gone; either way the slot may be taken. */
    (void)!end_load(ctx, slot, TT_OK, NULL);
}

/* ---- asking ---- */

static tt_status check_ask(tt_expert_cache *c, const tt_expert_lease *lease, tt_error *err)
{
    if (lease->layer >= c->o.n_layers)
        return tt_fail(err, TT_ERR_INVALID, "layer %u asked, the cache has %u", lease->layer,
                       c->o.n_layers);
    c->ask_calls++;
    for (uint32_t i = 0; i < lease->n; i++) {
        uint32_t e = lease->expert[i];
        if (e >= c->o.n_experts)
            return tt_fail(err, TT_ERR_INVALID, "layer %u: expert %u asked, it has %u",
                           lease->layer, e, c->o.n_experts);
        if (c->asked[e] == c->ask_calls)
            return tt_fail(err, TT_ERR_INVALID, "layer %u: expert %u asked twice in one ask",
                           lease->layer, e);
        c->asked[e] = c->ask_calls;
    }
    return TT_OK;
}

/* Whether this slot was given to the lease's ask just now and no part of it was started. */
static bool is_new(const tt_expert_cache *c, uint32_t slot)
{
    return c->table.slots[slot].state == TT_SLOT_LOADING && c->loads[slot].position == TT_NO_SLOT;
}

/* Starts the first part of everything that is new, then the second. A load that cannot be started
 * whole ends at once. */
static tt_status start_reads(tt_expert_cache *c, const tt_expert_lease *lease, tt_error *err)
{
    tt_status st = TT_OK;
    uint32_t fresh = c->n_flying;
    for (uint32_t i = 0; i < lease->n; i++)
        if (is_new(c, lease->slot[i]))
            begin_load(c, lease->slot[i], false);
    uint32_t end = c->n_flying;
    for (uint32_t part = 0; part < c->n_parts && st == TT_OK; part++)
        for (uint32_t i = fresh; i < end && st == TT_OK; i++)
            st = start_part(c, c->flying[i], part, err);
    tt_reader_flush(c->o.reader);
    for (uint32_t i = end; st != TT_OK && i-- > fresh;)
        if (c->loads[c->flying[i]].started < c->n_parts)
            (void)!end_load(c, c->flying[i], st, err);
    return st;
}

static tt_status refuse_ask(const tt_expert_cache *c, const tt_expert_lease *lease, tt_error *err)
{
    if (lease->n > c->table.active)
        return tt_fail(err, TT_ERR_LIMIT, "%u experts of a layer asked at once, there are %u slots",
                       lease->n, c->table.active);
    return tt_fail(err, TT_ERR_LIMIT,
                   "layer %u: %u experts asked, but %u of %u expert slots are under lease; release "
                   "some or open the model with more",
                   lease->layer, lease->n, c->table.active - c->table.idle, c->table.active);
}

static void note_heat(tt_expert_cache *c, const tt_expert_lease *lease)
{
    double sum = 0;
    for (uint32_t i = 0; i < lease->n; i++)
        sum += lease->weight != NULL ? (double)lease->weight[i] : 1.0;
    tt_cache_policy_advance(&c->heat, sum / c->o.top_k / c->o.n_layers);
    for (uint32_t i = 0; i < lease->n; i++)
        tt_cache_policy_touch(&c->heat, tt_slot_key(&c->table, lease->layer, lease->expert[i]),
                              lease->weight != NULL ? (double)lease->weight[i] : 1.0);
}

static void count_ask(tt_expert_cache *c, const tt_expert_lease *lease, const tt_slot_asked *a)
{
    uint32_t misses = lease->n - a->hits - a->joins;
    c->stats.evictions += a->evictions;
    if (misses + a->joins > 0 && c->reading != NULL)
        c->reading(c->reading_ctx);
    if (a->guess) {
        c->stats.guessed += misses;
        return;
    }
    c->stats.asks += lease->n;
    c->stats.hits += a->hits;
    c->stats.joins += a->joins;
    c->stats.misses += misses;
    if (lease->prefill) {
        c->stats.prefill_asks += lease->n;
        c->stats.prefill_hits += a->hits;
    }
    note_heat(c, lease);
}

tt_status tt_expert_cache_ask(tt_expert_cache *c, tt_expert_lease *lease, tt_error *err)
{
    TT_TRY(check_ask(c, lease, err));
    tt_slot_asked a = {.layer = lease->layer,
                       .n = lease->n,
                       .expert = lease->expert,
                       .weight = lease->weight,
                       .slot = lease->slot,
                       .hit = lease->hit};
    if (!tt_slot_ask(&c->table, &a, finish_abandoned, c))
        return refuse_ask(c, lease, err);
    for (uint32_t i = 0; i < lease->n; i++)
        lease->generation[i] = c->table.slots[lease->slot[i]].generation;
    lease->number = c->leases++;
    count_ask(c, lease, &a);
    record(c, &(tt_cache_event){.kind = TT_TRACE_ASK,
                                .prefill = lease->prefill,
                                .lease = lease->number,
                                .layer = lease->layer,
                                .n = lease->n,
                                .expert = lease->expert,
                                .weight = lease->weight});
    tt_status st = start_reads(c, lease, err);
    if (st != TT_OK)
        tt_expert_cache_release(c, lease);
    return st;
}

/* ---- waiting ---- */

static bool part_done(const tt_expert_cache *c, uint32_t slot, uint32_t part)
{
    const load *l = &c->loads[slot];
    return l->started > part && tt_read_done(&l->read[part]);
}

static bool load_done(const tt_expert_cache *c, uint32_t slot)
{
    for (uint32_t k = 0; k < c->n_parts; k++)
        if (!part_done(c, slot, k))
            return false;
    return true;
}

/* Whether a part can be trusted before the rest is there. */
static bool comes_alone(const tt_expert_cache *c, tt_expert_part part)
{
    return part == TT_EXPERT_GATE_UP && c->n_parts > 1 && c->o.crc == NULL;
}

static tt_status wait_loading(tt_expert_cache *c, uint32_t slot, tt_expert_part part, tt_error *err)
{
    if (!comes_alone(c, part))
        return end_load(c, slot, TT_OK, err);
    tt_status st = wait_part(c, slot, 0, err);
    return st != TT_OK || load_done(c, slot) ? end_load(c, slot, st, err) : TT_OK;
}

static tt_status tell_failure(const tt_expert_cache *c, uint32_t slot, tt_error *err)
{
    const tt_slot *s = &c->table.slots[slot];
    uint32_t layer = tt_slot_layer(&c->table, slot), expert = tt_slot_expert(&c->table, slot);
    tt_status why = c->loads[slot].failed;
    if (c->failure_slot == slot && c->failure_generation == s->generation &&
        c->failure.message[0] != '\0') {
        if (err != NULL)
            *err = c->failure;
        return why;
    }
    return tt_fail_at(
        err, why, c->o.reader->ops->path(c->o.reader, layer), (int64_t)(expert * c->o.stride),
        "layer %u expert %u: its read had failed (%s)", layer, expert, tt_status_text(why));
}

tt_status tt_expert_cache_wait(tt_expert_cache *c, const tt_expert_lease *lease, uint32_t i,
                               tt_expert_part part, const void **bytes, tt_error *err)
{
    if (i >= lease->n || lease->slot[i] == TT_NO_SLOT)
        return tt_fail(err, TT_ERR_STATE, "expert %u of a lease of %u is not held", i, lease->n);
    uint32_t slot = lease->slot[i];
    const tt_slot *s = &c->table.slots[slot];
    if (s->generation != lease->generation[i])
        return tt_fail(err, TT_ERR_STATE, "expert %u of a lease of %u was released before", i,
                       lease->n);
    if (s->state == TT_SLOT_LOADING)
        TT_TRY(wait_loading(c, slot, part, err));
    else if (s->state != TT_SLOT_READY)
        return tell_failure(c, slot, err);
    *bytes = tt_slot_memory_at(&c->memory, slot);
    return TT_OK;
}

bool tt_expert_cache_ready(const tt_expert_cache *c, const tt_expert_lease *lease, uint32_t i,
                           tt_expert_part part)
{
    if (i >= lease->n || lease->slot[i] == TT_NO_SLOT)
        return true;
    uint32_t slot = lease->slot[i];
    const tt_slot *s = &c->table.slots[slot];
    if (s->generation != lease->generation[i] || s->state != TT_SLOT_LOADING)
        return true;
    return comes_alone(c, part) ? part_done(c, slot, 0) : load_done(c, slot);
}

void tt_expert_cache_release(tt_expert_cache *c, tt_expert_lease *lease)
{
    uint32_t loading = 0;
    if (lease->number == RELEASED)
        return;
    for (uint32_t i = 0; i < lease->n; i++)
        if (c->table.slots[lease->slot[i]].state == TT_SLOT_LOADING)
            c->index[loading++] = i;
    record(c,
           &(tt_cache_event){
               .kind = TT_TRACE_RELEASE, .lease = lease->number, .n = loading, .expert = c->index});
    for (uint32_t i = 0; i < lease->n; i++) {
        tt_slot_unlease(&c->table, lease->slot[i]);
        if (c->slabs_leaving > 0)
            settle_slab(c, lease->slot[i]);
        lease->slot[i] = TT_NO_SLOT;
    }
    lease->number = RELEASED;
}

/* ---- warming up ---- */

static bool demand_in_flight(const tt_expert_cache *c)
{
    for (uint32_t i = 0; i < c->n_flying; i++)
        if (!c->loads[c->flying[i]].warm || c->table.slots[c->flying[i]].users > 0)
            return true;
    return false;
}

/* The hottest expert that is not there and was not tried yet, or TT_NO_SLOT. */
static uint32_t hottest_missing(const tt_expert_cache *c)
{
    uint32_t keys = c->o.n_layers * c->o.n_experts, best = TT_NO_SLOT;
    double most = -(double)INFINITY;
    for (uint32_t k = 0; k < keys; k++) {
        if (c->table.policy.score[k] > most && c->table.where[k] == TT_NO_SLOT &&
            !c->warm.tried[k]) {
            most = c->table.policy.score[k];
            best = k;
        }
    }
    return best;
}

typedef enum warm_result { WARM_STARTED, WARM_NOT_NOW, WARM_OVER } warm_result;

/* Reads one more expert ahead. Over: nothing is left to gain, or the bounds are reached. */
static warm_result warm_one(tt_expert_cache *c)
{
    uint32_t key = hottest_missing(c);
    if (key == TT_NO_SLOT || c->warm.bytes_left < c->o.stride || tt_now() >= c->warm.deadline)
        return WARM_OVER;
    uint32_t slot = tt_slot_room(&c->table, key / c->o.n_experts);
    if (slot == TT_NO_SLOT || c->table.slots[slot].state == TT_SLOT_LOADING)
        return WARM_NOT_NOW;
    if (c->table.slots[slot].state == TT_SLOT_READY &&
        !tt_cache_policy_admits(&c->table.policy, key, c->table.slots[slot].key))
        return WARM_OVER;
    c->warm.tried[key] = 1;
    c->warm.bytes_left -= c->o.stride;
    c->stats.evictions += tt_slot_place(&c->table, slot, key);
    begin_load(c, slot, true);
    tt_status st = TT_OK;
    for (uint32_t part = 0; part < c->n_parts && st == TT_OK; part++)
        st = start_part(c, slot, part, NULL);
    if (st != TT_OK) {
        (void)!end_load(c, slot, st, NULL);
        return WARM_OVER;
    }
    c->stats.warm_reads++;
    c->stats.warm_bytes += c->o.stride;
    return WARM_STARTED;
}

static void warm_step(tt_expert_cache *c)
{
    if (!c->warm.on || demand_in_flight(c))
        return;
    warm_result r = WARM_STARTED;
    while (r == WARM_STARTED && c->warm.in_flight < WARM_DEPTH)
        r = warm_one(c);
    c->warm.on = r != WARM_OVER;
    tt_reader_flush(c->o.reader);
}

void tt_expert_cache_warm(tt_expert_cache *c, double seconds, uint64_t bytes)
{
    c->warm.on = seconds > 0.0 && bytes > 0;
    c->warm.deadline = tt_now() + seconds;
    c->warm.bytes_left = bytes;
    memset(c->warm.tried, 0, (size_t)c->o.n_layers * c->o.n_experts);
}

bool tt_expert_cache_warming(const tt_expert_cache *c)
{
    return c->warm.on;
}

void tt_expert_cache_warm_wait(tt_expert_cache *c)
{
    double waited = c->stats.wait_seconds; /* compute is not waiting */
    for (;;) {
        warm_step(c);
        if (c->n_flying == 0)
            break;
        (void)!end_load(c, c->flying[0], TT_OK, NULL); /* whoever waits will be told */
    }
    c->stats.wait_seconds = waited;
}

void tt_expert_cache_poll(tt_expert_cache *c)
{
    tt_reader_poll(c->o.reader);
    for (uint32_t i = c->n_flying; i-- > 0;)
        if (load_done(c, c->flying[i]))
            (void)!end_load(c, c->flying[i], TT_OK, NULL);
    /* A reader that completes reads in wait only would leave them lying about. */
    if (c->o.reader->ops->poll != NULL)
        warm_step(c);
}

/* ---- heat ---- */

static tt_status check_heat(const tt_expert_cache *c, tt_error *err)
{
    if (c->o.policy == TT_CACHE_LFU_DECAY)
        return TT_OK;
    return tt_fail(err, TT_ERR_UNSUPPORTED, "cache policy %s keeps no heat, use lfu-decay",
                   tt_cache_policy_name(c->o.policy));
}

tt_status tt_expert_cache_get_heat(const tt_expert_cache *c, float *heat, tt_error *err)
{
    TT_TRY(check_heat(c, err));
    for (uint32_t k = 0; k < c->o.n_layers * c->o.n_experts; k++)
        heat[k] = (float)tt_cache_policy_heat(&c->heat, k);
    return TT_OK;
}

tt_status tt_expert_cache_set_heat(tt_expert_cache *c, const float *heat, tt_error *err)
{
    uint32_t keys = c->o.n_layers * c->o.n_experts;
    TT_TRY(check_heat(c, err));
    for (uint32_t k = 0; k < keys; k++)
        if (!(heat[k] <= TT_CACHE_MOST_HEAT))
            return tt_fail(err, TT_ERR_INVALID, "heat of layer %u expert %u is %g",
                           k / c->o.n_experts, k % c->o.n_experts, (double)heat[k]);
    for (uint32_t k = 0; k < keys; k++) {
        tt_cache_policy_set_heat(&c->table.policy, k, (double)heat[k]);
        tt_cache_policy_set_heat(&c->heat, k, (double)heat[k]);
    }
    tt_slot_scores_changed(&c->table);
    return TT_OK;
}

/* ---- the rest ---- */

/* The slab with the fewest leases, of these the one with the fewest experts; of equals the last. */
static tt_slab *cheapest_slab(const tt_expert_cache *c)
{
    tt_slab *best = NULL;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < c->memory.n_slabs; i++) {
        tt_slab *s = &c->memory.slabs[i];
        uint64_t cost = 0;
        if (s->leaving || s->retired)
            continue;
        for (uint32_t k = s->first; k < s->first + s->n; k++)
            cost += ((uint64_t)(c->table.slots[k].users > 0) << 32) +
                    (c->table.slots[k].state != TT_SLOT_EMPTY);
        if (cost <= least) {
            least = cost;
            best = s;
        }
    }
    return best;
}

tt_status tt_expert_cache_retire_slab(tt_expert_cache *c, tt_error *err)
{
    tt_slab *s = cheapest_slab(c);
    if (s == NULL || c->table.active - s->n < c->o.top_k)
        return tt_fail(err, TT_ERR_LIMIT,
                       "%u expert slots are left in one piece, none of them can be given back",
                       c->table.active);
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        if (c->table.slots[i].state == TT_SLOT_LOADING && c->table.slots[i].users == 0)
            (void)!end_load(c, i, TT_OK, NULL);
    tt_slot_retire(&c->table, s->first, s->first + s->n);
    s->leaving = true;
    c->slabs_leaving++;
    settle_slab(c, s->first);
    return TT_OK;
}

uint32_t tt_expert_cache_slab_slots(const tt_expert_cache *c)
{
    return c->memory.per_slab;
}

void tt_expert_cache_set_reader(tt_expert_cache *c, tt_reader *reader)
{
    while (c->n_flying > 0)
        (void)!end_load(c, c->flying[0], TT_OK, NULL); /* whoever waits for it will be told */
    tt_slot_memory_forget(&c->memory, c->o.reader);
    c->o.reader = reader;
    tt_slot_memory_register(&c->memory, reader);
}

uint32_t tt_expert_cache_slots(const tt_expert_cache *c)
{
    return c->table.idle;
}

void tt_expert_cache_get_stats(const tt_expert_cache *c, tt_expert_cache_stats *out)
{
    *out = c->stats;
    out->slots_total = c->table.active;
    out->slabs = c->memory.n_slabs;
    out->slabs_leaving = c->slabs_leaving;
    for (uint32_t i = 0; i < c->memory.n_slabs; i++)
        out->slabs_retired += c->memory.slabs[i].retired;
    out->registered_bytes = c->memory.registered_bytes;
    out->locked_bytes = c->memory.locked_bytes;
    out->lock_errno = c->memory.lock_errno;
}

void tt_expert_cache_on_read(tt_expert_cache *c, void (*reading)(void *ctx), void *ctx)
{
    c->reading = reading;
    c->reading_ctx = ctx;
}

void tt_expert_cache_record(tt_expert_cache *c, const tt_cache_recorder *recorder)
{
    c->recorder = recorder != NULL ? *recorder : (tt_cache_recorder){0};
}
