/* Proves the draft of the trained model: its logits against the reference on every level, the share
 * of its guesses that are the target's own choice against cases.json in three forms, that rows
 * written alone are the rows that the whole layer writes, and that an install without a draft is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/tiny_model.h"
#include "../support/vectors.h"
#include "base/file.h"
#include "model/forward.h"
#include "model/model.h"

enum { HELDOUT = 1024 };

static const char *const forms[] = {"bf16", "affine4", "affine8"};
static const unsigned form_bits[] = {16, 4, 8};

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static tt_model *open_drafting(const char *install, const char *level, unsigned kv_bits)
{
    tt_model_options o;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_model_options_default(&o);
    o.cpu_level = level;
    o.kv_bits = kv_bits;
    o.threads = 2;
    o.verify_reads = true;
    o.draft = TT_DRAFT_MTP;
    ok(tt_model_open(install, &o, NULL, NULL, &m, &err), &err);
    return m;
}

/* A prompt as the target sees it: residuals of the last layer, and its choice at every position. */
typedef struct seen {
    tt_model *m;
    uint32_t n, *choice; /* [n] */
    float *h;            /* [n, H] */
} seen;

static uint32_t argmax(const float *v, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}

static void see_layer(void *ctx, tt_stage stage, uint32_t layer, uint32_t pos0, uint32_t rows,
                      uint32_t cols, const void *data)
{
    seen *e = ctx;
    if (stage == TT_STAGE_LAYER && layer + 1 == e->m->arch.n_layers)
        memcpy(e->h + (size_t)pos0 * cols, data, (size_t)rows * cols * sizeof(float));
}

static bool see_logits(void *ctx, uint32_t position, const float *logits)
{
    seen *e = ctx;
    e->choice[position] = argmax(logits, e->m->arch.vocab_size);
    return true;
}

static seen see(tt_model *m, const uint32_t *ids, uint32_t n)
{
    seen e = {.m = m, .n = n};
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    tt_trace trace = {see_layer, &e};
    tt_prefill_options o = {.logits = see_logits, .logits_ctx = &e};
    e.choice = calloc(n, sizeof *e.choice);
    e.h = calloc((size_t)n * m->arch.hidden_size, sizeof *e.h);
    tt_session_set_trace(s, &trace);
    ok(tt_session_sync(s, ids, n, &o, NULL, &err), &err);
    tt_session_close(&s);
    return e;
}

static void forget(seen *e)
{
    free(e->choice);
    free(e->h);
}

static tt_step step_of(tt_model *m, tt_kv_cache *kv, const uint32_t *ids, uint32_t at, uint32_t T,
                       tt_error *err)
{
    return (tt_step){.model = m,
                     .be = m->be,
                     .arch = &m->draft->arch,
                     .s = &m->draft->scratch,
                     .draft = true,
                     .kv = kv,
                     .tokens = ids + at + 1,
                     .pos0 = at,
                     .T = T,
                     .err = err};
}

/* Logits of the pairs (h_t, x_{t+1}), [n, vocab], T rows at a time; `alone`: of the rows before the
 * last T keys and values alone. */
static float *draft_logits(seen *e, const uint32_t *ids, uint32_t n, uint32_t T, bool alone)
{
    tt_model *m = e->m;
    size_t H = m->arch.hidden_size, vocab = m->arch.vocab_size;
    float *out = calloc(n * vocab, sizeof *out), *hidden = calloc(T * H, sizeof *hidden);
    tt_kv_cache kv;
    tt_error err = {0};
    ok(tt_kv_cache_init(&kv, &m->draft->arch, m->plan.kv_bits, n, &err), &err);
    ok(tt_kv_cache_grow(&kv, n, &err), &err);
    for (uint32_t at = 0; at < n; at += T) {
        tt_step s = step_of(m, &kv, ids, at, n - at < T ? n - at : T, &err);
        tt_draft_hidden_qwen3_5(&s, hidden, e->h + at * H);
        if (alone && at + T < n) {
            tt_draft_rows_qwen3_5(&s, hidden);
        } else {
            tt_draft_qwen3_5(&s, hidden, hidden);
            ok(s.status, &err);
            tt_draft_head_qwen3_5(&s, m->scratch.logits, NULL, hidden);
            memcpy(out + at * vocab, m->scratch.logits, s.T * vocab * sizeof *out);
        }
    }
    tt_kv_cache_free(&kv);
    free(hidden);
    return out;
}

/* ---- logits ---- */

static void logits_are_the_reference_s(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 16);
    tt_safetensors *st = NULL;
    json_t *expected = NULL;
    tt_error err = {0};
    size_t n = 0;
    ok(tt_safetensors_open_file("tests/vectors/tales/expected.safetensors", &st, &err), &err);
    ok(tt_json_load("tests/vectors/tales/expected.json", 1 << 24, &expected, &err), &err);
    uint32_t *ids = vector_ids(expected, "prompt_ids", &n);
    float *want = vector_f32(st, "mtp_logits", 48, 4096, 0);
    for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
        tt_model *m = open_drafting(install, tt_cpu_level_at(i), 32);
        seen e = see(m, ids, (uint32_t)n);
        float *have = draft_logits(&e, ids, 48, i % 2 ? 16 : 5, false);
        double diff = max_abs_diff(have, want, (size_t)48 * 4096);
        print_message("  %s: largest difference %.2g\n", m->be->level, diff);
        assert_true(diff <= 1e-3);
        m->draft->pre_norm = true;
        free(have);
        have = draft_logits(&e, ids, 48, 16, false);
        assert_true(max_abs_diff(have, want, (size_t)48 * 4096) > 0.01);
        free(have);
        forget(&e);
        tt_model_close(&m);
    }
    tt_safetensors_close(&st);
    json_decref(expected);
    free(ids);
    free(want);
}

