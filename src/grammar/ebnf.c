#include "grammar/ebnf.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"
#include "grammar/ebnf_int.h"

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
}

/* ---- rules that may be empty ---- */

static bool is_empty(const tt_ebnf *g, const tt_ebnf_rule_def *r, uint32_t at)
{
    const tt_rx_node *x = &r->rx.nodes[at];
    bool all = true, some = false;
    switch (x->kind) {
    case TT_RX_EMPTY:
        return true;
    case TT_RX_SET:
        return false;
    case TT_RX_REPEAT:
        return x->min == 0 || is_empty(g, r, x->a);
    case TT_RX_CALL:
        return r->symbols[x->a].rule != TT_NO_STATE && g->rules[r->symbols[x->a].rule].empty;
    default:
        for (uint32_t i = 0; i < x->b; i++) {
            bool one = is_empty(g, r, r->rx.items[x->a + i]);
            all &= one;
            some |= one;
        }
        return x->kind == TT_RX_ALT ? some : all;
    }
}

static void find_empty(tt_ebnf *g)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < g->n_rules; i++) {
            tt_ebnf_rule_def *r = &g->rules[i];
            if (r->empty || !tt_builder_work(g->b, r->rx.n_nodes) || !is_empty(g, r, r->root))
                continue;
            r->empty = more = true;
        }
    }
    for (uint32_t i = 0; i < g->n_rules; i++) {
        tt_ebnf_rule_def *r = &g->rules[i];
        for (uint32_t k = 0; k < r->rx.n_nodes; k++) {
            tt_rx_node *x = &r->rx.nodes[k];
            if (x->kind == TT_RX_CALL && r->symbols[x->a].rule != TT_NO_STATE)
                x->b = g->rules[r->symbols[x->a].rule].empty;
        }
    }
}

/* ---- what is used, what begins with itself ---- */

static uint32_t called_at(const tt_ebnf_rule_def *r, uint32_t state, uint32_t symbol)
{
    return r->dfa
        .next[(size_t)state * (r->dfa.n_classes + r->dfa.n_symbols) + r->dfa.n_classes + symbol];
}

enum { NEW, OPEN, DONE };

/* Rules that stand on the stack begin with one another. */
static tt_status check_beginnings(tt_ebnf *g, tt_error *err)
{
    uint8_t *state = calloc(g->n_rules + 1, 1);
    uint32_t *stack = malloc((g->n_rules + 1) * sizeof *stack),
             *next = calloc(g->n_rules + 1, sizeof *next);
    tt_status st = state == NULL || stack == NULL || next == NULL ? no_memory(err) : TT_OK;
    for (uint32_t i = 0; st == TT_OK && i < g->n_rules; i++) {
        uint32_t n = 0;
        if (state[i] != NEW || !g->rules[i].used)
            continue;
        stack[n++] = i;
        state[i] = OPEN;
        while (st == TT_OK && n > 0) {
            uint32_t at = stack[n - 1];
            tt_ebnf_rule_def *r = &g->rules[at];
            if (next[at] == r->n_symbols) {
                state[at] = DONE;
                n--;
                continue;
            }
            uint32_t k = next[at]++, to = r->symbols[k].rule;
            if (to == TT_NO_STATE || called_at(r, 0, k) == TT_NO_STATE || state[to] == DONE)
                continue;
            if (state[to] == OPEN) {
                st = tt_fail(err, TT_ERR_INVALID,
                             "line %u: rule \"%.60s\" begins with itself (left recursion): write "
                             "what repeats with * or + instead",
                             g->rules[to].line, g->rules[to].name);
                break;
            }
            state[to] = OPEN;
            stack[n++] = to;
        }
    }
    free(state);
    free(stack);
    free(next);
    return st;
}

static tt_status mark_used(tt_ebnf *g, uint32_t root, tt_error *err)
{
    uint32_t *stack = malloc((g->n_rules + 1) * sizeof *stack), n = 0;
    if (stack == NULL)
        return no_memory(err);
    stack[n++] = root;
    g->rules[root].used = true;
    while (n > 0) {
        const tt_ebnf_rule_def *r = &g->rules[stack[--n]];
        for (uint32_t k = 0; k < r->n_symbols; k++) {
            uint32_t to = r->symbols[k].rule;
            if (to == TT_NO_STATE || g->rules[to].used)
                continue;
            g->rules[to].used = true;
            stack[n++] = to;
        }
    }
    free(stack);
    return TT_OK;
}

/* ---- into the automaton ---- */

static void add_calls(tt_ebnf *g, const tt_ebnf_rule_def *r)
{
    for (uint32_t i = 0; i < r->dfa.n; i++) {
        if (r->dfa.accept[i])
            tt_builder_set_final(g->b, r->states[i]);
        for (uint32_t k = 0; k < r->n_symbols && tt_builder_work(g->b, 1); k++) {
            uint32_t to = called_at(r, i, k);
            if (to == TT_NO_STATE)
                continue;
            const tt_ebnf_symbol *x = &r->symbols[k];
            if (x->rule == TT_NO_STATE)
                tt_builder_token(g->b, r->states[i], x->token, x->n_token, r->states[to]);
            else
                tt_builder_call(g->b, r->states[i], g->rules[x->rule].states[0], 0, r->states[to]);
        }
    }
}

static tt_status build(tt_ebnf *g, tt_error *err)
{
    for (uint32_t i = 0; i < g->n_rules; i++) {
        tt_ebnf_rule_def *r = &g->rules[i];
        if (!r->used)
            continue;
        tt_status st = tt_dfa_make(&r->rx, r->root, r->n_symbols, false, &r->dfa, err);
        if (st != TT_OK)
            return tt_fail_context(err, st, "line %u: rule \"%.60s\"", r->line, r->name);
    }
    TT_TRY(check_beginnings(g, err));
    for (uint32_t i = 0; i < g->n_rules; i++) {
        if (!g->rules[i].used)
            continue;
        g->rules[i].states = tt_dfa_states(g->b, &g->rules[i].dfa, TT_SPELL_RAW, TT_NO_LIMIT);
        TT_TRY(tt_builder_status(g->b, err));
    }
    for (uint32_t i = 0; i < g->n_rules; i++)
        if (g->rules[i].used)
            add_calls(g, &g->rules[i]);
    return tt_builder_status(g->b, err);
}

static void release(tt_ebnf *g)
{
    for (uint32_t i = 0; i < g->n_rules; i++) {
        tt_ebnf_rule_def *r = &g->rules[i];
        for (uint32_t k = 0; k < r->n_symbols; k++)
            free(r->symbols[k].token);
        free(r->symbols);
        free(r->name);
        free(r->states);
        tt_rx_free(&r->rx);
        tt_dfa_free(&r->dfa);
    }
    free(g->rules);
    free(g->hash);
}

tt_status tt_ebnf_rule(tt_builder *b, const char *text, size_t len, uint32_t *entry, tt_error *err)
{
    tt_ebnf g = {.b = b};
    tt_status st = tt_ebnf_parse(&g, text, len, err);
    uint32_t root = 0;
    if (st == TT_OK) {
        root = tt_ebnf_find(&g, "root", 4);
        if (root == TT_NO_STATE)
            st = tt_fail(err, TT_ERR_INVALID, "the grammar has no rule \"root\" to begin with");
    }
    if (st == TT_OK)
        st = mark_used(&g, root, err);
    if (st == TT_OK) {
        find_empty(&g);
        st = tt_builder_status(b, err);
    }
    if (st == TT_OK)
        st = build(&g, err);
    if (st == TT_OK)
        *entry = g.rules[root].states[0];
    release(&g);
    return st;
}
