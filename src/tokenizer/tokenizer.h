/* tokenizer.h: what the other files of this folder see of an opened tokenizer.
 *
 * Owns:      the view that chat rendering needs: where the files lie, the raw template, named
 *            tokens.
 * Not here:  the public functions (include/tinytitan/tinytitan.h; tokenizer.c and decoder.c
 *            define them, tt_tokenizer_has_template included), the tables (vocab.h).
 * Laws:      (1) everything returned is owned by the tokenizer and lives as long as it does;
 *            (2) nothing here fails: broken files are refused by tt_tokenizer_open.
 * Threads:   an opened tokenizer is read-only and shared freely.
 */
#ifndef TT_TOKENIZER_TOKENIZER_H
#define TT_TOKENIZER_TOKENIZER_H

#include "base/status.h"

/* Folder that holds tokenizer.json: `dir` of tt_tokenizer_open, or its tokenizer/ subfolder. */
const char *tt_tokenizer_dir(const tt_tokenizer *tok);

/* Raw text of the chat template, NUL-terminated and without NUL inside; NULL when there is none.
 * Taken from chat_template.jinja, else from "chat_template" in tokenizer_config.json (a string, or
 * the entry named "default" of a list), else from chat_template.json. */
const char *tt_tokenizer_template(const tt_tokenizer *tok, size_t *len);
/* Path of the file that the template came from; without a template, of the chat_template.jinja that
 * is missing. */
const char *tt_tokenizer_template_file(const tt_tokenizer *tok);

/* Named tokens of tokenizer_config.json, as the template sees them: their text, or NULL when the
 * file does not name one. */
typedef enum tt_named_token {
    TT_TOKEN_BOS = 0,
    TT_TOKEN_EOS = 1,
    TT_TOKEN_PAD = 2,
    TT_TOKEN_UNK = 3
} tt_named_token;
#define TT_NAMED_TOKENS 4
const char *tt_tokenizer_named_token(const tt_tokenizer *tok, tt_named_token which);

/* Optional files that were looked for in vain, as one list for messages ("a, b"); "" when none. */
const char *tt_tokenizer_missing(const tt_tokenizer *tok);

#endif
