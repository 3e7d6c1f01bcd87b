#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

/* Up to here a scan over an array beats a heap; words are nearly always shorter. */
#define SHORT_PIECE 64u

/* ---- the table of merges ---- */

static uint64_t hash_pair(uint64_t pair)
{
    pair *= UINT64_C(0x9e3779b97f4a7c15);
    return pair ^ pair >> 32;
}

static const tt_merge_slot *find_merge(const tt_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    for (uint64_t i = hash_pair(pair) & bpe->mask;; i = (i + 1) & bpe->mask) {
        const tt_merge_slot *s = &bpe->slots[i];
        if (s->pair == pair)
            return s;
        if (s->pair == UINT64_MAX)
            return NULL;
    }
}

/* A pair named twice keeps the later rank, as in the reference implementation. */
static tt_status enter(tt_bpe *bpe, uint64_t pair, uint32_t rank, uint32_t id, const char *file,
                       tt_error *err)
{
    uint64_t i = hash_pair(pair) & bpe->mask;
    for (unsigned probes = 0; bpe->slots[i].pair != UINT64_MAX && bpe->slots[i].pair != pair;
         i = (i + 1) & bpe->mask)
        if (++probes > TT_MAX_PROBES)
            return tt_fail_at(err, TT_ERR_LIMIT, file, -1,
                              "model.merges was made to collide in the hash table (at entry %u)",
                              rank);
    bpe->slots[i] = (tt_merge_slot){.pair = pair, .rank = rank, .id = id};
    return TT_OK;
}

static tt_status unknown(const char *bytes, size_t len, size_t entry, const char *file,
                         tt_error *err)
{
    char shown[80];
    return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                      "model.merges[%zu] needs the token \"%s\", which model.vocab does not have",
                      entry, tt_show_bytes(bytes, len, shown));
}

static tt_status resolve(tt_bpe *bpe, const tt_tokenizer_json *tj, const char *file, tt_error *err)
{
    for (size_t i = 0; i < tj->n_merges; i++) {
        const tt_json_merge *m = &tj->merges[i];
        const char *left = tj->blob + m->start, *right = left + m->left;
        uint32_t a = tt_vocab_find(bpe->vocab, left, m->left);
        if (a == TT_NO_TOKEN)
            return unknown(left, m->left, i, file, err);
        uint32_t b = tt_vocab_find(bpe->vocab, right, m->right);
        if (b == TT_NO_TOKEN)
            return unknown(right, m->right, i, file, err);
        size_t both = (size_t)m->left + m->right;
        uint32_t id = tt_vocab_find(bpe->vocab, left, both);
        if (id == TT_NO_TOKEN)
            return unknown(left, both, i, file, err);
        TT_TRY(enter(bpe, (uint64_t)a << 32 | b, (uint32_t)i, id, file, err));
    }
    return TT_OK;
}

tt_status tt_bpe_build(const tt_vocab *vocab, const tt_tokenizer_json *tj, bool ignore_merges,
                       const char *file, tt_bpe *out, tt_error *err)
{
    tt_bpe bpe = {.vocab = vocab, .ignore_merges = ignore_merges};
    uint64_t slots = 64;
    while (slots < 2 * (uint64_t)tj->n_merges)
        slots *= 2;
    bpe.mask = slots - 1;
    bpe.slots = malloc(slots * sizeof *bpe.slots);
    bpe.whole = calloc((size_t)vocab->n + 1, sizeof *bpe.whole);
    tt_status st = TT_OK;
    if (bpe.slots == NULL || bpe.whole == NULL) {
        st = tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for %zu merges", tj->n_merges);
    } else {
        memset(bpe.slots, 0xff, slots * sizeof *bpe.slots);
        st = resolve(&bpe, tj, file, err);
    }
    if (st != TT_OK) {
        tt_bpe_free(&bpe);
        return st;
    }
    *out = bpe;
    return TT_OK;
}

void tt_bpe_free(tt_bpe *bpe)
{
    free(bpe->slots);
    free((void *)bpe->whole);
    *bpe = (tt_bpe){0};
}

/* ---- lists ---- */

