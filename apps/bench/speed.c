/* decode and prefill: tokens a second, and where the time goes.
 *
 * The prompt is a fixed sequence of ids, or forced ones. decode continues it greedily, end tokens
 * barred, so that the routing is the model's own, or with the ids that follow the prompt's. With
 * several sequences each has ids of its own, and all go through one step together. The first run
 * reads experts that later runs may find in memory, so every run is reported beside the median. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "bench/bench.h"
#include "bench/bounds.h"
#include "bench/forced_ids.h"
#include "bench/timeline.h"
#include "session/session.h"

#define MOST_REPEATS 1000
#define FILL_SEED    1u

/* What one run took, prompt left out of decode. */
typedef struct measured {
    double seconds;
    tt_stage_times times;
    tt_model_stats stats; /* differences, like the next */
    tt_ngram_stats ngrams;
    double read_bytes, operations; /* a second, of this machine at most, around the run */
} measured;

typedef struct speed_run {
    bench_options o;
    bool decode;
    uint32_t prompt_tokens, tokens, warm_up, repeat, fill, context;
    const char *forced, *trace;
    uint32_t need;    /* ids of a sequence: its prompt, with forced ids those that follow too */
    uint32_t *prompt; /* [sequences, need] */
    measured *run;    /* [repeat] in the order they were run */
    tt_model *model;
    tt_session *session[TT_MOST_SEQUENCES]; /* none with fill */
    bench_timeline timeline;                /* with fill */
    tt_cache_trace_writer writer;
    bool tracing;
    uint32_t vocab;
    bool *barred; /* [vocab] */
    bool ceilings;
    bench_bounds bounds; /* with ceilings */
    /* with guesses */
    float accept; /* part of them that is right; below 0: as they come */
    uint64_t dice;
    tt_draft_stats drafts; /* before a run */
} speed_run;

/* ---- before ---- */

/* A model without a tokenizer has no end tokens to bar. */
static tt_status bar_end_tokens(speed_run *r, tt_error *err)
{
    tt_tokenizer *tok = NULL;
    tt_status st = tt_tokenizer_open(r->o.model, &tok, err);
    if (st == TT_ERR_NOT_FOUND)
        return TT_OK;
    TT_TRY(st);
    size_t n = 0;
    const uint32_t *stop = tt_tokenizer_stop_ids(tok, &n);
    for (size_t i = 0; i < n; i++)
        if (stop[i] < r->vocab)
            r->barred[stop[i]] = true;
    tt_tokenizer_close(&tok);
    return TT_OK;
}

static tt_status make_prompt(speed_run *r, tt_error *err)
{
    r->need = r->prompt_tokens + (r->decode ? r->warm_up + r->tokens : 0);
    if (r->forced != NULL)
        return bench_ids_of(r->forced, r->o.model, r->need, r->o.sequences, &r->prompt, err);
    r->prompt = calloc((size_t)r->o.sequences * r->need, sizeof *r->prompt);
    if (r->prompt == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u ids", r->need);
    uint64_t x = 1;
    for (uint32_t k = 0; k < r->o.sequences; k++)
        for (uint32_t i = 0; i < r->prompt_tokens;) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint32_t id = (uint32_t)(x >> 33) % r->vocab;
            if (!r->barred[id] || r->vocab < 16)
                r->prompt[(size_t)k * r->need + i++] = id;
        }
    return TT_OK;
}

static tt_status begin_trace(speed_run *r, tt_error *err)
{
    const tt_arch *a = &r->model->arch;
    if (r->trace == NULL)
        return TT_OK;
    if (r->model->cache == NULL)
        return tt_fail(err, TT_ERR_INVALID, "a dense model has no experts to trace");
    TT_TRY(tt_cache_trace_check_target(r->trace, err));
    const tt_cache_trace_info info = {.n_layers = a->n_layers,
                                      .n_experts = a->n_experts,
                                      .top_k = a->top_k,
                                      .slots = r->model->plan.slots_total,
                                      .policy = TT_CACHE_LFU_DECAY,
                                      .expert_bytes = r->model->plan.expert_bytes};
    tt_cache_trace_begin(&r->writer, &info, TT_TRACE_MAX);
    tt_cache_recorder recorder = tt_cache_trace_recorder(&r->writer);
    tt_expert_cache_record(r->model->cache, &recorder);
    r->tracing = true;
    return TT_OK;
}

