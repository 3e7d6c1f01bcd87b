/* levels.h: backends of every level that this machine has, and random operands for them.
 *
 * Owns:      a reference backend and a set of others to hold against it; random weight matrices;
 *            products by the definition of the integer-dot levels.
 * Not here:  tolerances.
 * Laws:      a level that the machine lacks is reported on standard output, once a program.
 * Threads:   one.
 */
#ifndef TT_TESTS_LEVELS_H
#define TT_TESTS_LEVELS_H

#include "backend/kernels.h"
#include "support/approx.h"

#define EPS32 0x1p-24 /* half a unit in the last place of 1.0f */

/* Limits that fit every test. */
extern const tt_backend_limits tt_test_limits;

tt_backend *tt_level_open(const char *level, unsigned threads);
tt_backend *tt_ref_open(void);

/* Runs fn for every level above the reference, with a backend of `threads` and the reference. */
typedef void (*tt_level_fn)(tt_backend *be, tt_backend *ref);
void tt_for_levels(unsigned threads, tt_level_fn fn);

/* Under TT_TEST_THIN=K, of cases that are counted up from `*n` only every Kth is to be run (K odd,
 * because lists repeat after four): an emulator needs minutes for what a machine does in a second,
 * and its whole run is another one. */
bool tt_test_thinned(unsigned *n);

/* Whether this level multiplies W in whole numbers: its results are then those of tt_dot_matmul, to
 * the byte, and near those of the reference. */
bool tt_level_dots(const tt_backend *be, const tt_mat *W);
/* matmul by the definition of the integer-dot levels. */
void tt_dot_matmul(float *y, size_t ldy, const float *x, size_t ldx, const tt_mat *W, uint32_t T,
                   uint32_t planes);

/* A matrix of random weights of about `scale`, in memory of its own. */
tt_mat tt_mat_random(tt_rng *r, tt_dtype dtype, uint32_t rows, uint32_t cols, float scale);
void tt_mat_free(tt_mat *m);
/* |weights| as F32, for magnitudes. */
tt_mat tt_mat_magnitude(tt_backend *ref, const tt_mat *m);

#endif
