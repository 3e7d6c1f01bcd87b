#include "store/state_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

#define HOLD_SECONDS 0.25 /* after the last read of an expert */
#define NICE         10   /* of the thread that writes */

typedef struct job {
    tt_store_node *node; /* NULL: it is not wanted any more */
    tt_store_part part;
    uint32_t kind;
    const void *payload;
} job;

struct tt_store {
    int dir, lock;
    bool threaded, have_mutex;
    tt_store_io io;
    uint64_t limit, kv_bytes, state_bytes;
    char other[2 * TT_STORE_MAX_KEY];
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work, done; /* something to do; something was done */
    _Atomic double held;       /* the last read of an expert */
    /* guarded by mutex */
    tt_store_table table;
    job *jobs; /* [n_jobs] from the first on */
    size_t n_jobs, cap_jobs, first;
    job now; /* being written; payload NULL: none */
    bool give_up, stop, dirty, idle;
    bool whole; /* what is queued ends with checkpoints: tidy after it */
    const tt_store_node *pinned;
    tt_store_stats stats;
    tt_state_refusal last;
};

static void refuse(tt_store *s, tt_state_refusal why)
{
    s->stats.refused[why]++;
    s->last = why;
}

/* ---- nodes that go ---- */

static void remove_file(tt_store *s, const tt_store_node *x, tt_store_part part)
{
    char name[TT_STORE_NAME];
    tt_store_file_name(&x->chain, part, name);
    (void)s->io.remove(s->io.ctx, s->dir, name);
}

static void drop_job(tt_store *s, job *j)
{
    j->node = NULL;
    s->stats.dropped++;
}

static void gone(void *ctx, tt_store_node *x)
{
    tt_store *s = ctx;
    if (x->kv_pending || x->state_pending) {
        for (size_t i = s->first; i < s->n_jobs; i++)
            if (s->jobs[i].node == x)
                drop_job(s, &s->jobs[i]);
        if (s->now.node == x)
            s->now.node = NULL;
    }
    if (!x->kv_pending && x->kv_bytes > 0)
        remove_file(s, x, TT_STORE_KV);
    if (x->kind > 0 && x->state_bytes > 0)
        remove_file(s, x, TT_STORE_STATE);
    s->dirty = true;
}

static uint64_t size_now(const tt_store *s)
{
    return s->table.bytes + tt_store_table_index_bytes(&s->table);
}

static bool evict_one(tt_store *s)
{
    tt_store_node *x = tt_store_table_cheapest(&s->table, s->pinned);
    if (x == NULL)
        return false;
    if (x->state_bytes > 0)
        remove_file(s, x, TT_STORE_STATE);
    s->dirty = true;
    s->stats.evicted++;
    tt_store_table_forget(&s->table, x);
    return true;
}

static bool make_room(tt_store *s, uint64_t bytes)
{
    while (size_now(s) + bytes + TT_STORE_ITEM > s->limit)
        if (!evict_one(s))
            return false;
    return true;
}

/* ---- the start ---- */

static bool file_there(const tt_store *s, const tt_digest *chain, tt_store_part part,
                       uint64_t payload)
{
    char name[TT_STORE_NAME];
    struct stat sb;
    tt_store_file_name(chain, part, name);
    return payload == 0 || (fstatat(s->dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
                            S_ISREG(sb.st_mode) && (uint64_t)sb.st_size == payload + TT_STORE_HEAD);
}

static bool keep(void *ctx, tt_store_item *it)
{
    tt_store *s = ctx;
    bool own = it->key == 0;
    if (!file_there(s, &it->chain, TT_STORE_KV, it->kv_bytes) ||
        (own && it->kv_bytes != s->kv_bytes))
        return false;
    if (it->kind > 0 && (!file_there(s, &it->chain, TT_STORE_STATE, it->state_bytes) ||
                         (own && it->state_bytes != s->state_bytes))) {
        it->kind = 0;
        it->state_bytes = 0;
    }
    return true;
}

/* An index that is not to be believed is none. */
static tt_status load_index(tt_store *s, uint32_t kinds, tt_error *err)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    tt_store_index ix;
    tt_status st = tt_store_file_load(&s->io, s->dir, "index", TT_STORE_MAX_INDEX, &bytes, &n, err);
    if (st == TT_OK)
        st = tt_store_index_parse(bytes, n, kinds, &ix, err);
    if (st == TT_OK)
        st = tt_store_table_load(&s->table, &ix, keep, s, err);
    free(bytes);
    if (st == TT_ERR_CORRUPT) {
        refuse(s, TT_REFUSED_CORRUPT);
        (void)s->io.remove(s->io.ctx, s->dir, "index");
    }
    return st == TT_ERR_CORRUPT || st == TT_ERR_NOT_FOUND ? TT_OK : st;
}

