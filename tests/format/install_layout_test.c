/* Proves the arithmetic of layouts on known models and at the edges of its ranges, and the rules
 * for paths, ids and shell quoting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"

static void experts_of_published_models(void **state)
{
    tt_expert_layout l;
    /* 256 experts of 2048 x 512 at 4 bits: 108 pages, nothing wasted. */
    assert_int_equal(
        tt_expert_layout_init(&l, 256, 2048, 512, TT_DTYPE_Q4, TT_DTYPE_Q4, TT_DTYPE_Q4, "m", NULL),
        TT_OK);
    assert_int_equal(l.payload_bytes, 1769472);
    assert_int_equal(l.stride, 1769472);
    assert_int_equal(l.gate.scales_offset, 524288);
    assert_int_equal(l.gate.biases_offset, 557056);
    assert_int_equal(l.up.words_offset, 589824);
    assert_int_equal(l.up.scales_offset, 1114112);
    assert_int_equal(l.down.words_offset, 1179648);
    assert_int_equal(l.down.biases_offset, 1736704);
    assert_int_equal(
        tt_expert_layout_init(&l, 256, 2048, 512, TT_DTYPE_Q8, TT_DTYPE_Q8, TT_DTYPE_Q8, "m", NULL),
        TT_OK);
    assert_int_equal(l.stride, 3342336);
    /* 512 experts of 2560 x 640 at 4 bits: 169 pages. */
    assert_int_equal(
        tt_expert_layout_init(&l, 512, 2560, 640, TT_DTYPE_Q4, TT_DTYPE_Q4, TT_DTYPE_Q4, "m", NULL),
        TT_OK);
    assert_int_equal(l.payload_bytes, 2764800);
    assert_int_equal(l.stride, 2768896);
    assert_int_equal(tt_crc_table_bytes(512, 48, 0), 64 + 4 * 512 * 48);
    /* Mixed types; the parts of bf16 have no scales. 48 rows fill a panel and a half. */
    assert_int_equal(
        tt_expert_layout_init(&l, 3, 64, 48, TT_DTYPE_Q4, TT_DTYPE_Q8, TT_DTYPE_BF16, "m", NULL),
        TT_OK);
    assert_int_equal(l.gate.words_bytes, 64 * 32);
    assert_int_equal(l.up.words_bytes, 64 * 64);
    assert_int_equal(l.down.words_bytes, 48 * 64 * 2);
    assert_int_equal(l.down.scales_bytes, 0);
    assert_int_equal(l.down.scales_offset, 0);
    assert_int_equal(l.payload_bytes, l.down.words_offset + l.down.words_bytes);
}

