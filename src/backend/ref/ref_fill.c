/* The lowest level: every entry of the table by its definition. */
#include "backend/ref/ref_math.h"

void tt_ref_fill(tt_kernels *k)
{
    *k = (tt_kernels){
        .level = "ref",
        .embed = tt_ref_embed,
        .matmul = tt_ref_matmul,
        .swiglu = tt_ref_swiglu,
        .add = tt_ref_add,
        .axpy = tt_ref_axpy,
        .largest = tt_largest,
        .rms_norm = tt_ref_rms_norm,
        .conv_silu = tt_ref_conv_silu,
        .delta_qk_norm = tt_ref_delta_qk_norm,
        .delta_gates = tt_ref_delta_gates,
        .delta_recurrent = tt_ref_delta_recurrent,
        .delta_chunked = tt_ref_delta_chunked,
        .gated_norm = tt_ref_gated_norm,
        .norm_rope = tt_ref_norm_rope,
        .kv_append = tt_ref_kv_append,
        .attend = tt_ref_attend,
        .sigmoid_gate = tt_ref_sigmoid_gate,
        .route = tt_ref_route,
        .moe_add = tt_ref_moe_add,
        .silu_scaled = tt_ref_silu_scaled,
        .mix_streams = tt_ref_mix_streams,
        .ngram_gate = tt_ref_ngram_gate,
        .conv_dilated = tt_ref_conv_dilated,
        .pick_blocks = tt_ref_pick_blocks,
    };
}
