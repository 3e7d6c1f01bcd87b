#include "server/chat_request.h"

#include <stdio.h>
#include <string.h>

#include "server/conversation.h"

#define TOOL_NAME 64u
#define SCHEMA    "parameters"

/* ---- single fields ---- */

static bool logprobs(tt_fields *f, const char *name, const json_t *v)
{
    return tt_fields_bool(f, name, v, &f->out->turn.logprobs);
}

static bool top_logprobs(tt_fields *f, const char *name, const json_t *v)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || n > TT_TOP_LOGPROBS)
        return tt_refuse_value(f->why, name, "%s must be a whole number from 0 to %u", name,
                               TT_TOP_LOGPROBS);
    if (!f->out->turn.logprobs)
        return tt_refuse_value(f->why, name, "%s needs logprobs", name);
    f->out->turn.top_logprobs = (uint32_t)n;
    return true;
}

static bool parallel(tt_fields *f, const char *name, const json_t *v)
{
    bool parallel_calls = true;
    if (!tt_fields_bool(f, name, v, &parallel_calls))
        return false;
    f->out->turn.one_call = !parallel_calls;
    return true;
}

static bool response_format(tt_fields *f, const char *name, const json_t *v)
{
    return tt_form_take_format(f, name, v, "json_schema");
}

static bool modalities(tt_fields *f, const char *name, const json_t *v)
{
    size_t i;
    json_t *word;
    if (!json_is_array(v))
        return tt_refuse_value(f->why, name, "%s must be an array", name);
    json_array_foreach(v, i, word) if (!json_is_string(word) ||
                                       strcmp(json_string_value(word), "text") !=
                                           0) return tt_refuse_unsupported(f->why, name,
                                                                           "answers are text");
    return true;
}

static bool tool_choice(tt_fields *f, const char *name, const json_t *v)
{
    return tt_form_take_choice(f, name, v, true);
}

static bool is_object(tt_fields *f, const char *name, const json_t *v)
{
    return json_is_object(v) || tt_refuse_value(f->why, name, "%s must be an object", name);
}

static bool effort(tt_fields *f, const char *name, const json_t *v)
{
    return tt_effort_of(v) != TT_EFFORT_NOT ||
           tt_refuse_value(f->why, name,
                           "%s must be none, minimal, low, medium, high, xhigh or max", name);
}

/* clang-format off */
const tt_field tt_chat_fields[] = {
    {"messages", TT_FIELD_HONOURED, NULL},
    {"tools", TT_FIELD_HONOURED, NULL},
    {"max_completion_tokens", TT_FIELD_HONOURED, tt_field_max_tokens},
    {"logprobs", TT_FIELD_HONOURED, logprobs},
    {"top_logprobs", TT_FIELD_HONOURED, top_logprobs},
    {"tool_choice", TT_FIELD_HONOURED, tool_choice},
    {"parallel_tool_calls", TT_FIELD_HONOURED, parallel},
    {"reasoning_effort", TT_FIELD_HONOURED, effort},
    {"chat_template_kwargs", TT_FIELD_HONOURED, is_object},
    {"response_format", TT_FIELD_HONOURED, response_format},
    {"modalities", TT_FIELD_HONOURED, modalities},
    {"web_search_options", TT_FIELD_IGNORED, NULL},
    {"metadata", TT_FIELD_IGNORED, NULL},
    {"safety_identifier", TT_FIELD_IGNORED, NULL},
    {"service_tier", TT_FIELD_IGNORED, NULL},
    {"prompt_cache_key", TT_FIELD_IGNORED, NULL},
    {"prompt_cache_retention", TT_FIELD_IGNORED, NULL},
    {"prompt_cache_options", TT_FIELD_IGNORED, NULL},
    {"verbosity", TT_FIELD_IGNORED, NULL},
    {"store", TT_FIELD_IGNORED, NULL},
    {"prediction", TT_FIELD_IGNORED, NULL},
    {"include", TT_FIELD_IGNORED, NULL},
    {"reasoning_budget_tokens", TT_FIELD_IGNORED, NULL},
    {"audio", TT_FIELD_REFUSED, NULL},
    {"moderation", TT_FIELD_REFUSED, NULL},
    {"functions", TT_FIELD_REFUSED, NULL},
    {"function_call", TT_FIELD_REFUSED, NULL},
    {NULL, TT_FIELD_HONOURED, NULL},
};

