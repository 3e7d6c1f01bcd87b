#include "grammar/text_rules.h"

#include <string.h>

#define MOST_WORD 32u

tt_multibyte tt_text_multibyte(tt_builder *b, uint32_t to, tt_guard guard)
{
    tt_multibyte m;
    uint32_t *const all[] = {&m.more1, &m.more2, &m.more3, &m.e0, &m.ed, &m.f0, &m.f4};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = tt_builder_state(b);
        tt_builder_guard(b, *all[i], guard, 0);
    }
    tt_builder_edge(b, m.more1, 0x80, 0xbf, to);
    tt_builder_edge(b, m.more2, 0x80, 0xbf, m.more1);
    tt_builder_edge(b, m.more3, 0x80, 0xbf, m.more2);
    /* Nothing written longer than it needs, no surrogates, nothing above U+10FFFF. */
    tt_builder_edge(b, m.e0, 0xa0, 0xbf, m.more1);
    tt_builder_edge(b, m.ed, 0x80, 0x9f, m.more1);
    tt_builder_edge(b, m.f0, 0x90, 0xbf, m.more2);
    tt_builder_edge(b, m.f4, 0x80, 0x8f, m.more2);
    return m;
}

void tt_text_multibyte_from(tt_builder *b, uint32_t from, const tt_multibyte *m)
{
    tt_builder_edge(b, from, 0xc2, 0xdf, m->more1);
    tt_builder_edge(b, from, 0xe0, 0xe0, m->e0);
    tt_builder_edge(b, from, 0xe1, 0xec, m->more2);
    tt_builder_edge(b, from, 0xed, 0xed, m->ed);
    tt_builder_edge(b, from, 0xee, 0xef, m->more2);
    tt_builder_edge(b, from, 0xf0, 0xf0, m->f0);
    tt_builder_edge(b, from, 0xf1, 0xf3, m->more3);
    tt_builder_edge(b, from, 0xf4, 0xf4, m->f4);
}

/* ---- words that end or must not come ---- */

typedef struct word {
    const char *text;
    uint32_t n;
    uint8_t back[MOST_WORD]; /* how much of the word its first i characters end with again */
} word;

static word word_of(const char *text)
{
    word w = {.text = text, .n = text == NULL ? 0 : (uint32_t)strlen(text)};
    for (uint32_t i = 1, k = 0; i < w.n && i < MOST_WORD; i++) {
        while (k > 0 && text[i] != text[k])
            k = w.back[k - 1];
        k += text[i] == text[k];
        w.back[i] = (uint8_t)k;
    }
    return w;
}

/* How much of the word has come after one more character; n is all of it. */
static uint32_t word_next(const word *w, uint32_t k, char c)
{
    if (w->n == 0)
        return 0;
    while (k > 0 && w->text[k] != c)
        k = w->back[k - 1];
    return k + (w->text[k] == c);
}

/* ---- JSON strings ---- */

static void hex_edges(tt_builder *b, uint32_t from, const char *digits, uint32_t to)
{
    for (const char *p = digits; *p != '\0'; p++)
        tt_builder_edge(b, from, (uint8_t)*p, (uint8_t)*p, to);
}

static void any_hex(tt_builder *b, uint32_t from, uint32_t to)
{
    tt_builder_edge(b, from, '0', '9', to);
    tt_builder_edge(b, from, 'A', 'F', to);
    tt_builder_edge(b, from, 'a', 'f', to);
}

