/* Proves the trained model in its four forms against cases.json: the greedy continuation of every
 * prompt where margins allow, and the held-out negative log-likelihood within 0.01 nats, with f32
 * KV rows; then what KV rows of 16, 8 and 4 bits cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/vectors.h"
#include "base/file.h"

#define HELDOUT 8192u

static json_t *cases;
static uint32_t *heldout;
static size_t n_heldout;

typedef struct form {
    const char *tag, *checkpoint;
    unsigned bits;
} form;

static const form forms[] = {
    {"bf16", "models/tales", 16},
    {"affine4", "models/tales", 4},
    {"affine8", "models/tales", 8},
    {"mlx4", "tales-mlx-4bit", 4},
};

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static uint32_t argmax(const float *v, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}

/* Until the reference's choice was closer than `bar`. margins[j] is that of the step after token j.
 */
static void check_prompt(tt_model *m, const char *tag, const char *name, const json_t *c,
                         double bar)
{
    size_t n_prompt = 0, n = 0, i = 0;
    uint32_t *prompt = vector_ids(c, "prompt_ids", &n_prompt),
             *want = vector_ids(c, "greedy_ids", &n);
    const json_t *margins = json_object_get(c, "margins");
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    ok(tt_session_sync(s, prompt, n_prompt, NULL, NULL, &err), &err);
    for (; i < n; i++) {
        uint32_t id = argmax(tt_session_logits(s), m->arch.vocab_size);
        if (id != want[i]) {
            double margin = i > 0 ? json_number_value(json_array_get(margins, i - 1)) : 1;
            if (margin >= bar)
                fail_msg("%s, %s: greedy token %zu is %u, the reference has %u by a margin of %g",
                         tag, name, i, id, want[i], margin);
            break;
        }
        ok(tt_session_decode(s, id, &err), &err);
    }
    print_message("  %s, %s, %s: %zu of %zu tokens as the reference\n", tag, m->be->level, name, i,
                  n);
    tt_session_close(&s);
    free(prompt);
    free(want);
}

static void greedy_continuations(void **state)
{
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        const char *install = fixture_install(forms[f].checkpoint, NULL, forms[f].bits), *name;
        for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
            tt_model *m = fixture_model(install, tt_cpu_level_at(i), 32, 0, 2);
            json_t *c;
            json_object_foreach(json_object_get(cases, forms[f].tag), name,
                                c) if (json_object_get(c, "prompt_ids") != NULL)
                check_prompt(m, forms[f].tag, name, c,
                             fixture_rounds(m) && forms[f].bits != 16 ? 0.5 : 0.02);
            tt_model_close(&m);
        }
    }
}

/* ---- held-out text ---- */

typedef struct scorer {
    const uint32_t *ids; /* ids[p + 1] is what row p predicts */
    uint32_t n, vocab;
    double sum;
    uint32_t count;
} scorer;

static bool score(void *ctx, uint32_t p, const float *logits)
{
    scorer *sc = ctx;
    if (p + 1 >= sc->n)
        return true;
    double max = logits[0], sum = 0;
    for (uint32_t i = 1; i < sc->vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < sc->vocab; i++)
        sum += exp((double)logits[i] - max);
    sc->sum += max + log(sum) - (double)logits[sc->ids[p + 1]];
    sc->count++;
    return true;
}

/* Mean nats a token as tests/vectors/README.md defines: window i covers ids[i*w : i*w + w + 1],
 * fresh state each. */
static double nats(tt_model *m, uint32_t window)
{
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    scorer sc = {.vocab = m->arch.vocab_size};
    for (uint32_t at = 0; at + 1 < HELDOUT; at += window) {
        sc.ids = heldout + at;
        sc.n = HELDOUT - at < window + 1 ? HELDOUT - at : window + 1;
        tt_prefill_options o = {.logits = score, .logits_ctx = &sc};
        ok(tt_session_sync(s, sc.ids, sc.n - 1, &o, NULL, &err), &err);
    }
    assert_int_equal(sc.count, HELDOUT - 1);
    tt_session_close(&s);
    return sc.sum / sc.count;
}

