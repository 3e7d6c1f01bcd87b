/* Proves sparse attention where it begins: up to the budget logits are those of a model whose
 * budget is never reached, to the byte, and after it they are not; index keys and what waits for a
 * block are the same bytes however the rows came in; scratch is what was planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/tiny_model.h"

#define N 150u

static uint32_t ids[N];

static tt_model *open_with(uint32_t budget, const char *level, uint32_t chunk)
{
    tiny_options o = {.arch = tiny_arch_plain("Slff", 4, 2), .seed = 7, .mat = TT_DTYPE_BF16};
    tt_model_options mo;
    tt_model_options_default(&mo);
    mo.threads = 2;
    mo.cpu_level = level;
    mo.max_context = 400;
    mo.prefill_chunk = chunk;
    mo.kv_bits = 32;
    o.arch.indexer_budget = budget;
    return tiny_open(tiny_install_new(&o), &mo);
}

typedef struct rows {
    float *logits;
    uint32_t vocab;
} rows;

static bool collect(void *ctx, uint32_t position, const float *logits)
{
    rows *r = ctx;
    memcpy(r->logits + (size_t)position * r->vocab, logits, r->vocab * sizeof *logits);
    return true;
}

/* Logits of all rows: as one prompt, or one token after the other. */
static rows run(tt_model *m, bool prompt)
{
    rows r = {.vocab = m->arch.vocab_size};
    tt_prefill_options o = {.logits = collect, .logits_ctx = &r};
    tt_session *s = NULL;
    tt_error err = {0};
    r.logits = malloc((size_t)N * r.vocab * sizeof *r.logits);
    assert_int_equal(tt_session_create(m, &s, &err), TT_OK);
    if (prompt)
        assert_int_equal(tt_session_sync(s, ids, N, &o, NULL, &err), TT_OK);
    for (uint32_t t = 0; t < N && !prompt; t++) {
        assert_int_equal(tt_session_decode(s, ids[t], &err), TT_OK);
        (void)collect(&r, t, tt_session_logits(s));
    }
    tt_session_close(&s);
    return r;
}

static void dense_up_to_the_budget(void **state)
{
    for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++)
        for (int prompt = 0; prompt < 2; prompt++) {
            tt_model *m = open_with(32, tt_cpu_level_at(i), 64),
                     *all = open_with(1024, tt_cpu_level_at(i), 64);
            rows a = run(m, prompt), b = run(all, prompt);
            /* 8 blocks of 4, and 3 rows of one that is not complete */
            for (uint32_t t = 0; t < N; t++) {
                bool same = memcmp(a.logits + (size_t)t * a.vocab, b.logits + (size_t)t * a.vocab,
                                   a.vocab * sizeof(float)) == 0;
                if (same != (t < 35))
                    fail_msg("%s, row %u: %s", tt_cpu_level_at(i), t, same ? "same" : "other");
            }
            free(a.logits);
            free(b.logits);
            tt_model_close(&m);
            tt_model_close(&all);
        }
}

static void index_keys_do_not_depend_on_the_cut(void **state)
{
    static const uint32_t cuts[][6] = {{N}, {1, 2, 3, 62, 82}, {64, 5, 81}, {128, 22}, {67, 1, 82}};
    tt_model *m = open_with(32, NULL, 64);
    tt_session *whole = NULL, *s = NULL;
    tt_error err = {0};
    size_t keys = N / 4 * (size_t)m->arch.indexer_dim * sizeof(float);
    assert_int_equal(tt_session_create(m, &whole, &err), TT_OK);
    assert_int_equal(tt_session_create(m, &s, &err), TT_OK);
    assert_int_equal(tt_session_prefill(whole, ids, N, NULL, &err), TT_OK);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        uint32_t at = 0;
        assert_int_equal(tt_session_rewind(s, 0, &err), TT_OK);
        for (int i = 0; i < 6 && cuts[c][i] > 0; i++) {
            assert_int_equal(tt_session_prefill(s, ids + at, cuts[c][i], NULL, &err), TT_OK);
            at += cuts[c][i];
        }
        assert_int_equal(at, N);
        /* Chunked delta rules tell where they were cut. */
        tt_assert_close("index keys", tt_kv_index(&s->kv, 0), tt_kv_index(&whole->kv, 0), NULL,
                        keys / sizeof(float), 1e-4, 1e-4);
        uint64_t left = N % 4 * m->arch.indexer_dim;
        for (uint32_t l = 0; l < 2; l++) {
            const float *w = tt_recurrent_index(&s->recurrent, l);
            for (uint64_t i = left; i < s->recurrent.index_floats; i++)
                assert_true(w[i] == 0);
            assert_true(w[0] != 0);
        }
    }
    /* Cut at multiples of 64: to the byte. */
    assert_int_equal(tt_session_rewind(s, 0, &err), TT_OK);
    assert_int_equal(tt_session_prefill(s, ids, 64, NULL, &err), TT_OK);
    assert_int_equal(tt_session_prefill(s, ids + 64, N - 64, NULL, &err), TT_OK);
    for (uint32_t l = 0; l < 2; l++)
        assert_memory_equal(tt_kv_index(&whole->kv, l), tt_kv_index(&s->kv, l), keys);
    assert_memory_equal(whole->recurrent.block, s->recurrent.block, s->recurrent.bytes);
    tt_session_close(&whole);
    tt_session_close(&s);
    tt_model_close(&m);
}

static void scratch_is_what_was_planned(void **state)
{
    tt_model *m = open_with(32, NULL, 64);
    tt_arch dense = tiny_arch_plain("lf", 4, 2);
    assert_int_equal(m->indexer.bytes, tt_indexer_cost(&m->arch, 32, 400, 64));
    assert_true(tt_indexer_cost(&m->arch, 32, 800, 64) > m->indexer.bytes);
    assert_int_equal(tt_indexer_cost(&dense, 32, 400, 64), 0);
    assert_int_equal(tt_ngram_cost(&dense), 0);
    assert_int_equal(m->ngram.bytes, tt_ngram_cost(&m->arch));
    tt_model_close(&m);
}

static int begin(void **state)
{
    tt_rng r = {4};
    for (uint32_t i = 0; i < N; i++)
        ids[i] = tt_rng_below(&r, 96);
    return 0;
}

static int clean(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_up_to_the_budget),
        cmocka_unit_test(index_keys_do_not_depend_on_the_cut),
        cmocka_unit_test(scratch_is_what_was_planned),
    };
    return cmocka_run_group_tests(tests, begin, clean);
}
