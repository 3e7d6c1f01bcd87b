/* Proves on the wire, with scripted engines, what a server with several models does: what is
 * listed, that nothing is loaded before it is asked for, that requests keep their order across
 * switches, that a load that fails answers 503 and costs nobody else, unloading on demand and when
 * idle, and that every request is counted, rendered and answered by the model that it names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire.h"

#define CHAT   "/v1/chat/completions"
#define UNLOAD "/v1/models/unload"
#define ASK(model, text)                                                                           \
    "{\"model\":\"" model "\",\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define A "scripted_4-Bit"
#define B "second_8-Bit"

static const char first_script[] =
    "[{\"match\":\"gate\",\"steps\":[{\"gate\":true},{\"text\":\"the first, through\"}]},"
    "{\"steps\":[{\"text\":\"the first\"}]}]";
static const char second_script[] =
    "[{\"match\":\"gate\",\"steps\":[{\"gate\":true},{\"text\":\"the second, through\"}]},"
    "{\"steps\":[{\"text\":\"the second\"}]}]";

static scripted_engine *second;

static void prepare(void)
{
    wire_prepare(first_script);
    w.config.queue_limit = 8;
    second = wire_add_model(B, second_script, 1024);
}

static int set_up(void **state)
{
    (void)state;
    prepare();
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

static void answered(const char *method, const char *path, const char *body, const char *want)
{
    char *text = once(method, path, "", body);
    expect(text, want);
    free(text);
}

static void expect_journal(const char *want)
{
    char *text = scripted_journal_text(w.journal);
    assert_string_equal(text, want);
    free(text);
}

/* Asks again until it is so. */
static void await_page(const char *path, const char *want)
{
    for (bool there = false; !there;) {
        char *text = once("GET", path, "", NULL);
        there = strstr(text, want) != NULL;
        free(text);
    }
}

#define WAITING(n) "tinytitan_queue_waiting " n "\n"

/* ---- lists ---- */

static void what_is_listed(void **state)
{
    (void)state;
    char *text = once("GET", "/v1/models", "", NULL);
    expect(text,
           "{\"object\":\"list\",\"data\":[{\"id\":\"" A "\",\"object\":\"model\",\"created\":"
           "1700000000,\"owned_by\":\"tinytitan\",\"context_window\":2048,"
           "\"max_output_tokens\":2047,\"reasoning_levels\":[\"none\",\"medium\"],"
           "\"loadable\":true,\"reason\":null,\"loaded\":false},{\"id\":\"" B "\",");
    expect(text, "\"context_window\":1024,\"max_output_tokens\":1023,");
    expect_not(text, "-fast");
    free(text);
    answered("GET", "/v1/models/" B, NULL, "\r\n\r\n{\"id\":\"" B "\",");
    answered("GET", "/v1/models/" B "-fast", NULL, "\r\n\r\n{\"id\":\"" B "\",");
    answered("GET", "/v1/models/second", NULL, "\"code\":\"model_not_found\"");
    answered("POST", CHAT, ASK("second", "x") "}", "404 Not Found");
    answered("POST", CHAT, ASK(B "-slow", "x") "}", "\"code\":\"model_not_found\"");
    answered("POST", CHAT, ASK(B "-fast-fast", "x") "}", "\"code\":\"model_not_found\"");
    answered("POST", CHAT, ASK(B "\\u0000", "x") "}", "\"code\":\"model_not_found\"");
    answered("POST", UNLOAD, "{\"model\":\"" B "\\u0000x\"}", "\"code\":\"model_not_found\"");
    answered("GET", UNLOAD, NULL, "405 Method Not Allowed");
    /* Nobody asked for an answer. */
    expect_journal("");
    answered("GET", "/v1/status", NULL,
             "\"model\":null,\"models\":[{\"id\":\"" A "\",\"state\":\"unloaded\",\"loads\":0,");
}

/* ---- one after the other ---- */

