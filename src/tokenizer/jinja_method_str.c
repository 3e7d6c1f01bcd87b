/* Methods of text. Markup's own versions escape their arguments and give Markup back. */
#include <string.h>

#include "tokenizer/jinja_int.h"

#define METHOD(name) static tt_status name(jrun *r, jval v, jval *a, const jargs *raw, jval *out)

static tt_status markup_like(jval v, jval *out)
{
    out->flag = v.flag;
    return TT_OK;
}

/* A text argument of a method; Markup's methods escape it first. */
static tt_status text_arg(jrun *r, jval v, jval arg, const jstr **out)
{
    if (arg.type != JT_STR)
        return tt_jfail(r, "a text is needed, not %s", tt_jtype_name(arg));
    if (v.flag & J_MARKUP)
        J_TRY(tt_jescape(r, arg, &arg));
    *out = arg.s;
    return TT_OK;
}

static tt_status optional_text(jrun *r, jval v, jval arg, const jstr **out)
{
    *out = NULL;
    return arg.type == JT_MISSING || arg.type == JT_NONE ? TT_OK : text_arg(r, v, arg, out);
}

static tt_status int_arg(jrun *r, jval arg, int64_t dflt, int64_t *out)
{
    *out = dflt;
    if (arg.type == JT_MISSING || tt_jis_int(arg, out))
        return TT_OK;
    return tt_jfail(r, "an integer is needed, not %s", tt_jtype_name(arg));
}

/* ---- case ---- */

static tt_status cased(jrun *r, jval v, jcase how, jval *out)
{
    J_TRY(tt_jstr_case(r, v.s, how, out));
    return markup_like(v, out);
}

METHOD(s_lower)
{
    return cased(r, v, JCASE_LOWER, out);
}
METHOD(s_upper)
{
    return cased(r, v, JCASE_UPPER, out);
}

METHOD(s_casefold)
{
    return tt_jstr_case(r, v.s, JCASE_FOLD, out);
}

METHOD(s_title)
{
    J_TRY(tt_jstr_title(r, v.s, out));
    return markup_like(v, out);
}

METHOD(s_capitalize)
{
    J_TRY(tt_jstr_capitalize(r, v.s, out));
    return markup_like(v, out);
}

METHOD(s_swapcase)
{
    J_TRY(tt_jstr_swapcase(r, v.s, out));
    return markup_like(v, out);
}

/* ---- stripping ---- */

static tt_status strip(jrun *r, jval v, jval *a, bool left, bool right, jval *out)
{
    const jstr *chars = NULL;
    J_TRY(optional_text(r, v, a[0], &chars));
    J_TRY(tt_jstr_strip(r, v.s, chars, left, right, out));
    return markup_like(v, out);
}

METHOD(s_strip)
{
    return strip(r, v, a, true, true, out);
}
METHOD(s_lstrip)
{
    return strip(r, v, a, true, false, out);
}
METHOD(s_rstrip)
{
    return strip(r, v, a, false, true, out);
}

static bool prefix_of(const jstr *s, const jstr *x)
{
    return s->n >= x->n && memcmp(s->p, x->p, x->n) == 0;
}

static bool suffix_of(const jstr *s, const jstr *x)
{
    return s->n >= x->n && memcmp(s->p + s->n - x->n, x->p, x->n) == 0;
}

METHOD(s_removeprefix)
{
    if (a[0].type != JT_STR)
        return tt_jfail(r, "a text is needed, not %s", tt_jtype_name(a[0]));
    return tt_jsubstr(r, v.s, prefix_of(v.s, a[0].s) ? a[0].s->n : 0, v.s->n, out);
}

METHOD(s_removesuffix)
{
    if (a[0].type != JT_STR)
        return tt_jfail(r, "a text is needed, not %s", tt_jtype_name(a[0]));
    return tt_jsubstr(r, v.s, 0, v.s->n - (suffix_of(v.s, a[0].s) ? a[0].s->n : 0), out);
}

/* ---- searching: all bounds are code points as in Python ---- */

typedef struct window {
    const char *p, *end;
    bool valid; /* false: start lies behind the text */
} window;

