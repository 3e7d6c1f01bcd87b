/* response_answer.h: what the engine says, as the objects and events of Responses.
 *
 * Owns:      sections 13.4 and 13.5 of docs/http.md, byte for byte; the answer of a compaction.
 * Not here:  heads, framing of events, refusals (reply.h); computing (turn.h).
 * Laws:      (1) events come in the order of the tables, numbered without a gap;  (2) the items of
 *            the stream, of the object and those that are kept are the same;  (3) what is kept is
 *            kept before its last event is told.
 * Threads:   one; failures are written by another once nothing else is.
 */
#ifndef TT_SERVER_RESPONSE_ANSWER_H
#define TT_SERVER_RESPONSE_ANSWER_H

#include "server/response_request.h"

typedef enum tt_open_item { TT_OPEN_NONE, TT_OPEN_THOUGHT, TT_OPEN_MESSAGE } tt_open_item;

typedef struct tt_response_writer {
    const tt_response_plan *plan;
    bool stream, chunked;
    int64_t created;
    tt_buf *out;
    void (*flush)(void *ctx); /* after every event; may empty `out` */
    void *flush_ctx;
    uint64_t sequence; /* of the next event */
    tt_open_item open; /* the item in work */
    char item[TT_ITEM_ID];
    tt_buf text, logprobs, event;
    size_t n_logprobs;
    tt_item_list output;
    bool answered; /* there is a message or a call */
    tt_turn_finish finish;
    tt_status failed;
} tt_response_writer;

void tt_response_writer_init(tt_response_writer *w, const tt_response_plan *plan, bool stream,
                             bool chunked, int64_t created, tt_buf *out, void (*flush)(void *ctx),
                             void *flush_ctx);
void tt_response_writer_free(tt_response_writer *w);
/* Where tt_turn_run tells; `prefill` is left for the caller. */
tt_turn_sink tt_response_writer_sink(tt_response_writer *w);
/* Keeps the response, and writes its last event or the whole object. */
void tt_response_writer_end(tt_response_writer *w, const tt_turn_usage *usage);
/* The last events of a stream that failed when `sequence` was the number of the next one. */
void tt_response_write_failure(tt_buf *out, bool chunked, const tt_response_plan *plan,
                               int64_t created, uint64_t sequence, const char *code,
                               const char *message);

#endif
