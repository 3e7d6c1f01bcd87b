/* dfa_int.h: what the files that make automata share.
 *
 * Owns:      the cutting away of useless states, and the joining of equal ones.
 * Not here:  the shape of automata (dfa.h).
 * Laws:      the language stays.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_DFA_INT_H
#define TT_GRAMMAR_DFA_INT_H

#include "grammar/dfa.h"

#define TT_DFA_CELLS 3000000u /* states times columns */

/* Drops states without a way to an accepting one, and joins those that take the same. */
TT_MUST_CHECK tt_status tt_dfa_tidy(tt_builder *b, tt_dfa *d, tt_error *err);

#endif
