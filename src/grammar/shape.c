#include "grammar/shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CHOICES 64u
#define MOST_NODES   100000u

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the schema");
}

/* ---- nodes ---- */

tt_status tt_schema_init(tt_schema *s, tt_builder *b, const json_t *root, const char *name,
                         bool strict, json_t *relaxed, tt_error *err)
{
    *s = (tt_schema){.b = b, .root = root, .strict = strict, .name = name, .relaxed = relaxed};
    s->root_node = tt_schema_node(s, root, TT_NO_STATE, NULL, NULL, 0);
    return tt_builder_status(b, err);
}

void tt_schema_free(tt_schema *s)
{
    free(s->nodes);
    free(s->hash);
    *s = (tt_schema){0};
}

static uint32_t slot_of(const tt_schema *s, const json_t *json)
{
    uint32_t k = (uint32_t)((uintptr_t)json >> 4) * 2654435761u & (s->n_hash - 1);
    while (s->hash[k] != TT_NO_STATE && s->nodes[s->hash[k]].json != json)
        k = (k + 1) & (s->n_hash - 1);
    return k;
}

static bool more_nodes(tt_schema *s)
{
    uint32_t want = s->cap_nodes == 0 ? 64 : 2 * s->cap_nodes;
    tt_snode *nodes = realloc(s->nodes, want * sizeof *nodes);
    if (nodes != NULL)
        s->nodes = nodes;
    uint32_t *hash = malloc(2 * want * sizeof *hash);
    if (nodes == NULL || hash == NULL) {
        free(hash);
        return false;
    }
    memset(hash, 0xff, 2 * want * sizeof *hash);
    free(s->hash);
    s->hash = hash;
    s->n_hash = 2 * want;
    s->cap_nodes = want;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        s->hash[slot_of(s, s->nodes[i].json)] = i;
    return true;
}

uint32_t tt_schema_node(tt_schema *s, const json_t *json, uint32_t parent, const char *key,
                        const char *sub, uint32_t index)
{
    if (s->n_nodes >= MOST_NODES)
        tt_builder_fail(s->b, TT_ERR_LIMIT, "more than 100,000 schemas");
    if (!tt_builder_work(s->b, 4))
        return 0;
    if (s->n_nodes == s->cap_nodes && !more_nodes(s)) {
        tt_builder_fail(s->b, TT_ERR_NOMEM, "memory");
        return 0;
    }
    uint32_t k = slot_of(s, json);
    if (s->hash[k] != TT_NO_STATE)
        return s->hash[k];
    s->nodes[s->n_nodes] =
        (tt_snode){.json = json, .parent = parent, .key = key, .sub = sub, .index = index};
    s->hash[k] = s->n_nodes;
    return s->n_nodes++;
}

/* A key inside a pointer: ~ and / are written ~0 and ~1. */
static void put_key(char *out, size_t cap, const char *key)
{
    size_t n = strlen(out);
    if (n + 1 < cap)
        out[n++] = '/';
    for (; *key != '\0' && n + 2 < cap; key++) {
        bool escaped = *key == '~' || *key == '/';
        out[n++] = escaped ? '~' : *key;
        if (escaped)
            out[n++] = *key == '~' ? '0' : '1';
    }
    out[n < cap ? n : cap - 1] = '\0';
}

void tt_schema_pointer(const tt_schema *s, uint32_t node, const char *keyword, char *out,
                       size_t cap)
{
    uint32_t path[64], n = 0;
    for (uint32_t i = node; s->nodes[i].parent != TT_NO_STATE && n < 64; i = s->nodes[i].parent)
        path[n++] = i;
    const char *base = s->nodes[n > 0 ? s->nodes[path[n - 1]].parent : node].key;
    snprintf(out, cap, "%s", base != NULL ? base : "#");
    while (n-- > 0) {
        const tt_snode *x = &s->nodes[path[n]];
        char index[16];
        put_key(out, cap, x->key);
        if (x->index != TT_NO_STATE)
            snprintf(index, sizeof index, "%u", x->index);
        if (x->sub != NULL || x->index != TT_NO_STATE)
            put_key(out, cap, x->sub != NULL ? x->sub : index);
    }
    if (keyword != NULL)
        put_key(out, cap, keyword);
}

