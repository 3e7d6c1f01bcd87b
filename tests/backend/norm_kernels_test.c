/* Proves norms, gates and the exponential behind them at every level against the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/levels.h"

/* Statistics of up to a few thousand squares in f32 lanes, a root, and two products: a few units,
 * relative to the value itself, since nothing cancels. */
#define NORM_REL 1e-6

static void rms_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {1};
    static const uint32_t sizes[] = {1, 2, 15, 16, 17, 31, 64, 96, 100, 256, 1000, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t T = 1; T <= 9; T += 4)
            for (int kind = 0; kind < 4; kind++) {
                uint32_t n = sizes[i];
                float *x = tt_guard_new((size_t)T * n), *w = tt_guard_new(n);
                float *got = tt_guard_new((size_t)T * n), *want = tt_guard_new((size_t)T * n);
                tt_rng_fill(&r, w, n, 1);
                if (kind == 0)
                    tt_rng_fill_wild(&r, x, (size_t)T * n);
                else
                    tt_rng_fill(&r, x, (size_t)T * n, kind == 1 ? 1 : kind == 2 ? 1e-5f : 1e15f);
                ref->ops->rms_norm(ref, want, x, w, n, 1e-6f, T);
                be->ops->rms_norm(be, got, x, w, n, 1e-6f, T);
                tt_assert_close("rms_norm", got, want, NULL, (size_t)T * n, 1e-37, NORM_REL);
                be->ops->rms_norm(be, x, x, w, n, 1e-6f, T);
                tt_assert_same_bytes("in place", x, got, (size_t)T * n * 4);
                tt_guard_free(x);
                tt_guard_free(w);
                tt_guard_free(got);
                tt_guard_free(want);
            }
}

static void rms_agrees(void **state)
{
    tt_for_levels(2, rms_level);
}

static void gated_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {2};
    static const uint32_t dims[] = {2, 16, 24, 64, 128};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (int act = 0; act < 2; act++) {
            uint32_t heads = 5, dim = dims[i], T = 7;
            size_t n = (size_t)T * heads * dim;
            float *x = tt_guard_new(n), *z = tt_guard_new(n), *w = tt_guard_new(dim);
            float *got = tt_guard_new(n), *want = tt_guard_new(n);
            tt_rng_fill(&r, x, n, 1);
            tt_rng_fill(&r, z, n, 8);
            tt_rng_fill(&r, w, dim, 1);
            z[0] = 200, z[1] = -200; /* past the range of e^x */
            ref->ops->gated_norm(ref, want, x, z, w, heads, dim, 1e-6f, (tt_gate_act)act, T);
            be->ops->gated_norm(be, got, x, z, w, heads, dim, 1e-6f, (tt_gate_act)act, T);
            tt_assert_close("gated_norm", got, want, NULL, n, 1e-36, 2 * NORM_REL);
            be->ops->gated_norm(be, x, x, z, w, heads, dim, 1e-6f, (tt_gate_act)act, T);
            tt_assert_same_bytes("in place", x, got, n * 4);
            tt_guard_free(x);
            tt_guard_free(z);
            tt_guard_free(w);
            tt_guard_free(got);
            tt_guard_free(want);
        }
}

static void gated_agrees(void **state)
{
    tt_for_levels(2, gated_level);
}

static void rope_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {3};
    static const uint32_t cases[][2] = {{64, 16}, {256, 64}, {128, 32}, {20, 6}, {32, 32}, {64, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t dim = cases[i][0], rotary = cases[i][1], heads = 3, T = 5, stride = 2 * dim;
        size_t ldx = heads * stride + 7, n = (size_t)T * heads * dim, half = rotary / 2;
        float *x = tt_guard_new(T * ldx), *w = tt_guard_new(dim);
        float *got = tt_guard_new(n), *want = tt_guard_new(n);
        float *cosine = tt_guard_new(T * half + 1), *sine = tt_guard_new(T * half + 1);
        tt_rng_fill(&r, x, T * ldx, 3);
        tt_rng_fill(&r, w, dim, 1);
        for (size_t j = 0; j < T * half; j++) {
            float angle = tt_rng_uniform(&r, -4, 4);
            cosine[j] = cosf(angle), sine[j] = sinf(angle);
        }
        ref->ops->norm_rope(ref, want, x, ldx, stride, w, heads, dim, 1e-6f, cosine, sine, rotary,
                            T);
        be->ops->norm_rope(be, got, x, ldx, stride, w, heads, dim, 1e-6f, cosine, sine, rotary, T);
        /* The two products of a rotation cancel: relative to values of order ten at most. */
        tt_assert_close("norm_rope", got, want, NULL, n, 10 * NORM_REL, NORM_REL);
        tt_guard_free(x);
        tt_guard_free(w);
        tt_guard_free(got);
        tt_guard_free(want);
        tt_guard_free(cosine);
        tt_guard_free(sine);
    }
}

