/* inventory.h: the tensors that an architecture calls for: canonical names, shapes, roles.
 *
 * Owns:      the table of model-math 2 for the families that can be converted.
 * Not here:  routed experts and the n-gram table (they are counted by layer, id and shard, see
 *            tensor_plan.h), prefixes and spellings of checkpoints (tensor_plan.h).
 * Laws:      (1) a name stands in it once;  (2) every tensor of the family is in it: what is not,
 *            is unknown.
 * Threads:   read-only after creation.
 */
#ifndef TT_REPACK_INVENTORY_H
#define TT_REPACK_INVENTORY_H

#include "format/install.h"
#include "repack/policy.h"

typedef struct tt_want {
    char *name;
    uint32_t rank;
    uint64_t shape[TT_MAX_TENSOR_RANK];
    tt_role role;
    bool mtp;
    bool conv;        /* conv1d.weight, which checkpoints store with a third dimension */
    bool offset_norm; /* may be stored as w of (1 + w) */
    bool integers;    /* I64, as they are */
} tt_want;

typedef struct tt_inventory {
    tt_want *items; /* sorted by name */
    size_t count, cap;
} tt_inventory;

TT_MUST_CHECK tt_status tt_inventory_create(const tt_arch *arch, tt_inventory *out, tt_error *err);
void tt_inventory_free(tt_inventory *inv);
const tt_want *tt_inventory_find(const tt_inventory *inv, const char *name); /* or NULL */

/* The tensors of an index are exactly those of the inventory's body, or of its draft (`mtp`), in
 * name and shape. `file` is for errors. */
TT_MUST_CHECK tt_status tt_inventory_check_index(const tt_inventory *inv, const tt_index *ix,
                                                 bool mtp, const char *file, tt_error *err);

#endif
