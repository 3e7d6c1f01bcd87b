/* call_rules.h: calls of tools in the syntax of the chat template (Qwen 3.5's XML).
 *
 * Owns:      the rules of calls: names, parameters in the order of their schema, strings raw up to
 *            the closing tag, everything else as JSON.
 * Not here:  reading calls (tt_chat_parse), the insides of JSON values (schema_rules.h).
 * Laws:      (1) what the rules take, tt_chat_parse reads as a call with arguments that satisfy the
 *            schema;  (2) a tool whose schema cannot be honoured is refused when it is strict, else
 *            it takes any value there, and that is written down.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_CALL_RULES_H
#define TT_GRAMMAR_CALL_RULES_H

#include <jansson.h>

#include "grammar/automaton.h"

#define TT_CALL_TOOLS 512u

typedef struct tt_call_choice {
    bool required;            /* the answer is calls; otherwise text in which calls may come */
    bool several;             /* more than one may follow another */
    const char *const *names; /* the tools that may be called; NULL: all */
    size_t n_names;
} tt_call_choice;

/* The entry of a rule for answers with calls of `tools` (an array as OpenAI has it). `relaxed` gets
 * an object for each relaxed place. */
TT_MUST_CHECK tt_status tt_call_rule(tt_builder *b, const json_t *tools,
                                     const tt_call_choice *choice, json_t *relaxed, uint32_t *entry,
                                     tt_error *err);

#endif
