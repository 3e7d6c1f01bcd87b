/* arena.h: bump allocation that is freed whole and is born with a maximum.
 *
 * Owns:      its blocks.
 * Not here:  freeing single objects, growing them.
 * Laws:      (1) never holds more than `max` bytes of objects;  (2) a failed request returns NULL,
 * is remembered in `failed` and leaves earlier objects intact;  (3) objects are 16-byte aligned.
 * Threads:   one at a time.
 */
#ifndef TT_BASE_ARENA_H
#define TT_BASE_ARENA_H

#include "base/status.h"

typedef struct tt_arena {
    struct tt_arena_block *head;
    size_t used, max; /* bytes handed out, bytes that may be */
    tt_status failed; /* TT_ERR_LIMIT or TT_ERR_NOMEM after a NULL */
} tt_arena;

/* An empty arena for at most `max` bytes. Takes no memory yet. */
void tt_arena_init(tt_arena *a, size_t max);
/* Releases every object. The arena may be used again. */
void tt_arena_free(tt_arena *a);
/* n bytes of zeros, or NULL. */
void *tt_arena_alloc(tt_arena *a, size_t n);

#endif