static tt_status bounds(jrun *r, jval v, jval from, jval to, window *w)
{
    int64_t n = v.s->cp, start = 0, stop = n;
    if (from.type != JT_NONE)
        J_TRY(int_arg(r, from, 0, &start));
    if (to.type != JT_NONE)
        J_TRY(int_arg(r, to, n, &stop));
    if (stop > n)
        stop = n;
    if (stop < 0)
        stop = stop + n < 0 ? 0 : stop + n;
    if (start < 0)
        start = start + n < 0 ? 0 : start + n;
    w->valid = start <= stop;
    w->p = v.s->p + tt_jcp_offset(v.s, (size_t)(start > n ? n : start));
    w->end = w->valid ? v.s->p + tt_jcp_offset(v.s, (size_t)stop) : w->p;
    return tt_jcharge(r, v.s->n / 64);
}

static const char *find_last(const char *p, const char *end, const jstr *x)
{
    for (const char *q = end - x->n; q >= p; q--)
        if (memcmp(q, x->p, x->n) == 0)
            return q;
    return NULL;
}

static tt_status find(jrun *r, jval v, jval *a, bool last, int64_t *at)
{
    window w;
    if (a[0].type != JT_STR)
        return tt_jfail(r, "a text is needed, not %s", tt_jtype_name(a[0]));
    J_TRY(bounds(r, v, a[1], a[2], &w));
    const jstr *x = a[0].s;
    const char *q = NULL;
    if (w.valid && (size_t)(w.end - w.p) >= x->n)
        q = last ? find_last(w.p, w.end, x) : tt_jfind(w.p, (size_t)(w.end - w.p), x->p, x->n);
    if (last)
        J_TRY(tt_jcharge(r, (uint64_t)(w.end - w.p) * (1 + x->n / 64) / 16));
    *at = q == NULL ? -1 : (int64_t)tt_jcp_index(v.s, (size_t)(q - v.s->p));
    return TT_OK;
}

static tt_status find_or(jrun *r, jval v, jval *a, bool last, bool must, jval *out)
{
    int64_t at = 0;
    J_TRY(find(r, v, a, last, &at));
    if (must && at < 0)
        return tt_jfail(r, "substring not found");
    *out = J_INT(at);
    return TT_OK;
}

METHOD(s_find)
{
    return find_or(r, v, a, false, false, out);
}
METHOD(s_rfind)
{
    return find_or(r, v, a, true, false, out);
}
METHOD(s_index)
{
    return find_or(r, v, a, false, true, out);
}
METHOD(s_rindex)
{
    return find_or(r, v, a, true, true, out);
}

METHOD(s_count)
{
    window w;
    int64_t n = 0;
    if (a[0].type != JT_STR)
        return tt_jfail(r, "a text is needed, not %s", tt_jtype_name(a[0]));
    J_TRY(bounds(r, v, a[1], a[2], &w));
    const jstr *x = a[0].s;
    if (x->n == 0) {
        for (const char *p = w.p; p < w.end; p++)
            n += ((unsigned char)*p & 0xC0) != 0x80;
        *out = J_INT(w.valid ? n + 1 : 0);
        return TT_OK;
    }
    const char *p = w.p;
    while (w.valid && (p = tt_jfind(p, (size_t)(w.end - p), x->p, x->n)) != NULL) {
        n++;
        p += x->n;
    }
    *out = J_INT(n);
    return TT_OK;
}

static tt_status affix(jrun *r, jval v, jval *a, bool suffix, jval *out)
{
    window w;
    jval one = a[0];
    const jval *list = &one;
    uint32_t n = 1;
    if (a[0].type == JT_TUPLE) {
        list = a[0].list->v;
        n = a[0].list->n;
    }
    J_TRY(bounds(r, v, a[1], a[2], &w));
    bool yes = false;
    for (uint32_t i = 0; i < n && !yes; i++) {
        if (list[i].type != JT_STR)
            return tt_jfail(r, "%s takes a text or a tuple of texts, not %s",
                            suffix ? "endswith" : "startswith", tt_jtype_name(list[i]));
        jstr part = {.p = w.p, .n = (uint32_t)(w.end - w.p)};
        yes = w.valid && (suffix ? suffix_of(&part, list[i].s) : prefix_of(&part, list[i].s));
    }
    *out = J_BOOL(yes);
    return TT_OK;
}

