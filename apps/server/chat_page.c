#include "server/chat_page.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define HASH 64u /* "sha256-" and 44 characters */

/* The file as it lies in the tree; builds run from the root of it. */
__asm__(".section .rodata\n"
        ".global tt_chat_page_html\n"
        ".hidden tt_chat_page_html\n"
        ".global tt_chat_page_end\n"
        ".hidden tt_chat_page_end\n"
        "tt_chat_page_html:\n"
        ".incbin \"apps/server/chat_page.html\"\n"
        "tt_chat_page_end:\n"
        ".byte 0\n"
        ".previous\n");
extern const char tt_chat_page_html[] __attribute__((visibility("hidden")));
extern const char tt_chat_page_end[] __attribute__((visibility("hidden")));

const char *tt_chat_page(size_t *len)
{
    *len = (size_t)((uintptr_t)tt_chat_page_end - (uintptr_t)tt_chat_page_html);
    return tt_chat_page_html;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* 64 hexadecimal digits as 44 characters of base 64. */
static void to_base64(const char *hex, char *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char b[33] = {0};
    for (int i = 0; i < 32; i++)
        b[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    for (int i = 0; i < 33; i += 3) {
        unsigned v = (unsigned)b[i] << 16 | (unsigned)b[i + 1] << 8 | b[i + 2];
        for (int k = 0; k < 4; k++)
            *out++ = letters[v >> (18 - 6 * k) & 63];
    }
    out[-1] = '='; /* the 33rd byte is none */
    *out = '\0';
}

/* Of what stands between the only <NAME> and </NAME> of the page. */
static tt_status hash_of(const char *name, char out[HASH], tt_error *err)
{
    char open[16], close[16], hex[TT_SHA256_HEX];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *begin = strstr(tt_chat_page_html, open);
    const char *end = begin != NULL ? strstr(begin, close) : NULL;
    if (end == NULL || strstr(end, open) != NULL)
        return tt_fail(err, TT_ERR_INTERNAL, "the chat page has not one %s", open);
    begin += strlen(open);
    TT_TRY(tt_sha256_of(begin, (size_t)(end - begin), hex, err));
    memcpy(out, "sha256-", 7);
    to_base64(hex, out + 7);
    return TT_OK;
}

tt_status tt_chat_page_fields(char out[TT_CHAT_PAGE_FIELDS], tt_error *err)
{
    char script[HASH], style[HASH];
    TT_TRY(hash_of("script", script, err));
    TT_TRY(hash_of("style", style, err));
    snprintf(out, TT_CHAT_PAGE_FIELDS,
             "Content-Security-Policy: default-src 'none'; script-src '%s'; style-src '%s'; "
             "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n"
             "Cross-Origin-Opener-Policy: same-origin\r\n"
             "Referrer-Policy: no-referrer\r\n"
             "X-Frame-Options: DENY\r\n",
             script, style);
    return TT_OK;
}
