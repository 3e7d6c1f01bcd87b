/* The subset construction: a tree becomes a net of nodes, sets of nodes become states. */
#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/dfa_int.h"

#define NO_NODE TT_NO_STATE

enum { NODE_SET, NODE_SPLIT, NODE_BEGIN, NODE_END, NODE_CALL, NODE_ACCEPT };

typedef struct node {
    uint8_t kind;
    uint32_t arg;       /* set or symbol */
    uint32_t out, also; /* also: second way of SPLIT */
} node;

typedef struct net {
    const tt_rx *rx;
    tt_builder *b;
    node *nodes;
    uint32_t n, cap;
    uint32_t tail; /* the node that takes any text to the end, or NO_NODE */
} net;

/* ---- the net, built from its end ---- */

static uint32_t add_node(net *g, node x)
{
    if (g->n >= TT_RX_NODES)
        tt_builder_fail(g->b, TT_ERR_LIMIT, "an expression of more than 60,000 parts");
    if (!tt_builder_work(g->b, 1))
        return 0;
    if (g->n == g->cap) {
        uint32_t want = g->cap < 64 ? 64 : g->cap * 2;
        node *p = realloc(g->nodes, want * sizeof *p);
        if (p == NULL) {
            tt_builder_fail(g->b, TT_ERR_NOMEM, "memory");
            return 0;
        }
        g->nodes = p;
        g->cap = want;
    }
    g->nodes[g->n] = x;
    return g->n++;
}

static uint32_t add_split(net *g, uint32_t out, uint32_t also)
{
    return add_node(g, (node){.kind = NODE_SPLIT, .out = out, .also = also});
}

static uint32_t build(net *g, uint32_t at, uint32_t next);

static uint32_t build_repeat(net *g, const tt_rx_node *x, uint32_t next)
{
    uint32_t here = next;
    if (x->max == TT_NO_LIMIT) {
        here = add_split(g, NO_NODE, next);
        uint32_t body = build(g, x->a, here);
        if (g->b->failed != TT_OK)
            return 0;
        g->nodes[here].out = body;
    } else {
        for (uint32_t i = x->min; i < x->max && g->b->failed == TT_OK; i++)
            here = add_split(g, build(g, x->a, here), next);
    }
    for (uint32_t i = 0; i < x->min && g->b->failed == TT_OK; i++)
        here = build(g, x->a, here);
    return here;
}

/* Trees are as deep as their brackets, which parsers bound. */
static uint32_t build(net *g, uint32_t at, uint32_t next)
{
    if (g->b->failed != TT_OK)
        return 0;
    const tt_rx_node *x = &g->rx->nodes[at];
    const uint32_t *items = g->rx->items;
    uint32_t here = next;
    switch (x->kind) {
    case TT_RX_SET:
        return add_node(g, (node){.kind = NODE_SET, .arg = x->a, .out = next});
    case TT_RX_CAT:
        for (uint32_t i = x->b; i-- > 0;)
            here = build(g, items[x->a + i], here);
        return here;
    case TT_RX_ALT:
        here = build(g, items[x->a + x->b - 1], next);
        for (uint32_t i = x->b - 1; i-- > 0;)
            here = add_split(g, build(g, items[x->a + i], next), here);
        return here;
    case TT_RX_REPEAT:
        return build_repeat(g, x, next);
    case TT_RX_BEGIN:
        return add_node(g, (node){.kind = NODE_BEGIN, .out = next});
    case TT_RX_END:
        return add_node(g, (node){.kind = NODE_END, .out = next});
    case TT_RX_CALL:
        here = add_node(g, (node){.kind = NODE_CALL, .arg = x->a, .out = next});
        return x->b ? add_split(g, here, next) : here;
    default:
        return next;
    }
}

/* A loop over any character in front of `next`; the set is `any`. */
static uint32_t any_text(net *g, uint32_t any, uint32_t next)
{
    uint32_t split = add_split(g, NO_NODE, next);
    uint32_t set = add_node(g, (node){.kind = NODE_SET, .arg = any, .out = split});
    if (g->b->failed == TT_OK)
        g->nodes[split].out = set;
    return split;
}

/* ---- classes of characters ---- */

