/* model.h: the opened model: architecture, resident weights, expert cache, backend, scratch.
 *
 * Owns:      everything that sessions share; made and released here and nowhere else.
 * Not here:  timelines (session/), the budget's arithmetic (plan.h).
 * Laws:      (1) weights are read-only after load;  (2) scratch and cache serve one step at a
 *            time, and the scratch beside them one decode step inside a prefill;  (3) open fails
 *            whole: nothing is left behind.
 * Threads:   see tinytitan.h.
 */
#ifndef TT_MODEL_MODEL_H
#define TT_MODEL_MODEL_H

#include "format/install.h"
#include "model/draft.h"
#include "model/governor.h"
#include "model/heat.h"
#include "model/indexer.h"
#include "model/moe.h"
#include "model/ngram.h"
#include "model/plan.h"
#include "model/rope.h"
#include "model/weights.h"

struct tt_model {
    tt_install *install;
    tt_arch arch; /* with the configured YaRN */
    tt_plan plan;
    tt_backend *be;
    tt_rope rope;
    tt_weights weights;
    tt_reader *reader; /* MoE only, like the next five */
    uint32_t *crc;     /* [L * E], with verify_reads */
    tt_expert_cache *cache;
    tt_moe moe;
    tt_heat heat;
    tt_governor governor;
    tt_scratch scratch;
    /* With more sequences than one: what decode steps work with, so that they can be made while a
     * prefill is in work. */
    struct {
        tt_scratch scratch;
        tt_moe moe;
    } beside;
    tt_draft *draft;         /* NULL: none was asked for */
    uint64_t guessed, right; /* tokens, of all sessions */
    bool reading;            /* a prefill step is in work */
    tt_indexer indexer;      /* qwen4_exp only, like the next */
    tt_ngram ngram;
    char key[TT_MAX_NAME]; /* what a snapshot is bound to: manifest, backend, level, rope */
    double load_seconds;
    tt_stage_times *times; /* the caller's; NULL: nothing is measured */
};

/* Runs the family's page on a step, and its head. */
void tt_model_forward(tt_step *s);
void tt_model_head(tt_step *s, float *logits, float *top, uint32_t row0, uint32_t n);
/* Whether a decode step can be made now: always, but inside a prefill only where there are tables
 * for it and a token's experts can be leased beside those that the prefill holds. */
bool tt_model_can_decode(const tt_model *m);

/* Between two steps: memory is looked after, reads that nobody waits for go on. Allocates nothing.
 */
void tt_model_tick(tt_model *m);

#endif
