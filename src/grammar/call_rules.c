#include "grammar/call_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "grammar/pattern.h"
#include "grammar/schema_rules.h"
#include "grammar/text_rules.h"

#define OPEN_CALL   "<tool_call>"
#define OPEN_NAME   "\n<function="
#define CLOSE_VALUE "</parameter>"
#define CLOSE_CALL  "function>\n</tool_call>"
#define TOOL_SHARE  4u /* one tool takes at most a fourth of all work */
#define MOST_BYTES  (4 * TT_MIB)

typedef struct calls {
    tt_builder *b;
    tt_shared_rules shared;
    uint32_t raw, raw_counted; /* strings without patterns */
    uint32_t mixed[2][8];      /* the same where other types may stand too, by which those are */
    uint32_t extra_name;       /* names of parameters that no schema lists */
    uint32_t *begin;           /* of each tool the state behind its name, or TT_NO_STATE */
    bool *open;                /* the tools whose schema nothing satisfies take any parameters */
    json_t *relaxed;
} calls;

typedef struct tool {
    calls *c;
    const char *name;
    const json_t *parameters;
    bool strict, open;
    tt_schema s;
    uint32_t after_raw, after_json; /* states behind a value */
} tool;

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tools");
}

/* ---- raw strings ---- */

/* What a raw text may not begin with where something else than a string may stand: it would be
 * read as that. */
static void not_first(uint32_t types, char out[32])
{
    strcpy(out, "\" \t\r\n");
    if (types & (TT_TYPE_WHOLE | TT_TYPE_BROKEN))
        strcat(out, "-0123456789");
    if (types & TT_TYPE_ARRAY)
        strcat(out, "[");
    if (types & TT_TYPE_OBJECT)
        strcat(out, "{");
}

/* A rule of strings where `others` may stand too. */
static uint32_t mixed_raw(calls *c, uint32_t others, bool counted)
{
    char avoid[32] = "";
    unsigned k = ((others & (TT_TYPE_WHOLE | TT_TYPE_BROKEN)) != 0 ? 1 : 0) |
                 ((others & TT_TYPE_ARRAY) != 0 ? 2 : 0) | ((others & TT_TYPE_OBJECT) != 0 ? 4 : 0);
    if (c->mixed[counted][k] == TT_NO_STATE) {
        not_first(others, avoid);
        c->mixed[counted][k] = tt_text_raw(c->b, CLOSE_VALUE, avoid, counted);
    }
    return c->mixed[counted][k];
}

/* Rules that were made since the builder had so many states are gone. */
static void forget_mixed(calls *c, uint32_t n_states)
{
    for (unsigned i = 0; i < 16; i++)
        if (c->mixed[i / 8][i % 8] >= n_states)
            c->mixed[i / 8][i % 8] = TT_NO_STATE;
}

/* What d takes of texts that a call can hold: without the closing tag, of the least length, and not
 * to be taken for something else. */
static tt_status narrow_raw(tool *t, const tt_leaf *leaf, const tt_dfa *d, bool mixed, tt_dfa *out,
                            tt_error *err)
{
    static const char first_char[] = "^[^\\x22 \\t\\r\\n\\x2d0-9\\x5b{]";
    tt_builder *b = t->c->b;
    tt_dfa tag = {0}, first = {0}, without = {0}, plain = {0};
    tt_status st = tt_pattern_dfa(b, CLOSE_VALUE, strlen(CLOSE_VALUE), &tag, err);
    if (st == TT_OK)
        st = tt_dfa_product(b, d, &tag, true, &without, err);
    if (st == TT_OK)
        st =
            tt_pattern_dfa(b, mixed ? first_char : "", mixed ? strlen(first_char) : 0, &first, err);
    if (st == TT_OK)
        st = tt_dfa_product(b, &without, &first, false, &plain, err);
    if (st == TT_OK)
        st = tt_dfa_least(b, &plain, leaf->min_length, out, err);
    tt_dfa_free(&tag);
    tt_dfa_free(&first);
    tt_dfa_free(&without);
    tt_dfa_free(&plain);
    return st;
}