/* What of it shapes the prompt. */
static const tt_field prompt_table[] = {
    {"model", TT_FIELD_HONOURED, NULL},
    {"messages", TT_FIELD_HONOURED, NULL},
    {"tools", TT_FIELD_HONOURED, NULL},
    {"tool_choice", TT_FIELD_HONOURED, tool_choice},
    {"reasoning_effort", TT_FIELD_HONOURED, effort},
    {"chat_template_kwargs", TT_FIELD_HONOURED, is_object},
    {NULL, TT_FIELD_HONOURED, NULL},
};
/* clang-format on */

/* ---- tools ---- */

/* The tool as the template gets it. */
static json_t *copy_tool(const json_t *fn)
{
    json_t *copy = json_copy((json_t *)fn);
    if (copy != NULL)
        json_object_del(copy, "strict");
    return copy;
}

static bool take_tool(tt_fields *f, const json_t *tool, size_t i, tt_tool_list *list)
{
    char param[64];
    snprintf(param, sizeof param, "tools[%zu].type", i);
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (type == NULL)
        return tt_refuse_value(f->why, param, "a tool needs a type");
    if (strcmp(type, "function") != 0) {
        tt_fields_ignored(f, "tools");
        return true;
    }
    const json_t *fn = json_object_get(tool, "function");
    snprintf(param, sizeof param, "tools[%zu].function", i);
    if (!json_is_object(fn))
        return tt_refuse_value(f->why, param, "a tool needs a function");
    const tt_tool_words words = {.where = param,
                                 .schema = SCHEMA,
                                 .name_most = TOOL_NAME,
                                 .strict = tt_fields_get(fn, "strict")};
    return tt_tool_list_add(f, list, &words, json_object_get(fn, "name"), tt_fields_get(fn, SCHEMA),
                            copy_tool(fn));
}

static bool take_tools(tt_fields *f)
{
    const json_t *tools = tt_fields_get(f->body, "tools");
    tt_tool_list list;
    size_t i;
    json_t *tool;
    if (tools != NULL && !tt_tool_list_fits(f, tools))
        return false;
    tt_tool_list_init(&list);
    bool ok = true;
    json_array_foreach(tools, i, tool) ok = ok && take_tool(f, tool, i, &list);
    ok = ok && tt_tool_list_use(f, &list, SCHEMA);
    tt_tool_list_free(&list);
    return ok;
}

/* ---- reasoning ---- */

/* Variables of the template, for json_decref. */
static json_t *take_reasoning(tt_fields *f, const char *name, const json_t *word,
                              tt_thinking *thinking, tt_effort *used)
{
    const json_t *kwargs = tt_fields_get(f->body, "chat_template_kwargs");
    int level = tt_effort_of(word);
    json_t *vars = kwargs != NULL ? json_copy((json_t *)kwargs) : json_object();
    if (level != TT_EFFORT_NOT) {
        json_object_del(vars, "enable_thinking");
        json_object_del(vars, "reasoning_effort");
        *thinking = level == TT_EFFORT_NONE ? TT_THINKING_OFF : TT_THINKING_ON;
    }
    *used = (tt_effort)(level > TT_EFFORT_NONE ? tt_effort_use(f, level, name, vars) : level);
    return vars;
}

bool tt_chat_reasoning(tt_fields *f, const char *name, const json_t *word, tt_thinking *thinking,
                       char **extra, tt_effort *used)
{
    json_t *vars = take_reasoning(f, name, word, thinking, used);
    *extra = json_object_size(vars) > 0 ? json_dumps(vars, JSON_REAL_PRECISION(15)) : NULL;
    bool ok = vars != NULL && (*extra != NULL || json_object_size(vars) == 0);
    json_decref(vars);
    return ok || tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
}

static bool make_prompt(tt_fields *f, const tt_server_engine *engine)
{
    const json_t *given = NULL;
    tt_thinking thinking = TT_THINKING_DEFAULT;
    if (!tt_conversation_messages(f, &given) || !take_tools(f))
        return false;
    const json_t *word = tt_fields_get(f->body, "reasoning_effort");
    tt_effort used;
    json_t *vars = take_reasoning(f, "reasoning_effort", word, &thinking, &used);
    bool ok =
        vars != NULL
            ? tt_conversation_prompt(f, engine, json_incref((json_t *)given), thinking, vars)
            : tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
    json_decref(vars);
    return ok;
}

/* ---- the whole ---- */

bool tt_chat_request_read(tt_fields *f, const tt_server_engine *engine)
{
    f->out->chat = true;
    return tt_fields_model(f) && tt_fields_walk(f, tt_shared_fields, tt_chat_fields) &&
           make_prompt(f, engine) && tt_fields_room(f, "messages");
}

bool tt_chat_request_count(tt_fields *f, const tt_server_engine *engine)
{
    f->out->chat = true;
    return tt_fields_model(f) && tt_fields_walk(f, NULL, prompt_table) && make_prompt(f, engine);
}
