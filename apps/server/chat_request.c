#include "server/chat_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/history.h"
#include "server/tool_check.h"

#define TOOL_NAME 64u

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
    const char *type = json_string_value(json_object_get(v, "type"));
    if (type == NULL)
        return tt_refuse_value(f->why, name, "%s must be an object with a type", name);
    return strcmp(type, "text") == 0 ||
           tt_refuse_unsupported(f->why, name, "answers are text; %s may be {\"type\":\"text\"}",
                                 name);
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
    const char *word = json_string_value(v);
    if (word != NULL && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0))
        return true;
    if (json_is_object(v) || (word != NULL && strcmp(word, "required") == 0))
        return tt_refuse_unsupported(f->why, name,
                                     "a call cannot be demanded: %s may be auto or none", name);
    return tt_refuse_value(f->why, name, "%s must be auto or none", name);
}

static bool is_object(tt_fields *f, const char *name, const json_t *v)
{
    return json_is_object(v) || tt_refuse_value(f->why, name, "%s must be an object", name);
}

static bool effort(tt_fields *f, const char *name, const json_t *v)
{
    const char *word = json_string_value(v);
    for (int i = 0; word != NULL && tt_effort_words[i] != NULL; i++)
        if (strcmp(word, tt_effort_words[i]) == 0)
            return true;
    return tt_refuse_value(f->why, name,
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

static bool check_function(tt_fields *f, const json_t *fn, size_t i, tt_tool_check *check)
{
    char where[64];
    const json_t *name = json_object_get(fn, "name");
    snprintf(where, sizeof where, "tools[%zu].function", i);
    return tt_tool_check_function(check, where, name, TOOL_NAME, "parameters",
                                  tt_fields_get(fn, "parameters"), f->why) &&
           tt_tool_check_once(check, where, json_string_value(name), f->why);
}

/* The tool as the template gets it, or NULL. */
static json_t *copy_tool(const json_t *fn)
{
    json_t *copy = json_copy((json_t *)fn);
    if (copy != NULL)
        json_object_del(copy, "strict");
    return json_pack("{s:s, s:o}", "type", "function", "function", copy);
}

static bool take_tool(tt_fields *f, const json_t *tool, size_t i, tt_tool_check *check,
                      json_t *list)
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
    if (!check_function(f, fn, i, check))
        return false;
    if (tt_fields_get(fn, "strict") != NULL)
        tt_fields_ignored(f, "tools.strict");
    return json_array_append_new(list, copy_tool(fn)) == 0 ||
           tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the tools");
}

static bool take_tools(tt_fields *f)
{
    const json_t *tools = tt_fields_get(f->body, "tools");
    const char *choice = json_string_value(tt_fields_get(f->body, "tool_choice"));
    tt_tool_check check;
    size_t i;
    json_t *tool;
    if (tools == NULL)
        return true;
    if (!json_is_array(tools))
        return tt_refuse_value(f->why, "tools", "tools must be an array");
    if (json_array_size(tools) > TT_TOOLS)
        return tt_refuse_large(f->why, "tools", "there may be %u tools", TT_TOOLS);
    json_t *list = json_array();
    bool ok = true;
    tt_tool_check_init(&check);
    json_array_foreach(tools, i, tool) ok = ok && take_tool(f, tool, i, &check, list);
    if (ok && json_array_size(list) > 0 && (choice == NULL || strcmp(choice, "none") != 0)) {
        f->out->turn.tools = json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(15));
        if (f->out->turn.tools == NULL)
            ok = tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the tools");
    }
    tt_tool_check_free(&check);
    json_decref(list);
    return ok;
}

/* ---- reasoning ---- */

/* The level nearest to `want` that the template renders; `want` itself when it renders none, where
 * every level but none is the same thought. */
static int nearest(const tt_engine_info *info, int want)
{
    int best = want, distance = TT_EFFORTS;
    for (int i = TT_EFFORT_MINIMAL; i < TT_EFFORTS; i++)
        if (info->efforts[i] && abs(i - want) < distance) {
            distance = abs(i - want);
            best = i;
        }
    return best;
}

