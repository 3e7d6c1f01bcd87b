#include "server/grammar_shelf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct tt_lent_grammar {
    tt_lent_grammar *next;
    tt_grammar_shelf *shelf;
    tt_grammar *grammar;
    char digest[TT_SHA256_HEX]; /* of what it was made from */
    size_t bytes;
    unsigned lent;
    uint64_t used;
};

struct tt_grammar_shelf {
    size_t most;
    pthread_mutex_t lock;
    /* guarded */
    tt_lent_grammar *items;
    size_t bytes;
    uint64_t clock;
};

tt_status tt_grammar_shelf_create(size_t most, tt_grammar_shelf **out, tt_error *err)
{
    tt_grammar_shelf *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for grammars");
    s->most = most;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return TT_OK;
}

static void free_item(tt_lent_grammar *g)
{
    tt_grammar_close(&g->grammar);
    free(g);
}

void tt_grammar_shelf_close(tt_grammar_shelf **p)
{
    tt_grammar_shelf *s = p != NULL ? *p : NULL;
    if (s == NULL)
        return;
    for (tt_lent_grammar *g = s->items, *next; g != NULL; g = next) {
        next = g->next;
        free_item(g);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
    *p = NULL;
}

/* ---- what a wish is ---- */

/* A text with its length in front, so that two lists of texts never look the same. */
static tt_status add_text(tt_sha256 *h, const char *text, tt_error *err)
{
    uint64_t n = text != NULL ? strlen(text) : UINT64_MAX;
    TT_TRY(tt_sha256_update(h, &n, sizeof n, err));
    return text != NULL ? tt_sha256_update(h, text, n, err) : TT_OK;
}

static tt_status add_wish(tt_sha256 *h, const tt_grammar_wish *w, tt_error *err)
{
    const tt_tool_choice *c = &w->choice;
    const uint64_t numbers[] = {(uint64_t)c->mode, c->one_call, c->names != NULL, c->n_names};
    TT_TRY(tt_sha256_update(h, numbers, sizeof numbers, err));
    TT_TRY(add_text(h, w->schema, err));
    TT_TRY(add_text(h, w->tools, err));
    TT_TRY(add_text(h, c->document, err));
    for (size_t i = 0; i < c->n_names; i++)
        TT_TRY(add_text(h, c->names[i], err));
    return TT_OK;
}

static tt_status digest_of(const tt_grammar_wish *w, char digest[TT_SHA256_HEX], tt_error *err)
{
    tt_sha256 *h = NULL;
    TT_TRY(tt_sha256_create(&h, err));
    tt_status st = add_wish(h, w, err);
    if (st == TT_OK)
        st = tt_sha256_finish(h, digest, err);
    tt_sha256_close(&h);
    return st;
}

/* ---- what is there ---- */

/* Under the lock. */
static tt_lent_grammar *lend(tt_grammar_shelf *s, const char *digest)
{
    for (tt_lent_grammar *g = s->items; g != NULL; g = g->next)
        if (strcmp(g->digest, digest) == 0) {
            g->lent++;
            g->used = ++s->clock;
            return g;
        }
    return NULL;
}

/* Under the lock. Whether one could be forgotten: the one that was not used for longest. */
static bool forget_one(tt_grammar_shelf *s)
{
    tt_lent_grammar **oldest = NULL;
    for (tt_lent_grammar **at = &s->items; *at != NULL; at = &(*at)->next)
        if ((*at)->lent == 0 && (oldest == NULL || (*at)->used < (*oldest)->used))
            oldest = at;
    if (oldest == NULL)
        return false;
    tt_lent_grammar *g = *oldest;
    *oldest = g->next;
    s->bytes -= g->bytes;
    free_item(g);
    return true;
}

static tt_status compile(const tt_grammar_wish *w, tt_lent_grammar *g, tt_error *err)
{
    tt_grammar_info info;
    TT_TRY(w->schema != NULL
               ? tt_grammar_from_schema(w->schema, strlen(w->schema), &g->grammar, err)
               : tt_grammar_from_tools(w->tools, &w->choice, &g->grammar, err));
    tt_grammar_get_info(g->grammar, &info);
    g->bytes = sizeof *g + info.bytes + strlen(tt_grammar_relaxed(g->grammar));
    return TT_OK;
}

/* Takes g over. */
static tt_status add(tt_grammar_shelf *s, tt_lent_grammar *g, tt_lent_grammar **out, tt_error *err)
{
    tt_status st = TT_OK;
    pthread_mutex_lock(&s->lock);
    tt_lent_grammar *twin = lend(s, g->digest); /* somebody else was faster */
    while (twin == NULL && s->bytes + g->bytes > s->most && forget_one(s))
        continue;
    if (twin == NULL && s->bytes + g->bytes > s->most) {
        st = tt_fail(err, TT_ERR_BUDGET, "the memory for grammars is full at this moment");
    } else if (twin == NULL) {
        s->bytes += g->bytes;
        g->next = s->items;
        s->items = g;
        twin = lend(s, g->digest);
        g = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (g != NULL)
        free_item(g);
    if (st == TT_OK)
        *out = twin;
    return st;
}

tt_status tt_grammar_shelf_take(tt_grammar_shelf *s, const tt_grammar_wish *wish,
                                tt_lent_grammar **out, tt_error *err)
{
    char digest[TT_SHA256_HEX];
    TT_TRY(digest_of(wish, digest, err));
    pthread_mutex_lock(&s->lock);
    tt_lent_grammar *g = lend(s, digest);
    pthread_mutex_unlock(&s->lock);
    if (g != NULL) {
        *out = g;
        return TT_OK;
    }
    g = calloc(1, sizeof *g);
    if (g == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
    g->shelf = s;
    memcpy(g->digest, digest, sizeof digest);
    tt_status st = compile(wish, g, err);
    if (st == TT_OK)
        return add(s, g, out, err);
    free_item(g);
    return st;
}

const tt_grammar *tt_lent_grammar_get(const tt_lent_grammar *g)
{
    return g->grammar;
}

void tt_grammar_shelf_give(tt_lent_grammar **p)
{
    tt_lent_grammar *g = *p;
    if (g == NULL)
        return;
    tt_grammar_shelf *s = g->shelf;
    pthread_mutex_lock(&s->lock);
    g->lent--;
    pthread_mutex_unlock(&s->lock);
    *p = NULL;
}

size_t tt_grammar_shelf_bytes(tt_grammar_shelf *s)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->bytes;
    pthread_mutex_unlock(&s->lock);
    return n;
}
