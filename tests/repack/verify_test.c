/* Proves that --verify-install finds a flip of any byte of an install, even one that every digest
 * was made to agree with, and issues a receipt only when nothing was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/install.h"
#include "format/quant.h"
#include "repack/verify.h"
#include "support/mini_install.h"
#include "support/tempdir.h"
#include "support/tiny_model.h"

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

static tt_status verify(tt_error *err)
{
    *err = (tt_error){0};
    return tt_verify_run(path, true, 0, NULL, NULL, err);
}

static tt_status opens(tt_error *err)
{
    tt_install *in = NULL;
    *err = (tt_error){0};
    tt_status st = tt_install_open(path, 0, NULL, NULL, &in, err);
    tt_install_close(&in);
    return st;
}

static void a_sound_install_gets_its_receipt(void **state)
{
    tt_error err;
    tt_verify_report r;
    mini_notes notes;
    tt_repack_events ev = mini_events(&notes);
    mini_remove(path, TT_RECEIPT_NAME);
    mini_spew(path, "notes.txt", "x", 1);
    mini_spew(path, TT_HEAT_NAME, "x", 1); /* a program's, and no stranger */
    mini_spew(path, "packed_experts/layer_09.bin", "x", 1);
    assert_int_equal(tt_verify_run(path, true, 0, &ev, &r, &err), TT_OK);
    assert_int_equal(r.experts, MINI_EXPERTS * (MINI_LAYERS + 1));
    assert_int_equal(r.unlisted, 2);
    assert_non_null(strstr(notes.text, "warning: notes.txt does not belong"));
    assert_non_null(strstr(notes.text, "warning: packed_experts/layer_09.bin"));
    assert_null(strstr(notes.text, TT_HEAT_NAME));
    tt_install *in = NULL;
    assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, &err), TT_OK);
    assert_true(tt_install_has_receipt(in));
    assert_int_equal(r.files, tt_install_file_count(in) + 1);
    tt_install_close(&in);
}

static void a_moved_install_is_verified_at_its_new_place(void **state)
{
    tt_error err;
    char moved[600];
    snprintf(moved, sizeof moved, "%s/moved here", dir);
    assert_int_equal(rename(path, moved), 0);
    strcpy(path, moved);
    assert_int_equal(opens(&err), TT_ERR_RECEIPT);
    /* The command of the message is what is run. */
    char want[800];
    snprintf(want, sizeof want, "TinyTitanRepack --verify-install --input-gturbo '%s'", moved);
    assert_non_null(strstr(err.message, want));
    assert_int_equal(verify(&err), TT_OK);
    assert_int_equal(opens(&err), TT_OK);
}

static void checking_only_writes_nothing(void **state)
{
    tt_error err = {0};
    mini_remove(path, TT_RECEIPT_NAME);
    assert_int_equal(tt_verify_run(path, false, 0, NULL, NULL, &err), TT_OK);
    char receipt[700];
    snprintf(receipt, sizeof receipt, "%s/" TT_RECEIPT_NAME, path);
    assert_false(tt_file_exists(receipt));
}

static void a_flip_anywhere_is_found(void **state)
{
    static const char *const files[] = {
        "model_weights.bin",           "mtp_weights.bin",           "packed_experts/layer_00.bin",
        "packed_experts/layer_01.bin", "packed_experts/mtp_00.bin", "packed_experts/crc32c.bin",
        "tokenizer/tokenizer.json",    "tokenizer/config.json"};
    tt_error err;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t len = 0;
        free(mini_slurp(path, files[i], &len));
        for (size_t k = 0; k < 24; k++) {
            int64_t at = (int64_t)(k * len / 24);
            mini_poke(path, files[i], at, (unsigned char)(1u << k % 8), true);
            tt_status st = verify(&err);
            assert_true(st == TT_ERR_CORRUPT || st == TT_ERR_FORMAT);
            assert_non_null(strstr(err.message, files[i]));
            mini_poke(path, files[i], at, (unsigned char)(1u << k % 8), true);
        }
    }
    assert_int_equal(verify(&err), TT_OK);
}

/* Makes the manifest agree with what a file now is. */
static void relist(const char *rel, const char *section, const char *key, size_t index_bytes)
{
    size_t len = 0, n = 0;
    char hex[TT_SHA256_HEX], *bytes = mini_slurp(path, rel, &len);
    char *text = mini_slurp(path, TT_MANIFEST_NAME, &n);
    json_t *m = json_loadb(text, n, 0, NULL);
    json_t *f = json_object_get(json_object_get(m, "files"), rel);
    assert_int_equal(tt_sha256_of(bytes, len, hex, NULL), TT_OK);
    json_object_set_new(f, "sha256", json_string(hex));
    json_object_set_new(f, "size", json_integer((json_int_t)len));
    if (section != NULL) {
        assert_int_equal(tt_sha256_of(bytes, index_bytes, hex, NULL), TT_OK);
        json_object_set_new(json_object_get(json_object_get(m, "sections"), section), key,
                            json_string(hex));
    }
    char *out = json_dumps(m, JSON_INDENT(1) | JSON_SORT_KEYS);
    mini_spew(path, TT_MANIFEST_NAME, out, strlen(out));
    json_decref(m);
    free(out);
    free(text);
    free(bytes);
}

