/* printf-style formatting: "..." % values. */
#include <string.h>

#include "tokenizer/jinja_format.h"

typedef struct percent {
    jrun *r;
    tt_buf b;
    const char *p, *end;
    jval args;           /* what is left to take from: a tuple, or one value */
    int64_t next, count; /* count -1: one value, taken when next reaches -1 */
    bool mapping, escape;
} percent;

static tt_status next_arg(percent *f, jval *out)
{
    if (f->next >= f->count)
        return tt_jfail(f->r, "not enough arguments for the format text");
    *out = f->count < 0 ? f->args : f->args.list->v[f->next];
    f->next++;
    return TT_OK;
}

static tt_status star(percent *f, int64_t *n)
{
    jval v;
    J_TRY(next_arg(f, &v));
    if (!tt_jis_int(v, n))
        return tt_jfail(f->r, "* wants an integer");
    return TT_OK;
}

static tt_status number(percent *f, int64_t *n)
{
    *n = 0;
    if (f->p < f->end && *f->p == '*') {
        f->p++;
        return star(f, n);
    }
    for (; f->p < f->end && *f->p >= '0' && *f->p <= '9'; f->p++) {
        *n = *n * 10 + (*f->p - '0');
        if (*n > INT32_MAX)
            return tt_jfail(f->r, "a width or precision is too large");
    }
    return TT_OK;
}

static tt_status mapping_key(percent *f, jval whole)
{
    jval key;
    const char *start = ++f->p;
    int open = 1;
    for (; f->p < f->end && open > 0; f->p++)
        open += *f->p == '(' ? 1 : *f->p == ')' ? -1 : 0;
    if (open > 0)
        return tt_jfail(f->r, "incomplete key in the format text");
    if (!f->mapping)
        return tt_jfail(f->r, "the format text requires a mapping");
    J_TRY(tt_jstr_borrow(f->r, start, (size_t)(f->p - 1 - start), &key));
    if (whole.type != JT_DICT)
        return tt_jfail(f->r, "'%s' cannot be looked up by name", tt_jtype_name(whole));
    J_TRY(tt_jdict_get(f->r, whole.dict, key, &f->args));
    if (f->args.type == JT_MISSING)
        return tt_jfail(f->r, "key '%.*s' is missing", (int)key.s->n, key.s->p);
    f->count = -1;
    f->next = -2;
    return TT_OK;
}

static tt_status read_spec(percent *f, jval whole, jspec *s)
{
    *s = (jspec){.precision = -1};
    if (f->p < f->end && *f->p == '(')
        J_TRY(mapping_key(f, whole));
    for (; f->p < f->end && *f->p != '\0' && strchr("-+ #0", *f->p) != NULL; f->p++) {
        if (*f->p == '-')
            s->align = '<';
        else if (*f->p == '#')
            s->alternate = true;
        else if (*f->p == '0')
            s->zero = true;
        else if (s->sign != '+')
            s->sign = *f->p;
    }
    J_TRY(number(f, &s->width));
    if (s->width < 0) {
        s->align = '<';
        s->width = -s->width;
    }
    if (f->p < f->end && *f->p == '.') {
        f->p++;
        J_TRY(number(f, &s->precision));
        if (s->precision < 0)
            s->precision = 0;
    }
    if (f->p < f->end && strchr("hlL", *f->p) != NULL && *f->p != '\0')
        f->p++;
    if (f->p >= f->end)
        return tt_jfail(f->r, "incomplete format");
    s->type = *f->p++;
    return TT_OK;
}

static tt_status put_text(percent *f, const jspec *s, jval v)
{
    tt_buf t;
    jval text = v;
    tt_buf_init(&t, f->r->o.max_memory);
    if (s->type == 's' && f->escape) {
        J_TRY(tt_jescape(f->r, v, &text));
    } else if (s->type == 's') {
        J_TRY(tt_jto_str(f->r, v, &text));
    } else {
        tt_status st = tt_jrepr(f->r, &t, v, s->type == 'a');
        if (st != TT_OK) {
            tt_buf_free(&t);
            return st;
        }
        J_TRY(tt_jstr_buf(f->r, &t, &text));
        if (f->escape)
            J_TRY(tt_jescape(f->r, text, &text));
    }
    tt_jlay_text(&f->b, s, text.s, '>');
    return TT_OK;
}

