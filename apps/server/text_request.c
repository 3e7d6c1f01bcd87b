#include "server/text_request.h"

#include <stdlib.h>

#define TEXT_TOKENS 16u /* what OpenAI's interface gives when nothing is said */

static bool logprobs(tt_fields *f, const char *name, const json_t *v)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || n > 5)
        return tt_refuse_value(f->why, name, "%s must be a whole number from 0 to 5", name);
    f->out->turn.logprobs = f->out->text_logprobs = true;
    f->out->turn.top_logprobs = (uint32_t)n;
    return true;
}

static bool echo(tt_fields *f, const char *name, const json_t *v)
{
    bool on = false;
    if (!tt_fields_bool(f, name, v, &on))
        return false;
    return !on || tt_refuse_unsupported(f->why, name, "the prompt is not sent back");
}

/* clang-format off */
static const tt_field table[] = {
    {"prompt", TT_FIELD_HONOURED, NULL},
    {"logprobs", TT_FIELD_HONOURED, logprobs},
    {"echo", TT_FIELD_HONOURED, echo},
    {NULL, TT_FIELD_HONOURED, NULL},
};
/* clang-format on */

static bool take_text(tt_fields *f, const tt_server_engine *engine, const json_t *text)
{
    tt_error err = {.offset = -1};
    tt_engine_render r = {
        .text = json_string_value(text), .len = json_string_length(text), .special = true};
    tt_status st = engine->ops->render(engine->self, &r, &f->out->turn.prompt, &err);
    return st == TT_OK || tt_fields_render_failed(f, st, &err, "prompt");
}

static bool take_ids(tt_fields *f, const json_t *list)
{
    tt_engine_prompt *p = &f->out->turn.prompt;
    size_t i;
    json_t *v;
    p->ids = malloc((json_array_size(list) + 1) * sizeof *p->ids);
    if (p->ids == NULL)
        return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the prompt");
    json_array_foreach(list, i, v)
    {
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= f->info->vocab_size)
            return tt_refuse_value(f->why, "prompt", "token ids must be from 0 to %u",
                                   f->info->vocab_size - 1);
        p->ids[p->n++] = (uint32_t)id;
    }
    return true;
}

static bool take_prompt(tt_fields *f, const tt_server_engine *engine)
{
    const json_t *p = tt_fields_get(f->body, "prompt"), *first = json_array_get(p, 0);
    if (p == NULL)
        return tt_refuse_missing(f->why, "prompt");
    if (json_is_string(p))
        return take_text(f, engine, p);
    if (json_is_integer(first))
        return take_ids(f, p);
    if (json_array_size(p) > 1 || json_is_array(first))
        return tt_refuse_unsupported(f->why, "prompt", "one prompt a request");
    if (json_is_string(first))
        return take_text(f, engine, first);
    return tt_refuse_value(f->why, "prompt", "prompt must be a text or an array of token ids");
}

bool tt_text_request_read(tt_fields *f, const tt_server_engine *engine)
{
    f->out->turn.plain = true;
    if (!tt_fields_model(f) || !tt_fields_walk(f, tt_shared_fields, table) ||
        !take_prompt(f, engine))
        return false;
    if (f->max_tokens == UINT64_MAX)
        f->max_tokens = TEXT_TOKENS;
    return tt_fields_room(f, "prompt");
}
