/* Compiles the input as a JSON Schema, its first byte saying whether strictly: any text ends in an
 * automaton within its limits or in an error. A walk through the automaton then takes a few tokens
 * of a small vocabulary; at each step a mask has the bit of an id if and only if the id's bytes may
 * follow, there is a way on or the document may end, and what may end is JSON. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/compile.h"
#include "grammar/mask.h"

#define VOCAB 700u /* bytes and the shortest of the other tokens */
#define STEPS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tt_tokenizer *tok;
static tt_lexicon *lexicon;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static uint32_t chance(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % below);
}

static const char *piece(uint32_t id, size_t *len)
{
    bool special = false;
    const char *bytes = tt_tokenizer_piece(tok, id, len, &special);
    return special ? NULL : bytes;
}

static void is_json(const tt_buf *text)
{
    json_error_t fault;
    json_t *v = json_loadb(text->len > 0 ? text->data : "", text->len,
                           JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &fault);
    check(v != NULL);
    json_decref(v);
}

/* Which ids may follow, by trying each; one of them, or VOCAB when there is none. */
static uint32_t try_all(const tt_gmatcher *at, tt_gmatcher *trial, const uint64_t *mask,
                        uint64_t *seed)
{
    uint32_t chosen = VOCAB, n = 0;
    for (uint32_t id = 0; id < VOCAB; id++) {
        size_t len = 0;
        const char *bytes = piece(id, &len);
        if (bytes == NULL || len == 0)
            continue;
        tt_gmatcher_copy(trial, at);
        bool ok = tt_gmatcher_push(trial, bytes, len) == len;
        check(ok == tt_mask_has(mask, id));
        if (ok && chance(seed, ++n) == 0)
            chosen = id;
    }
    return chosen;
}

static void walk(const tt_automaton *m, uint64_t seed)
{
    static uint64_t grammar;
    tt_gmatcher at = {0}, trial = {0};
    tt_walker walker = {0};
    tt_buf text;
    uint64_t mask[(VOCAB + 63) / 64];
    tt_buf_init(&text, 1 << 20);
    check(tt_gmatcher_init(&at, m, m->starts.plain, NULL) == TT_OK);
    check(tt_gmatcher_init(&trial, m, m->starts.plain, NULL) == TT_OK);
    check(tt_walker_init(&walker, lexicon, NULL) == TT_OK);
    grammar++;
    for (int i = 0; i < STEPS; i++) {
        size_t len = 0;
        check(tt_gmatcher_complete(&at) || tt_gmatcher_goes_on(&at));
        if (tt_gmatcher_complete(&at))
            is_json(&text);
        memset(mask, 0, sizeof mask);
        tt_walker_mask(&walker, lexicon, grammar, &at, mask);
        uint32_t id = try_all(&at, &trial, mask, &seed);
        if (id == VOCAB) {
            check(!tt_gmatcher_goes_on(&at));
            break;
        }
        const char *bytes = piece(id, &len);
        check(tt_gmatcher_push(&at, bytes, len) == len);
        tt_buf_append(&text, bytes, len);
    }
    tt_buf_free(&text);
    tt_walker_free(&walker);
    tt_gmatcher_free(&at);
    tt_gmatcher_free(&trial);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (tok == NULL) {
        check(tt_tokenizer_open("models/tales", &tok, NULL) == TT_OK);
        check(tt_lexicon_create(tok, VOCAB, &lexicon, NULL) == TT_OK);
    }
    tt_automaton m = {0};
    tt_error err = {0};
    bool strict = !(data[0] & 1);
    json_t *relaxed = strict ? NULL : json_array();
    uint64_t seed = data[0];
    for (size_t i = 1; i < size; i++)
        seed = (seed ^ data[i]) * 1099511628211u;
    tt_status st = tt_compile_schema((const char *)data + 1, size - 1, strict, relaxed, &m, &err);
    if (st == TT_OK) {
        check(m.n_states <= 2 * TT_AUTOMATON_STATES && m.n_edges <= TT_AUTOMATON_EDGES);
        walk(&m, seed);
    } else {
        check(err.message[0] != '\0');
    }
    tt_automaton_free(&m);
    json_decref(relaxed);
    return 0;
}
