#include "grammar/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/automaton.h"

typedef struct token {
    const uint8_t *bytes;
    uint32_t len, id;
} token;

static int by_bytes(const void *x, const void *y)
{
    const token *a = x, *b = y;
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->bytes, b->bytes, n);
    return c != 0 ? c : a->len < b->len ? -1 : a->len > b->len;
}

/* Bytes of the character at p, or 0 when there is no whole valid one. */
static uint32_t char_len(const uint8_t *p, uint32_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t k = p[0] < 0x80                    ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0  ? 2
                 : p[0] >= 0xe0 && p[0] < 0xf0  ? 3
                 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                : 0;
    if (k == 0 || k > n)
        return 0;
    uint32_t c = k == 1 ? p[0] : p[0] & (0xffu >> (k + 1));
    for (uint32_t i = 1; i < k; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    return c < least[k] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? 0 : k;
}

/* Characters of a plain token, 0 when it is none. */
static uint32_t plain_chars(const token *t)
{
    uint32_t chars = 0;
    for (uint32_t i = 0; i < t->len; chars++) {
        uint32_t k = char_len(t->bytes + i, t->len - i);
        if (k == 0 || !tt_char_plain(t->bytes + i, k))
            return 0;
        i += k;
    }
    return chars;
}

/* ---- tries ---- */

static uint32_t common(const token *a, const token *b)
{
    uint32_t n = a->len < b->len ? a->len : b->len, i = 0;
    while (i < n && a->bytes[i] == b->bytes[i])
        i++;
    return i;
}

/* Notes a token in the nodes of its bytes. */
static void note(tt_lex_trie *x, const uint32_t *open, const token *t)
{
    uint32_t longest = 0;
    uint8_t classes = 0;
    for (uint32_t i = t->len; i-- > 0;) {
        tt_lex_node *node = &x->nodes[open[i]];
        bool inside = i + 1 < t->len && (t->bytes[i + 1] & 0xc0) == 0x80;
        node->longest = longest > node->longest ? (uint8_t)longest : node->longest;
        node->classes |= classes | (inside ? TT_CHARS_INSIDE : 0);
        if ((t->bytes[i] & 0xc0) == 0x80)
            continue;
        longest = longest + 1 < TT_LEXICON_MANY ? longest + 1 : TT_LEXICON_MANY;
        classes |= tt_char_class(t->bytes[i]);
    }
}

/* What is not plain, or has nothing below it, is never taken as a whole. */
static void set_apart(tt_lex_trie *x, bool plain)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (!plain || x->nodes[i].skip == i + 1) {
            x->nodes[i].longest = TT_LEXICON_MANY;
            x->nodes[i].classes = TT_CHARS_OTHER;
        }
}

/* Tokens are sorted: each adds the nodes that it does not share with the one before it. */
static bool build_trie(tt_lex_trie *x, const token *t, uint32_t n, bool plain)
{
    uint32_t total = 0, open[TT_LEXICON_LONGEST], depth = 0;
    for (uint32_t i = 0; i < n; i++)
        total += t[i].len - (i == 0 ? 0 : common(&t[i - 1], &t[i]));
    x->nodes = calloc(total + 1, sizeof *x->nodes);
    x->ids = calloc(n + 1, sizeof *x->ids);
    if (x->nodes == NULL || x->ids == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t shared = i == 0 ? 0 : common(&t[i - 1], &t[i]);
        while (depth > shared)
            x->nodes[open[--depth]].skip = x->n;
        while (depth < t[i].len) {
            open[depth] = x->n;
            x->nodes[x->n++] = (tt_lex_node){
                .rank = x->n_ids, .depth = (uint8_t)(depth + 1), .byte = t[i].bytes[depth]};
            depth++;
        }
        note(x, open, &t[i]);
        x->ids[x->n_ids++] = t[i].id;
    }
    while (depth > 0)
        x->nodes[open[--depth]].skip = x->n;
    x->nodes[x->n] = (tt_lex_node){.skip = x->n, .rank = x->n_ids};
    set_apart(x, plain);
    return true;
}

/* ---- making ---- */

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tokens of a grammar");
}

