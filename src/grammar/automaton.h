/* automaton.h: the automaton that a grammar is compiled to, and what it is built with.
 *
 * Owns:      states with byte edges, calls between rules, counters and orders of properties; the
 *            checks that make every state lead to an end.
 * Not here:  what languages are (schema_rules.h, ebnf.h, call_rules.h), running it (matcher.h),
 *            tokens (lexicon.h).
 * Laws:      (1) a finished automaton never changes;  (2) from every state that it can get into
 *            there is a way to the end, within the depth that it was made for: no answer is led
 * into a blind alley;  (3) building is bounded in states, memory and work: what is too large is
 * TT_ERR_LIMIT, remembered by the builder until it is asked.
 * Threads:   a builder has one; a finished automaton is shared freely.
 *
 * A rule is a set of states that edges join. A call leaves a rule for the entry state of another
 * and comes back to the state `ret`. A frame is one rule in work: its state, a number, and a
 * parameter that says what the number is held against. Rules that count (strings, arrays) have a
 * pair of bounds there; rules that take properties in order have the list of them, and the number
 * is the first that may still come. Guards say when a state may be entered.
 */
#ifndef TT_GRAMMAR_AUTOMATON_H
#define TT_GRAMMAR_AUTOMATON_H

#include "base/status.h"

#define TT_AUTOMATON_STATES 100000u
#define TT_AUTOMATON_EDGES  600000u
#define TT_AUTOMATON_CALLS  300000u
#define TT_AUTOMATON_WORK   30000000u /* steps of building: below 100 ms */
#define TT_AUTOMATON_NEST   64u       /* rules, so arrays and objects, inside one another */
#define TT_NO_STATE         UINT32_MAX
#define TT_NO_LIMIT         UINT32_MAX
#define TT_NO_END           UINT16_MAX
#define TT_TOKEN_BYTE       0xFFu /* no text has it: announces a special token */
#define TT_AUTOMATON_TOKENS 64u

typedef enum tt_guard {
    TT_GUARD_NONE,
    TT_GUARD_INC,    /* room for one more, which is counted, and for `arg` after it */
    TT_GUARD_MORE,   /* the same, and nothing is counted yet */
    TT_GUARD_ENOUGH, /* the least number is there */
    TT_GUARD_KEY,    /* one of the properties of list `arg` may come */
    TT_GUARD_TAKE,   /* property `arg` may come, and does */
    TT_GUARD_EXTRA,  /* a property without a name may come, and named ones no longer */
    TT_GUARD_NEXT,   /* some property may come */
    TT_GUARD_CLOSE   /* no required property is missing */
} tt_guard;

enum {
    TT_STATE_FINAL = 1,    /* the rule may end here */
    TT_STATE_LAST = 2,     /* and nothing can follow in it */
    TT_STATE_SIMPLE = 4,   /* no byte has two edges */
    TT_STATE_LEAN = 8,     /* one stack stays one, but for the end of its rule: no call, at most a
                              count, and something can follow */
    TT_STATE_COUNTED = 16, /* what `room` and `loops` speak of is counted */
    TT_STATE_EXACT = 32,   /* of plain characters, as many as `room` and the count say may come
                              and not one more */
    TT_STATE_INSIDE = 64   /* in the middle of a character */
};

/* Classes of characters. Plain ones (TT_CHARS_PLAIN) are those of most texts, see lexicon.h. */
enum {
    TT_CHARS_LOWER = 1,
    TT_CHARS_UPPER = 2,
    TT_CHARS_DIGIT = 4,
    TT_CHARS_SPACE = 8,
    TT_CHARS_MARK = 16, /* what else is plain and one byte */
    TT_CHARS_LONG = 32, /* of several bytes */
    TT_CHARS_PLAIN = 63,
    TT_CHARS_OTHER = 64, /* not plain */
    TT_CHARS_INSIDE = 128
};
/* That of the character which begins with this byte. */
uint8_t tt_char_class(uint8_t byte);
/* Whether a whole valid character of n bytes is plain. */
bool tt_char_plain(const uint8_t *p, uint32_t n);

#define TT_ROOM_ANY 255u

typedef struct tt_gset {
    uint64_t bits[4]; /* of 256 bytes */
} tt_gset;

static inline bool tt_gset_has(const tt_gset *s, uint8_t b)
{
    return s->bits[b >> 6] >> (b & 63) & 1;
}