static bool grow(void **items, size_t *cap, size_t want, size_t size)
{
    if (want <= *cap)
        return true;
    size_t n = *cap < 256 ? 256 : *cap;
    while (n < want)
        n += n / 2;
    void *more = realloc(*items, n * size);
    if (more == NULL)
        return false;
    *items = more;
    *cap = n;
    return true;
}

tt_status tt_ids_push(tt_ids *ids, uint32_t id, tt_error *err)
{
    if (ids->n == ids->cap && !grow((void **)&ids->v, &ids->cap, ids->n + 1, sizeof *ids->v))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu ids", ids->n + 1);
    ids->v[ids->n++] = id;
    return TT_OK;
}

void tt_bpe_scratch_free(tt_bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (tt_bpe_scratch){0};
}

/* ---- short pieces ---- */

/* Merges v[0..n) in place, returns the new count. n <= SHORT_PIECE. */
static size_t merge_short(const tt_bpe *bpe, uint32_t *v, size_t n)
{
    uint32_t rank[SHORT_PIECE], id[SHORT_PIECE]; /* of the pair (i, i + 1) */
    for (size_t i = 0; i + 1 < n; i++) {
        const tt_merge_slot *m = find_merge(bpe, v[i], v[i + 1]);
        rank[i] = m == NULL ? UINT32_MAX : m->rank;
        id[i] = m == NULL ? 0 : m->id;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == UINT32_MAX)
            break;
        v[best] = id[best];
        n--;
        size_t tail = n - best - 1; /* symbols behind the merged one; one pair fewer */
        memmove(v + best + 1, v + best + 2, tail * sizeof *v);
        if (tail > 0) {
            memmove(rank + best, rank + best + 1, tail * sizeof *rank);
            memmove(id + best, id + best + 1, tail * sizeof *id);
        }
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const tt_merge_slot *m = find_merge(bpe, v[i], v[i + 1]);
            rank[i] = m == NULL ? UINT32_MAX : m->rank;
            id[i] = m == NULL ? 0 : m->id;
        }
    }
    return n;
}

/* ---- long pieces: a linked list of symbols and a heap of candidate merges ---- */

static bool before(const tt_bpe_candidate *a, const tt_bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static void sift_down(tt_bpe_candidate *heap, size_t n, size_t i)
{
    tt_bpe_candidate c = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &c))
            break;
        heap[i] = heap[child];
    }
    heap[i] = c;
}

