/* segments.h: every byte of an install's payload and the bytes of a checkpoint that it is made of.
 *
 * Owns:      the cut of a plan into runs of values, their order in the checkpoint, the ranges in
 *            which they are read, what one run becomes and where that stands.
 * Not here:  reading a checkpoint (format/safetensors.h, hub_fetch.h), the conversion (convert.h).
 * Laws:      (1) the segments of a plan write every byte of the payload once, but for index
 *            regions and padding;  (2) a segment lies in one range;  (3) the same plan is cut in
 *            the same way, which its fingerprint tells.
 * Threads:   read-only after creation.
 */
#ifndef TT_REPACK_SEGMENTS_H
#define TT_REPACK_SEGMENTS_H

#include "base/hash.h"
#include "repack/convert.h"
#include "repack/emit.h"
#include "repack/tensor_plan.h"

/* Values [first, first + count) of one tensor. */
typedef struct tt_segment {
    const tt_st_tensor *src;
    const tt_piece
        *piece;   /* encoded: rows of it; NULL: the values are copied, or turned into panels */
    uint64_t row; /* encoded: first row, within the piece */
    uint64_t first, count;
    uint32_t cols;    /* encoded */
    uint32_t per_row; /* quantized input: units of a row of `src`; else 0 */
    tt_dtype dtype;
    uint32_t file;                        /* which file it goes to */
    uint64_t at, bytes;                   /* words or values */
    uint64_t scales_at, biases_at, sides; /* encoded: bytes of scales, and of biases */
} tt_segment;

/* Neighbouring segments, read at once. */
typedef struct tt_source_range {
    uint32_t shard;
    uint64_t begin, end; /* bytes of the shard */
    size_t first, count; /* segments */
} tt_source_range;

typedef struct tt_payload_file {
    char rel[64];
    uint64_t size;
    const tt_index *index; /* of a weights file: its region stands in front */
} tt_payload_file;

typedef struct tt_segments {
    tt_payload_file *files;
    uint32_t n_files;
    tt_segment *items; /* by place in the checkpoint */
    size_t count, cap;
    tt_source_range *ranges;
    size_t n_ranges;
    uint64_t source_bytes; /* of all ranges */
    uint64_t max_bytes; /* of what a segment is read from, and at most 8 times of what it becomes */
    char fingerprint[TT_SHA256_HEX];
} tt_segments;

/* `range_bytes`: how much is read at once, 0 for the default; `chunk_values`: what the converter
 * takes at a time, 0 for its default. */
TT_MUST_CHECK tt_status tt_segments_create(const tt_safetensors *st, const tt_repack_plan *plan,
                                           uint64_t range_bytes, uint64_t chunk_values,
                                           tt_segments *out, tt_error *err);
void tt_segments_free(tt_segments *s);

/* Writes zeros to everything that no segment and no index region writes; `files` in order. */
TT_MUST_CHECK tt_status tt_segments_clear_gaps(const tt_segments *s, tt_emit *files, tt_error *err);

/* What one segment becomes. Room for the largest segment. */
typedef struct tt_segment_bytes {
    unsigned char *words;
    uint16_t *scales, *biases;
} tt_segment_bytes;
TT_MUST_CHECK tt_status tt_segment_bytes_init(const tt_segments *s, tt_segment_bytes *b,
                                              tt_error *err);
void tt_segment_bytes_free(tt_segment_bytes *b);
/* Reads a segment through the converter's checkpoint and converts it. */
TT_MUST_CHECK tt_status tt_segment_convert(tt_converter *c, const tt_segment *s,
                                           tt_segment_bytes *out, tt_error *err);
/* The same bytes as they stand in an install: `files` has its files in order. */
TT_MUST_CHECK tt_status tt_segment_read_back(const tt_segment *s, const tt_emit *files,
                                             tt_segment_bytes *out, tt_error *err);
TT_MUST_CHECK tt_status tt_segment_write(const tt_segment *s, tt_emit *files,
                                         const tt_segment_bytes *bytes, tt_error *err);
TT_MUST_CHECK tt_status tt_segment_hash(const tt_segment *s, const tt_segment_bytes *bytes,
                                        tt_sha256 *sha, tt_error *err);

#endif
