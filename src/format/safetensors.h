/* safetensors.h: reads safetensors checkpoints, single file or sharded.
 *
 * Owns:      the parsed headers, one open descriptor a shard.
 * Not here:  what the tensors mean (repack/tensor_plan.h); conversion (repack/convert.h).
 * Laws:      (1) nothing in a header is believed before it is checked: length, JSON, dtype, shape
 *            product, byte range inside the file, size equal to shape x dtype, no two ranges
 *            overlapping, no name twice (across shards too), no bytes of the data section left
 *            uncovered;  (2) the index json and the shards must agree;  (3) memory grows with the
 *            headers, never with the data.
 * Threads:   read-only after open; tt_safetensors_read is thread-safe.
 */
#ifndef TT_FORMAT_SAFETENSORS_H
#define TT_FORMAT_SAFETENSORS_H

#include "base/limits.h"
#include "base/status.h"

typedef enum tt_st_dtype {
    TT_ST_F32,
    TT_ST_F16,
    TT_ST_BF16,
    TT_ST_U32,
    TT_ST_I32,
    TT_ST_I64,
    TT_ST_U8,
    TT_ST_I8,
    TT_ST_BOOL,
    TT_ST_F64,
    TT_ST_U16,
    TT_ST_I16,
    TT_ST_U64,
    TT_ST_F8_E4M3,
    TT_ST_F8_E5M2
} tt_st_dtype;

typedef struct tt_st_tensor {
    const char *name; /* owned by the checkpoint */
    tt_st_dtype dtype;
    uint32_t rank; /* 0..TT_MAX_SOURCE_RANK */
    uint64_t shape[TT_MAX_SOURCE_RANK];
    uint64_t offset; /* absolute byte offset in its shard */
    uint64_t bytes;
    uint32_t shard;
} tt_st_tensor;

typedef struct tt_safetensors tt_safetensors;

/* Opens DIR: model.safetensors.index.json with its shards, or else model.safetensors, and the files
 * of a draft beside them (tt_st_is_extra_shard). */
TT_MUST_CHECK tt_status tt_safetensors_open_dir(const char *dir, tt_safetensors **out,
                                                tt_error *err);
/* Opens one file. */
TT_MUST_CHECK tt_status tt_safetensors_open_file(const char *path, tt_safetensors **out,
                                                 tt_error *err);
/* A checkpoint whose data is elsewhere: the directory holds the index and of every shard the first
 * 8 + N bytes, its header. Reads of data go to `read`. */
typedef struct tt_st_remote {
    void *ctx;
    /* Size of the whole shard, by its file name. */
    tt_status (*size)(void *ctx, const char *shard, uint64_t *bytes, tt_error *err);
    /* n bytes at an offset of a shard. */
    tt_status (*read)(void *ctx, uint32_t shard, uint64_t offset, void *buf, size_t n,
                      tt_error *err);
} tt_st_remote;
/* As tt_safetensors_open_dir; `remote` is copied. */
TT_MUST_CHECK tt_status tt_safetensors_open_remote(const char *dir, const tt_st_remote *remote,
                                                   tt_safetensors **out, tt_error *err);
bool tt_safetensors_is_remote(const tt_safetensors *st);
/* Whether a file of this name beside the index is a part of the checkpoint that the index does not
 * name: the draft in a file of its own, "mtp.safetensors" and the like. */
bool tt_st_is_extra_shard(const char *name);
void tt_safetensors_close(tt_safetensors **st);

size_t tt_safetensors_count(const tt_safetensors *st);
const tt_st_tensor *tt_safetensors_at(const tt_safetensors *st,
                                      size_t i); /* in (shard, offset) order */
const tt_st_tensor *tt_safetensors_find(const tt_safetensors *st,
                                        const char *name); /* NULL when absent */
uint32_t tt_safetensors_shards(const tt_safetensors *st);
const char *tt_safetensors_shard_path(const tt_safetensors *st, uint32_t shard);
uint64_t tt_safetensors_shard_size(const tt_safetensors *st, uint32_t shard);
/* Path of the index json, or NULL for a single file. */
const char *tt_safetensors_index_path(const tt_safetensors *st);
/* Reads n bytes of a tensor from byte `begin` of its data. */
TT_MUST_CHECK tt_status tt_safetensors_read(const tt_safetensors *st, const tt_st_tensor *t,
                                            uint64_t begin, void *buf, size_t n, tt_error *err);
/* Says that these bytes will be read soon, so that the disk works meanwhile. A hint: what cannot be
 * followed is no error. */
void tt_safetensors_expect(const tt_safetensors *st, const tt_st_tensor *t, uint64_t begin,
                           uint64_t n);

const char *tt_st_dtype_name(tt_st_dtype t); /* as in the header, "BF16" */
uint32_t tt_st_dtype_bytes(tt_st_dtype t);

/* Writing, for benches and tests: tensors are declared first, then written in order. */
typedef struct tt_st_writer tt_st_writer;
TT_MUST_CHECK tt_status tt_st_writer_create(const char *path, tt_st_writer **out, tt_error *err);
TT_MUST_CHECK tt_status tt_st_writer_declare(tt_st_writer *w, const char *name, tt_st_dtype dtype,
                                             uint32_t rank, const uint64_t *shape, tt_error *err);
/* One pair of the header's __metadata__, in the order given; before the first append. */
TT_MUST_CHECK tt_status tt_st_writer_metadata(tt_st_writer *w, const char *key, const char *value,
                                              tt_error *err);
/* Appends bytes to the data section, in declaration order; the header is written at the first call.
 */
TT_MUST_CHECK tt_status tt_st_writer_append(tt_st_writer *w, const void *bytes, size_t n,
                                            tt_error *err);
/* Checks that all declared bytes came, syncs and renames into place. Closes on success and on
 * failure. */
TT_MUST_CHECK tt_status tt_st_writer_finish(tt_st_writer **w, tt_error *err);
void tt_st_writer_discard(tt_st_writer **w);

#endif
