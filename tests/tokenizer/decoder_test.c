/* Proves that decoded text is always whole UTF-8, the same wherever the bytes were cut, with one
 * U+FFFD for each maximal subpart of what is no UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "tokenizer/decoder.h"
#include "tokenizer/tok_utf8.h"

#define R "\xef\xbf\xbd"

static void decode(const char *bytes, size_t n, size_t cut, tt_buf *out)
{
    tt_utf8_stream s = {0};
    for (size_t i = 0; i < n; i += cut) {
        tt_utf8_stream_push(&s, bytes + i, n - i < cut ? n - i : cut, out);
        assert_int_equal(tt_utf8_check(out->data == NULL ? "" : out->data, out->len), out->len);
    }
    tt_utf8_stream_flush(&s, out);
}

static void expect(const char *bytes, size_t n, const char *want)
{
    for (size_t cut = 1; cut <= n; cut++) {
        tt_buf out;
        tt_buf_init(&out, 4096);
        decode(bytes, n, cut, &out);
        assert_string_equal(out.data == NULL ? "" : out.data, want);
        tt_buf_free(&out);
    }
}

#define EXPECT(bytes, want) expect(bytes, sizeof(bytes) - 1, want)

static void whole_characters_pass(void **state)
{
    EXPECT("abc", "abc");
    EXPECT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82z", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82z");
    EXPECT("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf");
}

/* The tables 3-8 to 3-11 of the Unicode standard, section 3.9. */
static void maximal_subparts_become_one_replacement(void **state)
{
    EXPECT("a\xf1\x80\x80\xe1\x80\xc2"
           "b\x80"
           "c\x80\xbf"
           "d",
           "a" R R R "b" R "c" R R "d");
    EXPECT("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82"
           "A",
           R R R R R R R R "A");
    EXPECT("\xed\xa0\x80\xed\xbf\xbf\xed\xaf"
           "A",
           R R R R R R R R "A");
    EXPECT("\xf4\x91\x92\x93\xff"
           "A\x80\xbf"
           "B",
           R R R R R "A" R R "B");
    EXPECT("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
           "A",
           R R R R "A");
    EXPECT("\xf0\x9f\x99", R);
    EXPECT("\xe2\x82", R);
    EXPECT("\xfe\xf8", R R);
}

/* Every sequence of three bytes out of the interesting ones, against a second definition: at each
 * place the longest beginning of a well-formed character, at least one byte, is one replacement. */
