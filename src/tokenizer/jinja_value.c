/* Values: making, comparing, hashing, looking up. */
#include <math.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

const char *tt_jtype_name(jval v)
{
    static const char *const names[] = {
        [JT_MISSING] = "missing", [JT_UNDEF] = "Undefined",
        [JT_NONE] = "NoneType",   [JT_BOOL] = "bool",
        [JT_INT] = "int",         [JT_FLOAT] = "float",
        [JT_STR] = "str",         [JT_LIST] = "list",
        [JT_TUPLE] = "tuple",     [JT_DICT] = "dict",
        [JT_VIEW] = "dict view",  [JT_RANGE] = "range",
        [JT_ITER] = "iterator",   [JT_NAMESPACE] = "Namespace",
        [JT_MACRO] = "Macro",     [JT_FUNC] = "function",
        [JT_METHOD] = "method",   [JT_LOOP] = "LoopContext",
        [JT_CYCLER] = "Cycler",   [JT_JOINER] = "Joiner",
    };
    return names[v.type];
}

bool tt_jtruth(jval v)
{
    switch ((jtype)v.type) {
    case JT_MISSING:
    case JT_UNDEF:
    case JT_NONE:
        return false;
    case JT_BOOL:
        return v.b;
    case JT_INT:
        return v.i != 0;
    case JT_FLOAT:
        return v.f != 0;
    case JT_STR:
        return v.s->n > 0;
    case JT_LIST:
    case JT_TUPLE:
        return v.list->n > 0;
    case JT_DICT:
        return v.dict->n > 0;
    case JT_VIEW:
        return v.view->dict->n > 0;
    case JT_RANGE:
        return v.range->n > 0;
    default:
        return true;
    }
}

bool tt_jis_int(jval v, int64_t *i)
{
    if (v.type == JT_BOOL)
        *i = v.b;
    else if (v.type == JT_INT)
        *i = v.i;
    else
        return false;
    return true;
}

/* ---- lists ---- */

tt_status tt_jlist_new(jrun *r, uint32_t cap, jlist **out)
{
    jlist *l;
    J_NEW(r, l, 1);
    if (cap > 0)
        J_NEW(r, l->v, cap);
    l->cap = cap;
    *out = l;
    return TT_OK;
}

tt_status tt_jlist_add(jrun *r, jlist *l, jval v)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap < 4 ? 4 : l->cap + l->cap / 2;
        jval *grown;
        J_NEW(r, grown, cap);
        if (l->n > 0)
            memcpy(grown, l->v, l->n * sizeof *grown);
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return TT_OK;
}

/* ---- hashing ---- */

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t hash_float(double f)
{
    /* Equal numbers hash alike, whatever their type. */
    if (f >= -9.2e18 && f <= 9.2e18 && f == floor(f))
        return mix((uint64_t)(int64_t)f);
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return mix(bits);
}

static tt_status try_hash(jrun *r, jval v, uint64_t *hash, bool *ok);

static tt_status hash_tuple(jrun *r, const jlist *l, uint64_t *hash, bool *ok)
{
    uint64_t h = l->n, part = 0;
    J_TRY(tt_jenter(r));
    for (uint32_t i = 0; i < l->n && *ok; i++) {
        J_TRY(try_hash(r, l->v[i], &part, ok));
        h = mix(h ^ part) + i;
    }
    r->depth--;
    *hash = h;
    return TT_OK;
}

/* *ok stays as it is unless the value cannot be hashed. */
static tt_status try_hash(jrun *r, jval v, uint64_t *hash, bool *ok)
{
    switch ((jtype)v.type) {
    case JT_STR:
        *hash = hash_bytes(v.s->p, v.s->n);
        return tt_jcharge(r, v.s->n / 64);
    case JT_BOOL:
        *hash = mix(v.b);
        return TT_OK;
    case JT_INT:
        *hash = mix((uint64_t)v.i);
        return TT_OK;
    case JT_FLOAT:
        *hash = hash_float(v.f);
        return TT_OK;
    case JT_NONE:
    case JT_UNDEF:
        *hash = mix(0x1000u + v.type);
        return TT_OK;
    case JT_TUPLE:
        return hash_tuple(r, v.list, hash, ok);
    case JT_RANGE:
        *hash = mix((uint64_t)v.range->n);
        return TT_OK;
    case JT_LIST:
    case JT_DICT:
        *ok = false;
        return TT_OK;
    case JT_VIEW:
        *ok = v.view->kind == JVIEW_VALUES;
        *hash = mix((uint64_t)(uintptr_t)v.view);
        return TT_OK;
    default:
        *hash = mix((uint64_t)(uintptr_t)v.list);
        return TT_OK;
    }
}

