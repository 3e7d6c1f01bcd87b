#include "grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BEGUN 256u /* rules that one byte begins inside one another */

typedef struct walk {
    const tt_automaton *m;
    tt_frames *frames;
    tt_tops *out;
    uint8_t byte;
} walk;

/* ---- guards ---- */

static bool fits(const tt_automaton *m, const tt_gorder *o, uint32_t i, uint32_t depth)
{
    return depth + m->order_data[o->need + i] <= TT_AUTOMATON_NEST;
}

/* Properties without a name may come once no named one has to. */
static bool extra_may(const tt_automaton *m, const tt_frame *f)
{
    const tt_gorder *o = &m->orders[f->param];
    return o->extra && m->order_data[o->next_required + f->number] == o->n &&
           fits(m, o, o->n, f->depth);
}

static bool property_may(const tt_automaton *m, const tt_frame *f, uint32_t i)
{
    const tt_gorder *o = &m->orders[f->param];
    return i >= f->number && i <= m->order_data[o->next_required + f->number] && i < o->n &&
           fits(m, o, i, f->depth);
}

static bool some_property_may(const tt_automaton *m, const tt_frame *f)
{
    const tt_gorder *o = &m->orders[f->param];
    uint32_t last = m->order_data[o->next_required + f->number];
    for (uint32_t i = f->number; i <= last && i < o->n; i++)
        if (fits(m, o, i, f->depth))
            return true;
    return extra_may(m, f);
}

/* Lists are sorted: the first that is not before the present one. */
static bool key_may(const tt_automaton *m, const tt_frame *f, uint32_t list)
{
    const uint32_t *v = m->lists + list;
    uint32_t n = v[0] >> 1, lo = 0, hi = n;
    if ((v[0] & 1) && extra_may(m, f))
        return true;
    v++;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (v[mid] < f->number)
            lo = mid + 1;
        else
            hi = mid;
    }
    const tt_gorder *o = &m->orders[f->param];
    uint32_t last = m->order_data[o->next_required + f->number];
    for (; lo < n && v[lo] <= last; lo++)
        if (fits(m, o, v[lo], f->depth))
            return true;
    return false;
}

static bool room_for(const tt_gcount *c, uint32_t number, uint32_t after)
{
    return number < c->max && after <= c->max - number - 1;
}

/* Enters the state of `f`; false when its guard says no. */
static bool enter(const tt_automaton *m, tt_frame *f)
{
    const tt_gstate *s = &m->states[f->state];
    if (f->depth + s->need > TT_AUTOMATON_NEST)
        return false;
    switch (s->guard) {
    case TT_GUARD_NONE:
        return true;
    case TT_GUARD_MORE:
        return room_for(&m->counts[f->param], f->number, s->arg);
    case TT_GUARD_ENOUGH:
        return f->number >= m->counts[f->param].min;
    case TT_GUARD_INC: {
        const tt_gcount *c = &m->counts[f->param];
        if (!room_for(c, f->number, s->arg))
            return false;
        /* Without a limit, and with enough of them, one is like the next. */
        if (c->max != TT_NO_LIMIT || f->number < c->min)
            f->number++;
        return true;
    }
    case TT_GUARD_KEY:
        return key_may(m, f, s->arg);
    case TT_GUARD_TAKE:
        if (!property_may(m, f, s->arg))
            return false;
        f->number = s->arg + 1;
        return true;
    case TT_GUARD_EXTRA:
        if (!extra_may(m, f))
            return false;
        f->number = m->orders[f->param].n;
        return true;
    case TT_GUARD_NEXT:
        return some_property_may(m, f);
    default:
        return m->order_data[m->orders[f->param].next_required + f->number] ==
               m->orders[f->param].n;
    }
}

/* ---- stepping ---- */

static bool same_stack(const tt_frames *frames, const tt_frame *a, const tt_frame *b)
{
    for (;;) {
        if (a->state != b->state || a->number != b->number || a->param != b->param ||
            a->depth != b->depth)
            return false;
        if (a->parent == b->parent)
            return true;
        if (a->parent == TT_NO_STATE || b->parent == TT_NO_STATE)
            return false;
        a = &frames->v[a->parent];
        b = &frames->v[b->parent];
    }
}

static void add_top(walk *w, const tt_frame *f)
{
    tt_tops *out = w->out;
    for (uint32_t i = 0; i < out->n; i++)
        if (same_stack(w->frames, &out->v[i], f))
            return;
    if (out->n < out->cap)
        out->v[out->n++] = *f;
}

