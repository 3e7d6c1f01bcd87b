/* heat_path.h: where programs keep which experts a model used.
 *
 * Owns:      one path.
 * Not here:  the environment (programs), the file's contents (the library).
 * Laws:      nothing is made or opened here.
 * Threads:   any.
 */
#ifndef TT_BASE_HEAT_PATH_H
#define TT_BASE_HEAT_PATH_H

#include <stdbool.h>

#include "base/limits.h"

/* In the install when its folder can be written to, else $XDG_CACHE_HOME (absolute, else
 * `home`/.cache) and "tinytitan/heat/", with a name that follows from the install's real path;
 * false when there is neither or the path is too long. */
bool tt_heat_path(const char *model, const char *xdg_cache_home, const char *home,
                  char out[TT_MAX_PATH]);

#endif
