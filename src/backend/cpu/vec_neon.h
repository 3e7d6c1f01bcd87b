/* vec_neon.h: four f32 lanes, under the names that the bodies in vec_*.inc use.
 *
 * Owns:      loads, stores, conversions, codes unpacked, sums over lanes; NEON as every AArch64
 *            machine has it.
 * Not here:  ops.
 * Laws:      (1) everything is static and always inlined, as in vec_avx2.h;  (2) v_sum and v_sums
 *            add the lanes in the same order.
 * Threads:   pure functions.
 */
#ifndef TT_BACKEND_VEC_NEON_H
#define TT_BACKEND_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#define V_INLINE static inline __attribute__((always_inline))
#define V_UNROLL _Pragma("GCC unroll 16")

enum {
    VL = 4, /* lanes */
    VR = 8, /* rows that a matrix kernel works on at once; v_sums takes this many */
    VT = 3, /* rows of x beside them: VR * VT accumulators */
    VC = 4, /* vectors of a column block in axpy-shaped kernels */
    VQ = 4  /* queries that share a key in attention */
};

typedef float32x4_t vf;

V_INLINE vf v_load(const float *p)
{
    return vld1q_f32(p);
}
V_INLINE vf v_loadn(const float *p, uint32_t n) /* n <= 4 */
{
    const vf none = vdupq_n_f32(0);
    switch (n) {
    case 0:
        return none;
    case 1:
        return vld1q_lane_f32(p, none, 0);
    case 2:
        return vcombine_f32(vld1_f32(p), vget_low_f32(none));
    case 3:
        return vld1q_lane_f32(p + 2, vcombine_f32(vld1_f32(p), vget_low_f32(none)), 2);
    default:
        return vld1q_f32(p);
    }
}
V_INLINE void v_store(float *p, vf a)
{
    vst1q_f32(p, a);
}
V_INLINE void v_storen(float *p, vf a, uint32_t n)
{
    if (n >= VL) {
        vst1q_f32(p, a);
        return;
    }
    if (n >= 2)
        vst1_f32(p, vget_low_f32(a));
    if (n == 1)
        vst1q_lane_f32(p, a, 0);
    if (n == 3)
        vst1q_lane_f32(p + 2, a, 2);
}
V_INLINE vf v_set1(float a)
{
    return vdupq_n_f32(a);
}
V_INLINE vf v_zero(void)
{
    return vdupq_n_f32(0);
}
V_INLINE vf v_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}
V_INLINE vf v_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}
V_INLINE vf v_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}
V_INLINE vf v_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}
V_INLINE vf v_min(vf a, vf b)
{
    return vminq_f32(a, b);
} /* NaN when one is NaN */
V_INLINE vf v_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}
V_INLINE vf v_abs(vf a)
{
    return vabsq_f32(a);
}
V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
} /* a * b + c */
V_INLINE vf v_round(vf a)
{
    return vrndnq_f32(a);
}
V_INLINE vf v_floor(vf a)
{
    return vrndmq_f32(a);
}
V_INLINE float v_lane0(vf a)
{
    return vgetq_lane_f32(a, 0);
}
/* a in the first n lanes, b in the others */
V_INLINE vf v_pick(uint32_t n, vf a, vf b)
{
    static const uint32_t lane[VL] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_u32(vld1q_u32(lane), vdupq_n_u32(n)), a, b);
}

