/* ceilings.h: what this machine can do at most: bytes read from memory, multiply-adds in registers.
 *
 * Owns:      the patterns of reading that are tried.
 * Not here:  kernels (kernels.c).
 * Laws:      a ceiling is the best of several patterns and of all rounds, so that what is held
 *            against it cannot be flattered by a bad one.
 * Threads:   one caller; the pool of the backend does the work.
 */
#ifndef TT_BENCH_CEILINGS_H
#define TT_BENCH_CEILINGS_H

#include "backend/kernels.h"

typedef struct ceilings {
    double read_bytes; /* a second, from memory */
    char pattern[64];  /* the one that was best */
    double f32, dot;   /* multiply-adds a second; dot 0 where the level has no such product */
} ceilings;

enum { CEILING_PATTERNS = 12 };

/* Reads `block`, which must be larger than every cache, by pattern i, and keeps the rate if it is
 * the best. */
void ceiling_read(ceilings *c, tt_pool *pool, const void *block, size_t bytes, unsigned pattern);
/* The level's multiply-adds, on all threads for some milliseconds. */
void ceiling_arithmetic(ceilings *c, tt_backend *be);

#endif
