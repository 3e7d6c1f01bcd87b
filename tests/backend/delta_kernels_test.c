/* Proves convolution and delta rule at every level: against the reference, chunks against rows, and
 * that prefill cut at multiples of 64 gives the same bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/levels.h"

/* ---- convolution ---- */

static void conv_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {1};
    unsigned thin = 0;
    static const uint32_t Cs[] = {1, 7, 16, 40, 64, 129, 512}, Ts[] = {1, 2, 3, 4, 17, 64, 130};
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < 7; k++) {
            if (tt_test_thinned(&thin))
                continue;
            uint32_t C = Cs[i], T = Ts[k];
            size_t n = (size_t)C * T;
            float *u = tt_guard_new(n), *w = tt_guard_new(C * 4ul);
            float *got = tt_guard_new(n), *want = tt_guard_new(n);
            float *sa = tt_guard_new(3ul * C), *sb = tt_guard_new(3ul * C);
            float *step = tt_guard_new(n), *sc = tt_guard_new(3ul * C);
            tt_rng_fill(&r, u, n, 2);
            tt_rng_fill(&r, w, C * 4ul, 1);
            tt_rng_fill(&r, sa, 3ul * C, 2);
            memcpy(sb, sa, 12ul * C);
            memcpy(sc, sa, 12ul * C);
            ref->ops->conv_silu(ref, want, sa, u, w, C, T);
            be->ops->conv_silu(be, got, sb, u, w, C, T);
            /* four products of order 4 rounded, then silu */
            tt_assert_close("conv", got, want, NULL, n, 4e-6, 1e-6);
            tt_assert_same_bytes("conv state", sb, sa, 12ul * C);
            for (uint32_t t = 0; t < T; t++)
                be->ops->conv_silu(be, step + (size_t)t * C, sc, u + (size_t)t * C, w, C, 1);
            tt_assert_same_bytes("conv row by row", step, got, n * 4);
            tt_assert_same_bytes("conv state row by row", sc, sb, 12ul * C);
            float *all[] = {u, w, got, want, sa, sb, step, sc};
            for (int j = 0; j < 8; j++)
                tt_guard_free(all[j]);
        }
}

static void conv_agrees(void **state)
{
    tt_for_levels(2, conv_level);
}

/* ---- delta rule ---- */

typedef struct problem {
    tt_delta_shape s;
    uint32_t T;
    size_t ld, n_o, n_S;
    float *c, *g, *beta, *S;
} problem;

/* Keys and queries normalised as the rule expects them; `decay` is the mean of -g. */
static problem make_problem(tt_rng *r, tt_backend *ref, tt_delta_shape s, uint32_t T, float decay)
{
    size_t keys = (size_t)s.key_heads * s.key_dim;
    problem p = {.s = s, .T = T, .ld = 2 * keys + (size_t)s.value_heads * s.value_dim + 3};
    p.n_o = (size_t)T * s.value_heads * s.value_dim;
    p.n_S = (size_t)s.value_heads * s.key_dim * s.value_dim;
    p.c = tt_guard_new(T * p.ld);
    p.g = tt_guard_new((size_t)T * s.value_heads);
    p.beta = tt_guard_new((size_t)T * s.value_heads);
    p.S = tt_guard_new(p.n_S);
    tt_rng_fill(r, p.c, T * p.ld, 1);
    ref->ops->delta_qk_norm(ref, p.c, p.ld, &s, T);
    tt_rng_fill(r, p.S, p.n_S, .5f);
    for (size_t i = 0; i < (size_t)T * s.value_heads; i++) {
        p.g[i] = -2 * decay * tt_rng_uniform(r, 0, 1);
        p.beta[i] = tt_rng_uniform(r, 0, 1);
    }
    return p;
}

static void free_problem(problem *p)
{
    tt_guard_free(p->c);
    tt_guard_free(p->g);
    tt_guard_free(p->beta);
    tt_guard_free(p->S);
}

typedef struct result {
    float *o, *S;
} result;

static result new_result(const problem *p)
{
    result z = {tt_guard_new(p->n_o), tt_guard_new(p->n_S)};
    memcpy(z.S, p->S, p->n_S * 4);
    return z;
}

static void free_result(result *z)
{
    tt_guard_free(z->o);
    tt_guard_free(z->S);
}

/* Rows [t0, t1) as a chunked call of their own. */
static void chunked(tt_backend *be, const problem *p, result *z, uint32_t pos0, uint32_t t0,
                    uint32_t t1)
{
    size_t hv = p->s.value_heads;
    be->ops->delta_chunked(be, z->o + t0 * hv * p->s.value_dim, z->S, p->c + t0 * p->ld, p->ld,
                           p->g + t0 * hv, p->beta + t0 * hv, &p->s, pos0 + t0, t1 - t0);
}

