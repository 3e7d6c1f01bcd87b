/* slot_table.h: which expert stands in which slot, who uses it, and which one goes next.
 *
 * Owns:      the states of the slots, the way from expert to slot, users, floors, the policy.
 * Not here:  memory and reads (expert_cache.c), traces (cache_replay.h): both play on this table,
 *            which is why a replay counts exactly what the engine counts.
 * Laws:      (1) any slot may hold any expert of any layer;  (2) a slot with users never changes
 *            its expert;  (3) with at least (layers + 1) * top_k slots a layer keeps its last top_k
 *            experts while another layer can find any other slot: the floor. Below, where slots
 *            would not do for one token, there is no floor and what is used least makes room, so
 *            that experts in use stay;  (4) no allocation after init;  (5) a victim is found by
 *            one pass over an array of scores.
 * States:    EMPTY -place-> LOADING -loaded-> READY -place-> LOADING ; LOADING -failed-> EMPTY ;
 *            every state without users -> RETIRED, for good.
 * Threads:   one at a time.
 */
#ifndef TT_IO_SLOT_TABLE_H
#define TT_IO_SLOT_TABLE_H

#include "base/limits.h"
#include "base/status.h"
#include "io/cache_policy.h"

#define TT_NO_SLOT UINT32_MAX

typedef enum tt_slot_state {
    TT_SLOT_EMPTY,
    TT_SLOT_LOADING,
    TT_SLOT_READY,
    TT_SLOT_RETIRED
} tt_slot_state;

typedef struct tt_slot {
    tt_slot_state state;
    bool leaving;        /* retires when its last user goes */
    uint32_t users;      /* leases on it */
    uint32_t generation; /* experts it has held: a lease of an older one is stale */
    uint32_t key;        /* layer * n_experts + expert; after a failed read the one that failed */
    uint32_t prev, next; /* slots of the same layer, while LOADING or READY */
} tt_slot;

typedef struct tt_slot_table_options {
    uint32_t n_layers, n_experts, top_k, n_slots;
    tt_cache_policy_kind policy;
    double half_life; /* of lfu-decay, tokens; 0: as suits the slots in service */
} tt_slot_table_options;

typedef struct tt_slot_table {
    tt_slot_table_options o;
    tt_cache_policy policy;
    bool floors;
    uint32_t active; /* slots neither retired nor leaving */
    uint32_t idle;   /* of these, without users: the most that an ask may take */
    tt_slot *slots;  /* [n_slots] */
    double *keep;    /* [n_slots] score of what may be evicted, INFINITY for the rest */
    uint32_t *free;  /* [n_slots] stack of EMPTY slots without users */
    uint32_t n_free;
    uint32_t *where; /* [n_layers * n_experts] slot, or TT_NO_SLOT */
    uint32_t *held;  /* [n_layers] slots LOADING or READY */
    uint32_t *first; /* [n_layers] head of the layer's slots */
} tt_slot_table;

/* Bytes that init takes; UINT64_MAX when they cannot be counted. */
uint64_t tt_slot_table_cost(const tt_slot_table_options *o);
TT_MUST_CHECK tt_status tt_slot_table_init(tt_slot_table *t, const tt_slot_table_options *o,
                                           tt_error *err);
void tt_slot_table_free(tt_slot_table *t);

static inline uint32_t tt_slot_key(const tt_slot_table *t, uint32_t layer, uint32_t expert)
{
    return layer * t->o.n_experts + expert;
}
static inline uint32_t tt_slot_layer(const tt_slot_table *t, uint32_t slot)
{
    return t->slots[slot].key / t->o.n_experts;
}
static inline uint32_t tt_slot_expert(const tt_slot_table *t, uint32_t slot)
{
    return t->slots[slot].key % t->o.n_experts;
}

void tt_slot_lease(tt_slot_table *t, uint32_t slot);
void tt_slot_unlease(tt_slot_table *t, uint32_t slot);

/* The slot that an expert of `layer` would take: EMPTY, else the READY one that goes first, else
 * one LOADING without users, whose load must end before it is placed in. TT_NO_SLOT: every slot is
 * under lease. */
uint32_t tt_slot_room(const tt_slot_table *t, uint32_t layer);
/* Gives the slot of tt_slot_room, EMPTY or READY, to another expert, which becomes LOADING. True
 * when one was evicted. */
bool tt_slot_place(tt_slot_table *t, uint32_t slot, uint32_t key);
/* Ends LOADING: READY, or EMPTY after a failure. */
void tt_slot_loaded(tt_slot_table *t, uint32_t slot, bool ok);

/* One ask: what is there is leased first, so that making room for the rest cannot evict it; the
 * rest are placed in the order given and leased; then the policy is told. `expert` holds distinct
 * ids. `weight` NULL: 1 each. `finish` ends the load of a slot that nobody waits for any more (by
 * tt_slot_loaded). */
typedef struct tt_slot_asked {
    uint32_t layer, n;
    const uint32_t *expert;
    const float *weight;
    uint32_t *slot;                  /* [n] written */
    bool *hit;                       /* [n] written: READY when asked */
    uint32_t hits, joins, evictions; /* written */
    bool guess;                      /* written: every weight is 0; the policy is not told */
} tt_slot_asked;
typedef void (*tt_slot_finish_fn)(void *ctx, uint32_t slot);
/* False, with nothing changed, when other leases leave too few slots. */
TT_MUST_CHECK bool tt_slot_ask(tt_slot_table *t, tt_slot_asked *a, tt_slot_finish_fn finish,
                               void *ctx);

/* Tells the policy that an expert was used, wherever it is. */
void tt_slot_touch(tt_slot_table *t, uint32_t key, double weight);
/* After scores were set from outside: brings the table in line. */
void tt_slot_scores_changed(tt_slot_table *t);

/* Takes slots [begin, end) out of service; those under lease leave when the lease does. None may be
 * LOADING without users. Returns how many READY experts went at once. */
uint32_t tt_slot_retire(tt_slot_table *t, uint32_t begin, uint32_t end);

#endif
