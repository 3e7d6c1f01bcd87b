/* Proves that a shard is called verified only when its whole digest is the hub's, and what is told
 * of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/origin.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static tt_origin of(const char *repository, const char *commit, const char *files)
{
    tt_origin o;
    json_t *m = json_pack("{s:{s:s, s:s, s:o}}", "source", "repository", repository, "revision",
                          commit, "files", json_loads(files, 0, NULL));
    assert_non_null(m);
    tt_origin_of(m, &o);
    json_decref(m);
    return o;
}

static void counts(void **state)
{
    char text[512];
    tt_origin o = of("a/b", COMMIT,
                     "{\"config.json\": {\"sha256\": \"c\", \"hub_id\": \"c\"},"
                     " \"1\": {\"header_sha256\": \"h\", \"sha256\": \"x\", \"hub_id\": \"x\"},"
                     " \"2\": {\"header_sha256\": \"h\", \"sha256\": \"x\", \"hub_id\": \"y\"},"
                     " \"3\": {\"header_sha256\": \"h\", \"sha256\": \"x\"},"
                     " \"4\": {\"header_sha256\": \"h\", \"hub_id\": \"y\","
                     "         \"ranges\": {\"0-1\": \"r\", \"1-2\": \"r\"}}}");
    assert_true(o.hub);
    assert_string_equal(o.repository, "a/b");
    assert_string_equal(o.commit, COMMIT);
    assert_int_equal(o.shards, 4);
    assert_int_equal(o.verified, 1);
    assert_int_equal(o.ranges, 2);
    tt_origin_tell(&o, text, sizeof text);
    assert_string_equal(text, "a/b " COMMIT "; 1 of 4 shards were read whole and verified against "
                              "the hub's SHA-256, of the others 2 ranges have digests");
    tt_origin_tell(&o, text, 10);
    assert_int_equal(strlen(text), 9);
}

static void whole(void **state)
{
    char text[512];
    tt_origin o = of("a/b", COMMIT,
                     "{\"1\": {\"header_sha256\": \"h\", \"sha256\": \"x\", \"hub_id\": \"x\"}}");
    tt_origin_tell(&o, text, sizeof text);
    assert_non_null(strstr(text, "; all 1 shards were read whole and verified"));
}

/* A local checkpoint, and a synthetic one, whose revision describes how it was drawn. */
static void no_hub(void **state)
{
    static const char *const commits[] = {"", "{\"seed\": 1}", "main", COMMIT "0"};
    char text[512];
    for (size_t i = 0; i < sizeof commits / sizeof *commits; i++) {
        tt_origin o = of("a/b", commits[i], "{}");
        assert_false(o.hub);
        tt_origin_tell(&o, text, sizeof text);
        assert_string_equal(text, "");
    }
    assert_false(of("", COMMIT, "{}").hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(whole),
                                       cmocka_unit_test(no_hub)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
