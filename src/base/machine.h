/* machine.h: how much memory this process may take, as the kernel and its cgroups say.
 *
 * Owns:      reading /proc/meminfo and the cgroup files, v1 and v2.
 * Not here:  what the memory is used for (model/plan.h).
 * Laws:      (1) the tightest limit on the way up the cgroup tree wins;  (2) page cache that can
 *            be dropped counts as available;  (3) a file that is missing or unreadable is no
 *            limit.
 * Threads:   any.
 */
#ifndef TT_BASE_MACHINE_H
#define TT_BASE_MACHINE_H

#include "base/status.h"

/* Bytes that can be taken now: the least of MemAvailable and what each cgroup limit leaves.
 * UINT64_MAX when nothing can be read. */
uint64_t tt_machine_memory_available(void);

/* The same from files below `root` instead of "/", for tests. */
uint64_t tt_machine_memory_available_at(const char *root);

/* Peak resident set of this process in bytes (VmHWM), 0 when unknown. */
uint64_t tt_machine_peak_rss(void);

#endif
