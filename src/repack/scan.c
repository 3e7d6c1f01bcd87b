#include "repack/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define STEP  ((size_t)1 << 20)
#define SMALL (4 * TT_MIB)

typedef struct scan {
    tt_scan_file *files;
    size_t n;
    atomic_size_t next;
    _Atomic uint64_t done;
    atomic_bool stop;
    atomic_uint working;
    const tt_repack_events *ev; /* of a scan that runs on the calling thread */
    uint64_t total;
    pthread_mutex_t lock; /* of the error */
    pthread_cond_t ended;
    tt_error err;
    bool failed;
} scan;

static tt_status stat_file(int fd, const char *path, tt_emitted *is, tt_error *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return tt_fail_errno(err, errno, path, "cannot stat %s", path);
    is->size = (uint64_t)sb.st_size;
    is->mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    return TT_OK;
}

static bool go_on(scan *s)
{
    return s->ev == NULL || s->ev->progress == NULL ||
           s->ev->progress(s->ev->ctx, atomic_load(&s->done), s->total);
}

static tt_status read_blocks(scan *s, size_t i, int fd, unsigned char *buf, size_t step,
                             tt_sha256 *sha, tt_error *err)
{
    tt_scan_file *f = &s->files[i];
    for (uint64_t at = 0; at < f->is.size;) {
        size_t n = f->is.size - at < step ? (size_t)(f->is.size - at) : step;
        if (atomic_load(&s->stop))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        TT_TRY(tt_file_pread(fd, f->path, buf, n, at, err));
        TT_TRY(tt_sha256_update(sha, buf, n, err));
        if (f->look != NULL)
            TT_TRY(f->look(f->ctx, i, at, buf, n, err));
        atomic_fetch_add(&s->done, n);
        if (!go_on(s))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        at += n;
    }
    return tt_sha256_finish(sha, f->is.sha256, err);
}

static tt_status scan_file(scan *s, size_t i, tt_error *err)
{
    tt_scan_file *f = &s->files[i];
    size_t step = f->step > 0 ? f->step : STEP;
    unsigned char *buf = malloc(step);
    tt_sha256 *sha = NULL;
    tt_emitted after = {0};
    int fd = -1;
    tt_status st = buf == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu bytes", step)
                               : tt_file_open(f->path, &fd, NULL, err);
    if (st == TT_OK)
        st = tt_sha256_create(&sha, err);
    if (st == TT_OK)
        st = stat_file(fd, f->path, &f->is, err);
    if (st == TT_OK) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        st = read_blocks(s, i, fd, buf, step, sha, err);
    }
    if (st == TT_OK)
        st = stat_file(fd, f->path, &after, err);
    if (st == TT_OK && (after.size != f->is.size || after.mtime_ns != f->is.mtime_ns))
        st = tt_fail_at(err, TT_ERR_STATE, f->path, -1, "%s changed while it was read", f->path);
    if (fd >= 0)
        close(fd);
    tt_sha256_close(&sha);
    free(buf);
    return st;
}

static void *work(void *ctx)
{
    scan *s = ctx;
    size_t i;
    while ((i = atomic_fetch_add(&s->next, 1)) < s->n && !atomic_load(&s->stop)) {
        tt_error err = {0};
        if (scan_file(s, i, &err) == TT_OK)
            continue;
        pthread_mutex_lock(&s->lock);
        /* Others that were stopped by the first failure have nothing to tell. */
        if (!s->failed && !(atomic_load(&s->stop) && err.status == TT_ERR_ABORTED)) {
            s->failed = true;
            s->err = err;
        }
        pthread_mutex_unlock(&s->lock);
        atomic_store(&s->stop, true);
    }
    pthread_mutex_lock(&s->lock);
    atomic_fetch_sub(&s->working, 1);
    pthread_cond_signal(&s->ended);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Waits a little, or until a thread ends. */
static void wait_a_little(scan *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&s->lock);
    if (atomic_load(&s->working) > 0)
        pthread_cond_timedwait(&s->ended, &s->lock, &until);
    pthread_mutex_unlock(&s->lock);
}

static uint64_t total_of(const tt_scan_file *files, size_t n)
{
    uint64_t sum = 0;
    struct stat sb;
    for (size_t i = 0; i < n; i++)
        if (stat(files[i].path, &sb) == 0)
            sum += (uint64_t)sb.st_size;
    return sum;
}

tt_status tt_scan(tt_scan_file *files, size_t n, unsigned threads, const tt_repack_events *ev,
                  tt_error *err)
{
    scan s = {.files = files,
              .n = n,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .ended = PTHREAD_COND_INITIALIZER};
    pthread_t ids[TT_MAX_THREADS];
    uint64_t total = total_of(files, n);
    unsigned started = 0;
    if (threads > n)
        threads = (unsigned)n;
    if (threads > TT_MAX_THREADS)
        threads = TT_MAX_THREADS;
    if (threads == 1 || total < SMALL)
        threads = 0; /* it is not worth a thread */
    for (unsigned i = 0; i < threads; i++) {
        atomic_fetch_add(&s.working, 1);
        if (pthread_create(&ids[started], NULL, work, &s) == 0)
            started++;
        else
            atomic_fetch_sub(&s.working, 1);
    }
    if (started == 0 && n > 0) {
        atomic_store(&s.working, 1);
        s.ev = ev;
        s.total = total > 0 ? total : 1;
        work(&s);
    }
    bool on = true;
    while (atomic_load(&s.working) > 0) {
        wait_a_little(&s);
        if (on && ev != NULL && ev->progress != NULL &&
            !ev->progress(ev->ctx, atomic_load(&s.done), total > 0 ? total : 1)) {
            on = false;
            atomic_store(&s.stop, true);
        }
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    if (on && !s.failed && ev != NULL && ev->progress != NULL &&
        !ev->progress(ev->ctx, total > 0 ? total : 1, total > 0 ? total : 1))
        on = false;
    if (s.failed && err != NULL)
        *err = s.err;
    if (s.failed)
        return s.err.status;
    return on ? TT_OK : tt_fail(err, TT_ERR_ABORTED, "stopped");
}
