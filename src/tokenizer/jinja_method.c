/* Methods of lists, tuples, dicts, numbers, loops and cyclers. Those of text are in
 * jinja_method_str.c. */
#include <math.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

#define METHOD(name) static tt_status name(jrun *r, jval v, jval *a, const jargs *raw, jval *out)

static tt_status view(jrun *r, jval v, int kind, jval *out)
{
    jview *view;
    J_NEW(r, view, 1);
    view->dict = v.dict;
    view->kind = kind;
    *out = (jval){.type = JT_VIEW, .view = view};
    return TT_OK;
}

METHOD(d_keys)
{
    return view(r, v, JVIEW_KEYS, out);
}
METHOD(d_values)
{
    return view(r, v, JVIEW_VALUES, out);
}
METHOD(d_items)
{
    return view(r, v, JVIEW_ITEMS, out);
}

METHOD(d_get)
{
    J_TRY(tt_jdict_get(r, v.dict, a[0], out));
    if (out->type == JT_MISSING)
        *out = a[1].type == JT_MISSING ? J_NONE : a[1];
    return TT_OK;
}

METHOD(d_copy)
{
    jdict *d = NULL;
    J_TRY(tt_jdict_new(r, &d));
    for (uint32_t i = 0; i < v.dict->n; i++)
        J_TRY(tt_jdict_set(r, d, v.dict->e[i].k, v.dict->e[i].v));
    *out = J_DICT(d);
    return TT_OK;
}

METHOD(l_count)
{
    int64_t n = 0;
    bool eq = false;
    for (uint32_t i = 0; i < v.list->n; i++) {
        J_TRY(tt_jcharge(r, 1));
        J_TRY(tt_jequal(r, v.list->v[i], a[0], &eq));
        n += eq;
    }
    *out = J_INT(n);
    return TT_OK;
}

static tt_status index_bound(jrun *r, jval v, int64_t n, int64_t dflt, int64_t *out)
{
    *out = dflt;
    if (v.type == JT_MISSING)
        return TT_OK;
    if (!tt_jis_int(v, out))
        return tt_jfail(r, "an index must be an integer, not %s", tt_jtype_name(v));
    if (*out < 0)
        *out = *out + n < 0 ? 0 : *out + n;
    return TT_OK;
}

METHOD(l_index)
{
    int64_t from = 0, to = 0, n = v.list->n;
    bool eq = false;
    J_TRY(index_bound(r, a[1], n, 0, &from));
    J_TRY(index_bound(r, a[2], n, n, &to));
    for (int64_t i = from; i < to && i < n; i++) {
        J_TRY(tt_jcharge(r, 1));
        J_TRY(tt_jequal(r, v.list->v[i], a[0], &eq));
        if (eq) {
            *out = J_INT(i);
            return TT_OK;
        }
    }
    return tt_jfail(r, "the value is not in the list");
}

METHOD(l_copy)
{
    jlist *l = NULL;
    J_TRY(tt_jto_list(r, v, &l));
    *out = J_LIST(l);
    return TT_OK;
}

METHOD(l_pop)
{
    int64_t i = -1, n = v.list->n;
    if (a[0].type != JT_MISSING && !tt_jis_int(a[0], &i))
        return tt_jfail(r, "an index must be an integer, not %s", tt_jtype_name(a[0]));
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return tt_jfail(r, "pop from an empty list or outside it");
    *out = v.list->v[i];
    memmove(v.list->v + i, v.list->v + i + 1, (size_t)(n - i - 1) * sizeof *v.list->v);
    v.list->n--;
    return tt_jcharge(r, (uint64_t)(n - i) / 8);
}

METHOD(l_clear)
{
    v.list->n = 0;
    *out = J_NONE;
    return TT_OK;
}

static uint64_t magnitude(jval v)
{
    int64_t i = 0;
    tt_jis_int(v, &i);
    return i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
}

METHOD(i_bit_length)
{
    uint64_t u = magnitude(v);
    *out = J_INT(u == 0 ? 0 : 64 - __builtin_clzll(u));
    return TT_OK;
}

METHOD(i_bit_count)
{
    *out = J_INT(__builtin_popcountll(magnitude(v)));
    return TT_OK;
}

METHOD(n_conjugate)
{
    return tt_jpos(r, v, out);
}

METHOD(f_is_integer)
{
    *out = J_BOOL(isfinite(v.f) && v.f == floor(v.f));
    return TT_OK;
}

METHOD(r_count)
{
    bool yes = false;
    J_TRY(tt_jcontains(r, a[0], v, &yes));
    *out = J_INT(yes);
    return TT_OK;
}

