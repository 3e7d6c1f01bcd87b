/* Proves that sessions decoded together have the bytes of each alone: on every level, at every KV
 * width, for dense and mixed models of many shapes, with few slots and with all, whoever joins,
 * ends or is given up in the middle, and inside the prefill of another. And what decoding together
 * refuses, and where a failed step leaves the sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/faulty_reader.h"
#include "../support/tiny_model.h"

enum { LINES = TT_MOST_SEQUENCES, MOST = 224, AFTER = 40 };

typedef struct line {
    uint32_t prompt, n; /* tokens of the prompt, and all */
    uint32_t ids[MOST];
    float *want; /* [n - prompt + 1, vocab] */
    /* of a run */
    tt_session *s;
    bool begun, over, reading;
} line;

typedef struct subject {
    const char *install;
    tt_model_options o;
    tt_model *m;
    uint32_t vocab, n;
    line line[LINES];
    tt_rng rng;
    unsigned steps, rows, nested, most; /* what a run has seen */
} subject;

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static void open_model(subject *u, uint32_t sequences)
{
    tt_model_options o = u->o;
    tt_error err = {0};
    o.sequences = sequences;
    o.max_context = 256;
    ok(tt_model_open(u->install, &o, NULL, NULL, &u->m, &err), &err);
    u->vocab = u->m->arch.vocab_size;
}

/* ---- alone ---- */

static void run_alone(subject *u, line *l)
{
    tt_error err = {0};
    tt_session *s = NULL;
    uint32_t rows = l->n - l->prompt + 1;
    l->want = calloc((size_t)rows * u->vocab, sizeof *l->want);
    ok(tt_session_create(u->m, &s, &err), &err);
    ok(tt_session_sync(s, l->ids, l->prompt, NULL, NULL, &err), &err);
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(l->want + (size_t)i * u->vocab, tt_session_logits(s), u->vocab * sizeof(float));
        if (i + 1 < rows)
            ok(tt_session_decode(s, l->ids[l->prompt + i], &err), &err);
    }
    tt_session_close(&s);
}

static void make_lines(subject *u, uint32_t n)
{
    u->n = n;
    memset(u->line, 0, sizeof u->line);
    open_model(u, 1);
    for (uint32_t i = 0; i < n; i++) {
        line *l = &u->line[i];
        l->prompt = 1 + tt_rng_below(&u->rng, i % 3 == 0 ? 150 : 20);
        l->n = l->prompt + 1 + tt_rng_below(&u->rng, AFTER);
        for (uint32_t k = 0; k < l->n; k++)
            l->ids[k] = tt_rng_below(&u->rng, u->vocab);
        run_alone(u, l);
    }
    tt_model_close(&u->m);
}

static void free_lines(subject *u)
{
    for (uint32_t i = 0; i < u->n; i++)
        free(u->line[i].want);
}

/* ---- together ---- */

static void check_row(const subject *u, const line *l)
{
    size_t at = tt_session_n_tokens(l->s) - l->prompt, bytes = u->vocab * sizeof(float);
    assert_non_null(tt_session_logits(l->s));
    if (memcmp(tt_session_logits(l->s), l->want + at * u->vocab, bytes) != 0)
        fail_msg("line %u, token %u after its prompt: other bytes than alone",
                 (unsigned)(l - u->line), (unsigned)at);
}

static void end_line(line *l)
{
    tt_session_close(&l->s);
    l->over = true;
}

/* One step of some of those that have begun, in any order. False: nobody could. */
static bool step(subject *u, bool inside)
{
    tt_session *s[LINES];
    uint32_t ids[LINES], n = 0;
    line *of[LINES];
    tt_error err = {0};
    for (uint32_t i = 0, k = tt_rng_below(&u->rng, u->n); i < u->n; i++) {
        line *l = &u->line[(i + k) % u->n];
        if (l->begun && !l->over && !l->reading && tt_rng_below(&u->rng, 8) > 0) {
            s[n] = l->s;
            of[n] = l;
            ids[n++] = l->ids[tt_session_n_tokens(l->s)];
        }
    }
    if (n == 0)
        return false;
    tt_status st = tt_session_decode_all(s, ids, n, &err);
    if (inside && st == TT_ERR_STATE && u->m->arch.n_layers == 1)
        return false; /* the prompt has all slots under lease */
    ok(st, &err);
    u->steps++;
    u->rows += n;
    u->nested += inside;
    u->most = n > u->most ? n : u->most;
    for (uint32_t i = 0; i < n; i++) {
        check_row(u, of[i]);
        if (tt_session_n_tokens(of[i]->s) == of[i]->n || tt_rng_below(&u->rng, 120) == 0)
            end_line(of[i]); /* or given up */
    }
    return true;
}

static bool step_inside(void *ctx)
{
    subject *u = ctx;
    if (tt_rng_below(&u->rng, 3) == 0)
        (void)step(u, true);
    return true;
}

