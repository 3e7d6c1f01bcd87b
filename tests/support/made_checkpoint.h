/* made_checkpoint.h: checkpoints of qwen4_exp whose weights follow from names alone, so that the
 * reference vectors of tests/vectors/qwen4exp-made need no weights beside them.
 *
 * Owns:      the values: an 8-bit hash of canonical name and index, scaled to the tensor's kind,
 *            exact in bf16 and f16; the spellings of experts and of the n-gram table.
 * Not here:  what is expected of them.
 * Laws:      (1) the same options give the same bytes everywhere;  (2) every failure stops the
 *            test.
 * Threads:   one.
 */
#ifndef TT_TESTS_MADE_CHECKPOINT_H
#define TT_TESTS_MADE_CHECKPOINT_H

#include "format/arch.h"
#include "format/safetensors.h"

typedef struct made_options {
    const char *config; /* path of config.json */
    uint32_t shards;    /* of the n-gram table; 0: it is one tensor; each one has as many rows */
    tt_st_dtype table;  /* BF16, F16, or fp8 with one factor, 1/4 */
    bool single;        /* experts one by one, not fused */
    bool mtp;           /* with a draft */
    /* May change a tensor before it is declared, or leave it out by an empty name. */
    void (*edit)(void *ctx, char *name, tt_st_dtype *dtype, uint64_t *rows);
    void *ctx;
} made_options;

/* That of the vectors: bf16, 12 shards, fused experts. */
made_options made_default(void);
/* Writes config.json and model.safetensors into `dir`, which exists. */
void made_write(const char *dir, const made_options *o);
/* Value i of a tensor; `cols` of its rows, 0 for vectors. */
float made_value(const char *canonical, uint64_t cols, uint64_t i);
/* The table of made_write: value i, whatever its shards; fp8 widened. */
float made_table_value(const made_options *o, const tt_arch *arch, uint64_t i);

#endif
