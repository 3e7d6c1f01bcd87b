/* Proves that the form of a receipt is checked key by key before anything is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "format/install_receipt.h"

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* A receipt whose parts can be replaced one at a time. */
static tt_status parse(const char *magic, const char *version, const char *digest,
                       const char *files, const char *more, tt_error *err)
{
    char text[2048];
    tt_receipt r = {0};
    snprintf(text, sizeof text,
             "{\"magic\": %s, \"version\": %s, \"manifest_sha256\": %s, \"path\": \"/a\", "
             "\"tool\": \"t\", \"time\": \"now\", \"files\": %s%s}",
             magic, version, digest, files, more);
    *err = (tt_error){0};
    tt_status st = tt_receipt_parse(text, strlen(text), "receipt", &r, err);
    if (st == TT_OK)
        assert_true(r.n_files > 0 && r.files != NULL);
    else
        assert_null(r.tree);
    tt_receipt_free(&r);
    return st;
}

#define MAGIC  "\"GTURBO-RECEIPT\""
#define DIGEST "\"" HEX "\""
#define FILE1  "{\"a\": {\"size\": 1, \"mtime_ns\": 2, \"sha256\": \"" HEX "\"}}"

static void form(void **state)
{
    static const struct {
        const char *magic, *version, *digest, *files, *more, *words;
    } bad[] = {
        {"\"GTURBO\"", "1", DIGEST, FILE1, "", "magic"},
        {"1", "1", DIGEST, FILE1, "", "magic"},
        {MAGIC, "2", DIGEST, FILE1, "", "version"},
        {MAGIC, "\"1\"", DIGEST, FILE1, "", "version"},
        {MAGIC, "1", "\"00\"", FILE1, "", "digest"},
        {MAGIC, "1", DIGEST, "[]", "", "files"},
        {MAGIC, "1", DIGEST, "{}", "", "0 files"},
        {MAGIC, "1", DIGEST, FILE1, ", \"x\": 1", "\"x\""},
        {MAGIC, "1", DIGEST, "{\"../a\": {}}", "", "not a path"},
        {MAGIC, "1", DIGEST, "{\"a\": 1}", "", "not an object"},
        {MAGIC, "1", DIGEST, "{\"a\": {\"size\": 1, \"mtime_ns\": 2}}", "", "sha256"},
        {MAGIC, "1", DIGEST, "{\"a\": {\"size\": 1, \"sha256\": \"" HEX "\"}}", "", "mtime_ns"},
        {MAGIC, "1", DIGEST, "{\"a\": {\"size\": 1, \"mtime_ns\": 2.5, \"sha256\": \"" HEX "\"}}",
         "", "mtime_ns"},
        {MAGIC, "1", DIGEST, "{\"a\": {\"size\": -1, \"mtime_ns\": 2, \"sha256\": \"" HEX "\"}}",
         "", "size"},
        {MAGIC, "1", DIGEST,
         "{\"a\": {\"size\": 1, \"mtime_ns\": 2, \"sha256\": \"" HEX "\", \"y\": 0}}", "", "\"y\""},
    };
    tt_error err;
    assert_int_equal(parse(MAGIC, "1", DIGEST, FILE1, "", &err), TT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_status st =
            parse(bad[i].magic, bad[i].version, bad[i].digest, bad[i].files, bad[i].more, &err);
        assert_true(st == TT_ERR_FORMAT || st == TT_ERR_LIMIT);
        if (strstr(err.message, bad[i].words) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.message, bad[i].words);
        assert_string_equal(err.file, "receipt");
    }
}

static void not_json(void **state)
{
    static const char *const texts[] = {"", "{", "null", "[]", "\"x\"", "{\"a\":1,\"a\":1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tt_receipt r = {0};
        assert_int_equal(tt_receipt_parse(texts[i], strlen(texts[i]), "receipt", &r, NULL),
                         TT_ERR_FORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(form),
        cmocka_unit_test(not_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
