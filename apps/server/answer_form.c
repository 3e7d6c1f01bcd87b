#include "server/answer_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/request_fields.h"
#include "server/server_limits.h"

#define CHOICE "tool_choice"
#define DUMP   (JSON_COMPACT | JSON_REAL_PRECISION(17)) /* every number stays the one it is */

void tt_answer_form_free(tt_answer_form *form)
{
    json_decref(form->names);
    *form = (tt_answer_form){0};
}

static bool no_memory(tt_fields *f)
{
    return tt_refuse(f->why, 503, "memory_full", NULL, "there is no memory for the request");
}

/* ---- formats ---- */

bool tt_form_take_schema(tt_fields *f, const char *name, const char *at, const json_t *schema)
{
    tt_answer_form *form = &f->form;
    form->format = name;
    form->schema = schema;
    snprintf(form->schema_at, sizeof form->schema_at, "%s.schema", at);
    if (!json_is_object(schema))
        return tt_refuse_value(f->why, form->schema_at, "%s must be an object", form->schema_at);
    return json_dumpb(schema, NULL, 0, DUMP) <= TT_SCHEMA ||
           tt_refuse_large(f->why, form->schema_at, "a schema may have %llu bytes",
                           (unsigned long long)TT_SCHEMA);
}

bool tt_form_take_format(tt_fields *f, const char *name, const json_t *v, const char *inner)
{
    char at[64];
    const char *type = tt_fields_word(json_object_get(v, "type"));
    if (type == NULL)
        return tt_refuse_value(f->why, name, "%s must be an object with a type", name);
    if (strcmp(type, "text") == 0)
        return true;
    if (strcmp(type, "json_object") == 0) {
        f->form.format = name;
        return true;
    }
    if (strcmp(type, "json_schema") != 0)
        return tt_refuse_unsupported(
            f->why, name, "the type of %s may be text, json_object or json_schema", name);
    snprintf(at, sizeof at, "%s%s%s", name, inner != NULL ? "." : "", inner != NULL ? inner : "");
    const json_t *holder = inner != NULL ? tt_fields_get(v, inner) : v;
    if (!json_is_object(holder))
        return tt_refuse_value(f->why, at, "%s must be an object", at);
    const json_t *schema = tt_fields_get(holder, "schema");
    f->form.format = name;
    /* Chat Completions may leave it out: any object will do. */
    if (schema == NULL && inner != NULL)
        return true;
    return tt_form_take_schema(f, name, at, schema);
}

/* ---- choices ---- */

bool tt_form_allow(tt_fields *f, const char *space, const char *name)
{
    if (f->form.names == NULL)
        f->form.names = json_array();
    json_t *called = space != NULL ? json_sprintf("%s.%s", space, name) : json_string(name);
    return json_array_append_new(f->form.names, called) == 0 || no_memory(f);
}

/* One of {"type":"function","name":N} and so on. A type that nobody has here is left out. */
static bool allow_tool(tt_fields *f, const char *name, const json_t *v, bool nested)
{
    const char *type = tt_fields_word(json_object_get(v, "type"));
    if (type == NULL)
        return tt_refuse_value(f->why, name, "a tool of %s must be an object with a type", name);
    if (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0) {
        tt_fields_ignored(f, name);
        return true;
    }
    const json_t *holder = nested ? json_object_get(v, type) : v;
    const char *called = tt_fields_word(json_object_get(holder, "name"));
    const char *space = tt_fields_word(tt_fields_get(holder, "namespace"));
    return called != NULL ? tt_form_allow(f, space, called)
                          : tt_refuse_value(f->why, name, "a tool of %s needs a name", name);
}

static bool take_allowed(tt_fields *f, const char *name, const json_t *v, bool nested)
{
    const json_t *holder = nested ? json_object_get(v, "allowed_tools") : v;
    const char *mode = tt_fields_word(json_object_get(holder, "mode"));
    const json_t *list = json_object_get(holder, "tools"), *tool;
    bool demanded = mode != NULL && strcmp(mode, "required") == 0, ok = true;
    size_t i;
    if (!demanded && (mode == NULL || strcmp(mode, "auto") != 0))
        return tt_refuse_value(f->why, name, "the mode of %s must be auto or required", name);
    if (!json_is_array(list))
        return tt_refuse_value(f->why, name, "the tools of %s must be an array", name);
    if (json_array_size(list) > TT_TOOLS)
        return tt_refuse_large(f->why, name, "there may be %u tools", TT_TOOLS);
    json_array_foreach((json_t *)list, i, tool) ok = ok && allow_tool(f, name, tool, nested);
    if (ok && f->form.names == NULL)
        return tt_refuse_value(f->why, name, "%s allows none of the tools that there are", name);
    f->form.calls = demanded ? TT_CALLS_DEMANDED : TT_CALLS_FREE;
    return ok;
}

