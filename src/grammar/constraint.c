/* The public functions: grammars, and the place of an answer in one. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "grammar/compile.h"
#include "grammar/mask.h"

struct tt_grammar {
    tt_automaton automaton;
    uint64_t number; /* of its masks in caches */
    char *relaxed;
};

struct tt_constraint {
    const tt_grammar *g;
    tt_lexicon *x;
    tt_gmatcher at;
    tt_walker walker;
    uint64_t *mask;
    bool ended;                          /* by an end-of-generation id */
    int64_t tokens[TT_AUTOMATON_TOKENS]; /* ids of the grammar's special tokens, or -1 */
};

/* ---- grammars ---- */

static tt_grammar *new_grammar(void)
{
    static atomic_uint_least64_t last;
    tt_grammar *g = calloc(1, sizeof *g);
    if (g != NULL)
        g->number = atomic_fetch_add(&last, 1) + 1;
    return g;
}

/* Takes `relaxed` over. */
static tt_status hand_out(tt_grammar *g, json_t *relaxed, tt_status st, tt_grammar **out,
                          tt_error *err)
{
    if (st == TT_OK) {
        g->relaxed = relaxed != NULL ? json_dumps(relaxed, JSON_COMPACT) : tt_copy_text("[]", 2);
        if (g->relaxed == NULL)
            st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    }
    json_decref(relaxed);
    if (st == TT_OK)
        *out = g;
    else
        tt_grammar_close(&g);
    return st;
}

