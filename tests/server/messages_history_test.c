/* Proves the table of blocks of docs/http.md, section 14.2, row by row, and that conversations in
 * the shape that coding clients send are rendered with the same beginning on each turn, whatever
 * changes in the lines that are none of the conversation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/messages_history.h"
#include "server/messages_request.h"
#include "server/prompt_render.h"

static tt_tokenizer *tok;
static tt_engine_info info = {.model = "m", .max_context = 1u << 20};

static json_t *parsed(const char *text)
{
    json_t *v = NULL;
    tt_error err = {.offset = -1};
    if (tt_json_parse(text, strlen(text), "t", &v, &err) != TT_OK)
        fail_msg("%s at %lld of %s", err.message, (long long)err.offset, text);
    return v;
}

/* ---- blocks ---- */

/* What becomes of a body's system and messages, as text; "!PARAM" when it is refused. */
static void convert(const char *body, char *out, char *notes)
{
    json_t *in = parsed(body), *list = NULL;
    tt_answer_request r;
    tt_refusal why;
    tt_fields f;
    tt_fields_init(&f, in, &info, &r, &why);
    if (tt_messages_history(&f, json_object_get(in, "system"), json_object_get(in, "messages"),
                            &list)) {
        char *text = json_dumps(list, JSON_COMPACT);
        strcpy(out, text);
        free(text);
    } else {
        assert_true(why.status == 400 && why.message[0] != '\0');
        sprintf(out, "!%s", why.param);
    }
    sprintf(notes, "%s%s%s", f.repaired.len > 0 ? f.repaired.data : "",
            f.ignored.len > 0 ? " ignored " : "", f.ignored.len > 0 ? f.ignored.data : "");
    json_decref(list);
    json_decref(in);
    tt_fields_free(&f);
    tt_answer_request_free(&r);
}

#define T(text)          "{\"type\":\"text\",\"text\":\"" text "\"}"
#define M(role, c)       "{\"role\":\"" role "\",\"content\":" c "}"
#define S(role, c)       M(role, "\"" c "\"")
#define USE(id, in)      "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"f\",\"input\":" in "}"
#define RESULT(id, more) "{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\"" more "}"
#define CALL(id, in)                                                                               \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" in "},\"id\":\"" id "\"}"
#define TOOL(text, id) "{\"role\":\"tool\",\"content\":\"" text "\",\"tool_call_id\":\"" id "\"}"
#define IMAGE          "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"AA==\"}}"
#define FOUND                                                                                      \
    "{\"type\":\"search_result\",\"source\":\"s\",\"title\":\"t\",\"content\":[" T("a") "," T(     \
        "b") "]}"

