/* models_dir.h: the models of a command line: one install, or every one in a folder.
 *
 * Owns:      looking for installs, their engines and tokenizers, what was left out and why, the
 *            text of --catalog.
 * Not here:  which of them is in memory (model_set.h).
 * Laws:      (1) what is wrong with one install of a folder is told and keeps nobody else from
 *            being served;  (2) names come from what an install says of itself, never from its
 *            directory.
 * Threads:   one; the set that is inside has its own.
 */
#ifndef TT_SERVER_MODELS_DIR_H
#define TT_SERVER_MODELS_DIR_H

#include "server/model_set.h"
#include "server/server_plan.h"

typedef struct tt_models tt_models;

typedef struct tt_models_places {
    const char *probe;                 /* tt_model_options.probe_file, or NULL */
    const char *xdg_cache_home, *home; /* for heat profiles (base/heat_path.h) */
} tt_models_places;

/* With --models-dir fails when there is no install at all; with --model alone when that one cannot
 * be read. Whether they can be loaded is looked at and told by their engines. `o` and `log` must
 * outlive it. */
TT_MUST_CHECK tt_status tt_models_open(const tt_server_options *o, const tt_models_places *places,
                                       const tt_server_log *log, tt_models **out, tt_error *err);
void tt_models_close(tt_models **m);

tt_model_set *tt_models_set(tt_models *m);
const tt_server_memory *tt_models_memory(const tt_models *m);
/* The model that --model names, or TT_MODEL_NONE without --model. */
TT_MUST_CHECK tt_status tt_models_first(tt_models *m, size_t *i, tt_error *err);
const char *tt_models_install(const tt_models *m, size_t i);
/* A line for every install that was left out or cannot be loaded. */
void tt_models_tell(tt_models *m);
void tt_models_catalog(tt_models *m, bool table, tt_buf *out);

#endif
