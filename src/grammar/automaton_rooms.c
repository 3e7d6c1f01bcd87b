/* What states take of any text, so that a walk of tokens need not try every byte of it. */
#include <stdlib.h>
#include <string.h>

#include "grammar/automaton.h"

#define MOST_SWEEPS 32u
#define MOST_SPOTS  8192u
#define WIDE        26u /* bytes of an edge that is worth a look: a class of letters */
#define NO_HOME     TT_NO_STATE

/* How many bytes of a plain character are missing, and behind which first ones, where those bound
 * what may come: some cannot, some lead to white space or line ends, which are not plain. BAD:
 * different characters came by here. */
enum {
    KIND_NONE,
    KIND_1,
    KIND_C2,
    KIND_E19A,
    KIND_E280,
    KIND_E281,
    KIND_E380,
    KIND_EFBB,
    KIND_2,
    KIND_E0,
    KIND_E1,
    KIND_E2,
    KIND_E3,
    KIND_ED,
    KIND_EF,
    KIND_3,
    KIND_F0,
    KIND_F4,
    KIND_BAD
};

/* A state between the characters of a text, or inside one, and where that leads. */
typedef struct spot {
    uint32_t state, begin, n; /* its targets */
    uint8_t kind;
    bool counted; /* characters behind it are */
} spot;

typedef struct rooms {
    tt_automaton *m;
    uint8_t *kind;    /* [n_states] */
    uint8_t *counted; /* [n_states] of spots */
    uint8_t *whole;   /* [n_states] inside a character: every way on is there */
    uint32_t *home;   /* [n_states] the state itself; inside a character the one state behind it, or
                         NO_HOME */
    spot *spots;      /* insides first */
    uint32_t n_spots, cap_spots, n_insides;
    uint32_t *targets, n_targets, cap_targets;
    bool failed;
} rooms;

uint8_t tt_char_class(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z')
        return TT_CHARS_LOWER;
    if (byte >= 'A' && byte <= 'Z')
        return TT_CHARS_UPPER;
    if (byte >= '0' && byte <= '9')
        return TT_CHARS_DIGIT;
    if (byte >= 0x80)
        return TT_CHARS_LONG;
    if (byte < 0x20 || byte == '"' || byte == '\\' || byte == '<')
        return TT_CHARS_OTHER;
    return byte == ' ' ? TT_CHARS_SPACE : TT_CHARS_MARK;
}

static uint8_t kind_of(unsigned lead)
{
    switch (lead) {
    case 0xc2:
        return KIND_C2;
    case 0xe0:
        return KIND_E0;
    case 0xe1:
        return KIND_E1;
    case 0xe2:
        return KIND_E2;
    case 0xe3:
        return KIND_E3;
    case 0xed:
        return KIND_ED;
    case 0xef:
        return KIND_EF;
    case 0xf0:
        return KIND_F0;
    case 0xf4:
        return KIND_F4;
    default:
        return lead < 0xe0 ? KIND_1 : lead < 0xf0 ? KIND_2 : KIND_3;
    }
}

/* Bytes [lo, hi] behind a kind and the kind behind those; what comes first holds. */
static const struct {
    uint8_t kind, lo, hi, next;
} ways[] = {
    {KIND_C2, 0xa0, 0xa0, KIND_BAD},   {KIND_E19A, 0x80, 0x80, KIND_BAD},
    {KIND_E280, 0x80, 0x8a, KIND_BAD}, {KIND_E280, 0xa8, 0xa9, KIND_BAD},
    {KIND_E280, 0xaf, 0xaf, KIND_BAD}, {KIND_E281, 0x9f, 0x9f, KIND_BAD},
    {KIND_E380, 0x80, 0x80, KIND_BAD}, {KIND_EFBB, 0xbf, 0xbf, KIND_BAD},
    {KIND_E0, 0x80, 0x9f, KIND_BAD},   {KIND_ED, 0xa0, 0xbf, KIND_BAD},
    {KIND_F0, 0x80, 0x8f, KIND_BAD},   {KIND_F4, 0x90, 0xbf, KIND_BAD},
    {KIND_E1, 0x9a, 0x9a, KIND_E19A},  {KIND_E2, 0x80, 0x80, KIND_E280},
    {KIND_E2, 0x81, 0x81, KIND_E281},  {KIND_E3, 0x80, 0x80, KIND_E380},
    {KIND_EF, 0xbb, 0xbb, KIND_EFBB},
};

/* The kind behind one more byte: KIND_NONE when the character is over, KIND_BAD when it is not
 * plain. */
static uint8_t kind_behind(uint8_t kind, unsigned byte)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].kind == kind && ways[i].lo <= byte && ways[i].hi >= byte)
            return ways[i].next;
    return kind >= KIND_3 ? KIND_2 : kind >= KIND_2 ? KIND_1 : KIND_NONE;
}

