/* Proves on the wire, with a scripted engine, that Anthropic's Messages answer as docs/http.md
 * says: objects and events byte for byte, every fate of a field, when a stream begins and what
 * keeps it alive, the queue, failures, counting, models in their shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire.h"

#define MESSAGES "/v1/messages"
#define COUNT    "/v1/messages/count_tokens"
#define MODEL    "\"model\":\"scripted_4-Bit\","
#define ASK(text)                                                                                  \
    MODEL "\"max_tokens\":64,\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define TOOLS ",\"tools\":[{\"name\":\"look\",\"input_schema\":{\"type\":\"object\"}}]"

static const char script[] =
    "[{\"match\":\"plain\",\"cached\":3,\"steps\":[{\"text\":\"Once \"},{\"text\":\"upon\"}]},"
    "{\"match\":\"ponder\",\"steps\":[{\"thought\":\"hm\"},{\"thought\":\"m\"},{\"text\":\"so\"}]},"
    "{\"match\":\"only\",\"steps\":[{\"thought\":\"hm\"}]},"
    "{\"match\":\"call\",\"steps\":[{\"text\":\"I look.\"},{\"call\":{\"name\":\"look\","
    "\"arguments\":{\"at\":1}}},{\"call\":{\"name\":\"see\",\"arguments\":{}}},{\"text\":"
    "\"\\n\\n\"},"
    "{\"text\":\"\\nNow.\\n\"}]},"
    "{\"match\":\"silent\",\"steps\":[]},"
    "{\"match\":\"lines\",\"steps\":[{\"text\":\"\\n\"},{\"text\":\"\\na\"}]},"
    "{\"match\":\"long\",\"finish\":\"length\",\"steps\":[{\"text\":\"a\"}]},"
    "{\"match\":\"broken\",\"steps\":[{\"text\":\"a\"},{\"fail\":\"the disk is gone\"}]},"
    "{\"match\":\"gate\",\"cached\":2,\"steps\":[{\"prefill\":[1,2]},{\"gate\":true},"
    "{\"text\":\"through\"}]},"
    "{\"match\":\"flood\",\"steps\":[{\"text\":\"0123456789012345678901234567890123456789\"},"
    "{\"times\":40000}]},"
    "{\"steps\":[{\"text\":\"else\"}]}]";

static int set_up(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.queue_limit = 1;
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

static char *answer(const char *body)
{
    return plain(once("POST", MESSAGES, "anthropic-version: 2023-06-01\r\n", body));
}

/* The number behind a name. */
static unsigned long number(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        fail_msg("lacks: %s\nin: %s", name, text);
    return strtoul(at + strlen(name), NULL, 10);
}

