/* install_manifest.h: manifest.json as a checked record.
 *
 * Owns:      every rule of docs/format-gturbo.md section 4 that needs no other file.
 * Not here:  the real files (install.c), the binary index (install_index.c), writing
 *            (install_writer.h).
 * Laws:      (1) every key is checked and unknown keys are refused;  (2) every listed file has one
 *            owner and every owned file is listed;  (3) strings are borrowed from the tree.
 * Threads:   read-only after parse.
 */
#ifndef TT_FORMAT_INSTALL_MANIFEST_H
#define TT_FORMAT_INSTALL_MANIFEST_H

#include "format/install.h"

typedef struct tt_manifest_weights {
    const char *file; /* NULL: section absent */
    uint64_t index_bytes;
    const char *index_sha256;
} tt_manifest_weights;

typedef struct tt_manifest {
    json_t *tree;
    const char *model_id;
    tt_arch arch;
    tt_install_file *files; /* sorted by rel; mtime_ns is 0 until the disk was asked */
    size_t n_files;
    tt_manifest_weights weights, mtp;
    tt_expert_layout experts, mtp_experts; /* n_experts 0: none */
    tt_ngram_layout ngrams;                /* rows 0: none */
} tt_manifest;

/* Parses and checks; `file` is for errors. The fuzz target of manifests. */
TT_MUST_CHECK tt_status tt_manifest_parse(const char *text, size_t len, const char *file,
                                          tt_manifest *out, tt_error *err);
void tt_manifest_free(tt_manifest *m);

const tt_install_file *tt_manifest_find(const tt_manifest *m, const char *rel); /* or NULL */

/* The entries under "quantization" are exactly the affine tensors of the indexes (mtp may be NULL).
 */
TT_MUST_CHECK tt_status tt_manifest_check_quantization(const tt_manifest *m,
                                                       const tt_index *weights, const tt_index *mtp,
                                                       const char *file, tt_error *err);

/* Refuses keys of `obj` that are not in the NULL-terminated list. `where` names the object. */
TT_MUST_CHECK tt_status tt_manifest_keys(const json_t *obj, const char *const *known,
                                         const char *where, const char *file, tt_error *err);

#endif
