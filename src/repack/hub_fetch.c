#include "repack/hub_fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "repack/hub_pace.h"

#define SLOTS 64u /* parts between the one that is handed over and the one that is asked last */

typedef enum slot_state { FREE, WAITING, RUNNING, DONE } slot_state;

typedef struct slot {
    _Atomic slot_state state;
    tt_hub_request r;
    CURL *easy;
    double not_before;
    unsigned char *bytes;
    uint64_t cap;
} slot;

struct tt_hub_fetch {
    tt_hub *hub;
    const tt_hub_part *parts;
    size_t n;
    uint64_t window;
    CURLM *multi;
    pthread_t thread;
    bool started;
    slot slots[SLOTS]; /* of part i: i % SLOTS; only the thread touches one that is not DONE */
    tt_hub_pace pace;
    unsigned running;   /* RUNNING and WAITING */
    uint64_t allocated; /* of all slots; the thread's, but for reading */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: */
    size_t next;   /* part that is handed over next */
    size_t asked;  /* parts [next, asked) have a slot */
    uint64_t held; /* bytes of those */
    uint64_t came; /* bytes received by parts that are done */
    bool stop, failed, handed;
    tt_error err;
};

static uint64_t length(const tt_hub_part *p)
{
    return p->end - p->begin;
}

/* ---- the thread ---- */

static void fail(tt_hub_fetch *f, const tt_error *err)
{
    pthread_mutex_lock(&f->lock);
    if (!f->failed)
        f->err = *err;
    f->failed = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

/* Takes the next part when the window and the pace allow it. */
static slot *take_part(tt_hub_fetch *f)
{
    slot *s = NULL;
    pthread_mutex_lock(&f->lock);
    if (f->asked < f->n && f->asked - f->next < SLOTS && f->running < f->pace.flight) {
        const tt_hub_part *p = &f->parts[f->asked];
        if (f->held == 0 || f->held + length(p) <= f->window) {
            s = &f->slots[f->asked % SLOTS];
            f->held += length(p);
            tt_hub_request_init(&s->r, f->hub, p->file, p->begin, p->end, NULL);
            f->asked++;
        }
    }
    pthread_mutex_unlock(&f->lock);
    return s;
}

static tt_status start_attempt(tt_hub_fetch *f, slot *s, tt_error *err)
{
    TT_TRY(tt_hub_request_begin(&s->r, s->easy, err));
    if (curl_multi_add_handle(f->multi, s->easy) != CURLM_OK)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a connection");
    s->state = RUNNING;
    return TT_OK;
}

static void drop_room(tt_hub_fetch *f, slot *s)
{
    f->allocated -= s->cap;
    free(s->bytes);
    s->bytes = NULL;
    s->cap = 0;
}

/* Memory for a part: that of a slot whose part was handed over, or more, within the window. */
static void take_room(tt_hub_fetch *f, slot *s, uint64_t need)
{
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < SLOTS && s->cap < need; i++) {
        slot *o = &f->slots[i];
        if (o == s || o->state != FREE || o->cap < need)
            continue;
        drop_room(f, s);
        s->bytes = o->bytes;
        s->cap = o->cap;
        o->bytes = NULL;
        o->cap = 0;
    }
    if (s->cap < need) {
        drop_room(f, s);
        for (unsigned i = 0; i < SLOTS && f->allocated + need > f->window; i++)
            if (f->slots[i].state == FREE)
                drop_room(f, &f->slots[i]);
        s->bytes = malloc(need);
        s->cap = s->bytes != NULL ? need : 0;
        f->allocated += s->cap;
    }
    unsigned char *fits = s->cap > need ? realloc(s->bytes, need) : NULL;
    if (fits != NULL) {
        f->allocated -= s->cap - need;
        s->bytes = fits;
        s->cap = need;
    }
    pthread_mutex_unlock(&f->lock);
}

static tt_status start_part(tt_hub_fetch *f, slot *s, tt_error *err)
{
    uint64_t need = s->r.end - s->r.begin;
    take_room(f, s, need);
    if (s->easy == NULL)
        s->easy = curl_easy_init();
    if (s->bytes == NULL || s->easy == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a part of %llu bytes",
                       (unsigned long long)need);
    s->r.bytes = s->bytes;
    f->running++;
    return start_attempt(f, s, err);
}

static tt_status start_what_may(tt_hub_fetch *f, double now, tt_error *err)
{
    slot *s;
    for (unsigned i = 0; i < SLOTS; i++)
        if (f->slots[i].state == WAITING && f->slots[i].not_before <= now)
            TT_TRY(start_attempt(f, &f->slots[i], err));
    while ((s = take_part(f)) != NULL)
        TT_TRY(start_part(f, s, err));
    return TT_OK;
}

static tt_status settle(tt_hub_fetch *f, slot *s, CURLcode code, double now, tt_error *err)
{
    curl_multi_remove_handle(f->multi, s->easy);
    switch (tt_hub_request_judge(&s->r, s->easy, code, err)) {
    case TT_HUB_DONE:
        f->running--;
        tt_hub_request_free(&s->r);
        tt_hub_pace_done(&f->pace, s->r.got, now);
        pthread_mutex_lock(&f->lock);
        s->state = DONE;
        f->came += s->r.got;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        return TT_OK;
    case TT_HUB_PUSHED_BACK:
        tt_hub_pace_retreat(&f->pace, now);
        /* fall through */
    case TT_HUB_AGAIN:
        s->state = WAITING;
        s->not_before = now + (double)s->r.wait_ms / 1000;
        return TT_OK;
    case TT_HUB_FAILED:
        break;
    }
    return err->status;
}