METHOD(s_startswith)
{
    return affix(r, v, a, false, out);
}
METHOD(s_endswith)
{
    return affix(r, v, a, true, out);
}

METHOD(s_replace)
{
    const jstr *old = NULL, *with = NULL;
    int64_t count = -1;
    J_TRY(text_arg(r, v, a[0], &old));
    J_TRY(text_arg(r, v, a[1], &with));
    J_TRY(int_arg(r, a[2], -1, &count));
    J_TRY(tt_jstr_replace(r, v.s, old, with, count, out));
    return markup_like(v, out);
}

/* ---- splitting ---- */

static tt_status add_piece(jrun *r, jlist *l, jval v, const char *from, const char *to)
{
    jval piece;
    J_TRY(tt_jsubstr(r, v.s, (size_t)(from - v.s->p), (size_t)(to - v.s->p), &piece));
    piece.flag = v.flag;
    return tt_jlist_add(r, l, piece);
}

static const char *skip(const char *p, const char *end, bool space)
{
    while (p < end) {
        const char *q = p;
        if (tt_jcp_space(tt_jcp_next(&q)) != space)
            break;
        p = q;
    }
    return p;
}

static const char *skip_back(const char *p, const char *end, bool space)
{
    while (end > p) {
        const char *q = end;
        if (tt_jcp_space(tt_jcp_prev(&q)) != space)
            break;
        end = q;
    }
    return end;
}

static tt_status split_space(jrun *r, jval v, int64_t max, jlist *l)
{
    const char *end = v.s->p + v.s->n, *p = skip(v.s->p, end, true);
    for (; p < end && max > 0; max--) {
        const char *q = skip(p, end, false);
        J_TRY(add_piece(r, l, v, p, q));
        p = skip(q, end, true);
    }
    return p < end ? add_piece(r, l, v, p, end) : TT_OK;
}

static tt_status rsplit_space(jrun *r, jval v, int64_t max, jlist *l)
{
    const char *start = v.s->p, *p = skip_back(start, start + v.s->n, true);
    for (; p > start && max > 0; max--) {
        const char *q = skip_back(start, p, false);
        J_TRY(add_piece(r, l, v, q, p));
        p = skip_back(start, q, true);
    }
    return p > start ? add_piece(r, l, v, start, p) : TT_OK;
}

static tt_status split_sep(jrun *r, jval v, const jstr *sep, int64_t max, jlist *l)
{
    const char *p = v.s->p, *end = p + v.s->n, *q;
    for (; max > 0; max--) {
        q = tt_jfind(p, (size_t)(end - p), sep->p, sep->n);
        if (q == NULL)
            break;
        J_TRY(add_piece(r, l, v, p, q));
        p = q + sep->n;
    }
    return add_piece(r, l, v, p, end);
}

static tt_status rsplit_sep(jrun *r, jval v, const jstr *sep, int64_t max, jlist *l)
{
    const char *start = v.s->p, *p = start + v.s->n, *q;
    for (; max > 0; max--) {
        q = (size_t)(p - start) < sep->n ? NULL : find_last(start, p, sep);
        J_TRY(tt_jcharge(r, (uint64_t)(p - (q == NULL ? start : q)) / 16));
        if (q == NULL)
            break;
        J_TRY(add_piece(r, l, v, q + sep->n, p));
        p = q;
    }
    return add_piece(r, l, v, start, p);
}

static tt_status split(jrun *r, jval v, jval *a, bool right, jval *out)
{
    jlist *l = NULL;
    const jstr *sep = NULL;
    int64_t max = -1;
    if (a[0].type != JT_MISSING && a[0].type != JT_NONE) {
        if (a[0].type != JT_STR)
            return tt_jfail(r, "a separator must be a text or none, not %s", tt_jtype_name(a[0]));
        sep = a[0].s;
        if (sep->n == 0)
            return tt_jfail(r, "empty separator");
    }
    J_TRY(int_arg(r, a[1], -1, &max));
    if (max < 0)
        max = INT64_MAX;
    J_TRY(tt_jlist_new(r, 8, &l));
    J_TRY(tt_jcharge(r, v.s->n / 64));
    if (sep == NULL)
        J_TRY(right ? rsplit_space(r, v, max, l) : split_space(r, v, max, l));
    else
        J_TRY(right ? rsplit_sep(r, v, sep, max, l) : split_sep(r, v, sep, max, l));
    for (uint32_t i = 0; right && i < l->n / 2; i++) {
        jval swap = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = swap;
    }
    *out = J_LIST(l);
    return TT_OK;
}

