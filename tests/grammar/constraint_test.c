/* Proves that a mask has the bit of an id if and only if the id's bytes may follow, by trying every
 * id of a vocabulary at every step of random walks; that masks from the memo are those of a
 * constraint that never saw another place; that what a walk ends with is a document; and where
 * thoughts, special tokens and ids beyond the vocabulary may come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "support/tempdir.h"
#include "tinytitan/tinytitan.h"

#define STEPS 80u

static tt_tokenizer *tok;
static tt_lexicon *lexicon;
static uint32_t vocab;

static int open_all(void **state)
{
    tt_error err = {0};
    if (tt_tokenizer_open("models/tales", &tok, &err) != TT_OK)
        return -1;
    vocab = tt_tokenizer_vocab_size(tok);
    return tt_lexicon_create(tok, vocab, &lexicon, &err) == TT_OK ? 0 : -1;
}

static int close_all(void **state)
{
    tt_lexicon_close(&lexicon);
    tt_tokenizer_close(&tok);
    return 0;
}

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":5},"
    "\"age\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":120}},\"required\":[\"age\"],"
    "\"additionalProperties\":false}",
    "{\"anyOf\":[{\"type\":\"string\",\"minLength\":3,\"maxLength\":17},{\"const\":\"a b\"},"
    "{\"type\":\"null\"}]}",
    "{\"type\":\"array\",\"items\":{\"enum\":[\"the\",\"then\",1,null,true]},\"minItems\":2,"
    "\"maxItems\":5}",
    "{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"},\"day\":{\"type\":\"string\","
    "\"format\":\"date\"}},\"required\":[\"day\"]}",
    "{\"type\":\"string\",\"pattern\":\"^[a-c]+ (the|of)$\"}",
    "{}",
    /* What masks take as a whole: classes that loop, chains of any characters, both with a count,
     * characters that are begun in one token and ended in another. */
    "{\"type\":\"string\",\"pattern\":\"^[a-z ]*$\"}",
    "{\"type\":\"string\",\"pattern\":\"^[a-zA-Z]*$\",\"maxLength\":9}",
    "{\"type\":\"string\",\"pattern\":\"^.{1,6}$\"}",
    "{\"type\":\"string\",\"pattern\":\"^\\\\S*$\",\"maxLength\":40}",
    "{\"type\":\"string\",\"pattern\":\"^[^a\\u00e9\\u6f22]{2,30}$\"}",
    "{\"type\":\"string\",\"pattern\":\"^[\\u0080-\\uffff]{1,8}$\",\"minLength\":2}",
    "{\"type\":\"string\",\"pattern\":\"the$\",\"maxLength\":20}",
    "{\"type\":\"string\",\"minLength\":1,\"maxLength\":3}",
    "{\"type\":\"string\",\"minLength\":6}",
    "{\"type\":\"string\",\"minLength\":30,\"maxLength\":42}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[^a-z]+$\"},\"maxItems\":3}",
};
#define N_SCHEMAS (sizeof schemas / sizeof schemas[0])

static tt_grammar *schema_of(const char *text)
{
    tt_grammar *g = NULL;
    tt_error err = {0};
    if (tt_grammar_from_schema(text, strlen(text), &g, &err) != TT_OK)
        fail_msg("%s: %s", text, err.message);
    return g;
}

static tt_constraint *begin(const tt_grammar *g, tt_constraint_start start)
{
    tt_constraint *c = NULL;
    tt_error err = {0};
    if (tt_constraint_create(g, lexicon, start, &c, &err) != TT_OK)
        fail_msg("%s", err.message);
    return c;
}

static bool has(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> id % 64 & 1;
}

static uint32_t byte_id(char c)
{
    for (uint32_t id = 0; id < vocab; id++) {
        size_t len = 0;
        bool special = false;
        const char *bytes = tt_tokenizer_piece(tok, id, &len, &special);
        if (bytes != NULL && len == 1 && *bytes == c && !special)
            return id;
    }
    return vocab;
}

static uint32_t chance(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % below);
}