static inline void tt_gset_add(tt_gset *s, unsigned lo, unsigned hi)
{
    for (unsigned b = lo; b <= hi; b++)
        s->bits[b >> 6] |= (uint64_t)1 << (b & 63);
}

typedef struct tt_gedge {
    uint32_t to;
    uint8_t lo, hi;
} tt_gedge;

typedef struct tt_gcall {
    uint32_t entry, ret, param;
    uint32_t first; /* set of bytes that it can begin with */
    bool extra;     /* only where a property without a name may come */
    bool flat;      /* no level deeper */
} tt_gcall;

typedef struct tt_gstate {
    uint32_t edges, calls; /* where they begin */
    uint32_t row;          /* of 256 targets, or TT_NO_STATE */
    uint32_t arg;          /* of the guard */
    uint16_t n_edges, n_calls;
    uint16_t need; /* frames above its own that the way to the end takes at least */
    uint8_t guard, flags;
    /* Of plain characters, in classes. Inside a character of those behind it, and of
     * TT_CHARS_INSIDE. */
    uint8_t set;   /* any of these may come, */
    uint8_t room;  /* and 1 + so many of them, or TT_ROOM_ANY; 0: unknown */
    uint8_t loops; /* these lead back here, so that there is no end to them */
} tt_gstate;

typedef struct tt_gcount {
    uint32_t min, max; /* TT_NO_LIMIT: none */
} tt_gcount;

/* Properties in the order of the schema. next_required[i] is the first required one at or after i,
 * or n. */
typedef struct tt_gorder {
    uint32_t n, next_required, need; /* places in order_data: n + 1 and n + 1 numbers */
    bool extra;                      /* properties without a name may follow */
} tt_gorder;

/* Where an answer may begin. */
typedef struct tt_starts {
    uint32_t plain;   /* with the document */
    uint32_t thought; /* inside a thought, the document after it */
    uint32_t free;    /* with a thought or with the document */
} tt_starts;

typedef struct tt_automaton {
    tt_gstate *states;
    tt_gedge *edges;
    tt_gcall *calls;
    uint32_t (*rows)[256];
    tt_gset *sets;
    tt_gcount *counts;
    tt_gorder *orders;
    uint32_t *order_data, *lists;
    char *tokens[TT_AUTOMATON_TOKENS]; /* contents of special tokens; the k-th is the bytes FF, k */
    uint32_t n_states, n_edges, n_calls, n_rows, n_sets, n_tokens;
    tt_starts starts;
    uint16_t most_need;
    size_t bytes; /* of memory */
} tt_automaton;

void tt_automaton_free(tt_automaton *m);

/* ---- building ---- */

typedef struct tt_bstate {
    uint32_t edges, calls; /* newest first */
    uint32_t arg;
    uint8_t guard;
    bool final, spaced, nests;
    uint32_t order; /* 1 + the order that the rule entered here takes properties by */
} tt_bstate;

typedef struct tt_bedge {
    uint32_t next, to;
    uint8_t lo, hi;
} tt_bedge;

typedef struct tt_bcall {
    uint32_t next, entry, ret, param, set; /* set: TT_NO_STATE: whatever the entry begins with */
    bool extra, flat;
} tt_bcall;

typedef struct tt_border {
    tt_gorder o;
    uint32_t values; /* place in order_data: the state before each value, then the extra one's */
    uint32_t after;  /* the state after a value */
    uint32_t n_required; /* of them */
} tt_border;

typedef struct tt_builder {
    tt_bstate *states;
    tt_bedge *edges;
    tt_bcall *calls;
    tt_gset *sets;
    tt_gcount *counts;
    tt_border *orders;
    uint32_t *order_data, *lists;
    uint32_t n_states, n_edges, n_calls, n_sets, n_counts, n_orders, n_order_data, n_lists;
    uint32_t cap_states, cap_edges, cap_calls, cap_sets, cap_counts, cap_orders, cap_order_data,
        cap_lists;
    char *tokens[TT_AUTOMATON_TOKENS];
    uint32_t n_tokens;
    uint64_t work, limit; /* steps that were taken, that may be */
    tt_status failed;
    const char *reason; /* of TT_ERR_LIMIT */
} tt_builder;

