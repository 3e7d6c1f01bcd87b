/* step.h: one step of the forward pass: which rows, which state, and the scratch that the page
 * writes to.
 *
 * Owns:      the scratch table (one list of buffers, sized from the architecture and the rows of a
 *            step), the spans that a step is walked in.
 * Not here:  the mathematics (forward_*.c), the experts (moe.h), the timeline (session/).
 * Laws:      (1) scratch is taken once, at load, for the largest step; a step allocates nothing;
 *            (2) the step holds its first failure, and after it the page's calls change nothing
 *            that matters;  (3) one step at a time uses a model's scratch.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_STEP_H
#define TT_MODEL_STEP_H

#include "backend/backend.h"
#include "format/arch.h"
#include "model/kv_cache.h"
#include "model/recurrent.h"
#include "model/rope.h"
#include "model/undo.h"

struct tt_model;

/* Rows a head call may produce at once: a vocabulary row is large. */
#define TT_LOGITS_ROWS TT_DECODE_ROWS

typedef enum tt_stage {
    TT_STAGE_EMBED,          /* [T, H] f32, layer 0 */
    TT_STAGE_MIXER,          /* [T, H] f32 residual after attention or delta rule */
    TT_STAGE_ROUTER_IDS,     /* [T, K] u32 */
    TT_STAGE_ROUTER_WEIGHTS, /* [T, K] f32 */
    TT_STAGE_LAYER           /* [T, H] f32 residual after the layer */
} tt_stage;

/* Sees every stage of every step; for tests and dumps. */
typedef struct tt_trace {
    void (*fn)(void *ctx, tt_stage stage, uint32_t layer, uint32_t pos0, uint32_t rows,
               uint32_t cols, const void *data);
    void *ctx;
} tt_trace;

/* Where the time of steps goes, summed. Measured when a model is given one (model.h). */
typedef struct tt_stage_times {
    double moe;      /* seconds from a layer's picks to its experts' sum, shared expert included */
    uint64_t layers; /* MoE stages in it */
    double moe_layer[TT_MAX_LAYERS]; /* the same by layer */
    double began;
} tt_stage_times;

/* A step may have many rows, so that an expert is read once for all of them. What the layers hand
 * on stands in buffers of all rows; mixers and MLPs walk over spans of so many, which bounds
 * theirs. */
#define TT_SPAN_ROWS 512u

/* The buffers of the page, X(type, name, width). Those of all rows: h residual, x normed input, y
 * block output, cosine and sine; ids and p picks; sg shared gate; acc expert sum; inject what each
 * stream takes of a block (qwen4_exp, like everything whose width is 0 without streams). */
#define TT_SCRATCH_STEP(X)                                                                         \
    X(float, h, tt_arch_residual(a))                                                               \
    X(float, inject, a->streams)                                                                   \
    X(float, x, a->hidden_size)                                                                    \
    X(float, y, a->hidden_size)                                                                    \
    X(float, cosine, tt_rope_rotary(a) / 2)                                                        \
    X(float, sine, tt_rope_rotary(a) / 2)                                                          \
    X(uint32_t, ids, a->top_k)                                                                     \
    X(float, p, a->top_k)                                                                          \
    X(float, sg, tt_arch_is_moe(a))                                                                \
    X(float, acc, tt_arch_is_moe(a) ? a->hidden_size : 0)

/* Those of a span. The lists hold what one kind of block needs, and stand in the same memory, since
 * no two blocks are in work at once. */

/* Full attention: r query and gate; q; k before and kr after norm and RoPE; v; oa output. Sparse
 * also: iqk index queries and key; iq queries after norm and RoPE. */
#define TT_SCRATCH_ATTENTION(X)                                                                    \
    X(float, r, 2 * a->n_heads * a->head_dim)                                                      \
    X(float, q, a->n_heads * a->head_dim)                                                          \
    X(float, k, a->n_kv_heads * a->head_dim)                                                       \
    X(float, kr, a->n_kv_heads * a->head_dim)                                                      \
    X(float, v, a->n_kv_heads * a->head_dim)                                                       \
    X(float, oa, a->n_heads * a->head_dim)                                                         \
    X(float, iqk, a->streams > 0 ? (a->indexer_heads + 1) * a->indexer_dim : 0)                    \
    X(float, iq, a->indexer_heads * a->indexer_dim)

/* Delta rule: u and c convolution in and out; od output. */
#define TT_SCRATCH_DELTA(X)                                                                        \
    X(float, u, tt_arch_conv_dim(a))                                                               \
    X(float, c, tt_arch_conv_dim(a))                                                               \
    X(float, z, tt_arch_value_dim(a))                                                              \
    X(float, a, a->lin_value_heads)                                                                \
    X(float, b, a->lin_value_heads)                                                                \
    X(float, g, a->lin_value_heads)                                                                \
    X(float, beta, a->lin_value_heads)                                                             \
    X(float, od, tt_arch_value_dim(a))

/* MLP and router: m middle; l router logits. */
#define TT_SCRATCH_FFN(X)                                                                          \
    X(float, m, tt_arch_is_moe(a) ? a->shared_intermediate : a->intermediate)                      \
    X(float, l, a->n_experts)

/* Gated residual: rn normed streams; mix what is taken of them, and low its narrow middle. */
#define TT_SCRATCH_MIX(X)                                                                          \
    X(float, rn, a->streams * a->hidden_size)                                                      \
    X(float, mix, a->streams * a->hidden_size)                                                     \
    X(float, low, a->mix_rank)

/* N-gram block: e rows of the table; nk key, then gated value; nq query, then convolution; nn
 * convolution's input; nv value. */
