/* Proves that the text of an answer is sorted into thoughts, text and calls, the same however it is
 * cut, that nothing is lost, and that what is no call in the end comes out as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/channels.h"
#include "server/server_limits.h"

#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":"         \
    "{\"n\":{\"type\":\"integer\"},\"s\":{\"type\":\"string\"}}}}}]"
#define CALL(body)     "<tool_call>\n<function=f>\n" body "</function>\n</tool_call>"
#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"

static char heard[1 << 16];
static tt_engine_event_kind last;

/* "T:text", "H:thought" run together; "C:name(arguments)", "B" for a bad call. */
static bool hear(void *ctx, const tt_engine_event *e)
{
    static const char letters[] = {[TT_EVENT_THOUGHT] = 'H', [TT_EVENT_TEXT] = 'T'};
    char *at = heard + strlen(heard);
    (void)ctx;
    if (e->kind == TT_EVENT_CALL)
        sprintf(at, "|C:%s(%s)", e->name, e->text);
    else if (e->kind == TT_EVENT_BAD_CALL)
        strcpy(at, "|B");
    else if (e->kind == last)
        sprintf(at, "%.*s", (int)e->len, e->text);
    else
        sprintf(at, "|%c:%.*s", letters[e->kind], (int)e->len, e->text);
    last = e->kind;
    return true;
}

static const char *sorted(const char *text, size_t piece, const tt_engine_request *r)
{
    tt_channels c;
    size_t len = strlen(text);
    heard[0] = '\0';
    last = TT_EVENT_PREFILL;
    tt_channels_init(&c, r, hear, NULL);
    for (size_t i = 0; i < len; i += piece)
        assert_int_equal(
            tt_channels_push(&c, text + i, len - i < piece ? len - i : piece, NULL, NULL), TT_OK);
    assert_int_equal(tt_channels_end(&c, NULL), TT_OK);
    tt_channels_free(&c);
    return heard;
}

static void every_cut(const char *text, const tt_engine_request *r, const char *want)
{
    for (size_t piece = 1; piece <= strlen(text); piece++)
        assert_string_equal(sorted(text, piece, r), want);
}

static const tt_engine_request with_tools = {.tools = TOOLS};

static void thoughts(void **state)
{
    (void)state;
    tt_engine_request r = {0};
    every_cut("hello", &r, "|T:hello");
    every_cut("<think>\nhm, <b>\n</think>\n\nso", &r, "|H:hm, <b>|T:so");
    every_cut("<think></think>so", &r, "|T:so");
    every_cut("a <think>b</think>", &r, "|T:a <think>b</think>");
    every_cut("<think>without an end ", &r, "|H:without an end");
    every_cut("<thin", &r, "|T:<thin");
    every_cut(" \n so", &r, "|T: \n so");
    r.in_thought = true;
    every_cut("hm</think>\n\n so", &r, "|H:hm|T:so");
    every_cut("\nhm </ think>", &r, "|H:hm </ think>");
    r.plain = true;
    every_cut("<think>hm</think>", &r, "|T:<think>hm</think>");
}

static void calls(void **state)
{
    (void)state;
    every_cut(CALL(P("n", "12")), &with_tools, "|C:f({\"n\":12})");
    every_cut("I look.\n\n" CALL(P("s", "12")) "\n" CALL(""), &with_tools,
              "|T:I look.|C:f({\"s\":\"12\"})|C:f({})");
    every_cut("a\n" CALL("") "\n b ", &with_tools, "|T:a|C:f({})|T:\n\nb ");
    every_cut("<think>x</think>\n\n" CALL(""), &with_tools, "|H:x|C:f({})");
    /* A tag inside a value is part of it. */
    every_cut(CALL(P("s", "a </tool_call> b")), &with_tools, "|C:f({\"s\":\"a </tool_call> b\"})");
    /* A tool that nobody gave is passed on. */
    every_cut("<tool_call><function=g></function></tool_call>", &with_tools, "|C:g({})");
}

