/* pressure.h: whether the kernel is about to act for want of memory.
 *
 * Owns:      reading memory.pressure or /proc/pressure/memory and the counters of the cgroups this
 *            process is in, v1 and v2; the judgement.
 * Not here:  what is given back (io/expert_cache.h), the limits themselves (machine.h).
 * Laws:      (1) no thread and no wake-ups: a poll, called between tokens, which reads at most once
 *            an interval;  (2) a file that is missing or unreadable says nothing, never an error;
 *            (3) page cache that can be dropped is room;  (4) counters count from open: what
 *            happened before is history;  (5) no allocation after open.
 * Threads:   one an object.
 */
#ifndef TT_BASE_PRESSURE_H
#define TT_BASE_PRESSURE_H

#include "base/status.h"

typedef struct tt_pressure_options {
    const char *root;     /* files are looked for below it; NULL: "/" */
    double interval;      /* seconds between two looks; 0: at every poll */
    uint64_t reserve;     /* bytes that ought to be left; 0: 1/32 of what is left at open, 64 MiB
                              at least */
    double stall_percent; /* share of ten seconds in which all work waited for memory; 0: 10 */
    double hold; /* seconds in which stalls, an average that fades slowly, count once; 0: 10 */
} tt_pressure_options;

typedef enum tt_pressure_level {
    TT_PRESSURE_NONE,
    TT_PRESSURE_TIGHT /* give memory back now */
} tt_pressure_level;

/* What the last look saw. */
typedef struct tt_pressure_report {
    tt_pressure_level level;
    const char *cause; /* "reserve", "limit hit", "stalls" or "" */
    uint64_t left;     /* bytes, the least of MemAvailable and every limit; UINT64_MAX unknown */
    uint64_t reserve;
    double full_avg10;     /* percent; 0 without PSI */
    uint64_t limit_hits;   /* since open: memory.events max and oom, or memory.failcnt */
    uint64_t looks, tight; /* looks since open, those that saw TIGHT */
} tt_pressure_report;

typedef struct tt_pressure tt_pressure;

TT_MUST_CHECK tt_status tt_pressure_open(const tt_pressure_options *o, tt_pressure **out,
                                         tt_error *err);
void tt_pressure_close(tt_pressure **p);
/* The level now; the report (may be NULL) of the last look. Within the interval the level is
 * NONE. */
tt_pressure_level tt_pressure_poll(tt_pressure *p, tt_pressure_report *report);

#endif
