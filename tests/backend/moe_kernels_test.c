/* Proves the router's choice, the experts' two halves and their reduction at every level. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/levels.h"

/* ---- router ---- */

/* The choice by sorting: pick the best of what is left, K times. */
static void choose(uint32_t *ids, const float *logits, uint32_t E, uint32_t K)
{
    uint8_t *taken = calloc(E, 1);
    for (uint32_t i = 0; i < K; i++) {
        uint32_t best = E;
        for (uint32_t e = 0; e < E; e++) {
            if (taken[e])
                continue;
            if (best == E || logits[e] > logits[best] || (isnan(logits[best]) && !isnan(logits[e])))
                best = e;
        }
        taken[best] = 1;
        ids[i] = best;
    }
    free(taken);
}

static void route_at(tt_backend *be)
{
    tt_rng r = {1};
    static const uint32_t cases[][2] = {{1, 1},  {4, 4},   {24, 8},  {32, 4},
                                        {17, 3}, {256, 8}, {512, 10}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t E = cases[c][0], K = cases[c][1], T = 50, want[64], ids[50 * 10];
        float *x = tt_guard_new((size_t)T * E), weights[50 * 10];
        for (size_t i = 0; i < (size_t)T * E; i++) /* few distinct values: many ties */
            x[i] = i % 2 == 0 ? (float)tt_rng_below(&r, 6) : tt_rng_normal(&r) * 3;
        for (uint32_t t = 0; t < 10; t++) /* some rows with NaN, not in the places taken */
            x[(size_t)t * E + tt_rng_below(&r, E)] = t < 5 && E > K ? NAN : -INFINITY;
        be->ops->route(be, ids, weights, x, E, K, T);
        for (uint32_t t = 0; t < T; t++) {
            const float *row = x + (size_t)t * E;
            choose(want, row, E, K);
            double total = 0;
            for (uint32_t i = 0; i < K; i++) {
                assert_int_equal(ids[t * K + i], want[i]);
                total += exp((double)row[want[i]] - row[want[0]]);
            }
            for (uint32_t i = 0; i < K; i++) {
                double w = exp((double)row[want[i]] - row[want[0]]) / total;
                if (isnan(w))
                    assert_true(isnan(weights[t * K + i]));
                else
                    assert_true(fabs(weights[t * K + i] - w) <= 1e-6 * w + 1e-40);
            }
        }
        tt_guard_free(x);
    }
}

static void all_nan_row(tt_backend *be)
{
    float x[6] = {NAN, NAN, NAN, NAN, NAN, NAN}, w[3];
    uint32_t ids[3];
    be->ops->route(be, ids, w, x, 6, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ids[i], i); /* distinct and within range */
        assert_true(isnan(w[i]));    /* and the fault shows */
    }
}

static void router_chooses(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++) {
        tt_backend *be = tt_level_open(level, 2);
        route_at(be);
        all_nan_row(be);
        tt_backend_close(&be);
    }
}

/* ---- experts ---- */

typedef struct layer {
    uint32_t n, H, F, T;
    tt_expert_job *jobs;
    float *x;
} layer;

/* Jobs of uneven size on rows of one x, in any order and twice where it happens; one of them has
 * none. */
static layer make_layer(tt_rng *r, tt_dtype type, uint32_t n, uint32_t H, uint32_t F, uint32_t most)
{
    layer z = {.n = n, .H = H, .F = F, .T = most + 3};
    z.jobs = calloc(n, sizeof *z.jobs);
    z.x = tt_guard_new((size_t)z.T * H);
    tt_rng_fill(r, z.x, (size_t)z.T * H, 1);
    for (uint32_t i = 0; i < n; i++) {
        tt_expert_job *j = &z.jobs[i];
        j->n = most == 1 ? 1 : i == 1 ? 0 : 1 + tt_rng_below(r, most);
        j->gate = tt_mat_random(r, type, F, H, .1f);
        j->up = tt_mat_random(r, type, F, H, .1f);
        j->down = tt_mat_random(r, type, H, F, .1f);
        float *w = malloc((j->n + 1ul) * sizeof *w);
        uint32_t *row = malloc((j->n + 1ul) * sizeof *row);
        for (uint32_t k = 0; k < j->n; k++) {
            row[k] = tt_rng_below(r, z.T);
            w[k] = tt_rng_uniform(r, 0, 1);
        }
        j->x = z.x, j->row = row, j->weight = w;
        j->m = tt_guard_new((size_t)j->n * F);
        j->y = tt_guard_new((size_t)j->n * H);
    }
    return z;
}

static void free_layer(layer *z)
{
    for (uint32_t i = 0; i < z->n; i++) {
        tt_expert_job *j = &z->jobs[i];
        tt_mat_free(&j->gate);
        tt_mat_free(&j->up);
        tt_mat_free(&j->down);
        tt_guard_free(j->m);
        tt_guard_free(j->y);
        free((void *)(uintptr_t)j->row);
        free((void *)(uintptr_t)j->weight);
    }
    tt_guard_free(z->x);
    free(z->jobs);
}

