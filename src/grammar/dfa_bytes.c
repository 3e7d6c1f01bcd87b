/* Automata over characters as states over bytes. */
#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"

#define MIXED (TT_NO_STATE - 1)

typedef struct spell {
    tt_builder *b;
    const tt_dfa *d;
    tt_spelling spelling;
    uint32_t *states;
    uint32_t *rest[4];    /* [level][state of d]: 1 to 3 more bytes of any kind, then that state */
    uint32_t *bounded[4]; /* the same behind E0, ED, F0, F4 */
    uint32_t *left;       /* [n] characters to the nearest accepting state; NULL: not counted */
    uint32_t cut;         /* where the last search ended */
} spell;

static uint32_t target(const spell *s, uint32_t state, uint32_t cut)
{
    return s->d->next[(size_t)state * (s->d->n_classes + s->d->n_symbols) + s->d->classes[cut]];
}

static uint32_t cut_of(spell *s, uint32_t c)
{
    const uint32_t *cuts = s->d->cuts;
    uint32_t lo = 0, hi = s->d->n_cuts;
    /* Characters are asked for in order. */
    if (cuts[s->cut] <= c && (s->cut + 1 == hi || cuts[s->cut + 1] > c))
        return s->cut;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (cuts[mid] <= c)
            lo = mid;
        else
            hi = mid;
    }
    return s->cut = lo;
}

/* The one state that characters [lo, hi] lead to, or MIXED. */
static uint32_t same_target(spell *s, uint32_t state, uint32_t lo, uint32_t hi)
{
    uint32_t i = cut_of(s, lo), to = target(s, state, i);
    for (i++; i < s->d->n_cuts && s->d->cuts[i] <= hi; i++)
        if (target(s, state, i) != to)
            return MIXED;
    return to;
}

/* ---- characters of several bytes ---- */

/* A state inside a character, which is begun only if the text can end after it. */
static uint32_t inside(spell *s)
{
    uint32_t here = tt_builder_state(s->b);
    if (s->left != NULL)
        tt_builder_guard(s->b, here, TT_GUARD_MORE, TT_NO_LIMIT);
    return here;
}

/* An edge to where characters end or go on; the guard of `from` is the weakest of those behind. */
static void inside_edge(spell *s, uint32_t from, unsigned lo, unsigned hi, uint32_t to)
{
    tt_builder_edge(s->b, from, lo, hi, to);
    if (s->left != NULL && s->b->failed == TT_OK && s->b->states[to].arg < s->b->states[from].arg)
        s->b->states[from].arg = s->b->states[to].arg;
}

/* A state from which `more` continuation bytes lead to state `to` of d. */
static uint32_t rest_state(spell *s, uint32_t to, uint32_t more)
{
    if (more == 0)
        return s->states[to];
    if (s->rest[more][to] == 0) {
        uint32_t here = inside(s);
        inside_edge(s, here, 0x80, 0xbf, rest_state(s, to, more - 1));
        s->rest[more][to] = here;
    }
    return s->rest[more][to];
}

static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* characters by their bytes */

static bool no_char(uint32_t c, uint32_t bytes)
{
    return c < least[bytes] || (c >= 0xd800 && c < 0xe000) || c > TT_LAST_CHAR;
}

static uint32_t branch(spell *s, uint32_t state, uint32_t base, uint32_t more, uint32_t bytes);

/* The state behind a byte after which characters [base, base + 64^more) follow; TT_NO_STATE when
 * none of them leads on. */
static uint32_t behind(spell *s, uint32_t state, uint32_t base, uint32_t more, uint32_t bytes)
{
    uint32_t last = base + (1u << 6 * more) - 1;
    if (more == 0)
        return no_char(base, bytes) ? TT_NO_STATE
               : target(s, state, cut_of(s, base)) == TT_NO_STATE
                   ? TT_NO_STATE
                   : s->states[target(s, state, cut_of(s, base))];
    /* Surrogates, what is above the last character and what is written too long end at block
     * borders. */
    if (no_char(base, bytes) && no_char(last, bytes) && (base >= 0xd800 || last < least[bytes]))
        return TT_NO_STATE;
    uint32_t to = same_target(s, state, base, last);
    if (to == TT_NO_STATE)
        return TT_NO_STATE;
    if (to != MIXED && !no_char(base, bytes) && !no_char(last, bytes))
        return rest_state(s, to, more);
    return branch(s, state, base, more, bytes);
}

