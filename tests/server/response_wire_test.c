/* Proves on the wire, with a scripted engine, that Responses answers as section 13 of docs/http.md
 * says: objects and events byte for byte, items and tools as the template gets them, every fate of
 * a field, failures, clients that leave or do not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "seen_prompt.h"

#define PATH        "/v1/responses"
#define ASK(text)   "\"model\":\"scripted_4-Bit\",\"input\":\"" text "\""
#define ITEMS(list) "\"model\":\"scripted_4-Bit\",\"input\":[" list "]"
#define SAYS(text)  "{\"role\":\"user\",\"content\":\"" text "\"}"

static const char script[] =
    "[{\"match\":\"plain\",\"cached\":3,\"steps\":[{\"text\":\"Once \"},{\"text\":\"upon\"}]},"
    "{\"match\":\"think\",\"steps\":[{\"thought\":\"h\"},{\"thought\":\"m\"},{\"text\":\"so\"}]},"
    "{\"match\":\"again\",\"steps\":[{\"thought\":\"a\"},{\"text\":\"b\"},{\"thought\":\"c\"},"
    "{\"text\":\"d\"}]},"
    "{\"match\":\"call\",\"steps\":[{\"text\":\"I look.\"},{\"call\":{\"name\":\"look\","
    "\"arguments\":{\"at\":1}}},{\"call\":{\"name\":\"files.read\",\"arguments\":{}}}]},"
    "{\"match\":\"patch\",\"steps\":[{\"call\":{\"name\":\"patch\",\"arguments\":{\"input\":"
    "\"*** \\\"x\\\"\\n\"}}},{\"call\":{\"name\":\"patch\",\"arguments\":{\"other\":1}}}]},"
    "{\"match\":\"long\",\"finish\":\"length\",\"steps\":[{\"thought\":\"t\"},{\"text\":\"a\"}]},"
    "{\"match\":\"short\",\"finish\":\"length\",\"steps\":[{\"thought\":\"t\"}]},"
    "{\"match\":\"silent\",\"steps\":[]},"
    "{\"match\":\"broken\",\"steps\":[{\"text\":\"a\"},{\"fail\":\"the disk is gone\"}]},"
    "{\"match\":\"gate\",\"steps\":[{\"gate\":true},{\"text\":\"through\"}]},"
    "{\"match\":\"flood\",\"steps\":[{\"text\":\"0123456789012345678901234567890123456789\"},"
    "{\"times\":40000}]},"
    "{\"steps\":[{\"text\":\"else\"}]}]";

static int set_up(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.queue_limit = 1;
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

static char *respond(const char *body)
{
    return plain(once("POST", PATH, "", body));
}

static char *stream(const char *body)
{
    int fd = dial();
    post(fd, PATH, body);
    char *all = take_until(fd, "\r\n0\r\n\r\n"), *events;
    close(fd);
    expect(all, "HTTP/1.1 200 OK\r\n");
    expect(all, "Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n");
    events = plain(unchunked(all));
    free(all);
    return events;
}

/* ---- answers ---- */

/* clang-format off */
#define HEAD(status, at, details)                                                       \
    "{\"id\":\"resp_\",\"object\":\"response\",\"created_at\":,\"status\":\"" status    \
    "\",\"completed_at\":" at ",\"error\":null,\"incomplete_details\":" details         \
    ",\"output\":["
#define USAGE(in, cached, out, thought, total)                                          \
    ",\"usage\":{\"input_tokens\":" in ",\"input_tokens_details\":{\"cached_tokens\":"  \
    cached ",\"cache_write_tokens\":0},\"output_tokens\":" out                          \
    ",\"output_tokens_details\":{\"reasoning_tokens\":" thought "},\"total_tokens\":"   \
    total "}"
#define ECHO_TO_REASONING                                                               \
    ",\"store\":true,\"background\":false,\"frequency_penalty\":0,\"instructions\":"    \
    "null,\"max_output_tokens\":null,\"max_tool_calls\":null,\"metadata\":{},\"model\"" \
    ":\"scripted_4-Bit\",\"parallel_tool_calls\":true,\"presence_penalty\":0,"          \
    "\"previous_response_id\":null,\"prompt_cache_key\":null,\"reasoning\":"
#define ECHO_FROM_REASONING                                                             \
    ",\"safety_identifier\":null,\"service_tier\":\"default\",\"temperature\":0,"       \
    "\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\",\"tools\":"
#define ECHO_FROM_TOOLS ",\"top_logprobs\":0,\"top_p\":1,\"truncation\":\"disabled\"}"
#define ECHO ECHO_TO_REASONING "{\"effort\":null,\"summary\":null}" ECHO_FROM_REASONING "[]" \
             ECHO_FROM_TOOLS
#define MESSAGE(status, text)                                                           \
    "{\"id\":\"msg_\",\"type\":\"message\",\"status\":\"" status "\",\"role\":"         \
    "\"assistant\",\"content\":[" text "]}"
#define PART(text) "{\"type\":\"output_text\",\"text\":\"" text \
    "\",\"annotations\":[],\"logprobs\":[]}"
#define THOUGHT(status, content)                                                        \
    "{\"id\":\"rs_\",\"type\":\"reasoning\",\"status\":\"" status                       \
    "\",\"summary\":[],\"content\":[" content "]}"
#define THOUGHT_PART(text) "{\"type\":\"reasoning_text\",\"text\":\"" text "\"}"
/* clang-format on */

static const char *body_of(const char *answer)
{
    const char *at = strstr(answer, "\r\n\r\n");
    assert_non_null(at);
    return at + 4;
}

