/* weights.h: the resident weights of a model, by field.
 *
 * Owns:      the memory of the payload of model_weights.bin or mtp_weights.bin, and the f32
 *            copies of vectors (norms with the 1 folded in, convolution taps, A_log, dt_bias).
 * Not here:  routed experts (io/expert_cache.h), the file format (format/install.h).
 * Laws:      (1) every field is bound once, by name, with its shape and type checked; a tensor
 *            that is missing, extra or misshapen is refused by name before any memory is taken;
 *            (2) no look-up by string after load;  (3) each tensor's own entry says its width;
 *            (4) loading leaves nothing in the page cache that was not there.
 * Threads:   read-only after load.
 */
#ifndef TT_MODEL_WEIGHTS_H
#define TT_MODEL_WEIGHTS_H

#include "backend/backend.h"
#include "format/install.h"

/* Symbols as in docs/model.md: H hidden, Hq/Hkv heads, d head width, C conv channels, E experts, F
 * and Fs widths. */
typedef struct tt_attention_weights {
    tt_mat q;                     /* [Hq * 2d, H]: rows of a head are d of query, d of gate */
    tt_mat k, v;                  /* [Hkv * d, H] */
    tt_mat o;                     /* [H, Hq * d] */
    const float *q_norm, *k_norm; /* [d], whole factors */
    /* qwen4_exp: index queries and the index key, di wide */
    tt_mat index_qk;                          /* [(Hi + 1) * di, H] */
    const float *index_q_norm, *index_k_norm; /* [di] */
} tt_attention_weights;

typedef struct tt_delta_weights {
    tt_mat qkv;                   /* [C, H] */
    tt_mat z;                     /* [Hv * dv, H] */
    tt_mat b, a;                  /* [Hv, H] */
    tt_mat out;                   /* [H, Hv * dv] */
    const float *conv;            /* [C, 4] */
    const float *A_log, *dt_bias; /* [Hv] */
    const float *norm;            /* [dv] */
} tt_delta_weights;

typedef struct tt_mlp_weights {
    tt_mat gate, up; /* [Fs, H] */
    tt_mat down;     /* [H, Fs] */
} tt_mlp_weights;

/* qwen4_exp, S streams: a gated residual and the n-gram block. */
typedef struct tt_mix_weights {
    const float *norm; /* [S, H], whole factors */
    tt_mat down;       /* [rank, S * H] */
    tt_mat up;         /* [S * H, rank] */
    tt_mat inject;     /* [S, S * H]; the last one has none */
} tt_mix_weights;

typedef struct tt_ngram_weights {
    tt_mat key;                                     /* [S * H, D] */
    tt_mat value;                                   /* [H, D] */
    const float *norm_key, *norm_query, *norm_conv; /* [S, H], whole factors */
    const float *conv;                              /* [S * H, 4] */
    const int64_t *multipliers;                     /* [ngram_size] */
    const int64_t *sizes, *offsets;                 /* [ngrams], rows of the table */
} tt_ngram_weights;

typedef struct tt_layer_weights {
    tt_layer_kind kind;
    uint32_t
        kind_index; /* among layers of its kind: row of the KV cache or of the recurrent state */
    const float *norm_in, *norm_post; /* [H], whole factors; not with streams */
    tt_mix_weights mix_attn, mix_ffn; /* with streams */
    tt_attention_weights attn;        /* kind full */
    tt_delta_weights delta;           /* kind linear */
    tt_mlp_weights mlp;               /* dense MLP, or the shared expert */
    tt_mat router;                    /* [E, H]; MoE only */
    tt_mat shared_gate;               /* [1, H]; MoE only */
} tt_layer_weights;

typedef struct tt_weights {
    tt_mat embed;       /* [vocab, H] */
    tt_mat head;        /* [vocab, H]; the embedding when tied */
    const float *norm;  /* [H], whole factor; not with streams */
    tt_mix_weights mix; /* with streams, like the next */
    tt_ngram_weights ngram;
    tt_layer_weights *layer; /* [L] */
    void *payload;           /* bytes of model_weights.bin behind its index */
    uint64_t payload_bytes;
    float *vectors; /* f32 copies */
    uint64_t vectors_bytes;
    /* Of a draft alone, whose one layer is layer[0] and whose embed and head are the target's: */
    tt_mat fc;                             /* [H, 2H]: embedding half first */
    const float *norm_embed, *norm_hidden; /* [H], whole factors */
} tt_weights;

/* Resident bytes that load will take. */
uint64_t tt_weights_cost(const tt_install *in);
/* Checks the whole index against the architecture without reading payload. */
TT_MUST_CHECK tt_status tt_weights_check(const tt_install *in, tt_error *err);
/* Checks, reads and binds. `pool` reads in parallel; `progress` counts bytes. */
TT_MUST_CHECK tt_status tt_weights_load(tt_weights *w, const tt_install *in, tt_pool *pool,
                                        tt_progress_fn progress, void *progress_ctx, tt_error *err);
void tt_weights_free(tt_weights *w);

/* The same of an install's draft, mtp_weights.bin; `draft` is its architecture (draft.h). */
uint64_t tt_draft_weights_cost(const tt_install *in, const tt_arch *draft);
TT_MUST_CHECK tt_status tt_draft_weights_check(const tt_install *in, const tt_arch *draft,
                                               tt_error *err);
TT_MUST_CHECK tt_status tt_draft_weights_load(tt_weights *w, const tt_install *in,
                                              const tt_arch *draft, tt_pool *pool, tt_error *err);

#endif
