#include "support/grammar_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

tt_automaton automaton_of_ebnf(const char *text)
{
    tt_automaton m = {0};
    tt_error err = {0};
    if (tt_compile_ebnf(text, strlen(text), &m, &err) != TT_OK)
        fail_msg("%s: %s", text, err.message);
    return m;
}

tt_automaton automaton_of_schema(const char *json)
{
    tt_automaton m = {0};
    tt_error err = {0};
    if (tt_compile_schema(json, strlen(json), true, NULL, &m, &err) != TT_OK)
        fail_msg("%s: %s", json, err.message);
    return m;
}

tt_automaton automaton_of_tools(const char *json, bool required)
{
    tt_automaton m = {0};
    tt_error err = {0};
    tt_call_choice choice = {.required = required, .several = true};
    if (tt_compile_tools(json, strlen(json), &choice, NULL, NULL, &m, &err) != TT_OK)
        fail_msg("%s: %s", json, err.message);
    return m;
}

tt_gmatcher matcher_at(const tt_automaton *m, uint32_t start)
{
    tt_gmatcher t = {0};
    tt_error err = {0};
    if (tt_gmatcher_init(&t, m, start, &err) != TT_OK)
        fail_msg("%s", err.message);
    return t;
}

bool automaton_takes(const tt_automaton *m, const char *text, size_t n)
{
    tt_gmatcher t = matcher_at(m, m->starts.plain);
    bool ok = tt_gmatcher_push(&t, text, n) == n && tt_gmatcher_complete(&t);
    tt_gmatcher_free(&t);
    return ok;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 1099511628211u;
    return h ^ h >> 29;
}

uint64_t matcher_place(const tt_gmatcher *t)
{
    uint64_t h = 14695981039346656037u;
    for (uint32_t i = 0; i < t->tops.n; i++) {
        const tt_frame *f = &t->tops.v[i];
        for (;;) {
            h = mix(mix(mix(h, f->state), f->number), f->param);
            if (f->parent == TT_NO_STATE)
                break;
            f = &t->frames.v[f->parent];
        }
        h = mix(h, UINT64_MAX);
    }
    return h;
}

const char *shown(const char *text, size_t n)
{
    static char out[4][512];
    static unsigned turn;
    char *o = out[turn++ % 4];
    size_t k = 0;
    for (size_t i = 0; i < n && k + 8 < sizeof out[0]; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c >= 0x20 && c < 0x7f)
            o[k++] = (char)c;
        else
            k += (size_t)snprintf(o + k, 8, "\\x%02x", c);
    }
    o[k] = '\0';
    return o;
}

static uint64_t noise_state = 1;

void grammar_noise_seed(uint64_t seed)
{
    noise_state = seed;
}

uint32_t grammar_noise(uint32_t below)
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(noise_state >> 33) % below;
}
