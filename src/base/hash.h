/* hash.h: SHA-256 for files and CRC-32C for expert reads.
 *
 * Owns:      digests and their hexadecimal form.
 * Not here:  which bytes are covered (docs/format-gturbo.md).
 * Laws:      hexadecimal digests are 64 lower-case characters.
 * Threads:   contexts belong to one thread; tt_crc32c is pure.
 */
#ifndef TT_BASE_HASH_H
#define TT_BASE_HASH_H

#include "base/status.h"

#define TT_SHA256_HEX 65 /* with the terminating NUL */

typedef struct tt_sha256 tt_sha256;

TT_MUST_CHECK tt_status tt_sha256_create(tt_sha256 **ctx, tt_error *err);
TT_MUST_CHECK tt_status tt_sha256_update(tt_sha256 *ctx, const void *bytes, size_t n,
                                         tt_error *err);
/* Writes the digest; the context is then ready for another message. */
TT_MUST_CHECK tt_status tt_sha256_finish(tt_sha256 *ctx, char hex[TT_SHA256_HEX], tt_error *err);
void tt_sha256_close(tt_sha256 **ctx);

/* One call over a block. */
TT_MUST_CHECK tt_status tt_sha256_of(const void *bytes, size_t n, char hex[TT_SHA256_HEX],
                                     tt_error *err);
/* The same as 32 bytes. */
TT_MUST_CHECK tt_status tt_sha256_raw(const void *bytes, size_t n, unsigned char digest[32],
                                      tt_error *err);
/* True for exactly 64 lower-case hexadecimal characters. */
bool tt_sha256_hex_valid(const char *hex);

/* CRC-32C (Castagnoli, RFC 3720 B.4) of `n` bytes continuing from `crc` (0 at the start). */
uint32_t tt_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same without the machine's instruction: what other machines run, and the definition. */
uint32_t tt_crc32c_portable(uint32_t crc, const void *bytes, size_t n);

#endif