static tt_status raw_pattern(tool *t, const tt_leaf *leaf, const tt_dfa *d, bool mixed,
                             uint32_t from, tt_error *err)
{
    tt_builder *b = t->c->b;
    tt_dfa use = {0};
    bool counted = leaf->max_length != TT_NO_LIMIT;
    TT_TRY(narrow_raw(t, leaf, d, mixed, &use, err));
    uint32_t *states = tt_dfa_states(b, &use, TT_SPELL_RAW, leaf->max_length);
    if (states != NULL) {
        uint32_t end = tt_builder_final(b), close = tt_builder_state(b);
        tt_builder_text_to(b, close, CLOSE_VALUE, strlen(CLOSE_VALUE), end);
        for (uint32_t i = 0; i < use.n; i++)
            if (use.accept[i])
                tt_builder_edge(b, states[i], '\n', '\n', close);
        if (counted && use.accept[0])
            tt_builder_edge(b, states[use.n], '\n', '\n', close);
        tt_builder_call(b, from, states[use.n],
                        counted ? tt_builder_count(b, 0, leaf->max_length) : 0, t->after_raw);
    }
    free(states);
    tt_dfa_free(&use);
    return tt_builder_status(b, err);
}

/* Strings of an enum, each with what follows it. */
static tt_status raw_values(tool *t, const tt_leaf *leaf, uint32_t others, uint32_t from,
                            tt_error *err)
{
    json_t *values = NULL, *v;
    char avoid[32] = "";
    size_t i, n = 0;
    tt_buf all;
    uint32_t entry = 0;
    TT_TRY(tt_schema_values(&t->s, leaf, TT_TYPE_STRING, &values, err));
    if (others != 0)
        not_first(others, avoid);
    tt_buf_init(&all, MOST_BYTES);
    const char **text = malloc((json_array_size(values) + 1) * sizeof *text);
    uint32_t *len = malloc((json_array_size(values) + 1) * sizeof *len);
    tt_status st = text == NULL || len == NULL ? no_memory(err) : TT_OK;
    if (st == TT_OK) {
        json_array_foreach(values, i, v)
        {
            const char *s = json_string_value(v);
            size_t k = json_string_length(v), begin = all.len;
            if ((k > 0 && avoid[0] != '\0' && strchr(avoid, s[0]) != NULL) ||
                memmem(s, k, CLOSE_VALUE, strlen(CLOSE_VALUE)) != NULL || strlen(s) != k)
                continue;
            tt_buf_append(&all, s, k);
            tt_buf_puts(&all, "\n" CLOSE_VALUE);
            len[n++] = (uint32_t)(all.len - begin);
        }
        st = tt_buf_status(&all, err);
    }
    if (st == TT_OK && n > 0) {
        size_t at = 0;
        for (i = 0; i < n; at += len[i++])
            text[i] = all.data + at;
        st = tt_names_literals(t->c->b, text, len, (uint32_t)n, &entry, err);
    }
    if (st == TT_OK && n > 0)
        tt_builder_call(t->c->b, from, entry, 0, t->after_raw);
    free(text);
    free(len);
    tt_buf_free(&all);
    json_decref(values);
    return st;
}

/* `others`: types that may stand here beside the string. */
static tt_status raw_string(tool *t, const tt_leaf *leaf, uint32_t others, uint32_t from,
                            tt_error *err)
{
    tt_builder *b = t->c->b;
    tt_dfa d = {0};
    bool found = false, counted = leaf->min_length > 0 || leaf->max_length != TT_NO_LIMIT;
    if (leaf->values != NULL)
        return raw_values(t, leaf, others, from, err);
    TT_TRY(tt_schema_text(&t->s, leaf, &d, &found, err));
    if (found) {
        tt_status st = raw_pattern(t, leaf, &d, others != 0, from, err);
        tt_dfa_free(&d);
        return st;
    }
    uint32_t entry = others != 0 ? mixed_raw(t->c, others, counted)
                     : counted   ? t->c->raw_counted
                                 : t->c->raw;
    tt_builder_call(b, from, entry,
                    counted ? tt_builder_count(b, leaf->min_length, leaf->max_length) : 0,
                    t->after_raw);
    return tt_builder_status(b, err);
}

/* ---- values ---- */