static void each_request_has_its_own_model(void **state)
{
    (void)state;
    answered("POST", CHAT, ASK(B, "x") "}",
             "\"model\":\"" B "\",\"choices\":[{\"index\":0,"
             "\"message\":{\"role\":\"assistant\",\"content\":"
             "\"the second\"");
    answered("POST", CHAT, ASK(B, "x") "}", "\"content\":\"the second\"");
    answered("POST", CHAT, ASK(A, "x") "}", "\"content\":\"the first\"");
    answered("POST", "/v1/completions", "{\"model\":\"" B "\",\"prompt\":\"x\"}",
             "\"text\":\"the second\"");
    expect_journal("load " B "\nbegin " B "\nbegin " B "\nunload " B "\nload " A "\nbegin " A
                   "\nunload " A "\nload " B "\nbegin " B "\n");
    /* Each is held to its own context. */
    char body[8192], ids[4096] = "1";
    for (size_t i = 1; i < 1500; i++)
        strcat(ids, ",1");
    snprintf(body, sizeof body, "{\"model\":\"" B "\",\"prompt\":[%s]}", ids);
    answered("POST", "/v1/completions", body, "\"code\":\"context_length_exceeded\"");
    answered("GET", "/v1/models/" B, NULL, "\"loaded\":true");
    answered("GET", "/v1/models/" A, NULL, "\"loaded\":false");
    char *text = once("GET", "/metrics", "", NULL);
    expect(text, "\ntinytitan_model_loaded{model=\"" A "\"} 0\ntinytitan_model_loaded{model=\"" B
                 "\"} 1\n");
    expect(text, "\ntinytitan_model_loads_total{model=\"" B "\"} 2\n");
    expect(text, "\ntinytitan_model_requests_total{model=\"" A "\"} 1\n"
                 "tinytitan_model_requests_total{model=\"" B "\"} 3\n");
    expect(text, "\ntinytitan_expert_hits_total 27\n"); /* 9 a load */
    free(text);
    answered("GET", "/v1/status", NULL, "\"model\":\"" B "\",\"models\":[{\"id\":\"" A "\"");
}

static void counting_loads_nothing(void **state)
{
    (void)state;
    answered("POST", "/tokenize", ASK(B, "one two three") "}", "\"max_context\":1024}");
    answered("POST", "/tokenize", "{\"model\":\"" A "\",\"content\":\"one\"}",
             "\"max_context\":2048}");
    expect_journal("");
}

static void fast_is_without_thoughts(void **state)
{
    (void)state;
    /* The template opens a thought unless it was told not to. */
    char *thinking = once("POST", "/tokenize", "", ASK(A, "x") "}");
    char *none = once("POST", "/tokenize", "", ASK(A, "x") ",\"reasoning_effort\":\"none\"}");
    char *fast = once("POST", "/tokenize", "", ASK(A "-fast", "x") "}");
    char *asked = once("POST", "/tokenize", "",
                       ASK(A "-fast", "x") ",\"chat_template_kwargs\":{\"enable_thinking\":true}}");
    assert_string_equal(strstr(fast, "{\"tokens"), strstr(none, "{\"tokens"));
    assert_string_equal(strstr(asked, "{\"tokens"), strstr(none, "{\"tokens"));
    assert_string_not_equal(strstr(thinking, "{\"tokens"), strstr(none, "{\"tokens"));
    free(thinking);
    free(none);
    free(fast);
    free(asked);
    /* The answer comes under the model's own name. */
    answered("POST", CHAT, ASK(A "-fast", "x") ",\"reasoning_effort\":\"high\"}",
             "\"model\":\"" A "\"");
    char *log = log_text();
    expect(log, "adjusted=reasoning_effort");
    expect(log, " model=" A " ");
    free(log);
}

/* ---- the order ---- */

static void nothing_overtakes_a_switch(void **state)
{
    (void)state;
    int fd[6];
    const char *bodies[] = {ASK(A, "gate") "}", ASK(A, "1") "}", ASK(B, "2") "}",
                            ASK(A, "3") "}",    ASK(B, "4") "}", ASK(B, "5") "}"};
    for (size_t i = 0; i < 6; i++) {
        char waiting[64];
        fd[i] = dial();
        post(fd[i], CHAT, bodies[i]);
        /* Each is in the queue before the next one is sent. */
        if (i == 0)
            scripted_engine_await(w.engine, 1, 0);
        snprintf(waiting, sizeof waiting, "\ntinytitan_queue_waiting %zu\n", i);
        await_page("/metrics", waiting);
    }
    scripted_engine_open_gate(w.engine);
    for (size_t i = 0; i < 6; i++) {
        char *text = take_answer(fd[i]);
        expect(text, strstr(bodies[i], A) != NULL ? "the first" : "the second");
        free(text);
        close(fd[i]);
    }
    expect_journal("load " A "\nbegin " A "\nbegin " A "\nunload " A "\nload " B "\nbegin " B
                   "\nunload " B "\nload " A "\nbegin " A "\nunload " A "\nload " B "\nbegin " B
                   "\nbegin " B "\n");
}

