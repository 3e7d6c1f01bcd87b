/* Proves that the last event of an answer and the news that it is the last come together, in every
 * protocol: a client that has seen the one would else find its request not counted yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "server/prompt_render.h"
#include "server/work.h"
#include "support/scripted_engine.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"

static const char script[] = "[{\"steps\":[{\"thought\":\"hm\"},{\"text\":\"so \"},{\"text\":\"it "
                             "is\"},{\"call\":{\"name\":\"look\",\"arguments\":{}}}]}]";

static struct {
    tt_work *work;
    atomic_bool running, finished;
    sem_t changed;
    pthread_mutex_t lock; /* a wake of the preparing thread may come late */
    tt_buf early, all;
} t = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Takes everything at the first moment at which it can be taken. */
static void on_wake(void *ctx)
{
    tt_job_news news;
    (void)ctx;
    if (!atomic_load(&t.running)) {
        sem_post(&t.changed);
        return;
    }
    pthread_mutex_lock(&t.lock);
    /* what comes after the end is the next job's */
    while (!atomic_load(&t.finished) && tt_work_news(t.work, &news) != NULL) {
        tt_buf_append(&t.all, news.out.data, news.out.len);
        if (!news.finished)
            tt_buf_append(&t.early, news.out.data, news.out.len);
        tt_buf_free(&news.out);
        if (news.finished) {
            atomic_store(&t.finished, true);
            sem_post(&t.changed);
        }
    }
    pthread_mutex_unlock(&t.lock);
}

static const struct {
    tt_job_kind kind;
    const char *body, *first, *last;
} rows[] = {
    {TT_JOB_CHAT, MESSAGES, "\"reasoning_content\":\"hm\"", "data: [DONE]"},
    {TT_JOB_TEXT, "\"prompt\":\"a\"", "\"text\":\"so \"", "data: [DONE]"},
    {TT_JOB_MESSAGES, "\"max_tokens\":9," MESSAGES, "event: message_start", "event: message_delta"},
    {TT_JOB_MESSAGES, "\"max_tokens\":9," MESSAGES, "event: message_start", "event: message_stop"},
    {TT_JOB_RESPONSE, "\"store\":false,\"input\":\"a\"", "event: response.output_text.delta",
     "event: response.completed"},
};

static bool holds(const tt_buf *b, const char *text)
{
    return b->len > 0 && memmem(b->data, b->len, text, strlen(text)) != NULL;
}

static void the_last_event_and_the_end_come_together(void **state)
{
    (void)state;
    scripted_engine *e = scripted_engine_open(script, 2048, tt_prompt_render);
    tt_server_engine seam = scripted_engine_seam(e);
    tt_model_set *set;
    tt_request_memory memory = {.most = 1 << 20};
    tt_response_store *responses = tt_response_store_create(4, 1 << 20);
    tt_error err = {.offset = -1};
    assert_non_null(responses);
    assert_int_equal(tt_model_set_create(&seam, 1, &(tt_model_set_options){0}, &set, &err), TT_OK);
    sem_init(&t.changed, 0, 0);
    assert_int_equal(tt_work_create(set, 1, &memory, on_wake, NULL, &t.work, &err), TT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tt_job_news news;
        tt_job *job = tt_job_new(rows[i].kind);
        assert_non_null(job);
        job->chunked = true;
        job->responses = responses;
        tt_buf_printf(&job->body, "{\"model\":\"scripted_4-Bit\",\"stream\":true,%s}",
                      rows[i].body);
        tt_buf_init(&t.early, 1 << 20);
        tt_buf_init(&t.all, 1 << 20);
        atomic_store(&t.running, false);
        tt_work_prepare(t.work, job);
        tt_job *prepared; /* a wake may be late, of the job before */
        while ((prepared = tt_work_news(t.work, &news)) == NULL)
            sem_wait(&t.changed);
        assert_ptr_equal(prepared, job);
        if (job->refusal.status != 0)
            fail_msg("%s", job->refusal.message);
        tt_buf_free(&news.out);
        atomic_store(&t.finished, false);
        atomic_store(&t.running, true);
        tt_work_run(t.work, job);
        while (!atomic_load(&t.finished))
            sem_wait(&t.changed);
        assert_true(holds(&t.early, rows[i].first));
        assert_true(holds(&t.all, rows[i].last));
        if (holds(&t.early, rows[i].last))
            fail_msg("told before the end: %s", rows[i].last);
        tt_buf_free(&t.early);
        tt_buf_free(&t.all);
        tt_job_free(job);
    }
    tt_work_close(&t.work);
    tt_response_store_close(&responses);
    tt_model_set_close(&set);
    scripted_engine_close(e);
    sem_destroy(&t.changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_event_and_the_end_come_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
