/* Proves that a session is always one consistent prefix: hundreds of random syncs, decodes,
 * rewinds, restores, aborts and failed reads, on models with and without recurrent layers, against
 * a record of what the timeline must be, its logits recomputed byte for byte in a fresh session;
 * then the corners one by one. */
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

#define CONTEXT 260u
#define CHUNK   64u

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static tt_model *open_model(const tt_arch *arch, uint32_t slots, uint32_t chunk)
{
    tiny_options o = {.arch = *arch, .seed = 4, .mat = TT_DTYPE_Q8};
    tt_model_options mo;
    tt_model_options_default(&mo);
    mo.max_context = CONTEXT;
    mo.prefill_chunk = chunk;
    mo.expert_slots = slots;
    mo.threads = 1;
    return tiny_open(tiny_install_new(&o), &mo);
}

static tt_session *session_of(tt_model *m)
{
    tt_session *s = NULL;
    tt_error err = {0};
    ok(tt_session_create(m, &s, &err), &err);
    return s;
}

/* ---- the record ---- */

/* Tokens that were computed together: a prefill, or one decode. */
typedef struct piece {
    uint32_t from, to;
    bool prefill;
} piece;

typedef struct timeline {
    uint32_t tokens[CONTEXT], n;
    piece pieces[CONTEXT];
    uint32_t n_pieces;
    bool logits;
} timeline;

typedef struct record {
    tt_session *s, *fresh;
    bool recurrent;
    timeline now, kept; /* kept.n 0: no checkpoint */
    uint32_t computed;  /* logits held against the fresh session */
} record;

static void cut(timeline *t, uint32_t n)
{
    t->n = n;
    while (t->n_pieces > 0 && t->pieces[t->n_pieces - 1].from >= n)
        t->n_pieces--;
    if (t->n_pieces > 0 && t->pieces[t->n_pieces - 1].to > n)
        t->pieces[t->n_pieces - 1].to = n;
    t->logits = false;
}

static void add(timeline *t, const uint32_t *ids, uint32_t n, bool prefill)
{
    if (n == 0)
        return;
    memmove(t->tokens + t->n, ids, n * sizeof *ids);
    t->pieces[t->n_pieces++] = (piece){t->n, t->n + n, prefill};
    t->n += n;
}

/* More of the timeline; where it passes a multiple of 64, that is the checkpoint. */
static void extend(record *r, const uint32_t *ids, uint32_t n, bool prefill)
{
    uint32_t from = r->now.n, at = (from + n) / 64 * 64;
    add(&r->now, ids, n, prefill);
    r->now.logits = false;
    if (at > from) {
        r->kept = r->now;
        cut(&r->kept, at);
    }
}

static uint32_t reusable(const record *r, uint32_t n)
{
    if (n >= r->now.n)
        return r->now.n;
    if (!r->recurrent)
        return n;
    return r->kept.n > 0 && r->kept.n <= n ? r->kept.n : 0;
}

static void go_to(record *r, uint32_t n)
{
    if (n == r->now.n)
        return;
    if (n > 0 && n == r->kept.n)
        r->now = r->kept;
    else
        cut(&r->now, n);
    r->now.logits = false;
    if (r->kept.n > n)
        r->kept.n = 0;
}

/* The session is what the record says, and its logits are those of a fresh session that was led the
 * same way. */
static void agree(record *r)
{
    tt_error err = {0};
    const timeline *t = &r->now;
    assert_int_equal(tt_session_n_tokens(r->s), t->n);
    assert_memory_equal(tt_session_tokens(r->s), t->tokens, t->n * sizeof *t->tokens);
    for (uint32_t n = 0; n <= t->n + 2; n++)
        assert_int_equal(tt_session_reusable(r->s, n), reusable(r, n));
    assert_int_equal(tt_session_logits(r->s) != NULL, t->logits);
    if (!t->logits)
        return;
    ok(tt_session_rewind(r->fresh, 0, &err), &err);
    for (uint32_t i = 0; i < t->n_pieces; i++) {
        const piece *p = &t->pieces[i];
        ok(p->prefill
               ? tt_session_prefill(r->fresh, t->tokens + p->from, p->to - p->from, NULL, &err)
               : tt_session_decode(r->fresh, t->tokens[p->from], &err),
           &err);
    }
    if (memcmp(tt_session_logits(r->s), tt_session_logits(r->fresh),
               r->s->model->arch.vocab_size * sizeof(float)) != 0)
        fail_msg("logits after %u tokens are not those of this prefix", t->n);
    if (memcmp(r->s->top, r->fresh->top,
               tt_session_row_bytes(r->s) - r->s->model->arch.vocab_size * sizeof(float)) != 0)
        fail_msg("maxima after %u tokens are not those of this prefix", t->n);
    r->computed++;
}

