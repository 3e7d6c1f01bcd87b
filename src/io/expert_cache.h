/* expert_cache.h: keeps recently used experts in memory and fetches the rest.
 *
 * Owns:      the slots, the slot table, the loads in flight, the counters.
 * Not here:  which experts to use and what is done with them (model/moe.c), how bytes are read
 *            (io/reader.h).
 * Laws:      (1) a slot under lease is never reused;  (2) a slot's bytes are read only in READY;
 *            (3) an expert that is being loaded is joined, never read twice;  (4) at most `slots`
 *            experts of a layer are under lease at once, more in one ask is refused;  (5) a failed
 *            read fails the ask that wanted it and leaves the slot EMPTY: the next ask reads
 *            again;  (6) no allocation after create.
 * States:    EMPTY -ask-> LOADING -read ok-> READY -evict-> EMPTY ; LOADING -read failed-> EMPTY.
 *            In READY the bytes may be trusted; a lease counts users, eviction takes only READY
 *            slots without users.
 * Threads:   one caller thread; a reader may complete loads on its own threads.
 */
#ifndef TT_IO_EXPERT_CACHE_H
#define TT_IO_EXPERT_CACHE_H

#include "base/limits.h"
#include "base/status.h"
#include "io/reader.h"

typedef struct tt_expert_cache tt_expert_cache;

typedef struct tt_expert_cache_options {
    uint32_t n_layers;              /* layers that have experts, numbered 0..n_layers-1 here */
    uint32_t n_experts;             /* a layer */
    uint32_t top_k;                 /* least slots a layer */
    uint32_t slots_per_layer;       /* top_k..n_experts */
    uint64_t stride, payload_bytes; /* bytes read an expert (stride), bytes that mean something */
    tt_reader *reader;              /* borrowed; file number = layer */
    const uint32_t *crc; /* [n_layers * n_experts] CRC-32C, or NULL: reads are not verified */
} tt_expert_cache_options;

/* Experts of one layer under lease. The caller provides the storage (decode allocates nothing). */
typedef struct tt_expert_lease {
    uint32_t layer, n;
    uint32_t *expert; /* [n] ids as asked */
    uint32_t *slot;   /* [n] */
    bool *hit;        /* [n] READY when asked */
} tt_expert_lease;

/* asks counts experts of asks that succeeded: hits (READY) + misses (read started) + joins
 * (LOADING). */
typedef struct tt_expert_cache_stats {
    uint64_t asks, hits, misses, joins, evictions, bytes_read, crc_failures;
    double wait_seconds;
} tt_expert_cache_stats;

/* Bytes that create will take for slots and tables; UINT64_MAX when they cannot be counted. */
uint64_t tt_expert_cache_cost(const tt_expert_cache_options *o);
TT_MUST_CHECK tt_status tt_expert_cache_create(const tt_expert_cache_options *o,
                                               tt_expert_cache **out, tt_error *err);
void tt_expert_cache_close(tt_expert_cache **c);

/* Takes a lease on lease->expert[0..n) of lease->layer (distinct ids, n <= slots) and starts the
 * reads of those that are not READY, in the order given. Fills slot[] and hit[]. On failure no
 * lease is held and slot[] and hit[] say nothing. Fails with TT_ERR_LIMIT when other leases on the
 * layer leave too few slots. */
TT_MUST_CHECK tt_status tt_expert_cache_ask(tt_expert_cache *c, tt_expert_lease *lease,
                                            tt_error *err);
/* Waits until expert i of the lease is READY and returns its bytes, valid until release. A read
 * that failed is reported here; the lease must still be released. */
TT_MUST_CHECK tt_status tt_expert_cache_wait(tt_expert_cache *c, const tt_expert_lease *lease,
                                             uint32_t i, const void **bytes, tt_error *err);
void tt_expert_cache_release(tt_expert_cache *c, tt_expert_lease *lease);
/* Reads go through `reader` (borrowed) from now on; what is in flight is finished first. */
void tt_expert_cache_set_reader(tt_expert_cache *c, tt_reader *reader);
/* Of a layer: the most that one ask may take. */
uint32_t tt_expert_cache_slots(const tt_expert_cache *c);
void tt_expert_cache_get_stats(const tt_expert_cache *c, tt_expert_cache_stats *out);

#endif
