/* Template text to tokens, following the states and the white-space rules of Jinja2's lexer with
 * trim_blocks and lstrip_blocks. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

typedef struct lexer {
    jrun *r;
    const char *s;
    size_t n, pos;
    uint32_t line;
    bool line_starting;
    char stack[J_MAX_PARSE_DEPTH + 1]; /* brackets that wait for their partner */
    size_t nstack;
    jtoken *tok;
    size_t ntok, cap;
} lexer;

static tt_status add(lexer *x, jtoken_type type, const jstr *text, jval value)
{
    if (x->ntok == x->cap) {
        size_t cap = x->cap == 0 ? 256 : 2 * x->cap;
        jtoken *tok;
        J_NEW(x->r, tok, cap);
        if (x->ntok > 0)
            memcpy(tok, x->tok, x->ntok * sizeof *tok);
        x->tok = tok;
        x->cap = cap;
    }
    x->tok[x->ntok++] = (jtoken){.type = type, .line = x->line, .text = text, .value = value};
    return TT_OK;
}

static void count_lines(lexer *x, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        x->line += x->s[i] == '\n';
}

/* Moves behind a match and notes whether it ended a line. */
static void advance(lexer *x, size_t to)
{
    count_lines(x, x->pos, to);
    x->line_starting = to > x->pos && x->s[to - 1] == '\n';
    x->pos = to;
}

static size_t skip_space(const lexer *x, size_t i)
{
    const char *p = x->s + i, *end = x->s + x->n;
    while (p < end) {
        const char *q = p;
        if (!tt_jcp_space(tt_jcp_next(&q)))
            break;
        p = q;
    }
    return (size_t)(p - x->s);
}

static size_t strip_right(const lexer *x, size_t from, size_t to)
{
    const char *p = x->s + to;
    while (p > x->s + from) {
        const char *q = p;
        if (!tt_jcp_space(tt_jcp_prev(&q)))
            break;
        p = q;
    }
    return (size_t)(p - x->s);
}

static bool at(const lexer *x, size_t i, const char *text)
{
    size_t m = strlen(text);
    return i <= x->n && x->n - i >= m && memcmp(x->s + i, text, m) == 0;
}

/* Text before a tag: `sign` is the tag's, `lstrip` off for variables. Returns where it ends. */
static size_t data_end(const lexer *x, size_t from, size_t to, char sign, bool lstrip)
{
    if (sign == '-')
        return strip_right(x, from, to);
    if (sign == '+' || !lstrip)
        return to;
    size_t line = to;
    while (line > from && x->s[line - 1] != '\n')
        line--;
    if (line == from && !x->line_starting)
        return to;
    return line < to && skip_space(x, line) >= to ? line : to;
}

static tt_status add_data(lexer *x, size_t from, size_t to, char sign, bool lstrip)
{
    size_t end = data_end(x, from, to, sign, lstrip);
    if (end == from)
        return TT_OK;
    jval v;
    J_TRY(tt_jstr_borrow(x->r, x->s + from, end - from, &v));
    return add(x, JTOK_DATA, v.s, J_NONE);
}

/* `{%- raw -%}` at i: its end, or 0. */
static size_t raw_begin(const lexer *x, size_t i, char *sign)
{
    i += 2;
    *sign = i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i] : ' ';
    if (*sign != ' ')
        i++;
    i = skip_space(x, i);
    if (!at(x, i, "raw"))
        return 0;
    i = skip_space(x, i + 3);
    if (at(x, i, "-%}"))
        return skip_space(x, i + 3);
    return at(x, i, "%}") ? i + 2 : 0;
}

/* End of a closing tag `close` (two characters) at i, with its sign and the newline that
 * trim_blocks eats; 0 when it is not there. */
