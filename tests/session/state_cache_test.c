/* Proves the tree of prompt state: what prefill left goes on as a cold run would, byte for byte, on
 * every level and width; what decode left goes on as the run that made it; rows without their state
 * do not; memory stays under its limit while the cheapest goes first; refusals have their reason; a
 * prompt that was given up goes on where it stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/tiny_model.h"
#include "../support/vectors.h"
#include "base/limits.h"

#define N 900u

static uint32_t words[N];

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

typedef struct rig {
    tt_model *m;
    tt_state_cache *cache;
    tt_session *a, *b, *cold; /* the last has no cache */
} rig;

static rig rig_of(const char *install, const char *level, uint32_t kv_bits, uint32_t chunk,
                  uint64_t bytes)
{
    tt_model_options o;
    tt_error err = {0};
    rig r = {0};
    tt_model_options_default(&o);
    o.cpu_level = level;
    o.kv_bits = kv_bits;
    o.prefill_chunk = chunk;
    o.max_context = N;
    o.prompt_cache = bytes;
    o.threads = 2;
    ok(tt_model_open(install, &o, NULL, NULL, &r.m, &err), &err);
    ok(tt_state_cache_create(r.m, &r.cache, &err), &err);
    ok(tt_session_create(r.m, &r.a, &err), &err);
    ok(tt_session_create(r.m, &r.b, &err), &err);
    ok(tt_session_create(r.m, &r.cold, &err), &err);
    ok(tt_session_use_cache(r.a, r.cache, &err), &err);
    ok(tt_session_use_cache(r.b, r.cache, &err), &err);
    return r;
}

static void rig_end(rig *r)
{
    tt_session_close(&r->a);
    tt_session_close(&r->b);
    tt_session_close(&r->cold);
    tt_state_cache_close(&r->cache);
    tt_state_cache_close(&r->cache);
    tt_model_close(&r->m);
}

static const char *tiny(const char *kinds)
{
    tiny_options o = {.arch = tiny_arch_plain(kinds, 6, 2), .seed = 9, .mat = TT_DTYPE_Q8};
    return tiny_install_new(&o);
}

static size_t sync_to(tt_session *s, const uint32_t *ids, size_t n)
{
    tt_error err = {0};
    size_t reused = 0;
    tt_session_reuse reuse;
    ok(tt_session_sync(s, ids, n, NULL, &reused, &err), &err);
    tt_session_get_reuse(s, &reuse);
    assert_int_equal(reuse.tokens, reused);
    return reused;
}

static void same_logits(const tt_session *a, const tt_session *b)
{
    assert_int_equal(tt_session_n_tokens(a), tt_session_n_tokens(b));
    assert_memory_equal(tt_session_logits(a), tt_session_logits(b),
                        a->model->arch.vocab_size * sizeof(float));
}

static uint32_t likeliest(const tt_session *s)
{
    const float *l = tt_session_logits(s);
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->model->arch.vocab_size; i++)
        best = l[i] > l[best] ? i : best;
    return best;
}

static void decode_both(tt_session *a, tt_session *b, uint32_t n)
{
    tt_error err = {0};
    while (n-- > 0) {
        uint32_t id = likeliest(a);
        ok(tt_session_decode(a, id, &err), &err);
        ok(tt_session_decode(b, id, &err), &err);
        same_logits(a, b);
    }
}

static tt_session_reuse reuse_of(const tt_session *s)
{
    tt_session_reuse reuse;
    tt_session_get_reuse(s, &reuse);
    return reuse;
}

static tt_state_cache_stats stats_of(const rig *r)
{
    tt_state_cache_stats s;
    tt_state_cache_get_stats(r->cache, &s);
    return s;
}

/* ---- cold, byte for byte ---- */

/* One prompt with named places, another beside it, then prompts that share parts of the first, in
 * the session that read it and in one that did not. */
