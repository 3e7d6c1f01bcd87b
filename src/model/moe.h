/* moe.h: where expert bytes become operands: groups the router's picks by expert, borrows the
 * experts from the cache, runs them and sums in ascending expert id.
 *
 * Owns:      the grouping tables, gathered rows and expert outputs of a step, the lease in use.
 * Not here:  the router and the shared expert (the page), slots and reads (io/), arithmetic
 *            (backend/).
 * Laws:      (1) per row the sum runs in ascending expert id, whatever arrived first: law 4 of
 *            design.md;  (2) experts of a step are taken in batches, ascending, that fit the slots
 *            of a layer and the gather buffer;  (3) within a batch hits are computed while misses
 *            are read;  (4) a lease never outlives its batch.
 * Threads:   one step at a time.
 */
#ifndef TT_MODEL_MOE_H
#define TT_MODEL_MOE_H

#include "format/install.h"
#include "io/expert_cache.h"
#include "model/step.h"

typedef struct tt_moe {
    tt_expert_cache *cache;         /* borrowed */
    const tt_expert_layout *layout; /* borrowed from the install */
    uint32_t rows_max;              /* gathered rows a batch */
    uint32_t slots;                 /* experts a batch */
    /* grouping of a step: picks sorted by (expert, row) */
    uint32_t *first;         /* [E + 1] start of each expert's picks */
    uint32_t *cursor;        /* [E] */
    uint32_t *row;           /* [rows * K] */
    float *weight;           /* [rows * K] */
    uint32_t *active;        /* [E] experts with picks, ascending */
    uint32_t n_active, next; /* next: first active expert that no batch took yet */
    /* a batch */
    tt_expert_job *job, *now; /* [slots] in ascending id; those whose bytes are here */
    float *x, *m, *y;         /* [rows_max, H], [rows_max, F], [rows_max, H] */
    tt_expert_lease lease;
    bool leased;
    void *block;
    uint64_t bytes;
} tt_moe;

uint64_t tt_moe_cost(const tt_arch *arch, uint32_t rows, uint32_t slots);
TT_MUST_CHECK tt_status tt_moe_init(tt_moe *moe, const tt_arch *arch, uint32_t rows,
                                    tt_expert_cache *cache, const tt_expert_layout *layout,
                                    tt_error *err);
void tt_moe_free(tt_moe *moe);

/* Groups the picks in s->s->ids, s->s->p and starts the reads of the first batch of `layer` (a MoE
 * layer number). */
void tt_moe_ask(tt_step *s, uint32_t layer);
/* acc[T, H] = sum over experts, ascending, of weight * expert(x). Waits for reads; failures go to
 * s->status. */
void tt_moe_run(tt_step *s, float *acc, const float *x, uint32_t layer);

#endif
