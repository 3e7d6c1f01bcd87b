/* Proves that slots are given back a slab at a time under pressure and never below the floor, as
 * many as the reserve lacks, that a budget which takes everything is not held against itself, that
 * a governor which is off does nothing, and that logits are the same bytes while slabs leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "../support/faulty_reader.h"
#include "../support/memory_reader.h"
#include "../support/vectors.h"

/* ---- a source of pressure that says what it is told ---- */

typedef struct gauge {
    tt_pressure_report next;
    unsigned asked, tight_every; /* every n-th look is tight; 0: none */
} gauge;

static tt_pressure_level look(void *ctx, tt_pressure_report *report)
{
    gauge *g = ctx;
    g->asked++;
    *report = g->next;
    return g->tight_every > 0 && g->asked % g->tight_every == 0 ? TT_PRESSURE_TIGHT
                                                                : TT_PRESSURE_NONE;
}

/* ---- alone ---- */

enum { LAYERS = 3, EXPERTS = 20, TOP_K = 2, SLOTS = 40, A_SLAB = 4 };

#define STRIDE ((uint64_t)TT_PAGE_ALIGN)

typedef struct rig {
    tt_reader *reader;
    tt_expert_cache *cache;
    tt_governor governor;
    gauge gauge;
    tt_plan plan;
} rig;

static void set_up(rig *r)
{
    *r = (rig){.reader = memory_reader_open(true)};
    tt_expert_cache_options o = {.n_layers = LAYERS,
                                 .n_experts = EXPERTS,
                                 .top_k = TOP_K,
                                 .slots_total = SLOTS,
                                 .stride = STRIDE,
                                 .payload_bytes = STRIDE,
                                 .slab_bytes = A_SLAB * STRIDE,
                                 .reader = r->reader};
    assert_int_equal(tt_expert_cache_create(&o, &r->cache, NULL), TT_OK);
    r->plan = (tt_plan){.n_moe_layers = LAYERS,
                        .top_k = TOP_K,
                        .expert_bytes = STRIDE,
                        .total = TT_GIB,
                        .machine_available = 2 * TT_GIB,
                        .governor = true};
    assert_int_equal(tt_governor_init(&r->governor, &r->plan, r->cache, NULL), TT_OK);
    r->gauge = (gauge){.tight_every = 1, .next.cause = "stalls"};
    tt_governor_set_source(&r->governor, look, &r->gauge);
}

static void tear_down(rig *r)
{
    tt_governor_free(&r->governor);
    tt_expert_cache_close(&r->cache);
    tt_reader_close(&r->reader);
}

static tt_expert_cache_stats stats(const rig *r)
{
    tt_expert_cache_stats s;
    tt_expert_cache_get_stats(r->cache, &s);
    return s;
}

static void one_slab_a_look_down_to_the_floor(void **state)
{
    rig r;
    set_up(&r);
    uint32_t have = SLOTS, floor = LAYERS * TOP_K;
    for (; have >= floor + A_SLAB; have -= A_SLAB) {
        assert_int_equal(stats(&r).slots_total, have);
        assert_true(tt_governor_check(&r.governor));
        assert_string_equal(r.governor.cause, "stalls");
    }
    assert_true(have >= floor && have < floor + A_SLAB);
    for (unsigned k = 0; k < 3; k++)
        assert_false(tt_governor_check(&r.governor));
    assert_int_equal(r.governor.refused, 3);
    assert_int_equal(stats(&r).slots_total, have);
    assert_int_equal(stats(&r).slabs_retired, (SLOTS - have) / A_SLAB);
    tear_down(&r);
}