static tt_status prepare(speed_run *r, tt_error *err)
{
    tt_model_info info;
    tt_model_get_info(r->model, &info);
    r->vocab = info.vocab_size;
    r->run = calloc(r->repeat, sizeof *r->run);
    r->barred = calloc(r->vocab, sizeof *r->barred);
    if (r->run == NULL || r->barred == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u runs", r->repeat);
    if (r->fill > 0)
        TT_TRY(bench_timeline_open(r->model, &r->timeline, err));
    if (r->ceilings)
        TT_TRY(bench_bounds_open(&r->bounds, err));
    TT_TRY(bar_end_tokens(r, err));
    TT_TRY(make_prompt(r, err));
    return begin_trace(r, err);
}

/* ---- guesses ---- */

static const char *const draft_words[] = {"off", "lookup", "mtp", NULL};

/* The forced id at a position, or with the chance of a miss another one. */
static uint32_t imposed(void *ctx, uint32_t at)
{
    speed_run *r = ctx;
    uint32_t id = at < r->need ? r->prompt[at] : 0;
    r->dice = r->dice * 6364136223846793005u + 1442695040888963407u;
    bool right = (float)(r->dice >> 40) / (float)(1 << 24) < r->accept;
    return right ? id : (id + 1) % r->vocab;
}

static void begin_guessing(speed_run *r)
{
    if (r->o.draft == TT_DRAFT_OFF)
        return;
    tt_session_get_draft_stats(r->session[0], &r->drafts);
    if (r->accept < 0)
        return;
    r->dice = FILL_SEED;
    r->session[0]->ahead->impose = imposed;
    r->session[0]->ahead->impose_ctx = r;
}

/* Of the last run. */
static void report_guesses(const speed_run *r, json_t *obj)
{
    const tt_draft_stats *a = &r->drafts;
    tt_draft_stats b;
    json_t *steps = json_array(), *seconds = json_array();
    if (r->o.draft == TT_DRAFT_OFF)
        return;
    tt_session_get_draft_stats(r->session[0], &b);
    uint64_t guessed = b.guessed - a->guessed, right = b.right - a->right;
    printf("guesses (last run): %llu, %llu right; steps", (unsigned long long)guessed,
           (unsigned long long)right);
    for (uint32_t w = 1; w <= TT_DRAFT_ROWS; w++) {
        uint64_t n = b.steps[w] - a->steps[w];
        double s = b.seconds[w] - a->seconds[w];
        json_array_append_new(steps, json_integer((json_int_t)n));
        json_array_append_new(seconds, json_real(s));
        if (n > 0)
            printf(" %llu of %u (%.3g ms)", (unsigned long long)n, w, 1000 * s / (double)n);
    }
    printf("; %u tokens a step pay, %.2f times plain speed\n", b.rows, b.gain);
    bench_set(obj, "draft", json_string(draft_words[r->o.draft]));
    bench_set(obj, "draft_width", json_integer(r->o.draft_width));
    bench_set(obj, "accept", r->accept >= 0 ? json_real((double)r->accept) : json_null());
    bench_set(obj, "guessed", json_integer((json_int_t)guessed));
    bench_set(obj, "guessed_right", json_integer((json_int_t)right));
    bench_set(obj, "steps_by_rows", steps);
    bench_set(obj, "seconds_by_rows", seconds);
    bench_set(obj, "rows_that_pay", json_integer(b.rows));
    bench_set(obj, "draft_gain", json_real(b.gain));
}

/* ---- a run ---- */

static uint32_t likeliest(const speed_run *r, const float *logits)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < r->vocab; i++)
        if (!r->barred[i] && (best == UINT32_MAX || logits[i] > logits[best]))
            best = i;
    return best != UINT32_MAX ? best : 0;
}