static void an_answer(void **state)
{
    (void)state;
    char *a = respond("{" ASK("plain") "}");
    expect(a, "HTTP/1.1 200 OK\r\n");
    expect(a, "Content-Type: application/json\r\n");
    same(body_of(a), HEAD("completed", "", "null") MESSAGE(
                         "completed", PART("Once upon")) "]" USAGE("10", "3", "4", "0", "14") ECHO);
    free(a);
    a = respond("{" ASK("think") "}");
    expect(a, "\"output\":[" THOUGHT("completed", THOUGHT_PART("hm")) "," MESSAGE("completed",
                                                                                  PART("so")) "]");
    free(a);
    a = respond("{" ASK("again") "}");
    expect(a,
           "\"output\":[" THOUGHT("completed", THOUGHT_PART("a")) "," MESSAGE(
               "completed", PART("b")) "," THOUGHT("completed",
                                                   THOUGHT_PART("c")) "," MESSAGE("completed",
                                                                                  PART("d")) "]");
    free(a);
    a = respond("{" ASK("long") "}");
    expect(a, HEAD("incomplete", "null", "{\"reason\":\"max_output_tokens\"}")
                  THOUGHT("completed", THOUGHT_PART("t")) "," MESSAGE("incomplete", PART("a")) "]");
    free(a);
    a = respond("{" ASK("short") "}");
    expect(a, "\"output\":[" THOUGHT("incomplete", THOUGHT_PART("t")) "]");
    free(a);
    a = respond("{" ASK("silent") "}");
    expect(a, "\"output\":[" MESSAGE("completed", PART("")) "]");
    free(a);
}

#define LOOK                                                                                       \
    "{\"type\":\"function\",\"name\":\"look\",\"description\":\"d\",\"parameters\":{\"type\":"     \
    "\"object\"},\"strict\":false}"
#define READ "{\"type\":\"function\",\"name\":\"read\"}"
#define PATCH                                                                                      \
    "{\"type\":\"custom\",\"name\":\"patch\",\"description\":\"Edits.\",\"format\":{\"type\":"     \
    "\"grammar\",\"syntax\":\"lark\",\"definition\":\"start: x\"}}"

static void calls_come_back_as_what_was_given(void **state)
{
    (void)state;
    char *a = respond("{" ASK("call") ",\"tools\":[" LOOK ",{\"type\":\"web_search\"},{\"type\":"
                                      "\"namespace\",\"name\":\"files\",\"description\":\"f\","
                                      "\"tools\":[" READ ",{\"type\":\"mcp\"}]}," PATCH "]}");
    expect(a, "\"output\":[" MESSAGE(
                  "completed",
                  PART("I look.")) ",{\"id\":\"fc_\",\"type\":\"function_call\",\"status\":"
                                   "\"completed\",\"call_id\":\"call_\",\"name\":\"look\","
                                   "\"arguments\":\"{\\\"at\\\":1}\"},{\"id\":\"fc_\",\"type\":"
                                   "\"function_call\",\"status\":\"completed\",\"call_id\":"
                                   "\"call_\",\"namespace\":\"files\",\"name\":\"read\","
                                   "\"arguments\":\"{}\"}]");
    /* Told back are the tools that were used. */
    expect(a, "\"tools\":[{\"type\":\"function\",\"name\":\"look\",\"description\":\"d\","
              "\"parameters\":{\"type\":\"object\"},\"strict\":false},{\"type\":\"namespace\","
              "\"name\":\"files\",\"description\":\"f\",\"tools\":[{\"type\":\"function\","
              "\"name\":\"read\",\"parameters\":null,\"strict\":false}]}," PATCH "],");
    free(a);
    assert_string_equal(
        seen.tools,
        "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"d\","
        "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{\"name\":"
        "\"files.read\"}},{\"type\":\"function\",\"function\":{\"name\":\"patch\",\"description\":"
        "\"Edits.\\n\\nThe input follows this lark grammar:\\nstart: x\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}}}]");
    a = respond("{" ASK("patch") ",\"tools\":[" PATCH "]}");
    expect(a, "\"output\":[{\"id\":\"ctc_\",\"type\":\"custom_tool_call\",\"status\":"
              "\"completed\",\"call_id\":\"call_\",\"name\":\"patch\",\"input\":\"*** "
              "\\\"x\\\"\\n\"},{\"id\":\"ctc_\",\"type\":\"custom_tool_call\",\"status\":"
              "\"completed\",\"call_id\":\"call_\",\"name\":\"patch\",\"input\":"
              "\"{\\\"other\\\":1}\"}]");
    free(a);
    /* Tools may come in items too. */
    a = respond("{" ITEMS("{\"type\":\"additional_tools\",\"role\":\"developer\",\"tools\":[" READ
                          "," PATCH ",{\"type\":\"mcp\"}]}," SAYS("patch")) ",\"tools\":[{\"type\":"
                                                                            "\"custom\",\"name\":"
                                                                            "\"read\"}]}");
    expect(a, "\"type\":\"custom_tool_call\"");
    expect(a,
           "\"tools\":[{\"type\":\"custom\",\"name\":\"read\",\"format\":{\"type\":\"text\"}}],");
    free(a);
    expect(seen.tools, "[{\"type\":\"function\",\"function\":{\"name\":\"read\",\"parameters\":");
    expect(seen.tools, "},{\"type\":\"function\",\"function\":{\"name\":\"patch\",");
    /* Without the tools they are passed on as they are. */
    a = respond("{" ASK("call") ",\"parallel_tool_calls\":true,\"tool_choice\":\"none\",\"tools\":"
                                "[" LOOK "]}");
    expect(a, "\"name\":\"files.read\",");
    expect(a, "\"tool_choice\":\"none\",\"tools\":[{\"type\":\"function\",\"name\":\"look\"");
    assert_string_equal(seen.tools, "");
    free(a);
    a = respond("{" ASK("call") ",\"parallel_tool_calls\":false}");
    expect(a, "\"name\":\"look\"");
    expect(a, "\"parallel_tool_calls\":false");
    expect_not(a, "files.read");
    free(a);
}

