/* Attributes and items, with the sandbox's rules: names with an underscore in front and methods
 * that change their object are unsafe. */
#include <string.h>

#include "tokenizer/jinja_int.h"

static bool listed(const char *const *names, const jstr *name)
{
    for (; *names != NULL; names++)
        if (tt_jstr_is(name, *names))
            return true;
    return false;
}

static bool changes_object(jval obj, const jstr *name)
{
    static const char *const dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const list[] = {"append", "reverse", "insert", "sort",
                                       "extend", "remove",  NULL};
    if (obj.type == JT_DICT)
        return listed(dict, name);
    return obj.type == JT_LIST && listed(list, name);
}

static tt_status unsafe(jrun *r, jval obj, const jstr *name, jval *out)
{
    tt_buf b;
    jval text;
    tt_buf_init(&b, 256);
    tt_buf_printf(&b, "access to attribute '%.*s' of '%s' object is unsafe",
                  (int)(name->n > 60 ? 60 : name->n), name->p, tt_jtype_name(obj));
    tt_buf_append(&b, "", 1);
    J_TRY(tt_jstr_buf(r, &b, &text));
    return tt_jundef(r, text.s->p, out);
}

static tt_status macro_attr(jrun *r, const jmacro *m, const jstr *name, jval *out)
{
    if (tt_jstr_is(name, "name"))
        *out = m->name == NULL ? J_NONE : J_STR(m->name);
    else if (tt_jstr_is(name, "caller"))
        *out = J_BOOL(m->node->uses_caller);
    else if (tt_jstr_is(name, "catch_kwargs"))
        *out = J_BOOL(m->node->uses_kwargs);
    else if (tt_jstr_is(name, "catch_varargs"))
        *out = J_BOOL(m->node->uses_varargs);
    if (!tt_jstr_is(name, "arguments"))
        return TT_OK;
    jlist *names = NULL;
    J_TRY(tt_jlist_new(r, m->node->list.n, &names));
    for (uint32_t i = 0; i < m->node->list.n; i++)
        J_TRY(tt_jlist_add(r, names, J_STR(m->node->list.v[i]->name)));
    *out = J_TUPLE(names);
    return TT_OK;
}

/* Attributes that are values rather than methods; MISSING when there is none. */
static tt_status plain_attr(jrun *r, jval obj, const jstr *name, jval *out)
{
    *out = J_MISSING;
    switch ((jtype)obj.type) {
    case JT_BOOL:
    case JT_INT:
        if (tt_jstr_is(name, "real") || tt_jstr_is(name, "numerator"))
            *out = J_INT(obj.type == JT_BOOL ? obj.b : obj.i);
        else if (tt_jstr_is(name, "imag") || tt_jstr_is(name, "denominator"))
            *out = J_INT(tt_jstr_is(name, "denominator"));
        return TT_OK;
    case JT_FLOAT:
        if (tt_jstr_is(name, "real"))
            *out = obj;
        else if (tt_jstr_is(name, "imag"))
            *out = J_FLOAT(0.0);
        return TT_OK;
    case JT_TUPLE:
        if ((obj.flag & J_GROUP) && (tt_jstr_is(name, "grouper") || tt_jstr_is(name, "list")))
            *out = obj.list->v[tt_jstr_is(name, "list")];
        return TT_OK;
    case JT_RANGE:
        if (tt_jstr_is(name, "start"))
            *out = J_INT(obj.range->start);
        else if (tt_jstr_is(name, "stop"))
            *out = J_INT(obj.range->stop);
        else if (tt_jstr_is(name, "step"))
            *out = J_INT(obj.range->step);
        return TT_OK;
    case JT_NAMESPACE:
        *out = tt_jdict_get_text(obj.dict, name->p, name->n);
        return TT_OK;
    case JT_MACRO:
        return macro_attr(r, obj.macro, name, out);
    case JT_LOOP:
        return tt_jloop_attr(r, obj.loop, name, out);
    case JT_CYCLER:
        if (tt_jstr_is(name, "current"))
            *out = obj.cycler->items->v[obj.cycler->pos];
        else if (tt_jstr_is(name, "items"))
            *out = J_TUPLE(obj.cycler->items);
        return TT_OK;
    default:
        return TT_OK;
    }
}

