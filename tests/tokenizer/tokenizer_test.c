/* Proves that broken and hostile tokenizer.json files are refused with file and place, that both
 * spellings of merges and any order of keys give the same tokenizer, and that long and nasty texts
 * are encoded in bounded time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/limits.h"
#include "tokenizer/nfc.h"
#include "tokenizer/tokenizer_impl.h"

/* ---- a small tokenizer with places to break ---- */

#define PRE     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define DECODER "{\"type\":\"ByteLevel\"}"
#define VOCAB   "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"\\u0120\":5}"
#define MERGES  "[\"a b\",\"ab c\"]"

#define DOC(added, settings, model, vocab, merges)                                                 \
    "{\"version\":\"1.0\",\"added_tokens\":" added "," settings "\"pre_tokenizer\":" PRE           \
    ",\"decoder\":" DECODER ",\"model\":{\"type\":\"BPE\"," model "\"vocab\":" vocab               \
    ",\"merges\":" merges "}}"

#define TOKEN(id, content, more) "{\"id\":" id ",\"content\":\"" content "\"" more "}"

static tt_status build(const char *json, size_t len, tt_tokenizer **tok, tt_error *err)
{
    return tt_tokenizer_build(json, len, "dir/tokenizer.json", NULL, NULL, tok, err);
}

static tt_tokenizer *make(const char *json)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    if (build(json, strlen(json), &tok, &err) != TT_OK)
        fail_msg("%s", err.message);
    return tok;
}

static void expect_ids(const tt_tokenizer *tok, const char *text, bool special, size_t n,
                       const uint32_t *want)
{
    uint32_t *ids = NULL;
    size_t got = 0;
    assert_int_equal(tt_tokenizer_encode(tok, text, strlen(text), special, &ids, &got, NULL),
                     TT_OK);
    assert_int_equal(got, n);
    assert_memory_equal(ids, want, n * sizeof *ids);
    tt_free(ids);
}

#define IDS(...)                                                                                   \
    sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[])                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* ---- what the file may say ---- */

static void spellings_and_orders_are_equal(void **state)
{
    static const char *const docs[] = {
        DOC("[]", "", "", VOCAB, MERGES),
        DOC("[]", "", "", VOCAB, "[[\"a\",\"b\"],[\"ab\",\"c\"]]"),
        DOC("null", "\"normalizer\":null,\"post_processor\":null,\"truncation\":null,",
            "\"dropout\":null,\"unk_token\":\"\",\"continuing_subword_prefix\":\"\",", VOCAB,
            MERGES),
        "{\"model\":{\"merges\":" MERGES ",\"vocab\":" VOCAB "},\"decoder\":" DECODER
        ",\"pre_tokenizer\":" PRE "}",
        DOC("[]", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]},",
            "\"fuse_unk\":true,", VOCAB, MERGES),
        DOC("[]", "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" DECODER "]},", "",
            VOCAB, MERGES),
    };
    for (size_t i = 0; i < sizeof docs / sizeof docs[0]; i++) {
        tt_tokenizer *tok = make(docs[i]);
        expect_ids(tok, "abc abab c", false, IDS(4, 5, 3, 3, 5, 2));
        assert_int_equal(tt_tokenizer_vocab_size(tok), 6);
        tt_tokenizer_close(&tok);
        assert_null(tok);
    }
}

static void ranks_decide_and_ties_go_left(void **state)
{
    tt_tokenizer *tok = make(DOC("[]", "", "", "{\"a\":0,\"aa\":1,\"b\":2,\"ab\":3,\"aab\":4}",
                                 "[\"a a\",\"a b\",\"aa b\"]"));
    expect_ids(tok, "aaab", false, IDS(1, 3)); /* aa|a|b, then a b before aa b */
    expect_ids(tok, "aab", false, IDS(4));
    expect_ids(tok, "aaaaa", false, IDS(1, 1, 0));
    tt_tokenizer_close(&tok);
    /* A token that merges do not reach is only found when merges are to be ignored. */
    tok = make(DOC("[]", "", "", "{\"a\":0,\"b\":1,\"ba\":2}", "[]"));
    expect_ids(tok, "ba", false, IDS(1, 0));
    expect_ids(tok, "ba", false, IDS(1, 0));
    tt_tokenizer_close(&tok);
    tok = make(DOC("[]", "", "\"ignore_merges\":true,", "{\"a\":0,\"b\":1,\"ba\":2}", "[]"));
    expect_ids(tok, "ba", false, IDS(2));
    tt_tokenizer_close(&tok);
}