METHOD(r_index)
{
    bool eq = false;
    for (int64_t i = 0; i < v.range->n; i++) {
        J_TRY(tt_jcharge(r, 1));
        J_TRY(tt_jequal(r, tt_jrange_item(v.range, i), a[0], &eq));
        if (eq) {
            *out = J_INT(i);
            return TT_OK;
        }
    }
    return tt_jfail(r, "the value is not in the range");
}

METHOD(loop_cycle)
{
    if (raw->npos == 0 || raw->kw != NULL)
        return tt_jfail(r, "loop.cycle takes one or more values without names");
    *out = raw->pos[v.loop->index0 % raw->npos];
    return TT_OK;
}

METHOD(loop_changed)
{
    jlist *l = NULL;
    bool same = false;
    if (raw->kw != NULL)
        return tt_jfail(r, "loop.changed takes values without names");
    J_TRY(tt_jlist_new(r, raw->npos, &l));
    for (uint32_t i = 0; i < raw->npos; i++)
        J_TRY(tt_jlist_add(r, l, raw->pos[i]));
    if (v.loop->changed.type != JT_MISSING)
        J_TRY(tt_jequal(r, v.loop->changed, J_TUPLE(l), &same));
    v.loop->changed = J_TUPLE(l);
    *out = J_BOOL(!same);
    return TT_OK;
}

METHOD(cycler_next)
{
    jcycler *c = v.cycler;
    *out = c->items->v[c->pos];
    c->pos = (c->pos + 1) % c->items->n;
    return TT_OK;
}

METHOD(cycler_reset)
{
    v.cycler->pos = 0;
    *out = J_NONE;
    return TT_OK;
}

static const jbuiltin dict_methods[] = {
    {"keys", "", d_keys}, {"values", "", d_values},         {"items", "", d_items},
    {"copy", "", d_copy}, {"get", "/key /default?", d_get}, {"fromkeys", NULL, NULL},
    {NULL, NULL, NULL}};

static const jbuiltin list_methods[] = {
    {"count", "/value", l_count}, {"index", "/value /start? /stop?", l_index},
    {"copy", "", l_copy},         {"pop", "/index?", l_pop},
    {"clear", "", l_clear},       {NULL, NULL, NULL}};

static const jbuiltin tuple_methods[] = {
    {"count", "/value", l_count}, {"index", "/value /start? /stop?", l_index}, {NULL, NULL, NULL}};

static const jbuiltin range_methods[] = {
    {"count", "/value", r_count}, {"index", "/value", r_index}, {NULL, NULL, NULL}};

static const jbuiltin view_methods[] = {
    {"isdisjoint", NULL, NULL}, {"mapping", NULL, NULL}, {NULL, NULL, NULL}};

static const jbuiltin int_methods[] = {{"bit_length", "", i_bit_length},
                                       {"bit_count", "", i_bit_count},
                                       {"conjugate", "", n_conjugate},
                                       {"as_integer_ratio", NULL, NULL},
                                       {"to_bytes", NULL, NULL},
                                       {"from_bytes", NULL, NULL},
                                       {NULL, NULL, NULL}};

static const jbuiltin float_methods[] = {
    {"is_integer", "", f_is_integer}, {"conjugate", "", n_conjugate},
    {"as_integer_ratio", NULL, NULL}, {"hex", NULL, NULL},
    {"fromhex", NULL, NULL},          {NULL, NULL, NULL}};

static const jbuiltin loop_methods[] = {
    {"cycle", NULL, loop_cycle}, {"changed", NULL, loop_changed}, {NULL, NULL, NULL}};

static const jbuiltin cycler_methods[] = {
    {"next", "", cycler_next}, {"reset", "", cycler_reset}, {NULL, NULL, NULL}};

const jbuiltin *tt_jmethod(jval v, const jstr *name)
{
    switch ((jtype)v.type) {
    case JT_STR:
        return tt_jstr_method(name);
    case JT_DICT:
        return tt_jbuiltin_find(dict_methods, name);
    case JT_LIST:
        return tt_jbuiltin_find(list_methods, name);
    case JT_TUPLE:
        return tt_jbuiltin_find(tuple_methods, name);
    case JT_RANGE:
        return tt_jbuiltin_find(range_methods, name);
    case JT_VIEW:
        return tt_jbuiltin_find(view_methods, name);
    case JT_BOOL:
    case JT_INT:
        return tt_jbuiltin_find(int_methods, name);
    case JT_FLOAT:
        return tt_jbuiltin_find(float_methods, name);
    case JT_LOOP:
        return tt_jbuiltin_find(loop_methods, name);
    case JT_CYCLER:
        return tt_jbuiltin_find(cycler_methods, name);
    default:
        return NULL;
    }
}
