/* decode and prefill: tokens a second.
 *
 * The prompt is a fixed sequence of ids. decode continues it greedily, end tokens barred, so that
 * the routing is the model's own. The first run reads experts that later runs may find in memory,
 * so every run is reported beside the median. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"

#define MOST_REPEATS 1000

typedef struct speed_run {
    bench_options o;
    bool decode;
    uint32_t prompt_tokens, tokens, repeat;
    uint32_t *prompt;
    double *rate; /* [repeat] tokens a second, in the order they were run */
    tt_model *model;
    tt_session *session;
    uint32_t vocab;
    bool *barred; /* [vocab] */
} speed_run;

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

static tt_status prepare(speed_run *r, tt_error *err)
{
    tt_model_info info;
    tt_model_get_info(r->model, &info);
    r->vocab = info.vocab_size;
    r->prompt = calloc(r->prompt_tokens, sizeof *r->prompt);
    r->rate = calloc(r->repeat, sizeof *r->rate);
    r->barred = calloc(r->vocab, sizeof *r->barred);
    if (r->prompt == NULL || r->rate == NULL || r->barred == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u runs", r->repeat);
    TT_TRY(bar_end_tokens(r, err));
    uint64_t x = 1;
    for (uint32_t i = 0; i < r->prompt_tokens;) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t id = (uint32_t)(x >> 33) % r->vocab;
        if (!r->barred[id] || r->vocab < 16)
            r->prompt[i++] = id;
    }
    return TT_OK;
}

static uint32_t likeliest(const speed_run *r, const float *logits)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < r->vocab; i++)
        if (!r->barred[i] && (best == UINT32_MAX || logits[i] > logits[best]))
            best = i;
    return best != UINT32_MAX ? best : 0;
}

static tt_status run_once(speed_run *r, double *rate, tt_error *err)
{
    TT_TRY(tt_session_rewind(r->session, 0, err));
    double begin = tt_now(), spent;
    const tt_prefill_options po = {.go_on = bench_goes_on};
    TT_TRY(tt_session_sync(r->session, r->prompt, r->prompt_tokens, &po, NULL, err));
    spent = tt_now() - begin;
    if (!r->decode) {
        *rate = r->prompt_tokens / spent;
        return TT_OK;
    }
    spent = 0;
    for (uint32_t i = 0; i < r->tokens; i++) {
        if (!bench_goes_on(NULL))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        uint32_t id = likeliest(r, tt_session_logits(r->session));
        begin = tt_now();
        TT_TRY(tt_session_decode(r->session, id, err));
        spent += tt_now() - begin;
    }
    *rate = r->tokens / spent;
    return TT_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static json_t *rates(const speed_run *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->repeat; i++)
        json_array_append_new(list, json_real(r->rate[i]));
    return list;
}

static int report(speed_run *r)
{
    const char *name = r->decode ? "decode" : "prefill";
    tt_model_stats stats;
    tt_model_get_stats(r->model, &stats);
    json_t *obj = bench_context(name, r->model);
    bench_set(obj, "runs", rates(r));
    qsort(r->rate, r->repeat, sizeof *r->rate, ascending);
    double min = r->rate[0], max = r->rate[r->repeat - 1];
    double median = (r->rate[(r->repeat - 1) / 2] + r->rate[r->repeat / 2]) / 2;
    double hits = stats.expert_asks > 0 ? (double)stats.expert_hits / (double)stats.expert_asks : 1;
    if (r->decode)
        bench_set(obj, "prompt_tokens", json_integer(r->prompt_tokens));
    bench_set(obj, "tokens", json_integer(r->decode ? r->tokens : r->prompt_tokens));
    bench_set(obj, "repeat", json_integer(r->repeat));
    bench_set(obj, "median", json_real(median));
    bench_set(obj, "min", json_real(min));
    bench_set(obj, "max", json_real(max));
    bench_set(obj, "expert_hit_rate", json_real(hits));
    bench_set(obj, "expert_bytes_read", json_integer((json_int_t)stats.expert_bytes_read));
    bench_set(obj, "expert_wait_seconds", json_real(stats.expert_wait_seconds));
    bench_set(obj, "load_seconds", json_real(stats.load_seconds));
    printf("%s: %.2f tokens a second (median of %u runs, %.2f to %.2f)\n", name, median, r->repeat,
           min, max);
    printf("experts, prompts included: %.1f %% found in memory, %.1f MiB read, waited %.3f s\n",
           100 * hits, (double)stats.expert_bytes_read / (double)TT_MIB, stats.expert_wait_seconds);
    return bench_finish(&r->o, obj);
}

static int measure(speed_run *r)
{
    tt_error err = {0};
    uint32_t context = r->prompt_tokens + (r->decode ? r->tokens : 0);
    int rc = bench_open(&r->o, context, &r->model, &r->session);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_status st = prepare(r, &err);
    for (uint32_t i = 0; i < r->repeat && st == TT_OK; i++)
        st = run_once(r, &r->rate[i], &err);
    rc = st == TT_OK ? report(r) : bench_fail(&err);
    tt_session_close(&r->session);
    tt_model_close(&r->model);
    free(r->prompt);
    free(r->rate);
    free(r->barred);
    return rc;
}

int bench_decode(int argc, char **argv)
{
    speed_run r = {.o.kv = BENCH_KV_8,
                   .o.context_flag = "--prompt-tokens and --tokens",
                   .decode = true,
                   .prompt_tokens = 16,
                   .tokens = 64,
                   .repeat = 3};
    tt_arg table[] = {
        BENCH_MODEL_ROWS(&r.o, "(8)"),
        TT_OPT_HEADING("Decode:"),
        TT_OPT_U32("prompt-tokens", &r.prompt_tokens, "N", 1, TT_MAX_CONTEXT / 2,
                   "length of the fixed prompt before it (16)"),
        TT_OPT_U32("tokens", &r.tokens, "N", 1, TT_MAX_CONTEXT / 2, "tokens to decode a run (64)"),
        TT_OPT_U32("repeat", &r.repeat, "N", 1, MOST_REPEATS, "runs (3)"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("decode", "Measures how fast tokens follow one another.", table, &r.o,
                         argc, argv);
    return rc != BENCH_GO_ON ? rc : measure(&r);
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
        TT_OPT_U32("repeat", &r.repeat, "N", 1, MOST_REPEATS, "runs (3)"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("prefill", "Measures how fast a prompt is read.", table, &r.o, argc, argv);
    return rc != BENCH_GO_ON ? rc : measure(&r);
}
