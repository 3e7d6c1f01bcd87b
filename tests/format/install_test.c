/* Proves that a sound install opens with and without a receipt, that every field of its manifest,
 * receipt and files can be broken without being noticed too late, and that the golden install of
 * format version 2 opens for ever. */
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

#include "base/file.h"
#include "base/hash.h"
#include "format/install.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

#define GOLDEN "tests/golden/gturbo-v2"

static char dir[512], path[600];

static int setup(void **state)
{
    mini_options o = mini_default();
    tempdir_make(dir);
    o.mtp = true;
    mini_install(dir, "t.gturbo", &o, 4, path);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static tt_status opens(unsigned flags, tt_error *err)
{
    tt_install *in = NULL;
    *err = (tt_error){0};
    tt_status st = tt_install_open(path, flags, NULL, NULL, &in, err);
    assert_true(st == TT_OK ? in != NULL : in == NULL);
    if (st != TT_OK) {
        assert_int_equal(err->status, st);
        assert_true(err->message[0] != '\0');
    }
    tt_install_close(&in);
    return st;
}

static void refused(unsigned flags, tt_status want, const char *words)
{
    tt_error err;
    tt_status st = opens(flags, &err);
    if (st != want || strstr(err.message, words) == NULL)
        print_message("got %s \"%s\", wanted %s \"%s\"\n", tt_status_name(st), err.message,
                      tt_status_name(want), words);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.message, words));
}

/* ---- good ---- */

static void check_contents(const tt_install *in)
{
    const tt_arch *a = tt_install_arch(in);
    const tt_index_entry *e = tt_index_find(tt_install_index(in), "embed_tokens.weight");
    assert_string_equal(tt_install_model_id(in), "mini");
    assert_int_equal(a->family, TT_FAMILY_QWEN3_5_MOE);
    assert_int_equal(a->n_layers, MINI_LAYERS);
    assert_non_null(e);
    assert_int_equal(e->dtype, TT_DTYPE_Q8);
    assert_int_equal(e->rank, 2);
    assert_int_equal(e->shape[0], MINI_VOCAB);
    assert_int_equal(e->shape[1], MINI_HIDDEN);
    assert_int_equal(e->offset % TT_TENSOR_ALIGN, 0);
    assert_int_equal(e->scales_bytes, MINI_VOCAB * 2);
    assert_null(tt_index_find(tt_install_index(in), "embed_tokens"));
    const tt_expert_layout *l = tt_install_expert_layout(in);
    assert_int_equal(l->n_experts, MINI_EXPERTS);
    assert_int_equal(l->stride % TT_PAGE_ALIGN, 0);
    assert_int_equal(l->down.rows, MINI_HIDDEN);
    assert_non_null(tt_index_find(tt_install_mtp_index(in), "mtp.fc.weight"));
    assert_non_null(tt_install_mtp_expert_layout(in));
    for (uint32_t layer = 0; layer < MINI_LAYERS + 1; layer++) {
        bool mtp = layer == MINI_LAYERS;
        uint32_t at = mtp ? 0 : layer;
        char *bytes = NULL;
        size_t len = 0;
        assert_int_equal(
            tt_file_read(tt_install_expert_path(in, at, mtp), TT_GIB, &bytes, &len, NULL), TT_OK);
        assert_int_equal(len, l->stride * l->n_experts);
        for (uint32_t x = 0; x < MINI_EXPERTS; x++)
            assert_int_equal(tt_crc32c(0, bytes + x * l->stride, l->payload_bytes),
                             tt_install_expert_crc(in, at, x, mtp));
        free(bytes);
    }
}

static bool count_bytes(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;
    assert_true(done >= *last && done <= total);
    *last = done;
    return true;
}

static bool stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return false;
}

static void with_a_receipt_nothing_is_hashed(void **state)
{
    tt_install *in = NULL;
    uint64_t hashed = 0;
    assert_int_equal(tt_install_open(path, 0, count_bytes, &hashed, &in, NULL), TT_OK);
    assert_true(tt_install_has_receipt(in));
    assert_int_equal(hashed, 0);
    check_contents(in);
    tt_install_close(&in);
    assert_null(in);
    tt_install_close(&in);
    tt_install_close(NULL);
}

