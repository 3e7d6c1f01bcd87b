#include "io/slot_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOT_FOR_GRABS ((double)INFINITY)

static bool count_keys(const tt_slot_table_options *o, uint64_t *keys)
{
    *keys = (uint64_t)o->n_layers * o->n_experts;
    return *keys < TT_NO_SLOT && o->n_slots < TT_NO_SLOT;
}

uint64_t tt_slot_table_cost(const tt_slot_table_options *o)
{
    uint64_t keys;
    if (!count_keys(o, &keys))
        return UINT64_MAX;
    return (uint64_t)o->n_slots * (sizeof(tt_slot) + sizeof(double) + sizeof(uint32_t)) +
           keys * sizeof(uint32_t) + (uint64_t)o->n_layers * 2 * sizeof(uint32_t) +
           tt_cache_policy_cost((uint32_t)keys);
}

/* Fills the stack of free slots so that the lowest is taken first. */
static void stack_free(tt_slot_table *t)
{
    t->n_free = 0;
    for (uint32_t i = t->o.n_slots; i-- > 0;)
        if (t->slots[i].state == TT_SLOT_EMPTY && t->slots[i].users == 0)
            t->free[t->n_free++] = i;
}

static double half_life(const tt_slot_table *t)
{
    return t->o.half_life != 0.0 ? t->o.half_life
                                 : tt_cache_half_life(t->active, t->o.n_layers, t->o.top_k);
}

/* Belady's bound knows no floors. */
static bool floors_hold(const tt_slot_table *t)
{
    return t->active >= ((uint64_t)t->o.n_layers + 1) * t->o.top_k &&
           t->o.policy != TT_CACHE_BELADY;
}

tt_status tt_slot_table_init(tt_slot_table *t, const tt_slot_table_options *o, tt_error *err)
{
    uint64_t keys;
    if (!count_keys(o, &keys))
        return tt_fail(err, TT_ERR_LIMIT, "%u expert slots for %u experts in each of %u layers",
                       o->n_slots, o->n_experts, o->n_layers);
    tt_slot_table q = {.o = *o, .active = o->n_slots, .idle = o->n_slots};
    q.floors = floors_hold(&q);
    q.slots = calloc(o->n_slots, sizeof *q.slots);
    q.keep = malloc(o->n_slots * sizeof *q.keep);
    q.free = calloc(o->n_slots, sizeof *q.free);
    q.where = malloc(keys * sizeof *q.where);
    q.held = calloc(o->n_layers, sizeof *q.held);
    q.first = malloc(o->n_layers * sizeof *q.first);
    tt_status st = TT_OK;
    if (q.slots == NULL || q.keep == NULL || q.free == NULL || q.where == NULL || q.held == NULL ||
        q.first == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the table of %u expert slots",
                     o->n_slots);
    else
        st = tt_cache_policy_init(&q.policy, o->policy, (uint32_t)keys, half_life(&q), err);
    if (st != TT_OK) {
        tt_slot_table_free(&q);
        return st;
    }
    for (uint32_t i = 0; i < o->n_slots; i++)
        q.keep[i] = NOT_FOR_GRABS;
    for (uint64_t k = 0; k < keys; k++)
        q.where[k] = TT_NO_SLOT;
    for (uint32_t l = 0; l < o->n_layers; l++)
        q.first[l] = TT_NO_SLOT;
    stack_free(&q);
    *t = q;
    return TT_OK;
}

void tt_slot_table_free(tt_slot_table *t)
{
    free(t->slots);
    free(t->keep);
    free(t->free);
    free(t->where);
    free(t->held);
    free(t->first);
    tt_cache_policy_free(&t->policy);
    *t = (tt_slot_table){0};
}

/* ---- who may go ---- */

static bool at_floor(const tt_slot_table *t, uint32_t layer)
{
    return t->floors && t->held[layer] <= t->o.top_k;
}

static bool evictable(const tt_slot *s)
{
    return s->state == TT_SLOT_READY && s->users == 0 && !s->leaving;
}

/* keep[] follows from a slot's state, its users, its layer's floor and its expert's score. */
static void refresh(tt_slot_table *t, uint32_t slot)
{
    const tt_slot *s = &t->slots[slot];
    t->keep[slot] = evictable(s) && !at_floor(t, tt_slot_layer(t, slot)) ? t->policy.score[s->key]
                                                                         : NOT_FOR_GRABS;
}

static void refresh_layer(tt_slot_table *t, uint32_t layer)
{
    for (uint32_t i = t->first[layer]; i != TT_NO_SLOT; i = t->slots[i].next)
        refresh(t, i);
}

