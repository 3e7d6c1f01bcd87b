/* Proves that looking ahead changes no byte: walks of decodes, syncs, rewinds, snapshots, restores
 * and steps of two sessions, with guesses right and wrong, beside the same walk without guesses, at
 * every level and KV width, dense and mixed, of many shapes, by both kinds of guesses and every
 * width; greedy text of the trained model over 2,000 tokens, by MTP and by lookup; sampled and
 * constrained text with the same seed; the distribution of sampled pairs; and a draft whose disk
 * fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/faulty_reader.h"
#include "../support/tiny_model.h"
#include "../support/vectors.h"
#include "base/clock.h"

#define CONTEXT 300u

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static const char *levels[16];
static unsigned n_levels;

/* ---- walks ---- */

/* [0] plain, [1] with guesses. */
typedef struct walk {
    tt_model *m[2];
    tt_session *s[2], *other[2];
    tt_state_cache *cache[2];
    unsigned char *saved[2];
    size_t saved_size;
    tt_rng rng;
    uint32_t letters; /* ids are below: few, so that they come again */
    unsigned taken, missed, decodes;
} walk;

static void begin_walk(walk *w, const char *install, const tt_model_options *o, tt_draft_kind kind,
                       uint32_t width)
{
    tt_error err = {0};
    for (int i = 0; i < 2; i++) {
        tt_model_options mo = *o;
        mo.max_context = CONTEXT;
        mo.prompt_cache = TT_MIB;
        mo.sequences = 2;
        mo.draft = i ? kind : TT_DRAFT_OFF;
        mo.draft_width = width;
        ok(tt_model_open(install, &mo, NULL, NULL, &w->m[i], &err), &err);
        ok(tt_session_create(w->m[i], &w->s[i], &err), &err);
        ok(tt_session_create(w->m[i], &w->other[i], &err), &err);
        ok(tt_state_cache_create(w->m[i], &w->cache[i], &err), &err);
        ok(tt_session_use_cache(w->s[i], w->cache[i], &err), &err);
    }
}

static void end_walk(walk *w)
{
    for (int i = 0; i < 2; i++) {
        free(w->saved[i]);
        tt_session_close(&w->s[i]);
        tt_session_close(&w->other[i]);
        tt_state_cache_close(&w->cache[i]);
        tt_model_close(&w->m[i]);
    }
}

static void same(const walk *w, const char *after)
{
    const float *a = tt_session_logits(w->s[0]), *b = tt_session_logits(w->s[1]);
    size_t bytes = w->m[0]->arch.vocab_size * sizeof(float);
    assert_int_equal(w->s[0]->n, w->s[1]->n);
    assert_true((a == NULL) == (b == NULL));
    if (a != NULL && memcmp(a, b, bytes) != 0)
        fail_msg("other logits after %s at %u tokens", after, w->s[0]->n);
    assert_memory_equal(w->s[0]->tokens, w->s[1]->tokens, w->s[0]->n * sizeof(uint32_t));
    assert_memory_equal(w->s[0]->made, w->s[1]->made, tt_blocks(w->s[0]->n));
    assert_int_equal(w->s[0]->kept_n, w->s[1]->kept_n);
}

static uint32_t draw_id(walk *w)
{
    return tt_rng_below(&w->rng, w->letters);
}

static void decode_one(walk *w)
{
    tt_error err = {0};
    uint32_t id = draw_id(w), guess = 0;
    if (w->s[0]->n == CONTEXT)
        return;
    bool waits = w->s[1]->ahead != NULL && tt_ahead_waits(w->s[1]->ahead, &guess);
    if (waits && tt_rng_below(&w->rng, 4) > 0)
        id = guess;
    w->taken += waits && id == guess;
    w->missed += waits && id != guess;
    w->decodes++;
    for (int i = 0; i < 2; i++)
        ok(tt_session_decode(w->s[i], id, &err), &err);
    same(w, "a decode");
}

static void decode_two(walk *w)
{
    tt_error err = {0};
    uint32_t ids[2] = {draw_id(w), draw_id(w)};
    if (w->s[0]->n == CONTEXT || w->other[0]->n == CONTEXT)
        return;
    for (int i = 0; i < 2; i++) {
        tt_session *both[2] = {w->s[i], w->other[i]};
        ok(tt_session_decode_all(both, ids, 2, &err), &err);
    }
    same(w, "a decode of two");
}

