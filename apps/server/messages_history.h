/* messages_history.h: system text and messages of Anthropic's interface in the form of Chat
 * Completions.
 *
 * Owns:      the table of section 14.2 of docs/http.md: roles, blocks, turns.
 * Not here:  repairs of what comes out (history.h); the other fields (messages_request.c).
 * Laws:      (1) what becomes of a message depends on it and its neighbours of the same role alone,
 *            so that the next turn renders the same beginning;  (2) a block that is refused is
 *            named, and nothing of its text is;  (3) the input is not changed.
 * Threads:   any.
 */
#ifndef TT_SERVER_MESSAGES_HISTORY_H
#define TT_SERVER_MESSAGES_HISTORY_H

#include "server/request_fields.h"

/* A new array (json_decref). `system` may be NULL. What was left out or put in other words stands
 * in f->repaired and f->ignored. False with f->why. */
bool tt_messages_history(tt_fields *f, const json_t *system, const json_t *messages, json_t **out);

#endif