/* One of the ids of a mask. */
static uint32_t pick(uint64_t *state, const uint64_t *mask)
{
    uint32_t n = 0, id = 0;
    for (uint32_t i = 0; i < vocab; i++)
        n += has(mask, i);
    assert_true(n > 0); /* no answer is led to where nothing may follow */
    for (uint32_t k = n > 0 ? chance(state, n) : 0; id < vocab; id++)
        if (has(mask, id) && k-- == 0)
            break;
    return id;
}

/* Whether every bit of `mask` is what trying the id says. */
static void try_all(const tt_constraint *at, tt_constraint *trial, const uint64_t *mask)
{
    tt_error err = {0};
    for (uint32_t id = 0; id < vocab; id++) {
        assert_int_equal(tt_constraint_copy(trial, at, &err), TT_OK);
        bool ok = tt_constraint_accept(trial, id, &err) == TT_OK;
        if (ok != has(mask, id))
            fail_msg("id %u: tried %d, mask %d", id, ok, has(mask, id));
    }
}

/* A walk from a seed; the text of what was said into `text`. True when it came to its end. */
static bool walk(const tt_grammar *g, uint64_t seed, tt_buf *text)
{
    tt_constraint *c = begin(g, TT_START_ANSWER), *trial = begin(g, TT_START_ANSWER);
    tt_constraint *fresh = NULL;
    tt_error err = {0};
    const uint64_t *mask, *other;
    uint32_t said[STEPS], n = 0;
    while (n < STEPS && tt_constraint_where(c) != TT_PLACE_OVER) {
        assert_int_equal(tt_constraint_mask(c, &mask, &err), TT_OK);
        try_all(c, trial, mask);
        uint32_t id = pick(&seed, mask);
        size_t len;
        bool special;
        const char *bytes = tt_tokenizer_piece(tok, id, &len, &special);
        assert_int_equal(tt_constraint_accept(c, id, &err), TT_OK);
        if (!special)
            tt_buf_append(text, bytes, len);
        said[n++] = id;
    }
    /* The same way again, by one that has no mask of these places yet. */
    fresh = begin(g, TT_START_ANSWER);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(tt_constraint_mask(fresh, &other, &err), TT_OK);
        assert_true(has(other, said[i]));
        assert_int_equal(tt_constraint_accept(fresh, said[i], &err), TT_OK);
    }
    bool over = tt_constraint_where(c) == TT_PLACE_OVER;
    assert_int_equal(tt_constraint_where(fresh), tt_constraint_where(c));
    tt_constraint_close(&c);
    tt_constraint_close(&trial);
    tt_constraint_close(&fresh);
    return over;
}

static void masks_are_what_trying_says(void **state)
{
    unsigned ended = 0;
    for (size_t i = 0; i < N_SCHEMAS; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            tt_grammar *g = schema_of(schemas[i]);
            tt_buf text;
            tt_buf_init(&text, 1 << 20);
            bool over = walk(g, seed * 77 + i, &text);
            json_error_t fault;
            json_t *v = json_loadb(text.data, text.len, JSON_DECODE_ANY, &fault);
            if (over && v == NULL)
                fail_msg("%.*s: %s", (int)text.len, text.data, fault.text);
            ended += over;
            json_decref(v);
            tt_buf_free(&text);
            tt_grammar_close(&g);
        }
    assert_true(ended >= 6);
}

/* ---- a vocabulary made for it ---- */

/* Bytes as tokenizer.json writes them: what prints as itself, the others from U+0100 on. */
static void put_token(tt_buf *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t c = (uint8_t)bytes[i], other = 0;
        for (uint32_t b = 0; b <= c; b++)
            other += b <= 32 || (b >= 127 && b <= 160) || b == 173;
        if (c <= 32 || (c >= 127 && c <= 160) || c == 173)
            c = 255 + other;
        if (c < 0x80) {
            tt_buf_putc(out, (char)c);
        } else {
            tt_buf_putc(out, (char)(0xc0 | c >> 6));
            tt_buf_putc(out, (char)(0x80 | (c & 0x3f)));
        }
    }
}

/* Characters of every width, whole ones, parts of some and several in a row; white space of all
 * kinds; runs longer than any set by length; what ends and begins strings. */
