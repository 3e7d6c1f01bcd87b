/* Proves the questions of the public header: defaults, a plan that is the plan of the open, the
 * same refusals from both, what an opened model says of itself, and that NULL options and NULL
 * handles are fine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/tiny_model.h"

static const char *moe, *dense;

static tt_model_options defaults(void)
{
    tt_model_options o;
    memset(&o, 0x77, sizeof o);
    tt_model_options_default(&o);
    return o;
}

static void defaults_are_what_the_header_says(void **state)
{
    tt_model_options o = defaults();
    assert_null(o.backend);
    assert_null(o.cpu_level);
    assert_int_equal(o.kv_bits, 8);
    assert_int_equal(o.threads + o.max_context + o.prefill_chunk + o.expert_slots, 0);
    assert_int_equal(o.ram_budget, 0);
    assert_true(o.yarn_factor == 0);
    assert_false(o.verify_reads);
    for (size_t i = 0; i < sizeof o.reserved / sizeof o.reserved[0]; i++)
        assert_int_equal(o.reserved[i], 0);
}

/* Everything but what the machine happened to have free. */
static void same_plan(const tt_plan *a, const tt_plan *b, bool budget_given)
{
    tt_plan x = *a, y = *b;
    const void *left = &x, *right = &y;
    x.machine_available = y.machine_available = 0;
    if (!budget_given)
        x.budget = y.budget = 0;
    if (memcmp(left, right, sizeof x) != 0)
        fail_msg("plan and open differ: totals %llu and %llu, slots %u and %u, chunks %u and %u",
                 (unsigned long long)a->total, (unsigned long long)b->total, a->slots_per_layer,
                 b->slots_per_layer, a->prefill_chunk, b->prefill_chunk);
}

static void plan_and_open(const char *install, const tt_model_options *o)
{
    tt_plan p;
    tt_error err = {0};
    memset(&p, 0x11, sizeof p);
    tt_status st = tt_model_plan(install, o, &p, &err);
    if (st != TT_OK)
        fail_msg("%s", err.message);
    tt_model *m = tiny_open(install, o);
    same_plan(&p, tt_model_get_plan(m), o != NULL && o->ram_budget > 0);
    assert_int_equal(p.total, p.weights + p.expert_slots + p.kv + p.state + p.scratch + p.fixed);
    assert_true(p.total <= p.budget);
    if (tt_arch_is_moe(&m->arch)) {
        assert_int_equal(tt_expert_cache_slots(m->cache), p.slots_total);
        assert_non_null(strstr(p.reader, m->reader->ops->name));
    } else {
        assert_string_equal(p.reader, "");
    }
    tt_model_close(&m);
}

static void a_plan_is_the_plan_of_the_open(void **state)
{
    const char *installs[] = {moe, dense};
    for (int i = 0; i < 2; i++) {
        plan_and_open(installs[i], NULL);
        tt_model_options o = defaults();
        plan_and_open(installs[i], &o);
        o.ram_budget = 40 << 20;
        plan_and_open(installs[i], &o);
        static const uint32_t bits[] = {4, 16, 32};
        for (int k = 0; k < 3; k++) {
            o = defaults();
            o.kv_bits = bits[k];
            o.max_context = 100u * (uint32_t)(k + 1);
            o.threads = 1 + (uint32_t)k;
            o.prefill_chunk = 64u << k;
            o.cpu_level = k == 1 ? "ref" : "auto";
            o.backend = k == 2 ? "ref" : "cpu";
            o.yarn_factor = k == 0 ? 4 : 0;
            o.expert_slots = installs[i] == moe ? 3 + (uint32_t)k : 0;
            o.ram_budget = (uint64_t)(60 + k) << 20;
            o.verify_reads = k == 1;
            plan_and_open(installs[i], &o);
        }
    }
}

static void budgets_are_refused_by_both_with_the_figures(void **state)
{
    tt_model_options o = defaults();
    tt_plan p = {0};
    tt_model *m = NULL;
    tt_error a = {0}, b = {0};
    o.ram_budget = 1 << 20;
    o.threads = 2;
    assert_int_equal(tt_model_plan(moe, &o, &p, &a), TT_ERR_BUDGET);
    assert_int_equal(tt_model_open(moe, &o, NULL, NULL, &m, &b), TT_ERR_BUDGET);
    assert_null(m);
    assert_string_equal(a.message, b.message);
    assert_non_null(strstr(a.message, "the budget given is 1.0 MiB"));
    assert_true(p.total > p.budget); /* filled, names too */
    assert_true(p.budget_given);
    assert_string_equal(p.model_id, "tiny");
    assert_string_equal(p.backend, "cpu");
    assert_string_not_equal(p.cpu_level, "");
}

