/* checkpoint.h: a checkpoint directory: config, tensors, tokenizer files, and where it came from.
 *
 * Owns:      opening it; the `source` object of a manifest; the list of tokenizer files.
 * Not here:  what the tensors mean (tensor_plan.h).
 * Laws:      (1) sources are only read;  (2) links are followed, since download caches are made of
 *            them.
 * Threads:   read-only after open.
 */
#ifndef TT_REPACK_CHECKPOINT_H
#define TT_REPACK_CHECKPOINT_H

#include "base/json.h"
#include "format/safetensors.h"

#define TT_SNAPSHOT_TOKENIZER_FILES 10u

/* Files of a checkpoint that an install has in tokenizer/. */
extern const char *const tt_snapshot_tokenizer_names[TT_SNAPSHOT_TOKENIZER_FILES];

typedef struct tt_snapshot {
    char dir[TT_MAX_PATH]; /* absolute, links resolved */
    char config_path[TT_MAX_PATH];
    json_t *config;
    tt_safetensors *st;
    json_t *source; /* as docs/format-gturbo.md section 4.1 has it */
    /* Files for tokenizer/ that are there, by name. */
    const char *tokenizer[TT_SNAPSHOT_TOKENIZER_FILES];
    uint64_t tokenizer_bytes[TT_SNAPSHOT_TOKENIZER_FILES];
    size_t n_tokenizer;
    bool has_tokenizer, has_template;
} tt_snapshot;

/* `remote` NULL: the data stands in the directory. */
TT_MUST_CHECK tt_status tt_snapshot_open(const char *dir, const tt_st_remote *remote,
                                         tt_snapshot *out, tt_error *err);
void tt_snapshot_close(tt_snapshot *s);

#endif
