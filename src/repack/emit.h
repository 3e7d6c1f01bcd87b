/* emit.h: one output file, written front to back, hashed on the way.
 *
 * Owns:      the descriptor, the digest, the count of bytes.
 * Not here:  what the bytes are; renaming.
 * Laws:      (1) the file must not exist before, and links are not followed;  (2) padding is zero;
 *            (3) finish syncs and tells size, digest and modification time of what is there.
 * Threads:   one at a time.
 */
#ifndef TT_REPACK_EMIT_H
#define TT_REPACK_EMIT_H

#include "base/hash.h"
#include "base/limits.h"
#include "repack/tensor_plan.h"

typedef struct tt_emit {
    int fd;
    char path[TT_MAX_PATH];
    uint64_t at;
    tt_sha256 *sha;
    const tt_repack_events *ev;
    uint64_t *done; /* bytes of the whole job, advanced by every append */
    uint64_t total;
} tt_emit;

/* What finish found. */
typedef struct tt_emitted {
    uint64_t size;
    int64_t mtime_ns;
    char sha256[TT_SHA256_HEX];
} tt_emitted;

TT_MUST_CHECK tt_status tt_emit_create(tt_emit *e, const char *path, const tt_repack_events *ev,
                                       uint64_t *done, uint64_t total, tt_error *err);
/* Appends; TT_ERR_ABORTED when the progress function wants to stop. */
TT_MUST_CHECK tt_status tt_emit_append(tt_emit *e, const void *bytes, uint64_t n, tt_error *err);
/* Appends zeros up to the absolute offset. */
TT_MUST_CHECK tt_status tt_emit_pad(tt_emit *e, uint64_t offset, tt_error *err);
TT_MUST_CHECK tt_status tt_emit_finish(tt_emit *e, tt_emitted *out, tt_error *err);
/* Closes without finishing; the file stays for the caller to remove. Harmless after finish. */
void tt_emit_drop(tt_emit *e);

#endif
