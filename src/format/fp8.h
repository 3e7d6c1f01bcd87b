/* fp8.h: the eight-bit floats of checkpoints.
 *
 * Owns:      the meaning of FP8 E4M3.
 * Not here:  factors of blocks (repack/convert.h); installs hold no fp8.
 * Laws:      no infinities: 0x7f and 0xff are NaN, the largest value is 448.
 * Threads:   pure functions.
 */
#ifndef TT_FORMAT_FP8_H
#define TT_FORMAT_FP8_H

#include <stdint.h>

float tt_f8_e4m3_to_f32(uint8_t v);

#endif
