/* pretokenizer.h: text to the pieces that merges may not cross.
 *
 * Owns:      the pre_tokenizer of tokenizer.json: split patterns, compiled; their dialect.
 * Not here:  the byte-level alphabet (vocab.h), merges (bpe.h).
 * Laws:      (1) the pieces are the text: nothing is added, dropped or changed; (2) a pattern
 *            means what it means to the reference implementation's engine, or is refused by
 *            name; (3) the steps of a match are bounded.
 * Threads:   shared freely once built.
 */
#ifndef TT_TOKENIZER_PRETOKENIZER_H
#define TT_TOKENIZER_PRETOKENIZER_H

#include "base/buf.h"
#include "base/json.h"

typedef struct tt_pretokenizer tt_pretokenizer;

/* `node` is the value of "pre_tokenizer". */
TT_MUST_CHECK tt_status tt_pretokenizer_build(const json_t *node, const char *file,
                                              tt_pretokenizer **out, tt_error *err);
void tt_pretokenizer_free(tt_pretokenizer **pt);

typedef tt_status (*tt_piece_fn)(void *ctx, const char *piece, size_t n, tt_error *err);

/* Hands the pieces of `n` bytes of checked UTF-8 to `fn` in order; none is empty. Stops at the
 * first failure. */
TT_MUST_CHECK tt_status tt_pretokenizer_split(const tt_pretokenizer *pt, const char *text, size_t n,
                                              tt_piece_fn fn, void *ctx, tt_error *err);

/* Rewrites a pattern of the file for PCRE2 (split_pattern.c): \s and \S become the exact class, and
 * whatever the two engines read differently is refused. Appends to `out`. */
TT_MUST_CHECK tt_status tt_split_pattern(const char *pattern, size_t n, const char *file,
                                         tt_buf *out, tt_error *err);

/* What the patterns are matched against in place of `text` (split_later.c): as many bytes, with
 * characters that are younger than PCRE2's tables replaced by older ones of the same class. Appends
 * to `out`; nothing when the text will do as it is. */
TT_MUST_CHECK tt_status tt_split_subject(const char *text, size_t n, tt_buf *out, tt_error *err);

#endif