static void begin_line(subject *u, line *l)
{
    tt_error err = {0};
    tt_prefill_options po = {.go_on = step_inside, .go_on_ctx = u};
    l->begun = l->reading = true;
    ok(tt_session_create(u->m, &l->s, &err), &err);
    ok(tt_session_sync(l->s, l->ids, l->prompt, &po, NULL, &err), &err);
    l->reading = false;
    check_row(u, l);
}

static bool all_over(const subject *u)
{
    for (uint32_t i = 0; i < u->n; i++)
        if (!u->line[i].over)
            return false;
    return true;
}

static void run_together(subject *u)
{
    u->steps = u->rows = u->nested = u->most = 0;
    open_model(u, LINES);
    for (uint32_t i = 0; i < u->n; i++)
        u->line[i].begun = u->line[i].over = false;
    while (!all_over(u)) {
        uint32_t next = 0;
        while (next < u->n && u->line[next].begun)
            next++;
        if (next < u->n && tt_rng_below(&u->rng, 2) == 0)
            begin_line(u, &u->line[next]);
        else
            (void)step(u, false);
    }
    tt_model_close(&u->m);
}

static void compare(subject *u, uint32_t n)
{
    make_lines(u, n);
    run_together(u);
    free_lines(u);
}

/* ---- levels and widths ---- */

static const char *levels[16];
static unsigned n_levels;

static void every_level_and_kv_width(void **state)
{
    static const uint32_t kv[] = {4, 8, 16, 32};
    unsigned nested = 0, together = 0;
    for (int moe = 0; moe < 2; moe++) {
        tiny_options t = {.arch = tiny_arch_plain("lflf", moe ? 9 : 0, moe ? 3 : 0),
                          .seed = 5 + (uint64_t)moe,
                          .mat = TT_DTYPE_Q4};
        const char *install = tiny_install_new(&t);
        for (unsigned l = 0; l < n_levels; l++)
            for (unsigned k = 0; k < 4; k++) {
                subject u = {.install = install, .rng = {77 * l + k + 1}};
                tt_model_options_default(&u.o);
                u.o.cpu_level = levels[l];
                u.o.kv_bits = kv[k];
                u.o.threads = 1 + k % 2;
                u.o.prefill_chunk = k % 2 ? 64 : 0;
                u.o.expert_slots = moe && l % 2 == 0 ? 3 : 0;
                compare(&u, 2 + (l + 3 * k) % 15);
                nested += u.nested;
                together += u.rows - u.steps;
            }
    }
    assert_true(nested > 40 * n_levels && together > 400 * n_levels);
}

static void any_shape_and_any_type(void **state)
{
    unsigned wide = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        tiny_options t = {.arch = tiny_arch(seed), .seed = seed, .mixed = true};
        subject u = {.install = tiny_install_new(&t), .rng = {seed}};
        tt_model_options_default(&u.o);
        u.o.cpu_level = levels[seed % n_levels];
        u.o.kv_bits = seed % 2 ? 32 : 16;
        u.o.expert_slots = seed % 3 > 0 ? t.arch.top_k : 0;
        compare(&u, seed % 2 ? 16 : 5);
        wide += u.most > 8;
    }
    assert_true(wide > 6);
}

/* ---- refusals ---- */

typedef struct refusing {
    tt_session *reader, *other;
    tt_status of_reader, of_other, of_sync;
} refusing;

static bool try_inside(void *ctx)
{
    refusing *x = ctx;
    const uint32_t ids[] = {1, 2, 3};
    x->of_reader = tt_session_decode(x->reader, 1, NULL);
    x->of_other = tt_session_decode(x->other, 1, NULL);
    x->of_sync = tt_session_sync(x->other, ids, 3, NULL, NULL, NULL);
    return false;
}

static void inside(subject *u, uint32_t sequences, refusing *x)
{
    const uint32_t ids[] = {4, 5, 6, 7};
    tt_error err = {0};
    open_model(u, sequences);
    ok(tt_session_create(u->m, &x->reader, &err), &err);
    ok(tt_session_create(u->m, &x->other, &err), &err);
    ok(tt_session_sync(x->other, ids, 3, NULL, NULL, &err), &err);
    tt_prefill_options po = {.go_on = try_inside, .go_on_ctx = x};
    assert_int_equal(tt_session_sync(x->reader, ids, 4, &po, NULL, NULL), TT_ERR_ABORTED);
    assert_int_equal(tt_session_n_tokens(x->reader), 0);
    tt_session_close(&x->reader);
    tt_session_close(&x->other);
    tt_model_close(&u->m);
}

static void inside_a_prompt_others_decode_and_nothing_else(void **state)
{
    tiny_options t = {.arch = tiny_arch_plain("lf", 6, 2), .seed = 3, .mat = TT_DTYPE_Q4};
    subject u = {.install = tiny_install_new(&t)};
    refusing x;
    tt_model_options_default(&u.o);
    inside(&u, 2, &x);
    assert_int_equal(x.of_reader, TT_ERR_STATE);
    assert_int_equal(x.of_other, TT_OK);
    assert_int_equal(x.of_sync, TT_ERR_STATE);
    inside(&u, 1, &x);
    assert_int_equal(x.of_other, TT_ERR_STATE);
}