static bool wanted(const tt_store *s, const char *name, const tt_digest *chain, int part)
{
    const tt_store_node *x = part != 0 ? tt_store_table_get(&s->table, chain) : NULL;
    if (x == NULL)
        return part == 0 && strcmp(name, "index") == 0;
    return part == TT_STORE_KV ? x->kv_bytes > 0 : x->kind > 0 && x->state_bytes > 0;
}

/* Removes what no index names. */
static tt_status sweep(tt_store *s, const char *path, tt_error *err)
{
    DIR *d = fdopendir(openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (d == NULL)
        return tt_fail_errno(err, errno, path, "cannot list %s", path);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        tt_digest chain;
        int part = 0;
        if (tt_store_name_is_ours(e->d_name, &chain, &part) && !wanted(s, e->d_name, &chain, part))
            s->stats.swept += s->io.remove(s->io.ctx, s->dir, e->d_name) == 0;
    }
    closedir(d);
    return TT_OK;
}

/* ---- writing ---- */

static bool held(const tt_store *s)
{
    return tt_now() - atomic_load_explicit(&s->held, memory_order_relaxed) < HOLD_SECONDS;
}

static void wait_a_little(tt_store *s)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += (long)(HOLD_SECONDS * 1e9 / 4);
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&s->work, &s->mutex, &at);
}

/* Between two pieces; without the mutex. */
static bool go_on(void *ctx)
{
    tt_store *s = ctx;
    pthread_mutex_lock(&s->mutex);
    while (held(s) && !s->stop && !s->give_up)
        wait_a_little(s);
    bool on = !s->give_up;
    pthread_mutex_unlock(&s->mutex);
    return on;
}

static uint64_t payload_of(const tt_store *s, tt_store_part part)
{
    return part == TT_STORE_KV ? s->kv_bytes : s->state_bytes;
}

static tt_status write_block(tt_store *s, const tt_store_head *h, const void *payload,
                             tt_error *err)
{
    uint8_t head[TT_STORE_HEAD];
    char name[TT_STORE_NAME];
    tt_store_head with_sum = *h;
    with_sum.crc = tt_crc32c(0, payload, h->bytes);
    tt_store_head_write(&with_sum, head);
    tt_store_file_name(&h->chain, h->part, name);
    return tt_store_file_write(&s->io, s->dir, name, head, sizeof head, payload, h->bytes, go_on, s,
                               err);
}

static void failed(tt_store *s, const job *j, tt_status st)
{
    s->stats.dropped++;
    if (st != TT_ERR_ABORTED)
        refuse(s, st == TT_ERR_LIMIT ? TT_REFUSED_TOO_LARGE : TT_REFUSED_IO);
    if (j->part == TT_STORE_KV) {
        tt_store_table_remove(&s->table, j->node);
    } else {
        j->node->state_pending = false;
        tt_store_table_prune(&s->table, j->node);
    }
}

