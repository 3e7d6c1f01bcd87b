/* Proves that a replay counts exactly what the engine counted, whatever the policy, the number of
 * slots and the overlap of leases, that Belady's bound is above them all, and that it is the best
 * that small cases allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/faulty_reader.h"
#include "../support/memory_reader.h"
#include "../support/tempdir.h"
#include "base/file.h"
#include "io/cache_replay.h"
#include "io/expert_cache.h"

#define LAYERS  3
#define EXPERTS 12
#define TOP_K   2
#define STRIDE  ((uint64_t)TT_PAGE_ALIGN)
#define LEASES  5

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

typedef struct held {
    tt_expert_lease lease;
    uint32_t expert[3], slot[3], generation[3];
    bool hit[3], live;
} held;

static void ask(tt_expert_cache *c, held *h)
{
    static const float weight[] = {0.5f, 0.125f, 0.75f};
    /* Half of the asks are among few experts, so that there is something to keep. */
    uint32_t e = draw(draw(2) ? 3 : EXPERTS);
    for (uint32_t i = 0; i < 3; i++)
        h->expert[i] = (e + 4 * i) % EXPERTS;
    h->lease = (tt_expert_lease){.layer = draw(LAYERS),
                                 .n = draw(4),
                                 .prefill = draw(3) == 0,
                                 .weight = draw(3) == 0 ? weight : NULL,
                                 .expert = h->expert,
                                 .slot = h->slot,
                                 .generation = h->generation,
                                 .hit = h->hit};
    h->live = tt_expert_cache_ask(c, &h->lease, NULL) == TT_OK;
}

/* Leases that overlap, are abandoned before their reads came, polls in between. */
static void run(tt_expert_cache *c, unsigned steps)
{
    held h[LEASES] = {0};
    for (unsigned step = 0; step < steps; step++) {
        held *k = &h[draw(LEASES)];
        const void *bytes;
        if (draw(5) == 0)
            tt_expert_cache_poll(c);
        for (uint32_t i = 0; k->live && i < k->lease.n; i++)
            if (draw(8) > 0)
                (void)!tt_expert_cache_wait(c, &k->lease, i, TT_EXPERT_ALL, &bytes, NULL);
        if (!k->live) {
            ask(c, k);
            continue;
        }
        tt_expert_cache_release(c, &k->lease);
        k->live = false;
    }
    for (unsigned i = 0; i < LEASES; i++)
        if (h[i].live)
            tt_expert_cache_release(c, &h[i].lease);
}

static tt_expert_cache *open_cache(tt_reader *reader, tt_cache_policy_kind policy, uint32_t slots)
{
    tt_expert_cache *c = NULL;
    const tt_expert_cache_options o = {.n_layers = LAYERS,
                                       .n_experts = EXPERTS,
                                       .top_k = TOP_K,
                                       .slots_total = slots,
                                       .stride = STRIDE,
                                       .payload_bytes = STRIDE,
                                       .split = STRIDE / 2,
                                       .reader = reader,
                                       .policy = policy,
                                       .half_life = 5};
    assert_int_equal(tt_expert_cache_create(&o, &c, NULL), TT_OK);
    return c;
}

static void begin_trace(tt_cache_trace_writer *w, tt_expert_cache *c, tt_cache_policy_kind policy,
                        uint32_t slots)
{
    const tt_cache_trace_info info = {.n_layers = LAYERS,
                                      .n_experts = EXPERTS,
                                      .top_k = TOP_K,
                                      .slots = slots,
                                      .policy = policy,
                                      .half_life = 5,
                                      .expert_bytes = STRIDE};
    tt_cache_trace_begin(w, &info, 1 << 24);
    const tt_cache_recorder r = tt_cache_trace_recorder(w);
    tt_expert_cache_record(c, &r);
}

static void end_trace(tt_cache_trace_writer *w, tt_cache_trace *t)
{
    char dir[512], path[600];
    tempdir_make(dir);
    snprintf(path, sizeof path, "%s/run.trace", dir);
    assert_int_equal(tt_cache_trace_publish(w, path, NULL), TT_OK);
    assert_int_equal(tt_cache_trace_load(path, t, NULL), TT_OK);
    tt_cache_trace_end(w);
    tempdir_remove(dir);
}

static tt_replay_result play(const tt_cache_trace *t, tt_cache_policy_kind policy, uint32_t slots)
{
    const tt_replay_options o = {.slots = slots, .policy = policy, .half_life = 5};
    tt_replay_result r;
    assert_int_equal(tt_cache_replay(t, &o, &r, NULL), TT_OK);
    assert_int_equal(r.asks, r.hits + r.misses + r.joins);
    return r;
}

static void counts_agree(tt_reader *reader, unsigned steps)
{
    static const uint32_t slots[] = {3, 5, 7, 8, 9, 15, 36};
    uint64_t joins = 0;
    for (int kind = 0; kind < 3; kind++) {
        for (unsigned s = 0; s < 7; s++) {
            tt_cache_policy_kind policy = (tt_cache_policy_kind)kind;
            tt_cache_trace_writer w;
            tt_cache_trace t;
            tt_expert_cache_stats live;
            random_state = (unsigned)kind * 100 + s;
            tt_expert_cache *c = open_cache(reader, policy, slots[s]);
            begin_trace(&w, c, policy, slots[s]);
            run(c, steps);
            tt_expert_cache_get_stats(c, &live);
            tt_expert_cache_close(&c);
            end_trace(&w, &t);
            tt_replay_result r = play(&t, policy, slots[s]);
            assert_int_equal(r.asks, live.asks);
            assert_int_equal(r.hits, live.hits);
            assert_int_equal(r.misses, live.misses);
            assert_int_equal(r.joins, live.joins);
            assert_int_equal(r.evictions, live.evictions);
            assert_int_equal(r.asks - r.decode_asks, live.prefill_asks);
            assert_int_equal(r.hits - r.decode_hits, live.prefill_hits);
            assert_int_equal(r.refused, 0);
            assert_true(live.hits > 0 && live.misses > 10);
            joins += live.joins;
            tt_cache_trace_free(&t);
        }
    }
    assert_true(joins > 50);
}