static void without_one_everything_is(void **state)
{
    tt_install *in = NULL;
    uint64_t hashed = 0, all = 0;
    mini_remove(path, TT_RECEIPT_NAME);
    assert_int_equal(tt_install_open(path, 0, count_bytes, &hashed, &in, NULL), TT_OK);
    assert_false(tt_install_has_receipt(in));
    for (size_t i = 0; i < tt_install_file_count(in); i++)
        all += tt_install_file_at(in, i)->size;
    assert_int_equal(hashed, all);
    tt_install_close(&in);
    assert_int_equal(tt_install_open(path, 0, stop_at_once, NULL, &in, NULL), TT_ERR_ABORTED);
    /* Nothing is hashed when that was asked for, and structure is checked all the same. */
    hashed = 0;
    assert_int_equal(tt_install_open(path, TT_INSTALL_NO_HASH, count_bytes, &hashed, &in, NULL),
                     TT_OK);
    assert_int_equal(hashed, 0);
    tt_install_close(&in);
}

static void reached_through_links_and_relative_paths(void **state)
{
    char link[600], cwd[TT_MAX_PATH];
    tt_install *in = NULL;
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(tt_install_open(link, 0, NULL, NULL, &in, NULL), TT_OK);
    assert_true(tt_install_has_receipt(in));
    tt_install_close(&in);
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(path), 0);
    tt_status st = tt_install_open("../t.gturbo/.", 0, NULL, NULL, &in, NULL);
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(st, TT_OK);
    tt_install_close(&in);
}

static void the_golden_install_opens(void **state)
{
    tt_install *in = NULL;
    tt_error err = {0};
    tt_status st = tt_install_open(GOLDEN, 0, NULL, NULL, &in, &err);
    if (st != TT_OK)
        fail_msg("%s", err.message);
    assert_false(tt_install_has_receipt(in));
    check_contents(in);
    tt_install_close(&in);
    /* What is written today is what was written then. */
    static const char *const files[] = {
        "model_weights.bin",           "mtp_weights.bin",           "packed_experts/layer_00.bin",
        "packed_experts/layer_01.bin", "packed_experts/mtp_00.bin", "packed_experts/crc32c.bin"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_true(mini_same(GOLDEN, path, files[i]));
}

/* ---- files ---- */

static void damaged_files(void **state)
{
    tt_error err;
    /* Changed in place: the receipt tells by the time, the digest without one. */
    mini_poke(path, "packed_experts/layer_01.bin", 40, 1, false);
    refused(0, TT_ERR_RECEIPT, "packed_experts/layer_01.bin was changed");
    mini_remove(path, TT_RECEIPT_NAME);
    refused(0, TT_ERR_CORRUPT, "packed_experts/layer_01.bin");
    mini_poke(path, "packed_experts/layer_01.bin", 40, 1, false);
    assert_int_equal(opens(0, &err), TT_OK);
    mini_poke(path, "tokenizer/tokenizer.json", 0, 1, false);
    refused(0, TT_ERR_CORRUPT, "tokenizer/tokenizer.json");
    mini_poke(path, "tokenizer/tokenizer.json", 0, 1, false);
    /* Index and checksums are checked whatever the receipt says. */
    mini_poke(path, "model_weights.bin", 200, 1, false);
    refused(TT_INSTALL_NO_HASH, TT_ERR_CORRUPT, "the index of model_weights.bin");
    mini_poke(path, "model_weights.bin", 200, 1, false);
    mini_poke(path, "mtp_weights.bin", 130, 1, false);
    refused(TT_INSTALL_NO_HASH, TT_ERR_CORRUPT, "the index of mtp_weights.bin");
    mini_poke(path, "mtp_weights.bin", 130, 1, false);
    mini_poke(path, "packed_experts/crc32c.bin", 64, 1, false);
    refused(TT_INSTALL_NO_HASH, TT_ERR_CORRUPT, "packed_experts/crc32c.bin");
    mini_poke(path, "packed_experts/crc32c.bin", 64, 1, false);
    assert_int_equal(opens(0, &err), TT_OK);
}

static void missing_short_and_false_files(void **state)
{
    char file[700], aside[700];
    const char *const rel = "packed_experts/layer_00.bin";
    struct stat sb;
    snprintf(file, sizeof file, "%s/%s", path, rel);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    assert_int_equal(stat(file, &sb), 0);
    assert_int_equal(truncate(file, sb.st_size - 1), 0);
    refused(0, TT_ERR_CORRUPT, "layer_00.bin has");
    assert_int_equal(truncate(file, sb.st_size + 1), 0);
    refused(0, TT_ERR_CORRUPT, "layer_00.bin has");
    assert_int_equal(rename(file, aside), 0);
    refused(0, TT_ERR_NOT_FOUND, rel);
    assert_int_equal(symlink(aside, file), 0);
    refused(0, TT_ERR_IO, rel);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0755), 0);
    refused(0, TT_ERR_FORMAT, "not a regular file");
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(mkfifo(file, 0644), 0);
    refused(0, TT_ERR_FORMAT, "not a regular file");
    assert_int_equal(unlink(file), 0);
    /* A directory of the install is no link either. */
    assert_int_equal(rename(aside, file), 0);
    snprintf(file, sizeof file, "%s/packed_experts", path);
    assert_int_equal(rename(file, aside), 0);
    assert_int_equal(symlink(aside, file), 0);
    refused(0, TT_ERR_IO, "packed_experts");
}