/* Tokens that may follow by their bytes: plain ones in front, then the others. */
static uint32_t gather(tt_lexicon *x, token *t, uint32_t *n_plain)
{
    uint32_t n = 0, vocab = tt_tokenizer_vocab_size(x->tok);
    *n_plain = 0;
    for (uint32_t id = 0; id < vocab && id < x->vocab; id++) {
        size_t len = 0;
        bool special = false;
        const char *bytes = tt_tokenizer_piece(x->tok, id, &len, &special);
        if (bytes == NULL || special || len == 0 || len >= TT_LEXICON_LONGEST ||
            memchr(bytes, 0xff, len) != NULL)
            continue;
        token one = {(const uint8_t *)bytes, (uint32_t)len, id};
        uint32_t chars = plain_chars(&one);
        x->deepest = one.len > x->deepest ? one.len : x->deepest;
        if (chars > 0) {
            x->longest = chars > x->longest ? chars : x->longest;
            t[n++] = t[*n_plain];
            t[(*n_plain)++] = one;
        } else {
            t[n++] = one;
        }
    }
    return n;
}

static int by_chars(const void *x, const void *y)
{
    const tt_lex_long *a = x, *b = y;
    return a->chars != b->chars ? (a->chars < b->chars ? -1 : 1) : a->id < b->id ? -1 : 1;
}

static bool fill_sets(tt_lexicon *x, const token *t, uint32_t n)
{
    for (uint32_t k = 0; k <= TT_LEXICON_LENGTHS; k++) {
        x->short_plain[k] = calloc(x->words, sizeof **x->short_plain);
        if (x->short_plain[k] == NULL)
            return false;
    }
    x->long_plain = malloc((n + 1) * sizeof *x->long_plain);
    if (x->long_plain == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t chars = plain_chars(&t[i]);
        tt_mask_set(x->short_plain[0], t[i].id);
        for (uint32_t k = chars; k <= TT_LEXICON_LENGTHS; k++)
            tt_mask_set(x->short_plain[k], t[i].id);
        if (chars > TT_LEXICON_LENGTHS)
            x->long_plain[x->n_long++] = (tt_lex_long){chars, t[i].id};
    }
    qsort(x->long_plain, x->n_long, sizeof *x->long_plain, by_chars);
    tt_lex_long *p = realloc(x->long_plain, (x->n_long + 1) * sizeof *p);
    x->long_plain = p != NULL ? p : x->long_plain;
    return true;
}

static size_t trie_bytes(const tt_lex_trie *x)
{
    return (x->n + 1) * sizeof *x->nodes + (x->n_ids + 1) * sizeof *x->ids;
}

static bool make(tt_lexicon *x)
{
    size_t n_stops;
    const uint32_t *stops = tt_tokenizer_stop_ids(x->tok, &n_stops);
    token *t = malloc((x->vocab + 1) * sizeof *t);
    uint32_t n_plain = 0, n = t == NULL ? 0 : gather(x, t, &n_plain);
    bool ok = t != NULL;
    if (ok) {
        qsort(t, n_plain, sizeof *t, by_bytes);
        qsort(t + n_plain, n - n_plain, sizeof *t, by_bytes);
        ok = build_trie(&x->plain, t, n_plain, true) &&
             build_trie(&x->rest, t + n_plain, n - n_plain, false) && fill_sets(x, t, n_plain);
    }
    free(t);
    size_t mask = x->words * sizeof(uint64_t), entry = mask + TT_LEXICON_KEY * sizeof(uint32_t);
    x->cap_cache = (uint32_t)(TT_LEXICON_CACHE / entry);
    x->cache = calloc(x->cap_cache + 1, sizeof *x->cache);
    x->stops = malloc((n_stops + 1) * sizeof *x->stops);
    if (!ok || x->cache == NULL || x->stops == NULL)
        return false;
    for (size_t i = 0; i < n_stops; i++)
        if (stops[i] < x->vocab)
            x->stops[x->n_stops++] = stops[i];
    x->bytes = sizeof *x + trie_bytes(&x->plain) + trie_bytes(&x->rest) +
               (TT_LEXICON_LENGTHS + 1) * mask + (x->n_long + 1) * sizeof *x->long_plain +
               TT_LEXICON_CACHE;
    return true;
}

