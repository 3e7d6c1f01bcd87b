/* Two lines, an endpoint and an address that it redirects to: the token's host is never another one
 * for us than for anybody who reads the address, and https is not left. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "repack/hub_address.h"
#include "repack/hub_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The host as the text has it: behind the scheme, slashes, of which some may be too many or too
 * few, and what looks like a name with a password. */
static void plain_host(const char *url, char out[512])
{
    const char *from = strchr(url, ':'), *at;
    out[0] = '\0';
    if (from == NULL)
        return;
    from += 1 + strspn(from + 1, "/");
    size_t n = strcspn(from, "/?#");
    for (size_t i = 0; i < n; i++)
        if (from[i] == '@') {
            at = from + i + 1;
            n -= (size_t)(at - from);
            from = at;
            i = (size_t)-1;
        }
    if (n >= 512)
        return;
    memcpy(out, from, n);
    out[n] = '\0';
    if (out[0] != '[')
        out[strcspn(out, ":")] = '\0';
}

static void check(const char *from, const char *to)
{
    static const char hub[] = "https://hub.example";
    char a[512], b[512], host[512], revision[512];
    bool safe = false;
    bool same = tt_hub_same_origin(from, to);
    if (same != tt_hub_same_origin(to, from))
        abort();
    if (tt_hub_origin(from, a, &safe)) {
        if (strncmp(a, "http", 4) != 0 || !tt_hub_same_origin(from, from))
            abort();
        if (same && (!tt_hub_origin(to, b, &safe) || strcmp(a, b) != 0))
            abort();
    }
    if (tt_hub_redirect_of(hub, to) == TT_HUB_REDIRECT_GOOD &&
        (!tt_hub_origin(to, b, &safe) || !safe))
        abort();
    plain_host(to, host);
    if (tt_hub_same_origin(hub, to) && strchr(host, '%') == NULL && strchr(host, '\\') == NULL &&
        strcasecmp(host, "hub.example") != 0)
        abort();
    if (tt_hub_revision_valid(from)) {
        tt_hub_escape_revision(from, revision);
        if (strchr(revision, '/') != NULL)
            abort();
    }
    (void)tt_hub_repository_valid(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *to = strchr(text, '\n');
    if (to != NULL) {
        *to++ = '\0';
        check(text, to);
    }
    free(text);
    return 0;
}
