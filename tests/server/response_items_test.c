/* Proves that every kind of item of Responses has one form: whatever way it is written it becomes
 * that, which read again is itself, and so it comes out of the store by reference and by response.
 * Items of hosted tools are left out, others are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "server/response_items.h"

#define P(type, text) "{\"type\":\"" type "\",\"text\":\"" text "\"}"
#define OUT(text)                                                                                  \
    "{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[],\"logprobs\":[]}"
#define MSG(role, parts)                                                                           \
    "{\"type\":\"message\",\"status\":\"completed\",\"role\":\"" role "\",\"content\":[" parts     \
    "],\"id\":\"ID\"}"
#define CALL(name, arguments, more)                                                                \
    "{\"type\":\"function_call\",\"status\":\"completed\",\"name\":\"" name                        \
    "\",\"arguments\":\"" arguments "\",\"call_id\":\"c\"" more ",\"id\":\"ID\"}"
#define CUSTOM(input)                                                                              \
    "{\"type\":\"custom_tool_call\",\"status\":\"completed\",\"name\":\"p\",\"input\":\"" input    \
    "\",\"call_id\":\"c\",\"id\":\"ID\"}"
#define RESULT(type, text)                                                                         \
    "{\"type\":\"" type "\",\"status\":\"completed\",\"output\":\"" text                           \
    "\",\"call_id\":\"c\",\"id\":\"ID\"}"
#define THOUGHT(summary, more)                                                                     \
    "{\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[" summary "]" more              \
    ",\"id\":\"ID\"}"
#define TEXTS(text) ",\"content\":[" P("reasoning_text", text) "]"
#define CARRIED     ",\"encrypted_content\":\"dHQxcmht\""
#define SUMMARY     "\"encrypted_content\":\"dHQxc2Eu\""

static const struct {
    const char *prefix; /* of an id that is made */
    const char *form;
    const char *ways[6]; /* the first has an id of its own */
} rows[] = {
    {"msg_",
     MSG("user", P("input_text", "a")),
     {"{\"id\":\"own\",\"type\":\"message\",\"role\":\"user\",\"content\":\"a\"}", "\"a\"",
      "{\"role\":\"user\",\"content\":\"a\"}",
      "{\"role\":\"user\",\"content\":[" P("text", "a") "],\"status\":\"incomplete\"}",
      "{\"type\":\"message\",\"id\":null,\"role\":\"user\",\"content\":[" OUT("a") "]}"}},
    {"msg_",
     MSG("system", P("input_text", "a") "," P("input_text", "b")),
     {"{\"id\":\"own\",\"role\":\"system\",\"content\":[" P("input_text", "a") "," P("text",
                                                                                     "b") "]}"}},
    {"msg_",
     MSG("developer", ""),
     {"{\"id\":\"own\",\"role\":\"developer\",\"content\":[]}",
      "{\"role\":\"developer\",\"content\":null}", "{\"role\":\"developer\"}"}},
    {"msg_",
     MSG("assistant", OUT("a")),
     {"{\"id\":\"own\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\","
      "\"content\":[" OUT("a") "]}",
      "{\"role\":\"assistant\",\"content\":\"a\"}",
      "{\"role\":\"assistant\",\"content\":[" P("input_text", "a") "]}",
      "{\"role\":\"assistant\",\"phase\":\"final_answer\",\"content\":[{\"type\":\"output_text\","
      "\"text\":\"a\",\"annotations\":[{\"type\":\"url_citation\"}],\"logprobs\":[{}]}]}"}},
    {"msg_",
     MSG("assistant", "{\"type\":\"refusal\",\"refusal\":\"no\"}"),
     {"{\"id\":\"own\",\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":"
      "\"no\"}]}"}},
    {"fc_",
     CALL("f", "{\\\"a\\\":1}", ""),
     {"{\"id\":\"own\",\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
      "\"{\\\"a\\\":1}\",\"status\":\"completed\"}",
      "{\"call_id\":\"c\",\"name\":\"f\",\"arguments\":{\"a\":1}}",
      "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"namespace\":null,"
      "\"arguments\":{\"a\":1},\"id\":\"\"}"}},
    {"fc_",
     CALL("f", "", ",\"namespace\":\"n\""),
     {"{\"id\":\"own\",\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"namespace\":"
      "\"n\",\"arguments\":\"\"}",
      "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"namespace\":\"n\"}"}},
    {"ctc_",
     CUSTOM("x"),
     {"{\"id\":\"own\",\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"p\",\"input\":"
      "\"x\"}",
      "{\"call_id\":\"c\",\"name\":\"p\",\"input\":\"x\"}"}},
    {"fco_",
     RESULT("function_call_output", "ab"),
     {"{\"id\":\"own\",\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"ab\"}",
      "{\"call_id\":\"c\",\"output\":\"ab\"}",
      "{\"call_id\":\"c\",\"output\":[" P("input_text", "a") "," P("output_text", "b") "]}"}},
    {"ctco_",
     RESULT("custom_tool_call_output", "ab"),
     {"{\"id\":\"own\",\"type\":\"custom_tool_call_output\",\"call_id\":\"c\",\"output\":\"ab\"}",
      "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c\",\"output\":[" P("text", "ab") "]}"}},
    {"rs_",
     THOUGHT("", TEXTS("hm")),
     {"{\"id\":\"own\",\"type\":\"reasoning\",\"summary\":[],\"content\":[" P("reasoning_text",
                                                                              "hm") "]}",
      "{\"type\":\"reasoning\",\"content\":[" P("text", "hm") "],\"encrypted_content\":null}"}},
    {"rs_",
     THOUGHT(P("summary_text", "1") "," P("summary_text", "2"), CARRIED),
     {"{\"id\":\"own\",\"type\":\"reasoning\",\"summary\":[" P("summary_text", "1") "," P(
          "summary_text", "2") "],\"content\":null,\"encrypted_content\":\"dHQxcmht\"}",
      "{\"summary\":[" P("x", "1") "," P("x", "2") "],\"content\":[]" CARRIED "}"}},
    {"cmp_",
     "{\"type\":\"compaction\"," SUMMARY ",\"id\":\"ID\"}",
     {"{\"id\":\"own\",\"type\":\"compaction\"," SUMMARY "}",
      "{\"type\":\"compaction_summary\"," SUMMARY "}"}},
    {"at_",
     "{\"type\":\"additional_tools\",\"role\":\"developer\",\"tools\":[{\"type\":\"function\","
     "\"name\":\"f\"}],\"id\":\"ID\"}",
     {"{\"id\":\"own\",\"type\":\"additional_tools\",\"tools\":[{\"type\":\"function\",\"name\":"
      "\"f\"}]}"}},
};
#define ROWS (sizeof rows / sizeof rows[0])

