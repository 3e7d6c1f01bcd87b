/* Proves the page on random small architectures, dense and mixture of experts, of one layer kind
 * and of both: prefill of n rows is n decode steps within tolerance, a cut changes nothing beyond
 * it, a cut at 64 and the number of slots and threads change no byte, and up to
 * 16 rows decoded together are the rows alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/tiny_model.h"

#define SEEDS 60u
#define N     150u

/* Where the router's choice hangs on less than this, two right computations may choose differently.
 */
#define NEAR_TIE 1e-3f
/* Largest difference of logits, against their root mean square or 1. */
#define TOLERANCE 1e-4

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

typedef struct subject {
    tt_arch arch;
    tt_model *m;
    uint32_t ids[N];
    uint64_t seed;
} subject;

static tt_session *session_of(tt_model *m)
{
    tt_session *s = NULL;
    tt_error err = {0};
    ok(tt_session_create(m, &s, &err), &err);
    return s;
}

static tt_model *open_seed(const subject *u, const char *install, uint32_t slots, unsigned threads,
                           uint32_t kv_bits)
{
    static const char *const levels[] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, "ref"};
    tt_model_options o;
    tt_model_options_default(&o);
    o.cpu_level =
        u->seed % 4 == 1 && tt_cpu_level_at(1) != NULL ? tt_cpu_level_at(1) : levels[u->seed % 8];
    o.threads = threads;
    o.kv_bits = kv_bits;
    o.expert_slots = tt_arch_is_moe(&u->arch) ? slots : 0;
    o.verify_reads = true;
    return tiny_open(install, &o);
}

/* ---- what a run gave ---- */

typedef struct rows {
    float *logits; /* [N, vocab] */
    uint32_t vocab;
    uint32_t sure; /* rows before the first near tie of a router */
} rows;

static bool take_row(void *ctx, uint32_t position, const float *logits)
{
    rows *r = ctx;
    memcpy(r->logits + (size_t)position * r->vocab, logits, r->vocab * sizeof *logits);
    return true;
}

typedef struct watch {
    const tt_model *m;
    rows *out;
} watch;

/* Distance between the last logit chosen and the best one left. */
static float margin(const float *l, uint32_t E, const uint32_t *ids, uint32_t K)
{
    float left = -INFINITY;
    for (uint32_t e = 0; e < E; e++) {
        bool chosen = false;
        for (uint32_t k = 0; k < K; k++)
            chosen = chosen || ids[k] == e;
        if (!chosen && l[e] > left)
            left = l[e];
    }
    return l[ids[K - 1]] - left;
}

static void see(void *ctx, tt_stage stage, uint32_t layer, uint32_t pos0, uint32_t T, uint32_t cols,
                const void *data)
{
    const watch *w = ctx;
    const tt_arch *a = &w->m->arch;
    if (stage != TT_STAGE_ROUTER_IDS)
        return;
    for (uint32_t t = 0; t < T; t++)
        if (margin(w->m->scratch.l + (size_t)t * a->n_experts, a->n_experts,
                   (const uint32_t *)data + (size_t)t * cols, cols) < NEAR_TIE &&
            pos0 + t < w->out->sure)
            w->out->sure = pos0 + t;
}

static rows rows_new(const tt_model *m)
{
    return (rows){.logits = calloc((size_t)N * m->arch.vocab_size, sizeof(float)),
                  .vocab = m->arch.vocab_size,
                  .sure = N};
}

static rows by_prefill(const subject *u)
{
    rows r = rows_new(u->m);
    watch w = {u->m, &r};
    tt_trace trace = {see, &w};
    tt_session *s = session_of(u->m);
    tt_error err = {0};
    tt_prefill_options o = {.logits = take_row, .logits_ctx = &r};
    tt_session_set_trace(s, &trace);
    ok(tt_session_sync(s, u->ids, N, &o, NULL, &err), &err);
    tt_session_close(&s);
    return r;
}

static rows by_decode(const subject *u)
{
    rows r = rows_new(u->m);
    tt_session *s = session_of(u->m);
    tt_error err = {0};
    for (uint32_t i = 0; i < N; i++) {
        ok(tt_session_decode(s, u->ids[i], &err), &err);
        take_row(&r, i, tt_session_logits(s));
    }
    tt_session_close(&s);
    return r;
}

