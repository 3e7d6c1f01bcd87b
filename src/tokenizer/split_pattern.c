#include <string.h>

#include "tokenizer/pretokenizer.h"

/* What the reference engine means by \s, and its complement, as the inside of a class. PCRE2's own
 * \s knows U+180E, which left the property long ago. */
#define SPACE                                                                                      \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"       \
    "\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"      \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-"       \
    "\\x{10ffff}"

typedef struct rewrite {
    const char *text, *file;
    size_t n, at;
    tt_buf *out;
    tt_error *err;
} rewrite;

static tt_status refuse(const rewrite *r, const char *what)
{
    return tt_fail_at(r->err, TT_ERR_UNSUPPORTED, r->file, -1,
                      "split pattern: %s at character %zu of %.*s is not supported", what, r->at,
                      r->n > 400 ? 0 : (int)r->n, r->text);
}

static int peek(const rewrite *r, size_t ahead)
{
    return r->at + ahead < r->n ? (unsigned char)r->text[r->at + ahead] : -1;
}

static void copy(rewrite *r, size_t n)
{
    tt_buf_append(r->out, r->text + r->at, n);
    r->at += n;
}

static bool is_hex(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* \p{..} and \P{..}: general categories as they are; longer names are scripts, which PCRE2 would
 * widen by script extensions unless told not to. */
static tt_status property(rewrite *r)
{
    size_t len = 0;
    if (peek(r, 2) != '{')
        return refuse(r, "a property without braces");
    while (is_letter(peek(r, 3 + len)) || peek(r, 3 + len) == '_')
        len++;
    if (len == 0 || len > 32 || peek(r, 3 + len) != '}')
        return refuse(r, "this property");
    copy(r, 3);
    if (len > 2)
        tt_buf_puts(r->out, "sc:");
    copy(r, len + 1);
    return TT_OK;
}

static tt_status hexadecimal(rewrite *r)
{
    size_t len = 0;
    if (peek(r, 2) == '{') {
        while (is_hex(peek(r, 3 + len)))
            len++;
        if (len == 0 || len > 8 || peek(r, 3 + len) != '}')
            return refuse(r, "this escape");
        copy(r, len + 4);
        return TT_OK;
    }
    if (!is_hex(peek(r, 2)) || !is_hex(peek(r, 3)) || peek(r, 2) > '7')
        return refuse(r, "\\x without two digits up to 7f");
    copy(r, 4);
    return TT_OK;
}

/* One escape. *set tells whether it stands for a class rather than one character. */
static tt_status escape(rewrite *r, bool in_class, bool *set)
{
    int c = peek(r, 1);
    *set = false;
    if (c == 's' || c == 'S') {
        *set = true;
        if (in_class)
            tt_buf_puts(r->out, c == 's' ? SPACE : NOT_SPACE);
        else
            tt_buf_puts(r->out, c == 's' ? "[" SPACE "]" : "[^" SPACE "]");
        r->at += 2;
        return TT_OK;
    }
    if (c == 'p' || c == 'P') {
        *set = true;
        return property(r);
    }
    if (c == 'd' || c == 'D') {
        *set = true;
        copy(r, 2);
        return TT_OK;
    }
    if (c == 'x')
        return hexadecimal(r);
    if (c == 'u') {
        for (size_t i = 2; i < 6; i++)
            if (!is_hex(peek(r, i)))
                return refuse(r, "\\u without four digits");
        tt_buf_printf(r->out, "\\x{%.4s}", r->text + r->at + 2);
        r->at += 6;
        return TT_OK;
    }
    bool plain = c == 'r' || c == 'n' || c == 't' || c == 'f' || c == 'a' || c == 'e';
    bool punctuation = c > 0x20 && c < 0x7f && !is_letter(c) && !is_digit(c);
    if (!plain && !punctuation)
        return refuse(r, "this escape");
    copy(r, 2);
    return TT_OK;
}

static tt_status class(rewrite *r)
{
    bool first = true, literal = false, dash = false; /* dash: "a-" has been read */
    copy(r, 1);
    if (peek(r, 0) == '^')
        copy(r, 1);
    for (;; first = false) {
        int c = peek(r, 0);
        bool set = false;
        if (c < 0)
            return refuse(r, "a class without end");
        if (c == '[' || (c == '&' && peek(r, 1) == '&') || (c == ']' && first))
            return refuse(r, "a class inside a class, an intersection or an empty class");
        if (c == ']') {
            copy(r, 1);
            return TT_OK;
        }
        if (c == '-' && literal && !dash && peek(r, 1) != ']') {
            copy(r, 1);
            dash = true;
            continue;
        }
        if (c == '\\')
            TT_TRY(escape(r, true, &set));
        else
            copy(r, 1);
        if (set && (dash || (peek(r, 0) == '-' && peek(r, 1) != ']')))
            return refuse(r, "a range with a class as its end");
        literal = !set && !dash;
        dash = false;
    }
}

static tt_status group(rewrite *r)
{
    static const char *const heads[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t len = strlen(heads[i]);
        if (r->n - r->at >= len && memcmp(r->text + r->at, heads[i], len) == 0) {
            copy(r, len);
            return TT_OK;
        }
    }
    if (peek(r, 1) == '?' || peek(r, 1) == '*')
        return refuse(r, "this kind of group");
    copy(r, 1);
    return TT_OK;
}

/* {n}, {n,} and {n,m}; a plus behind it means different things to the two engines. */
static tt_status interval(rewrite *r)
{
    size_t len = 1;
    while (is_digit(peek(r, len)))
        len++;
    if (len == 1)
        return refuse(r, "a brace that is no {n}, {n,} or {n,m}");
    if (peek(r, len) == ',')
        len++;
    while (is_digit(peek(r, len)))
        len++;
    if (peek(r, len) != '}')
        return refuse(r, "a brace that is no {n}, {n,} or {n,m}");
    if (peek(r, len + 1) == '+')
        return refuse(r, "a plus after an interval");
    copy(r, len + 1);
    return TT_OK;
}

tt_status tt_split_pattern(const char *pattern, size_t n, const char *file, tt_buf *out,
                           tt_error *err)
{
    rewrite r = {.text = pattern, .file = file, .n = n, .out = out, .err = err};
    while (r.at < n) {
        bool set;
        switch (pattern[r.at]) {
        case '\\':
            TT_TRY(escape(&r, false, &set));
            break;
        case '[':
            TT_TRY(class(&r));
            break;
        case '(':
            TT_TRY(group(&r));
            break;
        case '{':
            TT_TRY(interval(&r));
            break;
        case '^':
        case '$':
        case '\0':
            return refuse(&r, "an anchor or U+0000");
        default:
            copy(&r, 1);
        }
    }
    return tt_buf_status(out, err);
}