static size_t tag_end(const lexer *x, size_t i, const char *close)
{
    if (at(x, i, "+") && at(x, i + 1, close))
        return i + 3;
    if (at(x, i, "-") && at(x, i + 1, close))
        return skip_space(x, i + 3);
    if (!at(x, i, close))
        return 0;
    return i + 2 < x->n && x->s[i + 2] == '\n' ? i + 3 : i + 2;
}

static tt_status lex_raw(lexer *x)
{
    for (size_t i = x->pos; i + 2 <= x->n; i++) {
        if (!at(x, i, "{%"))
            continue;
        size_t k = i + 2;
        char sign = k < x->n && (x->s[k] == '-' || x->s[k] == '+') ? x->s[k] : ' ';
        k = skip_space(x, sign == ' ' ? k : k + 1);
        if (!at(x, k, "endraw"))
            continue;
        size_t end = tag_end(x, skip_space(x, k + 6), "%}");
        if (end == 0)
            continue;
        J_TRY(add_data(x, x->pos, i, sign, true));
        advance(x, end);
        return TT_OK;
    }
    x->r->line = x->line;
    if (x->pos == x->n)
        return TT_OK; /* Jinja2 does not mind an opening at the very end */
    return tt_jfail(x->r, "a raw block is never closed");
}

static tt_status lex_comment(lexer *x)
{
    for (size_t i = x->pos; i + 2 <= x->n; i++) {
        size_t end = tag_end(x, i, "#}");
        if (end == 0)
            continue;
        advance(x, end);
        return TT_OK;
    }
    x->r->line = x->line;
    if (x->pos == x->n)
        return TT_OK; /* as with raw blocks */
    return tt_jfail(x->r, "a comment is never closed");
}

static void append_escape_of(tt_buf *b, uint32_t cp)
{
    /* What Python's backslashreplace leaves behind a backslash that was already there. */
    if (cp < 0x100)
        tt_buf_printf(b, "\\x%02x", cp);
    else if (cp < 0x10000)
        tt_buf_printf(b, "\\u%04x", cp);
    else
        tt_buf_printf(b, "\\U%08x", cp);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static tt_status hex_escape(lexer *x, const char **p, const char *end, int digits, uint32_t *cp)
{
    uint32_t v = 0;
    for (int i = 0; i < digits; i++) {
        int d = *p < end ? hex_digit(**p) : -1;
        if (d < 0)
            return tt_jfail(x->r, "a string has a truncated \\x, \\u or \\U escape");
        v = v << 4 | (uint32_t)d;
        ++*p;
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000))
        return tt_jfail(x->r, "a string escape names U+%04X, which is no character", v);
    *cp = v;
    return TT_OK;
}

static tt_status unescape_one(lexer *x, const char **p, const char *end, tt_buf *b)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = *(*p)++;
    const char *k = c == '\0' ? NULL : strchr(from, c);
    uint32_t cp = 0;
    if (k != NULL) {
        tt_buf_putc(b, to[k - from]);
        return TT_OK;
    }
    if (c == '\n')
        return TT_OK;
    if (c == 'N')
        return tt_jfail(x->r, "\\N{...} escapes are not supported: write the character itself");
    if (c == 'x' || c == 'u' || c == 'U') {
        J_TRY(hex_escape(x, p, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &cp));
    } else if (c >= '0' && c <= '7') {
        cp = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *p < end && **p >= '0' && **p <= '7'; i++)
            cp = cp << 3 | (uint32_t)(*(*p)++ - '0');
    } else if ((unsigned char)c >= 0x80) {
        --*p;
        append_escape_of(b, tt_jcp_next(p));
        return TT_OK;
    } else {
        tt_buf_putc(b, '\\');
        tt_buf_putc(b, c);
        return TT_OK;
    }
    char utf8[4];
    tt_buf_append(b, utf8, tt_jcp_put(cp, utf8));
    return TT_OK;
}

