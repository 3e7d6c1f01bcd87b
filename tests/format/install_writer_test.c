/* Proves that manifests, receipts and checksum tables come out byte for byte the same from the same
 * content, that what is written can be read, and that receipts tell every difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "format/install_receipt.h"
#include "format/install_writer.h"
#include "support/mini_install.h"

#define GOLDEN "tests/golden/gturbo-v2"
#define HEX    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_manifest_written_again_is_the_same(void **state)
{
    tt_install *in = NULL;
    tt_error err;
    char *text = NULL;
    size_t len = 0, want_len = 0;
    assert_int_equal(tt_install_open(GOLDEN, 0, NULL, NULL, &in, &err), TT_OK);
    const json_t *m = tt_install_manifest(in);
    const json_t *sections = json_object_get(m, "sections");
    tt_install_file files[64];
    for (size_t i = 0; i < tt_install_file_count(in); i++) /* in any order */
        files[tt_install_file_count(in) - 1 - i] = *tt_install_file_at(in, i);
    tt_manifest_content c = {.writer = json_string_value(json_object_get(m, "writer")),
                             .model_id = tt_install_model_id(in),
                             .arch = tt_install_arch(in),
                             .source = json_object_get(m, "source"),
                             .weights = tt_install_index(in),
                             .mtp = tt_install_mtp_index(in),
                             .experts = tt_install_expert_layout(in),
                             .mtp_experts = tt_install_mtp_expert_layout(in),
                             .tokenizer = true,
                             .files = files,
                             .n_files = tt_install_file_count(in)};
    strcpy(c.weights_index_sha256, json_string_value(json_object_get(
                                       json_object_get(sections, "weights"), "index_sha256")));
    strcpy(c.mtp_index_sha256,
           json_string_value(json_object_get(json_object_get(sections, "mtp"), "index_sha256")));
    assert_int_equal(tt_manifest_encode(&c, &text, &len, &err), TT_OK);
    char *want = mini_slurp(GOLDEN, "manifest.json", &want_len);
    assert_int_equal(len, want_len);
    assert_memory_equal(text, want, len);
    free(text);
    free(want);
    /* What the reader would refuse is not written. */
    text = NULL;
    c.model_id = "a b";
    assert_int_equal(tt_manifest_encode(&c, &text, &len, &err), TT_ERR_FORMAT);
    c.model_id = "a";
    c.n_files--;
    assert_int_equal(tt_manifest_encode(&c, &text, &len, &err), TT_ERR_FORMAT);
    c.n_files++;
    c.experts = NULL;
    assert_int_equal(tt_manifest_encode(&c, &text, &len, &err), TT_ERR_FORMAT);
    assert_null(text);
    tt_install_close(&in);
}

static const char receipt_text[] = "{\n"
                                   " \"files\": {\n"
                                   "  \"a\": {\n"
                                   "   \"mtime_ns\": -5,\n"
                                   "   \"sha256\": \"" HEX "\",\n"
                                   "   \"size\": 3\n"
                                   "  },\n"
                                   "  \"b/c\": {\n"
                                   "   \"mtime_ns\": 1700000000123456789,\n"
                                   "   \"sha256\": \"" HEX "\",\n"
                                   "   \"size\": 4\n"
                                   "  }\n"
                                   " },\n"
                                   " \"magic\": \"GTURBO-RECEIPT\",\n"
                                   " \"manifest_sha256\": \"" HEX "\",\n"
                                   " \"path\": \"/x y/\xc3\xa4\",\n"
                                   " \"time\": \"2026-01-31T12:00:00Z\",\n"
                                   " \"tool\": \"t\",\n"
                                   " \"version\": 1\n"
                                   "}\n";

