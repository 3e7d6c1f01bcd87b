/* ngram.h: rows of the n-gram table (qwen4_exp), which stays on disk: which rows a token has, and
 * reading them.
 *
 * Owns:      the hash, the reader of the table, the pages that reads go to, the counters.
 * Not here:  what is made of the rows (the page).
 * Laws:      (1) a row is read as the one or two aligned 4 KiB pages that hold it;  (2) reads begin
 *            with the step, before its first layer, and of a long step again whenever a batch of
 *            them was taken;  (3) no read outlives the step;  (4) a step allocates nothing.
 * Threads:   one step at a time.
 */
#ifndef TT_MODEL_NGRAM_H
#define TT_MODEL_NGRAM_H

#include "format/install.h"
#include "io/reader.h"
#include "model/step.h"
#include "model/weights.h"

#define TT_NGRAM_BATCH 64u /* tokens whose rows are asked for at once; two batches at most */

typedef struct tt_ngram_stats {
    uint64_t rows, pages; /* read; of 4 KiB */
    double waited;        /* seconds that a step stood still for them */
} tt_ngram_stats;

typedef struct tt_ngram {
    tt_ngram_layout layout;
    uint32_t n;    /* rows of a token */
    uint64_t slot; /* bytes that a row's pages take at most */
    tt_reader *reader;
    tt_read *reads;        /* [2 * batch, n] */
    uint32_t *inside;      /* [2 * batch, n] where in its pages a row begins */
    char *pages;           /* [2 * batch, n, slot] */
    tt_step *step;         /* the whole one, in work */
    uint32_t asked, taken; /* its tokens so far */
    tt_ngram_stats stats;
    void *block;
    uint64_t bytes;
} tt_ngram;

/* Memory that init takes; 0 for models without a table. */
uint64_t tt_ngram_cost(const tt_arch *arch);
TT_MUST_CHECK tt_status tt_ngram_init(tt_ngram *g, const tt_install *in, const tt_model_options *o,
                                      tt_error *err);
void tt_ngram_free(tt_ngram *g);

/* rows[n]: of the last of the tokens ids[0..len), which begin a text. model-math 5.5 */
void tt_ngram_rows(uint64_t *rows, const tt_arch *arch, const tt_ngram_weights *w,
                   const uint32_t *ids, uint32_t len);

/* Begins the reads of a step; the rows of its spans are then taken in order: e[T, n * cols].
 * Failures go to s->status. */
void tt_ngram_begin(tt_step *s);
void tt_ngram_take(tt_step *s, float *e);
/* Hands on what waits for the disk. Cheap. */
void tt_ngram_poll(tt_step *s);
/* Waits for what is in flight. */
void tt_ngram_end(tt_step *s);

#endif
