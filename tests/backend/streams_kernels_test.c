/* Proves the ops of qwen4_exp at every level: streams of the residual, the n-gram block, the choice
 * of key blocks and attention to them, against plain sums in double and against dense attention. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/levels.h"

#define CLOSE 3e-6

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void at_every_level(void (*fn)(tt_backend *be))
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++) {
        tt_backend *be = tt_level_open(level, 2);
        fn(be);
        tt_backend_close(&be);
    }
}

/* ---- streams ---- */

static void streams_at(tt_backend *be)
{
    static const uint32_t shapes[][3] = {{1, 5, 1}, {4, 64, 3}, {3, 33, 2}, {4, 200, 17}};
    tt_rng r = {3};
    for (size_t c = 0; c < sizeof shapes / sizeof shapes[0]; c++) {
        uint32_t S = shapes[c][0], H = shapes[c][1], T = shapes[c][2];
        size_t n = (size_t)T * S * H;
        float *x = tt_guard_new(n), *m = tt_guard_new(n), *w = tt_guard_new((size_t)S * H);
        float *y = tt_guard_new(n), *mean = tt_guard_new((size_t)T * H), *want = tt_guard_new(n);
        float *inject = tt_guard_new((size_t)T * S);
        tt_rng_fill(&r, x, n, 2);
        tt_rng_fill(&r, m, n, 2);
        tt_rng_fill(&r, w, (size_t)S * H, 1);
        tt_rng_fill(&r, inject, (size_t)T * S, 3);
        be->ops->stream_norm(be, y, x, w, S, H, 1e-6f, T);
        for (size_t i = 0; i < (size_t)T * S; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < H; k++)
                sum += (double)x[i * H + k] * x[i * H + k];
            for (uint32_t k = 0; k < H; k++)
                want[i * H + k] = (float)(x[i * H + k] / sqrt(sum / H + 1e-6) * w[i % S * H + k]);
        }
        tt_assert_close("stream_norm", y, want, NULL, n, CLOSE, CLOSE);
        be->ops->mix_streams(be, mean, m, x, S, H, T);
        for (size_t t = 0; t < T; t++)
            for (uint32_t k = 0; k < H; k++) {
                double sum = 0;
                for (uint32_t s = 0; s < S; s++)
                    sum += sigmoid(m[(t * S + s) * H + k]) * x[(t * S + s) * H + k];
                want[t * H + k] = (float)(sum / S);
            }
        tt_assert_close("mix_streams", mean, want, NULL, (size_t)T * H, CLOSE, CLOSE);
        for (size_t i = 0; i < n; i++)
            want[i] = (float)(x[i] + 2 * sigmoid(inject[i / H] / S) * mean[i / H / S * H + i % H]);
        be->ops->add_streams(be, x, mean, inject, S, H, T);
        tt_assert_close("add_streams", x, want, NULL, n, CLOSE, CLOSE);
        for (size_t i = 0; i < n; i++) {
            double v = 0.25 * m[i];
            want[i] = (float)(v * sigmoid(v));
        }
        be->ops->silu_scaled(be, m, 0.25f, n);
        tt_assert_close("silu_scaled", m, want, NULL, n, CLOSE, CLOSE);
        float *all[] = {x, m, w, y, mean, want, inject};
        for (size_t i = 0; i < 7; i++)
            tt_guard_free(all[i]);
    }
}

static void streams(void **state)
{
    at_every_level(streams_at);
}

/* ---- n-grams ---- */

static void gate_at(tt_backend *be)
{
    tt_rng r = {5};
    uint32_t S = 4, H = 37, T = 5;
    size_t n = (size_t)T * S * H;
    float *k = tt_guard_new(n), *q = tt_guard_new(n), *v = tt_guard_new((size_t)T * H),
          *want = tt_guard_new(n);
    tt_rng_fill(&r, k, n, 1);
    tt_rng_fill(&r, q, n, 1);
    tt_rng_fill(&r, v, (size_t)T * H, 1);
    memset(k, 0, H * sizeof *k); /* a product of zero has no sign */
    k[H] = 1e-4f;                /* and a small one is brought up to 1e-3 */
    memset(k + H + 1, 0, (H - 1) * sizeof *k);
    for (size_t i = 0; i < (size_t)T * S; i++) {
        double d = 0;
        for (uint32_t j = 0; j < H; j++)
            d += (double)k[i * H + j] * q[i * H + j];
        d /= sqrt(H);
        double root = sqrt(fmax(fabs(d), 1e-6)), a = sigmoid(d == 0 ? 0 : d > 0 ? root : -root);
        for (uint32_t j = 0; j < H; j++)
            want[i * H + j] = (float)(a * v[i / S * H + j]);
    }
    be->ops->ngram_gate(be, k, k, q, v, S, H, T);
    tt_assert_close("ngram_gate", k, want, NULL, n, CLOSE, CLOSE);
    tt_guard_free(k);
    tt_guard_free(q);
    tt_guard_free(v);
    tt_guard_free(want);
}

