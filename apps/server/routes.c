#include "server/routes.h"

#include <string.h>
#include <strings.h>

#include "server/http1.h"

const char *const tt_route_names[TT_ROUTES + 1] = {"/",
                                                   "/health",
                                                   "/metrics",
                                                   "/v1/status",
                                                   "/v1/models",
                                                   "/v1/models/{id}",
                                                   "/v1/chat/completions",
                                                   "/v1/completions",
                                                   "/tokenize",
                                                   "/v1/messages",
                                                   "/v1/messages/count_tokens",
                                                   "/v1/models/unload",
                                                   "other",
                                                   NULL};

#define PATH 256u

/* The first n bytes of the target without their percent signs, when that is still the same path: no
 * name of ours holds a slash, so one that was written as %2F is of another. */
static bool decode_path(const char *target, size_t n, char path[PATH])
{
    for (size_t i = 0; i + 2 < n; i++)
        if (strncasecmp(target + i, "%2f", 3) == 0)
            return false;
    return tt_http1_decode(target, n, path, PATH);
}

tt_route tt_route_find(const char *target, char id[128])
{
    char path[PATH];
    size_t n = strcspn(target, "?");
    const char *last = memrchr(target, '/', n);
    size_t before = last != NULL ? (size_t)(last - target) : 0;
    id[0] = '\0';
    if (decode_path(target, n, path) && strcmp(path, tt_route_names[TT_ROUTE_UNLOAD]) == 0)
        return TT_ROUTE_UNLOAD;
    if (before + 1 < n && decode_path(target, before, path) &&
        strcmp(path, tt_route_names[TT_ROUTE_MODELS]) == 0)
        return tt_http1_decode(last + 1, n - before - 1, id, 128) ? TT_ROUTE_MODEL : TT_ROUTE_OTHER;
    if (!decode_path(target, n, path))
        return TT_ROUTE_OTHER;
    for (int i = 0; i < TT_ROUTE_OTHER; i++)
        if (i != TT_ROUTE_MODEL && strcmp(path, tt_route_names[i]) == 0)
            return (tt_route)i;
    return TT_ROUTE_OTHER;
}

const char *tt_route_methods(tt_route route)
{
    return route < TT_ROUTE_CHAT    ? "GET, HEAD, OPTIONS"
           : route < TT_ROUTE_OTHER ? "POST, OPTIONS"
                                    : "";
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
