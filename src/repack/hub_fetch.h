/* hub_fetch.h: ranges of files, several in flight, handed over in order.
 *
 * Owns:      a thread that asks, the window of ranges that came before their turn.
 * Not here:  what is asked and how an answer is judged (hub_client.h), how many at once
 *            (hub_pace.h).
 * Laws:      (1) ranges may come in any order and are handed over in the order of the list;  (2)
 *            the bytes held are at most the window, or one range when that is longer.
 * Threads:   one thread calls; the hub and its files belong to the fetch until it is closed.
 */
#ifndef TT_REPACK_HUB_FETCH_H
#define TT_REPACK_HUB_FETCH_H

#include "repack/hub_client.h"

#define TT_HUB_WINDOW (256 * TT_MIB)

typedef struct tt_hub_part {
    tt_hub_file *file;
    uint64_t begin, end;
} tt_hub_part;

typedef struct tt_hub_fetch tt_hub_fetch;

/* `parts` stays with the caller. `window`: bytes, 0 for the default. */
TT_MUST_CHECK tt_status tt_hub_fetch_start(tt_hub *hub, const tt_hub_part *parts, size_t n,
                                           uint64_t window, tt_hub_fetch **out, tt_error *err);
/* Waits for the next part in order; its bytes are good until the next call. `go_on` is asked about
 * ten times a second with the bytes that came so far (may be NULL); false is TT_ERR_ABORTED. */
TT_MUST_CHECK tt_status tt_hub_fetch_next(tt_hub_fetch *f, bool (*go_on)(void *ctx, uint64_t came),
                                          void *ctx, const unsigned char **bytes, tt_error *err);
/* Bytes of the buffers that it holds now: at most the window, or one part when that is longer. */
uint64_t tt_hub_fetch_memory(tt_hub_fetch *f);
/* Stops asking and waits for the thread. */
void tt_hub_fetch_close(tt_hub_fetch **f);

/* Fetches all parts and hands each to `take` in order. For what is small: progress has no count. */
TT_MUST_CHECK tt_status
tt_hub_fetch_all(tt_hub *hub, const tt_hub_part *parts, size_t n, const tt_repack_events *ev,
                 tt_status (*take)(void *ctx, size_t i, const unsigned char *bytes, tt_error *err),
                 void *ctx, tt_error *err);

#endif
