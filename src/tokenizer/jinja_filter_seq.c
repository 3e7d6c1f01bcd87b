/* Filters on sequences. Those that Python writes as generators are lazy here too: they have no
 * length, run once, and fail only when something is taken from them. */
#include <string.h>

#include "tokenizer/jinja_int.h"

#define FILTER(name) static tt_status name(jrun *r, jval v, jval *a, const jargs *raw, jval *out)

static bool given(jval v)
{
    return v.type != JT_MISSING;
}

static bool on(jval v)
{
    return v.type != JT_MISSING && tt_jtruth(v);
}

static tt_status fold_case(jrun *r, jval v, jval *out)
{
    *out = v;
    return v.type == JT_STR ? tt_jstr_case(r, v.s, JCASE_LOWER, out) : TT_OK;
}

/* ---- sorting ---- */

static tt_status merge(jrun *r, uint32_t *idx, uint32_t *tmp, const jval *keys, uint32_t n,
                       bool reverse)
{
    if (n < 2)
        return TT_OK;
    uint32_t half = n / 2, i = 0, j = half, k = 0;
    J_TRY(merge(r, idx, tmp, keys, half, reverse));
    J_TRY(merge(r, idx + half, tmp, keys, n - half, reverse));
    while (i < half && j < n) {
        bool right = false;
        J_TRY(tt_jcharge(r, 1));
        /* Python compares with < alone; in reverse equal items keep their order as well. */
        if (reverse)
            J_TRY(tt_jorder(r, JTOK_LT, keys[idx[i]], keys[idx[j]], &right));
        else
            J_TRY(tt_jorder(r, JTOK_LT, keys[idx[j]], keys[idx[i]], &right));
        tmp[k++] = right ? idx[j++] : idx[i++];
    }
    while (i < half)
        tmp[k++] = idx[i++];
    memcpy(idx, tmp, k * sizeof *idx);
    return TT_OK;
}

tt_status tt_jsort(jrun *r, jval *items, jval *keys, uint32_t n, bool reverse)
{
    uint32_t *idx, *tmp;
    jval *copy;
    J_NEW(r, idx, n + 1);
    J_NEW(r, tmp, n + 1);
    J_NEW(r, copy, n + 1);
    for (uint32_t i = 0; i < n; i++)
        idx[i] = i;
    J_TRY(merge(r, idx, tmp, keys, n, reverse));
    if (n > 0)
        memcpy(copy, items, n * sizeof *copy);
    for (uint32_t i = 0; i < n; i++)
        items[i] = copy[idx[i]];
    if (n > 0)
        memcpy(copy, keys, n * sizeof *copy);
    for (uint32_t i = 0; i < n; i++)
        keys[i] = copy[idx[i]];
    return TT_OK;
}

static tt_status key_of(jrun *r, jval item, const jlist *path, bool sensitive, jval dflt, jval *out)
{
    J_TRY(tt_jattr_walk(r, item, path, dflt, out));
    return sensitive ? TT_OK : fold_case(r, *out, out);
}

/* "a,b" makes keys of two parts. */
static tt_status sort_paths(jrun *r, jval attribute, jlist **paths)
{
    jlist *path = NULL;
    J_TRY(tt_jlist_new(r, 2, paths));
    if (attribute.type != JT_STR) {
        J_TRY(tt_jattr_path(r, attribute, &path));
        return tt_jlist_add(r, *paths, J_LIST(path));
    }
    const jstr *s = attribute.s;
    size_t from = 0;
    for (size_t i = 0; i <= s->n; i++) {
        jval part;
        if (i < s->n && s->p[i] != ',')
            continue;
        J_TRY(tt_jsubstr(r, s, from, i, &part));
        J_TRY(tt_jattr_path(r, part, &path));
        J_TRY(tt_jlist_add(r, *paths, J_LIST(path)));
        from = i + 1;
    }
    return TT_OK;
}