static uint32_t branch(spell *s, uint32_t state, uint32_t base, uint32_t more, uint32_t bytes)
{
    uint32_t here = TT_NO_STATE, span = 1u << 6 * (more - 1), begin = 0, to[65];
    if (!tt_builder_work(s->b, 64))
        return 0;
    for (uint32_t i = 0; i < 64; i++)
        to[i] = behind(s, state, base + i * span, more - 1, bytes);
    to[64] = MIXED;
    for (uint32_t i = 1; i <= 64; i++) {
        if (to[i] == to[begin])
            continue;
        if (to[begin] != TT_NO_STATE) {
            if (here == TT_NO_STATE)
                here = inside(s);
            inside_edge(s, here, 0x80 + begin, 0x80 + i - 1, to[begin]);
        }
        begin = i;
    }
    return here;
}

/* Leads with bounds of their own are mostly followed by one target: those states are shared. */
static uint32_t behind_bounded(spell *s, uint32_t state, unsigned lead)
{
    static const struct {
        unsigned lead;
        uint32_t lo, hi;
    } leads[4] = {{0xe0, 0x800, 0xfff},
                  {0xed, 0xd000, 0xd7ff},
                  {0xf0, 0x10000, 0x3ffff},
                  {0xf4, 0x100000, 0x10ffff}};
    uint32_t bytes = lead < 0xf0 ? 3 : 4, base = (lead & (bytes == 3 ? 0xfu : 7u))
                                                 << 6 * (bytes - 1);
    for (uint32_t i = 0; i < 4; i++) {
        if (leads[i].lead != lead)
            continue;
        uint32_t to = same_target(s, state, leads[i].lo, leads[i].hi);
        if (to == MIXED || to == TT_NO_STATE)
            break;
        if (s->bounded[i][to] == 0)
            s->bounded[i][to] = branch(s, state, base, bytes - 1, bytes);
        return s->bounded[i][to];
    }
    return behind(s, state, base, bytes - 1, bytes);
}

static void spell_long(spell *s, uint32_t state)
{
    uint32_t to[0xf6 - 0xc2];
    unsigned begin = 0xc2;
    if (same_target(s, state, 0x80, TT_LAST_CHAR) == TT_NO_STATE)
        return;
    for (unsigned lead = 0xc2; lead <= 0xf4 && tt_builder_work(s->b, 6); lead++) {
        uint32_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        uint32_t base = (lead & (0x3fu >> (bytes - 1))) << 6 * (bytes - 1);
        bool bounded = lead == 0xe0 || lead == 0xed || lead == 0xf0 || lead == 0xf4;
        to[lead - 0xc2] =
            bounded ? behind_bounded(s, state, lead) : behind(s, state, base, bytes - 1, bytes);
    }
    if (s->b->failed != TT_OK)
        return;
    to[0xf5 - 0xc2] = MIXED;
    for (unsigned lead = 0xc3; lead <= 0xf5; lead++) {
        if (to[lead - 0xc2] == to[begin - 0xc2])
            continue;
        if (to[begin - 0xc2] != TT_NO_STATE)
            tt_builder_edge(s->b, s->states[state], begin, lead - 1, to[begin - 0xc2]);
        begin = lead;
    }
}

/* ---- characters of one byte ---- */

