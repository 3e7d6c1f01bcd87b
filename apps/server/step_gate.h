/* step_gate.h: whose turn it is to compute, where several answers are made at once.
 *
 * Owns:      the turns: one step of all that decode, chunks of prompts in between.
 * Not here:  the answers (engine_library.c), the steps themselves (the library), how many answers
 *            there are at once (work.h).
 * Laws:      (1) one thread computes at a time;  (2) a step takes a token of every answer that
 *            decodes, and waits until each has said which, or has ended;  (3) while a prompt is
 *            read, those that decode get as much time as the prompt;  (4) prompts take turns, a
 *            chunk each, in the order in which they came;  (5) whoever leaves is not waited for.
 * Threads:   any number, each with a session of its own.
 */
#ifndef TT_SERVER_STEP_GATE_H
#define TT_SERVER_STEP_GATE_H

#include <stdatomic.h>

#include "server/engine.h"

typedef struct tt_step_gate tt_step_gate;

/* `cache` (may be NULL) is that of the model's sessions. Both must outlive the gate. */
TT_MUST_CHECK tt_status tt_step_gate_create(tt_model *model, tt_state_cache *cache,
                                            tt_step_gate **out, tt_error *err);
void tt_step_gate_close(tt_step_gate **gate);

/* tt_session_sync when it is its turn. TT_ERR_ABORTED also when *cancel is set before that. */
TT_MUST_CHECK tt_status tt_step_gate_sync(tt_step_gate *gate, tt_session *session,
                                          const uint32_t *ids, size_t n,
                                          const tt_prefill_options *o, const atomic_bool *cancel,
                                          tt_error *err);
/* The caller decodes from now on, and is waited for until it has ended. */
void tt_step_gate_begin(tt_step_gate *gate);
/* tt_session_decode, in one step with the others. */
TT_MUST_CHECK tt_status tt_step_gate_decode(tt_step_gate *gate, tt_session *session, uint32_t id,
                                            tt_error *err);
void tt_step_gate_end(tt_step_gate *gate);
/* tt_session_settle, when it can be; does not wait. */
void tt_step_gate_settle(tt_step_gate *gate, tt_session *session);

/* tt_model_idle, when nobody else is here. */
double tt_step_gate_idle(tt_step_gate *gate);
/* As of the last turn. */
void tt_step_gate_stats(tt_step_gate *gate, tt_engine_stats *stats);

#endif
