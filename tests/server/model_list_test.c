/* Proves that a model is described as section 4.1 of docs/http.md says: limits, levels of reasoning
 * by what the template knows, and why it cannot be loaded, whatever characters that has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/model_list.h"

static tt_engine_info info;
static tt_buf out;

static const char *levels(void)
{
    tt_buf_clear(&out);
    tt_model_list_levels(&info, ",", true, &out);
    return out.len > 0 ? out.data : "";
}

static void what_templates_know(void **state)
{
    (void)state;
    info = (tt_engine_info){.max_context = 8};
    assert_string_equal(levels(), "");
    info.thinks = true;
    assert_string_equal(levels(), "\"none\",\"medium\"");
    info.efforts[TT_EFFORT_LOW] = info.efforts[TT_EFFORT_XHIGH] = true;
    assert_string_equal(levels(), "\"none\",\"low\",\"xhigh\"");
    info.thinks = false; /* one that always thinks, more or less */
    assert_string_equal(levels(), "\"low\",\"xhigh\"");
    tt_buf_clear(&out);
    tt_model_list_levels(&info, " ", false, &out);
    assert_string_equal(out.data, "low xhigh");
}

static void fields(void **state)
{
    (void)state;
    info = (tt_engine_info){
        .model = "a\"b", .created = 12, .max_context = 100, .thinks = true, .loadable = true};
    tt_buf_clear(&out);
    tt_model_list_fields(&info, &out);
    assert_string_equal(out.data,
                        "\"id\":\"a\\\"b\",\"object\":\"model\",\"created\":12,\"owned_by\":"
                        "\"tinytitan\",\"context_window\":100,\"max_output_tokens\":99,"
                        "\"reasoning_levels\":[\"none\",\"medium\"],\"loadable\":true,"
                        "\"reason\":null");
    info.loadable = false;
    info.max_context = 0;
    strcpy(info.reason, "a \"file\"\n\xff");
    tt_buf_clear(&out);
    tt_model_list_fields(&info, &out);
    assert_non_null(strstr(out.data, "\"max_output_tokens\":0,"));
    assert_non_null(
        strstr(out.data, "\"loadable\":false,\"reason\":\"a \\\"file\\\"\\n\xef\xbf\xbd\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_templates_know),
        cmocka_unit_test(fields),
    };
    tt_buf_init(&out, 1 << 16);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    tt_buf_free(&out);
    return rc;
}
