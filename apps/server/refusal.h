/* refusal.h: why a request is refused, filled once where it is known.
 *
 * Owns:      status, code, message and the name of the field.
 * Not here:  envelopes (reply.h).
 * Laws:      (1) a message never repeats text of a prompt;  (2) codes are those of section 3 of
 *            docs/http.md.
 * Threads:   one.
 */
#ifndef TT_SERVER_REFUSAL_H
#define TT_SERVER_REFUSAL_H

#include "base/status.h"

typedef struct tt_refusal {
    int status; /* 0: none */
    const char *code;
    char param[96];
    char message[1024];
} tt_refusal;

/* Fills it and returns false. `param` may be NULL. */
bool tt_refuse(tt_refusal *why, int status, const char *code, const char *param, const char *fmt,
               ...) TT_PRINTF(5, 6);
/* 400 invalid_value and so on. */
#define tt_refuse_value(why, param, ...)                                                           \
    tt_refuse((why), 400, "invalid_value", (param), __VA_ARGS__)
#define tt_refuse_large(why, param, ...)                                                           \
    tt_refuse((why), 400, "value_too_large", (param), __VA_ARGS__)
#define tt_refuse_unsupported(why, param, ...)                                                     \
    tt_refuse((why), 400, "unsupported_value", (param), __VA_ARGS__)
#define tt_refuse_missing(why, param)                                                              \
    tt_refuse((why), 400, "missing_required_parameter", (param), "%s is needed", (param))

#endif
