/* Proves that no text of a prompt, an answer, a tool, a key, a path or a field's value is in the
 * log, in either of its forms, whatever becomes of the request, and that every request has its
 * line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "wire.h"

#define CHAT  "/v1/chat/completions"
#define MODEL "\"model\":\"scripted_4-Bit\""
#define MARK  "MARKER7"
#define USER(words)                                                                                \
    MODEL ",\"messages\":[{\"role\":\"user\",\"name\":\"" MARK "\",\"content\":\"" words " " MARK  \
          "\"}]"

static const char script[] =
    "[{\"match\":\"broken\",\"steps\":[{\"text\":\"" MARK "\"},{\"fail\":\"the disk is gone\"}]},"
    "{\"match\":\"call\",\"steps\":[{\"thought\":\"" MARK "\"},{\"bad_call\":true},{\"call\":"
    "{\"name\":\"" MARK "\",\"arguments\":{\"" MARK "\":\"" MARK "\"}}}]},"
    "{\"match\":\"form\",\"takes\":[],\"steps\":[{\"text\":\"" MARK "\"}]},"
    "{\"match\":\"gate\",\"steps\":[{\"text\":\"" MARK "\"},{\"gate\":true}]},"
    "{\"steps\":[{\"text\":\"" MARK "\"}]}]";

static int set_up(bool json)
{
    static const char *const origins[] = {"https://app.example"};
    wire_prepare(script);
    w.config.log.json = json;
    w.config.key = "sesame";
    w.config.origins = origins;
    w.config.n_origins = 1;
    wire_start();
    return 0;
}

static int plain_log(void **state)
{
    (void)state;
    return set_up(false);
}

static int json_log(void **state)
{
    (void)state;
    return set_up(true);
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

#define KEY "x-api-key: sesame\r\n"
#define TOOL                                                                                       \
    "{\"type\":\"function\",\"function\":{\"name\":\"" MARK "\",\"description\":\"" MARK           \
    "\",\"parameters\":{\"" MARK "\":1}}}"
#define STRICT                                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"" MARK "\",\"parameters\":{\"" MARK           \
    "\":1},\"strict\":true}}"

static const struct {
    const char *method, *path, *fields, *body;
    int status;
} rows[] = {
    {"POST", CHAT, KEY, "{" USER("x") "}", 200},
    {"POST", CHAT, KEY, "{" USER("call") ",\"tools\":[" TOOL ",{\"type\":\"" MARK "\"}]}", 200},
    {"POST", CHAT, KEY,
     "{" USER("x") ",\"stop\":\"" MARK "\",\"user\":\"" MARK "\",\"" MARK
                   "\":1,\"metadata\":{\"" MARK "\":\"" MARK "\"},\"max_tokens\":99999,"
                   "\"chat_template_kwargs\":{\"" MARK "\":\"" MARK "\"}}",
     200},
    /* What a grammar is made of, and cannot be made of. */
    {"POST", CHAT, KEY, "{" USER("x") ",\"tools\":[" STRICT "]}", 400},
    {"POST", CHAT, KEY,
     "{" USER(
         "x") ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"" MARK
              "\",\"schema\":{\"" MARK "\":1}}}}",
     400},
    {"POST", CHAT, KEY, "{" USER("form") ",\"tools\":[" TOOL "],\"tool_choice\":\"required\"}",
     200},
    /* A history that is repaired. */
    {"POST", CHAT, KEY,
     "{" MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"" MARK
     "\"},{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"" MARK
     "\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"" MARK
     "\",\"arguments\":\"" MARK "\"}}]},{\"role\":\"system\",\"content\":\"" MARK
     "\"},{\"role\":\"tool\",\"tool_call_id\":\"" MARK "\",\"content\":\"" MARK
     "\"},{\"role\":\"user\",\"content\":\"" MARK "\"}]}",
     200},
    {"POST", CHAT, KEY, "{" USER("broken") "}", 500},
    {"POST", CHAT, KEY, "{" USER("x") ",\"temperature\":\"" MARK "\"}", 400},
    {"POST", CHAT, KEY, "{" USER("x") ",\"reasoning_effort\":\"" MARK "\"}", 400},
    {"POST", CHAT, KEY, "{" USER("x") ",\"tools\":[" TOOL "," TOOL "]}", 400},
    {"POST", CHAT, KEY,
     "{" MODEL ",\"messages\":[{\"role\":\"" MARK "\",\"content\":\"" MARK "\"}]}", 400},
    {"POST", CHAT, KEY,
     "{" MODEL ",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"" MARK "\"}]}]}", 400},
    {"POST", CHAT, KEY, "{" MODEL ",\"messages\":[{\"role\":\"system\",\"content\":\"" MARK "\"}]}",
     400},
    {"POST", CHAT, KEY, "{\"model\":\"" MARK "\",\"messages\":[]}", 404},
    {"POST", CHAT, KEY, "{\"" MARK "\":" MARK "}", 400},
    {"POST", CHAT, KEY, "{\"" MARK "\":1,\"" MARK "\":2}", 400},
    {"POST", "/v1/completions", KEY, "{" MODEL ",\"prompt\":\"" MARK "\",\"echo\":false}", 200},
    {"POST", "/v1/completions", KEY, "{" MODEL ",\"prompt\":[\"" MARK "\",\"b\"]}", 400},
    {"POST", "/v1/completions", KEY, "{" MODEL ",\"prompt\":\"a\",\"suffix\":\"" MARK "\"}", 400},
    {"POST", "/tokenize", KEY, "{" MODEL ",\"content\":\"" MARK "\"}", 200},
    {"GET", "/v1/models/" MARK, KEY, NULL, 404},
    {"GET", "/health?" MARK, "A-" MARK ": " MARK "\r\n", NULL, 200},
    {"GET", "/" MARK, KEY, NULL, 404},
    {MARK, "/health", "", NULL, 405},
    {"GET", "/metrics", "Authorization: Bearer " MARK "\r\n", NULL, 401},
    {"GET", "/metrics", "x-api-key: " MARK "\r\n", NULL, 401},
    {"GET", "/health", "Origin: http://" MARK ".example\r\n", NULL, 403},
    {"POST", CHAT, KEY "Content-Encoding: " MARK "\r\n", "{}", 415},
    {"POST", CHAT, KEY "Expect: " MARK "\r\n", "{}", 417},
    {"GET", "/ " MARK, "", NULL, 400},
    {"GET", "/health", MARK "\r\n", NULL, 400},
    {"POST", "/v1/message", "anthropic-version: " MARK "\r\n" KEY, "{\"" MARK "\":1}", 404},
};

