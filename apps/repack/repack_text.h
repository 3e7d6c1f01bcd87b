/* repack_text.h: whether the tokenizer files of a checkpoint can be used, before it is converted.
 *
 * Owns:      opening them as the install's readers will, and what is said about them.
 * Not here:  reading them (the public header), copying them (repack/).
 * Laws:      what is missing is told, what is broken is refused with the file and the remedy.
 * Threads:   one.
 */
#ifndef TT_APP_REPACK_TEXT_H
#define TT_APP_REPACK_TEXT_H

#include "repack/repack.h"

/* For tt_repack_options.check_text; `ctx` is a tt_repack_events that takes the notes. */
TT_MUST_CHECK tt_status repack_check_text(void *ctx, const char *dir, uint32_t vocab,
                                          bool *has_template, tt_error *err);

#endif
