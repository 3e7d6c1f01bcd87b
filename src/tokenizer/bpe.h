/* bpe.h: one pre-token to ids, by ranked merges.
 *
 * Owns:      the table of merges, the order they are applied in (lowest rank first, leftmost
 *            first).
 * Not here:  cutting text into pre-tokens (pretokenizer.h), added tokens.
 * Laws:      (1) n log n in the length of a piece, however long; (2) a piece that is a token
 *            and merges to itself is found by one look-up; whether it does is learned once per
 *            token and remembered, which changes speed and never the result.
 * Threads:   shared freely once built; scratch belongs to one call.
 */
#ifndef TT_TOKENIZER_BPE_H
#define TT_TOKENIZER_BPE_H

#include <stdatomic.h>

#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocab.h"

typedef struct tt_merge_slot {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty */
    uint32_t rank, id;
} tt_merge_slot;

typedef struct tt_bpe {
    const tt_vocab *vocab;
    tt_merge_slot *slots;
    uint64_t mask;
    bool ignore_merges;     /* a piece that is a token is that token */
    _Atomic uint8_t *whole; /* [vocab n]: 0 not asked yet, 1 merges to itself, 2 does not */
} tt_bpe;

/* Growing list of ids. */
typedef struct tt_ids {
    uint32_t *v;
    size_t n, cap;
} tt_ids;

typedef struct tt_bpe_symbol {
    uint32_t id, prev, next; /* next TT_NO_TOKEN: last; id TT_NO_TOKEN: merged away */
} tt_bpe_symbol;

typedef struct tt_bpe_candidate {
    uint32_t rank, pos, id;
} tt_bpe_candidate;

/* Memory of one encode call, grown as pieces need it. */
typedef struct tt_bpe_scratch {
    tt_bpe_symbol *symbols;
    size_t cap_symbols;
    tt_bpe_candidate *heap;
    size_t n_heap, cap_heap;
} tt_bpe_scratch;

/* Resolves the file's merges against the vocabulary, which must outlive the result. */
TT_MUST_CHECK tt_status tt_bpe_build(const tt_vocab *vocab, const tt_tokenizer_json *tj,
                                     bool ignore_merges, const char *file, tt_bpe *out,
                                     tt_error *err);
void tt_bpe_free(tt_bpe *bpe);

/* Appends the ids of a piece (n >= 1 bytes). A byte that the vocabulary has no token for is
 * TT_ERR_UNSUPPORTED. */
TT_MUST_CHECK tt_status tt_bpe_encode(const tt_bpe *bpe, tt_bpe_scratch *scratch, const char *piece,
                                      size_t n, tt_ids *ids, tt_error *err);
void tt_bpe_scratch_free(tt_bpe_scratch *scratch);

TT_MUST_CHECK tt_status tt_ids_push(tt_ids *ids, uint32_t id, tt_error *err);

#endif
