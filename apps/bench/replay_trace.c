/* replay: plays a trace of expert asks against policies and sizes of the cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "io/cache_replay.h"

#define WINDOW     128u /* tokens in which distinct experts are counted */
#define MOST_SIZES 32u

static const tt_cache_policy_kind policies[] = {TT_CACHE_LFU_DECAY, TT_CACHE_LFU, TT_CACHE_LRU,
                                                TT_CACHE_BELADY};
#define N_POLICIES (sizeof policies / sizeof *policies)

typedef struct replay_run {
    bench_options o;
    const char *file;
    uint32_t slots;
    float half_life;
    tt_cache_trace trace;
    uint32_t sizes[MOST_SIZES], n_sizes; /* slots a layer */
    /* of decode asks for one token */
    double overlap, distinct; /* -1: too few tokens */
} replay_run;

/* ---- locality ---- */

/* Asks of one layer: the last `WINDOW` tokens' experts, as a ring. */
typedef struct layer_past {
    uint64_t tokens;
    uint32_t expert[WINDOW][TT_MAX_TOP_K];
    uint32_t uses[TT_MAX_EXPERTS]; /* in the ring */
    uint32_t distinct;
} layer_past;

typedef struct sums {
    double same, wide;
    uint64_t pairs, windows;
} sums;

static void note(layer_past *p, const uint32_t *expert, uint32_t k, sums *s)
{
    uint32_t *now = p->expert[p->tokens % WINDOW];
    if (p->tokens > 0) {
        const uint32_t *before = p->expert[(p->tokens - 1) % WINDOW];
        for (uint32_t i = 0; i < k; i++)
            for (uint32_t j = 0; j < k; j++)
                s->same += expert[i] == before[j];
        s->pairs++;
    }
    for (uint32_t i = 0; p->tokens >= WINDOW && i < k; i++)
        p->distinct -= --p->uses[now[i]] == 0;
    for (uint32_t i = 0; i < k; i++) {
        now[i] = expert[i];
        p->distinct += p->uses[expert[i]]++ == 0;
    }
    if (++p->tokens >= WINDOW) {
        s->wide += p->distinct;
        s->windows++;
    }
}

static tt_status look(replay_run *r, tt_error *err)
{
    const tt_cache_trace_info *i = &r->trace.info;
    layer_past *past = calloc(i->n_layers, sizeof *past);
    tt_cache_trace_cursor *c = malloc(sizeof *c);
    tt_cache_event e;
    sums s = {0};
    if (past == NULL || c == NULL || i->top_k > TT_MAX_TOP_K) {
        free(past);
        free(c);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u layers", i->n_layers);
    }
    tt_cache_trace_rewind(c, &r->trace);
    while (tt_cache_trace_next(c, &e))
        if (e.kind == TT_TRACE_ASK && !e.prefill && e.n == i->top_k)
            note(&past[e.layer], e.expert, e.n, &s);
    r->overlap = s.pairs > 0 ? s.same / (double)s.pairs : -1;
    r->distinct = s.windows > 0 ? s.wide / (double)s.windows : -1;
    free(past);
    free(c);
    return TT_OK;
}

/* ---- hits ---- */

static tt_status check_size(const replay_run *r, tt_error *err)
{
    uint32_t all = r->trace.info.n_experts;
    if (r->slots <= all)
        return TT_OK;
    return tt_fail(err, TT_ERR_INVALID,
                   "--expert-cache-slots is %u, a layer of this trace has %u experts: give at most "
                   "so many",
                   r->slots, all);
}

static void choose_sizes(replay_run *r)
{
    const tt_cache_trace_info *i = &r->trace.info;
    uint32_t recorded = i->slots / i->n_layers;
    if (r->slots > 0) {
        r->sizes[r->n_sizes++] = r->slots;
        return;
    }
    for (uint32_t s = i->top_k; s < i->n_experts && r->n_sizes < MOST_SIZES - 2; s *= 2) {
        if (recorded > 0 && recorded < s &&
            (r->n_sizes == 0 || r->sizes[r->n_sizes - 1] < recorded))
            r->sizes[r->n_sizes++] = recorded;
        r->sizes[r->n_sizes++] = s;
    }
    r->sizes[r->n_sizes++] = i->n_experts;
}

