/* From the builder's lists to the packed automaton: what cannot end is cut off. */
#include <stdlib.h>
#include <string.h>

#include "grammar/automaton.h"

#define MOST_ROWS   2048u
#define ROW_EDGES   4u /* a state with fewer is searched as fast */
#define MOST_NEED   4096u
#define FIRST_DEPTH 200u /* rules that begin with one another */

typedef struct finish {
    tt_builder *b;
    tt_automaton *m;
    uint16_t *need; /* [n_states] */
    /* Who leads to a state: by an edge, as what a call enters, as where it returns. */
    uint32_t *edge_at, *entry_at, *ret_at; /* [n_states + 1] */
    uint32_t *edge_from;
    struct call_site {
        uint32_t from, call;
    } * entry_from, *ret_from;
    uint32_t *queue, n_queue; /* states whose need is the present level */
    uint32_t *first;          /* [n_states] set of an entry, or TT_NO_STATE */
    uint8_t *colour;
    /* Values of required properties, by state. */
    uint32_t *value_head, *value_next, *value_order;
    uint32_t *missing; /* [n_orders] required ones whose need is not known */
} finish;

/* ---- spaces ---- */

static void add_twins(tt_builder *b)
{
    uint32_t n = b->n_states;
    for (uint32_t s = 0; s < n && b->failed == TT_OK; s++) {
        if (!b->states[s].spaced)
            continue;
        uint32_t twin = tt_builder_state(b);
        if (b->failed != TT_OK)
            return;
        b->states[twin].edges = b->states[s].edges;
        b->states[twin].calls = b->states[s].calls;
        tt_builder_edge(b, s, ' ', ' ', twin);
        tt_builder_edge(b, s, '\n', '\n', twin);
    }
}

/* ---- who leads where ---- */

#define EACH_EDGE(b, s, e)                                                                         \
    for (uint32_t e = (b)->states[s].edges; e != TT_NO_STATE; e = (b)->edges[e].next)
#define EACH_CALL(b, s, c)                                                                         \
    for (uint32_t c = (b)->states[s].calls; c != TT_NO_STATE; c = (b)->calls[c].next)

static void sum_up(uint32_t *at, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t here = i < n ? at[i] : 0;
        at[i] = sum;
        sum += here;
    }
}

/* Counting first, places second; afterwards at[i] is where the list of i ends. */
static bool find_predecessors(finish *f)
{
    tt_builder *b = f->b;
    uint32_t n = b->n_states;
    f->edge_at = calloc(n + 1, sizeof *f->edge_at);
    f->entry_at = calloc(n + 1, sizeof *f->entry_at);
    f->ret_at = calloc(n + 1, sizeof *f->ret_at);
    if (f->edge_at == NULL || f->entry_at == NULL || f->ret_at == NULL)
        return false;
    for (uint32_t s = 0; s < n; s++) {
        EACH_EDGE(b, s, e) f->edge_at[b->edges[e].to]++;
        EACH_CALL(b, s, c)
        {
            f->entry_at[b->calls[c].entry]++;
            f->ret_at[b->calls[c].ret]++;
        }
    }
    sum_up(f->edge_at, n);
    sum_up(f->entry_at, n);
    sum_up(f->ret_at, n);
    f->edge_from = malloc((f->edge_at[n] + 1) * sizeof *f->edge_from);
    f->entry_from = malloc((f->entry_at[n] + 1) * sizeof *f->entry_from);
    f->ret_from = malloc((f->ret_at[n] + 1) * sizeof *f->ret_from);
    if (f->edge_from == NULL || f->entry_from == NULL || f->ret_from == NULL)
        return false;
    for (uint32_t s = 0; s < n; s++) {
        EACH_EDGE(b, s, e) f->edge_from[f->edge_at[b->edges[e].to]++] = s;
        EACH_CALL(b, s, c)
        {
            f->entry_from[f->entry_at[b->calls[c].entry]++] = (struct call_site){s, c};
            f->ret_from[f->ret_at[b->calls[c].ret]++] = (struct call_site){s, c};
        }
    }
    return true;
}

static uint32_t list_begin(const uint32_t *at, uint32_t i)
{
    return i == 0 ? 0 : at[i - 1];
}

/* ---- what the way to the end takes ---- */