static void no_install(void **state)
{
    tt_install *in = NULL;
    tt_error err = {0};
    assert_int_equal(tt_install_open(dir, 0, NULL, NULL, &in, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "not an install"));
    assert_int_equal(tt_install_open("/nonexistent", 0, NULL, NULL, &in, &err), TT_ERR_NOT_FOUND);
    assert_int_not_equal(tt_install_open("Makefile", 0, NULL, NULL, &in, &err), TT_OK);
    assert_int_not_equal(tt_install_open("", 0, NULL, NULL, &in, &err), TT_OK);
    mini_remove(path, TT_MANIFEST_NAME);
    refused(0, TT_ERR_NOT_FOUND, "not an install");
}

/* ---- every field of a JSON file ---- */

typedef void (*try_fn)(void *ctx, const char *where);

static char *join(char out[512], const char *a, const char *b)
{
    snprintf(out, 512, "%s/%s", a, b);
    return out;
}

/* Another value of the same type. */
static json_t *altered(const json_t *v)
{
    char text[1024];
    switch (json_typeof(v)) {
    case JSON_STRING:
        snprintf(text, sizeof text, "%s", json_string_value(v));
        if (text[0] == '\0')
            return json_string("x");
        text[strlen(text) - 1] ^= 1;
        return json_string(text);
    case JSON_INTEGER:
        return json_integer(json_integer_value(v) + 1);
    case JSON_REAL:
        return json_real(json_real_value(v) * 1.25);
    case JSON_TRUE:
        return json_false();
    default:
        return json_true();
    }
}