static void counts_are_those_of_the_engine(void **state)
{
    for (unsigned polls = 0; polls < 2; polls++) {
        tt_reader *reader = memory_reader_open(polls);
        counts_agree(reader, 600);
        tt_reader_close(&reader);
    }
}

/* With reads that fail, at their start too, and complete in any order. */
static void counts_agree_when_reads_fail(void **state)
{
    tt_reader *inner = memory_reader_open(false), *reader = NULL;
    faulty_options o;
    faulty_options_default(&o);
    o.reorder = true;
    o.fail_every = 9;
    o.fail_start = 55;
    assert_int_equal(faulty_reader_open(&inner, &o, &reader, NULL), TT_OK);
    counts_agree(reader, 600);
    tt_reader_close(&reader);
}

/* One ask after the other, each of `n` experts, as decode does. */
static void trace_of(const uint32_t *experts, unsigned asks, uint32_t n, tt_cache_trace *t)
{
    tt_cache_trace_writer w;
    const tt_cache_trace_info info = {
        .n_layers = 1, .n_experts = EXPERTS, .top_k = n, .expert_bytes = STRIDE};
    tt_cache_trace_begin(&w, &info, 1 << 20);
    for (unsigned i = 0; i < asks; i++) {
        tt_cache_event e = {.kind = TT_TRACE_ASK, .lease = i, .n = n, .expert = experts + i * n};
        tt_cache_trace_add(&w, &e);
        e = (tt_cache_event){.kind = TT_TRACE_RELEASE, .lease = i};
        tt_cache_trace_add(&w, &e);
    }
    end_trace(&w, t);
}

/* The most hits that any choice of victims gives, by trying them all. */
static unsigned best_of_all(const uint32_t *asked, unsigned n, uint32_t in, unsigned slots)
{
    if (n == 0)
        return 0;
    uint32_t bit = 1u << asked[0];
    if (in & bit)
        return 1 + best_of_all(asked + 1, n - 1, in, slots);
    if ((unsigned)__builtin_popcount(in) < slots)
        return best_of_all(asked + 1, n - 1, in | bit, slots);
    unsigned best = 0;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        if (in >> e & 1) {
            unsigned got = best_of_all(asked + 1, n - 1, (in & ~(1u << e)) | bit, slots);
            best = got > best ? got : best;
        }
    }
    return best;
}

static void belady_is_the_best_there_is(void **state)
{
    random_state = 3;
    for (unsigned round = 0; round < 30; round++) {
        uint32_t asked[14];
        for (unsigned i = 0; i < 14; i++)
            asked[i] = draw(6);
        tt_cache_trace t;
        trace_of(asked, 14, 1, &t);
        for (uint32_t slots = 1; slots < 5; slots++) {
            unsigned best = best_of_all(asked, 14, 0, slots);
            assert_int_equal(play(&t, TT_CACHE_BELADY, slots).hits, best);
            assert_true(play(&t, TT_CACHE_LRU, slots).hits <= best);
            assert_true(play(&t, TT_CACHE_LFU, slots).hits <= best);
            assert_true(play(&t, TT_CACHE_LFU_DECAY, slots).hits <= best);
        }
        tt_cache_trace_free(&t);
    }
}

static void known_sequences_count_as_known(void **state)
{
    /* Around and around one more than fits: LRU never hits. */
    uint32_t around[40];
    for (unsigned i = 0; i < 40; i++)
        around[i] = i % 5;
    tt_cache_trace t;
    trace_of(around, 40, 1, &t);
    assert_int_equal(play(&t, TT_CACHE_LRU, 4).hits, 0);
    assert_int_equal(play(&t, TT_CACHE_LRU, 4).evictions, 36);
    assert_int_equal(play(&t, TT_CACHE_LRU, 5).hits, 35);
    assert_true(play(&t, TT_CACHE_BELADY, 4).hits >= 26);
    tt_cache_trace_free(&t);

    /* More than a slot an expert of an ask: what finds no room is a miss and stands nowhere. */
    const uint32_t wide[] = {0, 1, 2, 0, 1, 2};
    trace_of(wide, 2, 3, &t);
    tt_replay_result r = play(&t, TT_CACHE_LRU, 2);
    assert_int_equal(r.refused, 6);
    assert_int_equal(r.misses, 6);
    r = play(&t, TT_CACHE_LRU, 3);
    assert_int_equal(r.refused, 0);
    assert_int_equal(r.hits, 3);
    tt_replay_options bad = {.slots = 0};
    assert_int_equal(tt_cache_replay(&t, &bad, &r, NULL), TT_ERR_INVALID);
    bad.slots = EXPERTS + 1;
    assert_int_equal(tt_cache_replay(&t, &bad, &r, NULL), TT_ERR_INVALID);
    tt_cache_trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_engine),
        cmocka_unit_test(counts_agree_when_reads_fail),
        cmocka_unit_test(belady_is_the_best_there_is),
        cmocka_unit_test(known_sequences_count_as_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
