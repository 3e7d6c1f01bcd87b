/* model_args.h: the options that say how a model is opened, the same for every program that opens
 * one.
 *
 * Owns:      their rows in a program's table, their words, what of them goes together.
 * Not here:  parsing (args.h), what an option does (the library).
 * Laws:      (1) a combination that could not have an effect is refused;  (2) nothing here touches
 *            a file.
 * Threads:   any.
 */
#ifndef TT_BASE_MODEL_ARGS_H
#define TT_BASE_MODEL_ARGS_H

#include "base/args.h"

#define TT_MODEL_ARGS_ROWS 26u /* at most, with their heading */

/* Words that become something else once they are checked. */
typedef struct tt_model_words {
    const char *rope, *warm, *prompt_cache_memory;
    int kv, backend, level, reader, governor, prompt_cache, draft;
    uint64_t io_piece;
    tt_state_disk_options disk; /* dir NULL: none; its texts are the command line's */
} tt_model_words;

/* What stands there when no option was given. */
void tt_model_args_default(tt_model_options *m, tt_model_words *w);
/* Writes the rows and returns how many. */
size_t tt_model_args_rows(tt_arg *table, tt_model_options *m, tt_model_words *w);
/* After parsing: puts the words into the options and checks what goes together. */
TT_MUST_CHECK tt_status tt_model_args_apply(tt_model_options *m, const tt_model_words *w,
                                            tt_error *err);
/* "none" or "yarn:FACTOR" into a factor: 1 for none. */
TT_MUST_CHECK tt_status tt_model_args_rope(const char *text, float *factor, tt_error *err);
/* "auto", "off" or seconds into tt_model_options.warm_seconds. */
TT_MUST_CHECK tt_status tt_model_args_warm(const char *text, float *seconds, tt_error *err);

#endif
