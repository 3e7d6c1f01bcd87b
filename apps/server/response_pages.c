/* The paths of stored responses: what needs no work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/server_int.h"

#define MOST_LIST    100u
#define USUAL_LIST   20u
#define MOST_VALUE   128u
#define MOST_AROUND  4096u
#define NOT_FOUND    "response_not_found"
#define NOT_FOUND_IS "there is no such response here, or it was forgotten"

/* ---- text that the store keeps ---- */

/* Text that goes out without a copy stays until all of it is gone. */
typedef struct loan {
    tt_response_store *store;
    const tt_stored_response *r;
    size_t n;
} loan;

static void give_back(const void *text, size_t len, void *ctx)
{
    loan *l = ctx;
    (void)text;
    (void)len;
    if (--l->n > 0)
        return;
    tt_response_store_release(l->store, l->r);
    free(l);
}

static void lend(tt_conn *c, loan *l, const char *text, size_t len)
{
    l->n++;
    if (evbuffer_add_reference(c->out, text, len, give_back, l) != 0)
        l->n--; /* ours is left */
}

/* ---- answers ---- */

static void refuse(tt_conn *c, int status, const char *code, const char *param, const char *text)
{
    tt_answer_refusal(c, status, code, param, text);
    tt_answer_log(c->server, c, NULL, NULL, status, code);
}

/* `before`, items with commas between, `after`; `l` has the response that they are of. */
static void answer_items(tt_conn *c, loan *l, const char *before, size_t before_len,
                         tt_stored_item *const *items, size_t n, bool backwards, const char *after,
                         size_t after_len)
{
    size_t len = before_len + after_len + (n > 0 ? n - 1 : 0);
    for (size_t i = 0; i < n; i++)
        len += items[i]->len;
    l->n = 1; /* ours, to the end of this */
    if (tt_answer_json_head(c, len)) {
        evbuffer_add(c->out, before, before_len);
        for (size_t i = 0; i < n; i++) {
            const tt_stored_item *item = items[backwards ? n - 1 - i : i];
            if (i > 0)
                evbuffer_add(c->out, ",", 1);
            lend(c, l, item->text, item->len);
        }
        evbuffer_add(c->out, after, after_len);
    }
    give_back(NULL, 0, l);
    tt_answer_log(c->server, c, NULL, NULL, 200, NULL);
}

/* The response of the path, on loan; NULL: that there is none was answered. */
static loan *borrow(tt_conn *c)
{
    tt_response_store *store = c->server->responses;
    const tt_stored_response *r = tt_response_store_get(store, c->model);
    loan *l = r != NULL ? malloc(sizeof *l) : NULL;
    if (l != NULL) {
        *l = (loan){.store = store, .r = r};
        return l;
    }
    if (r == NULL)
        refuse(c, 404, NOT_FOUND, "response_id", NOT_FOUND_IS);
    else
        refuse(c, 503, "memory_full", NULL, "there is no memory for the answer");
    tt_response_store_release(store, r);
    return NULL;
}

/* ---- the query ---- */

/* The decoded value of a field of the query; false when it is missing. One that is too long is
 * cut to what no value of ours is. */
static bool query(const tt_conn *c, const char *name, char value[MOST_VALUE])
{
    const char *at = strchr(tt_http1_target(&c->http), '?');
    size_t k = strlen(name);
    while (at != NULL && *at != '\0') {
        at++;
        size_t n = strcspn(at, "&");
        if (n > k && strncmp(at, name, k) == 0 && at[k] == '=') {
            if (!tt_http1_decode(at + k + 1, n - k - 1, value, MOST_VALUE))
                strcpy(value, "?");
            return true;
        }
        at += n;
    }
    return false;
}

typedef struct page {
    bool ascending;
    size_t limit;
    char after[MOST_VALUE]; /* "" */
} page;

static bool read_page(tt_conn *c, page *p)
{
    char value[MOST_VALUE], *end;
    *p = (page){.limit = USUAL_LIST};
    if (query(c, "limit", value)) {
        p->limit = strtoul(value, &end, 10);
        if (end == value || *end != '\0' || p->limit < 1 || p->limit > MOST_LIST) {
            refuse(c, 400, "invalid_value", "limit", "limit must be a whole number from 1 to 100");
            return false;
        }
    }
    if (query(c, "order", value)) {
        p->ascending = strcmp(value, "asc") == 0;
        if (!p->ascending && strcmp(value, "desc") != 0) {
            refuse(c, 400, "invalid_value", "order", "order must be asc or desc");
            return false;
        }
    }
    if (!query(c, "after", p->after))
        p->after[0] = '\0';
    return true;
}

