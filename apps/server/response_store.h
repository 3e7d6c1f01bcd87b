/* response_store.h: responses that were answered, kept for those that continue them.
 *
 * Owns:      section 13.6 of docs/http.md: the newest responses, their items, what they weigh.
 * Not here:  what an item means (response_items.h), the paths that show them (response_pages.c).
 * Laws:      (1) never more than the two bounds, what is forgotten and still read included;  (2)
 *            the oldest is forgotten first;  (3) an item that several responses read is kept once;
 *            (4) text that is handed out stays until it is given back.
 * Threads:   any.
 */
#ifndef TT_SERVER_RESPONSE_STORE_H
#define TT_SERVER_RESPONSE_STORE_H

#include "base/buf.h"
#include "server/server_limits.h"

#define TT_ITEM_ID 64u /* with its NUL; ids of clients that are longer are replaced */

/* Not changed once it is made. The counts are the store's. */
typedef struct tt_stored_item {
    uint32_t refs, kept;         /* by whom it is held; by how many responses of these */
    uint64_t weight;             /* in the sum of the store, or 0 */
    struct tt_stored_item *same; /* the next in its bucket */
    char id[TT_ITEM_ID];
    size_t len;
    char text[]; /* JSON */
} tt_stored_item;

typedef struct tt_item_list {
    tt_stored_item **items;
    size_t n, cap;
} tt_item_list;

typedef struct tt_stored_response {
    struct tt_stored_response *next; /* the next newer one */
    uint32_t refs;
    uint64_t weight;
    char id[TT_ITEM_ID];
    const char *head, *tail; /* its JSON around the items of its output */
    size_t head_len, tail_len;
    size_t n_input, n_items; /* items read, and with those answered */
    tt_stored_item **items;
} tt_stored_response;

typedef struct tt_response_store tt_response_store;

/* NULL: no memory. */
tt_response_store *tt_response_store_create(uint32_t most, uint64_t most_bytes);
/* Everything that was handed out must have been given back. */
void tt_response_store_close(tt_response_store **s);

/* An item of one holder; NULL: no memory. */
tt_stored_item *tt_stored_item_new(const char *id, const char *text, size_t len);
/* Takes over the caller's hold, also when it fails for want of memory. `item` may be NULL, which
 * fails. */
bool tt_item_list_add(tt_response_store *s, tt_item_list *list, tt_stored_item *item);
void tt_item_list_free(tt_response_store *s, tt_item_list *list);

/* The newest item of that id in a response that is kept, held for the caller; or NULL. */
tt_stored_item *tt_response_store_item(tt_response_store *s, const char *id);
/* Once more, or no longer. */
void tt_response_store_hold_item(tt_response_store *s, tt_stored_item *item);
void tt_response_store_drop_item(tt_response_store *s, tt_stored_item *item);

/* Held for the caller; or NULL. */
const tt_stored_response *tt_response_store_get(tt_response_store *s, const char *id);
void tt_response_store_release(tt_response_store *s, const tt_stored_response *r);

/* Keeps a response and holds its items once more. False: it weighs more than may be kept, or there
 * is no memory. */
bool tt_response_store_put(tt_response_store *s, const char *id, const tt_buf *head,
                           const tt_buf *tail, const tt_item_list *input,
                           const tt_item_list *output);
bool tt_response_store_delete(tt_response_store *s, const char *id);

typedef struct tt_response_store_view {
    uint32_t responses;
    uint64_t bytes;
} tt_response_store_view;
void tt_response_store_look(tt_response_store *s, tt_response_store_view *view);

#endif
