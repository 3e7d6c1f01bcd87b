/* token_files.h: the small files beside tokenizer.json.
 *
 * Owns:      where the folder is, the chat template's text, named tokens, end-of-generation ids
 *            and sampling defaults as the files give them.
 * Not here:  tokenizer.json, running the template (chat.c).
 * Laws:      (1) every one of these files may be missing, none may be broken; (2) what was
 *            looked for in vain is remembered by name; (3) an end id that the model cannot
 *            produce is refused.
 * Threads:   read-only once loaded.
 */
#ifndef TT_TOKENIZER_TOKEN_FILES_H
#define TT_TOKENIZER_TOKEN_FILES_H

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/tokenizer.h"

#define TT_MAX_STOP_IDS 64u /* published lists have one to five */

typedef struct tt_token_files {
    char dir[TT_MAX_PATH]; /* holds tokenizer.json */
    char tokenizer_json[TT_MAX_PATH];
    char config_path[TT_MAX_PATH];   /* of tokenizer_config.json */
    char template_path[TT_MAX_PATH]; /* where the template came from, or should have */
    char *template_text;             /* NULL: none */
    size_t template_len;
    json_t *config; /* tokenizer_config.json, NULL when missing */
    char *named[TT_NAMED_TOKENS];
    uint32_t vocab; /* of config.json; TT_MAX_VOCAB where it says nothing */
    uint32_t stops[TT_MAX_STOP_IDS];
    size_t n_stops;
    bool has_generation;         /* generation_config.json was there */
    tt_sampler_options sampling; /* its defaults over the plain ones */
    tt_buf missing;
} tt_token_files;

/* `dir` is an install or holds tokenizer.json itself; without one TT_ERR_NOT_FOUND. */
TT_MUST_CHECK tt_status tt_token_files_load(const char *dir, tt_token_files *out, tt_error *err);
void tt_token_files_free(tt_token_files *tf);

/* Adds an end-of-generation id unless it is there. False when the list is full. */
bool tt_token_files_add_stop(tt_token_files *tf, uint32_t id);

/* The plain defaults: greedy, everything off. */
tt_sampler_options tt_plain_sampling(void);

/* Content of a token that a file gives as a string or as an object with "content"; NULL otherwise.
 */
const char *tt_token_content(const json_t *v);

#endif
