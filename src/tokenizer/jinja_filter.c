/* Filters on single values: text, numbers, defaults. Those on sequences are in
 * jinja_filter_seq.c. */
#include <math.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

#define FILTER(name) static tt_status name(jrun *r, jval v, jval *a, const jargs *raw, jval *out)

/* markupsafe's soft_str: text stays what it is, Markup included. */
static tt_status soft_str(jrun *r, jval v, jval *out)
{
    if (v.type == JT_STR) {
        *out = v;
        return TT_OK;
    }
    return tt_jto_str(r, v, out);
}

static tt_status string_method(jrun *r, jval v, const char *name, const jargs *args, jval *out)
{
    jstr key = {.p = name, .n = (uint32_t)strlen(name)};
    J_TRY(soft_str(r, v, &v));
    return tt_jinvoke(r, tt_jstr_method(&key), v, args, out);
}

static bool given(jval v)
{
    return v.type != JT_MISSING;
}

static bool given_not_none(jval v)
{
    return v.type != JT_MISSING && v.type != JT_NONE;
}

static tt_status want_int(jrun *r, const char *what, jval v, int64_t dflt, int64_t *out)
{
    *out = dflt;
    if (v.type == JT_MISSING || tt_jis_int(v, out))
        return TT_OK;
    return tt_jfail(r, "%s takes an integer, not %s", what, tt_jtype_name(v));
}

/* ---- text ---- */

FILTER(f_upper)
{
    return string_method(r, v, "upper", &(jargs){0}, out);
}
FILTER(f_lower)
{
    return string_method(r, v, "lower", &(jargs){0}, out);
}
FILTER(f_capitalize)
{
    return string_method(r, v, "capitalize", &(jargs){0}, out);
}
FILTER(f_string)
{
    return soft_str(r, v, out);
}

FILTER(f_trim)
{
    return string_method(r, v, "strip", &(jargs){.pos = a, .npos = given(a[0])}, out);
}

FILTER(f_center)
{
    jval width = given(a[0]) ? a[0] : J_INT(80);
    return string_method(r, v, "center", &(jargs){.pos = &width, .npos = 1}, out);
}

FILTER(f_replace)
{
    jval old, with;
    int64_t count = -1;
    J_TRY(tt_jto_str(r, v, &v));
    J_TRY(tt_jto_str(r, a[0], &old));
    J_TRY(tt_jto_str(r, a[1], &with));
    if (given_not_none(a[2]))
        J_TRY(want_int(r, "replace", a[2], -1, &count));
    return tt_jstr_replace(r, v.s, old.s, with.s, count, out);
}

static bool word_break(uint32_t cp)
{
    return tt_jcp_space(cp) || (cp < 0x80 && cp != 0 && strchr("-({[<", (int)cp) != NULL);
}

/* Runs of breaks and runs of other characters each begin with a capital. */
FILTER(f_title)
{
    J_TRY(soft_str(r, v, &v));
    tt_buf b;
    tt_buf_init(&b, r->o.max_memory);
    const char *p = v.s->p, *end = p + v.s->n;
    while (p < end) {
        const char *q = p, *stop;
        bool breaks = word_break(tt_jcp_next(&q));
        for (stop = q; stop < end;) {
            const char *next = stop;
            if (word_break(tt_jcp_next(&next)) != breaks)
                break;
            stop = next;
        }
        jstr head = {.p = p, .n = (uint32_t)(q - p)}, rest = {.p = q, .n = (uint32_t)(stop - q)};
        jval up, low;
        tt_status st = tt_jstr_case(r, &head, JCASE_UPPER, &up);
        if (st == TT_OK)
            st = tt_jstr_case(r, &rest, JCASE_LOWER, &low);
        if (st != TT_OK) {
            tt_buf_free(&b);
            return st;
        }
        tt_buf_append(&b, up.s->p, up.s->n);
        tt_buf_append(&b, low.s->p, low.s->n);
        p = stop;
    }
    return tt_jstr_buf(r, &b, out);
}

