/* http1.h: reads HTTP/1.1 requests, bytes in, events out.
 *
 * Owns:      the text of the head in work; the state between two bytes.
 * Not here:  sockets, deadlines, answers; what the fields mean beyond framing (http_policy.h).
 * Laws:      (1) how the bytes are cut into calls changes nothing but how a body is cut into
 *            pieces;  (2) no byte past the one that is wrong is looked at;  (3) memory is the head,
 *            at most TT_HTTP1_HEAD_MAX, and at most 4 KiB of it stay for the next request;  (4)
 *            bodies are handed through, not kept;  (5) after a refusal nothing is read any more.
 * Threads:   one.
 *
 * The rules, with the status of each refusal, are section 2.1 of docs/http.md.
 */
#ifndef TT_SERVER_HTTP1_H
#define TT_SERVER_HTTP1_H

#include "base/buf.h"
#include "server/server_limits.h"

/* X(NAME, status, code, sentence) */
#define TT_HTTP1_REFUSALS(X)                                                                       \
    X(LINE_ENDING, 400, "invalid_line_ending", "a line does not end in CR LF")                     \
    X(REQUEST_LINE, 400, "invalid_request_line", "the first line is not METHOD TARGET HTTP/1.1")   \
    X(VERSION, 505, "http_version_not_supported", "the server speaks HTTP/1.1 and HTTP/1.0")       \
    X(TARGET_LONG, 414, "request_target_too_long", "the first line is longer than 8192 bytes")     \
    X(TARGET, 400, "invalid_request_target",                                                       \
      "the target is not a path of visible ASCII characters that begins with /")                   \
    X(FIELD, 400, "invalid_header",                                                                \
      "a header field is not NAME: VALUE on one line without control characters")                  \
    X(HEAD_LARGE, 431, "request_headers_too_large",                                                \
      "the header block has more than 32768 bytes or 100 fields")                                  \
    X(LENGTH, 400, "invalid_content_length", "Content-Length is not one whole number")             \
    X(TWO_LENGTHS, 400, "conflicting_lengths",                                                     \
      "the request has both Content-Length and Transfer-Encoding")                                 \
    X(ENCODING, 400, "invalid_transfer_encoding",                                                  \
      "Transfer-Encoding is there twice or in HTTP/1.0")                                           \
    X(CODING, 501, "unsupported_transfer_encoding", "the one transfer coding here is chunked")     \
    X(EXPECT, 417, "unsupported_expectation", "the one expectation here is 100-continue")          \
    X(CHUNK, 400, "invalid_chunk", "a chunk does not begin with its size or is longer than it")    \
    X(BODY_LARGE, 413, "request_too_large", "the body is larger than it may be here")              \
    X(MEMORY, 503, "memory_full", "there is no memory for the head of the request")

#define TT_HTTP1_REFUSAL_ENUM_(name, status, code, text) TT_HTTP1_REFUSED_##name,
typedef enum tt_http1_refusal {
    TT_HTTP1_REFUSED_NOT = 0,
    TT_HTTP1_REFUSALS(TT_HTTP1_REFUSAL_ENUM_)
} tt_http1_refusal;

int tt_http1_refusal_status(tt_http1_refusal why);
const char *tt_http1_refusal_code(tt_http1_refusal why);
const char *tt_http1_refusal_text(tt_http1_refusal why);

typedef enum tt_http1_kind {
    TT_HTTP1_MORE,   /* every byte was taken and more are needed */
    TT_HTTP1_HEAD,   /* the head is complete: say what the body may have (tt_http1_allow_body) */
    TT_HTTP1_BODY,   /* a piece of the body, inside the bytes that were given */
    TT_HTTP1_END,    /* the request is complete; tt_http1_next begins the following one */
    TT_HTTP1_REFUSED /* answer, then close */
} tt_http1_kind;

typedef struct tt_http1_event {
    tt_http1_kind kind;
    const char *data; /* BODY */
    size_t len;
    tt_http1_refusal why; /* REFUSED */
} tt_http1_event;

typedef struct tt_http1 {
    tt_buf text; /* method, target, names and values, each ended by a NUL */
    uint32_t name[TT_HTTP1_FIELDS], value[TT_HTTP1_FIELDS]; /* where they begin in `text` */
    uint32_t n_fields, n_trailers;
    uint32_t head_bytes; /* counted against TT_HTTP1_HEAD_MAX */
    uint32_t line;       /* bytes of the first line, of the version, of a chunk's line */
    uint32_t target;     /* where it begins in `text` */
    uint32_t percent;    /* hexadecimal digits that a percent sign still needs */
    int state;
    bool percent_zero;
    bool have_target; /* the target in `text` is whole */
    bool skipped;     /* the empty line before a request */
    bool chunked, have_length, trailers, expects, close, old;
    uint64_t length;   /* Content-Length */
    uint64_t allowed;  /* for the body */
    uint64_t received; /* of it */
    uint64_t left;     /* of it, or of the chunk in work */
    tt_http1_refusal why;
} tt_http1;

void tt_http1_init(tt_http1 *h);
void tt_http1_free(tt_http1 *h);

/* Takes bytes up to the next event and returns how many. Called with the rest until the event is
 * MORE; n = 0 is fine at any time. After HEAD, BODY and END the same request goes on only with the
 * next call. Between END and tt_http1_next nothing is taken. */
size_t tt_http1_feed(tt_http1 *h, const char *bytes, size_t n, tt_http1_event *event);

/* After HEAD, before the next feed: the body may have `most` bytes. Without this call it may have
 * none. False when its Content-Length is above that already: the next event is the refusal. */
bool tt_http1_allow_body(tt_http1 *h, uint64_t most);

/* After END: forgets the request. */
void tt_http1_next(tt_http1 *h);

/* Whether a request has begun and not ended, for deadlines. */
bool tt_http1_in_head(const tt_http1 *h); /* from its first byte to HEAD */
bool tt_http1_in_body(const tt_http1 *h); /* from HEAD to END */

/* The request, from HEAD until tt_http1_next. Text is valid that long too. */
const char *tt_http1_method(const tt_http1 *h);
/* Path and query as they came; NULL before the first line has been read, which a refusal may
 * find. */
const char *tt_http1_target(const tt_http1 *h);
/* Value of the first field of this name in any case, without blanks around it; NULL: none. `count`
 * (may be NULL) receives how many there are. */
const char *tt_http1_field(const tt_http1 *h, const char *name, unsigned *count);
/* Whether the connection may carry another request after this one. */
bool tt_http1_keeps_alive(const tt_http1 *h);
/* The client waits for "100 Continue" before it sends the body. */
bool tt_http1_expects_continue(const tt_http1 *h);
/* Whether a body may follow, and how long it says that it is: -1 when chunked. */
bool tt_http1_has_body(const tt_http1 *h);
int64_t tt_http1_content_length(const tt_http1 *h);
/* HTTP/1.0. */
bool tt_http1_is_old(const tt_http1 *h);

/* Decodes %XX in [path, path + len) into `out`, NUL-terminated. False when it is malformed, holds
 * %00, or does not fit. */
bool tt_http1_decode(const char *path, size_t len, char *out, size_t cap);

#endif