/* Numbers of tokens to N, after they were looked at. */
static char *numberless(char *text)
{
    static const char *const names[] = {"\"input_tokens\":", "\"cache_read_input_tokens\":",
                                        "\"output_tokens\":", "\"thinking_tokens\":"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (char *at = text; (at = strstr(at, names[i])) != NULL;) {
            at += strlen(names[i]);
            size_t n = strspn(at, "0123456789");
            *at = 'N';
            memmove(at + 1, at + n, strlen(at + n) + 1);
        }
    return text;
}

/* ---- objects ---- */

/* clang-format off */
#define COUNTS                                                                             \
    "\"usage\":{\"input_tokens\":N,\"cache_creation_input_tokens\":0,"                     \
    "\"cache_read_input_tokens\":N,\"output_tokens\":N,\"output_tokens_details\":"         \
    "{\"thinking_tokens\":N},\"server_tool_use\":null"
#define USAGE                                                                              \
    COUNTS ",\"cache_creation\":null,\"service_tier\":null,\"inference_geo\":null,\"speed\":null}"
#define MESSAGE(content, reason, stop)                                                     \
    "{\"id\":\"msg_\",\"type\":\"message\",\"role\":\"assistant\",\"model\":"              \
    "\"scripted_4-Bit\",\"content\":[" content "],\"stop_reason\":" reason                 \
    ",\"stop_sequence\":" stop ",\"stop_details\":null,\"container\":null,"                \
    "\"diagnostics\":null," USAGE "}"
#define TEXT(text)    "{\"type\":\"text\",\"text\":\"" text "\"}"
#define THOUGHT(text) "{\"type\":\"thinking\",\"thinking\":\"" text "\",\"signature\":\"\"}"
#define CALL(name, input)                                                                  \
    "{\"type\":\"tool_use\",\"id\":\"toolu_\",\"name\":\"" name "\",\"input\":" input      \
    ",\"caller\":{\"type\":\"direct\"}}"
/* clang-format on */

static void objects(void **state)
{
    (void)state;
    static const struct {
        const char *body, *want;
    } rows[] = {
        {"{" ASK("plain") "}", MESSAGE(TEXT("Once upon"), "\"end_turn\"", "null")},
        {"{" ASK("ponder") ",\"thinking\":{\"type\":\"adaptive\"}}",
         MESSAGE(THOUGHT("hmm") "," TEXT("so"), "\"end_turn\"", "null")},
        {"{" ASK("only") "}", MESSAGE(THOUGHT("hm"), "\"end_turn\"", "null")},
        {"{" ASK("silent") "}", MESSAGE("", "\"end_turn\"", "null")},
        {"{" ASK("lines") "}", MESSAGE(TEXT("\\n\\na"), "\"end_turn\"", "null")},
        {"{" ASK("long") "}", MESSAGE(TEXT("a"), "\"max_tokens\"", "null")},
        /* What keeps text apart from a call is not said; what is said after it is. */
        {"{" ASK("call") TOOLS "}", MESSAGE(TEXT("I look.") "," CALL("look", "{\"at\":1}") "," CALL(
                                                "see", "{}") "," TEXT("Now.\\n"),
                                            "\"tool_use\"", "null")},
        {"{" ASK("call") TOOLS
         ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}}",
         MESSAGE(TEXT("I look.") "," CALL("look", "{\"at\":1}"), "\"tool_use\"", "null")},
        {"{" ASK("plain") ",\"stop_sequences\":[\"zzz\",\" up\"]}",
         MESSAGE(TEXT("Once"), "\"stop_sequence\"", "\" up\"")},
        {"{" ASK("plain") ",\"stop_sequences\":[\"Once upon\",\"O\"]}",
         MESSAGE("", "\"stop_sequence\"", "\"O\"")},
        {"{" ASK("plain") ",\"stop_sequences\":[\"never\"]}",
         MESSAGE(TEXT("Once upon"), "\"end_turn\"", "null")},
        /* A turn that called has ended for its calls. */
        {"{" ASK("call") TOOLS ",\"stop_sequences\":[\"w.\"]}",
         MESSAGE(
             TEXT("I look.") "," CALL("look", "{\"at\":1}") "," CALL("see", "{}") "," TEXT("No"),
             "\"tool_use\"", "null")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *a = answer(rows[i].body);
        expect(a, "HTTP/1.1 200 OK\r\n");
        expect(a, "\r\nrequest-id: req_\r\n");
        expect_not(a, "x-request-id");
        assert_string_equal(numberless(strstr(a, "\r\n\r\n") + 4), rows[i].want);
        free(a);
    }
}

static void usage_is_exact(void **state)
{
    (void)state;
    char *count = once("POST", COUNT "?beta=true", "", "{" ASK("plain") "}");
    char *a = answer("{" ASK("plain") "}"), *b = answer("{" ASK("ponder") "}");
    char want[64];
    unsigned long all = number(count, "{\"input_tokens\":");
    expect(count, "\r\nrequest-id: req_");
    assert_int_equal(number(a, "\"cache_read_input_tokens\":"), 3);
    assert_int_equal(number(a, "\"input_tokens\":"), all - 3);
    assert_true(number(a, "\"output_tokens\":") >= 2);
    assert_int_equal(number(a, "\"thinking_tokens\":"), 0);
    assert_true(number(b, "\"thinking_tokens\":") > 0);
    assert_true(number(b, "\"output_tokens\":") > number(b, "\"thinking_tokens\":"));
    /* Anything but a number is not in the answer to a count. */
    snprintf(want, sizeof want, "\r\n\r\n{\"input_tokens\":%lu}", all);
    expect(count, want);
    free(a);
    free(b);
    free(count);
}

/* ---- streams ---- */

static char *stream_of(int fd)
{
    char *all = take_until(fd, "\r\n0\r\n\r\n"), *events;
    expect(all, "HTTP/1.1 200 OK\r\n");
    expect(all, "Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n");
    expect(all, "\r\nrequest-id: req_");
    events = plain(unchunked(all));
    free(all);
    return events;
}

static char *stream(const char *body)
{
    int fd = dial();
    post(fd, MESSAGES, body);
    char *events = stream_of(fd);
    close(fd);
    return events;
}

/* clang-format off */
#define EVENT(name, rest) "event: " name "\ndata: {\"type\":\"" name "\"" rest "}\n\n"
#define START    EVENT("message_start", ",\"message\":" MESSAGE("", "null", "null"))
#define BEGIN(i, block) EVENT("content_block_start", ",\"index\":" i ",\"content_block\":" block)
#define DELTA(i, type, key, text) \
    EVENT("content_block_delta", ",\"index\":" i ",\"delta\":{\"type\":\"" type "\",\"" key   \
          "\":\"" text "\"}")
#define SAY(i, text) DELTA(i, "text_delta", "text", text)
#define END(i)   EVENT("content_block_stop", ",\"index\":" i)
#define LAST(reason, stop)                                                                \
    EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"" reason "\",\"stop_sequence\":" stop \
          ",\"stop_details\":null,\"container\":null}," COUNTS "}")                       \
    EVENT("message_stop", "")

