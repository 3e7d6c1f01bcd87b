/* Proves prompt state that outlives its process: what a directory has goes on byte for byte, as a
 * cold run where prefill made it and as the run that made it where decode did; another model,
 * level, width, scaling or way of rendering does not; what is damaged is computed; a turn writes
 * its new rows and two checkpoints at most, however long the conversation is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/approx.h"
#include "../support/faulty_store.h"
#include "../support/tempdir.h"
#include "../support/tiny_model.h"
#include "../support/vectors.h"
#include "session/state_disk.h"
#include "session/state_key.h"

#define N 900u

static uint32_t words[N];
static char place[512]; /* of one test */
static faulty_store faults;

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

/* ---- a process: model, cache with the directory, session ---- */

typedef struct rig {
    const char *install, *level, *backend, *render;
    uint32_t kv_bits, context;
    float yarn;
    uint64_t limit;
    tt_model *m;
    tt_state_cache *cache;
    tt_session *s, *cold; /* the last has no cache */
} rig;

static void start(rig *r)
{
    tt_model_options o;
    tt_state_disk_options d = {.dir = place, .limit = r->limit, .render = r->render};
    tt_store_io io = faulty_store_io(&faults);
    tt_error err = {0};
    tt_model_options_default(&o);
    o.backend = r->backend;
    o.cpu_level = r->level;
    o.kv_bits = r->kv_bits > 0 ? r->kv_bits : 8;
    o.max_context = r->context > 0 ? r->context : N;
    o.yarn_factor = r->yarn;
    o.prompt_cache = 64 * TT_MIB;
    o.threads = 2;
    ok(tt_model_open(r->install, &o, NULL, NULL, &r->m, &err), &err);
    ok(tt_state_cache_create(r->m, &r->cache, &err), &err);
    ok(tt_state_cache_use_disk_io(r->cache, &d, &io, &err), &err);
    ok(tt_session_create(r->m, &r->s, &err), &err);
    ok(tt_session_create(r->m, &r->cold, &err), &err);
    ok(tt_session_use_cache(r->s, r->cache, &err), &err);
}

static void stop(rig *r)
{
    tt_session_close(&r->s);
    tt_session_close(&r->cold);
    tt_state_cache_close(&r->cache);
    tt_model_close(&r->m);
}

static const char *tiny(const char *kinds, uint32_t experts, uint64_t seed)
{
    tiny_options o = {.arch = tiny_arch_plain(kinds, experts, experts > 0 ? 2 : 0),
                      .seed = seed,
                      .mat = TT_DTYPE_Q8};
    return tiny_install_new(&o);
}

static size_t sync_to(tt_session *s, const uint32_t *ids, size_t n)
{
    tt_error err = {0};
    size_t reused = 0;
    ok(tt_session_sync(s, ids, n, NULL, &reused, &err), &err);
    return reused;
}

static tt_session_reuse reuse_of(const rig *r)
{
    tt_session_reuse reuse;
    tt_session_get_reuse(r->s, &reuse);
    return reuse;
}

static tt_state_cache_stats stats_of(const rig *r)
{
    tt_state_cache_stats s;
    tt_state_cache_get_stats(r->cache, &s);
    return s;
}

static void same_logits(const tt_session *a, const tt_session *b)
{
    assert_int_equal(tt_session_n_tokens(a), tt_session_n_tokens(b));
    assert_memory_equal(tt_session_logits(a), tt_session_logits(b),
                        a->model->arch.vocab_size * sizeof(float));
}

/* The session is what a cold run of these ids is. */
static void as_cold(rig *r, const uint32_t *ids, uint32_t n)
{
    tt_error err = {0};
    ok(tt_session_rewind(r->cold, 0, &err), &err);
    sync_to(r->cold, ids, n);
    same_logits(r->s, r->cold);
    for (uint32_t i = 0; i < 5; i++) {
        ok(tt_session_decode(r->s, i, &err), &err);
        ok(tt_session_decode(r->cold, i, &err), &err);
        same_logits(r->s, r->cold);
    }
}

