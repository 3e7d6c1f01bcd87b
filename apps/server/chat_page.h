/* chat_page.h: the page that a browser gets at `/`, compiled in.
 *
 * Owns:      its bytes (chat_page.html), and the policy that lets a browser run its own script and
 *            style and nothing else.
 * Not here:  answering (pages.c).
 * Laws:      the policy follows from the bytes: another script would not run.
 * Threads:   any.
 */
#ifndef TT_SERVER_CHAT_PAGE_H
#define TT_SERVER_CHAT_PAGE_H

#include "base/status.h"

#define TT_CHAT_PAGE_FIELDS 1024u

const char *tt_chat_page(size_t *len);
/* Header fields of the answer, each with its line end: Content-Security-Policy, Referrer-Policy,
 * X-Frame-Options. */
TT_MUST_CHECK tt_status tt_chat_page_fields(char out[TT_CHAT_PAGE_FIELDS], tt_error *err);

#endif
