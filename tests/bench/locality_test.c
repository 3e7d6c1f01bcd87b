/* Proves that the generator has the published locality of the 35B within 3 points, that a token's
 * picks are its own, and that on it the cache's rule is above the least recently used at every
 * size, below the cliff too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/tempdir.h"
#include "bench/locality.h"
#include "io/cache_replay.h"

#define EXPERTS 256
#define TOP_K   8
#define TOKENS  383
#define SEEDS   8

static bench_locality *open_chain(uint32_t layers, uint64_t seed, float locality)
{
    bench_locality_options o;
    bench_locality *g = NULL;
    bench_locality_default(&o, layers, EXPERTS, TOP_K);
    o.seed = seed;
    o.locality = locality;
    assert_int_equal(bench_locality_open(&o, &g, NULL), TT_OK);
    return g;
}

/* The chain as a decode would ask. */
static void trace_of(bench_locality *g, uint32_t layers, uint32_t tokens, tt_cache_trace *t)
{
    char dir[512], path[600];
    tt_cache_trace_writer w;
    const tt_cache_trace_info info = {
        .n_layers = layers, .n_experts = EXPERTS, .top_k = TOP_K, .expert_bytes = 1};
    uint64_t asks = 0;
    tt_cache_trace_begin(&w, &info, 1 << 28);
    for (uint32_t i = 0; i < tokens; i++) {
        uint32_t token = bench_locality_next(g);
        for (uint32_t l = 0; l < layers; l++) {
            uint32_t ids[TOP_K];
            bench_locality_picks(g, l, token, ids);
            tt_cache_event e = {
                .kind = TT_TRACE_ASK, .lease = asks, .layer = l, .n = TOP_K, .expert = ids};
            tt_cache_trace_add(&w, &e);
            e = (tt_cache_event){.kind = TT_TRACE_RELEASE, .lease = asks++};
            tt_cache_trace_add(&w, &e);
        }
    }
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/chain.trace", dir);
    assert_int_equal(tt_cache_trace_publish(&w, path, NULL), TT_OK);
    assert_int_equal(tt_cache_trace_load(path, t, NULL), TT_OK);
    tt_cache_trace_end(&w);
    tempdir_remove(dir);
}

static double rate(const tt_cache_trace *t, tt_cache_policy_kind policy, uint32_t slots)
{
    const tt_replay_options o = {.slots = slots, .policy = policy};
    tt_replay_result r;
    assert_int_equal(tt_cache_replay(t, &o, &r, NULL), TT_OK);
    return (double)r.hits / (double)r.asks;
}

static uint32_t distinct(uint32_t (*picks)[TOP_K], uint32_t tokens)
{
    bool seen[EXPERTS] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < tokens; i++)
        for (uint32_t k = 0; k < TOP_K; k++)
            seen[picks[i][k]] = true;
    for (uint32_t e = 0; e < EXPERTS; e++)
        n += seen[e];
    return n;
}

static double overlap(uint32_t (*picks)[TOP_K], uint32_t tokens)
{
    double n = 0;
    for (uint32_t i = 1; i < tokens; i++)
        for (uint32_t a = 0; a < TOP_K; a++)
            for (uint32_t b = 0; b < TOP_K; b++)
                n += picks[i][a] == picks[i - 1][b];
    return n / (tokens - 1);
}

static void near(const char *what, double got, double want, double bar)
{
    if (got < want - bar || got > want + bar)
        fail_msg("%s is %.3f, published %.3f", what, got, want);
}

static void locality_is_as_published(void **state)
{
    double same = 0, wide = 0, lru = 0, best = 0, lfu = 0, lru64 = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        static uint32_t picks[TOKENS][TOP_K];
        bench_locality *g = open_chain(1, seed, 1);
        for (uint32_t i = 0; i < TOKENS; i++)
            bench_locality_picks(g, 0, bench_locality_next(g), picks[i]);
        same += overlap(picks, TOKENS) / SEEDS;
        for (uint32_t at = 0; at + 128 <= TOKENS; at += 51)
            wide += distinct(picks + at, 128) / 6.0 / SEEDS;
        bench_locality_restart(g, seed);
        tt_cache_trace t;
        trace_of(g, 1, TOKENS, &t);
        lru += rate(&t, TT_CACHE_LRU, 128) / SEEDS;
        best += rate(&t, TT_CACHE_BELADY, 128) / SEEDS;
        lfu += rate(&t, TT_CACHE_LFU, 64) / SEEDS;
        lru64 += rate(&t, TT_CACHE_LRU, 64) / SEEDS;
        tt_cache_trace_free(&t);
        bench_locality_close(&g);
    }
    near("overlap with the token before", same, 3.0, 0.24); /* 3 points of 8 */
    near("distinct experts in 128 tokens", wide, 131, 7.7); /* 3 points of 256 */
    near("least recently used at 128 slots", lru, 0.897, 0.03);
    near("the best at 128 slots", best, 0.936, 0.03);
    if (lfu < lru64 - 0.01)
        fail_msg("counts alone %.3f, recency alone %.3f", lfu, lru64);
}

