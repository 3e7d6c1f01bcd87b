#include "server/step_gate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define CANCEL_MS 20 /* how often a prompt that waits looks whether it is still wanted */

/* A token that waits for the next step. */
typedef struct row {
    tt_session *session;
    uint32_t id;
    bool done;
    tt_status st;
    tt_error *err;
} row;

/* A prompt that waits for its turn. */
typedef struct reader {
    struct reader *next;
} reader;

struct tt_step_gate {
    tt_model *model;
    tt_state_cache *cache;
    pthread_mutex_t lock;
    pthread_cond_t change;
    /* guarded */
    bool busy;           /* somebody computes */
    uint32_t n_decoding; /* answers that decode */
    row *rows[TT_MOST_SEQUENCES];
    uint32_t n_rows;
    reader *first, **last;
    tt_session *unsettled[TT_MOST_SEQUENCES];
    uint32_t n_unsettled;
    double resume; /* no step before this time: the prompt's share */
    tt_engine_stats stats;
};

/* ---- making ---- */

/* Under the lock, or before anybody else knows the gate; nobody computes but the caller. */
static void look(tt_step_gate *g)
{
    tt_model_get_stats(g->model, &g->stats.model);
    if (g->cache != NULL)
        tt_state_cache_get_stats(g->cache, &g->stats.cache);
}

tt_status tt_step_gate_create(tt_model *model, tt_state_cache *cache, tt_step_gate **out,
                              tt_error *err)
{
    pthread_condattr_t attr;
    tt_step_gate *g = calloc(1, sizeof *g);
    if (g == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the turns of answers");
    g->model = model;
    g->cache = cache;
    g->last = &g->first;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&g->change, &attr);
    pthread_condattr_destroy(&attr);
    look(g);
    *out = g;
    return TT_OK;
}

void tt_step_gate_close(tt_step_gate **p)
{
    tt_step_gate *g = p != NULL ? *p : NULL;
    if (g == NULL)
        return;
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->change);
    free(g);
    *p = NULL;
}

void tt_step_gate_stats(tt_step_gate *g, tt_engine_stats *stats)
{
    pthread_mutex_lock(&g->lock);
    *stats = g->stats;
    pthread_mutex_unlock(&g->lock);
}

/* By who has the turn, under the lock, also inside a prompt. */
static void settle_all(tt_step_gate *g)
{
    while (g->n_unsettled > 0)
        tt_session_settle(g->unsettled[--g->n_unsettled]);
}

static void forget_unsettled(tt_step_gate *g, const tt_session *session)
{
    for (uint32_t i = 0; i < g->n_unsettled; i++)
        if (g->unsettled[i] == session)
            g->unsettled[i] = g->unsettled[--g->n_unsettled];
}

/* Under the lock. */
static void leave_turn(tt_step_gate *g)
{
    settle_all(g);
    look(g);
    g->busy = false;
    pthread_cond_broadcast(&g->change);
}

/* ---- one step ---- */

/* Whether every answer that decodes has a token in. */
static bool step_is_full(const tt_step_gate *g)
{
    return g->n_rows > 0 && g->n_rows == g->n_decoding;
}

static bool changed_nothing(tt_status st)
{
    return st == TT_ERR_INVALID || st == TT_ERR_CONTEXT || st == TT_ERR_NOMEM;
}

/* What one of them is refused for is no matter of the others. */
static void step_apart(row *const *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        rows[i]->st = tt_session_decode(rows[i]->session, rows[i]->id, rows[i]->err);
}

static tt_status step_together(row *const *rows, uint32_t n)
{
    tt_session *sessions[TT_MOST_SEQUENCES] = {NULL};
    uint32_t ids[TT_MOST_SEQUENCES] = {0};
    tt_error err = {.offset = -1};
    for (uint32_t i = 0; i < n; i++) {
        sessions[i] = rows[i]->session;
        ids[i] = rows[i]->id;
    }
    tt_status st = tt_session_decode_all(sessions, ids, n, &err);
    for (uint32_t i = 0; i < n; i++) {
        rows[i]->st = st;
        if (st != TT_OK && rows[i]->err != NULL)
            *rows[i]->err = err;
    }
    return st;
}

/* Computes all rows that wait; the caller has the turn and the lock, and gets the lock back. False:
 * inside a prompt that leaves no room for them, they wait on. */
static bool step(tt_step_gate *g, bool inside)
{
    double begun = tt_now();
    uint32_t n = g->n_rows;
    pthread_mutex_unlock(&g->lock); /* these rows stay; who begins now stands behind them */
    tt_status st = step_together(g->rows, n);
    if (n > 1 && changed_nothing(st))
        step_apart(g->rows, n);
    pthread_mutex_lock(&g->lock);
    double now = tt_now();
    g->resume = now + (now - begun);
    look(g);
    if (inside && st == TT_ERR_STATE)
        return false;
    for (uint32_t i = 0; i < n; i++)
        g->rows[i]->done = true;
    g->n_rows -= n;
    memmove(g->rows, g->rows + n, g->n_rows * sizeof g->rows[0]);
    return true;
}

/* ---- those that decode ---- */