/* Pieces beyond 64 bytes take another way to the same merges. */
static void long_pieces_merge_as_short_ones(void **state)
{
    tt_tokenizer *tok = make(DOC("[]", "", "", "{\"a\":0,\"aa\":1,\"aaa\":2,\"b\":3,\"ab\":4}",
                                 "[\"a a\",\"aa a\",\"a b\"]"));
    for (size_t n = 2; n < 300; n += 1 + n / 40) {
        char text[300];
        uint32_t want[300];
        size_t m = 0;
        memset(text, 'a', n);
        text[n - 1] = 'b';
        text[n] = '\0';
        /* pairs from the left; an odd one joins the pair before it, by rank before the b */
        for (size_t left = n - 1; left >= 2; left -= 2)
            want[m++] = 1;
        if (n % 2 == 0 && m > 0)
            want[m - 1] = 2;
        else if (n % 2 == 0)
            want[m++] = 4;
        if (n > 2)
            want[m++] = 3;
        expect_ids(tok, text, false, m, want);
    }
    tt_tokenizer_close(&tok);
}

static void added_tokens_are_found_when_asked(void **state)
{
    tt_tokenizer *tok =
        make(DOC("[" TOKEN("7", "<s>", ",\"special\":true") "," TOKEN("9", "<ab>", "") "," TOKEN(
                     "3", "ab", "") "]",
                 "", "", "{\"a\":0,\"b\":1,\"<\":2,\"ab\":3,\">\":4,\"s\":5}", "[\"a b\"]"));
    expect_ids(tok, "<s><ab>ab<", true, IDS(7, 9, 3, 2));
    expect_ids(tok, "<s><ab>", false, IDS(2, 5, 4, 2, 3, 4));
    assert_int_equal(tt_tokenizer_vocab_size(tok), 10);
    assert_int_equal(tt_tokenizer_special_id(tok, "<s>"), 7);
    assert_int_equal(tt_tokenizer_special_id(tok, "<ab>"), 9);
    assert_int_equal(tt_tokenizer_special_id(tok, "a"), -1);
    size_t len = 0;
    bool special = true;
    assert_memory_equal(tt_tokenizer_piece(tok, 9, &len, &special), "<ab>", 4);
    assert_int_equal(len, 4);
    assert_false(special);
    assert_non_null(tt_tokenizer_piece(tok, 7, &len, &special));
    assert_true(special);
    assert_null(tt_tokenizer_piece(tok, 8, &len, &special));
    assert_null(tt_tokenizer_piece(tok, 10, &len, NULL));
    tt_tokenizer_close(&tok);
}

static void config_may_name_more_added_tokens(void **state)
{
    const char *doc = DOC("[" TOKEN("7", "<s>", ",\"special\":true") "]", "", "", VOCAB, MERGES);
    json_t *config = json_pack("{s:{s:{s:s}, s:{s:s, s:b}}}", "added_tokens_decoder", "7",
                               "content", "<s>", "8", "content", "<t>", "special", 1);
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    assert_int_equal(
        tt_tokenizer_build(doc, strlen(doc), "t", config, "tokenizer_config.json", &tok, NULL),
        TT_OK);
    expect_ids(tok, "<s><t>", true, IDS(7, 8));
    tt_tokenizer_close(&tok);
    json_object_set_new(json_object_get(config, "added_tokens_decoder"), "x",
                        json_pack("{s:s}", "content", "<u>"));
    assert_int_equal(
        tt_tokenizer_build(doc, strlen(doc), "t", config, "tokenizer_config.json", &tok, &err),
        TT_ERR_FORMAT);
    assert_string_equal(err.file, "tokenizer_config.json");
    json_decref(config);
}

/* ---- refusals ---- */

typedef struct refusal {
    const char *json;
    tt_status status;
    const char *says;
    bool place; /* a byte offset is named */
} refusal;

static void check_refusals(const refusal *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tt_tokenizer *tok = NULL;
        tt_error err = {0};
        tt_status st = build(list[i].json, strlen(list[i].json), &tok, &err);
        if (st != list[i].status || strstr(err.message, list[i].says) == NULL || tok != NULL ||
            (list[i].place && err.offset < 0) || strcmp(err.file, "dir/tokenizer.json") != 0)
            fail_msg("case %zu (%s): %s at %s+%lld: %s", i, list[i].says, tt_status_name(st),
                     err.file, (long long)err.offset, err.message);
    }
}

