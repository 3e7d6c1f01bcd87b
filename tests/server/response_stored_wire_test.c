/* Proves on the wire what docs/http.md says of stored responses: what continues one renders as its
 * items sent by hand and as references to them, turn after turn with the same beginning; lists,
 * pages, deletion, refusals; and that a compaction takes the place of what it summarizes. */
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
    "[{\"match\":\"Summarize the conversation\",\"steps\":[{\"thought\":\"hm\"},{\"text\":"
    "\"They met \"},{\"call\":{\"name\":\"f\",\"arguments\":{}}},{\"text\":\"a fox.\"}]},"
    "{\"match\":\"sunny\",\"steps\":[{\"thought\":\"good\"},{\"text\":\"It is sunny.\"}]},"
    "{\"match\":\"weather\",\"steps\":[{\"thought\":\"I look.\"},{\"text\":\"Wait.\"},{\"call\":"
    "{\"name\":\"look\",\"arguments\":{\"at\":1}}},{\"call\":{\"name\":\"patch\",\"arguments\":"
    "{\"input\":\"***\"}}}]},"
    "{\"match\":\"long\",\"finish\":\"length\",\"steps\":[{\"text\":\"a\"}]},"
    "{\"match\":\"broken\",\"steps\":[{\"fail\":\"no\"}]},"
    "{\"match\":\"gate\",\"steps\":[{\"gate\":true},{\"text\":\"through\"}]},"
    "{\"steps\":[{\"text\":\"else\"}]}]";

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

/* ---- answers as trees ---- */

static json_t *tree_of(char *answer, const char *status)
{
    expect(answer, status);
    json_t *tree = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL);
    assert_non_null(tree);
    free(answer);
    return tree;
}

static json_t *ok(char *answer)
{
    return tree_of(answer, "HTTP/1.1 200 OK\r\n");
}

static const char *word(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    assert_non_null(text);
    return text;
}

static json_t *respond(const char *fmt, ...)
{
    char body[8192];
    va_list args;
    va_start(args, fmt);
    vsnprintf(body, sizeof body, fmt, args);
    va_end(args);
    return ok(once("POST", PATH, "", body));
}

static char *get_text(const char *id, const char *more)
{
    char path[256];
    snprintf(path, sizeof path, PATH "/%s%s", id, more);
    return once("GET", path, "", NULL);
}

static void refused(char *answer, const char *status, const char *code)
{
    char want[128];
    snprintf(want, sizeof want, "HTTP/1.1 %s ", status);
    expect(answer, want);
    snprintf(want, sizeof want, "\"code\":\"%s\"}}", code);
    expect(answer, want);
    free(answer);
}

/* ---- continuing ---- */

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"name\":\"look\"},{\"type\":\"custom\",\"name\":"          \
    "\"patch\"}]"
#define QUESTION "{\"role\":\"user\",\"content\":\"What is the weather?\"}"

/* Results for the calls of an answer, and `more` behind them. */
static char *results_of(const json_t *answer, const char *more)
{
    const json_t *output = json_object_get(answer, "output");
    char *text = calloc(1, 4096);
    assert_non_null(text);
    assert_int_equal(json_array_size(output), 4);
    sprintf(text,
            "{\"type\":\"function_call_output\",\"call_id\":\"%s\",\"output\":\"sunny\"},"
            "{\"type\":\"custom_tool_call_output\",\"call_id\":\"%s\",\"output\":[{\"type\":"
            "\"input_text\",\"text\":\"do\"},{\"type\":\"input_text\",\"text\":\"ne\"}]}%s",
            word(json_array_get(output, 2), "call_id"), word(json_array_get(output, 3), "call_id"),
            more);
    return text;
}

