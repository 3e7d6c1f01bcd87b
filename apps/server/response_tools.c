#include "server/response_tools.h"

#include <stdio.h>
#include <string.h>

#define TOOL_NAME 128u

/* Of one list in work. */
typedef struct reader {
    tt_fields *f;
    tt_response_tools *t;
    size_t n;
    bool in_items; /* not those of the body */
} reader;

static bool no_memory(reader *r)
{
    return tt_refuse(r->f->why, 503, "memory_full", NULL, "there is no memory for the tools");
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

/* ---- one tool ---- */

/* What a custom tool says of its input, with the grammar that its client will hold it against; NULL
 * when it says nothing. */
static json_t *describe_custom(const json_t *tool)
{
    const json_t *format = tt_fields_get(tool, "format");
    const char *grammar = text_of(format, "definition"), *before = text_of(tool, "description");
    tt_buf b;
    tt_buf_init(&b, 2 * TT_BODY_MOST);
    tt_buf_puts(&b, before);
    if (grammar[0] != '\0')
        tt_buf_printf(&b, "%sThe input follows this %s grammar:\n%s", before[0] ? "\n\n" : "",
                      text_of(format, "syntax"), grammar);
    json_t *text = b.failed == TT_OK && b.len > 0 ? json_stringn(b.data, b.len) : NULL;
    tt_buf_free(&b);
    return text;
}

/* The function that the model sees. */
static json_t *function_of(const json_t *tool, bool custom, const char *name)
{
    json_t *description = tt_fields_get(tool, "description") != NULL
                              ? json_incref(json_object_get(tool, "description"))
                              : NULL;
    json_t *schema = (json_t *)tt_fields_get(tool, "parameters");
    if (custom) {
        json_decref(description);
        description = describe_custom(tool);
        schema = json_pack("{s:s, s:{s:{s:s}}, s:[s]}", "type", "object", "properties", "input",
                           "type", "string", "required", "input");
    }
    json_t *fn = json_pack("{s:s}", "name", name);
    int bad = description != NULL ? json_object_set_new(fn, "description", description) : 0;
    if (custom)
        bad |= json_object_set_new(fn, "parameters", schema);
    else if (schema != NULL)
        bad |= json_object_set(fn, "parameters", schema);
    json_t *out = json_pack("{s:s, s:o}", "type", "function", "function", fn);
    if (bad == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* The tool as it is told back. */
static json_t *echo_of(const json_t *tool, bool custom)
{
    const json_t *description = tt_fields_get(tool, "description");
    const json_t *more = tt_fields_get(tool, custom ? "format" : "parameters");
    json_t *out = json_pack("{s:s, s:O}", "type", custom ? "custom" : "function", "name",
                            json_object_get(tool, "name"));
    int bad = 0;
    if (description != NULL)
        bad |= json_object_set(out, "description", (json_t *)description);
    if (custom)
        bad |= json_object_set_new(out, "format",
                                   more != NULL ? json_incref((json_t *)more)
                                                : json_pack("{s:s}", "type", "text"));
    else
        bad |= json_object_set_new(out, "parameters",
                                   more != NULL ? json_incref((json_t *)more) : json_null()) |
               json_object_set_new(out, "strict",
                                   json_boolean(json_is_true(json_object_get(tool, "strict"))));
    if (bad == 0)
        return out;
    json_decref(out);
    return NULL;
}

static bool check_texts(reader *r, const char *where, const json_t *tool, bool custom)
{
    char param[96];
    const json_t *v = tt_fields_get(tool, "description");
    snprintf(param, sizeof param, "%s.description", where);
    if (v != NULL && !json_is_string(v))
        return tt_refuse_value(r->f->why, param, "must be a text");
    v = tt_fields_get(tool, "format");
    snprintf(param, sizeof param, "%s.format", where);
    return !custom || v == NULL || json_is_object(v) ||
           tt_refuse_value(r->f->why, param, "must be an object");
}

/* The tool in all its forms; `called` is what the model calls it. */
static bool put_tool(reader *r, const json_t *tool, bool custom, const char *space,
                     const char *called, json_t *echo)
{
    int bad = 0;
    if (custom || space != NULL)
        bad |= json_object_set_new(r->t->given, called, json_boolean(custom));
    bad |= json_array_append_new(r->t->prompt, function_of(tool, custom, called));
    bad |= json_array_append_new(echo, echo_of(tool, custom));
    return bad == 0 || no_memory(r);
}

/* A function or a custom tool; `space` is the namespace that it is in, or NULL. */
static bool add_tool(reader *r, const json_t *tool, const char *where, bool custom,
                     const char *space, json_t *echo)
{
    const json_t *name = json_object_get(tool, "name");
    const json_t *schema = custom ? NULL : tt_fields_get(tool, "parameters");
    const json_t *strict = custom ? NULL : tt_fields_get(tool, "strict");
    tt_tool_check *check = &r->t->check;
    char called[2 * TOOL_NAME + 2] = "";
    if (tt_tool_name_fits(name, TOOL_NAME))
        snprintf(called, sizeof called, "%s%s%s", space != NULL ? space : "",
                 space != NULL ? "." : "", json_string_value(name));
    if (r->in_items && json_object_get(check->places, called) != NULL)
        return true;
    if (++r->n > TT_TOOLS)
        return tt_refuse_large(r->f->why, "tools", "there may be %u tools", TT_TOOLS);
    return tt_tool_check_function(check, where, name, TOOL_NAME, "parameters", schema, r->f->why) &&
           check_texts(r, where, tool, custom) &&
           tt_tool_check_once(check, where, called, r->f->why) &&
           tt_tool_check_strict(check, where, called, strict, r->f->why) &&
           put_tool(r, tool, custom, space, called, echo);
}

/* ---- lists ---- */

static bool take_tool(reader *r, const json_t *tool, const char *where, const char *space,
                      json_t *echo);

static bool take_space(reader *r, const json_t *tool, const char *where, json_t *echo)
{
    const json_t *name = json_object_get(tool, "name"), *list = json_object_get(tool, "tools");
    char inner[96], param[96], key[TOOL_NAME + 2];
    size_t i;
    json_t *one;
    snprintf(param, sizeof param, "%s.name", where);
    if (!tt_tool_name_fits(name, TOOL_NAME))
        return tt_refuse_value(r->f->why, param,
                               "a namespace needs a name of 1 to %u of A-Z a-z 0-9 _ -", TOOL_NAME);
    snprintf(param, sizeof param, "%s.tools", where);
    if (!json_is_array(list))
        return tt_refuse_value(r->f->why, param, "must be an array");
    json_t *inside = json_array();
    bool ok = inside != NULL || no_memory(r);
    json_array_foreach(list, i, one)
    {
        snprintf(inner, sizeof inner, "%s.tools[%zu]", where, i);
        ok = ok && take_tool(r, one, inner, json_string_value(name), inside);
    }
    snprintf(key, sizeof key, "%.*s.", (int)TOOL_NAME, json_string_value(name));
    if (ok &&
        (json_object_set_new(r->t->given, key, json_true()) != 0 ||
         json_array_append_new(echo, json_pack("{s:s, s:O, s:s, s:O}", "type", "namespace", "name",
                                               name, "description", text_of(tool, "description"),
                                               "tools", inside)) != 0))
        ok = no_memory(r);
    json_decref(inside);
    return ok;
}

static bool take_tool(reader *r, const json_t *tool, const char *where, const char *space,
                      json_t *echo)
{
    char param[96];
    const char *type = json_string_value(json_object_get(tool, "type"));
    snprintf(param, sizeof param, "%s.type", where);
    if (type == NULL)
        return tt_refuse_value(r->f->why, param, "a tool needs a type");
    if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0)
        return add_tool(r, tool, where, type[0] == 'c', space, echo);
    if (strcmp(type, "namespace") == 0 && space == NULL)
        return take_space(r, tool, where, echo);
    tt_fields_ignored(r->f, "tools");
    return true;
}

static bool take_list(reader *r, const json_t *list, const char *param, json_t *echo)
{
    char where[64];
    size_t i;
    json_t *tool;
    json_array_foreach(list, i, tool)
    {
        snprintf(where, sizeof where, "%s[%zu]", param, i);
        if (!take_tool(r, tool, where, NULL, echo))
            return false;
    }
    return true;
}

static bool take_items(reader *r, const json_t *items)
{
    json_t *item, *untold = json_array();
    bool ok = untold != NULL || no_memory(r);
    size_t i;
    r->in_items = true;
    json_array_foreach(items, i, item)
    {
        const json_t *list = json_object_get(item, "tools");
        ok = ok && (list == NULL || take_list(r, list, "input.tools", untold));
    }
    json_decref(untold);
    return ok;
}

bool tt_response_tools_read(tt_fields *f, const json_t *items, tt_response_tools *t)
{
    const json_t *tools = tt_fields_get(f->body, "tools");
    reader r = {.f = f, .t = t};
    *t = (tt_response_tools){.prompt = json_array(), .echo = json_array(), .given = json_object()};
    tt_tool_check_init(&t->check);
    if (tools != NULL && !json_is_array(tools))
        return tt_refuse_value(f->why, "tools", "tools must be an array");
    if (json_array_size(tools) > TT_TOOLS)
        return tt_refuse_large(f->why, "tools", "there may be %u tools", TT_TOOLS);
    return take_list(&r, tools, "tools", t->echo) && take_items(&r, items);
}

void tt_response_tools_free(tt_response_tools *t)
{
    json_decref(t->prompt);
    json_decref(t->echo);
    json_decref(t->given);
    tt_tool_check_free(&t->check);
    *t = (tt_response_tools){0};
}

/* ---- calls ---- */

tt_called_tool tt_response_tools_find(const json_t *given, const char *name)
{
    char space[TOOL_NAME + 2];
    tt_called_tool called = {.custom = json_is_true(json_object_get(given, name)), .name = name};
    size_t n = strcspn(name, ".");
    if (name[n] == '\0' || n > TOOL_NAME)
        return called;
    snprintf(space, sizeof space, "%.*s.", (int)n, name);
    if (json_object_get(given, space) == NULL)
        return called;
    called.space = name;
    called.space_len = n;
    called.name = name + n + 1;
    return called;
}
