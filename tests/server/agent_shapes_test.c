/* Proves that conversations in the shapes of Claude Code and Codex are read once: from the second
 * request on at least 95 of 100 tokens that any earlier prompt or reply begins with are not
 * computed again, thinking or not, with a billing line that changes, system messages after results
 * of tools, and requests for titles in between; and so when the process ends between two requests,
 * over and over, and only a directory remains. The requests go through the readers of the
 * protocols and the shipped template; the model is small and its replies are given. */
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
#include "server/prompt_render.h"
#include "server/response_request.h"
#include "support/tempdir.h"
#include "support/tiny_model.h"

#define CONTEXT 32768u
#define MOST    240u /* requests of all conversations */

typedef struct talk {
    bool codex, thinking;
    json_t *messages; /* or input items */
    unsigned calls, requests;
    uint64_t reused, reusable, last_prompt;
} talk;

static char place[512]; /* the directory of prompt state */
static const char *install;
static unsigned ends_every; /* requests after which the process ends; 0: never */
static uint64_t from_disk;  /* tokens */
static tt_tokenizer *tok;
static tt_model *model;
static tt_state_cache *cache;
static tt_session *session;
static tt_engine_info info;
/* What was read so far: prompts with their replies. */
static uint32_t *seen[MOST];
static size_t seen_n[MOST];
static unsigned n_seen;
static unsigned salt; /* of the conversation: its text is no other's */

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    (void)self;
    return tt_prompt_render(tok, r, out, err);
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};

/* ---- text without a meaning ---- */

/* `words` words that depend on the seed alone. */
static char *prose(unsigned seed, unsigned words)
{
    static const char *const list[] = {"file", "the",  "read", "then", "a",    "test",
                                       "of",   "line", "code", "with", "runs", "tree",
                                       "name", "when", "tool", "and"};
    char *text = malloc(8 * (size_t)words + 1), *at = text;
    assert_non_null(text);
    *at = '\0';
    seed += salt;
    for (unsigned i = 0; i < words; i++) {
        seed = seed * 1664525u + 1013904223u;
        at += sprintf(at, i == 0 ? "%s" : i % 17 == 0 ? ".\n%s" : " %s", list[seed >> 28]);
    }
    return text;
}

static json_t *prose_json(unsigned seed, unsigned words)
{
    char *text = prose(seed, words);
    json_t *s = json_string(text);
    free(text);
    return s;
}

static json_t *tools(bool codex)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < 14; i++) {
        char name[16];
        snprintf(name, sizeof name, "Tool%u", i);
        json_t *schema =
            json_pack("{s:s, s:{s:{s:s, s:o}, s:{s:s}}, s:[s]}", "type", "object", "properties",
                      "path", "type", "string", "description", prose_json(i, 20), "limit", "type",
                      "integer", "required", "path");
        json_t *about = prose_json(100 + i, 120);
        json_array_append_new(
            list, codex ? json_pack("{s:s, s:s, s:o, s:b, s:o}", "type", "function", "name", name,
                                    "description", about, "strict", 0, "parameters", schema)
                        : json_pack("{s:s, s:o, s:o}", "name", name, "description", about,
                                    "input_schema", schema));
    }
    return list;
}

/* ---- requests ---- */

static json_t *claude_body(const talk *t)
{
    char billing[96];
    snprintf(billing, sizeof billing, "x-anthropic-billing-header: cc_version=2.1; cch=%05x;",
             t->requests * 7919);
    return json_pack("{s:s, s:i, s:b, s:[{s:s, s:s}, {s:s, s:o}], s:o, s:{s:s}, s:O}", "model", "m",
                     "max_tokens", 32000, "stream", 1, "system", "type", "text", "text", billing,
                     "type", "text", "text", prose_json(1, 2600), "tools", tools(false), "thinking",
                     "type", t->thinking ? "adaptive" : "disabled", "messages", t->messages);
}