/* Calls `try` with the tree changed at one place after the other, and restores it. */
static void break_fields(json_t *v, const char *where, try_fn try, void *ctx)
{
    char name[512], text[600];
    const char *key;
    json_t *child;
    /* Keys that are taken out and put back change their order. */
    json_t *keys = json_array();
    json_object_foreach(v, key, child)
    {
        json_array_append_new(keys, json_string(key));
    }
    if (json_is_object(v)) {
        json_object_set_new(v, "zz_unknown", json_integer(1));
        snprintf(text, sizeof text, "unknown key in %s", where);
        try(ctx, text);
        json_object_del(v, "zz_unknown");
    }
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *copy = json_string_value(json_array_get(keys, i));
        child = json_incref(json_object_get(v, copy));
        join(name, where, copy);
        json_object_del(v, copy);
        snprintf(text, sizeof text, "without %s", name);
        try(ctx, text);
        json_object_set_new(v, copy, json_is_array(child) ? json_object() : json_array());
        snprintf(text, sizeof text, "other type of %s", name);
        try(ctx, text);
        json_object_set_new(v, copy, json_null());
        snprintf(text, sizeof text, "null for %s", name);
        try(ctx, text);
        if (!json_is_object(child) && !json_is_array(child)) {
            json_object_set_new(v, copy, altered(child));
            snprintf(text, sizeof text, "altered %s", name);
            try(ctx, text);
        }
        json_object_set(v, copy, child);
        break_fields(child, name, try, ctx);
        json_decref(child);
    }
    json_decref(keys);
    for (size_t i = 0; i < json_array_size(v); i++) {
        child = json_incref(json_array_get(v, i));
        snprintf(name, sizeof name, "%s[%zu]", where, i);
        json_array_set_new(v, i, altered(child));
        snprintf(text, sizeof text, "altered %s", name);
        try(ctx, text);
        json_array_set_new(v, i, json_object());
        snprintf(text, sizeof text, "other type of %s", name);
        try(ctx, text);
        json_array_set(v, i, child);
        json_decref(child);
    }
}

typedef struct tree_file {
    json_t *tree;
    const char *rel;
    unsigned flags, tried;
} tree_file;

static void load_tree(tree_file *t, const char *rel, unsigned flags)
{
    size_t len = 0;
    char *text = mini_slurp(path, rel, &len);
    *t = (tree_file){json_loadb(text, len, 0, NULL), rel, flags, 0};
    free(text);
}

static void store_tree(const tree_file *t)
{
    char file[700], *text = json_dumps(t->tree, JSON_INDENT(1) | JSON_SORT_KEYS);
    snprintf(file, sizeof file, "%s/%s", path, t->rel);
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    int written = fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_true(written >= 0);
    free(text);
}

/* These say what only the manifest knows, or what belongs to binding tensors (vocabulary, heads);
 * here nothing can contradict them. The receipt does, through the manifest's digest. */
static bool information_only(const char *where)
{
    static const char *const keys[] = {"without manifest/files/tokenizer/",
                                       "without manifest/source/files/",
                                       "altered manifest/writer",
                                       "altered manifest/model_id",
                                       "altered manifest/source/",
                                       "altered manifest/version",
                                       "altered manifest/arch/rope_theta",
                                       "altered manifest/arch/rms_eps",
                                       "altered manifest/arch/partial_rotary",
                                       "altered manifest/arch/max_position",
                                       "altered manifest/arch/norm_offset",
                                       "altered manifest/arch/mtp_norm_offset",
                                       "altered manifest/arch/tied_head",
                                       "altered manifest/arch/vocab_size",
                                       "altered manifest/arch/n_heads",
                                       "altered manifest/arch/n_kv_heads",
                                       "altered manifest/arch/head_dim",
                                       "altered manifest/arch/lin_",
                                       "altered manifest/arch/top_k",
                                       "altered manifest/arch/shared_intermediate",
                                       "altered manifest/arch/layer_kind"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(where, keys[i], strlen(keys[i])) == 0)
            return true;
    return false;
}

static void try_refused(void *ctx, const char *where)
{
    tree_file *t = ctx;
    tt_error err;
    t->tried++;
    store_tree(t);
    tt_status st = opens(t->flags, &err);
    if (st == TT_OK && information_only(where) && (t->flags & TT_INSTALL_NO_RECEIPT))
        return;
    if (st == TT_OK)
        fail_msg("opens: %s", where);
    if (strcmp(t->rel, TT_RECEIPT_NAME) == 0) {
        assert_int_equal(st, TT_ERR_RECEIPT);
        assert_non_null(strstr(err.message, "TinyTitanRepack --verify-install --input-gturbo "));
        assert_non_null(strstr(err.message, path));
    }
}