static const char thought_stream[] =
    START
    BEGIN("0", THOUGHT(""))
    DELTA("0", "thinking_delta", "thinking", "hm")
    DELTA("0", "thinking_delta", "thinking", "m")
    DELTA("0", "signature_delta", "signature", "")
    END("0")
    BEGIN("1", TEXT(""))
    SAY("1", "so")
    END("1")
    LAST("end_turn", "null");

static const char call_stream[] =
    START
    BEGIN("0", TEXT(""))
    SAY("0", "I look.")
    END("0")
    BEGIN("1", CALL("look", "{}"))
    DELTA("1", "input_json_delta", "partial_json", "{\\\"at\\\":1}")
    END("1")
    BEGIN("2", CALL("see", "{}"))
    DELTA("2", "input_json_delta", "partial_json", "{}")
    END("2")
    BEGIN("3", TEXT(""))
    SAY("3", "Now.\\n")
    END("3")
    LAST("tool_use", "null");

static const char stop_stream[] =
    START
    BEGIN("0", TEXT(""))
    SAY("0", "Once")
    END("0")
    LAST("stop_sequence", "\" up\"");
/* clang-format on */

static void streams(void **state)
{
    (void)state;
    static const struct {
        const char *body, *want;
    } rows[] = {
        {"{" ASK("ponder") ",\"stream\":true}", thought_stream},
        {"{" ASK("call") TOOLS ",\"stream\":true}", call_stream},
        {"{" ASK("plain") ",\"stream\":true,\"stop_sequences\":[\" up\"]}", stop_stream},
        {"{" ASK("silent") ",\"stream\":true}", START LAST("end_turn", "null")},
        {"{" ASK("only") ",\"stream\":true}",
         START BEGIN("0", THOUGHT("")) DELTA("0", "thinking_delta", "thinking", "hm")
             DELTA("0", "signature_delta", "signature", "") END("0") LAST("end_turn", "null")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *e = numberless(stream(rows[i].body));
        assert_string_equal(e, rows[i].want);
        free(e);
    }
}

static int quick_heart(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.queue_limit = 1;
    w.config.bounds.heartbeat = 0.02;
    wire_start();
    return 0;
}

#define COMMENT ": ping\n\n"
#define PING    "event: ping\ndata: {\"type\":\"ping\"}\n\n"

/* Comments while it waits; message_start with the exact numbers when it runs; then pings. */
static void a_stream_begins_when_it_runs(void **state)
{
    (void)state;
    int running = dial(), waiting = dial();
    char *count = once("POST", COUNT, "", "{" ASK("gate two") "}");
    post(running, MESSAGES, "{" ASK("gate one") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    post(waiting, MESSAGES, "{" ASK("gate two") ",\"stream\":true}");
    char *a = take_until(waiting, COMMENT "\r\n"
                                          "8\r\n" COMMENT);
    expect_not(a, "event:");
    free(a);
    a = take_until(running, PING "\r\n");
    expect(a, "event: message_start\n");
    expect_not(a, "content_block_start");
    assert_null(strstr(strstr(a, "message_start"), COMMENT));
    free(a);
    scripted_engine_open_gate(w.engine);
    char *first = take_until(running, "\r\n0\r\n\r\n"),
         *second = take_until(waiting, "\r\n0\r\n\r\n");
    expect(first, "through");
    char *start = strstr(second, "event: message_start\n");
    assert_non_null(start);
    assert_int_equal(number(start, "\"cache_read_input_tokens\":"), 2);
    assert_int_equal(number(start, "\"input_tokens\":"), number(count, "{\"input_tokens\":") - 2);
    assert_int_equal(number(start, "\"output_tokens\":"), 0);
    /* And the end has the same. */
    char *end = strstr(second, "event: message_delta\n");
    assert_int_equal(number(end, "\"input_tokens\":"), number(start, "\"input_tokens\":"));
    assert_int_equal(number(end, "\"cache_read_input_tokens\":"), 2);
    assert_string_equal(strstr(second, "event: message_stop"),
                        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n\r\n0\r\n\r\n");
    free(first);
    free(second);
    free(count);
    close(running);
    close(waiting);
}

/* ---- fields ---- */

static void fields_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *message;
    } rows[] = {
        {"\"temperature\":3", "temperature: temperature must be a number from 0 to 2"},
        {"\"top_p\":-1", "top_p: "},
        {"\"top_k\":0.5", "top_k: "},
        {"\"stream\":1", "stream: "},
        {"\"stop_sequences\":\"x\"", "stop_sequences: "},
        {"\"stop_sequences\":[\"\"]", "stop_sequences: a stop string must be a text and not empty"},
        {"\"stop_sequences\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"0\",\"1\","
         "\"2\",\"3\",\"4\",\"5\",\"6\",\"7\"]",
         "stop_sequences: there may be 16 stop strings"},
        {"\"tools\":{}", "tools: tools must be an array"},
        {"\"tools\":[1]", "tools[0]: must be an object"},
        {"\"tools\":[{}]", "tools[0].name: "},
        {"\"tools\":[{\"name\":\"a b\"}]", "tools[0].name: "},
        {"\"tools\":[{\"name\":\"a\"},{\"name\":\"a\"}]", "tools[1].name: two tools"},
        {"\"tools\":[{\"name\":\"a\",\"input_schema\":[]}]",
         "tools[0].input_schema: input_schema must be an object"},
        {"\"tool_choice\":\"auto\"", "tool_choice: tool_choice must be an object with a type"},
        {"\"tool_choice\":{\"type\":\"tool\"}", "tool_choice.name: "},
        {"\"tool_choice\":{\"type\":\"some\"}", "tool_choice: the type of"},
        {"\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":1}",
         "tool_choice.disable_parallel_tool_use: "},
        {"\"thinking\":{}", "thinking: the type of"},
        {"\"thinking\":{\"type\":\"much\"}", "thinking: the type of"},
        {"\"thinking\":{\"type\":\"enabled\"}", "thinking.budget_tokens: "},
        {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":0}", "thinking.budget_tokens: "},
        {"\"output_config\":[]", "output_config: "},
        {"\"output_config\":{\"effort\":\"much\"}", "output_config.effort: "},
        {"\"output_config\":{\"effort\":\"none\"}", "output_config.effort: "},
        {"\"output_config\":{\"format\":{\"type\":\"json_schema\"}}",
         "output_config.format.schema: "},
        {"\"output_format\":{}", "output_format: "},
        {"\"container\":\"c\"", "container: "},
        {"\"mcp_servers\":[{}]", "mcp_servers: "},
        {"\"system\":1", "system: "},
        {"\"system\":[{\"type\":\"image\"}]", "system[0].type: the model reads text only"},
        {"\"system\":[{\"type\":\"text\"}]", "system[0].text: "},
    };
    int fd = dial();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[2048], want[256];
        snprintf(body, sizeof body, "{%s,%s}", ASK("plain"), rows[i].field);
        post(fd, MESSAGES, body);
        char *a = plain(take_answer(fd));
        expect(a, "HTTP/1.1 400 Bad Request\r\n");
        snprintf(
            want, sizeof want,
            "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"%s",
            rows[i].message);
        expect(a, want);
        expect(a, "\"},\"request_id\":\"req_\"}");
        free(a);
    }
    close(fd);
}

