/* answer.h: what the engine says, as the objects and events of Chat Completions and Completions.
 *
 * Owns:      sections 5.4, 6 and the answers of section 10 of docs/http.md, byte for byte.
 * Not here:  heads, framing of events, refusals (reply.h); computing (turn.h).
 * Laws:      (1) a stream ends with its last event whatever happened;  (2) events come in the order
 *            of the table of section 6.
 * Threads:   one.
 */
#ifndef TT_SERVER_ANSWER_H
#define TT_SERVER_ANSWER_H

#include "server/request_fields.h"

typedef struct tt_answer_choice {
    tt_buf text, thought, calls, logprobs;
    size_t n_calls, n_logprobs;
    tt_turn_finish finish;
    bool ended;
} tt_answer_choice;

typedef struct tt_answer_writer {
    const tt_answer_request *r;
    const char *model;
    char id[40];
    int64_t created;
    bool chunked;             /* of a stream: events are chunks of the transfer coding */
    tt_buf *out;              /* events, or the object at the end */
    void (*flush)(void *ctx); /* after every event; may empty `out` */
    void *flush_ctx;
    tt_answer_choice choices[TT_CHOICES]; /* without a stream */
    size_t offset[TT_CHOICES];            /* of the next token, for Completions' logprobs */
} tt_answer_writer;

void tt_answer_writer_init(tt_answer_writer *w, const tt_answer_request *r, const char *model,
                           int64_t created, bool chunked, tt_buf *out, void (*flush)(void *ctx),
                           void *flush_ctx);
void tt_answer_writer_free(tt_answer_writer *w);
/* Where tt_turn_run tells; `prefill` is left for the caller. */
tt_turn_sink tt_answer_writer_sink(tt_answer_writer *w);
/* All choices ended: usage and the last event, or the whole object. */
void tt_answer_writer_end(tt_answer_writer *w, const tt_turn_usage *usage);
/* The last events of a stream that failed; written to `out` without a flush. */
void tt_answer_write_failure(tt_buf *out, bool chunked, int status, const char *code,
                             const char *message);

/* For other protocols that have it so: entries of log probabilities, with commas between and, but
 * for `first`, in front. */
void tt_answer_write_reports(tt_buf *b, const tt_token_report *r, size_t n, bool first);

#endif
