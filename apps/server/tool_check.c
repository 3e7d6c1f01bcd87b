#include "server/tool_check.h"

#include <stdio.h>
#include <string.h>

#include "server/server_limits.h"

void tt_tool_check_init(tt_tool_check *c)
{
    *c = (tt_tool_check){.places = json_object(), .strict = json_object()};
}

void tt_tool_check_free(tt_tool_check *c)
{
    json_decref(c->places);
    json_decref(c->strict);
    *c = (tt_tool_check){0};
}

bool tt_tool_name_fits(const json_t *name, size_t most)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t n = json_string_length(name);
    return n > 0 && n <= most && strspn(json_string_value(name), letters) == n;
}

bool tt_tool_check_function(tt_tool_check *c, const char *where, const json_t *name, size_t most,
                            const char *field, const json_t *schema, tt_refusal *why)
{
    char param[96];
    snprintf(param, sizeof param, "%s.name", where);
    if (!tt_tool_name_fits(name, most))
        return tt_refuse_value(why, param, "a tool needs a name of 1 to %zu of A-Z a-z 0-9 _ -",
                               most);
    snprintf(param, sizeof param, "%s.%s", where, field);
    if (schema == NULL)
        return true;
    if (!json_is_object(schema))
        return tt_refuse_value(why, param, "%s must be an object", field);
    size_t n = json_dumpb(schema, NULL, 0, JSON_COMPACT);
    c->schemas += n;
    if (n > TT_SCHEMA || c->schemas > TT_SCHEMAS)
        return tt_refuse_large(why, param,
                               "a schema may have %llu bytes, all of them together %llu",
                               (unsigned long long)TT_SCHEMA, (unsigned long long)TT_SCHEMAS);
    return true;
}

bool tt_tool_check_once(tt_tool_check *c, const char *where, const char *name, tt_refusal *why)
{
    char param[96];
    snprintf(param, sizeof param, "%s.name", where);
    if (json_object_get(c->places, name) != NULL)
        return tt_refuse_value(why, param, "two tools have the same name");
    return json_object_set_new(c->places, name, json_string(where)) == 0 ||
           tt_refuse(why, 503, "memory_full", NULL, "there is no memory for the tools");
}

bool tt_tool_check_strict(tt_tool_check *c, const char *where, const char *name,
                          const json_t *strict, tt_refusal *why)
{
    char param[96];
    snprintf(param, sizeof param, "%s.strict", where);
    if (strict != NULL && !json_is_boolean(strict))
        return tt_refuse_value(why, param, "strict must be true or false");
    return !json_is_true(strict) || json_object_set_new(c->strict, name, json_true()) == 0 ||
           tt_refuse(why, 503, "memory_full", NULL, "there is no memory for the tools");
}
