/* Automata out of automata: products, lengths, and the same with fewer states. */
#include <stdlib.h>
#include <string.h>

#include "grammar/dfa_int.h"

void tt_dfa_free(tt_dfa *d)
{
    free(d->cuts);
    free(d->classes);
    free(d->next);
    free(d->accept);
    *d = (tt_dfa){0};
}

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the grammar");
}

static uint32_t columns_of(const tt_dfa *d)
{
    return d->n_classes + d->n_symbols;
}

/* ---- useless states ---- */

/* Marks what leads to an accepting state, sweep after sweep; chains run against the numbers, so
 * sweeps go backwards. */
static bool mark_useful(tt_builder *b, const tt_dfa *d, uint8_t *useful)
{
    uint32_t columns = columns_of(d);
    bool more = true;
    memcpy(useful, d->accept, d->n);
    while (more) {
        more = false;
        for (uint32_t i = d->n; i-- > 0;) {
            if (!tt_builder_work(b, 1))
                return false;
            for (uint32_t c = 0; c < columns && !useful[i]; c++) {
                uint32_t to = d->next[(size_t)i * columns + c];
                if (to != TT_NO_STATE && useful[to])
                    useful[i] = more = 1;
            }
        }
    }
    return true;
}

/* Renumbers by `to` (TT_NO_STATE: dropped); of states with the same number the first stands. */
static void renumber(tt_dfa *d, const uint32_t *to, uint32_t n)
{
    uint32_t columns = columns_of(d), kept = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        if (to[i] == TT_NO_STATE || to[i] != kept)
            continue;
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t t = d->next[(size_t)i * columns + c];
            d->next[(size_t)kept * columns + c] = t == TT_NO_STATE ? t : to[t];
        }
        d->accept[kept++] = d->accept[i];
    }
    d->n = n;
}

static bool drop_useless(tt_builder *b, tt_dfa *d)
{
    uint8_t *useful = malloc(d->n + 1);
    uint32_t *to = malloc((d->n + 1) * sizeof *to), n = 0;
    bool ok = useful != NULL && to != NULL;
    if (ok && mark_useful(b, d, useful)) {
        useful[0] = 1;
        for (uint32_t i = 0; i < d->n; i++)
            to[i] = useful[i] ? n++ : TT_NO_STATE;
        renumber(d, to, n);
    }
    free(useful);
    free(to);
    return ok;
}

/* ---- equal states ---- */

static uint32_t hash_row(const uint32_t *group, const tt_dfa *d, uint32_t i, uint32_t columns)
{
    uint32_t h = (2166136261u ^ group[i]) * 16777619u;
    for (uint32_t c = 0; c < columns; c++) {
        uint32_t t = d->next[(size_t)i * columns + c];
        h = (h ^ (t == TT_NO_STATE ? t : group[t])) * 16777619u;
    }
    return h ^ h >> 15;
}

static bool same_row(const uint32_t *group, const tt_dfa *d, uint32_t i, uint32_t k,
                     uint32_t columns)
{
    if (group[i] != group[k])
        return false;
    for (uint32_t c = 0; c < columns; c++) {
        uint32_t x = d->next[(size_t)i * columns + c], y = d->next[(size_t)k * columns + c];
        if ((x == TT_NO_STATE) != (y == TT_NO_STATE) || (x != TT_NO_STATE && group[x] != group[y]))
            return false;
    }
    return true;
}

/* One round: states of a group that lead to different groups part. Groups are numbered by their
 * first states. */
static uint32_t part_groups(const tt_dfa *d, const uint32_t *group, uint32_t *finer,
                            uint32_t *first, uint32_t *hash, uint32_t n_hash)
{
    uint32_t columns = columns_of(d), n = 0;
    memset(hash, 0xff, n_hash * sizeof *hash);
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t k = hash_row(group, d, i, columns) & (n_hash - 1);
        while (hash[k] != TT_NO_STATE && !same_row(group, d, i, first[hash[k]], columns))
            k = (k + 1) & (n_hash - 1);
        if (hash[k] == TT_NO_STATE) {
            first[n] = i;
            hash[k] = n++;
        }
        finer[i] = hash[k];
    }
    return n;
}

/* Gives up, which costs states and nothing else, when there is no work left for it. */
static bool join_equal(tt_builder *b, tt_dfa *d)
{
    uint32_t n_hash = 64, groups = 0, n = 0, spent = 0;
    while (n_hash < 2 * d->n)
        n_hash *= 2;
    uint32_t *group = malloc((d->n + 1) * sizeof *group),
             *finer = malloc((d->n + 1) * sizeof *finer);
    uint32_t *first = malloc((d->n + 1) * sizeof *first), *hash = malloc(n_hash * sizeof *hash);
    bool ok = group != NULL && finer != NULL && first != NULL && hash != NULL;
    for (uint32_t i = 0; ok && i < d->n; i++)
        group[i] = d->accept[i] ? 1 : 0;
    while (ok) {
        uint64_t cost = (uint64_t)d->n * (columns_of(d) + 4) + n_hash / 4;
        if (spent + cost > TT_AUTOMATON_WORK / 8 || !tt_builder_work(b, cost))
            break;
        spent += (uint32_t)cost;
        n = part_groups(d, group, finer, first, hash, n_hash);
        uint32_t *t = group;
        group = finer;
        finer = t;
        if (n == groups) {
            renumber(d, group, n);
            break;
        }
        groups = n;
    }
    free(group);
    free(finer);
    free(first);
    free(hash);
    return ok;
}