/* Lines that say something about a request. */
static size_t check_lines(char *log)
{
    size_t n = 0;
    char *at = NULL;
    for (char *line = strtok_r(log, "\n", &at); line != NULL; line = strtok_r(NULL, "\n", &at)) {
        json_t *tree = NULL;
        if (w.config.log.json) {
            assert_int_equal(tt_json_parse(line, strlen(line), "line", &tree, NULL), TT_OK);
            n += json_object_get(tree, "status") != NULL;
            json_decref(tree);
        } else {
            n += strstr(line, " status=") != NULL;
        }
    }
    return n;
}

static void no_text_in_the_log(void **state)
{
    (void)state;
    const size_t n = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < n; i++) {
        char want[32], *a = once(rows[i].method, rows[i].path, rows[i].fields, rows[i].body);
        snprintf(want, sizeof want, "HTTP/1.1 %d ", rows[i].status);
        expect(a, want);
        free(a);
    }
    /* A stream that fails, a client that leaves, and bytes that are no request. */
    int fd = dial();
    ask(fd, "POST", CHAT, KEY, "{" USER("broken") ",\"stream\":true}");
    char *a = take_until(fd, "[DONE]");
    expect(a, MARK);
    free(a);
    close(fd);
    unsigned begun = scripted_engine_begun(w.engine);
    fd = dial();
    ask(fd, "POST", CHAT, KEY, "{" USER("gate") ",\"stream\":true}");
    scripted_engine_await(w.engine, begun + 1, 0);
    close(fd);
    scripted_engine_await(w.engine, begun + 1, 1);
    fd = dial();
    put(fd, MARK "\n" MARK);
    a = take_until(fd, NULL);
    expect(a, "HTTP/1.1 400 ");
    free(a);
    close(fd);
    tt_server_stop(w.server);
    wire_join();
    char *log = log_text();
    expect_not(log, MARK);
    expect_not(log, "sesame");
    expect(log, "tools[0].function:others");
    assert_int_equal(check_lines(log), n + 3);
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"plain", no_text_in_the_log, plain_log, tear_down, NULL},
        {"json", no_text_in_the_log, json_log, tear_down, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