static void sync_somewhere(walk *w)
{
    tt_error err = {0};
    uint32_t ids[CONTEXT], keep = tt_rng_below(&w->rng, w->s[0]->n + 1),
                           n = keep + 1 + tt_rng_below(&w->rng, 90);
    n = n < 150 ? n : 150;
    memcpy(ids, w->s[0]->tokens, keep * sizeof *ids);
    for (uint32_t i = keep; i < n; i++)
        ids[i] = draw_id(w);
    for (int i = 0; i < 2; i++)
        ok(tt_session_sync(w->s[i], ids, n, NULL, NULL, &err), &err);
    same(w, "a sync");
}

static void rewind_somewhere(walk *w)
{
    tt_error err = {0};
    size_t n = tt_session_reusable(w->s[0], tt_rng_below(&w->rng, w->s[0]->n + 1));
    for (int i = 0; i < 2; i++)
        ok(tt_session_rewind(w->s[i], n, &err), &err);
    same(w, "a rewind");
}

/* Everything that a session is, compared. */
static void save(walk *w, bool keep)
{
    tt_error err = {0};
    unsigned char *b[2];
    size_t size = tt_session_snapshot_size(w->s[0]);
    assert_int_equal(tt_session_snapshot_size(w->s[1]), size);
    for (int i = 0; i < 2; i++) {
        b[i] = malloc(size);
        ok(tt_session_snapshot(w->s[i], b[i], size, &err), &err);
    }
    if (memcmp(b[0], b[1], size) != 0)
        fail_msg("other state at %u tokens", w->s[0]->n);
    for (int i = 0; i < 2; i++) {
        free(keep ? w->saved[i] : b[i]);
        w->saved[i] = keep ? b[i] : w->saved[i];
    }
    w->saved_size = keep ? size : w->saved_size;
}

static void restore(walk *w)
{
    tt_error err = {0};
    for (int i = 0; i < 2 && w->saved[0] != NULL; i++)
        ok(tt_session_restore(w->s[i], w->saved[i], w->saved_size, &err), &err);
    same(w, "a restore");
}

static void go(walk *w, unsigned steps)
{
    sync_somewhere(w);
    for (unsigned i = 0; i < steps; i++) {
        uint32_t what = tt_rng_below(&w->rng, 64);
        if (what < 3)
            save(w, what == 0);
        else if (what == 3)
            sync_somewhere(w);
        else if (what == 4)
            rewind_somewhere(w);
        else if (what == 5)
            restore(w);
        else if (what == 6)
            decode_two(w);
        else
            decode_one(w);
    }
    save(w, false);
}

static void every_level_and_kv_width(void **state)
{
    static const uint32_t kv[] = {4, 8, 16, 32};
    unsigned taken = 0, missed = 0;
    for (int moe = 0; moe < 2; moe++) {
        tiny_options t = {.arch = tiny_arch_plain("lflf", moe ? 9 : 0, moe ? 3 : 0),
                          .seed = 5 + (uint64_t)moe,
                          .mat = TT_DTYPE_Q4};
        const char *install = tiny_install_new(&t);
        for (unsigned l = 0; l < n_levels; l++)
            for (unsigned k = 0; k < 4; k++) {
                walk w = {.rng = {77 * l + k + 1}, .letters = 3};
                tt_model_options o;
                tt_model_options_default(&o);
                o.cpu_level = levels[l];
                o.kv_bits = kv[k];
                o.threads = 1 + k % 2;
                o.expert_slots = moe && l % 2 == 0 ? 3 : 0;
                begin_walk(&w, install, &o, TT_DRAFT_LOOKUP, 2 + (l + k) % 3);
                go(&w, 300);
                taken += w.taken;
                missed += w.missed;
                end_walk(&w);
            }
    }
    print_message("  %u guesses taken, %u missed\n", taken, missed);
    assert_true(taken > 300 * n_levels && missed > 100 * n_levels);
}

