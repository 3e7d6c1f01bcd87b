/* model_set.h: the models that a server has, and which of them is in memory.
 *
 * Owns:      names, the switch from one model to another, unloading one that is idle, the counts of
 *            loads.
 * Not here:  what loads and answers (engine.h), in which order requests come (work.h), where the
 *            models come from (models_dir.h).
 * Laws:      (1) at most one is in memory;  (2) the one that is there is given up only when the
 *            other one was seen to be fit to be loaded;  (3) a model whose load failed is tried
 *            again by the next request for it, and the others stay as they were;  (4) a name is a
 *            model's own, or that with "-fast" behind it, and nothing else.
 * Threads:   use, unload and idle from one thread at a time while nothing generates; stats also
 *            while something does; everything else from any, and never waits for it.
 */
#ifndef TT_SERVER_MODEL_SET_H
#define TT_SERVER_MODEL_SET_H

#include "server/engine.h"
#include "server/server_limits.h"
#include "server/server_log.h"

#define TT_MODEL_NONE SIZE_MAX

typedef struct tt_model_set tt_model_set;

typedef struct tt_model_set_options {
    double idle_unload;       /* seconds without work after which a model is unloaded; 0: never */
    const tt_server_log *log; /* what is loaded and unloaded; NULL: not told */
} tt_model_set_options;

/* 1 to TT_MODELS engines with a name each. They must outlive the set; the array need not. */
TT_MUST_CHECK tt_status tt_model_set_create(const tt_server_engine *engines, size_t n,
                                            const tt_model_set_options *o, tt_model_set **out,
                                            tt_error *err);
/* Unloads. */
void tt_model_set_close(tt_model_set **s);

size_t tt_model_set_count(const tt_model_set *s);
const char *tt_model_set_name(const tt_model_set *s, size_t i);
/* The model of a name, or TT_MODEL_NONE. `fast` (may be NULL): the name was one with -fast. */
size_t tt_model_set_find(const tt_model_set *s, const char *name, bool *fast);
/* The seam for a request to model i: under a name with -fast nothing renders as a thought. */
tt_server_engine tt_model_set_engine(const tt_model_set *s, size_t i, bool fast);
/* The largest context of all; those that are not known count as the default one. */
uint32_t tt_model_set_context(const tt_model_set *s);

typedef struct tt_model_state {
    bool loaded, loading;
    uint64_t loads, failures;
    double load_seconds; /* of the last one */
} tt_model_state;
void tt_model_set_state(tt_model_set *s, size_t i, tt_model_state *out);
/* The one that is in memory, or TT_MODEL_NONE. */
size_t tt_model_set_loaded(tt_model_set *s);

/* ---- the engine's threads ---- */

/* Brings model i into memory. `go_on` as in engine.h. */
TT_MUST_CHECK tt_status tt_model_set_use(tt_model_set *s, size_t i, bool (*go_on)(void *ctx),
                                         void *ctx, tt_error *err);
/* Gives model i back, or with TT_MODEL_NONE the one that is there. Which one it was, or
 * TT_MODEL_NONE. */
size_t tt_model_set_unload(tt_model_set *s, size_t i);
/* Nothing is to be computed: after how many seconds it would like to be called again; below 0:
 * never. */
double tt_model_set_idle(tt_model_set *s);
/* Sums over all models since the start. */
void tt_model_set_stats(tt_model_set *s, tt_engine_stats *out);

#endif