/* ---- the paths ---- */

static void get(tt_conn *c)
{
    char value[MOST_VALUE];
    if (query(c, "stream", value) && strcmp(value, "false") != 0) {
        refuse(c, 400, "unsupported_value", "stream", "what is stored is not streamed again");
        return;
    }
    loan *l = borrow(c);
    if (l == NULL)
        return;
    const tt_stored_response *r = l->r;
    answer_items(c, l, r->head, r->head_len, r->items + r->n_input, r->n_items - r->n_input, false,
                 r->tail, r->tail_len);
}

/* Items [*from, *from + *n) are the page. False: there is no item `after`. */
static bool find_page(const tt_stored_response *r, const page *p, size_t *from, size_t *n,
                      bool *more)
{
    size_t low = 0, high = r->n_input, at = 0;
    if (p->after[0] != '\0') {
        while (at < r->n_input && strcmp(r->items[at]->id, p->after) != 0)
            at++;
        if (at == r->n_input)
            return false;
        low = p->ascending ? at + 1 : 0;
        high = p->ascending ? r->n_input : at;
    }
    *more = high - low > p->limit;
    *n = *more ? p->limit : high - low;
    *from = p->ascending ? low : high - *n;
    return true;
}

static void list(tt_conn *c)
{
    static const char before[] = "{\"object\":\"list\",\"data\":[";
    size_t from = 0, n = 0;
    bool more = false;
    page p;
    tt_buf after;
    if (!read_page(c, &p))
        return;
    loan *l = borrow(c);
    if (l == NULL)
        return;
    tt_stored_item *const *items = l->r->items;
    if (!find_page(l->r, &p, &from, &n, &more)) {
        l->n = 1;
        give_back(NULL, 0, l);
        refuse(c, 400, "invalid_value", "after", "after must be the id of an item of the response");
        return;
    }
    const char *low = n > 0 ? items[from]->id : "", *high = n > 0 ? items[from + n - 1]->id : "";
    tt_buf_init(&after, MOST_AROUND);
    tt_buf_puts(&after, "],\"first_id\":");
    tt_reply_write_text(&after, p.ascending ? low : high, strlen(p.ascending ? low : high));
    tt_buf_puts(&after, ",\"last_id\":");
    tt_reply_write_text(&after, p.ascending ? high : low, strlen(p.ascending ? high : low));
    tt_buf_printf(&after, ",\"has_more\":%s}", more ? "true" : "false");
    answer_items(c, l, before, sizeof before - 1, items + from, n, !p.ascending, after.data,
                 after.len);
    tt_buf_free(&after);
}

static void delete (tt_conn *c)
{
    tt_buf b;
    if (!tt_response_store_delete(c->server->responses, c->model)) {
        refuse(c, 404, NOT_FOUND, "response_id", NOT_FOUND_IS);
        return;
    }
    tt_buf_init(&b, MOST_AROUND);
    tt_buf_puts(&b, "{\"id\":");
    tt_reply_write_text(&b, c->model, strlen(c->model));
    tt_buf_puts(&b, ",\"object\":\"response\",\"deleted\":true}");
    tt_answer_text(c, 200, NULL, b.data, b.len);
    tt_answer_log(c->server, c, NULL, NULL, 200, NULL);
    tt_buf_free(&b);
}

static void cancel(tt_conn *c)
{
    const tt_stored_response *r = tt_response_store_get(c->server->responses, c->model);
    if (r == NULL)
        refuse(c, 404, NOT_FOUND, "response_id", NOT_FOUND_IS);
    else
        refuse(c, 400, "unsupported_value", "response_id",
               "nothing runs in the background here: to leave the connection cancels a response");
    tt_response_store_release(c->server->responses, r);
}

void tt_response_page(tt_conn *c)
{
    if (c->route == TT_ROUTE_RESPONSE_ITEMS)
        list(c);
    else if (c->route == TT_ROUTE_RESPONSE_CANCEL)
        cancel(c);
    else if (strcmp(tt_http1_method(&c->http), "DELETE") == 0)
        delete (c);
    else
        get(c);
}