static void broken_files_are_refused(void **state)
{
    static const refusal list[] = {
        {"", TT_ERR_FORMAT, "", false},
        {"{", TT_ERR_FORMAT, "broken JSON", true},
        {"[]", TT_ERR_FORMAT, "object", true},
        {"7", TT_ERR_FORMAT, "object", true},
        {"{} {}", TT_ERR_FORMAT, "broken JSON", true},
        {"{}", TT_ERR_FORMAT, "model", false},
        {"{\"model\":[]}", TT_ERR_FORMAT, "model", false},
        {"{\"a\":1,\"a\":2}", TT_ERR_FORMAT, "\"a\" stands twice", true},
        {"{\"a\\u0000b\":1}", TT_ERR_FORMAT, "U+0000", true},
        {"{\"a\":\"\xff\"}", TT_ERR_FORMAT, "broken JSON", true},
        {"{\"a\":\"\\ud800x\"}", TT_ERR_FORMAT, "surrogate", true},
        {"{\"a\":\"\\ud800\\u0041\"}", TT_ERR_FORMAT, "surrogate", true},
        {"{\"a\":\"\\ud800\\ud800\"}", TT_ERR_FORMAT, "surrogate", true},
        {"{\"a\":\"\\udc00\"}", TT_ERR_FORMAT, "surrogate", true},
        {"{\"a\":1e999}", TT_ERR_FORMAT, "broken JSON", true},
        {"{\"a\":99999999999999999999}", TT_ERR_FORMAT, "broken JSON", true},
        {DOC("[]", "", "", "[[\"a\",0.5]]", MERGES), TT_ERR_UNSUPPORTED, "Unigram", true},
        {DOC("[]", "", "", "{\"a\":-1}", "[]"), TT_ERR_LIMIT, "-1", true},
        {DOC("[]", "", "", "{\"a\":4194304}", "[]"), TT_ERR_LIMIT, "4194304", true},
        {DOC("[]", "", "", "{\"a\":1.5}", "[]"), TT_ERR_FORMAT, "model.vocab", true},
        {DOC("[]", "", "", "{\"a\":\"x\"}", "[]"), TT_ERR_FORMAT, "model.vocab", true},
        {DOC("[]", "", "", "{\"a\":{}}", "[]"), TT_ERR_FORMAT, "model.vocab", true},
        {DOC("[]", "", "", "{\"a\":[0]}", "[]"), TT_ERR_FORMAT, "model.vocab", true},
        {DOC("[]", "", "", "{\"a\":null}", "[]"), TT_ERR_FORMAT, "model.vocab", true},
        {DOC("[]", "", "", "{\"\":0}", "[]"), TT_ERR_FORMAT, "empty", true},
        {DOC("[]", "", "", "{}", "[]"), TT_ERR_FORMAT, "model.vocab", false},
        {DOC("[]", "", "", "{\"a\":0,\"b\":0}", "[]"), TT_ERR_FORMAT, "id 0", false},
        {DOC("[]", "", "", "{\"a\":0,\"a\":1}", "[]"), TT_ERR_FORMAT, "two ids", false},
        {DOC("[]", "", "\"vocab\":{\"a\":0},", VOCAB, "[]"), TT_ERR_FORMAT, "twice", true},
        {DOC("[]", "", "\"merges\":[],", VOCAB, "[]"), TT_ERR_FORMAT, "twice", true},
    };
    check_refusals(list, sizeof list / sizeof list[0]);
}

