/* Proves that an install that is written back as a checkpoint and converted again has the same
 * payload in every width and shape, and that an install is told from the checkpoint that it was not
 * made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "repack/against.h"
#include "repack/export.h"
#include "repack/repack.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512], source[600], made[600], back[600], again[600];
static tt_error err;

static int setup(void **state)
{
    tempdir_make(dir);
    snprintf(source, sizeof source, "%s/source", dir);
    snprintf(made, sizeof made, "%s/made.gturbo", dir);
    snprintf(back, sizeof back, "%s/back", dir);
    snprintf(again, sizeof again, "%s/again.gturbo", dir);
    return tt_dir_make(source, NULL) == TT_OK ? 0 : 1;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    return 0;
}

static void must(tt_status st)
{
    if (st != TT_OK)
        fail_msg("%s", err.message);
}

static void convert(const char *from, const char *to, uint32_t bits)
{
    tt_repack_options o = {
        .input = from, .output = to, .model_id = "m", .threads = 1, .policy = {.build_bits = bits}};
    must(tt_repack_run(&o, NULL, NULL, &err));
}

static void same_payload(const char *a, const char *b)
{
    tt_install *in = NULL;
    must(tt_install_open(a, 0, NULL, NULL, &in, &err));
    for (size_t i = 0; i < tt_install_file_count(in); i++) {
        const char *rel = tt_install_file_at(in, i)->rel;
        if (strcmp(rel, "tokenizer/config.json") != 0 && !mini_same(a, b, rel))
            fail_msg("%s", rel);
    }
    tt_install_close(&in);
}

static void there_and_back(void **state)
{
    for (unsigned k = 0; k < 5; k++) {
        for (uint32_t bits = 4; bits <= 16; bits *= 2) {
            mini_options o = mini_default();
            tt_export_report r;
            o.dense = k == 1;
            o.tied = k == 1;
            o.mtp = k >= 2;
            o.converted = k == 3;
            o.mtp_converted = k == 3;
            o.width = k == 4 ? 96 : 0; /* 64 does not divide the rows of down_proj */
            mini_write(source, &o);
            convert(source, made, bits);
            must(tt_export_run(made, back, NULL, &r, &err));
            assert_true(r.tensors > 20);
            assert_int_equal(r.shards, k == 1 ? 1 : k >= 2 ? 5 : 3);
            convert(back, again, bits == 16 ? 16 : 0);
            same_payload(made, again);
            must(tt_dir_remove(source, &err));
            must(tt_dir_make(source, &err));
            must(tt_dir_remove(made, &err));
            must(tt_dir_remove(back, &err));
            must(tt_dir_remove(again, &err));
        }
    }
}

static void nothing_is_overwritten(void **state)
{
    mini_options o = mini_default();
    mini_write(source, &o);
    convert(source, made, 4);
    assert_int_equal(tt_export_run(made, source, NULL, NULL, &err), TT_ERR_EXISTS);
    assert_int_equal(tt_export_run(source, back, NULL, NULL, &err), TT_ERR_NOT_FOUND);
    assert_false(tt_dir_exists(back));
}

static void held_against_its_checkpoint(void **state)
{
    tt_against_report r;
    char path[700];
    for (uint32_t bits = 4; bits <= 16; bits *= 2) {
        mini_options o = mini_default();
        o.mtp = true;
        mini_write(source, &o);
        convert(source, made, bits);
        must(tt_against_run(made, source, 0, 1, NULL, &r, &err));
        assert_int_equal(r.compared, r.parts);
        must(tt_against_run(made, source, 20000, 1, NULL, &r, &err));
        assert_true(r.compared < r.parts && r.compared > 2);
        /* One value of one expert differs. */
        mini_tensor *none = NULL;
        (void)none;
        size_t n = 0;
        char *bytes = mini_slurp(made, "packed_experts/layer_01.bin", &n);
        bytes[5] ^= 1;
        mini_spew(made, "packed_experts/layer_01.bin", bytes, n);
        assert_int_equal(tt_against_run(made, source, 0, 1, NULL, &r, &err), TT_ERR_CORRUPT);
        assert_non_null(strstr(err.message, "layers.1."));
        bytes[5] ^= 1;
        mini_spew(made, "packed_experts/layer_01.bin", bytes, n);
        free(bytes);
        must(tt_dir_remove(made, &err));
    }
    /* Another checkpoint altogether. */
    mini_options o = mini_default();
    snprintf(path, sizeof path, "%s/other", dir);
    must(tt_dir_make(path, &err));
    o.width = 128;
    mini_write(path, &o);
    convert(source, made, 4);
    assert_int_equal(tt_against_run(made, path, 0, 1, NULL, &r, &err), TT_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "was not made of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(held_against_its_checkpoint, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
