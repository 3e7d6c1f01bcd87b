#include "tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer/tok_utf8.h"

/* The tokens stand in the automaton back to front and the text is read back to front: arriving at a
 * byte, the state knows the longest token that begins there. Reading forwards would have to look
 * ahead and come back, which hostile tokens make quadratic. */

static uint32_t child_of(const tt_matcher *m, uint32_t state, unsigned char byte)
{
    if (state == 0)
        return m->root[byte];
    uint32_t c = m->nodes[state].child;
    while (c != 0 && m->nodes[c].byte != byte)
        c = m->nodes[c].sibling;
    return c;
}

static uint32_t step(const tt_matcher *m, uint32_t state, unsigned char byte)
{
    for (;;) {
        uint32_t next = child_of(m, state, byte);
        if (next != 0 || state == 0)
            return next;
        state = m->nodes[state].fail;
    }
}

static void insert(tt_matcher *m, size_t index)
{
    const tt_added_token *t = &m->tokens[index];
    uint32_t state = 0;
    for (size_t i = t->pattern_len; i-- > 0;) {
        unsigned char byte = (unsigned char)t->pattern[i];
        uint32_t next = child_of(m, state, byte);
        if (next == 0) {
            next = m->n++;
            m->nodes[next] = (tt_matcher_node){.byte = byte, .sibling = m->nodes[state].child};
            m->nodes[state].child = next;
            if (state == 0)
                m->root[byte] = next;
        }
        state = next;
    }
    if (m->nodes[state].token == 0)
        m->nodes[state].token = (uint32_t)index + 1;
}

/* Breadth first: a node's failure link points to a shorter reading, which is finished before. */
static bool link_failures(tt_matcher *m)
{
    uint32_t *queue = malloc((size_t)m->n * sizeof *queue);
    if (queue == NULL)
        return false;
    size_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t parent = queue[head++];
        for (uint32_t c = m->nodes[parent].child; c != 0; c = m->nodes[c].sibling) {
            tt_matcher_node *node = &m->nodes[c];
            node->fail = parent == 0 ? 0 : step(m, m->nodes[parent].fail, node->byte);
            if (node->token == 0)
                node->token = m->nodes[node->fail].token;
            queue[tail++] = c;
        }
    }
    free(queue);
    return true;
}

tt_status tt_matcher_build(const tt_added_token *tokens, size_t n, bool normalized, tt_matcher *out,
                           tt_error *err)
{
    tt_matcher m = {.tokens = tokens};
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (tokens[i].normalized == normalized)
            bytes += tokens[i].pattern_len;
    if (bytes > TT_MAX_ADDED_BYTES)
        return tt_fail(err, TT_ERR_LIMIT, "added tokens hold %zu bytes, at most %u are accepted",
                       bytes, TT_MAX_ADDED_BYTES);
    if (bytes > 0) {
        m.nodes = calloc(bytes + 1, sizeof *m.nodes);
        if (m.nodes == NULL)
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for the added tokens");
        m.n = 1;
        for (size_t i = 0; i < n; i++)
            if (tokens[i].normalized == normalized && tokens[i].pattern_len > 0)
                insert(&m, i);
        if (!link_failures(&m)) {
            tt_matcher_free(&m);
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for the added tokens");
        }
    }
    *out = m;
    return TT_OK;
}

void tt_matcher_free(tt_matcher *m)
{
    free(m->nodes);
    *m = (tt_matcher){0};
}

/* ---- classes of characters, as the reference implementation's \s and \w ---- */

static bool is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0d) || cp == 0x20 || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
           cp == 0x205f || cp == 0x3000;
}

static bool is_word(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* letters in circles and squares; zero-width joiners */
        return (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) ||
               (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189) ||
               cp == 0x200c || cp == 0x200d;
    }
}

static uint32_t char_before(const char *text, size_t at)
{
    size_t len;
    return tt_utf8_read(text + tt_utf8_before(text, at), &len);
}

static bool stands_alone(const char *text, size_t n, size_t begin, size_t end)
{
    size_t len;
    return (begin == 0 || !is_word(char_before(text, begin))) &&
           (end == n || !is_word(tt_utf8_read(text + end, &len)));
}

static size_t spaces_before(const char *text, size_t at, size_t floor)
{
    while (at > floor && is_space(char_before(text, at)))
        at = tt_utf8_before(text, at);
    return at;
}

static size_t spaces_after(const char *text, size_t n, size_t at)
{
    size_t len;
    while (at < n && is_space(tt_utf8_read(text + at, &len)))
        at += len;
    return at;
}

/* ---- searching ---- */

typedef struct found {
    size_t at;
    uint32_t token;
} found;

typedef struct found_list {
    found *v;
    size_t n, cap;
} found_list;

static bool remember(found_list *f, size_t at, uint32_t token)
{
    if (f->n == f->cap) {
        size_t cap = f->cap == 0 ? 64 : f->cap * 2;
        found *v = realloc(f->v, cap * sizeof *v);
        if (v == NULL)
            return false;
        f->v = v;
        f->cap = cap;
    }
    f->v[f->n++] = (found){.at = at, .token = token};
    return true;
}

/* Every place where a token begins, with the longest one there, last place first. */
static bool find_all(const tt_matcher *m, const char *text, size_t n, found_list *f)
{
    uint32_t state = 0;
    for (size_t i = n; i-- > 0;) {
        unsigned char byte = (unsigned char)text[i];
        if (state == 0 && m->root[byte] == 0)
            continue;
        state = step(m, state, byte);
        uint32_t token = m->nodes[state].token;
        if (token != 0 && !remember(f, i, token - 1))
            return false;
    }
    return true;
}

static tt_status emit(const tt_matcher *m, const char *text, size_t n, const found_list *f,
                      tt_segment_fn fn, void *ctx, tt_error *err)
{
    size_t done = 0, search = 0; /* `done` may run ahead of `search` when rstrip took spaces */
    for (size_t i = f->n; i-- > 0;) {
        const tt_added_token *t = &m->tokens[f->v[i].token];
        size_t begin = f->v[i].at, end = begin + t->pattern_len;
        if (begin < search)
            continue;
        search = end;
        if (t->single_word && !stands_alone(text, n, begin, end))
            continue;
        if (t->lstrip)
            begin = spaces_before(text, begin, done < begin ? done : begin);
        if (t->rstrip)
            end = spaces_after(text, n, end);
        if (begin > done)
            TT_TRY(fn(ctx, text + done, begin - done, NULL, err));
        TT_TRY(fn(ctx, text + begin, end - begin, t, err));
        done = end;
    }
    return done < n ? fn(ctx, text + done, n - done, NULL, err) : TT_OK;
}

tt_status tt_matcher_split(const tt_matcher *m, const char *text, size_t n, tt_segment_fn fn,
                           void *ctx, tt_error *err)
{
    found_list f = {0};
    if (n == 0)
        return TT_OK;
    if (m->nodes != NULL && !find_all(m, text, n, &f)) {
        free(f.v);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for searching %zu bytes of text", n);
    }
    tt_status st = emit(m, text, n, &f, fn, ctx, err);
    free(f.v);
    return st;
}
