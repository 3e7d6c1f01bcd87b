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

#include "base/clock.h"
#include "base/limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define cpu_relax() _mm_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ volatile("isb" ::: "memory") /* yield is over at once on many cores */
#else
#define cpu_relax() __asm__ volatile("" ::: "memory")
#endif

/* A decode step crosses a few hundred barriers, each some microseconds after the last: whoever
 * waits stays awake for so long, then sleeps. By the clock, since a pause is 40 cycles on one
 * machine and 140 on the next; a number of rounds lies between two looks at it. */
#define SPIN_SECONDS 60e-6
#define SPIN_ROUNDS  32

#define STACK_BYTES (1u << 20) /* kernels keep some tens of KiB there */

/* A thread's share of a job is cut, so that another one that is done can take what is left of it: a
 * core that answers the disk, or that the host took away, holds up the rest by one part at most.
 * The job that took a part last stands here. Every job takes every part once, so a part is free for
 * job j exactly when it says j - 1, and a worker that comes too late finds nothing. */
enum { PARTS = 4 };

typedef struct share {
    _Alignas(64) _Atomic uint32_t claimed[PARTS];
} share;

/* Whose shares a worker looks at when its own is done: with hundreds of threads, a few are enough
 * to even things out, and all of them would cost more than they save. */
#define NEIGHBOURS 16u

typedef struct worker {
    struct tt_pool *pool;
    pthread_t thread;
    unsigned index;
} worker;

struct tt_pool {
    unsigned threads; /* and shares of a job */
    worker *workers;  /* threads - 1 of them, index from 1 */
    share *shares;
    unsigned started;
    tt_pool_fn fn;
    void *ctx;
    size_t n, grain;
    _Alignas(64) _Atomic uint32_t epoch; /* futex word: a new value is a new job */
    _Atomic uint32_t sleepers;           /* workers that wait for it in the kernel */
    _Atomic bool stop;
    _Alignas(64) _Atomic uint32_t pending; /* futex word: parts not done */
    _Atomic bool waiting;                  /* the caller waits for it in the kernel */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Does part `k` of share `index` of `job` as worker `as`; false when it is taken already. */
static bool take_part(tt_pool *p, uint32_t job, unsigned index, unsigned k, unsigned as)
{
    _Atomic uint32_t *claimed = &p->shares[index].claimed[k];
    uint32_t before = job - 1;
    if (atomic_load_explicit(claimed, memory_order_relaxed) != before ||
        !atomic_compare_exchange_strong(claimed, &before, job))
        return false;
    size_t blocks = (p->n + p->grain - 1) / p->grain, parts = (size_t)p->threads * PARTS,
           at = (size_t)index * PARTS + k;
    size_t begin = blocks * at / parts * p->grain, end = blocks * (at + 1) / parts * p->grain;
    if (end > p->n)
        end = p->n;
    if (begin < end)
        p->fn(p->ctx, begin, end, as);
    return true;
}

/* The worker's own share from its beginning, then what is left of the shares of `others`, from
 * their ends. */
static void take_parts(tt_pool *p, uint32_t job, unsigned as, unsigned others)
{
    uint32_t done = 0;
    for (unsigned k = 0; k < PARTS; k++)
        done += take_part(p, job, as, k, as);
    for (unsigned i = 1; i <= others; i++)
        for (unsigned k = PARTS; k-- > 0;)
            done += take_part(p, job, (as + i) % p->threads, k, as);
    /* Nothing of the job is touched after this. */
    if (done > 0 && atomic_fetch_sub(&p->pending, done) == done && atomic_load(&p->waiting))
        futex_wake(&p->pending, 1);
}

/* Waits, awake, until *word leaves `seen`; false when that took too long. */
static bool spin(_Atomic uint32_t *word, uint32_t seen)
{
    double until = 0;
    for (;;) {
        for (int i = 0; i < SPIN_ROUNDS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen)
                return true;
            cpu_relax();
        }
        double now = tt_now();
        if (until == 0)
            until = now + SPIN_SECONDS;
        else if (now >= until)
            return false;
    }
}

/* The first job after `seen`. */
static uint32_t next_job(tt_pool *p, uint32_t seen)
{
    while (!spin(&p->epoch, seen)) {
        atomic_fetch_add(&p->sleepers, 1);
        if (atomic_load(&p->epoch) == seen)
            futex_wait(&p->epoch, seen);
        atomic_fetch_sub(&p->sleepers, 1);
    }
    return atomic_load_explicit(&p->epoch, memory_order_acquire);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    tt_pool *p = w->pool;
    for (uint32_t job = 0;;) {
        job = next_job(p, job);
        if (atomic_load_explicit(&p->stop, memory_order_acquire))
            return NULL;
        take_parts(p, job, w->index, p->threads - 1 < NEIGHBOURS ? p->threads - 1 : NEIGHBOURS);
    }
}

/* What the default stack is, the user's limit decides, which may be too little. */
static int start_workers(tt_pool *p)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    rc = pthread_attr_setstacksize(&attr, STACK_BYTES);
    while (rc == 0 && p->started + 1 < p->threads) {
        worker *w = &p->workers[p->started];
        w->pool = p;
        w->index = p->started + 1;
        rc = pthread_create(&w->thread, &attr, worker_main, w);
        p->started += rc == 0;
    }
    pthread_attr_destroy(&attr);
    return rc;
}

tt_status tt_pool_create(unsigned threads, tt_pool **out, tt_error *err)
{
    if (threads < 1 || threads > TT_MAX_THREADS)
        return tt_fail(err, TT_ERR_INVALID, "%u threads asked, must be 1 to %u", threads,
                       TT_MAX_THREADS);
    tt_pool *p = aligned_alloc(_Alignof(tt_pool), sizeof *p);
    worker *workers = calloc(threads, sizeof *workers);
    share *shares = aligned_alloc(_Alignof(share), threads * sizeof *shares);
    if (p == NULL || workers == NULL || shares == NULL) {
        free(p);
        free(workers);
        free(shares);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u threads", threads);
    }
    *p = (tt_pool){.threads = threads, .workers = workers, .shares = shares};
    for (unsigned i = 0; i < threads; i++)
        for (unsigned k = 0; k < PARTS; k++)
            atomic_init(&shares[i].claimed[k], 0);
    int rc = start_workers(p);
    if (rc != 0) {
        unsigned failed = p->started + 2;
        tt_pool_close(&p);
        return tt_fail_errno(err, rc, NULL, "cannot start thread %u of %u", failed, threads);
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
    free(p->shares);
    free(p);
    *pool = NULL;
}

unsigned tt_pool_threads(const tt_pool *pool)
{
    return pool->threads;
}

static void wait_for_parts(tt_pool *p)
{
    uint32_t left;
    while ((left = atomic_load_explicit(&p->pending, memory_order_acquire)) != 0) {
        if (spin(&p->pending, left))
            continue;
        atomic_store(&p->waiting, true);
        left = atomic_load(&p->pending);
        if (left != 0)
            futex_wait(&p->pending, left);
        atomic_store(&p->waiting, false);
    }
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
    atomic_store_explicit(&p->pending, p->threads * PARTS, memory_order_relaxed);
    uint32_t job = atomic_load_explicit(&p->epoch, memory_order_relaxed) + 1;
    atomic_store(&p->epoch, job);
    if (atomic_load(&p->sleepers) > 0)
        futex_wake(&p->epoch, (int)p->threads);
    /* All shares: on a busy machine a worker that waits for a core must not hold up the rest. */
    take_parts(p, job, 0, p->threads - 1);
    wait_for_parts(p);
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