tt_status tt_lexicon_create(const tt_tokenizer *tok, uint32_t vocab, tt_lexicon **out,
                            tt_error *err)
{
    if (vocab < 1 || vocab > TT_MAX_VOCAB)
        return tt_fail(err, TT_ERR_INVALID, "vocabulary of %u ids, must be 1 to %u", vocab,
                       TT_MAX_VOCAB);
    tt_lexicon *x = calloc(1, sizeof *x);
    if (x == NULL)
        return no_memory(err);
    x->tok = tok;
    x->vocab = vocab;
    x->words = (vocab + 63) / 64;
    pthread_mutex_init(&x->lock, NULL);
    if (!make(x)) {
        tt_lexicon_close(&x);
        return no_memory(err);
    }
    *out = x;
    return TT_OK;
}

void tt_lexicon_close(tt_lexicon **xp)
{
    if (xp == NULL || *xp == NULL)
        return;
    tt_lexicon *x = *xp;
    for (uint32_t i = 0; i < x->n_cache; i++) {
        free(x->cache[i].key);
        free(x->cache[i].mask);
    }
    for (uint32_t k = 0; k <= TT_LEXICON_LENGTHS; k++)
        free(x->short_plain[k]);
    free(x->long_plain);
    free(x->cache);
    free(x->plain.nodes);
    free(x->plain.ids);
    free(x->rest.nodes);
    free(x->rest.ids);
    free(x->stops);
    pthread_mutex_destroy(&x->lock);
    free(x);
    *xp = NULL;
}

size_t tt_lexicon_bytes(const tt_lexicon *x)
{
    return x->bytes;
}

/* ---- the cache ---- */

static uint64_t hash_of(uint64_t grammar, const uint32_t *key, uint32_t n)
{
    uint64_t h = 14695981039346656037u ^ grammar;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ key[i]) * 1099511628211u;
    return h;
}

static tt_lex_entry *find(tt_lexicon *x, uint64_t grammar, uint64_t hash, const uint32_t *key,
                          uint32_t n)
{
    for (uint32_t i = 0; i < x->n_cache; i++) {
        tt_lex_entry *e = &x->cache[i];
        if (e->hash == hash && e->grammar == grammar && e->n_key == n &&
            memcmp(e->key, key, n * sizeof *key) == 0)
            return e;
    }
    return NULL;
}

bool tt_lexicon_recall(tt_lexicon *x, uint64_t grammar, const uint32_t *key, uint32_t n,
                       uint64_t *mask)
{
    uint64_t hash = hash_of(grammar, key, n);
    pthread_mutex_lock(&x->lock);
    tt_lex_entry *e = find(x, grammar, hash, key, n);
    if (e != NULL) {
        e->used = ++x->clock;
        memcpy(mask, e->mask, x->words * sizeof *mask);
    }
    pthread_mutex_unlock(&x->lock);
    return e != NULL;
}

/* A free entry, or the one that was not used for longest; NULL when there is no memory. */
static tt_lex_entry *entry_for(tt_lexicon *x)
{
    if (x->n_cache < x->cap_cache) {
        tt_lex_entry *e = &x->cache[x->n_cache];
        e->key = malloc(TT_LEXICON_KEY * sizeof *e->key);
        e->mask = malloc(x->words * sizeof *e->mask);
        if (e->key != NULL && e->mask != NULL) {
            x->n_cache++;
            return e;
        }
        free(e->key);
        free(e->mask);
        *e = (tt_lex_entry){0};
    }
    tt_lex_entry *oldest = NULL;
    for (uint32_t i = 0; i < x->n_cache; i++)
        if (oldest == NULL || x->cache[i].used < oldest->used)
            oldest = &x->cache[i];
    return oldest;
}

void tt_lexicon_remember(tt_lexicon *x, uint64_t grammar, const uint32_t *key, uint32_t n,
                         const uint64_t *mask)
{
    uint64_t hash = hash_of(grammar, key, n);
    pthread_mutex_lock(&x->lock);
    tt_lex_entry *e = find(x, grammar, hash, key, n);
    if (e == NULL && (e = entry_for(x)) != NULL) {
        e->grammar = grammar;
        e->hash = hash;
        e->n_key = n;
        e->used = ++x->clock;
        memcpy(e->key, key, n * sizeof *key);
        memcpy(e->mask, mask, x->words * sizeof *mask);
    }
    pthread_mutex_unlock(&x->lock);
}