static void goes_on_as_cold(const char *install, const char *level, uint32_t kv_bits,
                            uint32_t chunk)
{
    static const tt_checkpoint places[] = {{200, TT_CHECKPOINT_SYSTEM},
                                           {330, TT_CHECKPOINT_TURN},
                                           {331, TT_CHECKPOINT_MESSAGE},
                                           {64, TT_CHECKPOINT_MEMORY}};
    static const struct {
        uint32_t share, n, reused;
        tt_checkpoint_kind kind;
    } next[] = {{400, 450, 384, TT_CHECKPOINT_PROMPT}, {350, 400, 320, TT_CHECKPOINT_TURN},
                {300, 310, 192, TT_CHECKPOINT_SYSTEM}, {191, 200, 64, TT_CHECKPOINT_MEMORY},
                {63, 130, 0, TT_CHECKPOINT_NONE},      {193, 500, 192, TT_CHECKPOINT_SYSTEM},
                {400, 400, 384, TT_CHECKPOINT_PROMPT}};
    rig r = rig_of(install, level, kv_bits, chunk, 64 * TT_MIB);
    tt_prefill_options o = {.checkpoints = places, .n_checkpoints = 4};
    tt_error err = {0};
    ok(tt_session_sync(r.a, words, 400, &o, NULL, &err), &err);
    sync_to(r.a, words + 1, 100);
    for (size_t i = 0; i < sizeof next / sizeof next[0]; i++) {
        uint32_t ids[N];
        tt_session *s = i % 2 == 0 ? r.b : r.a;
        memcpy(ids, words, next[i].share * sizeof *ids);
        for (uint32_t t = next[i].share; t < next[i].n; t++)
            ids[t] = (words[t] + 1) % 90;
        assert_int_equal(sync_to(s, ids, next[i].n), next[i].reused);
        assert_int_equal(reuse_of(s).kind, next[i].kind);
        assert_true(next[i].reused == 0 || reuse_of(s).cold);
        ok(tt_session_rewind(r.cold, 0, &err), &err);
        assert_int_equal(sync_to(r.cold, ids, next[i].n), 0);
        same_logits(s, r.cold);
        decode_both(s, r.cold, 5);
    }
    assert_int_equal(stats_of(&r).refused[TT_REFUSED_TOO_LARGE], 0);
    rig_end(&r);
}

static void prefill_goes_on_as_a_cold_run(void **state)
{
    const char *tales = fixture_install("models/tales", NULL, 4);
    for (uint32_t kv = 32; kv >= 4; kv /= 2)
        for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++)
            if (strcmp(tt_cpu_level_at(i), "ref") != 0)
                goes_on_as_cold(tales, tt_cpu_level_at(i), kv, kv == 8 ? 64 : 512);
    goes_on_as_cold(tiny("lf"), "ref", 8, 192);
    goes_on_as_cold(tiny("lf"), NULL, 8, 0);
    goes_on_as_cold(tiny("fllf"), NULL, 16, 192);
    goes_on_as_cold(tiny("l"), NULL, 8, 512);
}

/* ---- as the run that made it ---- */

