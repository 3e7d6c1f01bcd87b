/* str.format: replacement fields, conversions and format specifications. */
#include <string.h>

#include "tokenizer/jinja_format.h"

typedef struct formatter {
    jrun *r;
    const jargs *args;
    int64_t automatic; /* next number of an empty field, or -1 after a numbered one */
    bool escape;
} formatter;

static tt_status expand(formatter *f, tt_buf *b, const char *p, const char *end, int depth);

/* ---- the specification behind ':' ---- */

static bool is_align(uint32_t cp)
{
    return cp == '<' || cp == '>' || cp == '=' || cp == '^';
}

static tt_status spec_number(jrun *r, const char **p, const char *end, int64_t *n)
{
    *n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
        *n = *n * 10 + (**p - '0');
        if (*n > INT32_MAX)
            return tt_jfail(r, "too many digits in a format specification");
    }
    return TT_OK;
}

static tt_status read_spec(jrun *r, const jstr *text, char dflt, jspec *s)
{
    const char *p = text->p, *end = p + text->n, *q = p;
    *s = (jspec){.precision = -1};
    uint32_t first = p < end ? tt_jcp_next(&q) : 0;
    if (q < end && is_align((unsigned char)*q)) {
        s->fill = first;
        s->align = *q;
        p = q + 1;
    } else if (p < end && is_align(first)) {
        s->align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' '))
        s->sign = *p++;
    if (p < end && *p == 'z')
        return tt_jfail(r, "the format option 'z' is not supported");
    if (p < end && *p == '#') {
        s->alternate = true;
        p++;
    }
    if (p < end && *p == '0' && s->fill == 0) {
        s->fill = '0';
        if (s->align == 0 && dflt == '>')
            s->align = '=';
        p++;
    }
    J_TRY(spec_number(r, &p, end, &s->width));
    if (p < end && (*p == ',' || *p == '_'))
        s->group = *p++;
    if (p < end && (*p == ',' || *p == '_'))
        return tt_jfail(r, "only one of ',' and '_' may group digits");
    if (p < end && *p == '.') {
        const char *start = ++p;
        J_TRY(spec_number(r, &p, end, &s->precision));
        if (p == start)
            return tt_jfail(r, "a format specification lacks its precision");
    }
    if (p < end)
        s->type = *p++;
    if (p < end || (unsigned char)s->type >= 0x80)
        return tt_jfail(r, "invalid format specification '%.*s'", (int)text->n, text->p);
    return TT_OK;
}

static tt_status bad_spec(jrun *r, const jstr *spec, jval v)
{
    return tt_jfail(r, "format specification '%.*s' does not fit a %s",
                    (int)(spec->n > 40 ? 40 : spec->n), spec->p, tt_jtype_name(v));
}

static tt_status format_str(jrun *r, tt_buf *b, jval v, const jstr *spec)
{
    jspec s;
    J_TRY(read_spec(r, spec, '<', &s));
    if ((s.type != 0 && s.type != 's') || s.sign != 0 || s.alternate || s.group != 0 ||
        s.align == '=')
        return bad_spec(r, spec, v);
    tt_jlay_text(b, &s, v.s, '<');
    return TT_OK;
}

static tt_status format_char(jrun *r, tt_buf *b, const jspec *s, int64_t cp)
{
    char utf8[4];
    jval text;
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        return tt_jfail(r, "'c' takes a character's code, not %lld", (long long)cp);
    J_TRY(tt_jstr(r, utf8, tt_jcp_put((uint32_t)cp, utf8), &text));
    tt_jlay_text(b, s, text.s, '>');
    return TT_OK;
}

static tt_status format_number(jrun *r, tt_buf *b, jval v, const jstr *spec)
{
    jspec s;
    int64_t i = 0;
    bool is_int = tt_jis_int(v, &i);
    J_TRY(read_spec(r, spec, '>', &s));
    bool integral = is_int && (s.type == 0 || strchr("bcdoxXn", s.type) != NULL);
    if (integral) {
        if (s.precision >= 0 || (s.type == 'c' && (s.sign != 0 || s.alternate || s.group != 0)) ||
            (s.group == ',' && s.type != 0 && s.type != 'd') || (s.group != 0 && s.type == 'n'))
            return bad_spec(r, spec, v);
        if (s.type == 'c')
            return format_char(r, b, &s, i);
        return tt_jlay_int(r, b, &s, i);
    }
    if ((s.type != 0 && strchr("eEfFgGn%", s.type) == NULL) || (s.group != 0 && s.type == 'n'))
        return bad_spec(r, spec, v);
    return tt_jlay_float(r, b, &s, is_int ? (double)i : v.f);
}

