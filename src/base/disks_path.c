#include "base/disks_path.h"

#include <stdio.h>

#define FILE_BELOW "tinytitan/disks.json"

bool tt_disks_path(const char *xdg_cache_home, const char *home, char out[TT_MAX_PATH])
{
    int n = -1;
    if (xdg_cache_home != NULL && xdg_cache_home[0] == '/')
        n = snprintf(out, TT_MAX_PATH, "%s/" FILE_BELOW, xdg_cache_home);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, TT_MAX_PATH, "%s/.cache/" FILE_BELOW, home);
    return n > 0 && (unsigned)n < TT_MAX_PATH;
}
