/* anthropic_models.h: the list of models in the shape of Anthropic's interface.
 *
 * Owns:      section 14.7 of docs/http.md: pages of the list, a model's object.
 * Not here:  which models there are.
 * Laws:      pure: what goes in is what comes out.
 * Threads:   any.
 */
#ifndef TT_SERVER_ANTHROPIC_MODELS_H
#define TT_SERVER_ANTHROPIC_MODELS_H

#include "base/buf.h"
#include "server/engine.h"
#include "server/refusal.h"

typedef struct tt_listed_model {
    const char *id;
    int64_t created; /* seconds since 1970 */
    uint32_t max_context;
    const bool *efforts; /* TT_EFFORTS of them: the levels that its template renders */
} tt_listed_model;

void tt_listed_model_write(const tt_listed_model *m, tt_buf *out);
/* The page of the list that the query of `target` asks for. False with `why`. */
bool tt_listed_models_write(const char *target, const tt_listed_model *list, size_t n, tt_buf *out,
                            tt_refusal *why);

#endif
