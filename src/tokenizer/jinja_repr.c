/* Values to text as Python's str() and repr() write them, and text to numbers. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

/* ---- floats ---- */

/* Decimal digits of |f| rounded to n places and the exponent of the first, without a radix
 * character, which is the locale's. */
static int digits_of(double f, int n, char digits[32])
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", n - 1, fabs(f));
    int k = 0;
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[k++] = *p;
    digits[k] = '\0';
    return atoi(p + 1);
}

static double from_digits(const char *digits, int exp10)
{
    char text[64];
    snprintf(text, sizeof text, "%se%d", digits, exp10 - ((int)strlen(digits) - 1));
    return strtod(text, NULL);
}

/* The next larger number of as many digits; false when it would take one more. */
static bool next_digits(char *digits)
{
    for (size_t i = strlen(digits); i-- > 0;) {
        if (digits[i] != '9') {
            digits[i]++;
            return true;
        }
        digits[i] = '0';
    }
    return false;
}

static int shortest(double f, char digits[32])
{
    int half = 0;
    /* Above a power of two floats lie twice as far apart as below: there the nearest number of n
     * digits may miss f while the next one up still reads back as f. */
    bool power_of_two = frexp(fabs(f), &half) == 0.5;
    int exp10 = 0;
    /* Subnormal numbers hold fewer than 15 digits. */
    for (int n = fabs(f) < DBL_MIN ? 1 : 15; n <= 17; n++) {
        exp10 = digits_of(f, n, digits);
        if (from_digits(digits, exp10) == fabs(f))
            break;
        if (power_of_two && n < 17 && next_digits(digits) && from_digits(digits, exp10) == fabs(f))
            break;
    }
    size_t k = strlen(digits);
    while (k > 1 && digits[k - 1] == '0')
        digits[--k] = '\0';
    return exp10;
}

void tt_jfloat_repr(char out[40], double f)
{
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char digits[32], *p = out;
    int exp10 = shortest(f, digits), n = (int)strlen(digits);
    if (signbit(f))
        *p++ = '-';
    if (exp10 < -4 || exp10 >= 16) {
        sprintf(p, "%c%s%.16se%c%02u", digits[0], n > 1 ? "." : "", digits + 1,
                exp10 < 0 ? '-' : '+', (unsigned)abs(exp10) % 1000);
        return;
    }
    if (exp10 < 0) {
        p += sprintf(p, "0.");
        for (int i = exp10 + 1; i < 0; i++)
            *p++ = '0';
        strcpy(p, digits);
        return;
    }
    for (int i = 0; i <= exp10 || i < n; i++) {
        if (i == exp10 + 1)
            *p++ = '.';
        *p++ = i < n ? digits[i] : '0';
    }
    strcpy(p, n <= exp10 + 1 ? ".0" : "");
}

void tt_jfloat_printf(tt_buf *b, char fmt, int precision, bool alternate, double f)
{
    char spec[16], small[512], *text = small;
    snprintf(spec, sizeof spec, "%%%s.*%c", alternate ? "#" : "", fmt);
    int n = snprintf(small, sizeof small, spec, precision, f);
    if (n >= (int)sizeof small) {
        text = malloc((size_t)n + 1);
        if (text == NULL) {
            b->failed = TT_ERR_NOMEM;
            return;
        }
        snprintf(text, (size_t)n + 1, spec, precision, f);
    }
    bool radix = false;
    for (int i = 0; i < n; i++) {
        bool plain = strchr("0123456789+-einfaEINFA", text[i]) != NULL;
        if (plain)
            tt_buf_putc(b, text[i]);
        else if (!radix)
            tt_buf_putc(b, '.');
        radix = !plain;
    }
    if (text != small)
        free(text);
}

/* ---- str and repr ---- */

static void put_escaped(tt_buf *b, uint32_t cp)
{
    if (cp < 0x100)
        tt_buf_printf(b, "\\x%02x", cp);
    else if (cp < 0x10000)
        tt_buf_printf(b, "\\u%04x", cp);
    else
        tt_buf_printf(b, "\\U%08x", cp);
}

