#include "support/levels.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/quant.h"

const tt_backend_limits tt_test_limits = {
    .head_dim = 256,
    .delta = {.key_heads = 1, .value_heads = 1, .key_dim = 256, .value_dim = 256},
};

static tt_backend *open_backend(const char *name, const char *level, unsigned threads)
{
    tt_backend *be = NULL;
    tt_error err = {0};
    if (tt_backend_create(name, level, threads, &tt_test_limits, &be, &err) != TT_OK)
        fail_msg("%s", err.message);
    return be;
}

tt_backend *tt_level_open(const char *level, unsigned threads)
{
    return open_backend("cpu", level, threads);
}

tt_backend *tt_ref_open(void)
{
    return open_backend("ref", NULL, 1);
}

static bool is_here(const char *level)
{
    const char *here;
    for (unsigned n = 0; (here = tt_cpu_level_at(n)) != NULL; n++)
        if (strcmp(here, level) == 0)
            return true;
    return false;
}

void tt_for_levels(unsigned threads, tt_level_fn fn)
{
    static bool told;
    const char *level;
    for (unsigned n = 1; (level = tt_cpu_level_at(n)) != NULL; n++) {
        tt_backend *be = tt_level_open(level, threads), *ref = tt_ref_open();
        fn(be, ref);
        tt_backend_close(&be);
        tt_backend_close(&ref);
    }
    for (unsigned n = 0; !told && (level = tt_cpu_level_known(n)) != NULL; n++)
        if (!is_here(level))
            printf("not tested, this machine lacks it: level %s\n", level);
    told = true;
}

bool tt_level_dots(const tt_backend *be, const tt_mat *W)
{
    const tt_cpu_impl *im = be->impl;
    return im->k.dot != NULL && (W->dtype == TT_DTYPE_Q4 || W->dtype == TT_DTYPE_Q8);
}

void tt_dot_matmul(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W, uint32_t T,
                   uint32_t planes)
{
    int32_t *xq = malloc(tt_dot_words(W->cols, planes) * sizeof *xq);
    for (uint32_t t = 0; t < T; t++) {
        tt_ref_quantize(xq, x + t * ldx, W->cols, W->dtype, planes);
        for (uint32_t r = 0; r < W->rows; r++)
            y[t * ldy + r] = tt_ref_dot(xq, W, r, planes);
    }
    free(xq);
}

/* Rows turned into panels of their own; frees the rows. */
static void *into_panels(uint32_t unit, uint32_t rows, size_t per_row, void *from)
{
    void *to = malloc(tt_quant_stored_rows(rows) * per_row * unit);
    tt_quant_to_panels(unit, rows, per_row, from, to);
    free(from);
    return to;
}

tt_mat tt_mat_random(tt_rng *r, tt_dtype dtype, uint32_t rows, uint32_t cols, float scale)
{
    tt_mat m = {.dtype = dtype, .rows = rows, .cols = cols};
    size_t n = (size_t)rows * cols, groups = n / TT_GROUP;
    if (dtype == TT_DTYPE_Q4 || dtype == TT_DTYPE_Q8) {
        size_t words = n / (dtype == TT_DTYPE_Q4 ? 8 : 4);
        float levels = dtype == TT_DTYPE_Q4 ? 15 : 255;
        uint32_t *w = malloc(words * sizeof *w);
        uint16_t *s = malloc(groups * sizeof *s), *b = malloc(groups * sizeof *b);
        for (size_t i = 0; i < words; i++)
            w[i] = tt_rng_u32(r);
        for (size_t i = 0; i < groups; i++) { /* signed scales, as some writers have them */
            float step = tt_rng_uniform(r, .1f, 1) * scale * 2 / levels;
            bool flip = tt_rng_below(r, 4) == 0;
            s[i] = tt_f32_to_bf16(flip ? -step : step);
            b[i] = tt_f32_to_bf16((flip ? .5f : -.5f) * step * levels);
        }
        m.words = into_panels(4, rows, words / rows, w);
        m.scales = into_panels(2, rows, groups / rows, s);
        m.biases = into_panels(2, rows, groups / rows, b);
    } else if (dtype == TT_DTYPE_F32) {
        float *w = malloc(n * sizeof *w);
        tt_rng_fill(r, w, n, scale);
        m.words = w;
    } else {
        uint16_t *w = malloc(n * sizeof *w);
        for (size_t i = 0; i < n; i++) {
            float x = tt_rng_normal(r) * scale;
            w[i] = dtype == TT_DTYPE_BF16 ? tt_f32_to_bf16(x) : tt_f32_to_f16(x);
        }
        m.words = w;
    }
    return m;
}

void tt_mat_free(tt_mat *m)
{
    free((void *)(uintptr_t)m->words);
    free((void *)(uintptr_t)m->scales);
    free((void *)(uintptr_t)m->biases);
    *m = (tt_mat){0};
}

tt_mat tt_mat_magnitude(tt_backend *ref, const tt_mat *m)
{
    float *w = malloc((size_t)m->rows * m->cols * sizeof *w);
    for (uint32_t r = 0; r < m->rows; r++)
        ref->ops->embed(ref, w + (size_t)r * m->cols, m, &r, 1);
    for (size_t i = 0; i < (size_t)m->rows * m->cols; i++)
        w[i] = fabsf(w[i]);
    return (tt_mat){.dtype = TT_DTYPE_F32, .rows = m->rows, .cols = m->cols, .words = w};
}

bool tt_test_thinned(unsigned *n)
{
    const char *one_of = getenv("TT_TEST_THIN");
    int k = one_of != NULL ? atoi(one_of) : 0;
    return k > 1 && (*n)++ % (unsigned)k != 0;
}