/* Whatever a parameter may be, from `from` to the states behind values. */
static tt_status value(tool *t, const tt_conj *place, uint32_t from, tt_error *err)
{
    tt_leaves leaves = {0};
    tt_ways ways = {0};
    uint32_t types = 0;
    if (place->n == 0 && !place->never) {
        /* Text is read as JSON where it is some, so it can be anything. */
        tt_builder_call(t->c->b, from, t->c->raw, 0, t->after_raw);
        return tt_builder_status(t->c->b, err);
    }
    tt_status st = tt_shape_expand(&t->s, place, &leaves, err);
    for (uint32_t i = 0; st == TT_OK && i < leaves.n; i++)
        types |= leaves.v[i].types;
    for (uint32_t i = 0; st == TT_OK && i < leaves.n; i++) {
        uint32_t json = leaves.v[i].types & ~(uint32_t)TT_TYPE_STRING;
        if (leaves.v[i].types & TT_TYPE_STRING)
            st = raw_string(t, &leaves.v[i], types & ~(uint32_t)TT_TYPE_STRING, from, err);
        if (st == TT_OK && json != 0)
            st = tt_schema_leaf_ways(&t->s, &leaves.v[i], json, &ways, err);
    }
    for (uint32_t i = 0; st == TT_OK && i < ways.n; i++)
        tt_builder_call(t->c->b, from, ways.v[i].entry, ways.v[i].param, t->after_json);
    free(ways.v);
    tt_leaves_free(&leaves);
    return st != TT_OK ? st : tt_builder_status(t->c->b, err);
}

/* ---- parameters ---- */

typedef struct name {
    const char *text;
    uint32_t item;
} name;

static int by_name(const void *x, const void *y)
{
    return strcmp(((const name *)x)->text, ((const name *)y)->text);
}

/* Whether a tag can hold the name. */
static bool name_fits(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && strpbrk(text, "<>\n\r\t") == NULL && text[0] != ' ' && text[n - 1] != ' ';
}

static tt_status name_edges(tool *t, const tt_members *m, bool extra, uint32_t from,
                            const uint32_t *found, tt_error *err)
{
    name *v = malloc((m->n + 1) * sizeof *v);
    const char **text = malloc((m->n + 1) * sizeof *text);
    uint32_t *len = malloc((m->n + 1) * sizeof *len), *item = malloc((m->n + 1) * sizeof *item);
    tt_status st =
        v == NULL || text == NULL || len == NULL || item == NULL ? no_memory(err) : TT_OK;
    uint32_t n = 0;
    for (uint32_t i = 0; st == TT_OK && i < m->n; i++)
        if (name_fits(m->names[i]))
            v[n++] = (name){m->names[i], m->places[i].never ? TT_NO_STATE : i};
    if (st == TT_OK) {
        qsort(v, n, sizeof *v, by_name);
        for (uint32_t i = 0; i < n; i++) {
            text[i] = v[i].text;
            len[i] = (uint32_t)strlen(v[i].text);
            item[i] = v[i].item;
        }
        tt_names x = {.b = t->c->b,
                      .text = text,
                      .len = len,
                      .item = item,
                      .found = found,
                      .end = '>',
                      .other = extra ? t->c->extra_name : TT_NO_STATE,
                      .other_found = found[m->n]};
        st = tt_names_edges(&x, n, from, err);
    }
    free(v);
    free(text);
    free(len);
    free(item);
    return st;
}

/* States behind each name, up to its value. */
static tt_status parameter_states(tool *t, const tt_members *m, bool extra, uint32_t order,
                                  uint32_t *found, tt_error *err)
{
    tt_builder *b = t->c->b;
    for (uint32_t i = 0; i <= m->n; i++) {
        bool never = i == m->n ? !extra : m->places[i].never || !name_fits(m->names[i]);
        uint32_t before = tt_builder_state(b);
        found[i] = tt_builder_state(b);
        tt_builder_order_value(b, order, i, before);
        if (never)
            continue;
        tt_builder_guard(b, found[i], i == m->n ? TT_GUARD_EXTRA : TT_GUARD_TAKE, i);
        tt_builder_edge(b, found[i], '\n', '\n', before);
        TT_TRY(value(t, i == m->n ? &m->others : &m->places[i], before, err));
    }
    return tt_builder_status(b, err);
}

