/* cache_replay.h: plays a trace against a number of slots and a policy.
 *
 * Owns:      counts; the next uses that Belady's bound needs.
 * Not here:  the decisions (slot_table.h, the same that the engine takes), the file
 *            (cache_trace.h), bytes.
 * Laws:      (1) with the slots, policy and half-life that were recorded the counts are those of
 *            the run, unless experts were warmed up or slots retired in it;  (2) elsewhere a load
 *            ends when its lease is released at the latest;  (3) an ask that other leases leave no
 *            room for is counted as misses and stands in no slot.
 * Threads:   any; each replay is alone.
 */
#ifndef TT_IO_CACHE_REPLAY_H
#define TT_IO_CACHE_REPLAY_H

#include "io/cache_trace.h"

typedef struct tt_replay_options {
    uint32_t slots;
    tt_cache_policy_kind policy; /* TT_CACHE_BELADY: the most hits that any policy can have */
    double half_life;            /* of lfu-decay; 0: as suits the slots */
} tt_replay_options;

typedef struct tt_replay_result {
    uint64_t asks, hits, misses, joins, evictions; /* experts, as tt_expert_cache_stats counts */
    uint64_t decode_asks, decode_hits;             /* of these, outside prefill */
    uint64_t refused;                              /* experts of asks that found no room */
} tt_replay_result;

TT_MUST_CHECK tt_status tt_cache_replay(const tt_cache_trace *trace, const tt_replay_options *o,
                                        tt_replay_result *out, tt_error *err);

#endif