/* f has moved to state `to`. Rules that are over at once are left. */
static void arrive(walk *w, tt_frame f, uint32_t to)
{
    f.state = to;
    if (!enter(w->m, &f))
        return;
    while ((w->m->states[f.state].flags & TT_STATE_LAST) && f.parent != TT_NO_STATE) {
        f = w->frames->v[f.parent];
        if (!enter(w->m, &f))
            return;
    }
    add_top(w, &f);
}

static void by_edges(walk *w, const tt_frame *f, const tt_gstate *s)
{
    const tt_automaton *m = w->m;
    if (s->row != TT_NO_STATE) {
        uint32_t to = m->rows[s->row][w->byte];
        if (to != TT_NO_STATE)
            arrive(w, *f, to);
        return;
    }
    for (uint32_t i = 0; i < s->n_edges; i++) {
        const tt_gedge *e = &m->edges[s->edges + i];
        if (e->lo > w->byte)
            return;
        if (e->hi >= w->byte)
            arrive(w, *f, e->to);
    }
}

static void step(walk *w, tt_frame f, uint32_t begun);

static void by_call(walk *w, const tt_frame *f, const tt_gcall *c, uint32_t begun)
{
    const tt_automaton *m = w->m;
    const tt_gstate *ret = &m->states[c->ret];
    if (!tt_gset_has(&m->sets[c->first], w->byte) || (c->extra && !extra_may(m, f)) ||
        begun >= MOST_BEGUN)
        return;
    tt_frame called = {
        .parent = f->parent, .state = c->entry, .param = c->param, .depth = f->depth};
    /* A rule that ends with a call does not wait for it. */
    if (!(ret->flags & TT_STATE_LAST) || ret->guard != TT_GUARD_NONE) {
        if (w->frames->n == w->frames->cap || f->depth + ret->need > TT_AUTOMATON_NEST)
            return;
        called.parent = w->frames->n++;
        called.depth += !c->flat;
        w->frames->v[called.parent] = *f;
        w->frames->v[called.parent].state = c->ret;
    }
    if (enter(m, &called))
        step(w, called, begun + 1);
}

static void step(walk *w, tt_frame f, uint32_t begun)
{
    const tt_automaton *m = w->m;
    for (;;) {
        const tt_gstate *s = &m->states[f.state];
        by_edges(w, &f, s);
        for (uint32_t i = 0; i < s->n_calls; i++)
            by_call(w, &f, &m->calls[s->calls + i], begun);
        if (!(s->flags & TT_STATE_FINAL) || f.parent == TT_NO_STATE)
            return;
        f = w->frames->v[f.parent];
        if (!enter(m, &f))
            return;
    }
}

void tt_match_step(const tt_automaton *m, tt_frames *frames, const tt_frame *top, uint8_t b,
                   tt_tops *out)
{
    walk w = {.m = m, .frames = frames, .out = out, .byte = b};
    step(&w, *top, 0);
}

void tt_match_beyond(const tt_automaton *m, tt_frames *frames, const tt_frame *top, uint8_t b,
                     tt_tops *out)
{
    walk w = {.m = m, .frames = frames, .out = out, .byte = b};
    if (top->parent == TT_NO_STATE)
        return;
    tt_frame f = frames->v[top->parent];
    if (enter(m, &f))
        step(&w, f, 0);
}

bool tt_match_complete(const tt_automaton *m, const tt_frames *frames, const tt_frame *top)
{
    tt_frame f = *top;
    while (m->states[f.state].flags & TT_STATE_FINAL) {
        if (f.parent == TT_NO_STATE)
            return true;
        f = frames->v[f.parent];
        if (!enter(m, &f))
            return false;
    }
    return false;
}

/* ---- matchers ---- */

tt_status tt_gmatcher_init(tt_gmatcher *t, const tt_automaton *m, uint32_t start, tt_error *err)
{
    tt_gmatcher x = {.m = m};
    x.frames.cap = TT_MATCH_FRAMES;
    x.tops.cap = x.next.cap = TT_MATCH_PARALLEL;
    x.frames.v = malloc(x.frames.cap * sizeof *x.frames.v);
    x.tops.v = malloc(x.tops.cap * sizeof *x.tops.v);
    x.next.v = malloc(x.next.cap * sizeof *x.next.v);
    x.spare = malloc(x.frames.cap * sizeof *x.spare);
    if (x.frames.v == NULL || x.tops.v == NULL || x.next.v == NULL || x.spare == NULL) {
        tt_gmatcher_free(&x);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the state of a grammar");
    }
    tt_gmatcher_reset(&x, start);
    *t = x;
    return TT_OK;
}

