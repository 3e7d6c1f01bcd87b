/* server_limits.h: every bound of the server in one place, with its reason.
 *
 * Owns:      the numbers of section 8 of docs/http.md.
 * Not here:  bounds of files and models (base/limits.h).
 * Laws:      a bound is checked before memory is taken for the thing counted; a test holds the page
 *            against these.
 * Threads:   constants.
 */
#ifndef TT_SERVER_SERVER_LIMITS_H
#define TT_SERVER_SERVER_LIMITS_H

#include "base/limits.h"

/* ---- one request on the wire ---- */

#define TT_HTTP1_HEAD_MAX  (32u << 10) /* first line, fields, trailers, line ends included */
#define TT_HTTP1_LINE_MAX  8192u       /* first line without its line end */
#define TT_HTTP1_FIELDS    100u        /* trailers included; SDKs send about 20 */
#define TT_HTTP1_METHOD    32u
#define TT_HTTP1_CHUNK_MAX 256u /* the line before a chunk */
#define TT_API_KEY_MAX     512u

#define TT_BODY_BYTES_A_TOKEN 16u /* 4 bytes of text, escapes, and everything around it */
#define TT_BODY_LEAST         (16 * TT_MIB)
#define TT_BODY_MOST          (64 * TT_MIB)
/* What the body of a request may have when the context has so many tokens. */
static inline uint64_t tt_body_limit(uint32_t context)
{
    uint64_t n = (uint64_t)context * TT_BODY_BYTES_A_TOKEN;
    return n < TT_BODY_LEAST ? TT_BODY_LEAST : n > TT_BODY_MOST ? TT_BODY_MOST : n;
}
#define TT_REQUEST_MEMORY (128 * TT_MIB) /* all bodies and JSON trees together */

/* ---- connections ---- */

#define TT_CONNECTIONS       1024u
#define TT_DESCRIPTORS_SPARE 64u /* of RLIMIT_NOFILE: expert files, logs, rings */
#define TT_PIPELINED_AHEAD   (64 * TT_KIB)
#define TT_DRAINED_BYTES     (64 * TT_MIB) /* read and dropped so that a refusal can be read */
#define TT_DRAINED_SECONDS   10
#define TT_HEADER_SECONDS    10
#define TT_BODY_SECONDS      30
#define TT_KEEP_ALIVE        120
#define TT_HEARTBEAT_SECONDS 5
#define TT_OUTBOX            TT_MIB         /* unread by the client of a stream */
#define TT_SEND_BUFFER       (128 * TT_KIB) /* asked of the kernel, which would take megabytes */
#define TT_LOOP_MILLISECONDS 20             /* of one callback */

/* ---- models ---- */

#define TT_MODELS             64u /* of --models-dir */
#define TT_IDLE_UNLOAD_MOST   604800u
#define TT_TOKENIZERS_BESIDES 2u /* open beside the loaded model's: rendering, and a switch */

/* ---- the queue and the end ---- */

#define TT_QUEUE            16u
#define TT_QUEUE_MOST       1024u
#define TT_SHUTDOWN_SECONDS 30

/* ---- what a request may hold ---- */

#define TT_REQUEST_DEPTH   128u /* of JSON; files keep to TT_MAX_JSON_DEPTH */
#define TT_MESSAGES        10000u
#define TT_TOOLS           512u
#define TT_SCHEMA          (64 * TT_KIB)
#define TT_SCHEMAS         TT_MIB
#define TT_GRAMMARS        (24 * TT_MIB) /* compiled ones, in use and kept; the largest has 18 */
#define TT_STOP_STRINGS    16u
#define TT_STOP_BYTES      256u
#define TT_CHOICES         8u
#define TT_TOP_LOGPROBS    20u
#define TT_TOOL_CALL       (256 * TT_KIB)
#define TT_ARGUMENTS_PIECE 1024u /* bytes of a call's arguments in one event */

/* ---- responses that are kept ---- */

#define TT_STORED_RESPONSES 256u
#define TT_STORED_BYTES     (64 * TT_MIB) /* of them together */

#endif
