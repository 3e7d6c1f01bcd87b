/* Proves the checks of a manifest that need no files: sections, claims, tables and quantization,
 * each with a manifest that is wrong in one way only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/install_manifest.h"
#include "support/mini_install.h"

#define GOLDEN "tests/golden/gturbo-v2"

static json_t *tree;

static int setup(void **state)
{
    size_t len = 0;
    char *text = mini_slurp(GOLDEN, "manifest.json", &len);
    tree = json_loadb(text, len, 0, NULL);
    free(text);
    return tree == NULL;
}

static int teardown(void **state)
{
    json_decref(tree);
    return 0;
}

/* Value at "a/b/c"; keys may be followed by |, which stands for a slash in a key. */
static json_t *at(const char *where, char last[64])
{
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", where);
    json_t *v = tree, *parent = NULL;
    for (char *k = strtok_r(copy, "/", &save); k != NULL; k = strtok_r(NULL, "/", &save)) {
        for (char *p = k; *p != '\0'; p++)
            *p = *p == '|' ? '/' : *p;
        snprintf(last, 64, "%s", k);
        parent = v;
        v = json_object_get(v, k);
    }
    return parent;
}

static void set(const char *where, json_t *value)
{
    char last[64];
    json_t *parent = at(where, last);
    assert_int_equal(json_object_set_new(parent, last, value), 0);
}

static tt_status parse(tt_manifest *m, tt_error *err)
{
    char *text = json_dumps(tree, JSON_INDENT(1));
    *err = (tt_error){0};
    tt_status st = tt_manifest_parse(text, strlen(text), "manifest.json", m, err);
    free(text);
    return st;
}

static void refused(tt_status want, const char *words)
{
    tt_manifest m;
    tt_error err;
    tt_status st = parse(&m, &err);
    if (st != want || strstr(err.message, words) == NULL)
        print_message("got %s \"%s\", wanted %s \"%s\"\n", tt_status_name(st), err.message,
                      tt_status_name(want), words);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.message, words));
    assert_string_equal(err.file, "manifest.json");
}

static void a_good_one(void **state)
{
    tt_manifest m;
    tt_error err;
    assert_int_equal(parse(&m, &err), TT_OK);
    assert_string_equal(m.model_id, "mini");
    assert_string_equal(m.weights.file, "model_weights.bin");
    assert_string_equal(m.mtp.file, "mtp_weights.bin");
    assert_int_equal(m.experts.n_experts, 3);
    assert_int_equal(m.mtp_experts.n_experts, 3);
    for (size_t i = 1; i < m.n_files; i++)
        assert_true(strcmp(m.files[i - 1].rel, m.files[i].rel) < 0);
    assert_non_null(tt_manifest_find(&m, "packed_experts/mtp_00.bin"));
    assert_null(tt_manifest_find(&m, "packed_experts/mtp_01.bin"));
    tt_manifest_free(&m);
    tt_manifest_free(&m);
    tt_manifest_free(NULL);
}

