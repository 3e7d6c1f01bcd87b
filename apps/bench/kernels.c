/* kernels: how fast a level's kernels are, beside what the machine can do at most.
 *
 * Every kernel is proved against the reference first; one that fails is named and nothing is timed.
 * Kernels and ceilings are then measured by turns, round after round, because memory and clocks of
 * shared machines drift; a kernel's figure is its median, a ceiling is the best that was seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/ceilings.h"
#include "bench/kernel_cases.h"

#define MOST_ROUNDS 100u
#define SLICE       0.03 /* seconds of a case in a round, at least one run */

typedef struct measured {
    kernel_case c;
    double error, allowed;
    double seconds[MOST_ROUNDS]; /* of one run */
    uint32_t turn;
} measured;

typedef struct kernels_run {
    bench_options o;
    uint32_t rounds;
    uint64_t memory;
    const char *only;
    tt_backend *be, *ref;
    void *block; /* what the ceiling of reading is measured on */
    measured *m;
    unsigned n;
    ceilings top;
} kernels_run;

static tt_status open_backends(kernels_run *r, tt_error *err)
{
    tt_backend_limits limits = {.head_dim = 256, .delta = {16, 32, 128, 128}};
    unsigned threads = r->o.threads > 0 ? r->o.threads : tt_physical_cores();
    TT_TRY(tt_backend_create("cpu", bench_levels[r->o.level], threads, &limits, &r->be, err));
    TT_TRY(tt_backend_create("ref", NULL, threads, &limits, &r->ref, err));
    TT_TRY(tt_mem_alloc(r->memory, "reading", &r->block, err));
    memset(r->block, 1, r->memory);
    r->m = calloc(KERNEL_CASES_MOST, sizeof *r->m);
    return r->m != NULL ? TT_OK : tt_fail(err, TT_ERR_NOMEM, "out of memory for the results");
}

static void close_all(kernels_run *r)
{
    for (unsigned i = 0; i < r->n; i++)
        kernel_case_free(&r->m[i].c);
    free(r->m);
    tt_mem_free(r->block, r->memory);
    tt_backend_close(&r->be);
    tt_backend_close(&r->ref);
}

static tt_status prove(kernels_run *r, measured *m, tt_error *err)
{
    m->error = m->c.prove(m->c.work, r->be, r->ref, &m->allowed);
    if (m->error <= m->allowed)
        return TT_OK;
    return tt_fail(err, TT_ERR_NUMERIC,
                   "%s %s at level %s differs from the reference by %.3g, %.3g is allowed", m->c.op,
                   m->c.shape, r->be->level, m->error, m->allowed);
}

static tt_status make_cases(kernels_run *r, tt_error *err)
{
    tt_status st;
    for (unsigned i = 0;; i++) {
        measured *m = &r->m[r->n];
        st = kernel_case_make(i, r->memory, &m->c, err);
        if (st != TT_OK)
            return st == TT_ERR_NOT_FOUND ? TT_OK : st;
        if (r->only != NULL && strstr(m->c.op, r->only) == NULL) {
            kernel_case_free(&m->c);
            continue;
        }
        r->n++;
        TT_TRY(prove(r, m, err));
    }
}

static void measure_once(kernels_run *r, measured *m, uint32_t round)
{
    double begin = tt_now(), spent = 0;
    uint32_t runs = 0;
    do {
        m->c.run(m->c.work, r->be, m->turn);
        m->turn = (m->turn + 1) % m->c.turns;
        runs++;
        spent = tt_now() - begin;
    } while (spent < SLICE);
    m->seconds[round] = spent / runs;
}

static tt_status measure(kernels_run *r, tt_error *err)
{
    for (uint32_t round = 0; round < r->rounds; round++) {
        for (unsigned p = 0; p < CEILING_PATTERNS; p++)
            ceiling_read(&r->top, r->be->pool, r->block, r->memory, p);
        for (unsigned i = 0; i < r->n; i++) {
            if (!bench_goes_on(NULL))
                return tt_fail(err, TT_ERR_ABORTED, "stopped");
            measure_once(r, &r->m[i], round);
            ceiling_arithmetic(&r->top, r->be);
        }
    }
    return TT_OK;
}