/* Any cut of the rows gives the same bytes, and rows before the first are zero. */
static void conv_at(tt_backend *be)
{
    enum { C = 70, T = 40, D = 3 };
    static const uint32_t cuts[][4] = {{40, 0, 0, 0}, {1, 2, 9, 28}, {9, 10, 8, 13}};
    tt_rng r = {6};
    float *u = tt_guard_new(C * T), *w = tt_guard_new(C * 4), *want = tt_guard_new(C * T);
    tt_rng_fill(&r, u, C * T, 1);
    tt_rng_fill(&r, w, C * 4, 1);
    for (int t = 0; t < T; t++)
        for (int n = 0; n < C; n++) {
            double sum = 0;
            for (int j = 0; j < 4; j++)
                sum +=
                    t - D * (3 - j) < 0 ? 0 : (double)w[n * 4 + j] * u[(t - D * (3 - j)) * C + n];
            want[t * C + n] = (float)(sum * sigmoid(sum));
        }
    for (int c = 0; c < 3; c++) {
        float *y = tt_guard_new(C * T), *state = tt_guard_new(3 * D * C);
        uint32_t at = 0;
        memset(state, 0, 3 * D * C * sizeof *state);
        for (int i = 0; i < 4; i++) {
            be->ops->conv_dilated(be, y + at * C, state, u + at * C, w, C, D, cuts[c][i]);
            at += cuts[c][i];
        }
        tt_assert_close("conv_dilated", y, want, NULL, C * T, CLOSE, CLOSE);
        tt_assert_same_bytes("state", state, u + (T - 3 * D) * C, 3 * D * C * sizeof *u);
        tt_guard_free(y);
        tt_guard_free(state);
    }
    tt_guard_free(u);
    tt_guard_free(w);
    tt_guard_free(want);
}

static void ngrams(void **state)
{
    at_every_level(gate_at);
    at_every_level(conv_at);
}

/* ---- choice ---- */

static void mean_at(tt_backend *be)
{
    float x[3 * 4 * 5], y[3 * 5];
    for (int i = 0; i < 60; i++)
        x[i] = (float)i;
    be->ops->mean_rows(be, y, x, 5, 4, 3);
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < 5; i++)
            assert_true(y[b * 5 + i] == (float)(b * 20 + 7.5 + i));
}

static void picks_at(tt_backend *be)
{
    static const uint32_t cases[][3] = {{1, 1, 5}, {4, 8, 11}, {2, 5, 60}, {4, 512, 1500}};
    tt_rng r = {8};
    for (size_t c = 0; c < 4; c++) {
        uint32_t heads = cases[c][0], K = cases[c][1], most = cases[c][2], T = 6;
        size_t ld = most + 3;
        uint32_t block = 4, pos0 = (most - 1) * block - 1 - 2; /* the last rows see one more */
        float *scores = tt_guard_new(T * heads * ld), *sum = calloc(most, sizeof *sum);
        uint32_t *picks = calloc((size_t)T * K, sizeof *picks);
        for (size_t i = 0; i < T * heads * ld; i++) /* ties, and much that is below zero */
            scores[i] = i % 3 == 0 ? (float)tt_rng_below(&r, 4) : tt_rng_normal(&r);
        float *kept = malloc(T * heads * ld * sizeof *kept);
        memcpy(kept, scores, T * heads * ld * sizeof *kept);
        be->ops->pick_blocks(be, picks, scores, heads, ld, block, K, pos0, T);
        for (uint32_t t = 0; t < T; t++) {
            uint32_t B = (pos0 + t + 1) / block;
            assert_true(B > K && B <= most);
            for (uint32_t b = 0; b < B; b++) {
                sum[b] = 0;
                for (uint32_t h = 0; h < heads; h++)
                    sum[b] += fmaxf(kept[(t * heads + h) * ld + b], 0);
            }
            for (uint32_t b = 0, n = 0; b < B; b++) {
                uint32_t before = 0; /* blocks that come before this one */
                for (uint32_t o = 0; o < B; o++)
                    before += sum[o] > sum[b] || (sum[o] == sum[b] && o < b);
                if (before < K)
                    assert_int_equal(picks[t * K + n++], b);
            }
        }
        tt_guard_free(scores);
        free(kept);
        free(sum);
        free(picks);
    }
}

