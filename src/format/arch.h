/* arch.h: the complete, normalised architecture of a model, as config.json gives it and as
 * manifests carry it.
 *
 * Owns:      the record, its checks, its JSON form in the manifest.
 * Not here:  tensor names (repack/tensor_plan.h, model/weights.h), sizes of a run (model/plan.h).
 * Laws:      (1) every field of a family is explicit in a manifest, nothing is inferred when one
 *            is read;  (2) every number is inside limits.h and consistent (heads divide, layer
 *            kinds count) before it is used.
 * Threads:   plain data.
 */
#ifndef TT_FORMAT_ARCH_H
#define TT_FORMAT_ARCH_H

#include "base/json.h"
#include "base/limits.h"

typedef enum tt_family {
    TT_FAMILY_QWEN3_5 = 1,
    TT_FAMILY_QWEN3_5_MOE = 2,
    TT_FAMILY_QWEN4_EXP = 3
} tt_family;
typedef enum tt_layer_kind { TT_LAYER_LINEAR = 0, TT_LAYER_FULL = 1 } tt_layer_kind;

typedef struct tt_arch {
    tt_family family;
    uint32_t hidden_size; /* H */
    uint32_t n_layers;    /* L */
    uint32_t vocab_size;
    uint32_t max_position; /* native context */
    uint8_t layer_kind[TT_MAX_LAYERS];
    /* full attention */
    uint32_t n_heads, n_kv_heads, head_dim; /* Hq, Hkv, d */
    /* gated DeltaNet */
    uint32_t lin_key_heads, lin_value_heads, lin_key_dim, lin_value_dim,
        conv_kernel; /* Hk, Hv, dk, dv, 4 */
    /* MoE; n_experts 0 for dense families */
    uint32_t n_experts, top_k, moe_intermediate, shared_intermediate; /* E, K, F, Fs */
    uint32_t intermediate; /* dense MLP width; 0 for MoE */
    /* RoPE */
    double rope_theta;
    double
        partial_rotary; /* share of head_dim that is rotated; rotary dims = head_dim * this, even */
    double yarn_factor; /* 1: none */
    uint32_t yarn_original_context; /* 0 without YaRN */
    double rms_eps;
    bool tied_head;   /* head is the embedding matrix */
    bool norm_offset; /* body norms are stored as w of (1 + w); false: stored as the whole factor */
    bool mtp_norm_offset;  /* the same for mtp.* */
    uint32_t n_mtp_layers; /* 0: no draft in this install */
    /* qwen4_exp: streams of the residual, the indexer of its sparse attention, the n-gram table */
    uint32_t streams, mix_rank; /* S; rank of the mixing matrices */
    uint32_t indexer_heads, indexer_dim, indexer_budget, indexer_block; /* tokens: budget, block */
    uint32_t ngram_layer;                                               /* from 0 */
    uint32_t ngram_size, ngram_heads; /* tokens of the longest; heads a length */
    uint32_t ngram_dim;               /* of all heads' rows together */
    uint32_t ngram_rows, ngram_eos;   /* of the table; the id that ends a text */
} tt_arch;

/* Reads a checkpoint's config.json tree (`file` for errors): text_config or root, every spelling of
 * model-math 1. Fields that only the tensors tell (norm_offset, mtp) are left at offset = true and
 * n_mtp_layers as configured. */
TT_MUST_CHECK tt_status tt_arch_from_config(const json_t *config, const char *file, tt_arch *out,
                                            tt_error *err);
/* The first n primes from `base` on: rows of the n-gram heads (qwen4_exp). */
void tt_arch_ngram_sizes(uint32_t base, uint32_t n, uint32_t *sizes);
/* Manifest object <-> record. Keys are the names of the members above, "family" as tt_family_name
 * has it, "layer_kind" an array of "linear" and "full"; the four members of MoE models stand only
 * in those, "intermediate" only in dense ones, those of qwen4_exp only there. Reading demands every
 * key of the family and refuses unknown ones. */
TT_MUST_CHECK tt_status tt_arch_to_json(const tt_arch *arch, json_t **out, tt_error *err);
TT_MUST_CHECK tt_status tt_arch_from_json(const json_t *obj, const char *file, tt_arch *out,
                                          tt_error *err);
/* All range and consistency checks; both readers end with it. */
TT_MUST_CHECK tt_status tt_arch_check(const tt_arch *arch, const char *file, tt_error *err);
const char *tt_family_name(tt_family f); /* "qwen3_5_moe" */

/* Width of the residual: H, or S of them. */
static inline uint32_t tt_arch_residual(const tt_arch *a)
{
    return a->streams > 0 ? a->streams * a->hidden_size : a->hidden_size;
}
/* Rows of the n-gram table that a token reads, and values of one. */
static inline uint32_t tt_arch_ngrams(const tt_arch *a)
{
    return a->streams > 0 ? (a->ngram_size - 1) * a->ngram_heads : 0;
}
static inline uint32_t tt_arch_ngram_cols(const tt_arch *a)
{
    return a->streams > 0 ? a->ngram_dim / tt_arch_ngrams(a) : 0;
}
static inline bool tt_arch_is_moe(const tt_arch *a)
{
    return a->n_experts > 0;
}
static inline uint32_t tt_arch_key_dim(const tt_arch *a)
{
    return a->lin_key_heads * a->lin_key_dim;
}
static inline uint32_t tt_arch_value_dim(const tt_arch *a)
{
    return a->lin_value_heads * a->lin_value_dim;
}
static inline uint32_t tt_arch_conv_dim(const tt_arch *a)
{
    return 2 * tt_arch_key_dim(a) + tt_arch_value_dim(a);
}

#endif
