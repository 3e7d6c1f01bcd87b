#include "server/routes.h"

#include <string.h>

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
                                                   "other",
                                                   NULL};

#define PATH 256u

tt_route tt_route_find(const char *target, char id[128])
{
    static const char below[] = "/v1/models/";
    char path[PATH];
    size_t n = strcspn(target, "?");
    id[0] = '\0';
    if (n > sizeof below - 1 && strncmp(target, below, sizeof below - 1) == 0 &&
        memchr(target + sizeof below - 1, '/', n - (sizeof below - 1)) == NULL)
        return tt_http1_decode(target + sizeof below - 1, n - (sizeof below - 1), id, 128)
                   ? TT_ROUTE_MODEL
                   : TT_ROUTE_OTHER;
    if (!tt_http1_decode(target, n, path, sizeof path))
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
    for (const char *at = list; (at = strstr(at, method)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return n > 0;
    return false;
}
