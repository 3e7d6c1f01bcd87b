/* The filter `tojson`: Python's json.dumps, byte for byte. */
#include <math.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

typedef struct writer {
    jrun *r;
    tt_buf b;
    bool ascii, sort, pretty;
    const jstr *indent, *item_sep, *key_sep;
    uint32_t level;
} writer;

static void put_u(tt_buf *b, uint32_t cp)
{
    if (cp < 0x10000) {
        tt_buf_printf(b, "\\u%04x", cp);
        return;
    }
    cp -= 0x10000;
    tt_buf_printf(b, "\\u%04x\\u%04x", 0xD800 + (cp >> 10), 0xDC00 + (cp & 0x3FF));
}

static void write_str(writer *w, const jstr *s)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    tt_buf_putc(&w->b, '"');
    for (const char *p = s->p, *end = s->p + s->n; p < end;) {
        const char *at = p, *k;
        uint32_t cp = tt_jcp_next(&p);
        if (cp != 0 && cp < 0x80 && (k = strchr(from, (int)cp)) != NULL) {
            tt_buf_putc(&w->b, '\\');
            tt_buf_putc(&w->b, to[k - from]);
        } else if (cp < 0x20 || (w->ascii && cp >= 0x7F)) {
            put_u(&w->b, cp);
        } else {
            tt_buf_append(&w->b, at, (size_t)(p - at));
        }
    }
    tt_buf_putc(&w->b, '"');
}

static void write_float(tt_buf *b, double f)
{
    char text[40];
    if (isnan(f))
        strcpy(text, "NaN");
    else if (isinf(f))
        strcpy(text, f < 0 ? "-Infinity" : "Infinity");
    else
        tt_jfloat_repr(text, f);
    tt_buf_puts(b, text);
}

static tt_status write_value(writer *w, jval v);

static void newline(writer *w)
{
    if (!w->pretty)
        return;
    tt_buf_putc(&w->b, '\n');
    for (uint32_t i = 0; i < w->level; i++)
        tt_buf_append(&w->b, w->indent->p, w->indent->n);
}

static tt_status write_list(writer *w, const jlist *l)
{
    if (l->n == 0) {
        tt_buf_puts(&w->b, "[]");
        return TT_OK;
    }
    tt_buf_putc(&w->b, '[');
    w->level++;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i > 0)
            tt_buf_append(&w->b, w->item_sep->p, w->item_sep->n);
        newline(w);
        J_TRY(write_value(w, l->v[i]));
    }
    w->level--;
    newline(w);
    tt_buf_putc(&w->b, ']');
    return TT_OK;
}

static tt_status write_key(writer *w, jval k)
{
    switch ((jtype)k.type) {
    case JT_STR:
        write_str(w, k.s);
        return tt_jcharge(w->r, 1 + k.s->n / 64);
    case JT_NONE:
    case JT_BOOL:
    case JT_INT:
    case JT_FLOAT:
        tt_buf_putc(&w->b, '"');
        J_TRY(write_value(w, k));
        tt_buf_putc(&w->b, '"');
        return TT_OK;
    default:
        return tt_jfail(w->r, "tojson: a key must be text, a number, a boolean or none, not %s",
                        tt_jtype_name(k));
    }
}

static tt_status sorted_entries(jrun *r, const jdict *d, jval **keys, jval **values)
{
    J_NEW(r, *keys, d->n);
    J_NEW(r, *values, d->n);
    jval *order;
    J_NEW(r, order, d->n);
    for (uint32_t i = 0; i < d->n; i++) {
        order[i] = J_INT(i);
        (*keys)[i] = d->e[i].k;
    }
    J_TRY(tt_jsort(r, order, *keys, d->n, false));
    for (uint32_t i = 0; i < d->n; i++) {
        (*keys)[i] = d->e[order[i].i].k;
        (*values)[i] = d->e[order[i].i].v;
    }
    return TT_OK;
}