static json_t *row_json(uint32_t slots, tt_cache_policy_kind policy, const tt_replay_result *x)
{
    json_t *row = json_object();
    bench_set(row, "slots_total", json_integer(slots));
    bench_set(row, "policy", json_string(tt_cache_policy_name(policy)));
    bench_set(row, "asks", json_integer((json_int_t)x->asks));
    bench_set(row, "hits", json_integer((json_int_t)x->hits));
    bench_set(row, "misses", json_integer((json_int_t)x->misses));
    bench_set(row, "joins", json_integer((json_int_t)x->joins));
    bench_set(row, "evictions", json_integer((json_int_t)x->evictions));
    bench_set(row, "refused", json_integer((json_int_t)x->refused));
    bench_set(row, "hit_rate", json_real(x->asks > 0 ? (double)x->hits / (double)x->asks : 1));
    bench_set(row, "decode_hit_rate",
              json_real(x->decode_asks > 0 ? (double)x->decode_hits / (double)x->decode_asks : 1));
    return row;
}

static tt_status play(replay_run *r, json_t *rows, tt_error *err)
{
    const tt_cache_trace_info *i = &r->trace.info;
    printf("%-8s %-10s %-10s %12s %12s %10s\n", "slots", "a layer", "policy", "hit rate",
           "of decode", "evictions");
    for (uint32_t n = 0; n < r->n_sizes; n++) {
        bool recorded = r->sizes[n] == i->slots / i->n_layers && r->slots == 0;
        uint32_t slots = recorded ? i->slots : r->sizes[n] * i->n_layers;
        for (size_t p = 0; p < N_POLICIES; p++) {
            bool same = recorded && policies[p] == i->policy && r->half_life <= 0;
            const tt_replay_options o = {.slots = slots,
                                         .policy = policies[p],
                                         .half_life = same ? i->half_life : (double)r->half_life};
            tt_replay_result x;
            TT_TRY(tt_cache_replay(&r->trace, &o, &x, err));
            json_array_append_new(rows, row_json(slots, policies[p], &x));
            printf("%-8u %-10.1f %-10s %11.2f%% %11.2f%% %10llu%s\n", slots,
                   (double)slots / i->n_layers, tt_cache_policy_name(policies[p]),
                   x.asks > 0 ? 100.0 * (double)x.hits / (double)x.asks : 100,
                   x.decode_asks > 0 ? 100.0 * (double)x.decode_hits / (double)x.decode_asks : 100,
                   (unsigned long long)x.evictions, same ? "  as recorded" : "");
        }
    }
    return TT_OK;
}

static int report(replay_run *r)
{
    const tt_cache_trace_info *i = &r->trace.info;
    tt_error err = {0};
    json_t *obj = json_object(), *rows = json_array();
    bench_set(obj, "command", json_string("replay"));
    bench_set(obj, "version", json_string(tt_version()));
    bench_set(obj, "trace", json_string(r->file));
    bench_set(obj, "n_layers", json_integer(i->n_layers));
    bench_set(obj, "n_experts", json_integer(i->n_experts));
    bench_set(obj, "top_k", json_integer(i->top_k));
    bench_set(obj, "asks", json_integer((json_int_t)r->trace.asks));
    bench_set(obj, "overlap_with_token_before", json_real(r->overlap));
    bench_set(obj, "distinct_experts_in_128_tokens", json_real(r->distinct));
    printf("%u layers of %u experts, %u a token; %llu asks\n", i->n_layers, i->n_experts, i->top_k,
           (unsigned long long)r->trace.asks);
    if (r->overlap >= 0)
        printf("decode: %.2f of %u experts are the token's before\n", r->overlap, i->top_k);
    if (r->distinct >= 0)
        printf("decode: %.1f distinct experts a layer in %u tokens\n", r->distinct, WINDOW);
    if (play(r, rows, &err) != TT_OK) {
        json_decref(obj);
        json_decref(rows);
        return bench_fail(&err);
    }
    bench_set(obj, "rows", rows);
    return bench_finish(&r->o, obj);
}

int bench_replay(int argc, char **argv)
{
    replay_run r = {0};
    tt_arg table[] = {
        TT_OPT_HEADING("Replay:"),
        TT_OPT_STRING("trace", &r.file, "FILE", "what decode or prefill wrote (required)",
                      .required = true),
        TT_OPT_U32("expert-cache-slots", &r.slots, "N", 1, TT_MAX_EXPERTS,
                   "only this number of slots a layer; unless given from a token's experts to all"),
        TT_OPT_FLOAT("half-life", &r.half_life, "TOKENS", 0, 100000,
                     "of lfu-decay; 0: as suits the slots (0)"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("replay",
                         "Plays a trace against cache policies and sizes. belady is the most hits "
                         "that any policy\ncan have.",
                         table, &r.o, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_error err = {0};
    if (tt_cache_trace_load(r.file, &r.trace, &err) != TT_OK)
        return bench_fail(&err);
    choose_sizes(&r);
    tt_status st = check_size(&r, &err);
    if (st == TT_OK)
        st = look(&r, &err);
    rc = st == TT_OK ? report(&r) : bench_fail(&err);
    tt_cache_trace_free(&r.trace);
    return rc;
}
