/* number_range.h: numbers between bounds, digit by digit.
 *
 * Owns:      decimals as JSON Schema's bounds have them, the rules of numbers within them.
 * Not here:  which bounds a schema sets (shape.h).
 * Laws:      (1) exact: a number is taken if and only if it is within the bounds, has no exponent
 *            (one of one or two digits where there are no bounds and it may be a fraction) and no
 *            more digits than TT_NUMBER_DIGITS (or than the bounds have); a whole one with a bound
 *            beyond 64 bits stays within them, unless both bounds are beyond;  (2) digits that
 * differ stay different when they are read as doubles.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_NUMBER_RANGE_H
#define TT_GRAMMAR_NUMBER_RANGE_H

#include <jansson.h>

#include "grammar/automaton.h"

#define TT_NUMBER_DIGITS  15u /* of a number with a fraction: what a double keeps */
#define TT_INTEGER_DIGITS 18u /* what fits into 64 bits with a sign */

/* digits[0..n_whole) are the whole part, without zeros in front but for a single one. */
typedef struct tt_decimal {
    bool negative;
    uint8_t n_whole, n_fraction;
    char digits[64];
} tt_decimal;

/* False for numbers that are too large or too fine to be written in 40 digits. */
bool tt_decimal_of(const json_t *number, tt_decimal *out);
int tt_decimal_compare(const tt_decimal *a, const tt_decimal *b);

typedef struct tt_number_range {
    bool has_min, has_max, open_min, open_max; /* open: the bound itself is not in */
    tt_decimal min, max;
    bool whole;
} tt_number_range;

bool tt_number_in(const tt_number_range *r, const tt_decimal *d);
/* The entry of a rule for the numbers of r. */
uint32_t tt_number_rule(tt_builder *b, const tt_number_range *r);

#endif