tt_status tt_jhash(jrun *r, jval v, uint64_t *hash)
{
    bool ok = true;
    J_TRY(try_hash(r, v, hash, &ok));
    return ok ? TT_OK : tt_jfail(r, "unhashable type in '%s'", tt_jtype_name(v));
}

tt_status tt_jhashable(jrun *r, jval v, bool *yes)
{
    uint64_t hash = 0;
    *yes = true;
    return try_hash(r, v, &hash, yes);
}

/* ---- dicts ---- */

tt_status tt_jdict_new(jrun *r, jdict **out)
{
    J_NEW(r, *out, 1);
    return TT_OK;
}

static void index_add(jdict *d, uint32_t entry)
{
    uint32_t i = (uint32_t)d->e[entry].hash & d->mask;
    while (d->index[i] != 0)
        i = (i + 1) & d->mask;
    d->index[i] = entry + 1;
}

static tt_status dict_grow(jrun *r, jdict *d)
{
    uint32_t cap = d->cap == 0 ? 4 : 2 * d->cap;
    jentry *e;
    J_NEW(r, e, cap);
    if (d->n > 0)
        memcpy(e, d->e, d->n * sizeof *e);
    d->e = e;
    d->cap = cap;
    if (cap <= 8)
        return TT_OK;
    J_NEW(r, d->index, 2 * (size_t)cap);
    d->mask = 2 * cap - 1;
    for (uint32_t i = 0; i < d->n; i++)
        index_add(d, i);
    return tt_jcharge(r, d->n / 8);
}

/* Entry number of the key, or -1. */
static tt_status dict_find(jrun *r, const jdict *d, jval k, uint64_t hash, int64_t *found)
{
    bool eq = false;
    *found = -1;
    if (d->index == NULL) {
        for (uint32_t i = 0; i < d->n && !eq; i++) {
            if (d->e[i].hash != hash)
                continue;
            J_TRY(tt_jequal(r, d->e[i].k, k, &eq));
            if (eq)
                *found = i;
        }
        return TT_OK;
    }
    for (uint32_t i = (uint32_t)hash & d->mask; d->index[i] != 0; i = (i + 1) & d->mask) {
        uint32_t entry = d->index[i] - 1;
        J_TRY(tt_jcharge(r, 1));
        if (d->e[entry].hash != hash)
            continue;
        J_TRY(tt_jequal(r, d->e[entry].k, k, &eq));
        if (eq) {
            *found = entry;
            return TT_OK;
        }
    }
    return TT_OK;
}

tt_status tt_jdict_set(jrun *r, jdict *d, jval k, jval v)
{
    uint64_t hash = 0;
    int64_t at = 0;
    J_TRY(tt_jhash(r, k, &hash));
    J_TRY(dict_find(r, d, k, hash, &at));
    if (at >= 0) {
        d->e[at].v = v;
        return TT_OK;
    }
    if (d->n == d->cap)
        J_TRY(dict_grow(r, d));
    d->e[d->n++] = (jentry){.k = k, .v = v, .hash = hash};
    if (d->index != NULL)
        index_add(d, d->n - 1);
    return TT_OK;
}

tt_status tt_jdict_get(jrun *r, const jdict *d, jval k, jval *out)
{
    uint64_t hash = 0;
    int64_t at = 0;
    J_TRY(tt_jhash(r, k, &hash));
    J_TRY(dict_find(r, d, k, hash, &at));
    *out = at < 0 ? J_MISSING : d->e[at].v;
    return TT_OK;
}

jval tt_jdict_get_text(const jdict *d, const char *key, size_t len)
{
    uint64_t hash = hash_bytes(key, len);
    uint32_t i = d->index == NULL ? 0 : (uint32_t)hash & d->mask;
    for (;; i = d->index == NULL ? i + 1 : (i + 1) & d->mask) {
        if (d->index == NULL ? i >= d->n : d->index[i] == 0)
            return J_MISSING;
        const jentry *e = &d->e[d->index == NULL ? i : d->index[i] - 1];
        if (e->hash == hash && e->k.type == JT_STR && e->k.s->n == len &&
            memcmp(e->k.s->p, key, len) == 0)
            return e->v;
    }
}

