/* indexer.h: which keys sparse attention looks at (qwen4_exp): one index key a block of tokens, and
 * of each row the best blocks for it.
 *
 * Owns:      scratch for scores, choices and the rows that were chosen.
 * Not here:  the index keys of complete blocks (kv_cache.h), the raw keys of the block that is not
 *            complete (recurrent.h), arithmetic (backend/).
 * Laws:      (1) a row that sees no more blocks than the budget has attends to everything, by the
 *            same op as dense attention;  (2) what a row chooses depends on it and on the keys
 *            before it alone, however the rows came in;  (3) a step allocates nothing.
 * Threads:   one step at a time.
 */
#ifndef TT_MODEL_INDEXER_H
#define TT_MODEL_INDEXER_H

#include "model/step.h"
#include "model/weights.h"

typedef struct tt_indexer {
    uint32_t K;           /* blocks that a row chooses */
    uint32_t most;        /* blocks of the longest context */
    float *raw;           /* [block - 1 + rows of a span, di] */
    float *mean;          /* [blocks that a span completes, di] */
    float *cosine, *sine; /* of those blocks */
    float *scores;        /* [TT_INDEX_ROWS, heads, most] */
    uint32_t *picks;      /* [TT_INDEX_ROWS, K] */
    tt_kv_layer work;     /* rows of one query's blocks */
    void *block;
    uint64_t bytes;
} tt_indexer;

#define TT_INDEX_ROWS 16u /* rows whose scores stand in memory at once */

/* rows: of the largest step; 0 for models without an indexer. */
uint64_t tt_indexer_cost(const tt_arch *arch, uint32_t kv_bits, uint32_t max_context,
                         uint32_t rows);
TT_MUST_CHECK tt_status tt_indexer_init(tt_indexer *x, const tt_arch *arch, uint32_t kv_bits,
                                        uint32_t max_context, uint32_t rows, tt_error *err);
void tt_indexer_free(tt_indexer *x);

/* Index keys of the blocks that the rows in s->s->iqk complete, of sparse layer `i`. */
void tt_indexer_add(tt_step *s, const tt_attention_weights *w, uint32_t i);
/* s->s->oa [T, Hq, d]: queries s->s->q with index queries s->s->iq attend to their choice. */
void tt_indexer_attend(tt_step *s, uint32_t i);

#endif