/* Of sequence k. */
static uint32_t next_id(const speed_run *r, uint32_t k, uint32_t i)
{
    if (r->forced != NULL)
        return r->prompt[(size_t)k * r->need + r->prompt_tokens + i];
    if (r->fill == 0)
        return likeliest(r, tt_session_logits(r->session[k]));
    return i == 0 ? 0 : likeliest(r, r->model->scratch.logits);
}

static void begin_measuring(speed_run *r, measured *m)
{
    tt_model_get_stats(r->model, &m->stats);
    m->ngrams = r->model->ngram.stats;
    r->model->times = &m->times;
}

#define SINCE(field) m->stats.field = now.field - m->stats.field

static void end_measuring(speed_run *r, measured *m)
{
    tt_model_stats now;
    tt_model_get_stats(r->model, &now);
    r->model->times = NULL;
    SINCE(expert_asks);
    SINCE(expert_hits);
    SINCE(expert_misses);
    SINCE(expert_joins);
    SINCE(expert_evictions);
    SINCE(expert_bytes_read);
    SINCE(expert_bytes_disk);
    SINCE(expert_bytes_cached);
    SINCE(expert_wait_seconds);
    const tt_ngram_stats *g = &r->model->ngram.stats;
    m->ngrams = (tt_ngram_stats){g->rows - m->ngrams.rows, g->pages - m->ngrams.pages,
                                 g->waited - m->ngrams.waited};
}

static tt_status run_decode(speed_run *r, measured *m, tt_error *err)
{
    for (uint32_t i = 0; i < r->warm_up + r->tokens; i++) {
        if (i == r->warm_up) {
            *m = (measured){0};
            begin_measuring(r, m);
            begin_guessing(r);
        }
        if (!bench_goes_on(NULL))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        uint32_t id[TT_MOST_SEQUENCES];
        for (uint32_t k = 0; k < r->o.sequences; k++)
            id[k] = next_id(r, k, i);
        double begin = tt_now();
        if (r->fill > 0)
            TT_TRY(bench_timeline_decode(&r->timeline, id[0], err));
        else
            TT_TRY(tt_session_decode_all(r->session, id, r->o.sequences, err));
        m->seconds += tt_now() - begin;
    }
    end_measuring(r, m);
    return TT_OK;
}

static tt_status run_once(speed_run *r, measured *m, tt_error *err)
{
    if (r->fill > 0) {
        TT_TRY(bench_timeline_fill(&r->timeline, r->fill, FILL_SEED, err));
        return run_decode(r, m, err);
    }
    for (uint32_t k = 0; k < r->o.sequences; k++)
        TT_TRY(tt_session_rewind(r->session[k], 0, err));
    begin_measuring(r, m);
    double begin = tt_now();
    const tt_prefill_options po = {.go_on = bench_goes_on};
    for (uint32_t k = 0; k < r->o.sequences; k++)
        TT_TRY(tt_session_sync(r->session[k], r->prompt + (size_t)k * r->need, r->prompt_tokens,
                               &po, NULL, err));
    m->seconds = tt_now() - begin;
    end_measuring(r, m);
    if (!r->decode)
        return TT_OK;
    *m = (measured){0};
    return run_decode(r, m, err);
}

/* Limits are measured before the first run and after each; a run is held against the better of its
 * neighbours. */
static tt_status run_bounded(speed_run *r, measured *m, tt_error *err)
{
    bench_bounds *b = &r->bounds;
    if (!r->ceilings)
        return run_once(r, m, err);
    if (m == r->run)
        bench_bounds_measure(b, r->model->be, &b->after);
    b->before = b->after;
    TT_TRY(run_once(r, m, err));
    bench_bounds_measure(b, r->model->be, &b->after);
    const ceilings *c = b->after.read_bytes > b->before.read_bytes ? &b->after : &b->before;
    m->read_bytes = c->read_bytes;
    double dot = b->after.dot > b->before.dot ? b->after.dot : b->before.dot;
    double f32 = b->after.f32 > b->before.f32 ? b->after.f32 : b->before.f32;
    m->operations = 2 * (dot > 0 ? dot : f32);
    if (!r->decode && !(m->operations > 0))
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "level %s has no peak of arithmetic to hold a prompt against: leave "
                       "--ceilings out, or choose another --cpu-level",
                       r->model->be->level);
    return TT_OK;
}

