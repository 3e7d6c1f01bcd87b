/* Proves that a timeline is one prefix: sync reuses and rewinds rightly, snapshot and restore
 * continue byte for byte, KV rows without the recurrent state do not, and neither threads, slots,
 * cuts at 64 nor failed reads change a byte of logits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/faulty_reader.h"
#include "../support/vectors.h"

#define N 150u

static uint32_t *prompt; /* [N] the prompt of the vectors */

static tt_model *open_tales(unsigned bits, unsigned kv_bits, unsigned slots, unsigned threads)
{
    return fixture_model(fixture_install("models/tales", NULL, bits), NULL, kv_bits, slots,
                         threads);
}

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static size_t sync_to(tt_session *s, const uint32_t *ids, size_t n)
{
    tt_error err = {0};
    size_t reused = 0;
    ok(tt_session_sync(s, ids, n, NULL, &reused, &err), &err);
    assert_int_equal(tt_session_n_tokens(s), n);
    return reused;
}

static void decode(tt_session *s, uint32_t id)
{
    tt_error err = {0};
    ok(tt_session_decode(s, id, &err), &err);
}

static float *copy_logits(const tt_session *s)
{
    size_t n = s->model->arch.vocab_size * sizeof(float);
    float *out = malloc(n);
    assert_non_null(tt_session_logits(s));
    memcpy(out, tt_session_logits(s), n);
    return out;
}

static bool same_logits(const tt_session *s, const float *want)
{
    return memcmp(tt_session_logits(s), want, s->model->arch.vocab_size * sizeof(float)) == 0;
}

/* ---- snapshot ---- */

static void *take_snapshot(const tt_session *s, size_t *size)
{
    tt_error err = {0};
    *size = tt_session_snapshot_size(s);
    void *buf = malloc(*size);
    ok(tt_session_snapshot(s, buf, *size, &err), &err);
    return buf;
}

static void continue_after_restore(unsigned kv_bits)
{
    tt_model *m = open_tales(4, kv_bits, 0, 2);
    tt_session *a = fixture_session(m), *b = fixture_session(m);
    tt_error err = {0};
    size_t size = 0;
    sync_to(a, prompt, 100);
    decode(a, prompt[100]);
    void *snap = take_snapshot(a, &size);
    sync_to(b, prompt + 3, 77); /* something else stands there before */
    ok(tt_session_restore(b, snap, size, &err), &err);
    assert_int_equal(tt_session_n_tokens(b), 101);
    float *now = copy_logits(a);
    assert_true(same_logits(b, now));
    free(now);
    for (unsigned i = 101; i < 140; i++) {
        decode(a, prompt[i]);
        decode(b, prompt[i]);
        now = copy_logits(a);
        assert_true(same_logits(b, now));
        free(now);
    }
    /* and a prefill on top */
    sync_to(a, prompt, N);
    sync_to(b, prompt, N);
    now = copy_logits(a);
    assert_true(same_logits(b, now));
    free(now);
    free(snap);
    tt_session_close(&a);
    tt_session_close(&b);
    tt_model_close(&m);
}

static void snapshot_continues_byte_for_byte(void **state)
{
    continue_after_restore(8);
    continue_after_restore(4);
    continue_after_restore(16);
    continue_after_restore(32);
}

static void kv_rows_alone_are_not_a_prefix(void **state)
{
    tt_model *m = open_tales(4, 8, 0, 2);
    tt_session *a = fixture_session(m), *b = fixture_session(m);
    tt_error err = {0};
    size_t size = 0;
    sync_to(a, prompt, 100);
    void *snap = take_snapshot(a, &size);
    sync_to(b, prompt + 3, 77);
    /* restore everything, then put back the recurrent state of the other timeline */
    void *other = malloc(b->recurrent.bytes);
    memcpy(other, b->recurrent.block, b->recurrent.bytes);
    ok(tt_session_restore(b, snap, size, &err), &err);
    memcpy(b->recurrent.block, other, b->recurrent.bytes);
    decode(a, prompt[100]);
    decode(b, prompt[100]);
    float *want = copy_logits(a);
    assert_false(same_logits(b, want));
    free(want);
    free(other);
    free(snap);
    tt_session_close(&a);
    tt_session_close(&b);
    tt_model_close(&m);
}