/* ---- operations ---- */

static uint32_t token(tt_rng *g)
{
    return tt_rng_below(g, 5); /* few, so that prefixes meet again */
}

/* A prefix that shares something with the timeline. */
static uint32_t new_prompt(const record *r, tt_rng *g, uint32_t *ids)
{
    uint32_t share = tt_rng_below(g, r->now.n + 1), n;
    if (r->kept.n > 0 && tt_rng_below(g, 3) == 0)
        share = r->kept.n - 1 + tt_rng_below(g, 3);
    if (tt_rng_below(g, 4) == 0)
        share = r->now.n;
    share = share < r->now.n ? share : r->now.n;
    memcpy(ids, r->now.tokens, share * sizeof *ids);
    n = share + tt_rng_below(g, 3) * tt_rng_below(g, 90);
    n = n > CONTEXT ? CONTEXT : n < 1 ? 1 : n;
    for (uint32_t i = share; i < n; i++)
        ids[i] = token(g);
    return n;
}

static uint32_t expect_reuse(const record *r, const uint32_t *ids, uint32_t n)
{
    uint32_t common = 0;
    while (common < n && common < r->now.n && ids[common] == r->now.tokens[common])
        common++;
    if (common == n && n == r->now.n && r->now.logits)
        return n;
    uint32_t at = (common < n ? common : n - 1) / 64 * 64;
    if (!r->recurrent)
        return at;
    return r->kept.n <= at && r->kept.n % 64 == 0 ? r->kept.n : 0;
}

typedef struct brake {
    uint32_t left; /* calls that are let through */
    uint32_t calls;
} brake;

static bool brake_progress(void *ctx, uint64_t done, uint64_t total)
{
    brake *b = ctx;
    b->calls++;
    return b->left-- > 0;
}

static bool brake_logits(void *ctx, uint32_t position, const float *logits)
{
    return brake_progress(ctx, position, 0);
}

/* After `computed` tokens came of a prefill from `at` that did not end. */
static void stopped(record *r, const uint32_t *ids, uint32_t at)
{
    uint32_t n = (uint32_t)tt_session_n_tokens(r->s);
    if (n < at) /* fell back further than the prefill began */
        go_to(r, n);
    else
        extend(r, ids + at, n - at, true);
    r->now.logits = false;
    assert_null(tt_session_logits(r->s));
}

static void do_sync(record *r, tt_rng *g)
{
    uint32_t ids[CONTEXT], n = new_prompt(r, g, ids), at = expect_reuse(r, ids, n);
    tt_error err = {0};
    size_t reused = 999;
    brake b = {.left = tt_rng_below(g, 3) == 0 ? tt_rng_below(g, 3) : 1000};
    tt_prefill_options o = {.progress = brake_progress, .progress_ctx = &b};
    tt_status st = tt_session_sync(r->s, ids, n, &o, &reused, &err);
    go_to(r, at);
    if (st == TT_ERR_ABORTED) {
        uint32_t end = (uint32_t)tt_session_n_tokens(r->s);
        assert_int_equal(reused, 999);
        assert_true(end > at && end < n && end % CHUNK == 0);
        extend(r, ids + at, end - at, true);
        return;
    }
    ok(st, &err);
    assert_int_equal(reused, at);
    extend(r, ids + at, n - at, true);
    r->now.logits = true;
}

/* Through the sink everything is computed; sometimes it stops in the middle. */
static void do_sync_with_sink(record *r, tt_rng *g)
{
    uint32_t ids[CONTEXT], n = new_prompt(r, g, ids);
    tt_error err = {0};
    size_t reused = 999;
    brake b = {.left = tt_rng_below(g, 2) == 0 ? tt_rng_below(g, n) : 1000};
    bool stops = b.left < n;
    uint32_t position = b.left;
    tt_prefill_options o = {.logits = brake_logits, .logits_ctx = &b};
    tt_status st = tt_session_sync(r->s, ids, n, &o, &reused, &err);
    go_to(r, 0);
    assert_int_equal(st, stops ? TT_ERR_ABORTED : TT_OK);
    if (stops) {
        assert_int_equal(tt_session_n_tokens(r->s), position / CHUNK * CHUNK);
        stopped(r, ids, 0);
        return;
    }
    assert_int_equal(b.calls, n);
    assert_int_equal(reused, 0);
    extend(r, ids, n, true);
    r->now.logits = true;
}