/* An object whose required properties count is not entered for the sake of its braces alone. */
static bool waits_for_values(const finish *f, uint32_t s)
{
    uint32_t o = f->b->states[s].order;
    return o != 0 && f->b->orders[o - 1].n_required > 0;
}

static void reach(finish *f, uint32_t s, uint16_t level, bool by_values)
{
    if (f->need[s] != TT_NO_END || (!by_values && waits_for_values(f, s)) ||
        (level == 0 && f->b->states[s].nests))
        return;
    f->need[s] = level;
    f->queue[f->n_queue++] = s;
}

/* Levels that a call takes: where nothing is left to do behind it, who makes it does not wait. */
static uint16_t levels_of(const tt_builder *b, const tt_bcall *c)
{
    const tt_bstate *ret = &b->states[c->ret];
    bool last = ret->final && ret->guard == TT_GUARD_NONE && ret->edges == TT_NO_STATE &&
                ret->calls == TT_NO_STATE;
    return last || c->flat ? 0 : 1;
}

static void spread(finish *f, uint32_t s, uint16_t level)
{
    const tt_builder *b = f->b;
    for (uint32_t i = list_begin(f->entry_at, s); i < f->entry_at[s]; i++) {
        const tt_bcall *c = &b->calls[f->entry_from[i].call];
        if (f->need[c->ret] != TT_NO_END && levels_of(b, c) == 0)
            reach(f, f->entry_from[i].from, level, false);
    }
    for (uint32_t i = list_begin(f->edge_at, s); i < f->edge_at[s]; i++)
        reach(f, f->edge_from[i], level, false);
    for (uint32_t i = list_begin(f->ret_at, s); i < f->ret_at[s]; i++) {
        const tt_bcall *c = &b->calls[f->ret_from[i].call];
        if (f->need[c->entry] != TT_NO_END && f->need[c->entry] + levels_of(b, c) <= level)
            reach(f, f->ret_from[i].from, level, false);
    }
    for (uint32_t v = f->value_head[s]; v != TT_NO_STATE; v = f->value_next[v]) {
        uint32_t o = f->value_order[v];
        if (--f->missing[o] > 0)
            continue;
        /* Found by its order's number in the states: entries are few. */
        reach(f, b->order_data[b->orders[o].o.need], level, true);
    }
}

/* What can end without a value, and has to have room for one. */
static void reach_nests(finish *f)
{
    const tt_builder *b = f->b;
    for (uint32_t s = 0; s < b->n_states; s++) {
        bool ends = false;
        if (b->states[s].nests)
            EACH_EDGE(b, s, e) ends |= f->need[b->edges[e].to] == 0;
        if (ends)
            reach(f, s, 1, false);
    }
}

/* The states of one level, then the calls that lead one higher. */
static void find_needs(finish *f)
{
    const tt_builder *b = f->b;
    uint32_t done = 0;
    for (uint32_t s = 0; s < b->n_states; s++)
        if (b->states[s].final)
            reach(f, s, 0, false);
    for (uint32_t o = 0; o < b->n_orders; o++)
        reach(f, b->orders[o].after, 0, false);
    for (uint16_t level = 0; level < MOST_NEED; level++) {
        uint32_t begin = done;
        while (done < f->n_queue)
            spread(f, f->queue[done++], level);
        uint32_t end = f->n_queue;
        for (uint32_t k = begin; k < end; k++) {
            uint32_t s = f->queue[k];
            for (uint32_t i = list_begin(f->entry_at, s); i < f->entry_at[s]; i++) {
                uint32_t ret = b->calls[f->entry_from[i].call].ret;
                if (f->need[ret] != TT_NO_END)
                    reach(f, f->entry_from[i].from, (uint16_t)(level + 1), false);
            }
        }
        if (level == 0)
            reach_nests(f);
        if (f->n_queue == end)
            return;
    }
}