static bool take_object(tt_fields *f, const char *name, const json_t *v, bool nested)
{
    const char *type = tt_fields_word(json_object_get(v, "type"));
    if (type == NULL)
        return tt_refuse_value(f->why, name, "%s must have a type", name);
    if (strcmp(type, "allowed_tools") == 0)
        return take_allowed(f, name, v, nested);
    if (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0)
        return tt_refuse_unsupported(f->why, name, "tools of that type are not offered here");
    f->form.calls = TT_CALLS_DEMANDED;
    f->form.one = true;
    return allow_tool(f, name, v, nested);
}

bool tt_form_take_choice(tt_fields *f, const char *name, const json_t *v, bool nested)
{
    const char *word = tt_fields_word(v);
    if (json_is_object(v))
        return take_object(f, name, v, nested);
    if (word != NULL && strcmp(word, "auto") == 0)
        return true;
    if (word == NULL || (strcmp(word, "none") != 0 && strcmp(word, "required") != 0))
        return tt_refuse_value(f->why, name, "%s must be auto, none, required or an object", name);
    f->form.calls = word[0] == 'n' ? TT_CALLS_NONE : TT_CALLS_DEMANDED;
    return true;
}

/* What the choice speaks of is there. */
static bool choice_fits(tt_fields *f, const json_t *tools, const tt_tool_check *check)
{
    const tt_answer_form *form = &f->form;
    size_t i;
    json_t *name;
    if (form->calls == TT_CALLS_DEMANDED && json_array_size(tools) == 0)
        return tt_refuse_value(f->why, CHOICE, "a call is demanded, and there is no tool to call");
    json_array_foreach(form->names, i, name)
    {
        if (json_object_get(check->places, json_string_value(name)) == NULL)
            return tt_refuse_value(f->why, CHOICE, "%s names a tool that is not there", CHOICE);
    }
    return true;
}

/* ---- refusals ---- */

static bool refuse(tt_fields *f, tt_status st, const tt_error *err, const char *param)
{
    switch (st) {
    case TT_ERR_UNSUPPORTED:
        return tt_refuse_unsupported(f->why, param, "%s", err->message);
    case TT_ERR_LIMIT:
        return tt_refuse_large(f->why, param, "%s", err->message);
    case TT_ERR_INVALID:
    case TT_ERR_FORMAT:
        return tt_refuse_value(f->why, param, "%s", err->message);
    case TT_ERR_NOMEM:
    case TT_ERR_BUDGET:
        return tt_refuse(f->why, 503, "memory_full", NULL,
                         "the memory for grammars is full at this moment");
    default:
        return tt_refuse(f->why, 500, "internal_error", NULL, "the grammar cannot be made");
    }
}

/* The message begins with the name of the tool that is to blame, if it is one. */
static bool refuse_tool(tt_fields *f, tt_status st, const tt_error *err, const tt_tool_check *check,
                        const char *word)
{
    char param[96] = "tools";
    const char *name;
    json_t *place;
    json_object_foreach(check->places, name, place)
    {
        size_t n = strlen(name);
        if (strncmp(err->message, name, n) == 0 && err->message[n] == ':')
            snprintf(param, sizeof param, "%s.%s", json_string_value(place), word);
    }
    return refuse(f, st, err, param);
}

/* ---- what was relaxed ---- */

/* Words of JSON Schema that are not ours to honour; others are text of a request, which no log
 * shows. */
static const char *known(const char *keyword)
{
    static const char *const words[] = {"$dynamicAnchor",
                                        "$dynamicRef",
                                        "$recursiveRef",
                                        "$ref",
                                        "additionalItems",
                                        "additionalProperties",
                                        "allOf",
                                        "anyOf",
                                        "const",
                                        "contains",
                                        "contentEncoding",
                                        "contentMediaType",
                                        "dependencies",
                                        "dependentRequired",
                                        "dependentSchemas",
                                        "else",
                                        "enum",
                                        "exclusiveMaximum",
                                        "exclusiveMinimum",
                                        "format",
                                        "if",
                                        "items",
                                        "maxContains",
                                        "maxItems",
                                        "maxLength",
                                        "maxProperties",
                                        "maximum",
                                        "minContains",
                                        "minItems",
                                        "minLength",
                                        "minProperties",
                                        "minimum",
                                        "multipleOf",
                                        "not",
                                        "nullable",
                                        "oneOf",
                                        "pattern",
                                        "patternProperties",
                                        "prefixItems",
                                        "properties",
                                        "propertyNames",
                                        "required",
                                        "then",
                                        "type",
                                        "unevaluatedItems",
                                        "unevaluatedProperties",
                                        "uniqueItems",
                                        NULL};
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], keyword) == 0)
            return words[i];
    return keyword[0] != '\0' ? "others" : "all";
}

