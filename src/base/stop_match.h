/* stop_match.h: finds stop strings in text that comes in pieces, and holds back what may begin one.
 *
 * Owns:      the text not yet handed out.
 * Not here:  end tokens; printing.
 * Laws:      (1) nothing of a stop string is ever handed out;  (2) everything else is, as soon as
 * it cannot be the beginning of one;  (3) when several match, the one that begins first wins.
 * Threads:   one.
 */
#ifndef TT_BASE_STOP_MATCH_H
#define TT_BASE_STOP_MATCH_H

#include "base/buf.h"

typedef struct tt_stop_match {
    const char *const *strings; /* borrowed, none empty */
    size_t n;
    tt_buf text; /* [sent, len) is held back */
    size_t sent;
} tt_stop_match;

void tt_stop_match_init(tt_stop_match *m, const char *const *strings, size_t n);
void tt_stop_match_free(tt_stop_match *m);
/* Takes a piece of text. `ready` is what can be handed out, valid until the next call. After
 * *matched nothing more may be pushed. */
TT_MUST_CHECK tt_status tt_stop_match_push(tt_stop_match *m, const char *text, size_t len,
                                           const char **ready, size_t *n_ready, bool *matched,
                                           tt_error *err);
/* After *matched, until the next call: which of the strings it was; of several that begin at the
 * same place the shortest, which is the first to be complete. */
size_t tt_stop_match_found(const tt_stop_match *m);
/* What was held back, once no more text comes and nothing matched. */
void tt_stop_match_flush(tt_stop_match *m, const char **ready, size_t *n_ready);

#endif
