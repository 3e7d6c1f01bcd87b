/* heat.h: the heat profile of an opened model: taken up at open, kept at close.
 *
 * Owns:      which file, the model's key in it, how long and how much is read ahead, the sentence
 *            of --plan.
 * Not here:  the file's format (io/heat_profile.h), heat and warming (io/expert_cache.h).
 * Laws:      (1) nothing fails for a profile: what is wrong with one is told in the plan;  (2) a
 *            profile is of one manifest: another model's, or that of other bits, is refused;
 *            (3) warm or cold, results are the same bytes;  (4) a run without experts used leaves
 *            the file alone.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_HEAT_H
#define TT_MODEL_HEAT_H

#include "format/install.h"
#include "io/expert_cache.h"

typedef struct tt_heat {
    char *path; /* NULL: no profile */
    char key[TT_MAX_NAME];
    uint32_t n_layers, n_experts;
    float *values;  /* [n_layers * n_experts], of the profile until it is used, then for saving */
    bool found;     /* values hold what the file says */
    uint64_t saved; /* asks of the cache when it was saved last */
} tt_heat;

/* Looks for the profile that the options name; writes warm_seconds, heat and heat_status of the
 * plan. Only memory fails. A model without experts has none. */
TT_MUST_CHECK tt_status tt_heat_open(tt_heat *h, const tt_install *in, const tt_model_options *o,
                                     tt_plan *plan, tt_error *err);
void tt_heat_close(tt_heat *h);
/* Tells the cache what is hot and lets it warm up, as the plan says. */
void tt_heat_use(const tt_heat *h, tt_expert_cache *cache, const tt_plan *plan);
/* Nothing when there is no profile, or no ask since the last time. */
TT_MUST_CHECK tt_status tt_heat_save(tt_heat *h, const tt_expert_cache *cache, tt_error *err);

#endif
