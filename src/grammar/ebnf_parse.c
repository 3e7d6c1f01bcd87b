/* Reads a grammar into trees. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/buf.h"
#include "grammar/ebnf.h"
#include "grammar/ebnf_int.h"
#include "grammar/pattern.h"

#define MOST_TEXT   (1u << 20)
#define MOST_REPEAT 100000u

typedef struct parser {
    tt_ebnf *g;
    uint32_t rule; /* the one in work */
    const char *text, *p, *end;
    uint32_t depth;
    const char *line_at; /* a place of text whose line is known */
    uint32_t line;
    tt_error *err;
} parser;

typedef struct list {
    uint32_t *v, n, cap;
} list;

/* ---- faults ---- */

/* Places are asked for in order, or once. */
static uint32_t line_of(parser *x, const char *at)
{
    for (; x->line_at < at; x->line_at++)
        x->line += *x->line_at == '\n';
    return x->line;
}

static tt_status fault(const parser *x, const char *at, const char *what)
{
    uint32_t line = 1, column = 1;
    for (const char *p = x->text; p < at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    return tt_fail(x->err, TT_ERR_INVALID, "line %u, column %u: %s", line, column, what);
}

static tt_status no_memory(const parser *x)
{
    return tt_fail(x->err, TT_ERR_NOMEM, "out of memory for the grammar");
}

static tt_rx *rx_of(parser *x)
{
    return &x->g->rules[x->rule].rx;
}

/* ---- names ---- */

static bool name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && ((c >= '0' && c <= '9') || c == '-'));
}

static uint32_t slot_of(const tt_ebnf *g, const char *name, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)name[i]) * 16777619u;
    uint32_t k = (h ^ h >> 15) & (g->n_hash - 1);
    for (; g->hash[k] != TT_NO_STATE; k = (k + 1) & (g->n_hash - 1)) {
        const char *have = g->rules[g->hash[k]].name;
        if (strlen(have) == n && memcmp(have, name, n) == 0)
            break;
    }
    return k;
}

uint32_t tt_ebnf_find(const tt_ebnf *g, const char *name, size_t n)
{
    return g->n_hash == 0 ? TT_NO_STATE : g->hash[slot_of(g, name, n)];
}

static bool more_rules(tt_ebnf *g)
{
    uint32_t want = g->cap_rules == 0 ? 32 : 2 * g->cap_rules;
    tt_ebnf_rule_def *rules = realloc(g->rules, want * sizeof *rules);
    if (rules != NULL)
        g->rules = rules;
    uint32_t *hash = malloc(2 * want * sizeof *hash);
    if (rules == NULL || hash == NULL) {
        free(hash);
        return false;
    }
    memset(hash, 0xff, 2 * want * sizeof *hash);
    free(g->hash);
    g->hash = hash;
    g->n_hash = 2 * want;
    g->cap_rules = want;
    for (uint32_t i = 0; i < g->n_rules; i++)
        hash[slot_of(g, g->rules[i].name, strlen(g->rules[i].name))] = i;
    return true;
}

/* The rule of a name, which may not be defined yet. `at` is where it stands. */
static tt_status rule_named(parser *x, const char *at, size_t n, uint32_t *out)
{
    tt_ebnf *g = x->g;
    *out = tt_ebnf_find(g, at, n);
    if (*out != TT_NO_STATE)
        return TT_OK;
    if (g->n_rules == TT_EBNF_RULES)
        return tt_fail(x->err, TT_ERR_LIMIT, "more than %u rules", TT_EBNF_RULES);
    if (g->n_rules == g->cap_rules && !more_rules(g))
        return no_memory(x);
    tt_ebnf_rule_def r = {.name = tt_copy_text(at, n)};
    if (r.name == NULL)
        return no_memory(x);
    r.line = line_of(x, at);
    tt_rx_init(&r.rx, g->b);
    g->hash[slot_of(g, at, n)] = g->n_rules;
    g->rules[g->n_rules] = r;
    *out = g->n_rules++;
    return tt_builder_status(g->b, x->err);
}

/* ---- small things ---- */

static void skip_blank(parser *x)
{
    while (x->p < x->end) {
        if (*x->p == '#')
            while (x->p < x->end && *x->p != '\n')
                x->p++;
        else if (*x->p == ' ' || *x->p == '\t' || *x->p == '\n' || *x->p == '\r')
            x->p++;
        else
            return;
    }
}

