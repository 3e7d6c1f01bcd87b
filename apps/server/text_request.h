/* text_request.h: a body of Completions to a request that can be computed.
 *
 * Owns:      the table of section 10 of docs/http.md.
 * Not here:  fields that Chat Completions has too (request_fields.h).
 * Laws:      those of chat_request.h.
 * Threads:   those of chat_request.h.
 */
#ifndef TT_SERVER_TEXT_REQUEST_H
#define TT_SERVER_TEXT_REQUEST_H

#include "server/request_fields.h"

bool tt_text_request_read(tt_fields *f, const tt_server_engine *engine);

#endif