/* The four digits after \u. Not 0000, and surrogates in pairs only. */
static void unicode_escape(tt_builder *b, uint32_t from, uint32_t to)
{
    uint32_t zero1 = tt_builder_state(b), zero2 = tt_builder_state(b), zero3 = tt_builder_state(b);
    uint32_t any3 = tt_builder_state(b), any2 = tt_builder_state(b), any1 = tt_builder_state(b);
    uint32_t d = tt_builder_state(b), high1 = tt_builder_state(b), high2 = tt_builder_state(b);
    tt_builder_edge(b, from, '0', '0', zero1);
    hex_edges(b, from, "123456789abcefABCEF", any3);
    hex_edges(b, from, "dD", d);
    tt_builder_edge(b, zero1, '0', '0', zero2);
    hex_edges(b, zero1, "123456789abcdefABCDEF", any2);
    tt_builder_edge(b, zero2, '0', '0', zero3);
    hex_edges(b, zero2, "123456789abcdefABCDEF", any1);
    hex_edges(b, zero3, "123456789abcdefABCDEF", to);
    any_hex(b, any3, any2);
    any_hex(b, any2, any1);
    any_hex(b, any1, to);
    hex_edges(b, d, "01234567", any2);
    hex_edges(b, d, "89abAB", high1);
    any_hex(b, high1, high2);
    uint32_t half = tt_builder_state(b), low = tt_builder_state(b);
    any_hex(b, high2, half);
    uint32_t u = tt_builder_text(b, half, "\\u", 2);
    hex_edges(b, u, "dD", low);
    hex_edges(b, low, "cdefCDEF", any2);
}

/* Edges of the place between characters after k characters of the word. */
static void string_edges(tt_builder *b, uint32_t from, const word *w, uint32_t k,
                         const uint32_t *between, const tt_multibyte *m, uint32_t escape,
                         uint32_t end)
{
    for (unsigned c = 0x20; c < 0x80; c++) {
        if (c == '"' || c == '\\')
            continue;
        uint32_t next = word_next(w, k, (char)c);
        if (w->n == 0 || next < w->n)
            tt_builder_edge(b, from, c, c, between[next]);
    }
    tt_builder_edge(b, from, '"', '"', end);
    tt_builder_edge(b, from, '\\', '\\', escape);
    tt_text_multibyte_from(b, from, m);
}

uint32_t tt_text_string(tt_builder *b, const char *forbidden)
{
    word w = word_of(forbidden);
    uint32_t between[MOST_WORD], n = w.n == 0 ? 1 : w.n;
    uint32_t entry = tt_builder_state(b), first = tt_builder_state(b), end = tt_builder_final(b);
    uint32_t escape = tt_builder_state(b), u = tt_builder_state(b);
    for (uint32_t k = 0; k < n; k++) {
        between[k] = tt_builder_state(b);
        tt_builder_guard(b, between[k], TT_GUARD_INC, 0);
    }
    tt_builder_guard(b, end, TT_GUARD_ENOUGH, 0);
    tt_builder_guard(b, escape, TT_GUARD_MORE, 0);
    tt_multibyte m = tt_text_multibyte(b, between[0], TT_GUARD_MORE);
    tt_builder_edge(b, entry, '"', '"', first);
    string_edges(b, first, &w, 0, between, &m, escape, end);
    for (uint32_t k = 0; k < n; k++)
        string_edges(b, between[k], &w, k, between, &m, escape, end);
    hex_edges(b, escape, "\"\\/bfnrt", between[0]);
    tt_builder_edge(b, escape, 'u', 'u', u);
    unicode_escape(b, u, between[0]);
    return entry;
}

uint32_t tt_text_key_rest(tt_builder *b)
{
    uint32_t between = tt_builder_state(b), escape = tt_builder_state(b);
    uint32_t end = tt_builder_final(b);
    word none = word_of(NULL);
    tt_multibyte m = tt_text_multibyte(b, between, TT_GUARD_NONE);
    string_edges(b, between, &none, 0, &between, &m, escape, end);
    hex_edges(b, escape, "\"\\bfnrt", between);
    return between;
}

/* ---- text up to something ---- */

uint32_t tt_text_until(tt_builder *b, const char *text, uint32_t found, bool may_end)
{
    word w = word_of(text);
    uint32_t between[MOST_WORD] = {0};
    for (uint32_t k = 0; k < w.n; k++) {
        between[k] = tt_builder_state(b);
        if (may_end)
            tt_builder_set_final(b, between[k]);
    }
    tt_multibyte m = tt_text_multibyte(b, between[0], TT_GUARD_NONE);
    for (uint32_t k = 0; k < w.n; k++) {
        for (unsigned c = 1; c < 0x80; c++) {
            uint32_t next = word_next(&w, k, (char)c);
            tt_builder_edge(b, between[k], c, c, next == w.n ? found : between[next]);
        }
        tt_text_multibyte_from(b, between[k], &m);
    }
    return between[0];
}

