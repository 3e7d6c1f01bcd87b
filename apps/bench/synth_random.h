/* synth_random.h: the random numbers of synthetic models.
 *
 * Owns:      SplitMix64 as a stream and as seeds, uniform numbers, projections.
 * Not here:  what is drawn.
 * Laws:      the same numbers on every machine.
 * Threads:   pure on their arguments.
 */
#ifndef TT_BENCH_SYNTH_RANDOM_H
#define TT_BENCH_SYNTH_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t synth_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint64_t synth_seed(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t s = seed ^ a * 0xD1342543DE82EF95u ^ b * 0x2545F4914F6CDD1Du;
    s = synth_draw(&s);
    return synth_draw(&s);
}

/* FNV-1a. */
static inline uint64_t synth_hash(const char *text)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001B3u;
    return h;
}

/* In [0, 1), from 24 bits. */
static inline float synth_unit(uint64_t *state)
{
    return (float)(synth_draw(state) >> 40) * 0x1p-24f;
}

/* 16 random bits to an even number of mean 0 and deviation 1. */
static inline float synth_spread(uint32_t bits16)
{
    return ((float)bits16 - 32767.5f) * (1.7320508f / 32768.0f);
}

static inline float synth_unit_spread(uint64_t *state)
{
    return synth_spread((uint32_t)(synth_draw(state) >> 48));
}

/* v minus its parts along n orthogonal vectors whose squares sum to H. */
static inline void synth_project_off(float *v, const float *vectors, uint32_t n, uint32_t H)
{
    for (uint32_t k = 0; k < n; k++) {
        const float *c = vectors + (size_t)k * H;
        double dot = 0;
        for (uint32_t i = 0; i < H; i++)
            dot += (double)v[i] * c[i];
        float part = (float)(dot / H);
        for (uint32_t i = 0; i < H; i++)
            v[i] -= part * c[i];
    }
}

#endif