static const char *const tokens[] = {
    "ab",
    "abc",
    "the",
    " the",
    "  ",
    "    ",
    "a b",
    "A",
    "Ab1",
    "12",
    "123",
    "-1",
    "1.5",
    "_a-",
    "!!",
    "...",
    "\303\251",
    "\303\251\303\251",
    "a\303\251",
    "\303\251a\303\251\303\251",
    "\346\274\242",
    "\346\274\242\345\255\227",
    "\346\274\242\345\255\227\346\274\242",
    "\346\274",
    "\274\242",
    "\242a",
    "\242\346\274\242",
    "\360\237\230\200",
    "\360\237\230\200\360\237\230\200",
    "\360\237",
    "\360\237\230",
    "\230\200",
    "\200",
    "\200\200\200",
    "\302\240",
    "a\302\240b",
    "\343\200\200",
    "\343\200\201",
    "\342\200\250",
    "\342\200\246",
    "\355\237\277",
    "\355\240\200",
    "\364\217\277\277",
    "\364\220",
    "\n",
    "\n\n",
    "\t",
    "a\n",
    "\\n",
    "\\u00",
    "e9",
    "\\u00e9",
    "\\\"",
    "\\\\",
    "\"",
    "a\"",
    "\"a",
    "\",\"",
    "\":",
    "\":\"",
    "\"}",
    "}}",
    "[\"",
    "\"]",
    "{\"",
    "],[",
    "null",
    "true",
    "<",
    "</",
    "</parameter",
    "</parameter>",
    ">\n",
    "ing",
    "org",
    ".org",
    "zzz",
    "(",
    ")",
    "((",
};

static tt_tokenizer *made_tokenizer(const char *dir)
{
    json_error_t fault;
    json_t *file = json_load_file("models/tales/tokenizer.json", 0, &fault), *all = json_object();
    json_t *model = json_object_get(file, "model");
    static const uint32_t runs[] = {17, 18, 20, 33, 40, 64, 200, 255, 256};
    size_t n_tokens = sizeof tokens / sizeof *tokens, n_runs = sizeof runs / sizeof *runs;
    assert_non_null(file);
    for (uint32_t id = 0; id < 256 + n_tokens + 2 * n_runs; id++) {
        tt_buf raw, text;
        tt_buf_init(&raw, 1024);
        tt_buf_init(&text, 4096);
        uint32_t k = id - 256;
        if (id < 256)
            tt_buf_putc(&raw, (char)id);
        else if (k < n_tokens)
            tt_buf_puts(&raw, tokens[k]);
        else
            for (uint32_t i = 0; i < runs[(k - n_tokens) / 2]; i++)
                tt_buf_putc(&raw, (k - n_tokens) % 2 ? 'a' : ' ');
        put_token(&text, raw.data, raw.len);
        if (json_object_get(all, text.data) == NULL)
            json_object_setn_new(all, text.data, text.len, json_integer(id));
        tt_buf_free(&raw);
        tt_buf_free(&text);
    }
    json_object_set_new(model, "vocab", all);
    json_object_set_new(model, "merges", json_array());
    char path[600], *written = json_dumps(file, JSON_COMPACT);
    assert_non_null(written);
    tempdir_file(dir, "tokenizer.json", written, strlen(written), path);
    free(written);
    json_decref(file);
    tt_tokenizer *made = NULL;
    tt_error err = {0};
    if (tt_tokenizer_open(dir, &made, &err) != TT_OK)
        fail_msg("%s", err.message);
    return made;
}

static const char *const grammars[] = {
    "root ::= word (\" \" word){1,3}\nword ::= [a-z]{1,5}",
    "root ::= (a b)+ \"!\"\na ::= [a-m]+\nb ::= [k-z ]*",
    "root ::= item{1,3}\nitem ::= \"(\" item? \")\" | text\ntext ::= [^()]{1,4}",
    "root ::= line+\nline ::= [^\\n]* \"\\n\"",
    "root ::= [^a]{1,300}",
};

