/* synth.h: models of random weights in the geometry of published ones, made for measuring.
 *
 * Owns:      the presets, the list of tensors, the values: random codes, clustered embeddings,
 *            routers that follow a chain of bench/locality.h, rows of an n-gram table.
 * Not here:  directories and files (synth_out.h); what is measured on them.
 * Laws:      (1) every value follows from the preset, the options and the seed, whatever the
 *            threads;  (2) with forced ids from the chain the live model routes with the chain's
 *            locality: embeddings are a cluster's direction and the token's own, all layers
 *            together add little to them, and router rows see the cluster as the chance of each
 *            expert and the token as noise;  (3) values are made in rows, on demand: memory does
 *            not grow with the model;  (4) the parameters of the chain stand in the manifest's
 *            source, so that it can be made again.
 * Threads:   a synth_model is read-only after open.
 */
#ifndef TT_BENCH_SYNTH_H
#define TT_BENCH_SYNTH_H

#include "bench/locality.h"
#include "format/install.h"

#define SYNTH_SOURCE "TinyTitanBench synth" /* source.repository of the manifest */

typedef struct synth_options {
    const char *preset, *output;
    const char *tokenizer; /* a checkpoint whose tokenizer the model gets; NULL: none */
    uint32_t bits;         /* 4, 8: of linears and experts */
    uint32_t table_bits;   /* 4, 8, 16: of embeddings and head */
    uint32_t layers;       /* 0: all */
    uint32_t
        ngram_base; /* rows of the n-gram table's heads are primes from here on; 0: published */
    float locality;
    uint64_t seed;
    bool overwrite, quiet;
    uint32_t threads;
} synth_options;

typedef enum synth_kind {
    SYNTH_RANDOM, /* zero mean, deviation a */
    SYNTH_EVEN,   /* evenly between a and b */
    SYNTH_EMBED,
    SYNTH_ROUTER,
    SYNTH_INTEGERS, /* of the n-gram hash, by name */
    SYNTH_TABLE     /* bf16 of either sign, from 0.5 to 2 */
} synth_kind;

typedef struct synth_tensor {
    char name[128]; /* canonical */
    synth_kind kind;
    tt_dtype dtype;
    uint64_t rows, cols; /* cols 0: a vector of `rows` */
    float a, b;
    uint32_t layer; /* ROUTER */
    uint64_t seed;
} synth_tensor;

typedef struct synth_model {
    synth_options o;
    char model_id[TT_MAX_MODEL_ID + 1];
    char parameters[512]; /* the chain, as the manifest's source has it */
    tt_arch arch;
    bench_locality *chain; /* NULL for dense models */
    bench_locality_options lo;
    float *clusters; /* [clusters][H] directions, orthogonal, squares of each in sum H */
    float *pull;     /* [L][clusters][E] the router's logit of an expert, before the token's part */
    synth_tensor *tensors; /* resident ones, sorted by name */
    size_t n_tensors;
    tt_expert_layout experts; /* n_experts 0: none */
    tt_ngram_layout ngrams;   /* rows 0: none */
    synth_tensor table;
    uint32_t ngram_base;
    float gate_spread, down_spread; /* deviations of experts' weights */
} synth_model;

extern const char *const synth_presets[]; /* NULL at the end */

/* TT_ERR_UNSUPPORTED for a preset whose family this version does not run. */
TT_MUST_CHECK tt_status synth_open(const synth_options *o, synth_model *out, tt_error *err);
void synth_close(synth_model *m);

/* Values of rows [row0, row0 + n) as `dtype` stores them: words, in panels of their own, or values
 * to `words`; scales and biases, where the type has them, come from synth_scales. */
void synth_rows(const synth_model *m, const synth_tensor *t, tt_dtype dtype, uint64_t row0,
                uint64_t n, void *words);
void synth_scales(const synth_model *m, const synth_tensor *t, uint64_t row0, uint64_t n,
                  uint16_t *scales, uint16_t *biases);
/* Matrix `mat` (0 gate, 1 up, 2 down) of an expert as a tensor for the functions above. */
void synth_expert(const synth_model *m, uint32_t layer, uint32_t expert, unsigned mat,
                  synth_tensor *out);
/* The chain's options as words "name=value". */
void synth_parameters(const bench_locality_options *o, char *out, size_t size);
/* The chain of an install that was made here, as its manifest says. TT_ERR_INVALID for others. */
TT_MUST_CHECK tt_status synth_chain_of(const tt_install *in, bench_locality **out, uint64_t *seed,
                                       tt_error *err);

/* Writes everything to o->output; `stop` is polled. */
TT_MUST_CHECK tt_status synth_write_install(synth_model *m, const volatile int *stop,
                                            uint64_t *bytes, tt_error *err);
TT_MUST_CHECK tt_status synth_write_checkpoint(synth_model *m, const volatile int *stop,
                                               uint64_t *bytes, tt_error *err);

#endif
