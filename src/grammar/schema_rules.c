#include "grammar/schema_rules.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/schema_int.h"
#include "grammar/text_rules.h"

#define MOST_NAMES (4u << 20) /* bytes of all names of an object */

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the schema");
}

/* ---- setting up ---- */

tt_status tt_schema_rules_init(tt_schema *s, tt_shared_rules *shared, tt_error *err)
{
    s->rules = calloc(1, sizeof *s->rules);
    if (s->rules == NULL)
        return no_memory(err);
    s->rules->shared = shared;
    return tt_builder_status(s->b, err);
}

void tt_members_free(tt_members *m)
{
    for (uint32_t i = 0; m->places != NULL && i < m->n; i++)
        tt_conj_free(&m->places[i]);
    free(m->names);
    free(m->places);
    free(m->required);
    tt_conj_free(&m->others);
    *m = (tt_members){0};
}

void tt_schema_rules_free(tt_schema *s)
{
    tt_schema_rules *r = s->rules;
    if (r == NULL)
        return;
    for (uint32_t i = 0; i < r->n_places; i++)
        free(r->places[i].v);
    for (uint32_t i = 0; i < r->n_bodies; i++) {
        tt_conj_free(&r->bodies[i].items);
        tt_members_free(&r->bodies[i].members);
    }
    free(r->places);
    free(r->bodies);
    tt_id_memo_free(&r->memo);
    free(r);
    s->rules = NULL;
}

tt_status tt_ways_add(tt_ways *w, uint32_t entry, uint32_t param, tt_error *err)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->v[i].entry == entry && w->v[i].param == param)
            return TT_OK;
    if (w->n == w->cap) {
        uint32_t want = w->cap < 4 ? 4 : 2 * w->cap;
        tt_way *p = realloc(w->v, want * sizeof *p);
        if (p == NULL)
            return no_memory(err);
        w->v = p;
        w->cap = want;
    }
    w->v[w->n++] = (tt_way){entry, param};
    return TT_OK;
}

