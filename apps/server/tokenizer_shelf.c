#include "server/tokenizer_shelf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct item {
    struct item *next;
    char *install;
    tt_tokenizer *tok;
    unsigned lent;
} item;

struct tt_shelf {
    pthread_mutex_t lock;
    item *items; /* the one that was used last first */
};

tt_status tt_shelf_create(tt_shelf **out, tt_error *err)
{
    tt_shelf *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for tokenizers");
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return TT_OK;
}

static void free_item(item *it)
{
    tt_tokenizer_close(&it->tok);
    free(it->install);
    free(it);
}

void tt_shelf_close(tt_shelf **p)
{
    tt_shelf *s = p != NULL ? *p : NULL;
    if (s == NULL)
        return;
    for (item *it = s->items, *next; it != NULL; it = next) {
        next = it->next;
        free_item(it);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
    *p = NULL;
}

/* Under the lock. Closes what nobody uses, but for the first `kept` of those. */
static void tidy(tt_shelf *s, unsigned kept)
{
    for (item **at = &s->items; *at != NULL;) {
        item *it = *at;
        if (it->lent > 0 || kept > 0) {
            kept -= it->lent == 0;
            at = &it->next;
            continue;
        }
        *at = it->next;
        free_item(it);
    }
}

static void to_front(tt_shelf *s, item *it)
{
    item **at = &s->items;
    while (*at != NULL && *at != it)
        at = &(*at)->next;
    if (*at == it)
        *at = it->next;
    it->next = s->items;
    s->items = it;
}

/* Under the lock. */
static tt_status open_item(tt_shelf *s, const char *install, item **out, tt_error *err)
{
    item *it = calloc(1, sizeof *it);
    if (it != NULL)
        it->install = strdup(install);
    if (it == NULL || it->install == NULL) {
        free(it);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a tokenizer");
    }
    tidy(s, 0);
    tt_status st = tt_tokenizer_open(install, &it->tok, err);
    if (st == TT_OK)
        st = tt_chat_check_template(it->tok, err);
    if (st != TT_OK) {
        free_item(it);
        return st;
    }
    *out = it;
    return TT_OK;
}

tt_status tt_shelf_take(tt_shelf *s, const char *install, const tt_tokenizer **tok, tt_error *err)
{
    tt_status st = TT_OK;
    pthread_mutex_lock(&s->lock);
    item *it = s->items;
    while (it != NULL && strcmp(it->install, install) != 0)
        it = it->next;
    if (it == NULL)
        st = open_item(s, install, &it, err);
    if (st == TT_OK) {
        it->lent++;
        to_front(s, it);
        *tok = it->tok;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

void tt_shelf_give(tt_shelf *s, const tt_tokenizer *tok)
{
    if (tok == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    for (item *it = s->items; it != NULL; it = it->next)
        if (it->tok == tok)
            it->lent--;
    tidy(s, 1);
    pthread_mutex_unlock(&s->lock);
}

size_t tt_shelf_open(tt_shelf *s)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (const item *it = s->items; it != NULL; it = it->next)
        n++;
    pthread_mutex_unlock(&s->lock);
    return n;
}
