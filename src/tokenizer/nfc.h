/* nfc.h: Unicode normalisation form C, in linear time.
 *
 * Owns:      finding the stretches that need work, ordering of combining marks.
 * Not here:  decomposition and composition tables (utf8proc).
 * Laws:      (1) text that needs nothing is not copied; (2) n log n at worst: long runs of
 *            combining marks are sorted, not bubbled; (3) equal to the reference
 *            implementation, whose tables are those of Unicode 9, so that ids are.
 * Threads:   pure functions.
 */
#ifndef TT_TOKENIZER_NFC_H
#define TT_TOKENIZER_NFC_H

#include "base/buf.h"

/* Normalises `n` bytes of checked UTF-8 and appends them to `out`. *same (then `out` is untouched)
 * when the text is already normalised in a way that is quick to see. */
TT_MUST_CHECK tt_status tt_nfc(const char *text, size_t n, tt_buf *out, bool *same, tt_error *err);

/* Whether the reference implementation does not know what Unicode says of this code point: nothing
 * is moved across it or composed with it. */
bool tt_nfc_later(uint32_t cp);

/* Whether the code point always stays as it is: a starter, unchanged by NFC, that never joins what
 * stands before it. May say no for one that does. */
bool tt_nfc_inert(uint32_t cp);

#endif
