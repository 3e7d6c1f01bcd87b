/* schema_rules.h: from schemas taken apart to rules of an automaton.
 *
 * Owns:      the rules of objects, arrays, strings, numbers and literals; which places share one.
 * Not here:  what schemas mean (shape.h), calls of tools (call_rules.h).
 * Laws:      (1) properties come in the order in which the schemas list them, then those without a
 *            name;  (2) places of the same schemas share their rules, so recursion ends;  (3) at
 *            most one space or newline stands between two tokens of JSON.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_SCHEMA_RULES_H
#define TT_GRAMMAR_SCHEMA_RULES_H

#include "base/buf.h"
#include "grammar/dfa.h"
#include "grammar/shape.h"

/* Rules that all schemas of an automaton share. */
typedef struct tt_shared_rules {
    tt_builder *b;
    const char *word; /* what no JSON string holds unescaped, or NULL */
    uint32_t string, key_rest;
    struct tt_number_memo *numbers;
    uint32_t n_numbers;
} tt_shared_rules;

void tt_shared_rules_init(tt_shared_rules *r, tt_builder *b, const char *word);
void tt_shared_rules_free(tt_shared_rules *r);

/* A way to begin a value: what is called. */
typedef struct tt_way {
    uint32_t entry, param;
} tt_way;

typedef struct tt_ways {
    tt_way *v;
    uint32_t n, cap;
} tt_ways;

TT_MUST_CHECK tt_status tt_schema_rules_init(tt_schema *s, tt_shared_rules *shared, tt_error *err);
void tt_schema_rules_free(tt_schema *s);
/* Calls from `from`, back to `ret`, for whatever may be at a place. Rules that are new wait for
 * tt_schema_rules_run. */
TT_MUST_CHECK tt_status tt_schema_calls(tt_schema *s, const tt_conj *place, uint32_t from,
                                        uint32_t ret, tt_error *err);
/* Ways of one alternative, as far as they are of these types, added to `out`. */
TT_MUST_CHECK tt_status tt_schema_leaf_ways(tt_schema *s, const tt_leaf *leaf, uint32_t types,
                                            tt_ways *out, tt_error *err);
/* Builds the rules that wait. */
TT_MUST_CHECK tt_status tt_schema_rules_run(tt_schema *s, tt_error *err);
/* A rule for the whole document. */
TT_MUST_CHECK tt_status tt_schema_rule(tt_schema *s, uint32_t *entry, tt_error *err);

/* Properties of an object in their order. */
typedef struct tt_members {
    const char **names; /* borrowed from the schemas */
    tt_conj *places;
    bool *required;
    uint32_t n;
    tt_conj others; /* properties without a name; `never`: there are none */
} tt_members;

TT_MUST_CHECK tt_status tt_schema_members(tt_schema *s, const tt_leaf *leaf, tt_members *out,
                                          tt_error *err);
void tt_members_free(tt_members *m);

/* The automaton of a leaf's patterns and formats, if it has any (*found). One that cannot be
 * honoured is refused, or counts for nothing. */
TT_MUST_CHECK tt_status tt_schema_text(tt_schema *s, const tt_leaf *leaf, tt_dfa *out, bool *found,
                                       tt_error *err);
/* The values of leaf->values that are of these types and match its patterns: a new array. */
TT_MUST_CHECK tt_status tt_schema_values(tt_schema *s, const tt_leaf *leaf, uint32_t types,
                                         json_t **out, tt_error *err);

/* ---- names.c ---- */

/* Names of properties as they are written, to be told apart byte by byte. */
typedef struct tt_names {
    tt_builder *b;
    const char **text; /* sorted */
    const uint32_t *len;
    const uint32_t *item;  /* what each stands for; TT_NO_STATE: it must not come */
    const uint32_t *found; /* where it leads, by item */
    uint8_t end;           /* the byte behind a name */
    /* Names that are not listed; TT_NO_STATE: there are none. */
    uint32_t other, other_found;
} tt_names;

/* Edges from `from` for all names. */
TT_MUST_CHECK tt_status tt_names_edges(const tt_names *x, uint32_t n, uint32_t from, tt_error *err);
/* The state behind `from` by way of these bytes, along edges that are there already. */
uint32_t tt_names_insert(tt_builder *b, uint32_t from, const char *text, size_t n);
/* A rule for one of these texts. */
TT_MUST_CHECK tt_status tt_names_literals(tt_builder *b, const char *const *text,
                                          const uint32_t *len, uint32_t n, uint32_t *entry,
                                          tt_error *err);
/* A text as it stands inside a JSON string, each in one way; appended. */
void tt_names_json(tt_buf *out, const char *text, size_t n);

#endif