/* ---- after ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of all sequences together. */
static double run_tokens(const speed_run *r)
{
    return (double)(r->decode ? r->tokens : r->prompt_tokens) * r->o.sequences;
}

static double run_rate(const speed_run *r, const measured *m)
{
    return run_tokens(r) / m->seconds;
}

static double hit_rate(const tt_model_stats *s)
{
    return s->expert_asks > 0 ? (double)s->expert_hits / (double)s->expert_asks : 1;
}

/* Rows of keys and values that a measured token of a decode sees, on average. */
static double rows_seen(const speed_run *r)
{
    return (double)r->fill + r->prompt_tokens + r->warm_up + r->tokens / 2.0;
}

/* Of a token: decode is held against memory, prefill against arithmetic. */
static double token_work(const speed_run *r)
{
    if (!r->decode)
        return bench_token_operations(r->model, r->prompt_tokens);
    return bench_token_bytes(r->model, rows_seen(r));
}

static double share_of_limit(const speed_run *r, const measured *m)
{
    return token_work(r) * run_rate(r, m) / (r->decode ? m->read_bytes : m->operations);
}

static void set_share(const speed_run *r, const measured *m, json_t *obj)
{
    bench_set(obj, r->decode ? "bytes_touched_per_token" : "operations_per_token",
              json_real(token_work(r)));
    bench_set(obj, r->decode ? "memory_bytes_per_second" : "peak_operations_per_second",
              json_real(r->decode ? m->read_bytes : m->operations));
    bench_set(obj, "share_of_limit", json_real(share_of_limit(r, m)));
}

/* Of a step and a layer: picks of all rows, and the experts that they are, read once each. */
static void set_picks(const speed_run *r, const measured *m, json_t *obj)
{
    const tt_plan *plan = tt_model_get_plan(r->model);
    double stages = (double)r->tokens * plan->n_moe_layers;
    bench_set(obj, "picks_per_layer", json_integer((json_int_t)r->o.sequences * plan->top_k));
    bench_set(obj, "experts_per_layer", json_real((double)m->stats.expert_asks / stages));
}

/* Per token: of a decode a step shared by its sequences, of a prefill the whole divided by the
 * prompt. */
static json_t *run_json(const speed_run *r, const measured *m)
{
    double tokens = run_tokens(r);
    json_t *obj = json_object(), *layers = json_array();
    bench_set(obj, "seconds", json_real(m->seconds));
    bench_set(obj, "tokens_per_second", json_real(tokens / m->seconds));
    bench_set(obj, "outside_moe_seconds_per_token",
              json_real((m->seconds - m->times.moe) / tokens));
    bench_set(obj, "moe_seconds_per_token", json_real(m->times.moe / tokens));
    for (uint32_t l = 0; m->times.layers > 0 && l < r->model->arch.n_layers; l++)
        json_array_append_new(layers, json_real(m->times.moe_layer[l] / tokens));
    bench_set(obj, "moe_layer_seconds_per_token", layers);
    bench_set(obj, "wait_seconds_per_token", json_real(m->stats.expert_wait_seconds / tokens));
    bench_set(obj, "expert_asks", json_integer((json_int_t)m->stats.expert_asks));
    bench_set(obj, "expert_hits", json_integer((json_int_t)m->stats.expert_hits));
    bench_set(obj, "expert_misses", json_integer((json_int_t)m->stats.expert_misses));
    bench_set(obj, "expert_joins", json_integer((json_int_t)m->stats.expert_joins));
    bench_set(obj, "expert_evictions", json_integer((json_int_t)m->stats.expert_evictions));
    bench_set(obj, "expert_hit_rate", json_real(hit_rate(&m->stats)));
    bench_set(obj, "bytes_read", json_integer((json_int_t)m->stats.expert_bytes_read));
    bench_set(obj, "bytes_read_per_token", json_real((double)m->stats.expert_bytes_read / tokens));
    bench_set(obj, "bytes_disk", json_integer((json_int_t)m->stats.expert_bytes_disk));
    bench_set(obj, "bytes_page_cache", json_integer((json_int_t)m->stats.expert_bytes_cached));
    bench_set(obj, "disk_bytes_per_second",
              json_real((double)m->stats.expert_bytes_disk / m->seconds));
    if (m->ngrams.rows > 0) {
        bench_set(obj, "ngram_rows", json_integer((json_int_t)m->ngrams.rows));
        bench_set(obj, "ngram_pages", json_integer((json_int_t)m->ngrams.pages));
        bench_set(obj, "ngram_wait_seconds_per_token", json_real(m->ngrams.waited / tokens));
    }
    if (r->decode && m->stats.expert_asks > 0)
        set_picks(r, m, obj);
    if (r->ceilings)
        set_share(r, m, obj);
    return obj;
}

