/* Proves weights times activations at every level against the reference, products in whole numbers
 * against their definition to the byte, and that a row's bytes do not depend on the rows, threads
 * and ranges it is computed with; and that noted maxima are those of the rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "support/levels.h"

static const tt_dtype types[] = {TT_DTYPE_Q4, TT_DTYPE_Q8, TT_DTYPE_BF16, TT_DTYPE_F16,
                                 TT_DTYPE_F32};
#define N_TYPES (sizeof types / sizeof types[0])

typedef struct shape {
    uint32_t rows, cols, T;
} shape;

static const shape shapes[] = {{1, 64, 1},     {7, 64, 2},     {8, 128, 3},   {9, 192, 4},
                               {17, 320, 5},   {33, 256, 7},   {16, 1024, 6}, {5, 1088, 16},
                               {12, 2048, 17}, {3, 4160, 9},   {24, 576, 63}, {10, 640, 64},
                               {8, 448, 65},   {19, 128, 130}, {64, 64, 49}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* A chain of cols / lanes fused steps and at most five levels of sums; each step rounds once, and
 * decoding rounds once more: relative to the sum of magnitudes. Eight lanes is the narrowest
 * level. */
static double allowance(uint32_t cols)
{
    return (cols / 8.0 + 8) * EPS32;
}

static uint32_t planes_of(const tt_backend *be)
{
    return be->prompt ? 1 : 2;
}

/* The numbers that stand for x are off by half a step at most, so a group of 64 weights errs by
 * less than that times the sum of their magnitudes; and by what f32 rounds, of terms as large as
 * the largest x of the group. */
static void check_near(const char *what, const float *got, const float *want, const float *x,
                       size_t ldx, const tt_mat *absW, size_t ldy, uint32_t T, uint32_t planes)
{
    double levels = planes == 1 ? 127 : 127 * 256;
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t r = 0; r < absW->rows; r++) {
            const float *w = (const float *)absW->words + (size_t)r * absW->cols;
            double allowed = 1e-30;
            for (uint32_t g = 0; g < absW->cols; g += TT_GROUP) {
                double most = 0, sum = 0, dot = 0;
                for (uint32_t i = g; i < g + TT_GROUP; i++) {
                    most = fmax(most, fabs((double)x[t * ldx + i]));
                    sum += w[i];
                    dot += w[i] * fabs((double)x[t * ldx + i]);
                }
                allowed += most / levels * 0.5001 * sum + 64 * EPS32 * (dot + most * sum);
            }
            double error = fabs((double)got[t * ldy + r] - (double)want[t * ldy + r]);
            if (!(error <= allowed))
                fail_msg("%s: row %u of x, row %u: %g, the reference has %g, %g is allowed", what,
                         t, r, got[t * ldy + r], want[t * ldy + r], allowed);
        }
}

static void check_matmul(tt_backend *be, tt_backend *ref, const tt_mat *W, const float *x,
                         size_t ldx, uint32_t T)
{
    size_t ldy = W->rows + 3, n = (T - 1) * ldy + W->rows;
    float *got = tt_guard_new(n), *want = tt_guard_new(n), *mag = tt_guard_new(n);
    float *absx = tt_guard_new(T * ldx);
    for (size_t i = 0; i < (size_t)T * ldx; i++)
        absx[i] = fabsf(x[i]);
    tt_mat absW = tt_mat_magnitude(ref, W);
    ref->ops->matmul(ref, want, ldy, x, ldx, W, T);
    ref->ops->matmul(ref, mag, ldy, absx, ldx, &absW, T);
    be->ops->matmul(be, got, ldy, x, ldx, W, T);
    char what[96];
    snprintf(what, sizeof what, "%s %s [%u, %u] x %u%s", be->level, tt_dtype_name(W->dtype),
             W->rows, W->cols, T, be->prompt ? ", prompt" : "");
    if (tt_level_dots(be, W)) {
        check_near(what, got, want, x, ldx, &absW, ldy, T, planes_of(be));
        memcpy(want, got, n * sizeof *want); /* what lies between the rows */
        tt_dot_matmul(want, ldy, x, ldx, W, T, planes_of(be));
        tt_assert_same_bytes(what, got, want, n * sizeof *want);
    } else {
        tt_assert_close(what, got, want, mag, n, 1e-30, allowance(W->cols));
    }
    tt_mat_free(&absW);
    tt_guard_free(absx);
    tt_guard_free(mag);
    tt_guard_free(want);
    tt_guard_free(got);
}

