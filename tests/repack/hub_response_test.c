/* Proves what each header line of a hub means, and that what is malformed counts as absent; and how
 * many requests are in flight as the link answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/hub_client.h"
#include "repack/hub_pace.h"
#include "repack/hub_state.h"

static tt_hub_response r;

static void line(const char *text)
{
    tt_hub_response_line(&r, text, strlen(text));
}

static void lines(void **state)
{
    tt_hub_response_init(&r);
    line("HTTP/1.1 302 Found\r\n");
    line("X-Repo-Commit: abc\r\n");
    line("x-linked-etag: \"feed\"\r\n");
    line("X-Linked-Size: 4096\r\n");
    line("ETag: W/\"first\"\r\n");
    assert_int_equal(r.status, 302);
    assert_string_equal(r.etag, "first");
    assert_string_equal(tt_hub_response_id(&r), "feed");
    /* The next answer keeps what the hub said. */
    line("HTTP/2 206\r\n");
    assert_int_equal(r.status, 206);
    assert_string_equal(r.etag, "");
    assert_string_equal(r.commit, "abc");
    assert_int_equal(r.linked_size, 4096);
    line("Content-Range: bytes 8-15/4096\r\n");
    line("Content-Length: 8\r\n");
    line("Retry-After: 7 \r\n");
    assert_int_equal(r.first, 8);
    assert_int_equal(r.last, 15);
    assert_int_equal(r.total, 4096);
    assert_int_equal(r.length, 8);
    assert_int_equal(r.retry_after, 7);
    line("Content-Range: bytes */4096");
    assert_true(r.first == TT_HUB_UNKNOWN);
    assert_int_equal(r.total, 4096);
}

static void malformed_is_absent(void **state)
{
    static const char *const bad[] = {
        "bytes 8-7/4096", "bytes 8-15/9", "bytes 8-/4096",
        "bytes -7/4096",  "bytes 1-2/",   "bytes 1-2/3x",
        "octets 1-2/4",   "bytes 1-2 /4", "bytes 99999999999999999999-1/4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128] = "Content-Range: ";
        strcat(text, bad[i]);
        tt_hub_response_init(&r);
        line(text);
        assert_true(r.first == TT_HUB_UNKNOWN && r.total == TT_HUB_UNKNOWN);
    }
    line("Content-Length: -1");
    line("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT");
    line("X-Repo-Commit: a\x01 b");
    assert_true(r.length == TT_HUB_UNKNOWN && r.retry_after == TT_HUB_UNKNOWN);
    assert_string_equal(r.commit, "");
    char text[512] = "ETag: ";
    memset(text + 6, 'a', 400);
    line(text);
    assert_string_equal(r.etag, "");
    line("no colon");
    line(":");
    line("");
}

static void names(void **state)
{
    assert_true(tt_hub_repository_valid("Qwen/Qwen3.5-2B"));
    static const char *const bad[] = {"",     "a",    "/a",    "a/",   "a/b/c",
                                      "../b", "a/..", "a b/c", "a/b?c"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tt_hub_repository_valid(bad[i]));
    assert_true(tt_hub_revision_valid("refs/pr/1"));
    assert_false(tt_hub_revision_valid("a/../b"));
    assert_false(tt_hub_revision_valid(""));
    assert_true(tt_hub_file_name_valid("model-00001-of-00002.safetensors"));
    assert_false(tt_hub_file_name_valid("../x"));
    assert_false(tt_hub_file_name_valid(".x"));
}

/* A link that carries `knee` requests at full rate and no more. */
static unsigned settle(double knee)
{
    tt_hub_pace p;
    double now = 0;
    tt_hub_pace_init(&p, now);
    for (int i = 0; i < 4000; i++) {
        double rate = (p.flight < knee ? p.flight : knee) * 1e6;
        now += 1e5 / rate;
        tt_hub_pace_done(&p, 100000, now);
    }
    return p.flight;
}

static void pace(void **state)
{
    assert_true(settle(3) <= 5);
    unsigned n = settle(9);
    assert_true(n >= 8 && n <= 11);
    assert_true(settle(100) >= TT_HUB_MAX_FLIGHT - 2);
    tt_hub_pace p;
    tt_hub_pace_init(&p, 0);
    unsigned before = p.flight;
    tt_hub_pace_retreat(&p, 1);
    assert_int_equal(p.flight, before / 2);
    for (int i = 0; i < 10; i++)
        tt_hub_pace_retreat(&p, 1);
    assert_int_equal(p.flight, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines),
                                       cmocka_unit_test(malformed_is_absent),
                                       cmocka_unit_test(names), cmocka_unit_test(pace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
