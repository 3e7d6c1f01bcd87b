/* response_request.h: a body of Responses to a request that can be computed.
 *
 * Owns:      the tables of section 13.1 and 13.7 of docs/http.md; what is told back of a request;
 *            the prompt of a compaction.
 * Not here:  items (response_items.h), tools (response_tools.h), the answer (response_answer.h).
 * Laws:      those of chat_request.h.
 * Threads:   those of chat_request.h; what was made is not changed.
 */
#ifndef TT_SERVER_RESPONSE_REQUEST_H
#define TT_SERVER_RESPONSE_REQUEST_H

#include "server/request_fields.h"
#include "server/response_store.h"

/* What an answer needs beside the turn. */
typedef struct tt_response_plan {
    char id[TT_ITEM_ID];
    bool compact;         /* the answer is a compaction */
    bool store;           /* keep it */
    bool carried;         /* thoughts carry encrypted_content */
    bool summary;         /* thoughts stand as summaries */
    tt_buf echo;          /* JSON members that every object of it has */
    json_t *given;        /* as in tt_response_tools */
    tt_item_list context; /* what it reads, when it will be kept */
    uint64_t bytes;       /* of all this, but for what the store has */
    tt_response_store *responses;
} tt_response_plan;

void tt_response_plan_free(tt_response_plan *p);

/* `f` was set up for this body. False with f->why; `p` is then to be freed all the same. */
bool tt_response_request_read(tt_fields *f, const tt_server_engine *engine,
                              tt_response_store *store, tt_response_plan *p);
bool tt_response_compact_read(tt_fields *f, const tt_server_engine *engine,
                              tt_response_store *store, tt_response_plan *p);

#endif
