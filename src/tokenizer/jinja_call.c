/* Calling: binding arguments to parameters, global functions. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <locale.h>

#include "tokenizer/jinja_int.h"

const jbuiltin *tt_jbuiltin_find(const jbuiltin *table, const jstr *name)
{
    for (; table->name != NULL; table++)
        if (tt_jstr_is(name, table->name))
            return table;
    return NULL;
}

/* ---- parameters ---- */

typedef struct param {
    const char *name;
    size_t len;
    bool optional, unnamed;
} param;

static size_t read_params(const char *spec, param params[J_MAX_PARAMS])
{
    size_t n = 0;
    for (const char *p = spec; *p != '\0';) {
        param *x = &params[n++];
        *x = (param){.unnamed = *p == '/'};
        p += x->unnamed;
        x->name = p;
        x->len = strcspn(p, " ?");
        p += x->len;
        x->optional = *p == '?';
        p += x->optional;
        p += *p == ' ';
    }
    return n;
}

tt_status tt_jbind(jrun *r, const char *what, const char *spec, const jargs *args, jval *a)
{
    param params[J_MAX_PARAMS];
    size_t n = read_params(spec, params);
    for (size_t i = 0; i < J_MAX_PARAMS; i++)
        a[i] = J_MISSING;
    if (args->npos > n)
        return tt_jfail(r, "%s takes at most %zu arguments, got %u", what, n, args->npos);
    for (uint32_t i = 0; i < args->npos; i++)
        a[i] = args->pos[i];
    for (uint32_t i = 0; args->kw != NULL && i < args->kw->n; i++) {
        const jstr *key = args->kw->e[i].k.s;
        size_t k = 0;
        while (k < n && (params[k].unnamed || params[k].len != key->n ||
                         memcmp(params[k].name, key->p, key->n) != 0))
            k++;
        if (k == n)
            return tt_jfail(r, "%s takes no keyword argument '%.*s'", what,
                            (int)(key->n > 60 ? 60 : key->n), key->p);
        if (a[k].type != JT_MISSING)
            return tt_jfail(r, "%s got argument '%.*s' twice", what, (int)key->n, key->p);
        a[k] = args->kw->e[i].v;
    }
    for (size_t i = 0; i < n; i++)
        if (a[i].type == JT_MISSING && !params[i].optional)
            return tt_jfail(r, "%s lacks argument '%.*s'", what, (int)params[i].len,
                            params[i].name);
    return TT_OK;
}

tt_status tt_jinvoke(jrun *r, const jbuiltin *b, jval self, const jargs *args, jval *out)
{
    jval a[J_MAX_PARAMS];
    if (b->fn == NULL)
        return tt_jfail(r, "'%s' is not supported", b->name);
    if (b->spec != NULL)
        J_TRY(tt_jbind(r, b->name, b->spec, args, a));
    J_TRY(tt_jenter(r));
    tt_status st = b->fn(r, self, a, args, out);
    r->depth--;
    return st;
}

/* ---- global functions ---- */

static tt_status g_range(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    int64_t v[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++)
        if (a[i].type != JT_MISSING && !tt_jis_int(a[i], &v[i]))
            return tt_jfail(r, "range takes integers, not %s", tt_jtype_name(a[i]));
    if (a[1].type == JT_MISSING) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (v[2] == 0)
        return tt_jfail(r, "the step of a range must not be zero");
    int64_t span = 0;
    uint64_t stride = v[2] < 0 ? 0 - (uint64_t)v[2] : (uint64_t)v[2];
    bool bad = v[2] > 0 ? __builtin_sub_overflow(v[1], v[0], &span)
                        : __builtin_sub_overflow(v[0], v[1], &span);
    bool forward = v[2] > 0 ? v[1] > v[0] : v[0] > v[1];
    uint64_t n = !forward ? 0 : bad ? UINT64_MAX : ((uint64_t)span - 1) / stride + 1;
    if (n > J_MAX_RANGE)
        return tt_jlimit(r, "a range of more than %d values is refused", J_MAX_RANGE);
    jrange *g;
    J_NEW(r, g, 1);
    *g = (jrange){.start = v[0], .stop = v[1], .step = v[2], .n = (int64_t)n};
    *out = (jval){.type = JT_RANGE, .range = g};
    return TT_OK;
}

static tt_status add_pair(jrun *r, jdict *d, jval v)
{
    jlist *pair = NULL;
    J_TRY(tt_jto_list(r, v, &pair));
    if (pair->n != 2)
        return tt_jfail(r, "a dict is made of pairs, found %u values", pair->n);
    return tt_jdict_set(r, d, pair->v[0], pair->v[1]);
}

static tt_status make_dict(jrun *r, const char *what, const jargs *raw, jdict **out)
{
    jdict *d = NULL;
    J_TRY(tt_jdict_new(r, &d));
    if (raw->npos > 1)
        return tt_jfail(r, "%s takes at most one argument without a name", what);
    if (raw->npos == 1 && raw->pos[0].type == JT_DICT) {
        const jdict *from = raw->pos[0].dict;
        for (uint32_t i = 0; i < from->n; i++)
            J_TRY(tt_jdict_set(r, d, from->e[i].k, from->e[i].v));
    } else if (raw->npos == 1) {
        jiter *it = NULL;
        jval v;
        bool more = true;
        J_TRY(tt_jiter(r, raw->pos[0], &it));
        for (;;) {
            J_TRY(tt_jnext(r, it, &v, &more));
            if (!more)
                break;
            J_TRY(add_pair(r, d, v));
        }
    }
    for (uint32_t i = 0; raw->kw != NULL && i < raw->kw->n; i++)
        J_TRY(tt_jdict_set(r, d, raw->kw->e[i].k, raw->kw->e[i].v));
    *out = d;
    return TT_OK;
}

