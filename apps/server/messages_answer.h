/* messages_answer.h: what the engine says, as the objects and events of Anthropic's Messages.
 *
 * Owns:      section 14.5 of docs/http.md, byte for byte.
 * Not here:  heads, framing of events, refusals (reply.h); computing (turn.h).
 * Laws:      (1) a stream ends with its last event whatever happened;  (2) at most one block is
 *            open, and blocks come in the order in which they were said;  (3) the blocks of an
 *            object are those that its stream would have had.
 * Threads:   one.
 */
#ifndef TT_SERVER_MESSAGES_ANSWER_H
#define TT_SERVER_MESSAGES_ANSWER_H

#include "server/request_fields.h"

typedef enum tt_messages_block { TT_BLOCK_NONE, TT_BLOCK_THOUGHT, TT_BLOCK_TEXT } tt_messages_block;

typedef struct tt_messages_writer {
    const tt_answer_request *r;
    const char *model;
    char id[32];
    bool chunked;             /* of a stream: events are chunks of the transfer coding */
    tt_buf *out;              /* events, or the object at the end */
    void (*flush)(void *ctx); /* after every event; may empty `out` */
    void *flush_ctx;
    tt_messages_block open;
    uint32_t n_blocks; /* that were begun */
    tt_turn_finish finish;
    tt_buf blocks, words; /* without a stream: finished blocks, the words of the open one */
} tt_messages_writer;

void tt_messages_writer_init(tt_messages_writer *w, const tt_answer_request *r, const char *model,
                             bool chunked, tt_buf *out, void (*flush)(void *ctx), void *flush_ctx);
void tt_messages_writer_free(tt_messages_writer *w);
/* Where tt_turn_run tells; `prefill` is left for the caller. */
tt_turn_sink tt_messages_writer_sink(tt_messages_writer *w);
/* All was said: stop reason, usage and the last event, or the whole object. */
void tt_messages_writer_end(tt_messages_writer *w, const tt_turn_usage *usage);
/* The last event of a stream that failed; written to `out` without a flush. */
void tt_messages_write_failure(tt_buf *out, bool chunked, int status, const char *code,
                               const char *message, const char *request_id);
/* What keeps a stream alive once it has begun. */
void tt_messages_write_ping(tt_buf *out, bool chunked);

#endif
