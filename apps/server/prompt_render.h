/* prompt_render.h: conversations and texts to ids with a tokenizer, the same for both engines.
 *
 * Owns:      rendering, counting, which levels of reasoning a template knows.
 * Not here:  repairs of the history (history.h).
 * Laws:      the same input gives the same ids whichever engine answers.
 * Threads:   any.
 */
#ifndef TT_SERVER_PROMPT_RENDER_H
#define TT_SERVER_PROMPT_RENDER_H

#include "server/engine.h"

TT_MUST_CHECK tt_status tt_prompt_render(const tt_tokenizer *tok, const tt_engine_render *r,
                                         tt_engine_prompt *out, tt_error *err);
/* Tries each level on a short conversation, and whether thinking on and off make a difference. */
void tt_prompt_levels(const tt_tokenizer *tok, bool efforts[TT_EFFORTS], bool *thinks);

#endif
