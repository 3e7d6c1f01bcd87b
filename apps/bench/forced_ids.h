/* forced_ids.h: token ids that a measurement runs on whatever the model would have said.
 *
 * Owns:      lists of ids in files, ids from the chain of a synthetic install.
 * Not here:  the chain (locality.h), the install's parameters of it (synth.h).
 * Laws:      the same words give the same ids.
 * Threads:   one.
 */
#ifndef TT_BENCH_FORCED_IDS_H
#define TT_BENCH_FORCED_IDS_H

#include "base/status.h"

/* A JSON list of ids, allocated (free). */
TT_MUST_CHECK tt_status bench_ids_read(const char *file, uint32_t **ids, size_t *n, tt_error *err);
/* `need` ids for each of `sequences`, one sequence after another, allocated (free). `words`: a file
 * of at least so many, "chain" for the chain of the synthetic install at `model`, or "chain:SEED"
 * for that chain from another start; each further sequence starts from the next seed. */
TT_MUST_CHECK tt_status bench_ids_of(const char *words, const char *model, size_t need,
                                     uint32_t sequences, uint32_t **out, tt_error *err);
/* The same for one. */
TT_MUST_CHECK tt_status bench_ids_forced(const char *words, const char *model, size_t need,
                                         uint32_t **ids, tt_error *err);
/* What is wrong with the words alone; NULL is fine. */
TT_MUST_CHECK tt_status bench_ids_check(const char *words, tt_error *err);

#endif
