/* dot_neon.h: four weight rows side by side, under the names that vec_dot.inc uses.
 *
 * Owns:      vectors of 32-bit lanes, the product of signed codes, the exchange of rows and words;
 *            the dot product instructions on top of vec_neon.h.
 * Not here:  ops.
 * Laws:      (1) as in dot_avx512.h;  (2) the product knows signed codes only: codes of 8 bits are
 *            taken 128 less (i_signed8), and their sums start from 128 times the sum of the numbers
 *            of x (i_starts). Whole numbers: the sums are those of the definition.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_DOT_NEON_H
#define TT_BACKEND_DOT_NEON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/vec_neon.h"

/* Rows of x of a tile: two sums each, two weights and four of x fill 32 registers. */
#define DOT_TILE  12
#define DOT_TILE2 6
/* Rows of x that are multiplied straight from the stream, and up to which two streams are read side
 * by side. */
#define DOT_STREAM 4
#define DOT_PAIR   2
/* Queries of a tile of attention. */
#define DOT_QUERIES 8
/* Bytes that a stream is asked for ahead. */
#define DOT_AHEAD 4096
/* vec_dot.inc: law 2 holds, and a tile's words are multiplied here. */
#define DOT_SIGNED

typedef int32x4_t vi;

V_INLINE vi i_zero(void)
{
    return vdupq_n_s32(0);
}
V_INLINE vi i_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}
V_INLINE vi i_loadn(const void *p, uint32_t bytes) /* the rest is zero */
{
    uint8_t some[16] = {0};
    if (bytes >= sizeof some)
        return i_load(p);
    __builtin_memcpy(some, p, bytes);
    return i_load(some);
}
V_INLINE void i_store(void *p, vi a)
{
    vst1q_u8(p, vreinterpretq_u8_s32(a));
}
V_INLINE vi i_add(vi a, vi b)
{
    return vaddq_s32(a, b);
}
V_INLINE vi i_join(vi high, vi low) /* 256 * high + low */
{
    return vaddq_s32(vshlq_n_s32(high, 8), low);
}
V_INLINE vi i_low4(vi a)
{
    return vreinterpretq_s32_u8(vandq_u8(vreinterpretq_u8_s32(a), vdupq_n_u8(15)));
}
V_INLINE vi i_high4(vi a)
{
    return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(a), 4));
}
V_INLINE vi i_spread(const int32_t *p) /* one word in every lane */
{
    return vld1q_dup_s32(p);
}
V_INLINE vf i_f32(vi a)
{
    return vcvtq_f32_s32(a);
}
/* acc + for every lane the four products of signed bytes */
V_INLINE vi i_dot(vi acc, vi w, vi s)
{
    return vdotq_s32(acc, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(s));
}
/* The same, done even when nobody wants it. */
V_INLINE vi i_dot_always(vi acc, vi w, vi s)
{
    __asm__ volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(w), "w"(s));
    return acc;
}

/* Unsigned bytes, each 128 less. */
V_INLINE vi i_signed8(vi a)
{
    return veorq_s32(a, vreinterpretq_s32_u8(vdupq_n_u8(128)));
}

/* acc - 128 * the sum of the four signed bytes, for every lane */
V_INLINE vi i_less128_(vi acc, vi s)
{
    return vdotq_s32(acc, vdupq_n_s8(-128), vreinterpretq_s8_s32(s));
}

/* d[n][0] = 128 * the sum of the numbers of column n, in every lane; x: 16 words of N columns. */
V_INLINE void i_starts(vi d[][2], const int32_t *x, int N)
{
    int n = 0;
    if (N <= 2) { /* four or two words of a column at once */
        vi s = i_zero();
        V_UNROLL
        for (int k = 0; k < 16 * N; k += 4)
            s = i_less128_(s, i_load(x + k));
        s = vnegq_s32(s);
        if (N == 1) {
            d[0][0] = vdupq_n_s32(vaddvq_s32(s));
        } else {
            s = vaddq_s32(s, vextq_s32(s, s, 2));
            d[0][0] = vdupq_laneq_s32(s, 0);
            d[1][0] = vdupq_laneq_s32(s, 1);
        }
        return;
    }
    V_UNROLL
    for (; n + 4 <= N; n += 4) {
        vi s = i_zero();
        V_UNROLL
        for (int k = 0; k < 16; k++)
            s = i_less128_(s, i_load(x + k * N + n));
        s = vnegq_s32(s);
        d[n][0] = vdupq_laneq_s32(s, 0);
        d[n + 1][0] = vdupq_laneq_s32(s, 1);
        d[n + 2][0] = vdupq_laneq_s32(s, 2);
        d[n + 3][0] = vdupq_laneq_s32(s, 3);
    }
    V_UNROLL
    for (; n < N; n++) {
        vi s = i_zero();
        V_UNROLL
        for (int k = 0; k < 16; k++)
            s = i_less128_(s, i_spread(x + k * N + n));
        d[n][0] = vnegq_s32(s);
    }
}

