/* Proves on the wire, with a scripted engine, the ten cases over HTTP of the public Open Responses
 * suite (the other seven need WebSocket, which is not offered): one test a case, of the suite's
 * name and in our own words. An object is held against the members that the suite's schema demands,
 * with their types. Every request is asked alone: the suite asks all at once, and a full queue is a
 * matter of its own (limits_wire_test.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>

#include "seen_prompt.h"

#define PATH  "/v1/responses"
#define MODEL "\"model\":\"scripted_4-Bit\""

static const char script[] =
    "[{\"match\":\"Summarize the conversation\",\"steps\":[{\"text\":\"The fair is on Friday.\"}]},"
    "{\"match\":\"weather\",\"steps\":[{\"call\":{\"name\":\"get_weather\",\"arguments\":"
    "{\"location\":\"Oslo\"}}}]},"
    "{\"steps\":[{\"text\":\"one \"},{\"text\":\"two\"}]}]";

static int set_up(void **state)
{
    (void)state;
    wire_prepare(script);
    seen_prepare();
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    seen_forget();
    return 0;
}

/* ---- the schema ---- */

/* A member and the types that it may have: s text, i whole number, n number, b boolean, o object, a
 * array, 0 null. */
typedef struct member {
    const char *name, *types;
} member;

static bool is_of(const json_t *v, const char *types)
{
    static const char letters[] = "oasinbb0"; /* in the order of json_type */
    char letter = letters[json_typeof(v)];
    return strchr(types, letter) != NULL || (letter == 'i' && strchr(types, 'n') != NULL);
}

static void has(const json_t *o, const member *list)
{
    for (; list->name != NULL; list++) {
        const json_t *v = json_object_get(o, list->name);
        if (v == NULL || !is_of(v, list->types))
            fail_msg("%s is not of %s", list->name, list->types);
    }
}

static const char *word(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    if (text == NULL)
        fail_msg("no text: %s", key);
    return text;
}

static void is_item(const json_t *item)
{
    static const member message[] = {
        {"id", "s"}, {"status", "s"}, {"role", "s"}, {"content", "a"}, {NULL, NULL}};
    static const member part[] = {
        {"text", "s"}, {"annotations", "a"}, {"logprobs", "a"}, {NULL, NULL}};
    static const member call[] = {{"id", "s"},   {"status", "s"},    {"call_id", "s"},
                                  {"name", "s"}, {"arguments", "s"}, {NULL, NULL}};
    if (strcmp(word(item, "type"), "function_call") == 0) {
        has(item, call);
        return;
    }
    size_t i;
    const json_t *p;
    assert_string_equal(word(item, "type"), "message");
    has(item, message);
    json_array_foreach(json_object_get(item, "content"), i, p)
    {
        assert_string_equal(word(p, "type"), "output_text");
        has(p, part);
    }
}

static void is_usage(const json_t *usage)
{
    static const member all[] = {{"input_tokens", "i"},          {"output_tokens", "i"},
                                 {"total_tokens", "i"},          {"input_tokens_details", "o"},
                                 {"output_tokens_details", "o"}, {NULL, NULL}};
    has(usage, all);
    assert_true(json_is_integer(
        json_object_get(json_object_get(usage, "input_tokens_details"), "cached_tokens")));
    assert_true(json_is_integer(
        json_object_get(json_object_get(usage, "output_tokens_details"), "reasoning_tokens")));
}

/* A whole response, complete, with output. */
static void is_response(const json_t *r)
{
    static const member all[] = {{"id", "s"},
                                 {"created_at", "i"},
                                 {"completed_at", "i"},
                                 {"model", "s"},
                                 {"incomplete_details", "0"},
                                 {"previous_response_id", "s0"},
                                 {"error", "0"},
                                 {"instructions", "s0"},
                                 {"output", "a"},
                                 {"tools", "a"},
                                 {"tool_choice", "so"},
                                 {"truncation", "s"},
                                 {"text", "o"},
                                 {"parallel_tool_calls", "b"},
                                 {"top_p", "n"},
                                 {"temperature", "n"},
                                 {"presence_penalty", "n"},
                                 {"frequency_penalty", "n"},
                                 {"top_logprobs", "i"},
                                 {"reasoning", "o0"},
                                 {"usage", "o"},
                                 {"store", "b"},
                                 {"max_output_tokens", "i0"},
                                 {"max_tool_calls", "i0"},
                                 {"background", "b"},
                                 {"service_tier", "s"},
                                 {"metadata", "o"},
                                 {"prompt_cache_key", "s0"},
                                 {"safety_identifier", "s0"},
                                 {NULL, NULL}};
    size_t i;
    const json_t *item, *output = json_object_get(r, "output");
    has(r, all);
    assert_string_equal(word(r, "object"), "response");
    assert_string_equal(word(r, "status"), "completed");
    is_usage(json_object_get(r, "usage"));
    word(json_object_get(json_object_get(r, "text"), "format"), "type");
    assert_true(json_array_size(output) > 0);
    json_array_foreach(output, i, item) is_item(item);
}

/* ---- asking ---- */

