/* locality.h: token ids and expert picks with the locality that was published for the 35B.
 *
 * Owns:      the chain of clusters that token ids follow, the pool of experts that a cluster uses
 *            in a layer, the picks of one token.
 * Not here:  weights that route like this (synth), policies (io/cache_policy.h).
 * Laws:      (1) everything follows from the options, seed included, on every machine;  (2) a
 *            token's picks depend on the layer and the token alone, so that weights can have
 *            them;  (3) with the default options and 256 experts of which 8 are picked: overlap
 *            with the token before 3.0 of 8, 131 distinct experts a layer in 128 tokens, least
 *            recently used at 128 slots hits 0.897 and the best that can be 0.936 over 383 tokens
 *            from a cold start, all within 3 points (tests/bench/locality_test.c);  (4) what is
 *            used most and what was used last are worth about the same, as replays of real runs
 *            have it: there a rule by count alone is one to three points above the least recently
 *            used.
 * Threads:   one a chain; picks only read.
 */
#ifndef TT_BENCH_LOCALITY_H
#define TT_BENCH_LOCALITY_H

#include "base/limits.h"
#include "base/status.h"

typedef struct bench_locality_options {
    uint32_t n_layers, n_experts, top_k;
    uint32_t n_tokens; /* vocabulary; token t belongs to cluster t % clusters */
    uint32_t clusters; /* kinds of token */
    uint32_t pool;     /* experts a cluster uses in a layer, top_k..n_experts */
    uint32_t topic;    /* clusters that the present passage moves among */
    float stay;        /* chance that the next token is of the same cluster */
    float drift;       /* chance, when it is not, that a cluster of the topic is exchanged */
    float stray;       /* chance that a pick is from outside the pool */
    float skew;        /* chance that a draw of an expert prefers the popular ones of its layer */
    float peak;        /* chance that a pick prefers the first experts of the pool */
    float locality;    /* 1: as above; 0: every token's cluster is drawn from all of them */
    uint64_t seed;
} bench_locality_options;

typedef struct bench_locality bench_locality;

/* The published locality; pool and clusters scale with the experts. */
void bench_locality_default(bench_locality_options *o, uint32_t n_layers, uint32_t n_experts,
                            uint32_t top_k);
TT_MUST_CHECK tt_status bench_locality_open(const bench_locality_options *o, bench_locality **out,
                                            tt_error *err);
void bench_locality_close(bench_locality **g);

/* The next token id of the chain. */
uint32_t bench_locality_next(bench_locality *g);
/* Starts the chain again, from `seed`. */
void bench_locality_restart(bench_locality *g, uint64_t seed);
uint32_t bench_locality_cluster(const bench_locality *g, uint32_t token);
/* The pool of a cluster in a layer: options' `pool` ids, distinct, the ones used most first. */
const uint32_t *bench_locality_pool(const bench_locality *g, uint32_t layer, uint32_t cluster);
/* The chance of every expert of a layer to be what one draw for a token of the cluster falls on;
 * [n_experts], in sum 1. A token's picks are top_k draws, repeated ones not counted. */
void bench_locality_chances(const bench_locality *g, uint32_t layer, uint32_t cluster,
                            float *chance);
/* The top_k distinct experts of a token in a layer, ascending. */
void bench_locality_picks(const bench_locality *g, uint32_t layer, uint32_t token, uint32_t *ids);

#endif
