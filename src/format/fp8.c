#include "format/fp8.h"

#include <string.h>

float tt_f8_e4m3_to_f32(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80u) << 24, exp = v >> 3 & 15u, man = v & 7u, u;
    if (exp == 15 && man == 7) {
        u = sign | 0x7fc00000u;
    } else if (exp != 0) {
        u = sign | (exp + 120) << 23 | man << 20;
    } else if (man == 0) {
        u = sign;
    } else {
        /* Subnormals are multiples of 2^-9: shift the leading bit into place. */
        uint32_t shift = (uint32_t)__builtin_clz(man) - 28;
        u = sign | (121 - shift) << 23 | (man << shift & 7u) << 20;
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}