static json_t *codex_body(const talk *t)
{
    return json_pack("{s:s, s:o, s:o, s:b, s:b, s:b, s:s, s:{s:s}, s:O}", "model", "m",
                     "instructions", prose_json(2, 2600), "tools", tools(true),
                     "parallel_tool_calls", 0, "stream", 1, "store", 0, "prompt_cache_key", "k",
                     "reasoning", "effort", t->thinking ? "medium" : "none", "input", t->messages);
}

static json_t *title_body(const talk *t)
{
    if (t->codex)
        return json_pack("{s:s, s:s, s:b, s:{s:s}, s:o}", "model", "m", "instructions",
                         "Write a title.", "store", 0, "reasoning", "effort", "none", "input",
                         prose_json(t->requests, 40));
    return json_pack("{s:s, s:i, s:s, s:{s:s}, s:[{s:s, s:o}]}", "model", "m", "max_tokens", 64,
                     "system", "Write a title.", "thinking", "type", "disabled", "messages", "role",
                     "user", "content", prose_json(t->requests, 40));
}

/* The prompt that a server makes of a body. */
static void read_body(bool codex, json_t *body, tt_answer_request *r)
{
    tt_response_plan plan = {0};
    tt_refusal why = {0};
    tt_fields f;
    assert_non_null(body);
    tt_fields_init(&f, body, &info, r, &why);
    bool good = codex ? tt_response_request_read(&f, &engine, NULL, &plan)
                      : tt_messages_request_read(&f, &engine);
    if (!good)
        fail_msg("%s: %s", why.code, why.message);
    tt_fields_free(&f);
    tt_response_plan_free(&plan);
    json_decref(body);
}

static size_t common(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
    size_t i = 0;
    while (i < n && i < m && a[i] == b[i])
        i++;
    return i;
}

/* ---- the process ---- */

static void begin(void)
{
    tt_error err = {0};
    tt_model_options mo;
    tt_state_disk_options disk = {.dir = place, .render = "chat"};
    tt_model_options_default(&mo);
    mo.max_context = CONTEXT;
    mo.prompt_cache = 32 * TT_MIB;
    model = tiny_open(install, &mo);
    ok(tt_state_cache_create(model, &cache, &err), &err);
    if (ends_every > 0)
        ok(tt_state_cache_use_disk(cache, &disk, &err), &err);
    ok(tt_session_create(model, &session, &err), &err);
    ok(tt_session_use_cache(session, cache, &err), &err);
}

static void end(void)
{
    tt_session_close(&session);
    tt_state_cache_close(&cache);
    tt_model_close(&model);
}

/* Reads the prompt as a server would, then takes the reply as the model's own. */
static void ask(talk *t, json_t *body, const char *reply)
{
    tt_answer_request r = {0};
    tt_checkpoint places[TT_MOST_CHECKPOINTS];
    tt_prefill_options o = {.checkpoints = places};
    tt_session_reuse reuse;
    tt_error err = {0};
    uint32_t *more = NULL;
    size_t n_more = 0, most = 0;
    read_body(t->codex, body, &r);
    const tt_engine_prompt *p = &r.turn.prompt;
    for (unsigned i = 0; i < n_seen; i++) {
        size_t n = common(p->ids, p->n - 1, seen[i], seen_n[i]);
        most = n > most ? n : most;
    }
    if (ends_every > 0 && t->requests > 0 && t->requests % ends_every == 0) {
        end();
        begin();
    }
    o.n_checkpoints = tt_chat_checkpoints(tok, p->ids, p->n, places);
    ok(tt_session_sync(session, p->ids, p->n, &o, NULL, &err), &err);
    tt_session_get_reuse(session, &reuse);
    assert_true(reuse.tokens <= most);
    from_disk += reuse.tier == TT_TIER_DISK ? reuse.tokens : 0;
    print_message("    %2u  prompt %5zu  reusable %5zu  cached %5zu  %s/%s\n", t->requests, p->n,
                  most, reuse.tokens, tt_state_tier_name(reuse.tier),
                  tt_checkpoint_name(reuse.kind));
    if (t->requests > 0) {
        /* of what is short the last block is much */
        assert_true(ends_every > 0 || most < 20 * 64 || 100 * reuse.tokens >= 95 * most);
        t->reused += reuse.tokens;
        t->reusable += most;
    }
    t->last_prompt = p->n;
    /* A thought begins in the prompt, or with the reply. */
    char whole[1200];
    bool opens = strstr(reply, "</think>") != NULL && !p->in_thought;
    snprintf(whole, sizeof whole, "%s%s", opens ? "<think>\n" : "", reply);
    ok(tt_tokenizer_encode(tok, whole, strlen(whole), true, &more, &n_more, &err), &err);
    for (size_t i = 0; i < n_more; i++)
        ok(tt_session_decode(session, more[i], &err), &err);
    tt_session_settle(session);
    assert_true(n_seen < MOST);
    uint32_t *all = malloc((p->n + n_more) * sizeof *all);
    assert_non_null(all);
    memcpy(all, p->ids, p->n * sizeof *all);
    memcpy(all + p->n, more, n_more * sizeof *all);
    seen[n_seen] = all;
    seen_n[n_seen++] = p->n + n_more;
    t->requests++;
    tt_free(more);
    tt_answer_request_free(&r);
}