/* The kind that asks for any bytes, as many as are missing; KIND_NONE where some cannot come. */
static uint8_t missing(uint8_t kind)
{
    static const uint8_t bounded[] = {KIND_E0, KIND_ED, KIND_F0, KIND_F4, KIND_BAD};
    if (memchr(bounded, kind, sizeof bounded) != NULL)
        return KIND_NONE;
    return kind >= KIND_3 ? KIND_3 : kind >= KIND_2 ? KIND_2 : KIND_1;
}

/* A kind that asks for all that both do, or KIND_BAD. */
static uint8_t both_kinds(uint8_t a, uint8_t b)
{
    if (a == b || a == KIND_NONE)
        return b;
    return missing(a) != KIND_NONE && missing(a) == missing(b) ? missing(a) : KIND_BAD;
}

bool tt_char_plain(const uint8_t *p, uint32_t n)
{
    if (n == 1)
        return tt_char_class(p[0]) < TT_CHARS_OTHER;
    uint8_t kind = kind_of(p[0]);
    for (uint32_t i = 1; i < n && kind != KIND_BAD; i++)
        kind = kind_behind(kind, p[i]);
    return kind == KIND_NONE;
}

static uint32_t target_of(const tt_automaton *m, uint32_t s, unsigned byte)
{
    const tt_gstate *st = &m->states[s];
    if (st->row != TT_NO_STATE)
        return m->rows[st->row][byte];
    for (uint32_t i = st->edges; i < st->edges + st->n_edges && m->edges[i].lo <= byte; i++)
        if (m->edges[i].hi >= byte)
            return m->edges[i].to;
    return TT_NO_STATE;
}

/* ---- states inside characters ---- */

static void mark_kind(rooms *r, uint32_t s, uint8_t kind)
{
    const tt_gstate *st = &r->m->states[s];
    kind = both_kinds(r->kind[s], kind);
    if (kind == r->kind[s])
        return;
    r->kind[s] = kind;
    for (uint32_t i = st->edges; kind != KIND_BAD && i < st->edges + st->n_edges; i++)
        for (unsigned c = 0x80; c < 0xc0; c++) {
            const tt_gedge *e = &r->m->edges[i];
            uint8_t next = kind_behind(kind, c);
            if (e->lo <= c && e->hi >= c && next != KIND_NONE && next != KIND_BAD)
                mark_kind(r, e->to, next);
        }
}

/* Whether text may come: the others are not worth the work. */
static bool is_text(const tt_automaton *m, uint32_t s)
{
    const tt_gstate *st = &m->states[s];
    bool wide = st->row != TT_NO_STATE;
    for (uint32_t i = st->edges; !wide && i < st->edges + st->n_edges; i++)
        wide = m->edges[i].hi - m->edges[i].lo + 1u >= WIDE && m->edges[i].lo < 0x80;
    return wide && (st->flags & TT_STATE_SIMPLE);
}

static void mark_kinds(rooms *r)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < r->m->n_states && n < MOST_SPOTS; s++) {
        bool text = is_text(r->m, s);
        n += text;
        for (unsigned lead = 0xc2; lead <= 0xf4 && text; lead++)
            if (target_of(r->m, s, lead) != TT_NO_STATE)
                mark_kind(r, target_of(r->m, s, lead), kind_of(lead));
    }
}

/* ---- where plain text leads ---- */

static void *grown(rooms *r, void *v, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return v;
    uint32_t want = *cap < 256 ? 256 : 2 * *cap;
    void *p = realloc(v, want * size);
    r->failed |= p == NULL;
    if (p == NULL)
        return v;
    *cap = want;
    return p;
}

/* Whether a state that was made for one kind does for another. */
static bool does_for(uint8_t made, uint8_t kind)
{
    return made == KIND_NONE || kind == KIND_NONE ? made == kind : both_kinds(made, kind) == made;
}

/* Adds where a byte leads, which is a state of `kind`, into *t. False when it does not, or when it
 * is not certain that the state may be entered wherever the spot itself was. */
static bool add_target(rooms *r, spot *x, unsigned byte, uint8_t kind, uint32_t *t)
{
    const tt_automaton *m = r->m;
    *t = target_of(m, x->state, byte);
    if (*t == TT_NO_STATE || !does_for(r->kind[*t], kind) || (kind != KIND_NONE && !r->whole[*t]))
        return false;
    for (uint32_t k = x->begin; k < r->n_targets; k++)
        if (r->targets[k] == *t)
            return true;
    const tt_gstate *st = &m->states[*t];
    bool inc = st->guard == (kind == KIND_NONE ? TT_GUARD_INC : TT_GUARD_MORE);
    if ((st->guard != TT_GUARD_NONE && !inc) || (inc && st->arg != 0) ||
        st->need > m->states[x->state].need || (r->n_targets > x->begin && x->counted != inc))
        return false;
    x->counted = inc;
    r->targets = grown(r, r->targets, r->n_targets, &r->cap_targets, sizeof *r->targets);
    if (r->failed)
        return false;
    r->targets[r->n_targets++] = *t;
    return true;
}

