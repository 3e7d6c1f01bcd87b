/* Proves the table of repairs of docs/http.md, row by row, and that a history with one more turn
 * begins with the messages that it had before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/history.h"

static char *repaired(const char *text, char *notes)
{
    json_t *in = NULL, *out = NULL;
    tt_repairs r;
    tt_refusal why;
    tt_buf b;
    assert_int_equal(tt_json_parse(text, strlen(text), "t", &in, NULL), TT_OK);
    if (!tt_history_repair(in, &out, &r, &why))
        fail_msg("%s: %s", why.param, why.message);
    tt_buf_init(&b, 1024);
    tt_repairs_write(&r, &b);
    strcpy(notes, b.len > 0 ? b.data : "");
    tt_buf_free(&b);
    char *result = json_dumps(out, JSON_COMPACT);
    json_decref(in);
    json_decref(out);
    return result;
}

#define M(role, content) "{\"role\":\"" role "\",\"content\":\"" content "\"}"
#define FN(id, name, arguments)                                                                    \
    "{\"type\":\"function\",\"id\":\"" id "\",\"function\":{\"name\":\"" name                      \
    "\",\"arguments\":" arguments "}}"
#define CALLS(list)      "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" list "]}"
#define RESULT(id, text) "{\"role\":\"tool\",\"content\":\"" text "\",\"tool_call_id\":\"" id "\"}"
#define NOTHING          "\"content\":\"[no result]\"}"
#define MADE(id)         "{\"role\":\"tool\",\"tool_call_id\":\"" id "\"," NOTHING

static void every_row(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want, *notes;
    } rows[] = {
        {M("user", "a"), M("user", "a"), ""},
        {M("developer", "s") "," M("user", "a"), M("system", "s") "," M("user", "a"), ""},
        {M("system", "s") "," M("system", "t") "," M("user", "a"),
         M("system", "s\\n\\nt") "," M("user", "a"), "merged_systems=1"},
        {M("user", "a") "," M("system", "s"), M("user", "a\\n<system>\\ns\\n</system>"),
         "moved_systems=1"},
        {M("system", "s\\u0000") "," M("system", "\\u0000t") "," M("user", "a"),
         M("system", "s\\u0000\\n\\n\\u0000t") "," M("user", "a"), "merged_systems=1"},
        {M("user", "a") "," M("assistant", "b") "," M("system", "s") "," M("user", "c"),
         M("user", "a") "," M("assistant",
                              "b") "," M("user", "<system>\\ns\\n</system>") "," M("user", "c"),
         "moved_systems=1"},
        {M("system", "x-anthropic-billing-header: cch=1\\nBe kind.") "," M("user", "a"),
         M("system", "Be kind.") "," M("user", "a"), "dropped_lines=1"},
        {M("user", "a") "," M("assistant", "") "," M("user", "b"),
         M("user", "a") "," M("user", "b"), "dropped_messages=1"},
        {"{\"role\":\"user\",\"name\":\"x\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"text\",\"text\":\"b\"}]}",
         M("user", "ab"), ""},
        {"{\"role\":\"assistant\",\"content\":null,\"refusal\":\"no\"}", M("assistant", "no"), ""},
        {"{\"role\":\"assistant\",\"content\":\"b\",\"reasoning\":\"hm\"}",
         "{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"hm\"}", ""},
        {CALLS(FN("1", "f", "\"{\\\"a\\\":1}\"")) "," RESULT("1", "r"),
         CALLS(FN("1", "f", "{\"a\":1}")) "," RESULT("1", "r"), ""},
        {CALLS(FN("1", "f", "\"oops\"")) "," RESULT("1", "r"),
         CALLS(FN("1", "f", "{\"input\":\"oops\"}")) "," RESULT("1", "r"), "wrapped_arguments=1"},
        {CALLS(FN("1", "f", "\"\"")) "," RESULT("1", "r"),
         CALLS(FN("1", "f", "{}")) "," RESULT("1", "r"), "wrapped_arguments=1"},
        {CALLS("{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}") "," M("tool", "r"),
         CALLS(FN("call_0_0", "f", "{}")) "," RESULT("call_0_0", "r"), "made_ids=1"},
        {CALLS(FN("call_0_1", "f", "{}") ",{\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}"
                                         "}") "," RESULT("call_0_1", "r") "," M("tool", "q"),
         CALLS(FN("call_0_1", "f", "{}") "," FN("call_0_1_1", "g", "{}")) "," RESULT(
             "call_0_1", "r") "," RESULT("call_0_1_1", "q"),
         "made_ids=1"},
        {CALLS(FN("1", "f", "{}") "," FN("1", "g", "{}")) "," RESULT("1", "r") "," RESULT("1", "q"),
         CALLS(FN("1", "f", "{}") "," FN("call_0_1", "g", "{}")) "," RESULT("1", "r") "," RESULT(
             "call_0_1", "q"),
         "made_ids=1"},
        {CALLS(FN("1", "f", "{}") "," FN("2", "g", "{}")) "," RESULT("2", "r") "," M("user", "b"),
         CALLS(FN("1", "f", "{}") "," FN("2", "g", "{}")) "," RESULT("2", "r") "," MADE("1") "," M(
             "user", "b"),
         "added_results=1"},
        {M("user", "a") "," RESULT("9", "r"), M("user", "a") "," RESULT("9", "r"), ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char in[4096], want[4096], notes[1024];
        snprintf(in, sizeof in, "[%s]", rows[i].in);
        snprintf(want, sizeof want, "[%s]", rows[i].want);
        char *got = repaired(in, notes);
        assert_string_equal(got, want);
        assert_string_equal(notes, rows[i].notes);
        free(got);
    }
}

/* One turn more: everything up to the last message that needs no look ahead stays. */
static void the_beginning_stays(void **state)
{
    (void)state;
    static const char *const turns[] = {
        M("system", "x-anthropic-billing-header: 7\\nS"),
        M("user", "a"),
        M("system", "t"),
        CALLS(FN("1", "f", "\"{\"") "," FN("1", "f", "{}")),
        RESULT("1", "r"),
        M("user", "b"),
        M("assistant", "c"),
        M("system", "u"),
        M("user", "d"),
    };
    char text[4096] = "", notes[1024], *before = NULL;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        char whole[4200];
        strcat(text, i > 0 ? "," : "");
        strcat(text, turns[i]);
        snprintf(whole, sizeof whole, "[%s]", text);
        char *now = repaired(whole, notes);
        /* What a template renders of a turn that ended with a user's words is never changed but by
         * a system message that belongs to it. */
        bool grows = strstr(turns[i], "\"system\"") == NULL && before != NULL;
        if (grows && strstr(before, "[no result]") == NULL)
            assert_int_equal(strncmp(before, now, strlen(before) - 1), 0);
        free(before);
        before = now;
    }
    free(before);
}