static void receipts(void **state)
{
    tt_install_file files[2] = {{"b/c", 4, HEX, 1700000000123456789}, {"a", 3, HEX, -5}};
    tt_install_file sorted[2] = {files[1], files[0]};
    tt_manifest m = {.files = sorted, .n_files = 2};
    tt_receipt r;
    tt_error err;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(tt_receipt_encode(HEX, "/x y/\xc3\xa4", files, 2, "t", "2026-01-31T12:00:00Z",
                                       &text, &len, &err),
                     TT_OK);
    assert_int_equal(len, sizeof receipt_text - 1);
    assert_memory_equal(text, receipt_text, len);
    assert_int_equal(tt_receipt_parse(text, len, "r", &r, &err), TT_OK);
    free(text);
    const char *const dir = "/x y/\xc3\xa4";
    assert_int_equal(tt_receipt_check(&r, &m, HEX, dir, &err), TT_OK);
    assert_int_equal(tt_receipt_check(&r, &m, HEX, "/x y", &err), TT_ERR_RECEIPT);
    assert_non_null(strstr(err.message, "was moved"));
    assert_non_null(strstr(err.message, "--verify-install --input-gturbo '/x y'"));
    assert_int_equal(tt_receipt_check(&r, &m, "00", dir, &err), TT_ERR_RECEIPT);
    assert_non_null(strstr(err.message, "another manifest.json"));
    m.n_files = 1;
    assert_int_equal(tt_receipt_check(&r, &m, HEX, dir, &err), TT_ERR_RECEIPT);
    m.n_files = 2;
    sorted[1].rel = "b/d";
    assert_int_equal(tt_receipt_check(&r, &m, HEX, dir, &err), TT_ERR_RECEIPT);
    assert_non_null(strstr(err.message, "b/d"));
    sorted[1].rel = "b/c";
    sorted[0].size = 4;
    assert_int_equal(tt_receipt_check(&r, &m, HEX, dir, &err), TT_ERR_RECEIPT);
    sorted[0].size = 3;
    sorted[0].mtime_ns++;
    assert_int_equal(tt_receipt_check(&r, &m, HEX, dir, &err), TT_ERR_RECEIPT);
    assert_non_null(strstr(err.message, "a was changed"));
    sorted[0].mtime_ns--;
    sorted[0].sha256 = "0";
    assert_int_equal(tt_receipt_check(&r, &m, HEX, dir, &err), TT_ERR_RECEIPT);
    tt_receipt_free(&r);
    /* JSON holds no other bytes than UTF-8. */
    assert_int_equal(tt_receipt_encode(HEX, "/\xff", files, 2, "t", "t", &text, &len, &err),
                     TT_ERR_INVALID);
}

/* However long the path, the command comes whole as far as a message can hold it. */
static void the_command_is_not_cut(void **state)
{
    char dir[601], want[700];
    tt_error err;
    memset(dir, 'd', 600);
    dir[0] = '/';
    dir[600] = '\0';
    assert_int_equal(tt_receipt_refuse(dir, &err, "the install was moved: %s", dir),
                     TT_ERR_RECEIPT);
    snprintf(want, sizeof want, "TinyTitanRepack --verify-install --input-gturbo %s", dir);
    assert_int_equal(strcmp(err.message + strlen(err.message) - strlen(want), want), 0);
}

static void checksum_tables(void **state)
{
    static const unsigned char want[64 + 16] = {'G', 'T', 'C', 'R', 'C', '3', '2', 'C', 1, 0, 0,
                                                0,   1,   0,   0,   0,   1,   0,   0,   0, 2};
    const uint32_t crc[4] = {0x04030201, 2, 3, 0xffffffff};
    unsigned char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(tt_crc_table_encode(crc, 2, 1, 1, (void **)&bytes, &len, NULL), TT_OK);
    assert_int_equal(len, sizeof want);
    assert_memory_equal(bytes, want, 64);
    assert_memory_equal(bytes + 64, "\1\2\3\4\2\0\0\0\3\0\0\0\xff\xff\xff\xff", 16);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_written_again_is_the_same),
        cmocka_unit_test(receipts),
        cmocka_unit_test(the_command_is_not_cut),
        cmocka_unit_test(checksum_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
