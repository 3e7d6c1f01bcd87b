/* Proves KV storage and attention at every level against the reference, for every KV width, and
 * that a row feels neither its neighbours nor keys after its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/levels.h"

typedef struct shape {
    uint32_t q_heads, heads, dim;
} shape;

static const shape shapes[] = {{1, 1, 64},  {4, 2, 64},  {8, 1, 128},
                               {6, 2, 256}, {3, 3, 128}, {20, 2, 64}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])
static const uint32_t widths[] = {32, 16, 8, 4};

/* Rows of exactly `rows` tokens, so that a tool that watches memory sees every overrun. */
static tt_kv_layer kv_new(uint32_t bits, const shape *z, size_t rows)
{
    tt_kv_layer kv = {.bits = bits, .heads = z->heads, .dim = z->dim};
    size_t bytes = rows * tt_kv_row_bytes(bits, z->heads, z->dim);
    size_t meta = rows * tt_kv_meta_bytes(bits, z->heads, z->dim);
    kv.k = malloc(bytes), kv.v = malloc(bytes);
    kv.k_meta = malloc(meta), kv.v_meta = malloc(meta);
    memset(kv.k, 0xff, bytes); /* NaN at every width: nobody may read it before it is written */
    memset(kv.v, 0xff, bytes);
    memset(kv.k_meta, 0xff, meta);
    memset(kv.v_meta, 0xff, meta);
    return kv;
}

static void kv_free(tt_kv_layer *kv)
{
    free(kv->k);
    free(kv->v);
    free(kv->k_meta);
    free(kv->v_meta);
}

static void same_kv(const tt_kv_layer *a, const tt_kv_layer *b, size_t rows)
{
    size_t bytes = rows * tt_kv_row_bytes(a->bits, a->heads, a->dim);
    size_t meta = rows * tt_kv_meta_bytes(a->bits, a->heads, a->dim);
    tt_assert_same_bytes("K", a->k, b->k, bytes);
    tt_assert_same_bytes("V", a->v, b->v, bytes);
    tt_assert_same_bytes("scales of K", a->k_meta, b->k_meta, meta);
    tt_assert_same_bytes("scales of V", a->v_meta, b->v_meta, meta);
}

/* ---- storage ---- */

/* Groups that are constant, tiny, huge, one-sided, with signed zeros; every level stores the bytes
 * of the reference. */
static void fill_groups(tt_rng *r, float *x, size_t n)
{
    for (size_t g = 0; g < n; g += 64) {
        static const float scales[] = {1, 1e-9f, 1e-5f, 1e6f, 3e38f, 40};
        float scale = scales[tt_rng_below(r, 6)], shift = tt_rng_uniform(r, -2, 2);
        uint32_t kind = tt_rng_below(r, 5);
        for (size_t i = g; i < g + 64 && i < n; i++) {
            float v = tt_rng_uniform(r, -1, 1);
            x[i] = kind == 0   ? scale * shift / 4
                   : kind == 1 ? (v < 0 ? -0.0f : 0.0f)
                   : kind == 2 ? scale * (fabsf(v) / 2 + .25f)
                               : scale * v;
        }
    }
}

static void store_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {1};
    enum { ROWS = 40 };
    for (size_t i = 0; i < N_SHAPES; i++)
        for (size_t w = 0; w < 4; w++) {
            size_t n = (size_t)shapes[i].heads * shapes[i].dim;
            float *k = malloc(ROWS * n * 4), *v = malloc(ROWS * n * 4);
            tt_kv_layer a = kv_new(widths[w], &shapes[i], ROWS);
            tt_kv_layer b = kv_new(widths[w], &shapes[i], ROWS);
            fill_groups(&r, k, ROWS * n);
            fill_groups(&r, v, ROWS * n);
            ref->ops->kv_append(ref, &a, k, v, 0, ROWS);
            be->ops->kv_append(be, &b, k, v, 0, 3);
            be->ops->kv_append(be, &b, k + 3 * n, v + 3 * n, 3, ROWS - 3);
            same_kv(&a, &b, ROWS);
            kv_free(&a);
            kv_free(&b);
            free(k);
            free(v);
        }
}

static void stores_the_bytes_of_the_reference(void **state)
{
    tt_for_levels(2, store_level);
}