static bool list_values(finish *f)
{
    tt_builder *b = f->b;
    uint32_t n = 0, k = 0;
    f->missing = calloc(b->n_orders + 1, sizeof *f->missing);
    for (uint32_t o = 0; o < b->n_orders; o++)
        n += b->orders[o].n_required;
    f->value_head = malloc((b->n_states + 1) * sizeof *f->value_head);
    f->value_next = malloc((n + 1) * sizeof *f->value_next);
    f->value_order = malloc((n + 1) * sizeof *f->value_order);
    if (f->missing == NULL || f->value_head == NULL || f->value_next == NULL ||
        f->value_order == NULL)
        return false;
    memset(f->value_head, 0xff, (b->n_states + 1) * sizeof *f->value_head);
    for (uint32_t o = 0; o < b->n_orders; o++) {
        const tt_border *r = &b->orders[o];
        const uint32_t *next = b->order_data + r->o.next_required;
        f->missing[o] = r->n_required;
        for (uint32_t i = next[0]; i < r->o.n; i = next[i + 1]) {
            uint32_t s = b->order_data[r->values + i];
            f->value_order[k] = o;
            f->value_next[k] = f->value_head[s];
            f->value_head[s] = k++;
        }
    }
    /* The place of the needs holds the entry until they are known. */
    for (uint32_t s = 0; s < b->n_states; s++)
        if (b->states[s].order != 0)
            b->order_data[b->orders[b->states[s].order - 1].o.need] = s;
    return true;
}

/* What each property takes, for those that look whether it fits. */
static void fill_orders(finish *f)
{
    tt_builder *b = f->b;
    for (uint32_t o = 0; o < b->n_orders; o++) {
        tt_border *r = &b->orders[o];
        for (uint32_t i = 0; i <= r->o.n; i++) {
            uint16_t need = f->need[b->order_data[r->values + i]];
            if (i == r->o.n && !r->o.extra)
                need = 0;
            b->order_data[r->o.need + i] = need;
        }
    }
}

static tt_status check_ends(finish *f, uint32_t start, tt_error *err)
{
    uint16_t need = f->need[start];
    if (need == TT_NO_END)
        return tt_fail(err, TT_ERR_INVALID,
                       "no document can satisfy it: some required part excludes itself or contains "
                       "itself without end");
    if (need > TT_AUTOMATON_NEST)
        return tt_fail(err, TT_ERR_LIMIT,
                       "the shortest document nests %u levels deep, at most %u are possible", need,
                       TT_AUTOMATON_NEST);
    for (uint32_t s = 0; s < f->b->n_states; s++)
        if (f->need[s] > TT_AUTOMATON_NEST)
            f->need[s] = TT_NO_END;
    return TT_OK;
}

/* ---- beginnings ---- */

static bool lives(const finish *f, const tt_bcall *c)
{
    return f->need[c->entry] != TT_NO_END && f->need[c->ret] != TT_NO_END;
}