tt_status tt_schema_place(tt_schema_rules *r, const uint32_t *key, uint32_t n, uint32_t *place,
                          bool *known, tt_error *err)
{
    if (r->n_places == r->cap_places) {
        uint32_t want = 2 * r->cap_places + 32;
        tt_ways *p = realloc(r->places, want * sizeof *p);
        if (p == NULL)
            return no_memory(err);
        r->places = p;
        r->cap_places = want;
    }
    TT_TRY(tt_id_memo_value(&r->memo, key, n, r->n_places, place, known, err));
    if (!*known)
        r->places[r->n_places++] = (tt_ways){0};
    return TT_OK;
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* The place under a kind, two numbers and a list of nodes. */
static tt_status place_of(tt_schema *s, uint32_t kind, uint32_t a, uint32_t b, const uint32_t *ids,
                          uint32_t n, bool sorted, uint32_t *place, bool *known, tt_error *err)
{
    uint32_t *key = malloc((n + 3) * sizeof *key);
    if (key == NULL)
        return no_memory(err);
    key[0] = kind;
    key[1] = a;
    key[2] = b;
    if (n > 0)
        memcpy(key + 3, ids, n * sizeof *ids);
    if (sorted)
        qsort(key + 3, n, sizeof *key, by_number);
    tt_status st = tt_schema_place(s->rules, key, n + 3, place, known, err);
    free(key);
    return st;
}

static tt_status add_body(tt_schema *s, const tt_body *body, tt_error *err)
{
    tt_schema_rules *r = s->rules;
    if (r->n_bodies == r->cap_bodies) {
        uint32_t want = 2 * r->cap_bodies + 16;
        tt_body *p = realloc(r->bodies, want * sizeof *p);
        if (p == NULL)
            return no_memory(err);
        r->bodies = p;
        r->cap_bodies = want;
    }
    r->bodies[r->n_bodies++] = *body;
    return TT_OK;
}

/* ---- members of objects ---- */

/* What is there stays there when there is no memory for more. */
static bool regrow(void **v, size_t bytes)
{
    void *p = realloc(*v, bytes);
    if (p == NULL)
        return false;
    *v = p;
    return true;
}

static tt_status grow_members(tt_members *m, tt_error *err)
{
    uint32_t want = m->n < 8 ? 8 : 2 * m->n;
    if (m->n != 0 && (m->n < 8 || (m->n & (m->n - 1)) != 0))
        return TT_OK;
    bool ok = regrow((void **)&m->names, want * sizeof *m->names) &&
              regrow((void **)&m->places, want * sizeof *m->places) &&
              regrow((void **)&m->required, want * sizeof *m->required);
    return ok ? TT_OK : no_memory(err);
}

static tt_status add_member(tt_schema *s, const tt_leaf *leaf, const char *name, json_t *seen,
                            tt_members *m, tt_error *err)
{
    if (json_object_get(seen, name) != NULL)
        return TT_OK;
    if (!tt_builder_work(s->b, 400))
        return tt_builder_status(s->b, err);
    TT_TRY(grow_members(m, err));
    if (json_object_set_new(seen, name, json_integer(m->n)) != 0)
        return no_memory(err);
    m->names[m->n] = name;
    m->required[m->n] = false;
    m->places[m->n] = (tt_conj){0};
    m->n++;
    return tt_shape_property(s, leaf, name, &m->places[m->n - 1], err);
}

static tt_status collect_members(tt_schema *s, const tt_leaf *leaf, json_t *seen, tt_members *m,
                                 tt_error *err)
{
    const char *name;
    json_t *v;
    size_t k;
    for (uint32_t i = 0; i < leaf->n_nodes; i++)
        json_object_foreach((json_t *)tt_schema_get(s, leaf->nodes[i], "properties"), name, v)
            TT_TRY(add_member(s, leaf, name, seen, m, err));
    for (uint32_t i = 0; i < leaf->n_nodes; i++) {
        json_array_foreach((json_t *)tt_schema_get(s, leaf->nodes[i], "required"), k, v)
        {
            TT_TRY(add_member(s, leaf, json_string_value(v), seen, m, err));
            m->required[json_integer_value(json_object_get(seen, json_string_value(v)))] = true;
        }
    }
    return tt_shape_property(s, leaf, NULL, &m->others, err);
}

tt_status tt_schema_members(tt_schema *s, const tt_leaf *leaf, tt_members *out, tt_error *err)
{
    tt_members m = {0};
    json_t *seen = json_object();
    tt_status st = seen == NULL ? no_memory(err) : collect_members(s, leaf, seen, &m, err);
    json_decref(seen);
    if (st == TT_OK)
        *out = m;
    else
        tt_members_free(&m);
    return st;
}

/* ---- ways to begin a value ---- */

static tt_status object_way(tt_schema *s, const tt_leaf *leaf, tt_ways *out, tt_error *err)
{
    uint32_t place;
    bool known;
    TT_TRY(
        place_of(s, TT_KEY_OBJECT, 0, 0, leaf->nodes, leaf->n_nodes, false, &place, &known, err));
    if (!known) {
        tt_body x = {0};
        tt_status st = tt_schema_members(s, leaf, &x.members, err);
        if (st != TT_OK)
            return st;
        x.entry = tt_builder_state(s->b);
        x.after = tt_builder_state(s->b);
        x.param = tt_builder_order(s->b, x.members.n, x.members.required, !x.members.others.never,
                                   x.entry, x.after);
        st = add_body(s, &x, err);
        if (st != TT_OK) {
            tt_members_free(&x.members);
            return st;
        }
        TT_TRY(tt_ways_add(&s->rules->places[place], x.entry, x.param, err));
    }
    return tt_ways_add(out, s->rules->places[place].v[0].entry, s->rules->places[place].v[0].param,
                       err);
}

static tt_status array_way(tt_schema *s, const tt_leaf *leaf, tt_ways *out, tt_error *err)
{
    uint32_t place;
    bool known;
    tt_body x = {.array = true, .min = leaf->min_items, .max = leaf->max_items};
    tt_status st = tt_shape_items(s, leaf, &x.items, err);
    if (st == TT_OK && x.items.never)
        x.max = 0;
    if (st == TT_OK)
        st = place_of(s, TT_KEY_ARRAY, x.min, x.max, x.items.v, x.items.n, true, &place, &known,
                      err);
    if (st == TT_OK && !known) {
        x.entry = tt_builder_state(s->b);
        x.param = tt_builder_count(s->b, x.min, x.max);
        st = tt_ways_add(&s->rules->places[place], x.entry, x.param, err);
        if (st == TT_OK)
            st = add_body(s, &x, err);
        if (st == TT_OK)
            x.items = (tt_conj){0};
    }
    tt_conj_free(&x.items);
    if (st != TT_OK)
        return st;
    return tt_ways_add(out, s->rules->places[place].v[0].entry, s->rules->places[place].v[0].param,
                       err);
}

static tt_status value_ways(tt_schema *s, const tt_leaf *leaf, uint32_t types, tt_ways *out,
                            tt_error *err)
{
    json_t *values = NULL;
    uint32_t entry = 0;
    TT_TRY(tt_schema_values(s, leaf, types, &values, err));
    tt_status st =
        json_array_size(values) == 0 ? TT_OK : tt_schema_literals(s, values, &entry, err);
    if (st == TT_OK && json_array_size(values) > 0)
        st = tt_ways_add(out, entry, 0, err);
    json_decref(values);
    return st;
}

static tt_status words_way(tt_schema *s, uint32_t types, tt_ways *out, tt_error *err)
{
    tt_leaf words = {.types = types & (TT_TYPE_NULL | TT_TYPE_BOOLEAN)};
    uint32_t place, key[2] = {TT_KEY_TEXT, words.types};
    bool known;
    if (words.types == 0)
        return TT_OK;
    TT_TRY(tt_schema_place(s->rules, key, 2, &place, &known, err));
    if (!known) {
        words.values = json_array();
        if (types & TT_TYPE_NULL)
            json_array_append_new(words.values, json_null());
        if (types & TT_TYPE_BOOLEAN) {
            json_array_append_new(words.values, json_true());
            json_array_append_new(words.values, json_false());
        }
        tt_status st = value_ways(s, &words, words.types, &s->rules->places[place], err);
        json_decref(words.values);
        if (st != TT_OK)
            return st;
    }
    const tt_ways *w = &s->rules->places[place];
    return w->n == 0 ? TT_OK : tt_ways_add(out, w->v[0].entry, w->v[0].param, err);
}

tt_status tt_schema_leaf_ways(tt_schema *s, const tt_leaf *leaf, uint32_t types, tt_ways *out,
                              tt_error *err)
{
    tt_way way;
    types &= leaf->types;
    if (leaf->values != NULL)
        return value_ways(s, leaf, types, out, err);
    TT_TRY(words_way(s, types, out, err));
    if (types & (TT_TYPE_WHOLE | TT_TYPE_BROKEN))
        TT_TRY(tt_ways_add(out, tt_schema_number(s->rules->shared, &leaf->range), 0, err));
    if (types & TT_TYPE_STRING) {
        TT_TRY(tt_schema_string(s, leaf, &way, err));
        TT_TRY(tt_ways_add(out, way.entry, way.param, err));
    }
    if (types & TT_TYPE_ARRAY)
        TT_TRY(array_way(s, leaf, out, err));
    if (types & TT_TYPE_OBJECT)
        TT_TRY(object_way(s, leaf, out, err));
    return tt_builder_status(s->b, err);
}

static tt_status place_ways(tt_schema *s, const tt_conj *c, uint32_t *place, tt_error *err)
{
    tt_leaves leaves = {0};
    tt_ways ways = {0};
    bool known;
    TT_TRY(place_of(s, TT_KEY_PLACE, c->never, 0, c->v, c->n, true, place, &known, err));
    if (known)
        return TT_OK;
    tt_status st = tt_shape_expand(s, c, &leaves, err);
    for (uint32_t i = 0; st == TT_OK && i < leaves.n; i++)
        st = tt_schema_leaf_ways(s, &leaves.v[i], TT_TYPE_ALL, &ways, err);
    tt_leaves_free(&leaves);
    s->rules->places[*place] = ways;
    return st;
}

tt_status tt_schema_calls(tt_schema *s, const tt_conj *c, uint32_t from, uint32_t ret,
                          tt_error *err)
{
    uint32_t place;
    TT_TRY(place_ways(s, c, &place, err));
    const tt_ways *w = &s->rules->places[place];
    for (uint32_t i = 0; i < w->n; i++)
        tt_builder_call(s->b, from, w->v[i].entry, w->v[i].param, ret);
    return tt_builder_status(s->b, err);
}

/* ---- insides ---- */

static tt_status build_array(tt_schema *s, const tt_body *x, tt_error *err)
{
    tt_builder *b = s->b;
    uint32_t open = tt_builder_state(b), after = tt_builder_state(b), comma = tt_builder_state(b);
    uint32_t empty = tt_builder_final(b), close = tt_builder_final(b);
    tt_builder_guard(b, after, TT_GUARD_INC, 0);
    tt_builder_guard(b, comma, TT_GUARD_MORE, 0);
    tt_builder_guard(b, close, TT_GUARD_ENOUGH, 0);
    tt_builder_edge(b, x->entry, '[', '[', open);
    tt_builder_nest(b, open);
    tt_builder_space(b, open);
    tt_builder_space(b, after);
    tt_builder_space(b, comma);
    if (x->min == 0)
        tt_builder_edge(b, open, ']', ']', empty);
    tt_builder_edge(b, after, ',', ',', comma);
    tt_builder_edge(b, after, ']', ']', close);
    if (x->max == 0)
        return tt_builder_status(b, err);
    TT_TRY(tt_schema_calls(s, &x->items, open, after, err));
    return tt_schema_calls(s, &x->items, comma, after, err);
}

/* States before values, one for each different place. */
static tt_status value_states(tt_schema *s, const tt_body *x, uint32_t *out, tt_error *err)
{
    const tt_members *m = &x->members;
    tt_id_memo seen = {0};
    uint32_t *states = malloc((m->n + 1) * sizeof *states), n = 0;
    tt_status st = states == NULL ? no_memory(err) : TT_OK;
    for (uint32_t i = 0; st == TT_OK && i <= m->n; i++) {
        const tt_conj *c = i == m->n ? &m->others : &m->places[i];
        uint32_t place = 0, at = 0;
        bool known = false;
        out[i] = 0;
        if (c->never)
            continue;
        st = place_ways(s, c, &place, err);
        if (st == TT_OK)
            st = tt_id_memo_value(&seen, &place, 1, n, &at, &known, err);
        if (st == TT_OK && !known) {
            states[n++] = tt_builder_state(s->b);
            tt_builder_space(s->b, states[at]);
            st = tt_schema_calls(s, c, states[at], x->after, err);
        }
        out[i] = st == TT_OK ? states[at] : 0;
    }
    tt_id_memo_free(&seen);
    free(states);
    return st;
}

typedef struct name {
    const char *text;
    uint32_t len, item;
} name;

static int by_name(const void *x, const void *y)
{
    const name *a = x, *b = y;
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->text, b->text, n);
    return c != 0 ? c : a->len < b->len ? -1 : a->len > b->len;
}

