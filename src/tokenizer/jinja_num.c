/* Arithmetic with Python's rules: floor division, exact comparison of integers and floats,
 * sequences that add and repeat. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

static const char *op_text(int op)
{
    switch (op) {
    case JTOK_ADD:
        return "+";
    case JTOK_SUB:
        return "-";
    case JTOK_MUL:
        return "*";
    case JTOK_DIV:
        return "/";
    case JTOK_FLOORDIV:
        return "//";
    case JTOK_MOD:
        return "%";
    default:
        return "**";
    }
}

static tt_status overflow(jrun *r)
{
    return tt_jfail(r, "the result needs more than 64 bits");
}

static int cmp_int_float(int64_t i, double f)
{
    if (isnan(f))
        return 2;
    if (f >= 9223372036854775808.0)
        return -1;
    if (f < -9223372036854775808.0)
        return 1;
    double whole = trunc(f);
    int64_t w = (int64_t)whole;
    if (i != w)
        return i < w ? -1 : 1;
    return f > whole ? -1 : f < whole;
}

int tt_jnum_cmp(jval a, jval b)
{
    int64_t x = 0, y = 0;
    bool ia = tt_jis_int(a, &x), ib = tt_jis_int(b, &y);
    if (ia && ib)
        return x < y ? -1 : x > y;
    if (ia)
        return cmp_int_float(x, b.f);
    if (ib) {
        int c = cmp_int_float(y, a.f);
        return c == 2 ? 2 : -c;
    }
    if (isnan(a.f) || isnan(b.f))
        return 2;
    return a.f < b.f ? -1 : a.f > b.f;
}

/* ---- integers ---- */

tt_status tt_jint_pow(jrun *r, int64_t base, int64_t exp, int64_t *out)
{
    int64_t v = 1;
    if (base == 0 || base == 1 || base == -1) {
        *out = exp == 0 ? 1 : base == -1 ? (exp % 2 ? -1 : 1) : base;
        return TT_OK;
    }
    for (int64_t i = 0; i < exp; i++)
        if (__builtin_mul_overflow(v, base, &v))
            return overflow(r);
    *out = v;
    return TT_OK;
}

static tt_status divide_ints(jrun *r, int op, int64_t a, int64_t b, jval *out)
{
    if (b == 0)
        return tt_jfail(r, "division by zero");
    if (op == JTOK_DIV) {
        *out = J_FLOAT((double)((long double)a / (long double)b));
        return TT_OK;
    }
    if (a == INT64_MIN && b == -1) {
        *out = J_INT(0);
        return op == JTOK_MOD ? TT_OK : overflow(r);
    }
    int64_t q = a / b, m = a % b;
    if (m != 0 && (m < 0) != (b < 0)) {
        q--;
        m += b;
    }
    *out = J_INT(op == JTOK_MOD ? m : q);
    return TT_OK;
}

static tt_status float_pow(jrun *r, double a, double b, jval *out)
{
    if (a == 0 && b < 0)
        return tt_jfail(r, "zero cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return tt_jfail(r, "complex numbers are not supported");
    double f = pow(a, b);
    if (isinf(f) && isfinite(a) && isfinite(b))
        return tt_jfail(r, "the result is too large");
    *out = J_FLOAT(f);
    return TT_OK;
}

static tt_status arith_ints(jrun *r, int op, int64_t a, int64_t b, jval *out)
{
    int64_t v = 0;
    bool bad = false;
    switch (op) {
    case JTOK_ADD:
        bad = __builtin_add_overflow(a, b, &v);
        break;
    case JTOK_SUB:
        bad = __builtin_sub_overflow(a, b, &v);
        break;
    case JTOK_MUL:
        bad = __builtin_mul_overflow(a, b, &v);
        break;
    case JTOK_POW:
        if (b < 0)
            return float_pow(r, (double)a, (double)b, out);
        J_TRY(tt_jint_pow(r, a, b, &v));
        break;
    default:
        return divide_ints(r, op, a, b, out);
    }
    *out = J_INT(v);
    return bad ? overflow(r) : TT_OK;
}

/* ---- floats ---- */

static void float_divmod(double a, double b, double *q, double *m)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1.0;
        }
    } else {
        mod = copysign(0.0, b);
    }
    double whole;
    if (div != 0) {
        whole = floor(div);
        if (div - whole > 0.5)
            whole += 1.0;
    } else {
        whole = copysign(0.0, a / b);
    }
    *q = whole;
    *m = mod;
}