/* ---- comparing ---- */

static tt_status equal_lists(jrun *r, const jlist *a, const jlist *b, bool *eq)
{
    *eq = a->n == b->n;
    for (uint32_t i = 0; i < a->n && i < b->n && *eq; i++)
        J_TRY(tt_jequal(r, a->v[i], b->v[i], eq));
    return TT_OK;
}

static tt_status equal_dicts(jrun *r, const jdict *a, const jdict *b, bool *eq)
{
    *eq = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *eq; i++) {
        jval other;
        J_TRY(tt_jdict_get(r, b, a->e[i].k, &other));
        *eq = other.type != JT_MISSING;
        if (*eq)
            J_TRY(tt_jequal(r, a->e[i].v, other, eq));
    }
    return TT_OK;
}

static tt_status equal_views(jrun *r, jval a, jval b, bool *eq)
{
    const jview *x = a.view, *y = b.view;
    if (x->kind == JVIEW_VALUES || y->kind == JVIEW_VALUES) {
        *eq = x == y;
        return TT_OK;
    }
    *eq = x->dict->n == y->dict->n;
    for (uint32_t i = 0; i < x->dict->n && *eq; i++) {
        jval item;
        J_TRY(tt_jview_item(r, x, i, &item));
        J_TRY(tt_jcontains(r, item, b, eq));
    }
    return TT_OK;
}

static bool numeric(jval v)
{
    return v.type == JT_BOOL || v.type == JT_INT || v.type == JT_FLOAT;
}

static tt_status equal_same_type(jrun *r, jval a, jval b, bool *eq)
{
    switch ((jtype)a.type) {
    case JT_UNDEF:
    case JT_NONE:
        *eq = true;
        return TT_OK;
    case JT_STR:
        *eq = a.s->n == b.s->n && memcmp(a.s->p, b.s->p, a.s->n) == 0;
        return tt_jcharge(r, a.s->n / 256);
    case JT_LIST:
    case JT_TUPLE:
        return equal_lists(r, a.list, b.list, eq);
    case JT_DICT:
        return equal_dicts(r, a.dict, b.dict, eq);
    case JT_VIEW:
        return equal_views(r, a, b, eq);
    case JT_RANGE:
        *eq = a.range->n == b.range->n &&
              (a.range->n == 0 || (a.range->start == b.range->start &&
                                   (a.range->n == 1 || a.range->step == b.range->step)));
        return TT_OK;
    case JT_METHOD:
        *eq = a.method->b == b.method->b && a.method->self.list == b.method->self.list;
        return TT_OK;
    default:
        *eq = a.list == b.list;
        return TT_OK;
    }
}

tt_status tt_jequal(jrun *r, jval a, jval b, bool *eq)
{
    *eq = false;
    if (numeric(a) && numeric(b)) {
        *eq = tt_jnum_cmp(a, b) == 0;
        return TT_OK;
    }
    if (a.type != b.type)
        return TT_OK;
    J_TRY(tt_jenter(r));
    J_TRY(equal_same_type(r, a, b, eq));
    r->depth--;
    return TT_OK;
}

static bool by_sign(int op, int c)
{
    switch (op) {
    case JTOK_LT:
        return c < 0;
    case JTOK_LTEQ:
        return c <= 0;
    case JTOK_GT:
        return c == 1;
    default:
        return c == 0 || c == 1;
    }
}

static tt_status order_lists(jrun *r, int op, const jlist *a, const jlist *b, bool *yes)
{
    uint32_t i = 0;
    bool eq = true;
    while (i < a->n && i < b->n) {
        J_TRY(tt_jequal(r, a->v[i], b->v[i], &eq));
        if (!eq)
            return tt_jorder(r, op, a->v[i], b->v[i], yes);
        i++;
    }
    *yes = by_sign(op, a->n < b->n ? -1 : a->n > b->n);
    return TT_OK;
}

