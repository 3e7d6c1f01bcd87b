/* Proves on the wire, with a scripted engine, that Chat Completions and Completions answer as
 * docs/http.md says: objects and events byte for byte, every fate of a field, the queue, clients
 * that leave, failures, the end of the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire.h"

#define CHAT "/v1/chat/completions"
#define USER(text)                                                                                 \
    "\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"

static const char script[] =
    "[{\"match\":\"plain\",\"cached\":3,\"steps\":[{\"text\":\"Once \"},{\"text\":\"upon\"}]},"
    "{\"match\":\"marks\",\"steps\":[{\"text\":\"\xc3\xa4\"},{\"text\":\"!\"}]},"
    "{\"match\":\"think\",\"steps\":[{\"thought\":\"hm\"},{\"text\":\"so\"}]},"
    "{\"match\":\"call\",\"steps\":[{\"text\":\"I look.\"},{\"call\":{\"name\":\"look\","
    "\"arguments\":{\"at\":1}}},{\"call\":{\"name\":\"see\",\"arguments\":{}}}]},"
    "{\"match\":\"long\",\"finish\":\"length\",\"steps\":[{\"text\":\"a\"}]},"
    "{\"match\":\"broken\",\"steps\":[{\"text\":\"a\"},{\"fail\":\"the disk is gone\"}]},"
    "{\"match\":\"gate\",\"steps\":[{\"prefill\":[1,2]},{\"gate\":true},{\"text\":\"through\"}]},"
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

static char *chat(const char *body)
{
    return plain(once("POST", CHAT, "", body));
}

static void an_answer(void **state)
{
    (void)state;
    char *a = chat("{" USER("plain") "}");
    expect(a, "HTTP/1.1 200 OK\r\n");
    expect(a, "Content-Type: application/json\r\n");
    expect(a, "{\"id\":\"chatcmpl-\",\"object\":\"chat.completion\",\"created\":,\"model\":"
              "\"scripted_4-Bit\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
              "\"content\":\"Once upon\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":"
              "\"stop\"}],\"usage\":{\"prompt_tokens\":");
    expect(a, "\"prompt_tokens_details\":{\"cached_tokens\":3},\"completion_tokens_details\":"
              "{\"reasoning_tokens\":0}}}");
    free(a);
    a = chat("{" USER("think") "}");
    expect(a, "\"content\":\"so\",\"reasoning_content\":\"hm\"");
    free(a);
    a = chat("{" USER("long") "}");
    expect(a, "\"finish_reason\":\"length\"");
    free(a);
    a = chat(
        "{" USER("call") ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\"}}]}");
    expect(a, "\"content\":\"I look.\",\"tool_calls\":[{\"id\":\"call_\",\"type\":\"function\","
              "\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"at\\\":1}\"}},{\"id\":");
    expect(a, "\"finish_reason\":\"tool_calls\"");
    free(a);
    a = chat("{" USER("call") ",\"parallel_tool_calls\":false}");
    expect(a, "\"name\":\"look\"");
    expect_not(a, "\"name\":\"see\"");
    free(a);
}

#define CHUNK                                                                                      \
    "data: {\"id\":\"chatcmpl-\",\"object\":\"chat.completion.chunk\",\"created\":,\"model\":"     \
    "\"scripted_4-Bit\",\"choices\":["
#define DELTA(i, delta, finish)                                                                    \
    CHUNK "{\"index\":" i ",\"delta\":{" delta "},\"logprobs\":null,\"finish_reason\":" finish "}" \
          "]"

static char *stream(const char *body)
{
    int fd = dial();
    post(fd, CHAT, body);
    char *all = take_until(fd, "\r\n0\r\n\r\n"), *events;
    close(fd);
    expect(all, "HTTP/1.1 200 OK\r\n");
    expect(all, "Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n");
    events = plain(unchunked(all));
    free(all);
    return events;
}

/* clang-format off */
static const char call_stream[] =
    DELTA("0", "\"role\":\"assistant\",\"content\":\"\"", "null") "}\n\n"
    DELTA("0", "\"content\":\"I look.\"", "null") "}\n\n"
    DELTA("0", "\"tool_calls\":[{\"index\":0,\"id\":\"call_\",\"type\":\"function\","
               "\"function\":{\"name\":\"look\",\"arguments\":\"\"}}]", "null") "}\n\n"
    DELTA("0", "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
               "\"{\\\"at\\\":1}\"}}]", "null") "}\n\n"
    DELTA("0", "\"tool_calls\":[{\"index\":1,\"id\":\"call_\",\"type\":\"function\","
               "\"function\":{\"name\":\"see\",\"arguments\":\"\"}}]", "null") "}\n\n"
    DELTA("0", "\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{}\"}}]", "null") "}\n\n"
    DELTA("0", "", "\"tool_calls\"") "}\n\n"
    "data: [DONE]\n\n";

