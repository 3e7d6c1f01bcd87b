/* tokenizer_impl.h: the inside of a tokenizer, for the files that make and use it.
 *
 * Owns:      the struct and its making from the bytes of tokenizer.json.
 * Not here:  what chat rendering sees (tokenizer.h).
 * Laws:      nothing changes after tt_tokenizer_open, except what bpe.h remembers about tokens.
 * Threads:   shared freely once built.
 */
#ifndef TT_TOKENIZER_TOKENIZER_IMPL_H
#define TT_TOKENIZER_TOKENIZER_IMPL_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/token_files.h"
#include "tokenizer/vocab.h"

struct tt_tokenizer {
    tt_token_files files;
    tt_vocab vocab;
    tt_bpe bpe;
    bool nfc;
    tt_pretokenizer *pretokenizer;
    tt_added_token *added;
    size_t n_added;
    tt_matcher raw, normalized; /* added tokens searched before and after normalisation */
};

/* Builds everything that tokenizer.json says. `config` (may be NULL) is tokenizer_config.json,
 * which may name further added tokens; `config_file` names it. */
TT_MUST_CHECK tt_status tt_tokenizer_build(const char *json, size_t len, const char *file,
                                           const json_t *config, const char *config_file,
                                           tt_tokenizer **out, tt_error *err);

#endif
