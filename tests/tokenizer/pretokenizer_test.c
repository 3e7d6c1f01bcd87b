/* Proves that split patterns cut as the reference engine does, that patterns it reads otherwise are
 * refused by name, and that the pieces are always the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tok_utf8.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define QWEN35                                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"       \
                 "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                      \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
                 "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* ---- helpers ---- */

static json_t *split_node(const char *regex)
{
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}", "type", "Sequence",
                     "pretokenizers", "type", "Split", "pattern", "Regex", regex, "behavior",
                     "Isolated", "invert", 0, "type", "ByteLevel", "add_prefix_space", 0,
                     "use_regex", 0);
}

static tt_status build_node(json_t *node, tt_pretokenizer **pt, tt_error *err)
{
    tt_status st = tt_pretokenizer_build(node, "tokenizer.json", pt, err);
    json_decref(node);
    return st;
}

static tt_pretokenizer *make(const char *regex)
{
    tt_pretokenizer *pt = NULL;
    tt_error err = {0};
    if (build_node(split_node(regex), &pt, &err) != TT_OK)
        fail_msg("%s: %s", regex, err.message);
    return pt;
}

/* Pieces joined by '|', so expectations read easily. */
static tt_status join(void *ctx, const char *piece, size_t n, tt_error *err)
{
    tt_buf *out = ctx;
    assert_true(n > 0);
    if (out->len > 0)
        tt_buf_putc(out, '|');
    tt_buf_append(out, piece, n);
    return TT_OK;
}

static void expect(const tt_pretokenizer *pt, const char *text, const char *want)
{
    tt_buf out;
    tt_buf_init(&out, 4096);
    assert_int_equal(tt_pretokenizer_split(pt, text, strlen(text), join, &out, NULL), TT_OK);
    assert_string_equal(out.data == NULL ? "" : out.data, want);
    tt_buf_free(&out);
}

/* ---- patterns of published tokenizers ---- */

static void qwen_3_5_keeps_marks_with_letters(void **state)
{
    tt_pretokenizer *pt = make(QWEN35);
    expect(pt, "Hello, world! It's 2024.", "Hello|,| world|!| It|'s| |2|0|2|4|.");
    expect(pt, "I'LL we\xe2\x80\x99re 'S'\xc5\xbf", "I|'LL| we|\xe2\x80\x99re| '|S|'\xc5\xbf");
    expect(pt, "\xe0\xa4\x95\xe0\xa4\xbf x", "\xe0\xa4\x95\xe0\xa4\xbf| x");
    expect(pt, "a  b   \n\n c\r\n", "a| | b|   \n\n| c|\r\n");
    expect(pt, "x  ", "x|  ");
    expect(pt, "\t\tif (a) {\n", "\t|\tif| (|a|)| {\n");
    expect(pt, "", "");
    tt_pretokenizer_free(&pt);
    assert_null(pt);
}

static void qwen_2_parts_marks_from_letters(void **state)
{
    tt_pretokenizer *pt = make(QWEN2);
    expect(pt, "e\xcc\x81t", "e|\xcc\x81t");
    expect(pt, "\xe0\xa4\x95\xe0\xa4\xbf x", "\xe0\xa4\x95|\xe0\xa4\xbf| x");
    tt_pretokenizer_free(&pt);
}

static void byte_level_has_a_pattern_of_its_own(void **state)
{
    tt_pretokenizer *pt = NULL;
    json_t *node =
        json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1);
    assert_int_equal(build_node(node, &pt, NULL), TT_OK);
    expect(pt, "It's 2024, isn't it?  ok", "It|'s| 2024|,| isn|'t| it|?| | ok");
    tt_pretokenizer_free(&pt);
}

