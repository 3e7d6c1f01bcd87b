/* Proves the forecast: the formula of docs/bench.md on figures worked out by hand, shares that
 * never fall with more slots, profiles that are believed only when they know enough, the bytes of a
 * token against a count of another way, and estimates that say what they rest on or that they do
 * not know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../support/tempdir.h"
#include "../support/tiny_model.h"
#include "io/heat_profile.h"
#include "model/forecast.h"

#define NEAR(a, b) assert_true(fabs((double)(a) - (double)(b)) < 1e-9 * (1 + fabs((double)(b))))

/* ---- time ---- */

static void the_formula(void **state)
{
    /* nothing is missed: A + layers * E */
    tt_token_times t = {.outside = 0.020, .moe = 0.001, .n_layers = 40};
    NEAR(tt_forecast_tokens(&t), 1 / (0.020 + 0.040));
    /* a tenth is missed, and its reads hide behind what is there: max(0.0009, 0.0005) + 0.0001 */
    t.miss = 0.1;
    t.read = 0.0005;
    NEAR(tt_forecast_tokens(&t), 1 / (0.020 + 40 * (0.0009 + 0.0001)));
    /* and when they do not */
    t.read = 0.004;
    NEAR(tt_forecast_tokens(&t), 1 / (0.020 + 40 * (0.004 + 0.0001)));
    t = (tt_token_times){.outside = 0.05}; /* dense */
    NEAR(tt_forecast_tokens(&t), 20);
    t = (tt_token_times){0};
    NEAR(tt_forecast_tokens(&t), 0);
}

/* ---- hits ---- */

static void published_locality(void **state)
{
    /* the figures it is made of: 256 experts of which 8 are used */
    assert_true(fabs(tt_forecast_locality(8, 256, 8) - 0.375) < 1e-9);
    assert_true(fabs(tt_forecast_locality(128, 256, 8) - 0.897) < 0.001);
    assert_true(fabs(tt_forecast_locality(30, 512, 10) - 0.556) < 0.005);
    assert_true(fabs(tt_forecast_locality(181, 512, 10) - 0.837) < 0.005);
    for (uint32_t k = 1; k <= 10; k++) {
        double last = 0;
        for (uint32_t slots = 0; slots <= 300; slots++) {
            double hits = tt_forecast_locality(slots, 256, k);
            assert_true(hits >= last && hits <= 1 && hits >= 0.375);
            last = hits;
        }
        NEAR(tt_forecast_locality(256, 256, k), 1);
    }
    NEAR(tt_forecast_locality(4, 4, 4), 1);
}

enum { L = 2, E = 8, K = 2 };

/* Each layer's expert e is used (e + 1) / 18 of a token's two times, for ever. */
static void steady(float heat[L * E], double tokens)
{
    double grown = 1 - exp2(-tokens / TT_HEAT_HALF_LIFE);
    for (unsigned i = 0; i < L * E; i++)
        heat[i] = (float)log2((i % E + 1) / 18.0 * grown);
}

static void shares_of_late_uses(void **state)
{
    float heat[L * E];
    double tokens = 0, last = -1, whole = TT_HEAT_HALF_LIFE / log(2.0);
    steady(heat, 1e6);
    for (uint32_t slots = 0; slots <= L * E; slots++) {
        double share = tt_forecast_share(heat, L, E, K, slots, &tokens);
        assert_true(share >= last && share <= 1);
        last = share;
    }
    NEAR(last, 1);
    assert_true(tokens > 5 * TT_HEAT_HALF_LIFE);
    /* the two hottest of each layer hold 15 of 36, less a use each */
    double want = 2 * (8 + 7 - 2 * 18 / whole) / 72;
    assert_true(fabs(tt_forecast_share(heat, L, E, K, 4, NULL) - want) < 1e-5);
    /* how long it remembers */
    static const double some[] = {1, 10, 100, 700};
    for (unsigned i = 0; i < 4; i++) {
        steady(heat, some[i]);
        (void)tt_forecast_share(heat, L, E, K, 4, &tokens);
        assert_true(fabs(tokens - some[i]) < 0.02 * some[i]);
    }
    /* one token's uses forecast nothing */
    steady(heat, 1);
    NEAR(tt_forecast_share(heat, L, E, K, 8, NULL), 0);
    for (unsigned i = 0; i < L * E; i++)
        heat[i] = -INFINITY;
    NEAR(tt_forecast_share(heat, L, E, K, 8, &tokens), 0);
    NEAR(tokens, 0);
}

