#include "server/messages_request.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/conversation.h"
#include "server/messages_history.h"

#define TOOL_NAME 128u
#define SCHEMA    "input_schema"

/* ---- single fields ---- */

/* A field that Chat Completions has too. */
static bool take_shared(tt_fields *f, const char *shared, const char *name, const json_t *v)
{
    for (const tt_field *row = tt_shared_fields; row->name != NULL; row++)
        if (strcmp(row->name, shared) == 0)
            return row->take(f, name, v);
    return tt_refuse_unsupported(f->why, name, "%s is not offered here", name);
}

static bool shared(tt_fields *f, const char *name, const json_t *v)
{
    return take_shared(f, name, name, v);
}

static bool stop_sequences(tt_fields *f, const char *name, const json_t *v)
{
    if (!json_is_array(v))
        return tt_refuse_value(f->why, name, "%s must be an array of texts", name);
    return take_shared(f, "stop", name, v);
}

static bool tool_choice(tt_fields *f, const char *name, const json_t *v)
{
    const char *type = tt_fields_word(json_object_get(v, "type"));
    const json_t *one = tt_fields_get(v, "disable_parallel_tool_use");
    if (type == NULL)
        return tt_refuse_value(f->why, name, "%s must be an object with a type", name);
    if (one != NULL &&
        !tt_fields_bool(f, "tool_choice.disable_parallel_tool_use", one, &f->out->turn.one_call))
        return false;
    if (strcmp(type, "auto") == 0)
        return true;
    if (strcmp(type, "none") == 0) {
        f->form.calls = TT_CALLS_NONE;
        return true;
    }
    f->form.calls = TT_CALLS_DEMANDED;
    if (strcmp(type, "any") == 0)
        return true;
    if (strcmp(type, "tool") != 0)
        return tt_refuse_value(f->why, name, "the type of %s must be auto, any, tool or none",
                               name);
    const char *called = tt_fields_word(json_object_get(v, "name"));
    return called != NULL ? tt_form_allow(f, NULL, called)
                          : tt_refuse_value(f->why, "tool_choice.name", "a tool needs a name");
}

static bool format(tt_fields *f, const char *name, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (type == NULL)
        return tt_refuse_value(f->why, name, "%s must be an object with a type", name);
    if (strcmp(type, "json_schema") != 0)
        return tt_refuse_unsupported(f->why, name, "the type of %s may be json_schema", name);
    if (f->form.format != NULL)
        return tt_refuse_value(f->why, name, "%s and %s exclude each other", f->form.format, name);
    return tt_form_take_schema(f, name, name, tt_fields_get(v, "schema"));
}

static bool empty_only(tt_fields *f, const char *name, const json_t *v)
{
    return (json_is_array(v) && json_array_size(v) == 0) ||
           tt_refuse_unsupported(f->why, name, "%s is not offered here", name);
}

/* A client that hears this sends the whole conversation, as before. */
static bool thread(tt_fields *f, const char *name, const json_t *v)
{
    (void)v;
    return tt_refuse(f->why, 400, "thread_unsupported_request", name,
                     "conversations are not kept here: send the whole one, without %s", name);
}

static bool output_config(tt_fields *f, const char *name, const json_t *v)
{
    const json_t *effort = tt_fields_get(v, "effort");
    int level = tt_effort_of(effort);
    if (!json_is_object(v))
        return tt_refuse_value(f->why, name, "%s must be an object", name);
    if (effort != NULL && level < TT_EFFORT_LOW)
        return tt_refuse_value(f->why, "output_config.effort",
                               "the effort must be low, medium, high, xhigh or max");
    const json_t *given = tt_fields_get(v, "format");
    return given == NULL || format(f, "output_config.format", given);
}

static bool thinking(tt_fields *f, const char *name, const json_t *v)
{
    static const char *const types[] = {"enabled", "adaptive", "disabled", "between_tools", NULL};
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *budget = tt_fields_get(v, "budget_tokens");
    size_t i = 0;
    while (type != NULL && types[i] != NULL && strcmp(type, types[i]) != 0)
        i++;
    if (type == NULL || types[i] == NULL)
        return tt_refuse_value(f->why, name,
                               "the type of %s must be enabled, adaptive, disabled or "
                               "between_tools",
                               name);
    if (tt_fields_get(v, "display") != NULL)
        tt_fields_ignored(f, "thinking.display");
    if (i == 0 && budget == NULL)
        return tt_refuse_missing(f->why, "thinking.budget_tokens");
    double tokens = json_number_value(budget);
    return i > 0 || (tokens >= 1 && tokens == floor(tokens)) ||
           tt_refuse_value(f->why, "thinking.budget_tokens",
                           "the budget must be a whole number of at least 1");
}

/* clang-format off */
static const tt_field table[] = {
    {"model", TT_FIELD_HONOURED, NULL},
    {"messages", TT_FIELD_HONOURED, NULL},
    {"system", TT_FIELD_HONOURED, NULL},
    {"tools", TT_FIELD_HONOURED, NULL},
    {"max_tokens", TT_FIELD_HONOURED, shared},
    {"stream", TT_FIELD_HONOURED, shared},
    {"stop_sequences", TT_FIELD_HONOURED, stop_sequences},
    {"temperature", TT_FIELD_HONOURED, shared},
    {"top_p", TT_FIELD_HONOURED, shared},
    {"top_k", TT_FIELD_HONOURED, shared},
    {"tool_choice", TT_FIELD_HONOURED, tool_choice},
    {"thinking", TT_FIELD_HONOURED, thinking},
    {"output_config", TT_FIELD_HONOURED, output_config},
    {"container", TT_FIELD_HONOURED, empty_only},
    {"mcp_servers", TT_FIELD_HONOURED, empty_only},
    {"thread", TT_FIELD_HONOURED, thread},
    {"output_format", TT_FIELD_HONOURED, format},
    {"cache_control", TT_FIELD_IGNORED, NULL},
    {"context_management", TT_FIELD_IGNORED, NULL},
    {"metadata", TT_FIELD_IGNORED, NULL},
    {"client_metadata", TT_FIELD_IGNORED, NULL},
    {"service_tier", TT_FIELD_IGNORED, NULL},
    {"speed", TT_FIELD_IGNORED, NULL},
    {"inference_geo", TT_FIELD_IGNORED, NULL},
    {"diagnostics", TT_FIELD_IGNORED, NULL},
    {"betas", TT_FIELD_IGNORED, NULL},
    {"user_profile_id", TT_FIELD_IGNORED, NULL},
    {"workspace_id", TT_FIELD_IGNORED, NULL},
    {NULL, TT_FIELD_HONOURED, NULL},
};