static void broken_merges_are_refused(void **state)
{
    static const refusal list[] = {
        {DOC("[]", "", "", VOCAB, "[\"a b\",\"a x\"]"), TT_ERR_FORMAT, "model.merges[1]", false},
        {DOC("[]", "", "", VOCAB, "[\"x a\"]"), TT_ERR_FORMAT, "\"x\"", false},
        {DOC("[]", "", "", VOCAB, "[\"b a\"]"), TT_ERR_FORMAT, "\"ba\"", false},
        {DOC("[]", "", "", VOCAB, "[\"ab\"]"), TT_ERR_FORMAT, "model.merges[0]", true},
        {DOC("[]", "", "", VOCAB, "[\"a b c\"]"), TT_ERR_FORMAT, "one space", true},
        {DOC("[]", "", "", VOCAB, "[\" b\"]"), TT_ERR_FORMAT, "empty", true},
        {DOC("[]", "", "", VOCAB, "[\"a \"]"), TT_ERR_FORMAT, "empty", true},
        {DOC("[]", "", "", VOCAB, "[[\"a\"]]"), TT_ERR_FORMAT, "1 sides", true},
        {DOC("[]", "", "", VOCAB, "[[\"a\",\"b\",\"c\"]]"), TT_ERR_FORMAT, "more than two", true},
        {DOC("[]", "", "", VOCAB, "[[\"a\",1]]"), TT_ERR_FORMAT, "a number", true},
        {DOC("[]", "", "", VOCAB, "[[\"a\",[]]]"), TT_ERR_FORMAT, "a list", true},
        {DOC("[]", "", "", VOCAB, "[{}]"), TT_ERR_FORMAT, "an object", true},
        {DOC("[]", "", "", VOCAB, "[3]"), TT_ERR_FORMAT, "a number", true},
        {DOC("[]", "", "", VOCAB, "[null]"), TT_ERR_FORMAT, "null", true},
        {DOC("[]", "", "", VOCAB, "[\"a \xe4\xb8\x80\"]"), TT_ERR_FORMAT, "alphabet", true},
    };
    check_refusals(list, sizeof list / sizeof list[0]);
}

static void unsupported_settings_are_refused_by_name(void **state)
{
    static const refusal list[] = {
        {DOC("[]", "", "\"dropout\":0.1,", VOCAB, MERGES), TT_ERR_UNSUPPORTED, "dropout", false},
        {DOC("[]", "", "\"unk_token\":\"a\",", VOCAB, MERGES), TT_ERR_UNSUPPORTED, "unk_token",
         false},
        {DOC("[]", "", "\"byte_fallback\":true,", VOCAB, MERGES), TT_ERR_UNSUPPORTED,
         "byte_fallback", false},
        {DOC("[]", "", "\"end_of_word_suffix\":\"</w>\",", VOCAB, MERGES), TT_ERR_UNSUPPORTED,
         "end_of_word_suffix", false},
        {DOC("[]", "", "\"continuing_subword_prefix\":\"##\",", VOCAB, MERGES), TT_ERR_UNSUPPORTED,
         "continuing_subword_prefix", false},
        {DOC("[]", "", "\"ignore_merges\":1,", VOCAB, MERGES), TT_ERR_FORMAT, "ignore_merges",
         false},
        {DOC("[]", "\"normalizer\":{\"type\":\"NFKC\"},", "", VOCAB, MERGES), TT_ERR_UNSUPPORTED,
         "NFKC", false},
        {DOC("[]",
             "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]},",
             "", VOCAB, MERGES),
         TT_ERR_UNSUPPORTED, "Lowercase", false},
        {DOC("[]", "\"post_processor\":{\"type\":\"TemplateProcessing\"},", "", VOCAB, MERGES),
         TT_ERR_UNSUPPORTED, "TemplateProcessing", false},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", TT_ERR_UNSUPPORTED,
         "WordPiece", false},
        {"{\"model\":{\"vocab\":" VOCAB ",\"merges\":[]},\"pre_tokenizer\":" PRE "}",
         TT_ERR_UNSUPPORTED, "decoder", false},
        {"{\"model\":{\"vocab\":" VOCAB ",\"merges\":[]},\"decoder\":{\"type\":\"Metaspace\"}}",
         TT_ERR_UNSUPPORTED, "Metaspace", false},
        {"{\"model\":{\"vocab\":" VOCAB ",\"merges\":[]},\"decoder\":" DECODER "}",
         TT_ERR_UNSUPPORTED, "pre_tokenizer", false},
        {DOC("{}", "", "", VOCAB, MERGES), TT_ERR_FORMAT, "added_tokens", false},
        {DOC("[{\"content\":\"x\"}]", "", "", VOCAB, MERGES), TT_ERR_FORMAT, "id", false},
        {DOC("[7]", "", "", VOCAB, MERGES), TT_ERR_FORMAT, "id", false},
        {DOC("[{\"id\":7}]", "", "", VOCAB, MERGES), TT_ERR_FORMAT, "content", false},
        {DOC("[" TOKEN("4194304", "x", "") "]", "", "", VOCAB, MERGES), TT_ERR_LIMIT, "4194304",
         false},
        {DOC("[" TOKEN("7", "x", ",\"lstrip\":1") "]", "", "", VOCAB, MERGES), TT_ERR_FORMAT,
         "lstrip", false},
        {DOC("[" TOKEN("7", "x", "") "," TOKEN("7", "y", "") "]", "", "", VOCAB, MERGES),
         TT_ERR_FORMAT, "id 7", false},
        {DOC("[" TOKEN("7", "x", "") "," TOKEN("8", "x", "") "]", "", "", VOCAB, MERGES),
         TT_ERR_FORMAT, "twice", false},
        {DOC("[" TOKEN("0", "x", "") "]", "", "", VOCAB, MERGES), TT_ERR_FORMAT, "id 0", false},
        {DOC("[" TOKEN("9", "ab", "") "]", "", "", VOCAB, MERGES), TT_ERR_FORMAT, "model.vocab",
         false},
    };
    check_refusals(list, sizeof list / sizeof list[0]);
}

