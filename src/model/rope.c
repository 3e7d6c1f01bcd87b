#include "model/rope.h"

#include <math.h>

/* Dimension whose wave makes `turns` rotations over the original context. */
static double correction_dim(double turns, double dims, double theta, double context)
{
    return dims * log(context / (turns * 2.0 * M_PI)) / (2.0 * log(theta));
}

uint32_t tt_rope_rotary(const tt_arch *arch)
{
    return (uint32_t)(arch->head_dim * arch->partial_rotary + 0.5) & ~1u;
}

void tt_rope_init(tt_rope *rope, const tt_arch *arch)
{
    uint32_t R = tt_rope_rotary(arch);
    rope->rotary = R;
    rope->factor = 1.0;
    for (uint32_t i = 0; i < R / 2; i++)
        rope->frequency[i] = pow(arch->rope_theta, -2.0 * i / R);
    if (arch->yarn_factor <= 1.0 || R == 0)
        return;
    double low = floor(correction_dim(32.0, R, arch->rope_theta, arch->yarn_original_context));
    double high = ceil(correction_dim(1.0, R, arch->rope_theta, arch->yarn_original_context));
    low = low < 0.0 ? 0.0 : low;
    high = high > R - 1.0 ? R - 1.0 : high;
    double width = high - low < 1e-3 ? 1e-3 : high - low;
    for (uint32_t i = 0; i < R / 2; i++) {
        double ramp = (i - low) / width;
        ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
        rope->frequency[i] =
            rope->frequency[i] / arch->yarn_factor * ramp + rope->frequency[i] * (1.0 - ramp);
    }
    rope->factor = 0.1 * log(arch->yarn_factor) + 1.0;
}

void tt_rope_rows(const tt_rope *rope, float *cosine, float *sine, uint32_t pos0, uint32_t T)
{
    tt_rope_rows_every(rope, cosine, sine, pos0, 1, T);
}

void tt_rope_rows_every(const tt_rope *rope, float *cosine, float *sine, uint32_t pos0,
                        uint32_t step, uint32_t n)
{
    uint32_t half = rope->rotary / 2;
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t i = 0; i < half; i++) {
            double angle = (double)(pos0 + t * step) * rope->frequency[i];
            cosine[(size_t)t * half + i] = (float)(cos(angle) * rope->factor);
            sine[(size_t)t * half + i] = (float)(sin(angle) * rope->factor);
        }
    }
}
