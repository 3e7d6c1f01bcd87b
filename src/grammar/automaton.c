#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void tt_builder_init(tt_builder *b)
{
    *b = (tt_builder){.limit = TT_AUTOMATON_WORK};
    (void)tt_builder_state(b);
    (void)tt_builder_count(b, 0, TT_NO_LIMIT);
}

void tt_builder_free(tt_builder *b)
{
    free(b->states);
    free(b->edges);
    free(b->calls);
    free(b->sets);
    free(b->counts);
    free(b->orders);
    free(b->order_data);
    free(b->lists);
    for (uint32_t i = 0; i < b->n_tokens; i++)
        free(b->tokens[i]);
    *b = (tt_builder){0};
}

void tt_automaton_free(tt_automaton *m)
{
    free(m->states);
    free(m->edges);
    free(m->calls);
    free(m->rows);
    free(m->sets);
    free(m->counts);
    free(m->orders);
    free(m->order_data);
    free(m->lists);
    for (uint32_t i = 0; i < m->n_tokens; i++)
        free(m->tokens[i]);
    *m = (tt_automaton){0};
}

/* ---- failure ---- */

void tt_builder_fail(tt_builder *b, tt_status status, const char *reason)
{
    if (b->failed != TT_OK)
        return;
    b->failed = status;
    b->reason = reason;
}

bool tt_builder_work(tt_builder *b, uint64_t n)
{
    b->work += n;
    if (b->work > b->limit)
        tt_builder_fail(b, TT_ERR_LIMIT, "it takes too much work to compile");
    return b->failed == TT_OK;
}

uint64_t tt_builder_ration(tt_builder *b, uint32_t share)
{
    uint64_t before = b->limit, most = b->work + TT_AUTOMATON_WORK / share;
    b->limit = most < before ? most : before;
    return before;
}

tt_status tt_builder_status(const tt_builder *b, tt_error *err)
{
    if (b->failed == TT_OK)
        return TT_OK;
    if (b->failed == TT_ERR_NOMEM)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    return tt_fail(err, b->failed, "the grammar is too large: %s", b->reason);
}

/* Room for n more of `count`; false, with the failure noted, when there is none. */
static bool room(tt_builder *b, void **array, uint32_t count, uint32_t *cap, uint32_t n,
                 size_t size, uint32_t most, const char *reason)
{
    if (b->failed != TT_OK)
        return false;
    if (n > most || count > most - n) {
        tt_builder_fail(b, TT_ERR_LIMIT, reason);
        return false;
    }
    if (count + n <= *cap)
        return true;
    uint32_t want = *cap < 64 ? 64 : *cap * 2;
    if (want < count + n)
        want = count + n;
    void *p = realloc(*array, want * size);
    if (p == NULL) {
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
        return false;
    }
    *array = p;
    *cap = want;
    return true;
}

#define ROOM(b, what, n, most, reason)                                                             \
    room((b), (void **)&(b)->what, (b)->n_##what, &(b)->cap_##what, (n), sizeof *(b)->what,        \
         (most), (reason))

/* ---- states and edges ---- */

uint32_t tt_builder_state(tt_builder *b)
{
    if (!ROOM(b, states, 1, TT_AUTOMATON_STATES, "more than 100,000 states"))
        return 0;
    b->states[b->n_states] = (tt_bstate){.edges = TT_NO_STATE, .calls = TT_NO_STATE};
    return b->n_states++;
}

uint32_t tt_builder_final(tt_builder *b)
{
    uint32_t s = tt_builder_state(b);
    tt_builder_set_final(b, s);
    return s;
}

void tt_builder_set_final(tt_builder *b, uint32_t state)
{
    if (b->failed == TT_OK)
        b->states[state].final = true;
}

void tt_builder_guard(tt_builder *b, uint32_t state, tt_guard guard, uint32_t arg)
{
    if (b->failed != TT_OK)
        return;
    b->states[state].guard = (uint8_t)guard;
    b->states[state].arg = arg;
}

