/* pool.h: a persistent pool of threads that run one job at a time over a range of items.
 *
 * Owns:      the worker threads and the barrier.
 * Not here:  what is computed; results must not depend on how the range is cut.
 * Laws:      (1) the calling thread works too: `threads` counts it;  (2) tt_pool_run returns when
 *            every item is done;  (3) no allocation in tt_pool_run;  (4) a job never starts
 *            another on the same pool.
 * Threads:   tt_pool_run from one thread at a time.
 */
#ifndef TT_BASE_POOL_H
#define TT_BASE_POOL_H

#include "base/status.h"

typedef struct tt_pool tt_pool;

/* Works on items [begin, end) as worker `worker` (0 is the caller, < threads). */
typedef void (*tt_pool_fn)(void *ctx, size_t begin, size_t end, unsigned worker);

/* threads >= 1; 1 starts none. */
TT_MUST_CHECK tt_status tt_pool_create(unsigned threads, tt_pool **pool, tt_error *err);
void tt_pool_close(tt_pool **pool);
unsigned tt_pool_threads(const tt_pool *pool);
/* Cuts [0, n) into contiguous parts whose borders are multiples of `grain` (>= 1) and runs `fn` on
 * each. */
void tt_pool_run(tt_pool *pool, size_t n, size_t grain, tt_pool_fn fn, void *ctx);
/* Physical cores that this process may run on, at least 1. */
unsigned tt_physical_cores(void);

#endif
