/* draw.h: the random stream and the exponential of the sampler, the same on every machine.
 *
 * Owns:      xoshiro256** seeded by splitmix64; exp for arguments that are not positive.
 * Not here:  which candidates there are (sampler.c).
 * Laws:      (1) the stream of a seed never changes: recorded ids depend on it;  (2) plain IEEE
 * doubles in a written order, no libm, so that results do not depend on its version. Threads: pure
 * on their arguments.
 */
#ifndef TT_SAMPLE_DRAW_H
#define TT_SAMPLE_DRAW_H

#include <stdint.h>
#include <string.h>

typedef struct tt_random {
    uint64_t s[4];
} tt_random;

static inline void tt_random_seed(tt_random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        r->s[i] = z ^ z >> 31;
    }
}

static inline uint64_t tt_rotl64(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static inline uint64_t tt_random_next(tt_random *r)
{
    uint64_t *s = r->s, out = tt_rotl64(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = tt_rotl64(s[3], 45);
    return out;
}

/* Uniform in [0, 1), a multiple of 2^-53. */
static inline double tt_random_unit(tt_random *r)
{
    return (double)(tt_random_next(r) >> 11) * 0x1p-53;
}

/* exp(x) for x <= 0, within 2 units in the last place; 0 below -708, where the true value has no
 * normal double. Free of branches, so that loops over it vectorise. */
static inline double tt_exp_neg(double x)
{
    static const double log2e = 1.44269504088896338700e+00, round = 0x1.8p52;
    static const double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
    double at = x < -708.0 ? -708.0 : x;
    /* at = k ln 2 + r with |r| <= ln 2 / 2, then the series of exp(r) to r^13. Adding `round`
     * leaves k, as an integer, in the low bits. */
    double shifted = at * log2e + round, k = shifted - round;
    double r = (at - k * ln2_hi) - k * ln2_lo;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r;
    uint64_t bits;
    double scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return x < -708.0 ? 0.0 : p * scale + scale;
}

#endif
