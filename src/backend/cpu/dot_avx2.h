/* dot_avx2.h: eight weight rows side by side, under the names that vec_dot.inc uses.
 *
 * Owns:      vectors of 32-bit lanes, the product of unsigned codes with signed ones, the exchange
 *            of rows and words; AVX-VNNI on top of vec_avx2.h.
 * Not here:  ops.
 * Laws:      as in dot_avx512.h.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_DOT_AVX2_H
#define TT_BACKEND_DOT_AVX2_H

#include <stdbool.h>

#include "backend/cpu/vec_avx2.h"

/* Rows of x of a tile: two sums each, two weights and what is spread fill 16 registers. */
#define DOT_TILE 6
/* Rows of x that are multiplied straight from the stream. */
#define DOT_STREAM 2

typedef __m256i vi;

V_INLINE vi i_zero(void)
{
    return _mm256_setzero_si256();
}
V_INLINE vi i_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
V_INLINE vi i_loadn(const void *p, uint32_t bytes) /* the rest is zero */
{
    uint8_t some[32] = {0};
    if (bytes >= sizeof some)
        return i_load(p);
    __builtin_memcpy(some, p, bytes);
    return i_load(some);
}
/* Codes of a group fill whole vectors here. */
typedef struct i_part {
    char none;
} i_part;
V_INLINE i_part i_part_of(size_t bytes)
{
    (void)bytes;
    return (i_part){0};
}
V_INLINE vi i_load_codes(const void *p, i_part part)
{
    (void)part;
    return i_load(p);
}
V_INLINE void i_store(void *p, vi a)
{
    _mm256_storeu_si256(p, a);
}
V_INLINE vi i_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
V_INLINE vi i_join(vi high, vi low) /* 256 * high + low */
{
    return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
}
V_INLINE vi i_low4(vi a)
{
    return _mm256_and_si256(a, _mm256_set1_epi8(15));
}
V_INLINE vi i_high4(vi a)
{
    return _mm256_and_si256(_mm256_srli_epi16(a, 4), _mm256_set1_epi8(15));
}
V_INLINE vi i_spread(const int32_t *p) /* one word in every lane */
{
    return _mm256_set1_epi32(*p);
}
V_INLINE vf i_f32(vi a)
{
    return _mm256_cvtepi32_ps(a);
}
/* acc + for every lane the four products of unsigned bytes of u and signed bytes of s */
V_INLINE vi i_dot(vi acc, vi u, vi s)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s));
    return acc;
}
V_INLINE vi i_dot_spread(vi acc, vi u, const int32_t *s)
{
    return i_dot(acc, u, i_spread(s));
}

/* bf16 pairs as f32: the lower and the upper one of every lane */
V_INLINE vf i_bf16_low(vi a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
}
V_INLINE vf i_bf16_high(vi a)
{
    return _mm256_castsi256_ps(_mm256_and_si256(a, _mm256_set1_epi32((int)0xffff0000u)));
}

/* Word j of vector i goes to word i of vector j. */
V_INLINE void i_exchange(vi w[8])
{
    vi a[8], b[8];
    V_UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(w[i], w[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(w[i], w[i + 1]);
    }
    V_UNROLL
    for (int i = 0; i < 8; i += 4)
        V_UNROLL
    for (int k = 0; k < 2; k++) { /* b[i + c]: word c of both halves, rows i .. i + 3 */
        b[i + 2 * k] = _mm256_unpacklo_epi64(a[i + k], a[i + 2 + k]);
        b[i + 2 * k + 1] = _mm256_unpackhi_epi64(a[i + k], a[i + 2 + k]);
    }
    V_UNROLL
    for (int c = 0; c < 4; c++) {
        w[c] = _mm256_permute2x128_si256(b[c], b[4 + c], 0x20);
        w[4 + c] = _mm256_permute2x128_si256(b[c], b[4 + c], 0x31);
    }
}

/* 32 whole numbers of -128..127 as bytes, in order */
V_INLINE vi i_pack_half_(const vf *x)
{
    vi a = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
    vi b = _mm256_packs_epi32(_mm256_cvtps_epi32(x[2]), _mm256_cvtps_epi32(x[3]));
    const vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
}

/* 64 whole numbers of -128..127 as bytes; `nibbles`: in every eight the even ones before the odd
 * ones, and the fours of even ones before all fours of odd ones. */
V_INLINE void i_pack_codes(int32_t out[16], const vf x[8], bool nibbles)
{
    vi a = i_pack_half_(x), b = i_pack_half_(x + 4);
    if (nibbles) {
        const __m128i part = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        const vi parts = _mm256_broadcastsi128_si256(part);
        vi p = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(a, parts), _MM_SHUFFLE(3, 1, 2, 0));
        vi q = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(b, parts), _MM_SHUFFLE(3, 1, 2, 0));
        a = _mm256_permute2x128_si256(p, q, 0x20);
        b = _mm256_permute2x128_si256(p, q, 0x31);
    }
    i_store(out, a);
    i_store(out + 8, b);
}

/* Sum of the signed bytes of 16 words. */
V_INLINE int32_t i_sum_codes(const int32_t codes[16])
{
    const vi ones = _mm256_set1_epi8(1);
    vi s = i_dot(i_dot(i_zero(), ones, i_load(codes)), ones, i_load(codes + 8));
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, _MM_SHUFFLE(2, 3, 0, 1))));
}

#endif
