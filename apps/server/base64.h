/* base64.h: bytes as text that JSON carries, and back.
 *
 * Owns:      RFC 4648, section 4, with its padding.
 * Not here:  what the bytes mean.
 * Laws:      (1) pure;  (2) one text for the same bytes and no other: what decodes encodes to the
 *            same text again.
 * Threads:   any.
 */
#ifndef TT_SERVER_BASE64_H
#define TT_SERVER_BASE64_H

#include "base/buf.h"

void tt_base64_write(tt_buf *out, const void *bytes, size_t n);
/* Appends the bytes. False when the text is no base64; `out` may then hold a part of it. */
bool tt_base64_read(tt_buf *out, const char *text, size_t n);

#endif
