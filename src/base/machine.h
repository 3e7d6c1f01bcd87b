/* machine.h: how much memory this process may take, as the kernel and its cgroups say.
 *
 * Owns:      reading /proc/meminfo and the cgroup files, v1 and v2.
 * Not here:  what the memory is used for (model/plan.h).
 * Laws:      (1) the tightest limit on the way up the cgroup tree wins;  (2) page cache that can
 *            be dropped counts as available;  (3) a file that is missing or unreadable is no
 *            limit;  (4) nothing is allocated: it may be asked while decoding.
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

/* The cgroup directories that may limit this process's memory: its own first, then up to the mount
 * point, which counts too, since a container sees its own group there. */
typedef void (*tt_machine_group_fn)(void *ctx, const char *dir, bool own, bool v2);
void tt_machine_memory_groups(const char *root, tt_machine_group_fn fn, void *ctx);

/* The number after "key" at the start of a line ("key 5", "key: 5 kB", "key=5"), searched from a
 * file of lines; false when it is not there. Bytes where the line says kB. */
bool tt_machine_line_value(const char *path, const char *key, uint64_t *value);
/* A file that holds one number; false for "max" and for what cannot be read. */
bool tt_machine_number(const char *path, uint64_t *value);
/* The start of a file as text, at most cap - 1 bytes; false when it cannot be read. */
bool tt_machine_text(const char *path, char *text, size_t cap);

/* Memory of this process that is no file's (RssAnon) in bytes, 0 when unknown. */
uint64_t tt_machine_own_memory(void);
/* Peak resident set of this process in bytes (VmHWM), 0 when unknown. */
uint64_t tt_machine_peak_rss(void);
/* Page faults of this process that had to read a disk. */
uint64_t tt_machine_major_faults(void);

#endif