static void what_is_refused_changes_nothing(void **state)
{
    tiny_options t = {.arch = tiny_arch_plain("lf", 0, 0), .seed = 3, .mat = TT_DTYPE_Q4};
    subject u = {.install = tiny_install_new(&t)}, v = u;
    uint32_t ids[LINES + 1] = {0}, long_ids[256] = {0};
    tt_session *s[LINES + 1] = {NULL};
    tt_error err = {0};
    tt_model_options_default(&u.o);
    v.o = u.o;
    open_model(&u, LINES);
    open_model(&v, 1);
    for (int i = 0; i < 3; i++) {
        ok(tt_session_create(u.m, &s[i], &err), &err);
        ok(tt_session_sync(s[i], long_ids, i == 2 ? 256 : 2, NULL, NULL, &err), &err);
    }
    assert_int_equal(tt_session_decode_all(s, ids, 0, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_decode_all(s, ids, LINES + 1, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_decode_all(s, ids, 3, &err), TT_ERR_CONTEXT);
    tt_session *twice[] = {s[0], s[1], s[0]};
    assert_int_equal(tt_session_decode_all(twice, ids, 3, &err), TT_ERR_INVALID);
    ids[1] = 96; /* the size of the vocabulary */
    assert_int_equal(tt_session_decode_all(s, ids, 2, &err), TT_ERR_INVALID);
    ids[1] = 0;
    tt_session *mixed[] = {s[0], NULL};
    ok(tt_session_create(v.m, &mixed[1], &err), &err);
    assert_int_equal(tt_session_decode_all(mixed, ids, 2, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_n_tokens(s[0]), 2);
    assert_non_null(tt_session_logits(s[0]));
    ok(tt_session_decode_all(s, ids, 2, &err), &err);
    assert_int_equal(tt_session_n_tokens(s[1]), 3);
    tt_session_close(&mixed[1]);
    for (int i = 0; i < 3; i++)
        tt_session_close(&s[i]);
    tt_model_close(&u.m);
    tt_model_close(&v.m);
    u.o.sequences = 17;
    assert_int_equal(tt_model_open(u.install, &u.o, NULL, NULL, &u.m, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "17 sequences"));
}

/* ---- a disk that fails ---- */

/* Every session is at its checkpoint then, and goes on to the same bytes. */
static void a_failed_step_is_made_again(void **state)
{
    tiny_options t = {.arch = tiny_arch_plain("lflf", 9, 3), .seed = 8, .mat = TT_DTYPE_Q4};
    subject u = {.install = tiny_install_new(&t), .rng = {9}};
    tt_session *s[4];
    uint32_t ids[4];
    tt_error err = {0};
    tt_reader *faulty = NULL;
    faulty_options fo;
    tt_model_options_default(&u.o);
    u.o.expert_slots = 3;
    u.o.reader = "buffered";
    make_lines(&u, 4);
    open_model(&u, 4);
    faulty_options_default(&fo);
    ok(faulty_reader_open(&u.m->reader, &fo, &faulty, &err), &err);
    u.m->reader = faulty;
    tt_expert_cache_set_reader(u.m->cache, faulty);
    for (int i = 0; i < 4; i++) {
        line *l = &u.line[i];
        ok(tt_session_create(u.m, &l->s, &err), &err);
        ok(tt_session_sync(l->s, l->ids, l->prompt, NULL, NULL, &err), &err);
        s[i] = l->s;
        ids[i] = l->ids[l->prompt];
    }
    fo.fail_read = faulty_reader_started(faulty) + 3;
    faulty_reader_set(faulty, &fo);
    assert_int_equal(tt_session_decode_all(s, ids, 4, &err), TT_ERR_IO);
    assert_int_equal(u.m->beside.moe.leases.count, 0);
    faulty_options_default(&fo);
    faulty_reader_set(faulty, &fo);
    for (int i = 0; i < 4; i++) {
        line *l = &u.line[i];
        assert_null(tt_session_logits(l->s));
        assert_int_equal(tt_session_n_tokens(l->s), l->prompt / TT_BLOCK * TT_BLOCK);
        ok(tt_session_sync(l->s, l->ids, l->prompt, NULL, NULL, &err), &err);
    }
    ok(tt_session_decode_all(s, ids, 4, &err), &err);
    for (int i = 0; i < 4; i++) {
        check_row(&u, &u.line[i]);
        tt_session_close(&u.line[i].s);
    }
    tt_model_close(&u.m);
    free_lines(&u);
}

static int teardown(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_and_kv_width),
        cmocka_unit_test(any_shape_and_any_type),
        cmocka_unit_test(inside_a_prompt_others_decode_and_nothing_else),
        cmocka_unit_test(what_is_refused_changes_nothing),
        cmocka_unit_test(a_failed_step_is_made_again),
    };
    while (n_levels < 16 && (levels[n_levels] = tt_cpu_level_at(n_levels)) != NULL)
        n_levels++;
    return cmocka_run_group_tests(tests, NULL, teardown);
}