static void link_slot(tt_slot_table *t, uint32_t slot)
{
    uint32_t layer = tt_slot_layer(t, slot);
    tt_slot *s = &t->slots[slot];
    s->prev = TT_NO_SLOT;
    s->next = t->first[layer];
    if (s->next != TT_NO_SLOT)
        t->slots[s->next].prev = slot;
    t->first[layer] = slot;
    t->where[s->key] = slot;
    t->held[layer]++;
    if (t->floors && t->held[layer] == t->o.top_k + 1)
        refresh_layer(t, layer);
}

static void unlink_slot(tt_slot_table *t, uint32_t slot)
{
    uint32_t layer = tt_slot_layer(t, slot);
    const tt_slot *s = &t->slots[slot];
    if (s->prev != TT_NO_SLOT)
        t->slots[s->prev].next = s->next;
    else
        t->first[layer] = s->next;
    if (s->next != TT_NO_SLOT)
        t->slots[s->next].prev = s->prev;
    t->where[s->key] = TT_NO_SLOT;
    t->held[layer]--;
    if (t->floors && t->held[layer] == t->o.top_k)
        refresh_layer(t, layer);
}

/* ---- leases ---- */

void tt_slot_lease(tt_slot_table *t, uint32_t slot)
{
    tt_slot *s = &t->slots[slot];
    if (s->users++ == 0 && !s->leaving)
        t->idle--;
    t->keep[slot] = NOT_FOR_GRABS;
}

static void retire_one(tt_slot_table *t, uint32_t slot)
{
    tt_slot *s = &t->slots[slot];
    if (s->state == TT_SLOT_READY)
        unlink_slot(t, slot);
    s->state = TT_SLOT_RETIRED;
    s->leaving = false;
    t->keep[slot] = NOT_FOR_GRABS;
}

void tt_slot_unlease(tt_slot_table *t, uint32_t slot)
{
    tt_slot *s = &t->slots[slot];
    if (--s->users > 0)
        return;
    if (s->leaving) {
        /* A load that nobody waits for any more retires when it ends. */
        if (s->state != TT_SLOT_LOADING)
            retire_one(t, slot);
        return;
    }
    t->idle++;
    if (s->state == TT_SLOT_EMPTY)
        t->free[t->n_free++] = slot;
    else
        refresh(t, slot);
}

/* ---- making room ---- */

static uint32_t better(const tt_slot_table *t, uint32_t a, uint32_t b)
{
    if (a == TT_NO_SLOT || b == TT_NO_SLOT)
        return a == TT_NO_SLOT ? b : a;
    return tt_cache_policy_before(&t->policy, t->slots[b].key, t->slots[a].key) ? b : a;
}

/* The one pass: least score, of equal ones the one touched longest ago. */
static uint32_t least_kept(const tt_slot_table *t)
{
    const double *keep = t->keep;
    uint32_t at = TT_NO_SLOT;
    double least = NOT_FOR_GRABS;
    for (uint32_t i = 0; i < t->o.n_slots; i++) {
        if (keep[i] < least) {
            least = keep[i];
            at = i;
        } else if (keep[i] == least && at != TT_NO_SLOT) {
            at = better(t, at, i);
        }
    }
    return at;
}

uint32_t tt_slot_room(const tt_slot_table *t, uint32_t layer)
{
    if (t->n_free > 0)
        return t->free[t->n_free - 1];
    uint32_t at = least_kept(t);
    /* A layer at its floor may still exchange its own. */
    if (at_floor(t, layer))
        for (uint32_t i = t->first[layer]; i != TT_NO_SLOT; i = t->slots[i].next)
            if (evictable(&t->slots[i]))
                at = better(t, at, i);
    if (at != TT_NO_SLOT)
        return at;
    /* All that is left is some other layer's floor, or a load that nobody waits for. */
    uint32_t loading = TT_NO_SLOT;
    for (uint32_t i = 0; i < t->o.n_slots; i++) {
        const tt_slot *s = &t->slots[i];
        if (evictable(s))
            at = better(t, at, i);
        else if (s->state == TT_SLOT_LOADING && s->users == 0 && !s->leaving)
            loading = better(t, loading, i);
    }
    return at != TT_NO_SLOT ? at : loading;
}

static void drop_free(tt_slot_table *t, uint32_t slot)
{
    for (uint32_t i = t->n_free; i-- > 0;) {
        if (t->free[i] == slot) {
            t->free[i] = t->free[--t->n_free];
            return;
        }
    }
}

