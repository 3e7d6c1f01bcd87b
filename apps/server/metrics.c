#include "server/metrics.h"

#include <string.h>

static const int statuses[TT_METRIC_STATUSES] = {200, 204, 400, 401, 403, 404, 405, 408, 413, 414,
                                                 415, 417, 429, 431, 500, 501, 503, 505, 529};
static const double queue_bounds[] = {0.01, 0.1, 1, 5, 15, 60, 300};
static const double loop_bounds[] = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05};

void tt_metrics_init(tt_metrics *m)
{
    *m = (tt_metrics){.queue.bounds = queue_bounds, .loop.bounds = loop_bounds};
}

void tt_metrics_answer(tt_metrics *m, uint32_t path, int status, const char *code)
{
    for (size_t i = 0; i < TT_METRIC_STATUSES; i++)
        if (statuses[i] == status)
            m->requests[path][i]++;
    for (size_t i = 0; code != NULL && i < TT_METRIC_CODES; i++) {
        if (m->refusals[i].code == NULL)
            m->refusals[i].code = code;
        if (strcmp(m->refusals[i].code, code) == 0) {
            m->refusals[i].n++;
            return;
        }
    }
}

void tt_histogram_add(tt_histogram *h, double seconds)
{
    size_t i = 0;
    while (i + 1 < TT_METRIC_BUCKETS && seconds > h->bounds[i])
        i++;
    h->counts[i]++;
    h->n++;
    h->sum += seconds;
    if (seconds > h->most)
        h->most = seconds;
}

/* ---- text ---- */

static void head(tt_buf *b, const char *name, const char *type, const char *help)
{
    tt_buf_printf(b, "# HELP tinytitan_%s %s\n# TYPE tinytitan_%s %s\n", name, help, name, type);
}

static void one(tt_buf *b, const char *name, const char *type, const char *help, double v)
{
    head(b, name, type, help);
    tt_buf_printf(b, "tinytitan_%s %.17g\n", name, v);
}

static void histogram(tt_buf *b, const char *name, const char *help, const tt_histogram *h)
{
    uint64_t n = 0;
    head(b, name, "histogram", help);
    for (size_t i = 0; i < TT_METRIC_BUCKETS; i++) {
        n += h->counts[i];
        if (i + 1 < TT_METRIC_BUCKETS)
            tt_buf_printf(b, "tinytitan_%s_bucket{le=\"%g\"} %llu\n", name, h->bounds[i],
                          (unsigned long long)n);
        else
            tt_buf_printf(b, "tinytitan_%s_bucket{le=\"+Inf\"} %llu\n", name,
                          (unsigned long long)n);
    }
    tt_buf_printf(b, "tinytitan_%s_sum %.9g\ntinytitan_%s_count %llu\n", name, h->sum, name,
                  (unsigned long long)h->n);
}

static void write_requests(const tt_metrics *m, const tt_metrics_now *now, tt_buf *b)
{
    head(b, "requests_total", "counter", "Answers by path and status.");
    for (uint32_t p = 0; now->paths[p] != NULL; p++)
        for (size_t i = 0; i < TT_METRIC_STATUSES; i++)
            if (m->requests[p][i] > 0)
                tt_buf_printf(b, "tinytitan_requests_total{path=\"%s\",status=\"%d\"} %llu\n",
                              now->paths[p], statuses[i], (unsigned long long)m->requests[p][i]);
    head(b, "refusals_total", "counter", "Refusals by code.");
    for (size_t i = 0; i < TT_METRIC_CODES && m->refusals[i].code != NULL; i++)
        tt_buf_printf(b, "tinytitan_refusals_total{code=\"%s\"} %llu\n", m->refusals[i].code,
                      (unsigned long long)m->refusals[i].n);
    one(b, "cancelled_total", "counter", "Requests whose client left.", (double)m->cancelled);
}