FILTER(f_sort)
{
    jlist *l = NULL, *paths = NULL, *parts = NULL;
    jval *keys;
    J_TRY(tt_jto_list(r, v, &l));
    J_TRY(sort_paths(r, a[2], &paths));
    J_NEW(r, keys, l->n + 1);
    for (uint32_t i = 0; i < l->n; i++) {
        J_TRY(tt_jlist_new(r, paths->n, &parts));
        for (uint32_t k = 0; k < paths->n; k++) {
            jval key;
            J_TRY(key_of(r, l->v[i], paths->v[k].list, on(a[1]), J_MISSING, &key));
            J_TRY(tt_jlist_add(r, parts, key));
        }
        keys[i] = J_LIST(parts);
    }
    J_TRY(tt_jsort(r, l->v, keys, l->n, on(a[0])));
    *out = J_LIST(l);
    return TT_OK;
}

FILTER(f_dictsort)
{
    jlist *l = NULL;
    jval *keys;
    bool by_value = false;
    if (given(a[1])) {
        by_value = a[1].type == JT_STR && tt_jstr_is(a[1].s, "value");
        if (!by_value && !(a[1].type == JT_STR && tt_jstr_is(a[1].s, "key")))
            return tt_jfail(r, "dictsort sorts by 'key' or 'value' only");
    }
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    if (v.type != JT_DICT)
        return tt_jfail(r, "dictsort takes a mapping, not %s", tt_jtype_name(v));
    jview items = {.dict = v.dict, .kind = JVIEW_ITEMS};
    J_TRY(tt_jto_list(r, (jval){.type = JT_VIEW, .view = &items}, &l));
    J_NEW(r, keys, l->n + 1);
    for (uint32_t i = 0; i < l->n; i++) {
        keys[i] = l->v[i].list->v[by_value];
        if (!on(a[0]))
            J_TRY(fold_case(r, keys[i], &keys[i]));
    }
    J_TRY(tt_jsort(r, l->v, keys, l->n, on(a[2])));
    *out = J_LIST(l);
    return TT_OK;
}

static tt_status extreme(jrun *r, jval v, jval *a, int op, jval *out)
{
    jiter *it = NULL;
    jlist *path = NULL;
    jval item, key, best_key;
    bool more = true, better = false;
    J_TRY(tt_jiter(r, v, &it));
    J_TRY(tt_jnext(r, it, out, &more));
    if (!more)
        return tt_jundef(r, "No aggregated item, sequence was empty.", out);
    J_TRY(tt_jattr_path(r, a[1], &path));
    J_TRY(key_of(r, *out, path, on(a[0]), J_MISSING, &best_key));
    for (;;) {
        J_TRY(tt_jnext(r, it, &item, &more));
        if (!more)
            return TT_OK;
        J_TRY(key_of(r, item, path, on(a[0]), J_MISSING, &key));
        J_TRY(tt_jorder(r, op, key, best_key, &better));
        if (better) {
            *out = item;
            best_key = key;
        }
    }
}

FILTER(f_min)
{
    return extreme(r, v, a, JTOK_LT, out);
}
FILTER(f_max)
{
    return extreme(r, v, a, JTOK_GT, out);
}

static tt_status add_group(jrun *r, jlist *groups, jval name, jlist *members)
{
    jlist *pair = NULL;
    J_TRY(tt_jlist_new(r, 2, &pair));
    J_TRY(tt_jlist_add(r, pair, name));
    J_TRY(tt_jlist_add(r, pair, J_LIST(members)));
    jval t = J_TUPLE(pair);
    t.flag = J_GROUP;
    return tt_jlist_add(r, groups, t);
}