static tt_response_store *store;

static json_t *parsed(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (v == NULL)
        fail_msg("no JSON: %s", text);
    return v;
}

/* The form of what is written there; with `r`, the reader that has it. */
static json_t *form_of(const char *text, tt_item_reader *r)
{
    tt_item_reader own;
    tt_refusal why = {0};
    json_t *raw = parsed(text), *input = json_is_string(raw) ? raw : json_pack("[o]", raw);
    r = r != NULL ? r : &own;
    assert_true(tt_item_reader_init(r, store, r != &own, &why));
    if (!tt_item_reader_input(r, input))
        fail_msg("%s: %s: %s", text, why.param, why.message);
    json_decref(input);
    assert_int_equal(json_array_size(r->items), 1);
    json_t *item = json_incref(json_array_get(r->items, 0));
    if (r == &own)
        tt_item_reader_free(&own);
    return item;
}

static void expect_form(const json_t *item, const char *form, const char *id, const char *of)
{
    json_t *want = parsed(form);
    json_object_set_new(want, "id", json_string(id));
    char *text = json_dumps(item, JSON_COMPACT);
    if (!json_equal(item, want))
        fail_msg("%s\nof: %s\ninstead of: %s with id %s", text, of, form, id);
    free(text);
    json_decref(want);
}

static const char *id_of(const json_t *item)
{
    return json_string_value(json_object_get(item, "id"));
}

static void every_way_leads_to_one_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < 6 && rows[i].ways[k] != NULL; k++) {
            json_t *item = form_of(rows[i].ways[k], NULL);
            const char *id = id_of(item);
            if (k == 0)
                assert_string_equal(id, "own");
            else if (strncmp(id, rows[i].prefix, strlen(rows[i].prefix)) != 0 ||
                     strlen(id) != strlen(rows[i].prefix) + 24)
                fail_msg("%s: %s", rows[i].ways[k], id);
            expect_form(item, rows[i].form, id, rows[i].ways[k]);
            /* The form is its own. */
            char *text = json_dumps(item, JSON_COMPACT);
            json_t *again = form_of(text, NULL);
            expect_form(again, rows[i].form, id, text);
            json_decref(again);
            json_decref(item);
            free(text);
        }
}

static json_t *only(tt_item_reader *r)
{
    assert_int_equal(json_array_size(r->items), 1);
    return json_array_get(r->items, 0);
}