static void by_another_definition(void **state)
{
    static const unsigned char some[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f,
                                         0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1,
                                         0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
    const size_t k = sizeof some;
    for (size_t c = 0; c < k * k * k * k; c++) {
        unsigned char in[4] = {some[c % k], some[c / k % k], some[c / k / k % k],
                               some[c / k / k / k]};
        tt_buf want, got;
        tt_buf_init(&want, 64);
        tt_buf_init(&got, 64);
        for (size_t i = 0; i < 4;) {
            size_t len = tt_utf8_len(in + i, 4 - i), take = 1;
            if (len > 0) {
                tt_buf_append(&want, in + i, len);
                i += len;
                continue;
            }
            for (size_t m = 2; m <= 3 && i + m <= 4; m++) {
                unsigned char probe[4] = {0x80, 0x80, 0x80, 0x80}; /* can it still be completed? */
                memcpy(probe, in + i, m);
                if (tt_utf8_len(probe, 4) > m)
                    take = m;
            }
            tt_buf_puts(&want, R);
            i += take;
        }
        decode((const char *)in, 4, 1 + c % 4, &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        tt_buf_free(&want);
        tt_buf_free(&got);
    }
}

static tt_tokenizer *open_tales(void)
{
    tt_tokenizer *tok = NULL;
    assert_int_equal(tt_tokenizer_open("models/tales", &tok, NULL), TT_OK);
    return tok;
}

static void a_character_is_held_until_it_is_whole(void **state)
{
    tt_tokenizer *tok = open_tales();
    tt_decoder *dec = NULL;
    uint32_t *ids = NULL;
    size_t n = 0, len = 99;
    const char *text = NULL;
    assert_int_equal(tt_tokenizer_encode(tok, "\xf0\x9f\x99\x82", 4, true, &ids, &n, NULL), TT_OK);
    assert_int_equal(n, 4); /* not in this vocabulary: one id a byte */
    assert_int_equal(tt_decoder_create(tok, false, &dec, NULL), TT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tt_decoder_push(dec, ids[i], &text, &len, NULL), TT_OK);
        assert_int_equal(len, 0);
        assert_string_equal(text, "");
    }
    assert_int_equal(tt_decoder_push(dec, ids[3], &text, &len, NULL), TT_OK);
    assert_string_equal(text, "\xf0\x9f\x99\x82");
    assert_int_equal(tt_decoder_push(dec, ids[0], &text, &len, NULL), TT_OK);
    assert_int_equal(len, 0);
    tt_decoder_flush(dec, &text, &len);
    assert_string_equal(text, R);
    tt_decoder_flush(dec, &text, &len); /* cleared */
    assert_int_equal(len, 0);
    tt_decoder_close(&dec);
    assert_null(dec);
    tt_decoder_close(&dec);
    tt_decoder_close(NULL);
    tt_free(ids);
    tt_tokenizer_close(&tok);
}

/* A special token inside a character is passed over when skipped, breaks it when shown; an id
 * without an entry changes nothing. */
static void special_tokens_and_unknown_ids(void **state)
{
    tt_tokenizer *tok = open_tales();
    tt_decoder *dec = NULL;
    uint32_t *ids = NULL;
    size_t n = 0, len = 0;
    const char *text = NULL;
    char *whole = NULL;
    tt_error err = {0};
    assert_int_equal(tt_tokenizer_encode(tok, "\xe2\x82\xac", 3, true, &ids, &n, NULL), TT_OK);
    assert_int_equal(n, 3);
    uint32_t mixed[] = {ids[0], ids[1], 4089, ids[2]};
    assert_int_equal(tt_tokenizer_decode(tok, mixed, 4, true, &whole, &len, NULL), TT_OK);
    assert_string_equal(whole, "\xe2\x82\xac");
    tt_free(whole);
    assert_int_equal(tt_tokenizer_decode(tok, mixed, 4, false, &whole, &len, NULL), TT_OK);
    assert_string_equal(whole, R "<|im_end|>" R);
    tt_free(whole);

    assert_int_equal(tt_decoder_create(tok, true, &dec, NULL), TT_OK);
    assert_int_equal(tt_decoder_push(dec, ids[0], &text, &len, NULL), TT_OK);
    const char *before = text;
    assert_int_equal(tt_decoder_push(dec, 4096, &text, &len, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "4096"));
    assert_ptr_equal(text, before);
    assert_int_equal(tt_decoder_push(dec, ids[1], &text, &len, NULL), TT_OK);
    assert_int_equal(tt_decoder_push(dec, ids[2], &text, &len, NULL), TT_OK);
    assert_string_equal(text, "\xe2\x82\xac");
    uint32_t none[] = {0, UINT32_MAX};
    whole = NULL;
    assert_int_equal(tt_tokenizer_decode(tok, none, 2, true, &whole, &len, NULL), TT_ERR_INVALID);
    assert_null(whole);
    assert_int_equal(tt_tokenizer_decode(tok, NULL, 0, true, &whole, &len, NULL), TT_OK);
    assert_string_equal(whole, "");
    tt_free(whole);
    tt_decoder_close(&dec);
    tt_free(ids);
    tt_tokenizer_close(&tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_characters_pass),
        cmocka_unit_test(maximal_subparts_become_one_replacement),
        cmocka_unit_test(by_another_definition),
        cmocka_unit_test(a_character_is_held_until_it_is_whole),
        cmocka_unit_test(special_tokens_and_unknown_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
