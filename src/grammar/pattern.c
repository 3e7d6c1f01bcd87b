#include "grammar/pattern.h"

#include <stdlib.h>
#include <string.h>

#define MOST_REPEAT    100000u
#define MOST_LOOKAHEAD 8u
#define MOST_HOSTNAME  253u

typedef struct parser {
    tt_builder *b;
    tt_rx rx;
    const char *text, *p, *end;
    uint32_t depth;
    tt_error *err;
    struct {
        uint32_t root;
        bool negative;
    } ahead[MOST_LOOKAHEAD];
    uint32_t n_ahead;
} parser;

/* ---- faults ---- */

static tt_status refuse(const parser *x, tt_status status, const char *at, const char *what)
{
    return tt_fail(x->err, status, "%s at character %td of the pattern", what, at - x->text + 1);
}

static tt_status unsupported(const parser *x, const char *at, const char *what)
{
    return refuse(x, TT_ERR_UNSUPPORTED, at, what);
}

static tt_status invalid(const parser *x, const char *at, const char *what)
{
    return refuse(x, TT_ERR_INVALID, at, what);
}

/* ---- characters ---- */

static uint32_t take_char(parser *x)
{
    const uint8_t *s = (const uint8_t *)x->p;
    uint32_t more = s[0] < 0x80 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint32_t c = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    for (uint32_t i = 1; i <= more && x->p + i < x->end; i++)
        c = c << 6 | (s[i] & 0x3fu);
    x->p = x->p + more + 1 < x->end ? x->p + more + 1 : x->end;
    return c;
}

static bool peek(const parser *x, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(x->end - x->p) >= n && memcmp(x->p, text, n) == 0;
}

static bool take(parser *x, const char *text)
{
    if (!peek(x, text))
        return false;
    x->p += strlen(text);
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool take_hex(parser *x, uint32_t digits, uint32_t *c)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < digits; i++) {
        int d = x->p + i < x->end ? hex_digit(x->p[i]) : -1;
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    x->p += digits;
    *c = v;
    return true;
}

