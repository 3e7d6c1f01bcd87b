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
#include <stddef.h>

#include "backend/cpu/vec_avx512.h"

/* Rows of x of a tile: two sums each in whole numbers and two in f32, two weights and what is
 * spread fill 32 registers. Of two planes: four sums in whole numbers. */
#define DOT_TILE  6
#define DOT_TILE2 4
/* Rows of x that are multiplied straight from the stream, and up to which two streams are read side
 * by side. */
#define DOT_STREAM 4
#define DOT_PAIR   2
/* Queries of a tile of attention. */
#define DOT_QUERIES 8
/* Bytes that a stream is asked for ahead. */
#define DOT_AHEAD 4096

typedef __m512i vi;

V_INLINE vi i_zero(void)
{
    return _mm512_setzero_si512();
}
V_INLINE vi i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
V_INLINE vi i_loadn(const void *p, uint32_t bytes) /* the rest is zero */
{
    __mmask64 part = bytes >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << bytes) - 1;
    return _mm512_maskz_loadu_epi8(part, p);
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
/* The same, done even when nobody wants it. */
V_INLINE vi i_dot_always(vi acc, vi u, vi s)
{
    __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s));
    return acc;
}

/* Pairs of IEEE halves as f32, likewise */
V_INLINE vf i_f16_low(vi a)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
}
V_INLINE vf i_f16_high(vi a)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(a, 16)));
}

/* 64 codes of a row as bytes, in the order that i_weave wants: the fours of every quarter, one from
 * each sixteen. */
V_INLINE vi i_columns(const uint8_t *p, int bits)
{
    const vi fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    vi a;
    if (bits == 8) {
        a = i_load(p);
    } else {
        a = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
        a = _mm512_and_si512(_mm512_or_si512(a, _mm512_slli_epi16(a, 4)), _mm512_set1_epi8(15));
    }
    return _mm512_permutexvar_epi32(fours, a);
}
/* Four rows of 64 bytes become four vectors of 16 columns, a word holding a column of the four. */
V_INLINE void i_weave(vi c[4])
{
    vi a = _mm512_unpacklo_epi8(c[0], c[1]), b = _mm512_unpackhi_epi8(c[0], c[1]);
    vi d = _mm512_unpacklo_epi8(c[2], c[3]), e = _mm512_unpackhi_epi8(c[2], c[3]);
    c[0] = _mm512_unpacklo_epi16(a, d), c[1] = _mm512_unpackhi_epi16(a, d);
    c[2] = _mm512_unpacklo_epi16(b, e), c[3] = _mm512_unpackhi_epi16(b, e);
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

/* The 64 signed bytes of a group, four to a word. */
typedef struct i_codes {
    vi v[1];
} i_codes;

/* From 64 whole numbers of -128..127; `nibbles`: in every eight the even ones before the odd ones,
 * and the fours of even ones before all fours of odd ones. */
V_INLINE i_codes i_pack(const vf x[4], bool nibbles)
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
    return (i_codes){{all}};
}

V_INLINE int32_t i_sum(i_codes c)
{
    return _mm512_reduce_add_epi32(i_dot(i_zero(), _mm512_set1_epi8(1), c.v[0]));
}

V_INLINE void i_put(int32_t out[16], i_codes c)
{
    i_store(out, c.v[0]);
}

