/* Proves that a heat profile is kept at close and taken up at open, that experts are then read
 * ahead within their bounds, that warm or cold logits are the same bytes whatever the disk does,
 * and that nothing fails for a profile that is missing, damaged, another model's, or cannot be
 * written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../support/faulty_reader.h"
#include "../support/tempdir.h"
#include "../support/tiny_model.h"
#include "../support/vectors.h"
#include "base/file.h"

enum { N = 150, PROMPT = 64 };

/* Sets the size that files of this process may grow to; a write beyond it fails as on a full disk
 * does. */
static void limit_files(rlim_t most)
{
    struct rlimit l;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = most < l.rlim_max ? most : l.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static uint32_t *prompt; /* [N] */
static char dir[512], profile[700];

static tt_model *open_as(const char *install, uint32_t slots, const char *file, float seconds)
{
    tt_model_options o;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_model_options_default(&o);
    assert_true(o.warm_seconds == TT_WARM_AUTO);
    o.threads = 2;
    o.expert_slots = slots;
    o.heat_profile = file;
    o.warm_seconds = seconds;
    if (tt_model_open(install, &o, NULL, NULL, &m, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    return m;
}

static const char *tales(void)
{
    return fixture_install("models/tales", NULL, 4);
}

static float *trajectory(tt_model *m)
{
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    size_t vocab = m->arch.vocab_size;
    float *out = malloc((N - PROMPT + 1) * vocab * sizeof *out);
    tt_status st = tt_session_prefill(s, prompt, PROMPT, NULL, &err);
    for (uint32_t i = PROMPT; st == TT_OK; i++) {
        memcpy(out + (i - PROMPT) * vocab, tt_session_logits(s), vocab * sizeof *out);
        if (i == N)
            break;
        st = tt_session_decode(s, prompt[i], &err);
    }
    if (st != TT_OK)
        fail_msg("%s", err.message);
    tt_session_close(&s);
    return out;
}

static tt_model_stats stats(const tt_model *m)
{
    tt_model_stats s;
    tt_model_get_stats(m, &s);
    return s;
}

static void slurp(const char *path, char **bytes, size_t *n)
{
    assert_int_equal(tt_file_read(path, TT_MIB, bytes, n, NULL), TT_OK);
}

static void fresh_profile(void)
{
    (void)unlink(profile);
    tt_model *m = open_as(tales(), 0, profile, TT_WARM_AUTO);
    assert_int_equal(tt_model_get_plan(m)->heat_status, TT_ERR_NOT_FOUND);
    assert_non_null(strstr(tt_model_get_plan(m)->heat, "none yet"));
    free(trajectory(m));
    tt_model_close(&m);
    assert_true(tt_file_exists(profile));
}

/* Idle until warming has ended; counts the calls that asked for another one soon. */
static unsigned idle(tt_model *m)
{
    unsigned n = 0;
    for (; tt_model_idle(m) >= 0 && tt_expert_cache_warming(m->cache); n++)
        sched_yield(); /* the disk works */
    return n;
}

static void a_run_begins_where_the_last_one_ended(void **state)
{
    fresh_profile();
    static const uint32_t slots[] = {32, 6};
    for (unsigned i = 0; i < 2; i++) {
        tt_model *m = open_as(tales(), slots[i], profile, 60);
        const tt_plan *p = tt_model_get_plan(m);
        assert_int_equal(p->heat_status, TT_OK);
        assert_string_equal(p->heat, profile);
        assert_true(p->warm_seconds == 60);
        assert_true(idle(m) > 0);
        tt_model_stats s = stats(m);
        assert_int_equal(s.expert_bytes_read, 0); /* what was read ahead is counted apart */
        assert_true(s.warm_bytes > 0);
        assert_true(s.warm_bytes <= p->slots_total * p->expert_bytes);
        free(trajectory(m));
        tt_model_stats warm = stats(m);
        assert_int_equal(warm.warm_bytes, s.warm_bytes);
        tt_model_close(&m);
        m = open_as(tales(), slots[i], NULL, TT_WARM_AUTO);
        free(trajectory(m));
        assert_true(stats(m).expert_hits < warm.expert_hits);
        if (slots[i] == 32) /* all that the same run asks is there */
            assert_int_equal(warm.expert_misses, 0);
        tt_model_close(&m);
    }
}

static void warm_or_cold_the_bytes_are_the_same(void **state)
{
    fresh_profile();
    static const uint32_t slots[] = {4, 7, 32};
    tt_model *m = open_as(tales(), 0, NULL, TT_WARM_AUTO);
    size_t bytes = (N - PROMPT + 1) * m->arch.vocab_size * sizeof(float);
    float *want = trajectory(m);
    tt_model_close(&m);
    for (unsigned i = 0; i < 12; i++) {
        m = open_as(tales(), slots[i % 3], profile, 60);
        if (i >= 3) { /* reads ahead are in flight while others are asked */
            faulty_options f;
            tt_reader *faulty = NULL;
            faulty_options_default(&f);
            f.seed = i;
            f.reorder = true;
            f.threaded = i >= 6;
            f.piece = i >= 9 ? 16384 : 0;
            assert_int_equal(faulty_reader_open(&m->reader, &f, &faulty, NULL), TT_OK);
            m->reader = faulty;
            tt_expert_cache_set_reader(m->cache, faulty);
        }
        float *have = trajectory(m);
        assert_memory_equal(want, have, bytes);
        free(have);
        tt_model_close(&m);
    }
    free(want);
}

/* A read ahead that fails is nobody's failure. */
static void failed_reads_ahead_fail_nothing(void **state)
{
    fresh_profile();
    tt_model *m = open_as(tales(), 32, profile, 60);
    float *want = trajectory(m);
    size_t bytes = (N - PROMPT + 1) * m->arch.vocab_size * sizeof(float);
    tt_model_close(&m);
    fresh_profile();
    m = open_as(tales(), 32, profile, 60);
    faulty_options f;
    tt_reader *faulty = NULL;
    faulty_options_default(&f);
    f.eager = true;
    f.fail_every = 2;
    assert_int_equal(faulty_reader_open(&m->reader, &f, &faulty, NULL), TT_OK);
    m->reader = faulty;
    tt_expert_cache_set_reader(m->cache, faulty);
    idle(m);
    tt_expert_cache_stats s;
    tt_expert_cache_get_stats(m->cache, &s);
    assert_true(s.warm_failures > 10);
    f.fail_every = 0;
    faulty_reader_set(m->reader, &f);
    float *have = trajectory(m);
    assert_memory_equal(want, have, bytes);
    free(want);
    free(have);
    tt_model_close(&m);
}

static void off_leaves_the_profile_alone(void **state)
{
    fresh_profile();
    char *before, *after;
    size_t n, m_bytes;
    slurp(profile, &before, &n);
    tt_model *m = open_as(tales(), 0, profile, 0);
    const tt_plan *p = tt_model_get_plan(m);
    assert_true(p->warm_seconds == 0);
    assert_string_equal(p->heat, "");
    free(trajectory(m));
    assert_int_equal(stats(m).warm_bytes, 0);
    assert_int_equal(tt_model_save_heat(m, NULL), TT_OK);
    tt_model_close(&m);
    slurp(profile, &after, &m_bytes);
    assert_int_equal(n, m_bytes);
    assert_memory_equal(before, after, n);
    tt_free(before);
    tt_free(after);
}

/* Nothing is written for a run that used nothing, and what was saved is not written again. */
static void only_news_are_written(void **state)
{
    (void)unlink(profile);
    tt_model *m = open_as(tales(), 0, profile, TT_WARM_AUTO);
    assert_int_equal(tt_model_save_heat(m, NULL), TT_OK);
    assert_false(tt_file_exists(profile));
    free(trajectory(m));
    assert_int_equal(tt_model_save_heat(m, NULL), TT_OK);
    assert_true(tt_file_exists(profile));
    assert_int_equal(unlink(profile), 0);
    tt_model_close(&m);
    assert_false(tt_file_exists(profile));
}

static void what_is_wrong_is_told_and_fails_nothing(void **state)
{
    fresh_profile();
    char *bytes;
    size_t n;
    slurp(profile, &bytes, &n);
    /* of the same model at other bits */
    tt_model *m = open_as(fixture_install("models/tales", NULL, 8), 0, profile, TT_WARM_AUTO);
    assert_int_equal(tt_model_get_plan(m)->heat_status, TT_ERR_STATE);
    assert_non_null(strstr(tt_model_get_plan(m)->heat, "another model"));
    assert_true(idle(m) == 0);
    assert_int_equal(stats(m).warm_bytes, 0);
    tt_model_close(&m);
    /* one wrong bit */
    bytes[n / 2] ^= 1;
    assert_int_equal(tt_file_publish(profile, bytes, n, NULL), TT_OK);
    tt_free(bytes);
    tt_plan plan;
    tt_model_options o;
    tt_model_options_default(&o);
    o.heat_profile = profile;
    assert_int_equal(tt_model_plan(tales(), &o, &plan, NULL), TT_OK);
    assert_int_equal(plan.heat_status, TT_ERR_CORRUPT);
    assert_non_null(strstr(plan.heat, "checksum"));
    m = open_as(tales(), 0, profile, TT_WARM_AUTO);
    assert_int_equal(tt_model_get_plan(m)->heat_status, TT_ERR_CORRUPT);
    free(trajectory(m));
    tt_model_close(&m);
    /* which heals it */
    assert_int_equal(tt_model_plan(tales(), &o, &plan, NULL), TT_OK);
    assert_int_equal(plan.heat_status, TT_OK);
}

static void places_that_cannot_be_written(void **state)
{
    char path[800];
    fresh_profile();
    snprintf(path, sizeof path, "%s/below.heat", profile); /* below a file */
    for (unsigned i = 0; i < 2; i++) {
        tt_error err = {0};
        tt_model *m = open_as(tales(), 0, path, TT_WARM_AUTO);
        free(trajectory(m));
        assert_int_not_equal(tt_model_save_heat(m, &err), TT_OK);
        assert_non_null(strstr(err.file, dir));
        assert_false(tt_file_exists(path));
        tt_model_close(&m); /* silent */
        /* a disk that takes no more */
        snprintf(path, sizeof path, "%s/full.heat", dir);
        limit_files(0);
    }
    limit_files(RLIM_INFINITY);
}

static void dense_models_have_none(void **state)
{
    tiny_options o = {.arch = tiny_arch_plain("lf", 0, 0), .seed = 3, .mat = TT_DTYPE_Q8};
    (void)unlink(profile);
    tt_model *m = open_as(tiny_install_new(&o), 0, profile, TT_WARM_AUTO);
    assert_string_equal(tt_model_get_plan(m)->heat, "");
    assert_true(tt_model_get_plan(m)->warm_seconds == 0);
    assert_true(tt_model_idle(m) < 0);
    assert_int_equal(tt_model_save_heat(m, NULL), TT_OK);
    tt_model_close(&m);
    assert_false(tt_file_exists(profile));
}

static int setup(void **state)
{
    json_t *json = NULL;
    size_t n = 0;
    tempdir_make(dir);
    snprintf(profile, sizeof profile, "%s/tales.heat", dir);
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
    tiny_remove();
    tempdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_begins_where_the_last_one_ended),
        cmocka_unit_test(warm_or_cold_the_bytes_are_the_same),
        cmocka_unit_test(failed_reads_ahead_fail_nothing),
        cmocka_unit_test(off_leaves_the_profile_alone),
        cmocka_unit_test(only_news_are_written),
        cmocka_unit_test(what_is_wrong_is_told_and_fails_nothing),
        cmocka_unit_test(places_that_cannot_be_written),
        cmocka_unit_test(dense_models_have_none),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
