/* lookup.h: guesses from the timeline itself: what followed its last tokens when they came before.
 *
 * Owns:      the search.
 * Not here:  whether the guesses are looked at (price.h, ahead.h).
 * Laws:      (1) the longest match wins, of equal ones the latest;  (2) nothing is kept between two
 *            searches.
 * Threads:   a pure function.
 */
#ifndef TT_SESSION_LOOKUP_H
#define TT_SESSION_LOOKUP_H

#include <stdint.h>

#define TT_LOOKUP_LEAST 2u /* tokens that must have come before in this order */
#define TT_LOOKUP_MOST  6u /* a longer match is no better */

/* Guesses what follows tokens[0..n) and `id` behind them: writes up to `most` ids, returns how
 * many. */
uint32_t tt_lookup(const uint32_t *tokens, uint32_t n, uint32_t id, uint32_t most, uint32_t *out);

#endif