METHOD(s_split)
{
    return split(r, v, a, false, out);
}
METHOD(s_rsplit)
{
    return split(r, v, a, true, out);
}

static bool line_end(uint32_t cp)
{
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

tt_status tt_jstr_lines(jrun *r, jval v, bool keep, jlist **out)
{
    const char *p = v.s->p, *end = p + v.s->n, *start = p;
    J_TRY(tt_jlist_new(r, 8, out));
    J_TRY(tt_jcharge(r, v.s->n / 32));
    while (p < end) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        if (!line_end(cp))
            continue;
        if (cp == '\r' && p < end && *p == '\n')
            p++;
        J_TRY(add_piece(r, *out, v, start, keep ? p : at));
        start = p;
    }
    return start < end ? add_piece(r, *out, v, start, end) : TT_OK;
}

METHOD(s_splitlines)
{
    jlist *l = NULL;
    int64_t keep = 0;
    J_TRY(int_arg(r, a[0], 0, &keep));
    J_TRY(tt_jstr_lines(r, v, keep != 0, &l));
    *out = J_LIST(l);
    return TT_OK;
}

static tt_status partition(jrun *r, jval v, jval *a, bool right, jval *out)
{
    jlist *l = NULL;
    const jstr *sep = NULL;
    J_TRY(text_arg(r, v, a[0], &sep));
    if (sep->n == 0)
        return tt_jfail(r, "empty separator");
    const char *p = v.s->p, *end = p + v.s->n, *q;
    J_TRY(tt_jcharge(r, v.s->n / 16));
    q = v.s->n < sep->n ? NULL
        : right         ? find_last(p, end, sep)
                        : tt_jfind(p, v.s->n, sep->p, sep->n);
    J_TRY(tt_jlist_new(r, 3, &l));
    const char *cut = q != NULL ? q : right ? p : end;
    const char *rest = q != NULL ? q + sep->n : cut;
    J_TRY(add_piece(r, l, v, p, cut));
    J_TRY(add_piece(r, l, v, cut, rest));
    J_TRY(add_piece(r, l, v, rest, end));
    *out = J_TUPLE(l);
    return TT_OK;
}

METHOD(s_partition)
{
    return partition(r, v, a, false, out);
}
METHOD(s_rpartition)
{
    return partition(r, v, a, true, out);
}

METHOD(s_join)
{
    bool markup = (v.flag & J_MARKUP) != 0;
    if (!markup)
        return tt_jstr_join(r, v.s, a[0], NULL, false, out);
    jlist *l = NULL;
    J_TRY(tt_jto_list(r, a[0], &l));
    for (uint32_t i = 0; i < l->n; i++)
        J_TRY(tt_jescape(r, l->v[i], &l->v[i]));
    J_TRY(tt_jstr_join(r, v.s, J_LIST(l), NULL, false, out));
    return markup_like(v, out);
}

/* ---- padding ---- */

tt_status tt_jstr_pad(jrun *r, jval v, int64_t left, int64_t right, const jstr *fill, jval *out)
{
    jval l, t;
    J_TRY(tt_jstr_repeat(r, fill, left, &l));
    J_TRY(tt_jstr_repeat(r, fill, right, &t));
    J_TRY(tt_jconcat(r, l.s, v.s, &l));
    J_TRY(tt_jconcat(r, l.s, t.s, out));
    return markup_like(v, out);
}

