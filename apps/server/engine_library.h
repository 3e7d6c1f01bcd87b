/* engine_library.h: the seam of engine.h over the library: one install, with a session for each
 * answer that may be made at once when it is loaded.
 *
 * Owns:      model, sessions, state of prompts, the loop of one answer and what holds it to a
 *            grammar; what is known of the install.
 * Not here:  which prompts and settings (the protocols), when (work.h, step_gate.h),
 *            which of several installs is in memory (model_set.h), tokenizers (tokenizer_shelf.h).
 * Laws:      those of engine.h.
 * Threads:   those of engine.h; create and close from any one.
 */
#ifndef TT_SERVER_ENGINE_LIBRARY_H
#define TT_SERVER_ENGINE_LIBRARY_H

#include "server/engine.h"
#include "server/tokenizer_shelf.h"

typedef struct tt_library_engine tt_library_engine;

typedef struct tt_library_options {
    const char *id;        /* replaces the install's own name; NULL: NAME_BITS-Bit */
    uint64_t reserved;     /* bytes of the budget that are not the model's */
    const char *probe;     /* tt_model_options.probe_file of a load; looking measures nothing */
    const char *heat;      /* tt_model_options.heat_profile, or NULL */
    tt_model_options load; /* its texts, those of `disk` and `probe` must outlive the engine */
    tt_state_disk_options disk; /* dir NULL: none */
} tt_library_options;

/* Reads what the install says of itself; that it could be loaded is asked with `look`. */
TT_MUST_CHECK tt_status tt_library_engine_create(const char *install, const tt_library_options *o,
                                                 tt_shelf *shelf, tt_library_engine **out,
                                                 tt_error *err);
/* Unloads first. */
void tt_library_engine_close(tt_library_engine **e);
tt_server_engine tt_library_engine_seam(tt_library_engine *e);
const char *tt_library_engine_install(const tt_library_engine *e);
const tt_install_info *tt_library_engine_info(const tt_library_engine *e);

#endif