static void choices(void **state)
{
    at_every_level(mean_at);
    at_every_level(picks_at);
}

/* ---- attention ---- */

typedef struct rows {
    tt_kv_layer kv;
    void *memory[4];
} rows;

static rows make_rows(uint32_t bits, uint32_t heads, uint32_t dim, uint32_t n)
{
    rows r = {.kv = {.bits = bits, .heads = heads, .dim = dim}};
    for (int i = 0; i < 4; i++)
        r.memory[i] = calloc(n, i < 2 ? tt_kv_row_bytes(bits, heads, dim)
                                      : tt_kv_meta_bytes(bits, heads, dim) + 1);
    r.kv.k = r.memory[0];
    r.kv.v = r.memory[1];
    r.kv.k_meta = r.memory[2];
    r.kv.v_meta = r.memory[3];
    return r;
}

static void free_rows(rows *r)
{
    for (int i = 0; i < 4; i++)
        free(r->memory[i]);
}

/* A row attends as it would if there were nothing but what it chose. */
static void attention_at(tt_backend *be)
{
    enum { HEADS = 2, DIM = 64, HQ = 4, N = 90, BLOCK = 4, K = 5, W = HEADS * DIM };
    static const uint32_t bits[] = {32, 16, 8, 4};
    tt_rng r = {9};
    for (int c = 0; c < 4; c++) {
        rows all = make_rows(bits[c], HEADS, DIM, N), some = make_rows(bits[c], HEADS, DIM, N),
             work = make_rows(bits[c], HEADS, DIM, K * BLOCK + BLOCK - 1);
        float *k = tt_guard_new(N * W), *v = tt_guard_new(N * W);
        float *q = tt_guard_new(4 * HQ * DIM), *o = tt_guard_new(4 * HQ * DIM), want[HQ * DIM];
        uint32_t picks[4 * K], pos0 = 81; /* tails of 2, 3, 0 and 1 rows */
        tt_rng_fill(&r, k, N * W, 1);
        tt_rng_fill(&r, v, N * W, 1);
        tt_rng_fill(&r, q, 4 * HQ * DIM, 1);
        be->ops->kv_append(be, &all.kv, k, v, 0, N);
        for (uint32_t i = 0; i < 4 * K; i++)
            picks[i] = i % K * 4 + i / K % 4;
        be->ops->attend_blocks(be, o, q, &all.kv, &work.kv, picks, BLOCK, K, HQ, pos0, 4);
        for (uint32_t t = 0; t < 4; t++) {
            uint32_t n = 0, seen = pos0 + t + 1;
            for (uint32_t p = 0; p < seen; p++) {
                bool chosen = p >= seen / BLOCK * BLOCK;
                for (uint32_t i = 0; i < K; i++)
                    chosen |= p / BLOCK == picks[t * K + i];
                if (chosen)
                    be->ops->kv_append(be, &some.kv, k + p * W, v + p * W, n++, 1);
            }
            assert_int_equal(n, K * BLOCK + seen % BLOCK);
            be->ops->attend(be, want, q + t * HQ * DIM, &some.kv, HQ, n - 1, 1);
            tt_assert_same_bytes("attend_blocks", o + t * HQ * DIM, want, sizeof want);
        }
        float *floats[] = {k, v, q, o};
        for (int i = 0; i < 4; i++)
            tt_guard_free(floats[i]);
        free_rows(&all);
        free_rows(&some);
        free_rows(&work);
    }
}

static void attention_to_chosen_blocks(void **state)
{
    at_every_level(attention_at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams),
        cmocka_unit_test(ngrams),
        cmocka_unit_test(choices),
        cmocka_unit_test(attention_to_chosen_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