static result by_rows(tt_backend *be, const problem *p)
{
    result z = new_result(p);
    be->ops->delta_recurrent(be, z.o, z.S, p->c, p->ld, p->g, p->beta, &p->s, p->T);
    return z;
}

static result by_chunks(tt_backend *be, const problem *p, uint32_t pos0)
{
    result z = new_result(p);
    chunked(be, p, &z, pos0, 0, p->T);
    return z;
}

/* Outputs and state are of order one; a row reads sums over up to 128 keys, and errors of a row
 * fade with the decay. */
#define DELTA_ABS 2e-5

static void same(const char *what, const problem *p, const result *a, const result *b)
{
    char text[96];
    snprintf(text, sizeof text, "%s (T %u, dk %u, dv %u)", what, p->T, p->s.key_dim,
             p->s.value_dim);
    tt_assert_close(text, a->o, b->o, NULL, p->n_o, DELTA_ABS, 1e-5);
    tt_assert_close(text, a->S, b->S, NULL, p->n_S, DELTA_ABS, 1e-5);
}

static const tt_delta_shape shapes[] = {{1, 1, 5, 4},     {1, 2, 64, 64}, {2, 4, 64, 64},
                                        {1, 3, 128, 128}, {2, 2, 33, 40}, {1, 1, 16, 100}};
static const uint32_t lengths[] = {1, 2, 3, 4, 5, 13, 16, 17, 63, 64, 65, 130, 200};
static const float decays[] = {0, .05f, 1, 30};

static void delta_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {2};
    unsigned n = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            if (tt_test_thinned(&n))
                continue;
            float decay = decays[(i + k) % 4];
            uint32_t pos0 = k % 3 == 0 ? 0 : tt_rng_below(&r, 200);
            problem p = make_problem(&r, ref, shapes[i], lengths[k], decay);
            result want = by_rows(ref, &p), rows = by_rows(be, &p);
            result ref_chunks = by_chunks(ref, &p, pos0), chunks = by_chunks(be, &p, pos0);
            same("reference: chunks against rows", &p, &ref_chunks, &want);
            same("rows", &p, &rows, &want);
            same("chunks", &p, &chunks, &want);
            free_result(&want);
            free_result(&rows);
            free_result(&ref_chunks);
            free_result(&chunks);
            free_problem(&p);
        }
}

static void delta_agrees(void **state)
{
    tt_for_levels(2, delta_level);
}

/* Rows one at a time, and any number of threads: the same bytes. */
static void recurrent_rows(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {3};
    tt_backend *four = tt_level_open(be->level, 4);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        problem p = make_problem(&r, ref, shapes[i], 19, .1f);
        result whole = by_rows(be, &p), wide = by_rows(four, &p), steps = new_result(&p);
        size_t hv = p.s.value_heads;
        for (uint32_t t = 0; t < p.T; t++)
            be->ops->delta_recurrent(be, steps.o + t * hv * p.s.value_dim, steps.S, p.c + t * p.ld,
                                     p.ld, p.g + t * hv, p.beta + t * hv, &p.s, 1);
        tt_assert_same_bytes("row by row", steps.o, whole.o, p.n_o * 4);
        tt_assert_same_bytes("state row by row", steps.S, whole.S, p.n_S * 4);
        tt_assert_same_bytes("threads", wide.o, whole.o, p.n_o * 4);
        tt_assert_same_bytes("state, threads", wide.S, whole.S, p.n_S * 4);
        free_result(&whole);
        free_result(&wide);
        free_result(&steps);
        free_problem(&p);
    }
    tt_backend_close(&four);
}

static void rows_do_not_feel_the_cut(void **state)
{
    tt_for_levels(1, recurrent_rows);
}

/* From a position inside a block the first chunk runs to the next multiple of 64, so cuts at
 * multiples change nothing. The reference is held to it as well. */