static void repr_str(tt_buf *b, const jstr *s, bool ascii)
{
    char quote = memchr(s->p, '\'', s->n) != NULL && memchr(s->p, '"', s->n) == NULL ? '"' : '\'';
    tt_buf_putc(b, quote);
    for (const char *p = s->p, *end = s->p + s->n; p < end;) {
        const char *at = p;
        uint32_t cp = tt_jcp_next(&p);
        if (cp == (uint32_t)quote || cp == '\\')
            tt_buf_putc(b, '\\');
        if (cp == '\n')
            tt_buf_puts(b, "\\n");
        else if (cp == '\r')
            tt_buf_puts(b, "\\r");
        else if (cp == '\t')
            tt_buf_puts(b, "\\t");
        else if (!tt_jcp_printable(cp) || (ascii && cp >= 0x80))
            put_escaped(b, cp);
        else
            tt_buf_append(b, at, (size_t)(p - at));
    }
    tt_buf_putc(b, quote);
}

static tt_status repr_items(jrun *r, tt_buf *b, const jlist *l, const char *open, const char *close,
                            bool ascii)
{
    tt_buf_puts(b, open);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i > 0)
            tt_buf_puts(b, ", ");
        J_TRY(tt_jrepr(r, b, l->v[i], ascii));
    }
    tt_buf_puts(b, close);
    return TT_OK;
}

static tt_status repr_dict(jrun *r, tt_buf *b, jdict *d, bool ascii)
{
    if (d->busy) {
        tt_buf_puts(b, "{...}");
        return TT_OK;
    }
    d->busy = true;
    tt_buf_putc(b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i > 0)
            tt_buf_puts(b, ", ");
        J_TRY(tt_jrepr(r, b, d->e[i].k, ascii));
        tt_buf_puts(b, ": ");
        J_TRY(tt_jrepr(r, b, d->e[i].v, ascii));
    }
    tt_buf_putc(b, '}');
    d->busy = false;
    return TT_OK;
}

static tt_status repr_view(jrun *r, tt_buf *b, const jview *v, bool ascii)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    tt_buf_puts(b, names[v->kind]);
    for (uint32_t i = 0; i < v->dict->n; i++) {
        jval item;
        if (i > 0)
            tt_buf_puts(b, ", ");
        J_TRY(tt_jview_item(r, v, i, &item));
        J_TRY(tt_jrepr(r, b, item, ascii));
    }
    tt_buf_puts(b, "])");
    return TT_OK;
}