static void rope_agrees(void **state)
{
    tt_for_levels(2, rope_level);
}

/* A zero vector has no direction: 1e-6 stands under the root and the result is zero, not NaN. */
static void qk_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {4};
    static const uint32_t dims[] = {2, 5, 64, 128};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        tt_delta_shape s = {3, 6, dims[i], 10};
        size_t keys = 3 * (size_t)dims[i], ld = 2 * keys + 60 + 3, T = 4;
        float *got = tt_guard_new(T * ld), *want = tt_guard_new(T * ld);
        tt_rng_fill(&r, got, T * ld, 1);
        memset(got + dims[i], 0, dims[i] * 4);
        for (size_t j = 0; j < dims[i]; j++)
            got[ld + j] *= 1e-4f; /* 1e-6 counts here */
        memcpy(want, got, T * ld * 4);
        ref->ops->delta_qk_norm(ref, want, ld, &s, (uint32_t)T);
        be->ops->delta_qk_norm(be, got, ld, &s, (uint32_t)T);
        tt_assert_close("qk norm", got, want, NULL, T * ld, 0, NORM_REL);
        for (uint32_t j = 0; j < dims[i]; j++)
            assert_true(got[dims[i] + j] == 0);
        tt_guard_free(got);
        tt_guard_free(want);
    }
}

static void qk_agrees(void **state)
{
    tt_for_levels(2, qk_level);
}

/* sigmoid(r) of a dense grid over the whole range and beyond it: 1 / (1 + e^-r) is the plainest
 * view of the exponential. e^x is good to about 1.5 units, the sum and the quotient add one. */
static void sigmoid_level(tt_backend *be, tt_backend *ref)
{
    enum { N = 60000 };
    float *x = malloc(N * 4), *got = tt_guard_new(N), *want = tt_guard_new(N);
    for (int i = 0; i < N; i++) {
        x[i] = -120 + 240.0f * (float)i / N;
        got[i] = want[i] = 1;
    }
    x[0] = -INFINITY, x[1] = INFINITY, x[2] = NAN, x[3] = 0, x[4] = -0.0f, x[5] = 3e38f;
    x[6] = -3e38f;
    ref->ops->sigmoid_gate(ref, want, x, N, 6, N / 6, 6, 1);
    be->ops->sigmoid_gate(be, got, x, N, 6, N / 6, 6, 1);
    /* Below e^-87 results are subnormal: whole units of 2^-149 count, and 1 / inf is 0. */
    tt_assert_close("sigmoid", got, want, NULL, N, 0x1p-126, 3.5 * 2 * EPS32);
    assert_true(got[3] == 0.5f && got[4] == 0.5f && got[1] == 1 && got[0] == 0);
    free(x);
    tt_guard_free(got);
    tt_guard_free(want);
}

static void sigmoid_agrees(void **state)
{
    tt_for_levels(1, sigmoid_level);
}

static void gate_rows_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {5};
    uint32_t heads = 3, dim = 20, T = 6;
    size_t stride = 45, ldr = 150, n = (size_t)T * heads * dim;
    float *o = tt_guard_new(n), *want = tt_guard_new(n), *x = tt_guard_new(T * ldr);
    tt_rng_fill(&r, o, n, 1);
    tt_rng_fill(&r, x, T * ldr, 4);
    memcpy(want, o, n * 4);
    ref->ops->sigmoid_gate(ref, want, x, ldr, stride, heads, dim, T);
    be->ops->sigmoid_gate(be, o, x, ldr, stride, heads, dim, T);
    tt_assert_close("sigmoid_gate", o, want, NULL, n, 0, NORM_REL);
    tt_guard_free(o);
    tt_guard_free(want);
    tt_guard_free(x);
}

static void gate_rows_agree(void **state)
{
    tt_for_levels(2, gate_rows_level);
}

/* g = -exp(A_log) softplus(a + dt) where softplus is 0, tiny, the identity; against long doubles.
 */
