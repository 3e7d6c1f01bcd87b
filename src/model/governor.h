/* governor.h: gives expert slots back before the kernel takes memory by force.
 *
 * Owns:      when a slab goes and how many, how many slots stay.
 * Not here:  what pressure is (base/pressure.h), how a slab goes (io/expert_cache.h).
 * Laws:      (1) whole slabs, never single slots;  (2) never below the floor: a token's experts in
 *            every layer;  (3) looked at between steps and between the layers of a prompt, on the
 *            caller's thread, and at most once an interval;  (4) no result depends on it;
 *            (5) memory that the plan leaves free is not held against it: the reserve is at most
 *            half of that;  (6) a check allocates nothing.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_GOVERNOR_H
#define TT_MODEL_GOVERNOR_H

#include "base/pressure.h"
#include "io/expert_cache.h"

#define TT_GOVERNOR_INTERVAL 0.25 /* seconds between two looks */

/* As tt_pressure_poll. */
typedef tt_pressure_level (*tt_pressure_fn)(void *ctx, tt_pressure_report *report);

typedef struct tt_governor {
    tt_pressure *pressure; /* NULL: off, or a source of the caller's */
    tt_pressure_fn source; /* NULL: off */
    void *ctx;
    tt_expert_cache *cache; /* borrowed */
    uint64_t expert_bytes;
    uint32_t floor;    /* slots that stay */
    const char *cause; /* of the last slab that went, "" */
    uint64_t refused;  /* looks that found no slab to spare */
} tt_governor;

/* Watches memory for `cache`, as the plan that it was made by says; a plan without a governor, or
 * without experts, makes one that does nothing. */
TT_MUST_CHECK tt_status tt_governor_init(tt_governor *g, const tt_plan *plan,
                                         tt_expert_cache *cache, tt_error *err);
void tt_governor_free(tt_governor *g);
/* Asks `source` from now on instead of the machine. For tests. */
void tt_governor_set_source(tt_governor *g, tt_pressure_fn source, void *ctx);
/* Looks, and gives back what is wanted. True when a slab went. */
bool tt_governor_check(tt_governor *g);

#endif