V_INLINE uint16x4_t v_load_u16n_(const uint16_t *p, uint32_t n)
{
    uint16_t h[VL] = {0};
    for (uint32_t i = 0; i < n; i++)
        h[i] = p[i];
    return vld1_u16(h);
}
V_INLINE vf v_bf16_(uint16x4_t h)
{
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}
V_INLINE vf v_load_bf16(const uint16_t *p)
{
    return v_bf16_(vld1_u16(p));
}
V_INLINE vf v_loadn_bf16(const uint16_t *p, uint32_t n)
{
    return v_bf16_(v_load_u16n_(p, n));
}
V_INLINE vf v_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
V_INLINE vf v_loadn_f16(const uint16_t *p, uint32_t n)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(v_load_u16n_(p, n)));
}
V_INLINE void v_storen_f16(uint16_t *p, vf a, uint32_t n)
{
    uint16_t h[VL];
    vst1_u16(h, vreinterpret_u16_f16(vcvt_f16_f32(a)));
    for (uint32_t i = 0; i < n; i++)
        p[i] = h[i];
}
V_INLINE float v_f16(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

/* Four codes as f32. */
V_INLINE vf v_codes_(uint32_t word)
{
    uint16x8_t wide = vmovl_u8(vcreate_u8(word));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}
/* `bits` bits of every word from `shift` on, as f32 */
V_INLINE vf v_code(const uint32_t *words, int shift, int bits)
{
    uint32x4_t w = vshlq_u32(vld1q_u32(words), vdupq_n_s32(-shift));
    return vcvtq_f32_u32(vandq_u32(w, vdupq_n_u32((1u << bits) - 1)));
}
V_INLINE vf v_load_u8(const uint8_t *p)
{
    uint32_t word;
    __builtin_memcpy(&word, p, 4);
    return v_codes_(word);
}
/* Whole numbers 0..255 as bytes. */
V_INLINE void v_store_u8(uint8_t *p, vf a)
{
    uint16x4_t h = vqmovun_s32(vcvtnq_s32_f32(a));
    uint8x8_t b = vqmovn_u16(vcombine_u16(h, h));
    uint32_t word = vget_lane_u32(vreinterpret_u32_u8(b), 0);
    __builtin_memcpy(p, &word, 4);
}

/* Keeps a value in a register: otherwise it may be loaded again for every use. */
V_INLINE vf v_keep(vf a)
{
    __asm__("" : "+w"(a));
    return a;
}

/* Four 4-bit codes, two bytes, in natural order. */
V_INLINE vf v_load_q4(const uint8_t *p)
{
    static const int32_t down[VL] = {0, -4, -8, -12};
    uint16_t half;
    __builtin_memcpy(&half, p, 2);
    uint32x4_t n = vshlq_u32(vdupq_n_u32(half), vld1q_s32(down));
    return vcvtq_f32_u32(vandq_u32(n, vdupq_n_u32(15)));
}
/* Sum of the lanes: (0 + 1) + (2 + 3). */
V_INLINE float v_sum(vf a)
{
    a = vpaddq_f32(a, a);
    return vgetq_lane_f32(vpaddq_f32(a, a), 0);
}
/* out[i] = v_sum(a[i]), VR of them. */
V_INLINE void v_sums(float *out, const vf *a)
{
    V_UNROLL
    for (int i = 0; i < VR; i += 4)
        v_store(out + i, vpaddq_f32(vpaddq_f32(a[i], a[i + 1]), vpaddq_f32(a[i + 2], a[i + 3])));
}

V_INLINE float v_top(vf a)
{
    return vmaxvq_f32(a);
}
V_INLINE float v_low(vf a)
{
    return vminvq_f32(a);
}

/* a * 2^n, n whole and within -252..254: in two steps, so that a subnormal result is rounded once.
 */
V_INLINE vf v_pow2(vf a, vf n)
{
    int32x4_t whole = vcvtnq_s32_f32(n), half = vshrq_n_s32(whole, 1);
    int32x4_t rest = vsubq_s32(whole, half), one = vdupq_n_s32(127);
    vf x = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, one), 23));
    vf y = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, one), 23));
    return v_mul(v_mul(a, x), y);
}

/* tap[j] lane i = w[4 * i + j] */
V_INLINE void v_taps(const float *w, vf tap[4])
{
    float32x4x4_t all = vld4q_f32(w);
    V_UNROLL
    for (int j = 0; j < 4; j++)
        tap[j] = all.val[j];
}

#endif
