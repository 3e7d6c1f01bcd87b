/* shape.h: JSON Schemas taken apart: what a place in a document may be, as alternatives without
 * references and combinations.
 *
 * Owns:      keywords (which are honoured, ignored, refused), references, allOf, anyOf and oneOf,
 *            the places of a schema by JSON pointer.
 * Not here:  rules of an automaton (schema_rules.c).
 * Laws:      (1) a keyword that cannot be honoured is refused with its JSON pointer, or, where the
 *            schema is not strict, its place takes any value of its type, and that is written down;
 *            (2) alternatives of one place are at most TT_SHAPE_LEAVES;  (3) the alternatives
 *            together take exactly what the schema takes.
 * Threads:   one schema, one thread.
 */
#ifndef TT_GRAMMAR_SHAPE_H
#define TT_GRAMMAR_SHAPE_H

#include <jansson.h>

#include "grammar/number_range.h"

#define TT_SHAPE_LEAVES 256u
#define TT_SHAPE_NEST   256u /* of a schema's JSON */

enum {
    TT_TYPE_NULL = 1,
    TT_TYPE_BOOLEAN = 2,
    TT_TYPE_WHOLE = 4,  /* numbers without a fraction */
    TT_TYPE_BROKEN = 8, /* and those with one */
    TT_TYPE_STRING = 16,
    TT_TYPE_ARRAY = 32,
    TT_TYPE_OBJECT = 64,
    TT_TYPE_ALL = 127
};

/* A schema somewhere in the document. */
typedef struct tt_snode {
    const json_t *json;
    uint32_t parent;
    const char
        *key; /* of the parent, and in that member `sub`, or item `index`, or neither. Without
                 a parent: the reference that led here, or NULL for the whole document */
    const char *sub;
    uint32_t index; /* or TT_NO_STATE */
    bool checked, relaxed;
} tt_snode;

/* Schemas that all hold for one place. */
typedef struct tt_conj {
    uint32_t *v, n, cap;
    bool never; /* one of them is false */
} tt_conj;

/* One alternative: plain schemas, merged. */
typedef struct tt_leaf {
    uint32_t *nodes, n_nodes; /* in the order in which they were met */
    uint32_t types;
    json_t *values; /* those that it may be, or NULL */
    uint32_t min_length, max_length, min_items, max_items;
    const json_t **patterns, **formats;
    uint32_t *pattern_nodes;
    uint32_t n_patterns, n_formats;
    tt_number_range range;
} tt_leaf;

typedef struct tt_leaves {
    tt_leaf *v;
    uint32_t n, cap;
} tt_leaves;

typedef struct tt_schema {
    tt_builder *b;
    const json_t *root;
    bool strict;
    const char *name; /* what is in front of pointers in messages */
    json_t *relaxed;  /* array of {"pointer", "keyword", "name"}, or NULL */
    tt_snode *nodes;
    uint32_t n_nodes, cap_nodes, n_relaxed;
    uint32_t *hash, n_hash;
    uint32_t root_node;
    struct tt_schema_rules *rules; /* schema_rules.c */
} tt_schema;

TT_MUST_CHECK tt_status tt_schema_init(tt_schema *s, tt_builder *b, const json_t *root,
                                       const char *name, bool strict, json_t *relaxed,
                                       tt_error *err);
void tt_schema_free(tt_schema *s);

/* The node of a schema; the other arguments say where it stands. */
uint32_t tt_schema_node(tt_schema *s, const json_t *json, uint32_t parent, const char *key,
                        const char *sub, uint32_t index);
/* "#/properties/a" into `out`. */
void tt_schema_pointer(const tt_schema *s, uint32_t node, const char *keyword, char *out,
                       size_t cap);
/* A keyword that cannot be honoured: fails when strict, else relaxes the node, returns TT_OK and
 * sets *relaxed. */
TT_MUST_CHECK tt_status tt_schema_refuse(tt_schema *s, uint32_t node, const char *keyword,
                                         bool *relaxed, tt_error *err, const char *fmt, ...)
    TT_PRINTF(6, 7);

/* Adds a schema to those of a place. true says nothing, false sets `never`. */
TT_MUST_CHECK tt_status tt_conj_add(tt_schema *s, tt_conj *c, const json_t *json, uint32_t parent,
                                    const char *key, const char *sub, uint32_t index,
                                    tt_error *err);
void tt_conj_free(tt_conj *c);

/* The alternatives of a place; none when nothing can be there. */
TT_MUST_CHECK tt_status tt_shape_expand(tt_schema *s, const tt_conj *c, tt_leaves *out,
                                        tt_error *err);
void tt_leaf_free(tt_leaf *l);
void tt_leaves_free(tt_leaves *l);
/* Value of a keyword of a node that is not relaxed, or NULL. */
const json_t *tt_schema_get(const tt_schema *s, uint32_t node, const char *keyword);

/* ---- shape_keywords.c ---- */

/* Whether every keyword of the node is known and its value of the right kind. */
TT_MUST_CHECK tt_status tt_shape_check(tt_schema *s, uint32_t node, tt_error *err);
uint32_t tt_shape_types(const json_t *type); /* 0: not a type, or a list with one that is not */
uint32_t tt_shape_type_of(const json_t *value);

/* ---- shape_merge.c ---- */

/* Fills a leaf from its nodes. *possible false: nothing satisfies them all. */
TT_MUST_CHECK tt_status tt_shape_merge(tt_schema *s, tt_leaf *leaf, bool *possible, tt_error *err);
/* Schemas of property `name` (not NUL-terminated names do not occur: jansson's keys). `name` NULL:
 * of properties without a name. */
TT_MUST_CHECK tt_status tt_shape_property(tt_schema *s, const tt_leaf *leaf, const char *name,
                                          tt_conj *out, tt_error *err);
TT_MUST_CHECK tt_status tt_shape_items(tt_schema *s, const tt_leaf *leaf, tt_conj *out,
                                       tt_error *err);
bool tt_shape_requires(const tt_schema *s, const tt_leaf *leaf, const char *name);
/* Whether two values are the same to JSON Schema: 1 and 1.0 are. */
bool tt_shape_same(const json_t *a, const json_t *b);

/* ---- shape_disjoint.c ---- */

/* Whether it can be shown that no value is of both. */
TT_MUST_CHECK tt_status tt_shape_disjoint(tt_schema *s, const tt_leaf *a, const tt_leaf *b,
                                          uint32_t depth, bool *disjoint, tt_error *err);

#endif
