/* Proves that widths of quantized modules come from their own entry or the default, and that what
 * is not affine with 4 or 8 bits in groups of 64 is refused naming the module. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/mlx_config.h"

static json_t *tree;

static tt_status read_config(const char *text, tt_mlx_config *c, tt_error *err)
{
    json_decref(tree);
    tree = NULL;
    *err = (tt_error){0};
    assert_int_equal(tt_json_parse(text, strlen(text), "config.json", &tree, err), TT_OK);
    return tt_mlx_config_read(tree, "config.json", c, err);
}

static int teardown(void **state)
{
    json_decref(tree);
    tree = NULL;
    return 0;
}

static void finds_the_object(void **state)
{
    tt_mlx_config c;
    tt_error err;
    uint32_t bits = 0;
    assert_int_equal(read_config("{}", &c, &err), TT_OK);
    assert_null(c.obj);
    assert_int_equal(tt_mlx_config_bits(&c, "a", &bits, &err), TT_ERR_FORMAT);
    assert_int_equal(read_config("{\"quantization\": null}", &c, &err), TT_OK);
    assert_null(c.obj);
    assert_int_equal(
        read_config("{\"quantization_config\": {\"bits\": 8, \"group_size\": 64}}", &c, &err),
        TT_OK);
    assert_int_equal(tt_mlx_config_bits(&c, "a", &bits, &err), TT_OK);
    assert_int_equal(bits, 8);
    assert_int_equal(
        read_config("{\"quantization_config\": {\"quant_method\": \"awq\"}}", &c, &err),
        TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"awq\""));
    assert_int_equal(read_config("{\"quantization\": 4}", &c, &err), TT_ERR_FORMAT);
}

static void overrides(void **state)
{
    tt_mlx_config c;
    tt_error err;
    uint32_t bits = 0;
    assert_int_equal(
        read_config("{\"quantization\": {\"bits\": 4, \"group_size\": 64, \"mode\": \"affine\","
                    "\"x.gate\": {\"bits\": 8, \"group_size\": 64},"
                    "\"x.on\": true, \"x.off\": false,"
                    "\"x.three\": {\"bits\": 3, \"group_size\": 64},"
                    "\"x.small\": {\"bits\": 4, \"group_size\": 32},"
                    "\"x.fp\": {\"bits\": 4, \"group_size\": 64, \"mode\": \"nvfp4\"},"
                    "\"x.half\": {\"group_size\": 64}}}",
                    &c, &err),
        TT_OK);
    assert_int_equal(tt_mlx_config_bits(&c, "x.other", &bits, &err), TT_OK);
    assert_int_equal(bits, 4);
    assert_int_equal(tt_mlx_config_bits(&c, "x.gate", &bits, &err), TT_OK);
    assert_int_equal(bits, 8);
    assert_int_equal(tt_mlx_config_bits(&c, "x.on", &bits, &err), TT_OK);
    assert_int_equal(bits, 4);
    static const struct {
        const char *module;
        tt_status status;
        const char *words;
    } bad[] = {{"x.off", TT_ERR_FORMAT, "not quantized"},
               {"x.three", TT_ERR_UNSUPPORTED, "3 bits"},
               {"x.small", TT_ERR_UNSUPPORTED, "groups of 32"},
               {"x.fp", TT_ERR_UNSUPPORTED, "\"nvfp4\""},
               {"x.half", TT_ERR_FORMAT, "\"bits\" is missing"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bits = 77;
        assert_int_equal(tt_mlx_config_bits(&c, bad[i].module, &bits, &err), bad[i].status);
        assert_non_null(strstr(err.message, bad[i].module));
        assert_non_null(strstr(err.message, bad[i].words));
        assert_int_equal(bits, 77);
    }
}

static void an_override_of_another_mode_is_affine_unless_it_says_so(void **state)
{
    tt_mlx_config c;
    tt_error err;
    uint32_t bits = 0;
    assert_int_equal(
        read_config("{\"quantization\": {\"bits\": 4, \"group_size\": 64, \"mode\": \"mxfp4\","
                    "\"x.gate\": {\"bits\": 8, \"group_size\": 64}}}",
                    &c, &err),
        TT_OK);
    assert_int_equal(tt_mlx_config_bits(&c, "x.gate", &bits, &err), TT_OK);
    assert_int_equal(tt_mlx_config_bits(&c, "x.other", &bits, &err), TT_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(finds_the_object, teardown),
        cmocka_unit_test_teardown(overrides, teardown),
        cmocka_unit_test_teardown(an_override_of_another_mode_is_affine_unless_it_says_so,
                                  teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
