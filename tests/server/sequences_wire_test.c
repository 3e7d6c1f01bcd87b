/* Proves on the wire, with scripted engines, what a server does that makes several answers at once:
 * as many run as may and the others wait in their order, one that is given up makes room at once,
 * a switch to another model waits for all that run and is not overtaken, and what is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire.h"

#define CHAT "/v1/chat/completions"
#define ASK(model, text)                                                                           \
    "{\"model\":\"" model                                                                          \
    "\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]}"
#define A "scripted_4-Bit"
#define B "second_8-Bit"

static const char script[] =
    "[{\"match\":\"one\",\"steps\":[{\"prefill\":[2,10]},{\"text\":\"1\"},{\"gate\":true},"
    "{\"text\":\"uno\"}]},"
    "{\"match\":\"two\",\"steps\":[{\"prefill\":[3,20]},{\"text\":\"2\"},{\"gate\":true},"
    "{\"text\":\"due\"}]},"
    "{\"match\":\"three\",\"steps\":[{\"text\":\"3\"},{\"gate\":true},{\"text\":\"tre\"}]},"
    "{\"match\":\"four\",\"steps\":[{\"text\":\"4\"}]},"
    "{\"match\":\"fail\",\"steps\":[{\"gate\":true},{\"fail\":\"no\"}]},"
    "{\"steps\":[{\"text\":\"?\"}]}]";

static int set_up(void **state)
{
    (void)state;
    wire_prepare(script);
    w.config.sequences = 3;
    w.config.queue_limit = 2;
    (void)wire_add_model(B, "[{\"steps\":[{\"text\":\"the second\"}]}]", 1024);
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

static int asked(const char *body)
{
    int fd = dial();
    post(fd, CHAT, body);
    return fd;
}

/* Asks again until it is so. */
static void await_metric(const char *want)
{
    for (bool there = false; !there;) {
        char *text = once("GET", "/metrics", "", NULL);
        there = strstr(text, want) != NULL;
        free(text);
    }
}

static void hears(int fd, const char *marker)
{
    char *text = take_until(fd, marker);
    expect(text, marker);
    free(text);
}

static void ends_with(int fd, const char *word)
{
    char *text = take_until(fd, "[DONE]");
    expect(text, word);
    free(text);
    close(fd);
}

#define RUNNING(n) "tinytitan_queue_running " n "\n"
#define WAITING(n) "tinytitan_queue_waiting " n "\n"

static void as_many_as_may_run_and_the_rest_wait(void **state)
{
    (void)state;
    int one = asked(ASK(A, "one"));
    hears(one, "\"1\"");
    int two = asked(ASK(A, "two"));
    hears(two, "\"2\""); /* while the first is at its gate */
    int three = asked(ASK(A, "three"));
    hears(three, "\"3\"");
    await_metric(RUNNING("3"));
    await_metric("tinytitan_prefill_tokens_done 5\n");
    await_metric("tinytitan_prefill_tokens 30\n");
    int four = asked(ASK(A, "four"));
    await_metric(WAITING("1"));
    int more = asked(ASK(A, "other"));
    await_metric(WAITING("2"));
    char *text = once("POST", CHAT, "", ASK(A, "late"));
    expect(text, "429");
    expect(text, "queue_full");
    free(text);
    text = once("GET", "/v1/status", "", NULL);
    expect(text, "\"running\":3,\"waiting\":2,\"limit\":2,\"sequences\":3}");
    free(text);
    close(two); /* given up: its place is the next one's at once */
    ends_with(four, "\"4\"");
    ends_with(more, "\"?\"");
    await_metric(RUNNING("2"));
    await_metric("tinytitan_cancelled_total 1\n");
    scripted_engine_open_gate(w.engine);
    ends_with(one, "uno");
    ends_with(three, "tre");
    await_metric(RUNNING("0"));
    await_metric("tinytitan_prefill_tokens 0\n");
    char *journal = scripted_journal_text(w.journal);
    assert_string_equal(journal, "load " A "\nbegin " A "\nbegin " A "\nbegin " A "\nbegin " A
                                 "\nbegin " A "\n");
    free(journal);
}

static void a_switch_waits_for_all_and_is_not_overtaken(void **state)
{
    (void)state;
    int one = asked(ASK(A, "one")), two;
    hears(one, "\"1\"");
    two = asked(ASK(A, "two"));
    hears(two, "\"2\"");
    int other = asked(ASK(B, "x"));
    await_metric(WAITING("1"));
    int four = asked(ASK(A, "four")); /* there were room, but not before the switch */
    await_metric(WAITING("2"));
    await_metric(RUNNING("2"));
    scripted_engine_open_gate(w.engine);
    ends_with(one, "uno");
    ends_with(two, "due");
    ends_with(other, "the second");
    ends_with(four, "\"4\"");
    char *journal = scripted_journal_text(w.journal);
    assert_string_equal(journal, "load " A "\nbegin " A "\nbegin " A "\nunload " A "\nload " B
                                 "\nbegin " B "\nunload " B "\nload " A "\nbegin " A "\n");
    free(journal);
}

static void unloading_waits_and_a_failure_is_one_answer_s(void **state)
{
    (void)state;
    int one = asked(ASK(A, "one")), bad = asked(ASK(A, "fail"));
    hears(one, "\"1\"");
    await_metric(RUNNING("2"));
    int fd = dial();
    ask(fd, "POST", "/v1/models/unload", "", "");
    await_metric(WAITING("1"));
    assert_true(scripted_engine_loaded(w.engine));
    scripted_engine_open_gate(w.engine);
    char *text = take_until(bad, "[DONE]");
    expect(text, "\"error\"");
    free(text);
    close(bad);
    ends_with(one, "uno");
    text = take_answer(fd);
    expect(text, "\"unloaded\":\"" A "\"");
    free(text);
    close(fd);
    assert_false(scripted_engine_loaded(w.engine));
}

/* Those that run have their time, those that wait are told. */
static void the_end_comes_to_all(void **state)
{
    (void)state;
    int one = asked(ASK(A, "one")), two, three;
    hears(one, "\"1\"");
    two = asked(ASK(A, "two"));
    hears(two, "\"2\"");
    three = asked(ASK(A, "three"));
    hears(three, "\"3\"");
    int four = asked(ASK(A, "four"));
    await_metric(WAITING("1"));
    tt_server_stop(w.server);
    hears(four, "shutting_down");
    scripted_engine_open_gate(w.engine);
    ends_with(one, "uno");
    ends_with(two, "due");
    ends_with(three, "tre");
    close(four);
    wire_join();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_many_as_may_run_and_the_rest_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_switch_waits_for_all_and_is_not_overtaken, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(unloading_waits_and_a_failure_is_one_answer_s, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_end_comes_to_all, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
