#include "format/quant.h"

#include <math.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* One encoder of one group; returns false when it cannot be represented. */
typedef bool (*group_fn)(uint32_t bits, const float *w, uint32_t words[TT_GROUP / 4],
                         uint16_t *scale, uint16_t *bias);

/* ---- scale and bias of a group: the same statements for every instruction set ---- */

/* From the extremes of a group whose values are all finite. *flat: every code is 0. False when
 * scale or bias leave the finite numbers (a range beyond FLT_MAX, a minimum that rounds to -Inf).
 */
static inline bool group_params(uint32_t bits, float min, float max, uint16_t *scale,
                                uint16_t *bias, bool *flat)
{
    /* Adding 0 turns -0 into +0, so that the order in which equal zeros were met leaves no trace.
     */
    *bias = tt_f32_to_bf16(min + 0.0f);
    *scale = tt_f32_to_bf16((max - min) / (float)((1u << bits) - 1));
    *flat = *scale == 0; /* max = min, or too close for bf16 */
    if (*flat)
        *scale = 0x3f80; /* 1.0 */
    return isfinite(tt_bf16_to_f32(*scale)) && isfinite(tt_bf16_to_f32(*bias));
}

static bool encode_group_scalar(uint32_t bits, const float *w, uint32_t words[TT_GROUP / 4],
                                uint16_t *scale, uint16_t *bias)
{
    float min = w[0], max = w[0];
    for (uint32_t j = 0; j < TT_GROUP; j++) {
        if (!isfinite(w[j]))
            return false;
        min = w[j] < min ? w[j] : min;
        max = w[j] > max ? w[j] : max;
    }
    bool flat;
    if (!group_params(bits, min, max, scale, bias, &flat))
        return false;
    memset(words, 0, TT_GROUP * bits / 8);
    if (flat)
        return true;
    const float s = tt_bf16_to_f32(*scale), b = tt_bf16_to_f32(*bias);
    const float top = (float)((1u << bits) - 1);
    for (uint32_t j = 0; j < TT_GROUP; j++) {
        float q = rintf((w[j] - b) / s);
        q = q < 0.0f ? 0.0f : q > top ? top : q;
        words[j * bits / 32] |= (uint32_t)q << (j * bits % 32);
    }
    return true;
}

/* ---- AVX2: the same numbers, eight at a time ---- */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline float hmin(__m256 v)
{
    __m128 x = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_min_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_min_ss(x, _mm_movehdup_ps(x)));
}

AVX2 static inline float hmax(__m256 v)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* Extremes of a group; false when a value is not finite. */
AVX2 static inline bool extremes(const float *w, float *min, float *max)
{
    const __m256i mag = _mm256_set1_epi32(0x7fffffff), last = _mm256_set1_epi32(0x7f7fffff);
    __m256 lo = _mm256_loadu_ps(w), hi = lo;
    __m256i bad = _mm256_setzero_si256();
    for (uint32_t j = 0; j < TT_GROUP; j += 8) {
        __m256 v = _mm256_loadu_ps(w + j);
        lo = _mm256_min_ps(lo, v);
        hi = _mm256_max_ps(hi, v);
        __m256i u = _mm256_and_si256(_mm256_castps_si256(v), mag);
        bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(u, last));
    }
    *min = hmin(lo);
    *max = hmax(hi);
    return _mm256_testz_si256(bad, bad) != 0;
}

/* Codes of 32 values as bytes, in order. */
AVX2 static inline __m256i codes32(const float *w, __m256 s, __m256 b, __m256 top)
{
    __m256i q[4];
    for (int k = 0; k < 4; k++) {
        __m256 x = _mm256_div_ps(_mm256_sub_ps(_mm256_loadu_ps(w + 8 * k), b), s);
        x = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()), top);
        q[k] = _mm256_cvtps_epi32(x); /* ties to even; clamping first changes nothing */
    }
    __m256i x = _mm256_packus_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

AVX2 static bool encode_group_avx2(uint32_t bits, const float *w, uint32_t words[TT_GROUP / 4],
                                   uint16_t *scale, uint16_t *bias)
{
    const __m256 top = _mm256_set1_ps((float)((1u << bits) - 1));
    const __m256i nibbles = _mm256_set1_epi16(0x1001); /* low + 16 * high */
    __m256i *out = (__m256i *)(void *)words;
    float min, max;
    bool flat;
    if (!extremes(w, &min, &max) || !group_params(bits, min, max, scale, bias, &flat))
        return false;
    __m256i q0 = _mm256_setzero_si256(), q1 = q0;
    if (!flat) {
        __m256 s = _mm256_set1_ps(tt_bf16_to_f32(*scale));
        __m256 b = _mm256_set1_ps(tt_bf16_to_f32(*bias));
        q0 = codes32(w, s, b, top);
        q1 = codes32(w + 32, s, b, top);
    }
    if (bits == 8) {
        _mm256_storeu_si256(out, q0);
        _mm256_storeu_si256(out + 1, q1);
    } else {
        __m256i x = _mm256_packus_epi16(_mm256_maddubs_epi16(q0, nibbles),
                                        _mm256_maddubs_epi16(q1, nibbles));
        _mm256_storeu_si256(out, _mm256_permute4x64_epi64(x, 0xd8));
    }
    return true;
}
#endif

