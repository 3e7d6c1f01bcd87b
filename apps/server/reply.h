/* reply.h: what goes back to a client, as bytes: heads, refusals, events of a stream.
 *
 * Owns:      status lines, fields of every answer, the two error envelopes and the types that go
 *            with a code, text as JSON, the framing of server-sent events.
 * Not here:  sending; the objects of a protocol.
 * Laws:      (1) pure: bytes are appended to a buffer, which remembers failure;  (2) whatever bytes
 *            a text has, what is written is valid JSON in UTF-8 and on one line;  (3) an answer
 *            without a body (204, HEAD) never has one.
 * Threads:   any.
 */
#ifndef TT_SERVER_REPLY_H
#define TT_SERVER_REPLY_H

#include "server/http_policy.h"

#define TT_REQUEST_ID 29u /* "req_", 24 hexadecimal digits, NUL */

typedef enum tt_envelope { TT_ENVELOPE_OPENAI, TT_ENVELOPE_ANTHROPIC } tt_envelope;

/* By path; NULL when the target could not be read. `anthropic_version`: the field is there. */
tt_envelope tt_reply_envelope(const char *target, bool anthropic_version);

#define TT_LENGTH_STREAM (-1)

typedef struct tt_reply_head {
    int status;
    tt_envelope envelope;
    const char *request_id;
    const char *type;     /* NULL: application/json */
    const char *fields;   /* further ones, each with its line end; or NULL */
    int64_t length;       /* of the body, or TT_LENGTH_STREAM */
    int64_t now;          /* seconds since 1970, for Date */
    bool old;             /* the request was HTTP/1.0: a stream ends with the connection */
    bool close;           /* the connection ends after this */
    const char *allow;    /* methods of the path, for 405 and OPTIONS, or NULL */
    unsigned retry_after; /* seconds; 0: no such field */
    const tt_http_verdict *verdict; /* CORS and WWW-Authenticate, or NULL */
} tt_reply_head;

/* Status line, fields, empty line. An old stream closes whatever `close` says. */
void tt_reply_write_head(tt_buf *out, const tt_reply_head *head);

typedef struct tt_reply_error {
    int status;
    const char *code, *message;
    const char *param; /* or NULL */
} tt_reply_error;

/* 429 is 529 in the Anthropic envelope, everything else is itself. */
int tt_reply_status(tt_envelope envelope, int status);
/* {"error": ...} in the envelope; also the JSON of a stream's last event. */
void tt_reply_write_error(tt_buf *out, tt_envelope envelope, const tt_reply_error *error,
                          const char *request_id);
/* Head and body of a refusal. `head` gives everything but status, type and length. `no_body`: the
 * request was HEAD, so that the length is told and the body left out. */
void tt_reply_write_refusal(tt_buf *out, const tt_reply_head *head, const tt_reply_error *error,
                            bool no_body);

/* `len` bytes as a JSON text with its quotes; bytes that are no UTF-8 become U+FFFD. */
void tt_reply_write_text(tt_buf *out, const char *text, size_t len);
/* Whether they are all UTF-8. */
bool tt_reply_is_text(const char *text, size_t len);
/* The longest piece of at most `most` bytes that ends between characters. */
size_t tt_reply_piece(const char *text, size_t len, size_t most);

/* ---- streams ---- */

/* Server-sent events, in chunks of the transfer coding or bare for HTTP/1.0. `data` has no line end
 * in it. `name` is the event's, or NULL. */
void tt_sse_write(tt_buf *out, bool chunked, const char *name, const char *data, size_t len);
/* ": text" */
void tt_sse_write_comment(tt_buf *out, bool chunked, const char *text);
/* Ends the body; nothing may follow. */
void tt_sse_write_end(tt_buf *out, bool chunked);

#endif
