/* chat_request.h: a body of Chat Completions to a request that can be computed.
 *
 * Owns:      the table of section 5.1 of docs/http.md, tools, levels of reasoning.
 * Not here:  messages (history.h), fields that Completions has too (request_fields.h).
 * Laws:      (1) every field is honoured, adjusted, ignored or refused as the table says;  (2)
 *            nothing is computed for a request that is refused.
 * Threads:   one a call; `engine` may be asked from any.
 */
#ifndef TT_SERVER_CHAT_REQUEST_H
#define TT_SERVER_CHAT_REQUEST_H

#include "server/request_fields.h"

/* `f` was set up for this body. False with f->why; `f->out` is then to be freed all the same. */
bool tt_chat_request_read(tt_fields *f, const tt_server_engine *engine);
/* The same for what /tokenize takes of a conversation: nothing but the prompt is made. */
bool tt_chat_request_count(tt_fields *f, const tt_server_engine *engine);

/* Its table, for what other protocols take alike. */
extern const tt_field tt_chat_fields[];
/* What a level of reasoning (a word, or NULL) and chat_template_kwargs make: variables of the
 * template as JSON text (tt_free), NULL when there are none; the level that is rendered. `name` is
 * the field's, for the log. */
bool tt_chat_reasoning(tt_fields *f, const char *name, const json_t *word, tt_thinking *thinking,
                       char **extra, tt_effort *used);

#endif