/* Walks through all schemas and grammars. */
static void walk_all(uint64_t rounds)
{
    for (size_t i = 0; i < N_SCHEMAS + sizeof grammars / sizeof *grammars; i++)
        for (uint64_t seed = 1; seed <= rounds; seed++) {
            tt_grammar *g = NULL;
            tt_error err = {0};
            tt_buf text;
            tt_buf_init(&text, 1 << 20);
            const char *ebnf = i < N_SCHEMAS ? NULL : grammars[i - N_SCHEMAS];
            if (ebnf == NULL)
                g = schema_of(schemas[i]);
            else if (tt_grammar_from_ebnf(ebnf, strlen(ebnf), &g, &err) != TT_OK)
                fail_msg("%s: %s", ebnf, err.message);
            (void)walk(g, seed * 31 + i, &text);
            tt_buf_free(&text);
            tt_grammar_close(&g);
        }
}

static void masks_of_a_vocabulary_made_for_it(void **state)
{
    char dir[512];
    tempdir_make(dir);
    tt_tokenizer *shipped = tok;
    tt_lexicon *of_shipped = lexicon;
    uint32_t shipped_vocab = vocab;
    tok = made_tokenizer(dir);
    vocab = 256 + sizeof tokens / sizeof *tokens + 18;
    assert_int_equal(tt_lexicon_create(tok, vocab, &lexicon, NULL), TT_OK);
    walk_all(12);
    tt_lexicon_close(&lexicon);
    tt_tokenizer_close(&tok);
    tok = shipped;
    lexicon = of_shipped;
    vocab = shipped_vocab;
    tempdir_remove(dir);
}

/* With rules that may end here or go on, and something behind them that begins as they go on. */
static void masks_of_grammars_by_hand(void **state)
{
    walk_all(2);
}

/* Near the greatest depth a text may begin only with what can still be ended. */
static void masks_at_the_greatest_depth(void **state)
{
    static const char text[] =
        "root ::= \"(\" root \")\" | \"x\" ([a-z]{4} deep)? | \"y\" [a-z]{2,4}\n"
        "deep ::= \"<\" deeper \">\"\ndeeper ::= \"-\" deepest \"-\"\n"
        "deepest ::= \"z\"";
    tt_grammar *g = NULL;
    tt_error err = {0};
    const uint64_t *mask;
    if (tt_grammar_from_ebnf(text, sizeof text - 1, &g, &err) != TT_OK)
        fail_msg("%s", err.message);
    for (int depth = 55; depth <= 64; depth++)
        for (int i = 0; i < 3; i++) {
            tt_constraint *c = begin(g, TT_START_ANSWER), *trial = begin(g, TT_START_ANSWER);
            bool ok = true;
            for (int k = 0; k < depth; k++)
                ok = ok && tt_constraint_accept(c, byte_id('('), &err) == TT_OK;
            if (i > 0)
                ok = ok && tt_constraint_accept(c, byte_id(i == 1 ? 'x' : 'y'), &err) == TT_OK;
            if (ok) {
                assert_int_equal(tt_constraint_mask(c, &mask, &err), TT_OK);
                try_all(c, trial, mask);
            }
            tt_constraint_close(&c);
            tt_constraint_close(&trial);
        }
    tt_grammar_close(&g);
}

static void grammars_by_hand_name_special_tokens(void **state)
{
    static const char text[] = "root ::= [a-z]{1,4} (@\"<|im_end|>\" \"x\")?";
    tt_grammar *g = NULL;
    tt_error err = {0};
    tt_buf said;
    const uint64_t *mask;
    assert_int_equal(tt_grammar_from_ebnf(text, sizeof text - 1, &g, &err), TT_OK);
    tt_buf_init(&said, 1 << 16);
    for (uint64_t seed = 1; seed <= 4; seed++)
        (void)walk(g, seed, &said);
    tt_constraint *c = begin(g, TT_START_ANSWER);
    int64_t end = tt_tokenizer_special_id(tok, "<|im_end|>");
    int64_t other = tt_tokenizer_special_id(tok, "<|im_start|>");
    assert_true(end >= 0 && other >= 0);
    assert_int_equal(tt_constraint_mask(c, &mask, &err), TT_OK);
    assert_false(has(mask, (uint32_t)end) || has(mask, (uint32_t)other));
    assert_int_equal(tt_constraint_accept(c, (uint32_t)other, &err), TT_ERR_INVALID);
    tt_constraint_close(&c);
    tt_buf_free(&said);
    tt_grammar_close(&g);
}

