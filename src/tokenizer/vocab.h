/* vocab.h: ids, the bytes they stand for, and the way back from bytes to an id.
 *
 * Owns:      the token table by id, the hash of byte strings, the byte-level alphabet.
 * Not here:  merges (bpe.h), searching a text for added tokens (added_tokens.h).
 * Laws:      (1) an id has one content and a content has one id; (2) a file chosen to make the
 *            hash slow is refused, not suffered: probes are bounded.
 * Threads:   read-only once built.
 */
#ifndef TT_TOKENIZER_VOCAB_H
#define TT_TOKENIZER_VOCAB_H

#include "base/status.h"

#define TT_NO_TOKEN   UINT32_MAX
#define TT_MAX_PROBES 1024u /* honest tables at half load stay below 100 */

enum {
    TT_TOKEN_PRESENT = 1, /* the id has an entry */
    TT_TOKEN_MODEL = 2,   /* named by model.vocab and written in the byte-level alphabet */
    TT_TOKEN_ADDED = 4,   /* named by added_tokens */
    TT_TOKEN_SPECIAL = 8  /* ... and marked special */
};

/* One entry on its way into the table: `bytes` is what it decodes to. */
typedef struct tt_token_def {
    const char *bytes;
    uint32_t len, id;
    uint8_t flags;
} tt_token_def;

typedef struct tt_token_slot {
    uint32_t hash, id; /* id TT_NO_TOKEN: empty */
} tt_token_slot;

typedef struct tt_vocab {
    uint32_t n;       /* highest id + 1 */
    uint32_t longest; /* bytes of the longest model token */
    char *bytes;
    uint32_t *start; /* [n + 1] into bytes */
    uint8_t *flags;  /* [n] */
    tt_token_slot *slots;
    uint32_t mask;         /* slots - 1 */
    uint32_t byte_id[256]; /* id of each single byte, or TT_NO_TOKEN */
} tt_vocab;

/* Builds the table. Entries that repeat an id or a content are refused, except that an added token
 * may name a model token again with the same content. */
TT_MUST_CHECK tt_status tt_vocab_build(const tt_token_def *defs, size_t count, const char *file,
                                       tt_vocab *out, tt_error *err);
void tt_vocab_free(tt_vocab *v);

/* Id of the model token with exactly these bytes, or TT_NO_TOKEN. */
uint32_t tt_vocab_find(const tt_vocab *v, const char *bytes, size_t len);
/* Bytes of an id; NULL when it has no entry. */
const char *tt_vocab_bytes(const tt_vocab *v, uint32_t id, size_t *len);

/* Byte-level alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up.
 * Turns a name from the file (checked UTF-8) into bytes at `out` (never longer than the name);
 * false, with nothing promised about `out`, when a character is outside the alphabet. */
bool tt_bytes_from_alphabet(const char *name, size_t len, char *out, size_t *out_len);

/* Printable form of some bytes for messages: cut after about 48, control and non-ASCII bytes
 * escaped. */
const char *tt_show_bytes(const char *bytes, size_t len, char out[80]);

#endif
