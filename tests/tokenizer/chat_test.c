/* Proves that chats are rendered through the model's template with the right variables, and that
 * answers come apart into thought, text and typed calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "support/tempdir.h"
#include "tokenizer/chat.h"
#include "tokenizer/jinja.h"

#define TALES "models/tales"
#define CASES "tests/vectors/tales/cases.json"

static json_t *cases;

static const char *case_text(const char *name, const char *key)
{
    const json_t *c = json_object_get(json_object_get(cases, "bf16"), name);
    const char *text = json_string_value(json_object_get(c, key));
    assert_non_null(text);
    return text;
}

static int load_cases(void **state)
{
    tt_error err = {0};
    if (tt_json_load(CASES, 16 * TT_MIB, &cases, &err) != TT_OK)
        fail_msg("%s", err.message);
    return 0;
}

static int drop_cases(void **state)
{
    json_decref(cases);
    return 0;
}

/* The tools of the recorded prompt, as a JSON array. */
static char *recorded_tools(void)
{
    const char *prompt = case_text("tools", "prompt");
    const char *p = strstr(prompt, "<tools>\n") + 8, *end = strstr(prompt, "\n</tools>");
    tt_buf b;
    tt_buf_init(&b, 1 << 20);
    tt_buf_putc(&b, '[');
    for (; p < end; p++)
        tt_buf_putc(&b, *p == '\n' ? ',' : *p);
    tt_buf_putc(&b, ']');
    return tt_buf_steal(&b, NULL);
}

/* ---- rendering ---- */

static tt_tokenizer *open_tales(void)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    if (tt_tokenizer_open(TALES, &tok, &err) != TT_OK)
        fail_msg("%s", err.message);
    return tok;
}

