/* model_list.h: what clients are told of a model: the objects of /v1/models and of --catalog.
 *
 * Owns:      section 4.1 of docs/http.md.
 * Not here:  what is known of a model (engine.h), which there are (model_set.h).
 * Laws:      what is listed is what a request gets: the same limits that requests are held to.
 * Threads:   any.
 */
#ifndef TT_SERVER_MODEL_LIST_H
#define TT_SERVER_MODEL_LIST_H

#include "server/model_set.h"

/* Tokens that an answer may have at most, beside a prompt of one. */
uint32_t tt_model_list_most_output(const tt_engine_info *info);
/* Words of reasoning_effort that make a difference, `none` first; with `separator` between them, in
 * quotes or bare. */
void tt_model_list_levels(const tt_engine_info *info, const char *separator, bool quotes,
                          tt_buf *out);
/* The fields that /v1/models and --catalog share, without braces. */
void tt_model_list_fields(const tt_engine_info *info, tt_buf *out);
/* MODEL. */
void tt_model_list_object(tt_model_set *s, size_t i, tt_buf *out);
/* {"object":"list",...} */
void tt_model_list_all(tt_model_set *s, tt_buf *out);

#endif