static tt_status unescape(lexer *x, size_t from, size_t to, jval *out)
{
    const char *p = x->s + from, *end = x->s + to;
    if (memchr(p, '\\', to - from) == NULL)
        return tt_jstr_borrow(x->r, p, to - from, out);
    tt_buf b;
    tt_buf_init(&b, 4 * (to - from) + 16);
    while (p < end) {
        const char *q = memchr(p, '\\', (size_t)(end - p));
        if (q == NULL)
            q = end;
        tt_buf_append(&b, p, (size_t)(q - p));
        p = q;
        if (p < end) {
            p++;
            tt_status st = unescape_one(x, &p, end, &b);
            if (st != TT_OK) {
                tt_buf_free(&b);
                return st;
            }
        }
    }
    return tt_jstr_buf(x->r, &b, out);
}

static tt_status lex_string(lexer *x)
{
    char quote = x->s[x->pos];
    size_t i = x->pos + 1;
    while (i < x->n && x->s[i] != quote)
        i += x->s[i] == '\\' ? 2 : 1;
    if (i >= x->n)
        return tt_jfail(x->r, "a string is never closed");
    jval v;
    J_TRY(unescape(x, x->pos + 1, i, &v));
    J_TRY(add(x, JTOK_STRING, v.s, J_NONE));
    advance(x, i + 1);
    return TT_OK;
}

static size_t digits(const lexer *x, size_t i)
{
    /* (\d+_)*\d+ : digits with single underscores between them */
    size_t start = i;
    while (i < x->n &&
           ((x->s[i] >= '0' && x->s[i] <= '9') || (i > start && x->s[i] == '_' && i + 1 < x->n &&
                                                   x->s[i + 1] >= '0' && x->s[i + 1] <= '9')))
        i++;
    return i;
}

/* End of a float at pos, or pos. */
static size_t float_end(const lexer *x)
{
    if (x->pos > 0 && x->s[x->pos - 1] == '.')
        return x->pos;
    size_t i = digits(x, x->pos), end = x->pos;
    if (i < x->n && x->s[i] == '.') {
        size_t k = digits(x, i + 1);
        if (k > i + 1)
            end = i = k;
    }
    if (i < x->n && (x->s[i] == 'e' || x->s[i] == 'E')) {
        size_t k = i + 1;
        if (k < x->n && (x->s[k] == '+' || x->s[k] == '-'))
            k++;
        size_t e = digits(x, k);
        if (e > k)
            end = e;
    }
    return end;
}

static int radix_at(const lexer *x)
{
    if (x->s[x->pos] != '0' || x->pos + 1 >= x->n)
        return 10;
    switch (x->s[x->pos + 1] | 0x20) {
    case 'b':
        return 2;
    case 'o':
        return 8;
    case 'x':
        return 16;
    default:
        return 10;
    }
}

static size_t int_end(const lexer *x, int radix)
{
    size_t i = x->pos + (radix == 10 ? 0 : 2), last = i;
    bool zero = radix == 10 && x->s[x->pos] == '0';
    for (; i < x->n; i++) {
        int d = hex_digit(x->s[i]);
        if (d >= 0 && d < (zero ? 1 : radix))
            last = i + 1;
        else if (x->s[i] != '_' || (i > x->pos && x->s[i - 1] == '_') ||
                 (radix == 10 && i == x->pos))
            break;
    }
    return last;
}