static void every_row(void **state)
{
    (void)state;
    static const struct {
        const char *system, *in, *want, *notes;
    } rows[] = {
        {"", S("user", "a"), S("user", "a"), ""},
        {"", M("user", "[" T("a") "," T("b\\n") "," T("") "," T("c") "]"), S("user", "a\\nb\\nc"),
         ""},
        {"", M("user", "[]"), S("user", ""), ""},
        /* Messages of one role are one. */
        {"", S("user", "a") "," S("user", "b") "," S("assistant", "c") "," S("assistant", "d"),
         S("user", "a\\nb") "," S("assistant", "c\\n\\nd"), ""},
        {"\"system\":\"s\",", S("user", "a"), S("system", "s") "," S("user", "a"), ""},
        {"\"system\":[" T("s") "," T("t") "],", S("user", "a"),
         S("system", "s") "," S("system", "t") "," S("user", "a"), ""},
        {"\"system\":[],", S("user", "a"), S("user", "a"), ""},
        {"", S("user", "a") "," M("system", "[" T("s") "," T("t") "]") "," S("user", "b"),
         S("user", "a") "," S("system", "s\\nt") "," S("user", "b"), ""},
        {"", M("user", "[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{}}]"), S("user", "a"),
         " ignored cache_control"},
        /* Thoughts. */
        {"",
         M("assistant",
           "[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"x\"}," T("a") "]"),
         "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"hm\"}", ""},
        {"", M("assistant", "[{\"type\":\"redacted_thinking\",\"data\":\"x\"}," T("a") "]"),
         S("assistant", "a"), "dropped_thoughts=1"},
        /* Calls and results. */
        {"", M("assistant", "[" T("a") "," T("b") "," USE("1", "{\"x\":1}") "," T("c") "]"),
         "{\"role\":\"assistant\",\"content\":\"ab\\n\\nc\",\"tool_calls\":[" CALL(
             "1", "{\"x\":1}") "]}",
         ""},
        {"", M("user", "[" RESULT("1", ",\"content\":\"r\"") "]"), TOOL("r", "1"), ""},
        {"", M("user", "[" RESULT("1", "") "]"), TOOL("", "1"), ""},
        {"",
         M("user", "[" T("a") "," RESULT("1", ",\"content\":[" T("r") "," T("q") "]") "," RESULT(
                       "2", ",\"content\":\"no\",\"is_error\":true") "]"),
         TOOL("r\\nq", "1") "," TOOL("Error: no", "2") "," S("user", "a"), ""},
        {"", M("user", "[" RESULT("1", ",\"content\":\"Error 7\",\"is_error\":true") "]"),
         TOOL("Error 7", "1"), ""},
        {"", M("user", "[" RESULT("1", ",\"content\":[" IMAGE "," T("r") "]") "]"),
         TOOL("[image]\\nr", "1"), "hidden_parts=1"},
        {"", M("user", "[" RESULT("1", ",\"content\":[" FOUND "]") "]"),
         TOOL("<search_result>\\nt\\ns\\na\\nb\\n</search_result>", "1"), ""},
        {"",
         M("user", "[" RESULT("1", ",\"content\":[{\"type\":\"tool_reference\",\"tool_name\":"
                                   "\"g\"}]") "]"),
         TOOL("<tool_reference>\\n{\\\"type\\\":\\\"tool_reference\\\",\\\"tool_name\\\":"
              "\\\"g\\\"}\\n</tool_reference>",
              "1"),
         "server_blocks=1"},
        /* Reminders stay with the last result, what a user says does not. */
        {"",
         M("user",
           "[" RESULT("1", ",\"content\":\"r\"") "," RESULT("2", ",\"content\":\"q\"") "," T(
               "<system-reminder>\\nx\\n</system-reminder>") "," T("a") "]"),
         TOOL("r", "1") "," TOOL("q\\n<system-reminder>\\nx\\n</system-reminder>",
                                 "2") "," S("user", "a"),
         ""},
        {"", M("user", "[" T("<system-reminder>x</system-reminder>\\n\\n") "," T("a") "]"),
         S("user", "<system-reminder>x</system-reminder>\\n\\na"), ""},
        {"", M("user", "[" FOUND "," T("a") "]"),
         S("user", "<search_result>\\nt\\ns\\na\\nb\\n</search_result>\\na"), ""},
        /* What another server did. */
        {"",
         M("assistant",
           "[{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{}},"
           "{\"type\":\"web_search_tool_result\",\"content\":[{\"url\":\"u\","
           "\"encrypted_content\":\"zzz\"}]}," T("a") "]"),
         S("assistant",
           "<server_tool_use>\\n{\\\"type\\\":\\\"server_tool_use\\\",\\\"id\\\":\\\"s\\\","
           "\\\"name\\\":\\\"web_search\\\",\\\"input\\\":{}}\\n</server_tool_use>\\n"
           "<web_search_tool_result>\\n{\\\"type\\\":\\\"web_search_tool_result\\\","
           "\\\"content\\\":[{\\\"url\\\":\\\"u\\\"}]}\\n</web_search_tool_result>\\n\\na"),
         "server_blocks=2"},
        /* NUL characters are characters. */
        {"", M("user", "[" T("a\\u0000b") "," RESULT("1", ",\"content\":\"r\\u0000\"") "]"),
         TOOL("r\\u0000", "1") "," S("user", "a\\u0000b"), ""},
        /* Refused. */
        {"", M("user", "[" T("a") "," IMAGE "]"), "!messages[0].content[1].type", ""},
        {"", M("user", "[{\"type\":\"container_upload\"}]"), "!messages[0].content[0].type", ""},
        {"", M("assistant", "[{\"type\":\"image\"}]"), "!messages[0].content[0].type", ""},
        {"", M("assistant", "[{\"type\":\"tool_use\"}]"), "!messages[0].content[0].name", ""},
        {"", M("user", "[{\"type\":\"a<b\"}]"), "!messages[0].content[0].type", ""},
        {"", M("user", "[7]"), "!messages[0].content[0].type", ""},
        {"", "7", "!messages[0]", ""},
        {"", "{\"content\":\"a\"}", "!messages[0].role", ""},
        {"", S("user", "a") "," M("system", "7"), "!messages[1].content", ""},
        {"\"system\":[{\"type\":\"image\"}],", S("user", "a"), "!system[0].type", ""},
    };
    static char body[8192], want[8192], got[8192], notes[4096];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(body, sizeof body, "{%s\"messages\":[%s]}", rows[i].system, rows[i].in);
        snprintf(want, sizeof want, rows[i].want[0] == '!' ? "%s" : "[%s]", rows[i].want);
        convert(body, got, notes);
        assert_string_equal(got, want);
        if (want[0] != '!')
            assert_string_equal(notes, rows[i].notes);
    }
}

