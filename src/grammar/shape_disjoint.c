/* Whether two alternatives exclude each other. What cannot be shown counts as no. */
#include <string.h>

#include "grammar/pattern.h"
#include "grammar/shape.h"

#define MOST_DEPTH 4u

static bool ranges_apart(const tt_number_range *a, const tt_number_range *b)
{
    if (!a->has_max || !b->has_min)
        return false;
    int c = tt_decimal_compare(&a->max, &b->min);
    return c < 0 || (c == 0 && (a->open_max || b->open_min));
}

static tt_status text_fits(tt_schema *s, const tt_leaf *leaf, const json_t *v, bool *fits,
                           tt_error *err)
{
    for (uint32_t i = 0; *fits && i < leaf->n_patterns; i++) {
        tt_dfa d = {0};
        tt_status st = tt_pattern_dfa(s->b, json_string_value(leaf->patterns[i]),
                                      json_string_length(leaf->patterns[i]), &d, err);
        if (st != TT_OK) /* unknown counts as fitting; the rule will say what is wrong */
            return st == TT_ERR_NOMEM ? st : TT_OK;
        *fits = tt_dfa_accepts(&d, json_string_value(v), json_string_length(v));
        tt_dfa_free(&d);
    }
    return TT_OK;
}

/* Whether some value of a is not ruled out by b. */
static tt_status values_meet(tt_schema *s, const tt_leaf *a, const tt_leaf *b, bool *meet,
                             tt_error *err)
{
    size_t i, k;
    json_t *v, *w;
    *meet = false;
    json_array_foreach(a->values, i, v)
    {
        bool fits = (tt_shape_type_of(v) & b->types) != 0;
        tt_decimal d;
        if (!tt_builder_work(s->b, 20 + 20 * json_array_size(b->values)))
            return tt_builder_status(s->b, err);
        if (b->values != NULL) {
            fits = false;
            json_array_foreach(b->values, k, w) fits |= tt_shape_same(v, w);
        }
        if (fits && json_is_number(v) && tt_decimal_of(v, &d))
            fits = tt_number_in(&b->range, &d);
        if (fits && json_is_string(v))
            TT_TRY(text_fits(s, b, v, &fits, err));
        *meet |= fits;
    }
    return TT_OK;
}

static tt_status children_disjoint(tt_schema *s, const tt_conj *a, const tt_conj *b, uint32_t depth,
                                   bool *disjoint, tt_error *err)
{
    tt_leaves x = {0}, y = {0};
    *disjoint = false;
    if (depth >= MOST_DEPTH)
        return TT_OK;
    tt_status st = tt_shape_expand(s, a, &x, err);
    if (st == TT_OK)
        st = tt_shape_expand(s, b, &y, err);
    *disjoint = st == TT_OK;
    for (uint32_t i = 0; st == TT_OK && *disjoint && i < x.n; i++)
        for (uint32_t k = 0; st == TT_OK && *disjoint && k < y.n; k++)
            st = tt_shape_disjoint(s, &x.v[i], &y.v[k], depth + 1, disjoint, err);
    tt_leaves_free(&x);
    tt_leaves_free(&y);
    return st;
}

/* The one value that a schema lets be, as far as it says so itself, or NULL. */
static const json_t *only_value(const tt_schema *s, uint32_t node)
{
    const json_t *value = tt_schema_get(s, node, "const"), *list = tt_schema_get(s, node, "enum");
    return value != NULL ? value : json_array_size(list) == 1 ? json_array_get(list, 0) : NULL;
}

/* What tells most alternatives apart is such a value: a look at it is enough. */
static bool values_apart(const tt_schema *s, const tt_conj *a, const tt_conj *b)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const json_t *v = only_value(s, a->v[i]);
        for (uint32_t k = 0; v != NULL && k < b->n; k++) {
            const json_t *w = only_value(s, b->v[k]);
            if (w != NULL && !tt_shape_same(v, w))
                return true;
        }
    }
    return false;
}

/* A property that one of them requires and whose values, or presence, tell them apart. */
static tt_status property_parts(tt_schema *s, const tt_leaf *a, const tt_leaf *b, const char *name,
                                uint32_t depth, bool *disjoint, tt_error *err)
{
    tt_conj x = {0}, y = {0};
    tt_status st = tt_shape_property(s, a, name, &x, err);
    *disjoint = false;
    if (st == TT_OK)
        st = tt_shape_property(s, b, name, &y, err);
    if (st == TT_OK && (x.never || y.never))
        *disjoint = true;
    else if (st == TT_OK && tt_shape_requires(s, b, name) && x.n > 0 && y.n > 0) {
        *disjoint = values_apart(s, &x, &y);
        if (!*disjoint)
            st = children_disjoint(s, &x, &y, depth, disjoint, err);
    }
    tt_conj_free(&x);
    tt_conj_free(&y);
    return st;
}

static tt_status objects_disjoint(tt_schema *s, const tt_leaf *a, const tt_leaf *b, uint32_t depth,
                                  bool *disjoint, tt_error *err)
{
    *disjoint = false;
    for (int turn = 0; turn < 2; turn++) {
        const tt_leaf *x = turn == 0 ? a : b, *y = turn == 0 ? b : a;
        for (uint32_t i = 0; i < x->n_nodes; i++) {
            const json_t *list = tt_schema_get(s, x->nodes[i], "required"), *v;
            size_t k;
            json_array_foreach((json_t *)list, k, v)
            {
                TT_TRY(property_parts(s, x, y, json_string_value(v), depth, disjoint, err));
                if (*disjoint)
                    return TT_OK;
            }
        }
    }
    return TT_OK;
}

tt_status tt_shape_disjoint(tt_schema *s, const tt_leaf *a, const tt_leaf *b, uint32_t depth,
                            bool *disjoint, tt_error *err)
{
    uint32_t both = a->types & b->types;
    bool meet;
    *disjoint = true;
    if (!tt_builder_work(s->b, 50))
        return tt_builder_status(s->b, err);
    if (a->values != NULL || b->values != NULL) {
        TT_TRY(a->values != NULL ? values_meet(s, a, b, &meet, err)
                                 : values_meet(s, b, a, &meet, err));
        *disjoint = !meet;
        if (!meet)
            return TT_OK;
        /* Objects and arrays among values are not looked into. */
        return TT_OK;
    }
    if (both & (TT_TYPE_WHOLE | TT_TYPE_BROKEN))
        *disjoint = ranges_apart(&a->range, &b->range) || ranges_apart(&b->range, &a->range);
    if (both & TT_TYPE_STRING)
        *disjoint &= a->max_length < b->min_length || b->max_length < a->min_length;
    if (both & TT_TYPE_ARRAY)
        *disjoint &= a->max_items < b->min_items || b->max_items < a->min_items;
    if (both & (TT_TYPE_NULL | TT_TYPE_BOOLEAN))
        *disjoint = false;
    if (*disjoint && (both & TT_TYPE_OBJECT))
        TT_TRY(objects_disjoint(s, a, b, depth, disjoint, err));
    return TT_OK;
}