static void every_field_of_the_manifest(void **state)
{
    tree_file t;
    tt_error err;
    load_tree(&t, TT_MANIFEST_NAME, TT_INSTALL_NO_RECEIPT);
    break_fields(t.tree, "manifest", try_refused, &t);
    assert_true(t.tried > 400);
    store_tree(&t);
    assert_int_equal(opens(TT_INSTALL_NO_RECEIPT, &err), TT_OK);
    json_decref(t.tree);
    /* With the receipt there is no field that may change. */
    load_tree(&t, TT_MANIFEST_NAME, TT_INSTALL_NO_HASH);
    break_fields(t.tree, "manifest", try_refused, &t);
    json_decref(t.tree);
}

static void try_receipt(void *ctx, const char *where)
{
    if (strcmp(where, "altered receipt/time") != 0 && strcmp(where, "altered receipt/tool") != 0)
        try_refused(ctx, where);
}

static void every_field_of_the_receipt(void **state)
{
    tree_file t;
    tt_error err;
    load_tree(&t, TT_RECEIPT_NAME, 0);
    break_fields(t.tree, "receipt", try_receipt, &t);
    assert_true(t.tried > 80);
    store_tree(&t);
    assert_int_equal(opens(0, &err), TT_OK);
    json_decref(t.tree);
    static const char *const texts[] = {
        "",        "{", "[]", "null", "{\"magic\": \"GTURBO-RECEIPT\"}", "{\"a\": 1, \"a\": 1}",
        "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mini_spew(path, TT_RECEIPT_NAME, texts[i], strlen(texts[i]));
        refused(0, TT_ERR_RECEIPT, "--verify-install");
        assert_int_equal(opens(TT_INSTALL_NO_RECEIPT, &err), TT_OK);
    }
}

static void moved_and_touched(void **state)
{
    char moved[600];
    snprintf(moved, sizeof moved, "%s/else where's", dir);
    assert_int_equal(rename(path, moved), 0);
    char before[600], want[900];
    strcpy(before, path);
    strcpy(path, moved);
    refused(0, TT_ERR_RECEIPT, "was moved");
    snprintf(want, sizeof want,
             "TinyTitanRepack --verify-install --input-gturbo '%s/else where'\\''s'", dir);
    refused(0, TT_ERR_RECEIPT, want);
    refused(0, TT_ERR_RECEIPT, before);
    assert_int_equal(rename(moved, before), 0);
    strcpy(path, before);
    tt_error err;
    assert_int_equal(opens(0, &err), TT_OK);
    /* A copy has other times. */
    mini_copy(path, moved);
    assert_int_equal(tt_dir_remove(path, NULL), TT_OK);
    assert_int_equal(rename(moved, path), 0);
    refused(0, TT_ERR_RECEIPT, "was changed after the receipt was issued");
}

/* ---- later formats ---- */

static void sections_of_later_versions(void **state)
{
    tree_file t;
    tt_error err;
    char hex[TT_SHA256_HEX];
    mini_remove(path, TT_RECEIPT_NAME);
    load_tree(&t, TT_MANIFEST_NAME, 0);
    json_t *sections = json_object_get(t.tree, "sections");
    json_t *files = json_object_get(t.tree, "files");
    json_object_set_new(t.tree, "version", json_integer(7));
    json_object_set_new(sections, "ngram",
                        json_pack("{s:b, s:[s], s:{s:i}}", "must_understand", 0, "files",
                                  "ngram.bin", "table", "rows", 12));
    store_tree(&t);
    refused(0, TT_ERR_FORMAT, "\"ngram.bin\", which is not listed");
    assert_int_equal(tt_sha256_of("abc", 3, hex, NULL), TT_OK);
    json_object_set_new(files, "ngram.bin", json_pack("{s:i, s:s}", "size", 3, "sha256", hex));
    store_tree(&t);
    refused(0, TT_ERR_NOT_FOUND, "ngram.bin");
    mini_spew(path, "ngram.bin", "abc", 3);
    assert_int_equal(opens(0, &err), TT_OK);
    json_object_set_new(json_object_get(sections, "ngram"), "must_understand", json_true());
    store_tree(&t);
    refused(0, TT_ERR_UNSUPPORTED, "newer TinyTitan");
    json_object_del(sections, "ngram");
    store_tree(&t);
    refused(0, TT_ERR_FORMAT, "\"ngram.bin\" belongs to no section");
    json_object_set_new(
        sections, "ngram",
        json_pack("{s:b, s:[s]}", "must_understand", 0, "files", "model_weights.bin"));
    store_tree(&t);
    refused(0, TT_ERR_FORMAT, "belongs to the sections");
    json_object_del(sections, "ngram");
    json_object_del(files, "ngram.bin");
    json_object_set_new(t.tree, "min_reader", json_integer(3));
    store_tree(&t);
    refused(0, TT_ERR_UNSUPPORTED, "format version 3");
    json_decref(t.tree);
}

