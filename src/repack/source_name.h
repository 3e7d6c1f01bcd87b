/* source_name.h: takes a published tensor name apart.
 *
 * Owns:      the prefixes of text body, head and draft; the names of vision tensors; the spellings
 *            of routed experts and of the n-gram table's shards.
 * Not here:  which tensors a model has (inventory.h).
 * Laws:      numbers are decimal without leading zeros; anything else is not an expert's name.
 * Threads:   pure functions.
 */
#ifndef TT_REPACK_SOURCE_NAME_H
#define TT_REPACK_SOURCE_NAME_H

#include "base/limits.h"
#include "base/status.h"

/* The canonical name inside `name`, or NULL for a tensor outside the text model. */
const char *tt_source_canonical(const char *name);
bool tt_source_is_vision(const char *name);

typedef enum tt_expert_form {
    TT_EXPERT_FUSED_GATE_UP, /* experts.gate_up_proj [E, 2F, H] */
    TT_EXPERT_FUSED_DOWN,    /* experts.down_proj [E, H, F] */
    TT_EXPERT_STACKED,       /* switch_mlp.<mat>_proj.weight [E, rows, cols] */
    TT_EXPERT_SINGLE         /* experts.<id>.<mat>_proj.weight [rows, cols] */
} tt_expert_form;

typedef struct tt_expert_name {
    bool mtp;
    uint32_t layer;
    tt_expert_form form;
    uint32_t expert; /* SINGLE */
    unsigned mat;    /* TT_MAT_*; STACKED and SINGLE */
} tt_expert_name;

/* True for the canonical name of routed experts' weights. */
bool tt_source_expert(const char *canonical, tt_expert_name *out);
/* True for a shard of the n-gram table, "layers.<n>.ple.ple_embedding.ngram_embedding.shard_<i>.
 * weight", or the whole of it, without ".shard_<i>", which is shard 0. */
bool tt_source_ngram_shard(const char *canonical, uint32_t *layer, uint32_t *shard);
/* The one factor of an fp8 table, "layers.<n>.ple.ple_embedding.ngram_embedding.weight_scale". */
bool tt_source_ngram_scale(const char *canonical);
/* Layer number of "layers.<n>.…", or -1. */
int64_t tt_source_layer(const char *canonical);

#endif