static void agrees(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {1};
    unsigned n = 0;
    for (size_t k = 0; k < N_TYPES; k++)
        for (size_t s = 0; s < N_SHAPES; s++)
            for (int wild = 0; wild < 2; wild++) {
                if (tt_test_thinned(&n))
                    continue;
                shape z = shapes[s];
                if (types[k] != TT_DTYPE_Q4 && types[k] != TT_DTYPE_Q8)
                    z.cols += (uint32_t)(s % 3) * 16 + (uint32_t)(s % 5); /* 96 and odd sizes */
                tt_mat W = tt_mat_random(&r, types[k], z.rows, z.cols, 0.05f);
                size_t ldx = z.cols + 5;
                float *x = malloc(z.T * ldx * sizeof *x);
                if (wild)
                    tt_rng_fill_wild(&r, x, z.T * ldx);
                else
                    tt_rng_fill(&r, x, z.T * ldx, 1);
                for (int prompt = 0; prompt < 2; prompt++) {
                    be->prompt = prompt;
                    check_matmul(be, ref, &W, x, ldx, z.T);
                }
                free(x);
                tt_mat_free(&W);
            }
}

static void agrees_with_the_reference(void **state)
{
    tt_for_levels(1, agrees);
}

/* Every T from 1 to 70 and every row of it, one thread and several, against T = 1. */
static void rows_alone(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {2};
    tt_backend *pools[3];
    for (unsigned i = 0; i < 3; i++)
        pools[i] = tt_level_open(be->level, i + 2);
    for (size_t n = 0; n < 2 * N_TYPES; n++) {
        size_t k = n / 2;
        uint32_t cols = tt_rng_below(&r, 2) != 0 ? 1216 : 192, rows = 77, most = 70;
        if (types[k] == TT_DTYPE_BF16)
            cols = 96 + 7;
        be->prompt = n % 2 != 0;
        for (unsigned i = 0; i < 3; i++)
            pools[i]->prompt = be->prompt;
        tt_mat W = tt_mat_random(&r, types[k], rows, cols, 0.05f);
        float *x = malloc((size_t)most * cols * sizeof *x);
        float *one = malloc((size_t)most * rows * sizeof *one);
        float *many = malloc((size_t)most * rows * sizeof *many);
        tt_rng_fill(&r, x, (size_t)most * cols, 1);
        for (uint32_t t = 0; t < most; t++)
            be->ops->matmul(be, one + (size_t)t * rows, rows, x + (size_t)t * cols, cols, &W, 1);
        for (uint32_t T = 1; T <= most; T += T < 18 ? 1 : 13) {
            for (unsigned i = 0; i <= 3; i++) {
                tt_backend *with = i == 0 ? be : pools[i - 1];
                memset(many, 0xff, (size_t)T * rows * sizeof *many);
                with->ops->matmul(with, many, rows, x, cols, &W, T);
                tt_assert_same_bytes("T and threads", many, one, (size_t)T * rows * sizeof *many);
            }
        }
        free(many);
        free(one);
        free(x);
        tt_mat_free(&W);
    }
    for (unsigned i = 0; i < 3; i++)
        tt_backend_close(&pools[i]);
}

static void a_row_does_not_feel_the_others(void **state)
{
    tt_for_levels(1, rows_alone);
}

