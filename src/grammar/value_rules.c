/* Rules of values without insides: literals, strings, numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "grammar/pattern.h"
#include "grammar/schema_int.h"
#include "grammar/text_rules.h"

#define MOST_LITERALS  (4 * TT_MIB)
#define PATTERN_RATION 3u /* one pattern takes at most a third of all work */
#define MEMO_NUMBERS   256u
#define MEMO_TEXTS     16u /* patterns of one string; with more it has a rule of its own */

typedef struct tt_number_memo {
    tt_number_range range;
    uint32_t entry;
} tt_number_memo;

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the schema");
}

/* ---- shared rules ---- */

void tt_shared_rules_init(tt_shared_rules *r, tt_builder *b, const char *word)
{
    *r = (tt_shared_rules){.b = b, .word = word};
    /* Before anything that may be taken back. */
    r->string = tt_text_string(b, word);
    r->key_rest = tt_text_key_rest(b);
    r->numbers = calloc(MEMO_NUMBERS, sizeof *r->numbers);
    for (int whole = 0; r->numbers != NULL && whole < 2; whole++) {
        r->numbers[r->n_numbers].range = (tt_number_range){.whole = whole};
        r->numbers[r->n_numbers].entry = tt_number_rule(b, &r->numbers[r->n_numbers].range);
        r->n_numbers++;
    }
    if (r->numbers == NULL)
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
}

void tt_shared_rules_free(tt_shared_rules *r)
{
    free(r->numbers);
    *r = (tt_shared_rules){0};
}

static bool same_range(const tt_number_range *a, const tt_number_range *b)
{
    return a->whole == b->whole && a->has_min == b->has_min && a->has_max == b->has_max &&
           (!a->has_min ||
            (a->open_min == b->open_min && tt_decimal_compare(&a->min, &b->min) == 0)) &&
           (!a->has_max ||
            (a->open_max == b->open_max && tt_decimal_compare(&a->max, &b->max) == 0));
}

/* Those of the first two places stay when a builder is taken back; the others are forgotten with
 * it (tt_schema_rules_free). */
uint32_t tt_schema_number(tt_shared_rules *r, const tt_number_range *range)
{
    for (uint32_t i = 0; i < r->n_numbers; i++)
        if (same_range(&r->numbers[i].range, range))
            return r->numbers[i].entry;
    uint32_t entry = tt_number_rule(r->b, range);
    if (r->n_numbers < MEMO_NUMBERS && r->b->failed == TT_OK)
        r->numbers[r->n_numbers++] = (tt_number_memo){*range, entry};
    return entry;
}

/* ---- literals ---- */

/* The shortest decimal that is read as the same double. */
static void put_number(tt_buf *out, const json_t *v)
{
    if (json_is_integer(v)) {
        tt_buf_printf(out, "%lld", (long long)json_integer_value(v));
        return;
    }
    char text[64];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, json_real_value(v));
        if (strtod(text, NULL) == json_real_value(v))
            break;
    }
    tt_buf_puts(out, text);
}

static void put_value(tt_buf *out, const json_t *v)
{
    const char *key;
    json_t *part;
    size_t i;
    switch (json_typeof(v)) {
    case JSON_STRING:
        tt_buf_putc(out, '"');
        tt_names_json(out, json_string_value(v), json_string_length(v));
        tt_buf_putc(out, '"');
        return;
    case JSON_INTEGER:
    case JSON_REAL:
        put_number(out, v);
        return;
    case JSON_ARRAY:
        json_array_foreach((json_t *)v, i, part)
        {
            tt_buf_putc(out, i == 0 ? '[' : ',');
            put_value(out, part);
        }
        tt_buf_puts(out, json_array_size(v) == 0 ? "[]" : "]");
        return;
    case JSON_OBJECT:
        i = 0;
        json_object_foreach((json_t *)v, key, part)
        {
            tt_buf_puts(out, i++ == 0 ? "{\"" : ",\"");
            tt_names_json(out, key, strlen(key));
            tt_buf_puts(out, "\":");
            put_value(out, part);
        }
        tt_buf_puts(out, i == 0 ? "{}" : "}");
        return;
    default:
        tt_buf_puts(out, json_is_null(v) ? "null" : json_is_true(v) ? "true" : "false");
    }
}

