/* cache_policy.h: how much each expert is worth keeping, resident or not.
 *
 * Owns:      a score an expert, the clock in tokens, the rule that a touch changes a score by.
 * Not here:  slots, floors and leases (slot_table.h), bytes (expert_cache.h).
 * Laws:      (1) the expert with the least score goes first, of equal scores the one touched
 *            longest ago;  (2) scores of different times compare directly: time never sweeps over
 *            them;  (3) an expert that was evicted keeps its score;  (4) no allocation after init;
 *            (5) the same touches give the same scores, in the engine and in a replay.
 * Rules:     lfu-decay: F, the use of an expert, halves every `half_life` tokens and grows by the
 *            weight of a touch; the score is log2 F + t / half_life with t the clock, which stands
 *            still between touches. lfu: the sum of weights. lru: the number of the last touch.
 *            belady: the weight of a touch is the place of the next use; the farthest goes first.
 *            For replays only, since the future must be known.
 * Threads:   one at a time.
 */
#ifndef TT_IO_CACHE_POLICY_H
#define TT_IO_CACHE_POLICY_H

#include "base/status.h"

typedef enum tt_cache_policy_kind {
    TT_CACHE_LFU_DECAY,
    TT_CACHE_LFU,
    TT_CACHE_LRU,
    TT_CACHE_BELADY
} tt_cache_policy_kind;

#define TT_CACHE_LONG_HALF_LIFE 32.0 /* tokens */

/* The half-life that suits a number of slots: half the square of how many tokens' experts they
 * hold, which is about the time in which so many different experts are asked, half a token at
 * least. Below one token's experts nothing that was used last is still there when it is asked
 * again, so only long memory helps: TT_CACHE_LONG_HALF_LIFE. docs/bench.md has the replays. */
double tt_cache_half_life(uint32_t slots, uint32_t n_layers, uint32_t top_k);

#define TT_CACHE_MOST_HEAT 60.0f /* nothing is used so often */

typedef struct tt_cache_policy {
    tt_cache_policy_kind kind;
    uint32_t n_keys;
    double half_life; /* tokens */
    double clock;     /* tokens seen */
    uint64_t touches;
    double *score;  /* [n_keys] */
    uint64_t *last; /* [n_keys] number of the last touch, 0: none */
} tt_cache_policy;

/* Bytes that init takes. */
uint64_t tt_cache_policy_cost(uint32_t n_keys);
/* half_life 0 stands for TT_CACHE_LONG_HALF_LIFE. */
TT_MUST_CHECK tt_status tt_cache_policy_init(tt_cache_policy *p, tt_cache_policy_kind kind,
                                             uint32_t n_keys, double half_life, tt_error *err);
void tt_cache_policy_free(tt_cache_policy *p);

/* Lets `tokens` (any fraction of one) pass. */
void tt_cache_policy_advance(tt_cache_policy *p, double tokens);
/* One use of an expert. `weight`: 1 for a pick of one token, picks / rows in a prefill. */
void tt_cache_policy_touch(tt_cache_policy *p, uint32_t key, double weight);
/* Whether a should go before b. */
bool tt_cache_policy_before(const tt_cache_policy *p, uint32_t a, uint32_t b);
/* Whether an expert that nobody asked for is worth more than the resident one it would evict. */
bool tt_cache_policy_admits(const tt_cache_policy *p, uint32_t newcomer, uint32_t resident);

/* What a heat profile keeps: log2 of an expert's uses a token of late, whatever the half-life;
 * -INFINITY for one that was never used. Of lfu-decay. */
double tt_cache_policy_heat(const tt_cache_policy *p, uint32_t key);
void tt_cache_policy_set_heat(tt_cache_policy *p, uint32_t key, double heat);
/* Another half-life from now on: uses of late stay what they are. */
void tt_cache_policy_set_half_life(tt_cache_policy *p, double half_life);

/* "lfu-decay", "lfu", "lru", "belady"; NULL and false for what is none. */
const char *tt_cache_policy_name(tt_cache_policy_kind kind);
bool tt_cache_policy_parse(const char *name, tt_cache_policy_kind *kind);

#endif