static tt_status find_first(finish *f, uint32_t s, uint32_t depth, tt_error *err)
{
    tt_builder *b = f->b;
    tt_gset set = {{0}};
    if (f->first[s] != TT_NO_STATE)
        return TT_OK;
    if (f->colour[s] == 1)
        return tt_fail(err, TT_ERR_INVALID, "a rule begins with itself (left recursion)");
    if (depth > FIRST_DEPTH)
        return tt_fail(err, TT_ERR_LIMIT, "more than %u rules begin with one another", FIRST_DEPTH);
    f->colour[s] = 1;
    EACH_EDGE(b, s, e)
    {
        if (f->need[b->edges[e].to] != TT_NO_END)
            tt_gset_add(&set, b->edges[e].lo, b->edges[e].hi);
    }
    EACH_CALL(b, s, c)
    {
        if (!lives(f, &b->calls[c]))
            continue;
        TT_TRY(find_first(f, b->calls[c].entry, depth + 1, err));
        uint32_t k = b->calls[c].set != TT_NO_STATE ? b->calls[c].set : f->first[b->calls[c].entry];
        for (int i = 0; i < 4; i++)
            set.bits[i] |= b->sets[k].bits[i];
    }
    tt_gset *grown = realloc(b->sets, (b->n_sets + 1) * sizeof *grown);
    if (grown == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    b->sets = grown;
    b->sets[b->n_sets] = set;
    f->first[s] = b->n_sets++;
    f->colour[s] = 2;
    return TT_OK;
}

static tt_status find_firsts(finish *f, tt_error *err)
{
    tt_builder *b = f->b;
    for (uint32_t s = 0; s < b->n_states; s++) {
        if (f->need[s] == TT_NO_END)
            continue;
        EACH_CALL(b, s, c)
        {
            if (lives(f, &b->calls[c]))
                TT_TRY(find_first(f, s, 0, err));
        }
    }
    return TT_OK;
}

/* ---- packing ---- */

static int by_low(const void *x, const void *y)
{
    const tt_gedge *a = x, *b = y;
    if (a->lo != b->lo)
        return a->lo < b->lo ? -1 : 1;
    if (a->hi != b->hi)
        return a->hi < b->hi ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* Sorts the edges of a state and joins neighbours; tells whether no byte has two. */
static uint32_t tidy(tt_gedge *e, uint32_t n, bool *simple)
{
    uint32_t kept = 0;
    *simple = true;
    if (n == 0)
        return 0;
    qsort(e, n, sizeof *e, by_low);
    for (uint32_t i = 0; i < n; i++) {
        tt_gedge *last = &e[kept - 1];
        if (kept > 0 && last->to == e[i].to && e[i].lo <= last->hi + 1) {
            last->hi = e[i].hi > last->hi ? e[i].hi : last->hi;
            continue;
        }
        if (kept > 0 && e[i].lo <= last->hi)
            *simple = false;
        e[kept++] = e[i];
    }
    return kept;
}

static void pack_state(finish *f, uint32_t s)
{
    tt_builder *b = f->b;
    tt_automaton *m = f->m;
    tt_gstate *out = &m->states[s];
    bool simple = true;
    *out = (tt_gstate){.edges = m->n_edges,
                       .calls = m->n_calls,
                       .row = TT_NO_STATE,
                       .arg = b->states[s].arg,
                       .need = f->need[s],
                       .guard = b->states[s].guard};
    if (f->need[s] == TT_NO_END)
        return;
    EACH_EDGE(b, s, e)
    {
        if (f->need[b->edges[e].to] != TT_NO_END)
            m->edges[m->n_edges++] = (tt_gedge){b->edges[e].to, b->edges[e].lo, b->edges[e].hi};
    }
    uint32_t n = tidy(m->edges + out->edges, m->n_edges - out->edges, &simple);
    m->n_edges = out->edges + n;
    EACH_CALL(b, s, c)
    {
        const tt_bcall *k = &b->calls[c];
        if (lives(f, k))
            m->calls[m->n_calls++] =
                (tt_gcall){.entry = k->entry,
                           .ret = k->ret,
                           .param = k->param,
                           .extra = k->extra,
                           .flat = k->flat,
                           .first = k->set != TT_NO_STATE ? k->set : f->first[k->entry]};
    }
    uint32_t calls = m->n_calls - out->calls;
    if (n > UINT16_MAX || calls > UINT16_MAX)
        tt_builder_fail(b, TT_ERR_LIMIT, "more than 65,535 ways lead from one state");
    out->n_edges = (uint16_t)n;
    out->n_calls = (uint16_t)calls;
    out->flags = (uint8_t)((b->states[s].final ? TT_STATE_FINAL : 0) |
                           (b->states[s].final && n + calls == 0 ? TT_STATE_LAST : 0) |
                           (simple ? TT_STATE_SIMPLE : 0));
    if (out->need > m->most_need)
        m->most_need = out->need;
}

static bool add_rows(tt_automaton *m)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < m->n_states; s++)
        n += (m->states[s].flags & TT_STATE_SIMPLE) && m->states[s].n_edges >= ROW_EDGES;
    n = n < MOST_ROWS ? n : MOST_ROWS;
    m->rows = malloc((n + 1) * sizeof *m->rows);
    if (m->rows == NULL)
        return false;
    for (uint32_t s = 0; s < m->n_states && m->n_rows < n; s++) {
        tt_gstate *st = &m->states[s];
        if (!(st->flags & TT_STATE_SIMPLE) || st->n_edges < ROW_EDGES)
            continue;
        uint32_t *row = m->rows[m->n_rows];
        memset(row, 0xff, sizeof *m->rows);
        for (uint32_t e = st->edges; e < st->edges + st->n_edges; e++)
            for (unsigned c = m->edges[e].lo; c <= m->edges[e].hi; c++)
                row[c] = m->edges[e].to;
        st->row = m->n_rows++;
    }
    return true;
}

/* ---- the whole ---- */

static bool allocate(finish *f)
{
    uint32_t n = f->b->n_states;
    f->need = malloc((n + 1) * sizeof *f->need);
    f->queue = malloc((n + 1) * sizeof *f->queue);
    f->first = malloc((n + 1) * sizeof *f->first);
    f->colour = calloc(n + 1, 1);
    if (f->need == NULL || f->queue == NULL || f->first == NULL || f->colour == NULL)
        return false;
    memset(f->need, 0xff, (n + 1) * sizeof *f->need);
    memset(f->first, 0xff, (n + 1) * sizeof *f->first);
    return true;
}