static void what_is_no_call(void **state)
{
    (void)state;
    tt_engine_request none = {0};
    every_cut("a " CALL(""), &none, "|T:a " CALL(""));
    every_cut("a <tool_call>nothing</tool_call> b", &with_tools,
              "|T:a|B|T:<tool_call>nothing</tool_call> b");
    every_cut("a <tool_call>\n<function=f>", &with_tools, "|T:a|B|T:<tool_call>\n<function=f>");
    every_cut("1 < 2 <tool", &with_tools, "|T:1 < 2 <tool");
    every_cut("<tool_call>x</tool_call>" CALL(""), &with_tools,
              "|B|T:<tool_call>x</tool_call>|C:f({})");
}

static size_t spoken, bad;
static bool count_text(void *ctx, const tt_engine_event *e)
{
    (void)ctx;
    spoken += e->kind == TT_EVENT_TEXT ? e->len : 0;
    bad += e->kind == TT_EVENT_BAD_CALL;
    return true;
}

static void a_call_has_an_end(void **state)
{
    (void)state;
    size_t n = TT_TOOL_CALL + 1;
    char *text = malloc(n);
    tt_channels c;
    memset(text, 'x', n);
    memcpy(text, "<tool_call>\n<function=f>\n<parameter=s>\n", 39);
    spoken = bad = 0;
    tt_channels_init(&c, &with_tools, count_text, NULL);
    /* Up to the bound nothing comes out; then everything does. */
    assert_int_equal(tt_channels_push(&c, text, n - 1, NULL, NULL), TT_OK);
    assert_int_equal(spoken, 0);
    assert_int_equal(tt_channels_push(&c, text + n - 1, 1, NULL, NULL), TT_OK);
    assert_int_equal(tt_channels_end(&c, NULL), TT_OK);
    assert_int_equal(spoken, n);
    assert_int_equal(bad, 1);
    tt_channels_free(&c);
    free(text);
}

/* A document may hold whatever it likes, calls too; what begins as a call is one. */
static void documents_are_text(void **state)
{
    (void)state;
    static const char open_call[] = "{\"a\":\"<tool_call>\"}";
    static const char whole_call[] = "{\"a\":\"" CALL("") "\"}";
    tt_engine_request r = with_tools;
    r.document = true;
    every_cut(open_call, &r, "|T:{\"a\":\"<tool_call>\"}");
    every_cut(whole_call, &r, "|T:{\"a\":\"" CALL("") "\"}");
    every_cut("<think>hm</think>\n\n{\"a\":\"<tool_call>\"}", &r,
              "|H:hm|T:{\"a\":\"<tool_call>\"}");
    every_cut(CALL(""), &r, "|C:f({})");
    every_cut("<think>hm</think>\n\n" CALL("") "\n" CALL(P("n", "1")), &r,
              "|H:hm|C:f({})|C:f({\"n\":1})");
    r.document = false;
    every_cut(open_call, &r, "|T:{\"a\":\"|B|T:<tool_call>\"}");
}

static size_t reported;
static bool count_reports(void *ctx, const tt_engine_event *e)
{
    (void)ctx;
    if (e->kind == TT_EVENT_TEXT)
        reported += e->n_reports;
    return true;
}

/* Tokens of thoughts and calls have no log probabilities; those of text have one each. */
static void reports_follow_the_text(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<think>", "hm", "</think>", "\n\n", "a",
                                         " b",      "\n", (CALL("")), "c"};
    tt_token_report report = {.token.len = 1};
    tt_channels c;
    reported = 0;
    tt_channels_init(&c, &with_tools, count_reports, NULL);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        assert_int_equal(tt_channels_push(&c, tokens[i], strlen(tokens[i]), &report, NULL), TT_OK);
    assert_int_equal(tt_channels_end(&c, NULL), TT_OK);
    tt_channels_free(&c);
    assert_int_equal(reported, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thoughts),           cmocka_unit_test(calls),
        cmocka_unit_test(what_is_no_call),    cmocka_unit_test(a_call_has_an_end),
        cmocka_unit_test(documents_are_text), cmocka_unit_test(reports_follow_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