/* U+180E is no space (PCRE2 says it is), U+0085 and U+2029 are. */
static void space_is_the_exact_class(void **state)
{
    tt_pretokenizer *pt = make("\\s+|\\S+");
    expect(pt,
           "a\xe1\xa0\x8e"
           "b\xc2\x85"
           "c\xe2\x80\xa9\xe2\x80\x8b",
           "a\xe1\xa0\x8e"
           "b|\xc2\x85|c|\xe2\x80\xa9|\xe2\x80\x8b");
    tt_pretokenizer_free(&pt);
    pt = make("[^\\S\\n]+|[^\\s\\p{L}]+");
    expect(pt, "a \xe1\xa0\x8e\n b", "a| |\xe1\xa0\x8e|\n| |b");
    tt_pretokenizer_free(&pt);
}

static void gaps_and_empty_matches_cut(void **state)
{
    tt_pretokenizer *pt = make("b");
    expect(pt, "abcabb", "a|b|ca|b|b");
    tt_pretokenizer_free(&pt);
    pt = make("(?=\\d)|x*");
    expect(pt, "ab1xx\xc3\xa9", "a|b|1|xx|\xc3\xa9");
    tt_pretokenizer_free(&pt);
    pt = make("");
    expect(pt, "a\xc3\xa9z", "a|\xc3\xa9|z");
    tt_pretokenizer_free(&pt);
}

/* ---- every code point ---- */

typedef struct seen {
    uint8_t *alone;
} seen;

static tt_status note(void *ctx, const char *piece, size_t n, tt_error *err)
{
    seen *s = ctx;
    size_t len;
    uint32_t cp = tt_utf8_read(piece, &len);
    if (len == n && cp != 1)
        s->alone[cp] = 1;
    return TT_OK;
}

static void classes_are_those_of_the_reference(void **state)
{
    json_t *golden = NULL, *list, *range;
    const char *regex;
    char *text = malloc(6 * TT_MIB);
    seen s = {.alone = malloc(0x110000)};
    uint8_t *want = malloc(0x110000);
    size_t n = 0, i, classes = 0;
    assert_int_equal(tt_json_load("tests/golden/tokenizer/unicode.json", TT_MIB, &golden, NULL),
                     TT_OK);
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xd800 && cp <= 0xdfff)
            continue;
        text[n++] = 1;
        n += tt_utf8_write(cp, text + n);
    }
    json_object_foreach(json_object_get(golden, "classes"), regex, list)
    {
        memset(s.alone, 0, 0x110000);
        memset(want, 0, 0x110000);
        json_array_foreach(list, i, range)
        {
            for (json_int_t cp = json_integer_value(json_array_get(range, 0));
                 cp <= json_integer_value(json_array_get(range, 1)); cp++)
                want[cp] = 1;
        }
        tt_pretokenizer *pt = make(regex);
        assert_int_equal(tt_pretokenizer_split(pt, text, n, note, &s, NULL), TT_OK);
        tt_pretokenizer_free(&pt);
        for (uint32_t cp = 0; cp < 0x110000; cp++)
            if (s.alone[cp] != want[cp])
                fail_msg("%s: U+%04X %s", regex, cp, want[cp] ? "is missed" : "is taken");
        classes++;
    }
    assert_int_equal(classes, 4);
    json_decref(golden);
    free(want);
    free(s.alone);
    free(text);
}

/* ---- refusals ---- */

static void what_engines_read_differently_is_refused(void **state)
{
    static const char *const bad[] = {
        "\\w+",        "\\b",         "\\h",         "\\v",
        "\\R",         "\\X",         "\\K",         "\\G",
        "\\1",         "\\k<a>",      "\\Qa",        "\\",
        "^a",          "a$",          "(?i)a",       "(?x: a)",
        "(?m:a.)",     "(?<n>a)",     "(*UTF)a",     "(?R)",
        "(?#c)",       "[a[b]]",      "[a&&b]",      "[]a]",
        "[a",          "[[:alpha:]]", "[\\s-x]",     "[a-\\s]",
        "[\\p{L}-z]",  "a{,3}",       "a{2}+",       "a{",
        "\\pL",        "\\p{^L}",     "\\p{Letter}", "\\p{}",
        "\\x{110000}", "\\xff",       "\\x4",        "\\u12",
        "(a",          "a)",          "[z-a]",       "\\p{Nonesuch}",
        "\\cA",        "\\N",         "\\A",         "\\z",
        "\\o{7}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tt_pretokenizer *pt = NULL;
        tt_error err = {0};
        tt_status st = build_node(split_node(bad[i]), &pt, &err);
        if (st != TT_ERR_UNSUPPORTED || pt != NULL)
            fail_msg("%s is not refused", bad[i]);
        assert_string_equal(err.file, "tokenizer.json");
        assert_non_null(strstr(err.message, "split pattern"));
    }
}

