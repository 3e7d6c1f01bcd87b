/* emit.h: one output file, written front to back and hashed on the way, or in any order.
 *
 * Owns:      the descriptor, the digest, the count of bytes.
 * Not here:  what the bytes are; renaming.
 * Laws:      (1) a file that is written front to back must not exist before, and links are never
 *            followed;  (2) what nobody writes is zero;  (3) finish syncs and tells size, digest
 *            and modification time of what is there; a file written in any order has no digest
 *            then (scan.h reads it).
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
    uint64_t at, pushed; /* bytes appended; handed to the disk */
    tt_sha256 *sha;
    const tt_repack_events *ev;
    uint64_t *done; /* bytes of the whole job, advanced by every append */
    uint64_t total;
} tt_emit;

/* What finish found. */
typedef struct tt_emitted {
    uint64_t size;
    int64_t mtime_ns;
    char sha256[TT_SHA256_HEX]; /* "" when the file was written in any order */
} tt_emitted;

TT_MUST_CHECK tt_status tt_emit_create(tt_emit *e, const char *path, const tt_repack_events *ev,
                                       uint64_t *done, uint64_t total, tt_error *err);
/* Opens for writing in any order: a file of `size` bytes, zeros when it was not there. One of
 * another size is made anew. */
TT_MUST_CHECK tt_status tt_emit_open(tt_emit *e, const char *path, uint64_t size, tt_error *err);
/* Writes inside a file that tt_emit_open opened. */
TT_MUST_CHECK tt_status tt_emit_write(tt_emit *e, const void *bytes, uint64_t n, uint64_t offset,
                                      tt_error *err);
/* Appends; TT_ERR_ABORTED when the progress function wants to stop. */
TT_MUST_CHECK tt_status tt_emit_append(tt_emit *e, const void *bytes, uint64_t n, tt_error *err);
/* Appends zeros up to the absolute offset. */
TT_MUST_CHECK tt_status tt_emit_pad(tt_emit *e, uint64_t offset, tt_error *err);
TT_MUST_CHECK tt_status tt_emit_finish(tt_emit *e, tt_emitted *out, tt_error *err);
/* Closes without finishing; the file stays for the caller to remove. Harmless after finish. */
void tt_emit_drop(tt_emit *e);

#endif