static tt_status lex_number(lexer *x)
{
    size_t end = float_end(x);
    jval v;
    if (end > x->pos) {
        jval text;
        double f = 0;
        J_TRY(tt_jstr_borrow(x->r, x->s + x->pos, end - x->pos, &text));
        if (!tt_jparse_float(text.s, &f))
            return tt_jfail(x->r, "a number is malformed");
        J_TRY(add(x, JTOK_FLOAT, NULL, J_FLOAT(f)));
        advance(x, end);
        return TT_OK;
    }
    int radix = radix_at(x);
    end = int_end(x, radix);
    if (radix != 10 && end == x->pos + 2) {
        radix = 10; /* "0x" without digits: a zero and then a name */
        end = x->pos + 1;
    }
    uint64_t i = 0;
    for (size_t k = x->pos + (radix == 10 ? 0 : 2); k < end; k++) {
        if (x->s[k] == '_')
            continue;
        if (__builtin_mul_overflow(i, (uint64_t)radix, &i) ||
            __builtin_add_overflow(i, (uint64_t)hex_digit(x->s[k]), &i) || i > INT64_MAX)
            return tt_jfail(x->r, "an integer needs more than 64 bits");
    }
    v = J_INT((int64_t)i);
    J_TRY(add(x, JTOK_INTEGER, NULL, v));
    advance(x, end);
    return TT_OK;
}

static tt_status intern(jrun *r, const char *p, size_t n, const jstr **out)
{
    jval v = tt_jdict_get_text(r->names, p, n);
    if (v.type == JT_MISSING) {
        J_TRY(tt_jstr_borrow(r, p, n, &v));
        J_TRY(tt_jdict_set(r, r->names, v, v));
    }
    *out = v.s;
    return TT_OK;
}

static tt_status lex_name(lexer *x, bool *found)
{
    const char *p = x->s + x->pos, *end = x->s + x->n;
    bool first = true;
    while (p < end) {
        const char *q = p;
        if (!tt_jcp_name(tt_jcp_next(&q), first))
            break;
        p = q;
        first = false;
    }
    *found = !first;
    if (first)
        return TT_OK;
    const jstr *name = NULL;
    size_t n = (size_t)(p - (x->s + x->pos));
    J_TRY(intern(x->r, x->s + x->pos, n, &name));
    J_TRY(add(x, JTOK_NAME, name, J_NONE));
    advance(x, x->pos + n);
    return TT_OK;
}