static void as_many_as_the_reserve_lacks(void **state)
{
    rig r;
    set_up(&r);
    r.gauge.next = (tt_pressure_report){.cause = "reserve", .left = TT_GIB, .reserve = TT_GIB};
    r.gauge.next.left -= 3 * A_SLAB * STRIDE - 1; /* three slabs, but for a byte */
    assert_true(tt_governor_check(&r.governor));
    assert_int_equal(stats(&r).slabs_retired, 3);
    r.gauge.next.left = TT_GIB - 1;
    assert_true(tt_governor_check(&r.governor));
    assert_int_equal(stats(&r).slabs_retired, 4);
    r.gauge.next.left = 0;
    assert_true(tt_governor_check(&r.governor)); /* what there is */
    assert_int_equal(stats(&r).slots_total, 8);
    assert_int_equal(r.governor.refused, 1);
    tear_down(&r);
}

static void calm_and_off_do_nothing(void **state)
{
    rig r;
    set_up(&r);
    r.gauge.tight_every = 0;
    for (unsigned i = 0; i < 5; i++)
        assert_false(tt_governor_check(&r.governor));
    assert_int_equal(r.gauge.asked, 5);
    assert_int_equal(stats(&r).slots_total, SLOTS);
    tt_governor_free(&r.governor);
    r.plan.governor = false;
    assert_int_equal(tt_governor_init(&r.governor, &r.plan, r.cache, NULL), TT_OK);
    assert_null(r.governor.source);
    assert_false(tt_governor_check(&r.governor));
    tt_governor_free(&r.governor);
    r.plan.governor = true;
    assert_int_equal(tt_governor_init(&r.governor, &r.plan, NULL, NULL), TT_OK); /* dense */
    assert_false(tt_governor_check(&r.governor));
    tear_down(&r);
}

/* The machine itself as the source: a reserve that follows from what the plan leaves. */
static void the_reserve_is_half_of_what_is_left_at_most(void **state)
{
    static const struct {
        uint64_t have, total, reserve;
    } all[] = {
        {64 * TT_GIB, 4 * TT_GIB, 2 * TT_GIB},      {64 * TT_GIB, 60 * TT_GIB, 2 * TT_GIB},
        {64 * TT_GIB, 61 * TT_GIB, 3 * TT_GIB / 2}, {512 * TT_MIB, 100 * TT_MIB, 64 * TT_MIB},
        {512 * TT_MIB, 448 * TT_MIB, 32 * TT_MIB},  {512 * TT_MIB, 512 * TT_MIB, TT_MIB},
    };
    rig r;
    set_up(&r);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        tt_pressure_report report;
        tt_governor_free(&r.governor);
        r.plan.machine_available = all[i].have;
        r.plan.total = all[i].total;
        assert_int_equal(tt_governor_init(&r.governor, &r.plan, r.cache, NULL), TT_OK);
        (void)tt_pressure_poll(r.governor.pressure, &report);
        assert_int_equal(report.reserve, all[i].reserve);
    }
    tear_down(&r);
}

/* ---- in a model ---- */

enum { N = 150, PROMPT = 128 };

static uint32_t *prompt; /* [N] */

/* The same slots in slabs of a few, so that there is something to give back. */
static void small_slabs(tt_model *m, uint32_t slots_a_slab)
{
    const tt_expert_layout *layout = tt_install_expert_layout(m->install);
    tt_expert_cache_options o = {.n_layers = m->plan.n_moe_layers,
                                 .n_experts = layout->n_experts,
                                 .top_k = m->arch.top_k,
                                 .slots_total = m->plan.slots_total,
                                 .stride = layout->stride,
                                 .payload_bytes = layout->payload_bytes,
                                 .slab_bytes = slots_a_slab * layout->stride,
                                 .reader = m->reader,
                                 .crc = m->crc};
    tt_moe_free(&m->moe);
    tt_expert_cache_close(&m->cache);
    assert_int_equal(tt_expert_cache_create(&o, &m->cache, NULL), TT_OK);
    assert_int_equal(tt_moe_init(&m->moe, &m->arch, m->plan.prefill_chunk, m->cache, layout, NULL),
                     TT_OK);
    m->governor.cache = m->cache;
}