static void snapshots_refuse_what_they_are_not(void **state)
{
    tt_model *m = open_tales(4, 8, 0, 1), *other = open_tales(4, 16, 0, 1);
    tt_session *a = fixture_session(m), *b = fixture_session(other);
    tt_error err = {0};
    size_t size = 0;
    sync_to(a, prompt, 70);
    unsigned char *snap = take_snapshot(a, &size);
    assert_int_equal(tt_session_restore(b, snap, size, &err), TT_ERR_STATE); /* other KV width */
    assert_non_null(strstr(err.message, "kv 8"));
    assert_int_equal(tt_session_restore(a, snap, size - 1, &err), TT_ERR_FORMAT);
    assert_int_equal(tt_session_restore(a, snap, 10, &err), TT_ERR_FORMAT);
    for (size_t at = 0; at < size; at += at < 256 ? 1 : size / 97) {
        snap[at] ^= 1;
        assert_int_not_equal(tt_session_restore(a, snap, size, &err), TT_OK);
        snap[at] ^= 1;
    }
    ok(tt_session_restore(a, snap, size, &err), &err);
    free(snap);
    tt_session_close(&a);
    tt_session_close(&b);
    tt_model_close(&m);
    tt_model_close(&other);
}

/* ---- sync ---- */

static void sync_reuses_what_it_can(void **state)
{
    tt_model *m = open_tales(4, 8, 0, 2);
    tt_session *s = fixture_session(m), *cold = fixture_session(m);
    assert_int_equal(sync_to(s, prompt, 64), 0);
    assert_int_equal(sync_to(s, prompt, 64), 64);  /* nothing to do */
    assert_int_equal(sync_to(s, prompt, 128), 64); /* extends */
    sync_to(cold, prompt, 128);
    float *want = copy_logits(cold);
    assert_true(same_logits(s, want));
    /* generated tokens are dropped by going back to the last multiple of 64 before them */
    decode(s, 11);
    decode(s, 295);
    assert_int_equal(sync_to(s, prompt, 140), 128);
    decode(s, 11);
    /* as what stays would be, between two of them */
    assert_int_equal(sync_to(s, tt_session_tokens(s), 141), 141);
    decode(s, 11);
    assert_int_equal(sync_to(s, prompt, 145), 128);
    /* a prefix before the checkpoint means starting again */
    assert_int_equal(tt_session_reusable(s, 100), 0);
    assert_int_equal(sync_to(s, prompt, 100), 0);
    free(want);
    want = copy_logits(s);
    assert_int_equal(sync_to(cold, prompt, 100), 0);
    assert_true(same_logits(cold, want));
    free(want);
    tt_session_close(&s);
    tt_session_close(&cold);
    tt_model_close(&m);
}

static void a_dense_cut_rewinds_only_where_state_is_kept(void **state)
{
    tt_model *m = open_tales(4, 8, 0, 1);
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    sync_to(s, prompt, 90);
    decode(s, prompt[90]);
    assert_int_equal(tt_session_reusable(s, 91), 91);
    assert_int_equal(tt_session_reusable(s, 90), 64);
    assert_int_equal(tt_session_reusable(s, 63), 0);
    assert_int_equal(tt_session_rewind(s, 50, &err), TT_ERR_STATE);
    assert_int_equal(tt_session_n_tokens(s), 91);
    ok(tt_session_rewind(s, 91, &err), &err);
    assert_non_null(tt_session_logits(s));
    ok(tt_session_rewind(s, 64, &err), &err);
    assert_null(tt_session_logits(s));
    ok(tt_session_rewind(s, 0, &err), &err);
    assert_null(tt_session_logits(s));
    tt_session_close(&s);
    tt_model_close(&m);
}

