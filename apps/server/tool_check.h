/* tool_check.h: what every tool of a request must keep to, whatever protocol it comes in.
 *
 * Owns:      names, schemas, their bounds, that no name comes twice, which are strict.
 * Not here:  the shape of a tool in a protocol.
 * Laws:      a tool that is refused is named by its place.
 * Threads:   one.
 */
#ifndef TT_SERVER_TOOL_CHECK_H
#define TT_SERVER_TOOL_CHECK_H

#include <jansson.h>

#include "server/refusal.h"

typedef struct tt_tool_check {
    json_t *places; /* of tools that were there, by the model's name for them */
    json_t *strict; /* names of those that are strict, as keys */
    size_t schemas;
} tt_tool_check;

void tt_tool_check_init(tt_tool_check *c);
void tt_tool_check_free(tt_tool_check *c);

/* 1 to `most` of A-Z a-z 0-9 _ - */
bool tt_tool_name_fits(const json_t *name, size_t most);
/* `where` is the place of what holds `name` and the schema ("tools[3].function"), `schema` its
 * field `field` or NULL. */
bool tt_tool_check_function(tt_tool_check *c, const char *where, const json_t *name, size_t most,
                            const char *field, const json_t *schema, tt_refusal *why);
/* That the model's name for it is a new one. */
bool tt_tool_check_once(tt_tool_check *c, const char *where, const char *name, tt_refusal *why);
/* What the tool says of being strict: a boolean, or NULL. */
bool tt_tool_check_strict(tt_tool_check *c, const char *where, const char *name,
                          const json_t *strict, tt_refusal *why);

#endif
