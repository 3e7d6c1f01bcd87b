/* server_log.h: one line a request, and what the server does, plain or as JSON.
 *
 * Owns:      the form of the lines.
 * Not here:  what is counted (metrics.h).
 * Laws:      no text of prompts, answers, tools, keys or header values goes through here.
 * Threads:   any; a line is one write.
 */
#ifndef TT_SERVER_SERVER_LOG_H
#define TT_SERVER_SERVER_LOG_H

#include "base/buf.h"

typedef struct tt_server_log {
    int fd; /* -1: none */
    bool json;
} tt_server_log;

typedef struct tt_log_request {
    const char *id, *method, *path;
    int status;
    const char *code; /* NULL: none */
    double wait_seconds, run_seconds;
    const char *model; /* NULL: none */
    bool computed;     /* the numbers below mean something */
    size_t prompt, cached, generated, thought;
    const char *tier, *kind, *refused; /* of the prompt cache; NULL: nothing */
    uint32_t bad_calls;
    const char *adjusted, *ignored, *repaired, *relaxed; /* "" when there was none */
    const char *detail; /* of a failure inside: for the log alone, or NULL */
} tt_log_request;

void tt_log_say(const tt_server_log *log, const char *fmt, ...) TT_PRINTF(2, 3);
void tt_log_answer(const tt_server_log *log, const tt_log_request *r);

#endif
