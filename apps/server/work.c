#include "server/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "server/answer.h"
#include "server/chat_request.h"
#include "server/messages_answer.h"
#include "server/messages_request.h"
#include "server/reply.h"
#include "server/response_answer.h"
#include "server/text_request.h"

#define MOST_OUT      (512 * TT_MIB)
#define STATS_SECONDS 0.5

typedef struct queue {
    tt_job *first, **last;
} queue;

struct tt_work {
    tt_model_set *models;
    tt_request_memory *memory;
    atomic_bool hurry;
    void (*wake)(void *ctx);
    void *wake_ctx;
    pthread_mutex_t lock;
    pthread_cond_t to_prepare, to_run;
    pthread_t preparer, runners[TT_MOST_SEQUENCES];
    bool preparer_there;
    uint32_t n_runners;
    /* guarded */
    bool stop;
    queue prepare, run;
    tt_job *news, **last_news;
    tt_job *running[TT_MOST_SEQUENCES]; /* in the order in which they started */
    uint32_t n_running;
    size_t model; /* of those, once it is there */
    bool resting; /* one of the threads looks after the model now and then */
    bool alone;   /* somebody changes which model is there, or looks after it */
    uint32_t waiting;
    tt_engine_stats stats;
};

/* ---- jobs ---- */

tt_job *tt_job_new(tt_job_kind kind)
{
    tt_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->kind = kind;
    job->model = TT_MODEL_NONE;
    job->err.offset = -1;
    tt_buf_init(&job->body, TT_BODY_MOST);
    tt_buf_init(&job->out, MOST_OUT);
    return job;
}

void tt_job_free(tt_job *job)
{
    if (job == NULL)
        return;
    tt_answer_request_free(&job->request);
    tt_response_plan_free(&job->response);
    tt_buf_free(&job->body);
    tt_buf_free(&job->out);
    tt_buf_free(&job->adjusted);
    tt_buf_free(&job->ignored);
    tt_buf_free(&job->repaired);
    tt_buf_free(&job->relaxed);
    free(job);
}

/* ---- queues, under the lock ---- */

