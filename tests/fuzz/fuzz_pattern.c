/* Compiles the input as a pattern: any text ends in an automaton or in an error that says
 * something. Where PCRE2 compiles it too, both take the same of many short texts of the pattern's
 * own characters; and so does a JSON string of a schema with that pattern, up to its greatest
 * length. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/compile.h"
#include "grammar/matcher.h"
#include "grammar/pattern.h"

#define TEXTS   200
#define LONGEST 7u
#define MOST    5u /* maxLength of the schema */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

/* Bytes of the character at p, 0 when it is none. */
static size_t char_len(const uint8_t *p, size_t n)
{
    size_t k = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    return k <= n ? k : 0;
}

/* Characters that texts are made of: the pattern's own and some others. Not those that mean
 * something else to PCRE2: line ends, and what is white space to one alone. */
static size_t alphabet(const uint8_t *data, size_t size, const char *out[64], size_t len[64])
{
    static const char others[] = "ab0_ -\303\251\360\237\230\200";
    size_t n = 0;
    for (int turn = 0; turn < 2; turn++) {
        const uint8_t *p = turn == 0 ? (const uint8_t *)others : data;
        size_t left = turn == 0 ? sizeof others - 1 : size;
        while (left > 0 && n < 64) {
            size_t k = char_len(p, left);
            if (k == 0)
                break;
            if (p[0] >= 0x20 && !(p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0)) &&
                !(p[0] >= 0xe1 && p[0] <= 0xe3) && p[0] != 0xef) {
                out[n] = (const char *)p;
                len[n++] = k;
            }
            p += k;
            left -= k;
        }
    }
    return n;
}

/* NULL: it is not for PCRE2, or means something else there. To ECMA-262 an empty class that is
 * repeated may be left out; PCRE2 10.42 has it fail all the same. */
static pcre2_code *reference(const char *pattern, size_t n)
{
    static const char *const others[] = {"[:", "[.",  "[=",  "\\c", "(*",  "\\x", "\\0",
                                         "{,", "\\s", "\\S", "]]",  "[]*", "[]?", "[]{"};
    int fault;
    size_t at;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (memmem(pattern, n, others[i], strlen(others[i])) != NULL)
            return NULL;
    pcre2_compile_context *ctx = pcre2_compile_context_create(NULL);
    pcre2_set_newline(ctx, PCRE2_NEWLINE_ANYCRLF);
    pcre2_set_compile_extra_options(ctx, PCRE2_EXTRA_ALT_BSUX);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, n,
                      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX |
                          PCRE2_NEVER_BACKSLASH_C | PCRE2_MATCH_UNSET_BACKREF,
                      &fault, &at, ctx);
    pcre2_compile_context_free(ctx);
    return code;
}

/* 1, 0, or -1 when it gave up. */
static int matches(const pcre2_code *code, const char *text, size_t n)
{
    pcre2_match_data *m = pcre2_match_data_create(1, NULL);
    int rc = pcre2_match(code, (PCRE2_SPTR)text, n, 0, 0, m, NULL);
    pcre2_match_data_free(m);
    return rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

/* {"type": "string", "pattern": ..., "maxLength": MOST}, if it compiles. */
static bool schema_of(const char *pattern, size_t n, tt_automaton *out)
{
    json_t *text = json_stringn(pattern, n);
    json_t *v = text == NULL ? NULL
                             : json_pack("{s:s, s:o, s:i}", "type", "string", "pattern", text,
                                         "maxLength", (int)MOST);
    char *s = v == NULL ? NULL : json_dumps(v, JSON_COMPACT);
    json_decref(v);
    bool ok = s != NULL && tt_compile_schema(s, strlen(s), true, NULL, out, NULL) == TT_OK;
    free(s);
    return ok;
}

static bool takes(tt_gmatcher *t, const char *text, size_t n)
{
    json_t *v = json_stringn(text, n);
    char *s = v == NULL ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    check(s != NULL);
    tt_gmatcher_reset(t, t->m->starts.plain);
    bool ok = tt_gmatcher_push(t, s, strlen(s)) == strlen(s) && tt_gmatcher_complete(t);
    json_decref(v);
    free(s);
    return ok;
}

static void compare(const tt_dfa *d, const char *pattern, size_t size, uint64_t seed)
{
    const char *chars[64];
    size_t len[64], n = alphabet((const uint8_t *)pattern, size, chars, len);
    pcre2_code *code = reference(pattern, size);
    tt_automaton m = {0};
    tt_gmatcher t = {0};
    bool schema = schema_of(pattern, size, &m);
    check(!schema || tt_gmatcher_init(&t, &m, m.starts.plain, NULL) == TT_OK);
    for (int i = 0; i < TEXTS; i++) {
        char text[4 * LONGEST];
        size_t at = 0, count = chance(&seed, LONGEST + 1);
        for (size_t k = 0; k < count; k++) {
            uint32_t c = chance(&seed, (uint32_t)n);
            memcpy(text + at, chars[c], len[c]);
            at += len[c];
        }
        bool ok = tt_dfa_accepts(d, text, at);
        int other = code != NULL ? matches(code, text, at) : -1;
        check(other < 0 || ok == (other == 1));
        check(!schema || takes(&t, text, at) == (ok && count <= MOST));
    }
    pcre2_code_free(code);
    tt_gmatcher_free(&t);
    tt_automaton_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_builder b;
    tt_dfa d = {0};
    tt_error err = {0};
    uint64_t seed = size;
    json_t *text = json_stringn((const char *)data, size);
    if (text == NULL) /* patterns come out of JSON, which is valid UTF-8 */
        return 0;
    json_decref(text);
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ data[i]) * 1099511628211u;
    tt_builder_init(&b);
    if (tt_pattern_dfa(&b, (const char *)data, size, &d, &err) == TT_OK)
        compare(&d, (const char *)data, size, seed);
    else
        check(err.message[0] != '\0');
    tt_dfa_free(&d);
    tt_builder_free(&b);
    return 0;
}
