/* Proves that no body does harm to the readers of Responses, that what they let through is inside
 * every limit, and that the items which are kept render as the ones that came: named by their
 * response, and by their ids. Prompts are made by the tokenizer and the template of the shipped
 * model. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/prompt_render.h"
#include "server/response_request.h"
#include "server/response_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tt_tokenizer *tok;
static tt_grammar_shelf *grammars;
static tt_engine_info info;
static char *last; /* messages of the last prompt */

static void must(bool holds)
{
    if (!holds)
        abort();
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *err)
{
    (void)self;
    free(last);
    last = strdup(r->messages);
    must(last != NULL);
    return tt_prompt_render(tok, r, out, err);
}

static const tt_server_engine_ops ops = {.render = render};
static const tt_server_engine engine = {&ops, NULL};

static void close_tok(void)
{
    tt_tokenizer_close(&tok);
    tt_grammar_shelf_close(&grammars);
    free(last);
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

static void check(const tt_answer_request *r, const tt_response_plan *p, const tt_fields *f)
{
    const tt_turn_request *t = &r->turn;
    const tt_sampler_options *s = &t->sampling;
    must(t->prompt.n > 0 && t->prompt.n < info.max_context && t->n == 1 && t->n_stops == 0);
    must(t->max_tokens > 0 && t->max_tokens <= info.max_context - t->prompt.n);
    must(t->top_logprobs <= TT_TOP_LOGPROBS && (t->logprobs || t->top_logprobs == 0));
    must(s->temperature >= 0 && s->temperature <= 2 && s->top_p >= 0 && s->top_p <= 1);
    must(p->context.n <= TT_MESSAGES && (p->store || p->context.n == 0));
    must(f->adjusted.failed == TT_OK && f->ignored.failed == TT_OK && f->repaired.failed == TT_OK);
    if (p->compact)
        return;
    /* What comes back are members of an object, and nothing that breaks out of it. */
    char *object = malloc(p->echo.len + 3);
    must(object != NULL);
    object[0] = '{';
    memcpy(object + 1, p->echo.data, p->echo.len);
    memcpy(object + 1 + p->echo.len, "}", 2);
    json_t *tree = json_loads(object, JSON_REJECT_DUPLICATES, NULL);
    must(json_object_size(tree) == 21);
    tt_called_tool called = tt_response_tools_find(p->given, "a.b");
    must(called.space == NULL || (called.space_len == 1 && strcmp(called.name, "b") == 0));
    json_decref(tree);
    free(object);
}

/* One more request; its messages are in `last` when it is let through. */
static bool read_body(const json_t *body, tt_response_store *store, bool compact, bool keep)
{
    static const tt_buf nothing = {.data = (char *)"", .len = 0};
    tt_answer_request r;
    tt_response_plan p = {0};
    tt_item_list none = {0};
    tt_refusal why;
    tt_fields f;
    tt_fields_init(&f, body, &info, &r, &why);
    f.grammars = grammars;
    bool ok = compact ? tt_response_compact_read(&f, &engine, store, &p)
                      : tt_response_request_read(&f, &engine, store, &p);
    must(ok == (why.status == 0) && (ok || (why.code != NULL && why.message[0] != '\0')));
    if (ok)
        check(&r, &p, &f);
    if (ok && keep)
        must(tt_response_store_put(store, "resp_1", &nothing, &nothing, &p.context, &none));
    tt_fields_free(&f);
    tt_answer_request_free(&r);
    tt_response_plan_free(&p);
    return ok;
}

/* The same conversation through the store: by the response, and item by item. */
static void check_store(json_t *body, tt_response_store *store)
{
    char *want = strdup(last);
    must(want != NULL);
    json_t *refs = json_array();
    const tt_stored_response *r = tt_response_store_get(store, "resp_1");
    bool once = true; /* every id */
    for (size_t i = 0; i < r->n_items; i++) {
        tt_stored_item *item = tt_response_store_item(store, r->items[i]->id);
        once &= item == r->items[i];
        tt_response_store_drop_item(store, item);
        must(json_array_append_new(refs, json_pack("{s:s}", "id", r->items[i]->id)) == 0);
    }
    tt_response_store_release(store, r);
    json_object_set(body, "input", refs);
    if (once) {
        must(read_body(body, store, false, false));
        must(strcmp(last, want) == 0);
    }
    json_object_del(body, "input");
    json_object_set_new(body, "previous_response_id", json_string("resp_1"));
    must(read_body(body, store, false, false));
    must(strcmp(last, want) == 0);
    json_decref(refs);
    free(want);
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
        tt_response_store *store = tt_response_store_create(4, 1 << 24);
        must(store != NULL);
        /* A body that names no model of ours would end there. */
        if (json_is_string(json_object_get(body, "model")))
            json_object_set_new(body, "model", json_string(info.model));
        (void)read_body(body, store, true, false);
        if (read_body(body, store, false, !json_is_false(json_object_get(body, "store"))) &&
            !json_is_false(json_object_get(body, "store")))
            check_store(body, store);
        tt_response_store_close(&store);
    }
    json_decref(body);
    return 0;
}
