#include "server/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS  4096u
#define OVERHEAD 16u /* of an allocation */

struct tt_response_store {
    pthread_mutex_t lock;
    uint32_t most, n;
    uint64_t most_bytes, bytes;
    tt_stored_response *oldest, **last;
    tt_stored_item *buckets[BUCKETS]; /* items that a kept response has, by id, newest first */
};

tt_response_store *tt_response_store_create(uint32_t most, uint64_t most_bytes)
{
    tt_response_store *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->most = most;
    s->most_bytes = most_bytes;
    s->last = &s->oldest;
    return s;
}

/* ---- items, under the lock ---- */

static tt_stored_item **bucket_of(tt_response_store *s, const char *id)
{
    uint32_t h = 2166136261u;
    for (; *id != '\0'; id++)
        h = (h ^ (unsigned char)*id) * 16777619u;
    return &s->buckets[h % BUCKETS];
}

static uint64_t item_weight(const tt_stored_item *item)
{
    return sizeof *item + item->len + 1 + OVERHEAD;
}

static void hold(tt_stored_item *item)
{
    item->refs++;
}

static void drop(tt_response_store *s, tt_stored_item *item)
{
    if (--item->refs > 0)
        return;
    s->bytes -= item->weight;
    free(item);
}

static void keep(tt_response_store *s, tt_stored_item *item)
{
    hold(item);
    if (item->kept++ > 0)
        return;
    tt_stored_item **bucket = bucket_of(s, item->id);
    item->same = *bucket;
    *bucket = item;
    if (item->weight == 0) {
        item->weight = item_weight(item);
        s->bytes += item->weight;
    }
}

/* The hold stays. */
static void unkeep(tt_response_store *s, tt_stored_item *item)
{
    if (--item->kept == 0) {
        tt_stored_item **at = bucket_of(s, item->id);
        while (*at != item)
            at = &(*at)->same;
        *at = item->same;
    }
}

/* ---- items ---- */

tt_stored_item *tt_stored_item_new(const char *id, const char *text, size_t len)
{
    tt_stored_item *item = malloc(sizeof *item + len + 1);
    if (item == NULL)
        return NULL;
    *item = (tt_stored_item){.refs = 1, .len = len};
    size_t n = strlen(id);
    memcpy(item->id, id, n < TT_ITEM_ID ? n : TT_ITEM_ID - 1);
    memcpy(item->text, text, len);
    item->text[len] = '\0';
    return item;
}

bool tt_item_list_add(tt_response_store *s, tt_item_list *list, tt_stored_item *item)
{
    if (item == NULL)
        return false;
    if (list->n == list->cap) {
        size_t cap = list->cap > 0 ? 2 * list->cap : 16;
        tt_stored_item **more = realloc(list->items, cap * sizeof *more);
        if (more == NULL) {
            tt_response_store_drop_item(s, item);
            return false;
        }
        list->items = more;
        list->cap = cap;
    }
    list->items[list->n++] = item;
    return true;
}

void tt_item_list_free(tt_response_store *s, tt_item_list *list)
{
    if (list->n > 0) {
        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < list->n; i++)
            drop(s, list->items[i]);
        pthread_mutex_unlock(&s->lock);
    }
    free(list->items);
    *list = (tt_item_list){0};
}

tt_stored_item *tt_response_store_item(tt_response_store *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    tt_stored_item *item = *bucket_of(s, id);
    while (item != NULL && strcmp(item->id, id) != 0)
        item = item->same;
    if (item != NULL)
        hold(item);
    pthread_mutex_unlock(&s->lock);
    return item;
}

void tt_response_store_hold_item(tt_response_store *s, tt_stored_item *item)
{
    pthread_mutex_lock(&s->lock);
    hold(item);
    pthread_mutex_unlock(&s->lock);
}

