/* timeline.h: a timeline that begins anywhere: its past is made up, not computed.
 *
 * Owns:      ids, KV rows, index keys and recurrent state of its own, filled with seeded finite
 *            values.
 * Not here:  real timelines, which the library's sessions are.
 * Laws:      (1) a step costs what a session's step at the same position costs;  (2) logits are
 *            finite and mean nothing.
 * Threads:   one; no session of the model may work meanwhile.
 */
#ifndef TT_BENCH_TIMELINE_H
#define TT_BENCH_TIMELINE_H

#include "model/model.h"

typedef struct bench_timeline {
    tt_model *model;
    tt_kv_cache kv;
    tt_recurrent recurrent;
    uint32_t *tokens; /* [max_context] */
    uint32_t n;
} bench_timeline;

TT_MUST_CHECK tt_status bench_timeline_open(tt_model *model, bench_timeline *t, tt_error *err);
void bench_timeline_close(bench_timeline *t);
/* Makes up `n` tokens of past in place of what was there. */
TT_MUST_CHECK tt_status bench_timeline_fill(bench_timeline *t, uint32_t n, uint64_t seed,
                                            tt_error *err);
/* One token; its logits are in the model's scratch. */
TT_MUST_CHECK tt_status bench_timeline_decode(bench_timeline *t, uint32_t id, tt_error *err);

#endif
