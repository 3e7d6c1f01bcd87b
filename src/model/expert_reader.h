/* expert_reader.h: the reader of an install's expert files, as the options ask for it.
 *
 * Owns:      turning tt_model_options into reader options, the start-up probe, the sentence of
 *            --plan.
 * Not here:  readers (io/), the cache that asks them (model.c).
 * Laws:      (1) plan and open come to the same reader by the same steps;  (2) a probe that fails
 *            costs its figures and nothing else;  (3) what the caller set is not overruled by a
 *            probe.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_EXPERT_READER_H
#define TT_MODEL_EXPERT_READER_H

#include "format/install.h"
#include "io/reader_probe.h"

/* Whether the options make sense, without looking at any file. */
TT_MUST_CHECK tt_status tt_expert_reader_check(const tt_model_options *o, bool moe, tt_error *err);
/* File number = layer. Writes plan->reader, and to `probe` what is known of the disk. */
TT_MUST_CHECK tt_status tt_expert_reader_open(const tt_install *in, const tt_model_options *o,
                                              tt_plan *plan, tt_reader **out, tt_probe *probe,
                                              tt_error *err);
/* The same for the draft's one file, with the depth and the pieces of the options. */
TT_MUST_CHECK tt_status tt_expert_reader_open_draft(const tt_install *in, const tt_model_options *o,
                                                    tt_reader **out, tt_error *err);

#endif
