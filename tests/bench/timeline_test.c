/* Proves made-up pasts: they follow from their seed at every width of keys and values, are finite,
 * end with the context, and the stages of their steps are timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/tempdir.h"
#include "bench/synth.h"
#include "bench/timeline.h"

static char dir[512], install[600];

static int make(const char *preset)
{
    static const volatile int go_on = 0;
    synth_options o = {.preset = preset,
                       .output = install,
                       .bits = 4,
                       .table_bits = 8,
                       .locality = 1,
                       .seed = 3,
                       .quiet = true};
    synth_model m;
    uint64_t bytes;
    tempdir_make(dir);
    snprintf(install, sizeof install, "%s/%s", dir, preset);
    assert_int_equal(synth_open(&o, &m, NULL), TT_OK);
    assert_int_equal(synth_write_install(&m, &go_on, &bytes, NULL), TT_OK);
    synth_close(&m);
    return 0;
}

static int set_up(void **state)
{
    return make("tiny");
}

static int set_up_next(void **state)
{
    return make("tiny-next");
}

static int tear_down(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static tt_model *open_wide(uint32_t kv_bits, uint32_t context, uint32_t chunk)
{
    tt_model_options mo;
    tt_model *m = NULL;
    tt_model_options_default(&mo);
    mo.max_context = context;
    mo.threads = 2;
    mo.prefill_chunk = chunk;
    mo.kv_bits = kv_bits;
    assert_int_equal(tt_model_open(install, &mo, NULL, NULL, &m, NULL), TT_OK);
    return m;
}

static tt_model *open_model(uint32_t kv_bits)
{
    return open_wide(kv_bits, 300, 64);
}

static void logits_after(tt_model *m, uint32_t past, uint64_t seed, float *out)
{
    bench_timeline t;
    size_t bytes = m->arch.vocab_size * sizeof *out;
    assert_int_equal(bench_timeline_open(m, &t, NULL), TT_OK);
    assert_int_equal(bench_timeline_fill(&t, past, seed, NULL), TT_OK);
    assert_int_equal(bench_timeline_decode(&t, 7, NULL), TT_OK);
    assert_int_equal(bench_timeline_decode(&t, 8, NULL), TT_OK);
    assert_int_equal(t.n, past + 2);
    memcpy(out, m->scratch.logits, bytes);
    for (uint32_t i = 0; i < m->arch.vocab_size; i++)
        assert_true(isfinite(out[i]) && fabsf(out[i]) < 100);
    bench_timeline_close(&t);
    bench_timeline_close(&t);
}

static void the_past_follows_from_its_seed(void **state)
{
    static const uint32_t widths[] = {4, 8, 16, 32};
    for (unsigned i = 0; i < 4; i++) {
        tt_model *m = open_model(widths[i]);
        size_t n = m->arch.vocab_size, bytes = n * sizeof(float);
        float *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b);
        logits_after(m, 200, 1, a);
        logits_after(m, 200, 1, b);
        assert_memory_equal(a, b, bytes);
        logits_after(m, 200, 2, b);
        assert_memory_not_equal(a, b, bytes);
        logits_after(m, 130, 1, b);
        assert_memory_not_equal(a, b, bytes);
        free(a);
        free(b);
        tt_model_close(&m);
    }
}

/* A chunk has more rows than the buffers of a span. */
static void the_past_does_not_follow_from_the_chunk(void **state)
{
    enum { PAST = 5000 };
    float *logits[2];
    size_t n = 0;
    for (unsigned i = 0; i < 2; i++) {
        tt_model *m = open_wide(8, PAST + 2, i == 0 ? 64 : 4096);
        n = m->arch.vocab_size;
        logits[i] = calloc(n, sizeof **logits);
        logits_after(m, PAST, 1, logits[i]);
        tt_model_close(&m);
    }
    assert_memory_equal(logits[0], logits[1], n * sizeof **logits);
    free(logits[0]);
    free(logits[1]);
}

static void the_context_ends(void **state)
{
    tt_model *m = open_model(8);
    bench_timeline t;
    tt_error err = {0};
    assert_int_equal(bench_timeline_open(m, &t, NULL), TT_OK);
    assert_int_equal(bench_timeline_fill(&t, 299, 1, NULL), TT_OK);
    assert_int_equal(bench_timeline_decode(&t, m->arch.vocab_size, &err), TT_ERR_INVALID);
    assert_int_equal(bench_timeline_decode(&t, 0, NULL), TT_OK);
    assert_int_equal(bench_timeline_decode(&t, 0, &err), TT_ERR_CONTEXT);
    bench_timeline_close(&t);
    tt_model_close(&m);
}

/* The stages of a step are counted when they are asked for, and only then. */
static void stage_times_are_taken(void **state)
{
    tt_model *m = open_model(8);
    bench_timeline t;
    tt_stage_times times = {0};
    assert_int_equal(bench_timeline_open(m, &t, NULL), TT_OK);
    assert_int_equal(bench_timeline_fill(&t, 10, 1, NULL), TT_OK);
    assert_int_equal(bench_timeline_decode(&t, 0, NULL), TT_OK);
    m->times = &times;
    assert_int_equal(bench_timeline_decode(&t, 1, NULL), TT_OK);
    assert_int_equal(bench_timeline_decode(&t, 2, NULL), TT_OK);
    m->times = NULL;
    assert_int_equal(bench_timeline_decode(&t, 3, NULL), TT_OK);
    assert_int_equal(times.layers, 2 * m->arch.n_layers);
    double sum = 0;
    for (uint32_t l = 0; l < m->arch.n_layers; l++) {
        assert_true(times.moe_layer[l] > 0);
        sum += times.moe_layer[l];
    }
    assert_true(fabs(sum - times.moe) < 1e-9);
    bench_timeline_close(&t);
    tt_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_past_follows_from_its_seed),
        cmocka_unit_test(the_past_does_not_follow_from_the_chunk),
        cmocka_unit_test(the_context_ends),
        cmocka_unit_test(stage_times_are_taken),
    };
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    return failed + cmocka_run_group_tests(tests, set_up_next, tear_down);
}
