#include "base/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define cpu_relax() _mm_pause()
#else
#define cpu_relax() __asm__ volatile("" ::: "memory")
#endif

/* A decode step crosses a few hundred barriers, each a few microseconds after the last: spin that
 * long, then sleep. */
#define SPIN_ROUNDS 4000

typedef struct worker {
    struct tt_pool *pool;
    pthread_t thread;
    unsigned index;
} worker;

struct tt_pool {
    unsigned threads;
    worker *workers; /* threads - 1 of them, index from 1 */
    unsigned started;
    _Atomic uint32_t epoch;   /* futex word: a new value is a new job */
    _Atomic uint32_t pending; /* futex word: workers still busy */
    _Atomic bool stop;
    tt_pool_fn fn;
    void *ctx;
    size_t n, grain;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void run_part(tt_pool *p, unsigned index)
{
    size_t blocks = (p->n + p->grain - 1) / p->grain;
    size_t begin = blocks * index / p->threads * p->grain,
           end = blocks * (index + 1) / p->threads * p->grain;
    if (end > p->n)
        end = p->n;
    if (begin < end)
        p->fn(p->ctx, begin, end, index);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    tt_pool *p = w->pool;
    uint32_t seen = 0;
    for (;;) {
        uint32_t now;
        for (int spin = 0; (now = atomic_load_explicit(&p->epoch, memory_order_acquire)) == seen;
             spin++) {
            if (spin < SPIN_ROUNDS)
                cpu_relax();
            else
                futex_wait(&p->epoch, seen);
        }
        seen = now;
        if (atomic_load_explicit(&p->stop, memory_order_acquire))
            return NULL;
        run_part(p, w->index);
        if (atomic_fetch_sub_explicit(&p->pending, 1, memory_order_acq_rel) == 1)
            futex_wake(&p->pending, 1);
    }
}

tt_status tt_pool_create(unsigned threads, tt_pool **out, tt_error *err)
{
    if (threads < 1 || threads > TT_MAX_THREADS)
        return tt_fail(err, TT_ERR_INVALID, "%u threads asked, must be 1 to %u", threads,
                       TT_MAX_THREADS);
    tt_pool *p = calloc(1, sizeof *p);
    worker *workers = calloc(threads, sizeof *workers);
    if (p == NULL || workers == NULL) {
        free(p);
        free(workers);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u threads", threads);
    }
    p->threads = threads;
    p->workers = workers;
    for (unsigned i = 1; i < threads; i++) {
        worker *w = &workers[i - 1];
        w->pool = p;
        w->index = i;
        int rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc != 0) {
            tt_pool_close(&p);
            return tt_fail_errno(err, rc, NULL, "cannot start thread %u of %u", i + 1, threads);
        }
        p->started++;
    }
    *out = p;
    return TT_OK;
}

void tt_pool_close(tt_pool **pool)
{
    if (pool == NULL || *pool == NULL)
        return;
    tt_pool *p = *pool;
    atomic_store_explicit(&p->stop, true, memory_order_release);
    atomic_fetch_add_explicit(&p->epoch, 1, memory_order_acq_rel);
    futex_wake(&p->epoch, (int)TT_MAX_THREADS);
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p);
    *pool = NULL;
}

unsigned tt_pool_threads(const tt_pool *pool)
{
    return pool->threads;
}

void tt_pool_run(tt_pool *p, size_t n, size_t grain, tt_pool_fn fn, void *ctx)
{
    if (p->threads == 1 || n <= grain) {
        if (n > 0)
            fn(ctx, 0, n, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->n = n;
    p->grain = grain;
    atomic_store_explicit(&p->pending, p->threads - 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->epoch, 1, memory_order_acq_rel);
    futex_wake(&p->epoch, (int)p->threads);
    run_part(p, 0);
    uint32_t left;
    for (int spin = 0; (left = atomic_load_explicit(&p->pending, memory_order_acquire)) != 0;
         spin++) {
        if (spin < SPIN_ROUNDS)
            cpu_relax();
        else
            futex_wait(&p->pending, left);
    }
}

/* Counts distinct (package, core) pairs among the CPUs of our affinity mask. */
unsigned tt_physical_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    uint64_t seen[TT_MAX_THREADS];
    unsigned cores = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && cores < TT_MAX_THREADS; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        long ids[2] = {0, cpu};
        const char *leaf[2] = {"physical_package_id", "core_id"};
        for (int k = 0; k < 2; k++) {
            char path[128];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, leaf[k]);
            FILE *f = fopen(path, "re");
            if (f != NULL) {
                if (fscanf(f, "%ld", &ids[k]) != 1)
                    ids[k] = k == 0 ? 0 : cpu;
                fclose(f);
            }
        }
        uint64_t key = (uint64_t)(uint32_t)ids[0] << 32 | (uint32_t)ids[1];
        unsigned i = 0;
        while (i < cores && seen[i] != key)
            i++;
        if (i == cores)
            seen[cores++] = key;
    }
    return cores > 0 ? cores : 1;
}
