#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TOPS 32768u

tt_status tt_walker_init(tt_walker *w, const tt_lexicon *x, tt_error *err)
{
    tt_walker y = {.cap_tops = MOST_TOPS};
    y.frames.cap = TT_MATCH_FRAMES;
    y.frames.v = malloc(y.frames.cap * sizeof *y.frames.v);
    y.tops = malloc(y.cap_tops * sizeof *y.tops);
    y.spots = malloc((x->deepest + 1) * sizeof *y.spots);
    y.levels = malloc((x->deepest + 1) * sizeof *y.levels);
    if (y.frames.v == NULL || y.tops == NULL || y.spots == NULL || y.levels == NULL) {
        tt_walker_free(&y);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the masks of a grammar");
    }
    *w = y;
    return TT_OK;
}

size_t tt_walker_bytes(const tt_lexicon *x)
{
    return ((size_t)TT_MATCH_FRAMES + MOST_TOPS) * sizeof(tt_frame) +
           (size_t)(x->deepest + 1) * (sizeof(tt_spot) + sizeof(tt_level));
}

void tt_walker_free(tt_walker *w)
{
    free(w->frames.v);
    free(w->tops);
    free(w->spots);
    free(w->levels);
    *w = (tt_walker){0};
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- one byte ---- */

static bool is_lean(const tt_spot *spot)
{
    return (uint32_t)spot->at != TT_NO_STATE;
}

/* Stacks of depth d are wanted only where it is its own root, or right behind one. */
static uint32_t begin_of(const tt_walker *w, uint32_t d)
{
    return d == 0 ? 0 : w->levels[w->spots[d - 1].root].end;
}

/* A depth whose stacks are there: one that may go on the short way is noted as such. */
static void settle(tt_walker *w, const tt_automaton *m, uint32_t d)
{
    uint32_t begin = begin_of(w, d);
    tt_level *level = &w->levels[d];
    const tt_frame *f = &w->tops[begin];
    bool lean = level->end == begin + 1 && (m->states[f->state].flags & TT_STATE_LEAN);
    w->spots[d].root = d;
    w->spots[d].at = lean ? (uint64_t)f->number << 32 | f->state : TT_NO_STATE;
    level->asked = level->beyond = (tt_gset){{0}};
}

/* From every stack of depth d - 1, every way on. */
static bool step_all(tt_walker *w, const tt_automaton *m, uint32_t d, uint8_t b)
{
    const tt_spot *from = &w->spots[d - 1];
    const tt_level *root = &w->levels[from->root];
    tt_tops out = {.v = w->tops + root->end, .cap = w->cap_tops - root->end};
    out.cap = out.cap < TT_MATCH_PARALLEL ? out.cap : TT_MATCH_PARALLEL;
    w->frames.n = root->frames;
    if (is_lean(from)) {
        tt_frame f = w->tops[root->end - 1];
        f.state = (uint32_t)from->at;
        f.number = (uint32_t)(from->at >> 32);
        tt_match_step(m, &w->frames, &f, b, &out);
    } else {
        for (uint32_t i = begin_of(w, d - 1); i < root->end; i++)
            tt_match_step(m, &w->frames, &w->tops[i], b, &out);
    }
    w->levels[d].end = root->end + out.n;
    w->levels[d].frames = w->frames.n;
    settle(w, m, d);
    return out.n > 0;
}

static uint32_t target_of(const tt_automaton *m, const tt_gstate *s, uint8_t b)
{
    if (s->row != TT_NO_STATE)
        return m->rows[s->row][b];
    for (uint32_t i = s->edges; i < s->edges + s->n_edges && m->edges[i].lo <= b; i++)
        if (m->edges[i].hi >= b)
            return m->edges[i].to;
    return TT_NO_STATE;
}

/* Counts a character, or a byte of one, into *number; false when there is no room for it. */
static bool count(const tt_automaton *m, const tt_gstate *t, uint32_t param, uint32_t *number)
{
    const tt_gcount *c = &m->counts[param];
    if (*number >= c->max || t->arg > c->max - *number - 1)
        return false;
    *number += t->guard == TT_GUARD_INC && (c->max != TT_NO_LIMIT || *number < c->min);
    return true;
}

/* Whether byte b may follow when the rule on top of the one stack of a root ends. */
static bool ask_beyond(tt_walker *w, const tt_automaton *m, tt_level *root, uint8_t b)
{
    tt_frame v[1];
    tt_tops out = {.v = v, .cap = 1};
    w->frames.n = root->frames;
    tt_match_beyond(m, &w->frames, &w->tops[root->end - 1], b, &out);
    tt_gset_add(&root->asked, b, b);
    if (out.n > 0)
        tt_gset_add(&root->beyond, b, b);
    return out.n > 0;
}

static inline bool may_leave(tt_walker *w, const tt_automaton *m, tt_level *root, uint8_t b)
{
    return tt_gset_has(&root->asked, b) ? tt_gset_has(&root->beyond, b) : ask_beyond(w, m, root, b);
}

/* ---- the walk ---- */

/* Whether all that tokens go on with below a node leads somewhere from a state behind it. */
static inline bool takes_all(const tt_automaton *m, const tt_gstate *s, uint32_t number,
                             uint32_t param, const tt_lex_node *node)
{
    bool few = s->room > node->longest && (node->classes & ~s->set) == 0;
    if (!few && (node->classes & ~s->loops) != 0)
        return false;
    if (!(s->flags & TT_STATE_COUNTED) || m->counts[param].max == TT_NO_LIMIT)
        return true;
    uint32_t chars = node->longest + (node->classes & TT_CHARS_INSIDE ? 1u : 0u);
    return node->longest < TT_LEXICON_MANY && number <= m->counts[param].max &&
           chars <= m->counts[param].max - number;
}

static bool some_takes_all(const tt_walker *w, const tt_automaton *m, const tt_lex_node *node)
{
    for (uint32_t i = begin_of(w, node->depth); i < w->levels[node->depth].end; i++) {
        const tt_frame *f = &w->tops[i];
        if (takes_all(m, &m->states[f->state], f->number, f->param, node))
            return true;
    }
    return false;
}

/* Sets the tokens in front of `next`, those of the node and maybe of its subtree. Mostly one or
 * none, and which of them cannot be foretold. */
static inline void take_tokens(const tt_lex_trie *x, const tt_lex_node *node,
                               const tt_lex_node *next, uint64_t *mask)
{
    uint32_t n = next->rank - node->rank, id = x->ids[node->rank];
    mask[id >> 6] |= (uint64_t)(n > 0) << (id & 63);
    for (uint32_t k = 1; k < n; k++)
        tt_mask_set(mask, x->ids[node->rank + k]);
}

/* Walks from node i, which is behind a depth that is lean, over all that is behind the same root;
 * returns where it came to. *stuck: that node has another way than the top of one stack. */
static uint32_t walk_lean(tt_walker *w, const tt_automaton *m, const tt_lex_trie *x, uint32_t i,
                          bool *stuck, uint64_t *mask)
{
    uint32_t root = w->spots[x->nodes[i].depth - 1].root;
    const tt_frame *f = &w->tops[w->levels[root].end - 1];
    *stuck = true;
    for (; i < x->n && x->nodes[i].depth > root; w->steps++) {
        const tt_lex_node *node = &x->nodes[i], *next = node + 1;
        __builtin_prefetch(&x->nodes[node->skip]); /* what comes next lies far off */
        const tt_spot *from = &w->spots[node->depth - 1];
        const tt_gstate *s = &m->states[(uint32_t)from->at];
        uint32_t to = target_of(m, s, node->byte), number = (uint32_t)(from->at >> 32);
        if ((s->flags & TT_STATE_FINAL) && may_leave(w, m, &w->levels[root], node->byte))
            return i;
        i = node->skip;
        if (to == TT_NO_STATE)
            continue;
        const tt_gstate *t = &m->states[to];
        if (!(t->flags & TT_STATE_LEAN))
            return (uint32_t)(node - x->nodes);
        if (f->depth + t->need > TT_AUTOMATON_NEST ||
            (t->guard != TT_GUARD_NONE && !count(m, t, f->param, &number)))
            continue;
        if (takes_all(m, t, number, f->param, node)) {
            next = &x->nodes[i];
        } else {
            w->spots[node->depth].at = (uint64_t)number << 32 | to;
            w->spots[node->depth].root = root;
            i = (uint32_t)(next - x->nodes);
        }
        take_tokens(x, node, next, mask);
    }
    *stuck = false;
    return i;
}

static void walk(tt_walker *w, const tt_automaton *m, const tt_lex_trie *x, uint64_t *mask)
{
    for (uint32_t i = 0; i < x->n;) {
        bool stuck = true;
        if (is_lean(&w->spots[x->nodes[i].depth - 1]))
            i = walk_lean(w, m, x, i, &stuck, mask);
        if (!stuck)
            continue;
        const tt_lex_node *node = &x->nodes[i], *next = node + 1;
        w->steps++;
        i = node->skip;
        if (!step_all(w, m, node->depth, node->byte))
            continue;
        if (some_takes_all(w, m, node))
            next = &x->nodes[i];
        else
            i = (uint32_t)(next - x->nodes);
        take_tokens(x, node, next, mask);
    }
}

/* ---- plain tokens as a whole ---- */

/* Plain characters that may come behind a state, whichever they are. */
static uint32_t room_of(const tt_automaton *m, const tt_frame *f)
{
    const tt_gstate *s = &m->states[f->state];
    uint32_t room = s->room == TT_ROOM_ANY ? TT_NO_LIMIT : s->room > 0 ? s->room - 1u : 0;
    uint32_t max = s->flags & TT_STATE_COUNTED ? m->counts[f->param].max : TT_NO_LIMIT;
    if (s->set != TT_CHARS_PLAIN)
        return 0; /* not whichever; inside a character none of its own can begin */
    return max == TT_NO_LIMIT ? room : least(room, max > f->number ? max - f->number : 0);
}

/* Adds the plain tokens that may follow `f` because any of so many characters would; *all: these
 * are all that there are. True when no other plain one may follow it. */
static bool take_plain(const tt_lexicon *x, const tt_automaton *m, const tt_frame *f, bool *all,
                       uint64_t *mask)
{
    uint32_t room = room_of(m, f);
    *all = room >= x->longest;
    const uint64_t *set = x->short_plain[*all ? 0 : least(room, TT_LEXICON_LENGTHS)];
    for (uint32_t i = 0; room > 0 && i < x->words; i++)
        mask[i] |= set[i];
    for (uint32_t i = 0; !*all && i < x->n_long && x->long_plain[i].chars <= room; i++)
        tt_mask_set(mask, x->long_plain[i].id);
    return *all || (m->states[f->state].flags & TT_STATE_EXACT);
}

/* Whether the plain tokens are dealt with. Stacks that take any text, or are about to call what
 * does, take them as a whole. */
static bool plain_done(const tt_walker *w, const tt_lexicon *x, const tt_automaton *m,
                       uint64_t *mask)
{
    bool done = true, all = false;
    for (uint32_t i = 0; i < w->levels[0].end; i++) {
        tt_frame f = w->tops[i];
        const tt_gstate *s = &m->states[f.state];
        done &= take_plain(x, m, &f, &all, mask);
        if (all)
            return true;
        for (uint32_t k = s->calls; k < s->calls + s->n_calls; k++) {
            const tt_gcall *c = &m->calls[k];
            tt_frame called = {.state = c->entry, .param = c->param, .depth = f.depth + 1};
            if (c->extra || called.depth + m->states[c->entry].need > TT_AUTOMATON_NEST ||
                f.depth + m->states[c->ret].need > TT_AUTOMATON_NEST)
                continue;
            (void)take_plain(x, m, &called, &all, mask);
            if (all)
                return true;
        }
    }
    return done;
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
    const uint8_t texts = TT_STATE_COUNTED | TT_STATE_EXACT;
    bool counts = top && (s->flags & texts) == texts && s->room == TT_ROOM_ANY;
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
    w->levels[0].end = t->tops.n;
    w->levels[0].frames = w->frames.n;
    settle(w, t->m, 0);
    memset(mask, 0, x->words * sizeof *mask);
    if (!plain_done(w, x, t->m, mask))
        walk(w, t->m, &x->plain, mask);
    walk(w, t->m, &x->rest, mask);
    /* Not what is found as fast as it is copied. */
    if (keyed && w->steps - before > x->words / 8)
        tt_lexicon_remember(x, grammar, key, n_key, mask);
}
