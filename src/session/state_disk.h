/* state_disk.h: the directory tier of the state of prompts, as the cache uses it.
 *
 * Owns:      the store with the key of a model, the block that rows are read through, the sentence
 *            of why there is none.
 * Not here:  the tree in memory and what of it is written (state_cache.c), files (store/).
 * Laws:      (1) a timeline is that of a chain in the directory, or it is empty;  (2) what the
 *            timeline has already is not read again.
 * Threads:   one at a time, that of the sessions; tt_store_hold from any.
 */
#ifndef TT_SESSION_STATE_DISK_H
#define TT_SESSION_STATE_DISK_H

#include "session/state_cache.h"
#include "store/state_store.h"

typedef struct tt_state_disk {
    tt_store *store; /* NULL: there is none */
    void *block;     /* of KV rows, on their way */
    uint64_t block_bytes;
    uint64_t memory; /* that it takes of the cache's limit */
    char note[512];  /* why there is none, or what else there is to say; "" */
} tt_state_disk;

/* Opens the directory. One that is not private is TT_ERR_INVALID; one that is in use or that cannot
 * be used leaves `store` NULL, `note` says why and `*why` has the reason. `memory`: the most bytes
 * it may take. */
TT_MUST_CHECK tt_status tt_state_disk_open(tt_state_disk *d, const tt_model *m,
                                           const tt_state_disk_options *o, const tt_store_io *io,
                                           uint64_t memory, tt_state_refusal *why, tt_error *err);
void tt_state_disk_close(tt_state_disk *d);

/* Reads what was found into the timeline, whose ids `ids` are. When a part of it is not to be had
 * the timeline is empty and the state cleared. */
bool tt_state_disk_load(tt_state_disk *d, const tt_store_found *f, const uint32_t *ids,
                        tt_state_line *line, tt_recurrent *into);

#endif