static void bodies_are_refused(void **state)
{
    (void)state;
#define TURN(role, content)                                                                        \
    "{" MODEL "\"max_tokens\":1,\"messages\":[{\"role\":\"" role "\",\"content\":" content "}]}"
    static const struct {
        const char *body, *status, *type, *message;
    } rows[] = {
        {"{", "400", "invalid_request_error", "the body is not JSON"},
        {"{}", "400", "invalid_request_error", "model: "},
        {"{\"model\":\"claude\"}", "404", "not_found_error", "model: "},
        {"{" MODEL "\"messages\":[]}", "400", "invalid_request_error", "max_tokens: "},
        {"{" MODEL "\"max_tokens\":-1}", "400", "invalid_request_error", "max_tokens: "},
        {"{" MODEL "\"max_tokens\":1}", "400", "invalid_request_error", "messages: "},
        {"{" MODEL "\"max_tokens\":1,\"messages\":[]}", "400", "invalid_request_error",
         "messages: "},
        {"{" MODEL "\"max_tokens\":1,\"messages\":[1]}", "400", "invalid_request_error",
         "messages[0]: "},
        {TURN("tool", "\"x\""), "400", "invalid_request_error", "messages[0].role: "},
        {TURN("user", "null"), "400", "invalid_request_error", "messages[0].content: "},
        {TURN("user", "7"), "400", "invalid_request_error", "messages[0].content: "},
        {TURN("user", "[{}]"), "400", "invalid_request_error", "messages[0].content[0].type: "},
        {TURN("user", "[{\"type\":\"text\"}]"), "400", "invalid_request_error",
         "messages[0].content[0].text: "},
        {TURN("user", "[{\"type\":\"image\",\"source\":{}}]"), "400", "invalid_request_error",
         "messages[0].content[0].type: the model reads text only"},
        {TURN("user", "[{\"type\":\"document\"}]"), "400", "invalid_request_error",
         "messages[0].content[0].type: the model reads text only"},
        {TURN("user", "[{\"type\":\"tool_use\",\"name\":\"x\"}]"), "400", "invalid_request_error",
         "messages[0].content[0].type: "},
        {TURN("user", "[{\"type\":\"tool_result\",\"content\":[{\"type\":\"text\"}]}]"), "400",
         "invalid_request_error", "messages[0].content[0].content[0].text: "},
        {TURN("assistant", "\"Once\""), "400", "invalid_request_error",
         "messages: the last message is an assistant's"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *a = answer(rows[i].body), want[256];
        snprintf(want, sizeof want, "HTTP/1.1 %s ", rows[i].status);
        expect(a, want);
        snprintf(want, sizeof want, "\"error\":{\"type\":\"%s\",\"message\":\"%s", rows[i].type,
                 rows[i].message);
        expect(a, want);
        free(a);
    }
}

/* Clients that find this code send the whole conversation instead. */
static void threads_are_not_kept(void **state)
{
    (void)state;
    char *a = answer("{" ASK("plain") ",\"thread\":{\"type\":\"create\"}}");
    expect(a, "HTTP/1.1 400 Bad Request\r\n");
    expect(a, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
              "\"thread: conversations are not kept here: send the whole one, without thread\","
              "\"details\":{\"error_code\":\"thread_unsupported_request\"}},\"request_id\":"
              "\"req_\"}");
    free(a);
}

static void transport_refusals_have_the_envelope(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *fields, *body, *want;
    } rows[] = {
        {"GET", MESSAGES, "", NULL, "HTTP/1.1 405 "},
        {"POST", MESSAGES "/batches", "", "{}", "HTTP/1.1 404 "},
        {"POST", "/v1/%6dessages", "", "{}", "HTTP/1.1 400 "},
        {"POST", MESSAGES, "Content-Encoding: gzip\r\n", "{}", "HTTP/1.1 415 "},
        {"POST", COUNT, "Origin: http://example.org\r\n", "{}", "HTTP/1.1 403 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *a = once(rows[i].method, rows[i].path, rows[i].fields, rows[i].body);
        expect(a, rows[i].want);
        expect(a, "{\"type\":\"error\",\"error\":{\"type\":\"");
        free(a);
    }
}

static void fields_are_adjusted_and_ignored(void **state)
{
    (void)state;
    char *a = answer(
        "{" MODEL "\"max_tokens\":32000,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"plain SECRET\",\"cache_control\":{\"type\":\"ephemeral\"}}]}],"
        "\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: SECRET\"},"
        "{\"type\":\"text\",\"text\":\"Be kind.\"},{\"type\":\"text\",\"text\":\"Be brief.\"}],"
        "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":31999,\"display\":\"omitted\"},"
        "\"output_config\":{\"effort\":\"high\"},\"metadata\":{\"user_id\":\"SECRET\"},"
        "\"context_management\":{\"edits\":[]},\"service_tier\":\"auto\",\"betas\":[\"SECRET\"],"
        "\"client_metadata\":{},\"mcp_servers\":[],\"SECRET\":1,\"temperature\":1,\"top_p\":0.9,"
        "\"top_k\":5,\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},"
        "{\"type\":\"custom\",\"name\":\"look\",\"strict\":false}]}");
    expect(a, "HTTP/1.1 200 OK");
    free(a);
    char *log = log_text();
    expect(log, "adjusted=\"output_config.effort thinking.budget_tokens max_tokens\"");
    expect(log, "ignored=\"thinking.display context_management metadata client_metadata "
                "service_tier betas others tools cache_control\"");
    expect(log, "repaired=\"merged_systems=1 dropped_lines=1\"");
    expect_not(log, "SECRET");
    free(log);
}

/* Each alone, whatever is in it: answered, and its name stands in the log and nothing of its value.
 */
static void every_ignored_field_is_named(void **state)
{
    static const char *const names[] = {
        "context_management", "metadata",    "client_metadata", "service_tier",    "speed",
        "inference_geo",      "diagnostics", "betas",           "user_profile_id", "workspace_id",
        "cache_control",
    };
    static const char *const values[] = {"\"SECRET\"", "{\"SECRET\":[\"SECRET\"]}", "[]", "7",
                                         "false"};
    static const struct {
        const char *body, *ignored;
    } places[] = {
        {ASK("plain") ",\"SECRET\":1", "others"},
        {ASK("plain") ",\"thinking\":{\"type\":\"disabled\",\"display\":\"SECRET\"}",
         "thinking.display"},
        {ASK("plain") ",\"tools\":[{\"name\":\"look\",\"input_schema\":{},\"cache_control\":"
                      "{\"type\":\"SECRET\"}}]",
         "cache_control"},
        {ASK("plain") ",\"tools\":[{\"type\":\"SECRET_1\",\"name\":\"SECRET\"}]", "tools"},
        {ASK("plain") ",\"system\":[{\"type\":\"text\",\"text\":\"s\",\"cache_control\":{"
                      "\"type\":\"SECRET\"}}]",
         "cache_control"},
    };
    (void)state;
    size_t n_places = sizeof places / sizeof places[0], n_names = sizeof names / sizeof names[0];
    for (size_t i = 0; i < n_places + n_names * 5; i++) {
        bool named = i >= n_places;
        const char *name = named ? names[(i - n_places) / 5] : places[i].ignored;
        char body[1024], want[128];
        if (named)
            snprintf(body, sizeof body, "{" ASK("plain") ",\"%s\":%s}", name,
                     values[(i - n_places) % 5]);
        else
            snprintf(body, sizeof body, "{%s}", places[i].body);
        char *a = answer(body);
        expect(a, "HTTP/1.1 200 OK");
        free(a);
        char *log = log_text(), *last = strrchr(log, '=');
        snprintf(want, sizeof want, " ignored=%s\n", name);
        if (last == NULL || last - log < 9 || strcmp(last - 8, want) != 0)
            fail_msg("%s: %s", body, log + (strlen(log) > 400 ? strlen(log) - 400 : 0));
        expect_not(log, "SECRET");
        free(log);
    }
}

/* 0 reads the prompt and says nothing: the engine is asked for no token. */
static void no_tokens_are_a_limit_too(void **state)
{
    (void)state;
    char *a = answer("{" MODEL "\"max_tokens\":0,\"messages\":[{\"role\":\"user\",\"content\":"
                     "\"long\"}]}");
    expect(a, "HTTP/1.1 200 OK");
    expect(a, "\"stop_reason\":\"max_tokens\"");
    free(a);
}

static void a_prompt_that_does_not_fit(void **state)
{
    (void)state;
    char *body = malloc(40000);
    assert_non_null(body);
    strcpy(body, "{" MODEL "\"max_tokens\":1,\"stream\":true,\"messages\":[{\"role\":\"user\","
                 "\"content\":\"");
    for (int i = 0; i < 2100; i++)
        strcat(body + strlen(body), "one two ");
    strcat(body, "\"}]}");
    char *a = answer(body);
    expect(a, "HTTP/1.1 400");
    expect(a, "\"type\":\"invalid_request_error\",\"message\":\"messages: the prompt has ");
    free(a);
    /* Counting has no such bound. */
    a = once("POST", COUNT, "", body);
    expect(a, "HTTP/1.1 200");
    assert_true(number(a, "{\"input_tokens\":") > 2048);
    free(a);
    free(body);
}

/* What a count counts is what a request would be charged. */
static void counts_are_those_of_requests(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{" ASK("else") "}",
        "{" ASK("else") ",\"system\":\"Be kind.\"" TOOLS "}",
        "{" ASK("else") TOOLS ",\"tool_choice\":{\"type\":\"none\"}}",
        "{" ASK("else") ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000}}",
        "{" ASK("else") ",\"thinking\":{\"type\":\"adaptive\"}}",
        "{" ASK("else") ",\"output_config\":{\"effort\":\"low\"}}",
    };
    unsigned long n[6];
    for (size_t i = 0; i < 6; i++) {
        char *a = once("POST", COUNT, "", bodies[i]), *b = answer(bodies[i]);
        n[i] = number(a, "{\"input_tokens\":");
        assert_int_equal(number(b, "\"input_tokens\":"), n[i]);
        free(a);
        free(b);
    }
    assert_true(n[1] > n[0]);
    assert_int_equal(n[2], n[0]); /* without tools */
    assert_true(n[3] < n[0]);     /* thinking on is shorter to write than off */
    assert_int_equal(n[4], n[5]); /* an effort alone is adaptive */
    assert_true(n[4] < n[3]);     /* and adaptive is nothing */
    char *a = once("POST", COUNT, "", "{" MODEL "\"messages\":[]}");
    expect(a, "HTTP/1.1 400");
    expect(a, "\"type\":\"invalid_request_error\"");
    free(a);
}