/* The names as they stand between quotes, sorted; `all` holds their bytes. */
static tt_status sort_names(const tt_members *m, tt_buf *all, name *v, tt_error *err)
{
    size_t at = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        size_t begin = all->len;
        tt_names_json(all, m->names[i], strlen(m->names[i]));
        v[i] = (name){.len = (uint32_t)(all->len - begin),
                      .item = m->places[i].never ? TT_NO_STATE : i};
    }
    TT_TRY(tt_buf_status(all, err));
    for (uint32_t i = 0; i < m->n; at += v[i++].len)
        v[i].text = all->len > 0 ? all->data + at : "";
    qsort(v, m->n, sizeof *v, by_name);
    return TT_OK;
}

/* Keys from `key` to the states of `found`; found[n] is for other names. */
static tt_status key_edges(tt_schema *s, const tt_members *m, uint32_t key, const uint32_t *found,
                           tt_error *err)
{
    tt_buf all;
    tt_buf_init(&all, MOST_NAMES);
    name *v = malloc((m->n + 1) * sizeof *v);
    const char **text = malloc((m->n + 1) * sizeof *text);
    uint32_t *len = malloc((m->n + 1) * sizeof *len), *item = malloc((m->n + 1) * sizeof *item);
    tt_status st =
        v == NULL || text == NULL || len == NULL || item == NULL ? no_memory(err) : TT_OK;
    if (st == TT_OK)
        st = sort_names(m, &all, v, err);
    for (uint32_t i = 0; st == TT_OK && i < m->n; i++) {
        text[i] = v[i].text;
        len[i] = v[i].len;
        item[i] = v[i].item;
    }
    tt_names x = {.b = s->b,
                  .text = text,
                  .len = len,
                  .item = item,
                  .found = found,
                  .end = '"',
                  .other = m->others.never ? TT_NO_STATE : s->rules->shared->key_rest,
                  .other_found = found[m->n]};
    if (st == TT_OK)
        st = tt_names_edges(&x, m->n, key, err);
    free(v);
    free(text);
    free(len);
    free(item);
    tt_buf_free(&all);
    return st;
}

