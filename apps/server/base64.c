#include "server/base64.h"

#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tt_base64_write(tt_buf *out, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    char four[4];
    tt_buf_reserve(out, (n + 2) / 3 * 4);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16;
        v |= i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0;
        v |= i + 2 < n ? p[i + 2] : 0;
        four[0] = letters[v >> 18];
        four[1] = letters[v >> 12 & 63];
        four[2] = i + 1 < n ? letters[v >> 6 & 63] : '=';
        four[3] = i + 2 < n ? letters[v & 63] : '=';
        tt_buf_append(out, four, 4);
    }
}

static int value_of(char c)
{
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    return at != NULL ? (int)(at - letters) : -1;
}

/* Four letters, `n` of which are no padding. */
static bool read_four(tt_buf *out, const char *text, size_t n)
{
    uint32_t v = 0;
    for (size_t i = 0; i < 4; i++) {
        int letter = i < n ? value_of(text[i]) : 0;
        if (letter < 0)
            return false;
        v = v << 6 | (uint32_t)letter;
    }
    const char bytes[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
    /* Bits that no byte takes are zero. */
    if ((n == 2 && (v & 0xffff) != 0) || (n == 3 && (v & 0xff) != 0))
        return false;
    tt_buf_append(out, bytes, n - 1);
    return true;
}

bool tt_base64_read(tt_buf *out, const char *text, size_t n)
{
    if (n % 4 != 0)
        return false;
    for (size_t i = 0; i < n; i += 4) {
        size_t four = 4;
        if (i + 4 == n && text[i + 3] == '=')
            four = text[i + 2] == '=' ? 2 : 3;
        if (!read_four(out, text + i, four))
            return false;
    }
    return true;
}
