/* mini_checkpoint.h: a checkpoint of a few kilobytes in any of the published spellings.
 *
 * Owns:      its config.json, tensors with values that follow from canonical name and index alone.
 * Not here:  what becomes of it.
 * Laws:      (1) every spelling holds the same weights, so that installs of them can be compared
 *            byte for byte;  (2) values are exact in bf16.
 * Threads:   one.
 */
#ifndef TT_TEST_MINI_CHECKPOINT_H
#define TT_TEST_MINI_CHECKPOINT_H

#include "format/safetensors.h"

enum {
    MINI_HIDDEN = 64,
    MINI_VOCAB = 64,
    MINI_EXPERTS = 3,
    MINI_WIDTH = 64, /* of experts, shared expert and dense MLP */
    MINI_LAYERS = 2  /* one linear, one full */
};

typedef enum mini_layout { MINI_FUSED, MINI_SINGLE, MINI_STACKED } mini_layout;

/* A tensor about to be written; the edit function may change it or leave it out. */
typedef struct mini_tensor {
    char name[256];      /* as the checkpoint spells it */
    char canonical[256]; /* what its values follow from */
    tt_st_dtype dtype;   /* BF16, F16 or F32; others are filled with zeros */
    uint32_t rank;
    uint64_t shape[8];
    float offset; /* added to every value */
    bool skip;
    int64_t bad_at; /* index that becomes NaN, -1: none */
    bool coded;     /* values that fp8 with block factors holds exactly */
    bool factors;   /* the factors of such a tensor, whose shape is below */
    uint32_t of_rank;
    uint64_t of_shape[8];
} mini_tensor;

typedef struct mini_options {
    bool dense, tied, mtp, vision, tokenizer, template;
    mini_layout layout;
    unsigned prefix;          /* 0 model.language_model., 1 language_model.model., 2 model. */
    bool converted;           /* norms shifted by one, conv1d as [C, K, 1] */
    bool mtp_converted;       /* norms of the draft shifted by one */
    uint32_t width;           /* 0: MINI_WIDTH */
    tt_st_dtype dtype;        /* 0 is F32: say BF16 */
    bool coded;               /* projections have values that fp8 holds exactly */
    bool fp8;                 /* with coded: they are fp8 with _scale_inv */
    bool draft_file;          /* the draft in mtp.safetensors, which no index names */
    unsigned shards;          /* 0 or 1: model.safetensors alone */
    const char *quantization; /* JSON of the config's "quantization", or NULL */
    void (*edit)(void *ctx, mini_tensor *t);
    void *ctx;
    mini_tensor extras[2]; /* tensors more, written at the end when they have a name */
} mini_options;

/* Options of the plain form: MoE, bf16, fused experts, no draft. */
mini_options mini_default(void);
/* Writes into `dir`, which exists. Ends the test on failure. */
void mini_write(const char *dir, const mini_options *o);
/* The value of a tensor at an index; norms of raw checkpoints are these, of converted ones these
 * plus one. */
float mini_value(const char *canonical, uint64_t index);

#endif