/* The two halves over all jobs give the bytes of swiglu and matmul job by job; y is the second
 * one's alone. */
static void check_experts(tt_backend *be, tt_backend *one, const layer *z)
{
    be->ops->experts_gate_up(be, z->jobs, z->n);
    for (uint32_t i = 0; i < z->n; i++)
        memset(z->jobs[i].y, 0xa5, (size_t)z->jobs[i].n * z->H * sizeof *z->jobs[i].y);
    be->ops->experts_down(be, z->jobs, z->n);
    for (uint32_t i = 0; i < z->n; i++) {
        const tt_expert_job *j = &z->jobs[i];
        size_t F = z->F, H = z->H;
        float *m = malloc((j->n * F + 1) * 4), *y = malloc((j->n * H + 1) * 4);
        float *x = malloc((j->n * H + 1) * 4);
        if (j->n > 0) {
            for (size_t k = 0; k < j->n; k++)
                memcpy(x + k * H, j->x + j->row[k] * H, H * 4);
            one->ops->swiglu(one, m, x, &j->gate, &j->up, j->n);
            one->ops->matmul(one, y, H, m, F, &j->down, j->n);
            tt_assert_same_bytes("gate and up", j->m, m, j->n * F * 4);
            tt_assert_same_bytes("down", j->y, y, j->n * H * 4);
        }
        free(x);
        free(m);
        free(y);
    }
}

static void check_reduce(tt_backend *be, tt_rng *r, const layer *z)
{
    size_t n = (size_t)z->T * z->H;
    float *acc = tt_guard_new(n), *want = tt_guard_new(n);
    tt_rng_fill(r, acc, n, 1);
    memcpy(want, acc, n * 4);
    be->ops->experts_reduce(be, acc, z->H, z->jobs, z->n);
    bool fused = strcmp(be->level, "ref") != 0;
    for (uint32_t i = 0; i < z->n; i++)
        for (uint32_t k = 0; k < z->jobs[i].n; k++)
            for (uint32_t h = 0; h < z->H; h++) {
                float *at = &want[(size_t)z->jobs[i].row[k] * z->H + h];
                float w = z->jobs[i].weight[k], y = z->jobs[i].y[(size_t)k * z->H + h];
                *at = fused ? fmaf(w, y, *at) : *at + w * y;
            }
    tt_assert_same_bytes("reduce, in the order of the jobs", acc, want, n * 4);
    tt_guard_free(acc);
    tt_guard_free(want);
}

static void experts_at(const char *level)
{
    tt_rng r = {2};
    static const tt_dtype types[] = {TT_DTYPE_Q4, TT_DTYPE_Q8, TT_DTYPE_BF16, TT_DTYPE_F32};
    static const uint32_t sizes[][4] = {{4, 256, 64, 1},    {8, 64, 64, 1},    {90, 64, 64, 3},
                                        {2, 2048, 64, 900}, {13, 128, 64, 40}, {5, 320, 192, 17},
                                        {1, 64, 64, 1}};
    tt_backend *one = tt_level_open(level, 1);
    unsigned n = 0;
    for (unsigned threads = 1; threads <= 4; threads++) {
        tt_backend *be = tt_level_open(level, threads);
        be->prompt = one->prompt = threads % 2 != 0;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t k = 0; k < 4; k++) {
                if (tt_test_thinned(&n))
                    continue;
                layer z =
                    make_layer(&r, types[k], sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
                check_experts(be, one, &z);
                check_reduce(be, &r, &z);
                free_layer(&z);
            }
        be->ops->experts_gate_up(be, NULL, 0);
        be->ops->experts_down(be, NULL, 0);
        tt_backend_close(&be);
    }
    tt_backend_close(&one);
}

static void experts_are_their_parts(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++)
        experts_at(level);
}

static void moe_add_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {3};
    static const uint32_t Hs[] = {1, 16, 64, 100, 2048};
    for (size_t i = 0; i < 5; i++) {
        uint32_t H = Hs[i], T = 9;
        size_t n = (size_t)T * H;
        float *h = tt_guard_new(n), *want = tt_guard_new(n), *acc = tt_guard_new(n);
        float *shared = tt_guard_new(n), sg[9];
        tt_rng_fill(&r, h, n, 1);
        tt_rng_fill(&r, acc, n, 1);
        tt_rng_fill(&r, shared, n, 1);
        tt_rng_fill(&r, sg, T, 5);
        memcpy(want, h, n * 4);
        ref->ops->moe_add(ref, want, acc, shared, sg, H, T);
        be->ops->moe_add(be, h, acc, shared, sg, H, T);
        tt_assert_close("moe_add", h, want, NULL, n, 2e-6, 0); /* three terms of order 4 */
        tt_guard_free(h);
        tt_guard_free(want);
        tt_guard_free(acc);
        tt_guard_free(shared);
    }
}

static void moe_add_agrees(void **state)
{
    tt_for_levels(2, moe_add_level);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(router_chooses),
        cmocka_unit_test(experts_are_their_parts),
        cmocka_unit_test(moe_add_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