static void title(talk *t)
{
    ask(t, title_body(t), "A title<|im_end|>");
}

/* ---- turns ---- */

static void user(talk *t, unsigned words)
{
    json_t *text = prose_json(500 + t->requests, words);
    json_array_append_new(
        t->messages, t->codex ? json_pack("{s:s, s:s, s:[{s:s, s:o}]}", "type", "message", "role",
                                          "user", "content", "type", "input_text", "text", text)
                              : json_pack("{s:s, s:[{s:s, s:o}]}", "role", "user", "content",
                                          "type", "text", "text", text));
}

/* A request, answered with a thought, a sentence and a call, whose result comes next. */
static void call(talk *t, unsigned result_words)
{
    char id[24], path[32], reply[1024], *thought = prose(t->requests, 30);
    unsigned i = t->calls++;
    snprintf(id, sizeof id, "call_%u", i);
    snprintf(path, sizeof path, "/src/%u.c", i);
    snprintf(reply, sizeof reply,
             "%s%sI look.\n\n<tool_call>\n<function=Tool%u>\n<parameter=path>\n%s\n</parameter>\n"
             "</function>\n</tool_call><|im_end|>",
             t->thinking ? thought : "", t->thinking ? "\n</think>\n\n" : "", i % 14, path);
    ask(t, t->codex ? codex_body(t) : claude_body(t), reply);
    char name[16];
    snprintf(name, sizeof name, "Tool%u", i % 14);
    json_t *result = prose_json(900 + i, result_words);
    if (t->codex) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "{\"path\":\"%s\"}", path);
        json_array_append_new(t->messages, json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "type",
                                                     "message", "role", "assistant", "content",
                                                     "type", "output_text", "text", "I look."));
        json_array_append_new(t->messages,
                              json_pack("{s:s, s:s, s:s, s:s}", "type", "function_call", "name",
                                        name, "arguments", arguments, "call_id", id));
        json_array_append_new(t->messages,
                              json_pack("{s:s, s:s, s:o}", "type", "function_call_output",
                                        "call_id", id, "output", result));
    } else {
        json_t *blocks = json_array();
        if (t->thinking)
            json_array_append_new(blocks, json_pack("{s:s, s:s, s:s}", "type", "thinking",
                                                    "thinking", thought, "signature", ""));
        json_array_append_new(blocks, json_pack("{s:s, s:s}", "type", "text", "text", "I look."));
        json_array_append_new(blocks, json_pack("{s:s, s:s, s:s, s:{s:s}}", "type", "tool_use",
                                                "id", id, "name", name, "input", "path", path));
        json_array_append_new(t->messages,
                              json_pack("{s:s, s:o}", "role", "assistant", "content", blocks));
        json_array_append_new(t->messages, json_pack("{s:s, s:[{s:s, s:s, s:o}]}", "role", "user",
                                                     "content", "type", "tool_result",
                                                     "tool_use_id", id, "content", result));
        if (i % 3 == 0)
            json_array_append_new(t->messages, json_pack("{s:s, s:o}", "role", "system", "content",
                                                         prose_json(i, 25)));
    }
    free(thought);
}

