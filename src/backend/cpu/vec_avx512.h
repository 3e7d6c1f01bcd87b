/* vec_avx512.h: sixteen f32 lanes, under the names that the bodies in vec_*.inc use.
 *
 * Owns:      loads, stores, conversions, codes unpacked, sums over lanes; AVX-512 F, BW, VL, DQ.
 * Not here:  ops.
 * Laws:      (1) everything is static and always inlined, so nothing of it can be linked into code
 *            that runs before dispatch;  (2) v_sum and v_sums add the lanes in the same order.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_VEC_AVX512_H
#define TT_BACKEND_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define V_INLINE static inline __attribute__((always_inline))
#define V_UNROLL _Pragma("GCC unroll 16")

enum {
    VL = 16, /* lanes */
    VR = 8,  /* rows that a matrix kernel works on at once; v_sums takes this many */
    VT = 3,  /* rows of x beside them: VR * VT accumulators */
    VC = 4,  /* vectors of a column block in axpy-shaped kernels */
    VQ = 4   /* queries that share a key in attention */
};

typedef __m512 vf;

V_INLINE __mmask16 v_first(uint32_t n) /* n <= 16 */
{
    return (__mmask16)((1u << n) - 1);
}

V_INLINE vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
V_INLINE vf v_loadn(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
V_INLINE void v_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}
V_INLINE void v_storen(float *p, vf a, uint32_t n)
{
    _mm512_mask_storeu_ps(p, v_first(n), a);
}
V_INLINE vf v_set1(float a)
{
    return _mm512_set1_ps(a);
}
V_INLINE vf v_zero(void)
{
    return _mm512_setzero_ps();
}
V_INLINE vf v_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
V_INLINE vf v_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
V_INLINE vf v_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
V_INLINE vf v_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
V_INLINE vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
} /* b when one is NaN */
V_INLINE vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
V_INLINE vf v_abs(vf a)
{
    return _mm512_abs_ps(a);
}
V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
} /* a * b + c */
V_INLINE vf v_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
V_INLINE vf v_floor(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
V_INLINE float v_lane0(vf a)
{
    return _mm512_cvtss_f32(a);
}
/* a in the first n lanes, b in the others */
V_INLINE vf v_pick(uint32_t n, vf a, vf b)
{
    return _mm512_mask_blend_ps(v_first(n), b, a);
}

V_INLINE vf v_load_bf16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
V_INLINE vf v_loadn_bf16(const uint16_t *p, uint32_t n)
{
    __m256i h = _mm256_maskz_loadu_epi16(v_first(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
V_INLINE vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
V_INLINE vf v_loadn_f16(const uint16_t *p, uint32_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}
V_INLINE void v_storen_f16(uint16_t *p, vf a, uint32_t n)
{
    __m256i h = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, v_first(n), h);
}
V_INLINE float v_f16(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}
/* `bits` bits of every word from `shift` on, as f32 */
V_INLINE vf v_code(const uint32_t *words, int shift, int bits)
{
    __m512i w = _mm512_srli_epi32(_mm512_loadu_si512(words), (unsigned)shift);
    return _mm512_cvtepi32_ps(_mm512_and_si512(w, _mm512_set1_epi32((1 << bits) - 1)));
}

/* Sixteen codes as f32. */
V_INLINE vf v_load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* Whole numbers 0..255 as bytes. */
V_INLINE void v_store_u8(uint8_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}

/* Sixteen 4-bit codes, two words, arrive in the lane order 0 8 1 9 ... 7 15: one broadcast of the
 * words, one shift. Only the low four bits of a lane count. */
V_INLINE __m512i v_q4_lanes(const uint8_t *p)
{
    uint64_t words;
    __builtin_memcpy(&words, p, 8);
    const __m512i shift =
        _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
    return _mm512_srlv_epi32(_mm512_set1_epi64((long long)words), shift);
}
V_INLINE vf v_load_q4(const uint8_t *p) /* codes as f32, natural order */
{
    const vf codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_permutexvar_ps(at, _mm512_permutexvar_ps(v_q4_lanes(p), codes));
}
/* Keeps a value in a register: otherwise it may be loaded again for every use. */
V_INLINE vf v_keep(vf a)
{
    __asm__("" : "+v"(a));
    return a;
}

/* Sum of the lanes: in each quarter (0 + 2) + (1 + 3), then the quarters (0 + 1) + (2 + 3). */
V_INLINE float v_sum(vf a)
{
    a = v_add(a, _mm512_shuffle_ps(a, a, _MM_SHUFFLE(1, 0, 3, 2)));
    a = v_add(a, _mm512_shuffle_ps(a, a, _MM_SHUFFLE(2, 3, 0, 1)));
    a = v_add(a, _mm512_shuffle_f32x4(a, a, _MM_SHUFFLE(2, 3, 0, 1)));
    a = v_add(a, _mm512_shuffle_f32x4(a, a, _MM_SHUFFLE(1, 0, 3, 2)));
    return v_lane0(a);
}

V_INLINE vf v_fold2_(vf a, vf b) /* quarters: a0+a2 b0+b2 a1+a3 b1+b3 */
{
    return v_add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
V_INLINE vf v_fold4_(vf ab, vf cd)
{
    __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    return v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                 _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
/* out[i] = v_sum(a[i]), VR of them. */
V_INLINE void v_sums(float *out, const vf *a)
{
    vf lo = v_fold4_(v_fold2_(a[0], a[1]), v_fold2_(a[2], a[3]));
    vf hi = v_fold4_(v_fold2_(a[4], a[5]), v_fold2_(a[6], a[7]));
    vf half = v_add(_mm512_shuffle_f32x4(lo, hi, _MM_SHUFFLE(2, 0, 2, 0)),
                    _mm512_shuffle_f32x4(lo, hi, _MM_SHUFFLE(3, 1, 3, 1)));
    vf all = v_add(_mm512_shuffle_f32x4(half, half, _MM_SHUFFLE(2, 0, 2, 0)),
                   _mm512_shuffle_f32x4(half, half, _MM_SHUFFLE(3, 1, 3, 1)));
    _mm256_storeu_ps(out, _mm512_castps512_ps256(all));
}

V_INLINE float v_top(vf a)
{
    return _mm512_reduce_max_ps(a);
}
V_INLINE float v_low(vf a)
{
    return _mm512_reduce_min_ps(a);
}

V_INLINE vf v_pow2(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
} /* a * 2^n, n whole */

/* tap[j] lane i = w[4 * i + j] */
V_INLINE void v_taps(const float *w, vf tap[4])
{
    vf r[4], s[4];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = v_load(w + 16 * i);
    /* Quarter L of r[i] holds channel 4 i + L: a 4 x 4 transposition in every quarter, then lanes
     * 4 L + i go to 4 i + L. */
    s[0] = _mm512_unpacklo_ps(r[0], r[1]), s[1] = _mm512_unpackhi_ps(r[0], r[1]);
    s[2] = _mm512_unpacklo_ps(r[2], r[3]), s[3] = _mm512_unpackhi_ps(r[2], r[3]);
    const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    V_UNROLL
    for (int k = 0; k < 2; k++) {
        __m512d lo = _mm512_castps_pd(s[k]), hi = _mm512_castps_pd(s[k + 2]);
        tap[2 * k] = _mm512_permutexvar_ps(at, _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi)));
        tap[2 * k + 1] = _mm512_permutexvar_ps(at, _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi)));
    }
}

#endif