static void what_digests_do_not_tell(void **state)
{
    tt_error err;
    size_t len = 0;
    /* An expert that no longer has its checksum. */
    mini_poke(path, "packed_experts/layer_01.bin", 16384 + 5, 4, false);
    relist("packed_experts/layer_01.bin", NULL, NULL, 0);
    assert_int_equal(verify(&err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "expert 1 of packed_experts/layer_01.bin"));
    mini_poke(path, "packed_experts/layer_01.bin", 16384 + 5, 4, false);
    /* Padding behind an expert. */
    mini_poke(path, "packed_experts/layer_01.bin", 16383, 4, false);
    relist("packed_experts/layer_01.bin", NULL, NULL, 0);
    assert_int_equal(verify(&err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "padding"));
    mini_poke(path, "packed_experts/layer_01.bin", 16383, 4, false);
    relist("packed_experts/layer_01.bin", NULL, NULL, 0);
    /* Padding behind the last tensor. */
    mini_poke(path, "model_weights.bin", -1, 4, false);
    relist("model_weights.bin", NULL, NULL, 0);
    assert_int_equal(verify(&err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "padding"));
    mini_poke(path, "model_weights.bin", -1, 4, false);
    relist("model_weights.bin", NULL, NULL, 0);
    assert_int_equal(verify(&err), TT_OK);
    /* A tensor under another name: a sound index, but not one of this model. */
    char *bytes = mini_slurp(path, "model_weights.bin", &len);
    char *at = memmem(bytes, 16384, "A_log", 5);
    assert_non_null(at);
    at[4] = 'f';
    mini_spew(path, "model_weights.bin", bytes, len);
    relist("model_weights.bin", "weights", "index_sha256", 16384);
    assert_int_equal(verify(&err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "A_log\", which is missing"));
    free(bytes);
}

/* A matrix of one row is stored in a panel of 32, and one of 48 rows in two. */
static void rows_that_fill_up_a_panel(void **state)
{
    static const char *const name = "layers.1.mlp.shared_expert_gate.weight";
    tt_repack_options ro = {.input = NULL, .output = path, .model_id = "mini", .threads = 1};
    tt_install *in = NULL;
    tt_error err;
    char source[600];
    snprintf(source, sizeof source, "%s/source-t.gturbo", dir);
    snprintf(path, sizeof path, "%s/filled.gturbo", dir);
    ro.input = source;
    ro.policy.role_bits[TT_ROLE_SHARED_GATE] = 8;
    assert_int_equal(tt_repack_run(&ro, NULL, NULL, &err), TT_OK);
    assert_int_equal(verify(&err), TT_OK);
    assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, &err), TT_OK);
    tt_index_entry e = *tt_index_find(tt_install_index(in), name);
    tt_install_close(&in);
    assert_int_equal(e.shape[0], 1);
    assert_int_equal(e.bytes, 32 * MINI_HIDDEN);
    const uint64_t places[] = {e.offset + 4 * 32 + 4, e.offset + e.bytes - 1, e.scales_offset + 2,
                               e.biases_offset + e.biases_bytes - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        mini_poke(path, TT_WEIGHTS_NAME, (int64_t)places[i], 4, false);
        relist(TT_WEIGHTS_NAME, NULL, NULL, 0);
        assert_int_equal(verify(&err), TT_ERR_CORRUPT);
        assert_non_null(strstr(err.message, "fill up the last panel of \"layers.1.mlp.shared"));
        mini_poke(path, TT_WEIGHTS_NAME, (int64_t)places[i], 4, false);
    }
    relist(TT_WEIGHTS_NAME, NULL, NULL, 0);
    assert_int_equal(verify(&err), TT_OK);
}