static void decode_goes_on_as_it_was_made(const char *install, const char *level, uint32_t kv_bits)
{
    rig r = rig_of(install, level, kv_bits, 512, 64 * TT_MIB);
    tt_error err = {0};
    uint32_t ids[N];
    /* what made it: 70 of the prompt, then an answer to 200 */
    sync_to(r.a, words, 70);
    while (tt_session_n_tokens(r.a) < 200)
        ok(tt_session_decode(r.a, likeliest(r.a), &err), &err);
    memcpy(ids, tt_session_tokens(r.a), 200 * sizeof *ids);
    memcpy(ids + 200, words, 40 * sizeof *ids);
    tt_session_settle(r.a);
    assert_int_equal(sync_to(r.b, ids, 240), 192);
    assert_int_equal(reuse_of(r.b).tier, TT_TIER_RAM);
    assert_int_equal(reuse_of(r.b).kind, TT_CHECKPOINT_GENERATION);
    assert_false(reuse_of(r.b).cold);
    /* the same without a cache, step for step */
    ok(tt_session_prefill(r.cold, ids, 70, NULL, &err), &err);
    for (uint32_t t = 70; t < 192; t++)
        ok(tt_session_decode(r.cold, ids[t], &err), &err);
    ok(tt_session_prefill(r.cold, ids + 192, 48, NULL, &err), &err);
    same_logits(r.b, r.cold);
    decode_both(r.b, r.cold, 70);
    /* held against a cold run: the bars of Numerics, not bytes */
    float *warm = malloc(r.m->arch.vocab_size * sizeof *warm), most = 0, margin = INFINITY;
    sync_to(r.a, ids, 240);
    memcpy(warm, tt_session_logits(r.a), r.m->arch.vocab_size * sizeof *warm);
    ok(tt_session_rewind(r.cold, 0, &err), &err);
    sync_to(r.cold, ids, 240);
    const float *l = tt_session_logits(r.cold);
    uint32_t best = likeliest(r.cold), warm_best = likeliest(r.a);
    for (uint32_t i = 0; i < r.m->arch.vocab_size; i++) {
        most = fabsf(l[i] - warm[i]) > most ? fabsf(l[i] - warm[i]) : most;
        if (i != best)
            margin = l[best] - l[i] < margin ? l[best] - l[i] : margin;
    }
    print_message("  %s, KV %u bits: max |dlogit| %.4g, cold margin %.4g\n", r.m->be->level,
                  kv_bits, (double)most, (double)margin);
    if (margin > 0.02f)
        assert_int_equal(best, warm_best);
    free(warm);
    rig_end(&r);
}

static void decode_goes_on_as_the_run_that_made_it(void **state)
{
    const char *tales = fixture_install("models/tales", NULL, 4);
    for (uint32_t kv = 32; kv >= 4; kv /= 2)
        decode_goes_on_as_it_was_made(tales, NULL, kv);
    for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++)
        if (strcmp(tt_cpu_level_at(i), "ref") != 0)
            decode_goes_on_as_it_was_made(tales, tt_cpu_level_at(i), 8);
    decode_goes_on_as_it_was_made(tiny("flf"), "ref", 8);
    decode_goes_on_as_it_was_made(tiny("flf"), NULL, 8);
}

/* The same ids made in two ways are two branches: neither takes rows of the other. */
static void rows_of_decode_and_prefill_do_not_mix(void **state)
{
    rig r = rig_of(fixture_install("models/tales", NULL, 4), NULL, 8, 512, 64 * TT_MIB);
    tt_error err = {0};
    uint32_t ids[N];
    sync_to(r.a, words, 70);
    while (tt_session_n_tokens(r.a) < 130)
        ok(tt_session_decode(r.a, likeliest(r.a), &err), &err);
    memcpy(ids, tt_session_tokens(r.a), 130 * sizeof *ids);
    memcpy(ids + 130, words + 200, 100 * sizeof *ids);
    tt_session_settle(r.a); /* decoded rows up to 128 */
    sync_to(r.cold, ids, 130);
    /* a prompt that is shorter than what is there is read from 64 on, as a cold run would */
    assert_int_equal(sync_to(r.b, ids, 128), 64);
    assert_true(reuse_of(r.b).cold);
    ok(tt_session_rewind(r.cold, 0, &err), &err);
    sync_to(r.cold, ids, 128);
    same_logits(r.b, r.cold);
    /* of two checkpoints at 128 the one from prefill is taken */
    assert_int_equal(sync_to(r.a, ids, 230), 128);
    assert_true(reuse_of(r.a).cold);
    ok(tt_session_rewind(r.cold, 0, &err), &err);
    sync_to(r.cold, ids, 230);
    same_logits(r.a, r.cold);
    rig_end(&r);
}

