/* undo.h: what it takes to go back into a decode step whose last rows were guesses.
 *
 * Owns:      a copy of the recurrent state before the step, and what its rows added: raw
 *            convolution rows, q, k, v, decay and beta of each.
 * Not here:  KV rows, which are only forgotten (session/), when to go back (session/ahead.h).
 * Laws:      (1) the state after n of the step's rows is made from the copy by the same op on the
 *            same values, so it is the bytes of a timeline that never had the others;  (2) nothing
 *            is allocated after init.
 * Threads:   one at a time.
 */
#ifndef TT_MODEL_UNDO_H
#define TT_MODEL_UNDO_H

#include "backend/backend.h"
#include "model/recurrent.h"

typedef struct tt_undo {
    tt_recurrent before;
    tt_delta_shape shape;
    uint32_t layers, most, T; /* most: rows there is room for; T: of the step */
    uint32_t conv, heads;     /* widths of rows */
    float *out;               /* [most, heads * value_dim] that nobody reads */
    float *rows;              /* [layers][u | c | g | beta], each [most, its width] */
    uint64_t bytes;           /* of out and rows */
} tt_undo;

/* rows: of the largest step. Nothing for models without linear layers. */
uint64_t tt_undo_cost(const tt_arch *arch, uint32_t rows);
TT_MUST_CHECK tt_status tt_undo_init(tt_undo *u, const tt_arch *arch, uint32_t rows, tt_error *err);
void tt_undo_free(tt_undo *u);

/* The page's: the state of linear layer i before the step's rows, and what they add to it: raw rows
 * u and rows c [T, conv], g and beta [T, heads]. */
void tt_undo_before(tt_undo *u, uint32_t i, const tt_recurrent *r);
void tt_undo_added(tt_undo *u, uint32_t i, const float *raw, const float *c, const float *g,
                   const float *beta, uint32_t T);
/* r becomes the state after the first `rows` of the step's. */
void tt_undo_to(const tt_undo *u, tt_backend *be, uint32_t rows, tt_recurrent *r);

#endif
