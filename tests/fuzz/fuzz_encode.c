/* Any text through the shipped tokenizer: decoding gives its normal form back, and streaming gives
 * what decoding in one call gives; any ids: whole UTF-8 comes out. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/nfc.h"
#include "tokenizer/tok_utf8.h"
#include "tokenizer/tokenizer_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void stream_equals(const tt_tokenizer *tok, const uint32_t *ids, size_t n, bool skip,
                          const char *whole, size_t len)
{
    tt_decoder *dec = NULL;
    tt_buf out;
    const char *text;
    size_t part;
    tt_buf_init(&out, 1 << 26);
    check(tt_decoder_create(tok, skip, &dec, NULL) == TT_OK);
    for (size_t i = 0; i < n; i++) {
        check(tt_decoder_push(dec, ids[i], &text, &part, NULL) == TT_OK);
        check(tt_utf8_check(text, part) == part);
        tt_buf_append(&out, text, part);
    }
    tt_decoder_flush(dec, &text, &part);
    tt_buf_append(&out, text, part);
    check(out.len == len && (len == 0 || memcmp(out.data, whole, len) == 0));
    tt_buf_free(&out);
    tt_decoder_close(&dec);
}

static void text_comes_back(const tt_tokenizer *tok, const char *text, size_t n, bool special)
{
    uint32_t *ids = NULL;
    size_t count = 0, len = 0;
    char *back = NULL;
    tt_buf nfc;
    bool same = false;
    tt_status st = tt_tokenizer_encode(tok, text, n, special, &ids, &count, NULL);
    if (tt_utf8_check(text, n) < n) {
        check(st == TT_ERR_FORMAT);
        return;
    }
    check(st == TT_OK);
    check(tt_tokenizer_decode(tok, ids, count, false, &back, &len, NULL) == TT_OK);
    stream_equals(tok, ids, count, false, back, len);
    tt_buf_init(&nfc, 4 * n + 64);
    check(tt_nfc(text, n, &nfc, &same, NULL) == TT_OK);
    const char *want = same ? text : nfc.data;
    size_t want_len = same ? n : nfc.len;
    /* An added token parts what would otherwise be composed across it; without them it is exact. */
    if (!special || memchr(text, '<', n) == NULL)
        check(len == want_len && (len == 0 || memcmp(back, want, len) == 0));
    tt_buf_free(&nfc);
    tt_free(back);
    tt_free(ids);
}

static void ids_are_whole(const tt_tokenizer *tok, const uint8_t *data, size_t size)
{
    uint32_t *ids = malloc(size * 2 + sizeof *ids);
    size_t n = size / 2, len = 0;
    char *text = NULL;
    check(ids != NULL);
    for (size_t i = 0; i < n; i++)
        ids[i] = ((uint32_t)data[2 * i] | (uint32_t)data[2 * i + 1] << 8) & 4095;
    for (int skip = 0; skip < 2; skip++) {
        check(tt_tokenizer_decode(tok, ids, n, skip != 0, &text, &len, NULL) == TT_OK);
        check(tt_utf8_check(text, len) == len);
        stream_equals(tok, ids, n, skip != 0, text, len);
        tt_free(text);
    }
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tt_tokenizer *tok;
    if (tok == NULL)
        check(tt_tokenizer_open("models/tales", &tok, NULL) == TT_OK);
    text_comes_back(tok, (const char *)data, size, true);
    text_comes_back(tok, (const char *)data, size, false);
    ids_are_whole(tok, data, size);
    return 0;
}
