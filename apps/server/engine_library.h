/* engine_library.h: the seam of engine.h over the library: one model, one session.
 *
 * Owns:      tokenizer, model, session, the loop of one answer.
 * Not here:  which prompts and settings (the protocols), when (work.h).
 * Laws:      those of engine.h.
 * Threads:   those of engine.h; open and close from any one.
 */
#ifndef TT_SERVER_ENGINE_LIBRARY_H
#define TT_SERVER_ENGINE_LIBRARY_H

#include "server/engine.h"

typedef struct tt_library_engine tt_library_engine;

/* `id` (may be NULL) replaces the model's own name. */
TT_MUST_CHECK tt_status tt_library_engine_open(const char *install, const tt_model_options *opts,
                                               const char *id, tt_progress_fn progress, void *ctx,
                                               tt_library_engine **out, tt_error *err);
void tt_library_engine_close(tt_library_engine **e);
tt_server_engine tt_library_engine_seam(tt_library_engine *e);

#endif