/* What of it shapes the prompt. */
static const tt_field prompt_table[] = {
    {"model", TT_FIELD_HONOURED, NULL},
    {"messages", TT_FIELD_HONOURED, NULL},
    {"system", TT_FIELD_HONOURED, NULL},
    {"tools", TT_FIELD_HONOURED, NULL},
    {"tool_choice", TT_FIELD_HONOURED, tool_choice},
    {"thinking", TT_FIELD_HONOURED, thinking},
    {"output_config", TT_FIELD_HONOURED, output_config},
    {NULL, TT_FIELD_HONOURED, NULL},
};
/* clang-format on */

/* ---- tools ---- */

/* The tool as the template gets it: what Chat Completions calls its function. */
static json_t *as_function(const json_t *tool)
{
    static const char *const words[][2] = {
        {"name", "name"}, {"description", "description"}, {SCHEMA, "parameters"}};
    json_t *fn = json_object();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const json_t *v = tt_fields_get(tool, words[i][0]);
        if (v != NULL)
            json_object_set(fn, words[i][1], (json_t *)v);
    }
    return fn;
}

static bool take_tool(tt_fields *f, const json_t *tool, size_t i, tt_tool_list *list)
{
    char where[64];
    snprintf(where, sizeof where, "tools[%zu]", i);
    const tt_tool_words words = {.where = where,
                                 .schema = SCHEMA,
                                 .name_most = TOOL_NAME,
                                 .strict = tt_fields_get(tool, "strict")};
    const char *type = json_string_value(tt_fields_get(tool, "type"));
    if (!json_is_object(tool))
        return tt_refuse_value(f->why, where, "must be an object");
    if (type != NULL && strcmp(type, "custom") != 0) {
        tt_fields_ignored(f, "tools");
        return true;
    }
    if (tt_fields_get(tool, "cache_control") != NULL)
        tt_fields_ignored(f, "cache_control");
    return tt_tool_list_add(f, list, &words, json_object_get(tool, "name"),
                            tt_fields_get(tool, SCHEMA), as_function(tool));
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

/* ---- thinking ---- */

static int level_of_budget(double budget)
{
    return budget < 4096    ? TT_EFFORT_LOW
           : budget < 16384 ? TT_EFFORT_MEDIUM
           : budget < 32768 ? TT_EFFORT_HIGH
                            : TT_EFFORT_XHIGH;
}

/* What the template is told; the level goes into its variables. */
static tt_thinking take_thinking(tt_fields *f, json_t *vars)
{
    const json_t *given = tt_fields_get(f->body, "thinking");
    const json_t *type = json_object_get(given, "type");
    const json_t *budget = tt_fields_get(given, "budget_tokens");
    int level = tt_effort_of(tt_fields_get(tt_fields_get(f->body, "output_config"), "effort"));
    const char *word = type != NULL             ? json_string_value(type)
                       : level != TT_EFFORT_NOT ? "adaptive"
                                                : "disabled";
    bool on = strcmp(word, "enabled") == 0;
    if (!on && strcmp(word, "adaptive") != 0)
        return TT_THINKING_OFF;
    if (level != TT_EFFORT_NOT)
        tt_effort_use(f, level, "output_config.effort", vars);
    if (on)
        tt_fields_adjusted(f, "thinking.budget_tokens");
    if (on && level == TT_EFFORT_NOT)
        tt_effort_use(f, level_of_budget(json_number_value(budget)), "thinking.budget_tokens",
                      vars);
    return on ? TT_THINKING_ON : TT_THINKING_DEFAULT;
}

/* ---- the whole ---- */

static bool make_prompt(tt_fields *f, const tt_server_engine *engine)
{
    const json_t *given = NULL;
    json_t *messages = NULL, *vars = json_object();
    if (vars == NULL)
        return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
    bool ok = tt_conversation_messages(f, &given) && take_tools(f) &&
              tt_messages_history(f, tt_fields_get(f->body, "system"), given, &messages);
    if (ok) {
        tt_thinking how = take_thinking(f, vars);
        ok = tt_conversation_prompt(f, engine, messages, how, vars);
    }
    json_decref(vars);
    return ok;
}

bool tt_messages_request_read(tt_fields *f, const tt_server_engine *engine)
{
    if (!tt_fields_model(f) || !tt_fields_walk(f, NULL, table))
        return false;
    if (f->max_tokens == UINT64_MAX)
        return tt_refuse_missing(f->why, "max_tokens");
    return make_prompt(f, engine) && tt_fields_room(f, "messages");
}

bool tt_messages_request_count(tt_fields *f, const tt_server_engine *engine)
{
    return tt_fields_model(f) && tt_fields_walk(f, NULL, prompt_table) && make_prompt(f, engine);
}
