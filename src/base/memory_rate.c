#include "base/memory_rate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rates_file.h"

#define LIST       "memory"
#define MOST       16u /* records kept */
#define PAGE_WORDS 512u
#define STREAMS    4u
#define AHEAD      256u /* words: 2 KiB */
#define SECONDS    0.1
#define OLD        86400 /* seconds until a record is made again */

/* ---- measuring ---- */

typedef struct reading {
    uint64_t *words;
    uint64_t sum[TT_MAX_THREADS]; /* what is read must be used */
} reading;

static void touch(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const reading *r = ctx;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        r->words[i * PAGE_WORDS] = i;
}

/* Four streams with prefetches ahead, as the kernels read rows: the best pattern known. */
static void sum(void *ctx, size_t begin, size_t end, unsigned worker)
{
    reading *r = ctx;
    size_t n = (end - begin) * PAGE_WORDS / STREAMS;
    const uint64_t *p = r->words + begin * PAGE_WORDS;
    uint64_t s[STREAMS] = {0};
    for (size_t i = 0; i < n; i += 8)
        for (unsigned k = 0; k < STREAMS; k++) {
            const uint64_t *q = p + k * n + i;
            __builtin_prefetch(q + AHEAD);
            s[k] += q[0] + q[1] + q[2] + q[3] + q[4] + q[5] + q[6] + q[7];
        }
    r->sum[worker] += s[0] + s[1] + s[2] + s[3];
}

static tt_status measure(const tt_memory_rate_options *o, uint64_t bytes, double *rate,
                         tt_error *err)
{
    reading r = {0};
    tt_pool *pool = NULL;
    void *block = NULL;
    tt_status st = TT_OK;
    size_t pages = bytes / (PAGE_WORDS * sizeof(uint64_t));
    double best = 0, begin;
    TT_TRY(tt_pool_create(o->threads, &pool, err));
    TT_GOTO(tt_mem_alloc(bytes, "measuring memory", &block, err), out);
    r.words = block;
    tt_pool_run(pool, pages, 1, touch, &r);
    begin = tt_now();
    do {
        double pass = tt_now();
        tt_pool_run(pool, pages, 1, sum, &r);
        double seconds = tt_now() - pass;
        if (seconds > 0 && (double)bytes / seconds > best)
            best = (double)bytes / seconds;
    } while (tt_now() - begin < (o->seconds > 0 ? o->seconds : SECONDS));
    *rate = best;
out:
    tt_mem_free(block, bytes);
    tt_pool_close(&pool);
    return st;
}

/* ---- the record ---- */

/* "model name : X" of /proc/cpuinfo, else what other processors call themselves there. */
static void name_processor(char out[96])
{
    static const char *const keys[] = {"model name", "Processor", "CPU part", "cpu"};
    char text[4096];
    snprintf(out, 96, "unknown");
    if (!tt_machine_text("/proc/cpuinfo", text, sizeof text))
        return;
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *at = strstr(text, keys[i]), *colon = at != NULL ? strchr(at, ':') : NULL;
        if (colon == NULL || sscanf(colon + 1, " %95[^\n]", out) != 1)
            continue;
        return;
    }
}

static bool is_for(const json_t *entry, const char *processor, uint32_t threads)
{
    const char *name = json_string_value(json_object_get(entry, "processor"));
    return name != NULL && strcmp(name, processor) == 0 &&
           json_integer_value(json_object_get(entry, "threads")) == threads;
}

static bool look_up(const tt_memory_rate_options *o, const char *processor, tt_memory_rate *out)
{
    json_t *list = tt_rates_load(o->file, LIST);
    bool found = false;
    for (size_t i = 0; !found && i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        uint64_t when;
        tt_memory_rate m = {.cached = true};
        found =
            is_for(entry, processor, o->threads) &&
            tt_json_get_number(entry, "bytes_per_second", "", 1, 1e15, &m.rate, NULL) == TT_OK &&
            tt_json_get_u64(entry, "time", "", 0, INT64_MAX, &when, NULL) == TT_OK;
        if (found) {
            m.time = (int64_t)when;
            *out = m;
        }
    }
    json_decref(list);
    return found;
}

/* What was measured beside other work should not be believed for good. */
static bool is_old(const tt_memory_rate *m)
{
    int64_t age = (int64_t)time(NULL) - m->time;
    return age < 0 || age > OLD;
}

static void keep(const tt_memory_rate_options *o, const char *processor, const tt_memory_rate *m)
{
    json_t *list = tt_rates_load(o->file, LIST);
    for (size_t i = json_array_size(list); i-- > 0;)
        if (is_for(json_array_get(list, i), processor, o->threads) || i >= MOST - 1)
            json_array_remove(list, i);
    json_t *entry =
        json_pack("{s:s, s:I, s:f, s:I}", "processor", processor, "threads", (json_int_t)o->threads,
                  "bytes_per_second", m->rate, "time", (json_int_t)m->time);
    (void)json_array_insert_new(list, 0, entry);
    (void)!tt_rates_save(o->file, LIST, list, NULL); /* measured again next time */
}

tt_status tt_memory_rate_get(const tt_memory_rate_options *o, tt_memory_rate *out, tt_error *err)
{
    char processor[96];
    tt_memory_rate m = {0};
    uint64_t bytes = o->memory < TT_MEMORY_RATE_MOST ? o->memory : TT_MEMORY_RATE_MOST;
    bytes = bytes / TT_MIB * TT_MIB;
    if (o->threads < 1 || o->threads > TT_MAX_THREADS)
        return tt_fail(err, TT_ERR_INVALID, "memory rate of %u threads, must be 1 to %u",
                       o->threads, TT_MAX_THREADS);
    name_processor(processor);
    bool may = !o->look_up && bytes >= TT_MEMORY_RATE_LEAST;
    if (o->file != NULL && look_up(o, processor, &m) && !(may && is_old(&m))) {
        *out = m;
        return TT_OK;
    }
    m = (tt_memory_rate){0};
    if (may) {
        TT_TRY(measure(o, bytes, &m.rate, err));
        m.time = (int64_t)time(NULL);
        if (o->file != NULL)
            keep(o, processor, &m);
    }
    *out = m;
    return TT_OK;
}
