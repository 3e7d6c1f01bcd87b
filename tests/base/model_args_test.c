/* Proves that the options of an opened model become what the library is given, that words out of
 * their range are refused, and that a combination without an effect is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/limits.h"
#include "base/model_args.h"

static tt_model_options m;
static tt_model_words w;

static tt_status take(int argc, char *const *argv)
{
    tt_arg table[TT_MODEL_ARGS_ROWS + 1] = {{0}};
    tt_error err;
    tt_model_args_default(&m, &w);
    size_t n = tt_model_args_rows(table, &m, &w);
    assert_in_range(n, 2, TT_MODEL_ARGS_ROWS);
    tt_status st = tt_args_parse(table, argc, argv, &err);
    return st == TT_OK ? tt_model_args_apply(&m, &w, &err) : st;
}
#define TAKE(...)                                                                                  \
    take((int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]){__VA_ARGS__})

static void words_become_options(void **state)
{
    (void)state;
    assert_int_equal(TAKE("--kv-bits=4", "--reader=pool", "--io-piece=64K", "--governor=off"),
                     TT_OK);
    assert_int_equal(m.kv_bits, 4);
    assert_string_equal(m.reader, "pool");
    assert_int_equal(m.io_piece, 65536);
    assert_false(m.governor);
    assert_int_equal(TAKE("--threads=2", "--cpu-level=auto", "--rope-scaling=yarn:2"), TT_OK);
    assert_int_equal(m.kv_bits, 8);
    assert_null(m.cpu_level);
    assert_true(m.yarn_factor == 2.0f && m.governor);
    assert_true(m.prompt_cache == TT_PROMPT_CACHE_AUTO);
    assert_int_equal(TAKE("--prompt-cache=off"), TT_OK);
    assert_true(m.prompt_cache == 0);
    assert_int_equal(TAKE("--prompt-cache-memory=1.5M"), TT_OK);
    assert_true(m.prompt_cache == 1572864);
    assert_int_equal(TAKE("--prompt-cache-disk=/d"), TT_OK);
    assert_string_equal(w.disk.dir, "/d");
    assert_true(w.disk.limit == 0);
    assert_int_equal(TAKE("--prompt-cache-disk=/d", "--prompt-cache-disk-limit=2M"), TT_OK);
    assert_true(w.disk.limit == 2 * TT_MIB);
    assert_int_equal(TAKE("--prompt-cache=on", "--prompt-cache-memory=auto"), TT_OK);
    assert_true(m.prompt_cache == TT_PROMPT_CACHE_AUTO);
}

static void what_has_no_effect_is_refused(void **state)
{
    (void)state;
    assert_int_equal(TAKE("--warm=off", "--heat-profile=f"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--backend=ref", "--cpu-level=avx2"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--io-piece=20K"), TT_OK);
    assert_int_equal(TAKE("--io-piece=16385"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prefill-chunk=65"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--warm=soon"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache=off", "--prompt-cache-memory=1G"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache=off", "--prompt-cache-disk=/d"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache-disk="), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache-disk-limit=1G"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache-disk=/d", "--prompt-cache-disk-limit=9K"),
                     TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache-memory=1023K"), TT_ERR_INVALID);
    assert_int_equal(TAKE("--prompt-cache-memory=much"), TT_ERR_INVALID);
}

static void rope_scaling(void **state)
{
    (void)state;
    float f = 0;
    assert_int_equal(tt_model_args_rope("none", &f, NULL), TT_OK);
    assert_true(f == 1.0f);
    assert_int_equal(tt_model_args_rope("yarn:4", &f, NULL), TT_OK);
    assert_true(f == 4.0f);
    assert_int_equal(tt_model_args_rope("yarn:4x", &f, NULL), TT_ERR_INVALID);
    assert_int_equal(tt_model_args_rope("yarn:1e1", &f, NULL), TT_ERR_INVALID);
    assert_int_equal(tt_model_args_rope("", &f, NULL), TT_ERR_INVALID);
    assert_true(f == 4.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_become_options),
        cmocka_unit_test(what_has_no_effect_is_refused),
        cmocka_unit_test(rope_scaling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
