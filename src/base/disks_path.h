/* disks_path.h: where programs keep what it measured of disks.
 *
 * Owns:      one path.
 * Not here:  the environment (programs), the file's contents (the library).
 * Laws:      nothing is made or opened here.
 * Threads:   any.
 */
#ifndef TT_BASE_DISKS_PATH_H
#define TT_BASE_DISKS_PATH_H

#include <stdbool.h>

#include "base/limits.h"

/* $XDG_CACHE_HOME (absolute, else `home`/.cache) and "tinytitan/disks.json"; false when neither is
 * there or the path is too long. */
bool tt_disks_path(const char *xdg_cache_home, const char *home, char out[TT_MAX_PATH]);

#endif