/* A payload of no bytes has no file. With the mutex, which is let go while the disk works. */
static void do_job(tt_store *s)
{
    uint64_t bytes = payload_of(s, s->now.part);
    tt_status st = TT_OK;
    tt_store_head h = {.part = s->now.part,
                       .tokens = s->now.node->tokens,
                       .made = s->now.node->made,
                       .bytes = bytes,
                       .chain = s->now.node->chain,
                       .key = s->table.root[0].chain};
    if (!make_room(s, bytes + TT_STORE_HEAD)) {
        st = TT_ERR_LIMIT;
    } else if (bytes > 0) {
        pthread_mutex_unlock(&s->mutex);
        st = write_block(s, &h, s->now.payload, NULL);
        pthread_mutex_lock(&s->mutex);
        s->stats.writes += st == TT_OK;
        s->stats.written += st == TT_OK ? bytes + TT_STORE_HEAD : 0;
    }
    job j = s->now;
    s->now = (job){0};
    if (j.node == NULL) { /* it went while its file was written */
        char name[TT_STORE_NAME];
        tt_store_file_name(&h.chain, h.part, name);
        s->stats.dropped++;
        (void)s->io.remove(s->io.ctx, s->dir, name);
    } else if (st != TT_OK) {
        failed(s, &j, st);
    } else {
        tt_store_table_there(&s->table, j.node, j.part, j.kind);
        s->dirty = true;
    }
    s->give_up = false;
    pthread_cond_broadcast(&s->done);
}

/* With the mutex, which is let go while the disk works. The index that was there stays when this
 * fails. */
static void publish(tt_store *s)
{
    tt_buf b;
    tt_buf_init(&b, TT_STORE_MAX_INDEX);
    tt_buf_reserve(&b, tt_store_table_index_bytes(&s->table));
    tt_store_table_write(&s->table, &b);
    tt_status st = tt_buf_status(&b, NULL);
    s->dirty = false;
    pthread_mutex_unlock(&s->mutex);
    if (st == TT_OK)
        st = tt_store_file_write(&s->io, s->dir, "index", b.data, b.len, "", 0, NULL, NULL, NULL);
    size_t n = b.len;
    tt_buf_free(&b);
    pthread_mutex_lock(&s->mutex);
    if (st == TT_OK) {
        s->stats.index_writes++;
        s->stats.index_written += n;
    } else {
        s->dirty = true;
        refuse(s, TT_REFUSED_IO);
    }
}

/* The next job that is still wanted, to s->now. */
static bool take_job(tt_store *s)
{
    while (s->first < s->n_jobs) {
        s->now = s->jobs[s->first++];
        if (s->now.node != NULL)
            return true;
    }
    s->now = (job){0};
    s->first = s->n_jobs = 0;
    return false;
}

/* Whether anything went. */
static bool tidy(tt_store *s)
{
    uint32_t had = s->table.n_nodes;
    tt_store_table_tidy(&s->table);
    return s->table.n_nodes != had;
}

