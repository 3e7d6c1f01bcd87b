/* Proves, over random walks, that the table chooses what a plain search over all slots would
 * choose, that its lists and counts agree with its slots, and that leases and floors hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "io/slot_table.h"

#define LAYERS  4
#define EXPERTS 9
#define TOP_K   2

static uint64_t state_of_random;

static uint32_t draw(uint32_t below)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state_of_random >> 33) % below;
}

static bool free_to_go(const tt_slot_table *t, uint32_t i)
{
    const tt_slot *s = &t->slots[i];
    return s->state == TT_SLOT_READY && s->users == 0 && !s->leaving;
}

static uint32_t count_held(const tt_slot_table *t, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->o.n_slots; i++)
        n += (t->slots[i].state == TT_SLOT_READY || t->slots[i].state == TT_SLOT_LOADING) &&
             tt_slot_layer(t, i) == layer;
    return n;
}

/* The rules, said slowly. */
static uint32_t plain_room(const tt_slot_table *t, uint32_t layer)
{
    for (int pass = 0; pass < 3; pass++) {
        uint32_t best = TT_NO_SLOT;
        for (uint32_t i = 0; i < t->o.n_slots; i++) {
            const tt_slot *s = &t->slots[i];
            if (pass == 0 && s->state == TT_SLOT_EMPTY && s->users == 0)
                return i;
            if (pass < 2 && !free_to_go(t, i))
                continue;
            uint32_t other = tt_slot_layer(t, i);
            if (pass == 0 && t->floors && other != layer && count_held(t, other) <= TOP_K)
                continue;
            if (pass == 2 && (s->state != TT_SLOT_LOADING || s->users > 0 || s->leaving))
                continue;
            if (best == TT_NO_SLOT ||
                tt_cache_policy_before(&t->policy, s->key, t->slots[best].key))
                best = i;
        }
        if (best != TT_NO_SLOT)
            return best;
    }
    return TT_NO_SLOT;
}

static void check_counts(const tt_slot_table *t)
{
    uint32_t active = 0, idle = 0, empty = 0;
    for (uint32_t i = 0; i < t->o.n_slots; i++) {
        const tt_slot *s = &t->slots[i];
        bool in_service = s->state != TT_SLOT_RETIRED && !s->leaving;
        active += in_service;
        idle += in_service && s->users == 0;
        empty += in_service && s->users == 0 && s->state == TT_SLOT_EMPTY;
        if (s->state == TT_SLOT_READY || s->state == TT_SLOT_LOADING)
            assert_int_equal(t->where[s->key], i);
    }
    assert_int_equal(t->active, active);
    assert_int_equal(t->idle, idle);
    assert_int_equal(t->n_free, empty);
    for (uint32_t l = 0; l < LAYERS; l++) {
        uint32_t listed = 0;
        for (uint32_t i = t->first[l]; i != TT_NO_SLOT; i = t->slots[i].next)
            listed += tt_slot_layer(t, i) == l;
        assert_int_equal(listed, count_held(t, l));
        assert_int_equal(t->held[l], listed);
    }
    for (uint32_t k = 0; k < LAYERS * EXPERTS; k++)
        assert_true(t->where[k] == TT_NO_SLOT || t->slots[t->where[k]].key == k);
}

static void end_load(void *ctx, uint32_t slot)
{
    tt_slot_loaded(ctx, slot, true);
}

typedef struct lease {
    uint32_t n, expert[3], slot[3], generation[3];
} lease;

static void ask(tt_slot_table *t, lease *l)
{
    bool hit[3];
    uint32_t e = draw(EXPERTS), layer = draw(LAYERS);
    static const float weight[] = {1, 0.5f, 0.25f};
    l->n = 1 + draw(3);
    for (uint32_t i = 0; i < 3; i++)
        l->expert[i] = (e + 2 * i) % EXPERTS;
    tt_slot_asked a = {.layer = layer,
                       .n = l->n,
                       .expert = l->expert,
                       .weight = draw(2) ? weight : NULL,
                       .slot = l->slot,
                       .hit = hit};
    uint32_t idle = t->idle;
    if (!tt_slot_ask(t, &a, end_load, t)) {
        assert_true(l->n > idle);
        assert_int_equal(t->idle, idle);
        l->n = 0;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        assert_int_equal(t->slots[l->slot[i]].key, tt_slot_key(t, layer, l->expert[i]));
        l->generation[i] = t->slots[l->slot[i]].generation;
    }
}

static void walk(tt_slot_table *t, unsigned steps)
{
    lease held[5] = {0};
    for (unsigned step = 0; step < steps; step++) {
        lease *l = &held[draw(5)];
        for (uint32_t i = 0; i < l->n; i++) {
            /* Law 2. */
            assert_int_equal(t->slots[l->slot[i]].generation, l->generation[i]);
            if (t->slots[l->slot[i]].state == TT_SLOT_LOADING && draw(4) > 0)
                tt_slot_loaded(t, l->slot[i], draw(6) > 0);
        }
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            uint32_t want = plain_room(t, layer), got = tt_slot_room(t, layer);
            /* Which of the empty ones does not matter. */
            if (want != TT_NO_SLOT && t->slots[want].state == TT_SLOT_EMPTY)
                assert_true(t->slots[got].state == TT_SLOT_EMPTY && t->slots[got].users == 0);
            else
                assert_int_equal(got, want);
        }
        if (l->n == 0) {
            ask(t, l);
        } else {
            for (uint32_t i = 0; i < l->n; i++)
                tt_slot_unlease(t, l->slot[i]);
            l->n = 0;
        }
        check_counts(t);
    }
    for (unsigned k = 0; k < 5; k++)
        for (uint32_t i = 0; i < held[k].n; i++)
            tt_slot_unlease(t, held[k].slot[i]);
    check_counts(t);
}