size_t tt_gmatcher_bytes(void)
{
    return (2 * (size_t)TT_MATCH_FRAMES + 2 * TT_MATCH_PARALLEL) * sizeof(tt_frame);
}

void tt_gmatcher_free(tt_gmatcher *t)
{
    free(t->frames.v);
    free(t->tops.v);
    free(t->next.v);
    free(t->spare);
    *t = (tt_gmatcher){0};
}

void tt_gmatcher_reset(tt_gmatcher *t, uint32_t start)
{
    t->frames.n = 0;
    t->tops.n = 1;
    t->tops.v[0] = (tt_frame){.parent = TT_NO_STATE, .state = start};
}

/* Keeps the first `keep` frames and those that stacks stand on, in their order. */
static void compact(tt_gmatcher *t, uint32_t keep)
{
    tt_frame *old = t->frames.v, *spare = t->spare;
    uint32_t n = t->frames.n, kept = keep;
    /* The spare copy says in `depth` whether a frame is wanted, in `number` where it went. */
    for (uint32_t i = 0; i < n; i++) {
        spare[i].depth = i < keep;
        spare[i].number = i;
    }
    for (uint32_t k = 0; k < t->tops.n; k++)
        for (uint32_t p = t->tops.v[k].parent; p != TT_NO_STATE && spare[p].depth == 0;
             p = old[p].parent)
            spare[p].depth = 1;
    for (uint32_t i = keep; i < n; i++) {
        if (spare[i].depth == 0)
            continue;
        tt_frame f = old[i];
        if (f.parent != TT_NO_STATE)
            f.parent = spare[f.parent].number;
        spare[i].number = kept;
        old[kept++] = f;
    }
    t->frames.n = kept;
    for (uint32_t k = 0; k < t->tops.n; k++)
        if (t->tops.v[k].parent != TT_NO_STATE)
            t->tops.v[k].parent = spare[t->tops.v[k].parent].number;
}

static void swap_tops(tt_gmatcher *t)
{
    tt_tops x = t->tops;
    t->tops = t->next;
    t->next = x;
}

static bool push_byte(tt_gmatcher *t, uint8_t b)
{
    uint32_t frames = t->frames.n;
    t->next.n = 0;
    for (uint32_t i = 0; i < t->tops.n; i++)
        tt_match_step(t->m, &t->frames, &t->tops.v[i], b, &t->next);
    if (t->next.n == 0) {
        t->frames.n = frames;
        return false;
    }
    swap_tops(t);
    return true;
}

size_t tt_gmatcher_push(tt_gmatcher *t, const char *bytes, size_t n)
{
    tt_frame before[TT_MATCH_PARALLEL];
    uint32_t n_before = t->tops.n, frames = t->frames.n;
    memcpy(before, t->tops.v, n_before * sizeof *before);
    for (size_t i = 0; i < n; i++) {
        if (!push_byte(t, (uint8_t)bytes[i])) {
            t->frames.n = frames;
            t->tops.n = n_before;
            memcpy(t->tops.v, before, n_before * sizeof *before);
            return i;
        }
        if (t->frames.n > TT_MATCH_FRAMES / 2)
            compact(t, frames);
    }
    compact(t, 0);
    return n;
}

bool tt_gmatcher_complete(const tt_gmatcher *t)
{
    for (uint32_t i = 0; i < t->tops.n; i++)
        if (tt_match_complete(t->m, &t->frames, &t->tops.v[i]))
            return true;
    return false;
}

bool tt_gmatcher_goes_on(const tt_gmatcher *t)
{
    tt_frame v[TT_MATCH_PARALLEL];
    tt_frames frames = t->frames; /* what is added lies above its n, and is forgotten */
    for (uint32_t i = 0; i < t->tops.n; i++) {
        for (unsigned b = 0; b < 256; b++) {
            tt_tops out = {.v = v, .cap = TT_MATCH_PARALLEL};
            tt_match_step(t->m, &frames, &t->tops.v[i], (uint8_t)b, &out);
            frames.n = t->frames.n;
            if (out.n > 0)
                return true;
        }
    }
    return false;
}

void tt_gmatcher_copy(tt_gmatcher *to, const tt_gmatcher *from)
{
    to->m = from->m;
    to->frames.n = from->frames.n;
    to->tops.n = from->tops.n;
    memcpy(to->frames.v, from->frames.v, from->frames.n * sizeof *from->frames.v);
    memcpy(to->tops.v, from->tops.v, from->tops.n * sizeof *from->tops.v);
}
