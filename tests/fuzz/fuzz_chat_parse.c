/* Parses the input as an answer, with and without declared types: the result is always an object
 * with a thought, a text and calls. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <jansson.h>

#include "tinytitan/tinytitan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"},"
    "\"o\": {\"type\": [\"object\", \"null\"]}, \"u\": {\"anyOf\": [{\"type\": \"number\"}]}}}}}]";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int with = 0; with < 2; with++) {
        char *json = NULL;
        tt_error err;
        if (tt_chat_parse((const char *)data, size, with ? tools : NULL, &json, &err) != TT_OK)
            continue;
        json_t *j = json_loads(json, JSON_ALLOW_NUL, NULL);
        if (!json_is_string(json_object_get(j, "reasoning")) ||
            !json_is_string(json_object_get(j, "content")) ||
            !json_is_array(json_object_get(j, "tool_calls")))
            abort();
        json_decref(j);
        tt_free(json);
    }
    return 0;
}
