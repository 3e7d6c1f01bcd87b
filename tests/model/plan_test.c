/* Proves the budget: every option out of range is refused with its value, the sum is the sum of its
 * parts, more memory never means fewer slots or a smaller chunk, the least memory that holds is
 * found and one byte less is refused with the figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/tiny_model.h"
#include "base/machine.h"
#include "model/kv_cache.h"
#include "model/plan.h"

#define PLENTY (64 * TT_GIB)

static tt_install *moe, *dense, *narrow, *linear, *stretched, *roomy;

static tt_install *install_of(const tt_arch *a, tt_dtype mat)
{
    tiny_options o = {.arch = *a, .seed = 1, .mat = mat, .coarse = true};
    tt_install *in = NULL;
    tt_error err = {0};
    if (tt_install_open(tiny_install_new(&o), TT_INSTALL_NO_HASH, NULL, NULL, &in, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    return in;
}

static tt_model_options defaults(void)
{
    tt_model_options o;
    tt_model_options_default(&o);
    o.threads = 2;
    return o;
}

static tt_plan plan_ok(const tt_install *in, const tt_model_options *o, uint64_t available)
{
    tt_plan p = {0};
    tt_error err = {0};
    tt_status st = tt_plan_make(in, o, available, &p, &err);
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err.message);
    return p;
}

/* ---- refusals ---- */

static void refused(const tt_install *in, const tt_model_options *o, tt_status want,
                    const char *words)
{
    tt_plan p, before;
    tt_error err = {0};
    memset(&p, 0x5a, sizeof p);
    before = p;
    tt_status st = tt_plan_make(in, o, PLENTY, &p, &err);
    if (st != want || strstr(err.message, words) == NULL)
        fail_msg("wanted %s with \"%s\", got %s: %s", tt_status_name(want), words,
                 tt_status_name(st), err.message);
    assert_memory_equal(&p, &before, sizeof p); /* outputs untouched */
}

#define REFUSED(in, field, value, status, words)                                                   \
    do {                                                                                           \
        tt_model_options o_ = defaults();                                                          \
        o_.field = (value);                                                                        \
        refused(in, &o_, status, words);                                                           \
    } while (0)

static void options_out_of_range_are_refused(void **state)
{
    for (size_t i = 0; i < sizeof((tt_model_options *)0)->reserved / sizeof(uint64_t); i++)
        REFUSED(moe, reserved[i], 1, TT_ERR_INVALID, "reserved");
    static const uint32_t bits[] = {0, 1, 2, 3, 5, 7, 9, 15, 17, 31, 33, 64, UINT32_MAX};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        char words[32];
        snprintf(words, sizeof words, "KV width %u", bits[i]);
        REFUSED(moe, kv_bits, bits[i], TT_ERR_INVALID, words);
    }
    static const uint32_t chunks[] = {1, 63, 65, 100, 65536 + 64, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        char words[32];
        snprintf(words, sizeof words, "chunk %u", chunks[i]);
        REFUSED(moe, prefill_chunk, chunks[i], TT_ERR_INVALID, words);
    }
    REFUSED(moe, threads, TT_MAX_THREADS + 1, TT_ERR_INVALID, "257 threads");
    REFUSED(moe, threads, UINT32_MAX, TT_ERR_INVALID, "4294967295 threads");
    REFUSED(moe, max_context, 1025, TT_ERR_INVALID, "1025 tokens is more than the model's 1024");
    REFUSED(moe, max_context, UINT32_MAX, TT_ERR_INVALID, "1024");
    REFUSED(moe, expert_slots, 2, TT_ERR_INVALID, "2 expert slots a layer are fewer than the 3");
    REFUSED(dense, expert_slots, 3, TT_ERR_INVALID, "dense");
    REFUSED(moe, yarn_factor, 0.5f, TT_ERR_INVALID, "YaRN factor 0.5");
    REFUSED(moe, yarn_factor, -2, TT_ERR_INVALID, "YaRN factor -2");
    REFUSED(moe, yarn_factor, 65, TT_ERR_INVALID, "YaRN factor 65");
    REFUSED(moe, yarn_factor, (float)NAN, TT_ERR_INVALID, "YaRN factor");
    REFUSED(moe, yarn_factor, (float)INFINITY, TT_ERR_INVALID, "YaRN factor inf");
    REFUSED(moe, yarn_factor, -(float)INFINITY, TT_ERR_INVALID, "YaRN factor -inf");
}

