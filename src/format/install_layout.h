/* install_layout.h: the canonical layouts of an install: where tensors, experts and files stand.
 *
 * Owns:      the arithmetic of docs/format-gturbo.md sections 4.3, 4.4, 5 and 7, for reader and
 *            writer alike; the rules for relative paths; the names of files.
 * Not here:  bytes (install_index.c, install_writer.c), policy of widths (repack/policy.h).
 * Laws:      (1) a layout follows from names, types and shapes alone;  (2) every product and sum is
 *            checked for overflow and against limits.h.
 * Threads:   pure functions.
 */
#ifndef TT_FORMAT_INSTALL_LAYOUT_H
#define TT_FORMAT_INSTALL_LAYOUT_H

#include "base/buf.h"
#include "format/install.h"

#define TT_INDEX_HEADER_BYTES 128u
#define TT_INDEX_ENTRY_BYTES  128u
#define TT_CRC_HEADER_BYTES   64u

/* Sizes of the three parts of a tensor. False when rank, shape or dtype is not allowed by section 5
 * or a size overflows. */
bool tt_tensor_sizes(tt_dtype dtype, uint32_t rank, const uint64_t *shape, uint64_t *bytes,
                     uint64_t *scales_bytes, uint64_t *biases_bytes);

/* True when the name may stand in an index. */
bool tt_tensor_name_valid(const char *name, size_t len);

/* Fills sizes and offsets of all entries, index_bytes and file_bytes from names, types and shapes.
 * The entries must be sorted. `file` is for errors. */
TT_MUST_CHECK tt_status tt_index_layout(tt_index *ix, const char *file, tt_error *err);

/* The n-gram table of an architecture, with values of a type. */
void tt_ngram_layout_init(tt_ngram_layout *out, const tt_arch *a, tt_dtype dtype);

/* Computes an expert table from types and dimensions. */
TT_MUST_CHECK tt_status tt_expert_layout_init(tt_expert_layout *out, uint32_t n_experts,
                                              uint32_t hidden, uint32_t intermediate, tt_dtype gate,
                                              tt_dtype up, tt_dtype down, const char *file,
                                              tt_error *err);

/* Relative path of an expert file, "packed_experts/layer_03.bin". */
void tt_expert_file_name(char out[64], uint32_t layer, bool mtp);
/* The checksum table's size and its first 64 bytes. */
uint64_t tt_crc_table_bytes(uint32_t n_experts, uint32_t n_layers, uint32_t n_mtp_layers);

void tt_crc_header(char out[TT_CRC_HEADER_BYTES], uint32_t n_experts, uint32_t n_layers,
                   uint32_t n_mtp_layers);

/* True for a path that may stand in a manifest's `files`. */
bool tt_install_rel_valid(const char *rel);
bool tt_model_id_valid(const char *id);

/* Appends a path as a POSIX shell reads it: bare when it is harmless, quoted otherwise. */
void tt_shell_quote(tt_buf *out, const char *path);

#endif
