/* ebnf_int.h: rules of a grammar on their way from text to automaton.
 *
 * Owns:      the parsed form.
 * Not here:  what ebnf.h promises.
 * Laws:      every name in `symbols` has its rule once parsing is over.
 * Threads:   one.
 */
#ifndef TT_GRAMMAR_EBNF_INT_H
#define TT_GRAMMAR_EBNF_INT_H

#include "grammar/dfa.h"

/* What a rule refers to: another rule, or a special token. */
typedef struct tt_ebnf_symbol {
    uint32_t rule; /* TT_NO_STATE: a token */
    char *token;
    size_t n_token;
} tt_ebnf_symbol;

typedef struct tt_ebnf_rule_def {
    char *name;
    uint32_t line;
    bool defined, used, empty; /* empty: it may be */
    tt_rx rx;
    uint32_t root;
    tt_ebnf_symbol *symbols;
    uint32_t n_symbols, cap_symbols;
    tt_dfa dfa;
    uint32_t *states;
} tt_ebnf_rule_def;

typedef struct tt_ebnf {
    tt_builder *b;
    tt_ebnf_rule_def *rules;
    uint32_t n_rules, cap_rules;
    uint32_t *hash, n_hash;
} tt_ebnf;

TT_MUST_CHECK tt_status tt_ebnf_parse(tt_ebnf *g, const char *text, size_t len, tt_error *err);
/* A rule by its name, or TT_NO_STATE. */
uint32_t tt_ebnf_find(const tt_ebnf *g, const char *name, size_t n);

#endif