static void it_chooses_as_a_plain_search_does(void **state)
{
    static const uint32_t slots[] = {3, 7, 9, 10, 13, 20, 36};
    for (unsigned s = 0; s < 7; s++) {
        for (int kind = 0; kind < 3; kind++) {
            tt_slot_table t;
            const tt_slot_table_options o = {.n_layers = LAYERS,
                                             .n_experts = EXPERTS,
                                             .top_k = TOP_K,
                                             .n_slots = slots[s],
                                             .policy = (tt_cache_policy_kind)kind,
                                             .half_life = 4};
            state_of_random = s * 3 + (unsigned)kind;
            assert_int_equal(tt_slot_table_init(&t, &o, NULL), TT_OK);
            assert_int_equal(t.floors, slots[s] >= (LAYERS + 1) * TOP_K);
            walk(&t, 400);
            tt_slot_table_free(&t);
        }
    }
}

static void slots_retire_once_and_for_all(void **state)
{
    tt_slot_table t;
    const tt_slot_table_options o = {
        .n_layers = LAYERS, .n_experts = EXPERTS, .top_k = TOP_K, .n_slots = 14, .half_life = 4};
    state_of_random = 99;
    assert_int_equal(tt_slot_table_init(&t, &o, NULL), TT_OK);
    walk(&t, 200);
    assert_true(t.floors);
    for (uint32_t i = 9; i < 14; i++)
        if (t.slots[i].state == TT_SLOT_LOADING)
            tt_slot_loaded(&t, i, true);
    uint32_t ready = 0;
    for (uint32_t i = 9; i < 14; i++)
        ready += t.slots[i].state == TT_SLOT_READY;
    assert_int_equal(tt_slot_retire(&t, 9, 14), ready);
    assert_int_equal(tt_slot_retire(&t, 9, 14), 0);
    assert_int_equal(t.active, 9);
    assert_false(t.floors);
    check_counts(&t);
    walk(&t, 300);
    for (uint32_t i = 9; i < 14; i++)
        assert_int_equal(t.slots[i].state, TT_SLOT_RETIRED);
    /* Under lease, and loading for nobody. */
    uint32_t slot = 0;
    bool hit;
    const uint32_t expert = 3;
    tt_slot_asked a = {.layer = 1, .n = 1, .expert = &expert, .slot = &slot, .hit = &hit};
    assert_true(tt_slot_ask(&t, &a, end_load, &t));
    (void)tt_slot_retire(&t, slot, slot + 1);
    assert_int_equal(t.active, 8);
    check_counts(&t);
    assert_true(t.slots[slot].leaving);
    tt_slot_unlease(&t, slot);
    if (t.slots[slot].state == TT_SLOT_LOADING)
        tt_slot_loaded(&t, slot, true);
    assert_int_equal(t.slots[slot].state, TT_SLOT_RETIRED);
    check_counts(&t);
    walk(&t, 100);
    tt_slot_table_free(&t);
}

/* Scores set from outside, as by a heat profile, count at once. */
static void new_scores_are_followed(void **state)
{
    tt_slot_table t;
    const tt_slot_table_options o = {
        .n_layers = LAYERS, .n_experts = EXPERTS, .top_k = TOP_K, .n_slots = 12, .half_life = 4};
    state_of_random = 5;
    assert_int_equal(tt_slot_table_init(&t, &o, NULL), TT_OK);
    walk(&t, 100);
    for (uint32_t k = 0; k < LAYERS * EXPERTS; k++)
        tt_cache_policy_set_heat(&t.policy, k, (double)draw(100));
    tt_slot_scores_changed(&t);
    walk(&t, 100);
    tt_slot_table_free(&t);
}

static void the_clock_counts_tokens(void **state)
{
    tt_slot_table t;
    const tt_slot_table_options o = {
        .n_layers = LAYERS, .n_experts = EXPERTS, .top_k = TOP_K, .n_slots = 12};
    assert_int_equal(tt_slot_table_init(&t, &o, NULL), TT_OK);
    uint32_t slot[EXPERTS];
    bool hit[EXPERTS];
    for (uint32_t l = 0; l < LAYERS; l++) {
        const uint32_t ids[] = {l, l + 1};
        tt_slot_asked a = {.layer = l, .n = TOP_K, .expert = ids, .slot = slot, .hit = hit};
        assert_true(tt_slot_ask(&t, &a, end_load, &t));
        for (uint32_t i = 0; i < TOP_K; i++)
            tt_slot_unlease(&t, slot[i]);
    }
    assert_true(fabs(t.policy.clock - 1.0) < 1e-12);
    /* A sweep of any number of rows is one token too: picks / rows sum to top-k. */
    for (uint32_t l = 0; l < LAYERS; l++) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            const float weight = (float)TOP_K / EXPERTS;
            tt_slot_asked a = {
                .layer = l, .n = 1, .expert = &e, .weight = &weight, .slot = slot, .hit = hit};
            assert_true(tt_slot_ask(&t, &a, end_load, &t));
            tt_slot_unlease(&t, slot[0]);
        }
    }
    assert_true(fabs(t.policy.clock - 2.0) < 1e-6);
    tt_slot_table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_chooses_as_a_plain_search_does),
        cmocka_unit_test(slots_retire_once_and_for_all),
        cmocka_unit_test(new_scores_are_followed),
        cmocka_unit_test(the_clock_counts_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
