/* matcher.h: where an answer stands in an automaton, and what it may go on with.
 *
 * Owns:      sets of parallel stacks, steps by bytes, copies to go back to.
 * Not here:  tokens (mask.h), making automata (automaton.h).
 * Laws:      (1) bytes that lead nowhere leave a matcher as it was;  (2) at most
 *            TT_MATCH_PARALLEL stacks are followed at a time: of more, those that come later in the
 *            schema are given up, which narrows what may follow and never leads astray;  (3)
 *            stepping does not allocate.
 * Threads:   a matcher belongs to one thread; automata are shared.
 */
#ifndef TT_GRAMMAR_MATCHER_H
#define TT_GRAMMAR_MATCHER_H

#include "grammar/automaton.h"

#define TT_MATCH_PARALLEL 256u
#define TT_MATCH_FRAMES   16384u

/* A rule in work. On top of a stack `state` is where it stands, below that where the call above
 * returns to. */
typedef struct tt_frame {
    uint32_t parent; /* TT_NO_STATE at the bottom */
    uint32_t state, number, param;
    uint32_t depth;
} tt_frame;

/* Steps work on frames that are only added to; who steps back sets n back. */
typedef struct tt_frames {
    tt_frame *v;
    uint32_t n, cap;
} tt_frames;

typedef struct tt_tops {
    tt_frame *v;
    uint32_t n, cap;
} tt_tops;

/* The stacks that follow from `top` on byte b, added to `out`. */
void tt_match_step(const tt_automaton *m, tt_frames *frames, const tt_frame *top, uint8_t b,
                   tt_tops *out);
/* Those that follow when the rule on top is over before b. */
void tt_match_beyond(const tt_automaton *m, tt_frames *frames, const tt_frame *top, uint8_t b,
                     tt_tops *out);
/* Whether the text may end here. */
bool tt_match_complete(const tt_automaton *m, const tt_frames *frames, const tt_frame *top);

typedef struct tt_gmatcher {
    const tt_automaton *m;
    tt_frames frames;
    tt_tops tops, next;
    tt_frame *spare; /* for compaction */
} tt_gmatcher;

/* `start` is one of the automaton's starts. */
TT_MUST_CHECK tt_status tt_gmatcher_init(tt_gmatcher *t, const tt_automaton *m, uint32_t start,
                                         tt_error *err);
size_t tt_gmatcher_bytes(void); /* memory that it holds */
void tt_gmatcher_free(tt_gmatcher *t);
void tt_gmatcher_reset(tt_gmatcher *t, uint32_t start);
/* Takes n bytes and returns n, or the number of the byte that cannot follow, and then stays where
 * it was. */
size_t tt_gmatcher_push(tt_gmatcher *t, const char *bytes, size_t n);
bool tt_gmatcher_complete(const tt_gmatcher *t);
/* Whether some byte may follow. */
bool tt_gmatcher_goes_on(const tt_gmatcher *t);
/* `to` becomes what `from` is. Both of the same automaton. */
void tt_gmatcher_copy(tt_gmatcher *to, const tt_gmatcher *from);

#endif