/* Word k of column j goes to to[k * step + j], four columns. */
V_INLINE void i_put4(int32_t *to, size_t step, const i_codes c[4])
{
    vi a = _mm512_unpacklo_epi32(c[0].v[0], c[1].v[0]),
       b = _mm512_unpackhi_epi32(c[0].v[0], c[1].v[0]);
    vi d = _mm512_unpacklo_epi32(c[2].v[0], c[3].v[0]),
       e = _mm512_unpackhi_epi32(c[2].v[0], c[3].v[0]);
    vi w[4] = {_mm512_unpacklo_epi64(a, d), _mm512_unpackhi_epi64(a, d),
               _mm512_unpacklo_epi64(b, e), _mm512_unpackhi_epi64(b, e)};
    V_UNROLL
    for (int k = 0; k < 4; k++) { /* word 4 q + k in quarter q */
        _mm_storeu_si128((__m128i *)(to + k * step), _mm512_castsi512_si128(w[k]));
        _mm_storeu_si128((__m128i *)(to + (4 + k) * step), _mm512_extracti32x4_epi32(w[k], 1));
        _mm_storeu_si128((__m128i *)(to + (8 + k) * step), _mm512_extracti32x4_epi32(w[k], 2));
        _mm_storeu_si128((__m128i *)(to + (12 + k) * step), _mm512_extracti32x4_epi32(w[k], 3));
    }
}

/* ---- attention ---- */

/* Codes of 8 bits as the first operand of i_dot_word, and what they are less than themselves. */
#define DOT_FIRST8 0
V_INLINE vi i_first8(vi a)
{
    return a;
}
/* Unsigned codes less the middle of their range, signed. */
V_INLINE vi i_centered(vi a, int bits)
{
    return bits == 8 ? _mm512_xor_si512(a, _mm512_set1_epi8(-128))
                     : _mm512_sub_epi8(a, _mm512_set1_epi8(8));
}
V_INLINE vi i_times256(vi a)
{
    return _mm512_slli_epi32(a, 8);
}
/* Four words that are multiplied one after the other. */
typedef const int32_t *i_four;
V_INLINE i_four i_four_of(const int32_t *p)
{
    return p;
}
/* acc + for every lane its four codes times signed bytes, or weights times its four values */
V_INLINE vi i_dot_word(vi acc, vi codes, i_four x, int j)
{
    return i_dot(acc, codes, i_spread(x + j));
}
V_INLINE vi i_weigh_word(vi acc, i_four weights, int j, vi values)
{
    return i_dot(acc, i_spread(weights + j), values);
}
/* Weights are unsigned bytes of one plane or two. 64 whole numbers up to the largest as bytes in
 * order: of two planes the high parts, then the low ones. */
#define DOT_WEIGHT(P) ((P) == 1 ? 255.0f : 65535.0f)
V_INLINE void i_pack_weights(i_codes out[2], const vf w[4], int P)
{
    vi a = _mm512_packus_epi32(_mm512_cvtps_epi32(w[0]), _mm512_cvtps_epi32(w[1]));
    vi b = _mm512_packus_epi32(_mm512_cvtps_epi32(w[2]), _mm512_cvtps_epi32(w[3]));
    if (P == 1) {
        const vi fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        out[0].v[0] = _mm512_permutexvar_epi32(fours, _mm512_packus_epi16(a, b));
        return;
    }
    /* in every quarter the low bytes of two fours, then their high bytes */
    const vi parts =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const vi low = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 24, 28, 17, 21, 25, 29);
    const vi high = _mm512_setr_epi32(2, 6, 10, 14, 3, 7, 11, 15, 18, 22, 26, 30, 19, 23, 27, 31);
    a = _mm512_shuffle_epi8(a, parts);
    b = _mm512_shuffle_epi8(b, parts);
    out[0].v[0] = _mm512_permutex2var_epi32(a, high, b);
    out[1].v[0] = _mm512_permutex2var_epi32(a, low, b);
}

/* Largest magnitude; more than every finite number when there is a NaN. */
V_INLINE float i_most(const vf x[4])
{
    const vi mask = _mm512_set1_epi32(0x7fffffff);
    vi top = i_zero();
    V_UNROLL
    for (int i = 0; i < 4; i++)
        top = _mm512_max_epi32(top, _mm512_and_si512(_mm512_castps_si512(x[i]), mask));
    int32_t bits = _mm512_reduce_max_epi32(top);
    float most;
    __builtin_memcpy(&most, &bits, sizeof most);
    return bits < 0x7f800000 ? most : __builtin_inff();
}

#endif