static void repr_range(tt_buf *b, const jrange *g)
{
    tt_buf_printf(b, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        tt_buf_printf(b, ", %lld", (long long)g->step);
    tt_buf_putc(b, ')');
}

static tt_status repr_loop(jrun *r, tt_buf *b, jval v)
{
    int64_t n = 0;
    J_TRY(tt_jlength(r, v, &n));
    tt_buf_printf(b, "<LoopContext %lld/%lld>", (long long)v.loop->index0 + 1, (long long)n);
    return TT_OK;
}

static void repr_macro(tt_buf *b, const jmacro *m)
{
    tt_buf_puts(b, "<Macro ");
    if (m->name == NULL)
        tt_buf_puts(b, "anonymous");
    else
        repr_str(b, m->name, false);
    tt_buf_putc(b, '>');
}

/* Classes print without an address, so templates may depend on it. */
static void repr_function(tt_buf *b, const jbuiltin *f)
{
    static const struct {
        const char *name, *text;
    } classes[] = {{"dict", "dict"},
                   {"namespace", "jinja2.utils.Namespace"},
                   {"cycler", "jinja2.utils.Cycler"},
                   {"joiner", "jinja2.utils.Joiner"}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strcmp(f->name, classes[i].name) == 0) {
            tt_buf_printf(b, "<class '%s'>", classes[i].text);
            return;
        }
    tt_buf_printf(b, "<function %s>", f->name);
}

static tt_status repr_other(jrun *r, tt_buf *b, jval v, bool ascii)
{
    switch ((jtype)v.type) {
    case JT_LIST:
        return repr_items(r, b, v.list, "[", "]", ascii);
    case JT_TUPLE:
        return repr_items(r, b, v.list, "(", v.list->n == 1 ? ",)" : ")", ascii);
    case JT_DICT:
        return repr_dict(r, b, v.dict, ascii);
    case JT_NAMESPACE:
        tt_buf_puts(b, "<Namespace ");
        J_TRY(repr_dict(r, b, v.dict, ascii));
        tt_buf_putc(b, '>');
        return TT_OK;
    case JT_VIEW:
        return repr_view(r, b, v.view, ascii);
    case JT_RANGE:
        repr_range(b, v.range);
        return TT_OK;
    case JT_LOOP:
        return repr_loop(r, b, v);
    case JT_MACRO:
        repr_macro(b, v.macro);
        return TT_OK;
    case JT_FUNC:
        repr_function(b, v.func);
        return TT_OK;
    default:
        tt_buf_printf(b, "<%s object>", tt_jtype_name(v));
        return TT_OK;
    }
}

tt_status tt_jrepr(jrun *r, tt_buf *b, jval v, bool ascii)
{
    char text[40];
    J_TRY(tt_jenter(r));
    r->depth--;
    switch ((jtype)v.type) {
    case JT_MISSING:
    case JT_UNDEF:
        tt_buf_puts(b, "Undefined");
        return TT_OK;
    case JT_NONE:
        tt_buf_puts(b, "None");
        return TT_OK;
    case JT_BOOL:
        tt_buf_puts(b, v.b ? "True" : "False");
        return TT_OK;
    case JT_INT:
        tt_buf_printf(b, "%lld", (long long)v.i);
        return TT_OK;
    case JT_FLOAT:
        tt_jfloat_repr(text, v.f);
        tt_buf_puts(b, text);
        return TT_OK;
    case JT_STR:
        if (v.flag & J_MARKUP)
            tt_buf_puts(b, "Markup(");
        repr_str(b, v.s, ascii);
        if (v.flag & J_MARKUP)
            tt_buf_putc(b, ')');
        return tt_jcharge(r, v.s->n / 16);
    default:
        break;
    }
    r->depth++;
    tt_status st = repr_other(r, b, v, ascii);
    r->depth--;
    return st;
}

tt_status tt_jprint(jrun *r, tt_buf *b, jval v)
{
    if (v.type == JT_UNDEF)
        return TT_OK;
    if (v.type != JT_STR)
        return tt_jrepr(r, b, v, false);
    tt_buf_append(b, v.s->p, v.s->n);
    return tt_jcharge(r, v.s->n / 256);
}

tt_status tt_jto_str(jrun *r, jval v, jval *out)
{
    tt_buf b;
    if (v.type == JT_STR) {
        *out = J_STR(v.s);
        return TT_OK;
    }
    tt_buf_init(&b, r->o.max_memory);
    tt_status st = tt_jprint(r, &b, v);
    if (st != TT_OK) {
        tt_buf_free(&b);
        return st;
    }
    return tt_jstr_buf(r, &b, out);
}

/* ---- text to numbers ---- */

/* Digits of every script become ASCII, white space around goes. False: too long or other text. */
static bool to_ascii(const jstr *s, char *out, size_t cap)
{
    const char *p = s->p, *end = s->p + s->n;
    size_t n = 0;
    while (p < end) {
        const char *q = p;
        if (!tt_jcp_space(tt_jcp_next(&q)))
            break;
        p = q;
    }
    while (end > p) {
        const char *q = end;
        if (!tt_jcp_space(tt_jcp_prev(&q)))
            break;
        end = q;
    }
    while (p < end) {
        uint32_t cp = tt_jcp_next(&p);
        int d = tt_jcp_decimal_value(cp);
        if (n + 1 >= cap || (d < 0 && (cp >= 0x80 || cp <= 0x20)))
            return false;
        out[n++] = d >= 0 ? (char)('0' + d) : (char)cp;
    }
    out[n] = '\0';
    return n > 0;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
        return (c | 0x20) - 'a' + 10;
    return 99;
}

static bool int_prefix(const char **p, int *base)
{
    int with = 10;
    if ((*p)[0] == '0')
        with = ((*p)[1] | 0x20) == 'x'   ? 16
               : ((*p)[1] | 0x20) == 'o' ? 8
               : ((*p)[1] | 0x20) == 'b' ? 2
                                         : 10;
    if (with != 10 && (*base == 0 || *base == with)) {
        *base = with;
        *p += 2;
        if (**p == '_')
            ++*p;
        return true;
    }
    if (*base != 0)
        return true;
    *base = 10;
    if ((*p)[0] != '0')
        return true;
    for (const char *q = *p; *q != '\0'; q++)
        if (*q != '0' && *q != '_')
            return false; /* base 0 takes no leading zeros */
    return true;
}

tt_status tt_jparse_int(jrun *r, const jstr *s, int base, int64_t *i, bool *ok)
{
    char text[512];
    const char *p = text;
    *ok = false;
    if ((base != 0 && (base < 2 || base > 36)) || !to_ascii(s, text, sizeof text))
        return TT_OK;
    bool negative = *p == '-', digit = false;
    if (*p == '-' || *p == '+')
        p++;
    if (!int_prefix(&p, &base))
        return TT_OK;
    int64_t v = 0;
    bool overflow = false;
    for (; *p != '\0'; p++) {
        if (*p == '_' && digit && p[1] != '\0') {
            digit = false;
            continue;
        }
        int d = digit_value(*p);
        if (d >= base)
            return TT_OK;
        overflow |= __builtin_mul_overflow(v, (int64_t)base, &v) ||
                    __builtin_sub_overflow(v, (int64_t)d, &v);
        digit = true;
    }
    if (!digit)
        return TT_OK;
    if (!negative)
        overflow |= __builtin_sub_overflow((int64_t)0, v, &v);
    if (overflow)
        return tt_jfail(r, "an integer needs more than 64 bits");
    *ok = true;
    *i = v;
    return TT_OK;
}

/* Copies digits without underscores; NULL when an underscore is not between two digits. */
static const char *copy_digits(const char *p, char **to)
{
    const char *start = p;
    for (;; p++) {
        if (*p >= '0' && *p <= '9')
            *(*to)++ = *p;
        else if (*p != '_')
            return p;
        else if (p == start || p[-1] == '_' || p[1] < '0' || p[1] > '9')
            return NULL;
    }
}

static bool special_float(const char *p, double *f)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"inf", INFINITY}, {"infinity", INFINITY}, {"nan", NAN}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(p, names[i].name) == 0) {
            *f = names[i].value;
            return true;
        }
    return false;
}

