/* added_tokens.h: finding added tokens (<|im_start|>, <think>, ...) in a text.
 *
 * Owns:      leftmost-longest search over all of them at once, single_word, lstrip and rstrip.
 * Not here:  the ids' bytes (vocab.h), what happens to the text between them.
 * Laws:      (1) linear in the text whatever text and tokens are; (2) the segments handed out
 *            are in text order, and text between tokens is never empty.
 * Threads:   shared freely once built.
 */
#ifndef TT_TOKENIZER_ADDED_TOKENS_H
#define TT_TOKENIZER_ADDED_TOKENS_H

#include "base/status.h"

#define TT_MAX_ADDED       65536u
#define TT_MAX_ADDED_BYTES (1u << 20) /* of all contents together; published: under 16 KiB */

typedef struct tt_added_token {
    char *content; /* as the file has it, NUL-terminated (it may hold NUL too) */
    char *pattern; /* what is searched: the content, normalised when `normalized` */
    size_t len, pattern_len;
    uint32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
} tt_added_token;

typedef struct tt_matcher_node {
    uint32_t child, sibling, fail; /* 0: none (the root is nobody's child) */
    uint32_t token;                /* longest token that ends a reading here, index + 1; 0: none */
    unsigned char byte;
} tt_matcher_node;

typedef struct tt_matcher {
    tt_matcher_node *nodes; /* NULL: no tokens */
    uint32_t n;
    uint32_t root[256];
    const tt_added_token *tokens;
} tt_matcher;

/* Takes the tokens whose `normalized` is as asked; `tokens` must outlive the matcher. */
TT_MUST_CHECK tt_status tt_matcher_build(const tt_added_token *tokens, size_t n, bool normalized,
                                         tt_matcher *out, tt_error *err);
void tt_matcher_free(tt_matcher *m);

/* A stretch of text between tokens (token NULL), or a token (text is what it was found as). */
typedef tt_status (*tt_segment_fn)(void *ctx, const char *text, size_t n,
                                   const tt_added_token *token, tt_error *err);

/* Cuts `n` bytes of checked UTF-8 into segments. Stops at the first failure. */
TT_MUST_CHECK tt_status tt_matcher_split(const tt_matcher *m, const char *text, size_t n,
                                         tt_segment_fn fn, void *ctx, tt_error *err);

#endif
