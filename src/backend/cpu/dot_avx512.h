/* dot_avx512.h: sixteen weight rows side by side, under the names that vec_dot.inc uses.
 *
 * Owns:      vectors of 32-bit lanes, the product of unsigned codes with signed ones, the exchange
 *            of rows and words; AVX-512 VNNI on top of vec_avx512.h.
 * Not here:  ops.
 * Laws:      everything is static and always inlined, as in vec_avx512.h. The product is written
 *            as an instruction: compilers of today copy its accumulator about.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_DOT_AVX512_H
#define TT_BACKEND_DOT_AVX512_H

#include <stdbool.h>

#include "backend/cpu/vec_avx512.h"

/* Rows of x of a tile: two sums each, two weights and what is spread fill 32 registers. */
#define DOT_TILE 12
/* Rows of x that are multiplied straight from the stream. */
#define DOT_STREAM 4

typedef __m512i vi;

V_INLINE vi i_zero(void)
{
    return _mm512_setzero_si512();
}
V_INLINE vi i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
/* How much of a vector is there; the rest is read as zero. */
typedef __mmask64 i_part;
V_INLINE i_part i_part_of(size_t bytes)
{
    return bytes >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << bytes) - 1;
}
V_INLINE vi i_load_codes(const void *p, i_part part)
{
    return _mm512_maskz_loadu_epi8(part, p);
}
V_INLINE vi i_loadn(const void *p, uint32_t bytes)
{
    return i_load_codes(p, i_part_of(bytes));
}
V_INLINE void i_store(void *p, vi a)
{
    _mm512_storeu_si512(p, a);
}
V_INLINE vi i_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
V_INLINE vi i_join(vi high, vi low) /* 256 * high + low */
{
    return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}
V_INLINE vi i_low4(vi a)
{
    return _mm512_and_si512(a, _mm512_set1_epi8(15));
}
V_INLINE vi i_high4(vi a)
{
    return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15));
}
V_INLINE vi i_spread(const int32_t *p) /* one word in every lane */
{
    return _mm512_set1_epi32(*p);
}
V_INLINE vf i_f32(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
/* acc + for every lane the four products of unsigned bytes of u and signed bytes of s */
V_INLINE vi i_dot(vi acc, vi u, vi s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s));
    return acc;
}
V_INLINE vi i_dot_spread(vi acc, vi u, const int32_t *s)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(u), "m"(*s));
    return acc;
}

/* bf16 pairs as f32: the lower and the upper one of every lane */
V_INLINE vf i_bf16_low(vi a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(a, 16));
}
V_INLINE vf i_bf16_high(vi a)
{
    return _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Word j of vector i goes to word i of vector j. */
V_INLINE void i_exchange(vi w[16])
{
    vi a[16], b[16];
    V_UNROLL
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(w[i], w[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(w[i], w[i + 1]);
    }
    V_UNROLL
    for (int i = 0; i < 16; i += 4)
        V_UNROLL
    for (int k = 0; k < 2; k++) { /* b[i + c]: word c of every quarter, rows i .. i + 3 */
        b[i + 2 * k] = _mm512_unpacklo_epi64(a[i + k], a[i + 2 + k]);
        b[i + 2 * k + 1] = _mm512_unpackhi_epi64(a[i + k], a[i + 2 + k]);
    }
    V_UNROLL
    for (int c = 0; c < 4; c++) {
        vi p = _mm512_shuffle_i32x4(b[c], b[4 + c], 0x88);
        vi q = _mm512_shuffle_i32x4(b[c], b[4 + c], 0xdd);
        vi r = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0x88);
        vi s = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0xdd);
        w[c] = _mm512_shuffle_i32x4(p, r, 0x88);
        w[4 + c] = _mm512_shuffle_i32x4(q, s, 0x88);
        w[8 + c] = _mm512_shuffle_i32x4(p, r, 0xdd);
        w[12 + c] = _mm512_shuffle_i32x4(q, s, 0xdd);
    }
}

/* 64 whole numbers of -128..127 as bytes; `nibbles`: in every eight the even ones before the odd
 * ones, and the fours of even ones before all fours of odd ones. */
V_INLINE void i_pack_codes(int32_t out[16], const vf x[4], bool nibbles)
{
    __m512i all = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x[0])));
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x[1])), 1);
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x[2])), 2);
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x[3])), 3);
    if (nibbles) {
        const __m128i part = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        const __m512i halves = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        all = _mm512_shuffle_epi8(all, _mm512_broadcast_i32x4(part));
        all = _mm512_permutexvar_epi64(halves, all);
    }
    _mm512_storeu_si512(out, all);
}

/* Sum of the signed bytes of 16 words. */
V_INLINE int32_t i_sum_codes(const int32_t codes[16])
{
    return _mm512_reduce_add_epi32(i_dot(i_zero(), _mm512_set1_epi8(1), i_load(codes)));
}

#endif
