/* Proves what Anthropic's ways to ask for a thought come to: what the template is told, what stands
 * in the log, for templates that know levels and for those that do not; and how tools reach it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/messages_request.h"

static char told[4096]; /* what the template was */

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    static const char *const words[] = {"default", "on", "off"};
    (void)self;
    (void)err;
    snprintf(told, sizeof told, "%s %s %s", words[r->thinking], r->extra != NULL ? r->extra : "-",
             r->tools != NULL ? r->tools : "-");
    out->ids = calloc(4, sizeof *out->ids);
    out->n = 4;
    return out->ids != NULL ? TT_OK : TT_ERR_NOMEM;
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};
static tt_engine_info info;

/* Reads a body with `more` in it; the words of the log. */
static const char *read_body(const char *more, tt_answer_request *r)
{
    static char notes[4096], body[8192];
    json_t *in = NULL;
    tt_refusal why;
    tt_fields f;
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]%s}", more);
    assert_int_equal(tt_json_parse(body, strlen(body), "t", &in, NULL), TT_OK);
    tt_fields_init(&f, in, &info, r, &why);
    if (!tt_messages_request_read(&f, &engine))
        fail_msg("%s: %s", why.param, why.message);
    snprintf(notes, sizeof notes, "%s|%s", f.adjusted.len > 0 ? f.adjusted.data : "",
             f.ignored.len > 0 ? f.ignored.data : "");
    tt_fields_free(&f);
    json_decref(in);
    return notes;
}

/* A number of tokens that is refused with this code. */
static void refused(const char *max_tokens, const char *code)
{
    char body[256];
    json_t *in = NULL;
    tt_refusal why = {0};
    tt_answer_request r;
    tt_fields f;
    snprintf(body, sizeof body,
             "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
             "\"max_tokens\":%s}",
             max_tokens);
    assert_int_equal(tt_json_parse(body, strlen(body), "t", &in, NULL), TT_OK);
    tt_fields_init(&f, in, &info, &r, &why);
    if (tt_messages_request_read(&f, &engine))
        fail_msg("not refused: %s", max_tokens);
    assert_int_equal(why.status, 400);
    assert_string_equal(why.param, "max_tokens");
    assert_string_equal(why.code, code);
    tt_answer_request_free(&r);
    tt_fields_free(&f);
    json_decref(in);
}

static int set_up(void **state)
{
    (void)state;
    info = (tt_engine_info){.model = "m", .max_context = 100};
    return 0;
}

#define THINK(words) ",\"thinking\":{" words "}"
#define EFFORT(word) ",\"output_config\":{\"effort\":\"" word "\"}"
#define ENABLED(n)   THINK("\"type\":\"enabled\",\"budget_tokens\":" n)
#define ADAPTIVE     THINK("\"type\":\"adaptive\"")
#define DISABLED     THINK("\"type\":\"disabled\"")
#define LEVEL(word)  "{\"reasoning_effort\": \"" word "\"} -"

typedef struct row {
    const char *more, *told, *notes;
} row;

static void check(const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char more[512];
        tt_answer_request r;
        snprintf(more, sizeof more, ",\"max_tokens\":9%s", rows[i].more);
        const char *notes = read_body(more, &r);
        assert_string_equal(told, rows[i].told);
        assert_string_equal(notes, rows[i].notes);
        tt_answer_request_free(&r);
    }
}

static void a_template_with_levels(void **state)
{
    (void)state;
    static const row rows[] = {
        {"", "off - -", "|"},
        {DISABLED, "off - -", "|"},
        {DISABLED EFFORT("high"), "off - -", "|"},
        {THINK("\"type\":\"between_tools\""), "off - -", "|"},
        {ADAPTIVE, "default - -", "|"},
        {ADAPTIVE EFFORT("low"), "default " LEVEL("low"), "|"},
        {EFFORT("medium"), "default " LEVEL("medium"), "|"},
        {EFFORT("max"), "default " LEVEL("xhigh"), "output_config.effort|"},
        {EFFORT("high"), "default " LEVEL("medium"), "output_config.effort|"},
        {ENABLED("1"), "on " LEVEL("low"), "thinking.budget_tokens|"},
        {ENABLED("4095"), "on " LEVEL("low"), "thinking.budget_tokens|"},
        {ENABLED("4096"), "on " LEVEL("medium"), "thinking.budget_tokens|"},
        {ENABLED("16383"), "on " LEVEL("medium"), "thinking.budget_tokens|"},
        {ENABLED("32768"), "on " LEVEL("xhigh"), "thinking.budget_tokens|"},
        {ENABLED("18446744073709551615"), "on " LEVEL("xhigh"), "thinking.budget_tokens|"},
        {ENABLED("99999") EFFORT("low"), "on " LEVEL("low"), "thinking.budget_tokens|"},
        {THINK("\"type\":\"adaptive\",\"display\":\"omitted\""), "default - -",
         "|thinking.display"},
    };
    info.efforts[TT_EFFORT_LOW] = info.efforts[TT_EFFORT_MEDIUM] = true;
    info.efforts[TT_EFFORT_XHIGH] = true;
    check(rows, sizeof rows / sizeof rows[0]);
    /* With all of them, the one between. */
    static const row high[] = {
        {ENABLED("16384"), "on " LEVEL("high"), "thinking.budget_tokens|"},
        {ENABLED("32767"), "on " LEVEL("high"), "thinking.budget_tokens|"},
    };
    info.efforts[TT_EFFORT_HIGH] = true;
    check(high, 2);
}