/* A group read back is within half a step of what was stored; one with a NaN reads back as NaN. */
static void read_back(tt_backend *be)
{
    tt_rng r = {2};
    shape z = {1, 1, 64};
    for (size_t w = 0; w < 4; w++) {
        tt_kv_layer kv = kv_new(widths[w], &z, 2);
        float k[128], v[128], q[64] = {0}, o[128];
        tt_rng_fill(&r, k, 128, 1);
        tt_rng_fill(&r, v, 128, 1);
        v[64 + 5] = widths[w] <= 8 ? INFINITY : NAN;
        be->ops->kv_append(be, &kv, k, v, 0, 2);
        be->ops->attend(be, o, q, &kv, 1, 0, 1); /* one key: o is its V row */
        float lo = v[0], hi = v[0];
        for (int i = 0; i < 64; i++) {
            lo = fminf(lo, v[i]);
            hi = fmaxf(hi, v[i]);
        }
        /* half a step, and what rounding scale and bias to half adds over the whole range */
        float step = widths[w] == 32   ? 0
                     : widths[w] == 16 ? 0x1p-11f * 8
                                       : (hi - lo) / (widths[w] == 8 ? 255 : 15) / 2 +
                                             (hi - lo) * 0x1p-11f + fabsf(lo) * 0x1p-11f;
        for (int i = 0; i < 64; i++)
            assert_true(fabsf(o[i] - v[i]) <= step);
        be->ops->attend(be, o, q, &kv, 1, 1, 1);
        assert_true(isnan(o[5]));
        kv_free(&kv);
    }
}

static void rows_read_back(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++) {
        tt_backend *be = tt_level_open(level, 1);
        read_back(be);
        tt_backend_close(&be);
    }
}

/* ---- attention ---- */

typedef struct scene {
    tt_kv_layer kv;
    shape z;
    uint32_t pos0, T;
    float *q;
    size_t n; /* values of o */
} scene;

static scene make_scene(tt_rng *r, tt_backend *ref, shape z, uint32_t bits, uint32_t pos0,
                        uint32_t T, float sharp)
{
    scene s = {.z = z, .pos0 = pos0, .T = T, .n = (size_t)T * z.q_heads * z.dim};
    size_t row = (size_t)z.heads * z.dim, rows = pos0 + T;
    float *k = malloc(rows * row * 4), *v = malloc(rows * row * 4);
    s.kv = kv_new(bits, &z, rows);
    s.q = malloc(s.n * 4);
    tt_rng_fill(r, k, rows * row, 1);
    tt_rng_fill(r, v, rows * row, 1);
    tt_rng_fill(r, s.q, s.n, sharp);
    ref->ops->kv_append(ref, &s.kv, k, v, 0, (uint32_t)rows);
    free(k);
    free(v);
    return s;
}

static void free_scene(scene *s)
{
    kv_free(&s->kv);
    free(s->q);
}

static void attend(tt_backend *be, const scene *s, float *o)
{
    be->ops->attend(be, o, s->q, &s->kv, s->z.q_heads, s->pos0, s->T);
}

/* Scores are sums over at most 256 products; with sharp queries they reach some hundreds, and an
 * error of a score, 1e-7 of that, is a relative error of its weight. Values are of order four.
 * Levels that stay in whole numbers over rows of codes round a query to 1 / 65024 of its largest
 * value and the weights of a block likewise; in a prompt to 1 / 254, which is 0.018 of a value for
 * the 64 keys of a block where one of them weighs most. */
static double allowance(tt_backend *be, uint32_t bits, float sharp)
{
    const tt_cpu_impl *im = be->impl;
    if (im->k.attend_codes == NULL || bits > 8)
        return sharp > 1 ? 1e-4 : 4e-6;
    return sharp * (be->prompt ? 0.1 : 3e-4);
}

static void attend_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {3};
    static const uint32_t Ts[] = {1, 2, 5, 16, 17, 63, 64, 65};
    static const uint32_t starts[] = {0, 1, 62, 63, 64, 127, 200};
    unsigned n = 0;
    for (size_t i = 0; i < N_SHAPES; i++)
        for (size_t k = 0; k < 4 * 7; k++) {
            if (tt_test_thinned(&n))
                continue;
            uint32_t T = Ts[(k * 3 + i) % 8], pos0 = starts[k % 7];
            be->prompt = k / 4 % 2 != 0;
            float sharp = k % 3 == 2 ? 20 : 1;
            scene s = make_scene(&r, ref, shapes[i], widths[k % 4], pos0, T, sharp);
            float *got = tt_guard_new(s.n), *want = tt_guard_new(s.n);
            attend(ref, &s, want);
            attend(be, &s, got);
            char what[96];
            snprintf(what, sizeof what, "%s, %u bits, %u/%u heads of %u, rows %u + %u", be->level,
                     s.kv.bits, s.z.q_heads, s.z.heads, s.z.dim, pos0, T);
            tt_assert_close(what, got, want, NULL, s.n, allowance(be, s.kv.bits, sharp), 0);
            tt_guard_free(got);
            tt_guard_free(want);
            free_scene(&s);
        }
}