static void narrow_heads_have_no_small_kv_rows(void **state)
{
    tt_model_options o = defaults();
    REFUSED(narrow, kv_bits, 8, TT_ERR_UNSUPPORTED, "this model has 40: use 16");
    REFUSED(narrow, kv_bits, 4, TT_ERR_UNSUPPORTED, "use 16");
    o.kv_bits = 16;
    assert_int_equal(plan_ok(narrow, &o, PLENTY).kv_bits, 16);
    /* a model that has no KV rows at all does not mind */
    o.kv_bits = 8;
    assert_int_equal(plan_ok(linear, &o, PLENTY).kv, 0);
}

/* ---- context ---- */

static void contexts_and_yarn(void **state)
{
    tt_model_options o = defaults();
    assert_int_equal(plan_ok(moe, &o, PLENTY).max_context, 1024);
    o.max_context = 1;
    assert_int_equal(plan_ok(moe, &o, PLENTY).max_context, 1);
    o.max_context = 0;
    o.yarn_factor = 4;
    tt_plan p = plan_ok(moe, &o, PLENTY);
    assert_int_equal(p.max_context, 4096);
    assert_true(p.yarn_factor == 4);
    o.max_context = 4097;
    refused(moe, &o, TT_ERR_INVALID, "4096");
    o.yarn_factor = 64;
    o.max_context = 0;
    assert_int_equal(plan_ok(moe, &o, PLENTY).max_context, 32768); /* the default's cap */
    o.max_context = 65536;
    assert_int_equal(plan_ok(moe, &o, PLENTY).max_context, 65536);
    o.yarn_factor = 1;
    refused(moe, &o, TT_ERR_INVALID, "1024");
    /* a model that is stretched itself: 64 tokens by 4 */
    o = defaults();
    p = plan_ok(stretched, &o, PLENTY);
    assert_int_equal(p.max_context, 256);
    assert_true(p.yarn_factor == 4);
    o.yarn_factor = 2;
    p = plan_ok(stretched, &o, PLENTY);
    assert_int_equal(p.max_context, 128);
    assert_true(p.yarn_factor == 2);
    o.yarn_factor = 1;
    p = plan_ok(stretched, &o, PLENTY);
    assert_int_equal(p.max_context, 64);
    assert_true(p.yarn_factor == 1);
    tt_arch a;
    tt_error err = {0};
    assert_int_equal(tt_plan_arch(stretched, &o, &a, &err), TT_OK);
    assert_int_equal(tt_arch_check(&a, "a", &err), TT_OK);
}

/* ---- arithmetic ---- */

static uint64_t sum_of(const tt_plan *p)
{
    return p->weights + p->expert_slots + p->kv + p->state + p->prompt_cache + p->scratch +
           p->fixed;
}

static void the_total_is_the_sum(void **state)
{
    tt_install *all[] = {moe, dense, linear, stretched, roomy};
    for (int i = 0; i < 5; i++) {
        tt_model_options o = defaults();
        tt_plan p = plan_ok(all[i], &o, PLENTY);
        const tt_arch *a = tt_install_arch(all[i]);
        assert_int_equal(p.total, sum_of(&p));
        assert_false(p.budget_given);
        assert_int_equal(p.budget, PLENTY - PLENTY / 16);
        assert_int_equal(p.machine_available, PLENTY);
        assert_int_equal(p.n_layers, a->n_layers);
        assert_int_equal(p.slots_total, p.slots_per_layer * p.n_moe_layers);
        assert_int_equal(p.slots_per_layer, a->n_experts); /* there is plenty */
        assert_int_equal(p.experts_per_layer, a->n_experts);
        assert_int_equal(p.kv, (uint64_t)p.max_context * tt_kv_token_bytes(a, 8));
        assert_string_equal(p.family, tt_family_name(a->family));
        assert_string_equal(p.model_id, "tiny");
        uint64_t disk = 0;
        for (size_t f = 0; f < tt_install_file_count(all[i]); f++)
            if (strcmp(tt_install_file_at(all[i], f)->rel, TT_CRC_NAME) != 0)
                disk += tt_install_file_at(all[i], f)->size;
        assert_int_equal(p.weights_on_disk, disk);
    }
}

