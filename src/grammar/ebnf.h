/* ebnf.h: grammars written down by hand (docs/grammar.md).
 *
 * Owns:      their syntax.
 * Not here:  automata (dfa.h).
 * Laws:      (1) faults are told with line and column, or with the name of the rule;  (2) no rule
 *            begins with itself.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_EBNF_H
#define TT_GRAMMAR_EBNF_H

#include "grammar/automaton.h"

#define TT_EBNF_RULES 10000u
#define TT_EBNF_NEST  100u /* brackets */

/* The entry of the rule "root". */
TT_MUST_CHECK tt_status tt_ebnf_rule(tt_builder *b, const char *text, size_t len, uint32_t *entry,
                                     tt_error *err);

#endif
