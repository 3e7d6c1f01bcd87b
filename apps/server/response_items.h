/* response_items.h: items of Responses to messages that a template takes.
 *
 * Owns:      section 13.2 of docs/http.md: kinds of items, the one form in which they are kept,
 *            thoughts and summaries as texts that clients carry.
 * Not here:  repairs (history.h), tools (response_tools.h), what is kept how long
 *            (response_store.h).
 * Laws:      (1) messages depend on the items in their one form alone, wherever these came from;
 *            (2) one item more at the end changes nothing before the last message;  (3) an item
 *            that is refused is named, and nothing of its text is.
 * Threads:   one.
 */
#ifndef TT_SERVER_RESPONSE_ITEMS_H
#define TT_SERVER_RESPONSE_ITEMS_H

#include <jansson.h>

#include "server/refusal.h"
#include "server/response_store.h"

typedef struct tt_item_reader {
    tt_response_store *store;
    tt_refusal *why;
    json_t *items;     /* in their one form */
    bool keep;         /* `kept` gets them as text */
    tt_item_list kept; /* to be freed with the store */
    uint64_t bytes;    /* of those of them that are new */
    bool hosted;       /* items of hosted tools were left out */
} tt_item_reader;

bool tt_item_reader_init(tt_item_reader *r, tt_response_store *store, bool keep, tt_refusal *why);
void tt_item_reader_free(tt_item_reader *r);
/* What the response of that id read and answered. */
bool tt_item_reader_previous(tt_item_reader *r, const char *id);
/* A text or an array of items; NULL is nothing. */
bool tt_item_reader_input(tt_item_reader *r, const json_t *input);

/* Chat messages that history.h takes without refusing one. `instructions` may be NULL. NULL: no
 * memory. *dropped counts messages of the assistant with neither text nor calls. */
json_t *tt_items_to_messages(const json_t *items, const json_t *instructions, uint32_t *dropped);

/* The name that the model knows a tool by; `space` may be NULL. */
bool tt_tool_name_write(tt_buf *out, const char *space, const char *name);

typedef enum tt_carried { TT_CARRIED_THOUGHT, TT_CARRIED_SUMMARY } tt_carried;
/* A text in a form that clients carry without reading it. */
void tt_carried_write(tt_buf *out, tt_carried kind, const char *text, size_t len);
/* A JSON text; NULL when it is none of ours. */
json_t *tt_carried_read(const json_t *carried, tt_carried kind);

#endif
