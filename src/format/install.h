/* install.h: the .gturbo install as its readers see it. docs/format-gturbo.md is normative; names
 * are the same.
 *
 * Owns:      the checked manifest, the parsed binary indexes, the receipt check.
 * Not here:  writing (install_writer.h), reading payload into memory (model/, io/).
 * Laws:      (1) nothing is believed before it is checked against limits.h, the manifest and the
 *            real file size;  (2) with a receipt payload files compare path, size and modification
 *            time, without one they are hashed;  (3) an install with a bad receipt is refused,
 *            with the exact command that re-issues it.
 * Threads:   read-only after open.
 */
#ifndef TT_FORMAT_INSTALL_H
#define TT_FORMAT_INSTALL_H

#include "format/arch.h"
#include "format/dtype.h"

#define TT_INSTALL_MAGIC   "GTURBO"
#define TT_RECEIPT_MAGIC   "GTURBO-RECEIPT"
#define TT_RECEIPT_VERSION 1u
#define TT_INSTALL_VERSION 2u /* written, and the only one that is read */

#define TT_MANIFEST_NAME    "manifest.json"
#define TT_RECEIPT_NAME     "verified-install.json"
#define TT_WEIGHTS_NAME     "model_weights.bin"
#define TT_MTP_WEIGHTS_NAME "mtp_weights.bin"
#define TT_NGRAM_NAME       "ngram_table.bin"
#define TT_EXPERTS_DIR      "packed_experts"
#define TT_TOKENIZER_DIR    "tokenizer"
#define TT_CRC_NAME         TT_EXPERTS_DIR "/crc32c.bin"

/* A payload file as the manifest lists it; strings are owned by the tree that it was read from. */
typedef struct tt_install_file {
    const char *rel; /* relative to the install */
    uint64_t size;
    const char *sha256;
    int64_t mtime_ns; /* as the disk has it, nanoseconds since 1970 */
} tt_install_file;

/* One tensor of a weights file. Affine tensors carry scales and biases; for others those sizes are
 * 0. */
typedef struct tt_index_entry {
    const char
        *name; /* canonical: the published name without its prefix, "layers.0.mlp.gate.weight" */
    tt_dtype dtype;
    uint32_t rank;
    uint64_t
        shape[TT_MAX_TENSOR_RANK]; /* logical: cols of an affine tensor counts values, not words */
    uint64_t offset, bytes;        /* absolute in the file, multiples of TT_TENSOR_ALIGN (offset) */
    uint64_t scales_offset, scales_bytes;
    uint64_t biases_offset, biases_bytes;
} tt_index_entry;

typedef struct tt_index {
    tt_index_entry *entries; /* sorted by name */
    size_t count;
    uint64_t index_bytes; /* size of the index region, a multiple of TT_PAGE_ALIGN */
    uint64_t file_bytes;
    char *names; /* storage of the names */
} tt_index;

/* One of gate, up, down inside an expert: words, then scales, then biases; for bf16 experts words
 * are the values. */
typedef struct tt_expert_mat {
    tt_dtype dtype;      /* Q4, Q8, BF16 (F16 and F32 when the source was) */
    uint32_t rows, cols; /* gate, up: F x H; down: H x F */
    uint64_t words_offset, words_bytes, scales_offset, scales_bytes, biases_offset,
        biases_bytes; /* from the expert */
} tt_expert_mat;

/* The one table of sub-tensor offsets of an install's experts. Expert e of a layer stands at e *
 * stride. */
typedef struct tt_expert_layout {
    uint32_t n_experts;
    uint64_t stride;        /* multiple of TT_PAGE_ALIGN */
    uint64_t payload_bytes; /* <= stride; CRC-32C covers the payload */
    tt_expert_mat gate, up, down;
} tt_expert_layout;

/* The n-gram table: rows of `cols` values, one behind the other, and zeros up to the page. */
typedef struct tt_ngram_layout {
    tt_dtype dtype; /* BF16 or F16 */
    uint64_t rows;  /* 0: the model has no table */
    uint32_t cols;
    uint64_t row_bytes, file_bytes;
} tt_ngram_layout;

typedef struct tt_install tt_install;

enum {
    TT_INSTALL_NO_RECEIPT = 1, /* ignore the receipt (verify); still checks structure and sizes */
    TT_INSTALL_NO_HASH =
        2, /* without a receipt: do not hash payload files (inspect, tokenizer only) */
    TT_INSTALL_MANIFEST = 4 /* the manifest alone: no other file is looked at, there is no index */
};

/* Opens and checks an install directory. `progress` counts bytes hashed, when hashing is needed. */
TT_MUST_CHECK tt_status tt_install_open(const char *dir, unsigned flags, tt_progress_fn progress,
                                        void *progress_ctx, tt_install **out, tt_error *err);
/* Puts the install's directory in front of the name of one of its files in an error. */
void tt_install_locate(const char *dir, tt_error *err);
void tt_install_close(tt_install **in);

const char *tt_install_dir(const tt_install *in); /* absolute, symbolic links resolved */
const char *tt_install_model_id(const tt_install *in);
const char *tt_install_manifest_sha256(const tt_install *in);
const tt_arch *tt_install_arch(const tt_install *in);
const json_t *tt_install_manifest(const tt_install *in); /* the whole tree, for inspect */
bool tt_install_has_receipt(const tt_install *in);

/* Index of model_weights.bin, or of mtp_weights.bin (NULL when the install has no draft). */
const tt_index *tt_install_index(const tt_install *in);
const tt_index *tt_install_mtp_index(const tt_install *in);
const tt_index_entry *tt_index_find(const tt_index *ix, const char *name); /* NULL when absent */

/* NULL for dense models. The MTP layer's experts have a layout of their own (NULL without). */
const tt_expert_layout *tt_install_expert_layout(const tt_install *in);
const tt_expert_layout *tt_install_mtp_expert_layout(const tt_install *in);
/* NULL for models without an n-gram table. */
const tt_ngram_layout *tt_install_ngram_layout(const tt_install *in);
/* Path of the expert file of a layer, "…/packed_experts/layer_03.bin"; `mtp` selects mtp_NN.bin.
 * Owned. */
const char *tt_install_expert_path(const tt_install *in, uint32_t layer, bool mtp);
/* CRC-32C of an expert's payload, as packed_experts/crc32c.bin has it. */
uint32_t tt_install_expert_crc(const tt_install *in, uint32_t layer, uint32_t expert, bool mtp);
/* Path of a file of the install by its relative name, into `out` of TT_MAX_PATH bytes. */
TT_MUST_CHECK tt_status tt_install_path(const tt_install *in, const char *rel, char *out,
                                        tt_error *err);
/* The listed files, sorted by name. */
size_t tt_install_file_count(const tt_install *in);
const tt_install_file *tt_install_file_at(const tt_install *in, size_t i);

/* Parses the binary index region of a weights file (also the fuzz target). `bytes` holds the whole
 * region. */
TT_MUST_CHECK tt_status tt_index_parse(const void *bytes, size_t n, uint64_t file_bytes,
                                       const char *file, tt_index *out, tt_error *err);
void tt_index_free(tt_index *ix);

#endif