tt_status tt_dfa_tidy(tt_builder *b, tt_dfa *d, tt_error *err)
{
    if (!drop_useless(b, d) || !join_equal(b, d))
        return no_memory(err);
    return tt_builder_status(b, err);
}

/* ---- products ---- */

typedef struct pairs {
    tt_builder *b;
    tt_dfa d;
    uint32_t *x, *y; /* of each state */
    uint32_t *hash, n_hash, cap;
} pairs;

static bool pairs_grow(pairs *p)
{
    uint32_t want = p->cap == 0 ? 64 : 2 * p->cap, columns = columns_of(&p->d);
    uint32_t *x = realloc(p->x, want * sizeof *x);
    p->x = x != NULL ? x : p->x;
    uint32_t *y = realloc(p->y, want * sizeof *y);
    p->y = y != NULL ? y : p->y;
    uint32_t *next = realloc(p->d.next, (size_t)want * columns * sizeof *next);
    p->d.next = next != NULL ? next : p->d.next;
    uint8_t *accept = realloc(p->d.accept, want);
    p->d.accept = accept != NULL ? accept : p->d.accept;
    uint32_t *hash = malloc(2 * want * sizeof *hash);
    if (x == NULL || y == NULL || next == NULL || accept == NULL || hash == NULL) {
        free(hash);
        return false;
    }
    free(p->hash);
    p->hash = hash;
    p->n_hash = 2 * want;
    p->cap = want;
    memset(hash, 0xff, p->n_hash * sizeof *hash);
    for (uint32_t i = 0; i < p->d.n; i++) {
        uint32_t k = (p->x[i] * 2654435761u ^ p->y[i] * 40503u) & (p->n_hash - 1);
        while (hash[k] != TT_NO_STATE)
            k = (k + 1) & (p->n_hash - 1);
        hash[k] = i;
    }
    return true;
}

/* The state of a pair; a new one accepts nothing and leads nowhere yet. */
static uint32_t pair_state(pairs *p, uint32_t x, uint32_t y)
{
    uint32_t columns = columns_of(&p->d);
    if (p->d.n == p->cap && !pairs_grow(p)) {
        tt_builder_fail(p->b, TT_ERR_NOMEM, "memory");
        return 0;
    }
    uint32_t k = (x * 2654435761u ^ y * 40503u) & (p->n_hash - 1);
    for (; p->hash[k] != TT_NO_STATE; k = (k + 1) & (p->n_hash - 1))
        if (p->x[p->hash[k]] == x && p->y[p->hash[k]] == y)
            return p->hash[k];
    if (p->d.n >= TT_DFA_STATES || (uint64_t)p->d.n * columns > TT_DFA_CELLS)
        tt_builder_fail(p->b, TT_ERR_LIMIT, "a pattern of more than 50,000 states");
    if (!tt_builder_work(p->b, columns))
        return 0;
    uint32_t at = p->d.n++;
    p->hash[k] = at;
    p->x[at] = x;
    p->y[at] = y;
    memset(p->d.next + (size_t)at * columns, 0xff, columns * sizeof *p->d.next);
    p->d.accept[at] = 0;
    return at;
}

static tt_status pairs_end(pairs *p, tt_dfa *out, tt_error *err)
{
    tt_status st = tt_builder_status(p->b, err);
    free(p->x);
    free(p->y);
    free(p->hash);
    if (st == TT_OK)
        st = tt_dfa_tidy(p->b, &p->d, err);
    if (st == TT_OK)
        *out = p->d;
    else
        tt_dfa_free(&p->d);
    return st;
}

static uint32_t class_at(const tt_dfa *d, uint32_t c)
{
    uint32_t lo = 0, hi = d->n_cuts;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (d->cuts[mid] <= c)
            lo = mid;
        else
            hi = mid;
    }
    return d->classes[lo];
}

