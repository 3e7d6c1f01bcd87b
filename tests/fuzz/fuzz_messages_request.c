/* Proves that no body does harm to the reader of Anthropic's Messages, that what it lets through is
 * inside every limit, that a count is that of the request, and that a conversation cut off before a
 * message of another role begins as the whole does. Prompts are made by the tokenizer and the
 * template of the shipped model. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/messages_history.h"
#include "server/messages_request.h"
#include "server/prompt_render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tt_tokenizer *tok;
static tt_grammar_shelf *grammars;
static tt_engine_info info;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    (void)self;
    return tt_prompt_render(tok, r, out, err);
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};

static void close_tok(void)
{
    tt_tokenizer_close(&tok);
    tt_grammar_shelf_close(&grammars);
}

static void open_tok(void)
{
    tt_error err;
    must(tt_tokenizer_open("models/tales", &tok, &err) == TT_OK);
    must(tt_grammar_shelf_create(TT_GRAMMARS, &grammars, &err) == TT_OK);
    atexit(close_tok);
    info = (tt_engine_info){.max_context = 512, .has_template = true};
    strcpy(info.model, "m");
    info.vocab_size = tt_tokenizer_vocab_size(tok);
    tt_sampler_options_default(&info.sampling);
    tt_prompt_levels(tok, info.efforts, &info.thinks);
}

static void check(const tt_answer_request *r)
{
    const tt_turn_request *t = &r->turn;
    const tt_sampler_options *s = &t->sampling;
    must(t->prompt.n > 0 && t->prompt.n < info.max_context && t->n == 1 && !t->logprobs);
    must(t->max_tokens <= info.max_context - t->prompt.n && t->n_stops <= TT_STOP_STRINGS);
    must(s->temperature >= 0 && s->temperature <= 2 && s->top_p >= 0 && s->top_p <= 1);
    for (size_t i = 0; i < t->prompt.n; i++)
        must(t->prompt.ids[i] < info.vocab_size);
    for (uint32_t i = 0; i < t->n_stops; i++)
        must(t->stops[i][0] != '\0' && strlen(t->stops[i]) <= TT_STOP_BYTES);
    if (t->tools != NULL) {
        json_t *tools = json_loads(t->tools, 0, NULL);
        must(json_array_size(tools) > 0 && json_array_size(tools) <= TT_TOOLS);
        json_decref(tools);
    }
}

/* The number of tokens, or 0 when it is refused. */
static size_t read_body(const json_t *body, bool count)
{
    tt_answer_request r;
    tt_refusal why;
    tt_fields f;
    tt_fields_init(&f, body, &info, &r, &why);
    f.grammars = grammars;
    bool ok =
        count ? tt_messages_request_count(&f, &engine) : tt_messages_request_read(&f, &engine);
    must(ok == (why.status == 0) && (ok || (why.code != NULL && why.message[0] != '\0')));
    if (ok && !count)
        check(&r);
    must(f.adjusted.failed == TT_OK && f.ignored.failed == TT_OK && f.repaired.failed == TT_OK &&
         f.relaxed.failed == TT_OK);
    size_t n = ok ? r.turn.prompt.n : 0;
    tt_fields_free(&f);
    tt_answer_request_free(&r);
    return n;
}

/* The first n messages in the form of Chat Completions; NULL when they are refused. */
static json_t *convert(const json_t *messages, size_t n)
{
    json_t *some = json_array(), *out = NULL;
    tt_answer_request r;
    tt_refusal why;
    tt_fields f;
    for (size_t i = 0; i < n; i++)
        must(json_array_append(some, json_array_get(messages, i)) == 0);
    tt_fields_init(&f, some, &info, &r, &why);
    if (!tt_messages_history(&f, NULL, some, &out)) {
        must(why.status >= 400 && why.code != NULL);
        out = NULL;
    }
    json_decref(some);
    tt_fields_free(&f);
    tt_answer_request_free(&r);
    return out;
}

static const char *role_of(const json_t *messages, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
    return role != NULL ? role : "";
}

static void check_beginnings(const json_t *messages)
{
    size_t n = json_array_size(messages) < 12 ? json_array_size(messages) : 12;
    json_t *whole = convert(messages, n);
    for (size_t i = 1; whole != NULL && i < n; i++) {
        size_t k;
        json_t *m;
        if (strcmp(role_of(messages, i - 1), role_of(messages, i)) == 0)
            continue;
        json_t *part = convert(messages, i);
        must(part != NULL && json_array_size(part) <= json_array_size(whole));
        json_array_foreach(part, k, m) must(json_equal(m, json_array_get(whole, k)));
        json_decref(part);
    }
    json_decref(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *body = NULL;
    tt_error err;
    if (tok == NULL)
        open_tok();
    if (tt_json_parse_deep((const char *)data, size, TT_REQUEST_DEPTH, "the body", &body, &err) !=
        TT_OK)
        return 0;
    if (json_is_object(body)) {
        /* A body that names no model of ours would end there. */
        if (json_is_string(json_object_get(body, "model")))
            json_object_set_new(body, "model", json_string(info.model));
        size_t n = read_body(body, false), count = read_body(body, true);
        /* A template that was stopped for its time is refused the one time and not the other. */
        must(n == 0 || count == 0 || count == n);
        check_beginnings(json_object_get(body, "messages"));
    }
    json_decref(body);
    return 0;
}