FILTER(f_indent)
{
    static const jstr blank = {.p = " ", .n = 1, .cp = 1};
    jval by, newline, l, piece, sum;
    jlist *lines = NULL;
    int64_t width = 4;
    tt_status st = TT_OK;
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    if (v.type != JT_STR)
        return tt_jfail(r, "indent takes a text, not %s", tt_jtype_name(v));
    by = a[0];
    if (by.type != JT_STR) {
        J_TRY(want_int(r, "indent", a[0], 4, &width));
        J_TRY(tt_jstr_repeat(r, &blank, width, &by));
    }
    bool first = given(a[1]) && tt_jtruth(a[1]), blanks = given(a[2]) && tt_jtruth(a[2]);
    newline = tt_jstr_const(r, "\n", &st);
    J_TRY(st);
    J_TRY(tt_jconcat(r, v.s, newline.s, &l));
    J_TRY(tt_jstr_lines(r, l, false, &lines));
    sum = lines->v[0];
    for (uint32_t i = 1; i < lines->n; i++) {
        J_TRY(tt_jconcat(r, sum.s, newline.s, &sum));
        piece = lines->v[i];
        if (blanks || piece.s->n > 0)
            J_TRY(tt_jconcat(r, sum.s, by.s, &sum));
        J_TRY(tt_jconcat(r, sum.s, piece.s, &sum));
    }
    if (first)
        J_TRY(tt_jconcat(r, by.s, sum.s, &sum));
    *out = sum;
    out->flag = v.flag;
    return TT_OK;
}

FILTER(f_truncate)
{
    int64_t length = 255, leeway = 5, end_len = 3, n = 0;
    tt_status st = TT_OK;
    jval end = given(a[2]) ? a[2] : tt_jstr_const(r, "...", &st), cut;
    J_TRY(st);
    J_TRY(want_int(r, "truncate", a[0], 255, &length));
    if (given_not_none(a[3]))
        J_TRY(want_int(r, "truncate", a[3], 5, &leeway));
    J_TRY(tt_jlength(r, end, &end_len));
    if (length < end_len || leeway < 0)
        return tt_jfail(r, "truncate: the length must hold the ending, the leeway be 0 or more");
    J_TRY(tt_jlength(r, v, &n));
    *out = v;
    if (n <= length + leeway)
        return TT_OK;
    if (v.type != JT_STR || end.type != JT_STR)
        return tt_jfail(r, "truncate takes a text, not %s", tt_jtype_name(v));
    jval bound[3] = {J_NONE, J_INT(length - end_len), J_NONE};
    J_TRY(tt_jslice(r, v, bound, &cut));
    if (!given(a[1]) || !tt_jtruth(a[1])) {
        size_t k = cut.s->n;
        while (k > 0 && cut.s->p[k - 1] != ' ')
            k--;
        if (k > 0) {
            J_TRY(tt_jsubstr(r, cut.s, 0, k - 1, &cut));
            cut.flag = v.flag;
        }
    }
    return tt_jarith(r, JTOK_ADD, cut, end, out);
}

FILTER(f_wordcount)
{
    int64_t n = 0;
    bool inside = false;
    J_TRY(soft_str(r, v, &v));
    for (const char *p = v.s->p, *end = p + v.s->n; p < end;) {
        uint32_t cp = tt_jcp_next(&p);
        bool word = cp == '_' || tt_jcp_alpha(cp) || tt_jcp_numeric(cp) || tt_jcp_digit(cp);
        n += word && !inside;
        inside = word;
    }
    *out = J_INT(n);
    return tt_jcharge(r, v.s->n / 32);
}

FILTER(f_format)
{
    jlist *l = NULL;
    J_TRY(soft_str(r, v, &v));
    if (raw->npos > 0 && raw->kw != NULL && raw->kw->n > 0)
        return tt_jfail(r, "format takes positional or keyword arguments, not both");
    if (raw->kw != NULL && raw->kw->n > 0)
        return tt_jpercent(r, v, J_DICT(raw->kw), out);
    J_TRY(tt_jlist_new(r, raw->npos, &l));
    for (uint32_t i = 0; i < raw->npos; i++)
        J_TRY(tt_jlist_add(r, l, raw->pos[i]));
    return tt_jpercent(r, v, J_TUPLE(l), out);
}

FILTER(f_escape)
{
    return tt_jescape(r, v, out);
}