static void nesting_and_sheer_numbers_are_refused(void **state)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    tt_buf doc;
    tt_buf_init(&doc, 64 * TT_MIB);
    tt_buf_puts(&doc, "{\"x\":");
    for (int i = 0; i < 100000; i++)
        tt_buf_putc(&doc, '[');
    assert_int_equal(build(doc.data, doc.len, &tok, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "deeper than 64"));
    tt_buf_clear(&doc);
    tt_buf_puts(&doc, "{\"x\":[0");
    for (int i = 0; i < 1000000; i++)
        tt_buf_puts(&doc, ",[]");
    tt_buf_puts(&doc, "]}");
    assert_int_equal(build(doc.data, doc.len, &tok, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "600000"));
    tt_buf_clear(&doc);
    tt_buf_puts(&doc, "{\"added_tokens\":[");
    for (int i = 0; i < 70000; i++)
        tt_buf_printf(&doc, "%s{\"id\":%d,\"content\":\"<%d>\"}", i == 0 ? "" : ",", i + 10, i);
    tt_buf_puts(&doc, "],\"pre_tokenizer\":" PRE ",\"decoder\":" DECODER
                      ",\"model\":{\"vocab\":" VOCAB ",\"merges\":[]}}");
    assert_int_equal(build(doc.data, doc.len, &tok, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "70000 added tokens"));
    tt_buf_free(&doc);
    assert_null(tok);
}

/* ---- texts ---- */

static tt_tokenizer *open_tales(void)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    if (tt_tokenizer_open("models/tales", &tok, &err) != TT_OK)
        fail_msg("%s", err.message);
    return tok;
}

static void bad_text_is_refused_with_its_place(void **state)
{
    tt_tokenizer *tok = open_tales();
    uint32_t *ids = NULL;
    size_t n = 7;
    tt_error err = {0};
    assert_int_equal(tt_tokenizer_encode(tok, "abc\xff", 4, true, &ids, &n, &err), TT_ERR_FORMAT);
    assert_int_equal(err.offset, 3);
    assert_int_equal(tt_tokenizer_encode(tok, "ab\xe2\x82", 4, true, &ids, &n, &err),
                     TT_ERR_FORMAT);
    assert_int_equal(err.offset, 2);
    assert_int_equal(tt_tokenizer_encode(tok, "\xed\xa0\x80", 3, true, &ids, &n, &err),
                     TT_ERR_FORMAT);
    assert_null(ids);
    assert_int_equal(n, 7);
    assert_int_equal(tt_tokenizer_encode(NULL, "a", 1, true, &ids, &n, &err), TT_ERR_INVALID);
    assert_int_equal(tt_tokenizer_encode(tok, NULL, 1, true, &ids, &n, &err), TT_ERR_INVALID);
    assert_int_equal(tt_tokenizer_encode(tok, NULL, 0, true, &ids, &n, &err), TT_OK);
    assert_non_null(ids);
    assert_int_equal(n, 0);
    tt_free(ids);
    tt_tokenizer_close(&tok);
    tok = make(DOC("[]", "", "", VOCAB, MERGES));
    assert_int_equal(tt_tokenizer_encode(tok, "abz", 3, true, &ids, &n, &err), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "0x7a"));
    tt_tokenizer_close(&tok);
    tt_tokenizer_close(&tok);
    tt_tokenizer_close(NULL);
}