static bool stopped(tt_hub_fetch *f)
{
    pthread_mutex_lock(&f->lock);
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

static tt_status turn(tt_hub_fetch *f, tt_error *err)
{
    int n = 0;
    CURLMsg *m;
    TT_TRY(start_what_may(f, tt_now(), err));
    if (curl_multi_perform(f->multi, &n) != CURLM_OK)
        return tt_fail(err, TT_ERR_INTERNAL, "libcurl fails");
    bool any = false;
    while ((m = curl_multi_info_read(f->multi, &n)) != NULL) {
        slot *s = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURL *easy = m->easy_handle;
        CURLcode code = m->data.result;
        for (unsigned i = 0; i < SLOTS; i++)
            if (f->slots[i].easy == easy)
                s = &f->slots[i];
        any = true;
        if (s != NULL)
            TT_TRY(settle(f, s, code, tt_now(), err));
    }
    if (!any && curl_multi_poll(f->multi, NULL, 0, 50, NULL) != CURLM_OK)
        return tt_fail(err, TT_ERR_INTERNAL, "libcurl fails");
    return TT_OK;
}

static void *run(void *ctx)
{
    tt_hub_fetch *f = ctx;
    tt_error err = {0};
    while (!stopped(f)) {
        if (turn(f, &err) != TT_OK) {
            fail(f, &err);
            break;
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        slot *s = &f->slots[i];
        if (s->state == RUNNING)
            curl_multi_remove_handle(f->multi, s->easy);
        if (s->state == RUNNING || s->state == WAITING)
            tt_hub_request_free(&s->r);
    }
    return NULL;
}

/* ---- the caller ---- */

tt_status tt_hub_fetch_start(tt_hub *hub, const tt_hub_part *parts, size_t n, uint64_t window,
                             tt_hub_fetch **out, tt_error *err)
{
    tt_hub_fetch *f = calloc(1, sizeof *f);
    if (f == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a connection");
    f->hub = hub;
    f->parts = parts;
    f->n = n;
    f->window = window > 0 ? window : TT_HUB_WINDOW;
    f->multi = curl_multi_init();
    tt_hub_pace_init(&f->pace, tt_now());
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (f->multi != NULL)
        f->started = pthread_create(&f->thread, NULL, run, f) == 0;
    if (!f->started) {
        tt_hub_fetch_close(&f);
        return tt_fail(err, TT_ERR_NOMEM, "no thread can be started to download with");
    }
    *out = f;
    return TT_OK;
}

/* Gives the part that was handed over back to the window. */
static void release(tt_hub_fetch *f)
{
    if (!f->handed)
        return;
    f->handed = false;
    f->held -= length(&f->parts[f->next]);
    f->slots[f->next % SLOTS].state = FREE;
    f->next++;
}

tt_status tt_hub_fetch_next(tt_hub_fetch *f, bool (*go_on)(void *ctx, uint64_t came), void *ctx,
                            const unsigned char **bytes, tt_error *err)
{
    tt_status st = TT_OK;
    pthread_mutex_lock(&f->lock);
    release(f);
    curl_multi_wakeup(f->multi);
    for (;;) {
        slot *s = &f->slots[f->next % SLOTS];
        if (f->next < f->asked && s->state == DONE) {
            *bytes = s->bytes;
            f->handed = true;
            break;
        }
        if (f->failed) {
            st = f->err.status;
            if (err != NULL)
                *err = f->err;
            break;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&f->changed, &f->lock, &until);
        uint64_t came = f->came;
        pthread_mutex_unlock(&f->lock);
        bool on = go_on == NULL || go_on(ctx, came);
        pthread_mutex_lock(&f->lock);
        if (!on) {
            st = tt_fail(err, TT_ERR_ABORTED, "stopped");
            break;
        }
    }
    pthread_mutex_unlock(&f->lock);
    return st;
}

uint64_t tt_hub_fetch_memory(tt_hub_fetch *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t n = f->allocated;
    pthread_mutex_unlock(&f->lock);
    return n;
}

void tt_hub_fetch_close(tt_hub_fetch **fetch)
{
    if (fetch == NULL || *fetch == NULL)
        return;
    tt_hub_fetch *f = *fetch;
    if (f->started) {
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_mutex_unlock(&f->lock);
        curl_multi_wakeup(f->multi);
        pthread_join(f->thread, NULL);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (f->slots[i].easy != NULL)
            curl_easy_cleanup(f->slots[i].easy);
        free(f->slots[i].bytes);
    }
    if (f->multi != NULL)
        curl_multi_cleanup(f->multi);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    *fetch = NULL;
}

static bool may_go_on(void *ctx, uint64_t came)
{
    const tt_repack_events *ev = ctx;
    return ev == NULL || ev->progress == NULL || ev->progress(ev->ctx, 0, 0);
}

tt_status
tt_hub_fetch_all(tt_hub *hub, const tt_hub_part *parts, size_t n, const tt_repack_events *ev,
                 tt_status (*take)(void *ctx, size_t i, const unsigned char *bytes, tt_error *err),
                 void *ctx, tt_error *err)
{
    tt_hub_fetch *f = NULL;
    if (n == 0)
        return TT_OK;
    TT_TRY(tt_hub_fetch_start(hub, parts, n, 0, &f, err));
    tt_status st = TT_OK;
    for (size_t i = 0; i < n && st == TT_OK; i++) {
        const unsigned char *bytes = NULL;
        st = tt_hub_fetch_next(f, may_go_on, (void *)ev, &bytes, err);
        if (st == TT_OK)
            st = take(ctx, i, bytes, err);
    }
    tt_hub_fetch_close(&f);
    return st;
}
