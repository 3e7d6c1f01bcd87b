/* Clusters of tokens, pools of experts, and a chain that stays, moves within a topic, and lets the
 * topic drift. */
#include "bench/locality.h"

#include <stdlib.h>
#include <string.h>

struct bench_locality {
    bench_locality_options o;
    uint32_t *pools; /* [n_layers][clusters][pool] */
    uint32_t *topic; /* [topic] clusters */
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

static bool chance(uint64_t *state, float p)
{
    return (double)(draw(state) >> 11) * 0x1p-53 < (double)p;
}

static uint64_t seed_of(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t s = seed ^ a * 0xD1342543DE82EF95u ^ b * 0x2545F4914F6CDD1Du;
    return draw(&s);
}

void bench_locality_default(bench_locality_options *o, uint32_t n_layers, uint32_t n_experts,
                            uint32_t top_k)
{
    uint32_t pool = n_experts * 14 / 256;
    uint32_t least = top_k + (top_k + 1) / 2;
    pool = pool > least ? pool : least;
    *o = (bench_locality_options){.n_layers = n_layers,
                                  .n_experts = n_experts,
                                  .top_k = top_k,
                                  .n_tokens = 65536,
                                  .clusters = 32,
                                  .pool = pool < n_experts ? pool : n_experts,
                                  .topic = 6,
                                  .stay = 0.57f,
                                  .drift = 0.28f,
                                  .stray = 0.01f,
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
    const float p[] = {o->stay, o->drift, o->stray, o->locality};
    for (unsigned i = 0; i < 4; i++)
        if (!(p[i] >= 0.0f && p[i] <= 1.0f))
            return tt_fail(err, TT_ERR_INVALID, "a chance is %g, must be 0 to 1", (double)p[i]);
    return TT_OK;
}

/* The first `n` of a random order of the experts. */
static void fill_pool(uint32_t *pool, uint32_t n, uint32_t n_experts, uint32_t *order,
                      uint64_t state)
{
    for (uint32_t e = 0; e < n_experts; e++)
        order[e] = e;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i + draw_below(&state, n_experts - i), e = order[k];
        order[k] = order[i];
        pool[i] = e;
    }
}

tt_status bench_locality_open(const bench_locality_options *o, bench_locality **out, tt_error *err)
{
    TT_TRY(check_options(o, err));
    size_t pools = (size_t)o->n_layers * o->clusters;
    bench_locality *g = calloc(1, sizeof *g);
    uint32_t *order = calloc(o->n_experts, sizeof *order);
    if (g != NULL) {
        g->o = *o;
        g->pools = calloc(pools, o->pool * sizeof *g->pools);
        g->topic = calloc(o->topic, sizeof *g->topic);
    }
    if (g == NULL || order == NULL || g->pools == NULL || g->topic == NULL) {
        free(order);
        bench_locality_close(&g);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu pools of experts", pools);
    }
    for (size_t i = 0; i < pools; i++)
        fill_pool(g->pools + i * o->pool, o->pool, o->n_experts, order,
                  seed_of(o->seed, 1 + i / o->clusters, i % o->clusters));
    free(order);
    bench_locality_restart(g, o->seed);
    *out = g;
    return TT_OK;
}

void bench_locality_close(bench_locality **gp)
{
    if (gp == NULL || *gp == NULL)
        return;
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

static bool among(const uint32_t *ids, uint32_t n, uint32_t e)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == e)
            return true;
    return false;
}

void bench_locality_picks(const bench_locality *g, uint32_t layer, uint32_t token, uint32_t *ids)
{
    const bench_locality_options *o = &g->o;
    const uint32_t *pool = bench_locality_pool(g, layer, bench_locality_cluster(g, token));
    uint64_t state = seed_of(o->seed, ((uint64_t)layer << 32) + token, 2);
    for (uint32_t n = 0; n < o->top_k;) {
        uint32_t e = chance(&state, o->stray) ? draw_below(&state, o->n_experts)
                                              : pool[draw_below(&state, o->pool)];
        if (among(ids, n, e))
            continue;
        uint32_t at = n++;
        for (; at > 0 && ids[at - 1] > e; at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
}
