/* work.h: the threads beside the event loop: one prepares requests, others compute them, as many as
 * there may be answers at once.
 *
 * Owns:      the queues between the threads, jobs while they are in one.
 * Not here:  connections, admission, what becomes of a job at its end (server.c).
 * Laws:      (1) jobs are prepared one after another, and computed from in the order in which they
 *            were handed over, whatever model they are for: nothing overtakes a switch, and what
 *            changes which model is there is alone while it does;  (2) a job belongs to the thread
 *            that has it; what both sides touch is guarded here;  (3) the loop is woken for every
 *            change and never waits for a computation.
 * Threads:   the functions are the event loop's; `wake` is called from the others.
 */
#ifndef TT_SERVER_WORK_H
#define TT_SERVER_WORK_H

#include "server/model_set.h"
#include "server/request_fields.h"
#include "server/request_memory.h"
#include "server/response_request.h"

typedef enum tt_job_kind {
    TT_JOB_CHAT,
    TT_JOB_TEXT,
    TT_JOB_COUNT,
    TT_JOB_MESSAGES,
    TT_JOB_MESSAGES_COUNT,
    TT_JOB_RESPONSE,
    TT_JOB_COMPACT,
    TT_JOB_UNLOAD
} tt_job_kind;
/* Its answer is there once it is prepared: nothing is computed. */
static inline bool tt_job_counts(tt_job_kind kind)
{
    return kind == TT_JOB_COUNT || kind == TT_JOB_MESSAGES_COUNT;
}
typedef enum tt_job_why { TT_WHY_NOT, TT_WHY_LEFT, TT_WHY_SHUTDOWN, TT_WHY_OVERFLOW } tt_job_why;

typedef struct tt_job {
    struct tt_job *next, *next_news;
    /* the loop's */
    void *conn;     /* NULL: the client has left */
    tt_job_why why; /* it was cancelled */
    bool admitted, told_prepared;
    uint64_t sequence; /* of the event after those that went out */
    double arrived, admitted_at;
    char request_id[32];
    const char *method, *path;
    /* set before it is handed over */
    tt_job_kind kind;
    bool chunked;
    int64_t created;
    tt_buf body;
    uint64_t reserved; /* of request memory, for the body, then for `response` */
    atomic_bool cancel;
    tt_response_store *responses;
    tt_grammar_shelf *grammars;
    /* the preparing thread's, read once it is prepared */
    tt_refusal refusal;
    size_t model; /* of the set; of an unload perhaps TT_MODEL_NONE */
    tt_answer_request request;
    tt_response_plan response; /* of a RESPONSE or COMPACT */
    tt_buf adjusted, ignored, repaired, relaxed;
    /* guarded */
    bool prepared, started, finished, in_news;
    double started_at, ended_at;
    uint64_t prefill_done, prefill_total;
    tt_buf out;             /* answer of a count; events so far; the object at the end */
    uint64_t next_sequence; /* of the event after those in `out` */
    /* the computing thread's, read once it is finished */
    tt_status st;
    tt_error err;
    bool load_failed; /* that is why */
    tt_turn_usage usage;
} tt_job;

tt_job *tt_job_new(tt_job_kind kind);
void tt_job_free(tt_job *job);

typedef struct tt_work tt_work;

/* `sequences`: answers at once, 1 to TT_MOST_SEQUENCES; every model must have room for them. */
TT_MUST_CHECK tt_status tt_work_create(tt_model_set *models, uint32_t sequences,
                                       tt_request_memory *memory, void (*wake)(void *ctx),
                                       void *wake_ctx, tt_work **out, tt_error *err);
/* From here on no load is waited for: those that run are aborted. */
void tt_work_hurry(tt_work *w);
/* Cancels what runs, and ends the threads. Jobs that are still in a queue are freed. */
void tt_work_close(tt_work **w);

void tt_work_prepare(tt_work *w, tt_job *job);
void tt_work_run(tt_work *w, tt_job *job);
/* Takes a job out of the queue again; false when it runs already or has ended. */
bool tt_work_remove(tt_work *w, tt_job *job);

typedef struct tt_job_news {
    bool prepared, started, finished;
    double started_at, ended_at;
    tt_buf out;        /* taken out of the job: to be freed */
    uint64_t sequence; /* of the event after those in it */
} tt_job_news;
/* The next job with news, or NULL. What is told of a finished job is the last. */
tt_job *tt_work_news(tt_work *w, tt_job_news *news);

typedef struct tt_work_view {
    uint64_t prefill_done, prefill_total; /* of the running requests together, else 0 */
    uint32_t running;
    double running_since; /* the one that has run longest; 0: none */
    uint32_t waiting;
    tt_engine_stats stats; /* as of a moment ago */
} tt_work_view;
void tt_work_look(tt_work *w, tt_work_view *view);

#endif