/* Python's getattr as the sandbox lets it through; MISSING when there is no such attribute. */
static tt_status attribute(jrun *r, jval obj, const jstr *name, jval *out)
{
    *out = J_MISSING;
    if (name->n >= 2 && memcmp(name->p, "__", 2) == 0 && obj.type != JT_NAMESPACE)
        return TT_OK;
    J_TRY(plain_attr(r, obj, name, out));
    if (out->type != JT_MISSING)
        return name->p[0] == '_' ? unsafe(r, obj, name, out) : TT_OK;
    if (changes_object(obj, name))
        return unsafe(r, obj, name, out);
    const jbuiltin *b = tt_jmethod(obj, name);
    if (b == NULL)
        return TT_OK;
    jmethod *m;
    J_NEW(r, m, 1);
    *m = (jmethod){.self = obj, .b = b};
    *out = (jval){.type = JT_METHOD, .method = m};
    return TT_OK;
}

/* obj[key]; MISSING where Python raises a TypeError or LookupError. */
static tt_status item(jrun *r, jval obj, jval key, jval *out)
{
    int64_t i = 0, n = 0;
    *out = J_MISSING;
    if (obj.type == JT_DICT) {
        bool hashable = true;
        J_TRY(tt_jhashable(r, key, &hashable));
        return hashable ? tt_jdict_get(r, obj.dict, key, out) : TT_OK;
    }
    if (obj.type != JT_LIST && obj.type != JT_TUPLE && obj.type != JT_STR && obj.type != JT_RANGE)
        return TT_OK;
    if (!tt_jis_int(key, &i))
        return TT_OK;
    J_TRY(tt_jlength(r, obj, &n));
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return TT_OK;
    if (obj.type == JT_RANGE) {
        *out = tt_jrange_item(obj.range, i);
    } else if (obj.type == JT_STR) {
        size_t from = tt_jcp_offset(obj.s, (size_t)i);
        const char *p = obj.s->p + from;
        tt_jcp_next(&p);
        J_TRY(tt_jcharge(r, obj.s->n == obj.s->cp ? 0 : obj.s->n / 64));
        J_TRY(tt_jsubstr(r, obj.s, from, (size_t)(p - obj.s->p), out));
        out->flag = obj.flag;
    } else {
        *out = obj.list->v[i];
    }
    return TT_OK;
}

tt_status tt_jgetattr(jrun *r, jval obj, const jstr *name, jval *out)
{
    if (obj.type == JT_UNDEF)
        return tt_jfail_undef(r, obj);
    J_TRY(attribute(r, obj, name, out));
    if (out->type == JT_MISSING)
        J_TRY(item(r, obj, J_STR(name), out));
    if (out->type == JT_MISSING)
        return tt_jundef_of(r, obj, J_STR(name), out);
    return TT_OK;
}

tt_status tt_jgetitem(jrun *r, jval obj, jval key, jval *out)
{
    if (obj.type == JT_UNDEF)
        return tt_jfail_undef(r, obj);
    J_TRY(item(r, obj, key, out));
    if (out->type == JT_MISSING && key.type == JT_STR)
        J_TRY(attribute(r, obj, key.s, out));
    if (out->type == JT_MISSING)
        return tt_jundef_of(r, obj, key, out);
    return TT_OK;
}

/* ---- attribute paths of filters: "a.b.0" ---- */

static tt_status path_part(jrun *r, const jstr *s, size_t from, size_t to, jval *out)
{
    jval text;
    J_TRY(tt_jsubstr(r, s, from, to, &text));
    bool digits = to > from;
    for (size_t i = from; i < to; i++)
        digits &= s->p[i] >= '0' && s->p[i] <= '9';
    *out = text;
    if (!digits)
        return TT_OK;
    bool ok = false;
    int64_t i = 0;
    J_TRY(tt_jparse_int(r, text.s, 10, &i, &ok));
    *out = J_INT(i);
    return TT_OK;
}

tt_status tt_jattr_path(jrun *r, jval attr, jlist **path)
{
    jval part;
    J_TRY(tt_jlist_new(r, 2, path));
    if (attr.type == JT_NONE || attr.type == JT_MISSING)
        return TT_OK;
    if (attr.type != JT_STR)
        return tt_jlist_add(r, *path, attr);
    size_t from = 0;
    for (size_t i = 0; i <= attr.s->n; i++) {
        if (i < attr.s->n && attr.s->p[i] != '.')
            continue;
        J_TRY(path_part(r, attr.s, from, i, &part));
        J_TRY(tt_jlist_add(r, *path, part));
        from = i + 1;
    }
    return TT_OK;
}

tt_status tt_jattr_walk(jrun *r, jval v, const jlist *path, jval dflt, jval *out)
{
    for (uint32_t i = 0; i < path->n; i++) {
        J_TRY(tt_jgetitem(r, v, path->v[i], &v));
        if (v.type == JT_UNDEF && dflt.type != JT_MISSING && dflt.type != JT_NONE)
            v = dflt;
    }
    *out = v;
    return TT_OK;
}