static void expect_render(const char *messages, const tt_chat_options *opts, const char *want)
{
    tt_tokenizer *tok = open_tales();
    char *text = NULL;
    size_t len = 0;
    tt_error err = {0};
    if (tt_chat_render(tok, messages, opts, &text, &len, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    tt_free(text);
    tt_tokenizer_close(&tok);
}

static void expect_refusal(const char *messages, const tt_chat_options *opts, tt_status want,
                           const char *part)
{
    tt_tokenizer *tok = open_tales();
    char *text = NULL;
    size_t len = 0;
    tt_error err = {0};
    assert_int_equal(tt_chat_render(tok, messages, opts, &text, &len, &err), want);
    assert_null(text);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
    tt_tokenizer_close(&tok);
}

static void renders_the_recorded_prompts(void **state)
{
    char *tools = recorded_tools();
    tt_chat_options opts = {.tools_json = tools};
    expect_render("[{\"role\": \"user\", \"content\": \"Tell me the capital of France.\"}]", &opts,
                  case_text("tools", "prompt"));
    free(tools);
    expect_render("[{\"role\": \"user\", \"content\": \"What is the capital of Japan?\"}]", NULL,
                  case_text("chat", "prompt"));
}

static void checks_a_template_before_there_are_messages(void **state)
{
    static const struct {
        const char *template;
        tt_status want;
    } kinds[] = {{"{{ messages[0].content }}", TT_OK}, {"{{", TT_ERR_TEMPLATE}, {NULL, TT_OK}};
    char dir[512], path[600];
    tt_error err = {0};
    tt_tokenizer *tok = open_tales();
    assert_int_equal(tt_chat_check_template(tok, &err), TT_OK);
    tt_tokenizer_close(&tok);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *json = NULL;
        size_t len = 0;
        tempdir_make(dir);
        assert_int_equal(tt_file_read(TALES "/tokenizer.json", 1 << 24, &json, &len, NULL), TT_OK);
        tempdir_file(dir, "tokenizer.json", json, len, path);
        free(json);
        if (kinds[i].template != NULL)
            tempdir_file(dir, "chat_template.jinja", kinds[i].template, strlen(kinds[i].template),
                         path);
        assert_int_equal(tt_tokenizer_open(dir, &tok, &err), TT_OK);
        assert_int_equal(tt_chat_check_template(tok, &err), kinds[i].want);
        if (kinds[i].want != TT_OK)
            assert_string_equal(err.file, path);
        tt_tokenizer_close(&tok);
        tempdir_remove(dir);
    }
}

static void opens_and_closes_thoughts(void **state)
{
    const char *q = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi\"}]}]";
    tt_chat_options opts = {.thinking = TT_THINKING_ON};
    expect_render(q, &opts, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
    opts.thinking = TT_THINKING_OFF;
    expect_render(q, &opts,
                  "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    opts = (tt_chat_options){.no_generation_prompt = true};
    expect_render(q, &opts, "<|im_start|>user\nHi<|im_end|>\n");
}

static void renders_a_conversation_with_tools(void **state)
{
    const char *messages =
        "[{\"role\": \"system\", \"content\": \" Be brief. \"},"
        "{\"role\": \"user\", \"content\": \"One\"},"
        "{\"role\": \"assistant\", \"content\": \"<think>\\nold thought\\n</think>\\n\\nFirst.\"},"
        "{\"role\": \"user\", \"content\": \"Two\"},"
        "{\"role\": \"assistant\", \"reasoning_content\": \"new thought\", \"content\": "
        "\"Looking.\","
        " \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"look\","
        " \"arguments\": \"{\\\"where\\\": \\\"a\\\\nb\\\", \\\"n\\\": 2.0, \\\"x\\\": [true, "
        "null]}\"}},"
        " {\"name\": \"wait\", \"arguments\": {}}]},"
        "{\"role\": \"tool\", \"content\": \"seen\"},"
        "{\"role\": \"tool\", \"content\": \"waited\"}]";
    expect_render(messages, NULL,
                  "<|im_start|>system\nBe brief.<|im_end|>\n"
                  "<|im_start|>user\nOne<|im_end|>\n"
                  "<|im_start|>assistant\nFirst.<|im_end|>\n"
                  "<|im_start|>user\nTwo<|im_end|>\n"
                  "<|im_start|>assistant\n<think>\nnew thought\n</think>\n\nLooking.\n\n"
                  "<tool_call>\n<function=look>\n<parameter=where>\na\nb\n</parameter>\n"
                  "<parameter=n>\n2.0\n</parameter>\n<parameter=x>\n[true, null]\n</parameter>\n"
                  "</function>\n</tool_call>\n"
                  "<tool_call>\n<function=wait>\n</function>\n</tool_call><|im_end|>\n"
                  "<|im_start|>user\n<tool_response>\nseen\n</tool_response>\n"
                  "<tool_response>\nwaited\n</tool_response><|im_end|>\n"
                  "<|im_start|>assistant\n");
}

static void wraps_bare_tools(void **state)
{
    tt_chat_options opts = {.tools_json = "[{\"name\": \"f\"}]", .no_generation_prompt = true};
    expect_render(
        "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"Q\"}]",
        &opts,
        "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n"
        "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\"}}\n</tools>\n\n"
        "S<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n");
}

static void refuses_what_cannot_be_rendered(void **state)
{
    const char *user = "[{\"role\": \"user\", \"content\": \"Q\"}]";
    tt_chat_options opts = {.tools_json = "{}"};
    expect_refusal(user, &opts, TT_ERR_INVALID, "tools");
    opts = (tt_chat_options){.tools_json = "["};
    expect_refusal(user, &opts, TT_ERR_FORMAT, "JSON");
    opts = (tt_chat_options){.extra_json = "[]"};
    expect_refusal(user, &opts, TT_ERR_INVALID, "extra");
    opts = (tt_chat_options){.thinking = (tt_thinking)7};
    expect_refusal(user, &opts, TT_ERR_INVALID, "7");
    expect_refusal(NULL, NULL, TT_ERR_INVALID, "messages");
    expect_refusal("{}", NULL, TT_ERR_INVALID, "messages");
    expect_refusal("[1]", NULL, TT_ERR_INVALID, "messages[0]");
    expect_refusal("[]", NULL, TT_ERR_TEMPLATE, "no messages");
    expect_refusal("[{\"role\": \"system\", \"content\": \"S\"}]", NULL, TT_ERR_TEMPLATE,
                   "question");
    expect_refusal(
        "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"system\", \"content\": \"\"}]",
        NULL, TT_ERR_TEMPLATE, "first");
    expect_refusal(
        "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"bard\", \"content\": \"\"}]", NULL,
        TT_ERR_TEMPLATE, "role");
    expect_refusal("[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]", NULL,
                   TT_ERR_TEMPLATE, "text parts");
}

/* What the variables hold, by way of small templates. */
static void expect_variables(const char *template, const tt_chat_options *opts, const char *want)
{
    json_t *vars = NULL, *tokens = json_pack("{s:s}", "eos_token", "<end>");
    char *text = NULL;
    tt_error err = {0};
    tt_jinja_options jo;
    tt_jinja_options_default(&jo);
    assert_int_equal(
        tt_chat_variables("[{\"role\": \"user\", \"content\": \"Q\"}]", opts, tokens, &vars, &err),
        TT_OK);
    if (tt_jinja_render(template, strlen(template), vars, &jo, &text, NULL, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_string_equal(text, want);
    tt_free(text);
    json_decref(vars);
    json_decref(tokens);
}

static void shows_templates_the_reference_variables(void **state)
{
    const char *seen = "{{ tools is none }} {{ documents is none }} {{ eos_token }} "
                       "{{ bos_token is defined }} {{ enable_thinking is defined }} "
                       "{{ add_generation_prompt }} {{ more }}";
    expect_variables(seen, NULL, "True True <end> False False True ");
    tt_chat_options opts = {.tools_json = "[]",
                            .thinking = TT_THINKING_OFF,
                            .no_generation_prompt = true,
                            .extra_json = "{\"more\": 1.0, \"eos_token\": \"E\"}"};
    expect_variables(seen, &opts, "True True E False True False 1.0");
}

/* ---- parsing ---- */

static void expect_parse(const char *text, const char *tools, const char *want)
{
    char *json = NULL;
    tt_error err = {0};
    if (tt_chat_parse(text, strlen(text), tools, &json, &err) != TT_OK)
        fail_msg("%s", err.message);
    assert_string_equal(json, want);
    tt_free(json);
}

#define CALL(params) "<tool_call>\n<function=f>\n" params "</function>\n</tool_call>"
#define PARAM(k, v)  "<parameter=" k ">\n" v "\n</parameter>\n"
#define ONE(args)                                                                                  \
    "{\"reasoning\":\"\",\"content\":\"\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":{" args    \
    "}}]}"
#define PLAIN(content) "{\"reasoning\":\"\",\"content\":\"" content "\",\"tool_calls\":[]}"

static void parses_the_recorded_call(void **state)
{
    char *tools = recorded_tools();
    expect_parse(case_text("tools", "greedy_text"), tools,
                 "{\"reasoning\":\"\",\"content\":\"Let me check.\",\"tool_calls\":[{\"name\":"
                 "\"get_capital\",\"arguments\":{\"country\":\"France\"}}]}");
    free(tools);
}

static void takes_thoughts_out(void **state)
{
    const char *want = "{\"reasoning\":\"why\",\"content\":\"So.\",\"tool_calls\":[]}";
    expect_parse("<think>\nwhy\n</think>\n\nSo.", NULL, want);
    expect_parse("why\n</think>\n\nSo.", NULL, want);
    expect_parse("<think>why</think>So.<|im_end|>", NULL, want);
    expect_parse("<think>\n\n</think>\n\nSo.", NULL, PLAIN("So."));
    expect_parse("<think>\nwhy", NULL,
                 "{\"reasoning\":\"why\",\"content\":\"\",\"tool_calls\":[]}");
    expect_parse("A <think> in text", NULL, PLAIN("A <think> in text"));
    expect_parse(" kept as it is \n", NULL, PLAIN(" kept as it is \\n"));
    expect_parse("", NULL, PLAIN(""));
    /* In an argument the tag is text, unless a thought came first. */
    expect_parse(CALL(PARAM("s", "a</think>b")), NULL, ONE("\"s\":\"a</think>b\""));
    expect_parse(CALL(PARAM("s", "<think>")), NULL, ONE("\"s\":\"<think>\""));
    expect_parse("why</think>" CALL(PARAM("s", "a</think>b")), NULL,
                 "{\"reasoning\":\"why\",\"content\":\"\",\"tool_calls\":[{\"name\":\"f\","
                 "\"arguments\":{\"s\":\"a</think>b\"}}]}");
    expect_parse("<tool_call> is what I need</think>Now.", NULL,
                 "{\"reasoning\":\"<tool_call> is what I need\",\"content\":\"Now.\","
                 "\"tool_calls\":[]}");
    expect_parse("why</think>Now. " CALL(""), NULL,
                 "{\"reasoning\":\"why\",\"content\":\"Now.\",\"tool_calls\":[{\"name\":\"f\","
                 "\"arguments\":{}}]}");
}

static void parses_values_by_their_declared_type(void **state)
{
    const char *tools =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{"
        "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"n\":{\"type\":\"number\"},"
        "\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"},\"a\":{\"type\":\"array\"},"
        "\"z\":{\"type\":\"null\"},\"u\":{\"type\":[\"integer\",\"null\"]},"
        "\"y\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"boolean\"}]}}}}}]";
    expect_parse(CALL(PARAM("s", "12") PARAM("i", "12") PARAM("n", "1.50") PARAM("b", "true")),
                 tools, ONE("\"s\":\"12\",\"i\":12,\"n\":1.5,\"b\":true"));
    expect_parse(CALL(PARAM("o", "{\"k\": [1, 2.0]}") PARAM("a", "[]") PARAM("z", "null")), tools,
                 ONE("\"o\":{\"k\":[1,2.0]},\"a\":[],\"z\":null"));
    /* What does not fit the type stays text. */
    expect_parse(CALL(PARAM("i", "1.5") PARAM("n", "many") PARAM("b", "1") PARAM("o", "[1]")),
                 tools, ONE("\"i\":\"1.5\",\"n\":\"many\",\"b\":\"1\",\"o\":\"[1]\""));
    expect_parse(CALL(PARAM("i", "3.0") PARAM("b", "False") PARAM("z", "None") PARAM("u", "null")),
                 tools, ONE("\"i\":3,\"b\":false,\"z\":null,\"u\":null"));
    expect_parse(CALL(PARAM("u", "7") PARAM("y", "true") PARAM("x", "[1]")), tools,
                 ONE("\"u\":7,\"y\":true,\"x\":[1]"));
    expect_parse(CALL(PARAM("p", "5") PARAM("q", "Paris")), NULL, ONE("\"p\":5,\"q\":\"Paris\""));
    expect_parse(CALL("<parameter=s>x</parameter>"), "[{\"name\":\"f\"}]", ONE("\"s\":\"x\""));
    /* No digit is lost that 64 bits do not hold, unless a number that may have a fraction is asked
     * for. */
    expect_parse(CALL(PARAM("i", "9223372036854775807") PARAM("n", "18446744073709551615")), tools,
                 ONE("\"i\":9223372036854775807,\"n\":1.8446744073709552e19"));
    expect_parse(CALL(PARAM("i", "18446744073709551615") PARAM("x", "-18446744073709551615")),
                 tools, ONE("\"i\":\"18446744073709551615\",\"x\":\"-18446744073709551615\""));
    expect_parse(CALL(PARAM("p", "1e30")), NULL, ONE("\"p\":1e30"));
}

static void keeps_values_with_lines_and_tags(void **state)
{
    expect_parse(CALL(PARAM("s", "a\n\n b\n")), NULL, ONE("\"s\":\"a\\n\\n b\\n\""));
    expect_parse(CALL(PARAM("s", "")), NULL, ONE("\"s\":\"\""));
    expect_parse(CALL(PARAM("s", "close with </parameter> here")), NULL,
                 ONE("\"s\":\"close with </parameter> here\""));
    expect_parse(CALL(PARAM("s", "<tool_call>")), NULL, ONE("\"s\":\"<tool_call>\""));
    expect_parse(CALL(PARAM("s", "Zo\xc3\xab \xf0\x9f\xa6\x8a")), NULL,
                 ONE("\"s\":\"Zo\xc3\xab \xf0\x9f\xa6\x8a\""));
}

static void parses_several_calls(void **state)
{
    expect_parse(
        "One.\n\n" CALL(PARAM("a", "1")) "\n" CALL(PARAM("a", "2")) "\n\nTwo.\n", NULL,
        "{\"reasoning\":\"\",\"content\":\"One.\\n\\nTwo.\\n\",\"tool_calls\":["
        "{\"name\":\"f\",\"arguments\":{\"a\":1}},{\"name\":\"f\",\"arguments\":{\"a\":2}}]}");
}

static void leaves_broken_calls_in_the_text(void **state)
{
    expect_parse("<tool_call>\n<function=f>\n", NULL, PLAIN("<tool_call>\\n<function=f>\\n"));
    expect_parse("<tool_call></tool_call>", NULL, PLAIN("<tool_call></tool_call>"));
    expect_parse("<tool_call><function=></function></tool_call>", NULL,
                 PLAIN("<tool_call><function=></function></tool_call>"));
    expect_parse("<tool_call><function=f><parameter=a>1</function></tool_call>", NULL,
                 PLAIN("<tool_call><function=f><parameter=a>1</function></tool_call>"));
    expect_parse("<tool_call><function=f></function>", NULL,
                 PLAIN("<tool_call><function=f></function>"));
    expect_parse("<tool_call>" CALL(""), NULL,
                 "{\"reasoning\":\"\",\"content\":\"<tool_call>\",\"tool_calls\":[{\"name\":\"f\","
                 "\"arguments\":{}}]}");
}

static void refuses_bad_input(void **state)
{
    char *json = NULL;
    tt_error err = {0};
    assert_int_equal(tt_chat_parse("ab\xff", 3, NULL, &json, &err), TT_ERR_FORMAT);
    assert_int_equal(err.offset, 2);
    assert_int_equal(tt_chat_parse("a", 1, "{}", &json, &err), TT_ERR_INVALID);
    assert_int_equal(tt_chat_parse("a", 1, "[", &json, &err), TT_ERR_FORMAT);
    assert_null(json);
}

/* Openings without ends must not cost their square. */
static void is_quick_on_repeated_openings(void **state)
{
    tt_buf b;
    char *json = NULL;
    tt_error err = {0};
    tt_buf_init(&b, 64 * TT_MIB);
    for (int i = 0; i < 50000; i++)
        tt_buf_puts(&b, "<tool_call><function=f><parameter=a>");
    for (int i = 0; i < 50000; i++)
        tt_buf_puts(&b, "</parameter>x");
    assert_int_equal(tt_chat_parse(b.data, b.len, NULL, &json, &err), TT_OK);
    tt_free(json);
    tt_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_the_recorded_prompts),
        cmocka_unit_test(checks_a_template_before_there_are_messages),
        cmocka_unit_test(opens_and_closes_thoughts),
        cmocka_unit_test(renders_a_conversation_with_tools),
        cmocka_unit_test(wraps_bare_tools),
        cmocka_unit_test(refuses_what_cannot_be_rendered),
        cmocka_unit_test(shows_templates_the_reference_variables),
        cmocka_unit_test(parses_the_recorded_call),
        cmocka_unit_test(takes_thoughts_out),
        cmocka_unit_test(parses_values_by_their_declared_type),
        cmocka_unit_test(keeps_values_with_lines_and_tags),
        cmocka_unit_test(parses_several_calls),
        cmocka_unit_test(leaves_broken_calls_in_the_text),
        cmocka_unit_test(refuses_bad_input),
        cmocka_unit_test(is_quick_on_repeated_openings),
    };
    return cmocka_run_group_tests(tests, load_cases, drop_cases);
}
