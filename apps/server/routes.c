#include "server/routes.h"

#include <string.h>

#include "server/http1.h"

#define GET    "GET, HEAD, OPTIONS"
#define POST   "POST, OPTIONS"
#define DELETE "GET, HEAD, DELETE, OPTIONS"

/* X(route, path, methods); of two that fit the first is meant. */
#define PATHS(X)                                                                                   \
    X(ROOT, "/", GET)                                                                              \
    X(HEALTH, "/health", GET)                                                                      \
    X(METRICS, "/metrics", GET)                                                                    \
    X(STATUS, "/v1/status", GET)                                                                   \
    X(MODELS, "/v1/models", GET)                                                                   \
    X(UNLOAD, "/v1/models/unload", POST)                                                           \
    X(MODEL, "/v1/models/{id}", GET)                                                               \
    X(CHAT, "/v1/chat/completions", POST)                                                          \
    X(TEXT, "/v1/completions", POST)                                                               \
    X(RESPONSES, "/v1/responses", POST)                                                            \
    X(RESPONSE_COMPACT, "/v1/responses/compact", POST)                                             \
    X(RESPONSE, "/v1/responses/{id}", DELETE)                                                      \
    X(RESPONSE_ITEMS, "/v1/responses/{id}/input_items", GET)                                       \
    X(RESPONSE_CANCEL, "/v1/responses/{id}/cancel", POST)                                          \
    X(COUNT, "/tokenize", POST)                                                                    \
    X(MESSAGES, "/v1/messages", POST)                                                              \
    X(MESSAGES_COUNT, "/v1/messages/count_tokens", POST)                                           \
    X(OTHER, "other", "")

#define NAME_(route, path, methods)    [TT_ROUTE_##route] = (path),
#define METHODS_(route, path, methods) [TT_ROUTE_##route] = (methods),
const char *const tt_route_names[TT_ROUTES + 1] = {PATHS(NAME_)};
static const char *const route_methods[TT_ROUTES] = {PATHS(METHODS_)};

#define SEGMENT 128u

/* Whether the n bytes, percent signs and all, are one segment of a path of ours. What stands for
 * {id} goes into `id`. A slash that was written as %2F is part of a segment, and no name of ours
 * has one. */
static bool is_segment(const char *text, size_t n, const char *want, size_t want_len,
                       char id[SEGMENT])
{
    char decoded[SEGMENT];
    if (want_len == 4 && strncmp(want, "{id}", 4) == 0)
        return n > 0 && tt_http1_decode(text, n, id, SEGMENT);
    return tt_http1_decode(text, n, decoded, SEGMENT) && strlen(decoded) == want_len &&
           strncmp(decoded, want, want_len) == 0;
}

static bool is_path(const char *target, size_t n, const char *want, char id[SEGMENT])
{
    const char *end = target + n;
    /* Both begin with a slash, and so does every segment. */
    while (target < end && *target == '/' && *want == '/') {
        want++;
        target++;
        size_t k = strcspn(want, "/");
        const char *slash = memchr(target, '/', (size_t)(end - target));
        size_t len = (size_t)((slash != NULL ? slash : end) - target);
        if (!is_segment(target, len, want, k, id))
            return false;
        target += len;
        want += k;
    }
    return target == end && *want == '\0';
}

tt_route tt_route_find(const char *target, char id[128])
{
    size_t n = strcspn(target, "?");
    for (int i = 0; n > 0 && i < TT_ROUTE_OTHER; i++) {
        id[0] = '\0';
        if (is_path(target, n, tt_route_names[i], id))
            return (tt_route)i;
    }
    id[0] = '\0';
    return TT_ROUTE_OTHER;
}

const char *tt_route_methods(tt_route route)
{
    return route < TT_ROUTES ? route_methods[route] : "";
}

bool tt_route_takes(tt_route route, const char *method)
{
    const char *list = tt_route_methods(route);
    size_t n = strlen(method);
    for (const char *at = list; n > 0 && (at = strstr(at, method)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

bool tt_route_is_bare(tt_route route)
{
    return route == TT_ROUTE_RESPONSE_CANCEL;
}