static void absurd_options_do_not_wrap(void **state)
{
    tt_model_options o = defaults();
    o.threads = TT_MAX_THREADS;
    o.prefill_chunk = 65536;
    o.kv_bits = 32;
    o.yarn_factor = 64;
    o.max_context = 65536;
    o.expert_slots = UINT32_MAX;
    tt_plan p = plan_ok(moe, &o, UINT64_MAX);
    assert_int_equal(p.total, sum_of(&p));
    assert_int_equal(p.slots_per_layer, 24);
    uint64_t parts[] = {p.weights, p.expert_slots, p.kv, p.state, p.scratch, p.fixed};
    for (int i = 0; i < 6; i++)
        assert_true(parts[i] > 0 && parts[i] < (uint64_t)1 << 40);
    /* and the smallest budget there is */
    o = defaults();
    o.ram_budget = 1;
    tt_error err = {0};
    assert_int_equal(tt_plan_make(moe, &o, PLENTY, &p, &err), TT_ERR_BUDGET);
    assert_int_equal(p.total, sum_of(&p)); /* filled all the same */
    assert_int_equal(p.slots_per_layer, 3);
    assert_int_equal(p.prefill_chunk, 64);
    o.ram_budget = UINT64_MAX;
    p = plan_ok(moe, &o, PLENTY);
    assert_int_equal(p.budget, UINT64_MAX);
}

/* ---- laws of the budget ---- */

static void never_fewer(uint64_t prompt_cache)
{
    tt_model_options o = defaults();
    tt_plan p, before = {0};
    tt_error err = {0};
    unsigned accepted = 0, chunks = 0, slots = 0;
    o.prompt_cache = prompt_cache;
    o.ram_budget = TT_MIB;
    tt_plan least;
    assert_int_equal(tt_plan_make(roomy, &o, PLENTY, &least, &err), TT_ERR_BUDGET);
    o.ram_budget = 0;
    tt_plan most = plan_ok(roomy, &o, PLENTY);
    assert_int_equal(most.prefill_chunk, 1024);
    uint64_t enough = most.total + 8 * most.scratch;
    if (prompt_cache == TT_PROMPT_CACHE_AUTO) /* which at most doubles what is above the least */
        enough *= 2;
    for (uint64_t b = least.total - 8192; b < enough; b += (most.total - least.total) / 2777) {
        o.ram_budget = b;
        tt_status st = tt_plan_make(roomy, &o, PLENTY, &p, &err);
        assert_true(st == TT_OK || st == TT_ERR_BUDGET);
        assert_int_equal(st == TT_OK, p.total <= b);
        if (accepted > 0) {
            assert_int_equal(st, TT_OK);
            if (p.prefill_chunk < before.prefill_chunk ||
                p.slots_per_layer < before.slots_per_layer || p.prompt_cache < before.prompt_cache)
                fail_msg("a budget of %llu gives %u slots and chunk %u, less memory gave %u and %u",
                         (unsigned long long)b, p.slots_per_layer, p.prefill_chunk,
                         before.slots_per_layer, before.prefill_chunk);
            chunks += p.prefill_chunk > before.prefill_chunk;
            slots += p.slots_per_layer > before.slots_per_layer;
        }
        accepted += st == TT_OK;
        before = p;
    }
    assert_true(chunks >= 3); /* 64 to 1024, the context */
    assert_true(slots > 20);
    assert_int_equal(before.slots_per_layer, 64);
    assert_int_equal(before.prefill_chunk, 1024);
}