/* ---- a conversation of a coding client, turn by turn ---- */

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    (void)self;
    return tt_prompt_render(tok, r, out, err);
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};

static void prompt_of(const char *body, tt_engine_prompt *out)
{
    json_t *in = parsed(body);
    tt_answer_request r;
    tt_refusal why;
    tt_fields f;
    tt_fields_init(&f, in, &info, &r, &why);
    if (!tt_messages_request_count(&f, &engine))
        fail_msg("%s: %s", why.param, why.message);
    *out = r.turn.prompt;
    r.turn.prompt = (tt_engine_prompt){0};
    tt_fields_free(&f);
    tt_answer_request_free(&r);
    json_decref(in);
}

#define REMINDER    "<system-reminder>\\nThe date is today's.\\n</system-reminder>"
#define THINK(text) "{\"type\":\"thinking\",\"thinking\":\"" text "\",\"signature\":\"\"}"
#define SAID(text)  "{\"type\":\"text\",\"text\":\"" text "\",\"citations\":null}"
#define CALLS(thought, text, a, b)                                                                 \
    M("assistant", "[" THINK(thought) "," SAID(text) "," USE(a, "{\"path\":\"/w/a\"}") "," USE(    \
                       b, "{\"path\":\"/w/b\",\"limit\":3}") "]")

/* What each turn of the client adds; "%s" is where it marks the block to be cached, which moves. */
static const char *const turns[] = {
    M("user", "[" T(REMINDER "\\n\\n") ",{\"type\":\"text\",\"text\":\"Mend it.\"%s}]") "," S(
        "system", "Kinds of workers:\\n- one: for all\\n"),
    CALLS("I think.", "I look.", "toolu_1", "toolu_2") "," M(
        "user", "[" RESULT("toolu_1", ",\"content\":\"1\\thello\"") "," RESULT(
                    "toolu_2", ",\"content\":\"no such file\",\"is_error\":true%s") "]"),
    CALLS("Again.", "I look again.", "toolu_3", "toolu_4") "," M(
        "user",
        "[" RESULT("toolu_3", ",\"content\":[" T("two") "]") "," RESULT(
            "toolu_4", ",\"content\":\"three\"") "," T(REMINDER) "]") "," S("system",
                                                                            "The list is empty."),
    M("assistant", "[" THINK("Odd.") "," USE("toolu_5", "{}") "]") "," M(
        "user", "[" RESULT("toolu_5", ",\"content\":\"\"%s") "]"),
    M("assistant", "[" SAID("It is mended.") "]") "," M(
        "user", "[{\"type\":\"text\",\"text\":\"Thanks. And now?\"%s}]"),
    M("assistant", "[" SAID("Nothing.") "]") "," S("system", "You are in a plan.") "," M(
        "user", "[" T(REMINDER) ",{\"type\":\"text\",\"text\":\"Good.\"%s}]"),
};

#define TURNS (sizeof turns / sizeof turns[0])

/* The request of turn k as the client sends it: the line that changes with every request, the mark
 * in the newest message alone. */
