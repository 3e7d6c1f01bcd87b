/* mask.h: which tokens may follow.
 *
 * Owns:      the walk of tokens through an automaton, its working memory.
 * Not here:  the tokens (lexicon.h), end and special tokens (constraint.c).
 * Laws:      (1) a token may follow when its bytes may, all of them;  (2) what is cut off for want
 *            of room in the working memory may not follow: never the other way round.
 * Threads:   a walker belongs to one thread.
 */
#ifndef TT_GRAMMAR_MASK_H
#define TT_GRAMMAR_MASK_H

#include "grammar/lexicon.h"
#include "grammar/matcher.h"

typedef struct tt_walker {
    tt_frames frames;
    tt_frame *tops;                 /* the stacks behind each byte of the token in work */
    uint32_t *begin, *frames_begin; /* [deepest + 2], by depth */
    uint32_t cap_tops;
    uint64_t steps; /* nodes that were looked at, since the walker was made */
} tt_walker;

TT_MUST_CHECK tt_status tt_walker_init(tt_walker *w, const tt_lexicon *x, tt_error *err);
size_t tt_walker_bytes(const tt_lexicon *x); /* memory that it holds */
void tt_walker_free(tt_walker *w);
/* Adds to `mask` the tokens that may follow where t stands. `grammar` names its automaton in the
 * cache. */
void tt_walker_mask(tt_walker *w, tt_lexicon *x, uint64_t grammar, const tt_gmatcher *t,
                    uint64_t *mask);

#endif
