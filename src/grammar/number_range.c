#include "grammar/number_range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decimals ---- */

/* "12.5e-3" as printf writes it. */
static bool decimal_of_text(const char *s, tt_decimal *out)
{
    char digits[64];
    int n = 0, point = -1, exponent = 0;
    *out = (tt_decimal){.negative = *s == '-'};
    for (s += *s == '-'; *s != '\0' && *s != 'e'; s++) {
        if (*s == '.' || *s == ',')
            point = n;
        else if (n < 40)
            digits[n++] = *s;
        else
            return false;
    }
    if (*s == 'e')
        exponent = atoi(s + 1);
    point = (point < 0 ? n : point) + exponent;
    int first = 0;
    while (first < n && digits[first] == '0')
        first++;
    while (n > first && digits[n - 1] == '0')
        n--;
    if (first == n)
        point = first = n = 0;
    int whole = point - first < 1 ? 0 : point - first, fraction = n - point < 0 ? 0 : n - point;
    if (whole > 20 || fraction > 30)
        return false;
    int at = 0;
    for (int i = point - (whole == 0 ? 1 : whole); i < point + fraction; i++)
        out->digits[at++] = i >= first && i < n ? digits[i] : '0';
    out->n_whole = (uint8_t)(whole == 0 ? 1 : whole);
    out->n_fraction = (uint8_t)fraction;
    if (n == 0)
        out->negative = false;
    return true;
}

bool tt_decimal_of(const json_t *number, tt_decimal *out)
{
    char text[64];
    if (json_is_integer(number)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(number));
        return decimal_of_text(text, out);
    }
    /* The shortest that is read as the same double is what stood in the schema. */
    double d = json_real_value(number);
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, d);
        if (strtod(text, NULL) == d)
            break;
    }
    return isfinite(d) && decimal_of_text(text, out);
}

