/* The keywords of JSON Schema: which are honoured, and what their values must be. docs/grammar.md
 * lists them. */
#include <math.h>
#include <string.h>

#include "grammar/pattern.h"
#include "grammar/shape.h"

typedef enum kind {
    K_NOTE, /* says nothing about values */
    K_BOOLEAN,
    K_TEXT,
    K_TYPE,
    K_VALUES,
    K_VALUE,
    K_SCHEMA,
    K_SCHEMAS, /* an array of them, not empty */
    K_NAMED,   /* an object of them */
    K_NAMES,   /* an array of strings */
    K_COUNT,
    K_NUMBER,
    K_FORMAT,
    K_OFF,  /* honoured when it asks for nothing */
    K_PLAIN /* propertyNames: honoured when it only says that names are strings */
} kind;

static const struct {
    const char *name;
    kind kind;
} keywords[] = {
    {"type", K_TYPE},
    {"nullable", K_BOOLEAN},
    {"enum", K_VALUES},
    {"const", K_VALUE},
    {"$ref", K_TEXT},
    {"allOf", K_SCHEMAS},
    {"anyOf", K_SCHEMAS},
    {"oneOf", K_SCHEMAS},
    {"properties", K_NAMED},
    {"required", K_NAMES},
    {"additionalProperties", K_SCHEMA},
    {"propertyNames", K_PLAIN},
    {"items", K_SCHEMA},
    {"minItems", K_COUNT},
    {"maxItems", K_COUNT},
    {"uniqueItems", K_OFF},
    {"minLength", K_COUNT},
    {"maxLength", K_COUNT},
    {"pattern", K_TEXT},
    {"format", K_FORMAT},
    {"minimum", K_NUMBER},
    {"maximum", K_NUMBER},
    {"exclusiveMinimum", K_NUMBER},
    {"exclusiveMaximum", K_NUMBER},
    {"$schema", K_NOTE},
    {"$id", K_NOTE},
    {"id", K_NOTE},
    {"$comment", K_NOTE},
    {"$anchor", K_NOTE},
    {"$defs", K_NOTE},
    {"definitions", K_NOTE},
    {"title", K_NOTE},
    {"description", K_NOTE},
    {"default", K_NOTE},
    {"example", K_NOTE},
    {"examples", K_NOTE},
    {"deprecated", K_NOTE},
    {"readOnly", K_NOTE},
    {"writeOnly", K_NOTE},
    {"discriminator", K_NOTE},
    {"externalDocs", K_NOTE},
    {"xml", K_NOTE},
    {"strict", K_NOTE},
};

static const char *const types[] = {"null",   "boolean", "integer", "number",
                                    "string", "array",   "object"};
static const uint32_t type_bits[] = {
    TT_TYPE_NULL,   TT_TYPE_BOOLEAN, TT_TYPE_WHOLE, TT_TYPE_WHOLE | TT_TYPE_BROKEN,
    TT_TYPE_STRING, TT_TYPE_ARRAY,   TT_TYPE_OBJECT};

static uint32_t bits_of(const json_t *name)
{
    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof *types; i++)
        if (strcmp(json_string_value(name), types[i]) == 0)
            return type_bits[i];
    return 0;
}

uint32_t tt_shape_types(const json_t *type)
{
    uint32_t bits = 0;
    size_t i;
    const json_t *name;
    if (!json_is_array(type))
        return bits_of(type);
    json_array_foreach((json_t *)type, i, name)
    {
        if (bits_of(name) == 0)
            return 0;
        bits |= bits_of(name);
    }
    return bits;
}

uint32_t tt_shape_type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return TT_TYPE_OBJECT;
    case JSON_ARRAY:
        return TT_TYPE_ARRAY;
    case JSON_STRING:
        return TT_TYPE_STRING;
    case JSON_INTEGER:
        return TT_TYPE_WHOLE;
    case JSON_REAL:
        return json_real_value(value) == floor(json_real_value(value)) ? TT_TYPE_WHOLE
                                                                       : TT_TYPE_BROKEN;
    case JSON_NULL:
        return TT_TYPE_NULL;
    default:
        return TT_TYPE_BOOLEAN;
    }
}

static bool all_schemas(const json_t *list)
{
    size_t i;
    const json_t *part;
    json_array_foreach((json_t *)list, i, part)
    {
        if (!json_is_object(part) && !json_is_boolean(part))
            return false;
    }
    return true;
}

static bool named_schemas(const json_t *members)
{
    const char *key;
    json_t *part;
    json_object_foreach((json_t *)members, key, part)
    {
        if (!json_is_object(part) && !json_is_boolean(part))
            return false;
    }
    return true;
}

