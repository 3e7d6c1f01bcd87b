/* Fields: fill, alignment, sign, grouped digits. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "tokenizer/jinja_format.h"

#define MAX_FIELD ((int64_t)1 << 22) /* blanks on one side of a field */

static void pad(tt_buf *b, uint32_t fill, int64_t n)
{
    char utf8[4];
    size_t len = tt_jcp_put(fill == 0 ? ' ' : fill, utf8);
    if (n > MAX_FIELD)
        b->failed = b->failed == TT_OK ? TT_ERR_LIMIT : b->failed;
    for (int64_t i = 0; i < n && b->failed == TT_OK; i++)
        tt_buf_append(b, utf8, len);
}

void tt_jlay_text(tt_buf *b, const jspec *s, const jstr *text, char dflt)
{
    size_t n = text->n;
    int64_t cp = text->cp;
    if (s->precision >= 0 && s->precision < cp) {
        n = tt_jcp_offset(text, (size_t)s->precision);
        cp = s->precision;
    }
    int64_t gap = s->width > cp ? s->width - cp : 0;
    char align = s->align ? s->align : dflt;
    int64_t left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
    pad(b, s->fill, left);
    tt_buf_append(b, text->p, n);
    pad(b, s->fill, gap - left);
}

/* Digits with separators, at least min_width characters by way of zeros in front. */
static void group(tt_buf *b, const char *digits, size_t n, char sep, int size, int64_t min_width)
{
    char out[2048];
    size_t at = sizeof out;
    int64_t left = (int64_t)n, need = min_width;
    if (need > 1024)
        b->failed = b->failed == TT_OK ? TT_ERR_LIMIT : b->failed;
    bool separate = false;
    while (b->failed == TT_OK && at > (size_t)size + 1) {
        int64_t most = left > need ? left : need;
        int64_t l = most < 1 ? 1 : most < size ? most : size;
        if (separate)
            out[--at] = sep;
        separate = true;
        for (int64_t i = 0; i < l; i++)
            out[--at] = left > 0 ? digits[--left] : '0';
        need -= l;
        if (left <= 0 && need <= 0)
            break;
        need--;
    }
    tt_buf_append(b, out + at, sizeof out - at);
}

void tt_jlay_number(tt_buf *b, const jspec *s, bool negative, const char *prefix,
                    const char *digits, size_t n)
{
    char sign[2] = {negative ? '-' : s->sign == '+' || s->sign == ' ' ? s->sign : '\0', '\0'};
    char align = s->align ? s->align : '>';
    size_t whole = 0;
    while (whole < n && isalnum((unsigned char)digits[whole]) &&
           (s->type == 'x' || s->type == 'X' || isdigit((unsigned char)digits[whole])))
        whole++;
    int64_t head = (int64_t)(strlen(sign) + strlen(prefix)), rest = (int64_t)(n - whole);
    int64_t len = head + (int64_t)n;
    if (s->group) {
        int size = s->group == '_' && strchr("boxX", s->type) && s->type ? 4 : 3;
        bool fill_zeros = s->fill == '0' && align == '=';
        tt_buf g;
        tt_buf_init(&g, 4096);
        group(&g, digits, whole, s->group, size, fill_zeros ? s->width - head - rest : 0);
        tt_buf_append(&g, digits + whole, n - whole);
        if (g.failed != TT_OK)
            b->failed = g.failed;
        len = head + (int64_t)g.len;
        int64_t gap = s->width > len ? s->width - len : 0;
        pad(b, s->fill, align == '>' ? gap : align == '^' ? gap / 2 : 0);
        tt_buf_puts(b, sign);
        tt_buf_puts(b, prefix);
        pad(b, s->fill, align == '=' ? gap : 0);
        tt_buf_append(b, g.data, g.len);
        pad(b, s->fill, align == '<' ? gap : align == '^' ? gap - gap / 2 : 0);
        tt_buf_free(&g);
        return;
    }
    int64_t gap = s->width > len ? s->width - len : 0;
    pad(b, s->fill, align == '>' ? gap : align == '^' ? gap / 2 : 0);
    tt_buf_puts(b, sign);
    tt_buf_puts(b, prefix);
    pad(b, s->fill, align == '=' ? gap : 0);
    tt_buf_append(b, digits, n);
    pad(b, s->fill, align == '<' ? gap : align == '^' ? gap - gap / 2 : 0);
}

