/* Proves that streaming changes no byte: prompts and decoded tokens of the shipped model and of a
 * random one give the same logits at every number of slots, with every reader, thread count and
 * chunk, and whatever the order in which reads complete; and that a failure at any read fails the
 * request, and only that one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/faulty_reader.h"
#include "../support/tiny_model.h"
#include "../support/vectors.h"

#define PROMPT 600u /* long enough for reads ahead into the next layer */
#define MORE   4u

static const char *const readers[] = {"uring", "pool", "buffered"};

typedef struct subject {
    const char *name, *install;
    uint32_t slots, all; /* the fewest and the most a layer */
    uint32_t step;       /* of readers and threads at each number of slots, in turn */
    uint32_t ids[PROMPT + MORE];
    float *want; /* [MORE + 1, vocab] */
    uint32_t vocab;
} subject;

static subject tales, tiny;

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static tt_model *open_with(const subject *u, uint32_t slots, const char *reader, uint32_t threads,
                           uint32_t chunk)
{
    tt_model_options o;
    tt_model_options_default(&o);
    o.expert_slots = slots;
    o.reader = reader;
    o.threads = threads;
    o.prefill_chunk = chunk;
    o.max_context = 1024;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_status st = tt_model_open(u->install, &o, NULL, NULL, &m, &err);
    if (st == TT_ERR_UNSUPPORTED && strcmp(reader, "buffered") != 0)
        return NULL; /* this system bars it */
    ok(st, &err);
    return m;
}

static tt_status walk(const subject *u, tt_session *s, uint32_t prompt, float *logits,
                      tt_error *err)
{
    size_t row = u->vocab * sizeof *logits;
    TT_TRY(tt_session_sync(s, u->ids, prompt, NULL, NULL, err));
    memcpy(logits, tt_session_logits(s), row);
    for (uint32_t i = 0; i < MORE; i++) {
        TT_TRY(tt_session_decode(s, u->ids[prompt + i], err));
        memcpy(logits + (i + 1) * u->vocab, tt_session_logits(s), row);
    }
    return TT_OK;
}

/* The logits of a model that nothing was run on before. */
static float *logits_of(const subject *u, tt_model *m)
{
    tt_session *s = NULL;
    tt_error err = {0};
    float *logits = calloc((MORE + 1) * (size_t)u->vocab, sizeof *logits);
    ok(tt_session_create(m, &s, &err), &err);
    ok(walk(u, s, PROMPT, logits, &err), &err);
    tt_session_close(&s);
    return logits;
}

static bool same(const subject *u, const float *logits)
{
    return memcmp(u->want, logits, (MORE + 1) * u->vocab * sizeof *logits) == 0;
}

/* ---- slots, readers, threads, chunks ---- */

static unsigned at_every_number_of_slots(const subject *u)
{
    unsigned runs = 0;
    for (uint32_t slots = u->slots; slots <= u->all; slots++) {
        for (uint32_t k = slots % 3; k < 6; k += u->step) {
            static const uint32_t chunks[] = {1024, 64, 320};
            uint32_t chunk = chunks[(slots + k) % 3];
            tt_model *m = open_with(u, slots, readers[k % 3], 1 + k / 3, chunk);
            if (m == NULL)
                continue;
            float *have = logits_of(u, m);
            if (!same(u, have))
                fail_msg("%s: %u slots, %s, %u threads, chunk %u: other bytes", u->name, slots,
                         readers[k % 3], 1 + k / 3, chunk);
            free(have);
            tt_model_close(&m);
            runs++;
        }
    }
    return runs;
}

static void slots_readers_threads_and_chunks_change_no_byte(void **state)
{
    assert_true(at_every_number_of_slots(&tiny) >= tiny.all - tiny.slots + 1);
    assert_true(at_every_number_of_slots(&tales) >= (tales.all - tales.slots + 1) / 2);
}

/* ---- the disk ---- */

static void make_faulty(tt_model *m, const faulty_options *o)
{
    tt_error err = {0};
    tt_reader *faulty = NULL;
    ok(faulty_reader_open(&m->reader, o, &faulty, &err), &err);
    m->reader = faulty;
    tt_expert_cache_set_reader(m->cache, faulty);
}