static bool all_names(const json_t *list)
{
    size_t i;
    const json_t *name;
    json_array_foreach((json_t *)list, i, name)
    {
        if (!json_is_string(name) || strlen(json_string_value(name)) != json_string_length(name))
            return false;
    }
    return true;
}

/* What the value must be, in words; NULL when it is that. */
static const char *fault(kind k, const json_t *v)
{
    switch (k) {
    case K_NOTE:
    case K_VALUE:
        return NULL;
    case K_BOOLEAN:
        return json_is_boolean(v) ? NULL : "must be true or false";
    case K_TEXT:
    case K_FORMAT:
        return json_is_string(v) ? NULL : "must be a string";
    case K_TYPE:
        return tt_shape_types(v) != 0 ? NULL : "must be a type or a list of types";
    case K_VALUES:
        return json_array_size(v) > 0 ? NULL : "must be a list of values";
    case K_SCHEMA:
        return json_is_object(v) || json_is_boolean(v) ? NULL : "must be one schema";
    case K_SCHEMAS:
        return json_array_size(v) > 0 && all_schemas(v) ? NULL : "must be a list of schemas";
    case K_NAMED:
        return json_is_object(v) && named_schemas(v) ? NULL : "must be an object of schemas";
    case K_NAMES:
        return json_is_array(v) && all_names(v) ? NULL : "must be a list of names";
    case K_COUNT:
        return json_is_number(v) && json_number_value(v) >= 0 &&
                       json_number_value(v) == floor(json_number_value(v))
                   ? NULL
                   : "must be a whole number from 0 on";
    case K_NUMBER:
        return json_is_number(v) ? NULL : "must be a number";
    case K_OFF:
        return json_is_false(v) ? NULL : "is not supported";
    default:
        return NULL;
    }
}

/* {"type": "string"} and what is annotation beside it: every name is a string. */
static bool plain_names(const json_t *v)
{
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)v, key, member)
    {
        if (strcmp(key, "type") != 0 && strcmp(key, "title") != 0 &&
            strcmp(key, "description") != 0)
            return false;
    }
    const json_t *type = json_object_get(v, "type");
    return json_is_true(v) ||
           (json_is_object(v) && (type == NULL || (tt_shape_types(type) & TT_TYPE_STRING)));
}

static bool number_format(const char *name)
{
    static const char *const names[] = {"int32", "int64",  "uint8", "uint16", "uint32", "uint64",
                                        "float", "double", "int8",  "int16",  "int"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Formats say something about strings, those with the names of number types about numbers. */
static bool known_format(const json_t *schema, const char *format)
{
    const json_t *type = json_object_get(schema, "type");
    uint32_t bits = type != NULL ? tt_shape_types(type) : TT_TYPE_ALL;
    if (number_format(format))
        return !(bits & TT_TYPE_STRING);
    return tt_format_known(format) || !(bits & TT_TYPE_STRING);
}

static tt_status check_member(tt_schema *s, uint32_t node, const char *key, const json_t *v,
                              tt_error *err)
{
    const json_t *schema = s->nodes[node].json;
    bool relaxed = false;
    if (strncmp(key, "x-", 2) == 0)
        return TT_OK;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strcmp(keywords[i].name, key) != 0)
            continue;
        kind k = keywords[i].kind;
        const char *what = fault(k, v);
        if (k == K_FORMAT && what == NULL && !known_format(schema, json_string_value(v)))
            return tt_schema_refuse(s, node, key, &relaxed, err,
                                    "format \"%.60s\" is not supported", json_string_value(v));
        if (k == K_PLAIN && !plain_names(v))
            what = "is not supported with conditions on names";
        if (what != NULL)
            return tt_schema_refuse(s, node, key, &relaxed, err, "\"%s\" %s", key, what);
        return TT_OK;
    }
    return tt_schema_refuse(s, node, key, &relaxed, err, "\"%.60s\" is not supported", key);
}

tt_status tt_shape_check(tt_schema *s, uint32_t node, tt_error *err)
{
    const char *key;
    json_t *v;
    const json_t *schema = s->nodes[node].json;
    bool relaxed = false;
    s->nodes[node].checked = true;
    const json_t *type = json_object_get(schema, "type");
    if (type != NULL && fault(K_TYPE, type) != NULL)
        return tt_schema_refuse(s, node, "type", &relaxed, err, "\"type\" %s", fault(K_TYPE, type));
    json_object_foreach((json_t *)schema, key, v)
    {
        TT_TRY(check_member(s, node, key, v, err));
        if (s->nodes[node].relaxed)
            return TT_OK;
    }
    return TT_OK;
}
