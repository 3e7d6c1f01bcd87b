#include "server/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/stop_match.h"

#define MOST_REPORTS (64u << 20)

void tt_turn_request_free(tt_turn_request *r)
{
    tt_free(r->prompt.ids);
    tt_free(r->tools);
    tt_grammar_shelf_give(&r->grammar);
    for (uint32_t i = 0; i < r->n_stops; i++)
        tt_free(r->stops[i]);
    *r = (tt_turn_request){0};
}

void tt_random_id(const char *prefix, char *out)
{
    static _Atomic uint64_t fallback;
    unsigned char bytes[12];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        uint64_t n = ++fallback;
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, &n, sizeof n);
    }
    out += sprintf(out, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes; i++)
        out += sprintf(out, "%02x", bytes[i]);
}

/* ---- one choice ---- */

typedef struct choice {
    const tt_turn_request *r;
    const tt_turn_sink *sink;
    tt_turn_usage *usage;
    uint32_t i, calls;
    tt_stop_match stops;
    tt_buf reports; /* of text that is held back */
    bool matched;
    tt_status st;
    tt_error *err;
} choice;

/* Reports come with the first text after their token. */
static void say(choice *c, const char *text, size_t len)
{
    if (len == 0)
        return;
    c->sink->text(c->sink->ctx, c->i, text, len, (const tt_token_report *)c->reports.data,
                  c->reports.len / sizeof(tt_token_report));
    tt_buf_clear(&c->reports);
}

static bool on_text(choice *c, const tt_engine_event *e)
{
    const char *ready;
    size_t n;
    if (e->n_reports > 0)
        tt_buf_append(&c->reports, e->reports, e->n_reports * sizeof *e->reports);
    c->st = tt_stop_match_push(&c->stops, e->text, e->len, &ready, &n, &c->matched, c->err);
    if (c->st != TT_OK)
        return false;
    say(c, ready, n);
    if (c->matched)
        c->usage->stopped_by = c->r->stops[tt_stop_match_found(&c->stops)];
    return !c->matched;
}

static void flush(choice *c)
{
    const char *ready;
    size_t n;
    if (c->matched)
        return;
    tt_stop_match_flush(&c->stops, &ready, &n);
    say(c, ready, n);
}

static bool on_event(void *ctx, const tt_engine_event *e)
{
    choice *c = ctx;
    char id[TT_CALL_ID];
    switch (e->kind) {
    case TT_EVENT_START:
        if (c->i == 0 && c->sink->start != NULL)
            c->sink->start(c->sink->ctx, e->done, e->total);
        return true;
    case TT_EVENT_PREFILL:
        if (c->i == 0)
            c->sink->prefill(c->sink->ctx, e->done, e->total);
        return true;
    case TT_EVENT_THOUGHT:
        c->sink->thought(c->sink->ctx, c->i, e->text, e->len);
        return true;
    case TT_EVENT_BAD_CALL:
        c->usage->bad_calls++;
        return true;
    case TT_EVENT_CALL:
        flush(c);
        tt_random_id("call_", id);
        c->sink->call(c->sink->ctx, c->i, c->calls++, id, e->name, e->text, e->len);
        return !c->r->one_call;
    default:
        return on_text(c, e);
    }
}

static tt_status run_choice(const tt_server_engine *engine, choice *c, const atomic_bool *cancel,
                            tt_error *err)
{
    const tt_turn_request *r = c->r;
    tt_engine_result result;
    tt_engine_request q = {.ids = r->prompt.ids,
                           .n = r->prompt.n,
                           .in_thought = r->prompt.in_thought,
                           .may_think = r->prompt.may_think,
                           .document = r->document,
                           .plain = r->plain,
                           .tools = r->tools,
                           .sampling = r->sampling,
                           .max_tokens = r->max_tokens,
                           .logprobs = r->logprobs,
                           .top_logprobs = r->top_logprobs,
                           .cancel = cancel};
    if (r->grammar != NULL)
        q.grammar = tt_lent_grammar_get(r->grammar);
    q.sampling.seed += c->i;
    c->usage->stopped_by = NULL;
    c->sink->begin(c->sink->ctx, c->i);
    tt_status st = engine->ops->generate(engine->self, &q, on_event, c, &result, err);
    if (c->i == 0) {
        c->usage->cached = result.reuse.tokens;
        c->usage->reuse = result.reuse;
    }
    c->usage->generated += result.generated_tokens;
    c->usage->thought += result.thought_tokens;
    c->usage->prefill_seconds += result.prefill_seconds;
    c->usage->decode_seconds += result.decode_seconds;
    if (st == TT_OK)
        st = c->st;
    if (st == TT_OK && result.finish == TT_ENGINE_CANCELLED)
        return tt_fail(err, TT_ERR_ABORTED, "the answer was cancelled");
    if (st != TT_OK)
        return st;
    flush(c);
    c->sink->end(c->sink->ctx, c->i,
                 c->calls > 0                        ? TT_TURN_CALLS
                 : result.finish == TT_ENGINE_LENGTH ? TT_TURN_LENGTH
                                                     : TT_TURN_STOP);
    return TT_OK;
}

tt_status tt_turn_run(const tt_server_engine *engine, const tt_turn_request *r,
                      const tt_turn_sink *sink, const atomic_bool *cancel, tt_turn_usage *usage,
                      tt_error *err)
{
    tt_status st = TT_OK;
    *usage = (tt_turn_usage){.prompt = r->prompt.n};
    for (uint32_t i = 0; st == TT_OK && i < r->n; i++) {
        choice c = {.r = r, .sink = sink, .usage = usage, .i = i, .err = err};
        tt_stop_match_init(&c.stops, (const char *const *)r->stops, r->n_stops);
        tt_buf_init(&c.reports, MOST_REPORTS);
        st = run_choice(engine, &c, cancel, err);
        tt_buf_free(&c.reports);
        tt_stop_match_free(&c.stops);
    }
    return st;
}
