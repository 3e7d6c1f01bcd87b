/* expert_cache.h: keeps the experts that are worth it in memory and fetches the rest.
 *
 * Owns:      the loads in flight, leases, warming up, giving memory back, the counters.
 * Not here:  which experts to use and what is done with them (model/moe.c), how bytes are read
 *            (io/reader.h), who goes first (io/slot_table.h, io/cache_policy.h).
 * Laws:      (1) a slot under lease is never reused;  (2) a part's bytes are read only when all of
 *            that part is there;  (3) an expert that is being loaded is joined, never read twice;
 *            (4) an ask takes at most the slots that other leases leave, more is refused before
 *            anything changes;  (5) a failed read fails the ask that wanted it and leaves the slot
 *            EMPTY: the next ask reads again;  (6) no allocation after create;  (7) with checksums
 *            a part counts as there when the whole expert is there and matches.
 * States:    EMPTY -ask-> LOADING -read ok-> READY -evict-> EMPTY ; LOADING -read failed-> EMPTY.
 *            A lease counts users; eviction takes only slots without.
 * Threads:   one caller thread; a reader may complete loads on its own threads.
 */
#ifndef TT_IO_EXPERT_CACHE_H
#define TT_IO_EXPERT_CACHE_H

#include "base/limits.h"
#include "base/pool.h"
#include "base/status.h"
#include "io/cache_policy.h"
#include "io/cache_trace.h"
#include "io/reader.h"

typedef struct tt_expert_cache tt_expert_cache;

typedef struct tt_expert_cache_options {
    uint32_t n_layers;              /* layers that have experts, numbered 0..n_layers-1 here */
    uint32_t n_experts;             /* a layer */
    uint32_t top_k;                 /* a token's experts in a layer */
    uint32_t slots_total;           /* for all layers: top_k..n_layers * n_experts */
    uint64_t stride, payload_bytes; /* bytes read an expert (stride), bytes that mean something */
    uint64_t split;      /* where the down part begins, rounded up to TT_IO_ALIGN; 0: one part */
    tt_reader *reader;   /* borrowed; file number = layer */
    const uint32_t *crc; /* [n_layers * n_experts] CRC-32C, or NULL: reads are not verified */
    tt_cache_policy_kind policy; /* TT_CACHE_LFU_DECAY is the default */
    double half_life;            /* tokens; 0: as suits the slots */
    uint64_t slab_bytes;         /* 0: chosen (io/slot_memory.h) */
    tt_pool *touch;              /* borrowed for create: its threads touch the slots; NULL: none */
    bool lock;                   /* keep the slots from being swapped, as far as that is let */
} tt_expert_cache_options;

/* Experts of one layer under lease. The caller provides the storage (decode allocates nothing) and
 * fills the first five; several leases may be held at once. */
typedef struct tt_expert_lease {
    uint32_t layer, n;
    bool prefill;         /* counted apart */
    const float *weight;  /* [n] picks in decode, picks / rows in prefill; NULL: 1 each. All 0: a
                             guess, which the policy learns nothing from and no counter of asks,
                             hits, misses and joins knows; what it reads counts as guessed too */
    uint32_t *expert;     /* [n] ids as asked */
    uint32_t *slot;       /* [n] */
    uint32_t *generation; /* [n] */
    bool *hit;            /* [n] READY when asked */
    uint64_t number;      /* of the ask */
} tt_expert_lease;

typedef enum tt_expert_part {
    TT_EXPERT_GATE_UP, /* the bytes before the split */
    TT_EXPERT_ALL
} tt_expert_part;

/* asks counts experts of asks that found room: hits (READY) + misses (read started) + joins
 * (LOADING). */
typedef struct tt_expert_cache_stats {
    uint64_t asks, hits, misses, joins, evictions, bytes_read, crc_failures;
    uint64_t prefill_asks, prefill_hits; /* of the above, with `prefill` */
    uint64_t guessed;                    /* reads started on a guess; bytes_read counts theirs */
    double wait_seconds;
    uint64_t warm_reads, warm_bytes, warm_failures; /* not in misses and bytes_read */
    uint32_t slots_total;                           /* in service */
    uint32_t slabs, slabs_leaving, slabs_retired;
    uint64_t registered_bytes, locked_bytes;
    int lock_errno; /* why not everything is locked, 0: it is, or nobody asked */
} tt_expert_cache_stats;