/* Leaves the first n words from a process that then ends. */
static void leave(rig r, uint32_t n)
{
    start(&r);
    sync_to(r.s, words, n);
    stop(&r);
}

/* What a new process has of the first n words. */
static size_t found_by(rig r, uint32_t n, tt_state_refusal *why)
{
    start(&r);
    size_t reused = sync_to(r.s, words, n);
    assert_true(reused == 0 || reuse_of(&r).tier == TT_TIER_DISK);
    if (why != NULL)
        *why = reuse_of(&r).refused;
    as_cold(&r, words, n);
    stop(&r);
    return reused;
}

/* ---- a restart ---- */

static void prefill_goes_on(const char *install, uint32_t kv_bits)
{
    static const tt_checkpoint places[] = {{200, TT_CHECKPOINT_SYSTEM}, {330, TT_CHECKPOINT_TURN}};
    tt_prefill_options o = {.checkpoints = places, .n_checkpoints = 2};
    tt_error err = {0};
    uint32_t ids[N];
    rig r = {.install = install, .kv_bits = kv_bits};
    start(&r);
    ok(tt_session_sync(r.s, words, 400, &o, NULL, &err), &err);
    stop(&r);
    start(&r);
    assert_int_equal(sync_to(r.s, words, 450), 384);
    assert_int_equal(reuse_of(&r).tier, TT_TIER_DISK);
    assert_int_equal(reuse_of(&r).kind, TT_CHECKPOINT_PROMPT);
    assert_true(reuse_of(&r).cold);
    as_cold(&r, words, 450);
    /* another conversation with the same beginning */
    memcpy(ids, words, sizeof ids);
    for (uint32_t t = 250; t < 300; t++)
        ids[t] = 1;
    assert_int_equal(sync_to(r.s, ids, 300), 192);
    assert_int_equal(reuse_of(&r).kind, TT_CHECKPOINT_SYSTEM);
    as_cold(&r, ids, 300);
    /* what was read is had from memory then */
    uint64_t reads = stats_of(&r).disk.reads;
    assert_true(reads > 0);
    sync_to(r.s, words + 3, 100);
    assert_int_equal(sync_to(r.s, words, 450), 448);
    assert_int_equal(reuse_of(&r).tier, TT_TIER_RAM);
    assert_int_equal(stats_of(&r).disk.reads, reads);
    stop(&r);
    tempdir_remove(place);
    assert_int_equal(mkdir(place, 0700), 0);
}

static void a_restart_goes_on_as_a_cold_run(void **state)
{
    const char *tales = fixture_install("models/tales", NULL, 4);
    for (uint32_t kv = 32; kv >= 4; kv /= 2)
        prefill_goes_on(tales, kv);
    prefill_goes_on(tiny("lfl", 6, 9), 8);
    prefill_goes_on(tiny("ff", 0, 9), 8);
    prefill_goes_on(tiny("l", 0, 9), 8);
}

static void a_restart_goes_on_as_the_run_that_made_it(void **state)
{
    rig r = {.install = fixture_install("models/tales", NULL, 4)};
    tt_error err = {0};
    uint32_t ids[N];
    start(&r);
    sync_to(r.s, words, 70);
    for (uint32_t t = 70; t < 200; t++)
        ok(tt_session_decode(r.s, words[t], &err), &err);
    memcpy(ids, tt_session_tokens(r.s), 200 * sizeof *ids);
    memcpy(ids + 200, words, 40 * sizeof *ids);
    stop(&r);
    start(&r);
    assert_int_equal(sync_to(r.s, ids, 240), 192);
    assert_int_equal(reuse_of(&r).tier, TT_TIER_DISK);
    assert_int_equal(reuse_of(&r).kind, TT_CHECKPOINT_GENERATION);
    assert_false(reuse_of(&r).cold);
    /* the same without a directory, step for step */
    ok(tt_session_prefill(r.cold, ids, 70, NULL, &err), &err);
    for (uint32_t t = 70; t < 192; t++)
        ok(tt_session_decode(r.cold, ids[t], &err), &err);
    ok(tt_session_prefill(r.cold, ids + 192, 48, NULL, &err), &err);
    same_logits(r.s, r.cold);
    stop(&r);
}