static float *trajectory(tt_model *m)
{
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    size_t vocab = m->arch.vocab_size;
    float *out = malloc((N - PROMPT + 1) * vocab * sizeof *out);
    for (uint32_t at = 0; at < PROMPT; at += 64)
        if (tt_session_prefill(s, prompt + at, 64, NULL, &err) != TT_OK)
            fail_msg("%s", err.message);
    for (uint32_t i = PROMPT;; i++) {
        memcpy(out + (i - PROMPT) * vocab, tt_session_logits(s), vocab * sizeof *out);
        if (i == N)
            break;
        if (tt_session_decode(s, prompt[i], &err) != TT_OK)
            fail_msg("%s", err.message);
    }
    tt_session_close(&s);
    return out;
}

static tt_model *open_tales(uint32_t slots)
{
    return fixture_model(fixture_install("models/tales", NULL, 4), NULL, 8, slots, 2);
}

static void logits_are_the_same_bytes_while_slabs_leave(void **state)
{
    tt_model *m = open_tales(0);
    size_t bytes = (N - PROMPT + 1) * m->arch.vocab_size * sizeof(float);
    float *want = trajectory(m);
    tt_model_close(&m);
    for (unsigned i = 0; i < 4; i++) {
        gauge g = {.tight_every = 1 + i, .next.cause = "stalls"};
        faulty_options f;
        m = open_tales(i == 3 ? 9 : 0);
        small_slabs(m, 5);
        if (i > 0) { /* and with reads that come when they like */
            tt_reader *faulty = NULL;
            faulty_options_default(&f);
            f.seed = i;
            f.reorder = true;
            f.threaded = i == 2;
            assert_int_equal(faulty_reader_open(&m->reader, &f, &faulty, NULL), TT_OK);
            m->reader = faulty;
            tt_expert_cache_set_reader(m->cache, faulty);
        }
        tt_governor_set_source(&m->governor, look, &g);
        float *have = trajectory(m);
        assert_memory_equal(want, have, bytes);
        free(have);
        tt_model_stats s;
        tt_model_get_stats(m, &s);
        /* once a decoded token, once a layer of each of two prompt steps */
        assert_int_equal(g.asked, N - PROMPT + 2 * m->arch.n_layers);
        assert_true(s.slabs_retired >= 5);
        assert_true(s.expert_slots < m->plan.slots_total);
        assert_true(s.expert_slots >= m->plan.n_moe_layers * m->plan.top_k);
        assert_string_equal(s.pressure, "stalls");
        tt_model_close(&m);
    }
    free(want);
}

static void options_switch_it(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    for (unsigned on = 0; on < 2; on++) {
        tt_model_options o;
        tt_model *m = NULL;
        tt_model_options_default(&o);
        assert_true(o.governor);
        o.governor = on;
        o.threads = 1;
        assert_int_equal(tt_model_open(install, &o, NULL, NULL, &m, NULL), TT_OK);
        assert_int_equal(tt_model_get_plan(m)->governor, on);
        assert_int_equal(m->governor.pressure != NULL, on);
        assert_true(on ? tt_model_idle(m) > 0 : tt_model_idle(m) < 0);
        tt_model_stats s;
        tt_model_get_stats(m, &s);
        assert_int_equal(s.expert_slots, m->plan.slots_total);
        assert_int_equal(s.slabs_retired, 0);
        assert_string_equal(s.pressure, "");
        tt_model_close(&m);
    }
}

static int setup(void **state)
{
    json_t *json = NULL;
    size_t n = 0;
    if (tt_json_load("tests/vectors/tales/expected.json", 1 << 24, &json, NULL) != TT_OK)
        return -1;
    prompt = vector_ids(json, "prompt_ids", &n);
    json_decref(json);
    return n == N ? 0 : -1;
}

static int teardown(void **state)
{
    free(prompt);
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slab_a_look_down_to_the_floor),
        cmocka_unit_test(as_many_as_the_reserve_lacks),
        cmocka_unit_test(calm_and_off_do_nothing),
        cmocka_unit_test(the_reserve_is_half_of_what_is_left_at_most),
        cmocka_unit_test(logits_are_the_same_bytes_while_slabs_leave),
        cmocka_unit_test(options_switch_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
