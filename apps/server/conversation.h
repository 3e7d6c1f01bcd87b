/* conversation.h: what the protocols of conversations share: tools and their limits, levels of
 * reasoning, the prompt.
 *
 * Owns:      names and schemas of tools, the nearest level that a template renders, the rendering
 *            of messages in the form of Chat Completions.
 * Not here:  what a protocol calls its fields (chat_request.c, messages_request.c).
 * Laws:      what is refused here is refused with the name that the field has in its protocol.
 * Threads:   those of chat_request.h.
 */
#ifndef TT_SERVER_CONVERSATION_H
#define TT_SERVER_CONVERSATION_H

#include "server/request_fields.h"
#include "server/tool_check.h"

/* Tools as templates get them. */
typedef struct tt_tool_list {
    json_t *tools;
    tt_tool_check check;
} tt_tool_list;

void tt_tool_list_init(tt_tool_list *l);
void tt_tool_list_free(tt_tool_list *l);
/* `list` is an array and not too long. */
bool tt_tool_list_fits(tt_fields *f, const json_t *list);
typedef struct tt_tool_words {
    const char *where;    /* "tools[3].function" */
    const char *schema;   /* what it calls its parameters */
    unsigned name_most;   /* characters */
    const json_t *strict; /* or NULL */
} tt_tool_words;
/* Checks name and schema of a tool and adds `fn`, an object with name, description and parameters,
 * which it takes over also when it fails. `schema` may be NULL. */
bool tt_tool_list_add(tt_fields *f, tt_tool_list *l, const tt_tool_words *words, const json_t *name,
                      const json_t *schema, json_t *fn);
/* They become those of the request, if there are any and they may be called, and what the answer
 * has to be is settled. `schema` is what a tool calls its parameters. */
bool tt_tool_list_use(tt_fields *f, const tt_tool_list *l, const char *schema);

/* `level` above TT_EFFORT_NONE into the variables of the template, `name` into the log when it is
 * not rendered as it is. The level that is rendered. */
int tt_effort_use(tt_fields *f, int level, const char *name, json_t *vars);
/* The level of a word, or TT_EFFORT_NOT. */
int tt_effort_of(const json_t *word);

/* `messages` of the body: an array of 1 to TT_MESSAGES that does not end with an assistant's. */
bool tt_conversation_messages(tt_fields *f, const json_t **out);
/* Repairs messages in the form of Chat Completions and renders them with the request's tools.
 * Takes `messages` over: they are gone before anything is rendered. */
bool tt_conversation_prompt(tt_fields *f, const tt_server_engine *engine, json_t *messages,
                            tt_thinking thinking, const json_t *vars);

#endif