typedef void (*spoil)(tt_model_options *o);
static void spoil_reserved(tt_model_options *o)
{
    o->reserved[0] = 1;
}
static void spoil_bits(tt_model_options *o)
{
    o->kv_bits = 12;
}
static void spoil_chunk(tt_model_options *o)
{
    o->prefill_chunk = 65;
}
static void spoil_threads(tt_model_options *o)
{
    o->threads = 1000;
}
static void spoil_context(tt_model_options *o)
{
    o->max_context = 1 << 20;
}
static void spoil_slots(tt_model_options *o)
{
    o->expert_slots = 1;
}
static void spoil_yarn(tt_model_options *o)
{
    o->yarn_factor = 100;
}
static void spoil_backend(tt_model_options *o)
{
    o->backend = "tpu";
}
static void spoil_level(tt_model_options *o)
{
    o->cpu_level = "avx1024";
}

static void both_refuse_the_same(void **state)
{
    static const spoil all[] = {spoil_reserved, spoil_bits,    spoil_chunk,
                                spoil_threads,  spoil_context, spoil_slots,
                                spoil_yarn,     spoil_backend, spoil_level};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tt_model_options o = defaults();
        tt_plan p, before;
        tt_model *m = NULL;
        tt_error a = {0}, b = {0};
        memset(&p, 0x44, sizeof p);
        before = p;
        all[i](&o);
        tt_status st = tt_model_plan(moe, &o, &p, &a);
        assert_true(st == TT_ERR_INVALID || st == TT_ERR_UNSUPPORTED);
        assert_int_equal(tt_model_open(moe, &o, NULL, NULL, &m, &b), st);
        assert_string_equal(a.message, b.message);
        assert_memory_equal(&p, &before, sizeof p);
        assert_null(m);
        /* and without a place for the words */
        assert_int_equal(tt_model_plan(moe, &o, &p, NULL), st);
        assert_int_equal(tt_model_open(moe, &o, NULL, NULL, &m, NULL), st);
    }
    tt_plan p;
    tt_error err = {0};
    assert_int_equal(tt_model_plan("/nowhere", NULL, &p, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere"));
}

static void a_model_knows_itself(void **state)
{
    tt_model_options o = defaults();
    tt_model_info info;
    tt_model_stats stats;
    tt_session *s = NULL;
    tt_error err = {0};
    uint32_t ids[70];
    o.threads = 2;
    o.yarn_factor = 2;
    o.kv_bits = 16;
    o.expert_slots = 4;
    o.prefill_chunk = 128;
    tt_model *m = tiny_open(moe, &o);
    tt_model_get_info(m, &info);
    assert_string_equal(info.model_id, "tiny");
    assert_string_equal(info.family, "qwen3_5_moe");
    assert_string_equal(info.backend, "cpu");
    assert_int_equal(info.vocab_size, 96);
    assert_int_equal(info.hidden_size, 64);
    assert_int_equal(info.n_layers, 2);
    assert_int_equal(info.n_experts, 9);
    assert_int_equal(info.top_k, 3);
    assert_int_equal(info.max_context, 2048);
    assert_int_equal(info.model_context, 1024);
    assert_int_equal(info.threads, 2);
    assert_int_equal(info.kv_bits, 16);
    assert_int_equal(info.prefill_chunk, 128);
    for (uint32_t i = 0; i < 70; i++)
        ids[i] = i * 17 % 96;
    assert_int_equal(tt_session_create(m, &s, &err), TT_OK);
    assert_int_equal(tt_session_sync(s, ids, 70, NULL, NULL, &err), TT_OK);
    assert_int_equal(tt_session_decode(s, 1, &err), TT_OK);
    tt_model_get_stats(m, &stats);
    assert_true(stats.expert_asks > 0);
    assert_int_equal(stats.expert_asks,
                     stats.expert_hits + stats.expert_misses + stats.expert_joins);
    assert_true(stats.expert_evictions > 0); /* nine experts through four slots */
    assert_int_equal(stats.expert_bytes_read,
                     stats.expert_misses * tt_model_get_plan(m)->expert_bytes);
    assert_true(stats.load_seconds > 0);
    tt_session_close(&s);
    tt_model_close(&m);
    m = tiny_open(dense, NULL);
    tt_model_get_info(m, &info);
    assert_string_equal(info.family, "qwen3_5");
    assert_int_equal(info.n_experts, 0);
    assert_int_equal(info.kv_bits, 8);
    tt_model_get_stats(m, &stats);
    assert_int_equal(stats.expert_asks + stats.expert_bytes_read, 0);
    tt_model_close(&m);
}

static tt_install_info describe(const char *install)
{
    tt_install_info d;
    tt_error err = {0};
    memset(&d, 0x11, sizeof d);
    if (tt_install_describe(install, &d, &err) != TT_OK)
        fail_msg("%s", err.message);
    return d;
}

/* What an install says of itself is what a model that was opened from it says, whole or not. */
static void an_install_says_what_it_is(void **state)
{
    tiny_options o = {.arch = tiny_arch_plain("fl", 0, 0), .seed = 3, .mat = TT_DTYPE_Q8};
    const char *installs[] = {moe, dense, tiny_install_new(&o)};
    char path[TT_MAX_PATH];
    tt_error err = {0};
    for (size_t i = 0; i < 3; i++) {
        tt_model_info info;
        tt_model *m = tiny_open(installs[i], NULL);
        tt_install_info d = describe(installs[i]);
        tt_model_get_info(m, &info);
        assert_string_equal(d.model_id, info.model_id);
        assert_string_equal(d.family, info.family);
        assert_int_equal(d.weight_bits, info.weight_bits);
        assert_int_equal(d.model_context, info.model_context);
        assert_int_equal(d.vocab_size, info.vocab_size);
        assert_int_equal(d.installed_at, info.installed_at);
        assert_true(d.bytes >= tt_model_get_plan(m)->weights_on_disk);
        assert_int_equal(d.reserved[0], 0);
        tt_model_close(&m);
        /* A file that is short, and a receipt that says nothing. */
        snprintf(path, sizeof path, "%s/" TT_WEIGHTS_NAME, installs[i]);
        assert_int_equal(truncate(path, 100), 0);
        snprintf(path, sizeof path, "%s/" TT_RECEIPT_NAME, installs[i]);
        bool had = d.has_receipt;
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fclose(f);
        tt_install_info broken = describe(installs[i]);
        assert_true(broken.has_receipt);
        broken.has_receipt = had;
        assert_memory_equal(&d, &broken, sizeof d);
    }
    snprintf(path, sizeof path, "%s/" TT_MANIFEST_NAME, moe);
    assert_int_equal(truncate(path, 100), 0);
    tt_install_info d = {.vocab_size = 7};
    assert_int_equal(tt_install_describe(moe, &d, &err), TT_ERR_FORMAT);
    assert_int_equal(d.vocab_size, 7);
    assert_int_equal(tt_install_describe("/nowhere", &d, &err), TT_ERR_NOT_FOUND);
}

/* The session's row with its maxima gives the ids that the row alone gives. */
static void a_session_is_sampled_like_its_row(void **state)
{
    tt_error err = {0};
    const char *installs[] = {moe, dense};
    for (int i = 0; i < 4; i++) {
        tt_model *m = tiny_open(installs[i % 2], NULL);
        tt_session *s = NULL;
        tt_sampler *by_session = NULL, *by_row = NULL, *other = NULL;
        tt_sampler_options o;
        uint32_t a = 1000, b = 2000;
        tt_sampler_options_default(&o);
        o.temperature = i < 2 ? 0 : 1.5f;
        o.top_k = 7;
        o.frequency_penalty = 0.5f;
        assert_int_equal(tt_sampler_create(&o, 96, &by_session, &err), TT_OK);
        assert_int_equal(tt_sampler_create(&o, 96, &by_row, &err), TT_OK);
        assert_int_equal(tt_sampler_create(&o, 95, &other, &err), TT_OK);
        assert_int_equal(tt_session_create(m, &s, &err), TT_OK);
        assert_int_equal(tt_session_sample(s, by_session, &a, &err), TT_ERR_STATE);
        assert_non_null(strstr(err.message, "no logits"));
        assert_int_equal(tt_session_sync(s, (uint32_t[]){1, 2, 3}, 3, NULL, NULL, &err), TT_OK);
        assert_int_equal(tt_session_sample(s, other, &a, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "95 ids"));
        assert_int_equal(a, 1000);
        for (int step = 0; step < 20; step++) {
            assert_int_equal(tt_session_sample(s, by_session, &a, &err), TT_OK);
            assert_int_equal(tt_sampler_sample(by_row, tt_session_logits(s), &b, &err), TT_OK);
            assert_int_equal(a, b);
            tt_sampler_accept(by_session, a, true);
            tt_sampler_accept(by_row, a, true);
            assert_int_equal(tt_session_decode(s, a, &err), TT_OK);
        }
        tt_session_close(&s);
        tt_sampler_close(&by_session);
        tt_sampler_close(&by_row);
        tt_sampler_close(&other);
        tt_model_close(&m);
    }
}

static void closing_nothing_is_fine(void **state)
{
    tt_model *m = NULL;
    tt_session *s = NULL;
    tt_model_close(NULL);
    tt_model_close(&m);
    tt_session_close(NULL);
    tt_session_close(&s);
    tt_free(NULL);
}

static int setup(void **state)
{
    tiny_options o = {.arch = tiny_arch_plain("lf", 9, 3), .seed = 2, .mat = TT_DTYPE_Q4};
    moe = tiny_install_new(&o);
    o.arch = tiny_arch_plain("fl", 0, 0);
    dense = tiny_install_new(&o);
    return 0;
}

static int teardown(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_what_the_header_says),
        cmocka_unit_test(a_plan_is_the_plan_of_the_open),
        cmocka_unit_test(budgets_are_refused_by_both_with_the_figures),
        cmocka_unit_test(both_refuse_the_same),
        cmocka_unit_test(a_model_knows_itself),
        cmocka_unit_test(a_session_is_sampled_like_its_row),
        cmocka_unit_test(closing_nothing_is_fine),
        cmocka_unit_test(an_install_says_what_it_is), /* the last: it breaks them */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
