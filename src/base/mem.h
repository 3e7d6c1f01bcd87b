/* mem.h: page-granular memory: large blocks, and address space that is committed as it is needed.
 *
 * Owns:      mmap and the huge-page advice.
 * Not here:  small objects (malloc).
 * Laws:      (1) blocks come zeroed and aligned to 4 KiB at least, those of 2 MiB and more to 2
 *            MiB;  (2) reserved space costs nothing until committed, and never moves.
 * Threads:   any.
 */
#ifndef TT_BASE_MEM_H
#define TT_BASE_MEM_H

#include "base/status.h"

/* A zeroed block, huge pages advised when it has 2 MiB or more. `what` names it in the error. */
TT_MUST_CHECK tt_status tt_mem_alloc(size_t bytes, const char *what, void **out, tt_error *err);
/* Address space without memory behind it. */
TT_MUST_CHECK tt_status tt_mem_reserve(size_t bytes, const char *what, void **out, tt_error *err);
/* Makes [0, bytes) of a reservation usable; what was usable before keeps its contents. */
TT_MUST_CHECK tt_status tt_mem_commit(void *base, size_t bytes, const char *what, tt_error *err);
/* Releases a block or a reservation; `bytes` as it was asked for. NULL is fine. */
void tt_mem_free(void *base, size_t bytes);

#endif
