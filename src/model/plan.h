/* plan.h: what a model with its sessions will take, decided before anything is loaded.
 *
 * Owns:      the budget: defaults, the choice of slots and prefill chunk, the refusal sentence.
 * Not here:  taking the memory (model.c); the same cost functions are asked by both.
 * Laws:      (1) the sum of the table is what will be taken, peak included, the page cache that
 *            our reads leave and the kernel's tables for our memory too; only measuring a disk for
 *            the first time may go beyond it, within the budget;  (2) more budget never
 *            means fewer slots or a smaller chunk;  (3) a plan that cannot hold is refused before
 *            loading, with the figures and the remedy.
 * Threads:   pure on its arguments, but for reading the machine's memory.
 */
#ifndef TT_MODEL_PLAN_H
#define TT_MODEL_PLAN_H

#include "backend/backend.h"
#include "format/install.h"

/* Memory that an opened tokenizer takes, by the size of its tokenizer.json. */
#define TT_TOKENIZER_COST(bytes) (9 * (uint64_t)(bytes) / 2)

/* Architecture with the caller's YaRN wish applied. */
TT_MUST_CHECK tt_status tt_plan_arch(const tt_install *in, const tt_model_options *o, tt_arch *arch,
                                     tt_error *err);
/* What the backend must be ready for. */
tt_backend_limits tt_plan_backend_limits(const tt_arch *arch);
/* Bytes that the machine has for a model: what it can spare, and what this process has taken
 * already of what the plan counts as its own. */
uint64_t tt_plan_available(const tt_install *in, const tt_model_options *o);
/* `available`: as above. */
TT_MUST_CHECK tt_status tt_plan_make(const tt_install *in, const tt_model_options *o,
                                     uint64_t available, tt_plan *plan, tt_error *err);
/* What of the budget is free while a plan is made and before weights and slots are there: bytes
 * that measuring may take; 1 for none. */
uint64_t tt_plan_spare(const tt_plan *plan);

#endif