/* With the rows alone the answer is another. */
static void rows_without_their_state_are_not_enough(void **state)
{
    rig r = {.install = fixture_install("models/tales", NULL, 4)};
    leave(r, 400);
    start(&r);
    assert_int_equal(sync_to(r.s, words, 384 + 1), 384);
    tt_error err = {0};
    ok(tt_session_rewind(r.s, 384, &err), &err);
    tt_recurrent_clear(&r.s->recurrent);
    ok(tt_session_prefill(r.s, words + 384, 10, NULL, &err), &err);
    sync_to(r.cold, words, 394);
    assert_memory_not_equal(tt_session_logits(r.s), tt_session_logits(r.cold),
                            r.m->arch.vocab_size * sizeof(float));
    stop(&r);
}

/* ---- keys ---- */

/* Each line of the key is there, and is what it is said to be. */
static void the_key_has_every_line(void **state)
{
    rig r = {.install = fixture_install("models/tales", NULL, 4), .level = "ref", .render = "chat"};
    tt_state_key k;
    tt_error err = {0};
    char text[TT_STATE_KEY], want[TT_STATE_KEY];
    start(&r);
    ok(tt_state_key_of(r.m, "chat", &k, &err), &err);
    tt_state_key_write(&k, text);
    assert_true(strlen(k.model) == 64 && strlen(k.tokenizer) == 64 && strlen(k.template_) == 64);
    assert_string_not_equal(k.model, k.tokenizer);
    assert_string_not_equal(k.tokenizer, k.template_);
    snprintf(want, sizeof want,
             "state 1\nmodel %s\ntokenizer %s\ntemplate %s\nkv-bits 8\nrope none\nrender chat\n"
             "backend cpu\nlevel ref\nnumerics 1\n",
             k.model, k.tokenizer, k.template_);
    assert_string_equal(text, want);
    k.yarn_factor = 2.5;
    k.yarn_original_context = 4096;
    tt_state_key_write(&k, text);
    assert_non_null(strstr(text, "\nrope yarn 2.5 4096\n"));
    static const char *const bad[] = {"", "A", "a b", "a\n", "abcdefghijklmnopqrstuvwxyz0123456"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(tt_state_key_of(r.m, bad[i], &k, &err), TT_ERR_INVALID);
    stop(&r);
}

/* A store under a text in which one line is another's. */
static uint32_t found_under(const tt_state_key *k, const tt_model *m, uint32_t n)
{
    char text[TT_STATE_KEY];
    tt_store *s = NULL;
    tt_error err = {0};
    tt_store_options o = {.dir = place,
                          .key = text,
                          .limit = TT_GIB,
                          .kv_bytes = TT_BLOCK * tt_kv_token_bytes(&m->arch, 8),
                          .state_bytes = tt_recurrent_bytes(&m->arch),
                          .max_blocks = 100,
                          .kinds = TT_CHECKPOINTS};
    tt_state_key_write(k, text);
    ok(tt_store_open(&o, &s, &err), &err);
    uint32_t found = tt_store_find(s, words, n, N).tokens;
    assert_int_equal(tt_store_last_refusal(s), found > 0 ? TT_REFUSED_NOTHING : TT_REFUSED_KEY);
    tt_store_close(&s);
    return found;
}

static void each_line_alone_is_a_miss(void **state)
{
    rig r = {.install = tiny("lf", 0, 9), .render = "chat"};
    tt_error err = {0};
    tt_state_key k;
    tt_model *m = NULL;
    leave(r, 400);
    ok(tt_model_open(r.install, NULL, NULL, NULL, &m, &err), &err);
    ok(tt_state_key_of(m, "chat", &k, &err), &err);
    assert_int_equal(found_under(&k, m, 384), 384);
    for (int line = 0; line < 10; line++) {
        tt_state_key other = k;
        switch (line) {
        case 0:
            other.model[0] ^= 1;
            break;
        case 1:
            other.tokenizer[0] ^= 1;
            break;
        case 2:
            other.template_[0] ^= 1;
            break;
        case 3:
            other.kv_bits = 16;
            break;
        case 4:
            other.yarn_factor = 2;
            break;
        case 5:
            other.render = "raw";
            break;
        case 6:
            other.backend = "ref";
            break;
        case 7:
            other.level = "another";
            break;
        case 8:
            other.numerics++;
            break;
        default: /* two that differ in the original context alone */
            k.yarn_factor = other.yarn_factor = 2;
            k.yarn_original_context = 100;
            other.yarn_original_context = 200;
            char a[TT_STATE_KEY], b[TT_STATE_KEY];
            tt_state_key_write(&k, a);
            tt_state_key_write(&other, b);
            assert_string_not_equal(a, b);
            break;
        }
        assert_int_equal(found_under(&other, m, 384), 0);
    }
    tt_model_close(&m);
}

/* The lines as they come about: a process of another kind has nothing of the first one's. */
static void another_model_level_or_width_misses(void **state)
{
    const char *install = tiny("lf", 0, 9);
    rig r = {.install = install, .render = "chat"};
    tt_state_refusal why;
    leave(r, 400);
    rig other[] = {r, r, r, r, r, r};
    other[0].install = tiny("lf", 0, 10);
    other[1].kv_bits = 16;
    other[2].yarn = 2;
    other[3].render = "raw";
    other[4].backend = "ref";
    other[5].level = "ref";
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        start(&other[i]);
        assert_int_equal(sync_to(other[i].s, words, 450), 0);
        assert_int_equal(reuse_of(&other[i]).refused, TT_REFUSED_KEY);
        assert_non_null(strstr(tt_state_cache_disk_note(other[i].cache), "another key"));
        stop(&other[i]);
        tempdir_remove(place);
        assert_int_equal(mkdir(place, 0700), 0);
        leave(r, 400);
    }
    assert_int_equal(found_by(r, 450, &why), 384);
    assert_int_equal(why, TT_REFUSED_NOTHING);
}