static tt_status put_char(percent *f, const jspec *s, jval v)
{
    char utf8[4];
    int64_t cp = 0;
    jval text = v;
    if (tt_jis_int(v, &cp)) {
        if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
            return tt_jfail(f->r, "%%c takes a character's code, not %lld", (long long)cp);
        J_TRY(tt_jstr(f->r, utf8, tt_jcp_put((uint32_t)cp, utf8), &text));
    } else if (v.type != JT_STR || v.s->cp != 1) {
        return tt_jfail(f->r, "%%c requires an integer or one character");
    }
    jspec whole = *s;
    whole.precision = -1;
    tt_jlay_text(&f->b, &whole, text.s, '>');
    return TT_OK;
}

static tt_status put_int(percent *f, jspec s, jval v)
{
    int64_t i = 0;
    char out[80], padded[256];
    bool decimal = strchr("diu", s.type) != NULL;
    if (decimal && v.type == JT_FLOAT) {
        if (!(v.f > -9.3e18 && v.f < 9.2e18))
            return tt_jfail(f->r, "a float is too large or no number for %%%c", s.type);
        i = (int64_t)v.f;
    } else if (!tt_jis_int(v, &i)) {
        return tt_jfail(f->r, "%%%c format: a number is required, not %s", s.type,
                        tt_jtype_name(v));
    }
    unsigned base = decimal ? 10 : s.type == 'o' ? 8 : 16;
    const char *digits = tt_jint_digits(out, i, base, s.type == 'X');
    size_t n = strlen(digits);
    if (s.precision > (int64_t)n) {
        if (s.precision >= (int64_t)sizeof padded)
            return tt_jlimit(f->r, "a precision of %lld digits is too large",
                             (long long)s.precision);
        size_t zeros = (size_t)s.precision - n;
        memset(padded, '0', zeros);
        memcpy(padded + zeros, digits, n + 1);
        digits = padded;
        n += zeros;
    }
    const char *prefix = !s.alternate || decimal ? ""
                         : base == 8             ? "0o"
                         : s.type == 'x'         ? "0x"
                                                 : "0X";
    tt_jlay_number(&f->b, &s, i < 0, prefix, digits, n);
    return TT_OK;
}

static tt_status put_one(percent *f, jspec *s)
{
    jval v;
    int64_t i = 0;
    J_TRY(next_arg(f, &v));
    if (s->type != '\0' && strchr("sra", s->type) != NULL)
        return put_text(f, s, v);
    if (s->type == 'c')
        return put_char(f, s, v);
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(f->r, v);
    if (s->zero && s->align == 0) {
        s->fill = '0';
        s->align = '=';
    }
    if (s->type != '\0' && strchr("diuoxX", s->type) != NULL)
        return put_int(f, *s, v);
    if (s->type == '\0' || strchr("eEfFgG", s->type) == NULL)
        return tt_jfail(f->r, "unsupported format character '%c'", s->type);
    if (tt_jis_int(v, &i))
        v = J_FLOAT((double)i);
    if (v.type != JT_FLOAT)
        return tt_jfail(f->r, "%%%c format: a number is required, not %s", s->type,
                        tt_jtype_name(v));
    return tt_jlay_float(f->r, &f->b, s, v.f);
}

static tt_status run(percent *f, jval whole)
{
    while (f->p < f->end) {
        const char *q = memchr(f->p, '%', (size_t)(f->end - f->p));
        jspec s;
        if (q == NULL)
            q = f->end;
        tt_buf_append(&f->b, f->p, (size_t)(q - f->p));
        f->p = q;
        if (q == f->end)
            break;
        f->p++;
        J_TRY(tt_jcharge(f->r, 1));
        if (f->p < f->end && *f->p == '%') {
            tt_buf_putc(&f->b, *f->p++);
            continue;
        }
        J_TRY(read_spec(f, whole, &s));
        J_TRY(put_one(f, &s));
    }
    if (f->next < f->count && !f->mapping)
        return tt_jfail(f->r, "not all arguments were used by the format text");
    return TT_OK;
}

tt_status tt_jpercent(jrun *r, jval fmt, jval args, jval *out)
{
    percent f = {.r = r,
                 .p = fmt.s->p,
                 .end = fmt.s->p + fmt.s->n,
                 .args = args,
                 .next = -2,
                 .count = -1,
                 .escape = (fmt.flag & J_MARKUP) != 0};
    if (args.type == JT_TUPLE) {
        f.next = 0;
        f.count = args.list->n;
    }
    f.mapping = args.type == JT_DICT || args.type == JT_LIST || args.type == JT_RANGE ||
                args.type == JT_UNDEF;
    tt_buf_init(&f.b, r->o.max_memory);
    tt_status st = run(&f, args);
    if (st != TT_OK) {
        tt_buf_free(&f.b);
        return st;
    }
    J_TRY(tt_jstr_buf(r, &f.b, out));
    out->flag = f.escape ? J_MARKUP : 0;
    return TT_OK;
}
