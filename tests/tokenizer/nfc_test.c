/* Proves that normalisation equals the reference implementation's on every code point among marks,
 * that the table of quiet stretches is true, and that long runs of marks stay cheap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/nfc.h"
#include "tokenizer/tok_utf8.h"

static void append_cp(tt_buf *b, uint32_t cp)
{
    char utf8[4];
    tt_buf_append(b, utf8, tt_utf8_write(cp, utf8));
}

static void expect(const char *text, const char *want)
{
    tt_buf out;
    bool same = false;
    tt_buf_init(&out, 4096);
    assert_int_equal(tt_nfc(text, strlen(text), &out, &same, NULL), TT_OK);
    assert_string_equal(same ? text : out.data, want);
    tt_buf_free(&out);
}

static void known_cases(void **state)
{
    expect("", "");
    expect("plain ASCII", "plain ASCII");
    expect("cafe\xcc\x81", "caf\xc3\xa9");
    expect("a\xcc\xa3\xcc\x82 a\xcc\x82\xcc\xa3", "\xe1\xba\xad \xe1\xba\xad");
    expect("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); /* jamo to a syllable */
    expect("\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81");             /* syllable and a jamo */
    expect("\xe2\x84\xab\xe2\x84\xa6", "\xc3\x85\xce\xa9");         /* singletons */
    expect("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");             /* excluded from composition */
    expect("\xe3\x81\x8b\xe3\x82\x99", "\xe3\x81\x8c");
    expect("\xcc\x81", "\xcc\x81"); /* a mark with nothing before it */
    expect("\xef\xa4\x80", "\xe8\xb1\x88");
}

static void equals_the_reference_everywhere(void **state)
{
    json_t *golden = NULL;
    tt_sha256 *sha = NULL;
    tt_buf in, out;
    char hex[TT_SHA256_HEX];
    bool same = false;
    assert_int_equal(tt_json_load("tests/golden/tokenizer/unicode.json", TT_MIB, &golden, NULL),
                     TT_OK);
    assert_int_equal(tt_sha256_create(&sha, NULL), TT_OK);
    tt_buf_init(&in, 4096);
    tt_buf_init(&out, 4096);
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xd800 && cp <= 0xdfff)
            continue;
        tt_buf_clear(&in);
        tt_buf_clear(&out);
        tt_buf_puts(&in, "q");
        append_cp(&in, cp);
        tt_buf_puts(&in, "\xcc\xa3"
                         "e\xcc\x81");
        append_cp(&in, cp);
        append_cp(&in, cp);
        tt_buf_puts(&in, "\xe1\x85\xa1\xe1\x86\xa8\n");
        assert_int_equal(tt_nfc(in.data, in.len, &out, &same, NULL), TT_OK);
        assert_false(same);
        assert_int_equal(tt_sha256_update(sha, out.data, out.len, NULL), TT_OK);
    }
    assert_int_equal(tt_sha256_finish(sha, hex, NULL), TT_OK);
    assert_string_equal(hex, json_string_value(json_object_get(golden, "nfc")));
    tt_sha256_close(&sha);
    tt_buf_free(&in);
    tt_buf_free(&out);
    json_decref(golden);
}

/* Inert: class zero, its own normal form, never the second half of a composition. */
static void quiet_stretches_are_quiet(void **state)
{
    uint8_t *second = calloc(0x110000, 1);
    size_t count = 0;
    for (int32_t cp = 0; cp < 0x110000; cp++) {
        int32_t v[32];
        int boundary = 0;
        utf8proc_ssize_t n =
            utf8proc_decompose_char(cp, v, 32, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
        if (n > 1)
            second[v[n - 1]] = 1;
    }
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        int32_t v[32];
        int boundary = 0;
        if (!tt_nfc_inert(cp) || tt_nfc_later(cp))
            continue;
        count++;
        utf8proc_ssize_t n = utf8proc_decompose_char(
            (int32_t)cp, v, 32, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
        n = utf8proc_normalize_utf32(v, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (n != 1 || v[0] != (int32_t)cp || second[cp] ||
            utf8proc_get_property((int32_t)cp)->combining_class != 0)
            fail_msg("U+%04X is not inert", cp);
    }
    assert_true(count > 90000);
    free(second);
}

/* Quadratic ordering would take hours here. */
static void long_runs_of_marks_are_sorted(void **state)
{
    const size_t pairs = 500000;
    tt_buf in, out;
    bool same = false;
    tt_buf_init(&in, 8 * TT_MIB);
    tt_buf_init(&out, 8 * TT_MIB);
    tt_buf_putc(&in, 'q');
    for (size_t i = 0; i < pairs; i++)
        tt_buf_puts(&in, "\xcc\x81\xcc\xa3"); /* class 230, class 220 */
    assert_int_equal(tt_nfc(in.data, in.len, &out, &same, NULL), TT_OK);
    assert_int_equal(out.len, in.len);
    for (size_t i = 0; i < 2 * pairs; i++)
        assert_memory_equal(out.data + 1 + 2 * i, i < pairs ? "\xcc\xa3" : "\xcc\x81", 2);
    tt_buf_free(&in);
    tt_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(equals_the_reference_everywhere),
        cmocka_unit_test(quiet_stretches_are_quiet),
        cmocka_unit_test(long_runs_of_marks_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
