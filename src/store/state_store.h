/* state_store.h: prompt state in a directory, written behind the caller's back
 * (docs/format-state.md).
 *
 * Owns:      the directory while a process uses it, the thread that writes, what is evicted there,
 *            the counters.
 * Not here:  tokens, sessions, what is worth writing (session/state_cache.c); payloads are opaque.
 * Laws:      (1) what is read is what was written, or it is a failure;  (2) the directory stays
 *            under its limit;  (3) nothing that fails here fails a request: it is counted, and rows
 *            that cannot be read are dropped with all below them;  (4) payloads are not copied:
 *            they stay the caller's, who must keep them until they are written or withdrawn.
 * Threads:   one caller, and one thread of its own.
 */
#ifndef TT_STORE_STATE_STORE_H
#define TT_STORE_STATE_STORE_H

#include "store/store_files.h"
#include "store/store_table.h"

typedef struct tt_store tt_store;

typedef struct tt_store_options {
    const char *dir;
    const char *key;                /* the text of docs/format-state.md */
    uint64_t limit;                 /* bytes of files, the index among them */
    uint64_t kv_bytes, state_bytes; /* payloads of a block and of a checkpoint; 0: none */
    uint32_t max_blocks;            /* at most TT_STORE_MAX_ITEMS */
    uint32_t kinds;                 /* numbers of checkpoints are below it */
    const tt_store_io *io;          /* NULL: the system's */
} tt_store_options;

/* Opens, locks and sweeps. TT_ERR_INVALID: the directory is not private; TT_ERR_STATE: another
 * process has it; others: it cannot be used. A directory whose index is damaged begins empty. */
TT_MUST_CHECK tt_status tt_store_open(const tt_store_options *o, tt_store **out, tt_error *err);
/* Writes what was handed over first. */
void tt_store_close(tt_store **s);

/* ---- finding ---- */

typedef struct tt_store_found {
    uint32_t tokens; /* 0: nothing */
    uint32_t kind;
    bool cold;                 /* all rows from prefill */
    const tt_store_node *node; /* stays with all above it until the next find */
} tt_store_found;

/* Counts a prompt and finds the longest prefix of ids[0..most) with a checkpoint. One that stands
 * beyond `context` on a line that the ids follow to their end is refused for it. */
tt_store_found tt_store_find(tt_store *s, const uint32_t *ids, uint32_t most, uint32_t context);
/* The same again, after a part could not be read; counts nothing. */
tt_store_found tt_store_find_again(tt_store *s, const uint32_t *ids, uint32_t most);
/* A part of a block that was found, checked; a payload of no bytes is nothing to read. Rows that
 * fail are dropped with all below them, a checkpoint alone; `node` may be gone then. */
TT_MUST_CHECK tt_status tt_store_read(tt_store *s, const tt_store_node *node, tt_store_part part,
                                      void *payload, tt_error *err);

/* ---- leaving ---- */

/* The digest of a block after `parent`. */
const tt_digest *tt_store_root(const tt_store *s);
/* Whether a block, or its checkpoint, is written or is to be. */
bool tt_store_has(tt_store *s, const tt_digest *chain, tt_store_part part);
/* Whether a chain of so many tokens could be there at all. */
bool tt_store_fits(const tt_store *s, uint32_t tokens);
/* To be written, in this order; parents come before their children, KV rows before the state.
 * `parent` may be the root. False when there is no room for it. */
bool tt_store_put_kv(tt_store *s, const tt_digest *parent, const tt_digest *chain, uint8_t made,
                     const void *payload);
bool tt_store_put_state(tt_store *s, const tt_digest *chain, uint32_t kind, const void *payload);
/* What was handed over until now is whole: rows without a checkpoint below them can go once it is
 * written. */
void tt_store_handed_over(tt_store *s);
/* What was to be written of this payload is not; afterwards it is the caller's again. */
void tt_store_withdraw(tt_store *s, const void *payload);
/* A request reads experts at this moment: nothing is written for a little while. Any thread. */
void tt_store_hold(tt_store *s);
/* Until everything that was handed over is written. */
void tt_store_wait(tt_store *s);

/* ---- counters ---- */

typedef struct tt_store_stats {
    uint64_t limit, bytes;        /* of files, the index among them */
    uint64_t blocks, checkpoints; /* of all keys */
    uint64_t writes, written;     /* block files, their bytes with heads */
    uint64_t index_writes, index_written;
    uint64_t reads, read;
    uint64_t waiting; /* files that are to be written */
    uint64_t dropped; /* files that were to be written and were not */
    uint64_t evicted; /* checkpoints */
    uint64_t swept;   /* files that no index named, at the start */
    uint64_t refused[TT_REFUSALS];
} tt_store_stats;

void tt_store_get_stats(tt_store *s, tt_store_stats *out);
/* The last reason since this was asked. */
tt_state_refusal tt_store_last_refusal(tt_store *s);
/* The line of the key that differs when all that is there is another key's, else "". */
const char *tt_store_other_key(const tt_store *s);

#endif
