/* export.h: an install written back as a checkpoint, as MLX has them.
 *
 * Owns:      names and shapes of that checkpoint, its shards and its index, the `quantization` of
 *            its config.
 * Not here:  reading installs (format/install.h), writing one shard (format/safetensors.h).
 * Laws:      (1) words, scales and biases are copied: converting the checkpoint again gives the
 *            same payload;  (2) the directory appears when it is complete.
 * Threads:   one at a time.
 */
#ifndef TT_REPACK_EXPORT_H
#define TT_REPACK_EXPORT_H

#include "repack/tensor_plan.h"

typedef struct tt_export_report {
    char path[TT_MAX_PATH];
    uint32_t shards;
    uint64_t tensors, bytes; /* of data */
} tt_export_report;

/* `output` must not exist. */
TT_MUST_CHECK tt_status tt_export_run(const char *install, const char *output,
                                      const tt_repack_events *ev, tt_export_report *report,
                                      tt_error *err);

#endif
