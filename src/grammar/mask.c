#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TOPS   32768u
#define WORTH_CACHE 400u /* looks that a mask took which is kept */

tt_status tt_walker_init(tt_walker *w, const tt_lexicon *x, tt_error *err)
{
    tt_walker y = {.cap_tops = MOST_TOPS};
    y.frames.cap = TT_MATCH_FRAMES;
    y.frames.v = malloc(y.frames.cap * sizeof *y.frames.v);
    y.tops = malloc(y.cap_tops * sizeof *y.tops);
    y.begin = malloc((x->deepest + 2) * sizeof *y.begin);
    y.frames_begin = malloc((x->deepest + 2) * sizeof *y.frames_begin);
    if (y.frames.v == NULL || y.tops == NULL || y.begin == NULL || y.frames_begin == NULL) {
        tt_walker_free(&y);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the masks of a grammar");
    }
    *w = y;
    return TT_OK;
}

size_t tt_walker_bytes(const tt_lexicon *x)
{
    return ((size_t)TT_MATCH_FRAMES + MOST_TOPS) * sizeof(tt_frame) +
           2 * (size_t)(x->deepest + 2) * sizeof(uint32_t);
}

void tt_walker_free(tt_walker *w)
{
    free(w->frames.v);
    free(w->tops);
    free(w->begin);
    free(w->frames_begin);
    *w = (tt_walker){0};
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- the walk ---- */

/* Counts a character of a text; false when there is no room for it, or it is not that simple. */
static bool count_fast(const tt_automaton *m, const tt_gstate *to, tt_frame *f, bool *dead)
{
    if (to->guard == TT_GUARD_NONE)
        return true;
    if (to->guard != TT_GUARD_INC && to->guard != TT_GUARD_MORE)
        return false;
    const tt_gcount *c = &m->counts[f->param];
    *dead = f->number >= c->max || to->arg > c->max - f->number - 1;
    if (to->guard == TT_GUARD_INC && (c->max != TT_NO_LIMIT || f->number < c->min))
        f->number++;
    return true;
}

/* The usual case: one stack, one edge, no call. False when it is another. */
static bool step_fast(const tt_automaton *m, const tt_frame *f, uint8_t b, tt_frame *out,
                      bool *dead)
{
    const tt_gstate *s = &m->states[f->state];
    uint32_t to = TT_NO_STATE;
    if (s->n_calls > 0 || (s->flags & (TT_STATE_FINAL | TT_STATE_SIMPLE)) != TT_STATE_SIMPLE)
        return false;
    if (s->row != TT_NO_STATE) {
        to = m->rows[s->row][b];
    } else {
        for (uint32_t i = s->edges; i < s->edges + s->n_edges && m->edges[i].lo <= b; i++)
            if (m->edges[i].hi >= b)
                to = m->edges[i].to;
    }
    *dead = to == TT_NO_STATE;
    if (*dead)
        return true;
    const tt_gstate *t = &m->states[to];
    if ((t->flags & TT_STATE_LAST) || f->depth + t->need > TT_AUTOMATON_NEST)
        return false;
    *out = *f;
    out->state = to;
    return count_fast(m, t, out, dead);
}

/* Stacks behind `b` after those of depth d - 1, at depth d; how many. */
static uint32_t step_all(tt_walker *w, const tt_automaton *m, uint32_t d, uint8_t b)
{
    const tt_frame *from = w->tops + w->begin[d - 1];
    uint32_t n = w->begin[d] - w->begin[d - 1];
    tt_tops out = {.v = w->tops + w->begin[d], .cap = w->cap_tops - w->begin[d]};
    bool dead = false;
    out.cap = out.cap < TT_MATCH_PARALLEL ? out.cap : TT_MATCH_PARALLEL;
    w->frames.n = w->frames_begin[d - 1];
    if (n == 1 && out.cap > 0 && step_fast(m, from, b, out.v, &dead))
        out.n = !dead;
    else
        for (uint32_t i = 0; i < n; i++)
            tt_match_step(m, &w->frames, &from[i], b, &out);
    w->begin[d + 1] = w->begin[d] + out.n;
    w->frames_begin[d] = w->frames.n;
    return out.n;
}

/* What a state behind the first byte of a character has to be, for all of its ends to absorb. */
static uint8_t inside_of(uint8_t lead)
{
    return lead < 0xc2    ? 0
           : lead < 0xe0  ? TT_INSIDE_1
           : lead == 0xe0 ? TT_INSIDE_E0
           : lead == 0xed ? TT_INSIDE_ED
           : lead < 0xf0  ? TT_INSIDE_2
           : lead == 0xf0 ? TT_INSIDE_F0
           : lead == 0xf4 ? TT_INSIDE_F4
                          : TT_INSIDE_3;
}

static bool is_inside(uint8_t inside, uint8_t lead)
{
    uint8_t want = inside_of(lead);
    return inside != 0 &&
           (inside == want || (inside == TT_INSIDE_2 && lead >= 0xe0 && lead < 0xf0) ||
            (inside == TT_INSIDE_3 && lead >= 0xf0));
}

/* Whether all plain tokens below a node may follow one of the stacks behind it. */
static bool absorbs(const tt_walker *w, const tt_automaton *m, const tt_lex_node *node)
{
    uint32_t d = node->depth;
    for (uint32_t i = w->begin[d]; i < w->begin[d + 1]; i++) {
        const tt_frame *f = &w->tops[i];
        const tt_gstate *s = &m->states[f->state];
        bool inside = s->inside != 0 && is_inside(s->inside, node->byte);
        if (!(s->flags & TT_STATE_ABSORBS) && !inside)
            continue;
        uint32_t room = tt_match_room(m, f), chars = (uint32_t)node->longest + inside;
        if (room == TT_NO_LIMIT || (node->longest < 255 && room >= chars))
            return true;
    }
    return false;
}

static void walk(tt_walker *w, const tt_automaton *m, const tt_lex_trie *x, bool plain,
                 uint64_t *mask)
{
    for (uint32_t i = 0; i < x->n;) {
        const tt_lex_node *node = &x->nodes[i];
        uint32_t d = node->depth;
        w->steps++;
        if (step_all(w, m, d, node->byte) == 0) {
            i = node->skip;
            continue;
        }
        if (plain && absorbs(w, m, node)) {
            for (uint32_t k = node->rank; k < x->nodes[node->skip].rank; k++)
                tt_mask_set(mask, x->ids[k]);
            i = node->skip;
            continue;
        }
        if (node->token != UINT32_MAX)
            tt_mask_set(mask, node->token);
        i++;
    }
}

/* ---- plain tokens as a whole ---- */

/* Adds the plain tokens that may follow `f`, at a state that absorbs; true when that is all of the
 * plain ones, or when no other plain one may follow it. */
static bool take_plain(const tt_lexicon *x, const tt_automaton *m, const tt_frame *f, bool *all,
                       uint64_t *mask)
{
    const tt_gstate *s = &m->states[f->state];
    uint32_t room = tt_match_room(m, f);
    bool only = s->n_calls == 0 && !(s->flags & TT_STATE_FINAL);
    *all = room == TT_NO_LIMIT || room >= x->longest;
    uint32_t k = *all ? 0 : least(room, TT_LEXICON_LENGTHS);
    if (!*all && k == 0)
        return only;
    for (uint32_t i = 0; i < x->words; i++)
        mask[i] |= x->short_plain[k][i];
    return *all || (k == room && only);
}

/* Whether the plain tokens are dealt with. Stacks that absorb, or are about to call what does, take
 * them as a whole. */
static bool plain_done(const tt_walker *w, const tt_lexicon *x, const tt_automaton *m,
                       uint64_t *mask)
{
    uint32_t n = w->begin[1] - w->begin[0];
    for (uint32_t i = 0; i < n; i++) {
        tt_frame f = w->tops[w->begin[0] + i];
        const tt_gstate *s = &m->states[f.state];
        bool all = false;
        if (s->flags & TT_STATE_ABSORBS) {
            bool done = take_plain(x, m, &f, &all, mask);
            if (all || (done && n == 1))
                return true;
            continue;
        }
        for (uint32_t k = s->calls; k < s->calls + s->n_calls; k++) {
            const tt_gcall *c = &m->calls[k];
            tt_frame called = {.state = c->entry, .param = c->param, .depth = f.depth + 1};
            if (c->extra || !(m->states[c->entry].flags & TT_STATE_ABSORBS) ||
                called.depth + m->states[c->entry].need > TT_AUTOMATON_NEST ||
                f.depth + m->states[c->ret].need > TT_AUTOMATON_NEST)
                continue;
            (void)take_plain(x, m, &called, &all, mask);
            if (all)
                return true;
        }
    }
    return false;
}

/* ---- the cache ---- */

static bool key_add(uint32_t *key, uint32_t *n, uint32_t x)
{
    if (*n == TT_LEXICON_KEY)
        return false;
    key[(*n)++] = x;
    return true;
}

/* What the mask follows from. In texts that are counted only what is near the bounds matters. */
static bool key_frame(const tt_lexicon *x, const tt_automaton *m, const tt_frame *f, bool top,
                      uint32_t *key, uint32_t *n)
{
    const tt_gstate *s = &m->states[f->state];
    uint32_t number = f->number, param = f->param;
    bool counts =
        top && (s->flags & TT_STATE_ABSORBS) && m->states[s->absorb].guard == TT_GUARD_INC;
    if (counts) {
        const tt_gcount *c = &m->counts[f->param];
        number = least(c->min > f->number ? c->min - f->number : 0, x->deepest + 1);
        param = c->max == TT_NO_LIMIT ? x->deepest + 1 : least(c->max - f->number, x->deepest + 1);
    }
    return key_add(key, n, f->state << 1 | counts) && key_add(key, n, number) &&
           key_add(key, n, param);
}

static bool make_key(const tt_lexicon *x, const tt_gmatcher *t, uint32_t *key, uint32_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i < t->tops.n; i++) {
        const tt_frame *f = &t->tops.v[i];
        if (!key_frame(x, t->m, f, true, key, n))
            return false;
        while (f->parent != TT_NO_STATE) {
            f = &t->frames.v[f->parent];
            if (!key_frame(x, t->m, f, false, key, n))
                return false;
        }
        if (!key_add(key, n, TT_NO_STATE))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

void tt_walker_mask(tt_walker *w, tt_lexicon *x, uint64_t grammar, const tt_gmatcher *t,
                    uint64_t *mask)
{
    uint32_t key[TT_LEXICON_KEY], n_key = 0;
    uint64_t before = w->steps;
    bool keyed = make_key(x, t, key, &n_key);
    if (keyed && tt_lexicon_recall(x, grammar, key, n_key, mask))
        return;
    w->frames.n = t->frames.n;
    memcpy(w->frames.v, t->frames.v, t->frames.n * sizeof *t->frames.v);
    memcpy(w->tops, t->tops.v, t->tops.n * sizeof *t->tops.v);
    w->begin[0] = 0;
    w->begin[1] = t->tops.n;
    w->frames_begin[0] = w->frames.n;
    memset(mask, 0, x->words * sizeof *mask);
    if (!plain_done(w, x, t->m, mask))
        walk(w, t->m, &x->plain, true, mask);
    walk(w, t->m, &x->rest, false, mask);
    if (keyed && w->steps - before > WORTH_CACHE)
        tt_lexicon_remember(x, grammar, key, n_key, mask);
}