static void wrong_prompts_are_refused(void **state)
{
    tt_model *m = open_tales(4, 8, 0, 1);
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    uint32_t bad = m->arch.vocab_size;
    assert_int_equal(tt_session_sync(s, prompt, 0, NULL, NULL, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_sync(s, &bad, 1, NULL, NULL, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_decode(s, bad, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_sync(s, prompt, m->plan.max_context + 1, NULL, NULL, &err),
                     TT_ERR_CONTEXT);
    assert_int_equal(tt_session_n_tokens(s), 0);
    tt_session_close(&s);
    tt_model_close(&m);
}

static bool stop_at_64(void *ctx, uint64_t done, uint64_t total)
{
    return done < 64;
}

static bool stop_in_the_middle(void *ctx, uint64_t done, uint64_t total)
{
    unsigned *calls = ctx;
    ++*calls;
    assert_true(done > 0 && done < total);
    return *calls < 2;
}

/* A chunk that takes long is left between its layers. */
static void a_large_chunk_can_be_aborted_inside(void **state)
{
    tt_model_options mo;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_model_options_default(&mo);
    mo.prefill_chunk = 512;
    ok(tt_model_open(fixture_install("models/tales", NULL, 4), &mo, NULL, NULL, &m, &err), &err);
    tt_session *s = fixture_session(m), *cold = fixture_session(m);
    unsigned calls = 0;
    tt_prefill_options o = {.progress = stop_in_the_middle, .progress_ctx = &calls};
    assert_true(N > 64 && N <= 512);
    assert_int_equal(tt_session_sync(s, prompt, N, &o, NULL, &err), TT_ERR_ABORTED);
    assert_int_equal(calls, 2);
    assert_int_equal(tt_session_n_tokens(s), 0);
    assert_null(tt_session_logits(s));
    assert_int_equal(sync_to(s, prompt, N), 0);
    sync_to(cold, prompt, N);
    float *want = copy_logits(cold);
    assert_true(same_logits(s, want));
    free(want);
    tt_session_close(&s);
    tt_session_close(&cold);
    tt_model_close(&m);
}

static void an_aborted_prefill_leaves_a_shorter_prefix(void **state)
{
    tt_model_options mo;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_model_options_default(&mo);
    mo.prefill_chunk = 64;
    ok(tt_model_open(fixture_install("models/tales", NULL, 4), &mo, NULL, NULL, &m, &err), &err);
    tt_session *s = fixture_session(m), *cold = fixture_session(m);
    tt_prefill_options o = {.progress = stop_at_64};
    assert_int_equal(tt_session_sync(s, prompt, N, &o, NULL, &err), TT_ERR_ABORTED);
    assert_int_equal(tt_session_n_tokens(s), 64);
    assert_int_equal(sync_to(s, prompt, N), 64);
    sync_to(cold, prompt, N);
    float *want = copy_logits(cold);
    assert_true(same_logits(s, want));
    free(want);
    tt_session_close(&s);
    tt_session_close(&cold);
    tt_model_close(&m);
}

/* ---- determinism ---- */

/* Prefills 128, decodes the rest of the prompt, returns all logits of the decoded rows. */
static float *trajectory(tt_model *m, uint32_t cut)
{
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    size_t vocab = m->arch.vocab_size, rows = N - 128 + 1;
    float *out = malloc(rows * vocab * sizeof *out);
    for (uint32_t at = 0; at < 128; at += cut)
        ok(tt_session_prefill(s, prompt + at, cut, NULL, &err), &err);
    memcpy(out, tt_session_logits(s), vocab * sizeof *out);
    for (uint32_t i = 128; i < N; i++) {
        decode(s, prompt[i]);
        memcpy(out + (i - 127) * vocab, tt_session_logits(s), vocab * sizeof *out);
    }
    tt_session_close(&s);
    return out;
}

static void threads_slots_and_cuts_change_no_byte(void **state)
{
    static const unsigned slots[] = {4, 5, 9, 16, 31, 32};
    size_t bytes = 0;
    for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
        float *want = NULL;
        for (unsigned threads = 1; threads <= 3; threads++) {
            for (unsigned k = 0; k < sizeof slots / sizeof slots[0]; k++) {
                if (threads > 1 && k % 2 == 0)
                    continue;
                tt_model *m = fixture_model(fixture_install("models/tales", NULL, 4),
                                            tt_cpu_level_at(i), 8, slots[k], threads);
                bytes = (N - 128 + 1) * m->arch.vocab_size * sizeof(float);
                float *have = trajectory(m, k % 3 == 0 ? 128 : 64);
                if (want == NULL)
                    want = have;
                else if (memcmp(want, have, bytes) != 0)
                    fail_msg("level %s, %u threads, %u slots: other bytes", tt_cpu_level_at(i),
                             threads, slots[k]);
                if (have != want)
                    free(have);
                tt_model_close(&m);
            }
        }
        free(want);
    }
}

/* ---- failing reads ---- */

/* From here on every read of the model goes through a reader that does as `o` says. */
static void make_faulty(tt_model *m, const faulty_options *o)
{
    tt_error err = {0};
    tt_reader *faulty = NULL;
    ok(faulty_reader_open(&m->reader, o, &faulty, &err), &err);
    m->reader = faulty;
    tt_expert_cache_set_reader(m->cache, faulty);
}

static void a_failed_read_fails_the_request_and_not_the_next(void **state)
{
    tt_model *m = open_tales(4, 8, 4, 2);
    float *want = trajectory(m, 64);
    size_t bytes = (N - 128 + 1) * m->arch.vocab_size * sizeof(float);
    faulty_options o, good;
    faulty_options_default(&good);
    make_faulty(m, &good);
    unsigned failures = 0;
    for (uint64_t at = 0; at < 1500; at = at * 2 + 1) {
        tt_session *s = fixture_session(m);
        tt_error err = {0};
        o = good;
        *(at % 3 == 0   ? &o.fail_start
          : at % 3 == 1 ? &o.fail_read
                        : &o.corrupt) = faulty_reader_started(m->reader) + at;
        faulty_reader_set(m->reader, &o);
        tt_status st = tt_session_sync(s, prompt, 128, NULL, NULL, &err);
        for (uint32_t i = 128; i < N && st == TT_OK; i++)
            st = tt_session_decode(s, prompt[i], &err);
        failures += st != TT_OK;
        if (st != TT_OK && st != TT_ERR_IO && st != TT_ERR_CORRUPT)
            fail_msg("read %u: %s: %s", (unsigned)at, tt_status_name(st), err.message);
        /* the same session goes on */
        faulty_reader_set(m->reader, &good);
        ok(tt_session_sync(s, prompt, 128, NULL, NULL, &err), &err);
        assert_memory_equal(tt_session_logits(s), want, m->arch.vocab_size * sizeof(float));
        tt_session_close(&s);
    }
    assert_true(failures >= 8);
    float *again = trajectory(m, 128);
    assert_memory_equal(want, again, bytes);
    free(want);
    free(again);
    tt_model_close(&m);
}

static void disk_timing_changes_no_byte(void **state)
{
    tt_model *m = open_tales(4, 8, 5, 2);
    float *want = trajectory(m, 64);
    size_t bytes = (N - 128 + 1) * m->arch.vocab_size * sizeof(float);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        faulty_options o;
        faulty_options_default(&o);
        o.seed = seed;
        o.reorder = true;
        o.threaded = seed == 2;
        o.eager = seed == 3;
        o.piece = 16384;
        tt_model *slow = open_tales(4, 8, 5, 2);
        make_faulty(slow, &o);
        float *have = trajectory(slow, 64);
        assert_memory_equal(want, have, bytes);
        free(have);
        tt_model_close(&slow);
    }
    free(want);
    tt_model_close(&m);
}

static int setup(void **state)
{
    json_t *json = NULL;
    size_t n = 0;
    if (tt_json_load("tests/vectors/tales/expected.json", 1 << 24, &json, NULL) != TT_OK)
        return -1;
    prompt = vector_ids(json, "prompt_ids", &n);
    json_decref(json);
    return n == N ? 0 : -1;
}

static int teardown(void **state)
{
    free(prompt);
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshot_continues_byte_for_byte),
        cmocka_unit_test(kv_rows_alone_are_not_a_prefix),
        cmocka_unit_test(snapshots_refuse_what_they_are_not),
        cmocka_unit_test(sync_reuses_what_it_can),
        cmocka_unit_test(a_dense_cut_rewinds_only_where_state_is_kept),
        cmocka_unit_test(wrong_prompts_are_refused),
        cmocka_unit_test(an_aborted_prefill_leaves_a_shorter_prefix),
        cmocka_unit_test(a_large_chunk_can_be_aborted_inside),
        cmocka_unit_test(threads_slots_and_cuts_change_no_byte),
        cmocka_unit_test(a_failed_read_fails_the_request_and_not_the_next),
        cmocka_unit_test(disk_timing_changes_no_byte),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