typedef struct subsets {
    net *g;
    tt_dfa *d;
    const tt_charset *sets;
    uint32_t n_sets;
    uint8_t *in;     /* [n_sets][n_classes] whether the set has the class */
    uint32_t *lists; /* members of states, one after the other */
    uint32_t n_lists, cap_lists, *begin, cap_states;
    uint32_t *hash, n_hash;
    uint32_t *stack, *mark, round;
    uint32_t *found, n_found; /* members of the state in work */
    uint32_t *target, n_target;
} subsets;

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* Cuts where any set begins or ends. */
static bool find_cuts(subsets *s)
{
    tt_dfa *d = s->d;
    uint32_t n = 1;
    for (uint32_t i = 0; i < s->n_sets; i++)
        n += 2 * s->sets[i].n;
    if (!tt_builder_work(s->g->b, n))
        return false;
    d->cuts = malloc(n * sizeof *d->cuts);
    d->classes = malloc(n * sizeof *d->classes);
    if (d->cuts == NULL || d->classes == NULL)
        return false;
    n = 0;
    d->cuts[n++] = 0;
    for (uint32_t i = 0; i < s->n_sets; i++)
        for (uint32_t k = 0; k < s->sets[i].n; k++) {
            d->cuts[n++] = s->sets[i].v[k].lo;
            if (s->sets[i].v[k].hi < TT_LAST_CHAR)
                d->cuts[n++] = s->sets[i].v[k].hi + 1;
        }
    qsort(d->cuts, n, sizeof *d->cuts, by_number);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || d->cuts[i] != d->cuts[d->n_cuts - 1])
            d->cuts[d->n_cuts++] = d->cuts[i];
    return true;
}

/* Characters that are in the same sets are of one class: refined set by set. */
static bool find_classes(subsets *s)
{
    tt_dfa *d = s->d;
    uint32_t *map = malloc(2 * (d->n_cuts + 1) * sizeof *map);
    if (map == NULL)
        return false;
    memset(d->classes, 0, d->n_cuts * sizeof *d->classes);
    d->n_classes = 1;
    for (uint32_t i = 0; i < s->n_sets && tt_builder_work(s->g->b, d->n_cuts); i++) {
        uint32_t k = 0, n = 0;
        memset(map, 0xff, 2 * (d->n_cuts + 1) * sizeof *map);
        for (uint32_t c = 0; c < d->n_cuts; c++) {
            while (k < s->sets[i].n && s->sets[i].v[k].hi < d->cuts[c])
                k++;
            bool in = k < s->sets[i].n && s->sets[i].v[k].lo <= d->cuts[c];
            uint32_t key = 2 * d->classes[c] + in;
            if (map[key] == TT_NO_STATE)
                map[key] = n++;
            d->classes[c] = map[key];
        }
        d->n_classes = n;
    }
    free(map);
    return true;
}

static bool mark_classes(subsets *s)
{
    tt_dfa *d = s->d;
    uint64_t cells = (uint64_t)s->n_sets * d->n_classes;
    if (cells > TT_DFA_CELLS) {
        tt_builder_fail(s->g->b, TT_ERR_LIMIT, "an expression of too many characters");
        return true;
    }
    s->in = calloc(cells + 1, 1);
    for (uint32_t i = 0; s->in != NULL && i < s->n_sets; i++) {
        uint32_t k = 0;
        if (!tt_builder_work(s->g->b, d->n_cuts))
            return true;
        for (uint32_t c = 0; c < d->n_cuts; c++) {
            while (k < s->sets[i].n && s->sets[i].v[k].hi < d->cuts[c])
                k++;
            if (k < s->sets[i].n && s->sets[i].v[k].lo <= d->cuts[c])
                s->in[(size_t)i * d->n_classes + d->classes[c]] = 1;
        }
    }
    return s->in != NULL;
}

/* ---- states ---- */

/* Adds what can be got to from `at` without a character; members are what says something. */
static void close_over(subsets *s, uint32_t at, bool begin, bool end)
{
    uint32_t n = 0;
    s->stack[n++] = at;
    while (n > 0) {
        uint32_t i = s->stack[--n];
        if (s->mark[i] == s->round)
            continue;
        s->mark[i] = s->round;
        const node *x = &s->g->nodes[i];
        if (x->kind == NODE_SPLIT) {
            s->stack[n++] = x->also;
            s->stack[n++] = x->out;
        } else if ((x->kind == NODE_BEGIN && begin) || (x->kind == NODE_END && end)) {
            s->stack[n++] = x->out;
        } else if (x->kind != NODE_BEGIN) {
            s->found[s->n_found++] = i;
        }
    }
}