/* Files of the tokenizer and the template, changed one at a time in an install of the same model.
 */
static void another_tokenizer_or_template_misses(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    tt_error err = {0};
    tt_state_key a, b;
    tt_model *m = NULL;
    ok(tt_model_open(install, NULL, NULL, NULL, &m, &err), &err);
    ok(tt_state_key_of(m, "chat", &a, &err), &err);
    for (int what = 0; what < 2; what++) {
        bool touched = false;
        for (size_t i = 0; i < tt_install_file_count(m->install); i++) {
            tt_install_file *f = (tt_install_file *)tt_install_file_at(m->install, i);
            if (strcmp(f->rel, what == 0 ? "tokenizer/tokenizer.json"
                                         : "tokenizer/chat_template.jinja") != 0)
                continue;
            char changed[65];
            snprintf(changed, sizeof changed, "%s", f->sha256);
            changed[0] = changed[0] == '0' ? '1' : '0';
            const char *was = f->sha256;
            f->sha256 = changed;
            ok(tt_state_key_of(m, "chat", &b, &err), &err);
            f->sha256 = was;
            touched = true;
        }
        assert_true(touched);
        assert_string_equal(a.model, b.model);
        assert_int_equal(strcmp(a.tokenizer, b.tokenizer) != 0, what == 0);
        assert_int_equal(strcmp(a.template_, b.template_) != 0, what == 1);
    }
    tt_model_close(&m);
}

static void another_context_hits(void **state)
{
    rig r = {.install = tiny("lf", 0, 9)};
    leave(r, 400);
    r.context = 500;
    assert_int_equal(found_by(r, 450, NULL), 384);
    /* one that ends before the checkpoint does not */
    r.context = 380;
    tt_state_refusal why;
    assert_int_equal(found_by(r, 370, &why), 0);
    assert_int_equal(why, TT_REFUSED_CONTEXT);
}

/* ---- what a turn writes ---- */

