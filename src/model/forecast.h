/* forecast.h: what decoding will be like, told before anything is loaded.
 *
 * Owns:      the bytes that a token touches, the expected share of experts found in memory, the
 *            formula of docs/bench.md for tokens a second, and the sentence that says what they
 *            rest on.
 * Not here:  measuring (base/memory_rate.h, io/reader_probe.h), the budget (plan.h).
 * Laws:      (1) an estimate says that it is one, and from what;  (2) what is not known is 0, never
 *            invented;  (3) more slots never mean a lower share.
 * Threads:   any.
 */
#ifndef TT_MODEL_FORECAST_H
#define TT_MODEL_FORECAST_H

#include "base/memory_rate.h"
#include "io/reader_probe.h"
#include "model/heat.h"

/* Share of a token's experts that `slots` a layer hold, as published for top-k routing of models of
 * this kind, once the cache is warm. docs/bench.md has the figures. */
double tt_forecast_locality(double slots, uint32_t n_experts, uint32_t top_k);

/* Share of late uses that fell on the experts which are hottest now, as many as there are slots. A
 * use does not count as its own forecast, so that short memories do not boast. `tokens` (may be
 * NULL) receives about how many tokens the profile remembers. */
double tt_forecast_share(const float *heat, uint32_t n_layers, uint32_t n_experts, uint32_t top_k,
                         uint32_t slots_total, double *tokens);

/* A profile of fewer is not believed. */
#define TT_FORECAST_LEAST_TOKENS 64.0

/* What a token costs, in seconds. */
typedef struct tt_token_times {
    double outside;    /* A: all but the expert stage */
    double moe;        /* E: a layer's expert stage with every expert in memory */
    double read;       /* R: what a layer reads from the disk */
    double miss;       /* share of experts that are not in memory */
    uint32_t n_layers; /* with experts */
} tt_token_times;

/* 1 / (A + layers * (max(E * hits, R) + E * misses)) */
double tt_forecast_tokens(const tt_token_times *t);

/* Bytes that a token touches in a short context: resident weights outside and inside the expert
 * stage (of all layers), recurrent state written back counted once more, and routed experts. */
typedef struct tt_token_bytes {
    uint64_t outside, shared, experts;
} tt_token_bytes;

tt_token_bytes tt_forecast_bytes(const tt_install *in);

/* Opens reader (NULL for dense models) and heat profile as the options ask, and fills what a plan
 * says of them and all of the below. `measure`: memory too, when nothing is known of it. */
TT_MUST_CHECK tt_status tt_forecast_open(const tt_install *in, const tt_model_options *o,
                                         bool measure, tt_plan *plan, tt_reader **reader,
                                         tt_heat *heat, tt_error *err);
/* Fills hit_rate, tokens_per_second, memory_rate, disk_rate, token_bytes and forecast of a plan
 * that is otherwise complete. `probe` and `heat` may be NULL. */
void tt_forecast_make(tt_plan *plan, const tt_install *in, const tt_memory_rate *memory,
                      const tt_probe *probe, const tt_heat *heat);

#endif