/* Whether the text may end here: $ lets pass. */
static bool accepts(subsets *s, const uint32_t *v, uint32_t n, bool begin)
{
    uint32_t kept = s->n_found;
    bool yes = false;
    s->round++;
    for (uint32_t i = 0; i < n; i++)
        close_over(s, v[i], begin, true);
    for (uint32_t i = kept; i < s->n_found; i++)
        yes |= s->g->nodes[s->found[i]].kind == NODE_ACCEPT;
    s->n_found = kept;
    return yes;
}

static uint32_t hash_of(const uint32_t *v, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ v[i]) * 16777619u;
    return h ^ h >> 15;
}

static bool more_lists(subsets *s)
{
    if (s->n_lists + s->n_found <= s->cap_lists)
        return true;
    uint32_t want = 2 * s->cap_lists + s->n_found + 256;
    uint32_t *p = realloc(s->lists, want * sizeof *p);
    if (p == NULL)
        return false;
    s->lists = p;
    s->cap_lists = want;
    return true;
}

static bool more_states(subsets *s, uint32_t columns)
{
    tt_dfa *d = s->d;
    if (d->n < s->cap_states)
        return true;
    uint32_t want = 2 * s->cap_states + 16;
    uint32_t *begin = realloc(s->begin, (want + 1) * sizeof *begin);
    if (begin != NULL)
        s->begin = begin;
    uint32_t *next = realloc(d->next, (size_t)want * columns * sizeof *next);
    if (next != NULL)
        d->next = next;
    uint8_t *accept = realloc(d->accept, want);
    if (accept != NULL)
        d->accept = accept;
    if (begin == NULL || next == NULL || accept == NULL)
        return false;
    s->cap_states = want;
    return true;
}

static bool rehash(subsets *s)
{
    uint32_t want = s->n_hash == 0 ? 64 : 2 * s->n_hash;
    uint32_t *h = malloc(want * sizeof *h);
    if (h == NULL)
        return false;
    memset(h, 0xff, want * sizeof *h);
    for (uint32_t i = 0; i < s->d->n; i++) {
        uint32_t k = hash_of(s->lists + s->begin[i], s->begin[i + 1] - s->begin[i]) & (want - 1);
        while (h[k] != TT_NO_STATE)
            k = (k + 1) & (want - 1);
        h[k] = i;
    }
    free(s->hash);
    s->hash = h;
    s->n_hash = want;
    return true;
}

/* The state of the members in `found`, which is sorted. */
static uint32_t state_of(subsets *s, bool begin)
{
    tt_dfa *d = s->d;
    tt_builder *b = s->g->b;
    uint32_t columns = d->n_classes + d->n_symbols, n = s->n_found;
    if (2 * d->n >= s->n_hash && !rehash(s)) {
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
        return 0;
    }
    uint32_t k = hash_of(s->found, n) & (s->n_hash - 1);
    for (; s->hash[k] != TT_NO_STATE; k = (k + 1) & (s->n_hash - 1)) {
        uint32_t i = s->hash[k];
        /* The start is no other state: ^ lets pass there alone. */
        if (i > 0 && s->begin[i + 1] - s->begin[i] == n &&
            memcmp(s->lists + s->begin[i], s->found, n * sizeof *s->found) == 0)
            return i;
    }
    if (d->n >= TT_DFA_STATES || (uint64_t)d->n * columns > TT_DFA_CELLS) {
        tt_builder_fail(b, TT_ERR_LIMIT, "an expression of more than 50,000 states");
        return 0;
    }
    if (!more_states(s, columns)) {
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
        return 0;
    }
    if (!tt_builder_work(b, n + columns))
        return 0;
    uint32_t at = d->n;
    memset(d->next + (size_t)at * columns, 0xff, columns * sizeof *d->next);
    d->accept[at] = accepts(s, s->found, n, begin);
    if (!more_lists(s)) {
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
        return 0;
    }
    memcpy(s->lists + s->n_lists, s->found, n * sizeof *s->found);
    s->hash[k] = at;
    s->begin[at] = s->n_lists;
    s->n_lists += n;
    s->begin[at + 1] = s->n_lists;
    d->n++;
    return at;
}

