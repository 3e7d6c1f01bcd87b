/* origin.h: what an install's manifest says of where it came from.
 *
 * Owns:      the count of what was held against a hub's digests, and of what has digests of ranges.
 * Not here:  the form of it (format/install_manifest.h), what is recorded (hub_install.c).
 * Laws:      a shard counts as verified when its whole SHA-256 stands there and is what the hub
 *            named.
 * Threads:   pure on its arguments.
 */
#ifndef TT_REPACK_ORIGIN_H
#define TT_REPACK_ORIGIN_H

#include "base/json.h"

typedef struct tt_origin {
    bool hub; /* made from a repository at a commit */
    char repository[201], commit[41];
    uint32_t shards, verified;
    size_t ranges; /* of the shards that are not verified */
} tt_origin;

/* `manifest` passed the checks of its form. */
void tt_origin_of(const json_t *manifest, tt_origin *out);
/* One sentence of at most `size` bytes; "" when no hub is known. */
void tt_origin_tell(const tt_origin *o, char *text, size_t size);

#endif
