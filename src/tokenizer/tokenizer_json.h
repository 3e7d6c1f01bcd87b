/* tokenizer_json.h: tokenizer.json by events: the two big lists flat, the rest as a small tree.
 *
 * Owns:      the grammar of model.vocab and model.merges, bounds on everything that is kept.
 * Not here:  what normalizer, pre_tokenizer, decoder and added_tokens mean (tokenizer_build.c).
 * Laws:      (1) memory grows with what is kept, never with nesting or repetition; (2) the
 *            order of keys in the file does not matter; (3) every refusal names file and byte
 *            offset.
 * Threads:   one parse at a time per result.
 */
#ifndef TT_TOKENIZER_TOKENIZER_JSON_H
#define TT_TOKENIZER_TOKENIZER_JSON_H

#include "base/json.h"

/* An entry of model.vocab: `len` bytes at `start` of the blob. `raw` when the name is outside the
 * byte-level alphabet; it then stands for its own UTF-8. */
typedef struct tt_json_token {
    uint32_t start, len, id;
    bool raw;
} tt_json_token;

/* An entry of model.merges, as bytes: the left part at `start` of the blob, the right part behind
 * it. */
typedef struct tt_json_merge {
    uint32_t start, left, right;
} tt_json_merge;

typedef struct tt_tokenizer_json {
    char *blob;
    tt_json_token *tokens;
    size_t n_tokens;
    tt_json_merge *merges;
    size_t n_merges;
    json_t *tree; /* everything but model.vocab and model.merges */
} tt_tokenizer_json;

TT_MUST_CHECK tt_status tt_tokenizer_json_parse(const char *text, size_t len, const char *file,
                                                tt_tokenizer_json *out, tt_error *err);
void tt_tokenizer_json_free(tt_tokenizer_json *tj);

#endif