static void report_rates(const speed_run *r, const char *name, json_t *obj, double *rate)
{
    json_t *list = json_array(), *details = json_array();
    for (uint32_t i = 0; i < r->repeat; i++) {
        rate[i] = run_rate(r, &r->run[i]);
        json_array_append_new(list, json_real(rate[i]));
        json_array_append_new(details, run_json(r, &r->run[i]));
    }
    bench_set(obj, "runs", list);
    bench_set(obj, "run_details", details);
    qsort(rate, r->repeat, sizeof *rate, ascending);
    double min = rate[0], max = rate[r->repeat - 1];
    double median = (rate[(r->repeat - 1) / 2] + rate[r->repeat / 2]) / 2;
    bench_set(obj, "median", json_real(median));
    bench_set(obj, "min", json_real(min));
    bench_set(obj, "max", json_real(max));
    printf("%s: %.2f tokens a second (median of %u runs, %.2f to %.2f)\n", name, median, r->repeat,
           min, max);
    const measured *m = &r->run[r->repeat - 1];
    if (r->decode && m->stats.expert_asks > 0)
        printf("of a step and layer: %u picks, %.1f experts; %.1f MiB read a token (last run)\n",
               r->o.sequences * r->model->plan.top_k,
               (double)m->stats.expert_asks / ((double)r->tokens * r->model->plan.n_moe_layers),
               (double)m->stats.expert_bytes_read / run_tokens(r) / (double)TT_MIB);
    if (!r->ceilings)
        return;
    for (uint32_t i = 0; i < r->repeat; i++)
        rate[i] = share_of_limit(r, &r->run[i]);
    qsort(rate, r->repeat, sizeof *rate, ascending);
    double share = (rate[(r->repeat - 1) / 2] + rate[r->repeat / 2]) / 2;
    bench_set(obj, "share_of_limit", json_real(share));
    printf("%.0f %% of what %s allows\n", 100 * share,
           r->decode ? "the rate of memory" : "the peak of arithmetic");
}

