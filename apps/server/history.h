/* history.h: messages of a request to messages that a template takes.
 *
 * Owns:      section 5.2 and 5.3 of docs/http.md: roles, parts, repairs.
 * Not here:  the other fields of a request (chat_request.h), rendering.
 * Laws:      (1) a repair depends on the history up to it and the results after it alone, so that
 *            the next turn renders the same beginning;  (2) a message that is refused is named, and
 *            nothing of its text is;  (3) the input is not changed.
 * Threads:   any.
 */
#ifndef TT_SERVER_HISTORY_H
#define TT_SERVER_HISTORY_H

#include <jansson.h>

#include "base/buf.h"
#include "server/refusal.h"

typedef struct tt_repairs {
    uint32_t merged_systems, moved_systems, dropped_lines, made_ids, wrapped_arguments,
        added_results, dropped_messages;
} tt_repairs;

/* A new array (json_decref). False with `why`. */
bool tt_history_repair(const json_t *messages, json_t **out, tt_repairs *repairs, tt_refusal *why);
/* "merged_systems=1 made_ids=2" */
void tt_repairs_write(const tt_repairs *r, tt_buf *out);

#endif