/* ---- loads that fail ---- */

static void a_load_that_fails(void **state)
{
    (void)state;
    answered("POST", CHAT, ASK(A, "x") "}", "200 OK");
    scripted_engine_fail_loads(second, "the disk is gone");
    char *text = once("POST", CHAT, "", ASK(B, "x") "}");
    expect(text, "HTTP/1.1 503 Service Unavailable\r\n");
    expect(text,
           "{\"error\":{\"message\":\"the model cannot be loaded: the disk is gone\",\"type\":"
           "\"server_error\",\"param\":\"model\",\"code\":\"model_load_failed\"}}");
    free(text);
    answered("GET", "/v1/models/" B, NULL, "\"loadable\":false,\"reason\":\"the disk is gone\"");
    answered("GET", "/metrics", NULL, "\ntinytitan_model_load_failures_total{model=\"" B "\"} 1\n");
    answered("POST", CHAT, ASK(A, "x") "}", "the first");
    /* A stream has begun: the failure is its event. */
    int s = dial();
    post(s, CHAT, ASK(B, "x") ",\"stream\":true}");
    text = take_until(s, "\r\n0\r\n\r\n");
    expect(text, "200 OK");
    expect(text, "\"code\":\"model_load_failed\"");
    expect(text, "data: [DONE]\n\n");
    free(text);
    close(s);
    scripted_engine_fail_loads(second, NULL);
    answered("POST", CHAT, ASK(B, "x") "}", "the second");
    answered("GET", "/v1/models/" B, NULL, "\"loadable\":true,\"reason\":null,\"loaded\":true");
}

/* What was seen to be unfit before the switch does not cost the model that is there. */
static void an_unfit_one_changes_nothing(void **state)
{
    (void)state;
    answered("POST", CHAT, ASK(A, "x") "}", "200 OK");
    scripted_engine_fail_looks(second, "a file is short");
    answered("POST", CHAT, ASK(B, "x") "}", "the model cannot be loaded: a file is short");
    /* It is known now, and said before the request is read. */
    answered("POST", CHAT, ASK(B, "x") "}", "\"code\":\"model_not_loadable\"");
    answered("POST", "/tokenize", ASK(B, "x") "}", "503 Service Unavailable");
    answered("GET", "/v1/models/" A, NULL, "\"loaded\":true");
    expect_journal("load " A "\nbegin " A "\n");
    /* Mended, it is taken up again without anybody's help. */
    scripted_engine_fail_looks(second, NULL);
    answered("POST", CHAT, ASK(B, "x") "}", "the second");
}

static void a_client_that_leaves_stops_no_load(void **state)
{
    (void)state;
    scripted_engine_hold_loads(second);
    int fd = dial();
    post(fd, CHAT, ASK(B, "x") "}");
    await_page("/v1/status", "\"id\":\"" B "\",\"state\":\"loading\"");
    close(fd);
    await_page("/metrics", "\ntinytitan_cancelled_total 1\n");
    scripted_engine_open_gate(second);
    answered("POST", CHAT, ASK(B, "y") "}", "the second");
    expect_journal("load " B "\nbegin " B "\n");
}

static void the_end_does_not_wait_for_a_load(void **state)
{
    (void)state;
    prepare();
    w.config.bounds.shutdown = 0.05;
    wire_start();
    scripted_engine_hold_loads(second);
    int fd = dial();
    post(fd, CHAT, ASK(B, "x") "}");
    await_page("/v1/status", "\"id\":\"" B "\",\"state\":\"loading\"");
    tt_server_stop(w.server);
    wire_join();
    char *text = take_until(fd, NULL);
    expect(text, "\"code\":\"shutting_down\"");
    free(text);
    close(fd);
    assert_false(scripted_engine_loaded(second));
    wire_end();
}