static group_fn best_group(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return encode_group_avx2;
#endif
    return encode_group_scalar;
}

/* ---- whole matrices ---- */

typedef struct job {
    group_fn group;
    uint32_t bits;
    const float *w;
    uint64_t rows, cols;
    uint32_t *words;
    uint16_t *scales, *biases;
    _Atomic uint64_t bad_row; /* the first row that failed, or rows */
} job;

/* One row into its panel. */
static bool encode_row(const job *j, uint64_t r)
{
    const uint64_t groups = j->cols / TT_GROUP, each = TT_GROUP * j->bits / 32;
    uint32_t words[TT_GROUP / 4];
    uint32_t *to = j->words + tt_quant_place(groups * each, r, 0);
    for (uint64_t g = 0; g < groups; g++) {
        uint64_t at = tt_quant_place(groups, r, g);
        if (!j->group(j->bits, j->w + r * j->cols + g * TT_GROUP, words, &j->scales[at],
                      &j->biases[at]))
            return false;
        for (uint64_t k = 0; k < each; k++, to += TT_PANEL)
            *to = words[k];
    }
    return true;
}

/* A row of zeros that fills up a panel. */
static void fill_row(const job *j, uint64_t r)
{
    const uint64_t groups = j->cols / TT_GROUP, words = j->cols * j->bits / 32;
    for (uint64_t k = 0; k < words; k++)
        j->words[tt_quant_place(words, r, k)] = 0;
    for (uint64_t g = 0; g < groups; g++)
        j->scales[tt_quant_place(groups, r, g)] = j->biases[tt_quant_place(groups, r, g)] = 0;
}

/* Items are panels. */
static void encode_panels(void *ctx, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    job *j = ctx;
    for (uint64_t r = begin * TT_PANEL; r < end * TT_PANEL; r++) {
        if (r >= j->rows) {
            fill_row(j, r);
            continue;
        }
        if (encode_row(j, r))
            continue;
        uint64_t seen = atomic_load(&j->bad_row);
        while (r < seen && !atomic_compare_exchange_weak(&j->bad_row, &seen, r))
            ;
        return;
    }
}

/* Says what is wrong with a row that did not encode. */
static tt_status explain(const job *j, uint64_t row, tt_error *err)
{
    const float *w = j->w + row * j->cols;
    for (uint64_t c = 0; c < j->cols; c++)
        if (!isfinite(w[c]))
            return tt_fail(err, TT_ERR_NUMERIC, "row %llu, column %llu is %s",
                           (unsigned long long)row, (unsigned long long)c,
                           isnan(w[c]) ? "not a number" : "infinite");
    for (uint64_t g = 0; g < j->cols / TT_GROUP; g++) {
        uint32_t words[TT_GROUP / 4];
        uint16_t scale, bias;
        if (!encode_group_scalar(j->bits, w + g * TT_GROUP, words, &scale, &bias))
            return tt_fail(err, TT_ERR_NUMERIC,
                           "row %llu, columns %llu to %llu span more than a scale can hold",
                           (unsigned long long)row, (unsigned long long)(g * TT_GROUP),
                           (unsigned long long)(g * TT_GROUP + TT_GROUP - 1));
    }
    return tt_fail(err, TT_ERR_INTERNAL, "row %llu failed on one encoder only",
                   (unsigned long long)row);
}

static tt_status encode(job *j, tt_pool *pool, tt_error *err)
{
    if ((j->bits != 4 && j->bits != 8) || j->cols % TT_GROUP != 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "cannot quantize rows of %llu values to %u bits: 4 or 8 bits, a multiple of "
                       "%u values",
                       (unsigned long long)j->cols, j->bits, TT_GROUP);
    j->bad_row = j->rows;
    size_t panels = tt_quant_stored_rows(j->rows) / TT_PANEL;
    if (pool != NULL)
        tt_pool_run(pool, panels, 1, encode_panels, j);
    else
        encode_panels(j, 0, panels, 0);
    uint64_t bad = atomic_load(&j->bad_row);
    return bad == j->rows ? TT_OK : explain(j, bad, err);
}