static tt_status format_value(jrun *r, tt_buf *b, jval v, const jstr *spec)
{
    if (spec->n == 0)
        return tt_jprint(r, b, v);
    if (v.type == JT_STR)
        return format_str(r, b, v, spec);
    if (v.type == JT_BOOL || v.type == JT_INT || v.type == JT_FLOAT)
        return format_number(r, b, v, spec);
    return tt_jfail(r, "a value of type %s takes no format specification", tt_jtype_name(v));
}

/* Markup.format escapes what it inserts. */
static tt_status format_escaped(jrun *r, tt_buf *b, jval v, const jstr *spec)
{
    tt_buf t;
    jval text;
    if (v.type == JT_STR && (v.flag & J_MARKUP)) {
        if (spec->n > 0)
            return tt_jfail(r, "markup takes no format specification");
        return tt_jprint(r, b, v);
    }
    tt_buf_init(&t, r->o.max_memory);
    tt_status st = format_value(r, &t, v, spec);
    if (st != TT_OK) {
        tt_buf_free(&t);
        return st;
    }
    J_TRY(tt_jstr_buf(r, &t, &text));
    J_TRY(tt_jescape(r, text, &text));
    return tt_jprint(r, b, text);
}

/* ---- fields ---- */

static bool all_digits(const char *p, const char *end)
{
    for (const char *q = p; q < end; q++)
        if (*q < '0' || *q > '9')
            return false;
    return p < end;
}

static tt_status positional(formatter *f, const char *p, const char *end, jval *out)
{
    int64_t n = 0;
    if (p == end) {
        if (f->automatic < 0)
            return tt_jfail(f->r, "numbered and automatic fields cannot be mixed");
        n = f->automatic++;
    } else {
        if (f->automatic > 0)
            return tt_jfail(f->r, "numbered and automatic fields cannot be mixed");
        f->automatic = -1;
        J_TRY(spec_number(f->r, &p, end, &n));
    }
    if (n >= f->args->npos)
        return tt_jfail(f->r, "field %lld has no argument", (long long)n);
    *out = f->args->pos[n];
    return TT_OK;
}

static tt_status named(formatter *f, const char *p, const char *end, jval *out)
{
    *out = J_MISSING;
    if (f->args->kw != NULL)
        *out = tt_jdict_get_text(f->args->kw, p, (size_t)(end - p));
    if (out->type == JT_MISSING)
        return tt_jfail(f->r, "field '%.*s' has no argument", (int)(end - p), p);
    return TT_OK;
}

static tt_status subscript(formatter *f, const char **p, const char *end, jval *v)
{
    jval key;
    const char *q = ++*p;
    while (q < end && *q != ']')
        q++;
    if (q >= end || q == *p)
        return tt_jfail(f->r, "a field lacks the name inside its brackets");
    if (all_digits(*p, q)) {
        int64_t n = 0;
        J_TRY(spec_number(f->r, p, q, &n));
        key = J_INT(n);
    } else {
        J_TRY(tt_jstr_borrow(f->r, *p, (size_t)(q - *p), &key));
    }
    *p = q + 1;
    return tt_jgetitem(f->r, *v, key, v);
}

static tt_status look_up(formatter *f, const char *p, const char *end, jval *out)
{
    const char *q = p;
    while (q < end && *q != '.' && *q != '[')
        q++;
    if (q == p || all_digits(p, q))
        J_TRY(positional(f, p, q, out));
    else
        J_TRY(named(f, p, q, out));
    while (q < end) {
        if (*q == '[') {
            J_TRY(subscript(f, &q, end, out));
            if (q < end && *q != '.' && *q != '[')
                return tt_jfail(f->r, "only '.' or '[' may follow ']' in a field");
            continue;
        }
        const char *name = ++q;
        jval key;
        while (q < end && *q != '.' && *q != '[')
            q++;
        if (q == name)
            return tt_jfail(f->r, "an attribute name in a field is empty");
        J_TRY(tt_jstr_borrow(f->r, name, (size_t)(q - name), &key));
        J_TRY(tt_jgetattr(f->r, *out, key.s, out));
    }
    return TT_OK;
}

