/* Proves that the chat page is there whole, asks for nothing from elsewhere, has one script and one
 * style, and that the policy names exactly their digests, as another implementation reckons them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/file.h"
#include "server/chat_page.h"

static char *page;
static char fields[TT_CHAT_PAGE_FIELDS];

static int set_up(void **state)
{
    (void)state;
    size_t len;
    const char *text = tt_chat_page(&len);
    page = tt_copy_text(text, len);
    return page != NULL && strlen(page) == len ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free(page);
    return 0;
}

static void it_is_the_file(void **state)
{
    (void)state;
    char *file;
    size_t len;
    assert_int_equal(tt_file_read("apps/server/chat_page.html", 1 << 20, &file, &len, NULL), TT_OK);
    assert_string_equal(file, page);
    tt_free(file);
}

static size_t count(const char *what)
{
    size_t n = 0;
    for (const char *at = page; (at = strcasestr(at, what)) != NULL; at++)
        n++;
    return n;
}

static void nothing_is_fetched_or_inline(void **state)
{
    (void)state;
    assert_int_equal(count("<script"), 1);
    assert_int_equal(count("<style"), 1);
    /* Markup made of text, and code in attributes, would both need another policy. */
    static const char *const none[] = {" style=\"",
                                       " onclick",
                                       " onload",
                                       " onerror",
                                       "innerHTML",
                                       "outerHTML",
                                       "insertAdjacentHTML",
                                       "DOMParser",
                                       "document.write",
                                       "eval(",
                                       "new Function",
                                       " src=",
                                       "<iframe",
                                       "<object",
                                       "<embed",
                                       "<base",
                                       "@import",
                                       ": url(",
                                       "javascript:",
                                       "import(",
                                       "//cdn",
                                       "https:"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (count(none[i]) > 0)
            fail_msg("the page holds %s", none[i]);
    /* Names of namespaces are no addresses. */
    assert_int_equal(count("http:"), count("http://www.w3.org/2000/svg"));
}

static void expect_digest(const char *name)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char open[16], close[16], base64[64], want[128];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *begin = strstr(page, open) + strlen(open), *end = strstr(page, close);
    SHA256((const unsigned char *)begin, (size_t)(end - begin), digest);
    EVP_EncodeBlock((unsigned char *)base64, digest, sizeof digest);
    snprintf(want, sizeof want, "%s-src 'sha256-%s';", name, base64);
    if (strstr(fields, want) == NULL)
        fail_msg("lacks: %s\nin: %s", want, fields);
}

static void the_policy_names_the_digests(void **state)
{
    (void)state;
    assert_int_equal(tt_chat_page_fields(fields, NULL), TT_OK);
    expect_digest("script");
    expect_digest("style");
    static const char *const words[] = {
        "Content-Security-Policy: default-src 'none'; ",
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; ",
        "frame-ancestors 'none'; ",
        "require-trusted-types-for 'script'; trusted-types 'none'\r\n",
        "\r\nCross-Origin-Opener-Policy: same-origin\r\n",
        "\r\nReferrer-Policy: no-referrer\r\n",
        "\r\nX-Frame-Options: DENY\r\n",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(fields, words[i]) == NULL)
            fail_msg("lacks: %s\nin: %s", words[i], fields);
    assert_null(strstr(fields, "unsafe"));
    assert_string_equal(fields + strlen(fields) - 2, "\r\n");
    assert_null(strstr(fields, "\r\n\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_file),
        cmocka_unit_test(nothing_is_fetched_or_inline),
        cmocka_unit_test(the_policy_names_the_digests),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