/* ---- the queue, failures, the end ---- */

static void overload_is_529(void **state)
{
    (void)state;
    int a = dial(), b = dial();
    post(a, MESSAGES, "{" ASK("gate one") "}");
    scripted_engine_await(w.engine, 1, 0);
    post(b, MESSAGES, "{" ASK("plain") ",\"stream\":true}");
    free(take_until(b, "\r\n\r\n"));
    char *refused = answer("{" ASK("plain") ",\"stream\":true}");
    expect(refused, "HTTP/1.1 529 Overloaded\r\n");
    expect(refused, "Retry-After: ");
    expect(refused, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":");
    free(refused);
    /* A count needs no place. */
    refused = once("POST", COUNT, "", "{" ASK("plain") "}");
    expect(refused, "HTTP/1.1 200");
    free(refused);
    scripted_engine_open_gate(w.engine);
    char *first = take_answer(a), *second = take_until(b, "\r\n0\r\n\r\n");
    expect(first, "through");
    expect(second, "event: message_stop");
    free(first);
    free(second);
    close(a);
    close(b);
    char *log = log_text();
    expect(log, "path=/v1/messages status=529 code=queue_full");
    free(log);
}

static void failures_have_an_end(void **state)
{
    (void)state;
    char *a = answer("{" ASK("broken") "}");
    expect(a, "HTTP/1.1 500 ");
    expect(a,
           "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the answer could "
           "not be computed\"},\"request_id\":\"req_\"}");
    expect_not(a, "disk");
    free(a);
    a = numberless(stream("{" ASK("broken") ",\"stream\":true}"));
    /* The block that was open stays so: nothing is said of what was not finished. */
    assert_string_equal(
        a,
        START BEGIN("0", TEXT("")) SAY(
            "0",
            "a") "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                 "\"message\":\"the answer could not be computed\"},\"request_id\":\"req_\"}\n\n");
    free(a);
    char *log = log_text();
    expect(log, "detail=\"the disk is gone\"");
    free(log);
}