static double recorded(const char *tag, const char *key)
{
    return json_number_value(
        json_object_get(json_object_get(json_object_get(cases, tag), "heldout"), key));
}

static void heldout_of(const form *f, const char *level)
{
    tt_model *m = fixture_model(fixture_install(f->checkpoint, NULL, f->bits), level, 32, 0, 2);
    static const uint32_t windows[] = {512, 4096};
    for (int w = 0; w < 2; w++) {
        char key[32];
        snprintf(key, sizeof key, "nll_window_%u", windows[w]);
        double have = nats(m, windows[w]), want = recorded(f->tag, key);
        print_message("  %s, %s, window %u: %.6f nats, the reference %.6f\n", f->tag, m->be->level,
                      windows[w], have, want);
        if (!(fabs(have - want) <= 0.01))
            fail_msg("%s: held-out %g nats, the reference has %g", f->tag, have, want);
    }
    tt_model_close(&m);
}

static void heldout_bf16(void **state)
{
    heldout_of(&forms[0], NULL);
}
static void heldout_affine4(void **state)
{
    heldout_of(&forms[1], NULL);
}
static void heldout_affine8(void **state)
{
    heldout_of(&forms[2], NULL);
}
static void heldout_mlx4(void **state)
{
    heldout_of(&forms[3], NULL);
}

/* Every other level once, on the form that is shipped; TT_TEST_LONG adds the scalar reference,
 * which takes minutes. */
static void heldout_on_every_level(void **state)
{
    for (unsigned i = getenv("TT_TEST_LONG") != NULL ? 0 : 1; tt_cpu_level_at(i) != NULL; i++)
        heldout_of(&forms[1], tt_cpu_level_at(i));
}

static void quantized_kv_rows(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    double exact = 0;
    static const unsigned bits[] = {32, 16, 8, 4};
    for (int i = 0; i < 4; i++) {
        tt_model *m = fixture_model(install, NULL, bits[i], 0, 2);
        double have = nats(m, 4096);
        if (i == 0)
            exact = have;
        print_message("  affine4, KV rows of %u bits: %.6f nats, %+.6f\n", bits[i], have,
                      have - exact);
        if (bits[i] >= 8 && !(have - exact <= 0.01))
            fail_msg("KV rows of %u bits cost %g nats, the bar is 0.01", bits[i], have - exact);
        if (bits[i] == 4 && !(have - exact <= 0.2))
            fail_msg("KV rows of 4 bits cost %g nats, far from what docs/bench.md records",
                     have - exact);
        tt_model_close(&m);
    }
}

static int setup(void **state)
{
    tt_tokenizer *tok = NULL;
    char *text = NULL;
    size_t len = 0;
    tt_error err = {0};
    if (tt_json_load("tests/vectors/tales/cases.json", 1 << 24, &cases, &err) != TT_OK ||
        tt_tokenizer_open("models/tales", &tok, &err) != TT_OK ||
        tt_file_read("models/tales/heldout.txt", 1 << 24, &text, &len, &err) != TT_OK ||
        tt_tokenizer_encode(tok, text, len, false, &heldout, &n_heldout, &err) != TT_OK) {
        print_error("%s: %s\n", err.file, err.message);
        return -1;
    }
    tt_tokenizer_close(&tok);
    free(text);
    return n_heldout >= HELDOUT ? 0 : -1;
}

static int teardown(void **state)
{
    json_decref(cases);
    free(heldout);
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_continuations), cmocka_unit_test(heldout_bf16),
        cmocka_unit_test(heldout_affine4),      cmocka_unit_test(heldout_affine8),
        cmocka_unit_test(heldout_mlx4),         cmocka_unit_test(heldout_on_every_level),
        cmocka_unit_test(quantized_kv_rows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