void tt_response_store_drop_item(tt_response_store *s, tt_stored_item *item)
{
    if (item == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    drop(s, item);
    pthread_mutex_unlock(&s->lock);
}

/* ---- responses, under the lock ---- */

static tt_stored_response **place_of(tt_response_store *s, const char *id)
{
    tt_stored_response **at = &s->oldest;
    while (*at != NULL && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

static void release(tt_response_store *s, tt_stored_response *r)
{
    if (--r->refs > 0)
        return;
    for (size_t i = 0; i < r->n_items; i++)
        drop(s, r->items[i]);
    s->bytes -= r->weight;
    free(r);
}

static void forget(tt_response_store *s, tt_stored_response **at)
{
    tt_stored_response *r = *at;
    *at = r->next;
    if (*at == NULL)
        s->last = at;
    s->n--;
    /* One that is read just now still holds its items, but nobody finds them any more. */
    for (size_t i = 0; i < r->n_items; i++)
        unkeep(s, r->items[i]);
    release(s, r);
}

/* All that it needs, and what of that the sum does not have yet. */
static void weigh(const tt_stored_response *r, uint64_t *all, uint64_t *added)
{
    *all = *added = r->weight;
    for (size_t i = 0; i < r->n_items; i++) {
        uint64_t weight = item_weight(r->items[i]);
        *all += weight;
        *added += r->items[i]->weight == 0 ? weight : 0;
    }
}

/* ---- responses ---- */

const tt_stored_response *tt_response_store_get(tt_response_store *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    tt_stored_response *r = *place_of(s, id);
    if (r != NULL)
        r->refs++;
    pthread_mutex_unlock(&s->lock);
    return r;
}

void tt_response_store_release(tt_response_store *s, const tt_stored_response *r)
{
    if (r == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    release(s, (tt_stored_response *)r);
    pthread_mutex_unlock(&s->lock);
}

/* One allocation: the record, its list, its text. */
static tt_stored_response *new_response(const char *id, const tt_buf *head, const tt_buf *tail,
                                        const tt_item_list *input, const tt_item_list *output)
{
    size_t n = input->n + output->n, list = n * sizeof(tt_stored_item *);
    size_t size = sizeof(tt_stored_response) + list + head->len + tail->len;
    tt_stored_response *r = malloc(size);
    if (r == NULL)
        return NULL;
    *r = (tt_stored_response){.refs = 1,
                              .weight = size + OVERHEAD,
                              .head_len = head->len,
                              .tail_len = tail->len,
                              .n_input = input->n,
                              .n_items = n,
                              .items = (tt_stored_item **)(r + 1)};
    size_t k = strlen(id);
    memcpy(r->id, id, k < TT_ITEM_ID ? k : TT_ITEM_ID - 1);
    if (input->n > 0)
        memcpy(r->items, input->items, input->n * sizeof *r->items);
    if (output->n > 0)
        memcpy(r->items + input->n, output->items, output->n * sizeof *r->items);
    char *text = (char *)(r->items + n);
    memcpy(text, head->data, head->len);
    memcpy(text + head->len, tail->data, tail->len);
    r->head = text;
    r->tail = text + head->len;
    return r;
}

bool tt_response_store_put(tt_response_store *s, const char *id, const tt_buf *head,
                           const tt_buf *tail, const tt_item_list *input,
                           const tt_item_list *output)
{
    tt_stored_response *r = new_response(id, head, tail, input, output);
    if (r == NULL)
        return false;
    pthread_mutex_lock(&s->lock);
    uint64_t all, added;
    weigh(r, &all, &added);
    /* To forget others changes nothing of `added`: the caller holds what this one reads. */
    bool fits = all <= s->most_bytes;
    while (fits && s->oldest != NULL && (s->n >= s->most || s->bytes + added > s->most_bytes))
        forget(s, &s->oldest);
    fits = fits && s->n < s->most && s->bytes + added <= s->most_bytes;
    if (fits) {
        for (size_t i = 0; i < r->n_items; i++)
            keep(s, r->items[i]);
        s->bytes += r->weight;
        r->next = NULL;
        *s->last = r;
        s->last = &r->next;
        s->n++;
    }
    pthread_mutex_unlock(&s->lock);
    if (!fits)
        free(r);
    return fits;
}

bool tt_response_store_delete(tt_response_store *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    tt_stored_response **at = place_of(s, id);
    bool found = *at != NULL;
    if (found)
        forget(s, at);
    pthread_mutex_unlock(&s->lock);
    return found;
}

void tt_response_store_look(tt_response_store *s, tt_response_store_view *view)
{
    pthread_mutex_lock(&s->lock);
    *view = (tt_response_store_view){.responses = s->n, .bytes = s->bytes};
    pthread_mutex_unlock(&s->lock);
}

void tt_response_store_close(tt_response_store **p)
{
    tt_response_store *s = p != NULL ? *p : NULL;
    if (s == NULL)
        return;
    while (s->oldest != NULL)
        forget(s, &s->oldest);
    pthread_mutex_destroy(&s->lock);
    free(s);
    *p = NULL;
}