static void rows_that_fill_up_an_expert(void **state)
{
    static const char *const rel = "packed_experts/layer_00.bin", *const crcs =
                                                                      "packed_experts/crc32c.bin";
    tiny_options o = {.arch = tiny_arch_plain("lf", 4, 2), .seed = 3, .mat = TT_DTYPE_Q4};
    tt_install *in = NULL;
    tt_error err;
    o.arch.moe_intermediate = 48;
    snprintf(path, sizeof path, "%s", tiny_install_new(&o));
    assert_int_equal(verify(&err), TT_OK);
    assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, &err), TT_OK);
    const tt_expert_layout l = *tt_install_expert_layout(in);
    tt_install_close(&in);
    assert_int_equal(l.up.dtype, TT_DTYPE_Q4);
    assert_int_equal(l.up.words_bytes, 64 * 32);
    for (int good = 0; good < 2; good++) { /* with a checksum of its own: only zeros tell */
        size_t len = 0;
        mini_poke(path, rel, (int64_t)(l.up.words_offset + l.up.words_bytes - 1), 4, false);
        char *bytes = mini_slurp(path, rel, &len);
        uint32_t crc = tt_crc32c(0, bytes, l.payload_bytes);
        free(bytes);
        bytes = mini_slurp(path, crcs, &len);
        memcpy(bytes + 64, &crc, 4);
        mini_spew(path, crcs, bytes, len);
        free(bytes);
        relist(rel, NULL, NULL, 0);
        relist(crcs, NULL, NULL, 0);
        assert_int_equal(verify(&err), good ? TT_OK : TT_ERR_CORRUPT);
        assert_true(good || strstr(err.message, "has padding that is not zero") != NULL);
    }
    tiny_remove();
}

static void a_directory_that_is_no_install(void **state)
{
    tt_error err = {0};
    assert_int_equal(tt_verify_run(dir, true, 0, NULL, NULL, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "not an install"));
    assert_int_equal(tt_verify_run("/nonexistent/x", true, 0, NULL, NULL, &err), TT_ERR_NOT_FOUND);
    mini_spew(dir, "plain", "x", 1);
    char file[700];
    snprintf(file, sizeof file, "%s/plain", dir);
    assert_int_not_equal(tt_verify_run(file, true, 0, NULL, NULL, &err), TT_OK);
}

/* tools/read_gturbo.py knows only the format page; it must agree with us on good and bad. */
/* That of the system when it is there: another may be a script that takes longer to find an
 * interpreter than the reader to read. */
static const char *python(void)
{
    return access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
}

static int second_reader(const char *arguments)
{
    char command[4096];
    snprintf(command, sizeof command, "%s tools/read_gturbo.py '%s' %s >'%s/out' 2>'%s/err'",
             python(), path, arguments, dir, dir);
    int rc = system(command);
    return rc == -1 ? -1 : rc >> 8;
}

static void the_second_reader_agrees(void **state)
{
    char pass[64];
    snprintf(pass, sizeof pass, "%s -c pass >/dev/null 2>&1", python());
    if (system(pass) != 0) {
        print_message("skip: there is no python3\n");
        skip();
    }
    assert_int_equal(second_reader(""), 0);
    tt_install *in = NULL;
    tt_error err;
    size_t len = 0, n = 0;
    char arguments[800];
    assert_int_equal(tt_install_open(path, 0, NULL, NULL, &in, &err), TT_OK);
    char *bytes = mini_slurp(path, TT_WEIGHTS_NAME, &len);
    snprintf(arguments, sizeof arguments, "--tensor lm_head.weight --f32 '%s/values'", dir);
    assert_int_equal(second_reader(arguments), 0);
    float *values = (float *)(void *)mini_slurp(dir, "values", &n), row[MINI_HIDDEN];
    const tt_index_entry *e = tt_index_find(tt_install_index(in), "lm_head.weight");
    assert_int_equal(n, 4 * MINI_VOCAB * MINI_HIDDEN);
    for (uint64_t r = 0; r < MINI_VOCAB; r++) {
        tt_quant_decode(8, (uint32_t *)(void *)(bytes + e->offset),
                        (uint16_t *)(void *)(bytes + e->scales_offset),
                        (uint16_t *)(void *)(bytes + e->biases_offset), MINI_HIDDEN, r, 0,
                        MINI_HIDDEN, row);
        assert_memory_equal(row, values + r * MINI_HIDDEN, sizeof row);
    }
    free(values);
    free(bytes);
    tt_install_close(&in);
    static const char *const files[] = {"model_weights.bin", "packed_experts/mtp_00.bin",
                                        "packed_experts/crc32c.bin", "manifest.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        mini_poke(path, files[i], 70, 1, true);
        assert_int_equal(second_reader(""), 1);
        mini_poke(path, files[i], 70, 1, true);
    }
    assert_int_equal(second_reader(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sound_install_gets_its_receipt, setup, teardown),
        cmocka_unit_test_setup_teardown(a_moved_install_is_verified_at_its_new_place, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(checking_only_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flip_anywhere_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(what_digests_do_not_tell, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_that_fill_up_a_panel, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_that_fill_up_an_expert, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_is_no_install, setup, teardown),
        cmocka_unit_test_setup_teardown(the_second_reader_agrees, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