/* The product of whole numbers in two ranges, cut wherever a cut may be. */
static void dot_ranges(const tt_kernels *k, const tt_mat *W, const tt_mat *U, const float *x,
                       uint32_t cols, uint32_t T, void *scratch)
{
    size_t rows = W->rows, n = T * rows;
    int32_t *xq = malloc(T * tt_dot_words(cols, 2) * sizeof *xq);
    float *whole = malloc(n * sizeof *whole), *cut = malloc(n * sizeof *cut);
    for (uint32_t i = 0; i < 4; i++) {
        const tt_mat *up = i % 2 != 0 ? U : NULL;
        uint32_t planes = i / 2 + 1;
        for (uint32_t t = 0, tile = k->dot_rows[planes - 1]; t < T; t += tile) {
            const float *row[TT_DOT_MOST];
            uint32_t m = T - t < tile ? T - t : tile;
            for (uint32_t j = 0; j < m; j++)
                row[j] = x + (t + j) * cols;
            k->quantize(xq + t * tt_dot_words(cols, planes), row, m, 0, cols / TT_GROUP, W->dtype,
                        planes);
        }
        k->dot(whole, rows, xq, W, up, 0, W->rows, T, planes, scratch);
        for (uint32_t a = 0; a <= W->rows; a += k->dot_grain) {
            memset(cut, 0xff, n * sizeof *cut);
            k->dot(cut, rows, xq, W, up, 0, a, T, planes, scratch);
            k->dot(cut, rows, xq, W, up, a, W->rows, T, planes, scratch);
            tt_assert_same_bytes("dot in two ranges", cut, whole, n * sizeof *cut);
        }
    }
    free(cut);
    free(whole);
    free(xq);
}

/* Any range of rows (of panels, where rows stand in them), straight from the leaf, also of the
 * reference. */
static void ranges_of(const char *level)
{
    tt_rng r = {3};
    tt_kernels k;
    assert_int_equal(tt_cpu_kernels(level, &k, NULL), TT_OK);
    size_t bytes = tt_scratch_bytes(&tt_test_limits);
    void *scratch = malloc(bytes);
    enum { ROWS = 101, COLS = 192, MOST = 5 };
    for (size_t n = 0; n < N_TYPES; n++)
        for (uint32_t T = 1; T <= MOST; T += T == 1 ? 2 : 1) {
            bool affine = types[n] == TT_DTYPE_Q4 || types[n] == TT_DTYPE_Q8;
            uint32_t cols = affine ? COLS : COLS - 5;
            tt_mat W = tt_mat_random(&r, types[n], ROWS, cols, 0.1f);
            tt_mat U = tt_mat_random(&r, types[n], ROWS, cols, 0.1f);
            memset(scratch, 0xff, bytes); /* NaN: what lies there from before must not matter */
            float x[MOST * COLS], whole[MOST * ROWS], cut[MOST * ROWS], glu[MOST * ROWS];
            tt_rng_fill(&r, x, MOST * COLS, 1);
            k.matmul(whole, ROWS, x, COLS, &W, 0, ROWS, T, scratch);
            k.swiglu(glu, ROWS, x, COLS, &W, &U, 0, ROWS, T, scratch);
            for (uint32_t i = 0; i < T * ROWS; i++)
                assert_true(isfinite(whole[i]) && isfinite(glu[i]));
            if (affine && k.dot != NULL)
                dot_ranges(&k, &W, &U, x, COLS, T, scratch);
            for (uint32_t a = 0; a <= ROWS; a += affine ? TT_ROW_GRAIN : 5) {
                k.matmul(cut, ROWS, x, COLS, &W, 0, a, T, scratch);
                k.matmul(cut, ROWS, x, COLS, &W, a, ROWS, T, scratch);
                tt_assert_same_bytes("matmul in two ranges", cut, whole, T * ROWS * sizeof *cut);
                k.swiglu(cut, ROWS, x, COLS, &W, &U, 0, a, T, scratch);
                k.swiglu(cut, ROWS, x, COLS, &W, &U, a, ROWS, T, scratch);
                tt_assert_same_bytes("swiglu in two ranges", cut, glu, T * ROWS * sizeof *cut);
            }
            tt_mat_free(&W);
            tt_mat_free(&U);
        }
    free(scratch);
}