/* A prefill on top of what is there that fails in its middle. */
static void do_failing_prefill(record *r, tt_rng *g)
{
    uint32_t ids[CONTEXT], at = r->now.n, room = CONTEXT - at;
    if (room < 2)
        return;
    memcpy(ids, r->now.tokens, at * sizeof *ids);
    uint32_t n = 1 + tt_rng_below(g, room < 150 ? room : 150);
    for (uint32_t i = 0; i < n; i++)
        ids[at + i] = token(g);
    brake b = {.left = tt_rng_below(g, n)};
    uint32_t bad = at + b.left, chunk = bad / CHUNK * CHUNK > at ? bad / CHUNK * CHUNK : at;
    tt_prefill_options o = {.logits = brake_logits, .logits_ctx = &b};
    tt_error err = {0};
    assert_int_equal(tt_session_prefill(r->s, ids + at, n, &o, &err), TT_ERR_ABORTED);
    if (r->recurrent && chunk == at)
        chunk = r->kept.n;
    assert_int_equal(tt_session_n_tokens(r->s), chunk);
    stopped(r, ids, at);
}

static void do_decode(record *r, tt_rng *g)
{
    tt_error err = {0};
    uint32_t id = token(g);
    if (r->now.n == CONTEXT) {
        assert_int_equal(tt_session_decode(r->s, id, &err), TT_ERR_CONTEXT);
        return;
    }
    ok(tt_session_decode(r->s, id, &err), &err);
    extend(r, &id, 1, false);
    r->now.logits = true;
}

static void do_rewind(record *r, tt_rng *g)
{
    tt_error err = {0};
    uint32_t n = tt_rng_below(g, r->now.n + 3);
    if (tt_rng_below(g, 3) == 0)
        n = r->kept.n;
    tt_status st = tt_session_rewind(r->s, n, &err);
    if (n > r->now.n || reusable(r, n) != n) {
        assert_int_equal(st, TT_ERR_STATE);
        return;
    }
    ok(st, &err);
    go_to(r, n);
}

/* Out of this session, then into it again after something else happened. */
static void do_restore(record *r, tt_rng *g)
{
    tt_error err = {0};
    size_t size = tt_session_snapshot_size(r->s);
    void *snap = malloc(size);
    timeline then = r->now;
    ok(tt_session_snapshot(r->s, snap, size, &err), &err);
    do_sync(r, g);
    do_decode(r, g);
    ok(tt_session_restore(r->s, snap, size, &err), &err);
    r->now = then;
    r->kept = then;
    free(snap);
}

/* A read fails somewhere in a prompt or a decode; what is left is one of the prefixes that may be.
 */
static void do_failing_read(record *r, tt_rng *g)
{
    tt_model *m = r->s->model;
    faulty_options o, good;
    uint32_t ids[CONTEXT], n = new_prompt(r, g, ids), at = expect_reuse(r, ids, n);
    tt_error err = {0};
    if (m->cache == NULL)
        return;
    faulty_options_default(&good);
    o = good;
    o.fail_read = faulty_reader_started(m->reader) + tt_rng_below(g, 12);
    faulty_reader_set(m->reader, &o);
    tt_status st = tt_session_sync(r->s, ids, n, NULL, NULL, &err);
    faulty_reader_set(m->reader, &good);
    go_to(r, at);
    if (st == TT_OK) {
        extend(r, ids + at, n - at, true);
        r->now.logits = true;
        return;
    }
    assert_int_equal(st, TT_ERR_IO);
    uint32_t end = (uint32_t)tt_session_n_tokens(r->s);
    assert_true(end == at || (end > at && end < n && end % CHUNK == 0));
    stopped(r, ids, at);
}

static void make_faulty(tt_model *m)
{
    tt_error err = {0};
    tt_reader *faulty = NULL;
    faulty_options good;
    faulty_options_default(&good);
    if (m->cache == NULL)
        return;
    ok(faulty_reader_open(&m->reader, &good, &faulty, &err), &err);
    m->reader = faulty;
    tt_expert_cache_set_reader(m->cache, faulty);
}