static void one_thing_wrong(void **state)
{
    static const struct {
        const char *where, *json, *words;
        tt_status status;
    } cases[] = {
        {"magic", "\"GTURBO2\"", "must be \"GTURBO\"", TT_ERR_FORMAT},
        {"version", "0", "version", TT_ERR_LIMIT},
        {"min_reader", "9", "newer TinyTitan", TT_ERR_UNSUPPORTED},
        {"min_reader", "0", "min_reader", TT_ERR_LIMIT},
        {"model_id", "\"a b\"", "not a model id", TT_ERR_FORMAT},
        {"family", "\"qwen3_5\"", "must be \"qwen3_5_moe\"", TT_ERR_FORMAT},
        {"arch/n_experts", "4", "n_experts", TT_ERR_LIMIT},
        {"arch/n_layers", "3", "layer_kind", TT_ERR_FORMAT},
        {"arch/hidden_size", "128", "payload_bytes", TT_ERR_LIMIT},
        {"arch/n_mtp_layers", "0", "crc32c.bin", TT_ERR_FORMAT},
        {"source/index_sha256", "\"00\"", "64 lower-case", TT_ERR_FORMAT},
        {"source/files/x", "{\"size\": 1}", "header_sha256", TT_ERR_FORMAT},
        {"source/files/x",
         "{\"size\": 9, \"header_sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\", "
         "\"ranges\": {\"8-9\": \"00\"}}",
         "64 lower-case", TT_ERR_FORMAT},
        {"source/files/x",
         "{\"size\": 9, \"header_sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\", "
         "\"ranges\": {\"0-10\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\"}}",
         "no bytes", TT_ERR_FORMAT},
        {"source/files/x",
         "{\"size\": 9, \"header_sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\", "
         "\"ranges\": {\"4-4\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\"}}",
         "no bytes", TT_ERR_FORMAT},
        {"source/files/x",
         "{\"size\": 9, \"header_sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\", "
         "\"ranges\": {\"04-5\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\"}}",
         "no bytes", TT_ERR_FORMAT},
        {"source/files/x",
         "{\"size\": 9, \"header_sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\", "
         "\"ranges\": {\"-1-5\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\"}}",
         "no bytes", TT_ERR_FORMAT},
        {"source/files/x",
         "{\"size\": 9, \"header_sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\", "
         "\"ranges\": []}",
         "ranges", TT_ERR_FORMAT},
        {"quantization/x", "{\"bits\": 4, \"group_size\": 32, \"mode\": \"affine\"}", "group_size",
         TT_ERR_LIMIT},
        {"quantization/x", "{\"bits\": 4, \"group_size\": 64, \"mode\": \"mxfp4\"}", "mode",
         TT_ERR_FORMAT},
        {"files", "{}", "0 files", TT_ERR_LIMIT},
        {"files/model_weights.bin/size", "40", "multiple of 16384", TT_ERR_FORMAT},
        {"files/model_weights.bin/size", "-16384", "size", TT_ERR_LIMIT},
        {"files/packed_experts|layer_01.bin/size", "16384", "the layout calls for 49152",
         TT_ERR_FORMAT},
        {"files/packed_experts|crc32c.bin/size", "104", "the layout calls for 100", TT_ERR_FORMAT},
        {"files/packed_experts|layer_02.bin",
         "{\"size\": 0, \"sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\"}",
         "belongs to no section", TT_ERR_FORMAT},
        {"files/tokenizer|sub|x",
         "{\"size\": 0, \"sha256\": "
         "\"0000000000000000000000000000000000000000000000000000000000000000\"}",
         "belongs to no section", TT_ERR_FORMAT},
        {"sections/weights/must_understand", "false", "must be true", TT_ERR_FORMAT},
        {"sections/mtp/must_understand", "true", "must be false", TT_ERR_FORMAT},
        {"sections/weights/file", "\"mtp_weights.bin\"", "must be \"model_weights.bin\"",
         TT_ERR_FORMAT},
        {"sections/weights/index_bytes", "16385", "multiple of 16384", TT_ERR_FORMAT},
        {"sections/weights/index_bytes", "33570816", "index_bytes", TT_ERR_LIMIT},
        {"sections/experts/layout/stride", "32768", "stride", TT_ERR_LIMIT},
        {"sections/experts/layout/gate/dtype", "\"Q8\"", "section \"experts\"", TT_ERR_LIMIT},
        {"sections/experts/layout/gate/dtype", "\"Q3\"", "\"Q3\" is not known", TT_ERR_UNSUPPORTED},
        {"sections/experts/layout/gate/dtype", "\"I64\"", "not known", TT_ERR_UNSUPPORTED},
        {"sections/experts/layout/up/scales", "[1, 2]", "the layout calls for", TT_ERR_FORMAT},
        {"sections/experts/layout/up/scales", "[1, 2, 3]", "[offset, bytes]", TT_ERR_FORMAT},
        {"sections/experts/layout/up/scales", "[1.0, 2]", "[offset, bytes]", TT_ERR_FORMAT},
        {"sections/experts/layout/down/words", "[-1, 2]", "the layout calls for", TT_ERR_FORMAT},
        {"sections/later", "{\"must_understand\": true}", "newer TinyTitan", TT_ERR_UNSUPPORTED},
        {"sections/later", "{\"must_understand\": false, \"files\": [1]}", "not strings",
         TT_ERR_FORMAT},
        {"sections/later", "{}", "must_understand", TT_ERR_FORMAT},
        {"sections/later", "[]", "not an object", TT_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *whole = json_deep_copy(tree);
        set(cases[i].where, json_loads(cases[i].json, JSON_DECODE_ANY, NULL));
        refused(cases[i].status, cases[i].words);
        json_decref(tree);
        tree = whole;
    }
}

static void missing_sections_and_files(void **state)
{
    static const char *const sections[] = {"weights", "experts", "mtp", "tokenizer"};
    for (size_t i = 0; i < 4; i++) {
        json_t *whole = json_deep_copy(tree);
        json_object_del(json_object_get(tree, "sections"), sections[i]);
        refused(TT_ERR_FORMAT, i < 3 ? "is missing" : "belongs to no section");
        json_decref(tree);
        tree = whole;
    }
    json_t *files = json_object_get(tree, "files");
    json_object_del(files, "packed_experts/mtp_00.bin");
    refused(TT_ERR_FORMAT, "\"packed_experts/mtp_00.bin\", which is not listed");
}

static void quantization_and_indexes_must_agree(void **state)
{
    tt_index_entry e[2] = {{.name = "a", .dtype = TT_DTYPE_Q4},
                           {.name = "b", .dtype = TT_DTYPE_F32}};
    tt_index ix = {.entries = e, .count = 2};
    tt_manifest m = {.tree = json_pack("{s:{s:{s:i}}}", "quantization", "a", "bits", 4)};
    tt_error err;
    json_t *all = json_object_get(m.tree, "quantization");
    assert_int_equal(tt_manifest_check_quantization(&m, &ix, NULL, "m", &err), TT_OK);
    e[0].dtype = TT_DTYPE_Q8;
    assert_int_equal(tt_manifest_check_quantization(&m, &ix, NULL, "m", &err), TT_ERR_FORMAT);
    e[0].dtype = TT_DTYPE_Q4;
    e[1].dtype = TT_DTYPE_Q4; /* an affine tensor without an entry */
    assert_int_equal(tt_manifest_check_quantization(&m, &ix, NULL, "m", &err), TT_ERR_FORMAT);
    e[1].dtype = TT_DTYPE_F32;
    json_object_set_new(all, "b", json_pack("{s:i}", "bits", 4)); /* an entry without one */
    assert_int_equal(tt_manifest_check_quantization(&m, &ix, NULL, "m", &err), TT_ERR_FORMAT);
    json_object_del(all, "b");
    json_object_set_new(all, "c", json_pack("{s:i}", "bits", 4)); /* an entry of nothing */
    assert_int_equal(tt_manifest_check_quantization(&m, &ix, NULL, "m", &err), TT_ERR_FORMAT);
    json_decref(m.tree);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(a_good_one),
        WITH(one_thing_wrong),
        WITH(missing_sections_and_files),
        cmocka_unit_test(quantization_and_indexes_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