static int compare_magnitude(const tt_decimal *a, const tt_decimal *b)
{
    if (a->n_whole != b->n_whole)
        return a->n_whole < b->n_whole ? -1 : 1;
    int n = a->n_fraction > b->n_fraction ? a->n_fraction : b->n_fraction;
    for (int i = 0; i < a->n_whole + n; i++) {
        char x = i < a->n_whole + a->n_fraction ? a->digits[i] : '0';
        char y = i < b->n_whole + b->n_fraction ? b->digits[i] : '0';
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int tt_decimal_compare(const tt_decimal *a, const tt_decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

bool tt_number_in(const tt_number_range *r, const tt_decimal *d)
{
    int low = r->has_min ? tt_decimal_compare(d, &r->min) : 1;
    int high = r->has_max ? tt_decimal_compare(d, &r->max) : -1;
    return (low > 0 || (low == 0 && !r->open_min)) && (high < 0 || (high == 0 && !r->open_max)) &&
           !(r->whole && d->n_fraction > 0);
}

/* ---- magnitudes between two bounds ---- */

typedef struct bound {
    bool set, open;
    const tt_decimal *d;
} bound;

enum { LESS, EQUAL, GREATER };
enum { PHASE_ZERO, PHASE_WHOLE, PHASE_POINT, PHASE_FRACTION };

/* How far a number has come. */
typedef struct place {
    uint8_t phase;
    bool zero;               /* the whole part is 0, which is no digit that counts */
    uint8_t whole, fraction; /* digits that have come */
    uint8_t low, high;       /* against the same digits of the bounds */
} place;

typedef struct digits {
    tt_builder *b;
    bound low, high;
    uint32_t most_whole, most_digits;
    bool whole_only;
    struct seen {
        uint32_t key, state;
    } * seen;
    place *places;
    uint32_t n, cap, n_seen;
} digits;

static uint32_t key_of(const place *p)
{
    uint32_t key = (uint32_t)p->phase << 1 | p->zero;
    key = (key << 6 | p->whole) << 6 | p->fraction;
    return key << 4 | (uint32_t)p->low << 2 | p->high;
}

static bool grow(digits *g)
{
    uint32_t want = g->cap == 0 ? 256 : 2 * g->cap;
    place *places = realloc(g->places, want * sizeof *places);
    struct seen *seen = malloc(2 * want * sizeof *seen);
    if (places != NULL)
        g->places = places;
    if (places == NULL || seen == NULL) {
        free(seen);
        tt_builder_fail(g->b, TT_ERR_NOMEM, "memory");
        return false;
    }
    for (uint32_t i = 0; i < 2 * want; i++)
        seen[i].state = TT_NO_STATE;
    for (uint32_t i = 0; i < g->n_seen; i++) {
        if (g->seen[i].state == TT_NO_STATE)
            continue;
        uint32_t k = g->seen[i].key * 2654435761u & (2 * want - 1);
        while (seen[k].state != TT_NO_STATE)
            k = (k + 1) & (2 * want - 1);
        seen[k] = g->seen[i];
    }
    free(g->seen);
    g->seen = seen;
    g->n_seen = 2 * want;
    g->cap = want;
    return true;
}

/* The state of a place; new ones wait in `places` in the order of their states. */
static uint32_t state_of(digits *g, const place *p)
{
    if (g->n == g->cap && !grow(g))
        return 0;
    uint32_t key = key_of(p), k = key * 2654435761u & (g->n_seen - 1);
    for (; g->seen[k].state != TT_NO_STATE; k = (k + 1) & (g->n_seen - 1))
        if (g->seen[k].key == key)
            return g->seen[k].state;
    g->places[g->n++] = *p;
    g->seen[k].key = key;
    g->seen[k].state = tt_builder_state(g->b);
    return g->seen[k].state;
}

static uint8_t against(char digit, char other)
{
    return digit < other ? LESS : digit > other ? GREATER : EQUAL;
}

/* The whole part is over: its length decides first. */
static uint8_t whole_against(const bound *b, uint32_t n, uint8_t so_far)
{
    return !b->set ? EQUAL : n < b->d->n_whole ? LESS : n > b->d->n_whole ? GREATER : so_far;
}

/* A bound's digit after the point; zeros after its last. */
static char fraction_digit(const bound *b, uint32_t i)
{
    return b->set && i < b->d->n_fraction ? b->d->digits[b->d->n_whole + i] : '0';
}

/* Whether zeros alone follow in the bound. */
static bool bound_over(const bound *b, uint32_t fraction)
{
    for (uint32_t i = fraction; b->set && i < b->d->n_fraction; i++)
        if (fraction_digit(b, i) != '0')
            return false;
    return true;
}

static bool within(const digits *g, const place *p)
{
    bool over = p->phase == PHASE_FRACTION;
    uint8_t low = over ? p->low : whole_against(&g->low, p->whole, p->low);
    uint8_t high = over ? p->high : whole_against(&g->high, p->whole, p->high);
    bool low_over = bound_over(&g->low, p->fraction), high_over = bound_over(&g->high, p->fraction);
    bool above = !g->low.set || low == GREATER || (low == EQUAL && low_over && !g->low.open);
    bool below = !g->high.set || high == LESS || (high == EQUAL && (!high_over || !g->high.open));
    return p->phase != PHASE_POINT && above && below;
}

/* Whether a number that is here can still come within the bounds: keeps hopeless states away. */
static bool hopeless(const digits *g, const place *p)
{
    if (p->phase == PHASE_WHOLE || p->phase == PHASE_ZERO)
        return g->high.set && (p->whole > g->high.d->n_whole ||
                               (p->whole == g->high.d->n_whole && p->high == GREATER));
    return (g->low.set && p->low == LESS) || (g->high.set && p->high == GREATER);
}

static void digit_edges(digits *g, uint32_t from, const place *p)
{
    for (unsigned digit = 0; digit < 10; digit++) {
        char c = (char)('0' + digit);
        place next = *p;
        if (p->phase == PHASE_WHOLE) {
            uint32_t i = p->whole;
            if (g->low.set && p->low == EQUAL && i < g->low.d->n_whole)
                next.low = against(c, g->low.d->digits[i]);
            if (g->high.set && p->high == EQUAL && i < g->high.d->n_whole)
                next.high = against(c, g->high.d->digits[i]);
            next.whole++;
        } else {
            if (g->low.set && p->low == EQUAL)
                next.low = against(c, fraction_digit(&g->low, p->fraction));
            if (g->high.set && p->high == EQUAL)
                next.high = against(c, fraction_digit(&g->high, p->fraction));
            next.phase = PHASE_FRACTION;
            next.fraction++;
        }
        if (!hopeless(g, &next))
            tt_builder_edge(g->b, from, (uint8_t)c, (uint8_t)c, state_of(g, &next));
    }
}

static void point_edge(digits *g, uint32_t from, const place *p)
{
    place next = *p;
    next.phase = PHASE_POINT;
    next.low = whole_against(&g->low, p->whole, p->low);
    next.high = whole_against(&g->high, p->whole, p->high);
    if (!hopeless(g, &next))
        tt_builder_edge(g->b, from, '.', '.', state_of(g, &next));
}

static void place_edges(digits *g, uint32_t from, const place *p)
{
    uint32_t used = (p->zero ? 0u : p->whole) + p->fraction;
    if (within(g, p))
        tt_builder_set_final(g->b, from);
    if (p->phase == PHASE_WHOLE && p->whole < g->most_whole)
        digit_edges(g, from, p);
    if (p->phase >= PHASE_POINT && used < g->most_digits && p->fraction < 40)
        digit_edges(g, from, p);
    if (p->phase <= PHASE_WHOLE && !g->whole_only && used < g->most_digits)
        point_edge(g, from, p);
}

/* Edges from `entry` to all magnitudes between the bounds. */
static void magnitudes(digits *g, uint32_t entry)
{
    for (unsigned k = 0; k < 10; k++) {
        char c = (char)('0' + k);
        place p = {.phase = c == '0' ? PHASE_ZERO : PHASE_WHOLE,
                   .zero = c == '0',
                   .whole = 1,
                   .low = g->low.set ? against(c, g->low.d->digits[0]) : EQUAL,
                   .high = g->high.set ? against(c, g->high.d->digits[0]) : EQUAL};
        if (!hopeless(g, &p))
            tt_builder_edge(g->b, entry, (uint8_t)c, (uint8_t)c, state_of(g, &p));
    }
    for (uint32_t i = 0; i < g->n && tt_builder_work(g->b, 10); i++) {
        place p = g->places[i];
        uint32_t at = state_of(g, &p);
        if (g->b->failed == TT_OK)
            place_edges(g, at, &p);
    }
    free(g->places);
    free(g->seen);
}

/* ---- the whole ---- */

static const tt_decimal zero = {.n_whole = 1, .digits = "0"};
static const tt_decimal most_whole = {.n_whole = 19, .digits = "9223372036854775807"};
static const tt_decimal least_whole = {
    .negative = true, .n_whole = 19, .digits = "9223372036854775808"};

/* Whole numbers stay within 64 bits where the bounds let them: those beyond were read as doubles,
 * so that their last digits are not known. */
static void within_64_bits(tt_number_range *r)
{
    bool above = r->has_max && tt_decimal_compare(&r->max, &most_whole) > 0;
    bool below = r->has_min && tt_decimal_compare(&r->min, &least_whole) < 0;
    if (above && (!r->has_min || tt_decimal_compare(&r->min, &most_whole) < 0)) {
        r->max = most_whole;
        r->open_max = false;
    }
    if (below && (!r->has_max || tt_decimal_compare(&r->max, &least_whole) > 0)) {
        r->min = least_whole;
        r->open_min = false;
    }
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void set_sizes(digits *g, const tt_number_range *r)
{
    uint32_t whole = 0, fraction = 0;
    if (r->has_min) {
        whole = r->min.n_whole;
        fraction = r->min.n_fraction;
    }
    if (r->has_max) {
        whole = larger(whole, r->max.n_whole);
        fraction = larger(fraction, r->max.n_fraction);
    }
    g->whole_only = r->whole;
    g->most_whole = larger(r->whole ? TT_INTEGER_DIGITS : TT_NUMBER_DIGITS, whole);
    g->most_digits = larger(TT_NUMBER_DIGITS, fraction > 0 ? whole + fraction : 0);
}

/* Numbers without bounds may have an exponent of one or two digits. */
static void exponents(tt_builder *b, uint32_t first, uint32_t last)
{
    uint32_t e = tt_builder_state(b), sign = tt_builder_state(b), one = tt_builder_final(b),
             two = tt_builder_final(b);
    tt_builder_edge(b, e, '+', '+', sign);
    tt_builder_edge(b, e, '-', '-', sign);
    tt_builder_edge(b, e, '0', '9', one);
    tt_builder_edge(b, sign, '0', '9', one);
    tt_builder_edge(b, one, '0', '9', two);
    for (uint32_t s = first; s < last && b->failed == TT_OK; s++) {
        if (!b->states[s].final)
            continue;
        tt_builder_edge(b, s, 'e', 'e', e);
        tt_builder_edge(b, s, 'E', 'E', e);
    }
}

uint32_t tt_number_rule(tt_builder *b, const tt_number_range *range)
{
    tt_number_range within = *range, *r = &within;
    if (r->whole)
        within_64_bits(r);
    uint32_t entry = tt_builder_state(b), minus = tt_builder_state(b), first = b->n_states;
    bool upper = r->has_max && r->max.negative, lower = r->has_min && !r->min.negative;
    if (!upper) {
        digits g = {.b = b};
        set_sizes(&g, r);
        g.low = (bound){lower, lower && r->open_min, &r->min};
        g.high = (bound){r->has_max, r->open_max, &r->max};
        magnitudes(&g, entry);
    }
    if (!lower) {
        /* Below zero the bounds change places. No minus zero. */
        digits g = {.b = b};
        set_sizes(&g, r);
        g.low = upper ? (bound){true, r->open_max, &r->max} : (bound){true, true, &zero};
        g.high = (bound){r->has_min, r->open_min, &r->min};
        tt_builder_edge(b, entry, '-', '-', minus);
        magnitudes(&g, minus);
    }
    if (!r->whole && !r->has_min && !r->has_max)
        exponents(b, first, b->n_states);
    return entry;
}