static void walk(const char *kinds, uint32_t experts, uint64_t seed, unsigned steps)
{
    typedef void (*operation)(record *, tt_rng *);
    static const operation ops[] = {
        do_sync,          do_sync,    do_sync, do_decode, do_decode,       do_decode,
        do_rewind,        do_restore, do_sync, do_rewind, do_failing_read, do_failing_prefill,
        do_sync_with_sink};
    tt_arch a = tiny_arch_plain(kinds, experts, experts > 0 ? 2 : 0);
    tt_model *m = open_model(&a, experts > 0 ? 3 : 0, CHUNK);
    tt_rng g = {seed};
    record *r = calloc(1, sizeof *r);
    make_faulty(m);
    r->s = session_of(m);
    r->fresh = session_of(m);
    r->recurrent = strchr(kinds, 'l') != NULL;
    for (unsigned i = 0; i < steps; i++) {
        ops[tt_rng_below(&g, sizeof ops / sizeof ops[0])](r, &g);
        agree(r);
    }
    print_message("  %s, %u experts: %u steps, %u logits recomputed\n", kinds, experts, steps,
                  r->computed);
    assert_true(r->computed > steps / 2);
    tt_session_close(&r->s);
    tt_session_close(&r->fresh);
    free(r);
    tt_model_close(&m);
    tiny_remove();
}

static void random_walks_on_hybrid_models(void **state)
{
    walk("lf", 7, 1, 700);
    walk("flf", 0, 2, 700);
}

static void random_walks_with_streams(void **state)
{
    walk("Slf", 7, 6, 700);
    walk("Sflf", 7, 7, 300);
}

static void random_walks_without_attention(void **state)
{
    walk("l", 7, 3, 700);
}

static void random_walks_without_recurrence(void **state)
{
    walk("ff", 7, 4, 700);
    walk("f", 0, 5, 700);
}

/* ---- corners ---- */

static uint32_t ramp[CONTEXT];

static tt_model *hybrid(uint32_t chunk)
{
    tt_arch a = tiny_arch_plain("lf", 6, 2);
    return open_model(&a, 0, chunk);
}

static void sync_ok(tt_session *s, const uint32_t *ids, size_t n, size_t want_reused)
{
    tt_error err = {0};
    size_t reused = 0;
    ok(tt_session_sync(s, ids, n, NULL, &reused, &err), &err);
    assert_int_equal(reused, want_reused);
}

static void same_as_cold(tt_session *s)
{
    tt_session *cold = session_of(s->model);
    sync_ok(cold, tt_session_tokens(s), tt_session_n_tokens(s), 0);
    assert_memory_equal(tt_session_logits(s), tt_session_logits(cold),
                        s->model->arch.vocab_size * sizeof(float));
    tt_session_close(&cold);
}

static void ids_may_be_the_sessions_own(void **state)
{
    tt_model *m = hybrid(64);
    tt_session *s = session_of(m);
    uint32_t want[CONTEXT];
    sync_ok(s, ramp, 200, 0);
    sync_ok(s, tt_session_tokens(s), 200, 200); /* itself */
    sync_ok(s, tt_session_tokens(s), 128, 0);   /* its beginning */
    same_as_cold(s);
    sync_ok(s, ramp, 200, 128);
    memcpy(want, ramp + 3, 190 * sizeof *want);
    sync_ok(s, tt_session_tokens(s) + 3, 190, 0); /* its end moves to the front */
    assert_memory_equal(tt_session_tokens(s), want, 190 * sizeof *want);
    same_as_cold(s);
    tt_session_close(&s);
    tt_model_close(&m);
}