/* "tools[3].function:pattern", by the places of tools. */
static void tell_relaxed(tt_fields *f, const tt_grammar *g, const tt_tool_check *check)
{
    json_t *list = json_loads(tt_grammar_relaxed(g), 0, NULL), *entry;
    size_t i;
    char word[160];
    json_array_foreach(list, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *place = json_string_value(json_object_get(check->places, name));
        snprintf(word, sizeof word, "%s:%s", place != NULL ? place : "tools",
                 known(json_string_value(json_object_get(entry, "keyword"))));
        tt_fields_relaxed(f, word);
    }
    json_decref(list);
}

/* ---- the grammar ---- */

/* The schema of the document as text (tt_free). */
static char *schema_text(const tt_answer_form *form)
{
    static const char any_object[] = "{\"type\":\"object\"}";
    return form->schema != NULL ? json_dumps(form->schema, DUMP)
                                : tt_copy_text(any_object, sizeof any_object - 1);
}

static bool take_document(tt_fields *f, const char *schema, tt_lent_grammar **out)
{
    tt_error err = {.offset = -1};
    const tt_grammar_wish wish = {.schema = schema};
    tt_status st = tt_grammar_shelf_take(f->grammars, &wish, out, &err);
    return st == TT_OK || refuse(f, st, &err, f->form.schema_at);
}

/* Of each tool what a grammar needs, as text (tt_free); NULL for want of memory. */
static char *tools_text(const json_t *tools, const tt_tool_check *check)
{
    json_t *list = json_array(), *tool;
    size_t i;
    int bad = list == NULL;
    json_array_foreach((json_t *)tools, i, tool)
    {
        const json_t *fn = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(fn, "name"));
        json_t *schema = json_object_get(fn, "parameters"),
               *slim = json_pack("{s:s}", "name", name);
        if (json_is_object(schema))
            bad |= json_object_set(slim, "parameters", schema);
        if (json_object_get(check->strict, name) != NULL)
            bad |= json_object_set_new(slim, "strict", json_true());
        bad |= json_array_append_new(list, slim);
    }
    char *text = bad == 0 ? json_dumps(list, DUMP) : NULL;
    json_decref(list);
    return text;
}

static bool take_calls(tt_fields *f, const json_t *tools, const tt_tool_check *check,
                       const char *word, tt_tool_choice *choice)
{
    tt_error err = {.offset = -1};
    size_t i;
    json_t *name;
    const json_t *allowed = f->form.names;
    const char **names = malloc((json_array_size(allowed) + 1) * sizeof *names);
    char *text = tools_text(tools, check);
    tt_status st = names == NULL || text == NULL ? TT_ERR_NOMEM : TT_OK;
    if (st == TT_OK) {
        json_array_foreach((json_t *)allowed, i, name) names[i] = json_string_value(name);
        choice->names = allowed != NULL ? names : NULL;
        choice->n_names = json_array_size(allowed);
        const tt_grammar_wish wish = {.tools = text, .choice = *choice};
        st = tt_grammar_shelf_take(f->grammars, &wish, &f->out->turn.grammar, &err);
    }
    free(names);
    tt_free(text);
    if (st != TT_OK)
        return refuse_tool(f, st, &err, check, word);
    tell_relaxed(f, tt_lent_grammar_get(f->out->turn.grammar), check);
    return true;
}

/* Calls that are demanded, or a document or calls, or text in which calls keep to their schemas. */
static bool take_form(tt_fields *f, const json_t *tools, const tt_tool_check *check,
                      const char *word, const char *schema)
{
    tt_lent_grammar *alone = NULL;
    const tt_answer_form *form = &f->form;
    bool calls = json_array_size(tools) > 0 && form->calls != TT_CALLS_NONE;
    tt_tool_choice choice = {.mode = schema != NULL || form->calls == TT_CALLS_DEMANDED
                                         ? TT_TOOLS_REQUIRED
                                         : TT_TOOLS_AUTO,
                             .one_call = form->one || f->out->turn.one_call,
                             .document = schema};
    if (!calls)
        return take_document(f, schema, &f->out->turn.grammar);
    /* What is wrong with the schema is told in its own name. */
    if (schema != NULL && !take_document(f, schema, &alone))
        return false;
    tt_grammar_shelf_give(&alone);
    f->out->turn.document = schema != NULL;
    return take_calls(f, tools, check, word, &choice);
}

bool tt_form_finish(tt_fields *f, const json_t *tools, const tt_tool_check *check, const char *word)
{
    const tt_answer_form *form = &f->form;
    if (form->calls != TT_CALLS_NONE && !choice_fits(f, tools, check))
        return false;
    bool document = form->format != NULL && form->calls != TT_CALLS_DEMANDED;
    bool strict = json_object_size(check->strict) > 0 && form->calls != TT_CALLS_NONE;
    if (form->format != NULL && !document)
        tt_fields_ignored(f, form->format);
    if (f->grammars == NULL ||
        (!document && !strict && form->names == NULL && form->calls != TT_CALLS_DEMANDED))
        return true;
    char *schema = document ? schema_text(form) : NULL;
    if (document && schema == NULL)
        return no_memory(f);
    bool ok = take_form(f, tools, check, word, schema);
    tt_free(schema);
    return ok;
}
