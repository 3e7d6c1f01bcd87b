/* Sets of characters, and the trees that hold them. */
#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"

static bool grow(tt_builder *b, void **v, uint32_t n, uint32_t *cap, size_t size)
{
    if (b->failed != TT_OK)
        return false;
    if (n < *cap)
        return true;
    uint32_t want = *cap < 8 ? 8 : *cap * 2;
    void *p = realloc(*v, want * size);
    if (p == NULL) {
        tt_builder_fail(b, TT_ERR_NOMEM, "memory");
        return false;
    }
    *v = p;
    *cap = want;
    return true;
}

/* ---- sets ---- */

void tt_charset_free(tt_charset *s)
{
    free(s->v);
    *s = (tt_charset){0};
}

/* Keeps the ranges sorted and apart. */
void tt_charset_add(tt_builder *b, tt_charset *s, uint32_t lo, uint32_t hi)
{
    uint32_t i = 0, k;
    if (!tt_builder_work(b, s->n + 1) || !grow(b, (void **)&s->v, s->n, &s->cap, sizeof *s->v))
        return;
    while (i < s->n && s->v[i].hi + 1 < lo)
        i++;
    for (k = i; k < s->n && s->v[k].lo <= hi + 1; k++) {
        lo = s->v[k].lo < lo ? s->v[k].lo : lo;
        hi = s->v[k].hi > hi ? s->v[k].hi : hi;
    }
    memmove(s->v + i + 1, s->v + k, (s->n - k) * sizeof *s->v);
    s->v[i] = (tt_range){lo, hi};
    s->n = s->n - (k - i) + 1;
}

void tt_charset_join(tt_builder *b, tt_charset *s, const tt_charset *other)
{
    for (uint32_t i = 0; i < other->n; i++)
        tt_charset_add(b, s, other->v[i].lo, other->v[i].hi);
}

void tt_charset_negate(tt_builder *b, tt_charset *s)
{
    tt_charset out = {0};
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].lo > next)
            tt_charset_add(b, &out, next, s->v[i].lo - 1);
        next = s->v[i].hi + 1;
    }
    if (next <= TT_LAST_CHAR)
        tt_charset_add(b, &out, next, TT_LAST_CHAR);
    tt_charset_free(s);
    *s = out;
}

/* ---- trees ---- */

void tt_rx_init(tt_rx *rx, tt_builder *b)
{
    *rx = (tt_rx){.b = b};
    (void)tt_rx_node_add(rx, (tt_rx_node){.kind = TT_RX_EMPTY});
}

void tt_rx_free(tt_rx *rx)
{
    for (uint32_t i = 0; i < rx->n_sets; i++)
        tt_charset_free(&rx->sets[i]);
    free(rx->nodes);
    free(rx->items);
    free(rx->sets);
    *rx = (tt_rx){0};
}

uint32_t tt_rx_node_add(tt_rx *rx, tt_rx_node node)
{
    if (rx->n_nodes >= TT_RX_NODES)
        tt_builder_fail(rx->b, TT_ERR_LIMIT, "an expression of more than 60,000 parts");
    if (!grow(rx->b, (void **)&rx->nodes, rx->n_nodes, &rx->cap_nodes, sizeof *rx->nodes))
        return 0;
    rx->nodes[rx->n_nodes] = node;
    return rx->n_nodes++;
}

uint32_t tt_rx_set(tt_rx *rx, tt_charset *set)
{
    if (!grow(rx->b, (void **)&rx->sets, rx->n_sets, &rx->cap_sets, sizeof *rx->sets)) {
        tt_charset_free(set);
        return 0;
    }
    rx->sets[rx->n_sets] = *set;
    *set = (tt_charset){0};
    return tt_rx_node_add(rx, (tt_rx_node){.kind = TT_RX_SET, .a = rx->n_sets++});
}

uint32_t tt_rx_char(tt_rx *rx, uint32_t c)
{
    tt_charset s = {0};
    if (c < 128 && rx->ascii[c] != 0)
        return tt_rx_node_add(rx, (tt_rx_node){.kind = TT_RX_SET, .a = rx->ascii[c] - 1});
    tt_charset_add(rx->b, &s, c, c);
    if (c < 128)
        rx->ascii[c] = rx->n_sets + 1;
    return tt_rx_set(rx, &s);
}

uint32_t tt_rx_list(tt_rx *rx, tt_rx_kind kind, const uint32_t *items, uint32_t n)
{
    if (n == 0)
        return 0;
    if (n == 1)
        return items[0];
    uint32_t at = rx->n_items;
    for (uint32_t i = 0; i < n; i++) {
        if (!grow(rx->b, (void **)&rx->items, rx->n_items, &rx->cap_items, sizeof *rx->items))
            return 0;
        rx->items[rx->n_items++] = items[i];
    }
    return tt_rx_node_add(rx, (tt_rx_node){.kind = (uint8_t)kind, .a = at, .b = n});
}