static void so_it_comes_out_of_the_store(void **state)
{
    (void)state;
    tt_buf head, tail;
    tt_buf_init(&head, 64);
    tt_buf_init(&tail, 64);
    tt_buf_puts(&head, "{");
    tt_buf_puts(&tail, "}");
    for (size_t i = 0; i < ROWS; i++) {
        tt_item_reader in, out;
        tt_refusal why = {0};
        json_t *item = form_of(rows[i].ways[0], &in), *raw;
        expect_form(item, rows[i].form, "own", rows[i].ways[0]);
        json_decref(item);
        assert_true(
            tt_response_store_put(store, "resp_1", &head, &tail, &in.kept, &(tt_item_list){0}));
        tt_item_reader_free(&in);
        assert_true(tt_item_reader_init(&out, store, false, &why));
        assert_true(tt_item_reader_previous(&out, "resp_1"));
        expect_form(only(&out), rows[i].form, "own", "a response");
        tt_item_reader_free(&out);
        static const char *const references[] = {"[{\"id\":\"own\"}]",
                                                 "[{\"type\":\"item_reference\",\"id\":\"own\"}]"};
        for (size_t k = 0; k < 2; k++) {
            raw = parsed(references[k]);
            assert_true(tt_item_reader_init(&out, store, false, &why));
            assert_true(tt_item_reader_input(&out, raw));
            expect_form(only(&out), rows[i].form, "own", references[k]);
            tt_item_reader_free(&out);
            json_decref(raw);
        }
        /* One that only begins like it is another. */
        static const char *const others[] = {
            "[{\"id\":\"own\\u0000\"}]", "[{\"type\":\"item_reference\",\"id\":\"own\\u0000b\"}]"};
        for (size_t k = 0; k < 2; k++) {
            raw = parsed(others[k]);
            assert_true(tt_item_reader_init(&out, store, false, &why));
            assert_false(tt_item_reader_input(&out, raw));
            assert_int_equal(why.status, 404);
            assert_string_equal(why.param, "input[0].id");
            why = (tt_refusal){0};
            tt_item_reader_free(&out);
            json_decref(raw);
        }
        assert_true(tt_response_store_delete(store, "resp_1"));
    }
    tt_buf_free(&head);
    tt_buf_free(&tail);
}

static void some_are_left_out(void **state)
{
    static const char *const hosted[] = {"apply_patch_call",        "apply_patch_call_output",
                                         "code_interpreter_call",   "computer_call",
                                         "computer_call_output",    "file_search_call",
                                         "image_generation_call",   "local_shell_call",
                                         "local_shell_call_output", "mcp_approval_request",
                                         "mcp_approval_response",   "mcp_call",
                                         "mcp_list_tools",          "program",
                                         "program_output",          "shell_call",
                                         "shell_call_output",       "tool_search_call",
                                         "tool_search_output",      "web_search_call"};
    (void)state;
    for (size_t i = 0; i < sizeof hosted / sizeof hosted[0]; i++) {
        tt_item_reader r;
        tt_refusal why = {0};
        json_t *input =
            json_pack("[{s:s, s:s, s:s}]", "type", hosted[i], "id", "x", "output", "SECRET");
        assert_true(tt_item_reader_init(&r, store, true, &why));
        assert_true(tt_item_reader_input(&r, input));
        assert_true(r.hosted && json_array_size(r.items) == 0 && r.kept.n == 0);
        tt_item_reader_free(&r);
        json_decref(input);
    }
}

static void others_are_refused_by_name(void **state)
{
    static const struct {
        const char *item, *param;
        int status;
    } bad[] = {
        {"7", "input[0]", 400},
        {"{}", "input[0].type", 400},
        {"{\"type\":\"thing\",\"role\":\"user\"}", "input[0].type", 400},
        {"{\"type\":7,\"role\":\"user\"}", "input[0].type", 400},
        {"{\"type\":\"message\",\"content\":\"a\"}", "input[0].role", 400},
        {"{\"role\":\"tool\",\"content\":\"a\"}", "input[0].role", 400},
        {"{\"role\":\"user\",\"content\":7}", "input[0].content", 400},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}", "input[0].content[0].type",
         400},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"a\"}]}",
         "input[0].content[0].type", 400},
        {"{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}", "input[0].content[0].type", 400},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}", "input[0].content[0].text", 400},
        {"{\"type\":\"function_call\",\"call_id\":\"c\"}", "input[0].name", 400},
        {"{\"call_id\":\"c\",\"output\":{}}", "input[0].output", 400},
        {"{\"type\":\"compaction\",\"encrypted_content\":\"dHQxcmht\"}",
         "input[0].encrypted_content", 400},
        {"{\"type\":\"additional_tools\"}", "input[0].tools", 400},
        {"{\"type\":\"item_reference\"}", "input[0].id", 400},
        {"{\"id\":\"nowhere\"}", "input[0].id", 404},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tt_item_reader r;
        tt_refusal why = {0};
        json_t *input = json_pack("[o]", parsed(bad[i].item));
        assert_true(tt_item_reader_init(&r, store, true, &why));
        if (tt_item_reader_input(&r, input))
            fail_msg("not refused: %s", bad[i].item);
        assert_int_equal(why.status, bad[i].status);
        assert_string_equal(why.param, bad[i].param);
        tt_item_reader_free(&r);
        json_decref(input);
    }
}

static int open_store(void **state)
{
    (void)state;
    store = tt_response_store_create(4, 1 << 20);
    return store != NULL ? 0 : -1;
}

static int close_store(void **state)
{
    (void)state;
    tt_response_store_close(&store);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_leads_to_one_form),
        cmocka_unit_test(so_it_comes_out_of_the_store),
        cmocka_unit_test(some_are_left_out),
        cmocka_unit_test(others_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, open_store, close_store);
}
