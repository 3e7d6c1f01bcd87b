/* safetensors_parse.h: the two JSON documents of a checkpoint, read by events.
 *
 * Owns:      the grammar of a shard's header and of model.safetensors.index.json; name storage and
 *            the name table that both use.
 * Not here:  whether ranges, shards and index agree (safetensors.c).
 * Laws:      (1) memory grows with what was accepted, never with a number read from the file;  (2)
 *            every failure names the file and the byte where it was noticed.
 * Threads:   one at a time.
 */
#ifndef TT_FORMAT_SAFETENSORS_PARSE_H
#define TT_FORMAT_SAFETENSORS_PARSE_H

#include "format/safetensors.h"

/* Storage of names: blocks that never move, so that a name's address is good until the end. */
typedef struct tt_st_names {
    struct tt_st_block *blocks;
} tt_st_names;
/* A NUL-terminated copy; NULL when out of memory. */
const char *tt_st_names_add(tt_st_names *names, const char *text, size_t n);
void tt_st_names_free(tt_st_names *names);

/* Name -> number. Filled, then sorted by hash and name, then asked: hostile names cost n log n. */
typedef struct tt_st_slot {
    uint64_t hash;
    const char *name; /* borrowed */
    uint32_t value;
} tt_st_slot;
typedef struct tt_st_table {
    tt_st_slot *slots;
    size_t count, cap;
} tt_st_table;
bool tt_st_table_add(tt_st_table *t, const char *name, uint32_t value); /* false: out of memory */
/* Sorts, and returns the index of a slot whose name the slot before it has too, or 0. */
size_t tt_st_table_sort(tt_st_table *t);
const tt_st_slot *tt_st_table_find(const tt_st_table *t, const char *name);
void tt_st_table_free(tt_st_table *t);

/* Called for every tensor of a header; t->name stands in `names`, offset and bytes are inside the
 * file. */
typedef tt_status (*tt_st_tensor_fn)(void *ctx, const tt_st_tensor *t, tt_error *err);
/* Reads the header of a file of `size` bytes; *data is the offset of its data section. When `known`
 * is given, names that it has are taken from there instead of being stored again. */
TT_MUST_CHECK tt_status tt_st_parse_header(int fd, const char *path, uint64_t size,
                                           const tt_st_table *known, tt_st_names *names,
                                           tt_st_tensor_fn fn, void *ctx, uint64_t *data,
                                           tt_error *err);

/* Called for every pair of weight_map. */
typedef tt_status (*tt_st_pair_fn)(void *ctx, const char *name, const char *shard, tt_error *err);
TT_MUST_CHECK tt_status tt_st_parse_index(int fd, const char *path, uint64_t size,
                                          tt_st_names *names, tt_st_pair_fn fn, void *ctx,
                                          tt_error *err);

/* By the header's spelling; false when unknown. */
bool tt_st_dtype_parse(const char *text, size_t n, tt_st_dtype *out);

#endif