static void a_turn_writes_its_rows_and_two_checkpoints(void **state)
{
    rig r = {.install = tiny("lf", 0, 9)};
    tt_error err = {0};
    tt_checkpoint places[] = {{100, TT_CHECKPOINT_SYSTEM}, {0, TT_CHECKPOINT_TURN}};
    tt_prefill_options o = {.checkpoints = places, .n_checkpoints = 2};
    start(&r);
    uint64_t row = TT_BLOCK * tt_kv_token_bytes(&r.m->arch, 8) + TT_STORE_HEAD;
    uint64_t state_file = tt_recurrent_bytes(&r.m->arch) + TT_STORE_HEAD, had = 0;
    uint32_t n = 0;
    for (uint32_t turn = 0; n + 130 < N; turn++) {
        uint32_t before = n;
        places[1].at = n + 30;
        n += 70;
        ok(tt_session_sync(r.s, words, n, &o, NULL, &err), &err);
        for (uint32_t i = 0; i < 60; i++, n++)
            ok(tt_session_decode(r.s, words[n], &err), &err);
        tt_session_settle(r.s);
        tt_state_cache_flush(r.cache);
        uint64_t wrote = stats_of(&r).disk.written - had;
        had += wrote;
        /* the prompt of the turn before, as decode made it, is read again from its last block */
        uint64_t blocks = n / TT_BLOCK - (before > 0 ? before / TT_BLOCK : 0) + 1;
        assert_true(wrote <= blocks * row + 2 * state_file);
        assert_true(wrote >= state_file + row);
    }
    assert_int_equal(stats_of(&r).disk.dropped, 0);
    /* nothing new, nothing written */
    sync_to(r.s, words, n);
    tt_session_settle(r.s);
    tt_state_cache_flush(r.cache);
    uint64_t wrote = stats_of(&r).disk.written - had;
    assert_true(wrote <= row + 2 * state_file);
    stop(&r);
    /* the beginning of all conversations is among what was written */
    start(&r);
    uint32_t ids[200];
    memcpy(ids, words, sizeof ids);
    ids[100] = ids[101] = 1;
    assert_int_equal(sync_to(r.s, ids, 150), 64);
    assert_int_equal(reuse_of(&r).kind, TT_CHECKPOINT_SYSTEM);
    stop(&r);
}

static void count_read(void *ctx)
{
    ++*(unsigned *)ctx;
}

/* What holds writes back is told of reads of experts, and of nothing else. */
static void reads_of_experts_are_told(void **state)
{
    rig r = {.install = tiny("lf", 6, 9)};
    tt_error err = {0};
    unsigned n = 0;
    start(&r);
    tt_expert_cache_on_read(r.m->cache, count_read, &n);
    sync_to(r.s, words, 400);
    assert_true(n > 0);
    unsigned before = n;
    ok(tt_session_decode(r.s, 1, &err), &err); /* every expert is in memory now */
    sync_to(r.cold, words, 300);
    assert_int_equal(n, before);
    stop(&r);
}

/* ---- what goes wrong ---- */

static void what_cannot_be_read_is_computed(void **state)
{
    rig r = {.install = tiny("lfl", 6, 9)};
    tt_error err = {0};
    for (unsigned at = 1; at < 12; at++) {
        faulty_store_clear(&faults);
        start(&r);
        sync_to(r.s, words, 330);
        tt_session_settle(r.s);
        sync_to(r.s, words, 400);
        stop(&r);
        start(&r);
        if (at % 2 == 0)
            faults.corrupt = faults.made[FAULTY_READ] + 3 * at / 2 - 1;
        else
            faults.fail[FAULTY_READ] = faults.made[FAULTY_READ] + at;
        size_t reused = sync_to(r.s, words, 450);
        assert_true(reused % 64 == 0 && reused < 450);
        as_cold(&r, words, 450);
        assert_int_equal(
            stats_of(&r).refused[TT_REFUSED_CORRUPT] + stats_of(&r).refused[TT_REFUSED_IO], 1);
        assert_true(reused < 384);
        /* and again */
        ok(tt_session_rewind(r.s, 0, &err), &err);
        sync_to(r.s, words, 450);
        as_cold(&r, words, 450);
        stop(&r);
        tempdir_remove(place);
        assert_int_equal(mkdir(place, 0700), 0);
    }
}

