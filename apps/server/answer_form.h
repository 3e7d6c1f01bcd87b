/* answer_form.h: what an answer is held to: a JSON document, calls of tools, or either of them.
 *
 * Owns:      what formats and choices of tools mean, whatever protocol says them; the grammar that
 *            comes of it, why there is none, and which tools had to be relaxed.
 * Not here:  the names of fields (chat_request.c, response_request.c, messages_request.c);
 *            compiling and keeping grammars (grammar_shelf.h).
 * Laws:      (1) a format, and a tool that says it is strict, is honoured as it stands or refused
 *            with the place of the keyword;  (2) any other tool takes any value where it cannot be
 *            honoured, and the log says where;  (3) without a format, a demand, a list of allowed
 *            tools and a strict tool there is no grammar.
 * Threads:   one; compiling takes its time, so it is not the event loop's.
 */
#ifndef TT_SERVER_ANSWER_FORM_H
#define TT_SERVER_ANSWER_FORM_H

#include <jansson.h>

#include "server/tool_check.h"

struct tt_fields;

typedef enum tt_calls { TT_CALLS_FREE, TT_CALLS_NONE, TT_CALLS_DEMANDED } tt_calls;

/* Empty: any text, any calls. */
typedef struct tt_answer_form {
    const char *format;   /* the field that asks for a document, or NULL */
    const json_t *schema; /* of the document, the body's; NULL: any JSON object */
    char schema_at[64];
    tt_calls calls;
    bool one;      /* exactly one call, where one is demanded */
    json_t *names; /* an array: what may be called; NULL: all tools */
} tt_answer_form;

void tt_answer_form_free(tt_answer_form *form);

/* A format of OpenAI's protocols: text, json_object or json_schema, whose schema stands in member
 * `inner`, or beside the type when that is NULL. `name` outlives f. */
bool tt_form_take_format(struct tt_fields *f, const char *name, const json_t *v, const char *inner);
/* A document of this schema, which stands at `name` with ".schema" behind it. */
bool tt_form_take_schema(struct tt_fields *f, const char *name, const char *at,
                         const json_t *schema);
/* A choice of tools as OpenAI has it; `nested`: names stand in a member called as the type. */
bool tt_form_take_choice(struct tt_fields *f, const char *name, const json_t *v, bool nested);
/* One more tool that may be called, as the model calls it: SPACE.NAME, or NAME where there is no
 * namespace. */
bool tt_form_allow(struct tt_fields *f, const char *space, const char *name);

/* With the tools (functions as the template has them): checks the choice, and makes the grammar of
 * the request if there are f->grammars to have it from. `word` is what a tool calls its schema. */
bool tt_form_finish(struct tt_fields *f, const json_t *tools, const tt_tool_check *check,
                    const char *word);

#endif
