#include "bench/ceilings.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"

/* Rows of ROW bytes that are read side by side, and how far ahead each is asked for. */
typedef struct order {
    uint32_t rows, ahead;
} order;

#define ROW 1024u

static const order patterns[CEILING_PATTERNS] = {
    {1, 0},    {1, 512},  {1, 1024}, {1, 2048}, {1, 4096},  {4, 0},
    {4, 1024}, {4, 2048}, {4, 4096}, {8, 4096}, {16, 4096}, {16, 16384},
};

typedef uint64_t piece __attribute__((vector_size(16)));

typedef struct read_job {
    const char *block;
    order p;
    _Atomic uint64_t sink;
} read_job;

/* Items are groups of rows. */
static void read_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    read_job *j = ctx;
    uint32_t rows = j->p.rows, ahead = j->p.ahead;
    piece a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = begin; i < end; i++) {
        const char *group = j->block + i * rows * ROW;
        for (uint32_t at = 0; at < ROW; at += 64)
            for (uint32_t r = 0; r < rows; r++) {
                const piece *p = (const piece *)(const void *)(group + r * ROW + at);
                if (ahead > 0)
                    __builtin_prefetch((const char *)p + ahead);
                a |= p[0], b |= p[1], c |= p[2], d |= p[3];
            }
    }
    a |= b | c | d;
    atomic_fetch_or_explicit(&j->sink, a[0] | a[1], memory_order_relaxed);
}

void ceiling_read(ceilings *c, tt_pool *pool, const void *block, size_t bytes, unsigned pattern)
{
    read_job j = {.block = block, .p = patterns[pattern]};
    size_t group = (size_t)j.p.rows * ROW, n = bytes / group;
    double begin = tt_now();
    tt_pool_run(pool, n, 1, read_part, &j);
    double rate = (double)(n * group) / (tt_now() - begin);
    if (rate <= c->read_bytes)
        return;
    c->read_bytes = rate;
    snprintf(c->pattern, sizeof c->pattern, "%u row%s, %u bytes ahead", j.p.rows,
             j.p.rows > 1 ? "s" : "", j.p.ahead);
}

typedef struct peak_job {
    uint64_t (*peak)(uint32_t rounds);
    _Atomic uint64_t done;
} peak_job;

static void peak_part(void *ctx, size_t begin, size_t end, unsigned worker)
{
    peak_job *j = ctx;
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&j->done, j->peak(20000));
}

static double peak_rate(tt_backend *be, uint64_t (*peak)(uint32_t rounds))
{
    if (peak == NULL)
        return 0;
    peak_job j = {.peak = peak};
    double begin = tt_now();
    tt_pool_run(be->pool, tt_pool_threads(be->pool) * 8, 1, peak_part, &j);
    return (double)j.done / (tt_now() - begin);
}

void ceiling_arithmetic(ceilings *c, tt_backend *be)
{
    const tt_cpu_impl *im = be->impl;
    double f32 = peak_rate(be, im->k.peak_f32), dot = peak_rate(be, im->k.peak_dot);
    c->f32 = f32 > c->f32 ? f32 : c->f32;
    c->dot = dot > c->dot ? dot : c->dot;
}