#define CHOICE(i)                                                                       \
    DELTA(i, "\"role\":\"assistant\",\"content\":\"\"", "null") ",\"usage\":null}\n\n"  \
    DELTA(i, "\"reasoning_content\":\"hm\"", "null") ",\"usage\":null}\n\n"             \
    DELTA(i, "\"content\":\"so\"", "null") ",\"usage\":null}\n\n"                       \
    DELTA(i, "", "\"stop\"") ",\"usage\":null}\n\n"
/* clang-format on */

static void a_stream(void **state)
{
    (void)state;
    char *e = stream("{" USER("call") ",\"stream\":true,\"tools\":[]}");
    assert_string_equal(e, call_stream);
    free(e);
    e = stream("{" USER("think") ",\"stream\":true,\"n\":2,\"stream_options\":"
                                 "{\"include_usage\":true}}");
    char *usage = strstr(e, CHUNK "],\"usage\":{\"prompt_tokens\":");
    assert_non_null(usage);
    expect(usage, "\n\ndata: [DONE]\n\n");
    *usage = '\0';
    assert_string_equal(e, CHOICE("0") CHOICE("1"));
    free(e);
}

static void stop_strings_and_log_probabilities(void **state)
{
    (void)state;
    char *a = chat("{" USER("plain") ",\"stop\":\" up\"}");
    expect(a, "\"content\":\"Once\"");
    free(a);
    a = chat("{" USER("plain") ",\"stop\":[\"zzz\",\"Once\"]}");
    expect(a, "\"content\":\"\",");
    free(a);
    a = chat("{" USER("plain") ",\"logprobs\":true,\"stop\":\"pon\"}");
    expect(a, "\"content\":\"Once u\",");
    expect(a, "\"logprobs\":{\"content\":[{\"token\":\"Once \",\"logprob\":-0.5,\"bytes\":"
              "[79,110,99,101,32],\"top_logprobs\":[]},{\"token\":\"upon\"");
    free(a);
}

static void completions(void **state)
{
    (void)state;
    char *a = plain(once("POST", "/v1/completions", "",
                         "{\"model\":\"scripted_4-Bit\",\"prompt\":\"plain\",\"logprobs\":0}"));
    expect(a, "{\"id\":\"cmpl-\",\"object\":\"text_completion\",\"created\":,\"model\":"
              "\"scripted_4-Bit\",\"choices\":[{\"index\":0,\"text\":\"Once upon\",\"logprobs\":"
              "{\"tokens\":[\"Once \",\"upon\"],\"token_logprobs\":[-0.5,-0.5],\"top_logprobs\":"
              "[{},{}],\"text_offset\":[0,5]},\"finish_reason\":\"stop\"}],\"usage\":");
    free(a);
    /* A place in the text is counted in characters, and does not depend on what a stop string that
     * never came held back. */
    const char *const offsets[] = {"\"text_offset\":[0]", "\"text_offset\":[5]"};
    int fd = dial();
    post(fd, "/v1/completions",
         "{\"model\":\"scripted_4-Bit\",\"prompt\":\"plain\",\"logprobs\":0,\"stop\":\"e up!\","
         "\"stream\":true}");
    a = take_until(fd, "\r\n0\r\n\r\n");
    expect(strstr(a, "\"text\":\"Onc\""), offsets[0]);
    expect(strstr(a, "\"text\":\"e upon\""), offsets[1]);
    free(a);
    a = once("POST", "/v1/completions", "",
             "{\"model\":\"scripted_4-Bit\",\"prompt\":\"marks\",\"logprobs\":0}");
    expect(a, "\"tokens\":[\"\xc3\xa4\",\"!\"]");
    expect(a, "\"text_offset\":[0,1]");
    free(a);
    post(fd, "/v1/completions",
         "{\"model\":\"scripted_4-Bit\",\"prompt\":[\"plain\"],\"stream\":true}");
    char *all = take_until(fd, "\r\n0\r\n\r\n"), *e = plain(unchunked(all));
#define TEXT(text, finish)                                                                         \
    "data: {\"id\":\"cmpl-\",\"object\":\"text_completion\",\"created\":,\"model\":"               \
    "\"scripted_4-Bit\",\"choices\":[{\"index\":0,\"text\":\"" text "\",\"logprobs\":null,"        \
    "\"finish_reason\":" finish "}]}\n\n"
    assert_string_equal(e, TEXT("Once ", "null") TEXT("upon", "null")
                               TEXT("", "\"stop\"") "data: [DONE]\n\n");
    free(all);
    free(e);
    close(fd);
}