/* All that a class of characters leads to, or nothing of it. */
static void add_class(rooms *r, spot *x, uint8_t class)
{
    tt_gstate *s = &r->m->states[x->state];
    bool is_long = class == TT_CHARS_LONG, ok = true, loops = true;
    uint32_t before = r->n_targets, t;
    for (unsigned c = is_long ? 0xc2 : 0x20; c <= (is_long ? 0xf4 : 0x7f) && ok; c++) {
        if (tt_char_class((uint8_t)c) != class)
            continue;
        ok = add_target(r, x, c, is_long ? kind_of(c) : KIND_NONE, &t);
        loops = loops && ok && r->home[t] == x->state;
    }
    s->set |= ok ? class : 0;
    s->loops |= loops ? class : 0;
    r->n_targets = ok ? r->n_targets : before;
}

static bool add_insides(rooms *r, spot *x)
{
    bool ok = true;
    uint32_t t;
    for (unsigned c = 0x80; c < 0xc0 && ok; c++) {
        uint8_t next = kind_behind(x->kind, c);
        ok = next == KIND_BAD || add_target(r, x, c, next, &t);
    }
    return ok;
}

/* The one state behind all that a spot leads to, once the character in work is over. */
static uint32_t one_behind(const rooms *r, const spot *x)
{
    uint32_t one = r->home[r->targets[x->begin]];
    for (uint32_t k = x->begin + 1; k < x->begin + x->n; k++)
        if (r->home[r->targets[k]] != one)
            return NO_HOME;
    return one;
}

static void add_spot(rooms *r, uint32_t s)
{
    tt_gstate *st = &r->m->states[s];
    spot x = {.state = s, .begin = r->n_targets, .kind = r->kind[s]};
    if (x.kind == KIND_NONE) {
        for (unsigned class = 1; class < TT_CHARS_PLAIN; class <<= 1)
            add_class(r, &x, (uint8_t) class);
    } else {
        st->flags |= TT_STATE_INSIDE;
        r->whole[s] = add_insides(r, &x);
        r->home[s] = NO_HOME;
    }
    x.n = r->n_targets - x.begin;
    r->spots = grown(r, r->spots, r->n_spots, &r->cap_spots, sizeof *r->spots);
    if (r->failed || (x.kind == KIND_NONE ? st->set == 0 : !r->whole[s])) {
        r->n_targets = x.begin;
        return;
    }
    if (x.kind != KIND_NONE && (st->flags & TT_STATE_LEAN))
        r->home[s] = one_behind(r, &x);
    st->flags |= x.counted ? TT_STATE_COUNTED : 0;
    r->counted[s] = x.counted;
    r->spots[r->n_spots++] = x;
}

/* What may come behind the character in work is what all of its ends let come. */
static void set_inside(rooms *r, const spot *x)
{
    tt_gstate *states = r->m->states;
    uint32_t home = r->home[x->state];
    uint8_t set = TT_CHARS_PLAIN | TT_CHARS_INSIDE;
    for (uint32_t k = x->begin; k < x->begin + x->n; k++) {
        uint32_t t = r->targets[k];
        set &= states[t].set | (r->kind[t] == KIND_NONE ? TT_CHARS_INSIDE : 0);
    }
    states[x->state].set = set;
    if (home != NO_HOME)
        states[x->state].loops = states[home].loops | TT_CHARS_INSIDE;
}

/* States with fewer bytes to come first: others need to know of them. */
static void add_spots(rooms *r)
{
    static const uint8_t last[] = {KIND_EFBB, KIND_EF, KIND_F4};
    uint8_t first = KIND_1;
    for (size_t i = 0; i < sizeof last; first = last[i++] + 1)
        for (uint32_t s = 0; s < r->m->n_states && !r->failed; s++)
            if (r->kind[s] >= first && r->kind[s] <= last[i])
                add_spot(r, s);
    r->n_insides = r->n_spots;
    uint32_t n = 0;
    for (uint32_t s = 0; s < r->m->n_states && n < MOST_SPOTS && !r->failed; s++) {
        bool text = is_text(r->m, s);
        n += text;
        if (text && r->kind[s] == KIND_NONE)
            add_spot(r, s);
    }
    for (uint32_t i = 0; i < r->n_insides; i++)
        set_inside(r, &r->spots[i]);
}