/* The output of an answer as items of an input. */
static char *items_of(const json_t *answer, bool references)
{
    const json_t *output = json_object_get(answer, "output");
    char *text = calloc(1, 8192);
    size_t i;
    json_t *item;
    assert_non_null(text);
    json_array_foreach(output, i, item)
    {
        char *json = json_dumps(item, JSON_COMPACT);
        if (references)
            sprintf(text + strlen(text), "{\"type\":\"item_reference\",\"id\":\"%s\"},",
                    word(item, "id"));
        else
            sprintf(text + strlen(text), "%s,", json);
        free(json);
    }
    return text;
}

static void all_ways_of_continuing_are_one(void **state)
{
    (void)state;
    json_t *first =
        respond("{" MODEL ",\"instructions\":\"Be kind.\"," TOOLS ",\"input\":[" QUESTION "]}");
    char *results = results_of(first, ""), *by_hand = items_of(first, false);
    char *references = items_of(first, true), *want;
    json_t *second = respond("{" MODEL ",\"instructions\":\"Be kind.\"," TOOLS
                             ",\"previous_response_id\":\"%s\",\"input\":[%s]}",
                             word(first, "id"), results);
    assert_string_equal(word(second, "previous_response_id"), word(first, "id"));
    want = seen_copy(seen.messages);
    expect(want, "{\"role\":\"assistant\",\"content\":\"Wait.\",\"reasoning_content\":\"I look.\","
                 "\"tool_calls\":[{\"type\":\"function\",\"id\":\"call_");
    expect(want, "\"name\":\"patch\",\"arguments\":{\"input\":\"***\"}}}]},");
    expect(want, "\"content\":\"done\"");
    json_decref(respond("{" MODEL ",\"instructions\":\"Be kind.\"," TOOLS ",\"input\":[" QUESTION
                        ",%s%s]}",
                        by_hand, results));
    assert_string_equal(seen.messages, want);
    json_decref(respond("{" MODEL ",\"instructions\":\"Be kind.\"," TOOLS ",\"store\":false,"
                        "\"input\":[" QUESTION ",%s%s]}",
                        references, results));
    assert_string_equal(seen.messages, want);
    /* Instructions are those of the request alone. */
    json_decref(respond("{" MODEL "," TOOLS ",\"previous_response_id\":\"%s\",\"input\":[%s]}",
                        word(first, "id"), results));
    expect(seen.messages, "\"reasoning_content\":\"I look.\"");
    expect_not(seen.messages, "Be kind.");
    free(want);
    free(results);
    free(by_hand);
    free(references);
    json_decref(first);
    json_decref(second);
}

/* Without a store and with nothing but what is carried, thoughts come back. */
static void carried_thoughts_are_read(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "\"store\":false,\"include\":[\"reasoning.encrypted_content\"]",
        "\"store\":false,\"reasoning\":{\"summary\":\"auto\"},\"include\":[\"reasoning.encrypted_"
        "content\"]",
        "\"reasoning\":{\"summary\":\"auto\"}"};
    for (int k = 0; k < 3; k++) {
        json_t *first = respond("{" MODEL ",%s," TOOLS ",\"input\":[" QUESTION "]}", settings[k]);
        json_t *thought = json_array_get(json_object_get(first, "output"), 0);
        assert_string_equal(word(thought, "type"), "reasoning");
        json_object_del(thought, "content");
        if (k < 2) {
            assert_true(strlen(word(thought, "encrypted_content")) > 0);
            json_object_set_new(thought, "summary", json_array());
        }
        char *results = results_of(first, ""), *items = items_of(first, false);
        json_decref(respond("{" MODEL ",\"input\":[" QUESTION ",%s%s]}", items, results));
        expect(seen.messages, "\"reasoning_content\":\"I look.\"");
        free(results);
        free(items);
        json_decref(first);
    }
}

