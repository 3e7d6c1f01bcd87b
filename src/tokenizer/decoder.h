/* decoder.h: bytes that arrive in any portions to text that is always whole UTF-8.
 *
 * Owns:      the state between portions, replacement of what is no UTF-8 by U+FFFD.
 * Not here:  the bytes of ids (vocab.h).
 * Laws:      (1) the text does not depend on where the bytes were cut; (2) one U+FFFD a maximal
 *            subpart (Unicode 3.9, table 3-8), as most decoders do.
 * Threads:   a stream belongs to one thread.
 */
#ifndef TT_TOKENIZER_DECODER_H
#define TT_TOKENIZER_DECODER_H

#include "base/buf.h"

typedef struct tt_utf8_stream {
    unsigned char have[4]; /* beginning of an unfinished character */
    unsigned n, need;      /* bytes there, bytes that the character will have */
} tt_utf8_stream;

/* Appends to `out` what `n` more bytes complete. */
void tt_utf8_stream_push(tt_utf8_stream *s, const char *bytes, size_t n, tt_buf *out);
/* Appends U+FFFD for an unfinished character, if any, and starts over. */
void tt_utf8_stream_flush(tt_utf8_stream *s, tt_buf *out);

#endif