static void any_shape_and_any_type(void **state)
{
    unsigned taken = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        tiny_options t = {.arch = tiny_arch(seed), .seed = seed, .mixed = true};
        walk w = {.rng = {seed}, .letters = 3};
        tt_model_options o;
        tt_model_options_default(&o);
        o.cpu_level = levels[seed % n_levels];
        o.kv_bits = seed % 2 ? 32 : 16;
        begin_walk(&w, tiny_install_new(&t), &o, TT_DRAFT_LOOKUP, seed % 4 ? 4 : 0);
        go(&w, 200);
        taken += w.taken;
        end_walk(&w);
    }
    assert_true(taken > 1000);
}

static void walks_with_the_draft(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    for (uint32_t width = 1; width <= TT_DRAFT_ROWS; width++) {
        walk w = {.rng = {width}, .letters = 400};
        tt_model_options o;
        tt_model_options_default(&o);
        begin_walk(&w, install, &o, TT_DRAFT_MTP, width);
        go(&w, 250);
        assert_true(width == 1 ? w.taken == 0 : w.taken > 60 && w.missed > 15);
        end_walk(&w);
    }
}

/* ---- text of the trained model ---- */

typedef struct text {
    uint32_t ids[4096], n;
    double seconds;
    tt_draft_stats stats;
} text;

static const char prompt[] = "Once upon a time there was a little";

typedef struct how {
    tt_draft_kind kind;
    uint32_t width, tokens;
    float temperature;
    const char *ebnf;
} how;

/* End tokens are barred, so that it goes on. */
static text tell(const char *install, how h)
{
    text t = {.n = 0};
    tt_model_options o;
    tt_sampler_options so;
    tt_model *m = NULL;
    tt_session *s = NULL;
    tt_sampler *sampler = NULL;
    tt_tokenizer *tok = NULL;
    tt_grammar *grammar = NULL;
    tt_lexicon *lexicon = NULL;
    tt_constraint *constraint = NULL;
    uint32_t *ids = NULL;
    uint64_t all[64];
    size_t n = 0, n_end = 0;
    tt_error err = {0};
    tt_model_options_default(&o);
    o.draft = h.kind;
    o.draft_width = h.width;
    ok(tt_model_open(install, &o, NULL, NULL, &m, &err), &err);
    ok(tt_session_create(m, &s, &err), &err);
    tt_sampler_options_default(&so);
    so.temperature = h.temperature;
    so.seed = 5;
    so.repetition_penalty = h.temperature > 0 ? 1.1f : 1;
    ok(tt_sampler_create(&so, m->arch.vocab_size, &sampler, &err), &err);
    ok(tt_tokenizer_open("models/tales", &tok, &err), &err);
    ok(tt_tokenizer_encode(tok, prompt, sizeof prompt - 1, false, &ids, &n, &err), &err);
    const uint32_t *end = tt_tokenizer_stop_ids(tok, &n_end);
    memset(all, 0xff, sizeof all);
    for (size_t i = 0; i < n_end; i++)
        all[end[i] / 64] &= ~((uint64_t)1 << end[i] % 64);
    if (h.ebnf != NULL) {
        ok(tt_grammar_from_ebnf(h.ebnf, strlen(h.ebnf), &grammar, &err), &err);
        ok(tt_lexicon_create(tok, m->arch.vocab_size, &lexicon, &err), &err);
        ok(tt_constraint_create(grammar, lexicon, TT_START_ANSWER, &constraint, &err), &err);
    }
    ok(tt_session_sync(s, ids, n, NULL, NULL, &err), &err);
    double begin = tt_now();
    while (t.n < h.tokens) {
        uint32_t id;
        const uint64_t *mask = all;
        if (constraint != NULL)
            ok(tt_constraint_mask(constraint, &mask, &err), &err);
        ok(tt_sampler_sample_masked(sampler, tt_session_logits(s), mask, &id, &err), &err);
        if (constraint != NULL)
            ok(tt_constraint_accept(constraint, id, &err), &err);
        tt_sampler_accept(sampler, id, true);
        t.ids[t.n++] = id;
        ok(tt_session_decode(s, id, &err), &err);
    }
    t.seconds = tt_now() - begin;
    tt_session_get_draft_stats(s, &t.stats);
    tt_constraint_close(&constraint);
    tt_lexicon_close(&lexicon);
    tt_grammar_close(&grammar);
    tt_tokenizer_close(&tok);
    tt_sampler_close(&sampler);
    tt_session_close(&s);
    tt_model_close(&m);
    tt_free(ids);
    return t;
}