static tt_status g_dict(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    jdict *d = NULL;
    J_TRY(make_dict(r, "dict", raw, &d));
    *out = J_DICT(d);
    return TT_OK;
}

static tt_status g_namespace(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    jdict *d = NULL;
    J_TRY(make_dict(r, "namespace", raw, &d));
    *out = (jval){.type = JT_NAMESPACE, .dict = d};
    return TT_OK;
}

static tt_status g_cycler(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    jcycler *c;
    if (raw->npos == 0 || raw->kw != NULL)
        return tt_jfail(r, "cycler takes one or more values without names");
    J_NEW(r, c, 1);
    J_TRY(tt_jlist_new(r, raw->npos, &c->items));
    for (uint32_t i = 0; i < raw->npos; i++)
        J_TRY(tt_jlist_add(r, c->items, raw->pos[i]));
    *out = (jval){.type = JT_CYCLER, .cycler = c};
    return TT_OK;
}

static tt_status g_joiner(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    jjoiner *j;
    tt_status st = TT_OK;
    J_NEW(r, j, 1);
    j->sep = a[0].type == JT_MISSING ? tt_jstr_const(r, ", ", &st) : a[0];
    *out = (jval){.type = JT_JOINER, .joiner = j};
    return st;
}

static tt_status g_raise(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    jval text;
    J_TRY(tt_jto_str(r, a[0], &text));
    return tt_jfail(r, "%.*s", (int)(text.s->n > 600 ? 600 : text.s->n), text.s->p);
}

/* Month and day names are the C locale's; %f, %z and %Z are what Python writes for a time without
 * a zone. */
static tt_status g_strftime(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    if (a[0].type != JT_STR)
        return tt_jfail(r, "strftime_now takes a text, not %s", tt_jtype_name(a[0]));
    char fmt[512], text[2048];
    size_t n = 0;
    const jstr *s = a[0].s;
    for (uint32_t i = 0; i < s->n && n + 8 < sizeof fmt; i++) {
        if (s->p[i] == '%' && i + 1 < s->n && strchr("fzZ", s->p[i + 1]) != NULL) {
            if (s->p[++i] == 'f')
                n += (size_t)sprintf(fmt + n, "000000");
            continue;
        }
        fmt[n++] = s->p[i];
        if (s->p[i] == '%' && i + 1 < s->n)
            fmt[n++] = s->p[++i];
    }
    fmt[n] = '\0';
    if (s->n + 8 >= sizeof fmt || memchr(s->p, '\0', s->n) != NULL)
        return tt_jfail(r, "the format of strftime_now is too long or holds a NUL");
    time_t now = (time_t)r->o.now;
    struct tm tm;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0 || gmtime_r(&now, &tm) == NULL) {
        if (c != (locale_t)0)
            freelocale(c);
        return tt_jfail(r, "the time cannot be shown");
    }
    n = strftime_l(text, sizeof text, fmt, &tm, c);
    freelocale(c);
    return tt_jstr(r, text, n, out);
}

static const jbuiltin globals[] = {{"range", "/start /stop? /step?", g_range},
                                   {"dict", NULL, g_dict},
                                   {"namespace", NULL, g_namespace},
                                   {"cycler", NULL, g_cycler},
                                   {"joiner", "sep?", g_joiner},
                                   {"raise_exception", "message", g_raise},
                                   {"strftime_now", "format", g_strftime},
                                   {"lipsum", NULL, NULL},
                                   {NULL, NULL, NULL}};

const jbuiltin *tt_jglobal(const char *name, size_t len)
{
    jstr s = {.p = name, .n = (uint32_t)len};
    return tt_jbuiltin_find(globals, &s);
}

/* ---- calls ---- */

static tt_status call_joiner(jrun *r, jjoiner *j, jval *out)
{
    if (j->used) {
        *out = j->sep;
        return TT_OK;
    }
    j->used = true;
    return tt_jstr_borrow(r, "", 0, out);
}

tt_status tt_jcall(jrun *r, jval fn, const jargs *args, jval *out)
{
    switch ((jtype)fn.type) {
    case JT_MACRO:
        return tt_jcall_macro(r, fn.macro, args, out);
    case JT_FUNC:
        return tt_jinvoke(r, fn.func, J_NONE, args, out);
    case JT_METHOD:
        return tt_jinvoke(r, fn.method->b, fn.method->self, args, out);
    case JT_UNDEF:
        return tt_jfail_undef(r, fn);
    case JT_LOOP:
        if (args->npos != 1 || args->kw != NULL)
            return tt_jfail(r, "loop takes one argument");
        return tt_jloop_recurse(r, fn.loop, args->pos[0], out);
    case JT_JOINER:
        if (args->npos != 0 || args->kw != NULL)
            return tt_jfail(r, "a joiner takes no arguments");
        return call_joiner(r, fn.joiner, out);
    default:
        return tt_jfail(r, "'%s' object is not callable", tt_jtype_name(fn));
    }
}
