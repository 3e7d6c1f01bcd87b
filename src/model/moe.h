/* moe.h: where expert bytes become operands: groups the router's picks by expert, borrows the
 * experts from the cache, runs them and sums in ascending expert id.
 *
 * Owns:      the grouping tables, inner values and outputs of a batch of experts, the leases in
 *            use.
 * Not here:  the router and the shared expert (the page), slots and reads (io/), arithmetic
 *            (backend/).
 * Laws:      (1) per row the sum runs in ascending expert id, whatever arrived first: law 4 of
 *            design.md;  (2) decode asks for all experts of a step at once, computes what is there
 *            while the rest is read, and gate and up of an expert before its down is there;  (3)
 *            prefill asks one expert after the other, ascending, which is their order in the file,
 *            as many ahead as the window holds, so that each is read once a step; when nearly every
 *            expert will be wanted, those of the next layer are read ahead before its router has
 *            spoken;  (4) no lease outlives the step.
 * Threads:   one step at a time; a decode step may be made while a prefill waits in its go_on, each
 *            with tables of its own.
 */
#ifndef TT_MODEL_MOE_H
#define TT_MODEL_MOE_H

#include "format/install.h"
#include "io/expert_cache.h"
#include "model/step.h"

/* Gathered rows at once. An expert with more runs in pieces. */
#define TT_MOE_ROWS TT_SPAN_ROWS

/* Leases in the order of their experts. Prefill: a ring, one expert each. Decode: one lease of
 * several, the first. */
typedef struct tt_moe_leases {
    uint32_t most; /* experts under lease at once */
    uint32_t head, count;
    uint32_t guessed; /* of these, the last ones: of the next layer, which nobody asked for yet */
    tt_expert_lease *lease; /* [most] */
    /* [most] of the leases; prefill: one a lease */
    uint32_t *expert, *slot, *generation;
    bool *hit;
    float *weight;
} tt_moe_leases;

typedef struct tt_moe {
    tt_expert_cache *cache;         /* borrowed */
    const tt_expert_layout *layout; /* borrowed from the install */
    uint32_t rows_max;              /* rows of experts a batch */
    uint32_t window;                /* experts that prefill has under lease at once */
    /* grouping of a step: picks sorted by (expert, row) */
    uint32_t *first;         /* [E + 1] start of each expert's picks */
    uint32_t *cursor;        /* [E] */
    uint32_t *row;           /* [rows * K] */
    float *weight;           /* [rows * K] */
    uint32_t *active;        /* [E] experts with picks, ascending */
    uint32_t n_active, next; /* next: first active expert that was not asked yet */
    tt_moe_leases leases;
    /* a batch, in ascending id */
    tt_expert_job *job, *now; /* [most]; those that run at once */
    unsigned char *state;     /* [most] what of a job was done */
    uint32_t n_jobs;
    float *m, *y; /* [rows_max, F], [rows_max, H] */
    void *block;
    uint64_t bytes;
} tt_moe;

/* rows: of the largest step. */
uint64_t tt_moe_cost(const tt_arch *arch, uint32_t rows);
TT_MUST_CHECK tt_status tt_moe_init(tt_moe *moe, const tt_arch *arch, uint32_t rows,
                                    tt_expert_cache *cache, const tt_expert_layout *layout,
                                    tt_error *err);
void tt_moe_free(tt_moe *moe);

/* Groups the picks in s->s->ids, s->s->p and starts the reads of `layer` (a MoE layer number). */
void tt_moe_ask(tt_step *s, uint32_t layer);
/* acc[T, H] = sum over experts, ascending, of weight * expert(x). Waits for reads; failures go to
 * s->status. */
void tt_moe_run(tt_step *s, float *acc, const float *x, uint32_t layer);
/* Lets reads ahead and warming up go on. Cheap; nothing for dense models. */
void tt_moe_poll(tt_step *s);
/* Gives back whatever the step still has under lease. */
void tt_moe_end(tt_step *s);

#endif