/* The state behind each key, which waits for the colon. */
static void colon_states(tt_schema *s, const tt_body *x, const uint32_t *values, uint32_t *found)
{
    const tt_members *m = &x->members;
    for (uint32_t i = 0; i <= m->n; i++) {
        bool never = i == m->n ? m->others.never : m->places[i].never;
        found[i] = 0;
        if (never)
            continue;
        found[i] = tt_builder_state(s->b);
        tt_builder_guard(s->b, found[i], i == m->n ? TT_GUARD_EXTRA : TT_GUARD_TAKE, i);
        tt_builder_space(s->b, found[i]);
        tt_builder_edge(s->b, found[i], ':', ':', values[i]);
        tt_builder_order_value(s->b, x->param, i, values[i]);
    }
}

static tt_status build_object(tt_schema *s, const tt_body *x, tt_error *err)
{
    tt_builder *b = s->b;
    uint32_t open = tt_builder_state(b), key = tt_builder_state(b), comma = tt_builder_state(b);
    uint32_t close = tt_builder_final(b), n = x->members.n;
    tt_builder_guard(b, key, TT_GUARD_NEXT, 0);
    tt_builder_guard(b, comma, TT_GUARD_NEXT, 0);
    tt_builder_guard(b, close, TT_GUARD_CLOSE, 0);
    tt_builder_edge(b, x->entry, '{', '{', open);
    tt_builder_nest(b, open);
    tt_builder_edge(b, open, '"', '"', key);
    tt_builder_edge(b, open, '}', '}', close);
    tt_builder_edge(b, x->after, ',', ',', comma);
    tt_builder_edge(b, x->after, '}', '}', close);
    tt_builder_edge(b, comma, '"', '"', key);
    tt_builder_space(b, open);
    tt_builder_space(b, x->after);
    tt_builder_space(b, comma);
    uint32_t *values = malloc((n + 1) * sizeof *values), *found = malloc((n + 1) * sizeof *found);
    tt_status st = values == NULL || found == NULL ? no_memory(err) : TT_OK;
    if (st == TT_OK)
        st = value_states(s, x, values, err);
    if (st == TT_OK) {
        colon_states(s, x, values, found);
        st = tt_builder_status(b, err);
    }
    if (st == TT_OK)
        st = key_edges(s, &x->members, key, found, err);
    free(values);
    free(found);
    return st;
}

tt_status tt_schema_rules_run(tt_schema *s, tt_error *err)
{
    tt_schema_rules *r = s->rules;
    for (; r->done < r->n_bodies; r->done++) {
        tt_body x = r->bodies[r->done]; /* more bodies move the array */
        TT_TRY(x.array ? build_array(s, &x, err) : build_object(s, &x, err));
    }
    return tt_builder_status(s->b, err);
}

tt_status tt_schema_rule(tt_schema *s, uint32_t *entry, tt_error *err)
{
    tt_conj place = {0};
    uint32_t from = tt_builder_state(s->b), end = tt_builder_final(s->b);
    tt_status st = tt_conj_add(s, &place, s->root, TT_NO_STATE, NULL, NULL, TT_NO_STATE, err);
    if (st == TT_OK)
        st = tt_schema_calls(s, &place, from, end, err);
    tt_conj_free(&place);
    TT_TRY(st);
    TT_TRY(tt_schema_rules_run(s, err));
    *entry = from;
    return TT_OK;
}
