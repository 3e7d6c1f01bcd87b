/* vec_avx2.h: eight f32 lanes, under the names that the bodies in vec_*.inc use.
 *
 * Owns:      loads, stores, conversions, codes unpacked, sums over lanes; AVX2, FMA and F16C.
 * Not here:  ops.
 * Laws:      (1) everything is static and always inlined, so nothing of it can be linked into code
 *            that runs before dispatch;  (2) v_sum and v_sums add the lanes in the same order.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_VEC_AVX2_H
#define TT_BACKEND_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define V_INLINE static inline __attribute__((always_inline))
#define V_UNROLL _Pragma("GCC unroll 16")

enum {
    VL = 8, /* lanes */
    VR = 4, /* rows that a matrix kernel works on at once; v_sums takes this many */
    VT = 3, /* rows of x beside them: VR * VT accumulators */
    VC = 2, /* vectors of a column block in axpy-shaped kernels */
    VQ = 2  /* queries that share a key in attention */
};

typedef __m256 vf;

V_INLINE __m256i v_first(uint32_t n) /* n <= 8 */
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

V_INLINE vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
V_INLINE vf v_loadn(const float *p, uint32_t n)
{
    return _mm256_maskload_ps(p, v_first(n));
}
V_INLINE void v_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}
V_INLINE void v_storen(float *p, vf a, uint32_t n)
{
    _mm256_maskstore_ps(p, v_first(n), a);
}
V_INLINE vf v_set1(float a)
{
    return _mm256_set1_ps(a);
}
V_INLINE vf v_zero(void)
{
    return _mm256_setzero_ps();
}
V_INLINE vf v_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
V_INLINE vf v_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
V_INLINE vf v_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
V_INLINE vf v_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
V_INLINE vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
} /* b when one is NaN */
V_INLINE vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
V_INLINE vf v_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
} /* a * b + c */
V_INLINE vf v_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
V_INLINE vf v_floor(vf a)
{
    return _mm256_floor_ps(a);
}
V_INLINE float v_lane0(vf a)
{
    return _mm256_cvtss_f32(a);
}
/* a in the first n lanes, b in the others */
V_INLINE vf v_pick(uint32_t n, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(v_first(n)));
}

V_INLINE __m128i v_load_u16n_(const uint16_t *p, uint32_t n)
{
    uint16_t h[8] = {0};
    for (uint32_t i = 0; i < n; i++)
        h[i] = p[i];
    return _mm_loadu_si128((const __m128i *)h);
}
V_INLINE vf v_bf16_(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
V_INLINE vf v_load_bf16(const uint16_t *p)
{
    return v_bf16_(_mm_loadu_si128((const __m128i *)p));
}
V_INLINE vf v_loadn_bf16(const uint16_t *p, uint32_t n)
{
    return v_bf16_(v_load_u16n_(p, n));
}
V_INLINE vf v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
V_INLINE vf v_loadn_f16(const uint16_t *p, uint32_t n)
{
    return _mm256_cvtph_ps(v_load_u16n_(p, n));
}
V_INLINE void v_storen_f16(uint16_t *p, vf a, uint32_t n)
{
    uint16_t h[8];
    _mm_storeu_si128((__m128i *)h,
                     _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (uint32_t i = 0; i < n; i++)
        p[i] = h[i];
}
V_INLINE float v_f16(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}
/* `bits` bits of every word from `shift` on, as f32 */
V_INLINE vf v_code(const uint32_t *words, int shift, int bits)
{
    __m256i w = _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)(const void *)words), shift);
    return _mm256_cvtepi32_ps(_mm256_and_si256(w, _mm256_set1_epi32((1 << bits) - 1)));
}

/* Eight codes as f32. */
V_INLINE vf v_load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* Whole numbers 0..255 as bytes. */
V_INLINE void v_store_u8(uint8_t *p, vf a)
{
    __m256i n = _mm256_cvtps_epi32(a);
    __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(h, h));
}

/* Keeps a value in a register: otherwise it may be loaded again for every use. */
V_INLINE vf v_keep(vf a)
{
    __asm__("" : "+x"(a));
    return a;
}

/* Eight 4-bit codes, one word: one broadcast, one variable shift, natural order. */
V_INLINE vf v_load_q4(const uint8_t *p)
{
    uint32_t word;
    __builtin_memcpy(&word, p, 4);
    __m256i n = _mm256_srlv_epi32(_mm256_set1_epi32((int)word),
                                  _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    return _mm256_cvtepi32_ps(_mm256_and_si256(n, _mm256_set1_epi32(15)));
}
/* Sum of the lanes: in each half (0 + 2) + (1 + 3), then the halves. */
V_INLINE float v_sum(vf a)
{
    a = v_add(a, _mm256_shuffle_ps(a, a, _MM_SHUFFLE(1, 0, 3, 2)));
    a = v_add(a, _mm256_shuffle_ps(a, a, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
}

V_INLINE vf v_fold2_(vf a, vf b) /* halves: a0+a2 b0+b2 a1+a3 b1+b3 */
{
    return v_add(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}
/* out[i] = v_sum(a[i]), VR of them. */
V_INLINE void v_sums(float *out, const vf *a)
{
    __m256d x = _mm256_castps_pd(v_fold2_(a[0], a[1])), y = _mm256_castps_pd(v_fold2_(a[2], a[3]));
    vf half = v_add(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                    _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

V_INLINE __m128 v_halves_(vf a, int top)
{
    __m128 l = _mm256_castps256_ps128(a), h = _mm256_extractf128_ps(a, 1);
    __m128 m = top ? _mm_max_ps(l, h) : _mm_min_ps(l, h);
    __m128 s = _mm_movehl_ps(m, m);
    m = top ? _mm_max_ps(m, s) : _mm_min_ps(m, s);
    s = _mm_shuffle_ps(m, m, 1);
    return top ? _mm_max_ss(m, s) : _mm_min_ss(m, s);
}
V_INLINE float v_top(vf a)
{
    return _mm_cvtss_f32(v_halves_(a, 1));
}
V_INLINE float v_low(vf a)
{
    return _mm_cvtss_f32(v_halves_(a, 0));
}

/* a * 2^n, n whole and within -252..254: in two steps, so that a subnormal result is rounded once.
 */
V_INLINE vf v_pow2(vf a, vf n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i rest = _mm256_sub_epi32(whole, half), one = _mm256_set1_epi32(127);
    vf x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, one), 23));
    vf y = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23));
    return v_mul(v_mul(a, x), y);
}

/* tap[j] lane i = w[4 * i + j] */
V_INLINE void v_taps(const float *w, vf tap[4])
{
    vf r[4], s[4];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = v_load(w + 8 * i);
    /* Half L of r[i] holds channel 2 i + L: a 4 x 4 transposition in both halves, then lanes
     * 4 L + i go to 2 i + L. */
    s[0] = _mm256_unpacklo_ps(r[0], r[1]), s[1] = _mm256_unpackhi_ps(r[0], r[1]);
    s[2] = _mm256_unpacklo_ps(r[2], r[3]), s[3] = _mm256_unpackhi_ps(r[2], r[3]);
    const __m256i at = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    V_UNROLL
    for (int k = 0; k < 2; k++) {
        __m256d lo = _mm256_castps_pd(s[k]), hi = _mm256_castps_pd(s[k + 2]);
        tap[2 * k] = _mm256_permutevar8x32_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(lo, hi)), at);
        tap[2 * k + 1] = _mm256_permutevar8x32_ps(_mm256_castpd_ps(_mm256_unpackhi_pd(lo, hi)), at);
    }
}

#endif