static void *writer(void *arg)
{
    tt_store *s = arg;
    bool news = false; /* since the last index that was tried */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (held(s) && !s->stop && s->first < s->n_jobs)
            wait_a_little(s);
        if (take_job(s)) {
            bool whole = s->now.part == TT_STORE_STATE;
            do_job(s);
            news = true;
            if (whole && s->dirty) {
                publish(s);
                news = false;
            }
            continue;
        }
        if (s->whole)
            news = tidy(s) || news;
        s->whole = false;
        if (s->dirty && (news || s->stop))
            publish(s);
        news = false;
        if (s->first < s->n_jobs || s->whole) /* while the index was written */
            continue;
        if (s->stop)
            break;
        s->idle = true;
        pthread_cond_broadcast(&s->done);
        pthread_cond_wait(&s->work, &s->mutex);
        s->idle = false;
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static tt_status start_writer(tt_store *s, tt_error *err)
{
    pthread_condattr_t a;
    sigset_t all, before;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->work, &a);
    pthread_cond_init(&s->done, &a);
    pthread_condattr_destroy(&a);
    s->have_mutex = true;
    /* Signals are the program's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&s->thread, NULL, writer, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->threaded = e == 0;
    return e == 0 ? TT_OK : tt_fail_errno(err, e, NULL, "cannot start a thread that writes");
}

/* ---- life ---- */

static tt_status open_all(tt_store *s, const tt_store_options *o, tt_error *err)
{
    uint32_t most = o->max_blocks < TT_STORE_MAX_ITEMS ? o->max_blocks : TT_STORE_MAX_ITEMS;
    TT_TRY(tt_store_dir_open(o->dir, &s->dir, err));
    TT_TRY(tt_store_dir_lock(s->dir, o->dir, &s->lock, err));
    TT_TRY(tt_store_table_init(&s->table, o->key, most, err));
    s->table.gone = gone;
    s->table.ctx = s;
    TT_TRY(load_index(s, o->kinds, err));
    TT_TRY(sweep(s, o->dir, err));
    if (!make_room(s, 0))
        return tt_fail_at(err, TT_ERR_LIMIT, o->dir, -1, "its limit of %llu bytes holds nothing",
                          (unsigned long long)o->limit);
    tt_store_table_other_key(&s->table, s->other, sizeof s->other);
    return start_writer(s, err);
}

tt_status tt_store_open(const tt_store_options *o, tt_store **out, tt_error *err)
{
    tt_store *s = calloc(1, sizeof *s);
    if (s == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a store of prompt state");
    s->dir = s->lock = -1;
    s->held = -1e9;
    s->io = o->io != NULL ? *o->io : tt_store_system_io;
    s->limit = s->stats.limit = o->limit;
    s->kv_bytes = o->kv_bytes;
    s->state_bytes = o->state_bytes;
    tt_status st = open_all(s, o, err);
    if (st != TT_OK) {
        tt_store_close(&s);
        return st;
    }
    *out = s;
    return TT_OK;
}

void tt_store_close(tt_store **store)
{
    tt_store *s = store != NULL ? *store : NULL;
    if (s == NULL)
        return;
    if (s->threaded) {
        pthread_mutex_lock(&s->mutex);
        s->stop = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->thread, NULL);
    }
    if (s->have_mutex) {
        pthread_mutex_destroy(&s->mutex);
        pthread_cond_destroy(&s->work);
        pthread_cond_destroy(&s->done);
    }
    tt_store_table_free(&s->table);
    if (s->lock >= 0)
        close(s->lock);
    if (s->dir >= 0)
        close(s->dir);
    free(s->jobs);
    free(s);
    *store = NULL;
}

/* ---- finding ---- */

static tt_store_found found(tt_store *s, tt_store_node *x)
{
    s->pinned = x;
    if (x == NULL)
        return (tt_store_found){0};
    x->used = s->table.clock;
    return (tt_store_found){
        .tokens = x->tokens, .kind = x->kind, .cold = x->prompted == x->tokens, .node = x};
}

tt_store_found tt_store_find(tt_store *s, const uint32_t *ids, uint32_t most, uint32_t context)
{
    tt_store_node *reached = NULL;
    pthread_mutex_lock(&s->mutex);
    s->table.clock++;
    s->dirty = true; /* the clock; written with the next block */
    tt_store_node *x = tt_store_table_find(&s->table, ids, most, &reached);
    if (s->other[0] != '\0' && s->table.root[0].child == NULL)
        refuse(s, TT_REFUSED_KEY);
    else if (x == NULL && reached->tokens > 0 && reached->tokens + TT_BLOCK > most &&
             tt_store_table_beyond(&s->table, reached, context))
        refuse(s, TT_REFUSED_CONTEXT);
    tt_store_found f = found(s, x);
    pthread_mutex_unlock(&s->mutex);
    return f;
}

tt_store_found tt_store_find_again(tt_store *s, const uint32_t *ids, uint32_t most)
{
    pthread_mutex_lock(&s->mutex);
    tt_store_found f = found(s, tt_store_table_find(&s->table, ids, most, NULL));
    pthread_mutex_unlock(&s->mutex);
    return f;
}

static tt_status read_block(tt_store *s, const tt_store_node *x, tt_store_part part, void *payload,
                            tt_error *err)
{
    uint8_t head[TT_STORE_HEAD];
    char name[TT_STORE_NAME];
    tt_store_head h;
    uint64_t bytes = payload_of(s, part);
    tt_store_file_name(&x->chain, part, name);
    TT_TRY(tt_store_file_read(&s->io, s->dir, name, head, payload, bytes, err));
    TT_TRY(tt_store_head_read(head, &h, err));
    if (h.part != part || h.tokens != x->tokens || h.made != x->made || h.bytes != bytes ||
        memcmp(&h.chain, &x->chain, sizeof h.chain) != 0 ||
        memcmp(&h.key, &s->table.root[0].chain, sizeof h.key) != 0)
        return tt_fail_at(err, TT_ERR_CORRUPT, name, -1, "is another block's");
    if (h.crc != tt_crc32c(0, payload, bytes))
        return tt_fail_at(err, TT_ERR_CORRUPT, name, TT_STORE_HEAD, "does not match its checksum");
    return TT_OK;
}

/* Rows go with all below them, a checkpoint alone. */
static void lose(tt_store *s, tt_store_node *x, tt_store_part part)
{
    if (part == TT_STORE_KV) {
        tt_store_table_remove(&s->table, x);
        return;
    }
    remove_file(s, x, TT_STORE_STATE);
    s->dirty = true;
    tt_store_table_forget(&s->table, x);
}

tt_status tt_store_read(tt_store *s, const tt_store_node *node, tt_store_part part, void *payload,
                        tt_error *err)
{
    uint64_t bytes = payload_of(s, part);
    if (bytes == 0)
        return TT_OK;
    /* What was found stays, with all above it: the file is there without the mutex. */
    tt_status st = read_block(s, node, part, payload, err);
    pthread_mutex_lock(&s->mutex);
    s->stats.reads++;
    s->stats.read += bytes + TT_STORE_HEAD;
    if (st != TT_OK) {
        refuse(s,
               st == TT_ERR_CORRUPT || st == TT_ERR_NOT_FOUND ? TT_REFUSED_CORRUPT : TT_REFUSED_IO);
        s->pinned = NULL;
        lose(s, (tt_store_node *)node, part);
        pthread_cond_broadcast(&s->done);
    }
    pthread_mutex_unlock(&s->mutex);
    return st;
}

/* ---- leaving ---- */

const tt_digest *tt_store_root(const tt_store *s)
{
    return &s->table.root[0].chain;
}

bool tt_store_has(tt_store *s, const tt_digest *chain, tt_store_part part)
{
    pthread_mutex_lock(&s->mutex);
    const tt_store_node *x = tt_store_table_get(&s->table, chain);
    bool has = x != NULL && (part == TT_STORE_KV || x->kind > 0 || x->state_pending);
    pthread_mutex_unlock(&s->mutex);
    return has;
}

bool tt_store_fits(const tt_store *s, uint32_t tokens)
{
    uint64_t blocks = tokens / TT_BLOCK, each = s->kv_bytes + TT_STORE_HEAD + TT_STORE_ITEM;
    return blocks <= s->table.max_nodes &&
           blocks * each + s->state_bytes + TT_STORE_HEAD + TT_STORE_MAX_KEY * 4 <= s->limit;
}

static bool add_job(tt_store *s, const job *j)
{
    if (s->n_jobs == s->cap_jobs) {
        size_t cap = s->cap_jobs > 0 ? 2 * s->cap_jobs : 64;
        job *more = realloc(s->jobs, cap * sizeof *more);
        if (more == NULL)
            return false;
        s->jobs = more;
        s->cap_jobs = cap;
    }
    s->jobs[s->n_jobs++] = *j;
    pthread_cond_signal(&s->work);
    return true;
}

static tt_store_node *node_of(tt_store *s, const tt_digest *chain)
{
    tt_store_node *root = &s->table.root[0];
    return memcmp(chain, &root->chain, sizeof *chain) == 0 ? root
                                                           : tt_store_table_get(&s->table, chain);
}

/* A table that is full gives up what is worth least. */
static tt_store_node *add_node(tt_store *s, const tt_digest *parent, const tt_digest *chain,
                               uint8_t made)
{
    while (s->table.n_nodes == s->table.max_nodes)
        if (!evict_one(s))
            return NULL;
    tt_store_node *above = node_of(s, parent);
    return above != NULL ? tt_store_table_add(&s->table, above, chain, made, s->kv_bytes) : NULL;
}

bool tt_store_put_kv(tt_store *s, const tt_digest *parent, const tt_digest *chain, uint8_t made,
                     const void *payload)
{
    pthread_mutex_lock(&s->mutex);
    s->whole = false;
    tt_store_node *x = add_node(s, parent, chain, made);
    if (x != NULL && !add_job(s, &(job){.node = x, .part = TT_STORE_KV, .payload = payload})) {
        tt_store_table_remove(&s->table, x);
        x = NULL;
    }
    s->stats.dropped += x == NULL;
    pthread_mutex_unlock(&s->mutex);
    return x != NULL;
}

bool tt_store_put_state(tt_store *s, const tt_digest *chain, uint32_t kind, const void *payload)
{
    job j = {.part = TT_STORE_STATE, .kind = kind, .payload = payload};
    pthread_mutex_lock(&s->mutex);
    j.node = tt_store_table_get(&s->table, chain);
    bool ok = j.node != NULL && add_job(s, &j);
    if (ok) {
        j.node->state_pending = true;
        j.node->state_bytes = s->state_bytes;
        j.node->used = s->table.clock;
    }
    s->stats.dropped += !ok;
    pthread_mutex_unlock(&s->mutex);
    return ok;
}

/* A job that is not wanted: its node goes, or its checkpoint. */
static void cancel(tt_store *s, size_t i)
{
    job j = s->jobs[i];
    drop_job(s, &s->jobs[i]);
    if (j.part == TT_STORE_KV) {
        tt_store_table_remove(&s->table, j.node);
    } else {
        j.node->state_pending = false;
        tt_store_table_prune(&s->table, j.node);
    }
}

void tt_store_handed_over(tt_store *s)
{
    pthread_mutex_lock(&s->mutex);
    s->whole = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
}

void tt_store_withdraw(tt_store *s, const void *payload)
{
    pthread_mutex_lock(&s->mutex);
    for (size_t i = s->first; i < s->n_jobs; i++)
        if (s->jobs[i].node != NULL && s->jobs[i].payload == payload)
            cancel(s, i);
    while (s->now.payload == payload) {
        s->give_up = true;
        pthread_cond_signal(&s->work);
        pthread_cond_wait(&s->done, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
}

void tt_store_hold(tt_store *s)
{
    atomic_store_explicit(&s->held, tt_now(), memory_order_relaxed);
}

void tt_store_wait(tt_store *s)
{
    pthread_mutex_lock(&s->mutex);
    while (s->first < s->n_jobs || s->whole || !s->idle)
        pthread_cond_wait(&s->done, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

/* ---- counters ---- */

void tt_store_get_stats(tt_store *s, tt_store_stats *out)
{
    pthread_mutex_lock(&s->mutex);
    *out = s->stats;
    out->bytes = size_now(s);
    out->blocks = s->table.blocks;
    out->checkpoints = s->table.checkpoints;
    out->waiting = s->n_jobs - s->first + (s->now.payload != NULL);
    pthread_mutex_unlock(&s->mutex);
}

tt_state_refusal tt_store_last_refusal(tt_store *s)
{
    pthread_mutex_lock(&s->mutex);
    tt_state_refusal why = s->last;
    s->last = TT_REFUSED_NOTHING;
    pthread_mutex_unlock(&s->mutex);
    return why;
}

const char *tt_store_other_key(const tt_store *s)
{
    return s->other;
}
