/* Proves that no body does harm to the readers of Chat Completions and Completions, and that what
 * they let through is inside every limit. Prompts are made by the tokenizer and the template of the
 * shipped model. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/chat_request.h"
#include "server/prompt_render.h"
#include "server/text_request.h"

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
    must(t->prompt.n > 0 && t->prompt.n < info.max_context);
    must(t->max_tokens <= info.max_context - t->prompt.n && (t->max_tokens > 0 || !r->chat));
    must(t->n >= 1 && t->n <= TT_CHOICES && t->n_stops <= TT_STOP_STRINGS);
    must(t->top_logprobs <= TT_TOP_LOGPROBS && (t->logprobs || t->top_logprobs == 0));
    must(s->temperature >= 0 && s->temperature <= 2 && s->top_p >= 0 && s->top_p <= 1);
    must(s->min_p >= 0 && s->min_p <= 1 && s->repetition_penalty > 0);
    must(s->presence_penalty >= -2 && s->presence_penalty <= 2);
    must(s->frequency_penalty >= -2 && s->frequency_penalty <= 2);
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

/* A body that names no model of ours would end there. */
static void name_model(json_t *body)
{
    if (json_is_string(json_object_get(body, "model")))
        json_object_set_new(body, "model", json_string(info.model));
}

static void read_body(const json_t *body, int kind)
{
    tt_answer_request r;
    tt_refusal why;
    tt_fields f;
    tt_fields_init(&f, body, &info, &r, &why);
    f.grammars = grammars;
    bool ok = kind == 0   ? tt_chat_request_read(&f, &engine)
              : kind == 1 ? tt_text_request_read(&f, &engine)
                          : tt_chat_request_count(&f, &engine);
    must(ok == (why.status == 0) && (ok || (why.code != NULL && why.message[0] != '\0')));
    if (ok && kind < 2)
        check(&r);
    must(f.adjusted.failed == TT_OK && f.ignored.failed == TT_OK && f.repaired.failed == TT_OK &&
         f.relaxed.failed == TT_OK);
    tt_fields_free(&f);
    tt_answer_request_free(&r);
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
    name_model(body);
    for (int kind = 0; json_is_object(body) && kind < 3; kind++)
        read_body(body, kind);
    json_decref(body);
    return 0;
}
