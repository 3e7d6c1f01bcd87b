/* taken.h: what automata of grammars take, for tests.
 *
 * Owns:      running a text through an automaton, finishing a rule that a test has built.
 * Not here:  tokens and masks.
 * Laws:      a fault of the setting fails the test that is running.
 * Threads:   any.
 */
#ifndef TT_TESTS_TAKEN_H
#define TT_TESTS_TAKEN_H

#include "grammar/automaton.h"

#define TAKEN_ALL   (-1) /* and it may end there */
#define TAKEN_SHORT (-2) /* every byte, but it may not end there */

/* TAKEN_ALL, TAKEN_SHORT or the number of the byte that cannot follow. */
int taken_bytes(const tt_automaton *m, const char *text, size_t n);
int taken(const tt_automaton *m, const char *text);
/* The automaton whose documents are the rule `entry`; frees the builder. */
void taken_finish(tt_builder *b, uint32_t entry, uint32_t param, tt_automaton *out);

#endif