static void sift_up(tt_bpe_candidate *heap, size_t i)
{
    tt_bpe_candidate c = heap[i];
    for (; i > 0 && before(&c, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

/* Adds the merge of the symbols at `pos` and behind it, when there is one; no heap order yet. */
static bool add_candidate(const tt_bpe *bpe, tt_bpe_scratch *s, uint32_t pos)
{
    uint32_t next = s->symbols[pos].next;
    if (next == TT_NO_TOKEN)
        return true;
    const tt_merge_slot *m = find_merge(bpe, s->symbols[pos].id, s->symbols[next].id);
    if (m == NULL)
        return true;
    if (!grow((void **)&s->heap, &s->cap_heap, s->n_heap + 1, sizeof *s->heap))
        return false;
    s->heap[s->n_heap++] = (tt_bpe_candidate){.rank = m->rank, .pos = pos, .id = m->id};
    return true;
}

static bool push_candidate(const tt_bpe *bpe, tt_bpe_scratch *s, uint32_t pos)
{
    size_t n = s->n_heap;
    if (!add_candidate(bpe, s, pos))
        return false;
    if (s->n_heap > n)
        sift_up(s->heap, n);
    return true;
}

/* Applies the best candidate unless the symbols have changed since it was found. */
static bool apply_best(const tt_bpe *bpe, tt_bpe_scratch *s)
{
    tt_bpe_candidate c = s->heap[0];
    s->heap[0] = s->heap[--s->n_heap];
    if (s->n_heap > 0)
        sift_down(s->heap, s->n_heap, 0);
    tt_bpe_symbol *left = &s->symbols[c.pos];
    if (left->id == TT_NO_TOKEN || left->next == TT_NO_TOKEN)
        return true;
    tt_bpe_symbol *right = &s->symbols[left->next];
    const tt_merge_slot *m = find_merge(bpe, left->id, right->id);
    if (m == NULL || m->rank != c.rank)
        return true;
    left->id = c.id;
    right->id = TT_NO_TOKEN;
    left->next = right->next;
    if (left->next != TT_NO_TOKEN)
        s->symbols[left->next].prev = c.pos;
    return (left->prev == TT_NO_TOKEN || push_candidate(bpe, s, left->prev)) &&
           push_candidate(bpe, s, c.pos);
}

/* Merges symbols[0..n), linked by the caller. False when out of memory. */
static bool merge_long(const tt_bpe *bpe, tt_bpe_scratch *s, size_t n)
{
    s->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (!add_candidate(bpe, s, (uint32_t)i))
            return false;
    for (size_t i = s->n_heap / 2; i-- > 0;)
        sift_down(s->heap, s->n_heap, i);
    while (s->n_heap > 0)
        if (!apply_best(bpe, s))
            return false;
    return true;
}

/* ---- one piece ---- */

static tt_status no_byte(unsigned char byte, tt_error *err)
{
    return tt_fail(err, TT_ERR_UNSUPPORTED,
                   "the vocabulary has no token for byte 0x%02x, so the text cannot be encoded",
                   byte);
}

static tt_status encode_long(const tt_bpe *bpe, tt_bpe_scratch *s, const char *piece, size_t n,
                             tt_ids *ids, tt_error *err)
{
    if (n >= TT_NO_TOKEN)
        return tt_fail(err, TT_ERR_LIMIT, "a word of %zu bytes is too long", n);
    if (!grow((void **)&s->symbols, &s->cap_symbols, n, sizeof *s->symbols))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a word of %zu bytes", n);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = bpe->vocab->byte_id[(unsigned char)piece[i]];
        if (id == TT_NO_TOKEN)
            return no_byte((unsigned char)piece[i], err);
        s->symbols[i] = (tt_bpe_symbol){.id = id,
                                        .prev = i == 0 ? TT_NO_TOKEN : (uint32_t)i - 1,
                                        .next = i + 1 == n ? TT_NO_TOKEN : (uint32_t)i + 1};
    }
    if (!merge_long(bpe, s, n))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a word of %zu bytes", n);
    for (uint32_t i = 0; i != TT_NO_TOKEN; i = s->symbols[i].next)
        TT_TRY(tt_ids_push(ids, s->symbols[i].id, err));
    return TT_OK;
}

static tt_status encode_merged(const tt_bpe *bpe, tt_bpe_scratch *s, const char *piece, size_t n,
                               tt_ids *ids, tt_error *err)
{
    if (n > SHORT_PIECE)
        return encode_long(bpe, s, piece, n, ids, err);
    uint32_t v[SHORT_PIECE];
    for (size_t i = 0; i < n; i++) {
        v[i] = bpe->vocab->byte_id[(unsigned char)piece[i]];
        if (v[i] == TT_NO_TOKEN)
            return no_byte((unsigned char)piece[i], err);
    }
    size_t m = merge_short(bpe, v, n);
    for (size_t i = 0; i < m; i++)
        TT_TRY(tt_ids_push(ids, v[i], err));
    return TT_OK;
}

tt_status tt_bpe_encode(const tt_bpe *bpe, tt_bpe_scratch *scratch, const char *piece, size_t n,
                        tt_ids *ids, tt_error *err)
{
    uint32_t id = tt_vocab_find(bpe->vocab, piece, n);
    if (id == TT_NO_TOKEN)
        return encode_merged(bpe, scratch, piece, n, ids, err);
    uint8_t whole = atomic_load_explicit(&bpe->whole[id], memory_order_relaxed);
    if (whole == 1 || bpe->ignore_merges)
        return tt_ids_push(ids, id, err);
    size_t first = ids->n;
    TT_TRY(encode_merged(bpe, scratch, piece, n, ids, err));
    if (whole == 0) {
        whole = ids->n == first + 1 && ids->v[first] == id ? 1 : 2;
        atomic_store_explicit(&bpe->whole[id], whole, memory_order_relaxed);
    }
    return TT_OK;
}
