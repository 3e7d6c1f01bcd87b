/* state_cache.h: what prompts have left behind, as a tree of blocks of 64 tokens
 * (docs/format-state.md).
 *
 * Owns:      the tree, KV rows and checkpoints in memory, what is evicted, what of them is to be
 *            written to the directory, the counters.
 * Not here:  when a session leaves something (session.c), the budget (model/plan.h), how the
 *            directory is read (state_disk.h) and written (store/).
 * Laws:      (1) equal names from the root mean equal bytes: a block is named by its ids and by how
 *            its rows were made;  (2) memory stays under the limit, blocks that sessions fill
 *            included;  (3) nothing here fails a prompt: refusals are counted.
 * Threads:   one at a time, that of the sessions.
 */
#ifndef TT_SESSION_STATE_CACHE_H
#define TT_SESSION_STATE_CACHE_H

#include "model/model.h"
#include "store/state_store.h"

#define TT_STATE_INTERVAL 4096u /* tokens of prefill between two checkpoints that nobody named */

/* How the rows of a block were made: so many from prefill, the others from decode. */
#define TT_MADE_UNKNOWN 255u

/* Blocks that n tokens begin. */
static inline uint32_t tt_blocks(uint32_t n)
{
    return (n + TT_BLOCK - 1) / TT_BLOCK;
}
/* The last multiple of 64 up to n. */
static inline uint32_t tt_block_floor(size_t n)
{
    return n < UINT32_MAX ? (uint32_t)n / TT_BLOCK * TT_BLOCK : UINT32_MAX;
}

/* A timeline as far as its rows are there: what is left, and what is filled. */
typedef struct tt_state_line {
    uint32_t *tokens;
    uint8_t *made; /* [blocks] */
    uint32_t n;
    tt_kv_cache *kv;
} tt_state_line;

typedef struct tt_state_found {
    uint32_t at; /* tokens; 0: nothing */
    tt_state_tier tier;
    tt_checkpoint_kind kind;
    bool cold;                  /* all rows from prefill */
    struct tt_state_node *node; /* in memory */
    tt_store_found disk;        /* in the directory */
    const uint32_t *ids;        /* that were looked for */
    uint32_t most;
} tt_state_found;

/* Room for one checkpoint, to be filled and then put or given back; false when there is none. A
 * model without recurrent layers has checkpoints of no bytes. */
bool tt_state_cache_take(tt_state_cache *c, float **block);
void tt_state_cache_give(tt_state_cache *c, float *block);
/* Leaves the first `at` tokens of a timeline and the state after them, which is the cache's from
 * then on. What is there already is used again. */
void tt_state_cache_put(tt_state_cache *c, const tt_state_line *line, uint32_t at,
                        tt_checkpoint_kind kind, float *block);
/* Counts a prompt, and finds the longest prefix of at most `most` tokens that has a checkpoint. */
tt_state_found tt_state_cache_find(tt_state_cache *c, const uint32_t *ids, uint32_t most);
/* Makes the timeline and its state that of what was found; its KV rows must be committed. The
 * tokens of `line` that agree are not copied again. What cannot be read of the directory is
 * replaced by the next best: `f` says what it was in the end, `at` 0 for an empty timeline. */
void tt_state_cache_load(tt_state_cache *c, tt_state_found *f, tt_state_line *line,
                         tt_recurrent *into);
/* The end of a turn: at most two checkpoints of memory, with their rows, are handed to the
 * directory. The last of this timeline is one of them, the other what would cost most. */
void tt_state_cache_settle(tt_state_cache *c, const tt_state_line *line);
/* tt_state_cache_use_disk through other calls of the system; NULL: its own. */
TT_MUST_CHECK tt_status tt_state_cache_use_disk_io(tt_state_cache *c,
                                                   const tt_state_disk_options *o,
                                                   const tt_store_io *io, tt_error *err);
/* Tokens that were not computed again, for the counters. */
void tt_state_cache_served(tt_state_cache *c, const tt_state_found *f, size_t prompt);
void tt_state_cache_refuse(tt_state_cache *c, tt_state_refusal why);
/* The last reason since this was asked. */
tt_state_refusal tt_state_cache_last_refusal(tt_state_cache *c);
const tt_model *tt_state_cache_model(const tt_state_cache *c);

#endif
