/* Proves with the shipped model that answers made at once are the text of each alone: other
 * prompts, seeds, penalties, masks and lengths side by side, some given up in the middle, some that
 * wait for their prompt to be read; that those that decode go on while a long prompt is read, and
 * that a prompt is not kept from ending by them; that who was given up while he waits has left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../support/vectors.h"
#include "server/engine_library.h"
#include "server/step_gate.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1 /* by tens */
#else
#define SLOW 0
#endif

enum { ANSWERS = 10, AT_ONCE = 4, LONG = SLOW ? 600 : 3000 };

typedef struct answer {
    tt_engine_prompt prompt;
    tt_engine_request r;
    atomic_bool cancel;
    uint32_t give_up;       /* after so many events of text; 0: never */
    uint32_t events, whole; /* of a run, and of that alone */
    tt_buf text;
    char *want;
    tt_engine_result result;
    tt_status st;
    tt_error err;
} answer;

static char *install;
static tt_shelf *shelf;
static tt_library_engine *engine;
static tt_server_engine seam;
static tt_grammar *grammar;
static answer answers[ANSWERS];
static atomic_uint texts_told; /* of all answers */

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

static void open_engine(uint32_t sequences, uint32_t chunk, uint64_t prompt_cache)
{
    tt_library_options o = {.id = "tales"};
    tt_error err = {.offset = -1};
    tt_model_options_default(&o.load);
    o.load.sequences = sequences;
    o.load.prefill_chunk = chunk;
    o.load.max_context = 4096;
    o.load.prompt_cache = prompt_cache;
    o.load.threads = 2;
    ok(tt_library_engine_create(install, &o, shelf, &engine, &err), &err);
    seam = tt_library_engine_seam(engine);
    ok(seam.ops->look(seam.self, &err), &err);
    ok(seam.ops->load(seam.self, always, NULL, &err), &err);
}

static const char *said(const answer *a)
{
    return a->text.len > 0 ? a->text.data : "";
}

static bool on_event(void *ctx, const tt_engine_event *e)
{
    answer *a = ctx;
    if (e->kind != TT_EVENT_TEXT && e->kind != TT_EVENT_THOUGHT)
        return true;
    tt_buf_append(&a->text, e->text, e->len);
    atomic_fetch_add(&texts_told, 1);
    if (++a->events == a->give_up)
        atomic_store(&a->cancel, true);
    return true;
}

static void run_answer(answer *a)
{
    a->events = 0;
    tt_buf_clear(&a->text);
    a->r.ids = a->prompt.ids;
    a->r.n = a->prompt.n;
    a->r.cancel = &a->cancel;
    atomic_store(&a->cancel, false);
    a->st = seam.ops->generate(seam.self, &a->r, on_event, a, &a->result, &a->err);
}

/* ---- the answers ---- */

static void make_answer(answer *a, uint32_t i)
{
    static const char *const begins[] = {"Once upon a time there was ", "The dog ran to ",
                                         "In a small house ", "Tom and Mia "};
    char text[4096] = "";
    tt_error err = {.offset = -1};
    for (uint32_t k = 0; k < 1 + (i % 4) * 8; k++)
        strcat(text, begins[(i + k) % 4]);
    tt_engine_render render = {.text = text, .len = strlen(text)};
    tt_buf_init(&a->text, 1 << 20);
    ok(seam.ops->render(seam.self, &render, &a->prompt, &err), &err);
    a->r = (tt_engine_request){.plain = true, .max_tokens = (20 + 13 * (i % 5)) / (SLOW ? 2 : 1)};
    tt_sampler_options_default(&a->r.sampling);
    if (i % 3 > 0) {
        a->r.sampling.temperature = 0.5f + (float)(i % 3);
        a->r.sampling.top_p = 0.9f;
        a->r.sampling.seed = i;
        a->r.sampling.presence_penalty = 0.4f;
        a->r.sampling.repetition_penalty = 1.2f;
    }
    if (i % 4 == 2) {
        a->r.grammar = grammar;
        a->r.document = true;
    }
}

static char *alone(answer *a)
{
    run_answer(a);
    ok(a->st, &a->err);
    assert_true(a->text.len > 0);
    a->whole = a->events;
    return strdup(said(a));
}

/* ---- at once ---- */

typedef struct worker {
    pthread_t thread;
    uint32_t first, step;
    unsigned rounds;
} worker;

static void *work(void *ctx)
{
    const worker *me = ctx;
    for (unsigned k = 0; k < me->rounds; k++)
        for (uint32_t i = me->first; i < ANSWERS; i += me->step) {
            answer *a = &answers[i];
            a->give_up = k == 1 && i % 3 == 0 && a->whole > 6 ? 4 : 0;
            run_answer(a);
            if (a->give_up == 0 ? a->st != TT_OK || strcmp(said(a), a->want) != 0
                                : strncmp(a->want, said(a), a->text.len) != 0) {
                print_message("answer %u: %s: %s\ninstead of: %s\n", i, tt_status_name(a->st),
                              said(a), a->want);
                return (void *)1;
            }
            if (a->give_up > 0 && a->result.finish != TT_ENGINE_CANCELLED)
                return (void *)1;
        }
    return NULL;
}

