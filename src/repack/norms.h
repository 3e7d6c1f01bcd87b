/* norms.h: are norm weights stored as w of (1 + w), or as the whole factor?
 *
 * Owns:      the two signals and what follows from them.
 * Not here:  changing any weight: installs keep the checkpoint's bytes and record the form.
 * Laws:      (1) the shape of conv1d decides;  (2) the values are a second witness, and a clear
 *            contradiction refuses the checkpoint;  (3) the draft's norms are judged by their own
 *            values, since third-party files shift one and not the other.
 * Threads:   pure on their arguments.
 */
#ifndef TT_REPACK_NORMS_H
#define TT_REPACK_NORMS_H

#include "repack/tensor_plan.h"

/* Values of norm weights of one part. A whole factor is practically never negative; w of (1 + w)
 * often is. */
typedef struct tt_norm_values {
    uint64_t count, negative;
    double sum;
} tt_norm_values;

typedef struct tt_norm_evidence {
    unsigned conv_raw, conv_shifted; /* conv1d tensors of either form */
    tt_norm_values body, mtp;
} tt_norm_evidence;

/* Counts values as a checkpoint has them: F32, F16 or BF16. */
void tt_norms_add(tt_norm_values *v, const void *bytes, size_t n, tt_st_dtype dtype);
/* Reads and counts one tensor. */
TT_MUST_CHECK tt_status tt_norms_measure_one(const tt_safetensors *st, const tt_st_tensor *t,
                                             tt_norm_values *v, tt_error *err);
/* Reads all norms that may be offset. found[i] is the source of inventory item i. */
TT_MUST_CHECK tt_status tt_norms_measure(const tt_safetensors *st, const tt_inventory *inv,
                                         const tt_piece *found, tt_norm_evidence *ev,
                                         tt_error *err);
/* Sets norm_offset and mtp_norm_offset. */
TT_MUST_CHECK tt_status tt_norms_decide(const tt_norm_evidence *ev, const char *file,
                                        const tt_repack_events *events, tt_arch *arch,
                                        tt_error *err);

/* Compares type, shape and bytes of two tensors. */
TT_MUST_CHECK tt_status tt_tensors_equal(const tt_safetensors *st, const tt_st_tensor *a,
                                         const tt_st_tensor *b, bool *equal, tt_error *err);

#endif