static void tokenize(void **state)
{
    (void)state;
    char *a = once("POST", "/tokenize", "", "{\"model\":\"scripted_4-Bit\",\"content\":\"Once\"}");
    expect(a, "\"max_context\":2048}");
    free(a);
    /* A conversation counts as it is rendered. */
    a = once("POST", "/tokenize", "", "{" USER("plain") "}");
    char *count = strstr(a, "\"count\":"), *b = chat("{" USER("plain") "}");
    char want[64];
    snprintf(want, sizeof want, "\"prompt_tokens\":%lu,", strtoul(count + 8, NULL, 10));
    expect(b, want);
    free(a);
    free(b);
    a = once("POST", "/tokenize", "", "{\"model\":\"scripted_4-Bit\"}");
    expect(a, "\"code\":\"missing_required_parameter\"");
    free(a);
}

/* ---- fields ---- */

static void fields_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *status, *code, *param;
    } rows[] = {
        {"\"temperature\":3", "400", "invalid_value", "temperature"},
        {"\"temperature\":\"hot\"", "400", "invalid_value", "temperature"},
        {"\"top_p\":1.5", "400", "invalid_value", "top_p"},
        {"\"top_k\":-1", "400", "invalid_value", "top_k"},
        {"\"repetition_penalty\":0", "400", "invalid_value", "repetition_penalty"},
        {"\"presence_penalty\":-3", "400", "invalid_value", "presence_penalty"},
        {"\"seed\":1.5", "400", "invalid_value", "seed"},
        {"\"n\":0", "400", "invalid_value", "n"},
        {"\"n\":9", "400", "unsupported_value", "n"},
        {"\"max_tokens\":0", "400", "invalid_value", "max_tokens"},
        {"\"stop\":\"\"", "400", "invalid_value", "stop"},
        {"\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"0\",\"1\",\"2\","
         "\"3\",\"4\",\"5\",\"6\",\"7\"]",
         "400", "value_too_large", "stop"},
        {"\"stream_options\":{}", "400", "invalid_value", "stream_options"},
        {"\"top_logprobs\":2", "400", "invalid_value", "top_logprobs"},
        {"\"logprobs\":true,\"top_logprobs\":21", "400", "invalid_value", "top_logprobs"},
        {"\"tool_choice\":\"any\"", "400", "invalid_value", "tool_choice"},
        {"\"tool_choice\":{\"type\":\"function\"}", "400", "invalid_value", "tool_choice"},
        {"\"tools\":{}", "400", "invalid_value", "tools"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", "400",
         "invalid_value", "tools[0].function.name"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\","
         "\"function\":{\"name\":\"a\"}}]",
         "400", "invalid_value", "tools[1].function.name"},
        {"\"reasoning_effort\":\"much\"", "400", "invalid_value", "reasoning_effort"},
        {"\"response_format\":{\"type\":\"xml\"}", "400", "unsupported_value", "response_format"},
        {"\"modalities\":[\"audio\"]", "400", "unsupported_value", "modalities"},
        {"\"audio\":{}", "400", "unsupported_value", "audio"},
        {"\"functions\":[]", "400", "unsupported_value", "functions"},
        {"\"suffix\":\"x\"", "400", "unsupported_value", "suffix"},
        {"\"best_of\":2", "400", "unsupported_value", "best_of"},
        {"\"logit_bias\":{\"1\":2}", "400", "unsupported_value", "logit_bias"},
    };
    int fd = dial();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[2048], want[256];
        snprintf(body, sizeof body, "{%s,%s}", USER("plain"), rows[i].field);
        post(fd, CHAT, body);
        char *a = take_answer(fd);
        snprintf(want, sizeof want, "HTTP/1.1 %s", rows[i].status);
        expect(a, want);
        snprintf(want, sizeof want, "\"param\":\"%s\",\"code\":\"%s\"}}", rows[i].param,
                 rows[i].code);
        expect(a, want);
        free(a);
    }
    close(fd);
}

