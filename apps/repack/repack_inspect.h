/* repack_inspect.h: prints what an install holds.
 *
 * Owns:      the tables and the JSON object of --inspect.
 * Not here:  checking payload (repack/verify.h).
 * Laws:      an install whose receipt does not match is shown, and said so.
 * Threads:   one.
 */
#ifndef TT_APP_REPACK_INSPECT_H
#define TT_APP_REPACK_INSPECT_H

#include "base/status.h"

TT_MUST_CHECK tt_status repack_inspect(const char *dir, bool json, tt_error *err);

#endif