static void ranges_do_not_matter(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++)
        ranges_of(level);
}

static void dot_swiglu(float *y, const float *x, const tt_mat *g, const tt_mat *u, uint32_t T,
                       uint32_t planes)
{
    size_t n = (size_t)T * g->rows;
    float *up = malloc(n * sizeof *up);
    tt_dot_matmul(y, g->rows, x, g->cols, g, T, planes);
    tt_dot_matmul(up, g->rows, x, g->cols, u, T, planes);
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(y[i] / (1 + exp(-(double)y[i])) * up[i]);
    free(up);
}

static void swiglu_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {4};
    static const uint32_t rows[] = {1, 8, 64, 100, 770}, Ts[] = {1, 2, 9, 49, 64};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < N_TYPES; k++) {
            uint32_t F = rows[i], T = Ts[(i + k) % 5], H = 256;
            tt_mat g = tt_mat_random(&r, types[k], F, H, 0.1f);
            tt_mat u = tt_mat_random(&r, types[k], F, H, 0.1f);
            be->prompt = k == i % 2;
            float *x = tt_guard_new((size_t)T * H), *got = tt_guard_new((size_t)T * F);
            float *want = tt_guard_new((size_t)T * F);
            tt_rng_fill(&r, x, (size_t)T * H, i == 0 ? 200 : 1);
            if (tt_level_dots(be, &g))
                dot_swiglu(want, x, &g, &u, T, planes_of(be));
            else
                ref->ops->swiglu(ref, want, x, &g, &u, T);
            be->ops->swiglu(be, got, x, &g, &u, T);
            /* Sums of 256 terms of about 0.1 round to a few 1e-7 of their scale, silu adds two
             * units, and the product carries both errors times the other factor. */
            float scale = i == 0 ? 4e5f : 10;
            tt_assert_close("swiglu", got, want, NULL, (size_t)T * F, 2e-6 * scale, 1e-5);
            tt_guard_free(want);
            tt_guard_free(got);
            tt_guard_free(x);
            tt_mat_free(&g);
            tt_mat_free(&u);
        }
}

/* Products of one x in one pass give the bytes of one after the other; types and sizes mixed, some
 * too long for the activations to fit at once. */
static void many_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {8};
    static const tt_dtype kinds[] = {TT_DTYPE_Q4, TT_DTYPE_BF16, TT_DTYPE_Q8, TT_DTYPE_Q4,
                                     TT_DTYPE_F32};
    static const uint32_t rows[] = {70, 1, 33, 256, 5}, Ts[] = {1, 2, 5, 13, 64, 3000};
    enum { N = 5, COLS = 576 };
    for (size_t i = 0; i < sizeof Ts / sizeof Ts[0]; i++) {
        uint32_t T = Ts[i];
        size_t ldx = COLS + 3;
        be->prompt = T >= 13;
        tt_mat W[N];
        tt_product p[N];
        float *x = malloc(T * ldx * sizeof *x);
        tt_rng_fill(&r, x, T * ldx, 1);
        for (int k = 0; k < N; k++) {
            W[k] = tt_mat_random(&r, kinds[k], T > 100 ? 1 + (uint32_t)k : rows[k], COLS, 0.1f);
            p[k] = (tt_product){tt_guard_new((size_t)T * W[k].rows), &W[k]};
        }
        be->ops->matmul_many(be, p, N, x, ldx, T);
        for (int k = 0; k < N; k++) {
            size_t n = (size_t)T * W[k].rows;
            float *one = tt_guard_new(n);
            be->ops->matmul(be, one, W[k].rows, x, ldx, &W[k], T);
            tt_assert_same_bytes("many", p[k].y, one, n * sizeof *one);
            tt_guard_free(one);
            tt_guard_free(p[k].y);
            tt_mat_free(&W[k]);
        }
        free(x);
    }
}

static void many_are_one_by_one(void **state)
{
    tt_for_levels(2, many_level);
}

static void swiglu_agrees(void **state)
{
    tt_for_levels(2, swiglu_level);
}