/* parameters: attribute default? case_sensitive? */
FILTER(f_groupby)
{
    jlist *l = NULL, *path = NULL, *groups = NULL, *members = NULL;
    jval *keys, name;
    J_TRY(tt_jto_list(r, v, &l));
    J_TRY(tt_jattr_path(r, a[0], &path));
    J_NEW(r, keys, l->n + 1);
    for (uint32_t i = 0; i < l->n; i++)
        J_TRY(key_of(r, l->v[i], path, on(a[2]), a[1], &keys[i]));
    J_TRY(tt_jsort(r, l->v, keys, l->n, false));
    J_TRY(tt_jlist_new(r, 4, &groups));
    for (uint32_t i = 0; i < l->n;) {
        bool same = true;
        uint32_t first = i;
        J_TRY(tt_jlist_new(r, 4, &members));
        while (same) {
            J_TRY(tt_jlist_add(r, members, l->v[i++]));
            if (i == l->n)
                break;
            J_TRY(tt_jequal(r, keys[first], keys[i], &same));
        }
        J_TRY(key_of(r, l->v[first], path, true, a[1], &name));
        J_TRY(add_group(r, groups, name, members));
    }
    *out = J_LIST(groups);
    return TT_OK;
}

/* ---- taking ---- */

FILTER(f_first)
{
    jiter *it = NULL;
    bool more = true;
    J_TRY(tt_jiter(r, v, &it));
    J_TRY(tt_jnext(r, it, out, &more));
    return more ? TT_OK : tt_jundef(r, "No first item, sequence was empty.", out);
}

FILTER(f_last)
{
    jiter *it = NULL;
    bool more = true, possible = true;
    J_TRY(tt_jiter_reversed(r, v, &it, &possible));
    if (!possible)
        return tt_jfail(r, "last: a value of type %s cannot be reversed", tt_jtype_name(v));
    J_TRY(tt_jnext(r, it, out, &more));
    return more ? TT_OK : tt_jundef(r, "No last item, sequence was empty.", out);
}

FILTER(f_list)
{
    jlist *l = NULL;
    J_TRY(tt_jto_list(r, v, &l));
    *out = J_LIST(l);
    return TT_OK;
}

FILTER(f_reverse)
{
    jiter *it = NULL;
    bool possible = true;
    if (v.type == JT_STR) {
        jval bound[3] = {J_NONE, J_NONE, J_INT(-1)};
        return tt_jslice(r, v, bound, out);
    }
    J_TRY(tt_jiter_reversed(r, v, &it, &possible));
    if (possible) {
        *out = J_ITER(it);
        return TT_OK;
    }
    jlist *l = NULL;
    J_TRY(tt_jto_list(r, v, &l));
    for (uint32_t i = 0; i < l->n / 2; i++) {
        jval swap = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = swap;
    }
    *out = J_LIST(l);
    return TT_OK;
}

FILTER(f_join)
{
    jval sep;
    jlist *path = NULL;
    tt_status st = TT_OK;
    sep = given(a[0]) ? a[0] : tt_jstr_const(r, "", &st);
    J_TRY(st);
    J_TRY(tt_jto_str(r, sep, &sep));
    if (!given(a[1]) || a[1].type == JT_NONE)
        return tt_jstr_join(r, sep.s, v, NULL, true, out);
    J_TRY(tt_jattr_path(r, a[1], &path));
    jval walk = J_LIST(path);
    return tt_jstr_join(r, sep.s, v, &walk, true, out);
}

/* parameters: attribute? start? */
FILTER(f_sum)
{
    jiter *it = NULL;
    jlist *path = NULL;
    jval item;
    bool more = true;
    *out = given(a[1]) ? a[1] : J_INT(0);
    if (out->type == JT_STR)
        return tt_jfail(r, "sum() can't sum strings");
    J_TRY(tt_jiter(r, v, &it));
    J_TRY(tt_jattr_path(r, a[0], &path));
    for (;;) {
        J_TRY(tt_jnext(r, it, &item, &more));
        if (!more)
            return TT_OK;
        J_TRY(tt_jattr_walk(r, item, path, J_MISSING, &item));
        J_TRY(tt_jarith(r, JTOK_ADD, *out, item, out));
    }
}

/* ---- lazy ones ---- */