static int report(speed_run *r)
{
    const char *name = r->decode ? "decode" : "prefill";
    double *rate = calloc(r->repeat, sizeof *rate);
    tt_model_stats stats;
    tt_model_get_stats(r->model, &stats);
    json_t *obj = bench_context(name, r->model);
    if (rate != NULL)
        report_rates(r, name, obj, rate);
    free(rate);
    if (r->decode) {
        bench_set(obj, "prompt_tokens", json_integer(r->prompt_tokens));
        bench_set(obj, "warm_up", json_integer(r->warm_up));
        bench_set(obj, "sequences", json_integer(r->o.sequences));
        bench_set(obj, "kv_bytes_per_token",
                  json_real(rows_seen(r) *
                            (double)tt_kv_token_bytes(&r->model->arch, r->model->plan.kv_bits)));
    }
    if (r->decode)
        report_guesses(r, obj);
    bench_set(obj, "tokens", json_integer(r->decode ? r->tokens : r->prompt_tokens));
    bench_set(obj, "filled_context", json_integer(r->fill));
    bench_set(obj, "forced_ids", r->forced != NULL ? json_string(r->forced) : json_null());
    bench_set(obj, "repeat", json_integer(r->repeat));
    bench_set(obj, "expert_hit_rate", json_real(hit_rate(&stats)));
    bench_set(obj, "expert_bytes_read", json_integer((json_int_t)stats.expert_bytes_read));
    bench_set(obj, "expert_wait_seconds", json_real(stats.expert_wait_seconds));
    bench_set(obj, "slabs_retired", json_integer(stats.slabs_retired));
    bench_set(obj, "load_seconds", json_real(stats.load_seconds));
    bench_set(obj, "peak_rss", json_integer((json_int_t)tt_machine_peak_rss()));
    bench_set(obj, "major_faults", json_integer((json_int_t)tt_machine_major_faults()));
    printf("experts, prompts included: %.1f %% found in memory, %.1f MiB read, waited %.3f s\n",
           100 * hit_rate(&stats), (double)stats.expert_bytes_read / (double)TT_MIB,
           stats.expert_wait_seconds);
    return bench_finish(&r->o, obj);
}

static tt_status more_sessions(speed_run *r, tt_error *err)
{
    for (uint32_t k = 1; k < r->o.sequences; k++)
        TT_TRY(tt_session_create(r->model, &r->session[k], err));
    return TT_OK;
}

static int measure(speed_run *r)
{
    tt_error err = {0};
    r->o.sequences = r->o.sequences > 0 ? r->o.sequences : 1;
    uint32_t need = r->fill + r->prompt_tokens + (r->decode ? r->warm_up + r->tokens : 0);
    uint32_t context = need > r->context ? need : r->context;
    int rc = bench_open(&r->o, context, &r->model, r->fill > 0 ? NULL : r->session);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_status st = more_sessions(r, &err);
    if (st == TT_OK)
        st = prepare(r, &err);
    for (uint32_t i = 0; i < r->repeat && st == TT_OK; i++)
        st = run_bounded(r, &r->run[i], &err);
    if (r->tracing) {
        tt_expert_cache_record(r->model->cache, NULL);
        if (st == TT_OK)
            st = tt_cache_trace_publish(&r->writer, r->trace, &err);
        tt_cache_trace_end(&r->writer);
    }
    rc = st == TT_OK ? report(r) : bench_fail(&err);
    bench_bounds_close(&r->bounds);
    bench_timeline_close(&r->timeline);
    for (uint32_t k = 0; k < r->o.sequences; k++)
        tt_session_close(&r->session[k]);
    tt_model_close(&r->model);
    free(r->prompt);
    free(r->run);
    free(r->barred);
    return rc;
}

#define SPEED_ROWS(r)                                                                              \
    TT_OPT_U32("repeat", &(r).repeat, "N", 1, MOST_REPEATS, "runs (3)"),                           \
        TT_OPT_U32("max-context", &(r).context, "N", 1, TT_MAX_CONTEXT,                            \
                   "tokens to make room for, unless given those of a run"),                        \
        TT_OPT_STRING("forced-ids", &(r).forced, "FILE|chain[:SEED]",                              \
                      "JSON list of the ids to run on, or the chain of a synthetic install"),      \
        TT_OPT_STRING("trace", &(r).trace, "FILE", "write what the expert cache was asked"),       \
        TT_OPT_FLAG("ceilings", &(r).ceilings,                                                     \
                    "measure memory and arithmetic of this machine around each run and say what "  \
                    "share of it was reached; takes 256 MiB more than the budget")

static int check_forced(const speed_run *r)
{
    tt_error err = {.offset = -1};
    return bench_ids_check(r->forced, &err) == TT_OK ? BENCH_GO_ON : bench_usage(&err);
}