/* A rule for these values as JSON. */
tt_status tt_schema_literals(tt_schema *s, const json_t *values, uint32_t *entry, tt_error *err)
{
    size_t n = json_array_size(values), i;
    json_t *v;
    tt_buf all;
    tt_buf_init(&all, MOST_LITERALS);
    const char **text = malloc((n + 1) * sizeof *text);
    uint32_t *len = malloc((n + 1) * sizeof *len);
    tt_status st = text == NULL || len == NULL ? no_memory(err) : TT_OK;
    if (st == TT_OK) {
        json_array_foreach((json_t *)values, i, v)
        {
            size_t begin = all.len;
            put_value(&all, v);
            len[i] = (uint32_t)(all.len - begin);
        }
        st = tt_buf_status(&all, err);
    }
    if (st == TT_OK) {
        size_t at = 0;
        for (i = 0; i < n; at += len[i++])
            text[i] = all.data + at;
        st = tt_names_literals(s->b, text, len, (uint32_t)n, entry, err);
    }
    free(text);
    free(len);
    tt_buf_free(&all);
    return st;
}

/* ---- texts with patterns ---- */

/* One more condition on `d`, which is taken over when there is none before it. */
static tt_status narrow(tt_schema *s, tt_dfa *d, bool *found, tt_dfa *more, tt_error *err)
{
    tt_dfa both = {0};
    if (!*found) {
        *d = *more;
        *found = true;
        return TT_OK;
    }
    tt_status st = tt_dfa_product(s->b, d, more, false, &both, err);
    tt_dfa_free(more);
    if (st != TT_OK)
        return st;
    tt_dfa_free(d);
    *d = both;
    return TT_OK;
}

/* A pattern that cannot be had is refused, or its node relaxed; then *found is as before. */
static tt_status add_condition(tt_schema *s, const tt_leaf *leaf, uint32_t i, bool format,
                               tt_dfa *d, bool *found, tt_error *err)
{
    const json_t *text = format ? leaf->formats[i] : leaf->patterns[i];
    uint32_t node = format ? leaf->nodes[0] : leaf->pattern_nodes[i];
    uint64_t limit = tt_builder_ration(s->b, PATTERN_RATION);
    tt_error why = {.offset = -1};
    tt_dfa more = {0};
    bool relaxed = false;
    tt_status st = format ? tt_format_dfa(s->b, json_string_value(text), &more, &why)
                          : tt_pattern_dfa(s->b, json_string_value(text), json_string_length(text),
                                           &more, &why);
    if (st == TT_OK)
        st = narrow(s, d, found, &more, &why);
    s->b->limit = limit;
    if (st == TT_OK || st == TT_ERR_NOMEM)
        return st == TT_OK ? st : no_memory(err);
    s->b->failed = TT_OK;
    return tt_schema_refuse(s, node, format ? "format" : "pattern", &relaxed, err, "%s",
                            why.message);
}

tt_status tt_schema_text(tt_schema *s, const tt_leaf *leaf, tt_dfa *out, bool *found, tt_error *err)
{
    tt_dfa d = {0};
    tt_status st = TT_OK;
    *found = false;
    for (uint32_t i = 0; st == TT_OK && i < leaf->n_patterns; i++)
        st = add_condition(s, leaf, i, false, &d, found, err);
    for (uint32_t i = 0; st == TT_OK && i < leaf->n_formats; i++)
        st = add_condition(s, leaf, i, true, &d, found, err);
    if (st == TT_OK)
        *out = d;
    else
        tt_dfa_free(&d);
    return st;
}