static void an_abort_at_every_chunk_goes_on(void **state)
{
    tt_model *m = hybrid(64);
    for (uint32_t stop = 1; stop <= 4; stop++) {
        tt_session *s = session_of(m);
        tt_error err = {0};
        brake b = {.left = stop - 1};
        tt_prefill_options o = {.progress = brake_progress, .progress_ctx = &b};
        assert_int_equal(tt_session_sync(s, ramp, CONTEXT, &o, NULL, &err), TT_ERR_ABORTED);
        assert_int_equal(tt_session_n_tokens(s), stop * 64);
        assert_null(tt_session_logits(s));
        assert_int_equal(tt_session_reusable(s, stop * 64), stop * 64);
        assert_int_equal(tt_session_reusable(s, stop * 64 - 1), 0);
        if (stop % 2 == 0) {
            sync_ok(s, ramp, CONTEXT, stop * 64);
        } else {
            /* to exactly where it stopped: logits are missing, so the state must be made again */
            sync_ok(s, ramp, stop * 64, 0);
        }
        same_as_cold(s);
        /* what it says after the last chunk is too late */
        brake last = {.left = 0};
        tt_prefill_options late = {.progress = brake_progress, .progress_ctx = &last};
        ok(tt_session_sync(s, ramp + 1, 64, &late, NULL, &err), &err);
        assert_int_equal(last.calls, 1);
        tt_session_close(&s);
    }
    tt_model_close(&m);
}

static bool brake_layers(void *ctx)
{
    return brake_progress(ctx, 0, 0);
}

/* Between layers and within them: the chunk in work is lost, and with it what cannot be rewound to.
 * How many experts are computed between two asks is the disk's affair. */
static void an_abort_at_every_ask_goes_on(void **state)
{
    tt_arch dense = tiny_arch_plain("ff", 0, 0), full = tiny_arch_plain("ff", 6, 2);
    tt_model *models[] = {hybrid(64), open_model(&dense, 0, 64), open_model(&full, 0, 64)};
    for (int k = 0; k < 3; k++) {
        uint32_t layers = models[k]->arch.n_layers;
        bool moe = tt_arch_is_moe(&models[k]->arch);
        tt_status st = TT_ERR_ABORTED;
        for (uint32_t stop = 0; st != TT_OK; stop++) {
            tt_session *s = session_of(models[k]);
            tt_error err = {0};
            sync_ok(s, ramp, 64, 0); /* a checkpoint */
            brake b = {.left = stop};
            tt_prefill_options o = {.go_on = brake_layers, .go_on_ctx = &b};
            st = tt_session_sync(s, ramp, 200, &o, NULL, &err); /* 64, 64 and 8 rows */
            uint32_t n = (uint32_t)tt_session_n_tokens(s);
            if (st == TT_OK) {
                /* 2 of 6 experts a row do not fit into a batch of 64 rows */
                assert_true(moe ? b.calls >= 3 * layers + 3 * layers : b.calls == 3 * layers);
            } else {
                assert_int_equal(st, TT_ERR_ABORTED);
                assert_int_equal(b.calls, stop + 1);
                assert_true(n >= 64 && n < 200 && n % 64 == 0);
                assert_true(moe || n == 64 + stop / layers * 64);
            }
            sync_ok(s, ramp, 200, n);
            same_as_cold(s);
            tt_session_close(&s);
        }
        tt_model_close(&models[k]);
    }
}

static bool refuse_all(void *ctx, uint32_t position, const float *logits)
{
    return false;
}

static void a_refused_sink_leaves_nothing_behind(void **state)
{
    tt_model *m = hybrid(64);
    tt_session *s = session_of(m);
    tt_error err = {0};
    tt_prefill_options o = {.logits = refuse_all};
    sync_ok(s, ramp, 100, 0);
    assert_int_equal(tt_session_sync(s, ramp, 100, &o, NULL, &err), TT_ERR_ABORTED);
    assert_int_equal(tt_session_n_tokens(s), 0); /* with a sink nothing is reused */
    assert_null(tt_session_logits(s));
    sync_ok(s, ramp, 100, 0);
    same_as_cold(s);
    tt_session_close(&s);
    tt_model_close(&m);
}

typedef struct collected {
    float *rows;
    uint32_t vocab, next;
} collected;

static bool collect(void *ctx, uint32_t position, const float *logits)
{
    collected *c = ctx;
    assert_int_equal(position, c->next++);
    memcpy(c->rows + (size_t)position * c->vocab, logits, c->vocab * sizeof *logits);
    return true;
}