static int effort_of(const json_t *v)
{
    const char *word = json_string_value(v);
    for (int i = 0; word != NULL && i < TT_EFFORTS; i++)
        if (strcmp(word, tt_effort_words[i]) == 0)
            return i;
    return TT_EFFORT_NOT;
}

bool tt_chat_reasoning(tt_fields *f, const char *name, const json_t *word, tt_thinking *thinking,
                       char **extra, tt_effort *used)
{
    const json_t *kwargs = tt_fields_get(f->body, "chat_template_kwargs");
    int level = effort_of(word);
    json_t *vars = kwargs != NULL ? json_copy((json_t *)kwargs) : json_object();
    bool levels = false;
    for (int i = 0; i < TT_EFFORTS; i++)
        levels |= f->info->efforts[i];
    if (level != TT_EFFORT_NOT) {
        json_object_del(vars, "enable_thinking");
        json_object_del(vars, "reasoning_effort");
        *thinking = level == TT_EFFORT_NONE ? TT_THINKING_OFF : TT_THINKING_ON;
    }
    *used = (tt_effort)level;
    if (level > TT_EFFORT_NONE) {
        *used = (tt_effort)nearest(f->info, level);
        if ((int)*used != level || !levels)
            tt_fields_adjusted(f, name);
        if (levels)
            json_object_set_new(vars, "reasoning_effort", json_string(tt_effort_words[*used]));
    }
    *extra = json_object_size(vars) > 0 ? json_dumps(vars, JSON_REAL_PRECISION(15)) : NULL;
    bool ok = vars != NULL && (*extra != NULL || json_object_size(vars) == 0);
    json_decref(vars);
    return ok || tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
}

/* ---- messages ---- */

static bool check_messages(tt_fields *f, const json_t **out)
{
    const json_t *m = tt_fields_get(f->body, "messages");
    if (m == NULL)
        return tt_refuse_missing(f->why, "messages");
    if (!json_is_array(m) || json_array_size(m) == 0)
        return tt_refuse_value(f->why, "messages", "messages must be an array and not empty");
    if (json_array_size(m) > TT_MESSAGES)
        return tt_refuse_large(f->why, "messages", "there may be %u messages", TT_MESSAGES);
    const json_t *last = json_array_get(m, json_array_size(m) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (role != NULL && strcmp(role, "assistant") == 0)
        return tt_refuse_unsupported(f->why, "messages",
                                     "the last message is an assistant's: answers are not "
                                     "continued");
    *out = m;
    return true;
}

static bool render(tt_fields *f, const tt_server_engine *engine, const char *messages)
{
    tt_error err = {.offset = -1};
    tt_engine_render r = {.messages = messages, .tools = f->out->turn.tools};
    char *extra = NULL;
    tt_effort used;
    if (!tt_chat_reasoning(f, "reasoning_effort", tt_fields_get(f->body, "reasoning_effort"),
                           &r.thinking, &extra, &used))
        return false;
    r.extra = extra;
    tt_status st = engine->ops->render(engine->self, &r, &f->out->turn.prompt, &err);
    tt_free(extra);
    return st == TT_OK || tt_fields_render_failed(f, st, &err, "messages");
}

static bool make_prompt(tt_fields *f, const tt_server_engine *engine)
{
    const json_t *given = NULL;
    json_t *repaired = NULL;
    tt_repairs repairs;
    if (!check_messages(f, &given) || !take_tools(f) ||
        !tt_history_repair(given, &repaired, &repairs, f->why))
        return false;
    tt_repairs_write(&repairs, &f->repaired);
    char *text = json_dumps(repaired, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(repaired);
    bool ok = text != NULL ? render(f, engine, text)
                           : tt_refuse(f->why, 503, "memory_full", NULL,
                                       "there is no memory for the conversation");
    tt_free(text);
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