static void messages_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *in, *param, *code;
    } rows[] = {
        {"[1]", "messages[0]", "invalid_value"},
        {"[{}]", "messages[0].role", "missing_required_parameter"},
        {"[{\"role\":\"bird\"}]", "messages[0].role", "invalid_value"},
        {"[{\"role\":\"user\",\"content\":1}]", "messages[0].content", "invalid_value"},
        {"[{\"role\":\"user\",\"content\":[{}]}]", "messages[0].content[0].type", "invalid_value"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"file\"}]}]", "messages[0].content[0].type",
         "unsupported_value"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"x\"}]}]",
         "messages[0].content[0].type", "unsupported_value"},
        {"[{\"role\":\"assistant\",\"tool_calls\":{}}]", "messages[0].tool_calls", "invalid_value"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{}]}]",
         "messages[0].tool_calls[0].function.name", "invalid_value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *in = NULL, *out = NULL;
        tt_repairs r;
        tt_refusal why;
        assert_int_equal(tt_json_parse(rows[i].in, strlen(rows[i].in), "t", &in, NULL), TT_OK);
        assert_false(tt_history_repair(in, &out, &r, &why));
        assert_string_equal(why.param, rows[i].param);
        assert_string_equal(why.code, rows[i].code);
        json_decref(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(the_beginning_stays),
        cmocka_unit_test(messages_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
