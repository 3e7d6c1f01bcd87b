/* price.h: how many rows a decode step should have, by what steps and guesses have cost and
 * brought.
 *
 * Owns:      mean seconds of a step by its rows, how often the guess at each place is right, the
 *            account of time won and lost against plain steps.
 * Not here:  clocks, guesses, steps (ahead.h).
 * Laws:      (1) what steps with guesses have lost against plain ones, and what the next one may
 *            lose, stays under TT_PRICE_SHARE of all the time plus TT_PRICE_CREDIT plain steps:
 *            beyond that steps are plain;  (2) a plain step is made now and then, so that its cost
 *            is of today;  (3) no result depends on it, only time.
 * Threads:   one at a time.
 */
#ifndef TT_SESSION_PRICE_H
#define TT_SESSION_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define TT_PRICE_SHARE  0.015
#define TT_PRICE_CREDIT 1.0
#define TT_PRICE_PLAIN  32u /* of so many steps at least one is plain */

typedef struct tt_price {
    double cost[TT_DRAFT_ROWS + 1];   /* seconds of a step with so many rows; 0: not known */
    uint32_t seen[TT_DRAFT_ROWS + 1]; /* steps */
    double right[TT_DRAFT_ROWS - 1];  /* of guess j, when those before it were */
    double spent, lost;               /* seconds of all steps, of those lost by guesses */
    uint32_t steps, since_plain, next_try;
} tt_price;

void tt_price_init(tt_price *p);
/* Rows of the next step, 1 to `most`. */
uint32_t tt_price_rows(const tt_price *p, uint32_t most);
/* The rows that pay most by what is known, and how much faster they are than plain decode. */
uint32_t tt_price_best(const tt_price *p, double *gain);
/* Tokens a step of so many rows is expected to bring. */
double tt_price_tokens(const tt_price *p, uint32_t rows);
/* A step of `rows` rows, its guesses included, took `seconds`; of its guesses the first `right`
 * were, and the one after them was wrong when `missed`. */
void tt_price_note(tt_price *p, uint32_t rows, uint32_t right, bool missed, double seconds);

#endif
