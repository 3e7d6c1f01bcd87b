#include "support/levels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

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

void tt_for_levels(unsigned threads, tt_level_fn fn)
{
    static const char *const known[] = {"avx2", "avx512"};
    static bool told;
    const char *level;
    unsigned n = 1;
    for (; (level = tt_cpu_level_at(n)) != NULL; n++) {
        tt_backend *be = tt_level_open(level, threads), *ref = tt_ref_open();
        fn(be, ref);
        tt_backend_close(&be);
        tt_backend_close(&ref);
    }
    for (; !told && n <= sizeof known / sizeof known[0]; n++)
        printf("not tested, this machine lacks it: level %s\n", known[n - 1]);
    told = true;
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
        m.words = w, m.scales = s, m.biases = b;
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