static void write_tokens(const tt_metrics *m, const tt_metrics_now *now, tt_buf *b)
{
    one(b, "prompt_tokens_total", "counter", "Tokens of prompts.", (double)m->prompt_tokens);
    one(b, "cached_tokens_total", "counter", "Of those, not computed again.",
        (double)m->cached_tokens);
    one(b, "generated_tokens_total", "counter", "Tokens generated.", (double)m->generated_tokens);
    one(b, "prefill_tokens_done", "gauge", "Of the prompts of running requests, read.",
        (double)now->prefill_done);
    one(b, "prefill_tokens", "gauge", "Of the prompts of running requests, to read.",
        (double)now->prefill_total);
    one(b, "prefill_tokens_per_second", "gauge", "Of the request that ended last.",
        m->prefill_rate);
    one(b, "decode_tokens_per_second", "gauge", "Of the request that ended last.", m->decode_rate);
}

/* Zeros without a directory. */
static void write_disk(const tt_state_disk_stats *d, tt_buf *b)
{
    one(b, "prompt_cache_disk_bytes", "gauge", "Of the directory's files.", (double)d->bytes);
    one(b, "prompt_cache_disk_limit_bytes", "gauge", "The most that may be.", (double)d->limit);
    one(b, "prompt_cache_disk_checkpoints", "gauge", "Places that prompts can go on from.",
        (double)d->checkpoints);
    one(b, "prompt_cache_disk_waiting_files", "gauge", "That are to be written.",
        (double)d->waiting);
    one(b, "prompt_cache_disk_files_written_total", "counter", "Of rows and checkpoints.",
        (double)d->writes);
    one(b, "prompt_cache_disk_written_bytes_total", "counter", "Of rows, checkpoints, indexes.",
        (double)(d->written + d->index_written));
    one(b, "prompt_cache_disk_read_bytes_total", "counter", "Of rows and checkpoints.",
        (double)d->read);
    one(b, "prompt_cache_disk_dropped_files_total", "counter",
        "That were to be written and were not.", (double)d->dropped);
    one(b, "prompt_cache_disk_evictions_total", "counter", "Checkpoints that made room for others.",
        (double)d->evicted);
    one(b, "prompt_cache_disk_swept_files_total", "counter", "That a start found in no index.",
        (double)d->swept);
}

static void write_prompt_cache(const tt_state_cache_stats *c, tt_buf *b)
{
    head(b, "prompt_cache_tokens_total", "counter",
         "Tokens of prompts that were not computed again, by where they came from.");
    for (int t = TT_TIER_NONE + 1; t < TT_TIERS; t++)
        for (int k = TT_CHECKPOINT_NONE + 1; k < TT_CHECKPOINTS; k++)
            if (c->served[t][k] > 0)
                tt_buf_printf(b,
                              "tinytitan_prompt_cache_tokens_total{tier=\"%s\",kind=\"%s\"} "
                              "%llu\n",
                              tt_state_tier_name((tt_state_tier)t),
                              tt_checkpoint_name((tt_checkpoint_kind)k),
                              (unsigned long long)c->served[t][k]);
    head(b, "prompt_cache_refusals_total", "counter", "What was not kept or not used, and why.");
    for (int r = TT_REFUSED_NOTHING + 1; r < TT_REFUSALS; r++)
        tt_buf_printf(b, "tinytitan_prompt_cache_refusals_total{reason=\"%s\"} %llu\n",
                      tt_state_refusal_name((tt_state_refusal)r),
                      (unsigned long long)c->refused[r]);
    one(b, "prompt_cache_evictions_total", "counter", "Checkpoints that made room for others.",
        (double)c->evicted);
    one(b, "prompt_cache_bytes", "gauge", "Memory of the state of prompts.", (double)c->bytes);
    one(b, "prompt_cache_limit_bytes", "gauge", "The most that may be.", (double)c->limit);
    one(b, "prompt_cache_checkpoints", "gauge", "Places that prompts can go on from.",
        (double)c->checkpoints);
    write_disk(&c->disk, b);
}

