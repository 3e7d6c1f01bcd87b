#include "support/approx.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint32_t tt_rng_u32(tt_rng *r) /* SplitMix64, upper half */
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t tt_rng_below(tt_rng *r, uint32_t n)
{
    return (uint32_t)((uint64_t)tt_rng_u32(r) * n >> 32);
}

float tt_rng_uniform(tt_rng *r, float lo, float hi)
{
    return lo + (hi - lo) * (float)(tt_rng_u32(r) >> 8) * 0x1p-24f;
}

float tt_rng_normal(tt_rng *r)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += tt_rng_uniform(r, 0, 1);
    return sum;
}

void tt_rng_fill(tt_rng *r, float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = tt_rng_normal(r) * scale;
}

void tt_rng_fill_wild(tt_rng *r, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = tt_rng_uniform(r, -1, 1) * powf(10, tt_rng_uniform(r, -6, 6));
        if (tt_rng_below(r, 8) == 0)
            x[i] = tt_rng_below(r, 2) != 0 ? 0.0f : -0.0f;
    }
}

#define GUARD  64u /* floats on each side */
#define CANARY 0x7fc0dead

typedef struct guard {
    size_t n;
    uint32_t words[];
} guard;

static guard *guard_of(const float *p)
{
    return (guard *)((char *)(uintptr_t)p - GUARD * 4 - offsetof(guard, words));
}

float *tt_guard_new(size_t n)
{
    guard *g = malloc(sizeof *g + (n + 2 * GUARD) * 4);
    assert_non_null(g);
    g->n = n;
    for (size_t i = 0; i < n + 2 * GUARD; i++)
        g->words[i] = CANARY;
    return (float *)(g->words + GUARD);
}

void tt_guard_check(const float *p)
{
    const guard *g = guard_of(p);
    for (size_t i = 0; i < GUARD; i++)
        if (g->words[i] != CANARY || g->words[GUARD + g->n + i] != CANARY)
            fail_msg("written outside of a buffer of %zu floats, %zu from its border", g->n, i);
}

void tt_guard_free(float *p)
{
    if (p == NULL)
        return;
    tt_guard_check(p);
    free(guard_of(p));
}

void tt_assert_close(const char *what, const float *got, const float *want, const float *mag,
                     size_t n, double floor, double rel)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(want[i]) ? isnan(got[i]) : got[i] == want[i])
            continue;
        double allowed = floor + rel * fabs(mag != NULL ? mag[i] : want[i]);
        if (!(fabs((double)got[i] - want[i]) <= allowed))
            fail_msg("%s: value %zu of %zu is %.9g, should be %.9g within %.3g", what, i, n, got[i],
                     want[i], allowed);
    }
}

void tt_assert_same_bytes(const char *what, const void *a, const void *b, size_t bytes)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            fail_msg("%s: byte %zu of %zu differs (value %zu)", what, i, bytes, i / 4);
}
