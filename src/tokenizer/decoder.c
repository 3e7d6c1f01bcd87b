#include "tokenizer/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tokenizer/tok_utf8.h"
#include "tokenizer/tokenizer_impl.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* ---- bytes to whole characters ---- */

/* Whether `byte` may stand behind the n (>= 1) bytes of a beginning. */
static bool continues(const unsigned char *have, unsigned n, unsigned char byte)
{
    unsigned low = 0x80, high = 0xbf;
    if (n == 1) {
        low = have[0] == 0xe0 ? 0xa0 : have[0] == 0xf0 ? 0x90 : 0x80;
        high = have[0] == 0xed ? 0x9f : have[0] == 0xf4 ? 0x8f : 0xbf;
    }
    return byte >= low && byte <= high;
}

/* A byte while nothing is unfinished. */
static void first_byte(tt_utf8_stream *s, unsigned char byte, tt_buf *out)
{
    if (byte < 0x80) {
        tt_buf_putc(out, (char)byte);
    } else if (byte < 0xc2 || byte > 0xf4) {
        tt_buf_puts(out, REPLACEMENT);
    } else {
        s->have[0] = byte;
        s->n = 1;
        s->need = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    }
}

void tt_utf8_stream_push(tt_utf8_stream *s, const char *bytes, size_t n, tt_buf *out)
{
    for (size_t i = 0; i < n;) {
        if (s->n == 0) {
            size_t whole = tt_utf8_check(bytes + i, n - i);
            tt_buf_append(out, bytes + i, whole);
            i += whole;
            if (i < n)
                first_byte(s, (unsigned char)bytes[i++], out);
            continue;
        }
        unsigned char byte = (unsigned char)bytes[i];
        if (!continues(s->have, s->n, byte)) {
            tt_utf8_stream_flush(s, out); /* the byte is looked at again as a first one */
            continue;
        }
        s->have[s->n++] = byte;
        i++;
        if (s->n == s->need) {
            tt_buf_append(out, s->have, s->n);
            s->n = 0;
        }
    }
}

void tt_utf8_stream_flush(tt_utf8_stream *s, tt_buf *out)
{
    if (s->n > 0)
        tt_buf_puts(out, REPLACEMENT);
    s->n = 0;
}

/* ---- ids to text ---- */

static tt_status push_id(const tt_tokenizer *tok, tt_utf8_stream *s, uint32_t id, bool skip_special,
                         tt_buf *out, tt_error *err)
{
    size_t len = 0;
    bool special = false;
    const char *bytes = tt_tokenizer_piece(tok, id, &len, &special);
    if (bytes == NULL)
        return tt_fail(err, TT_ERR_INVALID, "id %u has no entry in the vocabulary of %u", id,
                       tok->vocab.n);
    if (!special || !skip_special)
        tt_utf8_stream_push(s, bytes, len, out);
    return TT_OK;
}

tt_status tt_tokenizer_decode(const tt_tokenizer *tok, const uint32_t *ids, size_t n,
                              bool skip_special, char **text, size_t *len, tt_error *err)
{
    if (tok == NULL || (ids == NULL && n > 0) || text == NULL || len == NULL)
        return tt_fail(err, TT_ERR_INVALID, "decoding needs a tokenizer, ids and two outputs");
    tt_buf out;
    tt_utf8_stream s = {0};
    tt_status st = TT_OK;
    tt_buf_init(&out, 4 * TT_MAX_TEXT);
    for (size_t i = 0; i < n && st == TT_OK; i++)
        st = push_id(tok, &s, ids[i], skip_special, &out, err);
    tt_utf8_stream_flush(&s, &out);
    tt_buf_puts(&out, ""); /* an empty text is allocated too */
    if (st == TT_OK)
        st = tt_buf_status(&out, err);
    size_t got = 0;
    char *bytes = st == TT_OK ? tt_buf_steal(&out, &got) : NULL;
    tt_buf_free(&out);
    if (st != TT_OK)
        return st;
    if (bytes == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the text of %zu ids", n);
    *text = bytes;
    *len = got;
    return TT_OK;
}

/* ---- streaming ---- */

struct tt_decoder {
    const tt_tokenizer *tok;
    bool skip_special;
    tt_utf8_stream stream;
    tt_buf out;
};

tt_status tt_decoder_create(const tt_tokenizer *tok, bool skip_special, tt_decoder **dec,
                            tt_error *err)
{
    if (tok == NULL || dec == NULL)
        return tt_fail(err, TT_ERR_INVALID, "a decoder needs a tokenizer and a place to go");
    tt_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a decoder");
    d->tok = tok;
    d->skip_special = skip_special;
    tt_buf_init(&d->out, 4 * TT_MAX_TEXT);
    *dec = d;
    return TT_OK;
}

void tt_decoder_close(tt_decoder **dec)
{
    if (dec == NULL || *dec == NULL)
        return;
    tt_buf_free(&(*dec)->out);
    free(*dec);
    *dec = NULL;
}

static const char *text_of(const tt_buf *out)
{
    return out->data == NULL ? "" : out->data;
}

tt_status tt_decoder_push(tt_decoder *dec, uint32_t id, const char **text, size_t *len,
                          tt_error *err)
{
    tt_buf_clear(&dec->out);
    TT_TRY(push_id(dec->tok, &dec->stream, id, dec->skip_special, &dec->out, err));
    TT_TRY(tt_buf_status(&dec->out, err));
    *text = text_of(&dec->out);
    *len = dec->out.len;
    return TT_OK;
}

void tt_decoder_flush(tt_decoder *dec, const char **text, size_t *len)
{
    tt_buf_clear(&dec->out);
    tt_utf8_stream_flush(&dec->stream, &dec->out);
    *text = text_of(&dec->out);
    *len = dec->out.len;
}