static void what_was_used_comes_back(void **state)
{
    (void)state;
    char *a = respond(
        "{" ASK("plain") ",\"instructions\":\"Be kind.\",\"max_output_tokens\":99999,"
                         "\"metadata\":{\"a\":\"b\"},\"temperature\":0.5,\"top_p\":0,"
                         "\"presence_penalty\":-1.5,\"frequency_penalty\":0.25,"
                         "\"prompt_cache_key\":\"k\",\"safety_identifier\":\"s\",\"store\":false,"
                         "\"truncation\":\"auto\",\"reasoning\":{\"effort\":\"none\"},"
                         "\"top_logprobs\":2,\"service_tier\":\"flex\",\"user\":\"u\"}");
    expect(a, "\"store\":false,\"background\":false,\"frequency_penalty\":0.25,\"instructions\":"
              "\"Be kind.\",\"max_output_tokens\":20");
    expect(a, ",\"max_tool_calls\":null,\"metadata\":{\"a\":\"b\"},");
    expect(a, "\"presence_penalty\":-1.5,");
    expect(a, "\"prompt_cache_key\":\"k\",\"reasoning\":{\"effort\":\"none\",\"summary\":null},"
              "\"safety_identifier\":\"s\",\"service_tier\":\"default\",\"temperature\":0,");
    expect(a, "\"top_logprobs\":2,\"top_p\":1,\"truncation\":\"disabled\"}");
    expect(a, "\"logprobs\":[{\"token\":\"Once \",\"logprob\":-0.5,\"bytes\":[79,110,99,101,32],"
              "\"top_logprobs\":[]},{\"token\":\"upon\",");
    free(a);
    assert_int_equal(seen.thinking, TT_THINKING_OFF);
    assert_string_equal(seen.messages,
                        "[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\","
                        "\"content\":\"plain\"}]");
    /* No level is rendered by this template: the log says that one was adjusted. */
    a = respond("{" ASK("plain") ",\"reasoning\":{\"effort\":\"high\"},\"chat_template_kwargs\":"
                                 "{\"x\":1,\"enable_thinking\":false}}");
    expect(a, "\"reasoning\":{\"effort\":\"high\",\"summary\":null}");
    free(a);
    assert_int_equal(seen.thinking, TT_THINKING_ON);
    assert_string_equal(seen.extra, "{\"x\": 1}");
    char *log = log_text();
    expect(log, "adjusted=\"top_p truncation max_tokens\"");
    expect(log, "ignored=\"prompt_cache_key safety_identifier user service_tier\"");
    expect(log, "adjusted=reasoning.effort\n");
    free(log);
}

static void thoughts_as_summaries_and_carried(void **state)
{
    (void)state;
    char *a = respond("{" ASK("think") ",\"reasoning\":{\"summary\":\"auto\"},\"include\":["
                                       "\"reasoning.encrypted_content\",\"other\"]}");
    expect(a, "{\"id\":\"rs_\",\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":["
              "{\"type\":\"summary_text\",\"text\":\"hm\"}],\"encrypted_content\":\"dHQxcmht\"}");
    expect(a, "\"reasoning\":{\"effort\":null,\"summary\":\"detailed\"}");
    free(a);
    char *log = log_text();
    expect(log, "adjusted=reasoning.summary");
    expect(log, "ignored=include");
    free(log);
}

/* ---- streams ---- */

/* clang-format off */
#define EVENT(type, n, rest)                                                            \
    "event: " type "\ndata: {\"type\":\"" type "\",\"sequence_number\":" n rest "}\n\n"
#define BEGINNING(echo)                                                                 \
    EVENT("response.created", "0", ",\"response\":" HEAD("in_progress", "null", "null") "]" echo) \
    EVENT("response.in_progress", "1", ",\"response\":" HEAD("in_progress", "null", "null") "]" \
        echo)
#define ADDED(n, i, item) EVENT("response.output_item.added", n, ",\"output_index\":" i \
    ",\"item\":" item)
#define DONE(n, i, item)  EVENT("response.output_item.done", n, ",\"output_index\":" i \
    ",\"item\":" item)
#define AT(id, i)      ",\"item_id\":\"" id "\",\"output_index\":" i
#define IN(id, i)      AT(id, i) ",\"content_index\":0"
#define IN_SUMMARY(i)  AT("rs_", i) ",\"summary_index\":0"

