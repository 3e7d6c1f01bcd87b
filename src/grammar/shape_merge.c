/* Schemas that hold together as one: bounds are the narrower ones, types those of all. */
#include <stdlib.h>
#include <string.h>

#include "grammar/pattern.h"
#include "grammar/shape.h"

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the schema");
}

/* ---- values ---- */

bool tt_shape_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        tt_decimal x, y;
        if (tt_decimal_of(a, &x) && tt_decimal_of(b, &y))
            return tt_decimal_compare(&x, &y) == 0;
        return json_number_value(a) == json_number_value(b);
    }
    return json_equal(a, b);
}

static bool holds(const json_t *list, const json_t *value)
{
    size_t i;
    const json_t *v;
    json_array_foreach((json_t *)list, i, v)
    {
        if (tt_shape_same(v, value))
            return true;
    }
    return false;
}

/* Keeps of leaf->values those that `list` has too. */
static tt_status narrow(tt_schema *s, tt_leaf *leaf, const json_t *list, tt_error *err)
{
    json_t *kept = json_array();
    const json_t *from = leaf->values != NULL ? leaf->values : list;
    size_t i;
    json_t *v;
    uint64_t pairs = json_array_size(from) * (leaf->values != NULL ? json_array_size(list) : 1);
    if (kept == NULL)
        return no_memory(err);
    if (!tt_builder_work(s->b, 20 * pairs)) {
        json_decref(kept);
        return tt_builder_status(s->b, err);
    }
    json_array_foreach((json_t *)from, i, v)
    {
        if (from == list || holds(list, v))
            json_array_append(kept, v);
    }
    json_decref(leaf->values);
    leaf->values = kept;
    return TT_OK;
}

static uint32_t code_points(const json_t *string)
{
    const char *p = json_string_value(string);
    uint32_t n = 0;
    for (size_t i = 0; i < json_string_length(string); i++)
        n += ((uint8_t)p[i] & 0xc0) != 0x80;
    return n;
}

/* Without patterns, formats and what schemas say inside of arrays and objects. */
static bool value_fits(const tt_leaf *leaf, const json_t *v)
{
    tt_decimal d;
    if (!(tt_shape_type_of(v) & leaf->types))
        return false;
    switch (json_typeof(v)) {
    case JSON_STRING:
        return code_points(v) >= leaf->min_length && code_points(v) <= leaf->max_length;
    case JSON_INTEGER:
    case JSON_REAL:
        return tt_decimal_of(v, &d) ? tt_number_in(&leaf->range, &d)
                                    : !leaf->range.has_min && !leaf->range.has_max;
    case JSON_ARRAY:
        return json_array_size(v) >= leaf->min_items && json_array_size(v) <= leaf->max_items;
    default:
        return true;
    }
}