/* ---- bytes ---- */

static tt_install *install_of(const tt_arch *a, tt_dtype mat, const char **path)
{
    tiny_options o = {.arch = *a, .seed = 5, .mat = mat};
    tt_install *in = NULL;
    *path = tiny_install_new(&o);
    if (tt_install_open(*path, TT_INSTALL_NO_HASH, NULL, NULL, &in, NULL) != TT_OK)
        fail_msg("%s", *path);
    return in;
}

static void the_bytes_of_a_token(void **state)
{
    const char *path;
    for (unsigned tied = 0; tied < 2; tied++) {
        tt_arch a = tiny_arch_plain("lfl", tied ? 0 : 8, tied ? 0 : 2);
        a.tied_head = tied;
        tt_install *in = install_of(&a, TT_DTYPE_Q8, &path);
        const tt_index *ix = tt_install_index(in);
        const tt_index_entry *embed = tt_index_find(ix, "embed_tokens.weight");
        uint64_t all = 0, table = embed->bytes + embed->scales_bytes + embed->biases_bytes;
        for (size_t i = 0; i < ix->count; i++)
            all += ix->entries[i].bytes + ix->entries[i].scales_bytes + ix->entries[i].biases_bytes;
        tt_token_bytes b = tt_forecast_bytes(in);
        /* one row of a table that is no head, and two layers of recurrent state read and written */
        uint64_t state_bytes = 2 * tt_recurrent_bytes(&a),
                 weights = tied ? all : all - table + table / a.vocab_size;
        assert_true(state_bytes > 0);
        assert_int_equal(b.outside + b.shared, weights + state_bytes);
        const tt_expert_layout *layout = tt_install_expert_layout(in);
        assert_int_equal(b.experts, tied ? 0 : 3 * 2 * layout->payload_bytes);
        assert_true(tied ? b.shared == 0 : b.shared > 0 && b.shared < b.outside);
        tt_install_close(&in);
    }
}

/* ---- in a plan ---- */

static tt_plan plan_of(uint32_t slots)
{
    return (tt_plan){.n_moe_layers = 2,
                     .n_layers = 2,
                     .experts_per_layer = 8,
                     .top_k = 2,
                     .slots_per_layer = slots,
                     .slots_total = 2 * slots,
                     .expert_bytes = 16384,
                     .cpu_level = "avx2"};
}

