/* metrics.h: what the server counts, and the text that Prometheus reads.
 *
 * Owns:      counters, histograms, names: the table of section 9 of docs/http.md.
 * Not here:  the log.
 * Laws:      labels are our own words: paths of the table, codes, numbers, ids of models.
 * Threads:   the event loop's.
 */
#ifndef TT_SERVER_METRICS_H
#define TT_SERVER_METRICS_H

#include "server/model_set.h"

#define TT_METRIC_STATUSES 24u
#define TT_METRIC_PATHS    32u
#define TT_METRIC_CODES    64u
#define TT_METRIC_BUCKETS  8u

typedef struct tt_histogram {
    const double *bounds; /* TT_METRIC_BUCKETS - 1 of them */
    uint64_t counts[TT_METRIC_BUCKETS], n;
    double sum, most;
} tt_histogram;

typedef struct tt_metrics {
    uint64_t requests[TT_METRIC_PATHS][TT_METRIC_STATUSES];
    struct {
        const char *code; /* static */
        uint64_t n;
    } refusals[TT_METRIC_CODES];
    struct {
        uint64_t requests, prompt_tokens, generated_tokens;
    } models[TT_MODELS];
    uint64_t cancelled, prompt_tokens, cached_tokens, generated_tokens;
    double prefill_rate, decode_rate; /* of the last request */
    tt_histogram queue, loop;
} tt_metrics;

/* What others know, at this moment. */
typedef struct tt_metrics_now {
    const char *const *paths; /* names for requests[], NULL at the end */
    uint64_t connections, running, waiting, request_memory;
    uint64_t stored_responses, stored_bytes;
    uint64_t prefill_done, prefill_total;
    tt_engine_stats stats;
    tt_model_set *models;
} tt_metrics_now;

void tt_metrics_init(tt_metrics *m);
void tt_metrics_answer(tt_metrics *m, uint32_t path, int status, const char *code);
void tt_histogram_add(tt_histogram *h, double seconds);
void tt_metrics_write(const tt_metrics *m, const tt_metrics_now *now, tt_buf *out);

#endif