static tt_status new_iter(jrun *r, jval source, tt_status (*next)(jrun *, jiter *, jval *, bool *),
                          jiter **out)
{
    J_NEW(r, *out, 1);
    (*out)->next = next;
    (*out)->src = source;
    (*out)->dflt = J_MISSING;
    return TT_OK;
}

/* A generator looks at its source when something is taken for the first time. */
static tt_status start(jrun *r, jiter *it)
{
    if (it->started)
        return TT_OK;
    it->started = true;
    return tt_jiter(r, it->src, &it->inner);
}

static tt_status next_item_pair(jrun *r, jiter *it, jval *out, bool *more)
{
    *more = false;
    if (it->src.type == JT_UNDEF)
        return TT_OK;
    if (it->src.type != JT_DICT)
        return tt_jfail(r, "items takes a mapping, not %s", tt_jtype_name(it->src));
    jview view = {.dict = it->src.dict, .kind = JVIEW_ITEMS};
    *more = it->pos < (int64_t)view.dict->n;
    return *more ? tt_jview_item(r, &view, (uint32_t)it->pos++, out) : TT_OK;
}

FILTER(f_items)
{
    jiter *it = NULL;
    J_TRY(new_iter(r, v, next_item_pair, &it));
    *out = J_ITER(it);
    return TT_OK;
}

static tt_status next_unique(jrun *r, jiter *it, jval *out, bool *more)
{
    J_TRY(start(r, it));
    for (;;) {
        jval key, seen;
        J_TRY(tt_jnext(r, it->inner, out, more));
        if (!*more)
            return TT_OK;
        J_TRY(key_of(r, *out, it->path.list, it->negate, J_MISSING, &key));
        J_TRY(tt_jdict_get(r, it->seen, key, &seen));
        if (seen.type != JT_MISSING)
            continue;
        return tt_jdict_set(r, it->seen, key, J_NONE);
    }
}

FILTER(f_unique)
{
    jiter *it = NULL;
    jlist *path = NULL;
    J_TRY(new_iter(r, v, next_unique, &it));
    J_TRY(tt_jattr_path(r, a[1], &path));
    J_TRY(tt_jdict_new(r, &it->seen));
    it->path = J_LIST(path);
    it->negate = on(a[0]); /* here: case counts */
    *out = J_ITER(it);
    return TT_OK;
}

static tt_status next_batch(jrun *r, jiter *it, jval *out, bool *more)
{
    jlist *l = NULL;
    J_TRY(start(r, it));
    J_TRY(tt_jlist_new(r, 4, &l));
    *more = false;
    if (it->step != 0) /* the item that overflowed the batch before */
        J_TRY(tt_jlist_add(r, l, it->path));
    it->step = 0;
    for (bool any = true; !it->negate;) {
        jval item;
        J_TRY(tt_jnext(r, it->inner, &item, &any));
        if (!any) {
            it->negate = true; /* here: the source has ended */
            break;
        }
        if ((int64_t)l->n == it->n) {
            it->path = item;
            it->step = 1;
            *more = true;
            *out = J_LIST(l);
            return TT_OK;
        }
        J_TRY(tt_jlist_add(r, l, item));
    }
    if (l->n == 0)
        return TT_OK;
    while (it->dflt.type != JT_MISSING && it->dflt.type != JT_NONE && (int64_t)l->n < it->n) {
        J_TRY(tt_jcharge(r, 1));
        J_TRY(tt_jlist_add(r, l, it->dflt));
    }
    *more = true;
    *out = J_LIST(l);
    return TT_OK;
}

FILTER(f_batch)
{
    jiter *it = NULL;
    J_TRY(new_iter(r, v, next_batch, &it));
    /* A count that is no integer never equals a length: everything is one batch. */
    if (!tt_jis_int(a[0], &it->n) || it->n < 0)
        it->n = -1;
    if (it->n < 0 && a[1].type != JT_MISSING && a[1].type != JT_NONE)
        return tt_jfail(r, "batch takes an integer of 1 or more");
    it->dflt = a[1];
    *out = J_ITER(it);
    return TT_OK;
}