static void attention_agrees(void **state)
{
    tt_for_levels(2, attend_level);
}

/* Rows of a context of several segments, of which some see one more than others, at numbers of
 * threads that hand out segments and at one that hands out rows. */
static void segments_level(tt_backend *be, tt_backend *ref)
{
    static const struct {
        uint32_t pos0, T;
    } cuts[] = {{3 * TT_ATTEND_KEYS - 1, 1},
                {3 * TT_ATTEND_KEYS, 1},
                {2 * TT_ATTEND_KEYS - 4, 11},
                {TT_ATTEND_KEYS - 40, 71}};
    tt_rng r = {6};
    tt_backend *other = tt_level_open(be->level, 1), *many = tt_level_open(be->level, 7);
    unsigned n = 0;
    for (size_t k = 0; k < 4 * 4; k++) {
        if (k % 5 != 4 && tt_test_thinned(&n)) /* prompts are few and stay */
            continue;
        shape z = shapes[1 + k % 3];
        uint32_t pos0 = cuts[k / 4].pos0, T = cuts[k / 4].T;
        be->prompt = other->prompt = many->prompt = k % 5 == 4;
        scene s = make_scene(&r, ref, z, widths[k % 4], pos0, T, 1);
        size_t row = (size_t)z.q_heads * z.dim;
        float *got = tt_guard_new(s.n), *want = tt_guard_new(s.n);
        attend(ref, &s, want);
        attend(be, &s, got);
        tt_assert_close("segments", got, want, NULL, s.n, allowance(be, s.kv.bits, 1), 0);
        attend(other, &s, want);
        tt_assert_same_bytes("one thread", want, got, s.n * 4);
        attend(many, &s, want);
        tt_assert_same_bytes("seven threads", want, got, s.n * 4);
        for (uint32_t t = 0; t < T; t += 7) {
            be->ops->attend(be, want, s.q + t * row, &s.kv, z.q_heads, pos0 + t, 1);
            tt_assert_same_bytes("row alone", want, got + t * row, row * 4);
        }
        tt_guard_free(got);
        tt_guard_free(want);
        free_scene(&s);
    }
    tt_backend_close(&other);
    tt_backend_close(&many);
}

static void a_long_context_is_cut_into_segments(void **state)
{
    tt_for_levels(2, segments_level);
}

/* A context of more segments than there is room for records: they come in waves. */
static void waves_level(tt_backend *be, tt_backend *ref)
{
    enum { SEGMENTS = 9, T = 16 };
    const shape z = {64, 1, 64}; /* 320 KiB of records a segment */
    tt_rng r = {7};
    scene s = make_scene(&r, ref, z, 8, SEGMENTS * TT_ATTEND_KEYS - T, T, 1);
    tt_backend *many = tt_level_open(be->level, 5);
    size_t row = (size_t)z.q_heads * z.dim;
    float *got = tt_guard_new(s.n), *one = tt_guard_new(row);
    attend(many, &s, got);
    for (uint32_t t = 0; t < T; t += 5) {
        be->ops->attend(be, one, s.q + t * row, &s.kv, z.q_heads, s.pos0 + t, 1);
        tt_assert_same_bytes("waves", one, got + t * row, row * 4);
    }
    tt_backend_close(&many);
    tt_guard_free(got);
    tt_guard_free(one);
    free_scene(&s);
}

static void segments_come_in_waves(void **state)
{
    tt_for_levels(1, waves_level);
}