void tt_step_gate_begin(tt_step_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->n_decoding++;
    pthread_mutex_unlock(&g->lock);
}

void tt_step_gate_end(tt_step_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->n_decoding--;
    pthread_cond_broadcast(&g->change);
    pthread_mutex_unlock(&g->lock);
}

tt_status tt_step_gate_decode(tt_step_gate *g, tt_session *session, uint32_t id, tt_error *err)
{
    row r = {.session = session, .id = id, .err = err};
    pthread_mutex_lock(&g->lock);
    g->rows[g->n_rows++] = &r;
    while (!r.done) {
        /* A prompt that waits makes the step inside its own turn, which begins at once. */
        if (g->busy || g->first != NULL || !step_is_full(g)) {
            pthread_cond_wait(&g->change, &g->lock);
            continue;
        }
        g->busy = true;
        (void)step(g, false);
        leave_turn(g);
    }
    pthread_mutex_unlock(&g->lock);
    return r.st;
}

/* ---- those that read ---- */

typedef struct reading {
    tt_step_gate *gate;
    const tt_prefill_options *o;
    const atomic_bool *cancel;
    tt_session *session;
    size_t n; /* tokens of the session when a chunk ended last */
    bool begun;
} reading;

static void unlink_reader(tt_step_gate *g, const reader *me)
{
    for (reader **at = &g->first; *at != NULL; at = &(*at)->next)
        if (*at == me) {
            *at = me->next;
            if (*at == NULL)
                g->last = at;
            return;
        }
}

static void wait_a_moment(tt_step_gate *g)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += CANCEL_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&g->change, &g->lock, &until);
}

/* Waits for the turn, under the lock; false when it is not wanted any more. `cancel` may be NULL.
 */
static bool take_turn(tt_step_gate *g, const atomic_bool *cancel)
{
    reader me = {NULL};
    bool wanted = true;
    *g->last = &me;
    g->last = &me.next;
    while (wanted && (g->busy || g->first != &me)) {
        wait_a_moment(g);
        wanted = cancel == NULL || !atomic_load_explicit(cancel, memory_order_relaxed);
    }
    unlink_reader(g, &me);
    if (wanted)
        g->busy = true;
    else
        pthread_cond_broadcast(&g->change); /* it may have been the first */
    return wanted;
}

static bool on_go_on(void *ctx)
{
    reading *r = ctx;
    tt_step_gate *g = r->gate;
    if (!r->begun)
        r->n = tt_session_n_tokens(r->session);
    r->begun = true;
    pthread_mutex_lock(&g->lock);
    settle_all(g);
    if (step_is_full(g) && tt_now() >= g->resume && step(g, true))
        pthread_cond_broadcast(&g->change);
    pthread_mutex_unlock(&g->lock);
    return r->o->go_on == NULL || r->o->go_on(r->o->go_on_ctx);
}

/* Between two chunks others may read theirs. */
static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    reading *r = ctx;
    tt_step_gate *g = r->gate;
    size_t n = tt_session_n_tokens(r->session);
    bool wanted = true;
    if (n != r->n && done < total) {
        pthread_mutex_lock(&g->lock);
        if (g->first != NULL) {
            leave_turn(g);
            wanted = take_turn(g, r->cancel);
            if (!wanted) /* what the call still does must be in a turn */
                (void)take_turn(g, NULL);
        }
        pthread_mutex_unlock(&g->lock);
    }
    r->n = n;
    if (r->o->progress != NULL && !r->o->progress(r->o->progress_ctx, done, total))
        return false;
    return wanted;
}

tt_status tt_step_gate_sync(tt_step_gate *g, tt_session *session, const uint32_t *ids, size_t n,
                            const tt_prefill_options *o, const atomic_bool *cancel, tt_error *err)
{
    reading r = {.gate = g, .o = o, .cancel = cancel, .session = session};
    tt_prefill_options mine = *o;
    mine.go_on = on_go_on;
    mine.progress = on_progress;
    mine.go_on_ctx = mine.progress_ctx = &r;
    pthread_mutex_lock(&g->lock);
    bool wanted = take_turn(g, cancel);
    forget_unsettled(g, session);
    pthread_mutex_unlock(&g->lock);
    if (!wanted)
        return tt_fail(err, TT_ERR_ABORTED, "the prompt was given up before it was read");
    tt_status st = tt_session_sync(session, ids, n, &mine, NULL, err);
    pthread_mutex_lock(&g->lock);
    leave_turn(g);
    pthread_mutex_unlock(&g->lock);
    return st;
}

void tt_step_gate_settle(tt_step_gate *g, tt_session *session)
{
    pthread_mutex_lock(&g->lock);
    forget_unsettled(g, session);
    g->unsettled[g->n_unsettled++] = session;
    if (!g->busy) { /* else by who has the turn */
        settle_all(g);
        look(g);
    }
    pthread_mutex_unlock(&g->lock);
}

double tt_step_gate_idle(tt_step_gate *g)
{
    pthread_mutex_lock(&g->lock);
    double seconds = tt_model_idle(g->model);
    look(g);
    pthread_mutex_unlock(&g->lock);
    return seconds;
}
