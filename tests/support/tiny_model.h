/* tiny_model.h: installs of any architecture with seeded random weights, written without a
 * checkpoint.
 *
 * Owns:      the random architectures, the random weights, the files of such an install.
 * Not here:  converting checkpoints (vectors.h), what is proved with them.
 * Laws:      (1) the same options give the same bytes on every machine;  (2) what is written passes
 *            every check of format/install.h, and carries a receipt, unless `alter` breaks it;
 *            (3) every failure stops the test.
 * Threads:   one.
 */
#ifndef TT_TESTS_TINY_MODEL_H
#define TT_TESTS_TINY_MODEL_H

#include "format/install.h"
#include "session/session.h"

typedef struct tiny_options {
    tt_arch arch;
    uint64_t seed;
    tt_dtype
        mat; /* of matrices whose width 64 divides; others, and those of experts, are BF16 then */
    bool mixed;  /* instead: the type of every tensor is drawn */
    bool coarse; /* experts are cheap patterns, for those that are many and large */
    /* Changes the index of model_weights.bin before it is laid out; there is room for one more
     * entry. Names must stay alive. */
    void (*alter)(tt_index *ix, void *ctx);
    void *ctx;
} tiny_options;

/* An architecture drawn from a seed: dense or mixture of experts, any order of layer kinds (among
 * them all of one kind), tied or not, sizes that nothing divides. */
tt_arch tiny_arch(uint64_t seed);
/* The same of qwen4_exp. Odd seeds have an index budget that 256 tokens do not reach. */
tt_arch tiny_arch_streams(uint64_t seed);
/* A small one to change by hand: hidden 64, vocabulary 96, context 1024, layers of the kinds in
 * `kinds` ("lf"), experts 0 for dense. Everything can be quantized, heads are 64 wide. With "S" in
 * front it is qwen4_exp: 2 streams, an index budget of 32 tokens, n-grams in the first layer. */
tt_arch tiny_arch_plain(const char *kinds, uint32_t experts, uint32_t top_k);

/* Writes the install into the new directory `dir`. */
void tiny_install(const tiny_options *o, const char *dir);
/* The same in a directory of its own below the temporary directory; removed by tiny_remove. */
const char *tiny_install_new(const tiny_options *o);
void tiny_remove(void);

/* An open with options that must work. Level NULL is the best. */
tt_model *tiny_open(const char *install, const tt_model_options *o);

#endif
