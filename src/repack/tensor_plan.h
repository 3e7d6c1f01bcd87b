/* tensor_plan.h: which tensors of a checkpoint become which parts of an install.
 *
 * Owns:      prefixes and spellings of published checkpoints, the three layouts of experts, the
 *            order of the n-gram table's shards, the checks of names, types and shapes, the width
 * of every destination, the layouts.
 * Not here:  reading values (convert.h), except norms and a doubled head (norms.h); files (emit.h).
 * Laws:      (1) experts are filed by id, never by order of arrival;  (2) an unknown, doubled,
 *            missing or misshapen tensor is an error with its name;  (3) what is dropped or kept
 *            back is counted and told.
 * Threads:   read-only after creation.
 */
#ifndef TT_REPACK_TENSOR_PLAN_H
#define TT_REPACK_TENSOR_PLAN_H

#include "format/install.h"
#include "format/safetensors.h"
#include "repack/inventory.h"
#include "repack/mlx_config.h"

/* What a conversion tells while it runs; every function may be NULL. Called on the calling thread.
 */
typedef enum tt_note_kind {
    TT_NOTE_STAGE,  /* a step begins */
    TT_NOTE_INFO,   /* something worth knowing */
    TT_NOTE_WARNING /* something is missing or was left out */
} tt_note_kind;

typedef struct tt_repack_events {
    void *ctx;
    bool (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes; false: stop */
    void (*note)(void *ctx, tt_note_kind kind, const char *text);
} tt_repack_events;

void tt_note(const tt_repack_events *ev, tt_note_kind kind, const char *fmt, ...) TT_PRINTF(3, 4);

#define TT_FP8_BLOCK 128u

/* Rows of a checkpoint's tensor. Quantized input has scales and biases. Fp8 has blocks: one factor
 * for every 128 x 128 values, of each matrix of a stack apart. */
typedef struct tt_piece {
    const tt_st_tensor *values, *scales, *biases, *blocks;
    uint64_t first_row;
} tt_piece;

/* Whether it goes into an install as it is. */
static inline bool tt_piece_copied(const tt_piece *p, tt_dtype becomes)
{
    bool affine = becomes == TT_DTYPE_Q4 || becomes == TT_DTYPE_Q8;
    return p->scales != NULL || (!affine && p->blocks == NULL);
}

/* The n-gram table: rows of all shards, in the order of their numbers. */
typedef struct tt_table_plan {
    tt_ngram_layout layout; /* rows 0: none */
    tt_piece *shard;        /* [n_shards] */
    uint32_t n_shards;
} tt_table_plan;

enum { TT_MAT_GATE, TT_MAT_UP, TT_MAT_DOWN, TT_MATS };

typedef struct tt_repack_plan {
    tt_arch arch;
    tt_inventory inventory;
    bool quantized_input;
    tt_index weights, mtp;                 /* laid out; mtp.count 0 without draft */
    tt_piece *weights_src, *mtp_src;       /* one for each entry */
    tt_expert_layout experts, mtp_experts; /* n_experts 0: none */
    tt_table_plan ngrams;
    tt_piece *expert_src;                  /* [(n_layers + n_mtp_layers) x n_experts x TT_MATS] */
    uint64_t vision_tensors, vision_bytes; /* dropped */
    uint64_t kept_tensors;                 /* width asked, but 64 does not divide the rows */
    unsigned conv_raw, conv_shifted;       /* conv1d tensors of either form (norms.h) */
} tt_repack_plan;

/* Plans the conversion of an opened checkpoint. Of a remote one no value is read: the form of its
 * norm weights is a guess until tt_repack_plan_judge. `config` is its config.json, `file` names
 * that in errors. */
TT_MUST_CHECK tt_status tt_repack_plan_create(const tt_safetensors *st, const json_t *config,
                                              const char *file, const tt_policy *policy,
                                              const tt_repack_events *ev, tt_repack_plan *out,
                                              tt_error *err);
/* Decides about the norm weights of a remote checkpoint by their values, once `st` can read them.
 */
TT_MUST_CHECK tt_status tt_repack_plan_judge(tt_repack_plan *plan, const tt_safetensors *st,
                                             const char *file, const tt_repack_events *ev,
                                             tt_error *err);
void tt_repack_plan_free(tt_repack_plan *plan);

static inline size_t tt_repack_plan_expert_layers(const tt_repack_plan *p)
{
    return tt_arch_is_moe(&p->arch) ? (size_t)p->arch.n_layers + p->arch.n_mtp_layers : 0;
}
/* The source of one matrix of one expert; `layer` counts draft layers after the others. */
static inline tt_piece *tt_repack_plan_expert(const tt_repack_plan *p, size_t layer,
                                              uint32_t expert, unsigned mat)
{
    return &p->expert_src[(layer * p->arch.n_experts + expert) * TT_MATS + mat];
}

#endif