tt_status tt_quant_encode(uint32_t bits, const float *w, uint64_t rows, uint64_t cols,
                          uint32_t *words, uint16_t *scales, uint16_t *biases, tt_pool *pool,
                          tt_error *err)
{
    job j = {.group = best_group(),
             .bits = bits,
             .w = w,
             .rows = rows,
             .cols = cols,
             .words = words,
             .scales = scales,
             .biases = biases};
    return encode(&j, pool, err);
}

tt_status tt_quant_encode_ref(uint32_t bits, const float *w, uint64_t rows, uint64_t cols,
                              uint32_t *words, uint16_t *scales, uint16_t *biases, tt_error *err)
{
    job j = {.group = encode_group_scalar,
             .bits = bits,
             .w = w,
             .rows = rows,
             .cols = cols,
             .words = words,
             .scales = scales,
             .biases = biases};
    return encode(&j, NULL, err);
}

void tt_quant_decode(uint32_t bits, const uint32_t *words, const uint16_t *scales,
                     const uint16_t *biases, uint64_t cols, uint64_t row, uint64_t c0, uint64_t n,
                     float *out)
{
    const uint32_t mask = (1u << bits) - 1, per = 32 / bits;
    const uint64_t meta = tt_quant_place(cols / TT_GROUP, row, 0), end = c0 + n;
    words += tt_quant_place(cols / per, row, 0);
    for (uint64_t c = c0; c < end;) {
        const uint64_t g = c / TT_GROUP, stop = (g + 1) * TT_GROUP < end ? (g + 1) * TT_GROUP : end;
        const float s = tt_bf16_to_f32(scales[meta + g * TT_PANEL]);
        const float b = tt_bf16_to_f32(biases[meta + g * TT_PANEL]);
        for (; c < stop; c++)
            *out++ = s * (float)(words[c / per * TT_PANEL] >> (c % per * bits) & mask) + b;
    }
}

/* ---- rows and panels ---- */

#define TURN(type)                                                                                 \
    static void type##_to_panel(const type *from, type *to, uint64_t rows, uint64_t n)             \
    {                                                                                              \
        for (uint64_t k = 0; k < n; k++)                                                           \
            for (uint64_t r = 0; r < TT_PANEL; r++)                                                \
                to[k * TT_PANEL + r] = r < rows ? from[r * n + k] : 0;                             \
    }                                                                                              \
    static void type##_from_panel(const type *from, type *to, uint64_t rows, uint64_t n)           \
    {                                                                                              \
        for (uint64_t r = 0; r < rows; r++)                                                        \
            for (uint64_t k = 0; k < n; k++)                                                       \
                to[r * n + k] = from[k * TT_PANEL + r];                                            \
    }
TURN(uint16_t)
TURN(uint32_t)
#undef TURN

static uint64_t rows_of_panel(uint64_t rows, uint64_t first)
{
    return rows - first < TT_PANEL ? rows - first : TT_PANEL;
}

void tt_quant_to_panels(uint32_t unit, uint64_t rows, uint64_t per_row, const void *from, void *to)
{
    for (uint64_t r = 0; r < rows; r += TT_PANEL) {
        uint64_t n = rows_of_panel(rows, r);
        if (unit == 4)
            uint32_t_to_panel((const uint32_t *)from + r * per_row, (uint32_t *)to + r * per_row, n,
                              per_row);
        else
            uint16_t_to_panel((const uint16_t *)from + r * per_row, (uint16_t *)to + r * per_row, n,
                              per_row);
    }
}

void tt_quant_from_panels(uint32_t unit, uint64_t rows, uint64_t per_row, const void *from,
                          void *to)
{
    for (uint64_t r = 0; r < rows; r += TT_PANEL) {
        uint64_t n = rows_of_panel(rows, r);
        if (unit == 4)
            uint32_t_from_panel((const uint32_t *)from + r * per_row, (uint32_t *)to + r * per_row,
                                n, per_row);
        else
            uint16_t_from_panel((const uint16_t *)from + r * per_row, (uint16_t *)to + r * per_row,
                                n, per_row);
    }
}

bool tt_quant_filling_is_zero(uint32_t unit, uint64_t rows, uint64_t per_row, const void *panel)
{
    const uint64_t used = rows % TT_PANEL;
    const unsigned char *p = panel;
    for (uint64_t k = 0; used != 0 && k < per_row; k++)
        for (uint64_t b = (k * TT_PANEL + used) * unit; b < (k + 1) * TT_PANEL * unit; b++)
            if (p[b] != 0)
                return false;
    return true;
}
