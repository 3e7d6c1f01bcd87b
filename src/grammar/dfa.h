/* dfa.h: regular expressions as trees, and the deterministic automata over characters that they
 * become.
 *
 * Owns:      sets of characters, trees, the subset construction, products, lengths.
 * Not here:  the syntaxes that trees are read from (pattern.h, ebnf.h), bytes (dfa_bytes.c puts
 *            them into an automaton).
 * Laws:      (1) bounded: nodes, states, and work, which is counted by the builder;  (2) an
 *            automaton that is handed out has no state without a way to an accepting one, except
 *            that its start may be the only state and accept nothing.
 * Threads:   one builder, one thread.
 */
#ifndef TT_GRAMMAR_DFA_H
#define TT_GRAMMAR_DFA_H

#include "grammar/automaton.h"

#define TT_LAST_CHAR  0x10ffffu
#define TT_RX_NODES   60000u
#define TT_DFA_STATES 50000u

/* ---- sets of characters ---- */

typedef struct tt_range {
    uint32_t lo, hi;
} tt_range;

typedef struct tt_charset {
    tt_range *v;
    uint32_t n, cap;
} tt_charset;

/* All of these remember a lack of memory in the builder. */
void tt_charset_add(tt_builder *b, tt_charset *s, uint32_t lo, uint32_t hi);
void tt_charset_join(tt_builder *b, tt_charset *s, const tt_charset *other);
void tt_charset_negate(tt_builder *b, tt_charset *s);
void tt_charset_free(tt_charset *s);

/* ---- trees ---- */

typedef enum tt_rx_kind {
    TT_RX_EMPTY,
    TT_RX_SET,    /* a: number of the set */
    TT_RX_CAT,    /* items from a, b of them */
    TT_RX_ALT,    /* the same */
    TT_RX_REPEAT, /* a, min, max */
    TT_RX_BEGIN,  /* ^ */
    TT_RX_END,    /* $ */
    TT_RX_CALL    /* a: symbol; b: it may be empty */
} tt_rx_kind;

typedef struct tt_rx_node {
    uint8_t kind;
    uint32_t a, b, min, max;
} tt_rx_node;

typedef struct tt_rx {
    tt_builder *b;
    tt_rx_node *nodes;
    uint32_t *items; /* children of CAT and ALT */
    tt_charset *sets;
    uint32_t n_nodes, n_items, n_sets, cap_nodes, cap_items, cap_sets;
    uint32_t ascii[128]; /* 1 + the set of one character */
} tt_rx;

void tt_rx_init(tt_rx *rx, tt_builder *b);
void tt_rx_free(tt_rx *rx);
uint32_t tt_rx_node_add(tt_rx *rx, tt_rx_node node);
/* Takes the set over. */
uint32_t tt_rx_set(tt_rx *rx, tt_charset *set);
uint32_t tt_rx_char(tt_rx *rx, uint32_t c);
/* One item is itself, none is EMPTY. */
uint32_t tt_rx_list(tt_rx *rx, tt_rx_kind kind, const uint32_t *items, uint32_t n);

/* ---- automata ---- */

/* The characters from cuts[i] to the next cut are of class classes[i]. Symbols of calls are columns
 * after the classes. */
typedef struct tt_dfa {
    uint32_t n, n_classes, n_symbols, n_cuts;
    uint32_t *cuts, *classes;
    uint32_t *next;  /* [n][n_classes + n_symbols], TT_NO_STATE: none. State 0 is the start. */
    uint8_t *accept; /* [n] */
} tt_dfa;

void tt_dfa_free(tt_dfa *d);
/* Of the tree `root`. `anywhere`: text before and after what matches, as far as ^ and $ let it. */
TT_MUST_CHECK tt_status tt_dfa_make(const tt_rx *rx, uint32_t root, uint32_t n_symbols,
                                    bool anywhere, tt_dfa *out, tt_error *err);
/* What a takes and b takes, or does not (`minus`). Neither has symbols. */
TT_MUST_CHECK tt_status tt_dfa_product(tt_builder *bu, const tt_dfa *a, const tt_dfa *b, bool minus,
                                       tt_dfa *out, tt_error *err);
/* What d takes of at least `min` characters. */
TT_MUST_CHECK tt_status tt_dfa_least(tt_builder *bu, const tt_dfa *d, uint32_t min, tt_dfa *out,
                                     tt_error *err);
bool tt_dfa_accepts(const tt_dfa *d, const char *utf8, size_t n);

/* ---- into an automaton (dfa_bytes.c) ---- */

typedef enum tt_spelling {
    TT_SPELL_RAW, /* UTF-8 */
    TT_SPELL_JSON /* as inside a JSON string: one way for each character */
} tt_spelling;

/* States of the automaton for the states of d, allocated, [n + 1]; NULL after a failure of the
 * builder. The last one is where a text begins: like the first, but nothing has come. The caller
 * says what follows accepting ones, and adds the calls. U+0000 is left out. Unless `most` is
 * TT_NO_LIMIT, characters are counted, and no more come than the maximum of the rule's parameter,
 * which is `most`, lets end; where no text is so short, the last state leads nowhere. */
uint32_t *tt_dfa_states(tt_builder *b, const tt_dfa *d, tt_spelling spelling, uint32_t most);

#endif