static const char think_stream[] =
    BEGINNING(ECHO)
    ADDED("2", "0", THOUGHT("in_progress", ""))
    EVENT("response.content_part.added", "3", IN("rs_", "0") ",\"part\":" THOUGHT_PART(""))
    EVENT("response.reasoning_text.delta", "4", IN("rs_", "0") ",\"delta\":\"h\"")
    EVENT("response.reasoning_text.delta", "5", IN("rs_", "0") ",\"delta\":\"m\"")
    EVENT("response.reasoning_text.done", "6", IN("rs_", "0") ",\"text\":\"hm\"")
    EVENT("response.content_part.done", "7", IN("rs_", "0") ",\"part\":" THOUGHT_PART("hm"))
    DONE("8", "0", THOUGHT("completed", THOUGHT_PART("hm")))
    ADDED("9", "1", MESSAGE("in_progress", ""))
    EVENT("response.content_part.added", "10", IN("msg_", "1") ",\"part\":" PART(""))
    EVENT("response.output_text.delta", "11", IN("msg_", "1") ",\"delta\":\"so\",\"logprobs\":[]")
    EVENT("response.output_text.done", "12", IN("msg_", "1") ",\"text\":\"so\",\"logprobs\":[]")
    EVENT("response.content_part.done", "13", IN("msg_", "1") ",\"part\":" PART("so"))
    DONE("14", "1", MESSAGE("completed", PART("so")))
    EVENT("response.completed", "15", ",\"response\":" HEAD("completed", "", "null")
          THOUGHT("completed", THOUGHT_PART("hm")) "," MESSAGE("completed", PART("so")) "]"
          USAGE("10", "0", "3", "2", "13") ECHO);

#define SUMMARY_ECHO ECHO_TO_REASONING "{\"effort\":null,\"summary\":\"detailed\"}" \
                     ECHO_FROM_REASONING "[]" ECHO_FROM_TOOLS
#define SUMMARY(status, parts)                                                          \
    "{\"id\":\"rs_\",\"type\":\"reasoning\",\"status\":\"" status "\",\"summary\":[" parts "]}"
#define SUMMARY_PART(text) "{\"type\":\"summary_text\",\"text\":\"" text "\"}"
static const char summary_stream[] =
    BEGINNING(SUMMARY_ECHO)
    ADDED("2", "0", SUMMARY("in_progress", ""))
    EVENT("response.reasoning_summary_part.added", "3", IN_SUMMARY("0") ",\"part\":"
        SUMMARY_PART(""))
    EVENT("response.reasoning_summary_text.delta", "4", IN_SUMMARY("0") ",\"delta\":\"t\"")
    EVENT("response.reasoning_summary_text.done", "5", IN_SUMMARY("0") ",\"text\":\"t\"")
    EVENT("response.reasoning_summary_part.done", "6", IN_SUMMARY("0") ",\"part\":"
        SUMMARY_PART("t"))
    DONE("7", "0", SUMMARY("incomplete", SUMMARY_PART("t")))
    EVENT("response.incomplete", "8", ",\"response\":"
          HEAD("incomplete", "null", "{\"reason\":\"max_output_tokens\"}")
          SUMMARY("incomplete", SUMMARY_PART("t")) "]" USAGE("10", "0", "1", "1", "11")
              SUMMARY_ECHO);

#define CALL(status, arguments)                                                         \
    "{\"id\":\"fc_\",\"type\":\"function_call\",\"status\":\"" status                   \
    "\",\"call_id\":\"call_\",\"name\":\"look\",\"arguments\":\"" arguments "\"}"
#define OTHER_CALL(status, arguments)                                                   \
    "{\"id\":\"fc_\",\"type\":\"function_call\",\"status\":\"" status                   \
    "\",\"call_id\":\"call_\",\"name\":\"files.read\",\"arguments\":\"" arguments "\"}"
static const char call_stream[] =
    BEGINNING(ECHO)
    ADDED("2", "0", MESSAGE("in_progress", ""))
    EVENT("response.content_part.added", "3", IN("msg_", "0") ",\"part\":" PART(""))
    EVENT("response.output_text.delta", "4", IN("msg_", "0")
        ",\"delta\":\"I look.\",\"logprobs\":[]")
    EVENT("response.output_text.done", "5", IN("msg_", "0") ",\"text\":\"I look.\",\"logprobs\":[]")
    EVENT("response.content_part.done", "6", IN("msg_", "0") ",\"part\":" PART("I look."))
    DONE("7", "0", MESSAGE("completed", PART("I look.")))
    ADDED("8", "1", CALL("in_progress", ""))
    EVENT("response.function_call_arguments.delta", "9", AT("fc_", "1")
        ",\"delta\":\"{\\\"at\\\":1}\"")
    EVENT("response.function_call_arguments.done", "10", AT("fc_", "1")
          ",\"name\":\"look\",\"arguments\":\"{\\\"at\\\":1}\"")
    DONE("11", "1", CALL("completed", "{\\\"at\\\":1}"))
    ADDED("12", "2", OTHER_CALL("in_progress", ""))
    EVENT("response.function_call_arguments.delta", "13", AT("fc_", "2") ",\"delta\":\"{}\"")
    EVENT("response.function_call_arguments.done", "14", AT("fc_", "2")
          ",\"name\":\"files.read\",\"arguments\":\"{}\"")
    DONE("15", "2", OTHER_CALL("completed", "{}"))
    EVENT("response.completed", "16", ",\"response\":" HEAD("completed", "", "null")
          MESSAGE("completed", PART("I look.")) "," CALL("completed", "{\\\"at\\\":1}") ","
          OTHER_CALL("completed", "{}") "]" USAGE("10", "0", "10", "0", "20") ECHO);

#define CUSTOM(status, input)                                                           \
    "{\"id\":\"ctc_\",\"type\":\"custom_tool_call\",\"status\":\"" status               \
    "\",\"call_id\":\"call_\",\"name\":\"patch\",\"input\":\"" input "\"}"