const char *tt_jint_digits(char out[80], int64_t i, unsigned base, bool upper)
{
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    char *p = out + 72;
    *p = '\0';
    do {
        *--p = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u > 0);
    return p;
}

void tt_jfloat_digits(tt_buf *b, char type, int precision, bool alternate, double f)
{
    if (isnan(f) || isinf(f)) {
        bool upper = type < 'a';
        tt_buf_puts(b, isnan(f) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
        return;
    }
    tt_jfloat_printf(b, type, precision, alternate, fabs(f));
}

tt_status tt_jlay_int(jrun *r, tt_buf *b, const jspec *s, int64_t i)
{
    char out[80];
    unsigned base = s->type == 'b'                     ? 2
                    : s->type == 'o'                   ? 8
                    : s->type == 'x' || s->type == 'X' ? 16
                                                       : 10;
    const char *digits = tt_jint_digits(out, i, base, s->type == 'X');
    const char *prefix = "";
    if (s->alternate && base != 10)
        prefix = base == 2 ? "0b" : base == 8 ? "0o" : s->type == 'X' ? "0X" : "0x";
    tt_jlay_number(b, s, i < 0, prefix, digits, strlen(digits));
    return TT_OK;
}

/* A float without a type: repr, or with a precision the shorter of both notations, always with a
 * digit behind the point. */
static void plain_float(tt_buf *t, const jspec *s, double f)
{
    char text[40];
    if (s->precision < 0 || !isfinite(f)) {
        tt_jfloat_repr(text, fabs(f));
        tt_buf_puts(t, text);
        return;
    }
    int precision = s->precision == 0 ? 1 : (int)s->precision;
    tt_buf_puts(t, "");
    tt_jfloat_printf(t, 'e', precision - 1, false, fabs(f));
    int exp10 = 0;
    const char *e = strchr(t->data, 'e');
    if (e != NULL)
        exp10 = (int)strtol(e + 1, NULL, 10);
    tt_buf_clear(t);
    /* Python switches to exponents one digit earlier here, to leave room for the ".0". */
    if (exp10 >= -4 && exp10 == precision - 1 && !s->alternate) {
        tt_jfloat_printf(t, 'e', precision - 1, false, fabs(f));
        char *point = strchr(t->data, '.'), *exp = strchr(t->data, 'e');
        if (point != NULL && exp != NULL) {
            char *last = exp;
            while (last > point + 1 && last[-1] == '0')
                last--;
            if (last == point + 1)
                last = point;
            memmove(last, exp, strlen(exp) + 1);
            t->len = strlen(t->data);
        }
        return;
    }
    tt_jfloat_printf(t, 'g', precision, s->alternate, fabs(f));
    if (strpbrk(t->data, ".e") == NULL)
        tt_buf_puts(t, ".0");
}

tt_status tt_jlay_float(jrun *r, tt_buf *b, const jspec *s, double f)
{
    tt_buf t;
    tt_buf_init(&t, 1 << 20);
    char type = s->type == 'n' ? 'g' : s->type;
    int precision = s->precision < 0 ? 6 : (int)s->precision;
    if (s->precision > 10000)
        return tt_jlimit(r, "a precision of %lld digits is too large", (long long)s->precision);
    if (type == 0)
        plain_float(&t, s, f);
    else if (type == '%') {
        tt_jfloat_digits(&t, 'f', precision, s->alternate, f * 100);
        tt_buf_putc(&t, '%');
    } else
        tt_jfloat_digits(&t, type,
                         type == 'g' || type == 'G' ? (precision == 0 ? 1 : precision) : precision,
                         s->alternate, f);
    tt_status st = tt_buf_status(&t, r->err);
    if (st == TT_OK)
        tt_jlay_number(b, s, signbit(f) && !isnan(f), "", t.data, t.len);
    tt_buf_free(&t);
    return st;
}
