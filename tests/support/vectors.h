/* vectors.h: the reference vectors as tests see them, and installs made from their checkpoints.
 *
 * Owns:      the parsed expectations; a temporary install, removed by fixture_remove.
 * Not here:  what is compared (tests/model/).
 * Laws:      every failure stops the test with the file and the tensor named.
 * Threads:   one.
 */
#ifndef TT_TESTS_VECTORS_H
#define TT_TESTS_VECTORS_H

#include "base/json.h"
#include "format/safetensors.h"
#include "session/session.h"

/* Converts a checkpoint directory into an install below the temporary directory. `weights` may name
 * another directory whose model.safetensors is used with this one's config.json (moe-yarn), or
 * NULL. bits: 16, 8, 4. */
const char *fixture_install(const char *checkpoint, const char *weights, unsigned bits);
/* Removes everything that fixture_install made. */
void fixture_remove(void);

/* Opens an install on one level with f32 KV rows; `slots` 0 takes all. */
tt_model *fixture_model(const char *install, const char *level, unsigned kv_bits, unsigned slots,
                        unsigned threads);
/* Whether the model's level rounds activations to whole numbers when weights are quantized. */
bool fixture_rounds(const tt_model *m);
tt_session *fixture_session(tt_model *m);

/* A float or u32 array of a safetensors file. Shape is checked when dims are not 0. */
float *vector_f32(const tt_safetensors *st, const char *name, uint64_t d0, uint64_t d1,
                  uint64_t d2);
uint32_t *vector_u32(const tt_safetensors *st, const char *name, uint64_t d0, uint64_t d1);
/* JSON array of ids at obj[key], allocated. */
uint32_t *vector_ids(const json_t *obj, const char *key, size_t *n);

/* max |a - b| and the largest ||a - b|| / ||b|| over rows */
double max_abs_diff(const float *a, const float *b, size_t n);
double max_row_error(const float *a, const float *b, size_t rows, size_t cols);

#endif