/* The parameters of one alternative and the end of the call. */
static tt_status parameters(tool *t, const tt_members *m, bool extra, uint32_t from, uint32_t ret,
                            tt_error *err)
{
    tt_builder *b = t->c->b;
    uint32_t entry = tt_builder_state(b), after = tt_builder_state(b), open = tt_builder_state(b);
    uint32_t some = tt_builder_state(b), none = tt_builder_state(b), key = tt_builder_state(b);
    uint32_t order = tt_builder_order(b, m->n, m->required, extra, entry, after);
    uint32_t *found = malloc((m->n + 1) * sizeof *found), end = tt_builder_final(b);
    if (found == NULL)
        return no_memory(err);
    tt_builder_edge(b, entry, '<', '<', open);
    tt_builder_edge(b, after, '<', '<', open);
    tt_builder_edge(b, open, 'p', 'p', some);
    tt_builder_edge(b, open, '/', '/', none);
    tt_builder_guard(b, some, TT_GUARD_NEXT, 0);
    tt_builder_guard(b, none, TT_GUARD_CLOSE, 0);
    tt_builder_text_to(b, some, "arameter=", 9, key);
    tt_builder_text_to(b, none, CLOSE_CALL, strlen(CLOSE_CALL), end);
    t->after_raw = tt_builder_state(b);
    t->after_json = tt_builder_state(b);
    tt_builder_edge(b, t->after_raw, '\n', '\n', after);
    tt_builder_text_to(b, t->after_json, "\n" CLOSE_VALUE, 1 + strlen(CLOSE_VALUE), t->after_raw);
    tt_status st = parameter_states(t, m, extra, order, found, err);
    if (st == TT_OK)
        st = name_edges(t, m, extra, key, found, err);
    free(found);
    tt_builder_call_flat(b, from, entry, order, ret); /* the tags are no level */
    return st != TT_OK ? st : tt_builder_status(b, err);
}

/* Parameters without a name in the schema come only where it speaks of them, or of none. */
static bool may_have_extra(const tt_schema *s, const tt_leaf *leaf, const tt_members *m)
{
    bool says = false, lists = false;
    for (uint32_t i = 0; i < leaf->n_nodes; i++) {
        says |= tt_schema_get(s, leaf->nodes[i], "additionalProperties") != NULL;
        lists |= tt_schema_get(s, leaf->nodes[i], "properties") != NULL;
    }
    return !m->others.never && (says || !lists);
}

static tt_status tool_rules(tool *t, uint32_t from, uint32_t ret, tt_error *err)
{
    tt_conj place = {0};
    tt_leaves leaves = {0};
    uint32_t n = 0;
    tt_status st =
        tt_conj_add(&t->s, &place, t->parameters, TT_NO_STATE, NULL, NULL, TT_NO_STATE, err);
    if (st == TT_OK)
        st = tt_shape_expand(&t->s, &place, &leaves, err);
    for (uint32_t i = 0; st == TT_OK && i < leaves.n; i++) {
        tt_members m = {0};
        if (!(leaves.v[i].types & TT_TYPE_OBJECT) || leaves.v[i].values != NULL)
            continue;
        st = tt_schema_members(&t->s, &leaves.v[i], &m, err);
        if (st == TT_OK)
            st = parameters(t, &m, may_have_extra(&t->s, &leaves.v[i], &m), from, ret, err);
        tt_members_free(&m);
        n++;
    }
    tt_conj_free(&place);
    tt_leaves_free(&leaves);
    if (st == TT_OK && n == 0)
        st = tt_fail(err, TT_ERR_INVALID, "%s: its parameters are no object", t->name);
    return st == TT_OK ? tt_schema_rules_run(&t->s, err) : st;
}

static tt_status tool_once(tool *t, uint32_t from, uint32_t ret, tt_error *err)
{
    tt_status st =
        tt_schema_init(&t->s, t->c->b, t->parameters, t->name, t->strict, t->c->relaxed, err);
    if (st == TT_OK)
        st = tt_schema_rules_init(&t->s, &t->c->shared, err);
    if (st == TT_OK)
        st = tool_rules(t, from, ret, err);
    tt_schema_rules_free(&t->s);
    tt_schema_free(&t->s);
    return st;
}

/* A tool that is not strict and whose schema is too much takes any parameters. */
static tt_status relax_tool(tool *t, uint32_t from, uint32_t ret, const char *why, tt_error *err)
{
    if (t->c->relaxed != NULL &&
        json_array_append_new(t->c->relaxed,
                              json_pack("{s:s, s:s, s:s, s:s}", "name", t->name, "pointer", "#",
                                        "keyword", "", "reason", why)) != 0)
        return no_memory(err);
    json_t *any = json_pack("{s:s}", "type", "object");
    if (any == NULL)
        return no_memory(err);
    t->parameters = any;
    tt_status st = tool_once(t, from, ret, err);
    json_decref(any);
    return st;
}