static void push(queue *q, tt_job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

static tt_job *pop(queue *q)
{
    tt_job *job = q->first;
    if (job == NULL)
        return NULL;
    q->first = job->next;
    if (q->first == NULL)
        q->last = &q->first;
    return job;
}

static bool unlink_job(queue *q, tt_job *job)
{
    for (tt_job **at = &q->first; *at != NULL; at = &(*at)->next)
        if (*at == job) {
            *at = job->next;
            if (*at == NULL)
                q->last = at;
            return true;
        }
    return false;
}

static void tell(tt_work *w, tt_job *job)
{
    if (job->in_news)
        return;
    job->in_news = true;
    job->next_news = NULL;
    *w->last_news = job;
    w->last_news = &job->next_news;
}

/* ---- preparing ---- */

/* Memory is short: 413 when this request alone is too much. */
static void refuse_memory(tt_work *w, tt_job *job, uint64_t own)
{
    if (atomic_load(&w->memory->used) <= own)
        tt_refuse(&job->refusal, 413, "request_too_large", NULL,
                  "the request needs more memory than all requests together may have");
    else
        tt_refuse(&job->refusal, 503, "memory_full", NULL,
                  "the memory for requests is full at this moment");
}

/* The body as a tree; its own memory is given back. */
static bool parse(tt_work *w, tt_job *job, json_t **body, uint64_t *held)
{
    tt_error err = {.offset = -1};
    bool full = false;
    tt_tree_memory_begin(w->memory);
    tt_status st =
        tt_json_parse_until(job->body.len > 0 ? job->body.data : "", job->body.len,
                            TT_REQUEST_DEPTH, "the body", tt_tree_memory_full, body, &err);
    *held = tt_tree_memory_end(&full);
    uint64_t own = *held + job->reserved;
    tt_buf_free(&job->body);
    if (full)
        refuse_memory(w, job, own);
    else if (st == TT_ERR_LIMIT)
        tt_refuse(&job->refusal, 400, "invalid_json", NULL, "the body nests deeper than %u levels",
                  TT_REQUEST_DEPTH);
    else if (st != TT_OK)
        tt_refuse(&job->refusal, 400, "invalid_json", NULL,
                  "the body is not JSON in UTF-8 with each key once; the fault is at byte %lld",
                  (long long)err.offset);
    else if (!json_is_object(*body))
        tt_refuse(&job->refusal, 400, "invalid_json", NULL, "the body must be a JSON object");
    tt_request_memory_give(w->memory, job->reserved);
    job->reserved = 0;
    return job->refusal.status == 0;
}

/* What the body's model is, for as long as the request is prepared. */
typedef struct chosen {
    tt_server_engine engine;
    tt_engine_info info;
} chosen;

/* False with a refusal. A name that is not ours is refused by what reads the fields. */
static bool choose(tt_work *w, tt_job *job, const json_t *body, chosen *c)
{
    const char *name = tt_fields_word(json_object_get(body, "model"));
    bool fast = false;
    size_t i = name != NULL ? tt_model_set_find(w->models, name, &fast) : TT_MODEL_NONE;
    job->model = i;
    c->engine = tt_model_set_engine(w->models, i != TT_MODEL_NONE ? i : 0, fast);
    c->engine.ops->describe(c->engine.self, &c->info);
    if (i == TT_MODEL_NONE || c->info.max_context > 0)
        return true;
    /* Somebody may have mended it. */
    (void)!c->engine.ops->look(c->engine.self, NULL);
    c->engine.ops->describe(c->engine.self, &c->info);
    return c->info.max_context > 0 || tt_refuse(&job->refusal, 503, "model_not_loadable", "model",
                                                "the model cannot be loaded: %s", c->info.reason);
}

static bool count_text(const tt_server_engine *engine, tt_fields *f)
{
    tt_error err = {.offset = -1};
    const json_t *content = tt_fields_get(f->body, "content");
    const json_t *special = tt_fields_get(f->body, "special");
    tt_engine_render r = {.special = true};
    if (!tt_fields_model(f))
        return false;
    if (!json_is_string(content))
        return tt_refuse_value(f->why, "content", "content must be a text");
    if (special != NULL && !tt_fields_bool(f, "special", special, &r.special))
        return false;
    r.text = json_string_value(content);
    r.len = json_string_length(content);
    tt_status st = engine->ops->render(engine->self, &r, &f->out->turn.prompt, &err);
    return st == TT_OK || tt_fields_render_failed(f, st, &err, "content");
}

static void write_count(tt_job *job, uint32_t max_context)
{
    const tt_engine_prompt *p = &job->request.turn.prompt;
    tt_buf_puts(&job->out, "{\"tokens\":[");
    for (size_t i = 0; i < p->n; i++)
        tt_buf_printf(&job->out, "%s%u", i > 0 ? "," : "", p->ids[i]);
    tt_buf_printf(&job->out, "],\"count\":%zu,\"max_context\":%u}", p->n, max_context);
    if (job->out.failed != TT_OK)
        tt_refuse(&job->refusal, 503, "memory_full", NULL, "there is no memory for the answer");
}

static bool count(const tt_server_engine *engine, tt_job *job, tt_fields *f)
{
    bool text = tt_fields_get(f->body, "content") != NULL;
    bool messages = tt_fields_get(f->body, "messages") != NULL;
    if (text && messages)
        return tt_refuse_value(f->why, "content", "content and messages exclude each other");
    if (!text && !messages)
        return tt_refuse_missing(f->why, "content");
    if (!(text ? count_text(engine, f) : tt_chat_request_count(f, engine)))
        return false;
    write_count(job, f->info->max_context);
    return job->refusal.status == 0;
}

/* What an earlier response read comes out of the store and counts here, and what is kept of the
 * request until it is answered counts as its body did. `own` is what this request holds already. */
static bool response(tt_work *w, const tt_server_engine *engine, tt_job *job, tt_fields *f,
                     uint64_t own)
{
    tt_response_plan *p = &job->response;
    bool full = false;
    tt_tree_memory_begin(w->memory);
    bool ok = job->kind == TT_JOB_COMPACT ? tt_response_compact_read(f, engine, job->responses, p)
                                          : tt_response_request_read(f, engine, job->responses, p);
    uint64_t held = tt_tree_memory_end(&full);
    tt_request_memory_give(w->memory, held);
    if (ok && tt_request_memory_take(w->memory, p->bytes)) {
        job->reserved = p->bytes;
        return true;
    }
    if (ok || full)
        refuse_memory(w, job, own);
    return false;
}

static void count_messages(const tt_server_engine *engine, tt_job *job, tt_fields *f)
{
    if (tt_messages_request_count(f, engine))
        tt_buf_printf(&job->out, "{\"input_tokens\":%zu}", job->request.turn.prompt.n);
    if (job->out.failed != TT_OK)
        tt_refuse(&job->refusal, 503, "memory_full", NULL, "there is no memory for the answer");
}

/* `held`: request memory that the tree has. */
static void read_request(tt_work *w, tt_job *job, const json_t *body, uint64_t held)
{
    tt_fields f;
    chosen c;
    if (!choose(w, job, body, &c))
        return;
    tt_fields_init(&f, body, &c.info, &job->request, &job->refusal);
    f.grammars = tt_job_counts(job->kind) ? NULL : job->grammars;
    if (job->kind == TT_JOB_CHAT)
        tt_chat_request_read(&f, &c.engine);
    else if (job->kind == TT_JOB_TEXT)
        tt_text_request_read(&f, &c.engine);
    else if (job->kind == TT_JOB_MESSAGES)
        tt_messages_request_read(&f, &c.engine);
    else if (job->kind == TT_JOB_MESSAGES_COUNT)
        count_messages(&c.engine, job, &f);
    else if (job->kind == TT_JOB_COUNT)
        count(&c.engine, job, &f);
    else
        response(w, &c.engine, job, &f, held);
    job->adjusted = f.adjusted;
    job->ignored = f.ignored;
    job->repaired = f.repaired;
    job->relaxed = f.relaxed;
    tt_answer_form_free(&f.form);
}

static void read_unload(tt_work *w, tt_job *job, const json_t *body)
{
    const json_t *model = tt_fields_get(body, "model");
    const char *name = tt_fields_word(model);
    if (model == NULL)
        return;
    job->model = name != NULL ? tt_model_set_find(w->models, name, NULL) : TT_MODEL_NONE;
    if (!json_is_string(model))
        tt_refuse_value(&job->refusal, "model", "model must be a text");
    else if (job->model == TT_MODEL_NONE)
        tt_refuse(&job->refusal, 404, "model_not_found", "model",
                  "there is no such model here; GET /v1/models lists those there are");
}

static void prepare(tt_work *w, tt_job *job)
{
    json_t *body = NULL;
    uint64_t held = 0;
    if (job->kind == TT_JOB_UNLOAD && job->body.len == 0)
        return;
    if (parse(w, job, &body, &held)) {
        if (job->kind == TT_JOB_UNLOAD)
            read_unload(w, job, body);
        else
            read_request(w, job, body, held);
    }
    json_decref(body);
    tt_request_memory_give(w->memory, held);
}

static void *preparer(void *ctx)
{
    tt_work *w = ctx;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        tt_job *job = pop(&w->prepare);
        if (job == NULL) {
            pthread_cond_wait(&w->to_prepare, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        prepare(w, job);
        pthread_mutex_lock(&w->lock);
        job->prepared = true;
        tell(w, job);
        w->wake(w->wake_ctx);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- computing ---- */

typedef struct run {
    tt_work *w;
    tt_job *job;
    tt_buf piece; /* events not yet handed over */
    tt_response_writer response;
    tt_status failed; /* of an event that could not be put together */
    bool ending;      /* what is written now is told with the end, finish() */
    double looked;
} run;

static void look(run *u, bool now)
{
    tt_engine_stats stats;
    double t = tt_now();
    if (!now && t - u->looked < STATS_SECONDS)
        return;
    u->looked = t;
    tt_model_set_stats(u->w->models, &stats);
    pthread_mutex_lock(&u->w->lock);
    u->w->stats = stats;
    pthread_mutex_unlock(&u->w->lock);
}

static void hand_over(void *ctx)
{
    run *u = ctx;
    if (!u->job->request.stream || u->ending)
        return;
    if (u->failed == TT_OK)
        u->failed = u->piece.failed;
    pthread_mutex_lock(&u->w->lock);
    tt_buf_append(&u->job->out, u->piece.data, u->piece.len);
    u->job->next_sequence = u->response.sequence;
    tell(u->w, u->job);
    pthread_mutex_unlock(&u->w->lock);
    tt_buf_clear(&u->piece);
    u->w->wake(u->w->wake_ctx);
    look(u, false);
}

static void note_prefill(run *u, uint64_t done, uint64_t total)
{
    pthread_mutex_lock(&u->w->lock);
    u->job->prefill_done = done;
    u->job->prefill_total = total;
    pthread_mutex_unlock(&u->w->lock);
    look(u, false);
}

static void on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    note_prefill(((tt_answer_writer *)ctx)->flush_ctx, done, total);
}

static void on_messages_prefill(void *ctx, uint64_t done, uint64_t total)
{
    note_prefill(((tt_messages_writer *)ctx)->flush_ctx, done, total);
}

static void answer(run *u)
{
    tt_job *job = u->job;
    tt_answer_writer writer;
    tt_server_engine engine = tt_model_set_engine(u->w->models, job->model, false);
    tt_answer_writer_init(&writer, &job->request, tt_model_set_name(u->w->models, job->model),
                          job->created, job->chunked, &u->piece, hand_over, u);
    tt_turn_sink sink = tt_answer_writer_sink(&writer);
    sink.prefill = on_prefill;
    job->st = tt_turn_run(&engine, &job->request.turn, &sink, &job->cancel, &job->usage, &job->err);
    u->ending = true;
    if (job->st == TT_OK)
        tt_answer_writer_end(&writer, &job->usage);
    tt_answer_writer_free(&writer);
}

static void answer_messages(run *u)
{
    tt_job *job = u->job;
    tt_messages_writer writer;
    tt_server_engine engine = tt_model_set_engine(u->w->models, job->model, false);
    tt_messages_writer_init(&writer, &job->request, tt_model_set_name(u->w->models, job->model),
                            job->chunked, &u->piece, hand_over, u);
    tt_turn_sink sink = tt_messages_writer_sink(&writer);
    sink.prefill = on_messages_prefill;
    job->st = tt_turn_run(&engine, &job->request.turn, &sink, &job->cancel, &job->usage, &job->err);
    u->ending = true;
    if (job->st == TT_OK)
        tt_messages_writer_end(&writer, &job->usage);
    tt_messages_writer_free(&writer);
}

static void on_response_prefill(void *ctx, uint64_t done, uint64_t total)
{
    note_prefill(((tt_response_writer *)ctx)->flush_ctx, done, total);
}

static void answer_response(run *u)
{
    tt_job *job = u->job;
    tt_response_writer *writer = &u->response;
    tt_server_engine engine = tt_model_set_engine(u->w->models, job->model, false);
    tt_response_writer_init(writer, &job->response, job->request.stream, job->chunked, job->created,
                            &u->piece, hand_over, u);
    tt_turn_sink sink = tt_response_writer_sink(writer);
    sink.prefill = on_response_prefill;
    job->st = tt_turn_run(&engine, &job->request.turn, &sink, &job->cancel, &job->usage, &job->err);
    u->ending = true;
    if (job->st == TT_OK)
        tt_response_writer_end(writer, &job->usage);
    tt_response_writer_free(writer);
}

static void compute_answer(run *u)
{
    if (u->job->kind == TT_JOB_MESSAGES)
        answer_messages(u);
    else if (u->job->kind == TT_JOB_RESPONSE || u->job->kind == TT_JOB_COMPACT)
        answer_response(u);
    else
        answer(u);
}

/* A load goes on when the client that asked for it has left: it will come again. */
static bool not_hurried(void *ctx)
{
    tt_work *w = ctx;
    return !atomic_load_explicit(&w->hurry, memory_order_relaxed);
}

static void unload(tt_work *w, tt_job *job, tt_buf *out)
{
    size_t i = tt_model_set_unload(w->models, job->model);
    const char *name = i != TT_MODEL_NONE ? tt_model_set_name(w->models, i) : NULL;
    tt_buf_puts(out, "{\"object\":\"model.unload\",\"unloaded\":");
    if (name != NULL)
        tt_reply_write_text(out, name, strlen(name));
    else
        tt_buf_puts(out, "null");
    tt_buf_putc(out, '}');
}

/* The first of those that run together sees to their model; the others may come then. */
static void use_model(tt_work *w, tt_job *job)
{
    job->st = tt_model_set_use(w->models, job->model, not_hurried, w, &job->err);
    job->load_failed = job->st != TT_OK;
    if (job->load_failed)
        return;
    pthread_mutex_lock(&w->lock);
    w->model = job->model;
    w->alone = false;
    pthread_cond_broadcast(&w->to_run);
    pthread_mutex_unlock(&w->lock);
}

/* *last receives what is to be told with the end. */
static void compute(tt_work *w, tt_job *job, bool first, tt_buf *last)
{
    run u = {.w = w, .job = job};
    tt_buf_init(&u.piece, MOST_OUT);
    if (job->kind == TT_JOB_UNLOAD)
        unload(w, job, &u.piece);
    else if (first && !atomic_load(&job->cancel))
        use_model(w, job);
    if (job->st == TT_OK && atomic_load(&job->cancel))
        job->st = tt_fail(&job->err, TT_ERR_ABORTED, "the answer was cancelled");
    else if (job->st == TT_OK && job->kind != TT_JOB_UNLOAD)
        compute_answer(&u);
    if (job->st == TT_OK)
        job->st = u.failed != TT_OK ? tt_fail(&job->err, u.failed, "no memory for the answer")
                                    : tt_buf_status(&u.piece, &job->err);
    look(&u, true);
    *last = u.piece;
}

/* Whether the next job can be computed beside those that are. */
static bool may_start(const tt_work *w, const tt_job *job)
{
    if (w->alone)
        return false;
    return w->n_running == 0 || (job->kind != TT_JOB_UNLOAD && job->model == w->model);
}

static bool begin_running(tt_work *w, tt_job *job)
{
    bool first = w->n_running == 0;
    w->alone = first;
    w->running[w->n_running++] = job;
    return first;
}

static void end_running(tt_work *w, const tt_job *job)
{
    uint32_t i = 0;
    while (w->running[i] != job)
        i++;
    w->n_running--;
    memmove(w->running + i, w->running + i + 1, (w->n_running - i) * sizeof w->running[0]);
    if (w->n_running == 0)
        w->alone = false;
    pthread_cond_broadcast(&w->to_run);
}

/* What is left to tell and that it is the last are told together: news that are taken between the
 * two would have the answer of a request that is not yet answered, nor counted. Under the lock. */
static void finish(tt_work *w, tt_job *job, tt_buf *last)
{
    if (job->st == TT_OK && job->out.len == 0) {
        /* The loop waits for this lock: an answer of many megabytes is not copied under it. */
        tt_buf before = job->out;
        job->out = *last;
        *last = before;
    } else if (job->st == TT_OK) {
        tt_buf_append(&job->out, last->data, last->len);
    }
    if (job->st == TT_OK)
        job->st = tt_buf_status(&job->out, &job->err);
    end_running(w, job);
    job->ended_at = tt_now();
    job->finished = true;
    tell(w, job);
}

/* Until there may be something to do, for so many seconds at most; below 0: without end. Under the
 * lock. */
static void wait_for(tt_work *w, double seconds)
{
    struct timespec until;
    if (seconds < 0) {
        pthread_cond_wait(&w->to_run, &w->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    seconds = seconds > 60 ? 60 : seconds;
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&w->to_run, &w->lock, &until);
}

/* Nothing to compute for this thread. When there is nothing at all, it looks after the model, and
 * waits as long as that likes. Under the lock. */
static void rest(tt_work *w)
{
    if (w->alone || w->n_running > 0 || w->resting) {
        pthread_cond_wait(&w->to_run, &w->lock);
        return;
    }
    w->alone = w->resting = true;
    pthread_mutex_unlock(&w->lock);
    double seconds = tt_model_set_idle(w->models);
    pthread_mutex_lock(&w->lock);
    w->alone = false;
    pthread_cond_broadcast(&w->to_run);
    if (!w->stop && w->run.first == NULL)
        wait_for(w, seconds);
    w->resting = false;
}

static void *runner(void *ctx)
{
    tt_work *w = ctx;
    tt_buf last;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        tt_job *job = w->run.first;
        if (job == NULL || !may_start(w, job)) {
            rest(w);
            continue;
        }
        (void)pop(&w->run);
        w->waiting--;
        bool first = begin_running(w, job);
        job->started = true;
        job->started_at = tt_now();
        tell(w, job);
        pthread_mutex_unlock(&w->lock);
        w->wake(w->wake_ctx);
        compute(w, job, first, &last);
        pthread_mutex_lock(&w->lock);
        finish(w, job, &last);
        pthread_mutex_unlock(&w->lock);
        tt_buf_free(&last);
        w->wake(w->wake_ctx);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the loop's side ---- */

void tt_work_prepare(tt_work *w, tt_job *job)
{
    pthread_mutex_lock(&w->lock);
    push(&w->prepare, job);
    pthread_cond_signal(&w->to_prepare);
    pthread_mutex_unlock(&w->lock);
}

void tt_work_run(tt_work *w, tt_job *job)
{
    pthread_mutex_lock(&w->lock);
    push(&w->run, job);
    w->waiting++;
    pthread_cond_broadcast(&w->to_run);
    pthread_mutex_unlock(&w->lock);
}

bool tt_work_remove(tt_work *w, tt_job *job)
{
    pthread_mutex_lock(&w->lock);
    bool found = unlink_job(&w->run, job);
    if (found)
        w->waiting--;
    pthread_mutex_unlock(&w->lock);
    return found;
}

tt_job *tt_work_news(tt_work *w, tt_job_news *news)
{
    pthread_mutex_lock(&w->lock);
    tt_job *job = w->news;
    if (job != NULL) {
        w->news = job->next_news;
        if (w->news == NULL)
            w->last_news = &w->news;
        job->in_news = false;
        *news = (tt_job_news){.prepared = job->prepared,
                              .started = job->started,
                              .finished = job->finished,
                              .started_at = job->started_at,
                              .ended_at = job->ended_at,
                              .out = job->out,
                              .sequence = job->next_sequence};
        tt_buf_init(&job->out, MOST_OUT);
    }
    pthread_mutex_unlock(&w->lock);
    return job;
}

void tt_work_look(tt_work *w, tt_work_view *view)
{
    pthread_mutex_lock(&w->lock);
    *view = (tt_work_view){.running = w->n_running,
                           .running_since = w->n_running > 0 ? w->running[0]->started_at : 0,
                           .waiting = w->waiting,
                           .stats = w->stats};
    for (uint32_t i = 0; i < w->n_running; i++) {
        view->prefill_done += w->running[i]->prefill_done;
        view->prefill_total += w->running[i]->prefill_total;
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- threads ---- */

tt_status tt_work_create(tt_model_set *models, uint32_t sequences, tt_request_memory *memory,
                         void (*wake)(void *ctx), void *wake_ctx, tt_work **out, tt_error *err)
{
    tt_work *w = calloc(1, sizeof *w);
    pthread_condattr_t attr;
    if (w == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the workers");
    w->models = models;
    w->memory = memory;
    w->wake = wake;
    w->wake_ctx = wake_ctx;
    w->prepare.last = &w->prepare.first;
    w->run.last = &w->run.first;
    w->last_news = &w->news;
    tt_model_set_stats(models, &w->stats);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->to_prepare, &attr);
    pthread_cond_init(&w->to_run, &attr);
    pthread_condattr_destroy(&attr);
    int e = pthread_create(&w->preparer, NULL, preparer, w);
    w->preparer_there = e == 0;
    while (e == 0 && w->n_runners < sequences) {
        e = pthread_create(&w->runners[w->n_runners], NULL, runner, w);
        w->n_runners += e == 0;
    }
    if (e != 0) {
        tt_work_close(&w);
        return tt_fail_errno(err, e, NULL, "no thread for the work");
    }
    *out = w;
    return TT_OK;
}

static void free_all(tt_work *w)
{
    tt_job *job;
    while ((job = pop(&w->prepare)) != NULL) {
        tt_request_memory_give(w->memory, job->reserved);
        tt_job_free(job);
    }
    while ((job = pop(&w->run)) != NULL)
        tt_job_free(job);
    while ((job = w->news) != NULL) {
        w->news = job->next_news;
        tt_job_free(job);
    }
}

void tt_work_hurry(tt_work *w)
{
    atomic_store(&w->hurry, true);
}

void tt_work_close(tt_work **p)
{
    tt_work *w = p != NULL ? *p : NULL;
    if (w == NULL)
        return;
    tt_work_hurry(w);
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    for (uint32_t i = 0; i < w->n_running; i++)
        atomic_store(&w->running[i]->cancel, true);
    pthread_cond_broadcast(&w->to_prepare);
    pthread_cond_broadcast(&w->to_run);
    pthread_mutex_unlock(&w->lock);
    if (w->preparer_there)
        pthread_join(w->preparer, NULL);
    for (uint32_t i = 0; i < w->n_runners; i++)
        pthread_join(w->runners[i], NULL);
    free_all(w);
    pthread_cond_destroy(&w->to_prepare);
    pthread_cond_destroy(&w->to_run);
    pthread_mutex_destroy(&w->lock);
    free(w);
    *p = NULL;
}