static const char patch_events[] =
    ADDED("2", "0", CUSTOM("in_progress", ""))
    EVENT("response.custom_tool_call_input.delta", "3", AT("ctc_", "0")
        ",\"delta\":\"*** \\\"x\\\"\\n\"")
    EVENT("response.custom_tool_call_input.done", "4", AT("ctc_", "0")
        ",\"input\":\"*** \\\"x\\\"\\n\"")
    DONE("5", "0", CUSTOM("completed", "*** \\\"x\\\"\\n"));

static const char silent_events[] =
    ADDED("2", "0", MESSAGE("in_progress", ""))
    EVENT("response.content_part.added", "3", IN("msg_", "0") ",\"part\":" PART(""))
    EVENT("response.output_text.done", "4", IN("msg_", "0") ",\"text\":\"\",\"logprobs\":[]")
    EVENT("response.content_part.done", "5", IN("msg_", "0") ",\"part\":" PART(""))
    DONE("6", "0", MESSAGE("completed", PART("")));
/* clang-format on */

static void a_stream(void **state)
{
    (void)state;
    char *e = stream("{" ASK("think") ",\"stream\":true}");
    same(e, think_stream);
    free(e);
    e = stream("{" ASK("short") ",\"stream\":true,\"reasoning\":{\"summary\":\"detailed\"}}");
    same(e, summary_stream);
    free(e);
    e = stream("{" ASK("call") ",\"stream\":true,\"stream_options\":{\"include_obfuscation\":"
                               "true}}");
    same(e, call_stream);
    free(e);
    e = stream("{" ASK("patch") ",\"stream\":true,\"tools\":[" PATCH "]}");
    expect(e, patch_events);
    free(e);
    e = stream("{" ASK("silent") ",\"stream\":true}");
    expect(e, silent_events);
    free(e);
    e = stream("{" ASK("plain") ",\"stream\":true,\"include\":[\"message.output_text.logprobs\"]}");
    expect(e, "\"delta\":\"upon\",\"logprobs\":[{\"token\":\"upon\",\"logprob\":-0.5,");
    expect(e, "\"text\":\"Once upon\",\"logprobs\":[{\"token\":\"Once \",");
    free(e);
}

/* Much more than a client may leave unread comes at once, and is no overflow. */
static void long_fields_come_back_in_a_stream(void **state)
{
    (void)state;
    size_t n = 3 << 20;
    char *body = calloc(1, n + 256);
    assert_non_null(body);
    strcpy(body, "{" ASK("plain") ",\"stream\":true,\"metadata\":{\"a\":\"");
    memset(body + strlen(body), 'x', n);
    strcat(body, "\"}}");
    int fd = dial();
    post(fd, PATH, body);
    char *all = take_until(fd, "\r\n\r\n");
    free(all);
    size_t got = 0;
    char tail[64] = "", *piece = malloc(1 << 16);
    while (strstr(tail, "\r\n0\r\n\r\n") == NULL) {
        ssize_t k = recv(fd, piece, 1 << 16, 0);
        assert_true(k > 0);
        got += (size_t)k;
        size_t keep = (size_t)k < 40 ? (size_t)k : 40;
        snprintf(tail, sizeof tail, "%.*s", (int)keep, piece + k - keep);
    }
    assert_true(got > 3 * n);
    free(piece);
    free(body);
    close(fd);
    all = once("GET", "/metrics", "", NULL);
    expect_not(all, "stream_overflow");
    free(all);
}

/* ---- items ---- */

static void messages_of(const char *input, const char *want)
{
    char *body = malloc(strlen(input) + 256);
    if (body == NULL)
        abort();
    sprintf(body, "{\"model\":\"scripted_4-Bit\",\"store\":false,\"input\":%s}", input);
    char *a = respond(body);
    expect(a, "HTTP/1.1 200");
    assert_string_equal(seen.messages, want);
    free(a);
    free(body);
}

/* clang-format off */
#define M(role, content)  "{\"role\":\"" role "\",\"content\":\"" content "\"}"
#define A(content, more)  "{\"role\":\"assistant\",\"content\":\"" content "\"" more "}"
#define R(thought)        ",\"reasoning_content\":\"" thought "\""
#define C(calls)          ",\"tool_calls\":[" calls "]"
#define TOOL(id, text)    "{\"role\":\"tool\",\"content\":\"" text "\",\"tool_call_id\":\"" id "\"}"
#define FN(id, name, arguments)                                                         \
    "{\"type\":\"function\",\"id\":\"" id "\",\"function\":{\"name\":\"" name            \
    "\",\"arguments\":" arguments "}}"
#define P(type, text)     "{\"type\":\"" type "\",\"text\":\"" text "\"}"
#define MADE(content)     "{\"role\":\"assistant\",\"content\":" content "}"