static void the_order_of_reads_changes_no_byte(void **state)
{
    const subject *subjects[] = {&tiny, &tales};
    for (int i = 0; i < 2; i++) {
        const subject *u = subjects[i];
        for (uint64_t seed = 1; seed <= 12; seed++) {
            faulty_options o;
            faulty_options_default(&o);
            o.seed = seed;
            o.reorder = seed % 2 == 0;
            o.threaded = seed % 3 == 0;
            o.eager = seed % 5 == 0;
            o.piece = seed % 4 * 16384;
            uint32_t slots = u->slots + (uint32_t)seed * (u->all - u->slots) / 24;
            tt_model *m = open_with(u, slots, "buffered", 2, seed % 2 ? 1024 : 128);
            make_faulty(m, &o);
            float *have = logits_of(u, m);
            if (!same(u, have))
                fail_msg("%s: seed %u: other bytes", u->name, (unsigned)seed);
            free(have);
            tt_model_close(&m);
        }
    }
}

/* Fails read `at` of a request in one of four ways; false when the request had no such read. */
static bool fail_at(const subject *u, tt_model *m, uint64_t at, int how)
{
    faulty_options o;
    tt_session *s = NULL;
    tt_error err = {0};
    float *logits = calloc((MORE + 1) * (size_t)u->vocab, sizeof *logits);
    uint64_t first = faulty_reader_started(m->reader);
    faulty_options_default(&o);
    *(how == 0 ? &o.fail_start : how == 1 ? &o.fail_read : &o.shorten) = first + at;
    o.reorder = how == 2;
    faulty_reader_set(m->reader, &o);
    ok(tt_session_create(m, &s, &err), &err);
    tt_status st = walk(u, s, PROMPT, logits, &err);
    bool reached = faulty_reader_started(m->reader) > first + at;
    /* a read on a guess may fail without anybody needing it: then all is right */
    tt_status want = how == 2 ? TT_ERR_FORMAT : TT_ERR_IO; /* the file ended, the disk failed */
    if (st == TT_OK ? !same(u, logits) : st != want || err.message[0] == '\0')
        fail_msg("%s: read %u, way %d: %s: %s", u->name, (unsigned)at, how, tt_status_name(st),
                 err.message);
    assert_int_equal(m->moe.leases.count, 0);
    faulty_options_default(&o);
    faulty_reader_set(m->reader, &o);
    ok(walk(u, s, PROMPT, logits, &err), &err);
    assert_true(same(u, logits));
    free(logits);
    tt_session_close(&s);
    return reached && st != TT_OK;
}

static void a_failure_at_every_read_ends_one_request(void **state)
{
    tt_model *m = open_with(&tiny, tiny.slots, "buffered", 1, 256);
    faulty_options o;
    faulty_options_default(&o);
    make_faulty(m, &o);
    free(logits_of(&tiny, m));
    uint64_t reads = faulty_reader_started(m->reader);
    unsigned failed = 0;
    for (uint64_t at = 0; at < reads; at++)
        failed += fail_at(&tiny, m, at, (int)(at % 3));
    assert_true(reads > 20 && failed > reads / 3);
    tt_model_close(&m);
}

/* ---- fixtures ---- */

static void make_subject(subject *u, const char *name, const char *install, uint32_t step,
                         uint64_t seed)
{
    tt_rng r = {seed};
    *u = (subject){.name = name, .install = strdup(install), .step = step};
    tt_model *m = open_with(u, 0, "buffered", 1, 1024);
    u->vocab = m->arch.vocab_size;
    u->slots = m->arch.top_k;
    u->all = m->arch.n_experts;
    for (uint32_t i = 0; i < PROMPT + MORE; i++)
        u->ids[i] = tt_rng_below(&r, u->vocab);
    u->want = logits_of(u, m);
    tt_model_close(&m);
}

static int setup(void **state)
{
    tiny_options o = {.arch = tiny_arch_plain("lfl", 9, 2), .seed = 12, .mat = TT_DTYPE_Q4};
    make_subject(&tiny, "random", tiny_install_new(&o), 1, 4);
    make_subject(&tales, "tales", fixture_install("models/tales", NULL, 4), 4, 5);
    return 0;
}

static int teardown(void **state)
{
    subject *all[] = {&tiny, &tales};
    for (int i = 0; i < 2; i++) {
        free((void *)(uintptr_t)all[i]->install);
        free(all[i]->want);
    }
    tiny_remove();
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_readers_threads_and_chunks_change_no_byte),
        cmocka_unit_test(the_order_of_reads_changes_no_byte),
        cmocka_unit_test(a_failure_at_every_read_ends_one_request),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