static void gates_at(tt_backend *be)
{
    static const float a[] = {0, 1, -1, 19.9f, 20.1f, 50, 300, -20, -80, -120, -1e4f, 5, 88, 1e30f};
    enum { N = sizeof a / sizeof a[0] };
    float A_log[N], dt[N], b[N], g[N], beta[N];
    for (int i = 0; i < N; i++) {
        A_log[i] = (float)(i % 5) - 1.5f;
        dt[i] = i % 2 == 0 ? 0 : -0.5f;
        b[i] = a[i];
    }
    be->ops->delta_gates(be, g, beta, a, b, A_log, dt, N, 1);
    for (int i = 0; i < N; i++) {
        long double x = (long double)a[i] + dt[i];
        long double sp = x > 60 ? x : log1pl(expl(x));
        long double want = -expl((long double)A_log[i]) * sp;
        assert_true(fabsl(g[i] - want) <= 1e-6L * fabsl(want) + 1e-40L);
        assert_true(g[i] <= 0);
        long double sig = 1 / (1 + expl(-(long double)b[i]));
        assert_true(fabsl(beta[i] - sig) <= 1e-6L * sig + 1e-40L);
    }
    float nan_a = NAN, zero = 0;
    be->ops->delta_gates(be, g, beta, &nan_a, &nan_a, &zero, &zero, 1, 1);
    assert_true(isnan(g[0]) && isnan(beta[0]));
}

static void gates_at_their_ends(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++) {
        tt_backend *be = tt_level_open(level, 1);
        gates_at(be);
        tt_backend_close(&be);
    }
}

/* Many rows over several threads give the bytes of each row alone. */
static void rows_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {6};
    tt_backend *four = tt_level_open(be->level, 4);
    enum { T = 40, HEADS = 9, DIM = 72, N = HEADS * DIM };
    float *x = malloc(T * N * 4), *z = malloc(T * N * 4), *w = malloc(N * 4);
    float *many = malloc(T * N * 4), *one = malloc(T * N * 4), cs[T * 12], sn[T * 12];
    tt_rng_fill(&r, x, T * N, 1);
    tt_rng_fill(&r, z, T * N, 1);
    tt_rng_fill(&r, w, N, 1);
    tt_rng_fill(&r, cs, T * 12, 1);
    tt_rng_fill(&r, sn, T * 12, 1);
    four->ops->rms_norm(four, many, x, w, N, 1e-6f, T);
    for (uint32_t t = 0; t < T; t++)
        be->ops->rms_norm(be, one + t * N, x + t * N, w, N, 1e-6f, 1);
    tt_assert_same_bytes("rms_norm rows", many, one, T * N * 4);
    four->ops->gated_norm(four, many, x, z, w, HEADS, DIM, 1e-6f, TT_GATE_SILU, T);
    for (uint32_t t = 0; t < T; t++)
        be->ops->gated_norm(be, one + t * N, x + t * N, z + t * N, w, HEADS, DIM, 1e-6f,
                            TT_GATE_SILU, 1);
    tt_assert_same_bytes("gated_norm rows", many, one, T * N * 4);
    four->ops->norm_rope(four, many, x, N, DIM, w, HEADS, DIM, 1e-6f, cs, sn, 24, T);
    for (uint32_t t = 0; t < T; t++)
        be->ops->norm_rope(be, one + t * N, x + t * N, N, DIM, w, HEADS, DIM, 1e-6f, cs + t * 12,
                           sn + t * 12, 24, 1);
    tt_assert_same_bytes("norm_rope rows", many, one, T * N * 4);
    memcpy(many, x, T * N * 4);
    memcpy(one, x, T * N * 4);
    four->ops->sigmoid_gate(four, many, z, N, DIM, HEADS, DIM, T);
    for (uint32_t t = 0; t < T; t++)
        be->ops->sigmoid_gate(be, one + t * N, z + t * N, N, DIM, HEADS, DIM, 1);
    tt_assert_same_bytes("sigmoid_gate rows", many, one, T * N * 4);
    free(x);
    free(z);
    free(w);
    free(many);
    free(one);
    tt_backend_close(&four);
}

static void a_row_does_not_feel_the_others(void **state)
{
    tt_for_levels(1, rows_level);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_agrees),          cmocka_unit_test(gated_agrees),
        cmocka_unit_test(rope_agrees),         cmocka_unit_test(qk_agrees),
        cmocka_unit_test(sigmoid_agrees),      cmocka_unit_test(gate_rows_agree),
        cmocka_unit_test(gates_at_their_ends), cmocka_unit_test(a_row_does_not_feel_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