static void more_memory_is_never_fewer_slots_or_rows(void **state)
{
    never_fewer(0);
    never_fewer(TT_MIB);
    never_fewer(TT_PROMPT_CACHE_AUTO);
}

static void the_share_of_the_prompt_cache(void **state)
{
    tt_model_options o = defaults();
    const tt_arch *a = tt_install_arch(roomy);
    uint64_t least;
    assert_int_equal(plan_ok(roomy, &o, PLENTY).prompt_cache, 0);
    o.prompt_cache = 3 * TT_MIB;
    assert_int_equal(plan_ok(roomy, &o, PLENTY).prompt_cache, 3 * TT_MIB);
    o.prompt_cache = TT_PROMPT_CACHE_AUTO;
    o.ram_budget = 8 * TT_GIB;
    assert_int_equal(plan_ok(roomy, &o, PLENTY).prompt_cache, 8 * TT_GIB / 10);
    /* a tenth would be less than the least that is of use */
    tt_plan p;
    o.ram_budget = 64 * TT_MIB;
    o.kv_bits = 32;
    least = 2 * tt_recurrent_bytes(a) + 8192 * tt_kv_token_bytes(a, 32);
    assert_true(least > o.ram_budget / 10);
    assert_int_equal(plan_ok(roomy, &o, PLENTY).prompt_cache, least);
    o.kv_bits = 8;
    /* where little is left it gets half of that */
    o.ram_budget = 1;
    tt_error err = {0};
    assert_int_equal(tt_plan_make(roomy, &o, PLENTY, &p, &err), TT_ERR_BUDGET);
    assert_int_equal(p.prompt_cache, 0);
    o.ram_budget = p.total + 2 * TT_MIB;
    assert_in_range(plan_ok(roomy, &o, PLENTY).prompt_cache, TT_MIB - 8192, TT_MIB);
    /* what was asked for is refused with the rest */
    o.prompt_cache = PLENTY;
    assert_int_equal(tt_plan_make(roomy, &o, PLENTY, &p, &err), TT_ERR_BUDGET);
    assert_non_null(strstr(err.message, "a smaller prompt cache (prompt_cache)"));
}

/* The least budget is exactly the plan's total with the smallest chunk and the fewest slots. */
static void least_budget(const tt_install *in, uint32_t slots, uint32_t fewest)
{
    tt_model_options o = defaults();
    tt_plan p;
    tt_error err = {0};
    o.expert_slots = slots;
    o.ram_budget = 1;
    assert_int_equal(tt_plan_make(in, &o, PLENTY, &p, &err), TT_ERR_BUDGET);
    assert_int_equal(p.prefill_chunk, 64);
    assert_int_equal(p.slots_per_layer, fewest);
    o.ram_budget = p.total;
    tt_plan q = plan_ok(in, &o, PLENTY);
    assert_int_equal(q.total, p.total);
    o.ram_budget = p.total - 1;
    assert_int_equal(tt_plan_make(in, &o, PLENTY, &q, &err), TT_ERR_BUDGET);
    char figures[2][32];
    snprintf(figures[0], sizeof figures[0], "needs %.1f MiB", (double)p.total / TT_MIB);
    snprintf(figures[1], sizeof figures[1], "given is %.1f MiB", (double)(p.total - 1) / TT_MIB);
    assert_non_null(strstr(err.message, figures[0]));
    if (strstr(err.message, figures[1]) == NULL)
        fail_msg("%s", err.message);
    assert_non_null(strstr(err.message, "larger budget"));
}

static void the_least_budget_is_exact(void **state)
{
    least_budget(roomy, 0, 4);
    least_budget(roomy, 64, 64); /* a smaller chunk makes room for slots that were asked for */
    least_budget(roomy, 30, 30);
    least_budget(moe, 0, 3);
    least_budget(dense, 0, 0);
    least_budget(linear, 0, 2);
}

