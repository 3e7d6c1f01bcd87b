/* messages_request.h: a body of Anthropic's Messages to a request that can be computed.
 *
 * Owns:      the tables of sections 14.1, 14.3 and 14.4 of docs/http.md.
 * Not here:  messages (messages_history.h), what protocols of conversations share (conversation.h).
 * Laws:      those of chat_request.h.
 * Threads:   those of chat_request.h.
 */
#ifndef TT_SERVER_MESSAGES_REQUEST_H
#define TT_SERVER_MESSAGES_REQUEST_H

#include "server/request_fields.h"

/* `f` was set up for this body. False with f->why; `f->out` is then to be freed all the same. */
bool tt_messages_request_read(tt_fields *f, const tt_server_engine *engine);
/* The same for what count_tokens takes: nothing but the prompt is made. */
bool tt_messages_request_count(tt_fields *f, const tt_server_engine *engine);

#endif
