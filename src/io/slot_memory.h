/* slot_memory.h: the bytes of expert slots, taken once, in slabs.
 *
 * Owns:      the slabs, their registration with a reader, their lock in memory.
 * Not here:  what stands in a slot (slot_table.h).
 * Laws:      (1) no slot lies across two slabs, no slab is larger than 1 GiB: a slab is one
 *            registered buffer;  (2) a slot never moves;  (3) memory goes back a slab at a time, a
 *            slot alone never;  (4) a lock or a registration that is refused is told, not an error.
 * Threads:   one at a time; alloc may use a pool.
 */
#ifndef TT_IO_SLOT_MEMORY_H
#define TT_IO_SLOT_MEMORY_H

#include "base/limits.h"
#include "base/pool.h"
#include "io/reader.h"

#define TT_SLAB_MAX TT_GIB
#define TT_SLAB_MIN (64 * TT_MIB) /* the least that is chosen; a caller may ask for less */

typedef struct tt_slab {
    char *base; /* first slot */
    uint32_t first, n;
    bool registered, locked, leaving, retired;
    void *block; /* as allocated */
    size_t block_bytes;
} tt_slab;

typedef struct tt_slot_memory {
    uint64_t stride;
    uint32_t per_slab, n_slabs;
    tt_slab *slabs;
    uint64_t registered_bytes, locked_bytes;
    int lock_errno; /* why locking stopped, 0 when it did not */
} tt_slot_memory;

/* Bytes that alloc takes; UINT64_MAX when they cannot be counted. `slab_bytes` 0: an eighth of the
 * whole, within TT_SLAB_MIN and TT_SLAB_MAX, so that there is something to retire. */
uint64_t tt_slot_memory_cost(uint32_t n_slots, uint64_t stride, uint64_t slab_bytes);
/* `touch` (may be NULL): its threads write to every page. `lock`: mlock, as far as it is let. */
TT_MUST_CHECK tt_status tt_slot_memory_alloc(tt_slot_memory *m, uint32_t n_slots, uint64_t stride,
                                             uint64_t slab_bytes, tt_pool *touch, bool lock,
                                             tt_error *err);
void tt_slot_memory_free(tt_slot_memory *m);

static inline void *tt_slot_memory_at(const tt_slot_memory *m, uint32_t slot)
{
    return m->slabs[slot / m->per_slab].base + slot % m->per_slab * m->stride;
}
/* Tells a reader of every slab that is in use, and makes it forget them. */
void tt_slot_memory_register(tt_slot_memory *m, tt_reader *reader);
void tt_slot_memory_forget(tt_slot_memory *m, tt_reader *reader);
/* Gives the pages of a slab back; nothing may be in flight to it. */
void tt_slot_memory_retire(tt_slot_memory *m, uint32_t slab, tt_reader *reader);

#endif