/* Turn after turn the prompt begins with the one before. */
static void the_beginning_stays(void **state)
{
    (void)state;
    char *before = NULL, id[64] = "";
    for (int turn = 0; turn < 6; turn++) {
        json_t *a;
        if (turn == 0)
            a = respond("{" MODEL ",\"input\":\"one\"}");
        else
            a = respond("{" MODEL ",\"previous_response_id\":\"%s\",\"input\":[{\"role\":"
                        "\"user\",\"content\":\"next %d\"}%s]}",
                        id, turn, turn == 3 ? ",{\"role\":\"system\",\"content\":\"now\"}" : "");
        snprintf(id, sizeof id, "%s", word(a, "id"));
        if (before != NULL)
            assert_int_equal(strncmp(before, seen.messages, strlen(before) - 1), 0);
        free(before);
        before = seen_copy(seen.messages);
        json_decref(a);
    }
    expect(before, "next 5");
    free(before);
}

/* What a coding client sends: its shape, all of its history every time, nothing stored. */
static void a_coding_client(void **state)
{
    (void)state;
    static const char head[] =
        "{" MODEL ",\"instructions\":\"You are a coding agent.\",\"tool_choice\":\"auto\","
        "\"parallel_tool_calls\":false,\"store\":false,\"stream\":true,\"reasoning\":{\"effort\":"
        "\"medium\",\"summary\":\"auto\"},\"include\":[\"reasoning.encrypted_content\"],"
        "\"prompt_cache_key\":\"k\",\"client_metadata\":{\"x\":\"y\"},\"text\":{\"verbosity\":"
        "\"low\"},\"tools\":[{\"type\":\"function\",\"name\":\"look\",\"description\":\"d\","
        "\"strict\":false,\"parameters\":{\"type\":\"object\",\"properties\":{\"at\":{\"type\":"
        "\"number\"}},\"additionalProperties\":false}},{\"type\":\"custom\",\"name\":\"patch\","
        "\"description\":\"Edits.\",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\","
        "\"definition\":\"start: x\"}},{\"type\":\"web_search\",\"external_web_access\":false},"
        "{\"type\":\"tool_search\",\"execution\":\"client\"},{\"type\":\"namespace\",\"name\":"
        "\"mcp__mail\",\"description\":\"\",\"tools\":[{\"type\":\"function\",\"name\":\"find\","
        "\"strict\":false,\"defer_loading\":true,\"parameters\":{\"type\":\"object\"}}]}],"
        "\"input\":[{\"type\":\"message\",\"role\":\"developer\",\"content\":[{\"type\":"
        "\"input_text\",\"text\":\"rules\"}]},{\"type\":\"message\",\"role\":\"user\",\"content\":"
        "[{\"type\":\"input_text\",\"text\":\"<environment>\"}]},{\"type\":\"message\",\"role\":"
        "\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"What is the weather?\"}]}";
    char *body = calloc(1, 1 << 16);
    int fd = dial();
    assert_non_null(body);
    sprintf(body, "%s]}", head);
    post(fd, PATH, body);
    char *all = take_until(fd, "\r\n0\r\n\r\n"), *events = unchunked(all);
    char *last = strstr(events, "event: response.completed\ndata: ");
    assert_non_null(last);
    json_t *done = json_loads(strchr(last, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    json_t *answer = json_object_get(done, "response");
    /* One call a turn. */
    assert_int_equal(json_array_size(json_object_get(answer, "output")), 3);
    char *before = seen_copy(seen.messages), *items = items_of(answer, false);
    expect(before, "[{\"role\":\"system\",\"content\":\"You are a coding agent.\\n\\nrules\"},");
    sprintf(body,
            "%s,%s{\"type\":\"function_call_output\",\"call_id\":\"%s\",\"output\":\"sunny\"}]}",
            head, items, word(json_array_get(json_object_get(answer, "output"), 2), "call_id"));
    post(fd, PATH, body);
    free(all);
    all = take_until(fd, "\r\n0\r\n\r\n");
    expect(all, "event: response.output_text.delta");
    assert_int_equal(strncmp(before, seen.messages, strlen(before) - 1), 0);
    expect(seen.messages, "\"reasoning_content\":\"I look.\"");
    expect(seen.tools, "\"name\":\"mcp__mail.find\"");
    free(before);
    free(items);
    free(all);
    free(events);
    free(body);
    json_decref(done);
    close(fd);
}

/* ---- what is stored ---- */

static void a_stored_response_is_the_one_answered(void **state)
{
    (void)state;
    json_t *first = respond("{" MODEL ",\"input\":\"hi\",\"metadata\":{\"a\":\"b\"}}"), *again;
    const char *id = word(first, "id");
    again = ok(get_text(id, ""));
    assert_true(json_equal(first, again));
    json_decref(again);
    again = ok(get_text(id, "?include=x&stream=false"));
    assert_true(json_equal(first, again));
    json_decref(again);
    refused(get_text(id, "?stream=true"), "400", "unsupported_value");
    refused(get_text("resp_none", ""), "404", "response_not_found");
    char path[128];
    snprintf(path, sizeof path, PATH "/%s", id);
    int fd = dial();
    ask(fd, "HEAD", path, "", NULL);
    char *head = take_until(fd, "\r\n\r\n");
    expect(head, "200 OK");
    expect_not(head, "Content-Length: 0\r\n");
    free(head);
    /* No body came: the next answer on the connection begins at once. */
    ask(fd, "GET", "/health", "", NULL);
    head = take_answer(fd);
    assert_int_equal(strncmp(head, "HTTP/1.1 200", 12), 0);
    free(head);
    close(fd);
    json_decref(first);
    /* An incomplete one is kept as well, and one of a stream. */
    first = respond("{" MODEL ",\"input\":\"long\"}");
    again = ok(get_text(word(first, "id"), ""));
    assert_string_equal(word(again, "status"), "incomplete");
    json_decref(again);
    json_decref(first);
    fd = dial();
    post(fd, PATH, "{" MODEL ",\"input\":\"hi\",\"stream\":true}");
    char *e = take_until(fd, "\r\n0\r\n\r\n");
    const char *at = strstr(e, "\"id\":\"resp_");
    snprintf(path, sizeof path, "%.29s", at + 6);
    again = ok(get_text(path, ""));
    assert_string_equal(word(again, "status"), "completed");
    json_decref(again);
    free(e);
    close(fd);
}

static void what_is_not_stored(void **state)
{
    (void)state;
    json_t *first = respond("{" MODEL ",\"input\":\"hi\",\"store\":false}");
    char body[256];
    refused(get_text(word(first, "id"), ""), "404", "response_not_found");
    snprintf(body, sizeof body, "{" MODEL ",\"input\":\"hi\",\"previous_response_id\":\"%s\"}",
             word(first, "id"));
    refused(once("POST", PATH, "", body), "404", "previous_response_not_found");
    json_decref(first);
    /* One that is kept, by a name that goes on behind U+0000. */
    first = respond("{" MODEL ",\"input\":\"hi\"}");
    snprintf(body, sizeof body,
             "{" MODEL ",\"input\":\"hi\",\"previous_response_id\":\"%s\\u0000x\"}",
             word(first, "id"));
    refused(once("POST", PATH, "", body), "404", "previous_response_not_found");
    json_decref(first);
    /* One whose client left. */
    int fd = dial();
    post(fd, PATH, "{" MODEL ",\"input\":\"gate\",\"stream\":true}");
    char *head = take_until(fd, "\"id\":\"resp_"), *id = take_until(fd, "\"");
    snprintf(body, sizeof body, "resp_%.24s", id);
    shutdown(fd, SHUT_WR);
    scripted_engine_await(w.engine, 2, 1);
    refused(get_text(body, ""), "404", "response_not_found");
    free(head);
    free(id);
    close(fd);
}

/* An item that was answered, sent back as it came, is listed as it was answered. */
static void items_come_back_as_they_went(void **state)
{
    static const char *const wishes[] = {"", ",\"reasoning\":{\"summary\":\"auto\"}",
                                         ",\"include\":[\"reasoning.encrypted_content\"]"};
    (void)state;
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        json_t *first = respond("{" MODEL ",\"input\":[" QUESTION "]," TOOLS "%s}", wishes[i]);
        char *items = items_of(first, false), *results = results_of(first, "");
        json_t *second =
            respond("{" MODEL ",\"input\":[" QUESTION ",%s%s]," TOOLS "}", items, results);
        json_t *list = ok(get_text(word(second, "id"), "/input_items?order=asc")), *item;
        size_t k;
        json_array_foreach(json_object_get(first, "output"), k, item)
        {
            const json_t *listed = json_array_get(json_object_get(list, "data"), k + 1);
            if (!json_equal(listed, item))
                fail_msg("%s instead of %s", json_dumps(listed, 0), json_dumps(item, 0));
        }
        assert_int_equal(k, 4);
        json_decref(list);
        json_decref(second);
        json_decref(first);
        free(items);
        free(results);
    }
}

static json_t *page(const char *id, const char *query)
{
    char more[256];
    snprintf(more, sizeof more, "/input_items%s", query);
    json_t *list = ok(get_text(id, more)), *data = json_object_get(list, "data");
    assert_string_equal(word(list, "object"), "list");
    size_t n = json_array_size(data);
    assert_string_equal(word(list, "first_id"), n > 0 ? word(json_array_get(data, 0), "id") : "");
    assert_string_equal(word(list, "last_id"),
                        n > 0 ? word(json_array_get(data, n - 1), "id") : "");
    return list;
}

static const char *said(const json_t *list, size_t i)
{
    const json_t *item = json_array_get(json_object_get(list, "data"), i);
    return word(json_array_get(json_object_get(item, "content"), 0), "text");
}

static void lists_have_pages(void **state)
{
    (void)state;
    char body[8192] = "{" MODEL ",\"input\":[", query[128];
    for (int i = 0; i < 25; i++)
        sprintf(body + strlen(body), "%s{\"role\":\"user\",\"content\":\"u%d\"%s}",
                i > 0 ? "," : "", i, i == 7 ? ",\"id\":\"msg_seven\"" : "");
    strcat(body, "]}");
    json_t *first = respond("%s", body), *list, *next;
    const char *id = word(first, "id");
    list = page(id, "");
    assert_int_equal(json_array_size(json_object_get(list, "data")), 20);
    assert_true(json_is_true(json_object_get(list, "has_more")));
    assert_string_equal(said(list, 0), "u24");
    snprintf(query, sizeof query, "?after=%s&order=desc", word(list, "last_id"));
    next = page(id, query);
    assert_int_equal(json_array_size(json_object_get(next, "data")), 5);
    assert_true(json_is_false(json_object_get(next, "has_more")));
    assert_string_equal(said(next, 4), "u0");
    snprintf(query, sizeof query, "?after=%s", word(next, "last_id"));
    json_decref(list);
    list = page(id, query);
    assert_int_equal(json_array_size(json_object_get(list, "data")), 0);
    json_decref(list);
    json_decref(next);
    list = page(id, "?order=asc&limit=2&after=msg%5Fseven");
    assert_int_equal(json_array_size(json_object_get(list, "data")), 2);
    assert_string_equal(said(list, 0), "u8");
    assert_string_equal(said(list, 1), "u9");
    assert_true(json_is_true(json_object_get(list, "has_more")));
    json_decref(list);
    list = page(id, "?order=asc&limit=100");
    assert_int_equal(json_array_size(json_object_get(list, "data")), 25);
    char *item = json_dumps(json_array_get(json_object_get(list, "data"), 7), JSON_COMPACT);
    assert_string_equal(item, "{\"type\":\"message\",\"status\":\"completed\",\"role\":\"user\","
                              "\"content\":[{\"type\":\"input_text\",\"text\":\"u7\"}],\"id\":"
                              "\"msg_seven\"}");
    free(item);
    json_decref(list);
    static const char *const wrong[] = {
        "?limit=0", "?limit=101", "?limit=x", "?limit=", "?order=up", "?after=no", "?limit=1%00"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(query, sizeof query, "/input_items%s", wrong[i]);
        char *a = get_text(id, query);
        expect(a, "HTTP/1.1 400 ");
        free(a);
    }
    refused(get_text("resp_none", "/input_items"), "404", "response_not_found");
    json_decref(first);
}

static char *delete (const char *id)
{
    char path[128];
    snprintf(path, sizeof path, PATH "/%s", id);
    return once("DELETE", path, "", NULL);
}

static void what_is_deleted_is_gone_and_its_items_are_not(void **state)
{
    (void)state;
    json_t *first = respond("{" MODEL ",\"input\":\"one\"}");
    json_t *second =
        respond("{" MODEL ",\"input\":\"two\",\"previous_response_id\":\"%s\"}", word(first, "id"));
    json_t *gone = ok(delete (word(first, "id")));
    assert_string_equal(word(gone, "id"), word(first, "id"));
    assert_string_equal(word(gone, "object"), "response");
    assert_true(json_is_true(json_object_get(gone, "deleted")));
    refused(delete (word(first, "id")), "404", "response_not_found");
    refused(get_text(word(first, "id"), ""), "404", "response_not_found");
    json_t *list = page(word(second, "id"), "?order=asc");
    assert_int_equal(json_array_size(json_object_get(list, "data")), 3);
    assert_string_equal(said(list, 0), "one");
    assert_string_equal(said(list, 1), "else");
    assert_string_equal(said(list, 2), "two");
    json_decref(respond("{" MODEL ",\"input\":\"three\",\"previous_response_id\":\"%s\"}",
                        word(second, "id")));
    expect(seen.messages, "\"one\"");
    json_decref(list);
    json_decref(gone);
    json_decref(first);
    json_decref(second);
}

static void nothing_is_cancelled_by_name(void **state)
{
    (void)state;
    json_t *first = respond("{" MODEL ",\"input\":\"one\"}");
    char path[128];
    snprintf(path, sizeof path, PATH "/%s/cancel", word(first, "id"));
    /* SDKs send neither a body nor its type here. */
    refused(once("POST", path, "", NULL), "400", "unsupported_value");
    refused(once("POST", path, "", "{}"), "400", "unsupported_value");
    refused(once("POST", PATH "/resp_none/cancel", "", NULL), "404", "response_not_found");
    refused(once("POST", path, "Content-Length: 2\r\n", NULL), "415", "unsupported_media_type");
    refused(once("POST", PATH "/x", "", "{}"), "405", "method_not_allowed");
    refused(once("DELETE", PATH, "", NULL), "405", "method_not_allowed");
    json_decref(first);
}

static void the_oldest_are_forgotten(void **state)
{
    (void)state;
    json_t *first = respond("{" MODEL ",\"input\":\"one\"}");
    int fd = dial();
    for (int i = 0; i < 256; i++) {
        post(fd, PATH, "{" MODEL ",\"input\":\"more\"}");
        free(take_answer(fd));
        if (i == 254)
            json_decref(ok(get_text(word(first, "id"), "")));
    }
    refused(get_text(word(first, "id"), ""), "404", "response_not_found");
    json_decref(first);
    close(fd);
}

/* ---- compaction ---- */

static json_t *compact(const char *fmt, ...)
{
    char body[8192];
    va_list args;
    va_start(args, fmt);
    vsnprintf(body, sizeof body, fmt, args);
    va_end(args);
    return ok(once("POST", PATH "/compact", "", body));
}

static void a_compaction_takes_the_place(void **state)
{
    (void)state;
    json_t *first = respond("{" MODEL ",\"instructions\":\"Be kind.\",\"input\":\"one\"}");
    json_t *made =
        compact("{" MODEL ",\"instructions\":\"Be kind.\",\"previous_response_id\":\"%s\","
                "\"input\":[{\"role\":\"user\",\"content\":\"two\"}],"
                "\"prompt_cache_key\":\"k\"}",
                word(first, "id"));
    assert_string_equal(word(made, "object"), "response.compaction");
    assert_int_equal(seen.thinking, TT_THINKING_OFF);
    expect(seen.messages, "[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\","
                          "\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"else\"},"
                          "{\"role\":\"user\",\"content\":\"two\"},{\"role\":\"user\",\"content\":"
                          "\"Summarize the conversation");
    json_t *item = json_array_get(json_object_get(made, "output"), 0);
    assert_string_equal(word(item, "type"), "compaction");
    char *json = json_dumps(item, JSON_COMPACT);
    assert_true(
        json_integer_value(json_object_get(json_object_get(made, "usage"), "output_tokens")) > 0);
    json_t *next =
        respond("{" MODEL ",\"input\":[%s,{\"role\":\"user\",\"content\":\"three\"}]}", json);
    same(seen.messages, "[{\"role\":\"user\",\"content\":\"The conversation so far, summarized:\\n"
                        "<summary>\\nThey met a fox.\\n</summary>\"},{\"role\":\"user\","
                        "\"content\":\"three\"}]");
    /* It is an item like others afterwards. */
    json_t *list = ok(get_text(word(next, "id"), "/input_items?order=asc&limit=1"));
    assert_true(json_equal(json_array_get(json_object_get(list, "data"), 0), item));
    refused(get_text(word(made, "id"), ""), "404", "response_not_found");
    free(json);
    json_decref(list);
    json_decref(next);
    json_decref(first);
    json_decref(made);
}

/* More than the context holds: the oldest is left out, and no more than must be. */
static void a_long_conversation_is_compacted(void **state)
{
    (void)state;
    char *body = calloc(1, 1 << 20);
    assert_non_null(body);
    strcpy(body, "{" MODEL ",\"instructions\":\"Be kind.\",\"input\":[");
    for (int i = 0; i < 100; i++) {
        sprintf(body + strlen(body), "%s{\"role\":\"user\",\"content\":\"number %d",
                i > 0 ? "," : "", i);
        for (int k = 0; k < 20; k++)
            strcat(body + strlen(body), " one two");
        strcat(body + strlen(body), "\"}");
    }
    strcat(body + strlen(body), "]}");
    json_t *made = ok(once("POST", PATH "/compact", "", body));
    /* 2048 tokens of context, an eighth of them for the summary. */
    assert_true(seen.n <= 2048 - 256 && seen.n > 2048 - 256 - 100);
    expect(seen.messages, "Be kind.");
    expect(seen.messages, "number 99 ");
    expect_not(seen.messages, "number 0 ");
    assert_true(seen.times < 12);
    char *log = log_text();
    expect(log, "adjusted=input");
    free(log);
    free(body);
    json_decref(made);
}

static void compactions_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *status, *code;
    } rows[] = {{"{}", "400", "missing_required_parameter"},
                {"{" MODEL "}", "400", "missing_required_parameter"},
                {"{" MODEL ",\"input\":[]}", "400", "invalid_value"},
                {"{" MODEL ",\"input\":[{\"type\":\"input_image\"}]}", "400", "unsupported_value"},
                {"{" MODEL ",\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", "404",
                 "previous_response_not_found"},
                {"{\"model\":\"gpt\",\"input\":\"x\"}", "404", "model_not_found"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refused(once("POST", PATH "/compact", "", rows[i].body), rows[i].status, rows[i].code);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(all_ways_of_continuing_are_one),
        WITH(carried_thoughts_are_read),
        WITH(the_beginning_stays),
        WITH(a_coding_client),
        WITH(a_stored_response_is_the_one_answered),
        WITH(what_is_not_stored),
        WITH(items_come_back_as_they_went),
        WITH(lists_have_pages),
        WITH(what_is_deleted_is_gone_and_its_items_are_not),
        WITH(nothing_is_cancelled_by_name),
        WITH(the_oldest_are_forgotten),
        WITH(a_compaction_takes_the_place),
        WITH(a_long_conversation_is_compacted),
        WITH(compactions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
