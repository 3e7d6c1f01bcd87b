/* tokenizer_shelf.h: the tokenizers of several installs, opened when they are asked for, few kept.
 *
 * Owns:      open tokenizers, and how many may stay open unused.
 * Not here:  what is rendered (prompt_render.h).
 * Laws:      (1) one that is lent stays;  (2) of those that are not at most one is open, the one
 *            that was used last;  (3) an install has at most one.
 * Threads:   any. A caller may wait until another's has been opened, so none of them is the event
 *            loop's.
 */
#ifndef TT_SERVER_TOKENIZER_SHELF_H
#define TT_SERVER_TOKENIZER_SHELF_H

#include "base/status.h"

typedef struct tt_shelf tt_shelf;

TT_MUST_CHECK tt_status tt_shelf_create(tt_shelf **out, tt_error *err);
/* Nothing is lent any more. */
void tt_shelf_close(tt_shelf **s);

/* The tokenizer of the install in this directory; tt_shelf_give ends the loan. */
TT_MUST_CHECK tt_status tt_shelf_take(tt_shelf *s, const char *install, const tt_tokenizer **tok,
                                      tt_error *err);
/* NULL is fine. */
void tt_shelf_give(tt_shelf *s, const tt_tokenizer *tok);
/* Open ones, lent or not. */
size_t tt_shelf_open(tt_shelf *s);

#endif