static void the_remedy_fits_the_options(void **state)
{
    tt_model_options o = defaults();
    tt_plan p;
    tt_error err = {0};
    o.ram_budget = 1;
    assert_int_equal(tt_plan_make(roomy, &o, PLENTY, &p, &err), TT_ERR_BUDGET);
    assert_null(strstr(err.message, "fewer expert slots"));
    assert_null(strstr(err.message, "prefill chunk"));
    assert_non_null(strstr(err.message, "shorter context"));
    assert_non_null(strstr(err.message, "fewer KV bits"));
    o.kv_bits = 4;
    o.expert_slots = 10;
    o.prefill_chunk = 256;
    assert_int_equal(tt_plan_make(roomy, &o, PLENTY, &p, &err), TT_ERR_BUDGET);
    assert_non_null(strstr(err.message, "fewer expert slots"));
    assert_non_null(strstr(err.message, "prefill chunk"));
    assert_null(strstr(err.message, "fewer KV bits"));
}

/* KV rows, state and logits of each are in the plan, and what they share is there once. */
static void every_sequence_has_its_place(void **state)
{
    tt_install *all[] = {moe, dense, linear};
    tt_error err = {0};
    for (int i = 0; i < 3; i++) {
        tt_model_options o = defaults();
        tt_plan one = plan_ok(all[i], &o, PLENTY), same, five, six;
        assert_int_equal(one.sequences, 1);
        o.sequences = 1;
        same = plan_ok(all[i], &o, PLENTY);
        assert_memory_equal(&same, &one, sizeof one);
        o.sequences = 5;
        five = plan_ok(all[i], &o, PLENTY);
        o.sequences = 6;
        six = plan_ok(all[i], &o, PLENTY);
        assert_int_equal(five.sequences, 5);
        assert_int_equal(five.kv, 5 * one.kv);
        assert_int_equal(five.state, 5 * one.state);
        assert_int_equal(five.weights, one.weights);
        assert_true(five.scratch > one.scratch);
        assert_int_equal(six.scratch, five.scratch);
        assert_int_equal(five.total, sum_of(&five));
        o.sequences = 0;
        o.ram_budget = five.total - 1;
        o.expert_slots = five.slots_per_layer;
        (void)plan_ok(all[i], &o, PLENTY);
        o.sequences = 5;
        o.prefill_chunk = five.prefill_chunk;
        assert_int_equal(tt_plan_make(all[i], &o, PLENTY, &same, &err), TT_ERR_BUDGET);
        assert_non_null(strstr(err.message, "fewer sequences (sequences)"));
    }
}

static void a_budget_needs_memory_behind_it(void **state)
{
    tt_model_options o = defaults();
    tt_plan p, least;
    tt_error err = {0};
    o.ram_budget = 1;
    assert_int_equal(tt_plan_make(roomy, &o, PLENTY, &least, &err), TT_ERR_BUDGET);
    o.ram_budget = PLENTY;
    assert_int_equal(tt_plan_make(roomy, &o, least.total - 1, &p, &err), TT_ERR_BUDGET);
    assert_non_null(strstr(err.message, "this machine has only"));
    assert_non_null(strstr(err.message, "free memory"));
    p = plan_ok(roomy, &o, least.total + 4 * TT_MIB);
    assert_true(p.total <= least.total + 4 * TT_MIB);
    /* without a budget, what the machine can spare */
    o.ram_budget = 0;
    assert_int_equal(tt_plan_make(roomy, &o, least.total, &p, &err), TT_ERR_BUDGET);
    assert_non_null(strstr(err.message, "this machine can spare"));
    static const uint64_t have[] = {512 * TT_MIB, 4 * TT_GIB, 32 * TT_GIB, 0},
                          left[] = {64 * TT_MIB, 256 * TT_MIB, 2 * TT_GIB};
    for (unsigned i = 0; have[i] > 0; i++) {
        p = plan_ok(roomy, &o, have[i]);
        assert_int_equal(p.budget, have[i] - left[i]);
        assert_int_equal(p.machine_available, have[i]);
    }
    assert_int_equal(tt_plan_make(roomy, &o, 0, &p, &err), TT_ERR_BUDGET);
    assert_int_equal(p.budget, 0);
}