/* ---- state and rows ---- */

static void rows_without_their_state_are_not_a_prefix(void **state)
{
    rig r = rig_of(fixture_install("models/tales", NULL, 4), NULL, 8, 512, 64 * TT_MIB);
    float *block = NULL;
    tt_state_line line;
    tt_error err = {0};
    ok(tt_session_prefill(r.cold, words, 128, NULL, &err), &err);
    line = (tt_state_line){r.cold->tokens, r.cold->made, 128, &r.cold->kv};
    assert_true(tt_state_cache_take(r.cache, &block));
    memset(block, 0, r.cold->recurrent.bytes);
    tt_state_cache_put(r.cache, &line, 128, TT_CHECKPOINT_PROMPT, block);
    assert_int_equal(sync_to(r.a, words, 150), 128);
    ok(tt_session_rewind(r.cold, 0, &err), &err);
    sync_to(r.cold, words, 150);
    assert_memory_not_equal(tt_session_logits(r.a), tt_session_logits(r.cold),
                            r.m->arch.vocab_size * sizeof(float));
    rig_end(&r);
}

/* ---- a prompt that was given up ---- */

static bool brake(void *ctx, uint64_t done, uint64_t total)
{
    return done < *(const uint64_t *)ctx;
}

static void a_prompt_given_up_goes_on(void **state)
{
    rig r = rig_of(tiny("lfl"), NULL, 8, 64, 64 * TT_MIB);
    tt_error err = {0};
    uint64_t half = 6 * 64;
    tt_prefill_options o = {.progress = brake, .progress_ctx = &half};
    assert_int_equal(tt_session_sync(r.a, words, 800, &o, NULL, &err), TT_ERR_ABORTED);
    /* another conversation comes between, the retry is in another session */
    sync_to(r.a, words + 5, 300);
    assert_int_equal(sync_to(r.b, words, 800), half);
    assert_int_equal(reuse_of(r.b).kind, TT_CHECKPOINT_CANCEL);
    sync_to(r.cold, words, 800);
    same_logits(r.b, r.cold);
    rig_end(&r);
}

static bool never(void *ctx)
{
    return --*(int *)ctx > 0;
}

/* Inside the chunk that reads the end of the prompt, where checkpoints are taken on the way. */
static void a_chunk_given_up_leaves_nothing_half_done(void **state)
{
    rig r = rig_of(tiny("lfl"), NULL, 8, 192, 64 * TT_MIB);
    static const tt_checkpoint places[] = {{470, TT_CHECKPOINT_SYSTEM}};
    tt_status st = TT_ERR_ABORTED;
    for (int stop = 1; st == TT_ERR_ABORTED; stop++) {
        tt_error err = {0};
        int left = stop;
        tt_prefill_options o = {
            .go_on = never, .go_on_ctx = &left, .checkpoints = places, .n_checkpoints = 1};
        uint32_t ids[500];
        memcpy(ids, words, sizeof ids);
        ids[0] = (uint32_t)stop % 90;
        st = tt_session_sync(r.a, ids, 500, &o, NULL, &err);
        size_t had = tt_session_n_tokens(r.a);
        if (st != TT_ERR_ABORTED)
            break;
        assert_true(stop < 80 && had % 192 == 0);
        assert_int_equal(sync_to(r.b, ids, 500), had);
        ok(tt_session_rewind(r.cold, 0, &err), &err);
        sync_to(r.cold, ids, 500);
        same_logits(r.b, r.cold);
    }
    assert_int_equal(st, TT_OK);
    rig_end(&r);
}

/* ---- bounds ---- */