tt_status tt_jorder(jrun *r, int op, jval a, jval b, bool *yes)
{
    static const char *const names[] = {
        [JTOK_LT] = "<", [JTOK_LTEQ] = "<=", [JTOK_GT] = ">", [JTOK_GTEQ] = ">="};
    if (numeric(a) && numeric(b)) {
        int c = tt_jnum_cmp(a, b);
        *yes = c != 2 && by_sign(op, c);
        return TT_OK;
    }
    if (a.type == JT_UNDEF)
        return tt_jfail_undef(r, a);
    if (b.type == JT_UNDEF)
        return tt_jfail_undef(r, b);
    if (a.type == JT_STR && b.type == JT_STR) {
        *yes = by_sign(op, tt_jstr_cmp(a.s, b.s));
        return tt_jcharge(r, (a.s->n < b.s->n ? a.s->n : b.s->n) / 256);
    }
    if (a.type == b.type && (a.type == JT_LIST || a.type == JT_TUPLE)) {
        J_TRY(tt_jenter(r));
        J_TRY(order_lists(r, op, a.list, b.list, yes));
        r->depth--;
        return TT_OK;
    }
    return tt_jfail(r, "'%s' not supported between instances of '%s' and '%s'", names[op],
                    tt_jtype_name(a), tt_jtype_name(b));
}

static tt_status contains_any(jrun *r, jval item, jval container, bool *yes)
{
    jiter *it = NULL;
    jval v;
    bool more = true;
    J_TRY(tt_jiter(r, container, &it));
    for (;;) {
        J_TRY(tt_jnext(r, it, &v, &more));
        if (!more)
            return TT_OK;
        J_TRY(tt_jequal(r, v, item, yes));
        if (*yes)
            return TT_OK;
    }
}

tt_status tt_jcontains(jrun *r, jval item, jval container, bool *yes)
{
    jval found;
    *yes = false;
    if (container.type == JT_STR) {
        if (item.type != JT_STR)
            return tt_jfail(r, "'in <string>' requires string as left operand, not %s",
                            tt_jtype_name(item));
        *yes = tt_jfind(container.s->p, container.s->n, item.s->p, item.s->n) != NULL;
        return tt_jcharge(r, container.s->n / 64);
    }
    if (container.type == JT_VIEW && container.view->kind == JVIEW_ITEMS) {
        if (item.type != JT_TUPLE || item.list->n != 2)
            return TT_OK;
        J_TRY(tt_jdict_get(r, container.view->dict, item.list->v[0], &found));
        return found.type == JT_MISSING ? TT_OK : tt_jequal(r, found, item.list->v[1], yes);
    }
    if (container.type == JT_DICT ||
        (container.type == JT_VIEW && container.view->kind == JVIEW_KEYS)) {
        const jdict *d = container.type == JT_DICT ? container.dict : container.view->dict;
        J_TRY(tt_jdict_get(r, d, item, &found));
        *yes = found.type != JT_MISSING;
        return TT_OK;
    }
    if (!tt_jiterable(container))
        return tt_jfail(r, "argument of type '%s' is not iterable", tt_jtype_name(container));
    return contains_any(r, item, container, yes);
}

tt_status tt_jsame(jval a, jval b, bool *yes)
{
    *yes = false;
    if (a.type != b.type)
        return TT_OK;
    switch ((jtype)a.type) {
    case JT_NONE:
        *yes = true;
        return TT_OK;
    case JT_BOOL:
        *yes = a.b == b.b;
        return TT_OK;
    case JT_INT:
        *yes = a.i == b.i;
        return TT_OK;
    case JT_FLOAT:
        *yes = a.f == b.f;
        return TT_OK;
    case JT_STR:
        *yes = a.s == b.s || (a.s->n == b.s->n && memcmp(a.s->p, b.s->p, a.s->n) == 0);
        return TT_OK;
    default:
        *yes = a.list == b.list;
        return TT_OK;
    }
}

bool tt_jhas_length(jval v)
{
    switch ((jtype)v.type) {
    case JT_UNDEF:
    case JT_STR:
    case JT_LIST:
    case JT_TUPLE:
    case JT_DICT:
    case JT_VIEW:
    case JT_RANGE:
    case JT_LOOP:
        return true;
    default:
        return false;
    }
}

static tt_status loop_length(jrun *r, jloop *loop, int64_t *n)
{
    static const jstr name = {.p = "length", .n = 6, .cp = 6};
    jval v;
    J_TRY(tt_jloop_attr(r, loop, &name, &v));
    *n = v.i;
    return TT_OK;
}

