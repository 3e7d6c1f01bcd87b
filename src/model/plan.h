/* plan.h: what a model with one session will take, decided before anything is loaded.
 *
 * Owns:      the budget: defaults, the choice of slots and prefill chunk, the refusal sentence.
 * Not here:  taking the memory (model.c); the same cost functions are asked by both.
 * Laws:      (1) the sum of the table is what will be taken, peak included;  (2) more budget never
 *            means fewer slots or a smaller chunk;  (3) a plan that cannot hold is refused before
 *            loading, with the figures and the remedy.
 * Threads:   pure on its arguments, but for reading the machine's memory.
 */
#ifndef TT_MODEL_PLAN_H
#define TT_MODEL_PLAN_H

#include "backend/backend.h"
#include "format/install.h"

/* Architecture with the caller's YaRN wish applied. */
TT_MUST_CHECK tt_status tt_plan_arch(const tt_install *in, const tt_model_options *o, tt_arch *arch,
                                     tt_error *err);
/* What the backend must be ready for. */
tt_backend_limits tt_plan_backend_limits(const tt_arch *arch);
/* `available`: bytes that the machine has, as tt_machine_memory_available() says. */
TT_MUST_CHECK tt_status tt_plan_make(const tt_install *in, const tt_model_options *o,
                                     uint64_t available, tt_plan *plan, tt_error *err);

#endif