/* Everything that is counted is there and is under the limit, whatever comes. */
static void memory_stays_under_its_limit(void **state)
{
    static const char *const kinds[] = {"lf", "l", "ff"};
    for (int k = 0; k < 3; k++) {
        const char *install = tiny(kinds[k]);
        rig r = rig_of(install, NULL, 8, 128, 600 * TT_KIB);
        tt_rng g = {(uint64_t)k + 1};
        uint64_t reused = 0, warm = 0;
        for (int i = 0; i < 300; i++) {
            uint32_t ids[N], n = 1 + tt_rng_below(&g, 500);
            tt_session *s = tt_rng_below(&g, 2) == 0 ? r.a : r.b;
            tt_error err = {0};
            for (uint32_t t = 0; t < n; t++) /* branches at multiples of 70 */
                ids[t] = t % 70 == 0 ? tt_rng_below(&g, 2) : t % 90;
            tt_checkpoint at = {tt_rng_below(&g, 500), TT_CHECKPOINT_TURN};
            tt_prefill_options o = {.checkpoints = &at, .n_checkpoints = 1};
            ok(tt_session_sync(s, ids, n, &o, NULL, &err), &err);
            reused += reuse_of(s).tokens;
            if (reuse_of(s).cold && reuse_of(s).tokens > 0 && i % 4 == 0) {
                ok(tt_session_rewind(r.cold, 0, &err), &err);
                sync_to(r.cold, ids, n);
                same_logits(s, r.cold);
                warm++;
            }
            for (uint32_t t = tt_rng_below(&g, 90); t > 0; t--)
                ok(tt_session_decode(s, tt_rng_below(&g, 3), &err), &err);
            tt_state_cache_stats st = stats_of(&r);
            assert_true(st.bytes <= st.limit);
            assert_true(st.checkpoints > 0 || st.blocks == 0);
        }
        print_message("  %s: %llu tokens reused, %llu evicted, %llu held against cold\n", kinds[k],
                      (unsigned long long)reused, (unsigned long long)stats_of(&r).evicted,
                      (unsigned long long)warm);
        assert_true(reused > 0 && warm > 0 && stats_of(&r).evicted > 0);
        rig_end(&r);
    }
}

/* The long beginning of all conversations outlives their ends. */
static void the_cheapest_goes_first(void **state)
{
    const char *install = tiny("lf");
    rig big = rig_of(install, NULL, 8, 512, 64 * TT_MIB);
    sync_to(big.a, words, 448);
    uint64_t one = stats_of(&big).bytes;
    rig_end(&big);
    rig r = rig_of(install, NULL, 8, 512, one * 2);
    tt_error err = {0};
    uint32_t ids[N];
    tt_checkpoint at = {384, TT_CHECKPOINT_SYSTEM};
    tt_prefill_options o = {.checkpoints = &at, .n_checkpoints = 1};
    memcpy(ids, words, sizeof ids);
    for (uint32_t i = 0; i < 12; i++) {
        for (uint32_t t = 384; t < 512; t++)
            ids[t] = (words[t] + i) % 90;
        ok(tt_session_sync(r.a, ids, 512, &o, NULL, &err), &err);
        if (i > 0)
            assert_int_equal(reuse_of(r.a).tokens, 384);
    }
    assert_true(stats_of(&r).evicted > 0);
    rig_end(&r);
}

/* ---- refusals ---- */

