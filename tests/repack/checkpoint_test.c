/* Proves what is noted about a checkpoint's origin, which tokenizer files are found, and that
 * directories that are no checkpoints are refused with the file that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "repack/checkpoint.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512];

static int setup(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static void refused(tt_status want, const char *words)
{
    tt_snapshot s;
    tt_error err = {0};
    tt_status st = tt_snapshot_open(dir, NULL, &s, &err);
    if (st != want || strstr(err.message, words) == NULL)
        print_message("got %s \"%s\"\n", tt_status_name(st), err.message);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.message, words));
}

static void origin(void **state)
{
    tt_snapshot s;
    mini_options o = mini_default();
    size_t len = 0;
    char hex[TT_SHA256_HEX];
    mini_write(dir, &o);
    assert_int_equal(tt_snapshot_open(dir, NULL, &s, NULL), TT_OK);
    json_t *files = json_object_get(s.source, "files");
    assert_int_equal(json_object_size(files), 2);
    /* One file: its header stands for the index. */
    char *bytes = mini_slurp(dir, "model.safetensors", &len);
    uint64_t n = 0;
    memcpy(&n, bytes, 8);
    assert_int_equal(tt_sha256_of(bytes, 8 + n, hex, NULL), TT_OK);
    const json_t *model = json_object_get(files, "model.safetensors");
    assert_string_equal(json_string_value(json_object_get(model, "header_sha256")), hex);
    assert_int_equal(json_integer_value(json_object_get(model, "size")), len);
    assert_string_equal(json_string_value(json_object_get(s.source, "index_sha256")), hex);
    free(bytes);
    tt_snapshot_close(&s);
    tt_snapshot_close(NULL);
    mini_remove(dir, "model.safetensors");
    o.shards = 3;
    mini_write(dir, &o);
    assert_int_equal(tt_snapshot_open(dir, NULL, &s, NULL), TT_OK);
    assert_int_equal(json_object_size(json_object_get(s.source, "files")), 5);
    bytes = mini_slurp(dir, "model.safetensors.index.json", &len);
    assert_int_equal(tt_sha256_of(bytes, len, hex, NULL), TT_OK);
    assert_string_equal(json_string_value(json_object_get(s.source, "index_sha256")), hex);
    free(bytes);
    tt_snapshot_close(&s);
}

static void tokenizer_files(void **state)
{
    tt_snapshot s;
    mini_options o = mini_default();
    o.tokenizer = o.template = false;
    mini_write(dir, &o);
    assert_int_equal(tt_snapshot_open(dir, NULL, &s, NULL), TT_OK);
    assert_false(s.has_tokenizer);
    assert_false(s.has_template);
    assert_int_equal(s.n_tokenizer, 1); /* config.json */
    tt_snapshot_close(&s);
    mini_spew(dir, "tokenizer_config.json", "{\"chat_template\": null}", 23);
    mini_spew(dir, "tokenizer.json", "{}", 2);
    mini_spew(dir, "README.md", "x", 1);
    assert_int_equal(tt_snapshot_open(dir, NULL, &s, NULL), TT_OK);
    assert_true(s.has_tokenizer);
    assert_false(s.has_template);
    assert_int_equal(s.n_tokenizer, 3);
    tt_snapshot_close(&s);
    mini_spew(dir, "chat_template.jinja", "x", 1);
    assert_int_equal(tt_snapshot_open(dir, NULL, &s, NULL), TT_OK);
    assert_true(s.has_template);
    tt_snapshot_close(&s);
    mini_spew(dir, "tokenizer_config.json", "{", 1);
    refused(TT_ERR_FORMAT, "broken JSON");
    mini_remove(dir, "tokenizer_config.json");
    char path[600];
    snprintf(path, sizeof path, "%s/merges.txt", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    refused(TT_ERR_IO, "merges.txt is not a readable regular file");
}

static void no_checkpoint(void **state)
{
    tt_snapshot s;
    tt_error err = {0};
    refused(TT_ERR_NOT_FOUND, "config.json");
    mini_spew(dir, "config.json", "[]", 2);
    refused(TT_ERR_FORMAT, "is not a JSON object");
    mini_spew(dir, "config.json", "{}", 2);
    refused(TT_ERR_NOT_FOUND, "safetensors");
    assert_int_equal(tt_snapshot_open("/nonexistent", NULL, &s, &err), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_snapshot_open("Makefile", NULL, &s, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "give the directory that holds config.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(origin, setup, teardown),
        cmocka_unit_test_setup_teardown(tokenizer_files, setup, teardown),
        cmocka_unit_test_setup_teardown(no_checkpoint, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