static tt_status arith_floats(jrun *r, int op, double a, double b, jval *out)
{
    double q = 0, m = 0;
    switch (op) {
    case JTOK_ADD:
        *out = J_FLOAT(a + b);
        return TT_OK;
    case JTOK_SUB:
        *out = J_FLOAT(a - b);
        return TT_OK;
    case JTOK_MUL:
        *out = J_FLOAT(a * b);
        return TT_OK;
    case JTOK_POW:
        return float_pow(r, a, b, out);
    default:
        break;
    }
    if (b == 0)
        return tt_jfail(r, "float division by zero");
    if (op == JTOK_DIV) {
        *out = J_FLOAT(a / b);
        return TT_OK;
    }
    float_divmod(a, b, &q, &m);
    *out = J_FLOAT(op == JTOK_MOD ? m : q);
    return TT_OK;
}

/* ---- sequences ---- */

static tt_status repeat_list(jrun *r, jval seq, int64_t times, jval *out)
{
    jlist *l = NULL;
    int64_t n = 0;
    if (times < 0)
        times = 0;
    if (__builtin_mul_overflow((int64_t)seq.list->n, times, &n) || n > UINT32_MAX)
        return tt_jlimit(r, "a list repeated %lld times is too long", (long long)times);
    J_TRY(tt_jlist_new(r, (uint32_t)n, &l));
    J_TRY(tt_jcharge(r, (uint64_t)n / 8));
    for (int64_t i = 0; i < n; i++)
        l->v[i] = seq.list->v[i % seq.list->n];
    l->n = (uint32_t)n;
    *out = seq.type == JT_LIST ? J_LIST(l) : J_TUPLE(l);
    return TT_OK;
}

static tt_status add_lists(jrun *r, jval a, jval b, jval *out)
{
    jlist *l = NULL;
    J_TRY(tt_jlist_new(r, a.list->n + b.list->n, &l));
    J_TRY(tt_jcharge(r, (a.list->n + b.list->n) / 8));
    if (a.list->n > 0)
        memcpy(l->v, a.list->v, a.list->n * sizeof *l->v);
    if (b.list->n > 0)
        memcpy(l->v + a.list->n, b.list->v, b.list->n * sizeof *l->v);
    l->n = a.list->n + b.list->n;
    *out = a.type == JT_LIST ? J_LIST(l) : J_TUPLE(l);
    return TT_OK;
}

static tt_status add_strs(jrun *r, jval a, jval b, jval *out)
{
    bool markup = ((a.flag | b.flag) & J_MARKUP) != 0;
    if (markup) {
        J_TRY(tt_jescape(r, a, &a));
        J_TRY(tt_jescape(r, b, &b));
    }
    J_TRY(tt_jconcat(r, a.s, b.s, out));
    out->flag = markup ? J_MARKUP : 0;
    return TT_OK;
}

static bool sequence(jval v)
{
    return v.type == JT_STR || v.type == JT_LIST || v.type == JT_TUPLE;
}

static tt_status repeat(jrun *r, jval seq, int64_t times, jval *out)
{
    if (seq.type != JT_STR)
        return repeat_list(r, seq, times, out);
    J_TRY(tt_jstr_repeat(r, seq.s, times, out));
    out->flag = seq.flag;
    return TT_OK;
}