static tt_status justify(jrun *r, jval v, jval *a, char how, jval *out)
{
    static const jstr blank = {.p = " ", .n = 1, .cp = 1};
    const jstr *fill = &blank;
    int64_t width = 0;
    J_TRY(int_arg(r, a[0], 0, &width));
    if (a[1].type != JT_MISSING)
        J_TRY(text_arg(r, v, a[1], &fill));
    if (fill->cp != 1)
        return tt_jfail(r, "the fill character must be exactly one character long");
    int64_t gap = width > (int64_t)v.s->cp ? width - v.s->cp : 0;
    /* CPython's str.center: an odd blank goes left when both the gap and the width are odd. */
    int64_t left = how == '<' ? 0 : how == '>' ? gap : gap / 2 + (gap & width & 1);
    return tt_jstr_pad(r, v, left, gap - left, fill, out);
}

METHOD(s_ljust)
{
    return justify(r, v, a, '<', out);
}
METHOD(s_rjust)
{
    return justify(r, v, a, '>', out);
}
METHOD(s_center)
{
    return justify(r, v, a, '^', out);
}

METHOD(s_zfill)
{
    static const jstr zero = {.p = "0", .n = 1, .cp = 1};
    int64_t width = 0;
    J_TRY(int_arg(r, a[0], 0, &width));
    int64_t gap = width > (int64_t)v.s->cp ? width - v.s->cp : 0;
    bool sign = v.s->n > 0 && (v.s->p[0] == '-' || v.s->p[0] == '+');
    jval head, body, zeros;
    J_TRY(tt_jsubstr(r, v.s, 0, sign, &head));
    J_TRY(tt_jsubstr(r, v.s, sign, v.s->n, &body));
    J_TRY(tt_jstr_repeat(r, &zero, gap, &zeros));
    J_TRY(tt_jconcat(r, head.s, zeros.s, &head));
    J_TRY(tt_jconcat(r, head.s, body.s, out));
    return markup_like(v, out);
}

METHOD(s_expandtabs)
{
    int64_t size = 8, column = 0;
    tt_buf b;
    J_TRY(int_arg(r, a[0], 8, &size));
    tt_buf_init(&b, r->o.max_memory);
    for (const char *p = v.s->p, *end = p + v.s->n; p < end && b.failed == TT_OK;) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        if (cp != '\t') {
            tt_buf_append(&b, at, (size_t)(p - at));
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
            continue;
        }
        int64_t n = size > 0 ? size - column % size : 0;
        if (n > (int64_t)b.max)
            b.failed = TT_ERR_LIMIT;
        for (int64_t i = 0; i < n && b.failed == TT_OK; i++)
            tt_buf_putc(&b, ' ');
        column += n;
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    J_TRY(tt_jcharge(r, out->s->n / 16));
    return markup_like(v, out);
}

/* ---- asking ---- */

static tt_status every(jval v, bool (*is)(uint32_t cp), bool of_empty, jval *out)
{
    bool yes = v.s->n > 0 || of_empty;
    for (const char *p = v.s->p, *end = p + v.s->n; yes && p < end;)
        yes = is(tt_jcp_next(&p));
    *out = J_BOOL(yes);
    return TT_OK;
}

static bool alnum(uint32_t cp)
{
    return tt_jcp_alpha(cp) || tt_jcp_decimal(cp) || tt_jcp_digit(cp) || tt_jcp_numeric(cp);
}

static bool ascii(uint32_t cp)
{
    return cp < 0x80;
}

METHOD(s_isalpha)
{
    return every(v, tt_jcp_alpha, false, out);
}
METHOD(s_isalnum)
{
    return every(v, alnum, false, out);
}
METHOD(s_isascii)
{
    return every(v, ascii, true, out);
}
METHOD(s_isdecimal)
{
    return every(v, tt_jcp_decimal, false, out);
}
METHOD(s_isdigit)
{
    return every(v, tt_jcp_digit, false, out);
}
METHOD(s_isnumeric)
{
    return every(v, tt_jcp_numeric, false, out);
}
METHOD(s_isspace)
{
    return every(v, tt_jcp_space, false, out);
}
METHOD(s_isprintable)
{
    return every(v, tt_jcp_printable, true, out);
}

METHOD(s_isidentifier)
{
    bool yes = v.s->n > 0, first = true;
    for (const char *p = v.s->p, *end = p + v.s->n; yes && p < end; first = false)
        yes = tt_jcp_name(tt_jcp_next(&p), first);
    *out = J_BOOL(yes);
    return TT_OK;
}

