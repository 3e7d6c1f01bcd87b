#include "repack/hub_address.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Scheme, host and port in one string; false when it is none of ours. */
bool tt_hub_origin(const char *url, char out[512], bool *safe)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    bool ok = u != NULL && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    if (ok) {
        ok = snprintf(out, 512, "%s://%s:%s", scheme, host, port) < 512;
        for (char *s = out; *s != '\0'; s++)
            *s = (char)tolower((unsigned char)*s);
        *safe = strcmp(scheme, "https") == 0 || strcmp(host, "127.0.0.1") == 0 ||
                strcmp(host, "[::1]") == 0 || strcasecmp(host, "localhost") == 0;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return ok;
}

bool tt_hub_same_origin(const char *a, const char *b)
{
    char oa[512], ob[512];
    bool safe;
    return tt_hub_origin(a, oa, &safe) && tt_hub_origin(b, ob, &safe) && strcmp(oa, ob) == 0;
}

/* Slashes of a branch's name are part of the name. */
void tt_hub_escape_revision(const char *revision, char out[512])
{
    size_t n = 0;
    for (const char *s = revision; *s != '\0' && n < 500; s++) {
        if (*s == '/') {
            memcpy(out + n, "%2F", 3);
            n += 3;
        } else {
            out[n++] = *s;
        }
    }
    out[n] = '\0';
}

tt_hub_redirect tt_hub_redirect_of(const char *from, const char *to)
{
    char origin[512];
    bool safe;
    if (!tt_hub_origin(to, origin, &safe))
        return TT_HUB_REDIRECT_NOWHERE;
    bool was_private = strncasecmp(from, "https:", 6) == 0, is = strncmp(origin, "https:", 6) == 0;
    return was_private && !is ? TT_HUB_REDIRECT_UNSAFE : TT_HUB_REDIRECT_GOOD;
}