/* ---- what comes out ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static json_t *result(kernels_run *r, measured *m)
{
    bool memory = m->c.bound == BOUND_MEMORY;
    double top = memory                                      ? r->top.read_bytes
                 : m->c.bound == BOUND_DOT && r->top.dot > 0 ? r->top.dot
                                                             : r->top.f32;
    qsort(m->seconds, r->rounds, sizeof *m->seconds, ascending);
    double work = memory ? m->c.bytes : m->c.macs, median = m->seconds[r->rounds / 2];
    double rate = work / median, share = top > 0 ? rate / top : 0;
    printf("%-24s %-48s %9.3f ms %8.1f %-6s %4.0f %%  %.1e\n", m->c.op, m->c.shape, median * 1e3,
           rate * 1e-9, memory ? "GB/s" : "GMAC/s", share * 100, m->error);
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "op", m->c.op, "shape",
                     m->c.shape, "unit", memory ? "bytes/s" : "multiply-adds/s", "median", rate,
                     "min", work / m->seconds[r->rounds - 1], "max", work / m->seconds[0],
                     "seconds", median, "ceiling", top, "share", share, "error", m->error);
}

static int report(kernels_run *r)
{
    json_t *obj = json_object(), *list = json_array();
    printf("level %s, %u threads; at most: %.1f GB/s read (%s), %.1f GMAC/s in f32", r->be->level,
           tt_pool_threads(r->be->pool), r->top.read_bytes * 1e-9, r->top.pattern,
           r->top.f32 * 1e-9);
    if (r->top.dot > 0)
        printf(", %.1f GMAC/s in whole numbers", r->top.dot * 1e-9);
    printf("\n%-24s %-48s %12s %15s %6s  %s\n", "op", "operands", "median", "rate", "share",
           "error");
    for (unsigned i = 0; i < r->n; i++)
        json_array_append_new(list, result(r, &r->m[i]));
    bench_set(obj, "command", json_string("kernels"));
    bench_set(obj, "version", json_string(tt_version()));
    bench_set(obj, "cpu_level", json_string(r->be->level));
    bench_set(obj, "threads", json_integer(tt_pool_threads(r->be->pool)));
    bench_set(obj, "rounds", json_integer(r->rounds));
    bench_set(obj, "read_bytes_per_second", json_real(r->top.read_bytes));
    bench_set(obj, "read_pattern", json_string(r->top.pattern));
    bench_set(obj, "f32_per_second", json_real(r->top.f32));
    bench_set(obj, "dot_per_second", json_real(r->top.dot));
    bench_set(obj, "kernels", list);
    return bench_finish(&r->o, obj);
}

int bench_kernels(int argc, char **argv)
{
    kernels_run r = {.rounds = 5, .memory = 256 * TT_MIB};
    tt_arg table[] = {
        TT_OPT_HEADING("Kernels:"),
        TT_OPT_ENUM("cpu-level", &r.o.level, bench_levels, "instruction set (auto)"),
        TT_OPT_U32("threads", &r.o.threads, "N", 1, TT_MAX_THREADS,
                   "threads, unless given one a physical core"),
        TT_OPT_STRING("only", &r.only, "TEXT", "only kernels whose name has this text"),
        TT_OPT_U32("rounds", &r.rounds, "N", 1, MOST_ROUNDS, "times that each is measured (5)"),
        TT_OPT_SIZE("memory", &r.memory, "SIZE", TT_MIB, 16 * TT_GIB,
                    "what is read from memory; more than the caches hold (256M)"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    tt_error err = {.offset = -1};
    int rc = bench_parse("kernels", "Proves the kernels of a level, then measures them.", table,
                         &r.o, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_status st = open_backends(&r, &err);
    if (st == TT_OK)
        st = make_cases(&r, &err);
    if (st == TT_OK && r.n == 0)
        st = tt_fail(&err, TT_ERR_INVALID, "no kernel has \"%s\" in its name", r.only);
    if (st == TT_OK)
        st = measure(&r, &err);
    rc = st == TT_OK ? report(&r) : bench_fail(&err);
    close_all(&r);
    return rc;
}
