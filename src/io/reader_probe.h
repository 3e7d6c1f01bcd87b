/* reader_probe.h: how fast a reader is on these files, and which depth and piece size suit it.
 *
 * Owns:      the measurement, the choice, the file in which choices are kept by device.
 * Not here:  where that file lies (programs), what the rate is used for.
 * Laws:      (1) reads only, around the page cache, at the granularity of experts, in bounded
 *            memory, bytes and time, and in no more memory than it was given;  (2) a result out of
 *            the file says so and when it was measured;  (3) a file that cannot be read, understood
 *            or written costs a measurement and nothing else;  (4) a rate from here is a choice's
 *            reason, not a benchmark.
 * Threads:   one at a time.
 */
#ifndef TT_IO_READER_PROBE_H
#define TT_IO_READER_PROBE_H

#include "io/reader.h"

#define TT_MEASURE_MEMORY (128 * TT_MIB) /* destinations of reads in flight, at most */
#define TT_PROBE_SECONDS  1.5
#define TT_PROBE_MIN_BYTES                                                                         \
    (64 * TT_MIB) /* of files; less is soon in memory, whatever the depth                          \
                   */

typedef struct tt_measure_options {
    tt_reader_options reader; /* the page cache is left alone whatever this says */
    uint64_t read_bytes;      /* of one read: an expert; a multiple of TT_IO_ALIGN */
    double seconds;           /* no read is started after this */
    uint64_t max_bytes;       /* nor beyond this; 0: no bound */
    uint64_t seed;            /* of the places */
} tt_measure_options;

typedef struct tt_measurement {
    uint64_t bytes, reads;
    double seconds, rate; /* bytes a second */
    tt_reader_stats stats;
    char name[16], describe[TT_READER_TEXT];
} tt_measurement;

/* Reads of random places, as many in flight as keep depth and pieces busy. Files that are smaller
 * than a read are left out; TT_ERR_INVALID when that is all of them. */
TT_MUST_CHECK tt_status tt_reader_measure(const char *const *paths, uint32_t n,
                                          const tt_measure_options *o, tt_measurement *out,
                                          tt_error *err);

typedef struct tt_probe_options {
    const char *const *paths;
    uint32_t n;
    uint64_t read_bytes;
    tt_reader_kind kind;
    double seconds;         /* for all of it; 0: TT_PROBE_SECONDS */
    uint64_t min_bytes;     /* less than this in all files is not probed */
    uint64_t memory;        /* bytes that measuring may take; 0: what it needs */
    const char *cache_file; /* JSON, its folders are made when missing; NULL: measured each time */
} tt_probe_options;

typedef struct tt_probe {
    bool probed; /* false: the files are too small, or there is no memory for it (`note`) */
    bool cached; /* out of the file */
    uint32_t depth, piece_bytes;
    double rate;     /* bytes a second */
    int64_t time;    /* when it was measured, seconds since 1970 */
    char reader[16]; /* kind that was measured */
    char device[96]; /* number, file system and size of what holds the files */
    char note[160];  /* why nothing was measured, or why the result could not be kept; or "" */
} tt_probe;

/* The most memory that measuring takes, for reads of this size. */
uint64_t tt_probe_memory(uint64_t read_bytes);
TT_MUST_CHECK tt_status tt_reader_probe(const tt_probe_options *o, tt_probe *out, tt_error *err);
/* "1.43 GB/s measured" or "1.43 GB/s measured on 2026-01-31, cached". */
void tt_probe_text(const tt_probe *p, char out[80]);

#endif
