#include "io/cache_replay.h"

#include <stdlib.h>
#include <string.h>

#include "io/slot_table.h"

/* A lease that the trace holds. */
typedef struct held_lease {
    uint64_t lease;
    uint32_t n;
    uint32_t *slot; /* [n], NULL for one that found no room */
} held_lease;

typedef struct replay {
    const tt_cache_trace *trace;
    tt_slot_table table;
    tt_cache_trace_cursor cursor;
    bool hit[TT_MAX_EXPERTS];
    bool loading[TT_MAX_EXPERTS];
    held_lease held[TT_TRACE_MAX_LEASES];
    uint32_t n_held;
    float *next_use; /* [picks], for Belady */
    uint64_t pick;   /* of the next ask's first expert */
    tt_replay_result r;
} replay;

/* Where each pick's expert is asked next, counted in asks; far beyond the end for never. */
static tt_status find_next_uses(replay *p, tt_error *err)
{
    const tt_cache_trace_info *i = &p->trace->info;
    size_t picks = p->trace->picks, keys = (size_t)i->n_layers * i->n_experts;
    uint32_t *key = malloc((picks > 0 ? picks : 1) * sizeof *key);
    float *when = malloc((picks > 0 ? picks : 1) * sizeof *when);
    float *next = malloc(keys * sizeof *next);
    tt_cache_event e;
    size_t at = 0;
    if (key == NULL || when == NULL || next == NULL) {
        free(key);
        free(when);
        free(next);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the uses of %zu experts", picks);
    }
    tt_cache_trace_rewind(&p->cursor, p->trace);
    while (tt_cache_trace_next(&p->cursor, &e)) {
        for (uint32_t k = 0; e.kind == TT_TRACE_ASK && k < e.n; k++, at++) {
            key[at] = e.layer * i->n_experts + e.expert[k];
            when[at] = (float)e.lease;
        }
    }
    for (size_t k = 0; k < keys; k++)
        next[k] = 1e30f;
    while (at-- > 0) {
        float now = when[at];
        when[at] = next[key[at]];
        next[key[at]] = now;
    }
    free(key);
    free(next);
    p->next_use = when;
    return TT_OK;
}

static void finish(void *ctx, uint32_t slot)
{
    replay *p = ctx;
    tt_slot_loaded(&p->table, slot, true);
}

/* See tt_expert_lease.weight. */
static bool is_guess(const tt_cache_event *e)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->weight == NULL || e->weight[i] != 0.0f)
            return false;
    return e->n > 0;
}

static tt_status play_ask(replay *p, const tt_cache_event *e, tt_error *err)
{
    held_lease *h = &p->held[p->n_held++];
    *h = (held_lease){.lease = e->lease, .n = e->n};
    h->slot = malloc((e->n > 0 ? e->n : 1) * sizeof *h->slot);
    if (h->slot == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a lease of %u experts", e->n);
    tt_slot_asked a = {.layer = e->layer,
                       .n = e->n,
                       .expert = e->expert,
                       .weight = p->next_use != NULL ? p->next_use + p->pick : e->weight,
                       .slot = h->slot,
                       .hit = p->hit};
    bool guess = is_guess(e);
    p->pick += e->n;
    p->r.asks += guess ? 0 : e->n;
    if (!e->prefill && !guess)
        p->r.decode_asks += e->n;
    if (!tt_slot_ask(&p->table, &a, finish, p)) {
        p->r.refused += guess ? 0 : e->n;
        p->r.misses += guess ? 0 : e->n;
        free(h->slot);
        h->slot = NULL;
        return TT_OK;
    }
    p->r.evictions += a.evictions;
    if (guess)
        return TT_OK;
    p->r.hits += a.hits;
    p->r.joins += a.joins;
    p->r.misses += e->n - a.hits - a.joins;
    if (!e->prefill)
        p->r.decode_hits += a.hits;
    return TT_OK;
}

static void play_loaded(replay *p, const tt_cache_event *e)
{
    uint32_t slot = p->table.where[tt_slot_key(&p->table, e->layer, e->expert[0])];
    if (slot != TT_NO_SLOT && p->table.slots[slot].state == TT_SLOT_LOADING)
        tt_slot_loaded(&p->table, slot, e->kind == TT_TRACE_READY);
}

static void play_release(replay *p, const tt_cache_event *e)
{
    uint32_t at = p->n_held;
    while (p->held[at - 1].lease != e->lease)
        at--;
    held_lease h = p->held[--at];
    p->held[at] = p->held[--p->n_held];
    if (h.slot == NULL)
        return;
    for (uint32_t i = 0; i < e->n; i++)
        p->loading[e->expert[i]] = true;
    for (uint32_t i = 0; i < h.n; i++) {
        if (p->table.slots[h.slot[i]].state == TT_SLOT_LOADING && !p->loading[i])
            tt_slot_loaded(&p->table, h.slot[i], true);
        tt_slot_unlease(&p->table, h.slot[i]);
    }
    for (uint32_t i = 0; i < e->n; i++)
        p->loading[e->expert[i]] = false;
    free(h.slot);
}

static tt_status play(replay *p, tt_error *err)
{
    tt_cache_event e;
    tt_status st = TT_OK;
    tt_cache_trace_rewind(&p->cursor, p->trace);
    while (st == TT_OK && tt_cache_trace_next(&p->cursor, &e)) {
        switch (e.kind) {
        case TT_TRACE_ASK:
            st = play_ask(p, &e, err);
            break;
        case TT_TRACE_READY:
        case TT_TRACE_FAILED:
            play_loaded(p, &e);
            break;
        case TT_TRACE_RELEASE:
            play_release(p, &e);
            break;
        }
    }
    return st;
}

tt_status tt_cache_replay(const tt_cache_trace *trace, const tt_replay_options *o,
                          tt_replay_result *out, tt_error *err)
{
    const tt_cache_trace_info *i = &trace->info;
    if (o->slots < 1 || o->slots > (uint64_t)i->n_layers * i->n_experts)
        return tt_fail(err, TT_ERR_INVALID, "%u slots for a replay, must be 1 to %u (all experts)",
                       o->slots, i->n_layers * i->n_experts);
    tt_slot_table_options to = {.n_layers = i->n_layers,
                                .n_experts = i->n_experts,
                                .top_k = i->top_k,
                                .n_slots = o->slots,
                                .policy = o->policy,
                                .half_life = o->half_life};
    replay *p = calloc(1, sizeof *p);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a replay");
    p->trace = trace;
    tt_status st = tt_slot_table_init(&p->table, &to, err);
    if (st == TT_OK && o->policy == TT_CACHE_BELADY)
        st = find_next_uses(p, err);
    if (st == TT_OK)
        st = play(p, err);
    if (st == TT_OK)
        *out = p->r;
    for (uint32_t k = 0; k < p->n_held; k++)
        free(p->held[k].slot);
    free(p->next_use);
    tt_slot_table_free(&p->table);
    free(p);
    return st;
}