tt_status tt_jarith(jrun *r, int op, jval a, jval b, jval *out)
{
    int64_t x = 0, y = 0;
    bool ia = tt_jis_int(a, &x), ib = tt_jis_int(b, &y);
    if (a.type == JT_STR && op == JTOK_MOD)
        return tt_jpercent(r, a, b, out);
    if (a.type == JT_UNDEF)
        return tt_jfail_undef(r, a);
    if (b.type == JT_UNDEF)
        return tt_jfail_undef(r, b);
    if (ia && ib)
        return arith_ints(r, op, x, y, out);
    if ((ia || a.type == JT_FLOAT) && (ib || b.type == JT_FLOAT))
        return arith_floats(r, op, ia ? (double)x : a.f, ib ? (double)y : b.f, out);
    if (op == JTOK_ADD && a.type == b.type && a.type == JT_STR)
        return add_strs(r, a, b, out);
    if (op == JTOK_ADD && a.type == b.type && (a.type == JT_LIST || a.type == JT_TUPLE))
        return add_lists(r, a, b, out);
    if (op == JTOK_MUL && sequence(a) && ib)
        return repeat(r, a, y, out);
    if (op == JTOK_MUL && sequence(b) && ia)
        return repeat(r, b, x, out);
    return tt_jfail(r, "unsupported operand types for %s: '%s' and '%s'", op_text(op),
                    tt_jtype_name(a), tt_jtype_name(b));
}

tt_status tt_jneg(jrun *r, jval v, jval *out)
{
    int64_t i = 0;
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    if (v.type == JT_FLOAT) {
        *out = J_FLOAT(-v.f);
        return TT_OK;
    }
    if (!tt_jis_int(v, &i))
        return tt_jfail(r, "bad operand type for unary -: '%s'", tt_jtype_name(v));
    *out = J_INT(i == INT64_MIN ? i : -i);
    return i == INT64_MIN ? overflow(r) : TT_OK;
}

tt_status tt_jpos(jrun *r, jval v, jval *out)
{
    int64_t i = 0;
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    *out = v;
    if (v.type == JT_FLOAT)
        return TT_OK;
    if (!tt_jis_int(v, &i))
        return tt_jfail(r, "bad operand type for unary +: '%s'", tt_jtype_name(v));
    *out = J_INT(i);
    return TT_OK;
}

/* ---- rounding ---- */

/* Rounds the whole number in `digits` at 10**places, half to even; `rest` says that a fraction
 * follows. */
static double round_whole(const char *digits, size_t n, int64_t places, bool rest)
{
    if (places > (int64_t)n)
        return 0.0;
    size_t keep = n - (size_t)places;
    bool up = digits[keep] > '5';
    if (digits[keep] == '5') {
        for (size_t i = keep + 1; i < n; i++)
            rest |= digits[i] != '0';
        up = rest || (keep > 0 && (digits[keep - 1] - '0') % 2 == 1);
    }
    char text[400];
    text[0] = '0';
    memcpy(text + 1, digits, keep);
    text[keep + 1] = '\0';
    for (size_t i = keep; up; i--) {
        up = text[i] == '9';
        text[i] = up ? '0' : (char)(text[i] + 1);
    }
    snprintf(text + keep + 1, sizeof text - keep - 1, "e%lld", (long long)places);
    return strtod(text, NULL);
}

tt_status tt_jround(jrun *r, double f, int64_t digits, double *out)
{
    *out = f;
    if (!isfinite(f) || digits > 323)
        return TT_OK;
    if (digits < -308) {
        *out = copysign(0.0, f);
        return TT_OK;
    }
    if (digits <= 0) {
        char text[400];
        double whole = trunc(fabs(f));
        int n = snprintf(text, sizeof text, "%.0f", whole);
        if (digits == 0)
            *out = rint(f);
        else
            *out = copysign(round_whole(text, (size_t)n, -digits, whole != fabs(f)), f);
    } else {
        tt_buf b;
        jval text;
        tt_buf_init(&b, 2048);
        tt_jfloat_printf(&b, 'f', (int)digits, false, f);
        J_TRY(tt_jstr_buf(r, &b, &text));
        tt_jparse_float(text.s, out);
    }
    if (isinf(*out))
        return tt_jfail(r, "rounded value too large to represent");
    return TT_OK;
}
