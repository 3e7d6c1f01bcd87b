/* buf.h: growable byte buffer that is born with a maximum.
 *
 * Owns:      its bytes, always NUL-terminated one past `len`.
 * Not here:  text encodings.
 * Laws:      (1) never longer than `max`;  (2) the first failure is remembered and makes later
 *            appends no-ops, so a writer asks once at the end (tt_buf_status).
 * Threads:   one at a time.
 */
#ifndef TT_BASE_BUF_H
#define TT_BASE_BUF_H

#include "base/status.h"

typedef struct tt_buf {
    char *data;
    size_t len, cap, max;
    tt_status failed;
} tt_buf;

/* An empty buffer that may grow to `max` bytes. Takes no memory yet. */
void tt_buf_init(tt_buf *b, size_t max);
void tt_buf_free(tt_buf *b);
void tt_buf_clear(tt_buf *b); /* length 0, memory and maximum kept, failure forgotten */
/* Memory for n more bytes at once, so that appending them moves nothing. */
void tt_buf_reserve(tt_buf *b, size_t n);
void tt_buf_append(tt_buf *b, const void *bytes, size_t n);
void tt_buf_puts(tt_buf *b, const char *text);
void tt_buf_putc(tt_buf *b, char c);
void tt_buf_printf(tt_buf *b, const char *fmt, ...) TT_PRINTF(2, 3);
/* First failure, with a message naming the maximum when that was it. */
TT_MUST_CHECK tt_status tt_buf_status(const tt_buf *b, tt_error *err);
/* Hands the bytes to the caller (release with tt_free) and empties the buffer; NULL when out of
 * memory. */
char *tt_buf_steal(tt_buf *b, size_t *len);
/* n bytes as a string of their own, for free(); NULL when out of memory. strndup would look for an
 * end in bytes that need not have one. */
char *tt_copy_text(const char *text, size_t n);

#endif