#define TT_SCRATCH_NGRAM(X)                                                                        \
    X(float, e, a->ngram_dim)                                                                      \
    X(float, nk, a->streams * a->hidden_size)                                                      \
    X(float, nq, a->streams * a->hidden_size)                                                      \
    X(float, nn, a->streams * a->hidden_size)                                                      \
    X(float, nv, a->streams > 0 ? a->hidden_size : 0)

#define TT_SCRATCH_FIELD_(type, name, width) type *name;
typedef struct tt_scratch {
    TT_SCRATCH_STEP(TT_SCRATCH_FIELD_)
    TT_SCRATCH_ATTENTION(TT_SCRATCH_FIELD_)
    TT_SCRATCH_DELTA(TT_SCRATCH_FIELD_)
    TT_SCRATCH_FFN(TT_SCRATCH_FIELD_)
    TT_SCRATCH_MIX(TT_SCRATCH_FIELD_)
    TT_SCRATCH_NGRAM(TT_SCRATCH_FIELD_)
    float *logits; /* [TT_LOGITS_ROWS, vocab] */
    float *top;    /* [TT_LOGITS_ROWS, blocks of vocab] their maxima (base/block_max.h) */
    void *block;
    uint64_t bytes;
} tt_scratch;

/* rows: of the largest step. */
uint64_t tt_scratch_cost(const tt_arch *arch, uint32_t rows);
TT_MUST_CHECK tt_status tt_scratch_init(tt_scratch *s, const tt_arch *arch, uint32_t rows,
                                        tt_error *err);
/* The same for decode steps that are made while a prefill step is in work, with the logits of
 * `other`, which that step needs at its end only. */
uint64_t tt_scratch_cost_beside(const tt_arch *arch);
TT_MUST_CHECK tt_status tt_scratch_init_beside(tt_scratch *s, const tt_arch *arch,
                                               const tt_scratch *other, tt_error *err);
void tt_scratch_free(tt_scratch *s);

/* A place in a step where the recurrent state is copied as it goes by. */
typedef struct tt_state_mark {
    uint32_t at;  /* tokens before it; a multiple of 64 */
    float *block; /* as tt_recurrent.block */
} tt_state_mark;

/* Rows of a step that follow one another in one timeline. */
typedef struct tt_line {
    tt_kv_cache *kv;
    tt_recurrent *recurrent;
    uint32_t pos0, row0, T;
} tt_line;

typedef struct tt_step {
    struct tt_model *model;
    tt_backend *be;
    const tt_arch *arch;
    tt_scratch *s;
    tt_kv_cache *kv;
    tt_recurrent *recurrent;
    const uint32_t *tokens; /* [T] */
    const uint32_t *past;   /* [pos0 of the whole step] tokens before it */
    uint32_t pos0, T;
    /* Decode of several timelines at once, TT_DECODE_ROWS rows at most: whose rows they are, in
     * order; kv and recurrent are NULL then, pos0 is 0 and nothing is traced. NULL: all rows are of
     * the timeline above. */
    const tt_line *lines;
    uint32_t n_lines;
    bool prefill; /* chunked delta rule; false: row after row */
    bool draft;   /* of the model's draft: arch and scratch are its own, and so are experts */
    bool beside;  /* decode with the model's tables for it: a prefill may be in work */
    const tt_trace *trace; /* may be NULL */
    /* Ascending, inside the step or at its end. Spans end there too, so that no step has to. */
    const tt_state_mark *marks;
    uint32_t n_marks;
    /* Decode of one timeline whose later rows may have to go; all in one block of 64. NULL: none.
     */
    tt_undo *undo;
    /* Asked before each layer, between its spans and between its experts, so that a long prompt
     * stops within a second; may be NULL. False ends the step with TT_ERR_ABORTED. */
    bool (*go_on)(void *ctx, uint32_t layer);
    void *go_on_ctx;
    tt_status status; /* first failure */
    tt_error *err;
} tt_step;

/* The step seen as rows [row0, row0 + step.T): the buffers of all rows begin at the first of them.
 * Spans begin at absolute multiples of TT_SPAN_ROWS and at marks, the first one wherever the step
 * does. */
typedef struct tt_span {
    tt_step step;
    tt_scratch view;
    uint32_t row0;
} tt_span;

/* for (tt_span_first(&p, s); p.step.T > 0; tt_span_next(&p, s, layer)); none when a step failed. */
void tt_span_first(tt_span *p, const tt_step *s);
void tt_span_next(tt_span *p, tt_step *s, uint32_t layer);

/* Timeline `n` of the step and its rows; false past the last. */
static inline bool tt_step_line(const tt_step *s, uint32_t n, tt_line *line)
{
    if (n >= (s->lines != NULL ? s->n_lines : 1))
        return false;
    *line = s->lines != NULL ? s->lines[n] : (tt_line){s->kv, s->recurrent, s->pos0, 0, s->T};
    return true;
}

/* After a span has gone through linear layer `i`: copies its state to the marks at the span's end.
 */
void tt_step_mark(const tt_step *s, uint32_t i);
/* The same of `n` values at `at` in the recurrent block. */
void tt_step_mark_values(const tt_step *s, const float *at, uint64_t n);

/* About linear layer `i`: its state before the step, and what the step's rows add to it. */
void tt_step_keep(const tt_step *s, uint32_t i);
void tt_step_added(const tt_step *s, uint32_t i);

/* False when the step has failed or somebody wants it to end. */
bool tt_step_goes_on(tt_step *s, uint32_t layer);

static inline void tt_mark(const tt_step *s, tt_stage stage, uint32_t layer, uint32_t cols,
                           const void *data)
{
    if (s->trace != NULL)
        s->trace->fn(s->trace->ctx, stage, layer, s->pos0, s->T, cols, data);
}

#endif