static void cuts_of(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {4};
    tt_backend *three = tt_level_open(be->level, 3);
    static const uint32_t starts[] = {0, 64, 37, 63, 100};
    unsigned n = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t k = 0; k < sizeof starts / sizeof starts[0]; k++) {
            if (tt_test_thinned(&n))
                continue;
            uint32_t pos0 = starts[k], T = 64 * 3 + 11;
            problem p = make_problem(&r, ref, shapes[i], T, .1f);
            result whole = by_chunks(be, &p, pos0), wide = by_chunks(three, &p, pos0);
            tt_assert_same_bytes("threads", wide.o, whole.o, p.n_o * 4);
            tt_assert_same_bytes("state, threads", wide.S, whole.S, p.n_S * 4);
            for (uint32_t cut = 64 - pos0 % 64; cut < T; cut += 64) {
                result parts = new_result(&p);
                chunked(be, &p, &parts, pos0, 0, cut);
                chunked(be, &p, &parts, pos0, cut, T);
                tt_assert_same_bytes("cut", parts.o, whole.o, p.n_o * 4);
                tt_assert_same_bytes("state, cut", parts.S, whole.S, p.n_S * 4);
                free_result(&parts);
            }
            free_result(&whole);
            free_result(&wide);
            free_problem(&p);
        }
    tt_backend_close(&three);
}

static void cuts_at_multiples_change_nothing(void **state)
{
    tt_for_levels(1, cuts_of);
    tt_backend *ref = tt_ref_open();
    cuts_of(ref, ref);
    tt_backend_close(&ref);
}

/* Decay so strong that e^(G_j - G_i) would overflow if the upper part were not masked first. */
static void strong_decay(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {5};
    tt_delta_shape s = {1, 2, 64, 64};
    problem p = make_problem(&r, ref, s, 128, 60);
    /* Running sums in the thousands, whose small differences still count. */
    for (size_t i = 20; i < 128 * 2; i++)
        if (i % 128 >= 20)
            p.g[i] *= 1e-4f;
    result want = by_rows(ref, &p), got = by_chunks(be, &p, 0);
    for (size_t i = 0; i < p.n_o; i++)
        assert_true(isfinite(got.o[i]));
    same("strong decay", &p, &got, &want);
    free_result(&want);
    free_result(&got);
    free_problem(&p);
}

static void strong_decay_stays_finite(void **state)
{
    tt_for_levels(1, strong_decay);
}

/* Rows of zeros with beta = g = 0 leave the state as it is, to the byte. */
static void padding(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {6};
    tt_delta_shape s = {1, 2, 64, 64};
    problem p = make_problem(&r, ref, s, 70, .1f);
    memset(p.c, 0, 70 * p.ld * 4);
    memset(p.g, 0, 70 * 2 * 4);
    memset(p.beta, 0, 70 * 2 * 4);
    result rows = by_rows(be, &p), chunks = by_chunks(be, &p, 5);
    tt_assert_same_bytes("state after empty rows", rows.S, p.S, p.n_S * 4);
    tt_assert_same_bytes("state after empty chunks", chunks.S, p.S, p.n_S * 4);
    free_result(&rows);
    free_result(&chunks);
    free_problem(&p);
}

static void empty_rows_leave_the_state(void **state)
{
    tt_for_levels(1, padding);
}

/* With k = q = 0 a row only decays the state: e^g over its whole range, to a few units. */
static void decay_alone(tt_backend *be)
{
    tt_delta_shape s = {1, 1, 2, 3};
    float c[2 + 2 + 3] = {0}, o[3], beta = 1;
    for (int n = 0; n < 8000; n++) {
        float g = (float)n * -0.0137f;
        float S[6] = {1e30f, -1e30f, 1, 0, -0.0f, 3e38f};
        float T[6] = {1e30f, -1e30f, 1, 0, -0.0f, 3e38f};
        double e = exp(g);
        be->ops->delta_recurrent(be, o, S, c, 7, &g, &beta, &s, 1);
        be->ops->delta_chunked(be, o, T, c, 7, &g, &beta, &s, 0, 1);
        for (int i = 0; i < 6; i++) {
            double want = e * (double)(float[]){1e30f, -1e30f, 1, 0, -0.0f, 3e38f}[i];
            double unit = e < 0x1p-126 ? 0x1p-149 / e : 0; /* e^g itself is subnormal */
            double allowed = fabs(want) * (4 * EPS32 + unit) + 0x1p-149;
            assert_true(fabs(S[i] - want) <= allowed && fabs(T[i] - want) <= allowed);
        }
    }
}

static void decay_is_exact(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++) {
        tt_backend *be = tt_level_open(level, 1);
        decay_alone(be);
        tt_backend_close(&be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_agrees),
        cmocka_unit_test(delta_agrees),
        cmocka_unit_test(rows_do_not_feel_the_cut),
        cmocka_unit_test(cuts_at_multiples_change_nothing),
        cmocka_unit_test(strong_decay_stays_finite),
        cmocka_unit_test(empty_rows_leave_the_state),
        cmocka_unit_test(decay_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
