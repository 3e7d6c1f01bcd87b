/* Clusters of tokens, pools of experts, and a chain that stays, moves within a topic, and lets the
 * topic drift. */
#include "bench/locality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench_locality {
    bench_locality_options o;
    uint32_t *popular; /* [n_layers][n_experts] the popular ones first */
    uint32_t *pools;   /* [n_layers][clusters][pool] */
    uint32_t *topic;   /* [topic] clusters */
    uint32_t cluster;
    uint64_t random; /* state of the chain */
};

/* SplitMix64. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t draw_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((draw(state) >> 32) * n >> 32);
}

/* In [0, 1). */
static double draw_unit(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-53;
}

static bool chance(uint64_t *state, float p)
{
    return draw_unit(state) < (double)p;
}

static uint64_t seed_of(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t s = seed ^ a * 0xD1342543DE82EF95u ^ b * 0x2545F4914F6CDD1Du;
    return draw(&s);
}

void bench_locality_default(bench_locality_options *o, uint32_t n_layers, uint32_t n_experts,
                            uint32_t top_k)
{
    uint32_t pool = n_experts * 11 / 256;
    uint32_t least = top_k + (top_k + 2) / 3;
    pool = pool > least ? pool : least;
    *o = (bench_locality_options){.n_layers = n_layers,
                                  .n_experts = n_experts,
                                  .top_k = top_k,
                                  .n_tokens = 65536,
                                  .clusters = 24,
                                  .pool = pool < n_experts ? pool : n_experts,
                                  .topic = 7,
                                  .stay = 0.53f,
                                  .drift = 0.03f,
                                  .stray = 0.12f,
                                  .skew = 0.95f,
                                  .peak = 0.5f,
                                  .locality = 1.0f,
                                  .seed = 1};
}

static tt_status check_options(const bench_locality_options *o, tt_error *err)
{
    if (o->n_layers < 1 || o->n_layers > TT_MAX_LAYERS || o->n_experts < 1 ||
        o->n_experts > TT_MAX_EXPERTS || o->top_k < 1 || o->top_k > o->n_experts)
        return tt_fail(err, TT_ERR_INVALID, "locality of %u layers, %u of %u experts", o->n_layers,
                       o->top_k, o->n_experts);
    if (o->pool < o->top_k || o->pool > o->n_experts)
        return tt_fail(err, TT_ERR_INVALID, "a pool of %u experts, must be %u to %u", o->pool,
                       o->top_k, o->n_experts);
    if (o->clusters < 1 || o->clusters > TT_MAX_VOCAB || o->topic < 1 || o->n_tokens < o->clusters)
        return tt_fail(err, TT_ERR_INVALID,
                       "%u clusters of %u tokens, %u in a topic: at least 1 of each, and a token a "
                       "cluster",
                       o->clusters, o->n_tokens, o->topic);
    const float p[] = {o->stay, o->drift, o->stray, o->skew, o->peak, o->locality};
    for (unsigned i = 0; i < sizeof p / sizeof *p; i++)
        if (!(p[i] >= 0.0f && p[i] <= 1.0f))
            return tt_fail(err, TT_ERR_INVALID, "a chance is %g, must be 0 to 1", (double)p[i]);
    return TT_OK;
}

/* The experts of a layer in a random order. */
static void fill_popular(uint32_t *popular, uint32_t n, uint64_t state)
{
    for (uint32_t e = 0; e < n; e++)
        popular[e] = e;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = draw_below(&state, i), e = popular[k];
        popular[k] = popular[i - 1];
        popular[i - 1] = e;
    }
}

/* A layer's expert; the cube of a uniform number favours small ones. */
static uint32_t draw_expert(const bench_locality *g, uint32_t layer, uint64_t *state)
{
    bool favour = chance(state, g->o.skew);
    double u = draw_unit(state);
    if (favour)
        u = u * u * u;
    return g->popular[(size_t)layer * g->o.n_experts + (uint32_t)(u * g->o.n_experts)];
}

static bool among(const uint32_t *ids, uint32_t n, uint32_t e)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == e)
            return true;
    return false;
}

/* Distinct experts; a rare one in reach of no draw is found by going on from where one fell. */
static void fill_pool(bench_locality *g, uint32_t layer, uint32_t cluster)
{
    const bench_locality_options *o = &g->o;
    uint32_t *pool = g->pools + ((size_t)layer * o->clusters + cluster) * o->pool;
    uint64_t state = seed_of(o->seed, 1 + layer, cluster);
    for (uint32_t n = 0; n < o->pool; n++) {
        uint32_t e = draw_expert(g, layer, &state);
        for (unsigned tries = 0; among(pool, n, e); tries++)
            e = tries < 16 ? draw_expert(g, layer, &state) : (e + 1) % o->n_experts;
        pool[n] = e;
    }
}