static void paths_out_of_the_install(void **state)
{
    static const char *const rels[] = {"../x",
                                       "/etc/passwd",
                                       "a/../b",
                                       "a//b",
                                       ".x",
                                       "tokenizer/.x",
                                       "A",
                                       "tokenizer/",
                                       "a\\b",
                                       "",
                                       "./a",
                                       "x y",
                                       "manifest.json",
                                       "verified-install.json"};
    tree_file t;
    char hex[TT_SHA256_HEX];
    mini_remove(path, TT_RECEIPT_NAME);
    load_tree(&t, TT_MANIFEST_NAME, 0);
    assert_int_equal(tt_sha256_of("abc", 3, hex, NULL), TT_OK);
    for (size_t i = 0; i < sizeof rels / sizeof *rels; i++) {
        json_t *files = json_object_get(t.tree, "files");
        json_object_set_new(files, rels[i], json_pack("{s:i, s:s}", "size", 3, "sha256", hex));
        store_tree(&t);
        refused(0, TT_ERR_FORMAT, "is not a path that an install may list");
        json_object_del(files, rels[i]);
    }
    json_decref(t.tree);
    tt_install *in = NULL;
    char out[TT_MAX_PATH];
    assert_int_equal(tt_install_open(GOLDEN, 0, NULL, NULL, &in, NULL), TT_OK);
    assert_int_equal(tt_install_path(in, "../x", out, NULL), TT_ERR_INVALID);
    assert_int_equal(tt_install_path(in, "tokenizer/tokenizer.json", out, NULL), TT_OK);
    assert_true(tt_file_exists(out));
    tt_install_close(&in);
}

static void oversized_and_nested_manifests(void **state)
{
    size_t n = 17 << 20;
    char *text = malloc(n);
    memset(text, ' ', n);
    mini_spew(path, TT_MANIFEST_NAME, text, n);
    refused(0, TT_ERR_LIMIT, "manifest.json has");
    memset(text, '[', 100000);
    mini_spew(path, TT_MANIFEST_NAME, text, 100000);
    refused(0, TT_ERR_LIMIT, "deeper than");
    mini_spew(path, TT_MANIFEST_NAME, "{\"magic\": \"GTURBO\", \"magic\": \"GTURBO\"}", 38);
    refused(0, TT_ERR_FORMAT, "JSON");
    mini_spew(path, TT_MANIFEST_NAME, "{\"magic\": \"SSDAI\"}", 18);
    refused(0, TT_ERR_FORMAT, "must be \"GTURBO\"");
    free(text);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(with_a_receipt_nothing_is_hashed),
        WITH(without_one_everything_is),
        WITH(reached_through_links_and_relative_paths),
        WITH(the_golden_install_opens),
        WITH(damaged_files),
        WITH(missing_short_and_false_files),
        WITH(no_install),
        WITH(every_field_of_the_manifest),
        WITH(every_field_of_the_receipt),
        WITH(moved_and_touched),
        WITH(sections_of_later_versions),
        WITH(paths_out_of_the_install),
        WITH(oversized_and_nested_manifests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