/* The parameters of a tool and the end of its call, from *after on. */
static tt_status add_tool(tool *t, uint32_t *after, uint32_t ret, tt_error *err)
{
    tt_builder *b = t->c->b;
    tt_builder_mark mark = tt_builder_marked(b);
    uint32_t numbers = t->c->shared.n_numbers;
    tt_error why = {.offset = -1};
    *after = tt_builder_state(b);
    if (t->open)
        return relax_tool(t, *after, ret, "nothing satisfies it", err);
    uint64_t limit = tt_builder_ration(b, TOOL_SHARE);
    tt_status st = tool_once(t, *after, ret, &why);
    b->limit = limit;
    if (st == TT_OK)
        return TT_OK;
    if (t->strict || st == TT_ERR_NOMEM) {
        if (err != NULL)
            *err = why;
        return st;
    }
    tt_builder_rewind(b, &mark);
    forget_mixed(t->c, mark.n_states);
    t->c->shared.n_numbers = numbers;
    *after = tt_builder_state(b);
    return relax_tool(t, *after, ret, why.message, err);
}

/* ---- the tools ---- */

static bool chosen(const tt_call_choice *choice, const char *text)
{
    for (size_t i = 0; choice->names != NULL && i < choice->n_names; i++)
        if (strcmp(choice->names[i], text) == 0)
            return true;
    return choice->names == NULL;
}

static const char *tool_name(const json_t *entry)
{
    const json_t *fn = json_object_get(entry, "function");
    return json_string_value(json_object_get(json_is_object(fn) ? fn : entry, "name"));
}

/* Every name of the choice is that of a tool. */
static tt_status check_names(const json_t *tools, const tt_call_choice *choice, tt_error *err)
{
    for (size_t i = 0; choice->names != NULL && i < choice->n_names; i++) {
        bool found = false;
        size_t k;
        const json_t *entry;
        json_array_foreach((json_t *)tools, k, entry)
        {
            const char *have = tool_name(entry);
            found |= have != NULL && strcmp(have, choice->names[i]) == 0;
        }
        if (!found)
            return tt_fail(err, TT_ERR_NOT_FOUND, "no tool has the name \"%.60s\"",
                           choice->names[i]);
    }
    return TT_OK;
}

static bool is_strict(const json_t *entry)
{
    const json_t *fn = json_object_get(entry, "function");
    return json_is_true(json_object_get(fn, "strict")) ||
           json_is_true(json_object_get(entry, "strict"));
}

/* The rest of a call behind its opening tag. */
static tt_status each_tool(calls *c, const json_t *tools, const tt_call_choice *choice,
                           uint32_t from, uint32_t *n, tt_error *err)
{
    json_t *none = json_pack("{s:s, s:{}}", "type", "object", "properties");
    uint32_t names = tt_builder_text(c->b, from, OPEN_NAME, strlen(OPEN_NAME));
    uint32_t end = tt_builder_final(c->b);
    size_t i;
    const json_t *entry;
    tt_status st = none == NULL ? no_memory(err) : TT_OK;
    json_array_foreach((json_t *)tools, i, entry)
    {
        const json_t *fn = json_object_get(entry, "function");
        const json_t *at = json_is_object(fn) ? fn : entry, *p = json_object_get(at, "parameters");
        tool t = {.c = c, .name = tool_name(entry)};
        c->begin[i] = TT_NO_STATE;
        if (st != TT_OK || t.name == NULL || !chosen(choice, t.name))
            continue;
        if (!name_fits(t.name)) {
            st = tt_fail(err, TT_ERR_INVALID, "\"%.60s\" cannot be the name of a tool", t.name);
            break;
        }
        t.parameters = json_is_object(p) ? p : none;
        t.strict = is_strict(entry);
        t.open = c->open[i];
        uint32_t named = tt_names_insert(c->b, names, t.name, strlen(t.name));
        uint32_t closed = tt_names_insert(c->b, named, ">", 1);
        st = add_tool(&t, &c->begin[i], end, err);
        if (st == TT_OK) {
            tt_builder_edge(c->b, closed, '\n', '\n', c->begin[i]);
            st = tt_builder_status(c->b, err);
        }
        (*n)++;
    }
    json_decref(none);
    return st;
}

