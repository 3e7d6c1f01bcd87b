/* hub_address.h: addresses on a hub: which host one names, and where a redirect may lead.
 *
 * Owns:      origins, the escaping of a revision, the judgement of a redirect.
 * Not here:  what is asked of an address, and with which headers (hub_client.h).
 * Laws:      (1) two addresses have one origin only when scheme, host and port are the same;  (2)
 *            https is never left for http.
 * Threads:   pure on their arguments.
 */
#ifndef TT_REPACK_HUB_ADDRESS_H
#define TT_REPACK_HUB_ADDRESS_H

#include <stdbool.h>

/* Scheme, host and port, in lower case; false when it is neither http nor https. `safe`: nobody on
 * the way can read it, since it is https, or stays on this machine. */
bool tt_hub_origin(const char *url, char out[512], bool *safe);
bool tt_hub_same_origin(const char *a, const char *b);

typedef enum tt_hub_redirect {
    TT_HUB_REDIRECT_GOOD,
    TT_HUB_REDIRECT_NOWHERE, /* no address that can be asked */
    TT_HUB_REDIRECT_UNSAFE   /* from https to http */
} tt_hub_redirect;
tt_hub_redirect tt_hub_redirect_of(const char *from, const char *to);

/* Slashes of a branch's name are part of the name. */
void tt_hub_escape_revision(const char *revision, char out[512]);

#endif
