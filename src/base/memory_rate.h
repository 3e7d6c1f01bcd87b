/* memory_rate.h: how fast this machine reads its memory.
 *
 * Owns:      the measurement, and the record of it by processor and threads.
 * Not here:  what is reckoned from it (model/forecast.h).
 * Laws:      (1) bounded in memory and time, the first touch left out;  (2) a record says so and
 *            when it was made, and is made again after a day;  (3) a file that cannot be read or
 *            written costs a measurement and nothing else;  (4) for estimates: the best of several
 *            passes of plain loads, not a benchmark.
 * Threads:   one at a time.
 */
#ifndef TT_BASE_MEMORY_RATE_H
#define TT_BASE_MEMORY_RATE_H

#include "base/limits.h"
#include "base/status.h"

#define TT_MEMORY_RATE_LEAST (32 * TT_MIB) /* less is soon in a cache */
#define TT_MEMORY_RATE_MOST  (256 * TT_MIB)

typedef struct tt_memory_rate_options {
    uint32_t threads;
    uint64_t memory;  /* bytes that measuring may take */
    double seconds;   /* for the passes; 0: 0.1 */
    const char *file; /* of base/rates_file.h; NULL: measured each time */
    bool look_up;     /* do not measure: what is known, or nothing */
} tt_memory_rate_options;

typedef struct tt_memory_rate {
    double rate;  /* bytes a second; 0: not known */
    bool cached;  /* out of the file */
    int64_t time; /* when it was measured, seconds since 1970 */
} tt_memory_rate;

/* A rate of 0 when there is no memory for it, or nothing is known and it must not be measured. */
TT_MUST_CHECK tt_status tt_memory_rate_get(const tt_memory_rate_options *o, tt_memory_rate *out,
                                           tt_error *err);

#endif