tt_status bench_locality_open(const bench_locality_options *o, bench_locality **out, tt_error *err)
{
    TT_TRY(check_options(o, err));
    size_t pools = (size_t)o->n_layers * o->clusters;
    bench_locality *g = calloc(1, sizeof *g);
    if (g != NULL) {
        g->o = *o;
        g->pools = calloc(pools, o->pool * sizeof *g->pools);
        g->topic = calloc(o->topic, sizeof *g->topic);
        g->popular = calloc(o->n_layers, o->n_experts * sizeof *g->popular);
    }
    if (g == NULL || g->pools == NULL || g->topic == NULL || g->popular == NULL) {
        bench_locality_close(&g);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu pools of experts", pools);
    }
    for (uint32_t l = 0; l < o->n_layers; l++) {
        fill_popular(g->popular + (size_t)l * o->n_experts, o->n_experts,
                     seed_of(o->seed, 1 + l, UINT32_MAX));
        for (uint32_t c = 0; c < o->clusters; c++)
            fill_pool(g, l, c);
    }
    bench_locality_restart(g, o->seed);
    *out = g;
    return TT_OK;
}

void bench_locality_close(bench_locality **gp)
{
    if (gp == NULL || *gp == NULL)
        return;
    free((*gp)->popular);
    free((*gp)->pools);
    free((*gp)->topic);
    free(*gp);
    *gp = NULL;
}

void bench_locality_restart(bench_locality *g, uint64_t seed)
{
    g->random = seed_of(seed, 0, 1);
    for (uint32_t i = 0; i < g->o.topic; i++)
        g->topic[i] = draw_below(&g->random, g->o.clusters);
    g->cluster = g->topic[0];
}

/* What draw_expert and bench_locality_picks draw from, as numbers. */
void bench_locality_chances(const bench_locality *g, uint32_t layer, uint32_t cluster, float *out)
{
    const bench_locality_options *o = &g->o;
    const uint32_t *popular = g->popular + (size_t)layer * o->n_experts;
    const uint32_t *pool = bench_locality_pool(g, layer, cluster);
    double E = o->n_experts, P = o->pool;
    for (uint32_t i = 0; i < o->n_experts; i++) {
        double favoured = cbrt((i + 1) / E) - cbrt(i / E);
        out[popular[i]] = (float)(o->stray * (o->skew * favoured + (1 - o->skew) / E));
    }
    for (uint32_t i = 0; i < o->pool; i++) {
        double favoured = sqrt((i + 1) / P) - sqrt(i / P);
        out[pool[i]] += (float)((1 - o->stray) * (o->peak * favoured + (1 - o->peak) / P));
    }
}

uint32_t bench_locality_next(bench_locality *g)
{
    const bench_locality_options *o = &g->o;
    if (!chance(&g->random, o->locality)) {
        g->cluster = draw_below(&g->random, o->clusters);
    } else if (!chance(&g->random, o->stay)) {
        uint32_t at = draw_below(&g->random, o->topic);
        if (chance(&g->random, o->drift))
            g->topic[draw_below(&g->random, o->topic)] = draw_below(&g->random, o->clusters);
        g->cluster = g->topic[at];
    }
    /* Token t is of cluster t % clusters. */
    uint32_t members = (o->n_tokens - g->cluster - 1) / o->clusters + 1;
    return g->cluster + draw_below(&g->random, members) * o->clusters;
}

uint32_t bench_locality_cluster(const bench_locality *g, uint32_t token)
{
    return token % g->o.clusters;
}

const uint32_t *bench_locality_pool(const bench_locality *g, uint32_t layer, uint32_t cluster)
{
    return g->pools + ((size_t)layer * g->o.clusters + cluster) * g->o.pool;
}

void bench_locality_picks(const bench_locality *g, uint32_t layer, uint32_t token, uint32_t *ids)
{
    const bench_locality_options *o = &g->o;
    const uint32_t *pool = bench_locality_pool(g, layer, bench_locality_cluster(g, token));
    uint64_t state = seed_of(o->seed, ((uint64_t)layer << 32) + token, 2);
    for (uint32_t n = 0, tries = 0; n < o->top_k; tries++) {
        bool favour = chance(&state, o->peak);
        double u = draw_unit(&state);
        uint32_t e = pool[(uint32_t)((favour ? u * u : u) * o->pool)];
        if (chance(&state, o->stray))
            e = draw_expert(g, layer, &state);
        while (tries > 1000 && among(ids, n, e)) /* a pool with nothing else to give */
            e = (e + 1) % o->n_experts;
        if (among(ids, n, e))
            continue;
        uint32_t at = n++;
        for (; at > 0 && ids[at - 1] > e; at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
}