static void request_of(size_t k, bool thoughts, char *out, size_t size)
{
    size_t n = (size_t)snprintf(
        out, size,
        "{\"model\":\"m\",\"max_tokens\":32000,\"thinking\":{\"type\":\"%s\"},"
        "\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: v=2; cch=%04zx;\"},"
        "{\"type\":\"text\",\"text\":\"You help.\",\"cache_control\":{\"type\":\"ephemeral\"}},"
        "{\"type\":\"text\",\"text\":\"\\nBe brief.\"}],\"tools\":[{\"name\":\"f\",\"description\":"
        "\"Reads.\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":"
        "\"string\"}}}}],\"messages\":[",
        thoughts ? "adaptive" : "disabled", k * 7919);
    for (size_t i = 0; i <= k; i++) {
        const char *mark = i == k ? ",\"cache_control\":{\"type\":\"ephemeral\"}" : "";
        n += (size_t)snprintf(out + n, size - n, "%s", i > 0 ? "," : "");
        const char *at = strstr(turns[i], "%s");
        n += at == NULL ? (size_t)snprintf(out + n, size - n, "%s", turns[i])
                        : (size_t)snprintf(out + n, size - n, "%.*s%s%s", (int)(at - turns[i]),
                                           turns[i], mark, at + 2);
    }
    snprintf(out + n, size - n, "]}");
}

static size_t common(const tt_engine_prompt *a, const tt_engine_prompt *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n])
        n++;
    return n;
}

static bool shows(const tt_engine_prompt *p, const char *words)
{
    char *text = NULL;
    size_t len;
    assert_int_equal(tt_tokenizer_decode(tok, p->ids, p->n, false, &text, &len, NULL), TT_OK);
    bool found = strstr(text, words) != NULL;
    tt_free(text);
    return found;
}

/* While tools are called, a prompt is the beginning of the next, thoughts and all. With a new
 * question the template drops the thoughts before it; up to the first of them all stays. */
static void turns_begin_alike(void **state)
{
    (void)state;
    static char body[16384];
    tt_engine_prompt before = {0}, now, first = {0};
    for (size_t k = 0; k < TURNS; k++) {
        request_of(k, true, body, sizeof body);
        prompt_of(body, &now);
        assert_false(shows(&now, "billing"));
        bool question = k >= 4; /* these ask something new */
        assert_int_equal(shows(&now, "I think."), k >= 1 && !question);
        if (k > 0 && k != 4)
            assert_int_equal(common(&before, &now), before.n);
        if (k == 4)
            assert_true(common(&before, &now) >= first.n);
        if (k == 0) {
            first = now;
            first.ids = malloc(now.n * sizeof *now.ids);
            assert_non_null(first.ids);
            memcpy(first.ids, now.ids, now.n * sizeof *now.ids);
        }
        tt_free(before.ids);
        before = now;
    }
    /* Nothing of it was lost on the way. */
    static const char *const words[] = {
        "You help.\n\n\nBe brief.",
        "Mend it.\n<system>\nKinds of workers:",
        "<tool_response>\nError: no such file\n</tool_response>",
        ("three\n<system-reminder>\nThe date is today's.\n</system-reminder>\n<system>\nThe list "
         "is "
         "empty.\n</system>"),
        "<|im_start|>user\n<system>\nYou are in a plan.\n</system><|im_end|>",
        "Good."};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!shows(&before, words[i]))
            fail_msg("lacks %s", words[i]);
    tt_free(before.ids);
    free(first.ids);
}

/* The same conversation where thinking is off: what is rendered after the end of the prompt is the
 * empty thought, which a template does not repeat. All before it stays. */
static void turns_without_thoughts_begin_alike(void **state)
{
    (void)state;
    static char body[16384];
    tt_engine_prompt before = {0}, now, mark = {0};
    const tt_engine_render text = {.text = "<think>\n\n</think>\n\n", .len = 19, .special = true};
    assert_int_equal(tt_prompt_render(tok, &text, &mark, NULL), TT_OK);
    for (size_t k = 4; k < TURNS; k++) {
        request_of(k, false, body, sizeof body);
        prompt_of(body, &now);
        if (before.n > 0)
            assert_int_equal(common(&before, &now), before.n - mark.n);
        tt_free(before.ids);
        before = now;
    }
    tt_free(before.ids);
    tt_free(mark.ids);
}

static int open_tok(void **state)
{
    (void)state;
    return tt_tokenizer_open("models/tales", &tok, NULL) == TT_OK ? 0 : -1;
}

static int close_tok(void **state)
{
    (void)state;
    tt_tokenizer_close(&tok);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(turns_begin_alike),
        cmocka_unit_test(turns_without_thoughts_begin_alike),
    };
    return cmocka_run_group_tests(tests, open_tok, close_tok);
}