/* Decode of many layers in one pool, from two sevenths of a token's experts to half of all. */
static void the_rule_beats_recency_at_every_size(void **state)
{
    enum { LAYERS = 3 };
    static const struct {
        uint32_t slots; /* a layer */
        double more;    /* points above the least recently used */
    } sizes[] = {{4, 0.10},  {9, -0.002}, {16, 0},      {24, 0.01},
                 {40, 0.02}, {64, 0.03},  {128, -0.002}};
    bench_locality *g = open_chain(LAYERS, 5, 1);
    tt_cache_trace t;
    trace_of(g, LAYERS, 800, &t);
    double before = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t slots = sizes[i].slots * LAYERS;
        double ours = rate(&t, TT_CACHE_LFU_DECAY, slots), lru = rate(&t, TT_CACHE_LRU, slots),
               best = rate(&t, TT_CACHE_BELADY, slots);
        if (ours < lru + sizes[i].more || ours > best || ours < before)
            fail_msg("%u slots a layer: %.3f, recency %.3f, best %.3f", sizes[i].slots, ours, lru,
                     best);
        if (sizes[i].slots < TOP_K)
            assert_true(lru == 0);
        before = ours;
    }
    tt_cache_trace_free(&t);
    bench_locality_close(&g);
}

static void picks_belong_to_the_token(void **state)
{
    bench_locality *g = open_chain(3, 7, 1), *again = open_chain(3, 7, 1);
    uint32_t from_pool = 0;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t token = bench_locality_next(g), ids[TOP_K], same[TOP_K], other[TOP_K];
        assert_int_equal(token, bench_locality_next(again));
        bench_locality_picks(g, i % 3, token, ids);
        bench_locality_picks(again, i % 3, token, same);
        bench_locality_picks(g, (i + 1) % 3, token, other);
        assert_memory_equal(ids, same, sizeof ids);
        assert_memory_not_equal(ids, other, sizeof ids);
        const uint32_t *pool = bench_locality_pool(g, i % 3, bench_locality_cluster(g, token));
        for (uint32_t k = 0; k < TOP_K; k++) {
            assert_true(ids[k] < EXPERTS && (k == 0 || ids[k] > ids[k - 1]));
            for (uint32_t p = 0; p < 11; p++)
                from_pool += pool[p] == ids[k];
        }
    }
    assert_true(from_pool > 200 * TOP_K * 8 / 10 && from_pool < 200 * TOP_K);
    bench_locality_close(&g);
    bench_locality_close(&again);
    bench_locality_close(&g);
    bench_locality_close(NULL);
}

static void less_locality_is_less(void **state)
{
    double same[3];
    for (int i = 0; i < 3; i++) {
        static uint32_t picks[2000][TOP_K];
        bench_locality *g = open_chain(1, 3, 0.5f * (float)i);
        for (uint32_t t = 0; t < 2000; t++)
            bench_locality_picks(g, 0, bench_locality_next(g), picks[t]);
        same[i] = overlap(picks, 2000);
        bench_locality_close(&g);
    }
    assert_true(same[0] < same[1] - 0.2 && same[1] < same[2] - 0.2);
}

/* All experts of a small model, one token a cluster, pools as large as they can be. */
static void small_and_odd_options_end(void **state)
{
    bench_locality_options o;
    bench_locality *g = NULL;
    uint32_t ids[8];
    bench_locality_default(&o, 2, 8, 8);
    assert_int_equal(o.pool, 8);
    o.n_tokens = o.clusters;
    o.skew = 1;
    o.stray = 1;
    assert_int_equal(bench_locality_open(&o, &g, NULL), TT_OK);
    bench_locality_picks(g, 1, bench_locality_next(g), ids);
    for (uint32_t k = 0; k < 8; k++)
        assert_int_equal(ids[k], k);
    bench_locality_close(&g);
    bench_locality_options bad[9];
    for (int i = 0; i < 9; i++)
        bad[i] = o;
    bad[0].n_layers = 0;
    bad[1].n_experts = 5000;
    bad[2].top_k = 9;
    bad[3].pool = 7;
    bad[4].clusters = 0;
    bad[5].topic = 0;
    bad[6].n_tokens = 1;
    bad[7].stay = 1.5f;
    bad[8].locality = -1;
    for (int i = 0; i < 9; i++)
        assert_int_equal(bench_locality_open(&bad[i], &g, NULL), TT_ERR_INVALID);
    assert_null(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locality_is_as_published),
        cmocka_unit_test(the_rule_beats_recency_at_every_size),
        cmocka_unit_test(picks_belong_to_the_token),
        cmocka_unit_test(less_locality_is_less),
        cmocka_unit_test(small_and_odd_options_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