static bool says_about_insides(const tt_schema *s, const tt_leaf *leaf)
{
    static const char *const keys[] = {"properties", "required", "additionalProperties", "items"};
    for (uint32_t i = 0; i < leaf->n_nodes; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (tt_schema_get(s, leaf->nodes[i], keys[k]) != NULL)
                return true;
    return false;
}

static tt_status keep_fitting(tt_schema *s, tt_leaf *leaf, tt_error *err)
{
    json_t *kept = json_array();
    size_t i;
    json_t *v;
    bool relaxed = false;
    if (kept == NULL)
        return no_memory(err);
    json_array_foreach(leaf->values, i, v)
    {
        bool whole = json_is_array(v) || json_is_object(v);
        if (whole && says_about_insides(s, leaf)) {
            json_decref(kept);
            return tt_schema_refuse(s, leaf->nodes[0], "enum", &relaxed, err,
                                    "values that are arrays or objects beside conditions on their "
                                    "insides");
        }
        if (value_fits(leaf, v))
            json_array_append(kept, v);
    }
    json_decref(leaf->values);
    leaf->values = kept;
    return TT_OK;
}

/* ---- bounds ---- */

static void raise(uint32_t *least, const json_t *v)
{
    if (v == NULL)
        return;
    double n = json_number_value(v);
    uint32_t x = n >= TT_NO_LIMIT ? TT_NO_LIMIT - 1 : (uint32_t)n;
    *least = x > *least ? x : *least;
}

static void lower(uint32_t *most, const json_t *v)
{
    if (v == NULL)
        return;
    double n = json_number_value(v);
    uint32_t x = n >= TT_NO_LIMIT ? TT_NO_LIMIT : (uint32_t)n;
    *most = x < *most ? x : *most;
}

/* One bound. What is beyond every number that is written out bounds nothing, or everything. */
static tt_status bound(tt_schema *s, tt_leaf *leaf, uint32_t node, const char *key, bool upper,
                       bool open, bool *possible, tt_error *err)
{
    const json_t *v = tt_schema_get(s, node, key);
    tt_number_range *r = &leaf->range;
    tt_decimal d;
    bool relaxed = false;
    if (v == NULL)
        return TT_OK;
    if (!tt_decimal_of(v, &d)) {
        double x = json_number_value(v);
        if (x > -1 && x < 1)
            return tt_schema_refuse(s, node, key, &relaxed, err, "a number of too many digits");
        if ((x > 0) != upper && (leaf->types & (TT_TYPE_WHOLE | TT_TYPE_BROKEN)))
            leaf->types &= ~(uint32_t)(TT_TYPE_WHOLE | TT_TYPE_BROKEN);
        *possible = leaf->types != 0;
        return TT_OK;
    }
    bool *has = upper ? &r->has_max : &r->has_min, *is_open = upper ? &r->open_max : &r->open_min;
    tt_decimal *old = upper ? &r->max : &r->min;
    int c = *has ? tt_decimal_compare(&d, old) : 0;
    if (!*has || (upper ? c < 0 : c > 0)) {
        *old = d;
        *is_open = open;
    } else if (c == 0) {
        *is_open |= open;
    }
    *has = true;
    return TT_OK;
}

static void format_bounds(tt_leaf *leaf, const char *format)
{
    static const struct {
        const char *name, *min, *max;
    } widths[] = {{"int8", "-128", "127"},
                  {"int16", "-32768", "32767"},
                  {"int32", "-2147483648", "2147483647"},
                  {"uint8", "0", "255"},
                  {"uint16", "0", "65535"},
                  {"uint32", "0", "4294967295"},
                  {"uint64", "0", NULL},
                  {"uint", "0", NULL}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (strcmp(format, widths[i].name) != 0)
            continue;
        for (int upper = 0; upper < 2; upper++) {
            const char *text = upper ? widths[i].max : widths[i].min;
            tt_decimal d = {.negative = text != NULL && *text == '-'};
            tt_number_range *r = &leaf->range;
            if (text == NULL)
                continue;
            text += *text == '-';
            d.n_whole = (uint8_t)strlen(text);
            memcpy(d.digits, text, d.n_whole);
            if (upper && (!r->has_max || tt_decimal_compare(&d, &r->max) < 0)) {
                r->max = d;
                r->has_max = true;
                r->open_max = false;
            }
            if (!upper && (!r->has_min || tt_decimal_compare(&d, &r->min) > 0)) {
                r->min = d;
                r->has_min = true;
                r->open_min = false;
            }
        }
    }
}

/* ---- one node after the other ---- */

static tt_status add_text(tt_leaf *leaf, const json_t *v, uint32_t node, bool format, tt_error *err)
{
    const json_t ***list = format ? &leaf->formats : &leaf->patterns;
    uint32_t *n = format ? &leaf->n_formats : &leaf->n_patterns;
    if (v == NULL)
        return TT_OK;
    for (uint32_t i = 0; i < *n; i++)
        if (json_equal((*list)[i], v))
            return TT_OK;
    const json_t **p = realloc(*list, (*n + 1) * sizeof *p);
    if (p == NULL)
        return no_memory(err);
    *list = p;
    p[*n] = v;
    if (!format) {
        uint32_t *nodes = realloc(leaf->pattern_nodes, (*n + 1) * sizeof *nodes);
        if (nodes == NULL)
            return no_memory(err);
        leaf->pattern_nodes = nodes;
        nodes[*n] = node;
    }
    (*n)++;
    return TT_OK;
}

static uint32_t types_of(const tt_schema *s, uint32_t node)
{
    const json_t *type = tt_schema_get(s, node, "type");
    uint32_t bits = type == NULL ? TT_TYPE_ALL : tt_shape_types(type);
    if (type != NULL && json_is_true(tt_schema_get(s, node, "nullable")))
        bits |= TT_TYPE_NULL;
    return bits != 0 ? bits : TT_TYPE_ALL;
}

static tt_status merge_node(tt_schema *s, tt_leaf *leaf, uint32_t node, bool *possible,
                            tt_error *err)
{
    leaf->types &= types_of(s, node);
    raise(&leaf->min_length, tt_schema_get(s, node, "minLength"));
    lower(&leaf->max_length, tt_schema_get(s, node, "maxLength"));
    raise(&leaf->min_items, tt_schema_get(s, node, "minItems"));
    lower(&leaf->max_items, tt_schema_get(s, node, "maxItems"));
    TT_TRY(add_text(leaf, tt_schema_get(s, node, "pattern"), node, false, err));
    const json_t *format = tt_schema_get(s, node, "format");
    /* Formats of numbers bind numbers, those of strings strings; either may be there alone. */
    if (format != NULL && (types_of(s, node) & TT_TYPE_STRING)) {
        uint32_t longest = tt_format_longest(json_string_value(format));
        leaf->max_length = longest < leaf->max_length ? longest : leaf->max_length;
        TT_TRY(add_text(leaf, format, node, true, err));
    } else if (format != NULL)
        format_bounds(leaf, json_string_value(format));
    TT_TRY(bound(s, leaf, node, "minimum", false, false, possible, err));
    TT_TRY(bound(s, leaf, node, "exclusiveMinimum", false, true, possible, err));
    TT_TRY(bound(s, leaf, node, "maximum", true, false, possible, err));
    TT_TRY(bound(s, leaf, node, "exclusiveMaximum", true, true, possible, err));
    const json_t *values = tt_schema_get(s, node, "enum"), *value = tt_schema_get(s, node, "const");
    if (values != NULL)
        TT_TRY(narrow(s, leaf, values, err));
    if (value != NULL) {
        json_t *one = json_pack("[O]", value);
        tt_status st = one == NULL ? no_memory(err) : narrow(s, leaf, one, err);
        json_decref(one);
        if (st != TT_OK)
            return st;
    }
    return TT_OK;
}

tt_status tt_shape_merge(tt_schema *s, tt_leaf *leaf, bool *possible, tt_error *err)
{
    leaf->types = TT_TYPE_ALL;
    leaf->max_length = leaf->max_items = TT_NO_LIMIT;
    *possible = true;
    for (uint32_t i = 0; i < leaf->n_nodes; i++) {
        if (!tt_builder_work(s->b, 600))
            return tt_builder_status(s->b, err);
        TT_TRY(merge_node(s, leaf, leaf->nodes[i], possible, err));
    }
    leaf->range.whole = !(leaf->types & TT_TYPE_BROKEN);
    if (leaf->min_length > leaf->max_length)
        leaf->types &= ~(uint32_t)TT_TYPE_STRING;
    if (leaf->min_items > leaf->max_items)
        leaf->types &= ~(uint32_t)TT_TYPE_ARRAY;
    if (leaf->values != NULL)
        TT_TRY(keep_fitting(s, leaf, err));
    if (leaf->types == 0 || (leaf->values != NULL && json_array_size(leaf->values) == 0))
        *possible = false;
    return TT_OK;
}

/* ---- insides ---- */

tt_status tt_shape_property(tt_schema *s, const tt_leaf *leaf, const char *name, tt_conj *out,
                            tt_error *err)
{
    for (uint32_t i = 0; i < leaf->n_nodes; i++) {
        uint32_t node = leaf->nodes[i];
        const json_t *members = tt_schema_get(s, node, "properties");
        const json_t *own = name != NULL ? json_object_get(members, name) : NULL;
        const json_t *others = tt_schema_get(s, node, "additionalProperties");
        if (!tt_builder_work(s->b, 40))
            return tt_builder_status(s->b, err);
        if (own != NULL) {
            /* The key of the schema outlives the name that was asked for. */
            const char *key = json_object_iter_key(json_object_iter_at((json_t *)members, name));
            TT_TRY(tt_conj_add(s, out, own, node, "properties", key, TT_NO_STATE, err));
        } else if (others != NULL) {
            TT_TRY(
                tt_conj_add(s, out, others, node, "additionalProperties", NULL, TT_NO_STATE, err));
        }
    }
    return TT_OK;
}

tt_status tt_shape_items(tt_schema *s, const tt_leaf *leaf, tt_conj *out, tt_error *err)
{
    for (uint32_t i = 0; i < leaf->n_nodes; i++) {
        const json_t *items = tt_schema_get(s, leaf->nodes[i], "items");
        if (items != NULL)
            TT_TRY(tt_conj_add(s, out, items, leaf->nodes[i], "items", NULL, TT_NO_STATE, err));
    }
    return TT_OK;
}

bool tt_shape_requires(const tt_schema *s, const tt_leaf *leaf, const char *name)
{
    for (uint32_t i = 0; i < leaf->n_nodes; i++) {
        const json_t *list = tt_schema_get(s, leaf->nodes[i], "required"), *v;
        size_t k;
        json_array_foreach((json_t *)list, k, v)
        {
            if (strcmp(json_string_value(v), name) == 0)
                return true;
        }
    }
    return false;
}