/* A request, answered with text: the end of a turn. */
static void say(talk *t)
{
    char *thought = prose(t->requests, 25), reply[512];
    snprintf(reply, sizeof reply, "%s%sThat is all.<|im_end|>", t->thinking ? thought : "",
             t->thinking ? "\n</think>\n\n" : "");
    ask(t, t->codex ? codex_body(t) : claude_body(t), reply);
    json_array_append_new(t->messages,
                          t->codex ? json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "type", "message",
                                               "role", "assistant", "content", "type",
                                               "output_text", "text", "That is all.")
                                   : json_pack("{s:s, s:[{s:s, s:s}]}", "role", "assistant",
                                               "content", "type", "text", "text", "That is all."));
    free(thought);
}

static void converse(bool codex, bool thinking)
{
    talk t = {.codex = codex, .thinking = thinking, .messages = json_array()};
    salt += 100000;
    print_message("  %s, thinking %s\n", codex ? "Codex" : "Claude Code", thinking ? "on" : "off");
    for (unsigned turn = 0; turn < 4; turn++) {
        user(&t, 60 + 40 * turn);
        if (turn > 0)
            title(&t);
        for (unsigned i = 0; i < 4; i++)
            call(&t, 200 + 90 * i);
        say(&t);
    }
    assert_true(t.requests >= 20 && t.calls >= 12 && t.last_prompt >= 15000);
    print_message("    of %llu tokens that could be used again %llu were: %.2f %%\n",
                  (unsigned long long)t.reusable, (unsigned long long)t.reused,
                  100.0 * (double)t.reused / (double)t.reusable);
    assert_true((double)t.reused >= 0.95 * (double)t.reusable);
    json_decref(t.messages);
}

static void claude_code(void **state)
{
    (void)state;
    converse(false, true);
    converse(false, false);
}

static void codex(void **state)
{
    (void)state;
    converse(true, true);
    converse(true, false);
}

/* The same with a restart before every request, then before every third. */
static void after_restarts(void **state)
{
    (void)state;
    static const unsigned every[] = {1, 3};
    for (unsigned i = 0; i < 2; i++) {
        end();
        ends_every = every[i];
        from_disk = 0;
        begin();
        print_message("  a restart every %u requests\n", ends_every);
        converse(false, i == 0);
        converse(true, i == 1);
        assert_true(from_disk > 100000);
        print_message("    %llu tokens from the directory\n", (unsigned long long)from_disk);
    }
}

static int set_up(void **state)
{
    (void)state;
    tt_error err = {0};
    tiny_options o = {.arch = tiny_arch_plain("lf", 0, 0), .seed = 3, .mat = TT_DTYPE_Q8};
    tempdir_make(place);
    ok(tt_tokenizer_open("models/tales", &tok, &err), &err);
    o.arch.vocab_size = tt_tokenizer_vocab_size(tok);
    o.arch.max_position = CONTEXT;
    install = tiny_install_new(&o);
    begin();
    info = (tt_engine_info){.model = "m", .max_context = CONTEXT, .has_template = true};
    info.vocab_size = o.arch.vocab_size;
    tt_prompt_levels(tok, info.efforts, &info.thinks);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < n_seen; i++)
        free(seen[i]);
    end();
    tt_tokenizer_close(&tok);
    tiny_remove();
    tempdir_remove(place);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claude_code),
        cmocka_unit_test(codex),
        cmocka_unit_test(after_restarts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
