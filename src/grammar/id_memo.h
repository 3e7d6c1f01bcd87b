/* id_memo.h: lists of numbers, and the number under which each was kept.
 *
 * Owns:      copies of the lists.
 * Not here:  what the numbers mean.
 * Laws:      a list keeps its number.
 * Threads:   one at a time.
 */
#ifndef TT_GRAMMAR_ID_MEMO_H
#define TT_GRAMMAR_ID_MEMO_H

#include "base/status.h"

typedef struct tt_id_memo {
    struct tt_id_entry {
        uint32_t at, n, value; /* the list in `ids`; n 0: empty */
    } * slots;
    uint32_t n_slots, n;
    uint32_t *ids, n_ids, cap_ids;
} tt_id_memo;

/* The number of a list of n >= 1; `fresh`, and *found false, when it is new. */
TT_MUST_CHECK tt_status tt_id_memo_value(tt_id_memo *m, const uint32_t *ids, uint32_t n,
                                         uint32_t fresh, uint32_t *value, bool *found,
                                         tt_error *err);
void tt_id_memo_free(tt_id_memo *m);

#endif