static void other_pre_tokenizers_are_refused_by_name(void **state)
{
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"null", "ByteLevel"},
        {"{\"type\": \"Metaspace\"}", "Metaspace"},
        {"{\"type\": \"Digits\", \"individual_digits\": true}", "Digits"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": []}", "no ByteLevel"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Whitespace\"}]}", "Whitespace"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": false}",
         "add_prefix_space"},
        {"{\"type\": \"ByteLevel\", \"use_regex\": false}", "add_prefix_space"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\", "
         "\"add_prefix_space\": false}, {\"type\": \"Split\"}]}",
         "Split after ByteLevel"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"Isolated\"}",
         "Regex"},
        {"{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Removed\"}",
         "Removed"},
        {"{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Isolated\", "
         "\"invert\": true}",
         "invert"},
        {"{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Isolated\"}",
         "no ByteLevel"},
        {"{\"type\": \"Split\", \"behavior\": \"Isolated\"}", "pattern"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Sequence\"}]}", "Sequence"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tt_pretokenizer *pt = NULL;
        tt_error err = {0};
        json_t *node = NULL;
        assert_int_equal(tt_json_parse(bad[i].json, strlen(bad[i].json), "x", &node, NULL), TT_OK);
        assert_int_not_equal(build_node(node, &pt, &err), TT_OK);
        assert_null(pt);
        if (strstr(err.message, bad[i].says) == NULL)
            fail_msg("%s says: %s", bad[i].json, err.message);
    }
}

static void an_exploding_pattern_is_stopped(void **state)
{
    tt_pretokenizer *pt = make("(?:(?:a+)+)+[bc]");
    char text[64];
    tt_error err = {0};
    tt_buf out;
    tt_buf_init(&out, 4096);
    memset(text, 'a', sizeof text);
    assert_int_equal(tt_pretokenizer_split(pt, text, sizeof text, join, &out, &err), TT_ERR_LIMIT);
    assert_non_null(strstr(err.message, "gave up"));
    tt_buf_free(&out);
    tt_pretokenizer_free(&pt);
}

static tt_status stop(void *ctx, const char *piece, size_t n, tt_error *err)
{
    size_t *calls = ctx;
    return ++*calls == 2 ? tt_fail(err, TT_ERR_ABORTED, "enough") : TT_OK;
}

static void the_first_failure_of_the_receiver_ends_it(void **state)
{
    tt_pretokenizer *pt = make("b");
    size_t calls = 0;
    assert_int_equal(tt_pretokenizer_split(pt, "ababab", 6, stop, &calls, NULL), TT_ERR_ABORTED);
    assert_int_equal(calls, 2);
    tt_pretokenizer_free(&pt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen_3_5_keeps_marks_with_letters),
        cmocka_unit_test(qwen_2_parts_marks_from_letters),
        cmocka_unit_test(byte_level_has_a_pattern_of_its_own),
        cmocka_unit_test(space_is_the_exact_class),
        cmocka_unit_test(gaps_and_empty_matches_cut),
        cmocka_unit_test(classes_are_those_of_the_reference),
        cmocka_unit_test(what_engines_read_differently_is_refused),
        cmocka_unit_test(other_pre_tokenizers_are_refused_by_name),
        cmocka_unit_test(an_exploding_pattern_is_stopped),
        cmocka_unit_test(the_first_failure_of_the_receiver_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