static void thoughts_come_where_they_may(void **state)
{
    tt_grammar *g = schema_of(schemas[0]);
    tt_error err = {0};
    const uint64_t *mask;
    int64_t think = tt_tokenizer_special_id(tok, "<think>");
    assert_true(think >= 0);
    tt_constraint *answer = begin(g, TT_START_ANSWER), *may = begin(g, TT_START_MAY_THINK);
    assert_int_equal(tt_constraint_mask(answer, &mask, &err), TT_OK);
    assert_false(has(mask, (uint32_t)think));
    assert_int_equal(tt_constraint_mask(may, &mask, &err), TT_OK);
    assert_true(has(mask, (uint32_t)think));
    /* Inside a thought the grammar says nothing yet. */
    assert_int_equal(tt_constraint_accept(may, (uint32_t)think, &err), TT_OK);
    assert_int_equal(tt_constraint_where(may), TT_PLACE_OPEN);
    tt_constraint_close(&answer);
    tt_constraint_close(&may);
    tt_grammar_close(&g);
}

static void ids_beyond_the_vocabulary_are_refused(void **state)
{
    tt_grammar *g = schema_of("{}");
    tt_lexicon *small = NULL;
    tt_constraint *c = NULL;
    tt_error err = {0};
    const uint64_t *mask;
    uint32_t past = vocab;
    assert_int_equal(tt_lexicon_create(tok, 400, &small, &err), TT_OK);
    assert_int_equal(tt_constraint_create(g, small, TT_START_ANSWER, &c, &err), TT_OK);
    /* One that the larger vocabulary would allow. */
    tt_constraint *large = begin(g, TT_START_ANSWER);
    assert_int_equal(tt_constraint_mask(large, &mask, &err), TT_OK);
    for (uint32_t id = 400; id < vocab; id++)
        past = has(mask, id) ? id : past;
    assert_true(past < vocab);
    assert_int_equal(tt_constraint_accept(c, past, &err), TT_ERR_INVALID);
    assert_int_equal(tt_constraint_accept(large, past, &err), TT_OK);
    tt_constraint_close(&c);
    tt_constraint_close(&large);
    tt_lexicon_close(&small);
    tt_grammar_close(&g);
}

/* Calls of a tool, and nothing else. */
static void calls_are_forced(void **state)
{
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"at\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},"
        "\"required\":[\"at\"],\"additionalProperties\":false}}}]";
    const tt_tool_choice choice = {.mode = TT_TOOLS_REQUIRED, .one_call = true};
    tt_grammar *g = NULL;
    tt_error err = {0};
    unsigned ended = 0;
    assert_int_equal(tt_grammar_from_tools(tools, &choice, &g, &err), TT_OK);
    assert_string_equal(tt_grammar_relaxed(g), "[]");
    for (uint64_t seed = 1; seed <= 6; seed++) {
        tt_buf text;
        tt_buf_init(&text, 1 << 16);
        bool over = walk(g, seed, &text);
        tt_buf_putc(&text, '\0');
        if (over && (strstr(text.data, "<function=look>") == NULL ||
                     strstr(text.data, "<parameter=at>") == NULL))
            fail_msg("%s", text.data);
        ended += over;
        tt_buf_free(&text);
    }
    assert_true(ended > 0);
    tt_grammar_close(&g);
    const tt_tool_choice none = {.names = (const char *const[]){"other"}, .n_names = 1};
    assert_int_equal(tt_grammar_from_tools(tools, &none, &g, &err), TT_ERR_NOT_FOUND);
}

/* Whether the whole text is an answer. */
static bool takes(const tt_grammar *g, tt_constraint_start start, const char *text)
{
    tt_constraint *c = begin(g, start);
    tt_error err = {0};
    uint32_t *ids = NULL;
    size_t n = 0;
    bool ok = true;
    assert_int_equal(tt_tokenizer_encode(tok, text, strlen(text), true, &ids, &n, &err), TT_OK);
    for (size_t i = 0; ok && i < n; i++)
        ok = tt_constraint_accept(c, ids[i], &err) == TT_OK;
    ok = ok && tt_constraint_where(c) != TT_PLACE_OPEN;
    tt_free(ids);
    tt_constraint_close(&c);
    return ok;
}