/* The last row after a prefill in pieces of the given lengths, the list ending with 0. */
static rows by_cuts(tt_model *m, const uint32_t *ids, const uint32_t *cuts)
{
    rows r = rows_new(m);
    tt_session *s = session_of(m);
    tt_error err = {0};
    uint32_t at = 0;
    for (; *cuts != 0; cuts++) {
        ok(tt_session_prefill(s, ids + at, *cuts, NULL, &err), &err);
        at += *cuts;
        take_row(&r, at - 1, tt_session_logits(s));
    }
    assert_int_equal(at, N);
    tt_session_close(&s);
    return r;
}

/* ---- comparing ---- */

static double worst; /* over all seeds, in units of the tolerance */

/* Whole numbers magnify a last bit to a step of a code: vectors_test has bars for those levels. */
static bool in_floats(const char *level)
{
    static const char *const names[] = {"ref", "avx2", "avx512", "neon"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(level, names[i]) == 0)
            return true;
    return false;
}

static void close_rows(const subject *u, const char *what, const rows *a, const rows *b,
                       uint32_t from, uint32_t to)
{
    if (!in_floats(u->m->be->level))
        return;
    for (uint32_t p = from; p < to; p++) {
        const float *x = a->logits + (size_t)p * a->vocab, *y = b->logits + (size_t)p * a->vocab;
        double sum = 0, diff = 0;
        for (uint32_t i = 0; i < a->vocab; i++) {
            double d = fabs((double)x[i] - (double)y[i]);
            sum += (double)x[i] * (double)x[i];
            diff = d <= diff ? diff : d;
        }
        double rms = sqrt(sum / a->vocab), unit = TOLERANCE * (rms > 1 ? rms : 1);
        worst = diff / unit > worst ? diff / unit : worst;
        if (!(diff <= unit))
            fail_msg("seed %u, %s, position %u: logits differ by %g (rms %g)", (unsigned)u->seed,
                     what, p, diff, rms);
    }
}

static void same_last(const subject *u, const char *what, const rows *a, const rows *b)
{
    size_t at = (size_t)(N - 1) * a->vocab;
    if (memcmp(a->logits + at, b->logits + at, a->vocab * sizeof(float)) != 0)
        fail_msg("seed %u: %s changes bytes", (unsigned)u->seed, what);
}

/* ---- the properties ---- */

static void check_cuts(const subject *u, const rows *whole)
{
    static const uint32_t at64[] = {64, 64, N - 128, 0}, at128[] = {128, N - 128, 0};
    tt_rng r = {u->seed + 5};
    uint32_t odd[N + 1], n = 0, at = 0;
    while (at < N) {
        uint32_t most = N - at < 70 ? N - at : 70;
        odd[n] = 1 + tt_rng_below(&r, most);
        at += odd[n++];
    }
    odd[n] = 0;
    rows a = by_cuts(u->m, u->ids, at64), b = by_cuts(u->m, u->ids, at128),
         c = by_cuts(u->m, u->ids, odd);
    same_last(u, "a cut at 64 and 128", whole, &a);
    same_last(u, "a cut at 128", whole, &b);
    if (whole->sure == N)
        close_rows(u, "cut anywhere", whole, &c, N - 1, N);
    free(a.logits);
    free(b.logits);
    free(c.logits);
}

/* Fewer slots than a chunk's experts, other threads, KV rows as the model can have them. */
static void check_other_models(const subject *u, const char *install)
{
    static const uint32_t one[] = {N, 0}, at64[] = {64, N - 64, 0};
    uint32_t kv = u->arch.head_dim % TT_GROUP != 0 ? 16 : u->seed % 3 == 0 ? 4 : 8;
    uint32_t E = u->arch.n_experts, K = u->arch.top_k;
    tt_model *all = open_seed(u, install, E, 1, kv), *few = open_seed(u, install, K, 2, kv),
             *some = open_seed(u, install, E > K ? K + 1 : K, 3, kv);
    rows a = by_cuts(all, u->ids, one), b = by_cuts(few, u->ids, at64),
         c = by_cuts(some, u->ids, one);
    same_last(u, "the fewest slots and a cut at 64", &a, &b);
    same_last(u, "three threads and few slots", &a, &c);
    free(a.logits);
    free(b.logits);
    free(c.logits);
    tt_model_close(&all);
    tt_model_close(&few);
    tt_model_close(&some);
}