static const struct {
    const char *input, *want;
} conversations[] = {
    {"\"hi\"", "[" M("user", "hi") "]"},
    {"[" SAYS("a") ",{\"type\":\"message\",\"role\":\"user\",\"content\":["
     P("input_text", "b") "," P("text", "c") "]}]",
     "[" M("user", "a") "," M("user", "bc") "]"},
    /* System text that is not first goes to the message before it, as in Chat Completions. */
    {"[" M("developer", "s") "," SAYS("a") "," M("system", "t") "]",
     "[" M("system", "s") "," M("user", "a\\n<system>\\nt\\n</system>") "]"},
    /* What the assistant did in one turn is one message. */
    {"[" SAYS("a")
     ",{\"type\":\"reasoning\",\"summary\":[],\"content\":[" P("reasoning_text", "hm") "]}"
     "," MADE("[" P("output_text", "x") ",{\"type\":\"refusal\",\"refusal\":\"y\"}]")
     ",{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{\\\"a"
         "\\\":1}\"}"
     "," MADE("\"z\"")
     ",{\"type\":\"custom_tool_call\",\"call_id\":\"2\",\"name\":\"p\",\"input\":\"i\"}"
     ",{\"type\":\"function_call\",\"call_id\":\"3\",\"namespace\":\"n\",\"name\":\"g\","
         "\"arguments\":\"\"}"
     ",{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"r\"}"
     ",{\"type\":\"custom_tool_call_output\",\"call_id\":\"2\",\"output\":["
     P("input_text", "q") "," P("output_text", "s") "]}]",
     "[" M("user", "a") "," A("xyz", R("hm") C(FN("1", "f", "{\"a\":1}") ","
     FN("2", "p", "{\"input\":\"i\"}") "," FN("3", "n.g", "{}"))) "," TOOL("1", "r") ","
     TOOL("2", "qs") ",{\"role\":\"tool\",\"tool_call_id\":\"3\",\"content\":\"[no result]\"}]"},
    /* A message after a message, and a thought after one, begin the next. */
    {"[" SAYS("a") "," MADE("\"x\"") "," MADE("\"y\"") ",{\"type\":\"reasoning\",\"summary\":["
     P("summary_text", "1") "," P("summary_text", "2") "]}," MADE("\"z\"") "," SAYS("b") "]",
     "[" M("user", "a") "," A("x", "") "," A("y", "") "," A("z", R("1\\n\\n2")) "," M("user",
         "b") "]"},
    /* A thought that nothing follows, hosted tools, a thought that others encrypted, and our
        own. */
    {"[" SAYS("a") ",{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"gAAAA\"}"
     ",{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\"}," SAYS("b")
     ",{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":null,\"encrypted"
         "_content\":"
     "\"dHQxcmht\"}," MADE("\"x\"") "," SAYS("c") "]",
     "[" M("user", "a") "," M("user", "b") "," A("x", R("hm")) "," M("user", "c") "]"},
    /* Fields say what an item is. */
    {"[" SAYS("a") ",{\"call_id\":\"1\",\"name\":\"f\",\"arguments\":{\"a\":2}}"
     ",{\"call_id\":\"1\",\"output\":\"r\"},{\"name\":\"p\",\"input\":\"i\"},{\"output\":\"\"}]",
     "[" M("user", "a") "," A("", C(FN("1", "f", "{\"a\":2}"))) "," TOOL("1", "r") ","
     A("", C(FN("call_3_0", "p", "{\"input\":\"i\"}"))) "," TOOL("call_3_0", "") "]"},
};
/* clang-format on */

static void items_become_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof conversations / sizeof conversations[0]; i++)
        messages_of(conversations[i].input, conversations[i].want);
}