static void a_template_without_levels(void **state)
{
    (void)state;
    static const row rows[] = {
        {"", "off - -", "|"},
        {ADAPTIVE, "default - -", "|"},
        {EFFORT("high"), "default - -", "output_config.effort|"},
        {ENABLED("2000"), "on - -", "thinking.budget_tokens|"},
    };
    check(rows, sizeof rows / sizeof rows[0]);
}

#define TOOL(words) "{\"type\":\"function\",\"function\":{" words "}}"
#define NAME_128                                                                                   \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbb" \
    "bbbbbb"                                                                                       \
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void tools_reach_the_template(void **state)
{
    (void)state;
    static const row rows[] = {
        {",\"tools\":[]", "off - -", "|"},
        {",\"tools\":[{\"name\":\"f\"}]", "off - [" TOOL("\"name\":\"f\"") "]", "|"},
        {",\"tools\":[{\"type\":\"custom\",\"name\":\"f\",\"input_schema\":{\"type\":"
         "\"object\"},"
         "\"description\":\"d\",\"cache_control\":{},\"strict\":true,\"defer_loading\":false},"
         "{\"type\":\"bash_20250124\",\"name\":\"bash\"},{\"type\":null,\"name\":\"" NAME_128
         "\"}]",
         "off - [" TOOL("\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":"
                        "\"object\"}") "," TOOL("\"name\":\"" NAME_128 "\"") "]",
         "|cache_control tools"},
        {",\"tools\":[{\"name\":\"f\"}],\"tool_choice\":{\"type\":\"none\"}", "off - -", "|"},
        {",\"tools\":[{\"name\":\"f\"}],\"tool_choice\":{\"type\":\"auto\"}",
         "off - [" TOOL("\"name\":\"f\"") "]", "|"},
    };
    assert_int_equal(strlen(NAME_128), 128);
    check(rows, sizeof rows / sizeof rows[0]);
}

static void lengths(void **state)
{
    (void)state;
    tt_answer_request r;
    read_body(",\"max_tokens\":0", &r);
    assert_int_equal(r.turn.max_tokens, 0);
    assert_false(r.stream || r.turn.one_call);
    tt_answer_request_free(&r);
    read_body(",\"max_tokens\":96,\"stream\":true,\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,"
              "\"stop_sequences\":[\"a\",\"b\"],\"tool_choice\":{\"type\":\"auto\","
              "\"disable_parallel_tool_use\":true}",
              &r);
    assert_true(r.turn.max_tokens == 96 && r.stream && r.turn.one_call && r.turn.n == 1);
    assert_true(r.turn.sampling.temperature == 0.5f && r.turn.sampling.top_p == 0.25f);
    assert_true(r.turn.sampling.top_k == 7 && r.turn.n_stops == 2);
    assert_string_equal(r.turn.stops[1], "b");
    tt_answer_request_free(&r);
}

/* As many as there is room for, however many are asked for and however that is written. */
static void the_edges_of_lengths(void **state)
{
    static const struct {
        const char *value, *notes;
        uint32_t most;
    } rows[] = {
        {"0", "|", 0},
        {"-0", "|", 0},
        {"1", "|", 1},
        {"1.0", "|", 1},
        {"96", "|", 96},
        {"97", "max_tokens|", 96},
        {"4294967296", "max_tokens|", 96},
        {"9223372036854775807", "max_tokens|", 96},
        {"9223372036854775808", "max_tokens|", 96},
        {"18446744073709551615", "max_tokens|", 96},
        {"1e300", "max_tokens|", 96},
    };
    static const char *const bad[] = {"-1",
                                      "-9223372036854775808",
                                      "-9223372036854775809",
                                      "1.5",
                                      "-1e300",
                                      "\"9\"",
                                      "true",
                                      "[9]",
                                      "{}"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tt_answer_request r;
        char more[64];
        snprintf(more, sizeof more, ",\"max_tokens\":%s", rows[i].value);
        assert_string_equal(read_body(more, &r), rows[i].notes);
        assert_int_equal(r.turn.max_tokens, rows[i].most);
        tt_answer_request_free(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i], "invalid_value");
    refused("null", "missing_required_parameter");
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup(test, set_up)
    const struct CMUnitTest tests[] = {
        WITH(a_template_with_levels),   WITH(a_template_without_levels),
        WITH(tools_reach_the_template), WITH(lengths),
        WITH(the_edges_of_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