bool tt_slot_place(tt_slot_table *t, uint32_t slot, uint32_t key)
{
    tt_slot *s = &t->slots[slot];
    bool evicted = s->state == TT_SLOT_READY;
    if (evicted)
        unlink_slot(t, slot);
    else
        drop_free(t, slot);
    s->key = key;
    s->generation++;
    s->state = TT_SLOT_LOADING;
    t->keep[slot] = NOT_FOR_GRABS;
    link_slot(t, slot);
    return evicted;
}

void tt_slot_loaded(tt_slot_table *t, uint32_t slot, bool ok)
{
    tt_slot *s = &t->slots[slot];
    if (ok) {
        s->state = TT_SLOT_READY;
        refresh(t, slot);
    } else {
        unlink_slot(t, slot);
        s->state = TT_SLOT_EMPTY;
        t->keep[slot] = NOT_FOR_GRABS;
        if (s->users == 0 && !s->leaving)
            t->free[t->n_free++] = slot;
    }
    if (s->users == 0 && s->leaving)
        retire_one(t, slot);
}

/* ---- asking ---- */

/* Whether slots without users do for those that are not there. */
static bool enough(const tt_slot_table *t, const tt_slot_asked *a)
{
    uint32_t missing = 0, reused = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t slot = t->where[tt_slot_key(t, a->layer, a->expert[i])];
        missing += slot == TT_NO_SLOT;
        reused += slot != TT_NO_SLOT && t->slots[slot].users == 0 && !t->slots[slot].leaving;
    }
    return missing <= t->idle - reused;
}

static void tell_policy(tt_slot_table *t, tt_slot_asked *a)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->n; i++)
        sum += a->weight != NULL ? (double)a->weight[i] : 1.0;
    a->guess = a->n > 0 && sum == 0.0;
    if (a->guess)
        return;
    /* A token's picks over all layers weigh one token. */
    tt_cache_policy_advance(&t->policy, sum / t->o.top_k / t->o.n_layers);
    for (uint32_t i = 0; i < a->n; i++)
        tt_slot_touch(t, tt_slot_key(t, a->layer, a->expert[i]),
                      a->weight != NULL ? (double)a->weight[i] : 1.0);
}

bool tt_slot_ask(tt_slot_table *t, tt_slot_asked *a, tt_slot_finish_fn finish, void *ctx)
{
    a->hits = a->joins = a->evictions = 0;
    if (!enough(t, a))
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t slot = t->where[tt_slot_key(t, a->layer, a->expert[i])];
        a->slot[i] = slot;
        a->hit[i] = slot != TT_NO_SLOT && t->slots[slot].state == TT_SLOT_READY;
        if (slot == TT_NO_SLOT)
            continue;
        tt_slot_lease(t, slot);
        a->hits += a->hit[i];
        a->joins += !a->hit[i];
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->slot[i] != TT_NO_SLOT)
            continue;
        uint32_t slot = tt_slot_room(t, a->layer);
        if (t->slots[slot].state == TT_SLOT_LOADING)
            finish(ctx, slot);
        a->evictions += tt_slot_place(t, slot, tt_slot_key(t, a->layer, a->expert[i]));
        tt_slot_lease(t, slot);
        a->slot[i] = slot;
    }
    tell_policy(t, a);
    return true;
}

void tt_slot_touch(tt_slot_table *t, uint32_t key, double weight)
{
    tt_cache_policy_touch(&t->policy, key, weight);
    if (t->where[key] != TT_NO_SLOT)
        refresh(t, t->where[key]);
}

void tt_slot_scores_changed(tt_slot_table *t)
{
    for (uint32_t l = 0; l < t->o.n_layers; l++)
        refresh_layer(t, l);
}

uint32_t tt_slot_retire(tt_slot_table *t, uint32_t begin, uint32_t end)
{
    uint32_t gone = 0;
    for (uint32_t i = begin; i < end; i++) {
        tt_slot *s = &t->slots[i];
        if (s->state == TT_SLOT_RETIRED || s->leaving)
            continue;
        t->active--;
        if (s->users > 0 || s->state == TT_SLOT_LOADING) {
            t->idle -= s->users == 0;
            s->leaving = true;
            t->keep[i] = NOT_FOR_GRABS;
            continue;
        }
        t->idle--;
        gone += s->state == TT_SLOT_READY;
        retire_one(t, i);
    }
    t->floors = floors_hold(t);
    tt_cache_policy_set_half_life(&t->policy, half_life(t));
    stack_free(t);
    tt_slot_scores_changed(t);
    return gone;
}
