/* state_key.h: the text that prompt state on disk is bound to (docs/format-state.md).
 *
 * Owns:      its lines.
 * Not here:  what is kept under it (store/).
 * Laws:      two models that may compute different bytes from the same ids have different texts.
 * Threads:   pure.
 */
#ifndef TT_SESSION_STATE_KEY_H
#define TT_SESSION_STATE_KEY_H

#include "model/model.h"

#define TT_STATE_KEY 1024u /* bytes of the text, with its end */

/* Raised whenever a release computes other bytes from the same ids. */
#define TT_NUMERICS_VERSION 1u

typedef struct tt_state_key {
    char model[65], tokenizer[65], template_[65]; /* digests; template_ may be "none" */
    uint32_t kv_bits;
    double yarn_factor; /* 1: none */
    uint32_t yarn_original_context;
    const char *render, *backend, *level;
    uint32_t numerics;
} tt_state_key;

/* What a model says of itself. `render` is the caller's word, 1..32 characters of [a-z0-9_.-]:
 * TT_ERR_INVALID for another. The texts are borrowed from the model and from `render`. */
TT_MUST_CHECK tt_status tt_state_key_of(const tt_model *m, const char *render, tt_state_key *out,
                                        tt_error *err);
void tt_state_key_write(const tt_state_key *k, char out[TT_STATE_KEY]);

#endif