tt_status tt_jlength(jrun *r, jval v, int64_t *n)
{
    switch ((jtype)v.type) {
    case JT_UNDEF:
        *n = 0;
        return TT_OK;
    case JT_STR:
        *n = v.s->cp;
        return TT_OK;
    case JT_LIST:
    case JT_TUPLE:
        *n = v.list->n;
        return TT_OK;
    case JT_DICT:
        *n = v.dict->n;
        return TT_OK;
    case JT_VIEW:
        *n = v.view->dict->n;
        return TT_OK;
    case JT_RANGE:
        *n = v.range->n;
        return TT_OK;
    case JT_LOOP:
        return loop_length(r, v.loop, n);
    default:
        return tt_jfail(r, "object of type '%s' has no len()", tt_jtype_name(v));
    }
}

/* ---- undefined ---- */

static tt_status undef(jrun *r, jundef u, jval *out)
{
    jundef *p;
    J_NEW(r, p, 1);
    *p = u;
    *out = (jval){.type = JT_UNDEF, .undef = p};
    return TT_OK;
}

tt_status tt_jundef(jrun *r, const char *hint, jval *out)
{
    return undef(r, (jundef){.hint = hint}, out);
}

tt_status tt_jundef_name(jrun *r, const jstr *name, jval *out)
{
    return undef(r, (jundef){.name = name}, out);
}

tt_status tt_jundef_of(jrun *r, jval obj, jval key, jval *out)
{
    return undef(r, (jundef){.has_obj = true, .obj = obj, .key = key}, out);
}

static int shown(const jstr *s)
{
    return s->n > 80 ? 80 : (int)s->n;
}

tt_status tt_jfail_undef(jrun *r, jval v)
{
    const jundef *u = v.undef;
    if (u->hint != NULL)
        return tt_jfail(r, "%s", u->hint);
    if (u->name != NULL)
        return tt_jfail(r, "'%.*s' is undefined", shown(u->name), u->name->p);
    const char *type = u->obj.type == JT_NONE ? "None" : tt_jtype_name(u->obj);
    const char *object = u->obj.type == JT_NONE ? "" : " object";
    if (u->key.type == JT_STR)
        return tt_jfail(r, "'%s%s' has no attribute '%.*s'", type, object, shown(u->key.s),
                        u->key.s->p);
    if (u->key.type == JT_INT)
        return tt_jfail(r, "%s%s has no element %lld", type, object, (long long)u->key.i);
    return tt_jfail(r, "%s%s has no such element", type, object);
}

/* ---- from JSON ---- */

static tt_status from_array(jrun *r, const json_t *j, jval *out)
{
    jlist *l = NULL;
    size_t n = json_array_size(j);
    if (n > UINT32_MAX)
        return tt_jlimit(r, "a list of %zu values is too long", n);
    J_TRY(tt_jlist_new(r, (uint32_t)n, &l));
    for (size_t i = 0; i < n; i++) {
        jval v;
        J_TRY(tt_jfrom_json(r, json_array_get(j, i), &v));
        J_TRY(tt_jlist_add(r, l, v));
    }
    *out = J_LIST(l);
    return TT_OK;
}

static tt_status from_object(jrun *r, const json_t *j, jval *out)
{
    jdict *d = NULL;
    J_TRY(tt_jdict_new(r, &d));
    /* jansson iterates objects without changing them, but asks for a pointer to non-const. */
    for (void *it = json_object_iter((json_t *)j); it != NULL;
         it = json_object_iter_next((json_t *)j, it)) {
        jval k, v;
        J_TRY(tt_jstr_borrow(r, json_object_iter_key(it), json_object_iter_key_len(it), &k));
        J_TRY(tt_jfrom_json(r, json_object_iter_value(it), &v));
        J_TRY(tt_jdict_set(r, d, k, v));
    }
    *out = J_DICT(d);
    return TT_OK;
}

tt_status tt_jfrom_json(jrun *r, const json_t *j, jval *out)
{
    J_TRY(tt_jenter(r));
    tt_status st = TT_OK;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        st = from_object(r, j, out);
        break;
    case JSON_ARRAY:
        st = from_array(r, j, out);
        break;
    case JSON_STRING:
        st = tt_jstr_borrow(r, json_string_value(j), json_string_length(j), out);
        break;
    case JSON_INTEGER:
        *out = J_INT(json_integer_value(j));
        break;
    case JSON_REAL:
        *out = J_FLOAT(json_real_value(j));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = J_BOOL(json_is_true(j));
        break;
    case JSON_NULL:
        *out = J_NONE;
        break;
    }
    r->depth--;
    return st;
}