/* ---- agreement ---- */

static uint32_t agreeing(seen *e, const uint32_t *ids)
{
    uint32_t vocab = e->m->arch.vocab_size, n = 0;
    float *logits = draft_logits(e, ids, HELDOUT - 2, 16, false);
    for (uint32_t t = 0; t + 2 < HELDOUT; t++)
        n += argmax(logits + (size_t)t * vocab, vocab) == e->choice[t + 1];
    free(logits);
    return n;
}

static void guesses_agree_as_often_as_recorded(void **state)
{
    tt_tokenizer *tok = NULL;
    char *text = NULL;
    size_t len = 0, n = 0;
    uint32_t *ids = NULL;
    json_t *cases = NULL;
    tt_error err = {0};
    ok(tt_json_load("tests/vectors/tales/cases.json", 1 << 24, &cases, &err), &err);
    ok(tt_tokenizer_open("models/tales", &tok, &err), &err);
    ok(tt_file_read("models/tales/heldout.txt", 1 << 24, &text, &len, &err), &err);
    ok(tt_tokenizer_encode(tok, text, len, false, &ids, &n, &err), &err);
    for (unsigned f = 0; f < 3; f++) {
        const json_t *heldout = json_object_get(json_object_get(cases, forms[f]), "heldout");
        double want = json_number_value(json_object_get(heldout, "mtp_argmax_agreement"));
        for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
            tt_model *m = open_drafting(fixture_install("models/tales", NULL, form_bits[f]),
                                        tt_cpu_level_at(i), 32);
            seen e = see(m, ids, HELDOUT);
            uint32_t have = agreeing(&e, ids);
            double rows = want * (HELDOUT - 2), bar = i == 0 ? 2.5 : 0.01 * (HELDOUT - 2);
            m->draft->pre_norm = true;
            uint32_t pre = agreeing(&e, ids);
            print_message("  %s, %s: %u of %d agree, the reference has %.0f; before the final "
                          "norm %u\n",
                          forms[f], m->be->level, have, HELDOUT - 2, rows, pre);
            assert_true(fabs(have - rows) <= bar);
            forget(&e);
            tt_model_close(&m);
        }
    }
    json_decref(cases);
    tt_tokenizer_close(&tok);
    free(text);
    free(ids);
}

/* ---- rows ---- */

/* Whatever a step's rows, and with keys and values of the earlier ones written alone, the last
 * rows' logits are the same bytes. */
static void rows_do_not_feel_how_others_were_made(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    static const unsigned kv[] = {4, 8, 16, 32};
    uint32_t ids[100];
    for (uint32_t i = 0; i < 100; i++)
        ids[i] = (i * 37 + 11) % 4000;
    for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
        tt_model *m = open_drafting(install, tt_cpu_level_at(i), kv[i % 4]);
        seen e = see(m, ids, 100);
        size_t bytes = 16 * 4096 * sizeof(float);
        float *whole = draft_logits(&e, ids, 96, 16, false),
              *one = draft_logits(&e, ids, 96, 1, false),
              *alone = draft_logits(&e, ids, 96, 16, true);
        assert_memory_equal(whole, one, 96 * 4096 * sizeof(float));
        assert_memory_equal(whole + (size_t)80 * 4096, alone + (size_t)80 * 4096, bytes);
        free(whole);
        free(one);
        free(alone);
        forget(&e);
        tt_model_close(&m);
    }
}

/* ---- refusals ---- */

static void an_install_without_a_draft_is_refused(void **state)
{
    tiny_options t = {.arch = tiny_arch_plain("lf", 0, 0), .seed = 3, .mat = TT_DTYPE_Q4};
    const char *install = tiny_install_new(&t);
    tt_model_options o;
    tt_model *m = NULL;
    tt_plan plan;
    tt_error err = {0};
    tt_model_options_default(&o);
    o.draft = TT_DRAFT_MTP;
    assert_int_equal(tt_model_open(install, &o, NULL, NULL, &m, &err), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no draft"));
    assert_int_equal(tt_model_plan(install, &o, &plan, &err), TT_ERR_UNSUPPORTED);
    o.draft = 3;
    assert_int_equal(tt_model_open(install, &o, NULL, NULL, &m, &err), TT_ERR_INVALID);
    o.draft = TT_DRAFT_LOOKUP;
    o.draft_width = TT_DRAFT_ROWS + 1;
    assert_int_equal(tt_model_open(install, &o, NULL, NULL, &m, &err), TT_ERR_INVALID);
    o.draft_width = 2;
    ok(tt_model_open(install, &o, NULL, NULL, &m, &err), &err);
    tt_model_close(&m);
}

static int teardown(void **state)
{
    fixture_remove();
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_the_reference_s),
        cmocka_unit_test(guesses_agree_as_often_as_recorded),
        cmocka_unit_test(rows_do_not_feel_how_others_were_made),
        cmocka_unit_test(an_install_without_a_draft_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