/* The product is that of matmul to the byte, the maxima are those of its rows, with any number of
 * threads. top NULL asks for none. */
static void check_max(tt_backend *const *be, const tt_mat *W, const float *x, uint32_t T)
{
    size_t n = (size_t)T * W->rows, blocks = tt_block_count(W->rows);
    float *want = malloc(n * sizeof *want), *want_top = malloc(T * blocks * sizeof *want_top);
    be[0]->ops->matmul(be[0], want, W->rows, x, W->cols, W, T);
    for (uint32_t t = 0; t < T; t++)
        tt_block_max(want_top + t * blocks, want + (size_t)t * W->rows, W->rows);
    for (unsigned i = 0; i < 3; i++)
        for (int noted = 0; noted < 2; noted++) {
            float *y = tt_guard_new(n), *top = tt_guard_new(T * blocks);
            be[i]->ops->matmul_max(be[i], y, noted ? top : NULL, x, W->cols, W, T);
            tt_assert_same_bytes("matmul_max", y, want, n * sizeof *y);
            if (noted)
                tt_assert_close("maxima", top, want_top, NULL, T * blocks, 0, 0);
            tt_guard_free(y);
            tt_guard_free(top);
        }
    free(want);
    free(want_top);
}

static void max_level(tt_backend *be, tt_backend *ref)
{
    enum { COLS = 128, MOST = 70 };
    static const uint32_t rows[] = {1, 31, 127, 128, 129, 300, 1024, 1153, 2500},
                          Ts[] = {1, 2, 16, 70};
    tt_rng r = {9};
    tt_backend *pools[3] = {be, tt_level_open(be->level, 2), tt_level_open(be->level, 3)};
    float *x = malloc((size_t)MOST * COLS * sizeof *x);
    tt_rng_fill(&r, x, (size_t)MOST * COLS, 1);
    x[COLS + 3] = NAN; /* the second row of x */
    x[2 * COLS + 3] = INFINITY;
    unsigned n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < N_TYPES; k++) {
            tt_mat W = tt_mat_random(&r, types[k], rows[i], COLS, 0.05f);
            for (size_t j = 0; j < 4; j++) {
                if (tt_test_thinned(&n))
                    continue;
                for (unsigned p = 0; p < 3; p++)
                    pools[p]->prompt = Ts[j] > 16;
                check_max(pools, &W, x, Ts[j]);
            }
            tt_mat_free(&W);
        }
    free(x);
    tt_backend_close(&pools[1]);
    tt_backend_close(&pools[2]);
}

static void maxima_are_those_of_the_rows(void **state)
{
    tt_for_levels(1, max_level);
}

/* The leaf of every level, the reference too, with everything that a float can be at every place.
 */
static void largest_agrees(void **state)
{
    static const float special[] = {NAN, -NAN, INFINITY, 3e38f, 9, -0.0f, -3e38f, -INFINITY};
    tt_kernels k;
    tt_rng r = {10};
    const char *level;
    for (unsigned l = 0; (level = tt_cpu_level_at(l)) != NULL; l++) {
        assert_int_equal(tt_cpu_kernels(level, &k, NULL), TT_OK);
        for (uint32_t n = 0; n <= TT_BLOCK_MAX; n += n < 40 ? 1 : 11) {
            float *x = tt_guard_new(n + 1); /* one past the end: NaN that must not be seen */
            for (uint32_t at = 0; at < n; at++)
                for (unsigned s = 0; s < 8; s++) {
                    for (uint32_t i = 0; i < n; i++)
                        x[i] = s < 5 ? tt_rng_normal(&r) : -INFINITY;
                    x[at] = special[s];
                    float got = k.largest(x, n), want = tt_largest(x, n);
                    if (!(got == want || (isnan(got) && isnan(want))))
                        fail_msg("%s: largest of %u is %g, should be %g", level, n, got, want);
                }
            assert_true(n > 0 || k.largest(x, 0) == -INFINITY);
            tt_guard_free(x);
        }
    }
}