/* Two vectors of weights times one lane of x each for four columns. */
V_INLINE void i_four_lanes_(vi d[][2], int8x16_t a, int8x16_t b, int8x16_t x)
{
    d[0][0] = vdotq_laneq_s32(d[0][0], a, x, 0), d[0][1] = vdotq_laneq_s32(d[0][1], b, x, 0);
    d[1][0] = vdotq_laneq_s32(d[1][0], a, x, 1), d[1][1] = vdotq_laneq_s32(d[1][1], b, x, 1);
    d[2][0] = vdotq_laneq_s32(d[2][0], a, x, 2), d[2][1] = vdotq_laneq_s32(d[2][1], b, x, 2);
    d[3][0] = vdotq_laneq_s32(d[3][0], a, x, 3), d[3][1] = vdotq_laneq_s32(d[3][1], b, x, 3);
}

/* d[n][v] = the 16 words of vector v of a panel of two times those of column n of a tile of N. The
 * words of four columns are loaded at once and multiplied from their lanes. Codes of 4 bits go the
 * way of the others: a panel does not say what it holds. */
V_INLINE void i_tile_words(vi d[][2], const int32_t *w, const int32_t *x, int N)
{
    i_starts(d, x, N);
    V_UNROLL
    for (int n = 0; n < N; n++)
        d[n][1] = d[n][0];
    V_UNROLL
    for (int k = 0; k < 16; k++) {
        vi a = i_signed8(i_load(w + 8 * k)), b = i_signed8(i_load(w + 8 * k + 4));
        int n = 0;
        V_UNROLL
        for (; n + 4 <= N; n += 4)
            i_four_lanes_(d + n, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b),
                          vreinterpretq_s8_s32(i_load(x + k * N + n)));
        V_UNROLL
        for (; n < N; n++) {
            vi s = i_spread(x + k * N + n);
            d[n][0] = i_dot(d[n][0], a, s), d[n][1] = i_dot(d[n][1], b, s);
        }
    }
}

/* Pairs of IEEE halves as f32, likewise */
V_INLINE vf i_f16_low(vi a)
{
    return vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(a)));
}
V_INLINE vf i_f16_high(vi a)
{
    return vcvt_f32_f16(vreinterpret_f16_s16(vshrn_n_s32(a, 16)));
}

/* 16 codes of a row as bytes, in order */
V_INLINE vi i_columns(const uint8_t *p, int bits)
{
    if (bits == 8)
        return i_load(p);
    uint8x8_t two = vld1_u8(p), even = vand_u8(two, vdup_n_u8(15)), odd = vshr_n_u8(two, 4);
    return vreinterpretq_s32_u8(vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd)));
}
/* Four rows of 16 bytes become four vectors of 4 columns, a word holding a column of the four. */
V_INLINE void i_weave(vi c[4])
{
    uint8x16_t r[4];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = vreinterpretq_u8_s32(c[i]);
    uint16x8_t a = vreinterpretq_u16_u8(vzip1q_u8(r[0], r[1]));
    uint16x8_t b = vreinterpretq_u16_u8(vzip2q_u8(r[0], r[1]));
    uint16x8_t d = vreinterpretq_u16_u8(vzip1q_u8(r[2], r[3]));
    uint16x8_t e = vreinterpretq_u16_u8(vzip2q_u8(r[2], r[3]));
    c[0] = vreinterpretq_s32_u16(vzip1q_u16(a, d)), c[1] = vreinterpretq_s32_u16(vzip2q_u16(a, d));
    c[2] = vreinterpretq_s32_u16(vzip1q_u16(b, e)), c[3] = vreinterpretq_s32_u16(vzip2q_u16(b, e));
}

/* Word j of vector i goes to word i of vector j. */
V_INLINE void i_exchange(vi w[4])
{
    int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(w[0], w[1]));
    int64x2_t b = vreinterpretq_s64_s32(vtrn2q_s32(w[0], w[1]));
    int64x2_t c = vreinterpretq_s64_s32(vtrn1q_s32(w[2], w[3]));
    int64x2_t d = vreinterpretq_s64_s32(vtrn2q_s32(w[2], w[3]));
    w[0] = vreinterpretq_s32_s64(vtrn1q_s64(a, c)), w[1] = vreinterpretq_s32_s64(vtrn1q_s64(b, d));
    w[2] = vreinterpretq_s32_s64(vtrn2q_s64(a, c)), w[3] = vreinterpretq_s32_s64(vtrn2q_s64(b, d));
}

/* The 64 signed bytes of a group, four to a word. */
typedef struct i_codes {
    vi v[4];
} i_codes;

/* 16 whole numbers as bytes, in order */
V_INLINE int8x16_t i_pack_quarter_(const vf *x)
{
    int16x8_t a = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(x[0])), vcvtnq_s32_f32(x[1]));
    int16x8_t b = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(x[2])), vcvtnq_s32_f32(x[3]));
    return vmovn_high_s16(vmovn_s16(a), b);
}