#define TOO_LONG                                                                                   \
    "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"string\",\"format\":\"uuid\","        \
    "\"maxLength\":35}},\"required\":[\"at\"]}"
#define NO_NUMBER                                                                                  \
    "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"integer\",\"minimum\":2,\"maximum\":" \
    "1}},\"required\":[\"at\"]}"
#define NO_TAG                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"a<b\":{\"type\":\"string\"}},\"required\":[\"a<b\"]}"
#define ENDLESS                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"at\":{\"$ref\":\"#\"}},\"required\":[\"at\"]}"
#define NO_OBJECT "{\"type\":\"string\"}"
#define NEVER     "{\"type\":\"object\",\"properties\":{\"at\":false},\"required\":[\"at\"]}"

/* A strict tool that nothing satisfies is refused by its name whether a call is demanded or not,
 * before one is begun. Any other takes any parameters instead, is written down, and its neighbours
 * stay as they are. */
static void tools_that_nothing_satisfies(void **state)
{
    static const char *const schemas_of[] = {TOO_LONG, NO_NUMBER, NO_TAG,
                                             ENDLESS,  NO_OBJECT, NEVER};
    static const char call[] = "<tool_call>\n<function=look>\n<parameter=any>\nx\n</parameter>\n"
                               "</function>\n</tool_call>";
    static const char good[] = "<tool_call>\n<function=see>\n<parameter=at>\n7\n</parameter>\n"
                               "</function>\n</tool_call>";
    static const char bad[] = "<tool_call>\n<function=see>\n<parameter=at>\nx\n</parameter>\n"
                              "</function>\n</tool_call>";
    char tools[1024];
    for (size_t i = 0; i < 2 * sizeof schemas_of / sizeof schemas_of[0]; i++) {
        const tt_tool_choice choice = {.mode = i % 2 ? TT_TOOLS_REQUIRED : TT_TOOLS_AUTO};
        tt_grammar *g = NULL;
        tt_error err = {0};
        for (int strict = 0; strict < 2; strict++) {
            snprintf(tools, sizeof tools,
                     "[{\"name\":\"see\",\"strict\":true,\"parameters\":{\"type\":\"object\","
                     "\"properties\":{\"at\":{\"type\":\"integer\"}},\"required\":[\"at\"]}},"
                     "{\"name\":\"look\",\"strict\":%s,\"parameters\":%s}]",
                     strict ? "true" : "false", schemas_of[i / 2]);
            tt_status st = tt_grammar_from_tools(tools, &choice, &g, &err);
            if (st != (strict ? TT_ERR_INVALID : TT_OK))
                fail_msg("%s, %d: %d", schemas_of[i / 2], strict, st);
            if (strict) {
                assert_memory_equal(err.message, "look: ", 6);
                continue;
            }
            assert_non_null(strstr(tt_grammar_relaxed(g), "[{\"name\":\"look\",\"pointer\":\"#\""));
            assert_null(strstr(tt_grammar_relaxed(g), "\"see\""));
            assert_true(takes(g, TT_START_ANSWER, call));
            assert_true(takes(g, TT_START_ANSWER, good));
            assert_false(takes(g, TT_START_ANSWER, bad));
            tt_grammar_close(&g);
        }
        /* One that may not be called does not matter. */
        const tt_tool_choice other = {
            .mode = choice.mode, .names = (const char *const[]){"see"}, .n_names = 1};
        assert_int_equal(tt_grammar_from_tools(tools, &other, &g, &err), TT_OK);
        tt_grammar_close(&g);
    }
}