static void clients_that_leave(void **state)
{
    (void)state;
    int fd = dial();
    post(fd, MESSAGES, "{" ASK("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    close(fd);
    scripted_engine_await(w.engine, 1, 1);
    char *a = answer("{" ASK("plain") "}");
    expect(a, "200 OK");
    free(a);
}

static void a_client_that_does_not_read(void **state)
{
    (void)state;
    int fd = dial();
    post(fd, MESSAGES, "{" ASK("flood") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 1); /* cancelled: 1 MiB is unread */
    char *all = plain(take_until(fd, NULL));
    static const char end[] =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"
        "\"the client does not read what it asked for\"},\"request_id\":\"req_\"}\n\n\r\n"
        "0\r\n\r\n";
    assert_true(strlen(all) > sizeof end);
    assert_string_equal(all + strlen(all) - (sizeof end - 1), end);
    free(all);
    close(fd);
}

static void the_end_with_work(void **state)
{
    (void)state;
    int running = dial(), waiting = dial();
    post(running, MESSAGES, "{" ASK("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    post(waiting, MESSAGES, "{" ASK("plain") ",\"stream\":true}");
    free(take_until(waiting, "\r\n\r\n"));
    tt_server_stop(w.server);
    char *a = take_until(waiting, NULL);
    expect(a, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"");
    expect_not(a, "message_start");
    free(a);
    scripted_engine_open_gate(w.engine);
    a = take_until(running, NULL);
    expect(a, "through");
    expect(a, "event: message_stop");
    free(a);
    wire_join();
    close(running);
    close(waiting);
}

/* ---- what suites for such interfaces ask ---- */

static const char suite_script[] =
    "[{\"match\":\"like a pirate\",\"steps\":[{\"text\":\"Arr.\"}]},"
    "{\"match\":\"<tool_response>\\nsunny\",\"steps\":[{\"text\":\"It is sunny.\"}]},"
    "{\"match\":\"weather\",\"steps\":[{\"call\":{\"name\":\"look\",\"arguments\":{\"at\":"
    "\"Paris\"}}}]},"
    "{\"match\":\"assistant\\nHello, Ann.\",\"steps\":[{\"text\":\"You are Ann.\"}]},"
    "{\"match\":\"puzzle\",\"steps\":[{\"thought\":\"hm\"},{\"text\":\"Seven.\"}]},"
    "{\"steps\":[{\"text\":\"Hello.\"}]}]";

#define USER_SAYS(text)      "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT_SAYS(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"

static const struct {
    const char *body; /* without what begins it and ends it */
    const char *want; /* NULL: refused */
} suite[] = {
    /* text */
    {"\"messages\":[" USER_SAYS("Hi.") "]", TEXT("Hello.")},
    /* a system prompt */
    {"\"system\":\"Talk like a pirate.\",\"messages\":[" USER_SAYS("Hi.") "]", TEXT("Arr.")},
    /* a system prompt in blocks */
    {"\"system\":[{\"type\":\"text\",\"text\":\"Talk like a pirate.\"}],\"messages\":[" USER_SAYS(
         "Hi.") "]",
     TEXT("Arr.")},
    /* a call */
    {"\"messages\":[" USER_SAYS("The weather?") "]" TOOLS, CALL("look", "{\"at\":\"Paris\"}")},
    /* a result */
    {"\"messages\":[" USER_SAYS(
         "The weather?") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":"
                         "\"toolu_1\",\"name\":\"look\",\"input\":{\"at\":\"Paris\"}}]},{\"role\":"
                         "\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
                         "\"toolu_1\",\"content\":\"sunny\"}]}]" TOOLS,
     TEXT("It is sunny.")},
    /* several turns */
    {"\"messages\":[" USER_SAYS("I am Ann.") "," ASSISTANT_SAYS("Hello, Ann.") "," USER_SAYS(
         "Who am I?") "]",
     TEXT("You are Ann.")},
    /* a thought */
    {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024},\"messages\":[" USER_SAYS(
         "A puzzle.") "]",
     THOUGHT("hm") "," TEXT("Seven.")},
    /* sampling */
    {"\"temperature\":1,\"top_p\":0.9,\"top_k\":40,\"messages\":[" USER_SAYS("Hi.") "]",
     TEXT("Hello.")},
    /* an image */
    {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]", NULL},
    /* a prefilled answer */
    {"\"messages\":[" USER_SAYS("Hi.") "," ASSISTANT_SAYS("Hel") "]", NULL},
};
#define SUITE (sizeof suite / sizeof suite[0])

static int suite_set_up(void **state)
{
    (void)state;
    wire_prepare(suite_script);
    w.config.queue_limit = 2 * SUITE;
    wire_start();
    return 0;
}

static void ask_suite(int fd, size_t i, bool streamed)
{
    char body[4096];
    snprintf(body, sizeof body, "{" MODEL "\"max_tokens\":32,%s%s}", suite[i].body,
             streamed ? ",\"stream\":true" : "");
    post(fd, MESSAGES, body);
}

static void check_suite(int fd, size_t i, bool streamed)
{
    char want[1024];
    char *a = suite[i].want == NULL ? take_answer(fd)
              : streamed            ? take_until(fd, "\r\n0\r\n\r\n")
                                    : take_answer(fd);
    (void)plain(a);
    if (suite[i].want == NULL) {
        expect(a, "HTTP/1.1 400 ");
        expect(a, "\"type\":\"invalid_request_error\"");
    } else if (streamed) {
        expect(a, "event: message_stop\n");
    } else {
        snprintf(want, sizeof want, "\"content\":[%s],", suite[i].want);
        expect(a, want);
    }
    free(a);
}

/* One after the other, and then all of them at once, with streams among them. */
static void what_suites_ask(void **state)
{
    (void)state;
    int fds[2 * SUITE];
    for (size_t i = 0; i < 2 * SUITE; i++) {
        int fd = dial();
        ask_suite(fd, i / 2, i % 2 == 1);
        check_suite(fd, i / 2, i % 2 == 1);
        close(fd);
    }
    for (size_t i = 0; i < 2 * SUITE; i++)
        ask_suite(fds[i] = dial(), i / 2, i % 2 == 1);
    for (size_t i = 0; i < 2 * SUITE; i++) {
        check_suite(fds[i], i / 2, i % 2 == 1);
        close(fds[i]);
    }
}

/* ---- models ---- */

static void models_in_their_shape(void **state)
{
    (void)state;
    static const char version[] = "anthropic-version: 2023-06-01\r\n";
    char *a = once("GET", "/v1/models", version, NULL);
    expect(a, "{\"data\":[{\"type\":\"model\",\"id\":\"scripted_4-Bit\",\"display_name\":"
              "\"scripted_4-Bit\",\"created_at\":\"2023-11-14T22:13:20Z\",\"max_input_tokens\":"
              "2048,\"max_tokens\":2048,\"lifecycle\":\"active\",");
    expect(a, "],\"has_more\":false,\"first_id\":\"scripted_4-Bit\",\"last_id\":"
              "\"scripted_4-Bit\"}");
    free(a);
    a = once("GET", "/v1/models?after_id=scripted%5F4-Bit&limit=5", version, NULL);
    expect(a, "{\"data\":[],\"has_more\":false,\"first_id\":null,\"last_id\":null}");
    free(a);
    a = once("GET", "/v1/models?limit=0", version, NULL);
    expect(a, "HTTP/1.1 400");
    expect(a,
           "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"limit");
    free(a);
    a = once("GET", "/v1/models/scripted_4-Bit", version, NULL);
    expect(a, "\r\n\r\n{\"type\":\"model\",\"id\":\"scripted_4-Bit\",");
    expect(a, "\r\nrequest-id: req_");
    free(a);
    a = once("GET", "/v1/models/claude", version, NULL);
    expect(a, "HTTP/1.1 404");
    expect(a, "\"type\":\"not_found_error\"");
    free(a);
    /* Without the field they are OpenAI's. */
    a = once("GET", "/v1/models?limit=0", "", NULL);
    expect(a, "{\"object\":\"list\",");
    free(a);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(objects),
        WITH(usage_is_exact),
        WITH(streams),
        cmocka_unit_test_setup_teardown(a_stream_begins_when_it_runs, quick_heart, tear_down),
        WITH(fields_are_refused),
        WITH(bodies_are_refused),
        WITH(threads_are_not_kept),
        WITH(transport_refusals_have_the_envelope),
        WITH(fields_are_adjusted_and_ignored),
        WITH(every_ignored_field_is_named),
        WITH(no_tokens_are_a_limit_too),
        WITH(a_prompt_that_does_not_fit),
        WITH(counts_are_those_of_requests),
        WITH(overload_is_529),
        WITH(failures_have_an_end),
        WITH(clients_that_leave),
        WITH(a_client_that_does_not_read),
        WITH(the_end_with_work),
        cmocka_unit_test_setup_teardown(what_suites_ask, suite_set_up, tear_down),
        WITH(models_in_their_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