static void embed_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {5};
    for (size_t k = 0; k < N_TYPES; k++) {
        uint32_t cols = k < 2 ? 320 : 99, ids[5] = {4, 0, 6, 6, 2};
        tt_mat W = tt_mat_random(&r, types[k], 7, cols, 1);
        float *got = tt_guard_new(5 * (size_t)cols), *want = tt_guard_new(5 * (size_t)cols);
        ref->ops->embed(ref, want, &W, ids, 5);
        be->ops->embed(be, got, &W, ids, 5);
        /* scale * code + bias rounds once or twice; the terms are of order 2 */
        tt_assert_close("embed", got, want, NULL, 5 * (size_t)cols, k < 2 ? 4 * EPS32 : 0, 0);
        tt_guard_free(want);
        tt_guard_free(got);
        tt_mat_free(&W);
    }
}

static void embed_agrees(void **state)
{
    tt_for_levels(2, embed_level);
}

static void add_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {6};
    for (size_t n = 1; n < 200000; n = n * 3 + 1) {
        float *x = tt_guard_new(n), *y = tt_guard_new(n), *z = tt_guard_new(n);
        tt_rng_fill_wild(&r, x, n);
        tt_rng_fill_wild(&r, y, n);
        memcpy(z, y, n * sizeof *z);
        be->ops->add(be, y, x, n);
        ref->ops->add(ref, z, x, n);
        tt_assert_same_bytes("add", y, z, n * sizeof *y);
        tt_guard_free(x);
        tt_guard_free(y);
        tt_guard_free(z);
    }
}

static void add_agrees(void **state)
{
    tt_for_levels(2, add_level);
}

static void faults_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {7};
    enum { ROWS = 20, COLS = 128, T = 9 };
    for (size_t k = 0; k < N_TYPES; k++) {
        tt_mat W = tt_mat_random(&r, types[k], ROWS, COLS, 1);
        float x[T * COLS], got[T * ROWS];
        tt_rng_fill(&r, x, T * COLS, 1);
        x[3 * COLS + 100] = NAN;
        be->ops->matmul(be, got, ROWS, x, COLS, &W, T);
        for (uint32_t t = 0; t < T; t++)
            for (uint32_t i = 0; i < ROWS; i++)
                assert_int_equal(isnan(got[t * ROWS + i]) != 0, t == 3);
        tt_mat_free(&W);
    }
}

static void nan_stays_in_its_row(void **state)
{
    tt_for_levels(1, faults_level);
}

/* The products of whole numbers have the same bytes on every kind of machine: what one of them once
 * gave. */
static void known_bytes(void **state)
{
    enum { ROWS = 19, COLS = 448, T = 3 };
    static const uint32_t known[] = {0x77105f31, 0x54ab4545, 0xd8332fc3, 0x8c7cc6c9};
    tt_rng r = {11};
    float x[T * COLS], y[T * ROWS];
    for (uint32_t i = 0; i < 4; i++) {
        tt_mat W = tt_mat_random(&r, i < 2 ? TT_DTYPE_Q4 : TT_DTYPE_Q8, ROWS, COLS, 0.05f);
        tt_rng_fill(&r, x, T * COLS, 1);
        tt_dot_matmul(y, ROWS, x, COLS, &W, T, 1 + i % 2);
        uint32_t crc = tt_crc32c(0, y, sizeof y);
        if (crc != known[i])
            fail_msg("set %u: %08x, was %08x", i, crc, known[i]);
        tt_mat_free(&W);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_reference),
        cmocka_unit_test(a_row_does_not_feel_the_others),
        cmocka_unit_test(ranges_do_not_matter),
        cmocka_unit_test(many_are_one_by_one),
        cmocka_unit_test(swiglu_agrees),
        cmocka_unit_test(maxima_are_those_of_the_rows),
        cmocka_unit_test(largest_agrees),
        cmocka_unit_test(embed_agrees),
        cmocka_unit_test(add_agrees),
        cmocka_unit_test(nan_stays_in_its_row),
        cmocka_unit_test(known_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