/* What is escaped in JSON, each in one way. */
static void spell_escapes(spell *s, uint32_t state)
{
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    static const char hex[] = "0123456789abcdef";
    uint32_t escape = TT_NO_STATE, u[2] = {TT_NO_STATE, TT_NO_STATE}, chain[2][3] = {{0}};
    for (uint32_t c = 1; c < 0x60; c++) {
        const char *letter = strchr(letters, (int)c);
        uint32_t to = c < 0x20 || letter != NULL ? target(s, state, cut_of(s, c)) : TT_NO_STATE;
        if (to == TT_NO_STATE)
            continue;
        if (escape == TT_NO_STATE) {
            escape = inside(s);
            tt_builder_edge(s->b, s->states[state], '\\', '\\', escape);
        }
        if (letter != NULL) {
            uint8_t name = (uint8_t)names[letter - letters];
            inside_edge(s, escape, name, name, s->states[to]);
            continue;
        }
        if (u[c >> 4] == TT_NO_STATE) {
            char text[4] = {'u', '0', '0', hex[c >> 4]};
            uint32_t from = escape;
            for (int i = 0; i < 4; i++) {
                uint32_t here = inside(s);
                tt_builder_edge(s->b, from, (uint8_t)text[i], (uint8_t)text[i], here);
                if (i < 3)
                    chain[c >> 4][i] = here;
                from = here;
            }
            u[c >> 4] = from;
        }
        inside_edge(s, u[c >> 4], (uint8_t)hex[c & 15], (uint8_t)hex[c & 15], s->states[to]);
    }
    /* The digits in front lead to the last ones. */
    for (int k = 0; s->left != NULL && s->b->failed == TT_OK && k < 2; k++) {
        for (int i = 0; u[k] != TT_NO_STATE && i < 3; i++)
            s->b->states[chain[k][i]].arg = s->b->states[u[k]].arg;
        if (u[k] != TT_NO_STATE && s->b->states[u[k]].arg < s->b->states[escape].arg)
            s->b->states[escape].arg = s->b->states[u[k]].arg;
    }
}

static void spell_short(spell *s, uint32_t state)
{
    bool json = s->spelling == TT_SPELL_JSON;
    for (uint32_t c = json ? 0x20 : 1; c < 0x80; c++) {
        uint32_t to = target(s, state, cut_of(s, c));
        if (to != TT_NO_STATE && !(json && (c == '"' || c == '\\')))
            tt_builder_edge(s->b, s->states[state], c, c, s->states[to]);
    }
    if (json)
        spell_escapes(s, state);
}

/* Characters from each state to the nearest end. Sweeps until nothing gets nearer. */
static bool find_left(spell *s)
{
    const tt_dfa *d = s->d;
    bool more = true;
    s->left = malloc((d->n + 1) * sizeof *s->left);
    if (s->left == NULL)
        return false;
    for (uint32_t i = 0; i < d->n; i++)
        s->left[i] = d->accept[i] ? 0 : TT_NO_LIMIT - 1;
    while (more) {
        more = false;
        for (uint32_t i = d->n; i-- > 0;) {
            if (!tt_builder_work(s->b, d->n_classes))
                return true;
            for (uint32_t c = 0; c < d->n_classes; c++) {
                uint32_t to = d->next[(size_t)i * (d->n_classes + d->n_symbols) + c];
                if (to == TT_NO_STATE || s->left[to] + 1 >= s->left[i])
                    continue;
                s->left[i] = s->left[to] + 1;
                more = true;
            }
        }
    }
    return true;
}

static void make_states(spell *s, uint32_t most)
{
    tt_builder *b = s->b;
    const tt_dfa *d = s->d;
    for (uint32_t i = 0; i < d->n && b->failed == TT_OK; i++) {
        s->states[i] = tt_builder_state(b);
        if (s->left != NULL)
            tt_builder_guard(b, s->states[i], TT_GUARD_INC, s->left[i]);
    }
    for (uint32_t i = 0; i < d->n && tt_builder_work(b, 128); i++) {
        spell_short(s, i);
        spell_long(s, i);
    }
    s->states[d->n] = s->states[0];
    if (s->left != NULL) {
        s->states[d->n] = tt_builder_state(b);
        /* Where even the shortest text is too long, nothing begins. */
        if (s->left[0] <= most)
            tt_builder_copy(b, s->states[0], s->states[d->n]);
    }
}

uint32_t *tt_dfa_states(tt_builder *b, const tt_dfa *d, tt_spelling spelling, uint32_t most)
{
    spell s = {.b = b, .d = d, .spelling = spelling};
    bool ok = true, counted = most != TT_NO_LIMIT;
    s.states = malloc((d->n + 1) * sizeof *s.states);
    for (int i = 0; i < 4; i++) {
        s.rest[i] = calloc(d->n + 1, sizeof *s.rest[i]);
        s.bounded[i] = calloc(d->n + 1, sizeof *s.bounded[i]);
        ok = ok && s.rest[i] != NULL && s.bounded[i] != NULL;
    }
    if (!ok || s.states == NULL || (counted && !find_left(&s)))
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
    else
        make_states(&s, most);
    for (int i = 0; i < 4; i++) {
        free(s.rest[i]);
        free(s.bounded[i]);
    }
    free(s.left);
    if (b->failed == TT_OK)
        return s.states;
    free(s.states);
    return NULL;
}