bool tt_jparse_float(const jstr *s, double *f)
{
    char text[2048], clean[2048 + 16], *to = clean;
    if (!to_ascii(s, text, sizeof text))
        return false;
    const char *p = text;
    bool negative = *p == '-';
    long exponent = 0, shift = 0;
    if (*p == '-' || *p == '+')
        p++;
    if (special_float(p, f)) {
        *f = negative ? -*f : *f;
        return true;
    }
    p = copy_digits(p, &to);
    if (p != NULL && *p == '.') {
        const char *point = to;
        p = copy_digits(p + 1, &to);
        shift = to - point;
    }
    if (p == NULL || to == clean)
        return false;
    if ((*p | 0x20) == 'e') {
        char digits[2048], *d = digits;
        bool minus = p[1] == '-';
        p += p[1] == '-' || p[1] == '+' ? 2 : 1;
        p = copy_digits(p, &d);
        if (p == NULL || d == digits)
            return false;
        *d = '\0';
        exponent = strtol(digits, NULL, 10);
        exponent = exponent > 1000000 ? 1000000 : exponent;
        exponent = minus ? -exponent : exponent;
    }
    if (*p != '\0')
        return false;
    sprintf(to, "e%ld", exponent - shift);
    *f = strtod(clean, NULL);
    *f = negative ? -*f : *f;
    return true;
}
