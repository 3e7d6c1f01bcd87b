/* routes.h: which paths there are: the table of section 4 of docs/http.md.
 *
 * Owns:      paths, their methods, the names that logs and metrics have for them.
 * Not here:  what is answered.
 * Laws:      pure.
 * Threads:   any.
 */
#ifndef TT_SERVER_ROUTES_H
#define TT_SERVER_ROUTES_H

#include <stdbool.h>

typedef enum tt_route {
    TT_ROUTE_ROOT,
    TT_ROUTE_HEALTH,
    TT_ROUTE_METRICS,
    TT_ROUTE_STATUS,
    TT_ROUTE_MODELS,
    TT_ROUTE_UNLOAD,
    TT_ROUTE_MODEL,
    TT_ROUTE_CHAT,
    TT_ROUTE_TEXT,
    TT_ROUTE_RESPONSES,
    TT_ROUTE_RESPONSE_COMPACT,
    TT_ROUTE_RESPONSE,
    TT_ROUTE_RESPONSE_ITEMS,
    TT_ROUTE_RESPONSE_CANCEL,
    TT_ROUTE_COUNT,
    TT_ROUTE_MESSAGES,
    TT_ROUTE_MESSAGES_COUNT,
    TT_ROUTE_OTHER, /* no such path */
    TT_ROUTES
} tt_route;

/* As logs and metrics name them; NULL at the end. */
extern const char *const tt_route_names[TT_ROUTES + 1];

/* Of a request target, query and all. `id` (128 bytes) receives what stands for {id}, else "". */
tt_route tt_route_find(const char *target, char id[128]);
/* For Allow: "GET, HEAD, OPTIONS"; "" for TT_ROUTE_OTHER. */
const char *tt_route_methods(tt_route route);
bool tt_route_takes(tt_route route, const char *method);
/* Whether a POST of it may come without a body and its type. */
bool tt_route_is_bare(tt_route route);

#endif
