/* compile.h: from texts to finished automata.
 *
 * Owns:      the order of the steps, the context of errors.
 * Not here:  what the languages are (shape.h, ebnf.h, call_rules.h).
 * Laws:      (1) work and memory are bounded whatever the text is;  (2) nothing of the text is
 *            kept.
 * Threads:   any.
 */
#ifndef TT_GRAMMAR_COMPILE_H
#define TT_GRAMMAR_COMPILE_H

#include "grammar/automaton.h"
#include "grammar/call_rules.h"

#define TT_SCHEMA_BYTES (1u << 20)
#define TT_TOOLS_BYTES  (4u << 20)

/* A JSON Schema. When not `strict`, what cannot be honoured is relaxed and written into `relaxed`
 * (an array, or NULL). */
TT_MUST_CHECK tt_status tt_compile_schema(const char *json, size_t len, bool strict,
                                          json_t *relaxed, tt_automaton *out, tt_error *err);
/* A grammar of docs/grammar.md. */
TT_MUST_CHECK tt_status tt_compile_ebnf(const char *text, size_t len, tt_automaton *out,
                                        tt_error *err);
/* Calls of the tools in a JSON array, or, where calls are required and `document` is not NULL, a
 * document of that schema (strict) in their place. */
TT_MUST_CHECK tt_status tt_compile_tools(const char *json, size_t len, const tt_call_choice *choice,
                                         const char *document, json_t *relaxed, tt_automaton *out,
                                         tt_error *err);

#endif