static void a_sink_sees_every_position_once(void **state)
{
    tt_model *m = hybrid(64), *wide = hybrid(192);
    uint32_t vocab = m->arch.vocab_size;
    collected a = {calloc((size_t)CONTEXT * vocab, sizeof(float)), vocab, 0},
              b = {calloc((size_t)CONTEXT * vocab, sizeof(float)), vocab, 0};
    tt_session *s = session_of(m), *w = session_of(wide);
    tt_error err = {0};
    tt_prefill_options o = {.logits = collect, .logits_ctx = &a};
    sync_ok(s, ramp, 77, 0);
    ok(tt_session_sync(s, ramp, CONTEXT - 3, &o, NULL, &err), &err);
    o.logits_ctx = &b;
    ok(tt_session_sync(w, ramp, CONTEXT - 3, &o, NULL, &err), &err);
    assert_int_equal(a.next, CONTEXT - 3);
    assert_memory_equal(a.rows, b.rows, (size_t)CONTEXT * vocab * sizeof(float));
    assert_memory_equal(a.rows + (size_t)(CONTEXT - 4) * vocab, tt_session_logits(s),
                        vocab * sizeof(float));
    free(a.rows);
    free(b.rows);
    tt_session_close(&s);
    tt_session_close(&w);
    tt_model_close(&m);
    tt_model_close(&wide);
}

static void a_full_context_refuses_and_stays(void **state)
{
    tt_model *m = hybrid(0);
    tt_session *s = session_of(m);
    tt_error err = {0};
    uint32_t many[CONTEXT + 1] = {0};
    sync_ok(s, ramp, CONTEXT, 0);
    float *before = malloc(m->arch.vocab_size * sizeof *before);
    memcpy(before, tt_session_logits(s), m->arch.vocab_size * sizeof *before);
    assert_int_equal(tt_session_decode(s, 1, &err), TT_ERR_CONTEXT);
    assert_non_null(strstr(err.message, "260"));
    assert_int_equal(tt_session_sync(s, many, CONTEXT + 1, NULL, NULL, &err), TT_ERR_CONTEXT);
    assert_int_equal(tt_session_n_tokens(s), CONTEXT);
    assert_memory_equal(tt_session_logits(s), before, m->arch.vocab_size * sizeof *before);
    sync_ok(s, ramp, CONTEXT, CONTEXT);
    /* one less, by going back and by decoding up to the brim */
    sync_ok(s, ramp, CONTEXT - 1, CONTEXT / 64 * 64);
    ok(tt_session_decode(s, ramp[CONTEXT - 1], &err), &err);
    assert_int_equal(tt_session_decode(s, 1, &err), TT_ERR_CONTEXT);
    assert_int_equal(tt_session_n_tokens(s), CONTEXT);
    free(before);
    tt_session_close(&s);
    tt_model_close(&m);
}

/* The checkpoint's KV rows are written over by another branch: it must be gone. */
static void a_checkpoint_under_overwritten_rows_is_not_used(void **state)
{
    tt_arch full = tiny_arch_plain("ff", 6, 2);
    tt_model *models[] = {hybrid(64), open_model(&full, 0, 64)};
    for (int k = 0; k < 2; k++) {
        tt_session *s = session_of(models[k]);
        tt_error err = {0};
        uint32_t other[CONTEXT];
        memcpy(other, ramp, sizeof other);
        other[70] = 77 % 96;
        sync_ok(s, ramp, 100, 0); /* checkpoint at 100 */
        brake b = {.left = 0};
        tt_prefill_options o = {.progress = brake_progress, .progress_ctx = &b};
        /* another branch below it, stopped before it has a checkpoint of its own */
        tt_status st = tt_session_sync(s, other, 200, &o, NULL, &err);
        assert_int_equal(st, TT_ERR_ABORTED);
        size_t n = tt_session_n_tokens(s);
        assert_int_equal(n % 64, 0);
        assert_int_equal(tt_session_rewind(s, 100, &err),
                         n >= 100 && k == 1 ? TT_OK : TT_ERR_STATE);
        sync_ok(s, other, 100, n < 99 ? n : k == 1 ? 64 : 0);
        tt_session *cold = session_of(models[k]);
        sync_ok(cold, other, 100, 0);
        assert_memory_equal(tt_session_logits(s), tt_session_logits(cold),
                            models[k]->arch.vocab_size * sizeof(float));
        tt_session_close(&cold);
        tt_session_close(&s);
        tt_model_close(&models[k]);
    }
}

/* Going back below the checkpoint and decoding up to where it stood is another branch too. */
static void a_checkpoint_above_the_end_is_forgotten(void **state)
{
    tt_arch full = tiny_arch_plain("f", 0, 0);
    tt_model *m = open_model(&full, 0, 64);
    tt_session *s = session_of(m);
    tt_error err = {0};
    sync_ok(s, ramp, 100, 0);
    ok(tt_session_rewind(s, 50, &err), &err);
    for (uint32_t t = 0; t < 60; t++)
        ok(tt_session_decode(s, 3, &err), &err);
    ok(tt_session_rewind(s, 100, &err), &err);
    assert_null(tt_session_logits(s));
    sync_ok(s, tt_session_tokens(s), 100, 64);
    tt_session_close(&s);
    tt_model_close(&m);
}