static void a_full_disk_fails_no_prompt(void **state)
{
    rig r = {.install = tiny("lf", 0, 9)};
    faults.space = 20000;
    start(&r);
    for (uint32_t n = 200; n < 800; n += 100) {
        sync_to(r.s, words, n);
        as_cold(&r, words, n);
        tt_session_settle(r.s);
        tt_state_cache_flush(r.cache);
    }
    assert_true(stats_of(&r).refused[TT_REFUSED_IO] > 0);
    assert_true(stats_of(&r).disk.dropped > 0);
    stop(&r);
    faults.space = -1;
    start(&r);
    sync_to(r.s, words, 800);
    as_cold(&r, words, 800);
    stop(&r);
    r.context = 0;
    assert_true(found_by(r, 850, NULL) >= 768);
}

static void two_at_once(void **state)
{
    const char *install = tiny("lf", 0, 9);
    rig a = {.install = install}, b = a;
    leave(a, 400);
    start(&a);
    start(&b);
    assert_non_null(strstr(tt_state_cache_disk_note(b.cache), "another process"));
    assert_string_equal(tt_state_cache_disk_note(a.cache), "");
    assert_int_equal(stats_of(&b).refused[TT_REFUSED_IN_USE], 1);
    assert_int_equal(sync_to(b.s, words, 450), 0);
    assert_int_equal(reuse_of(&b).refused, TT_REFUSED_IN_USE);
    as_cold(&b, words, 450);
    assert_int_equal(sync_to(b.s, words, 500), 448); /* in memory it keeps them */
    assert_int_equal(sync_to(a.s, words, 450), 384);
    as_cold(&a, words, 450);
    stop(&b);
    stop(&a);
    assert_int_equal(found_by(a, 460, NULL), 448);
}

static void small_limits(void **state)
{
    rig r = {.install = tiny("lf", 0, 9), .limit = 200 * TT_KIB};
    start(&r);
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t ids[N];
        memcpy(ids, words, sizeof ids);
        ids[70 + i] = 91;
        sync_to(r.s, ids, 200 + 20 * i);
        tt_session_settle(r.s);
        tt_state_cache_flush(r.cache);
        assert_true(stats_of(&r).disk.bytes <= 200 * TT_KIB);
        assert_true(stats_of(&r).bytes <= stats_of(&r).limit);
    }
    assert_true(stats_of(&r).disk.evicted > 0);
    stop(&r);
    tt_state_disk_options d = {.dir = place, .reserved = {1}};
    tt_error err = {0};
    start(&r);
    assert_int_equal(tt_state_cache_use_disk(r.cache, &d, &err), TT_ERR_INVALID);
    d.reserved[0] = 0;
    assert_int_equal(tt_state_cache_use_disk(r.cache, &d, &err), TT_ERR_STATE);
    stop(&r);
}

/* ---- all of it ---- */

static int set_up(void **state)
{
    tempdir_make(place);
    faulty_store_clear(&faults);
    return 0;
}

static int tear_down(void **state)
{
    tempdir_remove(place);
    return 0;
}

static int set_up_all(void **state)
{
    tt_rng g = {77};
    for (uint32_t i = 0; i < N; i++)
        words[i] = tt_rng_below(&g, 90);
    return 0;
}

static int tear_down_all(void **state)
{
    tiny_remove();
    fixture_remove();
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_restart_goes_on_as_a_cold_run),
        TEST(a_restart_goes_on_as_the_run_that_made_it),
        TEST(rows_without_their_state_are_not_enough),
        TEST(the_key_has_every_line),
        TEST(each_line_alone_is_a_miss),
        TEST(another_model_level_or_width_misses),
        TEST(another_tokenizer_or_template_misses),
        TEST(another_context_hits),
        TEST(a_turn_writes_its_rows_and_two_checkpoints),
        TEST(reads_of_experts_are_told),
        TEST(what_cannot_be_read_is_computed),
        TEST(a_full_disk_fails_no_prompt),
        TEST(two_at_once),
        TEST(small_limits),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