/* Cuts of both, each a class of its own unless the pair of classes was there before. */
static bool join_cuts(const tt_dfa *a, const tt_dfa *b, tt_dfa *out)
{
    uint32_t i = 0, k = 0, n = a->n_cuts + b->n_cuts;
    out->cuts = malloc(n * sizeof *out->cuts);
    out->classes = malloc(n * sizeof *out->classes);
    uint32_t *seen = malloc((size_t)a->n_classes * b->n_classes * sizeof *seen);
    if (out->cuts == NULL || out->classes == NULL || seen == NULL) {
        free(seen);
        return false;
    }
    memset(seen, 0xff, (size_t)a->n_classes * b->n_classes * sizeof *seen);
    while (i < a->n_cuts || k < b->n_cuts) {
        uint32_t x = i < a->n_cuts ? a->cuts[i] : UINT32_MAX;
        uint32_t y = k < b->n_cuts ? b->cuts[k] : UINT32_MAX, cut = x < y ? x : y;
        i += x == cut;
        k += y == cut;
        uint32_t key = class_at(a, cut) * b->n_classes + class_at(b, cut);
        if (seen[key] == TT_NO_STATE)
            seen[key] = out->n_classes++;
        out->cuts[out->n_cuts] = cut;
        out->classes[out->n_cuts++] = seen[key];
    }
    free(seen);
    return true;
}

/* y is TT_NO_STATE where b has no way on, which only matters for `minus`. */
tt_status tt_dfa_product(tt_builder *bu, const tt_dfa *a, const tt_dfa *b, bool minus, tt_dfa *out,
                         tt_error *err)
{
    pairs p = {.b = bu};
    if ((uint64_t)a->n_classes * b->n_classes > TT_DFA_CELLS ||
        !tt_builder_work(bu, (uint64_t)a->n_classes * b->n_classes))
        return tt_fail(err, TT_ERR_LIMIT, "the grammar is too large: patterns of too many parts");
    if (!join_cuts(a, b, &p.d)) {
        tt_dfa_free(&p.d);
        return no_memory(err);
    }
    (void)pair_state(&p, 0, 0);
    for (uint32_t s = 0; s < p.d.n && bu->failed == TT_OK; s++) {
        uint32_t x = p.x[s], y = p.y[s];
        bool in_b = y != TT_NO_STATE && b->accept[y];
        p.d.accept[s] = a->accept[x] && in_b != minus;
        for (uint32_t c = 0; c < p.d.n_cuts && bu->failed == TT_OK; c++) {
            uint32_t to_x = a->next[(size_t)x * a->n_classes + class_at(a, p.d.cuts[c])];
            uint32_t to_y =
                y == TT_NO_STATE ? y : b->next[(size_t)y * b->n_classes + class_at(b, p.d.cuts[c])];
            if (to_x == TT_NO_STATE || (to_y == TT_NO_STATE && !minus))
                continue;
            uint32_t to = pair_state(&p, to_x, to_y);
            if (bu->failed == TT_OK)
                p.d.next[(size_t)s * p.d.n_classes + p.d.classes[c]] = to;
        }
    }
    return pairs_end(&p, out, err);
}

/* y counts characters up to `min`. */
tt_status tt_dfa_least(tt_builder *bu, const tt_dfa *d, uint32_t min, tt_dfa *out, tt_error *err)
{
    pairs p = {.b = bu};
    size_t cuts = d->n_cuts * sizeof *d->cuts;
    p.d.n_cuts = d->n_cuts;
    p.d.n_classes = d->n_classes;
    p.d.cuts = malloc(cuts);
    p.d.classes = malloc(cuts);
    if (p.d.cuts == NULL || p.d.classes == NULL) {
        tt_dfa_free(&p.d);
        return no_memory(err);
    }
    memcpy(p.d.cuts, d->cuts, cuts);
    memcpy(p.d.classes, d->classes, cuts);
    (void)pair_state(&p, 0, 0);
    for (uint32_t s = 0; s < p.d.n && bu->failed == TT_OK; s++) {
        uint32_t x = p.x[s], y = p.y[s];
        p.d.accept[s] = d->accept[x] && y >= min;
        uint32_t count = y == min ? y : y + 1;
        for (uint32_t c = 0; c < d->n_classes && bu->failed == TT_OK; c++) {
            uint32_t to = d->next[(size_t)x * d->n_classes + c];
            if (to == TT_NO_STATE)
                continue;
            to = pair_state(&p, to, count);
            if (bu->failed == TT_OK)
                p.d.next[(size_t)s * d->n_classes + c] = to;
        }
    }
    return pairs_end(&p, out, err);
}

/* ---- running one ---- */

static uint32_t next_char(const char **p, const char *end)
{
    const uint8_t *s = (const uint8_t *)*p;
    uint32_t more = s[0] < 0x80 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint32_t c = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    for (uint32_t i = 1; i <= more && *p + i < end; i++)
        c = c << 6 | (s[i] & 0x3fu);
    *p += more + 1;
    return c;
}

bool tt_dfa_accepts(const tt_dfa *d, const char *utf8, size_t n)
{
    const char *p = utf8, *end = utf8 + n;
    uint32_t s = 0;
    while (p < end && s != TT_NO_STATE)
        s = d->next[(size_t)s * columns_of(d) + class_at(d, next_char(&p, end))];
    return s != TT_NO_STATE && d->accept[s];
}
