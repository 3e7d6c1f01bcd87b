/* tok_utf8.h: reading, writing and checking UTF-8, one character at a time.
 *
 * Owns:      the well-formedness rules (no overlong forms, no surrogates, nothing above
 *            U+10FFFF).
 * Not here:  normalisation (nfc.h), classes of characters, replacement of broken bytes
 *            (decoder.c).
 * Laws:      (1) tt_utf8_read trusts its input: check a text once with tt_utf8_check, at the
 *            door.
 * Threads:   pure functions.
 */
#ifndef TT_TOKENIZER_TOK_UTF8_H
#define TT_TOKENIZER_TOK_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Length of the well-formed character at `p` (at most `n` bytes are looked at), 0 when there is
 * none. */
static inline size_t tt_utf8_len(const unsigned char *p, size_t n)
{
    if (n == 0)
        return 0;
    unsigned c = p[0];
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    size_t len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (n < len)
        return 0;
    unsigned low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Length of the leading part of `text` that is plain ASCII. */
static inline size_t tt_ascii_prefix(const char *text, size_t n)
{
    size_t i = 0;
    for (uint64_t w; i + 8 <= n; i += 8) {
        memcpy(&w, text + i, 8);
        if ((w & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    while (i < n && (unsigned char)text[i] < 0x80)
        i++;
    return i;
}

/* Offset of the first byte that does not belong to a well-formed character; `n` when all is well.
 */
static inline size_t tt_utf8_check(const char *text, size_t n)
{
    size_t i = 0;
    while ((i += tt_ascii_prefix(text + i, n - i)) < n) {
        size_t len = tt_utf8_len((const unsigned char *)text + i, n - i);
        if (len == 0)
            return i;
        i += len;
    }
    return n;
}

/* Code point at `p` of a checked text; *len receives its bytes. */
static inline uint32_t tt_utf8_read(const char *p, size_t *len)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) {
        *len = 1;
        return u[0];
    }
    if (u[0] < 0xe0) {
        *len = 2;
        return (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
    }
    if (u[0] < 0xf0) {
        *len = 3;
        return (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
    }
    *len = 4;
    return (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
           (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
}

/* Start of the character before offset `i` (> 0) of a checked text. */
static inline size_t tt_utf8_before(const char *text, size_t i)
{
    do
        i--;
    while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80);
    return i;
}

/* Writes a scalar value, returns its bytes (1 to 4). */
static inline size_t tt_utf8_write(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

#endif