static void together(uint32_t sequences, uint32_t chunk, uint64_t prompt_cache)
{
    worker w[AT_ONCE];
    open_engine(sequences, chunk, prompt_cache);
    for (uint32_t i = 0; i < sequences; i++) {
        w[i] = (worker){.first = i, .step = sequences, .rounds = SLOW ? 2 : 3};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    bool failed = false;
    for (uint32_t i = 0; i < sequences; i++) {
        void *result;
        pthread_join(w[i].thread, &result);
        failed |= result != NULL;
    }
    assert_false(failed);
    tt_library_engine_close(&engine);
}

static void each_is_the_text_of_itself_alone(void **state)
{
    (void)state;
    together(4, 64, 0);
    if (!SLOW)
        together(2, 0, 0);
    /* What one left is another's beginning. From prefill alone it is the same bytes. */
    together(3, 128, 32 * TT_MIB);
}

/* ---- prompts ---- */

typedef struct reading {
    answer *a;
    unsigned before, after; /* texts of others, when its reading began and had ended */
    atomic_bool begun, ended;
    pthread_t thread;
} reading;

static bool on_reading(void *ctx, const tt_engine_event *e)
{
    reading *r = ctx;
    if (e->kind == TT_EVENT_START) {
        r->before = atomic_load(&texts_told);
        atomic_store(&r->begun, true);
    } else if (e->kind == TT_EVENT_PREFILL && e->done == e->total) {
        r->after = atomic_load(&texts_told);
    }
    return true;
}

static void *read_long(void *ctx)
{
    reading *r = ctx;
    answer *a = r->a;
    a->st = seam.ops->generate(seam.self, &a->r, on_reading, r, &a->result, &a->err);
    atomic_store(&r->ended, true);
    return NULL;
}

static void *write_on(void *ctx)
{
    run_answer(ctx);
    return NULL;
}

/* One chunk, so that all that others get they get inside it. */
static void a_long_prompt_holds_nobody_up(void **state)
{
    (void)state;
    pthread_t thread;
    answer writer = answers[0], read = {.r = answers[0].r};
    uint32_t *ids = malloc(LONG * sizeof *ids);
    open_engine(2, 4096, 0);
    tt_buf_init(&writer.text, 1 << 20);
    writer.give_up = 0;
    writer.r.max_tokens = 2000;
    writer.r.sampling.temperature = 1;
    for (uint32_t i = 0; i < LONG; i++)
        ids[i] = answers[1].prompt.ids[i % answers[1].prompt.n];
    read.r.ids = ids;
    read.r.n = LONG;
    read.r.max_tokens = 1;
    read.r.cancel = &read.cancel;
    reading r = {.a = &read};
    atomic_store(&texts_told, 0);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    while (atomic_load(&texts_told) < 3)
        ;
    assert_int_equal(pthread_create(&r.thread, NULL, read_long, &r), 0);
    pthread_join(r.thread, NULL);
    ok(read.st, &read.err);
    atomic_store(&writer.cancel, true);
    pthread_join(thread, NULL);
    ok(writer.st, &writer.err);
    if (writer.result.finish == TT_ENGINE_CANCELLED) /* else it had ended by itself */
        assert_true(r.after > r.before + 5);
    else
        print_message("skip: the story was over before the prompt was read\n");
    assert_true(read.result.generated_tokens == 1);
    tt_engine_stats stats;
    seam.ops->stats(seam.self, &stats);
    assert_true(stats.model.expert_asks > 0);
    tt_buf_free(&writer.text);
    free(ids);
    tt_library_engine_close(&engine);
}

/* A prompt that waits for another one's chunk is given up at once. */
static void who_waits_can_leave(void **state)
{
    (void)state;
    answer first = {.r = answers[0].r}, second = {.r = answers[0].r};
    uint32_t *ids = malloc(LONG * sizeof *ids);
    open_engine(2, 4096, 0);
    for (uint32_t i = 0; i < LONG; i++)
        ids[i] = answers[1].prompt.ids[i % answers[1].prompt.n];
    first.r.ids = second.r.ids = ids;
    first.r.n = second.r.n = LONG;
    first.r.max_tokens = second.r.max_tokens = 1;
    first.r.cancel = &first.cancel;
    second.r.cancel = &second.cancel;
    reading a = {.a = &first}, b = {.a = &second};
    assert_int_equal(pthread_create(&a.thread, NULL, read_long, &a), 0);
    while (!atomic_load(&a.begun))
        ;
    atomic_store(&second.cancel, true);
    assert_int_equal(pthread_create(&b.thread, NULL, read_long, &b), 0);
    pthread_join(b.thread, NULL);
    assert_int_equal(second.result.finish, TT_ENGINE_CANCELLED);
    assert_false(atomic_load(&b.begun));
    assert_false(atomic_load(&a.ended));
    atomic_store(&first.cancel, true);
    pthread_join(a.thread, NULL);
    assert_int_equal(first.result.finish, TT_ENGINE_CANCELLED);
    free(ids);
    tt_library_engine_close(&engine);
}

/* ---- fixtures ---- */

static int setup(void **state)
{
    tt_error err = {.offset = -1};
    (void)state;
    install = strdup(fixture_install("models/tales", NULL, 4));
    ok(tt_shelf_create(&shelf, &err), &err);
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":"
                                 "\"string\"},\"age\":{\"type\":\"integer\"}},\"required\":["
                                 "\"name\",\"age\"],\"additionalProperties\":false}";
    ok(tt_grammar_from_schema(schema, strlen(schema), &grammar, &err), &err);
    open_engine(1, 0, 0);
    for (uint32_t i = 0; i < ANSWERS; i++)
        make_answer(&answers[i], i);
    for (uint32_t i = 0; i < ANSWERS; i++)
        answers[i].want = alone(&answers[i]);
    tt_library_engine_close(&engine);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ANSWERS; i++) {
        free(answers[i].want);
        tt_buf_free(&answers[i].text);
        tt_free(answers[i].prompt.ids);
    }
    tt_grammar_close(&grammar);
    tt_shelf_close(&shelf);
    free(install);
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_the_text_of_itself_alone),
        cmocka_unit_test(a_long_prompt_holds_nobody_up),
        cmocka_unit_test(who_waits_can_leave),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