METHOD(s_islower)
{
    static const jstr name = {.p = "lower", .n = 5, .cp = 5};
    return tt_jinvoke(r, tt_jtest(&name), v, &(jargs){0}, out);
}

METHOD(s_isupper)
{
    static const jstr name = {.p = "upper", .n = 5, .cp = 5};
    return tt_jinvoke(r, tt_jtest(&name), v, &(jargs){0}, out);
}

METHOD(s_istitle)
{
    bool cased = false, inside = false, yes = true;
    for (const char *p = v.s->p, *end = p + v.s->n; yes && p < end;) {
        uint32_t cp = tt_jcp_next(&p);
        if (tt_jcp_upper(cp) || tt_jcp_title(cp)) {
            yes = !inside;
            inside = cased = true;
        } else if (tt_jcp_lower(cp)) {
            yes = inside;
            inside = cased = true;
        } else {
            inside = false;
        }
    }
    *out = J_BOOL(yes && cased);
    return TT_OK;
}

METHOD(s_format)
{
    return tt_jformat(r, v, raw, out);
}

METHOD(s_format_map)
{
    if (a[0].type != JT_DICT)
        return tt_jfail(r, "format_map takes a mapping, not %s", tt_jtype_name(a[0]));
    return tt_jformat(r, v, &(jargs){.kw = a[0].dict}, out);
}

static const jbuiltin methods[] = {{"capitalize", "", s_capitalize},
                                   {"casefold", "", s_casefold},
                                   {"center", "/width /fillchar?", s_center},
                                   {"count", "/sub /start? /end?", s_count},
                                   {"encode", NULL, NULL},
                                   {"endswith", "/suffix /start? /end?", s_endswith},
                                   {"expandtabs", "tabsize?", s_expandtabs},
                                   {"find", "/sub /start? /end?", s_find},
                                   {"format", NULL, s_format},
                                   {"format_map", "/mapping", s_format_map},
                                   {"index", "/sub /start? /end?", s_index},
                                   {"isalnum", "", s_isalnum},
                                   {"isalpha", "", s_isalpha},
                                   {"isascii", "", s_isascii},
                                   {"isdecimal", "", s_isdecimal},
                                   {"isdigit", "", s_isdigit},
                                   {"isidentifier", "", s_isidentifier},
                                   {"islower", "", s_islower},
                                   {"isnumeric", "", s_isnumeric},
                                   {"isprintable", "", s_isprintable},
                                   {"isspace", "", s_isspace},
                                   {"istitle", "", s_istitle},
                                   {"isupper", "", s_isupper},
                                   {"join", "/iterable", s_join},
                                   {"ljust", "/width /fillchar?", s_ljust},
                                   {"lower", "", s_lower},
                                   {"lstrip", "/chars?", s_lstrip},
                                   {"maketrans", NULL, NULL},
                                   {"partition", "/sep", s_partition},
                                   {"removeprefix", "/prefix", s_removeprefix},
                                   {"removesuffix", "/suffix", s_removesuffix},
                                   {"replace", "/old /new /count?", s_replace},
                                   {"rfind", "/sub /start? /end?", s_rfind},
                                   {"rindex", "/sub /start? /end?", s_rindex},
                                   {"rjust", "/width /fillchar?", s_rjust},
                                   {"rpartition", "/sep", s_rpartition},
                                   {"rsplit", "sep? maxsplit?", s_rsplit},
                                   {"rstrip", "/chars?", s_rstrip},
                                   {"split", "sep? maxsplit?", s_split},
                                   {"splitlines", "keepends?", s_splitlines},
                                   {"startswith", "/prefix /start? /end?", s_startswith},
                                   {"strip", "/chars?", s_strip},
                                   {"swapcase", "", s_swapcase},
                                   {"title", "", s_title},
                                   {"translate", NULL, NULL},
                                   {"upper", "", s_upper},
                                   {"zfill", "/width", s_zfill},
                                   {NULL, NULL, NULL}};

const jbuiltin *tt_jstr_method(const jstr *name)
{
    return tt_jbuiltin_find(methods, name);
}
