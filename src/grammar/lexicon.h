/* lexicon.h: the tokens of a tokenizer laid out so that a walk meets each beginning once.
 *
 * Owns:      two tries of the tokens' bytes, sets of plain tokens, the cache of masks.
 * Not here:  which tokens may follow (mask.h).
 * Laws:      (1) tokens marked special are in no trie;  (2) tries and sets never change once made;
 *            (3) the cache holds TT_LEXICON_CACHE bytes at most, for all grammars together.
 * Threads:   shared freely: the cache has a lock.
 *
 * A token is plain when it is whole characters of valid UTF-8, none of them below U+0020, none of
 * '"', '\' and '<', and no white space or line end but the space. Such tokens may stand anywhere in
 * most texts, so that they need no look one by one.
 */
#ifndef TT_GRAMMAR_LEXICON_H
#define TT_GRAMMAR_LEXICON_H

#include <pthread.h>

#include "base/limits.h"
#include "base/status.h"

#define TT_LEXICON_CACHE   (8 * TT_MIB)
#define TT_LEXICON_LENGTHS 16u /* sets of plain tokens of at most so many characters */
#define TT_LEXICON_MANY    255u
#define TT_LEXICON_KEY     256u /* numbers of a cache key */
#define TT_LEXICON_LONGEST 256u /* bytes; tokens of as many or more never follow */

/* In the order of the bytes. Nodes of a subtree follow their root. The tokens that end at a node
 * stand in `ids` from its rank to that of the next node. */
typedef struct tt_lex_node {
    uint32_t skip; /* the node behind the subtree */
    uint32_t rank; /* tokens in front of it */
    uint8_t byte;
    uint8_t depth; /* from 1 */
    /* Of the characters that begin behind this byte in tokens of the subtree. MANY, and not plain,
     * where there are none. */
    uint8_t longest; /* the most of them; TT_LEXICON_MANY: or more */
    uint8_t classes; /* TT_CHARS_INSIDE: this byte does not end one */
} tt_lex_node;

typedef struct tt_lex_trie {
    tt_lex_node *nodes; /* n + 1: the last one is behind all */
    uint32_t *ids;      /* in the order of the nodes */
    uint32_t n, n_ids;
} tt_lex_trie;

/* A plain token of more than TT_LEXICON_LENGTHS characters. */
typedef struct tt_lex_long {
    uint32_t chars, id;
} tt_lex_long;

typedef struct tt_lex_entry {
    uint64_t grammar, hash, used;
    uint32_t n_key;
    uint32_t *key; /* [TT_LEXICON_KEY] */
    uint64_t *mask;
} tt_lex_entry;

struct tt_lexicon {
    const tt_tokenizer *tok;
    uint32_t vocab, words; /* of 64 ids */
    uint32_t deepest;      /* bytes of the longest token */
    uint32_t longest;      /* characters of the longest plain token */
    tt_lex_trie plain, rest;
    uint64_t *short_plain[TT_LEXICON_LENGTHS + 1]; /* [k]: at most k characters; [0]: all */
    tt_lex_long *long_plain;                       /* the others, the shortest first */
    uint32_t n_long;
    uint32_t *stops;
    size_t n_stops;
    size_t bytes; /* of memory, the cache at its fullest included */
    pthread_mutex_t lock;
    tt_lex_entry *cache;
    uint32_t n_cache, cap_cache;
    uint64_t clock;
};

/* The mask under a key, copied out; false when it is not there. */
bool tt_lexicon_recall(tt_lexicon *x, uint64_t grammar, const uint32_t *key, uint32_t n,
                       uint64_t *mask);
void tt_lexicon_remember(tt_lexicon *x, uint64_t grammar, const uint32_t *key, uint32_t n,
                         const uint64_t *mask);
static inline void tt_mask_set(uint64_t *mask, uint32_t id)
{
    mask[id >> 6] |= (uint64_t)1 << (id & 63);
}

static inline bool tt_mask_has(const uint64_t *mask, uint32_t id)
{
    return mask[id >> 6] >> (id & 63) & 1;
}

#endif