static void requests_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *code, *param;
    } rows[] = {
        {ITEMS("1"), "invalid_value", "input[0]"},
        {ITEMS("{}"), "missing_required_parameter", "input[0].type"},
        {ITEMS(SAYS("x") ",{\"type\":\"additional_tools\"}"), "invalid_value", "input[1].tools"},
        {ITEMS(SAYS("x") ",{\"type\":\"additional_tools\",\"tools\":[" READ
                         ",{\"type\":\"custom\"}]}"),
         "invalid_value", "input.tools[1].name"},
        {ITEMS("{\"type\":\"dance\"}"), "unsupported_value", "input[0].type"},
        {ITEMS("{\"type\":\"compaction_trigger\"}"), "unsupported_value", "input[0].type"},
        {ITEMS("{\"type\":\"message\",\"content\":\"x\"}"), "missing_required_parameter",
         "input[0].role"},
        {ITEMS("{\"role\":\"cat\",\"content\":\"x\"}"), "invalid_value", "input[0].role"},
        {ITEMS("{\"role\":\"user\",\"content\":1}"), "invalid_value", "input[0].content"},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":"
               "\"x\"}]}"),
         "unsupported_value", "input[0].content[0].type"},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_file\"}]}"), "unsupported_value",
         "input[0].content[0].type"},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}"), "unsupported_value",
         "input[0].content[0].type"},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"x\"}]}"),
         "unsupported_value", "input[0].content[0].type"},
        {ITEMS("{\"role\":\"user\",\"content\":[{}]}"), "invalid_value",
         "input[0].content[0].type"},
        {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}"), "invalid_value",
         "input[0].content[0].text"},
        {ITEMS(SAYS("x") ",{\"type\":\"function_call\"}"), "invalid_value", "input[1].name"},
        {ITEMS(SAYS("x") ",{\"type\":\"function_call_output\",\"output\":[{\"type\":"
                         "\"input_image\"}]}"),
         "unsupported_value", "input[1].output[0].type"},
        {ITEMS("{\"type\":\"compaction\",\"encrypted_content\":\"gAAAA\"}"), "invalid_value",
         "input[0].encrypted_content"},
        {ITEMS("{\"id\":\"msg_1\"}"), "item_not_found", "input[0].id"},
        {ITEMS(SAYS("x") ",{\"role\":\"assistant\",\"content\":\"x\"}"), "unsupported_value",
         "input"},
        {ITEMS(SAYS("x") ",{\"type\":\"function_call\",\"name\":\"f\"}"), "unsupported_value",
         "input"},
        {"\"model\":\"scripted_4-Bit\"", "missing_required_parameter", "input"},
        {"\"model\":\"scripted_4-Bit\",\"input\":{}", "invalid_value", "input"},
        {ITEMS(""), "template_error", "input"},
        {ASK("x") ",\"previous_response_id\":\"resp_1\"", "previous_response_not_found",
         "previous_response_id"},
        {ASK("x") ",\"previous_response_id\":1", "invalid_value", "previous_response_id"},
        {ASK("x") ",\"instructions\":[]", "invalid_value", "instructions"},
        {ASK("x") ",\"background\":true", "unsupported_value", "background"},
        {ASK("x") ",\"conversation\":\"conv_1\"", "unsupported_value", "conversation"},
        {ASK("x") ",\"prompt\":{\"id\":\"p\"}", "unsupported_value", "prompt"},
        {ASK("x") ",\"moderation\":{}", "unsupported_value", "moderation"},
        {ASK("x") ",\"text\":{\"format\":{\"type\":\"xml\"}}", "unsupported_value", "text.format"},
        {ASK("x") ",\"text\":{\"format\":{\"type\":\"json_schema\"}}", "invalid_value",
         "text.format.schema"},
        {ASK("x") ",\"text\":[]", "invalid_value", "text"},
        {ASK("x") ",\"tool_choice\":\"any\"", "invalid_value", "tool_choice"},
        {ASK("x") ",\"tools\":{}", "invalid_value", "tools"},
        {ASK("x") ",\"tools\":[{}]", "invalid_value", "tools[0].type"},
        {ASK("x") ",\"tools\":[{\"type\":\"function\",\"name\":\"a b\"}]", "invalid_value",
         "tools[0].name"},
        {ASK("x") ",\"tools\":[" READ "," READ "]", "invalid_value", "tools[1].name"},
        {ASK("x") ",\"tools\":[{\"type\":\"function\",\"name\":\"a\",\"parameters\":[]}]",
         "invalid_value", "tools[0].parameters"},
        {ASK("x") ",\"tools\":[{\"type\":\"namespace\",\"name\":\"a.b\",\"tools\":[]}]",
         "invalid_value", "tools[0].name"},
        {ASK("x") ",\"tools\":[{\"type\":\"namespace\",\"name\":\"a\",\"tools\":[{\"type\":"
                  "\"custom\",\"name\":\"\"}]}]",
         "invalid_value", "tools[0].tools[0].name"},
        {ASK("x") ",\"reasoning\":{\"effort\":\"much\"}", "invalid_value", "reasoning.effort"},
        {ASK("x") ",\"reasoning\":{\"summary\":\"short\"}", "invalid_value", "reasoning.summary"},
        {ASK("x") ",\"max_output_tokens\":0", "invalid_value", "max_output_tokens"},
        {ASK("x") ",\"temperature\":3", "invalid_value", "temperature"},
        {ASK("x") ",\"top_logprobs\":21", "invalid_value", "top_logprobs"},
        {ASK("x") ",\"metadata\":{\"a\":1}", "invalid_value", "metadata"},
        {ASK("x") ",\"truncation\":\"some\"", "invalid_value", "truncation"},
        {ASK("x") ",\"include\":\"all\"", "invalid_value", "include"},
        {ASK("x") ",\"store\":1", "invalid_value", "store"},
    };
    int fd = dial();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[2048], want[256];
        snprintf(body, sizeof body, "{%s}", rows[i].field);
        post(fd, PATH, body);
        char *a = take_answer(fd);
        bool missing = strstr(rows[i].code, "not_found") != NULL;
        snprintf(want, sizeof want, "HTTP/1.1 %s", missing ? "404" : "400");
        expect(a, want);
        snprintf(want, sizeof want, "\"param\":\"%s\",\"code\":\"%s\"}}", rows[i].param,
                 rows[i].code);
        expect(a, want);
        free(a);
    }
    close(fd);
}

static void limits_hold(void **state)
{
    (void)state;
    char *body = malloc(1 << 20);
    if (body == NULL)
        abort();
    char *end = body + sprintf(body, "{\"model\":\"scripted_4-Bit\",\"input\":[");
    for (int i = 0; i < 10001; i++)
        end += sprintf(end, "%s%s", i > 0 ? "," : "", SAYS("x"));
    strcpy(end, "]}");
    char *a = respond(body);
    expect(a, "\"param\":\"input\",\"code\":\"value_too_large\"");
    free(a);
    /* Those of a namespace count too. */
    end = body + sprintf(body, "{%s,\"tools\":[{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[",
                         ASK("x"));
    for (int i = 0; i < 513; i++)
        end += sprintf(end, "%s{\"type\":\"custom\",\"name\":\"t%d\"}", i > 0 ? "," : "", i);
    strcpy(end, "]}]}");
    a = respond(body);
    expect(a, "\"param\":\"tools\",\"code\":\"value_too_large\"");
    free(a);
    free(body);
}

static int little_memory(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.bounds.request_memory = 300 << 10;
    seen_prepare();
    wire_start();
    return 0;
}

/* Its body has room there, and what it becomes has not; afterwards nothing is left. */
static void what_a_request_becomes_counts(void **state)
{
    (void)state;
    char *body = calloc(1, 200 << 10);
    assert_non_null(body);
    strcpy(body, "{" ASK(""));
    memset(body + strlen(body) - 1, ' ', 120 << 10);
    strcat(body, "x\"}");
    char *a = respond(body);
    expect(a, "HTTP/1.1 413");
    expect(a, "\"code\":\"request_too_large\"");
    free(a);
    /* The same for every protocol, whether a text or many small things are too much. */
    a = once("POST", "/v1/chat/completions", "", body);
    expect(a, "HTTP/1.1 413");
    free(a);
    strcpy(body, "{\"x\":[");
    for (int i = 0; i < 40000; i++)
        strcpy(body + 6 + 2 * i, "1,");
    strcat(body + 80000, "1]}");
    a = once("POST", "/v1/chat/completions", "", body);
    expect(a, "HTTP/1.1 413");
    free(a);
    free(body);
    a = respond("{" ASK("plain") "}");
    expect(a, "HTTP/1.1 200");
    free(a);
    a = once("GET", "/metrics", "", NULL);
    expect(a, "\ntinytitan_request_memory_bytes 0\n");
    expect(a, "\ntinytitan_stored_responses 1\n");
    free(a);
}

