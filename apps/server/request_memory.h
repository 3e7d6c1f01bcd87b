/* request_memory.h: one bound for everything that requests keep before they are computed.
 *
 * Owns:      the count of bodies and of JSON trees.
 * Not here:  what is refused when it is full (connection.c, work.c).
 * Laws:      (1) what is taken is given back;  (2) the count passes its bound by no more than what
 *            a tree in work grows until somebody looks: a library that is refused memory in the
 *            middle of a text reads past its end.
 * Threads:   any. A tree is counted for the thread that reads it.
 */
#ifndef TT_SERVER_REQUEST_MEMORY_H
#define TT_SERVER_REQUEST_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tt_request_memory {
    _Atomic uint64_t used;
    uint64_t most;
} tt_request_memory;

bool tt_request_memory_take(tt_request_memory *m, uint64_t n);
void tt_request_memory_give(tt_request_memory *m, uint64_t n);

/* Makes jansson count. Once, before the first thread. */
void tt_tree_memory_install(void);
/* From here on trees of this thread are taken from `m`, until end, which returns how much they hold
 * (to be given back when they are gone) and whether that was more than there is. */
void tt_tree_memory_begin(tt_request_memory *m);
uint64_t tt_tree_memory_end(bool *full);
/* Whether it is more already: to be looked at between begin and end, wherever something is copied.
 */
bool tt_tree_memory_full(void);

#endif