static void impossible_experts(void **state)
{
    tt_expert_layout l = {.stride = 1};
    const tt_dtype q = TT_DTYPE_Q4, b = TT_DTYPE_BF16;
    assert_int_equal(tt_expert_layout_init(&l, 0, 64, 64, q, q, q, "m", NULL), TT_ERR_LIMIT);
    assert_int_equal(tt_expert_layout_init(&l, TT_MAX_EXPERTS + 1, 64, 64, q, q, q, "m", NULL),
                     TT_ERR_LIMIT);
    assert_int_equal(tt_expert_layout_init(&l, 1, 63, 64, q, q, b, "m", NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_expert_layout_init(&l, 1, 64, 63, q, q, q, "m", NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_expert_layout_init(&l, 1, 0, 64, b, b, b, "m", NULL), TT_ERR_FORMAT);
    assert_int_equal(tt_expert_layout_init(&l, 1, 64, 64, TT_DTYPE_I64, q, q, "m", NULL),
                     TT_ERR_FORMAT);
    assert_int_equal(tt_expert_layout_init(&l, 1, 65536, 65536, b, b, b, "m", NULL), TT_ERR_LIMIT);
    assert_int_equal(l.stride, 1);
}

static void sizes(void **state)
{
    uint64_t w = 0, s = 0, b = 0;
    assert_true(tt_tensor_sizes(TT_DTYPE_Q4, 2, (uint64_t[4]){3, 128}, &w, &s, &b));
    assert_int_equal(w, 32 * 64); /* a panel */
    assert_int_equal(s, 32 * 4);
    assert_int_equal(b, 32 * 4);
    assert_true(tt_tensor_sizes(TT_DTYPE_F32, 1, (uint64_t[4]){3}, &w, &s, &b));
    assert_int_equal(w, 12);
    assert_int_equal(s, 0);
    assert_false(tt_tensor_sizes(TT_DTYPE_Q4, 1, (uint64_t[4]){128}, &w, &s, &b));
    assert_false(tt_tensor_sizes(TT_DTYPE_Q8, 2, (uint64_t[4]){2, 100}, &w, &s, &b));
    assert_false(tt_tensor_sizes(TT_DTYPE_F32, 0, (uint64_t[4]){0}, &w, &s, &b));
    assert_false(tt_tensor_sizes(TT_DTYPE_F32, 5, (uint64_t[4]){1, 1, 1, 1}, &w, &s, &b));
    assert_false(tt_tensor_sizes(TT_DTYPE_F32, 2, (uint64_t[4]){3, 0}, &w, &s, &b));
    assert_false(tt_tensor_sizes(TT_DTYPE_F32, 2, (uint64_t[4]){3, 3, 1}, &w, &s, &b));
    assert_false(tt_tensor_sizes((tt_dtype)6, 1, (uint64_t[4]){3}, &w, &s, &b));
    const uint64_t half = (uint64_t)1 << 32;
    assert_false(tt_tensor_sizes(TT_DTYPE_BF16, 2, (uint64_t[4]){half, half}, &w, &s, &b));
    assert_false(
        tt_tensor_sizes(TT_DTYPE_BF16, 4, (uint64_t[4]){half, half, half, 64}, &w, &s, &b));
    assert_int_equal(w, 12); /* untouched */
}

static void indexes_that_cannot_be(void **state)
{
    tt_index_entry two[2] = {{.name = "b", .dtype = TT_DTYPE_F32, .rank = 1, .shape = {1}},
                             {.name = "a", .dtype = TT_DTYPE_F32, .rank = 1, .shape = {1}}};
    tt_index ix = {.entries = two, .count = 2};
    tt_error err;
    assert_int_equal(tt_index_layout(&ix, "w", &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "order"));
    two[0].name = "a";
    assert_int_equal(tt_index_layout(&ix, "w", &err), TT_ERR_FORMAT);
    two[1].name = "";
    assert_int_equal(tt_index_layout(&ix, "w", &err), TT_ERR_FORMAT);
    ix.count = 0;
    assert_int_equal(tt_index_layout(&ix, "w", &err), TT_ERR_LIMIT);
    /* Each fits, together they do not. */
    ix.count = 2;
    two[1].name = "b";
    two[0].shape[0] = two[1].shape[0] = ((uint64_t)1 << 62) / 16;
    assert_int_equal(tt_index_layout(&ix, "w", &err), TT_OK);
    two[0].dtype = two[1].dtype = TT_DTYPE_I64;
    assert_int_equal(tt_index_layout(&ix, "w", &err), TT_ERR_FORMAT);
}

static void paths_and_ids(void **state)
{
    static const char *const good[] = {"a", "tokenizer/tokenizer.json",
                                       "packed_experts/layer_00.bin", "a/b/c-d_e.f", "0"};
    static const char *const bad[] = {"",     "/a", "a/",  "a//b", "..",       "../a", "a/..", ".a",
                                      "a/.b", "A",  "a b", "a\\b", "\xc3\xa4", "a\n",  "./a"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(tt_install_rel_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tt_install_rel_valid(bad[i]));
    char longest[TT_MAX_INSTALL_REL + 2];
    memset(longest, 'a', sizeof longest);
    longest[TT_MAX_INSTALL_REL] = '\0';
    assert_true(tt_install_rel_valid(longest));
    longest[TT_MAX_INSTALL_REL] = 'a';
    longest[TT_MAX_INSTALL_REL + 1] = '\0';
    assert_false(tt_install_rel_valid(longest));
    assert_true(tt_model_id_valid("Org/Model-3.5_x:4+@"));
    assert_false(tt_model_id_valid(""));
    assert_false(tt_model_id_valid("a b"));
    assert_false(tt_model_id_valid("a\"b"));
    longest[TT_MAX_MODEL_ID + 1] = '\0';
    assert_false(tt_model_id_valid(longest));
    char name[64];
    tt_expert_file_name(name, 3, false);
    assert_string_equal(name, "packed_experts/layer_03.bin");
    tt_expert_file_name(name, 123, true);
    assert_string_equal(name, "packed_experts/mtp_123.bin");
}

/* What the shell makes of the quoted path is the path. */
static void quoting_survives_a_shell(void **state)
{
    static const char *const paths[] = {"/a/b.gturbo", "a b", "it's", "$HOME/`x`",   "a\"b\\c",
                                        "*?[x]",       "-x",  "a\nb", "\xc3\xa4;&|", ""};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        tt_buf b;
        char out[256] = "";
        tt_buf_init(&b, 1024);
        tt_buf_puts(&b, "printf %s ");
        tt_shell_quote(&b, paths[i]);
        FILE *p = popen(b.data, "r");
        assert_non_null(p);
        size_t n = fread(out, 1, sizeof out - 1, p);
        assert_int_equal(pclose(p), 0);
        out[n] = '\0';
        assert_string_equal(out, paths[i]);
        tt_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_of_published_models),
        cmocka_unit_test(impossible_experts),
        cmocka_unit_test(sizes),
        cmocka_unit_test(indexes_that_cannot_be),
        cmocka_unit_test(paths_and_ids),
        cmocka_unit_test(quoting_survives_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