/* ---- how much of it ---- */

/* What is left from a target on: nothing is known where fewer classes may come, or where counting
 * begins or ends. */
static uint8_t room_behind(const rooms *r, const spot *x, uint32_t t)
{
    const tt_gstate *s = &r->m->states[x->state], *st = &r->m->states[t];
    bool same = r->counted[t] == x->counted && (s->set & TT_CHARS_PLAIN & ~st->set) == 0;
    return st->room == 0 || !same ? 1 : st->room;
}

static bool sweep(rooms *r)
{
    bool more = false;
    for (uint32_t i = r->n_spots; i-- > 0;) {
        const spot *x = &r->spots[i];
        uint8_t least = TT_ROOM_ANY, *room = &r->m->states[x->state].room;
        for (uint32_t k = x->begin; k < x->begin + x->n; k++) {
            uint8_t behind = room_behind(r, x, r->targets[k]);
            least = behind < least ? behind : least;
        }
        least += x->kind == KIND_NONE && least < TT_ROOM_ANY - 1;
        more |= least < *room;
        *room = least < *room ? least : *room;
    }
    return more;
}

/* From the largest guess down to what holds. */
static void find_rooms(rooms *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_spots; i++)
        r->m->states[r->spots[i].state].room = TT_ROOM_ANY;
    while (sweep(r) && ++n < MOST_SWEEPS)
        continue;
    for (uint32_t i = 0; n == MOST_SWEEPS && i < r->n_spots; i++)
        r->m->states[r->spots[i].state].room = 0;
}

/* ---- states that take no more than that ---- */

/* States that no plain character can follow, nor the end of their rule. */
static void mark_closed(tt_automaton *m)
{
    for (uint32_t s = 0; s < m->n_states; s++) {
        tt_gstate *st = &m->states[s];
        bool closed = st->n_calls == 0 && !(st->flags & TT_STATE_FINAL);
        for (uint32_t i = st->edges; closed && i < st->edges + st->n_edges; i++)
            for (unsigned c = m->edges[i].lo; closed && c <= m->edges[i].hi; c++)
                closed = tt_char_class((uint8_t)c) == TT_CHARS_OTHER;
        st->flags |= closed ? TT_STATE_EXACT : 0;
    }
}

/* Who leads to one state only, itself or one that is exact, is so too. */
static void find_exact(rooms *r)
{
    tt_gstate *states = r->m->states;
    bool more = true;
    mark_closed(r->m);
    for (uint32_t n = 0; more && n < MOST_SWEEPS; n++) {
        more = false;
        for (uint32_t i = r->n_spots; i-- > r->n_insides;) {
            const spot *x = &r->spots[i];
            tt_gstate *s = &states[x->state];
            if (s->set != TT_CHARS_PLAIN || (s->flags & TT_STATE_EXACT) ||
                (s->flags & (TT_STATE_LEAN | TT_STATE_FINAL)) != TT_STATE_LEAN)
                continue;
            uint32_t t = one_behind(r, x);
            if (t == NO_HOME || (t != x->state && !(states[t].flags & TT_STATE_EXACT)))
                continue;
            s->flags |= TT_STATE_EXACT;
            more = true;
        }
    }
}

/* ---- the whole ---- */

static void mark_lean(tt_automaton *m)
{
    for (uint32_t s = 0; s < m->n_states; s++) {
        tt_gstate *st = &m->states[s];
        bool plain =
            st->guard == TT_GUARD_NONE || st->guard == TT_GUARD_INC || st->guard == TT_GUARD_MORE;
        if (plain && st->n_calls == 0 && (st->flags & TT_STATE_SIMPLE) &&
            !(st->flags & TT_STATE_LAST))
            st->flags |= TT_STATE_LEAN;
    }
}

bool tt_automaton_rooms(tt_automaton *m)
{
    rooms r = {.m = m};
    size_t n = m->n_states + 1;
    r.kind = calloc(n, 1);
    r.counted = calloc(n, 1);
    r.whole = calloc(n, 1);
    r.home = malloc(n * sizeof *r.home);
    r.failed = r.kind == NULL || r.counted == NULL || r.whole == NULL || r.home == NULL;
    if (!r.failed) {
        for (uint32_t s = 0; s < n; s++)
            r.home[s] = s;
        mark_lean(m);
        mark_kinds(&r);
        add_spots(&r);
    }
    if (!r.failed) {
        find_rooms(&r);
        find_exact(&r);
    }
    free(r.kind);
    free(r.counted);
    free(r.whole);
    free(r.home);
    free(r.spots);
    free(r.targets);
    return !r.failed;
}