/* The state behind the targets. Once any text will do, nothing else matters. */
static uint32_t state_behind(subsets *s)
{
    s->round++;
    s->n_found = 0;
    for (uint32_t i = 0; i < s->n_target; i++)
        close_over(s, s->target[i], false, false);
    if (!tt_builder_work(s->g->b, s->n_target + s->n_found))
        return 0;
    for (uint32_t i = 0; i < s->n_found; i++) {
        if (s->found[i] != s->g->tail)
            continue;
        s->round++;
        s->n_found = 0;
        close_over(s, s->g->nodes[s->g->tail].out, false, false);
        break;
    }
    qsort(s->found, s->n_found, sizeof *s->found, by_number);
    return state_of(s, false);
}

/* Whether member i of state `at` has a way on in column c. */
static bool leads(const subsets *s, uint32_t member, uint32_t c)
{
    const node *x = &s->g->nodes[member];
    if (c >= s->d->n_classes)
        return x->kind == NODE_CALL && x->arg == c - s->d->n_classes;
    return x->kind == NODE_SET && s->in[(size_t)x->arg * s->d->n_classes + c];
}

static void fill_row(subsets *s, uint32_t at)
{
    tt_dfa *d = s->d;
    uint32_t columns = d->n_classes + d->n_symbols, n = s->begin[at + 1] - s->begin[at];
    for (uint32_t c = 0; c < columns && tt_builder_work(s->g->b, n / 4 + 1); c++) {
        s->n_target = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t member = s->lists[s->begin[at] + i];
            if (leads(s, member, c))
                s->target[s->n_target++] = s->g->nodes[member].out;
        }
        uint32_t to = s->n_target == 0 ? TT_NO_STATE : state_behind(s);
        if (s->g->b->failed == TT_OK)
            d->next[(size_t)at * columns + c] = to;
    }
}

static bool make_states(subsets *s, uint32_t start)
{
    net *g = s->g;
    size_t n = g->n + 2;
    s->stack = malloc(2 * n * sizeof *s->stack);
    s->found = malloc(2 * n * sizeof *s->found);
    s->target = malloc(n * sizeof *s->target);
    s->mark = calloc(n, sizeof *s->mark);
    bool ok = s->stack != NULL && s->found != NULL && s->target != NULL && s->mark != NULL;
    if (ok) {
        s->round++;
        close_over(s, start, true, false);
        qsort(s->found, s->n_found, sizeof *s->found, by_number);
        (void)state_of(s, true);
        for (uint32_t i = 0; i < s->d->n && g->b->failed == TT_OK; i++)
            fill_row(s, i);
    }
    return ok;
}

static void release(subsets *s)
{
    free(s->in);
    free(s->lists);
    free(s->begin);
    free(s->hash);
    free(s->stack);
    free(s->mark);
    free(s->found);
    free(s->target);
}

tt_status tt_dfa_make(const tt_rx *rx, uint32_t root, uint32_t n_symbols, bool anywhere,
                      tt_dfa *out, tt_error *err)
{
    tt_builder *b = rx->b;
    net g = {.rx = rx, .b = b, .tail = NO_NODE};
    tt_dfa d = {.n_symbols = n_symbols};
    tt_charset *sets = malloc((rx->n_sets + 1) * sizeof *sets), any = {0};
    subsets s = {.g = &g, .d = &d, .sets = sets, .n_sets = rx->n_sets + 1};
    tt_charset_add(b, &any, 0, TT_LAST_CHAR);
    uint32_t start = add_node(&g, (node){.kind = NODE_ACCEPT});
    if (anywhere) {
        start = any_text(&g, rx->n_sets, start);
        g.tail = start + 1;
    }
    start = build(&g, root, start);
    if (anywhere)
        start = any_text(&g, rx->n_sets, start);
    tt_status st = tt_builder_status(b, err);
    if (st == TT_OK && sets != NULL) {
        if (rx->n_sets > 0)
            memcpy(sets, rx->sets, rx->n_sets * sizeof *sets);
        sets[rx->n_sets] = any;
        if (!find_cuts(&s) || !find_classes(&s) || !mark_classes(&s) || !make_states(&s, start))
            tt_builder_fail(b, TT_ERR_NOMEM, "memory");
        st = tt_builder_status(b, err);
    } else if (st == TT_OK) {
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    }
    if (st == TT_OK)
        st = tt_dfa_tidy(b, &d, err);
    release(&s);
    free(sets);
    free(g.nodes);
    tt_charset_free(&any);
    if (st == TT_OK)
        *out = d;
    else
        tt_dfa_free(&d);
    return st;
}
