/* le.h: little-endian integers in byte arrays.
 *
 * Owns:      put and get of fixed-width numbers, rounding up to an alignment.
 * Not here:  what the numbers mean.
 * Laws:      bytes are the same on every machine; no alignment is asked of the pointer.
 * Threads:   pure functions.
 */
#ifndef TT_FORMAT_LE_H
#define TT_FORMAT_LE_H

#include <stdint.h>

static inline void tt_put_u32(void *at, uint32_t v)
{
    unsigned char *p = at;
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static inline void tt_put_u64(void *at, uint64_t v)
{
    unsigned char *p = at;
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static inline uint32_t tt_get_u32(const void *at)
{
    const unsigned char *p = at;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t tt_get_u64(const void *at)
{
    return (uint64_t)tt_get_u32(at) | (uint64_t)tt_get_u32((const char *)at + 4) << 32;
}

/* x rounded up to a multiple of a; x must be below 2^63, which every size in an install is. */
static inline uint64_t tt_round_up(uint64_t x, uint64_t a)
{
    return (x + a - 1) / a * a;
}

#endif
