/* sampler.h: the sampler for who has the maxima of the row as well.
 *
 * Owns:      the way past most of a row.
 * Not here:  options and history (include/tinytitan/tinytitan.h), where maxima come from
 *            (base/block_max.h).
 * Laws:      what is chosen does not depend on whether maxima were given.
 * Threads:   one at a time.
 */
#ifndef TT_SAMPLE_SAMPLER_H
#define TT_SAMPLE_SAMPLER_H

#include "base/block_max.h"
#include "base/status.h"

uint32_t tt_sampler_vocab(const tt_sampler *s);
/* tt_sampler_sample of a row whose block maxima are `top`. Only blocks that may hold what is looked
 * for are entered, unless the options want every id weighed. */
TT_MUST_CHECK tt_status tt_sampler_choose(tt_sampler *s, const float *logits, const float *top,
                                          uint32_t *id, tt_error *err);

#endif