static void bodies_are_refused(void **state)
{
    (void)state;
    char deep[600] = "{\"a\":";
    for (int i = 0; i < 128; i++)
        strcat(deep, "[");
    const struct {
        const char *body, *want;
    } rows[] = {
        {"{", "\"code\":\"invalid_json\""},
        {"[]", "\"code\":\"invalid_json\""},
        {"{\"model\":1,\"model\":2}", "\"code\":\"invalid_json\""},
        {"{\"a\":18446744073709551615}", "\"param\":\"model\",\"code\":"},
        {"{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
         "\"seed\":18446744073709551615}",
         "\"param\":\"seed\",\"code\":\"invalid_value\""},
        {"{\"a\":1e400}", "\"code\":\"invalid_json\""},
        {deep, "nests deeper than 128"},
        {"{}", "\"param\":\"model\",\"code\":\"missing_required_parameter\""},
        {"{\"model\":\"gpt\"}", "\"param\":\"model\",\"code\":\"model_not_found\""},
        {"{\"model\":\"scripted_4-Bit\"}",
         "\"param\":\"messages\",\"code\":\"missing_required_parameter\""},
        {"{\"model\":\"scripted_4-Bit\",\"messages\":[]}",
         "\"param\":\"messages\",\"code\":\"invalid_value\""},
        {"{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"cat\",\"content\":\"\"}]}",
         "\"param\":\"messages[0].role\",\"code\":\"invalid_value\""},
        {"{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"image_url\"}]}]}",
         "\"param\":\"messages[0].content[0].type\",\"code\":\"unsupported_value\""},
        {"{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"assistant\",\"content\":"
         "\"x\"}]}",
         "\"param\":\"messages\",\"code\":\"unsupported_value\""},
        {"{\"model\":\"scripted_4-Bit\",\"messages\":[{\"role\":\"system\",\"content\":\"x\"}]}",
         "\"code\":\"template_error\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *a = chat(rows[i].body);
        expect(a, rows[i].want);
        free(a);
    }
}

static void a_prompt_that_does_not_fit(void **state)
{
    (void)state;
    char *body = malloc(40000);
    strcpy(body, "{\"model\":\"scripted_4-Bit\",\"stream\":true,\"messages\":[{\"role\":\"user\","
                 "\"content\":\"");
    for (int i = 0; i < 2100; i++)
        strcat(body + strlen(body), "one two ");
    strcat(body, "\"}]}");
    char *a = chat(body);
    expect(a, "HTTP/1.1 400");
    expect(a, "\"param\":\"messages\",\"code\":\"context_length_exceeded\"");
    free(a);
    free(body);
}

static void the_log_names_fields_and_no_text(void **state)
{
    (void)state;
    char *a = chat("{" USER(
        "plain SECRET-MARKER") ",\"max_tokens\":99999,\"user\":\"SECRET-USER\","
                               "\"SECRET-FIELD\":1,\"metadata\":{},\"reasoning_effort\":\"high\","
                               "\"tools\":[{\"type\":\"web_search\"}]}");
    expect(a, "200 OK");
    free(a);
    a = chat("{" USER("SECRET-MARKER\\u0000") ",\"x\":SECRET-BROKEN}");
    expect(a, "invalid_json");
    expect_not(a, "SECRET");
    free(a);
    a = once("GET", "/SECRET-PATH", "x-api-key: SECRET-KEY\r\n", NULL);
    free(a);
    char *log = log_text();
    expect(log, "adjusted=\"reasoning_effort max_tokens\"");
    expect(log, "ignored=\"user metadata others tools\"");
    expect_not(log, "SECRET");
    free(log);
}

/* ---- the queue ---- */

static void the_queue_has_an_end(void **state)
{
    (void)state;
    int a = dial(), b = dial(), c = dial();
    post(a, CHAT, "{" USER("gate one") "}");
    scripted_engine_await(w.engine, 1, 0);
    post(b, CHAT, "{" USER("plain") ",\"stream\":true}");
    char *head = take_until(b, "\r\n\r\n");
    expect(head, "200 OK");
    free(head);
    post(c, CHAT, "{" USER("plain") ",\"stream\":true}");
    char *refused = take_answer(c);
    expect(refused, "HTTP/1.1 429 Too Many Requests\r\n");
    expect(refused, "Retry-After: ");
    expect(refused, "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"queue_full\"");
    free(refused);
    char *metrics = once("GET", "/metrics", "", NULL);
    expect(metrics, "\ntinytitan_queue_running 1\n");
    expect(metrics, "\ntinytitan_queue_waiting 1\n");
    expect(metrics, "\ntinytitan_prefill_tokens_done 1\n");
    expect(metrics, "\ntinytitan_refusals_total{code=\"queue_full\"} 1\n");
    free(metrics);
    scripted_engine_open_gate(w.engine);
    char *first = take_answer(a), *second = take_until(b, "\r\n0\r\n\r\n");
    expect(first, "\"content\":\"through\"");
    expect(second, "data: [DONE]");
    free(first);
    free(second);
    close(a);
    close(b);
    close(c);
}

static void clients_that_leave(void **state)
{
    (void)state;
    int running = dial(), waiting = dial();
    post(running, CHAT, "{" USER("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    post(waiting, CHAT, "{" USER("gate") ",\"stream\":true}");
    char *head = take_until(waiting, "\r\n\r\n");
    free(head);
    /* One that waits leaves its place, one that runs stops; a half-closed socket is enough. */
    close(waiting);
    shutdown(running, SHUT_WR);
    scripted_engine_await(w.engine, 1, 1);
    char *end = take_until(running, NULL);
    expect_not(end, "[DONE]");
    free(end);
    close(running);
    scripted_engine_open_gate(w.engine);
    char *a = chat("{" USER("plain") "}");
    expect(a, "200 OK");
    free(a);
    assert_int_equal(scripted_engine_begun(w.engine), 2);
    a = once("GET", "/metrics", "", NULL);
    expect(a, "\ntinytitan_cancelled_total 2\n");
    free(a);
}

static void pipelined_requests_come_in_order(void **state)
{
    (void)state;
    int fd = dial(), other = dial();
    char *one = request_text("POST", CHAT, "", "{" USER("gate") "}");
    char *two = request_text("GET", "/health", "", NULL);
    char *both = malloc(strlen(one) + strlen(two) + 1);
    if (both == NULL)
        abort();
    sprintf(both, "%s%s", one, two);
    put(fd, both);
    scripted_engine_await(w.engine, 1, 0);
    /* Dropped with its connection; the requests of others are not. */
    post(other, CHAT, "{" USER("plain") "}");
    scripted_engine_open_gate(w.engine);
    char *a = take_answer(fd), *b = take_answer(fd), *c = take_answer(other);
    expect(a, "\"content\":\"through\"");
    expect(b, "{\"status\":\"ok\"}");
    expect(c, "\"content\":\"Once upon\"");
    free(a);
    free(b);
    free(c);
    scripted_engine_shut_gate(w.engine);
    put(fd, both);
    scripted_engine_await(w.engine, 3, 0);
    close(fd);
    scripted_engine_await(w.engine, 3, 1);
    a = chat("{" USER("plain") "}");
    expect(a, "200 OK");
    free(a);
    free(one);
    free(two);
    free(both);
    close(other);
}

/* ---- failures ---- */

static void failures_have_an_end(void **state)
{
    (void)state;
    char *a = chat("{" USER("broken") "}");
    expect(a, "HTTP/1.1 500 ");
    expect(a, "\"type\":\"server_error\",\"param\":null,\"code\":\"internal_error\"");
    expect_not(a, "disk");
    free(a);
    a = stream("{" USER("broken") ",\"stream\":true}");
    expect(a, "\"content\":\"a\"");
    expect(a, "data: {\"error\":{\"message\":\"the answer could not be computed\",\"type\":"
              "\"server_error\",\"param\":null,\"code\":\"internal_error\"}}\n\n"
              "data: [DONE]\n\n");
    free(a);
    char *log = log_text();
    expect(log, "detail=\"the disk is gone\"");
    free(log);
}

static void a_client_that_does_not_read(void **state)
{
    (void)state;
    int fd = dial();
    post(fd, CHAT, "{" USER("flood") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 1); /* cancelled: 1 MiB is unread */
    char *all = take_until(fd, NULL);
    expect(all + strlen(all) - 400, "\"code\":\"stream_overflow\"");
    expect(all + strlen(all) - 40, "data: [DONE]");
    free(all);
    close(fd);
}

/* ---- the end ---- */

static void the_end_with_work(void **state)
{
    (void)state;
    int running = dial(), waiting = dial(), idle = dial();
    post(running, CHAT, "{" USER("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    post(waiting, CHAT, "{" USER("plain") ",\"stream\":true}");
    free(take_until(waiting, "\r\n\r\n"));
    tt_server_stop(w.server);
    char *a = take_until(waiting, NULL);
    expect(a, "\"code\":\"shutting_down\"}}\n\n");
    expect(a, "data: [DONE]");
    free(a);
    ask(idle, "GET", "/health", "", NULL);
    a = take_answer(idle);
    expect(a, "HTTP/1.1 503");
    expect(a, "{\"status\":\"stopping\"}");
    free(a);
    a = chat("{" USER("plain") "}");
    expect(a, "\"code\":\"shutting_down\"");
    expect(a, "Retry-After: 30\r\n");
    free(a);
    scripted_engine_open_gate(w.engine);
    a = take_until(running, NULL);
    expect(a, "\"content\":\"through\"");
    expect(a, "data: [DONE]");
    free(a);
    wire_join();
    close(running);
    close(waiting);
    close(idle);
}

static int short_end(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.bounds.shutdown = 0.05;
    w.config.bounds.heartbeat = 0.02;
    w.config.log.json = true;
    wire_start();
    return 0;
}

static void the_end_does_not_wait_for_ever(void **state)
{
    (void)state;
    int stream_fd = dial(), plain_fd = dial();
    post(stream_fd, CHAT, "{" USER("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, 1, 0);
    char *a = take_until(stream_fd, ": ping\n\n");
    expect(a, ": ping\n\n");
    free(a);
    post(plain_fd, CHAT, "{" USER("gate") "}");
    tt_server_stop(w.server);
    a = take_until(stream_fd, NULL);
    expect(a, "\"code\":\"shutting_down\"");
    /* Nothing after the last event. */
    char *done = strstr(a, "data: [DONE]\n\n\r\n0\r\n\r\n");
    assert_non_null(done);
    assert_int_equal(strlen(done), strlen("data: [DONE]\n\n\r\n0\r\n\r\n"));
    free(a);
    a = take_until(plain_fd, NULL);
    expect(a, "\"code\":\"shutting_down\"");
    free(a);
    wire_join();
    close(stream_fd);
    close(plain_fd);
    a = log_text();
    expect(a, "\"path\":\"/v1/chat/completions\",\"status\":");
    free(a);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(an_answer),
        WITH(a_stream),
        WITH(stop_strings_and_log_probabilities),
        WITH(completions),
        WITH(tokenize),
        WITH(fields_are_refused),
        WITH(bodies_are_refused),
        WITH(a_prompt_that_does_not_fit),
        WITH(the_log_names_fields_and_no_text),
        WITH(the_queue_has_an_end),
        WITH(clients_that_leave),
        WITH(pipelined_requests_come_in_order),
        WITH(failures_have_an_end),
        WITH(a_client_that_does_not_read),
        WITH(the_end_with_work),
        cmocka_unit_test_setup_teardown(the_end_does_not_wait_for_ever, short_end, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
