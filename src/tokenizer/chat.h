/* chat.h: what chat rendering is apart from an opened tokenizer.
 *
 * Owns:      the variables that a chat template sees.
 * Not here:  the public functions (include/tinytitan/tinytitan.h; chat.c and chat_parse.c define
 * tt_chat_render and tt_chat_parse), the interpreter (jinja.h).
 * Laws:      (1) templates see what the reference gives them: messages, tools and documents (null
 * when there are none), add_generation_prompt, the named tokens that exist, enable_thinking only
 * when asked for, then the caller's own variables over all of these.
 * Threads:   all functions are pure on their arguments.
 */
#ifndef TT_TOKENIZER_CHAT_H
#define TT_TOKENIZER_CHAT_H

#include <jansson.h>

#include "base/status.h"

/* A new object (json_decref) with the template's variables. `tokens` holds the named tokens
 * ("bos_token": "...") or is NULL. `opts` may be NULL. Arguments of tool calls that come as JSON
 * text, as in requests of the OpenAI API, become objects, which is what templates expect. */
TT_MUST_CHECK tt_status tt_chat_variables(const char *messages_json, const tt_chat_options *opts,
                                          const json_t *tokens, json_t **vars, tt_error *err);

#endif