bool tt_pattern_class(tt_builder *b, char letter, tt_charset *set)
{
    static const tt_range digits[] = {{'0', '9'}};
    static const tt_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const tt_range spaces[] = {
        {'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    const tt_range *v = NULL;
    size_t n = 0;
    tt_charset s = {0};
    switch (letter | 0x20) {
    case 'd':
        v = digits;
        n = sizeof digits / sizeof *digits;
        break;
    case 'w':
        v = words;
        n = sizeof words / sizeof *words;
        break;
    case 's':
        v = spaces;
        n = sizeof spaces / sizeof *spaces;
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < n; i++)
        tt_charset_add(b, &s, v[i].lo, v[i].hi);
    if (!(letter & 0x20))
        tt_charset_negate(b, &s);
    tt_charset_join(b, set, &s);
    tt_charset_free(&s);
    return true;
}

/* \u: four digits, a pair of surrogates, or any number of digits in braces. */
static tt_status take_unicode(parser *x, const char *at, uint32_t *c)
{
    uint32_t low;
    if (take(x, "{")) {
        uint32_t v = 0, digits = 0;
        for (; x->p < x->end && hex_digit(*x->p) >= 0 && digits < 8; x->p++, digits++)
            v = v << 4 | (uint32_t)hex_digit(*x->p);
        if (digits == 0 || v > TT_LAST_CHAR || !take(x, "}"))
            return invalid(x, at, "\\u{...} without a character");
        *c = v;
        return TT_OK;
    }
    if (!take_hex(x, 4, c))
        return invalid(x, at, "\\u without four digits");
    if (*c >= 0xd800 && *c < 0xdc00 && take(x, "\\u")) {
        if (!take_hex(x, 4, &low) || low < 0xdc00 || low > 0xdfff)
            return invalid(x, at, "half a surrogate pair");
        *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    }
    return TT_OK;
}

/* What follows a backslash and is one character. */
static tt_status take_escape(parser *x, bool in_class, uint32_t *c)
{
    static const char letters[] = "tnrfv", values[] = "\t\n\r\f\v";
    const char *at = x->p - 1, *q;
    if (x->p >= x->end)
        return invalid(x, at, "a backslash at the end");
    char e = *x->p;
    if ((q = strchr(letters, e)) != NULL) {
        *c = (uint8_t)values[q - letters];
        x->p++;
        return TT_OK;
    }
    if (e >= '0' && e <= '9') {
        if (e != '0' || (x->p + 1 < x->end && x->p[1] >= '0' && x->p[1] <= '9'))
            return unsupported(x, at, "a back reference");
        x->p++;
        *c = 0;
        return TT_OK;
    }
    if (e == 'x' || e == 'u') {
        x->p++;
        if (e == 'u')
            return take_unicode(x, at, c);
        return take_hex(x, 2, c) ? TT_OK : invalid(x, at, "\\x without two digits");
    }
    if (e == 'c' && x->p + 1 < x->end && ((x->p[1] | 0x20) >= 'a' && (x->p[1] | 0x20) <= 'z')) {
        *c = x->p[1] & 0x1f;
        x->p += 2;
        return TT_OK;
    }
    if (in_class && e == 'b') {
        x->p++;
        *c = '\b';
        return TT_OK;
    }
    if (e == 'p' || e == 'P')
        return unsupported(x, at, "a Unicode property (\\p)");
    if (e == 'b' || e == 'B')
        return unsupported(x, at, "a word boundary (\\b)");
    if (e == 'k')
        return unsupported(x, at, "a back reference");
    if ((e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z'))
        return invalid(x, at, "an unknown escape");
    *c = take_char(x);
    return TT_OK;
}

/* ---- classes ---- */

/* One end of a range; *single false when it was a class such as \d, which is in `set` then. */
static tt_status class_part(parser *x, tt_charset *set, uint32_t *c, bool *single)
{
    *single = true;
    if (!take(x, "\\")) {
        *c = take_char(x);
        return TT_OK;
    }
    if (x->p < x->end && tt_pattern_class(x->b, *x->p, set)) {
        x->p++;
        *single = false;
        return TT_OK;
    }
    return take_escape(x, true, c);
}

static tt_status take_class(parser *x, tt_charset *set)
{
    const char *at = x->p;
    bool negative, single, single2;
    uint32_t lo, hi;
    x->p++;
    negative = take(x, "^");
    while (x->p < x->end && *x->p != ']') {
        const char *part = x->p;
        if (!tt_builder_work(x->b, 1))
            return tt_builder_status(x->b, x->err);
        TT_TRY(class_part(x, set, &lo, &single));
        hi = lo;
        if (x->p + 1 < x->end && *x->p == '-' && x->p[1] != ']') {
            x->p++;
            TT_TRY(class_part(x, set, &hi, &single2));
            if (!single || !single2 || hi < lo)
                return invalid(x, part, "a range that is none");
        }
        if (single)
            tt_charset_add(x->b, set, lo, hi);
    }
    if (!take(x, "]"))
        return invalid(x, at, "a class without an end");
    if (negative)
        tt_charset_negate(x->b, set);
    return TT_OK;
}

/* ---- the tree ---- */

static tt_status parse_alternatives(parser *x, uint32_t *out, bool *several);

/* A name as ECMA-262 has it; beyond ASCII every character passes. */
static bool take_name(parser *x)
{
    const char *begin = x->p;
    for (; x->p < x->end && *x->p != '>'; x->p++) {
        unsigned char c = (unsigned char)*x->p;
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z', digit = c >= '0' && c <= '9';
        if (!letter && c != '_' && c != '$' && c < 0x80 && (!digit || x->p == begin))
            return false;
    }
    return x->p > begin && take(x, ">");
}

static tt_status parse_group(parser *x, uint32_t *out)
{
    const char *at = x->p++;
    bool several;
    if (peek(x, "?=") || peek(x, "?!"))
        return unsupported(x, at, "a lookahead that is not at the beginning behind ^");
    if (peek(x, "?<=") || peek(x, "?<!"))
        return unsupported(x, at, "a lookbehind");
    if (take(x, "?<")) {
        if (!take_name(x))
            return invalid(x, at, "a group's name that is none or has no end");
    } else if (peek(x, "?") && !take(x, "?:")) {
        return unsupported(x, at, "a group of this kind");
    }
    if (++x->depth > TT_PATTERN_NEST)
        return refuse(x, TT_ERR_LIMIT, at, "more than 100 groups inside one another");
    TT_TRY(parse_alternatives(x, out, &several));
    x->depth--;
    return take(x, ")") ? TT_OK : invalid(x, at, "a group without an end");
}

/* A brace that bounds a repetition, unlike one that is just a character. */
static bool peek_bounds(const parser *x)
{
    return peek(x, "{") && x->p + 1 < x->end && x->p[1] >= '0' && x->p[1] <= '9';
}

static tt_status parse_atom(parser *x, uint32_t *out)
{
    tt_charset set = {0};
    const char *at = x->p;
    tt_status st = TT_OK;
    uint32_t c = 0;
    switch (*x->p) {
    case '(':
        return parse_group(x, out);
    case '[':
        st = take_class(x, &set);
        break;
    case '.':
        x->p++;
        tt_charset_add(x->b, &set, '\n', '\n');
        tt_charset_add(x->b, &set, '\r', '\r');
        tt_charset_add(x->b, &set, 0x2028, 0x2029);
        tt_charset_negate(x->b, &set);
        break;
    case '*':
    case '+':
    case '?':
    case ')':
        return invalid(x, at, "a character that stands alone");
    case '{':
        if (peek_bounds(x))
            return invalid(x, at, "a repetition that stands alone");
        *out = tt_rx_char(&x->rx, take_char(x));
        return TT_OK;
    case '\\':
        x->p++;
        if (x->p < x->end && tt_pattern_class(x->b, *x->p, &set)) {
            x->p++;
            break;
        }
        TT_TRY(take_escape(x, false, &c));
        *out = tt_rx_char(&x->rx, c);
        return TT_OK;
    default:
        *out = tt_rx_char(&x->rx, take_char(x));
        return TT_OK;
    }
    if (st == TT_OK)
        *out = tt_rx_set(&x->rx, &set);
    tt_charset_free(&set);
    return st;
}

static bool take_number(parser *x, uint32_t *n)
{
    const char *begin = x->p;
    uint64_t v = 0;
    for (; x->p < x->end && *x->p >= '0' && *x->p <= '9'; x->p++)
        v = v > MOST_REPEAT ? v : v * 10 + (uint64_t)(*x->p - '0');
    *n = v > MOST_REPEAT ? MOST_REPEAT + 1 : (uint32_t)v;
    return x->p > begin;
}

/* {n}, {n,} and {n,m}; *found false for a brace that is just a character. */
static tt_status take_bounds(parser *x, uint32_t *min, uint32_t *max, bool *found)
{
    const char *at = x->p;
    *found = false;
    x->p++;
    if (!take_number(x, min)) {
        x->p = at;
        return TT_OK;
    }
    *max = *min;
    if (take(x, ",") && !take_number(x, max))
        *max = TT_NO_LIMIT;
    if (!take(x, "}"))
        return invalid(x, at, "bounds without an end");
    if (*min > MOST_REPEAT || (*max != TT_NO_LIMIT && *max > MOST_REPEAT))
        return refuse(x, TT_ERR_LIMIT, at, "more than 100,000 repetitions");
    if (*max < *min)
        return invalid(x, at, "bounds in the wrong order");
    *found = true;
    return TT_OK;
}

static tt_status parse_item(parser *x, uint32_t *out)
{
    uint32_t min = 0, max = TT_NO_LIMIT;
    bool found = true;
    const char *at = x->p;
    if (take(x, "^")) {
        *out = tt_rx_node_add(&x->rx, (tt_rx_node){.kind = TT_RX_BEGIN});
        return TT_OK;
    }
    if (take(x, "$")) {
        *out = tt_rx_node_add(&x->rx, (tt_rx_node){.kind = TT_RX_END});
        return TT_OK;
    }
    TT_TRY(parse_atom(x, out));
    if (take(x, "+"))
        min = 1;
    else if (take(x, "?"))
        max = 1;
    else if (peek(x, "{"))
        TT_TRY(take_bounds(x, &min, &max, &found));
    else
        found = take(x, "*");
    if (!found)
        return TT_OK;
    (void)take(x, "?"); /* as few as possible: the same texts */
    if (peek(x, "*") || peek(x, "+") || peek(x, "?") || peek_bounds(x))
        return invalid(x, at, "two repetitions of one part");
    *out = tt_rx_node_add(&x->rx,
                          (tt_rx_node){.kind = TT_RX_REPEAT, .a = *out, .min = min, .max = max});
    return TT_OK;
}

/* A list that grows on the heap: patterns may be long. */
typedef struct list {
    uint32_t *v, n, cap;
} list;

static bool list_add(parser *x, list *l, uint32_t item)
{
    if (l->n == l->cap) {
        uint32_t want = l->cap < 8 ? 8 : 2 * l->cap;
        uint32_t *p = realloc(l->v, want * sizeof *p);
        if (p == NULL) {
            tt_builder_fail(x->b, TT_ERR_NOMEM, "memory");
            return false;
        }
        l->v = p;
        l->cap = want;
    }
    l->v[l->n++] = item;
    return true;
}

static tt_status parse_sequence(parser *x, uint32_t *out)
{
    list l = {0};
    tt_status st = TT_OK;
    while (st == TT_OK && x->p < x->end && *x->p != '|' && *x->p != ')') {
        uint32_t item = 0;
        st = parse_item(x, &item);
        if (st == TT_OK && (!list_add(x, &l, item) || !tt_builder_work(x->b, 1)))
            st = tt_builder_status(x->b, x->err);
    }
    if (st == TT_OK)
        *out = tt_rx_list(&x->rx, TT_RX_CAT, l.v, l.n);
    free(l.v);
    return st;
}

static tt_status parse_alternatives(parser *x, uint32_t *out, bool *several)
{
    list l = {0};
    tt_status st = TT_OK;
    do {
        uint32_t item = 0;
        st = parse_sequence(x, &item);
        if (st == TT_OK && !list_add(x, &l, item))
            st = tt_builder_status(x->b, x->err);
    } while (st == TT_OK && take(x, "|"));
    *several = l.n > 1;
    if (st == TT_OK)
        *out = tt_rx_list(&x->rx, TT_RX_ALT, l.v, l.n);
    free(l.v);
    return st;
}

/* ---- lookaheads at the beginning ---- */

static tt_status parse_lookaheads(parser *x)
{
    bool several;
    while (peek(x, "(?=") || peek(x, "(?!")) {
        const char *at = x->p;
        if (x->n_ahead == MOST_LOOKAHEAD)
            return refuse(x, TT_ERR_LIMIT, at, "more than 8 lookaheads");
        x->ahead[x->n_ahead].negative = x->p[2] == '!';
        x->p += 3;
        x->depth++;
        TT_TRY(parse_alternatives(x, &x->ahead[x->n_ahead].root, &several));
        x->depth--;
        if (!take(x, ")"))
            return invalid(x, at, "a group without an end");
        x->n_ahead++;
    }
    return TT_OK;
}

static tt_status parse_whole(parser *x, uint32_t *root)
{
    bool several, looks = false;
    uint32_t parts[2] = {0};
    if (peek(x, "^(?=") || peek(x, "^(?!")) {
        x->p++;
        looks = true;
        TT_TRY(parse_lookaheads(x));
    }
    const char *at = x->p;
    TT_TRY(parse_alternatives(x, root, &several));
    if (x->p < x->end)
        return invalid(x, x->p, "a bracket that was not opened");
    if (!looks)
        return TT_OK;
    if (several)
        return unsupported(x, at, "a lookahead in one of several alternatives");
    parts[0] = tt_rx_node_add(&x->rx, (tt_rx_node){.kind = TT_RX_BEGIN});
    parts[1] = *root;
    *root = tt_rx_list(&x->rx, TT_RX_CAT, parts, 2);
    return TT_OK;
}

/* What matches and what each lookahead says of it. */
static tt_status combine(parser *x, tt_dfa *d)
{
    for (uint32_t i = 0; i < x->n_ahead; i++) {
        tt_dfa look = {0}, both = {0};
        uint32_t parts[2] = {tt_rx_node_add(&x->rx, (tt_rx_node){.kind = TT_RX_BEGIN}),
                             x->ahead[i].root};
        uint32_t root = tt_rx_list(&x->rx, TT_RX_CAT, parts, 2);
        TT_TRY(tt_dfa_make(&x->rx, root, 0, true, &look, x->err));
        tt_status st = tt_dfa_product(x->b, d, &look, x->ahead[i].negative, &both, x->err);
        tt_dfa_free(&look);
        if (st != TT_OK)
            return st;
        tt_dfa_free(d);
        *d = both;
    }
    return TT_OK;
}

tt_status tt_pattern_dfa(tt_builder *b, const char *pattern, size_t n, tt_dfa *out, tt_error *err)
{
    parser x = {.b = b, .text = pattern, .p = pattern, .end = pattern + n, .err = err};
    tt_dfa d = {0};
    uint32_t root = 0;
    tt_rx_init(&x.rx, b);
    tt_status st = parse_whole(&x, &root);
    if (st == TT_OK)
        st = tt_builder_status(b, err);
    if (st == TT_OK)
        st = tt_dfa_make(&x.rx, root, 0, true, &d, err);
    if (st == TT_OK)
        st = combine(&x, &d);
    tt_rx_free(&x.rx);
    if (st == TT_OK)
        *out = d;
    else
        tt_dfa_free(&d);
    return st;
}

/* ---- formats ---- */

/* Days that there are, the 29th of February in leap years included. */
#define LEAP_YEAR                                                                                  \
    "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[048]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]"    \
    "[0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):"   \
    "[0-5][0-9])"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4  OCTET "(?:\\." OCTET "){3}"
#define HEX16 "[0-9a-fA-F]{1,4}"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define ATEXT "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"

/* n groups, then "::", then at most 7 - n: written out, because the two together are bounded. */
#define IPV6                                                                                       \
    "(?:(?:" HEX16 ":){7}" HEX16 "|(?:" HEX16 ":){1,7}:|(?:" HEX16 ":){1,6}:" HEX16 "|(?:" HEX16   \
    ":){1,5}(?::" HEX16 "){1,2}|(?:" HEX16 ":){1,4}(?::" HEX16 "){1,3}|(?:" HEX16                  \
    ":){1,3}(?::" HEX16 "){1,4}|(?:" HEX16 ":){1,2}(?::" HEX16 "){1,5}|" HEX16 ":(?::" HEX16       \
    "){1,6}|:(?:(?::" HEX16 "){1,7}|:)|::(?:[fF]{4}:)?" IPV4 "|(?:" HEX16 ":){6}" IPV4 ")"

/* RFC 3986; addresses in brackets are left out. */
#define PCT     "%[0-9a-fA-F]{2}"
#define PCHAR   "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define USER    "(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|" PCT ")*@"
#define HOST    "(?:[a-zA-Z0-9._~!$&'()*+,;=-]|" PCT ")*"
#define SEGMENT "(?:/" PCHAR "*)*"
#define URI                                                                                        \
    "[a-zA-Z][a-zA-Z0-9+.-]*:(?://(?:" USER ")?" HOST "(?::[0-9]*)?" SEGMENT "|/(?:" PCHAR         \
    "+" SEGMENT ")?|" PCHAR "+" SEGMENT ")(?:[?](?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"

typedef struct format {
    const char *name, *pattern;
} format;

static const format formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration",
     "^P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M)?(?:[0-9]{1,9}D)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
     "[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M)?(?:[0-9]{1,9}S)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
     "[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M)?(?:[0-9]{1,9}S)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
     "[0-9]{1,9}S))$"},
    {"email", "^" ATEXT "(?:\\." ATEXT ")*@(?:" LABEL "\\.)+" LABEL "$"},
    {"hostname", "^" LABEL "(?:\\." LABEL ")*$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI "$"},
    {"uuid", "^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"},
};

static const format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

bool tt_format_known(const char *name)
{
    return find_format(name) != NULL;
}

uint32_t tt_format_longest(const char *name)
{
    return strcmp(name, "hostname") == 0 ? MOST_HOSTNAME : TT_NO_LIMIT;
}

tt_status tt_format_dfa(tt_builder *b, const char *name, tt_dfa *out, tt_error *err)
{
    const format *f = find_format(name);
    if (f == NULL)
        return tt_fail(err, TT_ERR_UNSUPPORTED, "no format \"%s\"", name);
    return tt_pattern_dfa(b, f->pattern, strlen(f->pattern), out, err);
}