static json_t *tree_of(char *answer)
{
    expect(answer, "HTTP/1.1 200 OK\r\n");
    json_t *tree = json_loads(strstr(answer, "\r\n\r\n") + 4, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(tree);
    free(answer);
    return tree;
}

static json_t *respond(const char *body)
{
    json_t *r = tree_of(once("POST", PATH, "", body));
    is_response(r);
    return r;
}

static void says_one_two(const json_t *r)
{
    const json_t *item = json_array_get(json_object_get(r, "output"), 0);
    assert_string_equal(word(json_array_get(json_object_get(item, "content"), 0), "text"),
                        "one two");
}

/* The stream of a request as an array of its data, each with the name of its event and its number.
 */
static json_t *events_of(const char *body)
{
    int fd = dial();
    post(fd, PATH, body);
    char *all = take_until(fd, "\r\n0\r\n\r\n"), *text = unchunked(all), *save = NULL;
    json_t *events = json_array();
    close(fd);
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *data = strtok_r(NULL, "\n", &save);
        assert_true(strncmp(line, "event: ", 7) == 0 && data != NULL);
        assert_true(strncmp(data, "data: ", 6) == 0);
        json_t *event = json_loads(data + 6, 0, NULL);
        assert_string_equal(word(event, "type"), line + 7);
        assert_int_equal(json_integer_value(json_object_get(event, "sequence_number")),
                         json_array_size(events));
        json_array_append_new(events, event);
    }
    free(text);
    free(all);
    return events;
}

/* The types of the events in their order, and the whole response at the end. */
static const json_t *in_order(const json_t *events, const char *const *types)
{
    size_t i;
    const json_t *event, *last = json_array_get(events, json_array_size(events) - 1);
    json_array_foreach(events, i, event) assert_string_equal(word(event, "type"), types[i]);
    assert_null(types[json_array_size(events)]);
    is_response(json_object_get(last, "response"));
    return json_object_get(last, "response");
}

/* ---- the cases ---- */

static void basic_response(void **state)
{
    (void)state;
    json_t *r = respond("{" MODEL ",\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":"
                        "\"Greet me.\"}]}");
    says_one_two(r);
    same(seen.messages, "[{\"role\":\"user\",\"content\":\"Greet me.\"}]");
    json_decref(r);
}

#define REMARK(phase, text)                                                                        \
    "{\"type\":\"message\",\"role\":\"assistant\",\"phase\":\"" phase "\",\"content\":\"" text "\"}"

static void assistant_phase(void **state)
{
    (void)state;
    json_t *r = respond("{" MODEL ",\"input\":[" REMARK("commentary", "I look it up.") "," REMARK(
        "final_answer", "It is seven.") ",{\"type\":\"message\",\"role\":\"user\",\"content\":"
                                        "\"Say it again.\"}]}");
    says_one_two(r);
    same(seen.messages, "[{\"role\":\"assistant\",\"content\":\"I look it up.\"},{\"role\":"
                        "\"assistant\",\"content\":\"It is seven.\"},{\"role\":\"user\","
                        "\"content\":\"Say it again.\"}]");
    json_decref(r);
}

/* The suite's case asks nothing: a message may bear a phase and need not. Ours say none, since no
 * template tells; and what another server put out with phases is read as it is. */
static void response_output_phase_schema(void **state)
{
    (void)state;
    json_t *r = respond("{" MODEL ",\"input\":\"x\"}");
    const json_t *item = json_array_get(json_object_get(r, "output"), 0);
    assert_null(json_object_get(item, "phase"));
    json_decref(r);
    r = respond("{" MODEL ",\"input\":[{\"id\":\"msg_a\",\"type\":\"message\",\"status\":"
                "\"completed\",\"role\":\"assistant\",\"phase\":\"commentary\",\"content\":[{"
                "\"type\":\"output_text\",\"text\":\"I look.\",\"annotations\":[]}]},{\"id\":"
                "\"msg_b\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\","
                "\"phase\":\"final_answer\",\"content\":[{\"type\":\"output_text\",\"text\":"
                "\"Seven.\",\"annotations\":[]}]},{\"role\":\"user\",\"content\":\"So?\"}]}");
    same(seen.messages, "[{\"role\":\"assistant\",\"content\":\"I look.\"},{\"role\":"
                        "\"assistant\",\"content\":\"Seven.\"},{\"role\":\"user\",\"content\":"
                        "\"So?\"}]");
    json_decref(r);
}

static void streaming_response(void **state)
{
    (void)state;
    static const char *const types[] = {"response.created",
                                        "response.in_progress",
                                        "response.output_item.added",
                                        "response.content_part.added",
                                        "response.output_text.delta",
                                        "response.output_text.delta",
                                        "response.output_text.done",
                                        "response.content_part.done",
                                        "response.output_item.done",
                                        "response.completed",
                                        NULL};
    json_t *events = events_of("{" MODEL ",\"stream\":true,\"input\":[{\"type\":\"message\","
                               "\"role\":\"user\",\"content\":\"Count.\"}]}");
    says_one_two(in_order(events, types));
    json_decref(events);
}