/* Each row alone, at every number of threads, and with NaN in all keys after its own. */
static void rows_level(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {4};
    tt_backend *pools[3];
    for (unsigned i = 0; i < 3; i++)
        pools[i] = tt_level_open(be->level, i + 2);
    for (size_t i = 0; i < N_SHAPES; i++)
        for (size_t w = 0; w < 4; w++) {
            uint32_t T = 71, pos0 = i % 2 == 0 ? 0 : 40;
            be->prompt = i % 3 == 0;
            for (unsigned p = 0; p < 3; p++)
                pools[p]->prompt = be->prompt;
            scene s = make_scene(&r, ref, shapes[i], widths[w], pos0, T, 1);
            size_t row = (size_t)s.z.q_heads * s.z.dim, kv_row = (size_t)s.z.heads * s.z.dim;
            float *whole = malloc(s.n * 4), *other = malloc(s.n * 4);
            attend(be, &s, whole);
            for (unsigned p = 0; p < 3; p++) {
                attend(pools[p], &s, other);
                tt_assert_same_bytes("threads", other, whole, s.n * 4);
            }
            float *bad = malloc(kv_row * 4);
            for (size_t j = 0; j < kv_row; j++)
                bad[j] = NAN;
            for (uint32_t t = T; t-- > 0;) {
                be->ops->attend(be, other, s.q + t * row, &s.kv, s.z.q_heads, pos0 + t, 1);
                tt_assert_same_bytes("row alone", other, whole + t * row, row * 4);
                be->ops->kv_append(be, &s.kv, bad, bad, pos0 + t, 1);
            }
            free(bad);
            free(whole);
            free(other);
            free_scene(&s);
        }
    for (unsigned i = 0; i < 3; i++)
        tt_backend_close(&pools[i]);
}

static void a_row_does_not_feel_the_others(void **state)
{
    tt_for_levels(1, rows_level);
}

static void later_nan(tt_backend *be, tt_backend *ref)
{
    tt_rng r = {5};
    for (size_t w = 0; w < 4; w++) {
        be->prompt = w == 2;
        scene s = make_scene(&r, ref, shapes[1], widths[w], 60, 12, 1);
        float *clean = malloc(s.n * 4), *dirty = malloc(s.n * 4), bad[128];
        size_t row = (size_t)s.z.q_heads * s.z.dim;
        attend(be, &s, clean);
        for (int i = 0; i < 128; i++)
            bad[i] = NAN;
        be->ops->kv_append(be, &s.kv, bad, bad, 60 + 7, 1);
        attend(be, &s, dirty);
        tt_assert_same_bytes("rows before", dirty, clean, 7 * row * 4);
        for (size_t i = 7 * row; i < s.n; i++)
            assert_true(isnan(dirty[i]));
        free(clean);
        free(dirty);
        free_scene(&s);
    }
}

static void nan_reaches_only_rows_that_see_it(void **state)
{
    tt_for_levels(1, later_nan);
}

/* Equal scores make the mean of the values; a huge score takes all. */
static void known_answers(tt_backend *be)
{
    shape z = {1, 1, 64};
    enum { N = 100 };
    tt_kv_layer kv = kv_new(32, &z, N);
    static float k[N * 64], v[N * 64];
    float q[64] = {0}, o[64];
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 64; i++) {
            k[j * 64 + i] = j == 70 ? 1 : 0;
            v[j * 64 + i] = (float)j;
        }
    be->ops->kv_append(be, &kv, k, v, 0, N);
    be->ops->attend(be, o, q, &kv, 1, N - 1, 1);
    for (int i = 0; i < 64; i++)
        assert_true(fabsf(o[i] - 49.5f) < 1e-4f);
    for (int i = 0; i < 64; i++)
        q[i] = 1e6f;
    be->ops->attend(be, o, q, &kv, 1, N - 1, 1);
    for (int i = 0; i < 64; i++)
        assert_true(o[i] == 70);
    kv_free(&kv);
}

static void answers_known_beforehand(void **state)
{
    const char *level;
    for (unsigned i = 0; (level = tt_cpu_level_at(i)) != NULL; i++) {
        tt_backend *be = tt_level_open(level, 1);
        known_answers(be);
        tt_backend_close(&be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_the_bytes_of_the_reference),
        cmocka_unit_test(rows_read_back),
        cmocka_unit_test(attention_agrees),
        cmocka_unit_test(a_long_context_is_cut_into_segments),
        cmocka_unit_test(segments_come_in_waves),
        cmocka_unit_test(a_row_does_not_feel_the_others),
        cmocka_unit_test(nan_reaches_only_rows_that_see_it),
        cmocka_unit_test(answers_known_beforehand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