static tt_status next_slice(jrun *r, jiter *it, jval *out, bool *more)
{
    if (!it->started) {
        jlist *all = NULL;
        if (it->n == 0)
            return tt_jfail(r, "division by zero");
        J_TRY(tt_jto_list(r, it->src, &all));
        it->src = J_LIST(all);
        it->started = true;
    }
    *more = it->pos < it->n;
    if (!*more)
        return TT_OK;
    const jlist *all = it->src.list;
    int64_t per = all->n / it->n, extra = all->n % it->n, k = it->pos++;
    int64_t from = k * per + (k < extra ? k : extra), to = from + per + (k < extra);
    jlist *l = NULL;
    J_TRY(tt_jlist_new(r, (uint32_t)(to - from + 1), &l));
    for (int64_t i = from; i < to; i++)
        J_TRY(tt_jlist_add(r, l, all->v[i]));
    if (it->dflt.type != JT_MISSING && it->dflt.type != JT_NONE && k >= extra)
        J_TRY(tt_jlist_add(r, l, it->dflt));
    *out = J_LIST(l);
    return TT_OK;
}

FILTER(f_slice)
{
    jiter *it = NULL;
    J_TRY(new_iter(r, v, next_slice, &it));
    if (!tt_jis_int(a[0], &it->n) || it->n < 0)
        return tt_jfail(r, "slice takes an integer of 1 or more");
    it->dflt = a[1];
    *out = J_ITER(it);
    return TT_OK;
}

/* ---- map, select, reject ---- */

static tt_status save_args(jrun *r, const jargs *raw, uint32_t skip, jiter *it)
{
    jargs *args;
    J_NEW(r, args, 1);
    *args = (jargs){.kw = raw->kw};
    if (raw->npos > skip) {
        args->npos = raw->npos - skip;
        J_NEW(r, args->pos, args->npos);
        memcpy(args->pos, raw->pos + skip, args->npos * sizeof *args->pos);
    }
    it->args = args;
    return TT_OK;
}

static tt_status no_such(jrun *r, const char *kind, const jstr *name)
{
    return tt_jfail(r, "no %s named '%.*s'", kind, (int)(name->n > 60 ? 60 : name->n), name->p);
}

static tt_status next_mapped(jrun *r, jiter *it, jval *out, bool *more)
{
    J_TRY(start(r, it));
    J_TRY(tt_jnext(r, it->inner, out, more));
    if (!*more)
        return TT_OK;
    if (it->has_path)
        return tt_jattr_walk(r, *out, it->path.list, it->dflt, out);
    if (it->fn == NULL)
        return no_such(r, "filter", it->missing_name);
    return tt_jinvoke(r, it->fn, *out, it->args, out);
}

/* What is wrong with the arguments shows when the first item is taken, so an empty source hides
 * it, as in Jinja2. */
static tt_status next_bad_args(jrun *r, jiter *it, jval *out, bool *more)
{
    *more = false;
    return tt_jfail(r, "map, select and reject take the name of a filter, test or attribute");
}

static tt_status map_attribute(jrun *r, const jargs *raw, jiter *it)
{
    jlist *path = NULL;
    jval attr = tt_jdict_get_text(raw->kw, "attribute", 9);
    it->dflt = tt_jdict_get_text(raw->kw, "default", 7);
    if (raw->kw->n > 1u + (it->dflt.type != JT_MISSING)) {
        it->next = next_bad_args;
        return TT_OK;
    }
    J_TRY(tt_jattr_path(r, attr, &path));
    it->path = J_LIST(path);
    it->has_path = true;
    return TT_OK;
}