/* From 64 whole numbers of -128..127; `nibbles`: the even ones before the odd ones. */
V_INLINE i_codes i_pack(const vf x[16], bool nibbles)
{
    int8x16_t q[4];
    i_codes c;
    V_UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = i_pack_quarter_(x + 4 * i);
    V_UNROLL
    for (int i = 0; i < 2; i++) {
        int8x16_t even = vuzp1q_s8(q[2 * i], q[2 * i + 1]), odd = vuzp2q_s8(q[2 * i], q[2 * i + 1]);
        c.v[nibbles ? i : 2 * i] = vreinterpretq_s32_s8(nibbles ? even : q[2 * i]);
        c.v[nibbles ? 2 + i : 2 * i + 1] = vreinterpretq_s32_s8(nibbles ? odd : q[2 * i + 1]);
    }
    return c;
}

V_INLINE int32_t i_sum(i_codes c)
{
    const vi ones = vreinterpretq_s32_s8(vdupq_n_s8(1));
    vi s = i_zero();
    V_UNROLL
    for (int i = 0; i < 4; i++)
        s = i_dot(s, ones, c.v[i]);
    return vaddvq_s32(s);
}

V_INLINE void i_put(int32_t out[16], i_codes c)
{
    V_UNROLL
    for (int i = 0; i < 4; i++)
        i_store(out + 4 * i, c.v[i]);
}

/* Word k of column j goes to to[k * step + j], four columns. */
V_INLINE void i_put4(int32_t *to, size_t step, const i_codes c[4])
{
    V_UNROLL
    for (int h = 0; h < 4; h++) {
        vi w[4] = {c[0].v[h], c[1].v[h], c[2].v[h], c[3].v[h]};
        i_exchange(w);
        V_UNROLL
        for (int k = 0; k < 4; k++)
            i_store(to + (4 * h + k) * step, w[k]);
    }
}

/* ---- attention, as in dot_avx512.h, but for the signs ---- */

#define DOT_FIRST8 128
V_INLINE vi i_first8(vi a)
{
    return i_signed8(a);
}
V_INLINE vi i_centered(vi a, int bits)
{
    return bits == 8 ? i_signed8(a)
                     : vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(a), vdupq_n_s8(8)));
}
V_INLINE vi i_times256(vi a)
{
    return vshlq_n_s32(a, 8);
}
typedef int32x4_t i_four;
V_INLINE i_four i_four_of(const int32_t *p)
{
    return vld1q_s32(p);
}
V_INLINE vi i_dot_word(vi acc, vi codes, i_four x, int j)
{
    int8x16_t a = vreinterpretq_s8_s32(codes), b = vreinterpretq_s8_s32(x);
    switch (j) {
    case 0:
        return vdotq_laneq_s32(acc, a, b, 0);
    case 1:
        return vdotq_laneq_s32(acc, a, b, 1);
    case 2:
        return vdotq_laneq_s32(acc, a, b, 2);
    default:
        return vdotq_laneq_s32(acc, a, b, 3);
    }
}
V_INLINE vi i_weigh_word(vi acc, i_four weights, int j, vi values)
{
    return i_dot_word(acc, values, weights, j);
}
/* Weights are signed bytes here: high = (number + 128) / 256, as with activations. */
#define DOT_WEIGHT(P) ((P) == 1 ? 127.0f : 127.0f * 256)
V_INLINE void i_pack_weights(i_codes out[2], const vf w[16], int P)
{
    V_UNROLL
    for (int i = 0; i < 4; i++) {
        if (P == 1) {
            out[0].v[i] = vreinterpretq_s32_s8(i_pack_quarter_(w + 4 * i));
            continue;
        }
        const vf *x = w + 4 * i;
        const int16x8_t half = vdupq_n_s16(128);
        int16x8_t a = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(x[0])), vcvtnq_s32_f32(x[1]));
        int16x8_t b = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(x[2])), vcvtnq_s32_f32(x[3]));
        int8x8_t high = vshrn_n_s16(vaddq_s16(a, half), 8);
        out[0].v[i] = vreinterpretq_s32_s8(vshrn_high_n_s16(high, vaddq_s16(b, half), 8));
        out[1].v[i] = vreinterpretq_s32_s8(vmovn_high_s16(vmovn_s16(a), b));
    }
}

/* Largest magnitude; more than every finite number when there is a NaN. */
V_INLINE float i_most(const vf x[16])
{
    uint32x4_t top = vdupq_n_u32(0);
    V_UNROLL
    for (int i = 0; i < 16; i++)
        top = vmaxq_u32(top, vreinterpretq_u32_f32(vabsq_f32(x[i])));
    uint32_t bits = vmaxvq_u32(top);
    float most;
    __builtin_memcpy(&most, &bits, sizeof most);
    return bits < 0x7f800000 ? most : __builtin_inff();
}

#endif