/* ---- unloading ---- */

static void unload_on_demand(void **state)
{
    (void)state;
    answered("POST", UNLOAD, "{}", "{\"object\":\"model.unload\",\"unloaded\":null}");
    answered("POST", CHAT, ASK(A, "x") "}", "200 OK");
    answered("POST", UNLOAD, "{\"model\":\"" B "\"}", "\"unloaded\":null}");
    answered("POST", UNLOAD, "{\"model\":\"other\"}", "\"code\":\"model_not_found\"");
    answered("POST", UNLOAD, "{\"model\":1}", "\"code\":\"invalid_value\"");
    answered("POST", UNLOAD, "[]", "\"code\":\"invalid_json\"");
    assert_true(scripted_engine_loaded(w.engine));
    answered("POST", UNLOAD, "", "\"unloaded\":\"" A "\"}");
    assert_false(scripted_engine_loaded(w.engine));
    answered("POST", CHAT, ASK(A, "x") "}", "200 OK");
    answered("POST", UNLOAD, "{\"model\":\"" A "\"}", "\"unloaded\":\"" A "\"}");
    expect_journal("load " A "\nbegin " A "\nunload " A "\nload " A "\nbegin " A "\nunload " A
                   "\n");
    char *text = once("POST", UNLOAD, "Content-Type: text/plain\r\n", NULL);
    expect(text, "415 Unsupported Media Type");
    free(text);
}

static void unload_waits_for_what_runs(void **state)
{
    (void)state;
    int runs = dial(), ends = dial(), next = dial();
    post(runs, CHAT, ASK(A, "gate") "}");
    scripted_engine_await(w.engine, 1, 0);
    post(ends, UNLOAD, "{}");
    await_page("/metrics", "\n" WAITING("1"));
    post(next, CHAT, ASK(A, "x") "}");
    await_page("/metrics", "\n" WAITING("2"));
    assert_true(scripted_engine_loaded(w.engine));
    scripted_engine_open_gate(w.engine);
    char *a = take_answer(runs), *b = take_answer(ends), *c = take_answer(next);
    expect(a, "the first, through");
    expect(b, "\"unloaded\":\"" A "\"");
    expect(c, "the first");
    expect_journal("load " A "\nbegin " A "\nunload " A "\nload " A "\nbegin " A "\n");
    free(a);
    free(b);
    free(c);
    close(runs);
    close(ends);
    close(next);
}

static void idle_models_go(void **state)
{
    (void)state;
    prepare();
    w.models.idle_unload = 0.001;
    wire_start();
    answered("POST", CHAT, ASK(A, "x") "}", "200 OK");
    await_page("/v1/status", "\"model\":null");
    answered("GET", "/v1/models/" A, NULL, "\"loadable\":true,\"reason\":null,\"loaded\":false");
    answered("POST", CHAT, ASK(B, "x") "}", "the second");
    await_page("/v1/status", "\"model\":null");
    expect_journal("load " A "\nbegin " A "\nunload " A "\nload " B "\nbegin " B "\nunload " B
                   "\n");
    char *log = log_text();
    expect(log, " " A " is being loaded\n");
    expect(log, " " A " is loaded: ");
    expect(log, " " A " is unloaded\n");
    free(log);
    wire_end();
}

/* The body may be as large as the largest context of all needs. */
static void the_largest_context_bounds_bodies(void **state)
{
    (void)state;
    wire_prepare(first_script);
    wire_add_model("wide_4-Bit", second_script, 2u << 20);
    wire_start();
    int fd = dial();
    put(fd, "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 33554432\r\nExpect: 100-continue\r\n\r\n");
    char *text = take_until(fd, "\r\n\r\n");
    expect(text, "100 Continue"); /* 413 where 2,048 tokens are the most */
    free(text);
    close(fd);
    wire_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_request_has_its_own_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counting_loads_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fast_is_without_thoughts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_overtakes_a_switch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_load_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unfit_one_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_stops_no_load, set_up, tear_down),
        cmocka_unit_test(the_end_does_not_wait_for_a_load),
        cmocka_unit_test_setup_teardown(unload_on_demand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unload_waits_for_what_runs, set_up, tear_down),
        cmocka_unit_test(idle_models_go),
        cmocka_unit_test(the_largest_context_bounds_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