/* Ids hold no control characters, but may hold a quote. */
static void label(tt_buf *b, const char *text)
{
    for (; *text != '\0'; text++)
        tt_buf_printf(b, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

/* One row a metric, one column of v[] each. */
static const struct {
    const char *name, *type, *help;
} model_rows[] = {{"model_loaded", "gauge", "Whether the model is in memory."},
                  {"model_loads_total", "counter", "Times that it was loaded."},
                  {"model_load_failures_total", "counter", "Times that it could not be."},
                  {"model_load_seconds", "gauge", "How long the last load took."},
                  {"model_requests_total", "counter", "Requests that it computed."},
                  {"model_prompt_tokens_total", "counter", "Tokens of their prompts."},
                  {"model_generated_tokens_total", "counter", "Tokens that it generated."}};
#define MODEL_ROWS (sizeof model_rows / sizeof model_rows[0])

static void write_models(const tt_metrics *m, const tt_metrics_now *now, tt_buf *b)
{
    double v[TT_MODELS][MODEL_ROWS];
    size_t n = tt_model_set_count(now->models);
    for (size_t i = 0; i < n; i++) {
        tt_model_state s;
        tt_model_set_state(now->models, i, &s);
        const double all[MODEL_ROWS] = {s.loaded ? 1 : 0,
                                        (double)s.loads,
                                        (double)s.failures,
                                        s.load_seconds,
                                        (double)m->models[i].requests,
                                        (double)m->models[i].prompt_tokens,
                                        (double)m->models[i].generated_tokens};
        memcpy(v[i], all, sizeof all);
    }
    for (size_t k = 0; k < MODEL_ROWS; k++) {
        head(b, model_rows[k].name, model_rows[k].type, model_rows[k].help);
        for (size_t i = 0; i < n; i++) {
            tt_buf_printf(b, "tinytitan_%s{model=\"", model_rows[k].name);
            label(b, tt_model_set_name(now->models, i));
            tt_buf_printf(b, "\"} %.17g\n", v[i][k]);
        }
    }
}

void tt_metrics_write(const tt_metrics *m, const tt_metrics_now *now, tt_buf *b)
{
    const tt_model_stats *s = &now->stats.model;
    write_requests(m, now, b);
    one(b, "connections", "gauge", "Connections open.", (double)now->connections);
    one(b, "queue_running", "gauge", "Requests being computed.", (double)now->running);
    one(b, "queue_waiting", "gauge", "Requests waiting.", (double)now->waiting);
    histogram(b, "queue_seconds", "From admission to start.", &m->queue);
    one(b, "request_memory_bytes", "gauge", "Bodies and trees of requests.",
        (double)now->request_memory);
    one(b, "stored_responses", "gauge", "Responses kept for those that continue them.",
        (double)now->stored_responses);
    one(b, "stored_response_bytes", "gauge", "What they weigh.", (double)now->stored_bytes);
    write_tokens(m, now, b);
    write_prompt_cache(&now->stats.cache, b);
    one(b, "draft_guesses_total", "counter", "Tokens that were guessed ahead.",
        (double)s->draft_guessed);
    one(b, "draft_guesses_right_total", "counter", "Those that came.", (double)s->draft_right);
    one(b, "expert_hits_total", "counter", "Uses of experts found in memory.",
        (double)s->expert_hits);
    one(b, "expert_misses_total", "counter", "Uses of experts that were read.",
        (double)s->expert_misses);
    one(b, "expert_read_bytes_total", "counter", "Bytes of experts read.",
        (double)s->expert_bytes_read);
    one(b, "expert_hit_ratio", "gauge", "Hits by uses since the start.",
        s->expert_asks > 0 ? (double)s->expert_hits / (double)s->expert_asks : 0);
    write_models(m, now, b);
    histogram(b, "loop_seconds", "Callbacks of the event loop.", &m->loop);
    one(b, "loop_max_seconds", "gauge", "The longest callback of the event loop.", m->loop.most);
}