static void release(finish *f)
{
    free(f->need);
    free(f->edge_at);
    free(f->entry_at);
    free(f->ret_at);
    free(f->edge_from);
    free(f->entry_from);
    free(f->ret_from);
    free(f->queue);
    free(f->first);
    free(f->colour);
    free(f->value_head);
    free(f->value_next);
    free(f->value_order);
    free(f->missing);
}

/* Hands over what needs no packing. */
static bool take_tables(finish *f)
{
    tt_builder *b = f->b;
    tt_automaton *m = f->m;
    m->orders = malloc((b->n_orders + 1) * sizeof *m->orders);
    if (m->orders == NULL)
        return false;
    for (uint32_t i = 0; i < b->n_orders; i++)
        m->orders[i] = b->orders[i].o;
    m->sets = b->sets;
    m->counts = b->counts;
    m->order_data = b->order_data;
    m->lists = b->lists;
    m->n_sets = b->n_sets;
    m->n_tokens = b->n_tokens;
    memcpy(m->tokens, b->tokens, sizeof m->tokens);
    b->sets = NULL;
    b->counts = NULL;
    b->order_data = b->lists = NULL;
    b->n_tokens = 0;
    m->bytes = m->n_states * sizeof *m->states + m->n_edges * sizeof *m->edges +
               m->n_calls * sizeof *m->calls + m->n_rows * sizeof *m->rows +
               m->n_sets * sizeof *m->sets + b->n_counts * sizeof *m->counts +
               b->n_orders * sizeof *m->orders + (b->n_order_data + b->n_lists) * sizeof *m->lists +
               sizeof *m;
    return true;
}

static void *shrink(void *p, size_t bytes)
{
    void *q = realloc(p, bytes);
    if (q == NULL)
        return p;
    return q;
}

static tt_status pack(finish *f, tt_error *err)
{
    tt_builder *b = f->b;
    tt_automaton *m = f->m;
    uint32_t n = b->n_states;
    m->n_states = n;
    m->states = malloc((n + 1) * sizeof *m->states);
    m->edges = malloc((f->edge_at[n] + 1) * sizeof *m->edges);
    m->calls = malloc((f->entry_at[n] + 1) * sizeof *m->calls);
    if (m->states == NULL || m->edges == NULL || m->calls == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    for (uint32_t s = 0; s < n; s++)
        pack_state(f, s);
    TT_TRY(tt_builder_status(b, err));
    m->edges = shrink(m->edges, (m->n_edges + 1) * sizeof *m->edges);
    m->calls = shrink(m->calls, (m->n_calls + 1) * sizeof *m->calls);
    if (!add_rows(m) || !take_tables(f) || !tt_automaton_rooms(m))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    return TT_OK;
}

tt_status tt_builder_without_end(tt_builder *b, const uint32_t *states, uint32_t n, bool *without,
                                 tt_error *err)
{
    finish f = {.b = b};
    TT_TRY(tt_builder_status(b, err));
    bool ok = allocate(&f) && find_predecessors(&f) && list_values(&f);
    if (ok)
        find_needs(&f);
    for (uint32_t i = 0; ok && i < n; i++)
        without[i] = states[i] != TT_NO_STATE && f.need[states[i]] > TT_AUTOMATON_NEST;
    release(&f);
    return ok ? TT_OK : tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
}

tt_status tt_automaton_finish(tt_builder *b, const tt_starts *starts, tt_automaton *out,
                              tt_error *err)
{
    tt_automaton m = {.starts = *starts};
    finish f = {.b = b, .m = &m};
    tt_status st;
    add_twins(b);
    TT_TRY(tt_builder_status(b, err));
    if (!allocate(&f) || !find_predecessors(&f) || !list_values(&f)) {
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
        goto done;
    }
    find_needs(&f);
    TT_GOTO(check_ends(&f, starts->plain, err), done);
    fill_orders(&f);
    TT_GOTO(find_firsts(&f, err), done);
    TT_GOTO(pack(&f, err), done);
    *out = m;
    m = (tt_automaton){0};
done:
    release(&f);
    tt_automaton_free(&m);
    return st;
}
