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
#include <stddef.h>

#include "backend/cpu/vec_avx2.h"

/* Rows of x of a tile: two sums each, two weights and what is spread fill 16 registers. */
#define DOT_TILE  6
#define DOT_TILE2 3
/* Rows of x that are multiplied straight from the stream, and up to which two streams are read side
 * by side. */
#define DOT_STREAM 2
#define DOT_PAIR   1
/* Queries of a tile of attention. */
#define DOT_QUERIES 4
/* Bytes that a stream is asked for ahead. */
#define DOT_AHEAD 4096

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
/* The same, done even when nobody wants it. */
V_INLINE vi i_dot_always(vi acc, vi u, vi s)
{
    __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s));
    return acc;
}

/* Pairs of IEEE halves as f32, likewise */
V_INLINE vf i_halves_(vi a) /* of the low words, the others zero */
{
    vi p = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, a), _MM_SHUFFLE(3, 1, 2, 0));
    return _mm256_cvtph_ps(_mm256_castsi256_si128(p));
}
V_INLINE vf i_f16_low(vi a)
{
    return i_halves_(_mm256_and_si256(a, _mm256_set1_epi32(0xffff)));
}
V_INLINE vf i_f16_high(vi a)
{
    return i_halves_(_mm256_srli_epi32(a, 16));
}

/* 32 codes of a row as bytes, in the order that i_weave wants: the fours of both halves, one from
 * each eight. */
V_INLINE vi i_columns(const uint8_t *p, int bits)
{
    const vi fours = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    vi a;
    if (bits == 8) {
        a = i_load(p);
    } else {
        a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
        a = _mm256_and_si256(_mm256_or_si256(a, _mm256_slli_epi16(a, 4)), _mm256_set1_epi8(15));
    }
    return _mm256_permutevar8x32_epi32(a, fours);
}
/* Four rows of 32 bytes become four vectors of 8 columns, a word holding a column of the four. */
V_INLINE void i_weave(vi c[4])
{
    vi a = _mm256_unpacklo_epi8(c[0], c[1]), b = _mm256_unpackhi_epi8(c[0], c[1]);
    vi d = _mm256_unpacklo_epi8(c[2], c[3]), e = _mm256_unpackhi_epi8(c[2], c[3]);
    c[0] = _mm256_unpacklo_epi16(a, d), c[1] = _mm256_unpackhi_epi16(a, d);
    c[2] = _mm256_unpacklo_epi16(b, e), c[3] = _mm256_unpackhi_epi16(b, e);
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

/* The 64 signed bytes of a group, four to a word. */
typedef struct i_codes {
    vi v[2];
} i_codes;

/* 32 whole numbers as bytes, in order */
V_INLINE vi i_pack_half_(const vf *x)
{
    vi a = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
    vi b = _mm256_packs_epi32(_mm256_cvtps_epi32(x[2]), _mm256_cvtps_epi32(x[3]));
    const vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
}

/* From 64 whole numbers of -128..127; `nibbles`: in every eight the even ones before the odd ones,
 * and the fours of even ones before all fours of odd ones. */
V_INLINE i_codes i_pack(const vf x[8], bool nibbles)
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
    return (i_codes){{a, b}};
}

V_INLINE int32_t i_sum(i_codes c)
{
    const vi ones = _mm256_set1_epi8(1);
    vi s = i_dot(i_dot(i_zero(), ones, c.v[0]), ones, c.v[1]);
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, _MM_SHUFFLE(2, 3, 0, 1))));
}

V_INLINE void i_put(int32_t out[16], i_codes c)
{
    i_store(out, c.v[0]);
    i_store(out + 8, c.v[1]);
}

/* Word k of column j goes to to[k * step + j], four columns. */
V_INLINE void i_put4(int32_t *to, size_t step, const i_codes c[4])
{
    V_UNROLL
    for (int h = 0; h < 2; h++) {
        vi a = _mm256_unpacklo_epi32(c[0].v[h], c[1].v[h]);
        vi b = _mm256_unpackhi_epi32(c[0].v[h], c[1].v[h]);
        vi d = _mm256_unpacklo_epi32(c[2].v[h], c[3].v[h]);
        vi e = _mm256_unpackhi_epi32(c[2].v[h], c[3].v[h]);
        vi w[4] = {_mm256_unpacklo_epi64(a, d), _mm256_unpackhi_epi64(a, d),
                   _mm256_unpacklo_epi64(b, e), _mm256_unpackhi_epi64(b, e)};
        V_UNROLL
        for (int k = 0; k < 4; k++) { /* words 8 h + k and 8 h + 4 + k */
            int32_t *at = to + (8 * h + k) * step;
            _mm_storeu_si128((__m128i *)at, _mm256_castsi256_si128(w[k]));
            _mm_storeu_si128((__m128i *)(at + 4 * step), _mm256_extracti128_si256(w[k], 1));
        }
    }
}

/* ---- attention, as in dot_avx512.h ---- */

#define DOT_FIRST8 0
V_INLINE vi i_first8(vi a)
{
    return a;
}
V_INLINE vi i_centered(vi a, int bits)
{
    return bits == 8 ? _mm256_xor_si256(a, _mm256_set1_epi8(-128))
                     : _mm256_sub_epi8(a, _mm256_set1_epi8(8));
}
V_INLINE vi i_times256(vi a)
{
    return _mm256_slli_epi32(a, 8);
}
typedef const int32_t *i_four;
V_INLINE i_four i_four_of(const int32_t *p)
{
    return p;
}
V_INLINE vi i_dot_word(vi acc, vi codes, i_four x, int j)
{
    return i_dot(acc, codes, i_spread(x + j));
}
V_INLINE vi i_weigh_word(vi acc, i_four weights, int j, vi values)
{
    return i_dot(acc, i_spread(weights + j), values);
}
#define DOT_WEIGHT(P) ((P) == 1 ? 255.0f : 65535.0f)
V_INLINE void i_pack_weights(i_codes out[2], const vf w[8], int P)
{
    const vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    vi a[4];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_packus_epi32(_mm256_cvtps_epi32(w[2 * i]), _mm256_cvtps_epi32(w[2 * i + 1]));
    if (P == 1) {
        V_UNROLL
        for (int i = 0; i < 2; i++)
            out[0].v[i] =
                _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a[2 * i], a[2 * i + 1]), order);
        return;
    }
    /* in every half the low bytes of two fours, then their high bytes */
    const vi parts = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    V_UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_shuffle_epi8(a[i], parts);
    V_UNROLL
    for (int i = 0; i < 2; i++) {
        vi high = _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]);
        vi low = _mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]);
        out[0].v[i] = _mm256_permutevar8x32_epi32(high, order);
        out[1].v[i] = _mm256_permutevar8x32_epi32(low, order);
    }
}

/* Largest magnitude; more than every finite number when there is a NaN. */
V_INLINE float i_most(const vf x[8])
{
    const vi mask = _mm256_set1_epi32(0x7fffffff);
    vi top = i_zero();
    V_UNROLL
    for (int i = 0; i < 8; i++)
        top = _mm256_max_epi32(top, _mm256_and_si256(_mm256_castps_si256(x[i]), mask));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, _MM_SHUFFLE(1, 0, 3, 2)));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, _MM_SHUFFLE(2, 3, 0, 1)));
    int32_t bits = _mm_cvtsi128_si32(h);
    float most;
    __builtin_memcpy(&most, &bits, sizeof most);
    return bits < 0x7f800000 ? most : __builtin_inff();
}

#endif
