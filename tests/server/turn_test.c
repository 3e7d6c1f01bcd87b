/* Proves what a turn makes of an engine's events: choices and their seeds, stop strings, ids of
 * calls, the end after the first call, log probabilities, counting, cancelling, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/turn.h"

/* ---- an engine that plays a list of events to every choice ---- */

typedef struct played {
    const tt_engine_event *events;
    size_t n, told; /* told: how many it came to, of the last choice */
    tt_engine_result result;
    tt_status st;
    uint64_t seeds[TT_CHOICES];
    uint32_t n_seeds;
    tt_engine_request last;
} played;

static tt_status generate(void *self, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx,
                          tt_engine_result *result, tt_error *err)
{
    played *p = self;
    p->last = *r;
    p->seeds[p->n_seeds++] = r->sampling.seed;
    *result = p->result;
    result->reuse.tokens += p->n_seeds - 1; /* the others find more */
    for (p->told = 0; p->told < p->n;)
        if (!fn(ctx, &p->events[p->told++])) {
            result->finish = TT_ENGINE_ENOUGH;
            return TT_OK;
        }
    return p->st == TT_OK ? TT_OK : tt_fail(err, p->st, "the disk is gone");
}

/* ---- a sink that writes down what it is told ---- */

static char heard[4096], last_id[TT_CALL_ID];
static size_t reports;

static void write_down(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void write_down(const char *fmt, ...)
{
    size_t n = strlen(heard);
    va_list args;
    va_start(args, fmt);
    vsnprintf(heard + n, sizeof heard - n, fmt, args);
    va_end(args);
}
static void on_begin(void *ctx, uint32_t i)
{
    (void)ctx;
    write_down("[%u", i);
}
static void on_thought(void *ctx, uint32_t i, const char *text, size_t len)
{
    (void)ctx;
    (void)i;
    write_down("(%.*s)", (int)len, text);
}
static void on_text(void *ctx, uint32_t i, const char *text, size_t len, const tt_token_report *r,
                    size_t n)
{
    (void)ctx;
    (void)i;
    (void)r;
    assert_true(len > 0);
    write_down("|%.*s", (int)len, text);
    reports += n;
}
static void on_call(void *ctx, uint32_t i, uint32_t k, const char *id, const char *name,
                    const char *arguments, size_t len)
{
    (void)ctx;
    (void)i;
    assert_int_equal(strlen(id), 29);
    assert_memory_equal(id, "call_", 5);
    assert_int_equal(strspn(id + 5, "0123456789abcdef"), 24);
    assert_string_not_equal(id, last_id);
    strcpy(last_id, id);
    write_down("<%u %s %.*s>", k, name, (int)len, arguments);
}
static void on_end(void *ctx, uint32_t i, tt_turn_finish finish)
{
    static const char *const words[] = {"stop", "length", "calls"};
    (void)ctx;
    write_down(" %s %u]", words[finish], i);
}
static void on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    write_down("%llu/%llu", (unsigned long long)done, (unsigned long long)total);
}

static void on_start(void *ctx, uint64_t cached, uint64_t total)
{
    (void)ctx;
    write_down("{%llu of %llu}", (unsigned long long)cached, (unsigned long long)total);
}

static const tt_turn_sink sink = {.begin = on_begin,
                                  .thought = on_thought,
                                  .text = on_text,
                                  .call = on_call,
                                  .end = on_end,
                                  .prefill = on_prefill,
                                  .start = on_start};

/* ---- one turn ---- */

static played p;
static tt_turn_request request;
static tt_turn_usage usage;
static tt_error err;

static tt_status run(const char *want)
{
    static const tt_server_engine_ops ops = {.generate = generate};
    static const atomic_bool cancel;
    const tt_server_engine engine = {&ops, &p};
    heard[0] = '\0';
    reports = 0;
    p.n_seeds = 0;
    tt_status st = tt_turn_run(&engine, &request, &sink, &cancel, &usage, &err);
    assert_ptr_equal(p.last.cancel, &cancel);
    assert_string_equal(heard, want);
    return st;
}

#define TEXT(t)                                                                                    \
    {                                                                                              \
        .kind = TT_EVENT_TEXT, .text = (t), .len = sizeof(t) - 1                                   \
    }
#define CALL(n, a)                                                                                 \
    {                                                                                              \
        .kind = TT_EVENT_CALL, .name = (n), .text = (a), .len = sizeof(a) - 1                      \
    }
#define PLAY(...)                                                                                  \
    static const tt_engine_event list[] = {__VA_ARGS__};                                           \
    p.events = list;                                                                               \
    p.n = sizeof list / sizeof list[0]

static int set_up(void **state)
{
    static uint32_t ids[3] = {1, 2, 3};
    (void)state;
    p = (played){.result = {.finish = TT_ENGINE_STOP, .generated_tokens = 5, .thought_tokens = 2}};
    request = (tt_turn_request){.prompt = {.ids = ids, .n = 3}, .n = 1, .sampling.seed = 10};
    return 0;
}

