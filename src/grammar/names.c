/* Names and literals as trees of bytes. */
#include <stdlib.h>
#include <string.h>

#include "grammar/schema_rules.h"

void tt_names_json(tt_buf *out, const char *text, size_t n)
{
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)text[i];
        const char *letter = c == 0 ? NULL : strchr(letters, c);
        if (letter != NULL)
            tt_buf_printf(out, "\\%c", names[letter - letters]);
        else if (c < 0x20)
            tt_buf_printf(out, "\\u%04x", c);
        else
            tt_buf_putc(out, (char)c);
    }
}

/* ---- names of properties ---- */

static uint32_t target_of(const tt_builder *b, uint32_t state, uint8_t c)
{
    if (b->failed != TT_OK || state == TT_NO_STATE)
        return TT_NO_STATE;
    for (uint32_t e = b->states[state].edges; e != TT_NO_STATE; e = b->edges[e].next)
        if (b->edges[e].lo <= c && b->edges[e].hi >= c)
            return b->edges[e].to;
    return TT_NO_STATE;
}

static int by_value(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* The guard of a state that leads to names [lo, hi) only, or to others. */
static void guard(const tt_names *x, uint32_t state, uint32_t lo, uint32_t hi, bool other)
{
    uint32_t *items = malloc((hi - lo + 1) * sizeof *items), n = 0;
    if (items == NULL) {
        tt_builder_fail(x->b, TT_ERR_NOMEM, "memory");
        return;
    }
    for (uint32_t i = lo; i < hi; i++)
        if (x->item[i] != TT_NO_STATE)
            items[n++] = x->item[i];
    qsort(items, n, sizeof *items, by_value);
    if (tt_builder_work(x->b, n + 1))
        tt_builder_guard(x->b, state, TT_GUARD_KEY, tt_builder_list(x->b, items, n, other));
    free(items);
}

/* Whatever the rule for other names goes on with and no listed name does. */
static void leave(const tt_names *x, uint32_t at, uint32_t other, const tt_gset *listed)
{
    tt_gset set = {{0}};
    bool some = false;
    for (uint32_t e = x->b->states[other].edges; e != TT_NO_STATE; e = x->b->edges[e].next)
        tt_gset_add(&set, x->b->edges[e].lo, x->b->edges[e].hi);
    if (tt_gset_has(&set, x->end) && !tt_gset_has(listed, x->end))
        tt_builder_edge(x->b, at, x->end, x->end, x->other_found);
    set.bits[x->end >> 6] &= ~((uint64_t)1 << (x->end & 63));
    for (int i = 0; i < 4; i++) {
        set.bits[i] &= ~listed->bits[i];
        some |= set.bits[i] != 0;
    }
    if (some)
        tt_builder_call_extra(x->b, at, other, &set, x->other_found);
}

typedef struct spot {
    uint32_t lo, hi, depth, at, other;
} spot;

/* The ways out of one spot, which are put on the stack. */
static void spread(const tt_names *x, spot s, spot *stack, uint32_t *n_stack)
{
    tt_builder *b = x->b;
    tt_gset listed = {{0}};
    uint32_t lo = s.lo;
    if (lo < s.hi && x->len[lo] == s.depth) {
        if (x->item[lo] != TT_NO_STATE)
            tt_builder_edge(b, s.at, x->end, x->end, x->found[x->item[lo]]);
        tt_gset_add(&listed, x->end, x->end);
        lo++;
    }
    while (lo < s.hi && tt_builder_work(b, 8)) {
        uint8_t c = (uint8_t)x->text[lo][s.depth];
        uint32_t hi = lo + 1, other = target_of(b, s.other, c), to = tt_builder_state(b);
        while (hi < s.hi && (uint8_t)x->text[hi][s.depth] == c)
            hi++;
        tt_builder_edge(b, s.at, c, c, to);
        tt_gset_add(&listed, c, c);
        /* On a way to the same names nothing has changed. */
        if (lo != s.lo || hi != s.hi || (s.other == TT_NO_STATE) != (other == TT_NO_STATE))
            guard(x, to, lo, hi, other != TT_NO_STATE);
        stack[(*n_stack)++] = (spot){lo, hi, s.depth + 1, to, other};
        lo = hi;
    }
    if (s.other != TT_NO_STATE && b->failed == TT_OK)
        leave(x, s.at, s.other, &listed);
}

tt_status tt_names_edges(const tt_names *x, uint32_t n, uint32_t from, tt_error *err)
{
    /* Spots on the stack are of different names. */
    spot *stack = malloc((n + 256) * sizeof *stack);
    uint32_t n_stack = 0;
    if (stack == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the schema");
    stack[n_stack++] = (spot){0, n, 0, from, x->other};
    while (n_stack > 0 && x->b->failed == TT_OK) {
        spot s = stack[--n_stack];
        spread(x, s, stack, &n_stack);
    }
    free(stack);
    return tt_builder_status(x->b, err);
}

uint32_t tt_names_insert(tt_builder *b, uint32_t from, const char *text, size_t n)
{
    for (size_t i = 0; i < n && tt_builder_work(b, 8); i++) {
        uint32_t to = target_of(b, from, (uint8_t)text[i]);
        from = to != TT_NO_STATE ? to : tt_builder_text(b, from, text + i, 1);
    }
    return from;
}

/* ---- literals ---- */

typedef struct literal {
    const char *text;
    uint32_t len;
} literal;

static int by_text(const void *x, const void *y)
{
    const literal *a = x, *b = y;
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->text, b->text, n);
    return c != 0 ? c : a->len < b->len ? -1 : a->len > b->len;
}

tt_status tt_names_literals(tt_builder *b, const char *const *text, const uint32_t *len, uint32_t n,
                            uint32_t *entry, tt_error *err)
{
    literal *v = malloc((n + 1) * sizeof *v);
    uint32_t *stack = malloc((4 * n + 4) * sizeof *stack), n_stack = 0;
    if (v == NULL || stack == NULL) {
        free(v);
        free(stack);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the schema");
    }
    for (uint32_t i = 0; i < n; i++)
        v[i] = (literal){text[i], len[i]};
    qsort(v, n, sizeof *v, by_text);
    *entry = tt_builder_state(b);
    uint32_t first[4] = {0, n, 0, *entry};
    memcpy(stack, first, sizeof first);
    n_stack = n > 0 ? 4 : 0;
    while (n_stack > 0 && tt_builder_work(b, 8)) {
        uint32_t at = stack[n_stack - 1], depth = stack[n_stack - 2], hi = stack[n_stack - 3];
        uint32_t lo = stack[n_stack - 4];
        n_stack -= 4;
        for (; lo < hi && v[lo].len == depth; lo++)
            tt_builder_set_final(b, at);
        while (lo < hi && b->failed == TT_OK) {
            uint32_t k = lo + 1, to = tt_builder_state(b);
            while (k < hi && v[k].text[depth] == v[lo].text[depth])
                k++;
            tt_builder_edge(b, at, (uint8_t)v[lo].text[depth], (uint8_t)v[lo].text[depth], to);
            uint32_t next[4] = {lo, k, depth + 1, to};
            memcpy(stack + n_stack, next, sizeof next);
            n_stack += 4;
            lo = k;
        }
    }
    free(v);
    free(stack);
    return tt_builder_status(b, err);
}
