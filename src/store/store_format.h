/* store_format.h: what stands in a directory of prompt state, byte for byte
 * (docs/format-state.md).
 *
 * Owns:      heads of block files, the index, names of files, digests of chains.
 * Not here:  files (store_files.h), which of them there are (state_store.h).
 * Laws:      (1) what is accepted is what was written: every byte is under a checksum or compared;
 *            (2) ids go into digests and nowhere else.
 * Threads:   pure functions.
 */
#ifndef TT_STORE_STORE_FORMAT_H
#define TT_STORE_STORE_FORMAT_H

#include "base/buf.h"
#include "base/limits.h"

#define TT_STORE_HEAD        128u
#define TT_STORE_INDEX_HEAD  64u
#define TT_STORE_ITEM        112u
#define TT_STORE_MAX_KEYS    64u
#define TT_STORE_MAX_KEY     1024u /* bytes of its text */
#define TT_STORE_MAX_ITEMS   65536u
#define TT_STORE_MAX_PAYLOAD (4 * TT_GIB)
#define TT_STORE_MAX_INDEX                                                                         \
    (TT_STORE_INDEX_HEAD + (uint64_t)TT_STORE_MAX_KEYS * (4 + TT_STORE_MAX_KEY) +                  \
     (uint64_t)TT_STORE_MAX_ITEMS * TT_STORE_ITEM)
#define TT_STORE_NAME 80u /* bytes of a file's name, with its end */

typedef struct tt_digest {
    uint8_t b[32];
} tt_digest;

typedef enum tt_store_part { TT_STORE_KV = 1, TT_STORE_STATE = 2 } tt_store_part;

/* What a block file says of itself. */
typedef struct tt_store_head {
    tt_store_part part;
    uint32_t tokens, made;
    uint64_t bytes; /* of payload */
    uint32_t crc;   /* of it */
    tt_digest chain, key;
} tt_store_head;

void tt_store_head_write(const tt_store_head *h, uint8_t out[TT_STORE_HEAD]);
/* TT_ERR_CORRUPT when a checksum or a field is wrong. */
TT_MUST_CHECK tt_status tt_store_head_read(const uint8_t in[TT_STORE_HEAD], tt_store_head *out,
                                           tt_error *err);

/* A block as the index has it. */
typedef struct tt_store_item {
    tt_digest chain, parent; /* parent: zeros for the first block of a chain */
    uint32_t tokens, key, made, kind;
    uint64_t kv_bytes, state_bytes; /* payloads; 0: no file */
    uint64_t used;                  /* clock */
} tt_store_item;

typedef struct tt_store_index {
    uint32_t n_keys, n_items;
    const char *key[TT_STORE_MAX_KEYS]; /* inside the bytes that were parsed; not terminated */
    uint32_t key_len[TT_STORE_MAX_KEYS];
    uint64_t clock;
    const uint8_t *items; /* n_items * TT_STORE_ITEM, for tt_store_index_item */
} tt_store_index;

/* Checks all of it: an index is believed as a whole or not at all. `bytes` stay the caller's and
 * must outlive the use of `out`. `kinds`: numbers of checkpoints are below it. */
TT_MUST_CHECK tt_status tt_store_index_parse(const void *bytes, size_t n, uint32_t kinds,
                                             tt_store_index *out, tt_error *err);
void tt_store_index_item(const tt_store_index *ix, uint32_t i, tt_store_item *out);

/* Writing: head, then every key, then every item, then the end, which fills the head in. */
void tt_store_index_begin(tt_buf *b);
void tt_store_index_add_key(tt_buf *b, const char *text);
void tt_store_index_add_item(tt_buf *b, const tt_store_item *item);
void tt_store_index_end(tt_buf *b, uint32_t n_keys, uint32_t n_items, uint64_t clock);

/* "<64 hex digits>.kv" or ".state". */
void tt_store_file_name(const tt_digest *chain, tt_store_part part, char out[TT_STORE_NAME]);
/* Whether a name is one that the store gives, its temporary ones included; `chain` and `part` are
 * those of a block file that is whole, else `part` is 0. The lock is not among them. */
bool tt_store_name_is_ours(const char *name, tt_digest *chain, int *part);

/* The digest of a block that follows `parent` (of a first block: the key's digest). */
TT_MUST_CHECK tt_status tt_store_chain(const tt_digest *parent, const uint32_t ids[TT_BLOCK],
                                       uint8_t made, tt_digest *out, tt_error *err);
/* The digest of a key. */
TT_MUST_CHECK tt_status tt_store_key(const char *text, tt_digest *out, tt_error *err);

#endif