/* What all tools share, then the tools, then the answer around them. */
static tt_status build(calls *c, const json_t *tools, const tt_call_choice *choice, uint32_t *entry,
                       tt_error *err)
{
    tt_builder *b = c->b;
    uint32_t n = 0, rest = tt_builder_state(b), called = tt_builder_state(b);
    uint32_t after = tt_builder_final(b);
    tt_shared_rules_init(&c->shared, b, CLOSE_VALUE);
    memset(c->mixed, 0xff, sizeof c->mixed); /* TT_NO_STATE */
    c->raw = tt_text_raw(b, CLOSE_VALUE, "", false);
    c->raw_counted = tt_text_raw(b, CLOSE_VALUE, "", true);
    c->extra_name = tt_builder_state(b);
    uint32_t more = tt_builder_state(b), end = tt_builder_final(b);
    static const char ranges[] = "azAZ09__..--";
    for (size_t i = 0; i < sizeof ranges - 1; i += 2) {
        tt_builder_edge(b, c->extra_name, (uint8_t)ranges[i], (uint8_t)ranges[i + 1], more);
        tt_builder_edge(b, more, (uint8_t)ranges[i], (uint8_t)ranges[i + 1], more);
    }
    tt_builder_edge(b, more, '>', '>', end);
    tt_builder_call_flat(b, called, rest, 0, after);
    if (choice->several)
        tt_builder_text_to(b, after, "\n" OPEN_CALL, 1 + strlen(OPEN_CALL), called);
    tt_status st = each_tool(c, tools, choice, rest, &n, err);
    tt_shared_rules_free(&c->shared);
    if (st == TT_OK && n == 0)
        st = tt_fail(err, TT_ERR_INVALID, "none of the tools may be called");
    if (st == TT_OK && choice->required) {
        *entry = tt_builder_state(b);
        tt_builder_text_to(b, *entry, OPEN_CALL, strlen(OPEN_CALL), called);
    } else if (st == TT_OK) {
        *entry = tt_text_until(b, OPEN_CALL, called, true);
    }
    return st == TT_OK ? tt_builder_status(b, err) : st;
}

/* Whether there is a way to the end of a call of each tool. One that is strict and has none is
 * refused, the others become open; *found says that there are some. */
static tt_status find_hopeless(calls *c, const json_t *tools, bool *found, tt_error *err)
{
    size_t i;
    const json_t *entry;
    *found = false;
    TT_TRY(tt_builder_without_end(c->b, c->begin, (uint32_t)json_array_size(tools), c->open, err));
    json_array_foreach((json_t *)tools, i, entry)
    {
        if (!c->open[i])
            continue;
        if (is_strict(entry))
            return tt_fail(err, TT_ERR_INVALID, "%s: nothing satisfies its schema",
                           tool_name(entry));
        *found = true;
    }
    return TT_OK;
}

tt_status tt_call_rule(tt_builder *b, const json_t *tools, const tt_call_choice *choice,
                       json_t *relaxed, uint32_t *entry, tt_error *err)
{
    calls c = {.b = b, .relaxed = relaxed};
    if (!json_is_array(tools) || json_array_size(tools) > TT_CALL_TOOLS)
        return tt_fail(err, TT_ERR_INVALID, "tools must be an array of at most %u", TT_CALL_TOOLS);
    TT_TRY(check_names(tools, choice, err));
    tt_builder_mark mark = tt_builder_marked(b);
    size_t before = json_array_size(relaxed);
    bool again = false;
    c.begin = malloc((json_array_size(tools) + 1) * sizeof *c.begin);
    c.open = calloc(json_array_size(tools) + 1, sizeof *c.open);
    tt_status st = c.begin == NULL || c.open == NULL ? no_memory(err) : TT_OK;
    if (st == TT_OK)
        st = build(&c, tools, choice, entry, err);
    if (st == TT_OK)
        st = find_hopeless(&c, tools, &again, err);
    if (st == TT_OK && again) {
        tt_builder_rewind(b, &mark);
        while (json_array_size(relaxed) > before)
            json_array_remove(relaxed, json_array_size(relaxed) - 1);
        st = build(&c, tools, choice, entry, err);
    }
    free(c.begin);
    free(c.open);
    return st;
}
