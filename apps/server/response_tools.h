/* response_tools.h: tools of Responses as functions that a template knows, and calls of them back.
 *
 * Owns:      section 13.3 of docs/http.md: custom tools, namespaces, hosted tools.
 * Not here:  names and schemas that any tool must have (tool_check.h).
 * Laws:      what the model calls comes back as the tool that was given, whatever it was called by.
 * Threads:   one; what is looked up is not changed.
 */
#ifndef TT_SERVER_RESPONSE_TOOLS_H
#define TT_SERVER_RESPONSE_TOOLS_H

#include "server/request_fields.h"

typedef struct tt_response_tools {
    json_t *prompt; /* for the template */
    json_t *echo;   /* as they were given, in full and without hosted ones */
    json_t *given;  /* custom tools and those of namespaces by the model's name; namespaces with
                       a dot behind */
    tt_tool_check check;
} tt_response_tools;

/* `tools` of the body, and those that come in items: of two with one name these are left out. */
bool tt_response_tools_read(tt_fields *f, const json_t *items, tt_response_tools *t);
void tt_response_tools_free(tt_response_tools *t);

/* What a name that the model used stands for. */
typedef struct tt_called_tool {
    bool custom;
    const char *space; /* a namespace of `space_len` bytes, or NULL */
    size_t space_len;
    const char *name; /* in what was looked up */
} tt_called_tool;
tt_called_tool tt_response_tools_find(const json_t *given, const char *name);

#endif