/* What this process holds already is not held against it, as far as the plan counts it. */
static void own_memory_is_not_missing(void **state)
{
    tt_model_options o = defaults();
    uint64_t before = tt_machine_memory_available(), have = tt_plan_available(roomy, &o),
             after = tt_machine_memory_available(), own = tt_machine_own_memory();
    assert_true(own > 100 * TT_KIB);
    before = before < after ? before : after;
    /* other programs come and go: a bound that holds by far */
    assert_true(have + 64 * TT_MIB > before && have < UINT64_MAX);
}

/* The kernel's tables for our memory, and for slots that reads go to, are part of the program. */
static void mapped_memory_has_its_price(void **state)
{
    tt_model_options o = defaults();
    o.expert_slots = 4;
    tt_plan few = plan_ok(roomy, &o, PLENTY);
    o.expert_slots = 40;
    tt_plan many = plan_ok(roomy, &o, PLENTY);
    uint64_t more = many.expert_slots - few.expert_slots;
    assert_true(more > TT_MIB);
    assert_true(many.fixed - few.fixed >= more / 512 + more / 256);
    assert_true(many.fixed - few.fixed <= more / 64);
}

static void a_chunk_is_no_larger_than_the_context(void **state)
{
    tt_model_options o = defaults();
    o.max_context = 100;
    assert_int_equal(plan_ok(moe, &o, PLENTY).prefill_chunk, 128);
    o.max_context = 64;
    assert_int_equal(plan_ok(moe, &o, PLENTY).prefill_chunk, 64);
    o.prefill_chunk = 1024;
    assert_int_equal(plan_ok(moe, &o, PLENTY).prefill_chunk, 1024);
}

static int setup(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 24, 3);
    moe = install_of(&a, TT_DTYPE_Q4);
    a = tiny_arch_plain("lf", 0, 0);
    dense = install_of(&a, TT_DTYPE_BF16);
    a = tiny_arch_plain("lf", 5, 2);
    a.head_dim = 40;
    narrow = install_of(&a, TT_DTYPE_BF16);
    a = tiny_arch_plain("ll", 5, 2);
    a.head_dim = 40;
    linear = install_of(&a, TT_DTYPE_Q8);
    a = tiny_arch_plain("f", 5, 2);
    a.max_position = 256;
    a.yarn_factor = 4;
    a.yarn_original_context = 64;
    stretched = install_of(&a, TT_DTYPE_BF16);
    a = tiny_arch_plain("lflf", 64, 4);
    a.hidden_size = 512;
    roomy = install_of(&a, TT_DTYPE_BF16);
    return 0;
}

static int teardown(void **state)
{
    tt_install **all[] = {&moe, &dense, &narrow, &linear, &stretched, &roomy};
    for (int i = 0; i < 6; i++)
        tt_install_close(all[i]);
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(narrow_heads_have_no_small_kv_rows),
        cmocka_unit_test(contexts_and_yarn),
        cmocka_unit_test(the_total_is_the_sum),
        cmocka_unit_test(absurd_options_do_not_wrap),
        cmocka_unit_test(more_memory_is_never_fewer_slots_or_rows),
        cmocka_unit_test(the_share_of_the_prompt_cache),
        cmocka_unit_test(the_least_budget_is_exact),
        cmocka_unit_test(the_remedy_fits_the_options),
        cmocka_unit_test(every_sequence_has_its_place),
        cmocka_unit_test(a_budget_needs_memory_behind_it),
        cmocka_unit_test(own_memory_is_not_missing),
        cmocka_unit_test(mapped_memory_has_its_price),
        cmocka_unit_test(a_chunk_is_no_larger_than_the_context),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