static void sessions_of_a_model_do_not_meet(void **state)
{
    tt_arch a = tiny_arch_plain("lfl", 9, 2);
    tt_model *m = open_model(&a, 3, 64);
    tt_session *s[3], *alone = session_of(m);
    tt_error err = {0};
    size_t bytes = a.vocab_size * sizeof(float);
    for (int i = 0; i < 3; i++)
        s[i] = session_of(m);
    for (int i = 0; i < 3; i++)
        sync_ok(s[i], ramp + i, 70 + 30 * (size_t)i, 0);
    for (uint32_t t = 0; t < 20; t++)
        for (int i = 0; i < 3; i++)
            ok(tt_session_decode(s[i], ramp[t + (uint32_t)i], &err), &err);
    for (int i = 0; i < 3; i++) {
        sync_ok(alone, ramp + i, 70 + 30 * (size_t)i, 0);
        for (uint32_t t = 0; t < 20; t++)
            ok(tt_session_decode(alone, ramp[t + (uint32_t)i], &err), &err);
        assert_memory_equal(tt_session_logits(alone), tt_session_logits(s[i]), bytes);
        ok(tt_session_rewind(alone, 0, &err), &err);
    }
    for (int i = 0; i < 3; i++)
        tt_session_close(&s[i]);
    tt_session_close(&alone);
    tt_model_close(&m);
}

static void reserved_fields_and_wrong_ids_are_refused(void **state)
{
    tt_model *m = hybrid(64);
    tt_session *s = session_of(m);
    tt_error err = {0};
    uint32_t bad[3] = {1, 2, m->arch.vocab_size};
    sync_ok(s, ramp, 70, 0);
    for (int i = 0; i < 2; i++) {
        tt_prefill_options o = {0};
        o.reserved[i] = 1;
        assert_int_equal(tt_session_sync(s, ramp, 71, &o, NULL, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, "reserved"));
    }
    assert_int_equal(tt_session_sync(s, bad, 3, NULL, NULL, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "token 2 is 96"));
    assert_int_equal(tt_session_sync(s, bad, 0, NULL, NULL, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_decode(s, UINT32_MAX, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_rewind(s, 71, &err), TT_ERR_STATE);
    assert_non_null(strstr(err.message, "71"));
    assert_int_equal(tt_session_rewind(s, SIZE_MAX, &err), TT_ERR_STATE);
    assert_int_equal(tt_session_rewind(s, ((size_t)1 << 32) + 70, &err), TT_ERR_STATE);
    assert_int_equal(tt_session_n_tokens(s), 70);
    same_as_cold(s);
    tt_session_close(&s);
    tt_session_close(&s);
    tt_session_close(NULL);
    tt_model_close(&m);
    tt_model_close(&m);
    tt_model_close(NULL);
}

static int setup(void **state)
{
    tt_rng g = {11};
    for (uint32_t i = 0; i < CONTEXT; i++)
        ramp[i] = tt_rng_below(&g, 96);
    ramp[70] = 5;
    return 0;
}

static int teardown(void **state)
{
    tiny_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_walks_on_hybrid_models),
        cmocka_unit_test(random_walks_with_streams),
        cmocka_unit_test(random_walks_without_attention),
        cmocka_unit_test(random_walks_without_recurrence),
        cmocka_unit_test(ids_may_be_the_sessions_own),
        cmocka_unit_test(an_abort_at_every_chunk_goes_on),
        cmocka_unit_test(an_abort_at_every_ask_goes_on),
        cmocka_unit_test(a_refused_sink_leaves_nothing_behind),
        cmocka_unit_test(a_sink_sees_every_position_once),
        cmocka_unit_test(a_full_context_refuses_and_stays),
        cmocka_unit_test(a_checkpoint_under_overwritten_rows_is_not_used),
        cmocka_unit_test(a_checkpoint_above_the_end_is_forgotten),
        cmocka_unit_test(sessions_of_a_model_do_not_meet),
        cmocka_unit_test(reserved_fields_and_wrong_ids_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