tt_status tt_schema_refuse(tt_schema *s, uint32_t node, const char *keyword, bool *relaxed,
                           tt_error *err, const char *fmt, ...)
{
    char pointer[256], text[256];
    va_list ap;
    tt_schema_pointer(s, node, keyword, pointer, sizeof pointer);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s->strict)
        return tt_fail(err, TT_ERR_UNSUPPORTED, "%s: %s: %s", s->name, pointer, text);
    *relaxed = true;
    if (s->nodes[node].relaxed)
        return TT_OK;
    s->nodes[node].relaxed = true;
    s->n_relaxed++;
    if (s->relaxed != NULL &&
        json_array_append_new(s->relaxed,
                              json_pack("{s:s, s:s, s:s, s:s}", "name", s->name, "pointer", pointer,
                                        "keyword", keyword, "reason", text)) != 0)
        return no_memory(err);
    return TT_OK;
}

const json_t *tt_schema_get(const tt_schema *s, uint32_t node, const char *keyword)
{
    const tt_snode *x = &s->nodes[node];
    if (x->relaxed && strcmp(keyword, "type") != 0 && strcmp(keyword, "nullable") != 0)
        return NULL;
    return json_object_get(x->json, keyword);
}

/* ---- places ---- */

void tt_conj_free(tt_conj *c)
{
    free(c->v);
    *c = (tt_conj){0};
}

static tt_status list_add(uint32_t **v, uint32_t *n, uint32_t *cap, uint32_t x, tt_error *err)
{
    if (*n == *cap) {
        uint32_t want = *cap < 4 ? 4 : 2 * *cap;
        uint32_t *p = realloc(*v, want * sizeof *p);
        if (p == NULL)
            return no_memory(err);
        *v = p;
        *cap = want;
    }
    (*v)[(*n)++] = x;
    return TT_OK;
}

tt_status tt_conj_add(tt_schema *s, tt_conj *c, const json_t *json, uint32_t parent,
                      const char *key, const char *sub, uint32_t index, tt_error *err)
{
    if (json_is_true(json) || (json_is_object(json) && json_object_size(json) == 0))
        return TT_OK;
    if (json_is_false(json)) {
        c->never = true;
        return TT_OK;
    }
    uint32_t node = tt_schema_node(s, json, parent, key, sub, index);
    TT_TRY(tt_builder_status(s->b, err));
    for (uint32_t i = 0; i < c->n; i++)
        if (c->v[i] == node)
            return TT_OK;
    return list_add(&c->v, &c->n, &c->cap, node, err);
}

void tt_leaf_free(tt_leaf *l)
{
    free(l->nodes);
    free(l->patterns);
    free(l->formats);
    free(l->pattern_nodes);
    json_decref(l->values);
    *l = (tt_leaf){0};
}

void tt_leaves_free(tt_leaves *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        tt_leaf_free(&l->v[i]);
    free(l->v);
    *l = (tt_leaves){0};
}

/* ---- references ---- */