static tt_status write_dict(writer *w, const jdict *d)
{
    jval *keys = NULL, *values = NULL;
    if (d->n == 0) {
        tt_buf_puts(&w->b, "{}");
        return TT_OK;
    }
    if (w->sort)
        J_TRY(sorted_entries(w->r, d, &keys, &values));
    tt_buf_putc(&w->b, '{');
    w->level++;
    for (uint32_t i = 0; i < d->n; i++) {
        if (i > 0)
            tt_buf_append(&w->b, w->item_sep->p, w->item_sep->n);
        newline(w);
        J_TRY(write_key(w, w->sort ? keys[i] : d->e[i].k));
        tt_buf_append(&w->b, w->key_sep->p, w->key_sep->n);
        J_TRY(write_value(w, w->sort ? values[i] : d->e[i].v));
    }
    w->level--;
    newline(w);
    tt_buf_putc(&w->b, '}');
    return TT_OK;
}

static tt_status write_nested(writer *w, jval v)
{
    J_TRY(tt_jenter(w->r));
    J_TRY(v.type == JT_DICT ? write_dict(w, v.dict) : write_list(w, v.list));
    w->r->depth--;
    return TT_OK;
}

static tt_status write_value(writer *w, jval v)
{
    switch ((jtype)v.type) {
    case JT_NONE:
        tt_buf_puts(&w->b, "null");
        return tt_jcharge(w->r, 1);
    case JT_BOOL:
        tt_buf_puts(&w->b, v.b ? "true" : "false");
        return tt_jcharge(w->r, 1);
    case JT_INT:
        tt_buf_printf(&w->b, "%lld", (long long)v.i);
        return tt_jcharge(w->r, 1);
    case JT_FLOAT:
        write_float(&w->b, v.f);
        return tt_jcharge(w->r, 1);
    case JT_STR:
        write_str(w, v.s);
        return tt_jcharge(w->r, 1 + v.s->n / 64);
    case JT_LIST:
    case JT_TUPLE:
    case JT_DICT:
        return write_nested(w, v);
    default:
        if (v.type == JT_UNDEF)
            return tt_jfail(w->r, "tojson: the value is undefined");
        return tt_jfail(w->r, "tojson: a value of type %s has no JSON form", tt_jtype_name(v));
    }
}

static tt_status separators(jrun *r, writer *w, jval v)
{
    jlist *pair = NULL;
    J_TRY(tt_jto_list(r, v, &pair));
    if (pair->n != 2 || pair->v[0].type != JT_STR || pair->v[1].type != JT_STR)
        return tt_jfail(r, "tojson: separators must be two texts");
    w->item_sep = pair->v[0].s;
    w->key_sep = pair->v[1].s;
    return TT_OK;
}

static tt_status indentation(jrun *r, writer *w, jval v)
{
    jval text;
    int64_t n = 0;
    w->pretty = true;
    if (v.type == JT_STR) {
        w->indent = v.s;
        return TT_OK;
    }
    if (!tt_jis_int(v, &n))
        return tt_jfail(r, "tojson: indent must be an integer, a text or none");
    static const jstr blank = {.p = " ", .n = 1, .cp = 1};
    J_TRY(tt_jstr_repeat(r, &blank, n, &text));
    w->indent = text.s;
    return TT_OK;
}

/* parameters: ensure_ascii? indent? separators? sort_keys? */
tt_status tt_jtojson(jrun *r, jval self, jval *a, const jargs *raw, jval *out)
{
    static const jstr comma = {.p = ",", .n = 1, .cp = 1},
                      comma_blank = {.p = ", ", .n = 2, .cp = 2};
    static const jstr colon_blank = {.p = ": ", .n = 2, .cp = 2};
    writer w = {.r = r, .ascii = tt_jtruth(a[0]), .sort = tt_jtruth(a[3])};
    w.key_sep = &colon_blank;
    w.item_sep = &comma_blank;
    if (a[1].type != JT_MISSING && a[1].type != JT_NONE) {
        J_TRY(indentation(r, &w, a[1]));
        w.item_sep = &comma;
    }
    if (a[2].type != JT_MISSING && a[2].type != JT_NONE)
        J_TRY(separators(r, &w, a[2]));
    tt_buf_init(&w.b, r->o.max_memory);
    tt_status st = write_value(&w, self);
    if (st != TT_OK) {
        tt_buf_free(&w.b);
        return st;
    }
    return tt_jstr_buf(r, &w.b, out);
}
