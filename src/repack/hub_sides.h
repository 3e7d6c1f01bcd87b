/* hub_sides.h: small tensors that are wanted before any other: the block factors of fp8, and the
 * norm weights, which tell whether a checkpoint is what its form says.
 *
 * Owns:      which they are, their bytes in memory, the file in `source` that keeps them.
 * Not here:  what they mean (convert.h, norms.h).
 * Laws:      they are fetched once, before any other weight, and believed by the recorded digest
 *            after that.
 * Threads:   read-only after fetching.
 */
#ifndef TT_REPACK_HUB_SIDES_H
#define TT_REPACK_HUB_SIDES_H

#include "repack/hub_state.h"
#include "repack/tensor_plan.h"

typedef struct tt_hub_side {
    uint32_t shard;
    uint64_t begin, end; /* of the shard */
    uint64_t at;         /* in `bytes` */
} tt_hub_side;

typedef struct tt_hub_sides {
    tt_hub_side *items; /* by shard and place */
    size_t count, cap;
    unsigned char *bytes;
    uint64_t total;
} tt_hub_sides;

/* What the plan needs. `gap`: bytes between two that are read along rather than asked for apart; 0
 * for the default. */
TT_MUST_CHECK tt_status tt_hub_sides_find(const tt_repack_plan *plan, uint64_t gap,
                                          tt_hub_sides *out, tt_error *err);
/* `files[i]` is shard i. */
TT_MUST_CHECK tt_status tt_hub_sides_fetch(tt_hub_sides *s, tt_hub *hub, tt_hub_file *const *files,
                                           const char *dir, tt_hub_state *state,
                                           tt_journal *journal, const tt_repack_events *ev,
                                           tt_error *err);
/* False when the bytes are not among them. */
bool tt_hub_sides_read(const tt_hub_sides *s, uint32_t shard, uint64_t offset, void *buf, size_t n);
void tt_hub_sides_free(tt_hub_sides *s);

#endif