static bool unescape(char *key)
{
    char *out = key;
    for (const char *p = key; *p != '\0'; p++) {
        if (*p == '~') {
            if (p[1] != '0' && p[1] != '1')
                return false;
            *out++ = *++p == '0' ? '~' : '/';
        } else if (*p == '%') {
            unsigned c;
            if (sscanf(p + 1, "%2x", &c) != 1 || c == 0)
                return false;
            *out++ = (char)c;
            p += 2;
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
    return true;
}

static const json_t *step_to(const json_t *at, const char *key)
{
    char *end;
    if (json_is_object(at))
        return json_object_get(at, key);
    unsigned long i = strtoul(key, &end, 10);
    return json_is_array(at) && *key >= '0' && *key <= '9' && *end == '\0' ? json_array_get(at, i)
                                                                           : NULL;
}

static tt_status resolve(tt_schema *s, uint32_t node, const char *ref, uint32_t *target,
                         bool *relaxed, tt_error *err)
{
    const json_t *at = ref[0] == '#' && (ref[1] == '\0' || ref[1] == '/') ? s->root : NULL;
    char *path = strdup(ref[0] == '#' && ref[1] == '/' ? ref + 2 : ""), *rest = path, *part;
    if (path == NULL)
        return no_memory(err);
    while (at != NULL && ref[1] == '/' && (part = strsep(&rest, "/")) != NULL)
        at = unescape(part) ? step_to(at, part) : NULL;
    free(path);
    if (at == NULL || (!json_is_object(at) && !json_is_boolean(at)))
        return tt_schema_refuse(s, node, "$ref", relaxed, err,
                                "\"%.100s\" is no schema in this document", ref);
    *target = tt_schema_node(s, at, TT_NO_STATE, ref, NULL, TT_NO_STATE);
    return tt_builder_status(s->b, err);
}

/* ---- alternatives ---- */

typedef struct choice {
    uint32_t node;
    const char *keyword;
} choice;

/* One alternative in the making. */
typedef struct branch {
    uint32_t *plain, n_plain, cap_plain; /* schemas that hold */
    uint32_t *via;                       /* the one that each came by */
    uint32_t cap_via, n_via;
    uint32_t *pending, n_pending, cap_pending; /* to be looked at: pairs of schema and via */
    choice choices[MOST_CHOICES];
    uint32_t n_choices;
    bool never;
} branch;

static void branch_free(branch *x)
{
    free(x->plain);
    free(x->via);
    free(x->pending);
}

static tt_status branch_copy(tt_builder *b, const branch *x, branch *out, tt_error *err)
{
    if (!tt_builder_work(b, 100 + x->n_plain))
        return tt_builder_status(b, err);
    *out = (branch){.n_choices = x->n_choices};
    memcpy(out->choices, x->choices, x->n_choices * sizeof *x->choices);
    for (uint32_t i = 0; i < x->n_plain; i++) {
        TT_TRY(list_add(&out->plain, &out->n_plain, &out->cap_plain, x->plain[i], err));
        TT_TRY(list_add(&out->via, &out->n_via, &out->cap_via, x->via[i], err));
    }
    return TT_OK;
}

static tt_status look_at(branch *x, uint32_t node, uint32_t via, tt_error *err)
{
    TT_TRY(list_add(&x->pending, &x->n_pending, &x->cap_pending, node, err));
    return list_add(&x->pending, &x->n_pending, &x->cap_pending, via, err);
}

/* Whether schema `node` is the one numbered `at`, or one that it came by. */
static bool came_by(const branch *x, uint32_t at, uint32_t node)
{
    for (; at != TT_NO_STATE; at = x->via[at])
        if (x->plain[at] == node)
            return true;
    return false;
}

static tt_status add_part(tt_schema *s, branch *x, const json_t *json, uint32_t node,
                          const char *keyword, uint32_t index, uint32_t via, tt_error *err)
{
    tt_conj c = {0};
    tt_status st = tt_conj_add(s, &c, json, node, keyword, NULL, index, err);
    x->never |= c.never;
    if (st == TT_OK && c.n > 0)
        st = look_at(x, c.v[0], via, err);
    tt_conj_free(&c);
    return st;
}

/* Takes one schema in: it holds, and so does what it refers to. */
static tt_status take_schema(tt_schema *s, branch *x, uint32_t node, uint32_t via, tt_error *err)
{
    uint32_t at = x->n_plain, target = 0;
    bool relaxed = false;
    size_t i;
    const json_t *part;
    for (uint32_t k = 0; k < x->n_plain; k++) {
        if (x->plain[k] != node)
            continue;
        if (came_by(x, via, node))
            return tt_schema_refuse(s, node, "$ref", &relaxed, err,
                                    "a schema that is made of itself");
        return TT_OK;
    }
    if (!tt_builder_work(s->b, 200 + x->n_plain))
        return tt_builder_status(s->b, err);
    if (!s->nodes[node].checked)
        TT_TRY(tt_shape_check(s, node, err));
    TT_TRY(list_add(&x->plain, &x->n_plain, &x->cap_plain, node, err));
    TT_TRY(list_add(&x->via, &x->n_via, &x->cap_via, via, err));
    const json_t *ref = tt_schema_get(s, node, "$ref");
    if (ref != NULL) {
        TT_TRY(resolve(s, node, json_string_value(ref), &target, &relaxed, err));
        if (relaxed)
            return TT_OK;
        const json_t *json = s->nodes[target].json;
        x->never |= json_is_false(json);
        if (!json_is_boolean(json))
            TT_TRY(look_at(x, target, at, err));
    }
    json_array_foreach((json_t *)tt_schema_get(s, node, "allOf"), i, part)
        TT_TRY(add_part(s, x, part, node, "allOf", (uint32_t)i, at, err));
    static const char *const either[] = {"anyOf", "oneOf"};
    for (size_t k = 0; k < 2; k++) {
        if (tt_schema_get(s, node, either[k]) == NULL)
            continue;
        if (x->n_choices == MOST_CHOICES)
            return tt_schema_refuse(s, node, either[k], &relaxed, err,
                                    "more than %u choices at one place", MOST_CHOICES);
        x->choices[x->n_choices++] = (choice){node, either[k]};
    }
    return TT_OK;
}

static tt_status take_pending(tt_schema *s, branch *x, tt_error *err)
{
    /* In the order in which they stand in the schema. */
    for (uint32_t i = 0; i < x->n_pending; i += 2)
        TT_TRY(take_schema(s, x, x->pending[i], x->pending[i + 1], err));
    x->n_pending = 0;
    return TT_OK;
}

static tt_status add_leaf(tt_schema *s, const branch *x, tt_leaves *out, tt_error *err)
{
    tt_leaf leaf = {.n_nodes = x->n_plain};
    bool possible = false;
    leaf.nodes = malloc((x->n_plain + 1) * sizeof *leaf.nodes);
    if (leaf.nodes == NULL)
        return no_memory(err);
    if (x->n_plain > 0)
        memcpy(leaf.nodes, x->plain, x->n_plain * sizeof *leaf.nodes);
    tt_status st = tt_shape_merge(s, &leaf, &possible, err);
    if (st == TT_OK && possible && out->n == out->cap) {
        uint32_t want = out->cap < 4 ? 4 : 2 * out->cap;
        tt_leaf *p = realloc(out->v, want * sizeof *p);
        if (p == NULL) {
            st = no_memory(err);
        } else {
            out->v = p;
            out->cap = want;
        }
    }
    if (st != TT_OK || !possible) {
        tt_leaf_free(&leaf);
        return st;
    }
    out->v[out->n++] = leaf;
    return TT_OK;
}

static tt_status expand(tt_schema *s, branch *x, tt_leaves *out, bool *relaxed, tt_error *err);

/* The alternatives of one part of a choice, beside everything that holds already. */
static tt_status expand_part(tt_schema *s, const branch *x, const choice *c, uint32_t i,
                             tt_leaves *out, bool *relaxed, tt_error *err)
{
    branch y = {0};
    const json_t *part = json_array_get(tt_schema_get(s, c->node, c->keyword), i);
    uint32_t via = 0;
    while (via < x->n_plain && x->plain[via] != c->node)
        via++;
    tt_status st = branch_copy(s->b, x, &y, err);
    if (st == TT_OK)
        st = add_part(s, &y, part, c->node, c->keyword, i, via, err);
    if (st == TT_OK && !y.never)
        st = expand(s, &y, out, relaxed, err);
    branch_free(&y);
    return st;
}

/* The parts of oneOf exclude each other, or it is not what a grammar can say. */
static tt_status check_one_of(tt_schema *s, const choice *c, const tt_leaves *parts,
                              const uint32_t *of_part, bool *relaxed, tt_error *err)
{
    for (uint32_t i = 0; i < parts->n; i++) {
        for (uint32_t k = i + 1; k < parts->n; k++) {
            bool disjoint = true;
            if (of_part[i] != of_part[k])
                TT_TRY(tt_shape_disjoint(s, &parts->v[i], &parts->v[k], 0, &disjoint, err));
            if (!disjoint)
                return tt_schema_refuse(s, c->node, "oneOf", relaxed, err,
                                        "alternatives %u and %u cannot be told apart; with anyOf "
                                        "they need not be",
                                        of_part[i], of_part[k]);
        }
    }
    return TT_OK;
}

static tt_status expand_choice(tt_schema *s, branch *x, tt_leaves *out, bool *relaxed,
                               tt_error *err)
{
    choice c = x->choices[--x->n_choices];
    const json_t *list = tt_schema_get(s, c.node, c.keyword);
    bool one = strcmp(c.keyword, "oneOf") == 0;
    tt_leaves mine = {0};
    uint32_t *of_part = NULL, n = 0, cap = 0;
    tt_status st = TT_OK;
    if (list == NULL) { /* relaxed since */
        *relaxed = true;
        return TT_OK;
    }
    for (uint32_t i = 0; st == TT_OK && !*relaxed && i < json_array_size(list); i++) {
        st = expand_part(s, x, &c, i, &mine, relaxed, err);
        while (st == TT_OK && n < mine.n)
            st = list_add(&of_part, &n, &cap, i, err);
        if (st == TT_OK && out->n + mine.n > TT_SHAPE_LEAVES)
            st = tt_schema_refuse(s, c.node, c.keyword, relaxed, err,
                                  "more than %u alternatives at one place", TT_SHAPE_LEAVES);
    }
    if (st == TT_OK && one && !*relaxed)
        st = check_one_of(s, &c, &mine, of_part, relaxed, err);
    for (uint32_t i = 0; st == TT_OK && !*relaxed && i < mine.n; i++) {
        if (out->n == out->cap) {
            uint32_t want = out->cap < 4 ? 4 : 2 * out->cap;
            tt_leaf *p = realloc(out->v, want * sizeof *p);
            if (p == NULL) {
                st = no_memory(err);
                break;
            }
            out->v = p;
            out->cap = want;
        }
        out->v[out->n++] = mine.v[i];
        mine.v[i] = (tt_leaf){0};
    }
    tt_leaves_free(&mine);
    free(of_part);
    return st;
}

/* *relaxed: a schema of this place was relaxed in the meantime, so it has to be done again. */
static tt_status expand(tt_schema *s, branch *x, tt_leaves *out, bool *relaxed, tt_error *err)
{
    TT_TRY(take_pending(s, x, err));
    if (x->never || *relaxed)
        return TT_OK;
    if (x->n_choices > 0)
        return expand_choice(s, x, out, relaxed, err);
    return add_leaf(s, x, out, err);
}

tt_status tt_shape_expand(tt_schema *s, const tt_conj *c, tt_leaves *out, tt_error *err)
{
    if (c->never)
        return TT_OK;
    for (;;) {
        branch x = {0};
        tt_leaves found = {0};
        bool relaxed = false;
        uint32_t before = s->n_relaxed;
        tt_status st = TT_OK;
        for (uint32_t i = 0; st == TT_OK && i < c->n; i++)
            st = look_at(&x, c->v[i], TT_NO_STATE, err);
        if (st == TT_OK)
            st = expand(s, &x, &found, &relaxed, err);
        branch_free(&x);
        if (st == TT_OK && !relaxed && s->n_relaxed == before) {
            *out = found;
            return TT_OK;
        }
        tt_leaves_free(&found);
        if (st != TT_OK)
            return st;
    }
}