/* Steps of up to 16 decoded rows give the bytes of single rows: law 4. */
static void check_rows_together(const subject *u)
{
    tt_session *one = session_of(u->m), *many = session_of(u->m);
    uint32_t vocab = u->arch.vocab_size;
    float *logits = malloc((size_t)TT_LOGITS_ROWS * vocab * sizeof *logits);
    tt_error err = {0};
    ok(tt_session_prefill(one, u->ids, 61, NULL, &err), &err);
    ok(tt_session_prefill(many, u->ids, 61, NULL, &err), &err);
    for (uint32_t T = 16, at = 61; at + T <= N && T > 0; at += T, T = T > 5 ? T - 5 : T - 1) {
        tt_step step = {.model = u->m,
                        .be = u->m->be,
                        .arch = &u->m->arch,
                        .s = &u->m->scratch,
                        .kv = &many->kv,
                        .recurrent = &many->recurrent,
                        .tokens = u->ids + at,
                        .past = u->ids,
                        .pos0 = at,
                        .T = T,
                        .err = &err};
        tt_model_forward(&step);
        ok(step.status, &err);
        tt_model_head(&step, logits, NULL, 0, T);
        for (uint32_t t = 0; t < T; t++) {
            ok(tt_session_decode(one, u->ids[at + t], &err), &err);
            if (memcmp(logits + (size_t)t * vocab, tt_session_logits(one),
                       vocab * sizeof *logits) != 0)
                fail_msg("seed %u: row %u of %u together is not the row alone", (unsigned)u->seed,
                         t, T);
        }
    }
    assert_memory_equal(one->recurrent.block, many->recurrent.block, one->recurrent.bytes);
    free(logits);
    tt_session_close(&one);
    tt_session_close(&many);
}

static void random_architectures(void **state)
{
    unsigned compared = 0, dense = 0, linear = 0, full = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        subject u = {.arch = tiny_arch(seed), .seed = seed};
        tiny_options o = {.arch = u.arch, .seed = seed, .mixed = true};
        const char *install = tiny_install_new(&o);
        tt_rng r = {seed + 99};
        for (uint32_t i = 0; i < N; i++)
            u.ids[i] = tt_rng_below(&r, u.arch.vocab_size);
        u.m = open_seed(&u, install, 0, 1, 32);
        rows p = by_prefill(&u), d = by_decode(&u);
        close_rows(&u, "prefill against decode", &p, &d, 0, p.sure);
        compared += p.sure;
        check_cuts(&u, &p);
        check_rows_together(&u);
        free(p.logits);
        free(d.logits);
        tt_model_close(&u.m);
        check_other_models(&u, install);
        uint32_t kinds = 0;
        for (uint32_t l = 0; l < u.arch.n_layers; l++)
            kinds |= 1u << u.arch.layer_kind[l];
        dense += !tt_arch_is_moe(&u.arch);
        linear += kinds == 1u << TT_LAYER_LINEAR;
        full += kinds == 1u << TT_LAYER_FULL;
        tiny_remove();
    }
    print_message(
        "  %u models (%u dense, %u only linear, %u only full), %u rows compared, worst %.3f "
        "of the tolerance\n",
        SEEDS, dense, linear, full, compared, worst);
    assert_true(compared > SEEDS * N / 2);
    assert_true(dense > 5 && linear > 5 && full > 5);
}

/* A choice of key blocks may hang on less than the difference of prefill and decode, so these two
 * are compared where everything is chosen. */
static void random_architectures_with_streams(void **state)
{
    unsigned compared = 0;
    for (uint64_t seed = 0; seed < 24; seed++) {
        subject u = {.arch = tiny_arch_streams(seed), .seed = seed};
        tiny_options o = {.arch = u.arch, .seed = seed, .mixed = true};
        const char *install = tiny_install_new(&o);
        tt_rng r = {seed + 99};
        for (uint32_t i = 0; i < N; i++)
            u.ids[i] = tt_rng_below(&r, u.arch.vocab_size);
        u.m = open_seed(&u, install, 0, 1, 32);
        if (seed % 2 != 0) {
            rows p = by_prefill(&u), d = by_decode(&u);
            close_rows(&u, "prefill against decode", &p, &d, 0, p.sure);
            compared += p.sure;
            check_cuts(&u, &p);
            free(p.logits);
            free(d.logits);
        }
        check_rows_together(&u);
        tt_model_close(&u.m);
        check_other_models(&u, install);
        tiny_remove();
    }
    print_message("  %u rows compared, worst %.3f of the tolerance\n", compared, worst);
    assert_true(compared > 12 * N / 4);
}

static int clean(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_architectures),
        cmocka_unit_test(random_architectures_with_streams),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