static void refusals_have_their_reason(void **state)
{
    const char *install = tiny("lf");
    rig r = rig_of(install, NULL, 8, 512, 64 * TT_MIB), small = rig_of(install, NULL, 8, 512, 4096);
    tt_error err = {0};
    /* too small for anything; the prompt is none the worse */
    sync_to(small.a, words, 200);
    assert_true(stats_of(&small).refused[TT_REFUSED_TOO_LARGE] > 0);
    assert_int_equal(reuse_of(small.a).refused, TT_REFUSED_TOO_LARGE);
    assert_int_equal(stats_of(&small).bytes, 0);
    assert_int_equal(sync_to(small.a, words, 210), 192); /* the session's own */
    assert_int_equal(reuse_of(small.a).tier, TT_TIER_SESSION);
    sync_to(small.cold, words, 210);
    same_logits(small.a, small.cold);
    /* what came out of a snapshot is of unknown making */
    size_t size;
    sync_to(r.cold, words, 128);
    size = tt_session_snapshot_size(r.cold);
    void *snap = malloc(size);
    ok(tt_session_snapshot(r.cold, snap, size, &err), &err);
    ok(tt_session_restore(r.a, snap, size, &err), &err);
    tt_session_settle(r.a);
    assert_int_equal(stats_of(&r).refused[TT_REFUSED_SNAPSHOT], 1);
    assert_int_equal(stats_of(&r).blocks, 0);
    assert_int_equal(stats_of(&r).bytes, 0);
    free(snap);
    /* of another model */
    assert_int_equal(tt_session_use_cache(r.a, small.cache, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "another model"));
    rig_end(&r);
    rig_end(&small);
}

static void wrong_options_are_refused(void **state)
{
    rig r = rig_of(tiny("lf"), NULL, 8, 512, TT_MIB);
    tt_model_options o;
    tt_error err = {0};
    tt_state_cache *none = NULL;
    tt_checkpoint many[TT_MOST_CHECKPOINTS + 1] = {{64, TT_CHECKPOINT_TURN}};
    tt_prefill_options p = {.checkpoints = many, .n_checkpoints = TT_MOST_CHECKPOINTS + 1};
    assert_int_equal(tt_session_sync(r.a, words, 70, &p, NULL, &err), TT_ERR_INVALID);
    p.n_checkpoints = 2; /* the second has no kind */
    assert_int_equal(tt_session_sync(r.a, words, 70, &p, NULL, &err), TT_ERR_INVALID);
    many[1].kind = TT_CHECKPOINTS;
    assert_int_equal(tt_session_sync(r.a, words, 70, &p, NULL, &err), TT_ERR_INVALID);
    p.n_checkpoints = 1;
    ok(tt_session_sync(r.a, words, 70, &p, NULL, &err), &err);
    tt_model_options_default(&o);
    tt_model *m = tiny_open(tiny("f"), &o);
    assert_int_equal(tt_state_cache_create(m, &none, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "prompt_cache"));
    tt_model_close(&m);
    rig_end(&r);
}

static void names_are_words(void **state)
{
    assert_string_equal(tt_state_tier_name(TT_TIER_RAM), "ram");
    assert_string_equal(tt_state_tier_name(TT_TIER_NONE), "none");
    assert_string_equal(tt_state_tier_name(99), "none");
    assert_string_equal(tt_checkpoint_name(TT_CHECKPOINT_INTERVAL), "interval");
    assert_string_equal(tt_checkpoint_name(TT_CHECKPOINTS), "none");
    assert_string_equal(tt_state_refusal_name(TT_REFUSED_IN_USE), "in_use");
    assert_string_equal(tt_state_refusal_name(TT_REFUSALS), "none");
}

static int setup(void **state)
{
    tt_rng g = {77};
    for (uint32_t i = 0; i < N; i++)
        words[i] = tt_rng_below(&g, 90);
    return 0;
}

static int teardown(void **state)
{
    tiny_remove();
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_goes_on_as_a_cold_run),
        cmocka_unit_test(decode_goes_on_as_the_run_that_made_it),
        cmocka_unit_test(rows_of_decode_and_prefill_do_not_mix),
        cmocka_unit_test(rows_without_their_state_are_not_a_prefix),
        cmocka_unit_test(a_prompt_given_up_goes_on),
        cmocka_unit_test(a_chunk_given_up_leaves_nothing_half_done),
        cmocka_unit_test(memory_stays_under_its_limit),
        cmocka_unit_test(the_cheapest_goes_first),
        cmocka_unit_test(refusals_have_their_reason),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(names_are_words),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
