#include "format/dtype.h"

float tt_f16_to_f32(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, exp = v >> 10 & 31u, man = v & 0x3ffu, u;
    if (exp == 31) {
        u = sign | 0x7f800000u | man << 13;
        if (man != 0)
            u |= 0x400000u; /* a NaN leaves quiet, as the vector instructions do it */
    } else if (exp != 0) {
        u = sign | (exp + 112) << 23 | man << 13;
    } else if (man == 0) {
        u = sign;
    } else {
        /* Every subnormal half is a normal float: shift the leading bit into place. */
        uint32_t shift = (uint32_t)__builtin_clz(man) - 21;
        u = sign | (113 - shift) << 23 | (man << shift & 0x3ffu) << 13;
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t tt_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    uint32_t mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x1ffu));
    if (mag >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (mag >= 0x38800000u) { /* normal: round, a carry walks into the exponent by itself */
        uint32_t h = mag - 0x38000000u;
        return (uint16_t)(sign | (h + 0xfffu + (h >> 13 & 1)) >> 13);
    }
    if (mag < 0x33000000u) /* below half of the least subnormal, 2^-25 */
        return sign;
    uint32_t shift = 126 - (mag >> 23), man = (mag & 0x7fffffu) | 0x800000u;
    uint32_t half = 1u << (shift - 1), kept = man >> shift, rest = man & ((1u << shift) - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    return (uint16_t)(sign | kept);
}

const char *tt_dtype_name(tt_dtype t)
{
    static const char *const names[TT_DTYPE_COUNT] = {"F32", "F16", "BF16", "Q4", "Q8", "I64"};
    return (unsigned)t < TT_DTYPE_COUNT ? names[t] : "?";
}

uint32_t tt_dtype_bytes(tt_dtype t)
{
    switch (t) {
    case TT_DTYPE_F32:
        return 4;
    case TT_DTYPE_F16:
    case TT_DTYPE_BF16:
        return 2;
    case TT_DTYPE_I64:
        return 8;
    default:
        return 0;
    }
}