static jtoken_type operator_at(const lexer *x, size_t *len)
{
    static const struct {
        char text[3];
        uint8_t type;
    } ops[] = {{"**", JTOK_POW},     {"//", JTOK_FLOORDIV}, {"==", JTOK_EQ},    {"!=", JTOK_NE},
               {">=", JTOK_GTEQ},    {"<=", JTOK_LTEQ},     {"+", JTOK_ADD},    {"-", JTOK_SUB},
               {"/", JTOK_DIV},      {"*", JTOK_MUL},       {"%", JTOK_MOD},    {"~", JTOK_TILDE},
               {"[", JTOK_LBRACKET}, {"]", JTOK_RBRACKET},  {"(", JTOK_LPAREN}, {")", JTOK_RPAREN},
               {"{", JTOK_LBRACE},   {"}", JTOK_RBRACE},    {">", JTOK_GT},     {"<", JTOK_LT},
               {"=", JTOK_ASSIGN},   {".", JTOK_DOT},       {":", JTOK_COLON},  {"|", JTOK_PIPE},
               {",", JTOK_COMMA},    {";", JTOK_SEMICOLON}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (at(x, x->pos, ops[i].text)) {
            *len = strlen(ops[i].text);
            return ops[i].type;
        }
    return JTOK_EOF;
}

static tt_status balance(lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (x->nstack == sizeof x->stack)
            return tt_jlimit(x->r, "brackets nest deeper than %d", J_MAX_PARSE_DEPTH);
        x->stack[x->nstack++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (x->nstack == 0)
            return tt_jfail(x->r, "unexpected '%c'", c);
        if (x->stack[--x->nstack] != c)
            return tt_jfail(x->r, "unexpected '%c', expected '%c'", c, x->stack[x->nstack]);
    }
    return TT_OK;
}

static tt_status lex_operator(lexer *x)
{
    size_t len = 0;
    jtoken_type type = operator_at(x, &len);
    if (type == JTOK_EOF)
        return tt_jfail(x->r, "unexpected character '%.*s'", (int)(x->n - x->pos > 4 ? 4 : 1),
                        x->s + x->pos);
    J_TRY(balance(x, x->s[x->pos]));
    J_TRY(add(x, type, NULL, J_NONE));
    advance(x, x->pos + len);
    return TT_OK;
}

/* Inside {% %} or {{ }} up to and with the closing tag. */
static tt_status lex_tag(lexer *x, bool block)
{
    x->nstack = 0;
    for (;;) {
        if (x->pos >= x->n)
            return TT_OK; /* the parser knows what is missing */
        x->r->line = x->line;
        J_TRY(tt_jcharge(x->r, 1));
        size_t end = 0;
        if (x->nstack == 0 && block)
            end = tag_end(x, x->pos, "%}");
        else if (x->nstack == 0 && at(x, x->pos, "-}}"))
            end = skip_space(x, x->pos + 3);
        else if (x->nstack == 0 && at(x, x->pos, "}}"))
            end = x->pos + 2;
        if (end > 0) {
            J_TRY(add(x, block ? JTOK_BLOCK_END : JTOK_VARIABLE_END, NULL, J_NONE));
            advance(x, end);
            return TT_OK;
        }
        end = skip_space(x, x->pos);
        if (end > x->pos) {
            advance(x, end);
            continue;
        }
        char c = x->s[x->pos];
        bool found = false;
        if (c >= '0' && c <= '9') {
            J_TRY(lex_number(x));
            continue;
        }
        if (c == '\'' || c == '"') {
            J_TRY(lex_string(x));
            continue;
        }
        J_TRY(lex_name(x, &found));
        if (!found)
            J_TRY(lex_operator(x));
    }
}

/* Text up to the next tag, and the tag. */
static tt_status lex_root(lexer *x)
{
    size_t i = x->pos;
    while (i + 2 <= x->n &&
           !(x->s[i] == '{' && (x->s[i + 1] == '%' || x->s[i + 1] == '{' || x->s[i + 1] == '#')))
        i++;
    if (i + 2 > x->n) {
        jval v;
        J_TRY(tt_jstr_borrow(x->r, x->s + x->pos, x->n - x->pos, &v));
        J_TRY(add(x, JTOK_DATA, v.s, J_NONE));
        advance(x, x->n);
        return TT_OK;
    }
    char kind = x->s[i + 1], sign = ' ';
    size_t raw = kind == '%' ? raw_begin(x, i, &sign) : 0;
    size_t end = i + 2;
    sign = end < x->n && (x->s[end] == '-' || x->s[end] == '+') ? x->s[end] : ' ';
    if (sign != ' ')
        end++;
    J_TRY(add_data(x, x->pos, i, sign, kind != '{'));
    advance(x, raw > 0 ? raw : end);
    if (raw > 0)
        return lex_raw(x);
    if (kind == '#')
        return lex_comment(x);
    J_TRY(add(x, kind == '%' ? JTOK_BLOCK_BEGIN : JTOK_VARIABLE_BEGIN, NULL, J_NONE));
    return lex_tag(x, kind == '%');
}

/* Line ends become \n, and one at the very end goes. */
static tt_status normalize(lexer *x, const char *source, size_t len)
{
    char *s;
    J_NEW(x->r, s, len + 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = source[i];
        if (c == '\r') {
            c = '\n';
            if (i + 1 < len && source[i + 1] == '\n')
                i++;
        }
        s[n++] = c;
    }
    if (n > 0 && s[n - 1] == '\n')
        n--;
    x->s = s;
    x->n = n;
    return TT_OK;
}

tt_status tt_jlex(jrun *r, const char *source, size_t len, jtoken **tokens)
{
    lexer x = {.r = r, .line = 1, .line_starting = true};
    J_TRY(normalize(&x, source, len));
    while (x.pos < x.n)
        J_TRY(lex_root(&x));
    J_TRY(add(&x, JTOK_EOF, NULL, J_NONE));
    *tokens = x.tok;
    return TT_OK;
}