/* Bytes that create will take for slots and tables; UINT64_MAX when they cannot be counted. */
uint64_t tt_expert_cache_cost(const tt_expert_cache_options *o);
TT_MUST_CHECK tt_status tt_expert_cache_create(const tt_expert_cache_options *o,
                                               tt_expert_cache **out, tt_error *err);
void tt_expert_cache_close(tt_expert_cache **c);

/* Takes a lease on lease->expert[0..n) of lease->layer (distinct ids) and starts the reads of those
 * that are not there, in the order given, everything before the split first. Fills slot[],
 * generation[] and hit[]. On failure no lease is held and these say nothing. TT_ERR_LIMIT when
 * other leases leave too few slots. */
TT_MUST_CHECK tt_status tt_expert_cache_ask(tt_expert_cache *c, tt_expert_lease *lease,
                                            tt_error *err);
/* Waits until that part of expert i of the lease is there and returns the expert's bytes, valid
 * until release. A read that failed is reported here; the lease must still be released. */
TT_MUST_CHECK tt_status tt_expert_cache_wait(tt_expert_cache *c, const tt_expert_lease *lease,
                                             uint32_t i, tt_expert_part part, const void **bytes,
                                             tt_error *err);
void tt_expert_cache_release(tt_expert_cache *c, tt_expert_lease *lease);

/* Lets reads go on and takes note of those that ended; warms up when nothing else is read. Does not
 * wait. */
void tt_expert_cache_poll(tt_expert_cache *c);
/* Whether a wait for this would not wait, failed reads included; as of the last poll. */
bool tt_expert_cache_ready(const tt_expert_cache *c, const tt_expert_lease *lease, uint32_t i,
                           tt_expert_part part);

/* Reads go through `reader` (borrowed) from now on; what is in flight is finished first. */
void tt_expert_cache_set_reader(tt_expert_cache *c, tt_reader *reader);
/* The most experts that one ask may take now: the slots without a lease. */
uint32_t tt_expert_cache_slots(const tt_expert_cache *c);
void tt_expert_cache_get_stats(const tt_expert_cache *c, tt_expert_cache_stats *out);
/* Calls `reading` at every ask that has to read, or to wait for what is read; NULL: nobody. */
void tt_expert_cache_on_read(tt_expert_cache *c, void (*reading)(void *ctx), void *ctx);
/* Tells `recorder` (copied; NULL: nobody) what is asked from now on. */
void tt_expert_cache_record(tt_expert_cache *c, const tt_cache_recorder *recorder);

/* ---- heat ---- */

/* How long uses are remembered for it, whatever the policy forgets: a run begins with what its
 * model is asked in general. */
#define TT_HEAT_HALF_LIFE 512.0 /* tokens */

/* [n_layers * n_experts] log2 of each expert's uses a token of late, -INFINITY for one never used;
 * what a heat profile keeps. TT_ERR_UNSUPPORTED under another policy than lfu-decay. */
TT_MUST_CHECK tt_status tt_expert_cache_get_heat(const tt_expert_cache *c, float *heat,
                                                 tt_error *err);
TT_MUST_CHECK tt_status tt_expert_cache_set_heat(tt_expert_cache *c, const float *heat,
                                                 tt_error *err);
/* From now on, for `seconds` and `bytes` at most, polls read the hottest experts that are not there
 * into free slots, or in place of what is worth less, while no ask waits for a read. 0 and 0: no
 * longer. Ends by itself when nothing is left to gain. */
void tt_expert_cache_warm(tt_expert_cache *c, double seconds, uint64_t bytes);
bool tt_expert_cache_warming(const tt_expert_cache *c);
/* The same at once, on the caller's time: until it has ended. */
void tt_expert_cache_warm_wait(tt_expert_cache *c);

/* ---- memory pressure ---- */

/* Takes one slab out of service for good: its experts go, those under lease when their lease does,
 * and then its pages are given back. TT_ERR_LIMIT when the slots that stay would not do for a
 * layer's token. */
TT_MUST_CHECK tt_status tt_expert_cache_retire_slab(tt_expert_cache *c, tt_error *err);
/* Slots of a slab, of the largest when they differ. */
uint32_t tt_expert_cache_slab_slots(const tt_expert_cache *c);

#endif