FILTER(f_map)
{
    jiter *it = NULL;
    J_TRY(new_iter(r, v, next_mapped, &it));
    *out = J_ITER(it);
    if (!tt_jtruth(v)) {
        it->src = (jval){.type = JT_UNDEF}; /* nothing is taken from what is empty or false */
        return TT_OK;
    }
    if (raw->npos == 0 && raw->kw != NULL &&
        tt_jdict_get_text(raw->kw, "attribute", 9).type != JT_MISSING)
        return map_attribute(r, raw, it);
    if (raw->npos == 0 || raw->pos[0].type != JT_STR) {
        it->next = next_bad_args;
        return TT_OK;
    }
    it->missing_name = raw->pos[0].s;
    it->fn = tt_jfilter(raw->pos[0].s);
    return save_args(r, raw, 1, it);
}

static tt_status next_selected(jrun *r, jiter *it, jval *out, bool *more)
{
    J_TRY(start(r, it));
    for (;;) {
        jval subject, yes;
        J_TRY(tt_jnext(r, it->inner, out, more));
        if (!*more)
            return TT_OK;
        subject = *out;
        if (it->has_path)
            J_TRY(tt_jattr_walk(r, subject, it->path.list, J_MISSING, &subject));
        yes = subject;
        if (it->missing_name != NULL && it->fn == NULL)
            return no_such(r, "test", it->missing_name);
        if (it->fn != NULL)
            J_TRY(tt_jinvoke(r, it->fn, subject, it->args, &yes));
        if (tt_jtruth(yes) != it->negate)
            return TT_OK;
    }
}

static tt_status select_by(jrun *r, jval v, const jargs *raw, bool attribute, bool negate,
                           jval *out)
{
    jiter *it = NULL;
    uint32_t at = attribute;
    J_TRY(new_iter(r, v, next_selected, &it));
    it->negate = negate;
    *out = J_ITER(it);
    if (!tt_jtruth(v)) {
        it->src = (jval){.type = JT_UNDEF};
        return TT_OK;
    }
    if (raw->npos < at || (raw->npos > at && raw->pos[at].type != JT_STR)) {
        it->next = next_bad_args;
        return TT_OK;
    }
    if (attribute) {
        jlist *path = NULL;
        J_TRY(tt_jattr_path(r, raw->pos[0], &path));
        it->path = J_LIST(path);
        it->has_path = true;
    }
    if (raw->npos > at) {
        it->missing_name = raw->pos[at].s;
        it->fn = tt_jtest(raw->pos[at].s);
        return save_args(r, raw, at + 1, it);
    }
    return TT_OK;
}

FILTER(f_select)
{
    return select_by(r, v, raw, false, false, out);
}
FILTER(f_reject)
{
    return select_by(r, v, raw, false, true, out);
}
FILTER(f_selectattr)
{
    return select_by(r, v, raw, true, false, out);
}
FILTER(f_rejectattr)
{
    return select_by(r, v, raw, true, true, out);
}

static const jbuiltin filters[] = {{"batch", "linecount fill_with?", f_batch},
                                   {"dictsort", "case_sensitive? by? reverse?", f_dictsort},
                                   {"first", "", f_first},
                                   {"groupby", "attribute default? case_sensitive?", f_groupby},
                                   {"items", "", f_items},
                                   {"join", "d? attribute?", f_join},
                                   {"last", "", f_last},
                                   {"list", "", f_list},
                                   {"map", NULL, f_map},
                                   {"max", "case_sensitive? attribute?", f_max},
                                   {"min", "case_sensitive? attribute?", f_min},
                                   {"reject", NULL, f_reject},
                                   {"rejectattr", NULL, f_rejectattr},
                                   {"reverse", "", f_reverse},
                                   {"select", NULL, f_select},
                                   {"selectattr", NULL, f_selectattr},
                                   {"slice", "slices fill_with?", f_slice},
                                   {"sort", "reverse? case_sensitive? attribute?", f_sort},
                                   {"sum", "attribute? start?", f_sum},
                                   {"unique", "case_sensitive? attribute?", f_unique},
                                   {"random", NULL, NULL},
                                   {NULL, NULL, NULL}};

const jbuiltin *tt_jfilter_seq(const jstr *name)
{
    return tt_jbuiltin_find(filters, name);
}