void tt_builder_init(tt_builder *b);
void tt_builder_free(tt_builder *b);
/* Spends `n` steps; false when nothing is left, or something failed before. */
bool tt_builder_work(tt_builder *b, uint64_t n);
void tt_builder_fail(tt_builder *b, tt_status status, const char *reason);
/* Lets what follows take at most 1/`share` of all steps; returns what to set `limit` back to. */
uint64_t tt_builder_ration(tt_builder *b, uint32_t share);
/* The first failure. */
TT_MUST_CHECK tt_status tt_builder_status(const tt_builder *b, tt_error *err);

/* After a failure everything below does nothing and returns 0, which is a state too: one that has
 * no way out. */
uint32_t tt_builder_state(tt_builder *b);
uint32_t tt_builder_final(tt_builder *b); /* where a rule ends */
void tt_builder_set_final(tt_builder *b, uint32_t state);
void tt_builder_guard(tt_builder *b, uint32_t state, tt_guard guard, uint32_t arg);
/* The inside of an array or object: there is to be room for a value, be there one or not. */
void tt_builder_nest(tt_builder *b, uint32_t state);
/* One space or one newline may come in front of what this state goes on with. */
void tt_builder_space(tt_builder *b, uint32_t state);
void tt_builder_edge(tt_builder *b, uint32_t from, unsigned lo, unsigned hi, uint32_t to);
/* A state behind `from` by way of these bytes, in a chain of its own. */
uint32_t tt_builder_text(tt_builder *b, uint32_t from, const char *text, size_t n);
/* The same, ending in `to`. n is 1 or more. */
void tt_builder_text_to(tt_builder *b, uint32_t from, const char *text, size_t n, uint32_t to);
void tt_builder_call(tt_builder *b, uint32_t from, uint32_t entry, uint32_t param, uint32_t ret);
/* The same, but the rule is no deeper than the one that calls it. Not for rules that may call
 * themselves this way. */
void tt_builder_call_flat(tt_builder *b, uint32_t from, uint32_t entry, uint32_t param,
                          uint32_t ret);
/* A call for a property without a name that begins with a byte of `set`. */
void tt_builder_call_extra(tt_builder *b, uint32_t from, uint32_t entry, const tt_gset *set,
                           uint32_t ret);
/* Edges and calls of `from` for `to` as well. */
void tt_builder_copy(tt_builder *b, uint32_t from, uint32_t to);
uint32_t tt_builder_count(tt_builder *b, uint32_t min, uint32_t max); /* a parameter */
/* A list for TT_GUARD_KEY. `extra`: it may become a property without a name. */
uint32_t tt_builder_list(tt_builder *b, const uint32_t *items, uint32_t n, bool extra);
/* An order of n properties, a parameter; `entry` is where the rule is entered, `after` the state
 * after a value. */
uint32_t tt_builder_order(tt_builder *b, uint32_t n, const bool *required, bool extra,
                          uint32_t entry, uint32_t after);
/* The state before the value of property i; of those without a name for i = n. */
void tt_builder_order_value(tt_builder *b, uint32_t order, uint32_t i, uint32_t state);
/* The bytes that stand for a special token, from `from` to `to`. */
void tt_builder_token(tt_builder *b, uint32_t from, const char *content, size_t n, uint32_t to);

/* A mark to go back to. */
typedef struct tt_builder_mark {
    uint32_t n_states, n_edges, n_calls, n_sets, n_counts, n_orders, n_order_data, n_lists;
} tt_builder_mark;
tt_builder_mark tt_builder_marked(const tt_builder *b);
/* Forgets what came after the mark, and a failure. States from before it must not have got edges
 * since. */
void tt_builder_rewind(tt_builder *b, const tt_builder_mark *mark);

/* ---- automaton_rooms.c ---- */

/* Fills in what states take of plain text, and the flags that go with that. False: no memory. */
bool tt_automaton_rooms(tt_automaton *m);

/* ---- automaton_finish.c ---- */

/* From which of the n states no way leads to the end of their rule, or one that is too deep.
 * TT_NO_STATE among them counts for one that has a way. */
TT_MUST_CHECK tt_status tt_builder_without_end(tt_builder *b, const uint32_t *states, uint32_t n,
                                               bool *without, tt_error *err);
/* Checks and packs everything. TT_ERR_INVALID when no document ends, TT_ERR_LIMIT when the way to
 * the end is too deep. */
TT_MUST_CHECK tt_status tt_automaton_finish(tt_builder *b, const tt_starts *starts,
                                            tt_automaton *out, tt_error *err);

#endif
