#include "server/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/history.h"

static bool no_memory(tt_fields *f)
{
    return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
}

/* ---- tools ---- */

void tt_tool_list_init(tt_tool_list *l)
{
    *l = (tt_tool_list){.tools = json_array()};
    tt_tool_check_init(&l->check);
}

void tt_tool_list_free(tt_tool_list *l)
{
    json_decref(l->tools);
    tt_tool_check_free(&l->check);
    *l = (tt_tool_list){0};
}

bool tt_tool_list_fits(tt_fields *f, const json_t *list)
{
    if (!json_is_array(list))
        return tt_refuse_value(f->why, "tools", "tools must be an array");
    return json_array_size(list) <= TT_TOOLS ||
           tt_refuse_large(f->why, "tools", "there may be %u tools", TT_TOOLS);
}

bool tt_tool_list_add(tt_fields *f, tt_tool_list *l, const tt_tool_words *words, const json_t *name,
                      const json_t *schema, json_t *fn)
{
    if (!tt_tool_check_function(&l->check, words->where, name, words->name_most, words->schema,
                                schema, f->why) ||
        !tt_tool_check_once(&l->check, words->where, json_string_value(name), f->why) ||
        !tt_tool_check_strict(&l->check, words->where, json_string_value(name), words->strict,
                              f->why)) {
        json_decref(fn);
        return false;
    }
    json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", fn);
    return json_array_append_new(l->tools, tool) == 0 ||
           tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the tools");
}

bool tt_tool_list_use(tt_fields *f, const tt_tool_list *l, const char *schema)
{
    if (!tt_form_finish(f, l->tools, &l->check, schema))
        return false;
    if (json_array_size(l->tools) == 0 || f->form.calls == TT_CALLS_NONE)
        return true;
    f->out->turn.tools = json_dumps(l->tools, JSON_COMPACT | JSON_REAL_PRECISION(15));
    return f->out->turn.tools != NULL ||
           tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the tools");
}

/* ---- reasoning ---- */

int tt_effort_of(const json_t *v)
{
    const char *word = json_string_value(v);
    for (int i = 0; word != NULL && i < TT_EFFORTS; i++)
        if (strcmp(word, tt_effort_words[i]) == 0)
            return i;
    return TT_EFFORT_NOT;
}

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

int tt_effort_use(tt_fields *f, int level, const char *name, json_t *vars)
{
    int used = nearest(f->info, level);
    bool levels = false;
    for (int i = 0; i < TT_EFFORTS; i++)
        levels |= f->info->efforts[i];
    if (used != level || !levels)
        tt_fields_adjusted(f, name);
    if (levels)
        json_object_set_new(vars, "reasoning_effort", json_string(tt_effort_words[used]));
    return used;
}

/* ---- messages ---- */

bool tt_conversation_messages(tt_fields *f, const json_t **out)
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

static bool render(tt_fields *f, const tt_server_engine *engine, const char *messages,
                   tt_thinking thinking, const json_t *vars)
{
    tt_error err = {.offset = -1};
    tt_engine_render r = {.messages = messages, .tools = f->out->turn.tools, .thinking = thinking};
    char *extra = NULL;
    if (json_object_size(vars) > 0 && (extra = json_dumps(vars, JSON_REAL_PRECISION(15))) == NULL)
        return no_memory(f);
    r.extra = extra;
    tt_status st = engine->ops->render(engine->self, &r, &f->out->turn.prompt, &err);
    tt_free(extra);
    return st == TT_OK || tt_fields_render_failed(f, st, &err, "messages");
}

bool tt_conversation_prompt(tt_fields *f, const tt_server_engine *engine, json_t *messages,
                            tt_thinking thinking, const json_t *vars)
{
    json_t *repaired = NULL;
    tt_repairs repairs;
    bool done = tt_history_repair(messages, &repaired, &repairs, f->why);
    json_decref(messages);
    if (!done)
        return false;
    tt_repairs_write(&repairs, &f->repaired);
    char *text = json_dumps(repaired, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(repaired);
    bool ok = text != NULL ? render(f, engine, text, thinking, vars)
                           : tt_refuse(f->why, 503, "memory_full", NULL,
                                       "there is no memory for the conversation");
    tt_free(text);
    return ok;
}