static void compare(const char *what, const text *plain, const text *t)
{
    const tt_draft_stats *d = &t->stats;
    print_message("  %s: %.0f tokens a second, plain %.0f; %llu of %llu guesses right; %llu plain "
                  "steps, %llu + %llu + %llu of 2 to 4 rows\n",
                  what, t->n / t->seconds, plain->n / plain->seconds, (unsigned long long)d->right,
                  (unsigned long long)d->guessed, (unsigned long long)d->steps[1],
                  (unsigned long long)d->steps[2], (unsigned long long)d->steps[3],
                  (unsigned long long)d->steps[4]);
    assert_int_equal(t->n, plain->n);
    assert_memory_equal(t->ids, plain->ids, t->n * sizeof *t->ids);
}

static void greedy_text_is_that_of_plain_decode(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    text plain = tell(install, (how){.tokens = 2000});
    for (uint32_t width = 0; width <= TT_DRAFT_ROWS; width++)
        for (tt_draft_kind kind = TT_DRAFT_LOOKUP; kind <= TT_DRAFT_MTP; kind++) {
            char what[64];
            text t = tell(install, (how){kind, width, 2000, 0, NULL});
            snprintf(what, sizeof what, "%s, width %u", kind == TT_DRAFT_MTP ? "mtp" : "lookup",
                     width);
            compare(what, &plain, &t);
            assert_true(width == 1 ? t.stats.guessed == 0 : width == 0 || t.stats.right > 100);
        }
}

static void sampled_and_constrained_text_too(void **state)
{
    static const char ebnf[] = "root ::= (\"the \" | \"a \" | [a-z]+ \" \")*";
    const char *install = fixture_install("models/tales", NULL, 4);
    for (int i = 0; i < 3; i++) {
        how h = {.tokens = 500, .temperature = i < 2 ? 0.8f : 0, .ebnf = i > 0 ? ebnf : NULL};
        text plain = tell(install, h);
        h.kind = TT_DRAFT_MTP;
        h.width = 3;
        text t = tell(install, h);
        compare(i == 0   ? "sampled"
                : i == 1 ? "sampled, constrained"
                         : "greedy, constrained",
                &plain, &t);
        assert_true(t.stats.right > 20);
    }
}

/* ---- the distribution ---- */

/* Pairs of tokens drawn after one context, the second from the row of a guess whenever the first
 * was the guess, against the products of plain probabilities. */
enum { DRAWS = 100000, LETTERS = 20 };

static void softmax(const float *logits, uint32_t n, double *p)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += p[i] = exp((double)logits[i]);
    for (uint32_t i = 0; i < n; i++)
        p[i] /= sum;
}