static void a_document_may_stand_in_for_calls(void **state)
{
    static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"look\"}}]";
    static const char call[] = "<tool_call>\n<function=look>\n</function>\n</tool_call>";
    tt_tool_choice choice = {.mode = TT_TOOLS_REQUIRED, .document = schemas[0]};
    tt_grammar *g = NULL;
    tt_error err = {0};
    assert_int_equal(tt_grammar_from_tools(tools, &choice, &g, &err), TT_OK);
    for (int start = TT_START_ANSWER; start <= TT_START_MAY_THINK; start++) {
        const char *before = start == TT_START_THOUGHT ? "hm</think>\n\n" : "";
        static const struct {
            const char *text;
            bool may;
        } rows[] = {{"{\"age\":7}", true},
                    {"{ \"age\": 120 }", true},
                    {"{\"age\":6}", false},
                    {"{\"age\":7", false},
                    {"{}", false},
                    {"look", false},
                    {"{\"age\":7}\nx", false},
                    {"", false}};
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char text[256];
            snprintf(text, sizeof text, "%s%s", before, rows[i].text);
            if (takes(g, (tt_constraint_start)start, text) != rows[i].may)
                fail_msg("from %d: %s", start, text);
        }
        char text[256];
        snprintf(text, sizeof text, "%s%s", before, call);
        assert_true(takes(g, (tt_constraint_start)start, text));
        strcat(text, "{\"age\":7}");
        assert_false(takes(g, (tt_constraint_start)start, text));
    }
    tt_grammar_close(&g);
    choice.document = "{\"not\":{}}";
    assert_int_equal(tt_grammar_from_tools(tools, &choice, &g, &err), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "#/not"));
    choice.document = "7";
    assert_int_equal(tt_grammar_from_tools(tools, &choice, &g, &err), TT_ERR_INVALID);
    choice = (tt_tool_choice){.mode = TT_TOOLS_AUTO, .document = "{}"};
    assert_int_equal(tt_grammar_from_tools(tools, &choice, &g, &err), TT_ERR_INVALID);
}

/* 512 tools whose text may be absent are not too many, and what one of them built before it turned
 * out to be too large is not missed by the others. */
static void tools_share_what_they_can(void **state)
{
    static const char call[] = "<tool_call>\n<function=f510>\n<parameter=a>\nx\n</parameter>\n"
                               "</function>\n</tool_call>";
    static const char maybe[] = "{\"type\":[\"string\",\"null\",\"integer\"]}";
    tt_grammar *g = NULL;
    tt_error err = {0};
    tt_buf tools;
    tt_buf_init(&tools, 1 << 20);
    tt_buf_printf(&tools,
                  "[{\"name\":\"large\",\"parameters\":{\"type\":\"object\",\"properties\":{"
                  "\"a\":%s,\"b\":{\"enum\":[",
                  maybe);
    for (uint64_t i = 0, dice = 1; i < 1300; i++) {
        tt_buf_puts(&tools, i > 0 ? ",\"" : "\"");
        for (unsigned k = 0; k < 90; k++)
            tt_buf_putc(&tools, (char)('a' + chance(&dice, 26)));
        tt_buf_puts(&tools, "\"");
    }
    tt_buf_puts(&tools, "]}}}}");
    for (unsigned i = 0; i < 511; i++)
        tt_buf_printf(&tools,
                      ",{\"name\":\"f%u\",\"parameters\":{\"type\":\"object\",\"properties\":{"
                      "\"a\":%s},\"required\":[\"a\"]}}",
                      i, maybe);
    tt_buf_puts(&tools, "]");
    assert_int_equal(tt_buf_status(&tools, &err), TT_OK);
    if (tt_grammar_from_tools(tools.data, NULL, &g, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_non_null(strstr(tt_grammar_relaxed(g), "\"name\":\"large\",\"pointer\":\"#\""));
    assert_true(takes(g, TT_START_ANSWER, call));
    tt_grammar_close(&g);
    tt_buf_free(&tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_trying_says),
        cmocka_unit_test(masks_of_grammars_by_hand),
        cmocka_unit_test(masks_of_a_vocabulary_made_for_it),
        cmocka_unit_test(masks_at_the_greatest_depth),
        cmocka_unit_test(grammars_by_hand_name_special_tokens),
        cmocka_unit_test(thoughts_come_where_they_may),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(calls_are_forced),
        cmocka_unit_test(tools_that_nothing_satisfies),
        cmocka_unit_test(a_document_may_stand_in_for_calls),
        cmocka_unit_test(tools_share_what_they_can),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