void tt_builder_nest(tt_builder *b, uint32_t state)
{
    if (b->failed == TT_OK)
        b->states[state].nests = true;
}

void tt_builder_space(tt_builder *b, uint32_t state)
{
    if (b->failed == TT_OK)
        b->states[state].spaced = true;
}

void tt_builder_edge(tt_builder *b, uint32_t from, unsigned lo, unsigned hi, uint32_t to)
{
    if (!ROOM(b, edges, 1, TT_AUTOMATON_EDGES, "more than 600,000 edges"))
        return;
    b->edges[b->n_edges] =
        (tt_bedge){.next = b->states[from].edges, .to = to, .lo = (uint8_t)lo, .hi = (uint8_t)hi};
    b->states[from].edges = b->n_edges++;
}

uint32_t tt_builder_text(tt_builder *b, uint32_t from, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t to = tt_builder_state(b);
        tt_builder_edge(b, from, (uint8_t)text[i], (uint8_t)text[i], to);
        from = to;
    }
    return from;
}

void tt_builder_text_to(tt_builder *b, uint32_t from, const char *text, size_t n, uint32_t to)
{
    uint32_t last = tt_builder_text(b, from, text, n - 1);
    tt_builder_edge(b, last, (uint8_t)text[n - 1], (uint8_t)text[n - 1], to);
}

static void add_call(tt_builder *b, uint32_t from, tt_bcall call)
{
    if (!ROOM(b, calls, 1, TT_AUTOMATON_CALLS, "more than 300,000 calls"))
        return;
    call.next = b->states[from].calls;
    b->calls[b->n_calls] = call;
    b->states[from].calls = b->n_calls++;
}

void tt_builder_call(tt_builder *b, uint32_t from, uint32_t entry, uint32_t param, uint32_t ret)
{
    add_call(b, from, (tt_bcall){.entry = entry, .ret = ret, .param = param, .set = TT_NO_STATE});
}

void tt_builder_call_flat(tt_builder *b, uint32_t from, uint32_t entry, uint32_t param,
                          uint32_t ret)
{
    tt_bcall call = {.entry = entry, .ret = ret, .param = param, .set = TT_NO_STATE, .flat = true};
    add_call(b, from, call);
}

static uint32_t add_set(tt_builder *b, const tt_gset *set)
{
    for (uint32_t i = b->n_sets; i-- > 0 && b->n_sets - i < 64;)
        if (memcmp(&b->sets[i], set, sizeof *set) == 0)
            return i;
    if (!ROOM(b, sets, 1, TT_AUTOMATON_CALLS, "more than 300,000 sets"))
        return 0;
    b->sets[b->n_sets] = *set;
    return b->n_sets++;
}

void tt_builder_call_extra(tt_builder *b, uint32_t from, uint32_t entry, const tt_gset *set,
                           uint32_t ret)
{
    tt_bcall call = {.entry = entry, .ret = ret, .extra = true};
    call.set = add_set(b, set);
    add_call(b, from, call);
}

void tt_builder_copy(tt_builder *b, uint32_t from, uint32_t to)
{
    if (b->failed != TT_OK)
        return;
    for (uint32_t e = b->states[from].edges; e != TT_NO_STATE && tt_builder_work(b, 1);
         e = b->edges[e].next)
        tt_builder_edge(b, to, b->edges[e].lo, b->edges[e].hi, b->edges[e].to);
    for (uint32_t c = b->states[from].calls; c != TT_NO_STATE && tt_builder_work(b, 1);
         c = b->calls[c].next)
        add_call(b, to, b->calls[c]);
}

/* ---- parameters ---- */

uint32_t tt_builder_count(tt_builder *b, uint32_t min, uint32_t max)
{
    for (uint32_t i = 0; i < b->n_counts && i < 256; i++)
        if (b->counts[i].min == min && b->counts[i].max == max)
            return i;
    if (!ROOM(b, counts, 1, TT_AUTOMATON_STATES, "more than 100,000 bounds"))
        return 0;
    b->counts[b->n_counts] = (tt_gcount){min, max};
    return b->n_counts++;
}