/* Raw text without a count: what has come of the tag is known together with whether a newline
 * stood in front of it. */
static uint32_t raw_free(tt_builder *b, const word *w, const char *not_first)
{
    uint32_t plain[MOST_WORD] = {0}, lined[MOST_WORD] = {0};
    uint32_t entry = tt_builder_state(b), end = tt_builder_final(b);
    for (uint32_t k = 0; k < w->n; k++) {
        plain[k] = tt_builder_state(b);
        lined[k] = tt_builder_state(b);
    }
    tt_multibyte m = tt_text_multibyte(b, plain[0], TT_GUARD_NONE);
    for (uint32_t i = 0; i <= 2 * w->n; i++) {
        uint32_t k = i / 2;
        bool line = i % 2;
        uint32_t from = i == 2 * w->n ? entry : line ? lined[k] : plain[k];
        if (from == entry) {
            k = 0;
            line = false;
        }
        for (unsigned c = 1; c < 0x80; c++) {
            uint32_t next = word_next(w, k, (char)c);
            uint32_t to = c == '\n'               ? lined[0]
                          : next == w->n          ? (line ? end : TT_NO_STATE)
                          : line && next == k + 1 ? lined[next]
                                                  : plain[next];
            if (to != TT_NO_STATE && (from != entry || strchr(not_first, (int)c) == NULL))
                tt_builder_edge(b, from, c, c, to);
        }
        tt_text_multibyte_from(b, from, &m);
    }
    return entry;
}

/* With a count a newline is either a character or the end: both are followed. */
static uint32_t raw_counted(tt_builder *b, const word *w, const char *not_first)
{
    uint32_t between[MOST_WORD] = {0};
    uint32_t entry = tt_builder_state(b), close = tt_builder_state(b), end = tt_builder_final(b);
    tt_builder_guard(b, close, TT_GUARD_ENOUGH, 0);
    tt_builder_text_to(b, close, w->text, w->n, end);
    for (uint32_t k = 0; k < w->n; k++) {
        between[k] = tt_builder_state(b);
        tt_builder_guard(b, between[k], TT_GUARD_INC, 0);
    }
    tt_multibyte m = tt_text_multibyte(b, between[0], TT_GUARD_MORE);
    for (uint32_t k = 0; k <= w->n; k++) {
        uint32_t from = k == w->n ? entry : between[k], have = k == w->n ? 0 : k;
        for (unsigned c = 1; c < 0x80; c++) {
            uint32_t next = word_next(w, have, (char)c);
            if (next < w->n && (from != entry || strchr(not_first, (int)c) == NULL))
                tt_builder_edge(b, from, c, c, between[next]);
        }
        tt_text_multibyte_from(b, from, &m);
        tt_builder_edge(b, from, '\n', '\n', close);
    }
    return entry;
}

uint32_t tt_text_raw(tt_builder *b, const char *tag, const char *not_first, bool counted)
{
    word w = word_of(tag);
    return counted ? raw_counted(b, &w, not_first) : raw_free(b, &w, not_first);
}

/* ---- beginnings ---- */

/* A call is for what has bytes: an empty document needs none. */
static uint32_t start_of(tt_builder *b, uint32_t entry, uint32_t param, uint32_t done)
{
    uint32_t s = tt_builder_state(b);
    tt_builder_call(b, s, entry, param, done);
    if (b->states[entry].final)
        tt_builder_set_final(b, s);
    return s;
}

tt_starts tt_text_starts(tt_builder *b, uint32_t entry, uint32_t param)
{
    tt_starts s;
    uint32_t done = tt_builder_final(b), after[3];
    s.plain = start_of(b, entry, param, done);
    /* Behind a thought templates put an empty line; less will do. */
    for (int i = 0; i < 3; i++) {
        after[i] = start_of(b, entry, param, done);
        if (i > 0)
            tt_builder_edge(b, after[i - 1], '\n', '\n', after[i]);
    }
    s.thought = tt_text_until(b, "</think>", after[0], false);
    s.free = start_of(b, entry, param, done);
    tt_builder_text_to(b, s.free, "<think>", 7, s.thought);
    return s;
}
