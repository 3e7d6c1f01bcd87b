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

/* Where the walk stands behind so many bytes of a token. Mostly on one stack whose top alone has
 * moved since depth `root`: then `at` is its state and, from bit 32 on, its number, both in one
 * field because the next byte waits for it. Otherwise the state is TT_NO_STATE, and `root` is the
 * depth itself. */
typedef struct tt_spot {
    uint64_t at;
    uint32_t root;
} tt_spot;

/* The stacks behind so many bytes, which begin where those of the depth before end. */
typedef struct tt_level {
    uint32_t end;
    uint32_t frames; /* in use */
    /* Bytes that may follow when the rule on top of the only stack ends, as far as they were asked
     * for. */
    tt_gset asked, beyond;
} tt_level;

typedef struct tt_walker {
    tt_frames frames;
    tt_frame *tops;
    tt_spot *spots;   /* [deepest + 1] */
    tt_level *levels; /* [deepest + 1]; of roots only */
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