uint32_t tt_builder_list(tt_builder *b, const uint32_t *items, uint32_t n, bool extra)
{
    if (!ROOM(b, lists, n + 1, 4 * TT_AUTOMATON_EDGES, "its property names are too long"))
        return 0;
    uint32_t at = b->n_lists;
    b->lists[at] = n << 1 | extra;
    if (n > 0)
        memcpy(b->lists + at + 1, items, n * sizeof *items);
    b->n_lists += n + 1;
    return at;
}

uint32_t tt_builder_order(tt_builder *b, uint32_t n, const bool *required, bool extra,
                          uint32_t entry, uint32_t after)
{
    if (!ROOM(b, orders, 1, TT_AUTOMATON_STATES, "more than 100,000 objects") ||
        !ROOM(b, order_data, 3 * n + 3, 4 * TT_AUTOMATON_STATES, "too many properties"))
        return 0;
    uint32_t at = b->n_order_data, missing = 0, next = n;
    for (uint32_t i = n + 1; i-- > 0;) {
        if (i < n && required[i]) {
            next = i;
            missing++;
        }
        b->order_data[at + i] = next;
        b->order_data[at + n + 1 + i] = 0;
        b->order_data[at + 2 * n + 2 + i] = 0;
    }
    b->n_order_data += 3 * n + 3;
    b->orders[b->n_orders] =
        (tt_border){.o = {.n = n, .next_required = at, .need = at + n + 1, .extra = extra},
                    .values = at + 2 * n + 2,
                    .after = after,
                    .n_required = missing};
    b->states[entry].order = b->n_orders + 1;
    return b->n_orders++;
}

void tt_builder_order_value(tt_builder *b, uint32_t order, uint32_t i, uint32_t state)
{
    if (b->failed == TT_OK)
        b->order_data[b->orders[order].values + i] = state;
}

void tt_builder_token(tt_builder *b, uint32_t from, const char *content, size_t n, uint32_t to)
{
    uint32_t k = 0;
    if (b->failed != TT_OK)
        return;
    while (k < b->n_tokens && (strlen(b->tokens[k]) != n || memcmp(b->tokens[k], content, n) != 0))
        k++;
    if (k == TT_AUTOMATON_TOKENS) {
        tt_builder_fail(b, TT_ERR_LIMIT, "more than 64 special tokens");
        return;
    }
    if (k == b->n_tokens) {
        b->tokens[k] = tt_copy_text(content, n);
        if (b->tokens[k] == NULL) {
            tt_builder_fail(b, TT_ERR_NOMEM, "memory");
            return;
        }
        b->n_tokens++;
    }
    char bytes[2] = {(char)TT_TOKEN_BYTE, (char)k};
    tt_builder_text_to(b, from, bytes, 2, to);
}

/* ---- going back ---- */

tt_builder_mark tt_builder_marked(const tt_builder *b)
{
    return (tt_builder_mark){.n_states = b->n_states,
                             .n_edges = b->n_edges,
                             .n_calls = b->n_calls,
                             .n_sets = b->n_sets,
                             .n_counts = b->n_counts,
                             .n_orders = b->n_orders,
                             .n_order_data = b->n_order_data,
                             .n_lists = b->n_lists};
}

void tt_builder_rewind(tt_builder *b, const tt_builder_mark *mark)
{
    b->n_states = mark->n_states;
    b->n_edges = mark->n_edges;
    b->n_calls = mark->n_calls;
    b->n_sets = mark->n_sets;
    b->n_counts = mark->n_counts;
    b->n_orders = mark->n_orders;
    b->n_order_data = mark->n_order_data;
    b->n_lists = mark->n_lists;
    b->failed = TT_OK;
    b->reason = NULL;
}