static void system_prompt(void **state)
{
    (void)state;
    json_t *r = respond("{" MODEL ",\"input\":[{\"type\":\"message\",\"role\":\"system\","
                        "\"content\":\"You are a miller.\"},{\"type\":\"message\",\"role\":"
                        "\"user\",\"content\":\"Greet me.\"}]}");
    says_one_two(r);
    same(seen.messages, "[{\"role\":\"system\",\"content\":\"You are a miller.\"},{\"role\":"
                        "\"user\",\"content\":\"Greet me.\"}]");
    json_decref(r);
}

#define ABOUT_WEATHER                                                                              \
    MODEL ",\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":\"How is the weather "  \
          "in Oslo?\"}],\"tools\":[{\"type\":\"function\",\"name\":\"get_weather\","               \
          "\"description\":\"The weather of a place\",\"parameters\":{\"type\":\"object\","        \
          "\"properties\":{\"location\":{\"type\":\"string\"}},\"required\":[\"location\"]}}]"

static void calls_for_oslo(const json_t *r)
{
    const json_t *item = json_array_get(json_object_get(r, "output"), 0);
    assert_string_equal(word(item, "type"), "function_call");
    assert_string_equal(word(item, "name"), "get_weather");
    assert_string_equal(word(item, "arguments"), "{\"location\":\"Oslo\"}");
}

static void tool_calling(void **state)
{
    (void)state;
    static const char *const types[] = {"response.created",
                                        "response.in_progress",
                                        "response.output_item.added",
                                        "response.function_call_arguments.delta",
                                        "response.function_call_arguments.done",
                                        "response.output_item.done",
                                        "response.completed",
                                        NULL};
    json_t *r = respond("{" ABOUT_WEATHER "}");
    calls_for_oslo(r);
    json_decref(r);
    json_t *events = events_of("{" ABOUT_WEATHER ",\"stream\":true}");
    calls_for_oslo(in_order(events, types));
    json_decref(events);
}

/* The one case that is refused: models here read text. The refusal says so and where. */
static void image_input(void **state)
{
    (void)state;
    char *a = once("POST", PATH, "",
                   "{" MODEL ",\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{"
                   "\"type\":\"input_text\",\"text\":\"What is this?\"},{\"type\":\"input_image\","
                   "\"image_url\":\"data:image/png;base64,AA==\"}]}]}");
    expect(a, "HTTP/1.1 400 ");
    expect(a, "\"type\":\"invalid_request_error\",\"param\":\"input[0].content[1].type\",\"code\":"
              "\"unsupported_value\"}}");
    free(a);
}

static void multi_turn(void **state)
{
    (void)state;
    json_t *r = respond("{" MODEL ",\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":"
                        "\"I am Ada.\"},{\"type\":\"message\",\"role\":\"assistant\",\"content\":"
                        "\"Hello Ada.\"},{\"type\":\"message\",\"role\":\"user\",\"content\":"
                        "\"Who am I?\"}]}");
    says_one_two(r);
    same(seen.messages, "[{\"role\":\"user\",\"content\":\"I am Ada.\"},{\"role\":\"assistant\","
                        "\"content\":\"Hello Ada.\"},{\"role\":\"user\",\"content\":\"Who am I?\"}"
                        "]");
    json_decref(r);
}

/* A conversation that ends with the assistant may be compacted, though not continued. */
static void compact_response(void **state)
{
    (void)state;
    static const member all[] = {
        {"id", "s"}, {"created_at", "i"}, {"output", "a"}, {"usage", "o"}, {NULL, NULL}};
    static const member compaction[] = {{"id", "s"}, {"encrypted_content", "s"}, {NULL, NULL}};
    json_t *made =
        tree_of(once("POST", PATH "/compact", "",
                     "{" MODEL ",\"prompt_cache_key\":\"k\",\"input\":[{\"type\":\"message\","
                     "\"role\":\"user\",\"content\":\"The fair is on Friday.\"},{\"type\":"
                     "\"message\",\"role\":\"assistant\",\"content\":\"I noted it.\"}]}"));
    const json_t *output = json_object_get(made, "output"), *item = json_array_get(output, 0);
    has(made, all);
    assert_string_equal(word(made, "object"), "response.compaction");
    is_usage(json_object_get(made, "usage"));
    assert_int_equal(json_array_size(output), 1);
    assert_string_equal(word(item, "type"), "compaction");
    has(item, compaction);
    json_decref(made);
}

static void compact_missing_model(void **state)
{
    (void)state;
    char *a =
        once("POST", PATH "/compact", "",
             "{\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":\"Compact.\"}]}");
    expect(a, "HTTP/1.1 400 ");
    expect(a, "\"param\":\"model\",\"code\":\"missing_required_parameter\"}}");
    free(a);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(basic_response),        CASE(assistant_phase), CASE(response_output_phase_schema),
        CASE(streaming_response),    CASE(system_prompt),   CASE(tool_calling),
        CASE(image_input),           CASE(multi_turn),      CASE(compact_response),
        CASE(compact_missing_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
