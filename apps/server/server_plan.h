/* server_plan.h: the memory that the server takes beside the model, and the text of --plan.
 *
 * Owns:      that sum, its place in --ram-budget, the listing of limits.
 * Not here:  the model's plan (the library).
 * Laws:      what is listed is what is enforced: both come from server_limits.h.
 * Threads:   any.
 */
#ifndef TT_SERVER_SERVER_PLAN_H
#define TT_SERVER_SERVER_PLAN_H

#include "server/server_options.h"

typedef struct tt_server_memory {
    uint64_t requests, connections, streams, responses, rendering, grammars, tokenizers, total;
} tt_server_memory;

/* `tokenizer`: the largest of several models, 0 where there is one model; `vocab`: the ids of the
 * largest. */
tt_server_memory tt_server_memory_of(uint32_t queue_limit, uint32_t sequences, uint64_t tokenizer,
                                     uint32_t vocab);
/* Plans the model in what `reserved` bytes leave of the budget, and puts that into `load`. As
 * tt_model_plan. */
TT_MUST_CHECK tt_status tt_server_plan(const char *install, uint64_t reserved,
                                       tt_model_options *load, tt_plan *plan, tt_error *err);
void tt_server_plan_write(const tt_server_options *o, const tt_server_memory *m,
                          const tt_plan *plan, tt_buf *out);

#endif
