/* grammar_shelf.h: the grammars of answers, compiled once and kept for requests that ask for the
 * same again.
 *
 * Owns:      compiled grammars, how much memory they may have together, which go first.
 * Not here:  what a request asks for (answer_form.h); the place of an answer in a grammar (the
 *            engine).
 * Laws:      (1) one that is lent stays;  (2) together they have no more bytes than the shelf was
 *            made for;  (3) the same texts and choice are the same grammar, whose masks the engine
 *            still knows.
 * Threads:   any; compiling holds up nobody but who asks.
 */
#ifndef TT_SERVER_GRAMMAR_SHELF_H
#define TT_SERVER_GRAMMAR_SHELF_H

#include "base/status.h"

typedef struct tt_grammar_shelf tt_grammar_shelf;
typedef struct tt_lent_grammar tt_lent_grammar;

/* A document of `schema`, or calls of `tools` (with `choice`), never both. */
typedef struct tt_grammar_wish {
    const char *schema;
    const char *tools;
    tt_tool_choice choice;
} tt_grammar_wish;

TT_MUST_CHECK tt_status tt_grammar_shelf_create(size_t most, tt_grammar_shelf **out, tt_error *err);
/* Nothing is lent any more. */
void tt_grammar_shelf_close(tt_grammar_shelf **s);

/* The grammar, compiled if it is not there. Fails as the function of the library that makes it, and
 * with TT_ERR_BUDGET when those that are lent leave no room for it. */
TT_MUST_CHECK tt_status tt_grammar_shelf_take(tt_grammar_shelf *s, const tt_grammar_wish *wish,
                                              tt_lent_grammar **out, tt_error *err);
const tt_grammar *tt_lent_grammar_get(const tt_lent_grammar *g);
/* Ends the loan and clears it; NULL is fine. */
void tt_grammar_shelf_give(tt_lent_grammar **g);
/* Of all grammars that are there. */
size_t tt_grammar_shelf_bytes(tt_grammar_shelf *s);

#endif
