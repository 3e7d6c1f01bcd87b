/* grammar_text.h: automata from texts, and texts through automata, for tests.
 *
 * Owns:      compiling or failing the test, trying a text, noise.
 * Not here:  what the languages are.
 * Laws:      the same seed gives the same noise everywhere.
 * Threads:   one.
 */
#ifndef TT_TESTS_GRAMMAR_TEXT_H
#define TT_TESTS_GRAMMAR_TEXT_H

#include "grammar/compile.h"
#include "grammar/matcher.h"

/* Fail the test when the text does not compile. Released with tt_automaton_free. */
tt_automaton automaton_of_ebnf(const char *text);
tt_automaton automaton_of_schema(const char *json);
tt_automaton automaton_of_tools(const char *json, bool required);

/* A matcher at a start. Released with tt_gmatcher_free. */
tt_gmatcher matcher_at(const tt_automaton *m, uint32_t start);
/* Whether a text is a whole answer. */
bool automaton_takes(const tt_automaton *m, const char *text, size_t n);
/* A number for where a matcher stands: the same for the same stacks. */
uint64_t matcher_place(const tt_gmatcher *t);

/* A text for printf, unprintable bytes as \xHH; valid until the next call but three. */
const char *shown(const char *text, size_t n);

void grammar_noise_seed(uint64_t seed);
uint32_t grammar_noise(uint32_t below);

#endif