FILTER(f_forceescape)
{
    J_TRY(tt_jto_str(r, v, &v));
    return tt_jescape(r, v, out);
}

FILTER(f_safe)
{
    J_TRY(tt_jto_str(r, v, out));
    out->flag = J_MARKUP;
    return TT_OK;
}

static void quote(tt_buf *b, const jstr *s, bool form)
{
    for (uint32_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->p[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     (c != 0 && strchr("_.-~", c) != NULL) || (c == '/' && !form);
        if (plain)
            tt_buf_putc(b, (char)c);
        else if (c == ' ' && form)
            tt_buf_putc(b, '+');
        else
            tt_buf_printf(b, "%%%02X", c);
    }
}

static tt_status quote_pairs(jrun *r, tt_buf *b, jval v)
{
    jlist *pairs = NULL, *pair = NULL;
    jview items = {.dict = v.dict, .kind = JVIEW_ITEMS};
    if (v.type == JT_DICT)
        v = (jval){.type = JT_VIEW, .view = &items};
    J_TRY(tt_jto_list(r, v, &pairs));
    for (uint32_t i = 0; i < pairs->n; i++) {
        J_TRY(tt_jto_list(r, pairs->v[i], &pair));
        if (pair->n != 2)
            return tt_jfail(r, "urlencode takes pairs, found %u values", pair->n);
        if (i > 0)
            tt_buf_putc(b, '&');
        for (int k = 0; k < 2; k++) {
            jval text;
            J_TRY(tt_jto_str(r, pair->v[k], &text));
            quote(b, text.s, true);
            if (k == 0)
                tt_buf_putc(b, '=');
        }
    }
    return TT_OK;
}

FILTER(f_urlencode)
{
    tt_buf b;
    tt_status st = TT_OK;
    tt_buf_init(&b, r->o.max_memory);
    if (v.type == JT_STR || !tt_jiterable(v)) {
        J_TRY(tt_jto_str(r, v, &v));
        quote(&b, v.s, false);
    } else {
        st = quote_pairs(r, &b, v);
    }
    if (st != TT_OK) {
        tt_buf_free(&b);
        return st;
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    return tt_jcharge(r, out->s->n / 16);
}

/* ---- numbers ---- */

FILTER(f_abs)
{
    int64_t i = 0;
    if (v.type == JT_FLOAT) {
        *out = J_FLOAT(fabs(v.f));
        return TT_OK;
    }
    if (!tt_jis_int(v, &i))
        return tt_jfail(r, "bad operand type for abs(): '%s'", tt_jtype_name(v));
    *out = J_INT(i);
    return i < 0 ? tt_jneg(r, J_INT(i), out) : TT_OK;
}

static tt_status float_to_int(jrun *r, double f, bool *ok, jval *out)
{
    *ok = !isnan(f);
    if (isnan(f))
        return TT_OK;
    if (isinf(f))
        return tt_jfail(r, "cannot convert float infinity to integer");
    if (f >= 9223372036854775808.0 || f < -9223372036854775808.0)
        return tt_jfail(r, "an integer needs more than 64 bits");
    *out = J_INT((int64_t)f);
    return TT_OK;
}

FILTER(f_int)
{
    int64_t i = 0, base = 10;
    double f = 0;
    bool ok = false;
    *out = given(a[0]) ? a[0] : J_INT(0);
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    if (tt_jis_int(v, &i)) {
        *out = J_INT(i);
        return TT_OK;
    }
    if (v.type == JT_FLOAT)
        return float_to_int(r, v.f, &ok, out);
    if (v.type != JT_STR)
        return TT_OK;
    bool has_base = !given(a[1]) || tt_jis_int(a[1], &base);
    if (has_base && base >= 0 && base <= 36)
        J_TRY(tt_jparse_int(r, v.s, (int)base, &i, &ok));
    if (ok)
        *out = J_INT(i);
    else if (tt_jparse_float(v.s, &f))
        return float_to_int(r, f, &ok, out);
    return TT_OK;
}

FILTER(f_float)
{
    int64_t i = 0;
    double f = 0;
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    if (tt_jis_int(v, &i))
        *out = J_FLOAT((double)i);
    else if (v.type == JT_FLOAT)
        *out = v;
    else if (v.type == JT_STR && tt_jparse_float(v.s, &f))
        *out = J_FLOAT(f);
    else
        *out = given(a[0]) ? a[0] : J_FLOAT(0.0);
    return TT_OK;
}

/* An integer rounded to tens, hundreds, ... with half to even. */
static tt_status round_int(jrun *r, int64_t i, int64_t places, jval *out)
{
    int64_t unit = 1;
    *out = J_INT(0);
    if (places > 18)
        return TT_OK;
    J_TRY(tt_jint_pow(r, 10, places, &unit));
    int64_t rest = i % unit;
    rest = rest < 0 ? rest + unit : rest;
    int64_t low = i - rest;
    bool up = rest > unit / 2 || (rest == unit / 2 && unit > 1 && (low / unit) % 2 != 0);
    return up ? tt_jarith(r, JTOK_ADD, J_INT(low), J_INT(unit), out) : (*out = J_INT(low), TT_OK);
}

static tt_status round_common(jrun *r, jval v, int64_t digits, jval *out)
{
    int64_t i = 0;
    double f = 0;
    if (tt_jis_int(v, &i)) {
        *out = J_INT(i);
        return digits >= 0 ? TT_OK : round_int(r, i, -digits, out);
    }
    if (v.type != JT_FLOAT)
        return tt_jfail(r, "type %s cannot be rounded", tt_jtype_name(v));
    J_TRY(tt_jround(r, v.f, digits, &f));
    *out = J_FLOAT(f);
    return TT_OK;
}

FILTER(f_round)
{
    int64_t digits = 0;
    bool ceiling = false, common = true;
    if (given(a[1])) {
        bool text = a[1].type == JT_STR;
        common = text && tt_jstr_is(a[1].s, "common");
        ceiling = text && tt_jstr_is(a[1].s, "ceil");
        if (!common && !ceiling && !(text && tt_jstr_is(a[1].s, "floor")))
            return tt_jfail(r, "round: the method must be common, ceil or floor");
    }
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    J_TRY(want_int(r, "round", a[0], 0, &digits));
    if (common)
        return round_common(r, v, digits, out);
    jval unit, scaled, whole;
    bool ok = false;
    J_TRY(tt_jarith(r, JTOK_POW, J_INT(10), J_INT(digits), &unit));
    J_TRY(tt_jarith(r, JTOK_MUL, v, unit, &scaled));
    whole = scaled;
    if (scaled.type == JT_FLOAT) {
        J_TRY(float_to_int(r, ceiling ? ceil(scaled.f) : floor(scaled.f), &ok, &whole));
        if (!ok)
            return tt_jfail(r, "cannot convert float NaN to integer");
    }
    return tt_jarith(r, JTOK_DIV, whole, unit, out);
}

FILTER(f_filesizeformat)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    jval f, n;
    bool bin = given(a[0]) && tt_jtruth(a[0]), ok = false;
    if (v.type != JT_STR && v.type != JT_FLOAT && v.type != JT_UNDEF && !tt_jis_int(v, &n.i))
        return tt_jfail(r, "filesizeformat takes a number, not %s", tt_jtype_name(v));
    J_TRY(f_float(r, v, &(jval){.type = JT_NONE}, NULL, &f));
    if (f.type == JT_NONE)
        return tt_jfail(r, "filesizeformat takes a number");
    double bytes = f.f, base = bin ? 1024 : 1000;
    tt_buf b;
    tt_buf_init(&b, 512);
    if (bytes == 1) {
        tt_buf_puts(&b, "1 Byte");
    } else if (bytes < base) {
        J_TRY(float_to_int(r, bytes, &ok, &n));
        tt_buf_printf(&b, "%lld Bytes", (long long)n.i);
    } else {
        int i = 0;
        double unit = base * base;
        for (; i < 7 && !(bytes < unit); i++)
            unit *= base;
        tt_jfloat_printf(&b, 'f', 1, false, base * bytes / unit);
        tt_buf_printf(&b, " %s", (bin ? binary : decimal)[i]);
    }
    return tt_jstr_buf(r, &b, out);
}

/* ---- others ---- */

FILTER(f_default)
{
    bool take = v.type == JT_UNDEF || (given(a[1]) && tt_jtruth(a[1]) && !tt_jtruth(v));
    tt_status st = TT_OK;
    *out = v;
    if (take)
        *out = given(a[0]) ? a[0] : tt_jstr_const(r, "", &st);
    return st;
}

FILTER(f_attr)
{
    if (a[0].type != JT_STR)
        return tt_jfail(r, "attr takes a name, not %s", tt_jtype_name(a[0]));
    if (v.type == JT_DICT && tt_jmethod(v, a[0].s) == NULL)
        return tt_jundef_of(r, v, a[0], out); /* unlike '.', attr does not look for items */
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    return tt_jgetattr(r, v, a[0].s, out);
}

FILTER(f_length)
{
    int64_t n = 0;
    J_TRY(tt_jlength(r, v, &n));
    *out = J_INT(n);
    return TT_OK;
}

FILTER(f_xmlattr)
{
    tt_buf b;
    bool space = !given(a[0]) || tt_jtruth(a[0]);
    if (v.type != JT_DICT)
        return tt_jfail(r, "xmlattr takes a mapping, not %s", tt_jtype_name(v));
    tt_buf_init(&b, r->o.max_memory);
    for (uint32_t i = 0; i < v.dict->n; i++) {
        jval k = v.dict->e[i].k, text = v.dict->e[i].v;
        tt_status st = TT_OK;
        if (text.type == JT_NONE || text.type == JT_UNDEF)
            continue;
        if (k.type != JT_STR)
            st = tt_jfail(r, "xmlattr: a key is no text");
        for (uint32_t c = 0; st == TT_OK && c < k.s->n; c++)
            if (strchr(" \t\n\r\f\v/>=", k.s->p[c]) != NULL)
                st = tt_jfail(r, "xmlattr: invalid character in an attribute name");
        if (st == TT_OK)
            st = tt_jescape(r, k, &k);
        if (st == TT_OK)
            st = tt_jescape(r, text, &text);
        if (st != TT_OK) {
            tt_buf_free(&b);
            return st;
        }
        if (b.len > 0 || space)
            tt_buf_putc(&b, ' ');
        tt_buf_append(&b, k.s->p, k.s->n);
        tt_buf_puts(&b, "=\"");
        tt_buf_append(&b, text.s->p, text.s->n);
        tt_buf_putc(&b, '"');
    }
    return tt_jstr_buf(r, &b, out);
}

static const jbuiltin filters[] = {
    {"abs", "", f_abs},
    {"attr", "name", f_attr},
    {"capitalize", "", f_capitalize},
    {"center", "width?", f_center},
    {"count", "", f_length},
    {"d", "default_value? boolean?", f_default},
    {"default", "default_value? boolean?", f_default},
    {"e", "", f_escape},
    {"escape", "", f_escape},
    {"filesizeformat", "binary?", f_filesizeformat},
    {"float", "default?", f_float},
    {"forceescape", "", f_forceescape},
    {"format", NULL, f_format},
    {"indent", "width? first? blank?", f_indent},
    {"int", "default? base?", f_int},
    {"length", "", f_length},
    {"lower", "", f_lower},
    {"replace", "old new count?", f_replace},
    {"round", "precision? method?", f_round},
    {"safe", "", f_safe},
    {"string", "", f_string},
    {"title", "", f_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", tt_jtojson},
    {"trim", "chars?", f_trim},
    {"truncate", "length? killwords? end? leeway?", f_truncate},
    {"upper", "", f_upper},
    {"urlencode", "", f_urlencode},
    {"wordcount", "", f_wordcount},
    {"xmlattr", "autospace?", f_xmlattr},
    {"pprint", NULL, NULL},
    {"striptags", NULL, NULL},
    {"urlize", NULL, NULL},
    {"wordwrap", NULL, NULL},
    {NULL, NULL, NULL}};

const jbuiltin *tt_jfilter(const jstr *name)
{
    const jbuiltin *b = tt_jbuiltin_find(filters, name);
    return b != NULL ? b : tt_jfilter_seq(name);
}