static void the_log_names_fields_and_no_text(void **state)
{
    (void)state;
    char *a = respond("{" ITEMS(SAYS("SECRET-MARKER") ",{\"type\":\"local_shell_call\",\"x\":"
                                                      "\"SECRET\"}") ",\"metadata\":{\"a\":"
                                                                     "\"SECRET\"},\"x\":"
                                                                     "\"SECRET\",\"instructions\":"
                                                                     "\"SECRET\",\"client_"
                                                                     "metadata\":{},\"tools\":"
                                                                     "[{\"type\":\"web_search\"},"
                                                                     "{\"type\":\"custom\","
                                                                     "\"name\":\"SECRET\"}]}");
    expect(a, "200 OK");
    free(a);
    a = once("GET", PATH "/SECRET", "", NULL);
    expect(a, "HTTP/1.1 404");
    free(a);
    char *log = log_text();
    expect(log, "ignored=\"client_metadata others input tools\"");
    expect(log, "path=/v1/responses/{id} status=404 code=response_not_found");
    expect_not(log, "SECRET");
    free(log);
}

/* ---- failures ---- */

static void failures_have_an_end(void **state)
{
    (void)state;
    char *a = respond("{" ASK("broken") "}");
    expect(a, "HTTP/1.1 500 ");
    expect(a, "\"type\":\"server_error\",\"param\":null,\"code\":\"internal_error\"");
    free(a);
    a = stream("{" ASK("broken") ",\"stream\":true}");
    expect(a, "\"sequence_number\":4,");
    char *end = strstr(a, "event: response.failed\n");
    assert_non_null(end);
    expect(end, "data: {\"type\":\"response.failed\",\"sequence_number\":5,\"response\":{\"id\":"
                "\"resp_\",\"object\":\"response\",\"created_at\":,\"status\":\"failed\","
                "\"completed_at\":null,\"error\":{\"code\":\"server_error\",\"message\":\"the "
                "answer could not be computed (internal_error)\"},\"incomplete_details\":null,"
                "\"output\":[]" ECHO "}\n\n");
    expect_not(a, "[DONE]");
    expect_not(a, "disk");
    free(a);
}

static void a_client_that_does_not_read(void **state)
{
    (void)state;
    int fd = dial();
    post(fd, PATH, "{" ASK("flood") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 1); /* cancelled: more than 1 MiB is unread */
    char *all = take_until(fd, NULL), *events = unchunked(all);
    /* The number of the last event follows the one before it. */
    char *last = strstr(events, "event: response.failed\n"), want[64];
    assert_non_null(last);
    unsigned long n = strtoul(strstr(last, "\"sequence_number\":") + 18, NULL, 10);
    assert_true(n > 1000);
    snprintf(want, sizeof want, "\"sequence_number\":%lu,", n - 1);
    expect(events, want);
    snprintf(want, sizeof want, "\"sequence_number\":%lu,", n);
    assert_ptr_equal(strstr(events, want), strstr(last, want));
    expect(last, "(stream_overflow)");
    free(all);
    free(events);
    close(fd);
}

static void the_end_with_work(void **state)
{
    (void)state;
    int running = dial(), waiting = dial();
    post(running, PATH, "{" ASK("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    post(waiting, PATH, "{" ASK("plain") ",\"stream\":true}");
    free(take_until(waiting, "\r\n\r\n"));
    tt_server_stop(w.server);
    char *a = plain(take_until(waiting, NULL));
    expect(a, "event: response.created\ndata: "
              "{\"type\":\"response.created\",\"sequence_number\":0"
              ",");
    expect(a, "event: response.failed\ndata: "
              "{\"type\":\"response.failed\",\"sequence_number\":1,");
    expect(a, "\"message\":\"the server is ending (shutting_down)\"");
    free(a);
    scripted_engine_open_gate(w.engine);
    a = take_until(running, NULL);
    expect(a, "event: response.completed\n");
    free(a);
    wire_join();
    close(running);
    close(waiting);
}

static void clients_that_leave(void **state)
{
    (void)state;
    int running = dial();
    post(running, PATH, "{" ASK("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    shutdown(running, SHUT_WR);
    scripted_engine_await(w.engine, 1, 1);
    char *end = take_until(running, NULL);
    expect(end, "response.in_progress");
    expect_not(end, "response.completed");
    free(end);
    close(running);
    end = respond("{" ASK("plain") "}");
    expect(end, "200 OK");
    free(end);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(an_answer),
        WITH(calls_come_back_as_what_was_given),
        WITH(what_was_used_comes_back),
        WITH(thoughts_as_summaries_and_carried),
        WITH(a_stream),
        WITH(long_fields_come_back_in_a_stream),
        WITH(items_become_messages),
        WITH(requests_are_refused),
        WITH(limits_hold),
        cmocka_unit_test_setup_teardown(what_a_request_becomes_counts, little_memory, tear_down),
        WITH(the_log_names_fields_and_no_text),
        WITH(failures_have_an_end),
        WITH(a_client_that_does_not_read),
        WITH(the_end_with_work),
        WITH(clients_that_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