tt_status tt_grammar_from_schema(const char *schema, size_t len, tt_grammar **out, tt_error *err)
{
    tt_grammar *g = new_grammar();
    if (g == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    tt_status st = tt_compile_schema(schema, len, true, NULL, &g->automaton, err);
    return hand_out(g, NULL, st, out, err);
}

tt_status tt_grammar_from_ebnf(const char *text, size_t len, tt_grammar **out, tt_error *err)
{
    tt_grammar *g = new_grammar();
    if (g == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    tt_status st = tt_compile_ebnf(text, len, &g->automaton, err);
    return hand_out(g, NULL, st, out, err);
}

tt_status tt_grammar_from_tools(const char *tools_json, const tt_tool_choice *choice,
                                tt_grammar **out, tt_error *err)
{
    tt_tool_choice all = {.mode = TT_TOOLS_REQUIRED};
    const tt_tool_choice *c = choice != NULL ? choice : &all;
    for (size_t i = 0; i < sizeof c->reserved / sizeof *c->reserved; i++)
        if (c->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID, "a reserved member of the tool choice is not zero");
    tt_call_choice use = {.required = c->mode == TT_TOOLS_REQUIRED,
                          .several = !c->one_call,
                          .names = c->names,
                          .n_names = c->n_names};
    tt_grammar *g = new_grammar();
    json_t *relaxed = json_array();
    tt_status st = g == NULL || relaxed == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar")
                       : tt_compile_tools(tools_json, strlen(tools_json), &use, c->document,
                                          relaxed, &g->automaton, err);
    return hand_out(g, relaxed, st, out, err);
}

void tt_grammar_close(tt_grammar **gp)
{
    if (gp == NULL || *gp == NULL)
        return;
    tt_automaton_free(&(*gp)->automaton);
    free((*gp)->relaxed);
    free(*gp);
    *gp = NULL;
}

const char *tt_grammar_relaxed(const tt_grammar *g)
{
    return g->relaxed;
}

void tt_grammar_get_info(const tt_grammar *g, tt_grammar_info *info)
{
    *info = (tt_grammar_info){.states = g->automaton.n_states,
                              .edges = g->automaton.n_edges,
                              .bytes = g->automaton.bytes + sizeof *g};
}

/* ---- constraints ---- */

static uint32_t start_state(const tt_grammar *g, tt_constraint_start start)
{
    const tt_starts *s = &g->automaton.starts;
    return start == TT_START_THOUGHT     ? s->thought
           : start == TT_START_MAY_THINK ? s->free
                                         : s->plain;
}

tt_status tt_constraint_create(const tt_grammar *g, tt_lexicon *x, tt_constraint_start start,
                               tt_constraint **out, tt_error *err)
{
    tt_constraint *c = calloc(1, sizeof *c);
    if (c == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the state of a grammar");
    c->g = g;
    c->x = x;
    c->mask = calloc(x->words, sizeof *c->mask);
    tt_status st = c->mask == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for the state of a grammar")
                       : tt_gmatcher_init(&c->at, &g->automaton, start_state(g, start), err);
    if (st == TT_OK)
        st = tt_walker_init(&c->walker, x, err);
    for (uint32_t k = 0; k < g->automaton.n_tokens; k++) {
        c->tokens[k] = tt_tokenizer_special_id(x->tok, g->automaton.tokens[k]);
        if (c->tokens[k] >= x->vocab)
            c->tokens[k] = -1;
    }
    if (st == TT_OK)
        *out = c;
    else
        tt_constraint_close(&c);
    return st;
}

void tt_constraint_close(tt_constraint **cp)
{
    if (cp == NULL || *cp == NULL)
        return;
    tt_gmatcher_free(&(*cp)->at);
    tt_walker_free(&(*cp)->walker);
    free((*cp)->mask);
    free(*cp);
    *cp = NULL;
}

size_t tt_constraint_bytes(const tt_lexicon *x)
{
    return sizeof(tt_constraint) + tt_gmatcher_bytes() + tt_walker_bytes(x) +
           x->words * sizeof(uint64_t);
}

void tt_constraint_reset(tt_constraint *c, tt_constraint_start start)
{
    tt_gmatcher_reset(&c->at, start_state(c->g, start));
    c->ended = false;
}

/* Whether the k-th special token of the grammar may follow. */
static bool token_may(const tt_constraint *c, uint32_t k)
{
    tt_frame v[TT_MATCH_PARALLEL], w[TT_MATCH_PARALLEL];
    tt_tops first = {.v = v, .cap = TT_MATCH_PARALLEL}, second = {.v = w, .cap = TT_MATCH_PARALLEL};
    tt_frames frames = c->at.frames; /* what is added lies above its n, and is forgotten */
    for (uint32_t i = 0; i < c->at.tops.n; i++)
        tt_match_step(c->at.m, &frames, &c->at.tops.v[i], TT_TOKEN_BYTE, &first);
    for (uint32_t i = 0; i < first.n; i++)
        tt_match_step(c->at.m, &frames, &first.v[i], (uint8_t)k, &second);
    return second.n > 0;
}

tt_status tt_constraint_mask(tt_constraint *c, const uint64_t **mask, tt_error *err)
{
    const tt_lexicon *x = c->x;
    bool some = false;
    if (c->ended)
        memset(c->mask, 0, x->words * sizeof *c->mask);
    else
        tt_walker_mask(&c->walker, c->x, c->g->number, &c->at, c->mask);
    for (uint32_t k = 0; !c->ended && k < c->g->automaton.n_tokens; k++)
        if (c->tokens[k] >= 0 && token_may(c, k))
            tt_mask_set(c->mask, (uint32_t)c->tokens[k]);
    for (size_t i = 0; !c->ended && tt_gmatcher_complete(&c->at) && i < x->n_stops; i++)
        tt_mask_set(c->mask, x->stops[i]);
    for (uint32_t i = 0; i < x->words; i++)
        some |= c->mask[i] != 0;
    if (!some)
        return tt_fail(err, TT_ERR_STATE, "%s",
                       c->ended ? "the answer has ended: no token may follow"
                                : "no token of the vocabulary may follow");
    *mask = c->mask;
    return TT_OK;
}

static bool is_stop(const tt_lexicon *x, uint32_t id)
{
    for (size_t i = 0; i < x->n_stops; i++)
        if (x->stops[i] == id)
            return true;
    return false;
}

static bool take_special(tt_constraint *c, uint32_t id)
{
    for (uint32_t k = 0; k < c->g->automaton.n_tokens; k++) {
        char bytes[2] = {(char)TT_TOKEN_BYTE, (char)k};
        if (c->tokens[k] == (int64_t)id)
            return tt_gmatcher_push(&c->at, bytes, 2) == 2;
    }
    return false;
}

tt_status tt_constraint_accept(tt_constraint *c, uint32_t id, tt_error *err)
{
    size_t len = 0;
    bool special = false, ok = false;
    const char *bytes = tt_tokenizer_piece(c->x->tok, id, &len, &special);
    if (!c->ended && id < c->x->vocab) {
        ok = take_special(c, id);
        if (!ok && is_stop(c->x, id) && tt_gmatcher_complete(&c->at))
            ok = c->ended = true;
        if (!ok && bytes != NULL && !special && len > 0 && len < TT_LEXICON_LONGEST &&
            memchr(bytes, 0xff, len) == NULL)
            ok = tt_gmatcher_push(&c->at, bytes, len) == len;
    }
    if (!ok)
        return tt_fail(err, TT_ERR_INVALID, "token %u may not follow here", id);
    return TT_OK;
}

tt_constraint_place tt_constraint_where(const tt_constraint *c)
{
    if (c->ended)
        return TT_PLACE_OVER;
    if (!tt_gmatcher_complete(&c->at))
        return TT_PLACE_OPEN;
    return tt_gmatcher_goes_on(&c->at) ? TT_PLACE_MAY_END : TT_PLACE_OVER;
}

tt_status tt_constraint_copy(tt_constraint *to, const tt_constraint *from, tt_error *err)
{
    if (to->g != from->g || to->x != from->x)
        return tt_fail(err, TT_ERR_INVALID, "constraints of different grammars or lexicons");
    tt_gmatcher_copy(&to->at, &from->at);
    to->ended = from->ended;
    return TT_OK;
}
