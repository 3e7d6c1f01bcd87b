/* install_writer.h: the bytes of an install's own files: index regions, checksum table, manifest,
 * receipt.
 *
 * Owns:      their encoding, as docs/format-gturbo.md has it.
 * Not here:  payload and the order in which files are published (repack/), layouts
 *            (install_layout.h).
 * Laws:      the same content gives the same bytes.
 * Threads:   pure functions.
 */
#ifndef TT_FORMAT_INSTALL_WRITER_H
#define TT_FORMAT_INSTALL_WRITER_H

#include "format/install.h"

/* Bytes of the index region of a laid-out index (tt_index_layout), ix->index_bytes of them,
 * allocated. */
TT_MUST_CHECK tt_status tt_index_encode(const tt_index *ix, void **bytes, tt_error *err);

/* The whole checksum table: crc has n_experts values for each layer, then for each draft layer. */
TT_MUST_CHECK tt_status tt_crc_table_encode(const uint32_t *crc, uint32_t n_experts,
                                            uint32_t n_layers, uint32_t n_mtp_layers, void **bytes,
                                            size_t *len, tt_error *err);

/* What goes into a manifest. */
typedef struct tt_manifest_content {
    const char *writer, *model_id;
    const tt_arch *arch;
    const json_t *source;          /* borrowed, as section 4.1 has it */
    const tt_index *weights, *mtp; /* laid out; mtp NULL without draft */
    char weights_index_sha256[65], mtp_index_sha256[65];
    const tt_expert_layout *experts, *mtp_experts; /* NULL when there are none */
    const tt_ngram_layout *ngrams;                 /* NULL when there are none */
    bool tokenizer;                                /* tokenizer/ has files */
    const tt_install_file *files;
    size_t n_files;
} tt_manifest_content;

/* Encodes, and reads the result back through the reader's own checks. */
TT_MUST_CHECK tt_status tt_manifest_encode(const tt_manifest_content *c, char **text, size_t *len,
                                           tt_error *err);

/* `time` is "YYYY-MM-DDThh:mm:ssZ". */
TT_MUST_CHECK tt_status tt_receipt_encode(const char *manifest_sha256, const char *path,
                                          const tt_install_file *files, size_t n_files,
                                          const char *tool, const char *time, char **text,
                                          size_t *len, tt_error *err);

/* JSON text as every file of an install has it: sorted keys, indent 1, a newline at the end. */
TT_MUST_CHECK tt_status tt_install_json(const json_t *tree, char **text, size_t *len,
                                        tt_error *err);

#endif