static void choices(void **state)
{
    (void)state;
    PLAY({.kind = TT_EVENT_START, .done = 1, .total = 3},
         {.kind = TT_EVENT_PREFILL, .done = 3, .total = 3},
         {.kind = TT_EVENT_THOUGHT, .text = "hm", .len = 2}, TEXT("so"));
    request.n = 3;
    request.sampling.seed = UINT64_MAX;
    p.result.reuse.tokens = 1;
    p.result.prefill_seconds = 1;
    p.result.decode_seconds = 2;
    /* The prompt is read once, as far as anybody is told. */
    assert_int_equal(run("[0{1 of 3}3/3(hm)|so stop 0][1(hm)|so stop 1][2(hm)|so stop 2]"), TT_OK);
    assert_true(p.seeds[0] == UINT64_MAX && p.seeds[1] == 0 && p.seeds[2] == 1);
    assert_true(usage.prompt == 3 && usage.cached == 1);
    assert_true(usage.generated == 15 && usage.thought == 6 && usage.bad_calls == 0);
    assert_true(usage.prefill_seconds > 2.9 && usage.decode_seconds > 5.9);
}

static void what_is_asked_for_is_passed_on(void **state)
{
    (void)state;
    char tools[] = "[]";
    PLAY(TEXT("a"));
    request.prompt.in_thought = request.plain = request.logprobs = true;
    request.tools = tools;
    request.max_tokens = 77;
    request.top_logprobs = 4;
    request.sampling.temperature = 0.5f;
    assert_int_equal(run("[0|a stop 0]"), TT_OK);
    assert_true(p.last.in_thought && p.last.plain && p.last.logprobs && p.last.tools == tools);
    assert_true(p.last.ids == request.prompt.ids && p.last.n == 3 && p.last.max_tokens == 77);
    assert_true(p.last.top_logprobs == 4 && p.last.sampling.temperature == 0.5f);
}

static void ends(void **state)
{
    (void)state;
    PLAY(TEXT("a"));
    p.result.finish = TT_ENGINE_LENGTH;
    assert_int_equal(run("[0|a length 0]"), TT_OK);
    p.n = 0;
    assert_int_equal(run("[0 length 0]"), TT_OK);
}

static void stop_strings(void **state)
{
    (void)state;
    PLAY(TEXT("one st"), TEXT("op, one S"), TEXT("TO"), TEXT("P two"));
    request.stops[0] = "never";
    request.stops[1] = "STOP";
    request.n_stops = 2;
    assert_int_equal(run("[0|one st|op, one  stop 0]"), TT_OK);
    assert_int_equal(p.told, 4);
    assert_ptr_equal(usage.stopped_by, request.stops[1]);
    /* What might have begun one comes out at the end. */
    p.n = 3;
    assert_int_equal(run("[0|one st|op, one |STO stop 0]"), TT_OK);
    assert_null(usage.stopped_by);
    /* Nothing before it. */
    request.stops[0] = "one";
    assert_int_equal(run("[0 stop 0]"), TT_OK);
    assert_int_equal(p.told, 1);
    /* A limit that comes with it is none. */
    p.result.finish = TT_ENGINE_LENGTH;
    assert_int_equal(run("[0 stop 0]"), TT_OK);
}

static void calls(void **state)
{
    (void)state;
    PLAY(TEXT("I S"), CALL("look", "{\"at\":1}"), {.kind = TT_EVENT_BAD_CALL}, CALL("see", "{}"));
    request.stops[0] = "STOP";
    request.n_stops = 1;
    last_id[0] = '\0';
    p.result.finish = TT_ENGINE_LENGTH; /* a call outdoes it */
    assert_int_equal(run("[0|I |S<0 look {\"at\":1}><1 see {}> calls 0]"), TT_OK);
    assert_int_equal(usage.bad_calls, 1);
    request.one_call = true;
    assert_int_equal(run("[0|I |S<0 look {\"at\":1}> calls 0]"), TT_OK);
    assert_int_equal(p.told, 2);
}

static void log_probabilities(void **state)
{
    (void)state;
    static const tt_token_report r[2];
    PLAY({.kind = TT_EVENT_TEXT, .text = "a S", .len = 3, .reports = r, .n_reports = 2},
         {.kind = TT_EVENT_TEXT, .text = "T", .len = 1, .reports = r, .n_reports = 1},
         {.kind = TT_EVENT_TEXT, .text = "x", .len = 1, .reports = r, .n_reports = 1});
    request.stops[0] = "STOP";
    request.n_stops = 1;
    assert_int_equal(run("[0|a |STx stop 0]"), TT_OK);
    assert_int_equal(reports, 4);
    request.stops[0] = "STx";
    assert_int_equal(run("[0|a  stop 0]"), TT_OK);
    assert_int_equal(reports, 2); /* the hidden ones are not shown */
}

static void failures(void **state)
{
    (void)state;
    PLAY(TEXT("a"));
    request.n = 2;
    p.st = TT_ERR_IO;
    assert_int_equal(run("[0|a"), TT_ERR_IO);
    assert_string_equal(err.message, "the disk is gone");
    assert_int_equal(usage.generated, 5);
    p.st = TT_OK;
    p.result.finish = TT_ENGINE_CANCELLED;
    assert_int_equal(run("[0|a"), TT_ERR_ABORTED);
    assert_int_equal(usage.generated, 5);
}

static void ids_are_random(void **state)
{
    (void)state;
    char a[64], b[64];
    tt_random_id("req_", a);
    tt_random_id("req_", b);
    assert_int_equal(strlen(a), 28);
    assert_int_equal(strspn(a + 4, "0123456789abcdef"), 24);
    assert_string_not_equal(a, b);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup(test, set_up)
    const struct CMUnitTest tests[] = {
        WITH(choices),  WITH(what_is_asked_for_is_passed_on),
        WITH(ends),     WITH(stop_strings),
        WITH(calls),    WITH(log_probabilities),
        WITH(failures), cmocka_unit_test(ids_are_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