static void says(const tt_plan *p, const char *words)
{
    if (strstr(p->forecast, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", p->forecast, words);
}

static void what_is_known_is_told(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 8, 2);
    const char *path;
    tt_install *in = install_of(&a, TT_DTYPE_Q8, &path);
    const tt_memory_rate memory = {.rate = 1e9, .cached = true, .time = 86400}, none = {0};
    const tt_probe probe = {.probed = true, .rate = 1e8};
    tt_plan p = plan_of(3);
    tt_forecast_make(&p, in, &memory, &probe, NULL);
    says(&p, "estimate: hits by the locality published");
    says(&p, "measured on 1970-01-02");
    says(&p, "disk's 0.1 GB/s (measured now)");
    NEAR(p.hit_rate, tt_forecast_locality(3, 8, 2));
    tt_token_bytes b = tt_forecast_bytes(in);
    assert_int_equal(p.token_bytes, b.outside + b.shared + b.experts);
    tt_token_times t = {.outside = (double)b.outside / 1e9,
                        .moe = (double)(b.shared + b.experts) / 1e9 / 2,
                        .miss = 1 - p.hit_rate,
                        .read = (1 - p.hit_rate) * 2 * 16384 / 1e8,
                        .n_layers = 2};
    NEAR(p.tokens_per_second, tt_forecast_tokens(&t));
    NEAR(p.memory_rate, 1e9);
    NEAR(p.disk_rate, 1e8);
    /* more slots are never slower */
    double last = 0;
    for (uint32_t slots = 2; slots <= 8; slots++) {
        p = plan_of(slots);
        tt_forecast_make(&p, in, &memory, &probe, NULL);
        assert_true(p.tokens_per_second >= last * (1 - 1e-12)); /* reads may hide wholly */
        last = p.tokens_per_second;
    }
    says(&p, "all experts fit");
    assert_null(strstr(p.forecast, "disk"));
    /* what is not known is not told */
    p = plan_of(3);
    tt_forecast_make(&p, in, &none, &probe, NULL);
    NEAR(p.tokens_per_second, 0);
    says(&p, "memory was not measured");
    p = plan_of(3);
    tt_forecast_make(&p, in, &memory, NULL, NULL);
    NEAR(p.tokens_per_second, 0);
    says(&p, "disk was not measured");
    p = plan_of(8);
    tt_forecast_make(&p, in, &memory, NULL, NULL);
    assert_true(p.tokens_per_second > 0);
    strcpy(p.cpu_level, "ref");
    tt_forecast_make(&p, in, &memory, &probe, NULL);
    NEAR(p.tokens_per_second, 0);
    says(&p, "scalar reference");
    tt_install_close(&in);
}

static void profiles_are_used_when_they_know_enough(void **state)
{
    tt_arch a = tiny_arch_plain("lf", 8, 2);
    const char *path;
    tt_install *in = install_of(&a, TT_DTYPE_Q8, &path);
    float values[L * E];
    tt_heat heat = {.values = values, .n_layers = L, .n_experts = E, .found = true};
    tt_plan p = plan_of(3);
    steady(values, 200);
    tt_forecast_make(&p, in, NULL, NULL, &heat);
    says(&p, "hits by the heat profile, of about 200 tokens");
    NEAR(p.hit_rate, tt_forecast_share(values, L, E, K, 6, NULL));
    steady(values, 20);
    tt_forecast_make(&p, in, NULL, NULL, &heat);
    says(&p, "published");
    steady(values, 200);
    heat.found = false;
    tt_forecast_make(&p, in, NULL, NULL, &heat);
    says(&p, "published");
    tt_install_close(&in);
}

/* From the door: plan and open say the same. */
static void plan_and_open_agree(void **state)
{
    char dir[512], rates[600], profile[600];
    tt_model_options o;
    tt_plan p;
    tt_model *m = NULL;
    tt_arch a = tiny_arch_plain("lf", 8, 2);
    const char *path;
    tt_install *in = install_of(&a, TT_DTYPE_Q8, &path);
    char key[TT_MAX_NAME];
    float values[L * E];
    tempdir_make(dir);
    snprintf(rates, sizeof rates, "%s/rates.json", dir);
    snprintf(profile, sizeof profile, "%s/heat.bin", dir);
    snprintf(key, sizeof key, "manifest %s", tt_install_manifest_sha256(in));
    tt_install_close(&in);
    steady(values, 300);
    assert_int_equal(tt_heat_profile_save(profile, key, L, E, values, NULL), TT_OK);
    tt_model_options_default(&o);
    o.threads = 1;
    o.expert_slots = 3;
    o.heat_profile = profile;
    assert_int_equal(tt_model_plan(path, &o, &p, NULL), TT_OK);
    says(&p, "memory was not measured"); /* nobody said where to keep it */
    o.probe_file = rates;
    assert_int_equal(tt_model_plan(path, &o, &p, NULL), TT_OK);
    assert_true(p.memory_rate > 0);
    says(&p, "disk was not measured"); /* so small an install */
    NEAR(p.hit_rate, tt_forecast_share(values, L, E, K, 6, NULL));
    assert_int_equal(tt_model_open(path, &o, NULL, NULL, &m, NULL), TT_OK);
    const tt_plan *q = tt_model_get_plan(m);
    NEAR(q->hit_rate, p.hit_rate);
    assert_true(q->memory_rate > p.memory_rate * 0.999 && q->memory_rate < p.memory_rate * 1.001);
    assert_string_equal(q->forecast, p.forecast);
    assert_string_equal(q->heat, p.heat);
    tt_model_close(&m);
    tempdir_remove(dir);
}

static int clean(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula),
        cmocka_unit_test(published_locality),
        cmocka_unit_test(shares_of_late_uses),
        cmocka_unit_test(the_bytes_of_a_token),
        cmocka_unit_test(what_is_known_is_told),
        cmocka_unit_test(profiles_are_used_when_they_know_enough),
        cmocka_unit_test(plan_and_open_agree),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