int bench_decode(int argc, char **argv)
{
    speed_run r = {.o.kv = BENCH_KV_8,
                   .o.context_flag = "--prompt-tokens and --tokens",
                   .decode = true,
                   .accept = -1,
                   .prompt_tokens = 16,
                   .tokens = 64,
                   .repeat = 3};
    tt_arg table[] = {
        BENCH_MODEL_ROWS(&r.o, "(8)"),
        TT_OPT_HEADING("Decode:"),
        TT_OPT_U32("prompt-tokens", &r.prompt_tokens, "N", 1, TT_MAX_CONTEXT / 2,
                   "length of the fixed prompt before it (16)"),
        TT_OPT_U32("fill-context", &r.fill, "N", 1, TT_MAX_CONTEXT / 2,
                   "no prompt: begin after N tokens whose keys, values and state are made up"),
        TT_OPT_U32("warm-up", &r.warm_up, "N", 0, TT_MAX_CONTEXT / 2,
                   "tokens to decode before those that are measured, in each run (0)"),
        TT_OPT_U32("tokens", &r.tokens, "N", 1, TT_MAX_CONTEXT / 2, "tokens to decode a run (64)"),
        TT_OPT_U32("sequences", &r.o.sequences, "N", 1, TT_MOST_SEQUENCES,
                   "prompts that are decoded together, of so many tokens each (1)"),
        TT_OPT_ENUM("draft", &r.o.draft, draft_words, "guess coming tokens (off)"),
        TT_OPT_U32("draft-width", &r.o.draft_width, "N", 1, TT_DRAFT_ROWS,
                   "tokens of a step at most, guesses included, unless given as many as pay"),
        TT_OPT_FLOAT(
            "accept", &r.accept, "P", 0, 1,
            "part of the guesses that is made right, with --forced-ids; guessing costs what "
            "it costs"),
        SPEED_ROWS(r),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("decode", "Measures how fast tokens follow one another.", table, &r.o,
                         argc, argv);
    if (rc == BENCH_GO_ON)
        rc = check_forced(&r);
    if (rc != BENCH_GO_ON)
        return rc;
    if (r.fill > 0 && tt_args_given(table, "prompt-tokens")) {
        fprintf(stderr, "TinyTitanBench: --fill-context stands in place of a prompt: leave "
                        "--prompt-tokens out\n");
        return BENCH_USAGE;
    }
    if (r.o.sequences > 1 && (r.fill > 0 || r.ceilings)) {
        fprintf(stderr, "TinyTitanBench: %s is of one sequence: leave --sequences out\n",
                r.fill > 0 ? "--fill-context" : "--ceilings");
        return BENCH_USAGE;
    }
    if ((r.o.draft_width > 0 || r.accept >= 0) && r.o.draft == TT_DRAFT_OFF) {
        fprintf(stderr, "TinyTitanBench: --draft-width and --accept go with --draft\n");
        return BENCH_USAGE;
    }
    if (r.accept >= 0 && r.forced == NULL) {
        fprintf(stderr, "TinyTitanBench: --accept knows what is right from --forced-ids alone\n");
        return BENCH_USAGE;
    }
    if (r.o.draft != TT_DRAFT_OFF && (r.o.sequences > 1 || r.fill > 0)) {
        fprintf(stderr, "TinyTitanBench: --draft is of one sequence after a prompt: leave "
                        "--sequences and --fill-context out\n");
        return BENCH_USAGE;
    }
    if (r.fill > 0) {
        r.prompt_tokens = 0;
        r.o.context_flag = "--fill-context, --warm-up and --tokens";
    }
    return measure(&r);
}

int bench_prefill(int argc, char **argv)
{
    speed_run r = {
        .o.kv = BENCH_KV_8, .o.context_flag = "--tokens", .prompt_tokens = 512, .repeat = 3};
    tt_arg table[] = {
        BENCH_MODEL_ROWS(&r.o, "(8)"),
        TT_OPT_HEADING("Prefill:"),
        TT_OPT_U32("tokens", &r.prompt_tokens, "N", 1, TT_MAX_CONTEXT,
                   "length of the fixed prompt (512)"),
        SPEED_ROWS(r),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("prefill", "Measures how fast a prompt is read.", table, &r.o, argc, argv);
    if (rc == BENCH_GO_ON)
        rc = check_forced(&r);
    return rc != BENCH_GO_ON ? rc : measure(&r);
}