/* Long texts that a quadratic step anywhere would not finish. */
static void long_texts_come_back(void **state)
{
    static const char *const units[] = {"a",
                                        "qz",
                                        " ",
                                        "\n",
                                        " \n",
                                        "0",
                                        "<",
                                        "<|im_sta",
                                        "<|im_start|>",
                                        "\xcc\x81\xcc\xa3",
                                        "\xe5\xad\x97",
                                        "e\xcc\x81",
                                        "'s",
                                        "=-"};
    tt_tokenizer *tok = open_tales();
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        tt_buf text, plain;
        bool same = false;
        tt_buf_init(&text, 4 * TT_MIB);
        tt_buf_init(&plain, 8 * TT_MIB);
        while (text.len < TT_MIB)
            tt_buf_puts(&text, units[u]);
        uint32_t *ids = NULL;
        size_t n = 0, len = 0;
        char *back = NULL;
        assert_int_equal(tt_tokenizer_encode(tok, text.data, text.len, true, &ids, &n, NULL),
                         TT_OK);
        assert_int_equal(tt_tokenizer_decode(tok, ids, n, false, &back, &len, NULL), TT_OK);
        assert_int_equal(tt_nfc(text.data, text.len, &plain, &same, NULL), TT_OK);
        assert_int_equal(len, same ? text.len : plain.len);
        assert_memory_equal(back, same ? text.data : plain.data, len);
        tt_free(ids);
        tt_free(back);
        tt_buf_free(&text);
        tt_buf_free(&plain);
    }
    tt_tokenizer_close(&tok);
}

/* Added tokens chosen so that looking for the longest one fails late at every place. */
static void hostile_added_tokens_stay_linear(void **state)
{
    tt_buf doc, text;
    tt_buf_init(&doc, TT_MIB);
    tt_buf_init(&text, 2 * TT_MIB);
    tt_buf_puts(&doc, "{\"added_tokens\":[{\"id\":8,\"content\":\"");
    for (int i = 0; i < 100000; i++)
        tt_buf_putc(&doc, 'a');
    tt_buf_puts(&doc, "b\",\"normalized\":false},{\"id\":9,\"content\":\"a\",\"special\":true}],"
                      "\"pre_tokenizer\":" PRE ",\"decoder\":" DECODER
                      ",\"model\":{\"vocab\":{\"x\":0,\"b\":1},"
                      "\"merges\":[]}}");
    tt_tokenizer *tok = make(doc.data);
    for (int i = 0; i < 1000000; i++)
        tt_buf_putc(&text, 'a');
    tt_buf_puts(&text, "b");
    uint32_t *ids = NULL;
    size_t n = 0;
    assert_int_equal(tt_tokenizer_encode(tok, text.data, text.len, true, &ids, &n, NULL), TT_OK);
    assert_int_equal(n, 900001);
    assert_int_equal(ids[0], 9);
    assert_int_equal(ids[899999], 9);
    assert_int_equal(ids[900000], 8);
    tt_free(ids);
    tt_tokenizer_close(&tok);
    tt_buf_free(&doc);
    tt_buf_free(&text);
}

/* ---- several threads on one tokenizer ---- */

static void *encode_often(void *arg)
{
    const tt_tokenizer *tok = arg;
    static const char text[] = "The capital of France is Paris, isn't it? Na\xc3\xafve 123 <think>";
    uint32_t *first = NULL;
    size_t n_first = 0;
    for (int i = 0; i < 200; i++) {
        uint32_t *ids = NULL;
        size_t n = 0;
        if (tt_tokenizer_encode(tok, text, sizeof text - 1, true, &ids, &n, NULL) != TT_OK)
            return NULL;
        if (first == NULL) {
            first = ids;
            n_first = n;
            continue;
        }
        bool same = n == n_first && memcmp(ids, first, n * sizeof *ids) == 0;
        tt_free(ids);
        if (!same) {
            tt_free(first);
            return NULL;
        }
    }
    tt_free(first);
    return arg;
}

static void threads_share_a_tokenizer(void **state)
{
    tt_tokenizer *tok = open_tales();
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, tok), 0);
    for (size_t i = 0; i < 4; i++) {
        void *ok = NULL;
        assert_int_equal(pthread_join(threads[i], &ok), 0);
        assert_non_null(ok);
    }
    tt_tokenizer_close(&tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_and_orders_are_equal),
        cmocka_unit_test(ranks_decide_and_ties_go_left),
        cmocka_unit_test(long_pieces_merge_as_short_ones),
        cmocka_unit_test(added_tokens_are_found_when_asked),
        cmocka_unit_test(config_may_name_more_added_tokens),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(broken_merges_are_refused),
        cmocka_unit_test(unsupported_settings_are_refused_by_name),
        cmocka_unit_test(nesting_and_sheer_numbers_are_refused),
        cmocka_unit_test(bad_text_is_refused_with_its_place),
        cmocka_unit_test(long_texts_come_back),
        cmocka_unit_test(hostile_added_tokens_stay_linear),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