static tt_status convert(jrun *r, char how, jval *v)
{
    tt_buf b;
    if (how == 's')
        return tt_jto_str(r, *v, v);
    if (how != 'r' && how != 'a')
        return tt_jfail(r, "unknown conversion '%c'", how);
    tt_buf_init(&b, r->o.max_memory);
    tt_status st = tt_jrepr(r, &b, *v, how == 'a');
    if (st != TT_OK) {
        tt_buf_free(&b);
        return st;
    }
    return tt_jstr_buf(r, &b, v);
}

/* name ! conversion : spec, between the braces. */
static tt_status field(formatter *f, tt_buf *b, const char *p, const char *end, int depth)
{
    const char *q = p;
    bool bracket = false;
    jval v, spec;
    while (q < end && (bracket || (*q != '!' && *q != ':'))) {
        if (*q == '{')
            return tt_jfail(f->r, "unexpected '{' in a field name");
        bracket = *q == '[' ? true : *q == ']' ? false : bracket;
        q++;
    }
    J_TRY(look_up(f, p, q, &v));
    if (q < end && *q == '!') {
        if (q + 1 >= end || (q + 2 < end && q[2] != ':'))
            return tt_jfail(f->r, "a field has a broken conversion");
        J_TRY(convert(f->r, q[1], &v));
        q += 2;
    }
    tt_buf t;
    tt_buf_init(&t, f->r->o.max_memory);
    tt_status st = q < end ? expand(f, &t, q + 1, end, depth + 1) : TT_OK;
    if (st != TT_OK) {
        tt_buf_free(&t);
        return st;
    }
    J_TRY(tt_jstr_buf(f->r, &t, &spec));
    return f->escape && depth == 0 ? format_escaped(f->r, b, v, spec.s)
                                   : format_value(f->r, b, v, spec.s);
}

/* End of the field that opens before p: its closing brace. */
static const char *field_end(const char *p, const char *end)
{
    int open = 1;
    bool bracket = false;
    for (; p < end; p++) {
        if (*p == '[')
            bracket = true;
        else if (*p == ']')
            bracket = false;
        else if (*p == '{' && !bracket)
            open++;
        else if (*p == '}' && !bracket && --open == 0)
            return p;
    }
    return NULL;
}

static tt_status expand(formatter *f, tt_buf *b, const char *p, const char *end, int depth)
{
    if (depth > 1 && memchr(p, '{', (size_t)(end - p)) != NULL)
        return tt_jfail(f->r, "fields nest too deeply in a format text");
    while (p < end) {
        J_TRY(tt_jcharge(f->r, 1));
        if (*p != '{' && *p != '}') {
            const char *q = p;
            while (q < end && *q != '{' && *q != '}')
                q++;
            tt_buf_append(b, p, (size_t)(q - p));
            p = q;
        } else if (p + 1 < end && p[1] == p[0]) {
            tt_buf_putc(b, *p);
            p += 2;
        } else if (*p == '}') {
            return tt_jfail(f->r, "single '}' in a format text");
        } else {
            const char *q = field_end(p + 1, end);
            if (q == NULL)
                return tt_jfail(f->r, "a field is never closed in a format text");
            J_TRY(field(f, b, p + 1, q, depth));
            p = q + 1;
        }
    }
    return TT_OK;
}

tt_status tt_jformat(jrun *r, jval fmt, const jargs *args, jval *out)
{
    formatter f = {.r = r, .args = args, .escape = (fmt.flag & J_MARKUP) != 0};
    tt_buf b;
    tt_buf_init(&b, r->o.max_memory);
    tt_status st = expand(&f, &b, fmt.s->p, fmt.s->p + fmt.s->n, 0);
    if (st != TT_OK) {
        tt_buf_free(&b);
        return st;
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    out->flag = f.escape ? J_MARKUP : 0;
    return TT_OK;
}