static void pairs_have_the_model_s_distribution(void **state)
{
    tt_arch arch = tiny_arch_plain("f", 0, 0);
    arch.vocab_size = LETTERS;
    tiny_options t = {.arch = arch, .seed = 3, .mat = TT_DTYPE_Q4};
    const char *install = tiny_install_new(&t);
    static const uint32_t ids[] = {1, 2, 3, 4, 1, 2, 5, 1};
    enum { N = sizeof ids / sizeof ids[0] };
    double p[LETTERS], q[LETTERS][LETTERS];
    static unsigned count[LETTERS][LETTERS];
    tt_model *m[2];
    tt_session *s[2];
    tt_sampler *sampler = NULL;
    tt_sampler_options so;
    tt_error err = {0};
    for (int i = 0; i < 2; i++) {
        tt_model_options o;
        tt_model_options_default(&o);
        o.threads = 1;
        o.draft = i ? TT_DRAFT_LOOKUP : TT_DRAFT_OFF;
        o.draft_width = 2;
        m[i] = tiny_open(install, &o);
        ok(tt_session_create(m[i], &s[i], &err), &err);
        ok(tt_session_sync(s[i], ids, N, NULL, NULL, &err), &err);
    }
    ok(tt_session_decode(s[0], 2, &err), &err);
    softmax(tt_session_logits(s[0]), LETTERS, p);
    for (uint32_t a = 0; a < LETTERS; a++) {
        ok(tt_session_decode(s[0], a, &err), &err);
        softmax(tt_session_logits(s[0]), LETTERS, q[a]);
        ok(tt_session_rewind(s[0], N + 1, &err), &err);
    }
    tt_sampler_options_default(&so);
    so.temperature = 1;
    so.seed = 11;
    ok(tt_sampler_create(&so, LETTERS, &sampler, &err), &err);
    unsigned guessed = 0, right = 0;
    for (unsigned i = 0; i < DRAWS; i++) {
        uint32_t a, b, guess = 0;
        ok(tt_session_rewind(s[1], N, &err), &err);
        ok(tt_session_decode(s[1], 2, &err), &err);
        ok(tt_session_sample(s[1], sampler, &a, &err), &err);
        bool waits = tt_ahead_waits(s[1]->ahead, &guess);
        ok(tt_session_decode(s[1], a, &err), &err);
        ok(tt_session_sample(s[1], sampler, &b, &err), &err);
        count[a][b]++;
        guessed += waits;
        right += waits && guess == a;
    }
    double chi = 0, cells = 0, rest = 0, few = 0;
    for (uint32_t a = 0; a < LETTERS; a++)
        for (uint32_t b = 0; b < LETTERS; b++) {
            double want = DRAWS * p[a] * q[a][b], d = count[a][b] - want;
            if (want < 5) { /* taken together */
                rest += want;
                few += count[a][b];
                continue;
            }
            chi += d * d / want;
            cells++;
        }
    if (rest >= 5) {
        chi += (few - rest) * (few - rest) / rest;
        cells++;
    }
    print_message("  chi-square %.1f of %.0f cells; %u of %u guesses taken\n", chi, cells - 1,
                  right, guessed);
    assert_int_equal(guessed, DRAWS);
    assert_true(right > DRAWS / 200);
    assert_true(chi < cells - 1 + 4.5 * sqrt(2 * (cells - 1)));
    tt_sampler_close(&sampler);
    for (int i = 0; i < 2; i++) {
        tt_session_close(&s[i]);
        tt_model_close(&m[i]);
    }
}

/* ---- a draft that fails ---- */

static void a_draft_whose_disk_fails_is_given_up(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 4);
    walk w = {.rng = {3}, .letters = 400};
    tt_reader *faulty = NULL;
    faulty_options fo;
    tt_draft_stats stats;
    tt_error err = {0};
    tt_model_options o;
    tt_model_options_default(&o);
    o.reader = "buffered";
    begin_walk(&w, install, &o, TT_DRAFT_MTP, 3);
    faulty_options_default(&fo);
    ok(faulty_reader_open(&w.m[1]->draft->reader, &fo, &faulty, &err), &err);
    w.m[1]->draft->reader = faulty;
    tt_expert_cache_set_reader(w.m[1]->draft->cache, faulty);
    sync_somewhere(&w);
    fo.fail_read = faulty_reader_started(faulty) + 2;
    faulty_reader_set(faulty, &fo);
    for (int i = 0; i < 40; i++)
        decode_one(&w);
    tt_session_get_draft_stats(w.s[1], &stats);
    assert_true(stats.failure[0] != '\0');
    go(&w, 100);
    end_walk(&w);
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
        cmocka_unit_test(every_level_and_kv_width),
        cmocka_unit_test(any_shape_and_any_type),
        cmocka_unit_test(walks_with_the_draft),
        cmocka_unit_test(greedy_text_is_that_of_plain_decode),
        cmocka_unit_test(sampled_and_constrained_text_too),
        cmocka_unit_test(pairs_have_the_model_s_distribution),
        cmocka_unit_test(a_draft_whose_disk_fails_is_given_up),
    };
    while (n_levels < 16 && (levels[n_levels] = tt_cpu_level_at(n_levels)) != NULL)
        n_levels++;
    return cmocka_run_group_tests(tests, NULL, teardown);
}