/* Length of a name at p that "::=" follows, or 0. */
static size_t definition_at(const parser *x)
{
    parser y = *x;
    const char *begin = y.p;
    while (y.p < y.end && name_char(*y.p, y.p == begin))
        y.p++;
    size_t n = (size_t)(y.p - begin);
    skip_blank(&y);
    return n > 0 && y.end - y.p >= 3 && memcmp(y.p, "::=", 3) == 0 ? n : 0;
}

static bool list_add(parser *x, list *l, uint32_t item)
{
    if (l->n == l->cap) {
        uint32_t want = l->cap < 8 ? 8 : 2 * l->cap;
        uint32_t *p = realloc(l->v, want * sizeof *p);
        if (p == NULL)
            return false;
        l->v = p;
        l->cap = want;
    }
    l->v[l->n++] = item;
    return true;
}

static uint32_t take_char(parser *x)
{
    int32_t c = 0;
    x->p += utf8proc_iterate((const uint8_t *)x->p, x->end - x->p, &c);
    return (uint32_t)c;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH and letters; any other character that is no letter or digit stands for
 * itself. */
static tt_status take_escape(parser *x, uint32_t *c)
{
    static const char letters[] = "nrt", values[] = "\n\r\t";
    const char *at = x->p++, *q;
    if (x->p >= x->end)
        return fault(x, at, "a backslash at the end");
    char e = *x->p;
    uint32_t digits = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
    if ((q = strchr(letters, e)) != NULL && e != '\0') {
        x->p++;
        *c = (uint8_t)values[q - letters];
        return TT_OK;
    }
    if (digits == 0) {
        if (name_char(e, false) && e != '-' && e != '_')
            return fault(x, at, "an unknown escape");
        *c = take_char(x);
        return TT_OK;
    }
    x->p++;
    *c = 0;
    for (uint32_t i = 0; i < digits; i++, x->p++) {
        int d = x->p < x->end ? hex_digit(*x->p) : -1;
        if (d < 0)
            return fault(x, at, "an escape with too few digits");
        *c = *c << 4 | (uint32_t)d;
    }
    if (*c == 0 || *c > TT_LAST_CHAR || (*c >= 0xd800 && *c < 0xe000))
        return fault(x, at, "an escape that is no character of a text");
    return TT_OK;
}

/* ---- atoms ---- */

/* Characters between quotes, one by one. */
static tt_status take_string(parser *x, uint32_t *out)
{
    const char *at = x->p++;
    list l = {0};
    tt_status st = TT_OK;
    while (st == TT_OK && x->p < x->end && *x->p != '"' && *x->p != '\n') {
        uint32_t c = 0;
        if (*x->p == '\\')
            st = take_escape(x, &c);
        else
            c = take_char(x);
        if (st == TT_OK && !list_add(x, &l, tt_rx_char(rx_of(x), c)))
            st = no_memory(x);
    }
    if (st == TT_OK && (x->p >= x->end || *x->p != '"'))
        st = fault(x, at, "a string without an end");
    if (st == TT_OK) {
        x->p++;
        *out = tt_rx_list(rx_of(x), TT_RX_CAT, l.v, l.n);
    }
    free(l.v);
    return st;
}

static tt_status class_part(parser *x, tt_charset *set, uint32_t *c, bool *single)
{
    *single = true;
    if (*x->p != '\\') {
        *c = take_char(x);
        return TT_OK;
    }
    if (x->p + 1 < x->end && tt_pattern_class(x->g->b, x->p[1], set)) {
        x->p += 2;
        *single = false;
        return TT_OK;
    }
    return take_escape(x, c);
}

static tt_status fill_class(parser *x, tt_charset *set)
{
    const char *at = x->p++;
    bool negative = x->p < x->end && *x->p == '^', single, single2;
    uint32_t lo, hi;
    x->p += negative;
    while (x->p < x->end && *x->p != ']' && *x->p != '\n') {
        const char *part = x->p;
        if (!tt_builder_work(x->g->b, 1))
            return tt_builder_status(x->g->b, x->err);
        TT_TRY(class_part(x, set, &lo, &single));
        hi = lo;
        if (x->p + 1 < x->end && *x->p == '-' && x->p[1] != ']') {
            x->p++;
            TT_TRY(class_part(x, set, &hi, &single2));
            if (!single || !single2 || hi < lo)
                return fault(x, part, "a range that is none");
        }
        if (single)
            tt_charset_add(x->g->b, set, lo, hi);
    }
    if (x->p >= x->end || *x->p != ']')
        return fault(x, at, "a class without an end");
    x->p++;
    if (negative)
        tt_charset_negate(x->g->b, set);
    return TT_OK;
}

static tt_status take_class(parser *x, uint32_t *out)
{
    tt_charset set = {0};
    tt_status st = fill_class(x, &set);
    if (st == TT_OK)
        *out = tt_rx_set(rx_of(x), &set);
    tt_charset_free(&set);
    return st;
}

static tt_status add_symbol(parser *x, tt_ebnf_symbol symbol, uint32_t *out)
{
    tt_ebnf_rule_def *r = &x->g->rules[x->rule];
    uint32_t k = 0;
    for (; k < r->n_symbols; k++)
        if (symbol.rule == r->symbols[k].rule && symbol.n_token == r->symbols[k].n_token &&
            (symbol.token == NULL ||
             memcmp(symbol.token, r->symbols[k].token, symbol.n_token) == 0))
            break;
    if (k < r->n_symbols) {
        free(symbol.token);
    } else {
        if (r->n_symbols == r->cap_symbols) {
            uint32_t want = r->cap_symbols < 8 ? 8 : 2 * r->cap_symbols;
            tt_ebnf_symbol *p = realloc(r->symbols, want * sizeof *p);
            if (p == NULL) {
                free(symbol.token);
                return no_memory(x);
            }
            r->symbols = p;
            r->cap_symbols = want;
        }
        r->symbols[r->n_symbols++] = symbol;
    }
    if (!tt_builder_work(x->g->b, k))
        return tt_builder_status(x->g->b, x->err);
    *out = tt_rx_node_add(rx_of(x), (tt_rx_node){.kind = TT_RX_CALL, .a = k});
    return TT_OK;
}

/* @"<|im_end|>": one special token, by its content as it stands. */
static tt_status take_token(parser *x, uint32_t *out)
{
    const char *at = x->p++;
    if (x->p >= x->end || *x->p != '"')
        return fault(x, at, "an @ without a string");
    const char *begin = ++x->p;
    while (x->p < x->end && *x->p != '"' && *x->p != '\n')
        x->p++;
    if (x->p >= x->end || *x->p != '"' || x->p == begin)
        return fault(x, at, "a token without an end");
    tt_ebnf_symbol symbol = {.rule = TT_NO_STATE, .n_token = (size_t)(x->p - begin)};
    symbol.token = tt_copy_text(begin, symbol.n_token);
    x->p++;
    return symbol.token == NULL ? no_memory(x) : add_symbol(x, symbol, out);
}

static tt_status parse_alternatives(parser *x, uint32_t *out);

static tt_status parse_atom(parser *x, uint32_t *out)
{
    const char *at = x->p;
    tt_charset any = {0};
    uint32_t rule;
    switch (*x->p) {
    case '"':
        return take_string(x, out);
    case '[':
        return take_class(x, out);
    case '@':
        return take_token(x, out);
    case '.':
        x->p++;
        tt_charset_add(x->g->b, &any, 1, TT_LAST_CHAR);
        *out = tt_rx_set(rx_of(x), &any);
        return TT_OK;
    case '(':
        x->p++;
        if (++x->depth > TT_EBNF_NEST)
            return fault(x, at, "more than 100 brackets inside one another");
        TT_TRY(parse_alternatives(x, out));
        x->depth--;
        if (x->p >= x->end || *x->p != ')')
            return fault(x, at, "a bracket without an end");
        x->p++;
        return TT_OK;
    default:
        break;
    }
    while (x->p < x->end && name_char(*x->p, x->p == at))
        x->p++;
    if (x->p == at)
        return fault(x, at, "a character that means nothing here");
    TT_TRY(rule_named(x, at, (size_t)(x->p - at), &rule));
    return add_symbol(x, (tt_ebnf_symbol){.rule = rule}, out);
}

/* ---- repetitions, sequences, rules ---- */

static bool take_number(parser *x, uint32_t *n)
{
    const char *begin = x->p;
    uint64_t v = 0;
    for (; x->p < x->end && *x->p >= '0' && *x->p <= '9'; x->p++)
        v = v > MOST_REPEAT ? v : v * 10 + (uint64_t)(*x->p - '0');
    *n = (uint32_t)v;
    return x->p > begin;
}

static tt_status take_bounds(parser *x, uint32_t *min, uint32_t *max)
{
    const char *at = x->p++;
    if (!take_number(x, min))
        return fault(x, at, "a repetition without a number");
    *max = *min;
    if (x->p < x->end && *x->p == ',') {
        x->p++;
        if (!take_number(x, max))
            *max = TT_NO_LIMIT;
    }
    if (x->p >= x->end || *x->p != '}')
        return fault(x, at, "a repetition without an end");
    x->p++;
    if (*min > MOST_REPEAT || (*max != TT_NO_LIMIT && *max > MOST_REPEAT))
        return fault(x, at, "more than 100,000 repetitions");
    return *max < *min ? fault(x, at, "bounds in the wrong order") : TT_OK;
}

static tt_status parse_item(parser *x, uint32_t *out)
{
    TT_TRY(parse_atom(x, out));
    for (uint32_t times = 0;; times++) {
        uint32_t min = 0, max = TT_NO_LIMIT;
        const char *at = x->p;
        char c = x->p < x->end ? *x->p : '\0';
        if (c != '*' && c != '+' && c != '?' && c != '{')
            return tt_builder_status(x->g->b, x->err);
        if (times > 0)
            return fault(x, at, "two repetitions of one part");
        if (c == '{') {
            TT_TRY(take_bounds(x, &min, &max));
        } else {
            x->p++;
            min = c == '+';
            max = c == '?' ? 1 : TT_NO_LIMIT;
        }
        *out = tt_rx_node_add(
            rx_of(x), (tt_rx_node){.kind = TT_RX_REPEAT, .a = *out, .min = min, .max = max});
    }
}

static tt_status parse_sequence(parser *x, uint32_t *out)
{
    list l = {0};
    tt_status st = TT_OK;
    for (;;) {
        uint32_t item = 0;
        skip_blank(x);
        if (x->p >= x->end || *x->p == '|' || *x->p == ')' || *x->p == ';' || definition_at(x) > 0)
            break;
        st = parse_item(x, &item);
        if (st == TT_OK && !list_add(x, &l, item))
            st = no_memory(x);
        if (st != TT_OK)
            break;
    }
    if (st == TT_OK)
        *out = tt_rx_list(rx_of(x), TT_RX_CAT, l.v, l.n);
    free(l.v);
    return st;
}

static tt_status parse_alternatives(parser *x, uint32_t *out)
{
    list l = {0};
    tt_status st = TT_OK;
    for (;;) {
        uint32_t item = 0;
        st = parse_sequence(x, &item);
        if (st == TT_OK && !list_add(x, &l, item))
            st = no_memory(x);
        if (st != TT_OK || x->p >= x->end || *x->p != '|')
            break;
        x->p++;
    }
    if (st == TT_OK)
        *out = tt_rx_list(rx_of(x), TT_RX_ALT, l.v, l.n);
    free(l.v);
    return st;
}

static tt_status parse_rule(parser *x)
{
    const char *at = x->p;
    size_t n = definition_at(x);
    uint32_t root = 0;
    if (n == 0)
        return fault(x, at, "no rule (name ::= ...) begins here");
    TT_TRY(rule_named(x, at, n, &x->rule));
    if (x->g->rules[x->rule].defined)
        return fault(x, at, "a rule of this name is there already");
    x->g->rules[x->rule].defined = true;
    x->g->rules[x->rule].line = line_of(x, at);
    x->p += n;
    skip_blank(x);
    x->p += 3;
    TT_TRY(parse_alternatives(x, &root));
    x->g->rules[x->rule].root = root;
    if (x->p < x->end && *x->p == ')')
        return fault(x, x->p, "a bracket that was not opened");
    if (x->p < x->end && *x->p == ';')
        x->p++;
    skip_blank(x);
    return tt_builder_status(x->g->b, x->err);
}

static tt_status check_text(const parser *x)
{
    for (const char *p = x->text; p < x->end;) {
        int32_t c = 0;
        utf8proc_ssize_t n = utf8proc_iterate((const uint8_t *)p, x->end - p, &c);
        if (n <= 0 || c == 0)
            return fault(x, p, n <= 0 ? "not valid UTF-8" : "a NUL character");
        p += n;
    }
    return TT_OK;
}

tt_status tt_ebnf_parse(tt_ebnf *g, const char *text, size_t len, tt_error *err)
{
    parser x = {.g = g, .text = text, .p = text, .end = text + len, .err = err};
    x.line_at = text;
    x.line = 1;
    if (len > MOST_TEXT)
        return tt_fail(err, TT_ERR_LIMIT, "a grammar of %zu bytes, at most %u are read", len,
                       MOST_TEXT);
    TT_TRY(check_text(&x));
    skip_blank(&x);
    while (x.p < x.end)
        TT_TRY(parse_rule(&x));
    for (uint32_t i = 0; i < g->n_rules; i++)
        if (!g->rules[i].defined)
            return tt_fail(err, TT_ERR_INVALID, "line %u: there is no rule \"%.60s\"",
                           g->rules[i].line, g->rules[i].name);
    return TT_OK;
}