tt_status tt_schema_values(tt_schema *s, const tt_leaf *leaf, uint32_t types, json_t **out,
                           tt_error *err)
{
    json_t *kept = json_array(), *v;
    tt_dfa d = {0};
    bool found = false;
    size_t i;
    tt_status st = kept == NULL ? no_memory(err) : TT_OK;
    if (st == TT_OK && (types & leaf->types & TT_TYPE_STRING))
        st = tt_schema_text(s, leaf, &d, &found, err);
    if (st == TT_OK)
        json_array_foreach(leaf->values, i, v)
        {
            if ((tt_shape_type_of(v) & types) &&
                !(found && json_is_string(v) &&
                  !tt_dfa_accepts(&d, json_string_value(v), json_string_length(v))))
                json_array_append(kept, v);
        }
    tt_dfa_free(&d);
    if (st == TT_OK)
        *out = kept;
    else
        json_decref(kept);
    return st;
}

/* A JSON string whose text d takes, and of these lengths. The least length is in the automaton, the
 * greatest is counted. */
static tt_status quoted(tt_schema *s, const tt_leaf *leaf, const tt_dfa *d, uint32_t *entry,
                        tt_error *err)
{
    tt_dfa sized = {0};
    bool least = leaf->min_length > 0, counted = leaf->max_length != TT_NO_LIMIT;
    if (least)
        TT_TRY(tt_dfa_least(s->b, d, leaf->min_length, &sized, err));
    const tt_dfa *use = least ? &sized : d;
    uint32_t *states = tt_dfa_states(s->b, use, TT_SPELL_JSON, leaf->max_length);
    *entry = tt_builder_state(s->b);
    uint32_t end = tt_builder_final(s->b);
    if (states != NULL) {
        tt_builder_edge(s->b, *entry, '"', '"', states[use->n]);
        for (uint32_t i = 0; i < use->n; i++)
            if (use->accept[i])
                tt_builder_edge(s->b, states[i], '"', '"', end);
        if (counted && use->accept[0])
            tt_builder_edge(s->b, states[use->n], '"', '"', end);
    }
    free(states);
    tt_dfa_free(&sized);
    return tt_builder_status(s->b, err);
}

/* The rule of a string with patterns or formats. */
static tt_status pattern_way(tt_schema *s, const tt_leaf *leaf, tt_way *way, tt_error *err)
{
    tt_dfa d = {0};
    bool found = false;
    *way = (tt_way){s->rules->shared->string, 0};
    tt_status st = tt_schema_text(s, leaf, &d, &found, err);
    if (st == TT_OK && found && leaf->max_length != TT_NO_LIMIT)
        way->param = tt_builder_count(s->b, 0, leaf->max_length);
    if (st == TT_OK && found)
        st = quoted(s, leaf, &d, &way->entry, err);
    tt_dfa_free(&d);
    return st;
}

tt_status tt_schema_string(tt_schema *s, const tt_leaf *leaf, tt_way *way, tt_error *err)
{
    tt_schema_rules *r = s->rules;
    uint32_t key[4 + 2 * MEMO_TEXTS] = {TT_KEY_TEXT, leaf->min_length, leaf->max_length,
                                        leaf->n_patterns};
    uint32_t n = leaf->n_patterns + leaf->n_formats, place = 0;
    bool known = false;
    if (n == 0) {
        way->entry = r->shared->string;
        way->param = tt_builder_count(s->b, leaf->min_length, leaf->max_length);
        return TT_OK;
    }
    if (n > MEMO_TEXTS)
        return pattern_way(s, leaf, way, err);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *t =
            i < leaf->n_patterns ? leaf->patterns[i] : leaf->formats[i - leaf->n_patterns];
        key[4 + 2 * i] = (uint32_t)(uintptr_t)t;
        key[5 + 2 * i] = (uint32_t)((uint64_t)(uintptr_t)t >> 32);
    }
    TT_TRY(tt_schema_place(r, key, 4 + 2 * n, &place, &known, err));
    if (!known) {
        TT_TRY(pattern_way(s, leaf, way, err));
        return tt_ways_add(&r->places[place], way->entry, way->param, err);
    }
    *way = r->places[place].n > 0 ? r->places[place].v[0] : (tt_way){r->shared->string, 0};
    return TT_OK;
}
