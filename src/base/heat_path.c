#include "base/heat_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

#define FOLDER_BELOW "tinytitan/heat"
#define NAME_DIGITS  16 /* of the path's SHA-256 */

static bool fits(int n)
{
    return n > 0 && (unsigned)n < TT_MAX_PATH;
}

/* Below the cache folder, for an install with this real path. */
static bool in_cache(const char *real, const char *xdg_cache_home, const char *home,
                     char out[TT_MAX_PATH])
{
    char hex[TT_SHA256_HEX];
    if (tt_sha256_of(real, strlen(real), hex, NULL) != TT_OK)
        return false;
    hex[NAME_DIGITS] = '\0';
    if (xdg_cache_home != NULL && xdg_cache_home[0] == '/')
        return fits(snprintf(out, TT_MAX_PATH, "%s/" FOLDER_BELOW "/%s.bin", xdg_cache_home, hex));
    if (home != NULL && home[0] == '/')
        return fits(snprintf(out, TT_MAX_PATH, "%s/.cache/" FOLDER_BELOW "/%s.bin", home, hex));
    return false;
}

bool tt_heat_path(const char *model, const char *xdg_cache_home, const char *home,
                  char out[TT_MAX_PATH])
{
    char *real = realpath(model, NULL);
    if (real == NULL)
        return false;
    bool found = access(real, W_OK) == 0
                     ? fits(snprintf(out, TT_MAX_PATH, "%s/" TT_HEAT_NAME, real))
                     : in_cache(real, xdg_cache_home, home, out);
    free(real);
    return found;
}
