/* schema_int.h: what the files that make rules of schemas share.
 *
 * Owns:      the memory of what was built for which place.
 * Not here:  what they promise to others (schema_rules.h).
 * Laws:      a place is entered into the memory before its insides are built, so that it may occur
 *            in them.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_SCHEMA_INT_H
#define TT_GRAMMAR_SCHEMA_INT_H

#include "grammar/id_memo.h"
#include "grammar/schema_rules.h"

enum { TT_KEY_PLACE, TT_KEY_OBJECT, TT_KEY_ARRAY, TT_KEY_TEXT };

/* An array or object whose entry is handed out and whose insides are still to be built. */
typedef struct tt_body {
    bool array;
    uint32_t entry, after; /* after: the state behind a value */
    uint32_t param;
    uint32_t min, max; /* of items */
    tt_conj items;
    tt_members members;
} tt_body;

struct tt_schema_rules {
    tt_shared_rules *shared;
    tt_id_memo memo;
    tt_ways *places; /* by the memo's values */
    uint32_t n_places, cap_places;
    tt_body *bodies;
    uint32_t n_bodies, cap_bodies, done;
};

typedef struct tt_schema_rules tt_schema_rules;

TT_MUST_CHECK tt_status tt_ways_add(tt_ways *w, uint32_t entry, uint32_t param, tt_error *err);
/* The place under a key; empty, and *known false, when it is new. */
TT_MUST_CHECK tt_status tt_schema_place(tt_schema_rules *r, const uint32_t *key, uint32_t n,
                                        uint32_t *place, bool *known, tt_error *err);

/* ---- value_rules.c ---- */

uint32_t tt_schema_number(tt_shared_rules *r, const tt_number_range *range);
/* A rule for these values as JSON. */
TT_MUST_CHECK tt_status tt_schema_literals(tt_schema *s, const json_t *values, uint32_t *entry,
                                           tt_error *err);
TT_MUST_CHECK tt_status tt_schema_string(tt_schema *s, const tt_leaf *leaf, tt_way *way,
                                         tt_error *err);

#endif
