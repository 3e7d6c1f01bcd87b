/* masks.h: what the ways of `TinyTitanBench grammar` share.
 *
 * Owns:      grammars out of the entries of a file, documents held against them.
 * Not here:  random walks and what they cost (masks.c).
 * Laws:      documents go in by the public interface, byte by byte and as the tokenizer cuts them.
 * Threads:   one.
 */
#ifndef TT_BENCH_MASKS_H
#define TT_BENCH_MASKS_H

#include <jansson.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/status.h"

#define MASKS_MOST_TEXT (16 * TT_MIB) /* of one document */

/* The grammar of an entry: {"schema"}, {"ebnf"} or {"tools"}, or a schema as it stands; *tools, to
 * be freed, is the text of the tools or NULL. */
TT_MUST_CHECK tt_status masks_grammar(const json_t *entry, tt_grammar **out, char **tools,
                                      tt_error *err);

typedef struct masks_tally {
    size_t documents, whole, masked; /* whole: all of it follows and may end; masked: and every
                                        token of it was in the mask of its place */
} masks_tally;

/* Holds the documents of a file, one {"case": N, "document": TEXT} a line, against `cases`. For
 * each, a line goes to `out`: {"case", "taken": bytes that follow one another, "whole"}, and of
 * whole ones "masked". */
TT_MUST_CHECK tt_status masks_check(const char *path, const json_t *cases, const tt_tokenizer *tok,
                                    tt_lexicon *lexicon, FILE *out, masks_tally *tally,
                                    tt_error *err);

#endif
