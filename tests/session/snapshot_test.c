/* Proves the snapshot block: it goes into sessions in any state, is refused whole and named when it
 * is of another model, width or level, and when its bytes are hostile with a right checksum; a
 * refusal leaves the session as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/approx.h"
#include "../support/tiny_model.h"
#include "base/hash.h"

#define CONTEXT 200u

static uint32_t ids[CONTEXT];

static void ok(tt_status st, const tt_error *err)
{
    if (st != TT_OK)
        fail_msg("%s: %s", tt_status_name(st), err->message);
}

static const char *install(const char *kinds, uint32_t experts, uint64_t seed)
{
    tiny_options o = {.arch = tiny_arch_plain(kinds, experts, experts > 0 ? 2 : 0),
                      .seed = seed,
                      .mat = TT_DTYPE_Q4};
    return tiny_install_new(&o);
}

static tt_model *open_with(const char *path, uint32_t kv_bits, uint32_t context, const char *level,
                           float yarn)
{
    tt_model_options o;
    tt_model_options_default(&o);
    o.kv_bits = kv_bits;
    o.max_context = context;
    o.cpu_level = level;
    o.yarn_factor = yarn;
    o.threads = 1;
    return tiny_open(path, &o);
}

static tt_session *session_at(tt_model *m, uint32_t n)
{
    tt_session *s = NULL;
    tt_error err = {0};
    ok(tt_session_create(m, &s, &err), &err);
    if (n > 0)
        ok(tt_session_sync(s, ids, n, NULL, NULL, &err), &err);
    return s;
}

static unsigned char *snapshot(const tt_session *s, size_t *size)
{
    tt_error err = {0};
    *size = tt_session_snapshot_size(s);
    unsigned char *b = malloc(*size);
    ok(tt_session_snapshot(s, b, *size, &err), &err);
    return b;
}

static void same(const tt_session *a, const tt_session *b)
{
    size_t n = tt_session_n_tokens(a);
    assert_int_equal(n, tt_session_n_tokens(b));
    assert_memory_equal(tt_session_tokens(a), tt_session_tokens(b), n * sizeof(uint32_t));
    assert_int_equal(tt_session_logits(a) != NULL, tt_session_logits(b) != NULL);
    if (tt_session_logits(a) == NULL)
        return;
    uint32_t vocab = a->model->arch.vocab_size;
    assert_memory_equal(tt_session_logits(a), tt_session_logits(b), vocab * sizeof(float));
    for (uint32_t i = 0; i < tt_block_count(vocab); i++)
        assert_true(a->top[i] == b->top[i]);
}

/* ---- good ones ---- */

/* Into sessions that are empty, shorter, longer, full, aborted, rewound; and what comes after is
 * the same. */
static void into_any_state(tt_model *m, tt_model *other, uint32_t n, bool logits)
{
    tt_error err = {0};
    for (int state = 0; state < 6; state++) {
        tt_session *a = session_at(m, n),
                   *b = session_at(other, state == 0 ? 0 : 20 + 30 * (uint32_t)state);
        if (!logits && n > 0) { /* the same tokens without logits: the last chunk is not the last */
            ok(tt_session_rewind(a, 0, &err), &err);
            ok(tt_session_prefill(a, ids, n, NULL, &err), &err);
            a->logits_valid = false;
        }
        if (state == 4)
            ok(tt_session_rewind(b, 0, &err), &err);
        if (state == 5)
            for (uint32_t t = 0; t < 10; t++)
                ok(tt_session_decode(b, t, &err), &err);
        size_t size = 0, again = 0;
        unsigned char *snap = snapshot(a, &size), *second;
        ok(tt_session_restore(b, snap, size, &err), &err);
        same(a, b);
        second = snapshot(b, &again);
        assert_int_equal(size, again);
        assert_memory_equal(snap, second, size);
        /* the place restored to is a checkpoint */
        assert_int_equal(tt_session_reusable(b, n), n);
        for (uint32_t t = 0; t < 5; t++) {
            ok(tt_session_decode(a, ids[t], &err), &err);
            ok(tt_session_decode(b, ids[t], &err), &err);
            same(a, b);
        }
        if (n > 0 && n % 64 < 59) {
            ok(tt_session_rewind(b, n, &err), &err);
            assert_null(tt_session_logits(b));
        }
        ok(tt_session_sync(a, ids, 180, NULL, NULL, &err), &err);
        ok(tt_session_sync(b, ids, 180, NULL, NULL, &err), &err);
        same(a, b);
        free(snap);
        free(second);
        tt_session_close(&a);
        tt_session_close(&b);
    }
}

static void into_sessions_in_any_state(void **state)
{
    static const uint32_t bits[] = {32, 16, 8, 4};
    static const char *const kinds[] = {"lf", "ff", "ll", "fl", "Slf", "Sfl", "Slff"};
    for (int i = 0; i < 7; i++) {
        const char *path = install(kinds[i], i % 2 == 0 || i > 3 ? 5 : 0, 1);
        tt_model *m = open_with(path, bits[i % 4], CONTEXT, NULL, 0),
                 *other = open_with(path, bits[i % 4], CONTEXT + 30, NULL, 0);
        into_any_state(m, m, 100, true);
        into_any_state(m, other, 100, true); /* of another process with a larger context */
        into_any_state(m, m, 64, false);
        into_any_state(m, m, 103, true); /* blocks of index keys that are not complete */
        into_any_state(m, m, 0, false);
        tt_model_close(&m);
        tt_model_close(&other);
    }
}

/* ---- of something else ---- */

static void refused_by(tt_model *m, const unsigned char *snap, size_t size, const char *theirs,
                       const char *ours)
{
    tt_session *s = session_at(m, 33), *before = session_at(m, 33);
    tt_error err = {0};
    assert_int_equal(tt_session_restore(s, snap, size, &err), TT_ERR_STATE);
    if (strstr(err.message, theirs) == NULL || strstr(err.message, ours) == NULL)
        fail_msg("\"%s\" and \"%s\" are not in: %s", theirs, ours, err.message);
    same(s, before);
    tt_session_close(&s);
    tt_session_close(&before);
}

static void another_model_width_or_level_is_named(void **state)
{
    const char *path = install("lf", 5, 1), *stranger = install("lf", 5, 2);
    tt_model *m = open_with(path, 8, CONTEXT, "ref", 0);
    tt_session *s = session_at(m, 40);
    size_t size = 0;
    unsigned char *snap = snapshot(s, &size);
    tt_model *o = open_with(path, 16, CONTEXT, "ref", 0);
    refused_by(o, snap, size, "made with kv 8", "has kv 16");
    tt_model_close(&o);
    o = open_with(stranger, 8, CONTEXT, "ref", 0);
    refused_by(o, snap, size, "made with manifest", "has manifest");
    tt_model_close(&o);
    o = open_with(path, 8, CONTEXT, "ref", 2);
    refused_by(o, snap, size, "made with yarn 1", "has yarn 2");
    tt_model_close(&o);
    if (tt_cpu_level_at(1) != NULL) {
        o = open_with(path, 8, CONTEXT, tt_cpu_level_at(1), 0);
        refused_by(o, snap, size, "made with level ref", tt_cpu_level_at(1));
        tt_model_close(&o);
    }
    o = open_with(path, 8, 39, "ref", 0);
    tt_session *t = session_at(o, 33);
    tt_error err = {0};
    assert_int_equal(tt_session_restore(t, snap, size, &err), TT_ERR_CONTEXT);
    assert_non_null(strstr(err.message, "40 tokens"));
    assert_int_equal(tt_session_n_tokens(t), 33);
    tt_session_close(&t);
    tt_model_close(&o);
    free(snap);
    tt_session_close(&s);
    tt_model_close(&m);
}

/* ---- hostile ---- */

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void put64(unsigned char *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static void sign(unsigned char *b, size_t size)
{
    put32(b + 12, tt_crc32c(0, b + 16, size - 16));
}

typedef struct hostile {
    const char *what;
    unsigned at, bytes;
    uint64_t value;
    tt_status want;
    const char *words;
} hostile;

static const hostile lies[] = {
    {"magic", 0, 4, 0x12345678, TT_ERR_FORMAT, "no TTSNAP01"},
    {"version 0", 8, 4, 0, TT_ERR_UNSUPPORTED, "version 0"},
    {"version 2", 8, 4, 2, TT_ERR_UNSUPPORTED, "version 2"},
    {"total 0", 16, 8, 0, TT_ERR_FORMAT, "size"},
    {"total", 16, 8, UINT64_MAX, TT_ERR_FORMAT, "size"},
    {"key length 0", 24, 4, 0, TT_ERR_STATE, "not made with"},
    {"key length", 24, 4, UINT32_MAX, TT_ERR_FORMAT, "key"},
    {"key length to the end", 24, 4, 0, TT_ERR_STATE, "snapshot"},
    {"tokens 0", 28, 4, 0, TT_ERR_FORMAT, "broken"},
    {"one token less", 28, 4, 39, TT_ERR_FORMAT, "parts"},
    {"one token more", 28, 4, 41, TT_ERR_FORMAT, "parts"},
    {"as many as fit", 28, 4, CONTEXT, TT_ERR_FORMAT, "parts"},
    {"more than fit", 28, 4, CONTEXT + 1, TT_ERR_CONTEXT, "201 tokens"},
    {"2^31 tokens", 28, 4, (uint64_t)1 << 31, TT_ERR_CONTEXT, "2147483648 tokens"},
    {"2^32 - 1 tokens", 28, 4, UINT32_MAX, TT_ERR_CONTEXT, "4294967295 tokens"},
    {"a flag", 32, 4, 2, TT_ERR_FORMAT, "flags"},
    {"all flags", 32, 4, UINT32_MAX, TT_ERR_FORMAT, "flags"},
    {"no logits", 32, 4, 0, TT_ERR_FORMAT, "parts"},
    {"vocabulary 0", 36, 4, 0, TT_ERR_FORMAT, "parts"},
    {"vocabulary", 36, 4, 97, TT_ERR_FORMAT, "parts"},
    {"KV bytes", 40, 8, 1, TT_ERR_FORMAT, "parts"},
    {"KV bytes that wrap", 40, 8, (uint64_t)-64, TT_ERR_FORMAT, "parts"},
    {"state bytes", 48, 8, 0, TT_ERR_FORMAT, "parts"},
    {"state bytes that wrap", 48, 8, UINT64_MAX, TT_ERR_FORMAT, "parts"},
    {"reserved", 56, 8, 1, TT_ERR_FORMAT, "flags"},
};

static void hostile_bytes_with_a_right_checksum(void **state)
{
    tt_model *m = open_with(install("lf", 5, 1), 8, CONTEXT, NULL, 0);
    tt_session *s = session_at(m, 40), *t = session_at(m, 33), *before = session_at(m, 33);
    tt_error err = {0};
    size_t size = 0;
    unsigned char *good = snapshot(s, &size), *bad = malloc(size);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        const hostile *h = &lies[i];
        memcpy(bad, good, size);
        if (h->bytes == 4)
            put32(bad + h->at, (uint32_t)h->value);
        else
            put64(bad + h->at, h->value);
        if (strcmp(h->what, "key length to the end") == 0)
            put32(bad + h->at, (uint32_t)(size - 64));
        sign(bad, size);
        tt_status st = tt_session_restore(t, bad, size, &err);
        if (st != h->want || strstr(err.message, h->words) == NULL)
            fail_msg("%s: %s: %s", h->what, tt_status_name(st), err.message);
        same(t, before);
    }
    /* a token that is none, at every place */
    for (unsigned i = 0; i < 40; i++) {
        memcpy(bad, good, size);
        size_t tokens = 64 + (strlen(m->key) + 7) / 8 * 8;
        put32(bad + tokens + (size_t)4 * i, i % 2 == 0 ? 96 : UINT32_MAX);
        sign(bad, size);
        assert_int_equal(tt_session_restore(t, bad, size, &err), TT_ERR_FORMAT);
        assert_int_equal(err.offset, (int64_t)(tokens + 4 * i));
        same(t, before);
    }
    /* cut at every length, with size and checksum made to fit */
    for (size_t cut = 0; cut < size; cut += cut < 300 ? 1 : 997) {
        unsigned char *part =
            malloc(cut > 0 ? cut : 1); /* exactly as long, so that reading past is seen */
        memcpy(part, good, cut);
        if (cut >= 64) {
            put64(part + 16, cut);
            sign(part, cut);
        }
        assert_int_not_equal(tt_session_restore(t, part, cut, &err), TT_OK);
        free(part);
        same(t, before);
    }
    /* a key of other bytes does not reach the message as it is */
    memcpy(bad, good, size);
    memset(bad + 64 + 9, 0x07, 64);
    sign(bad, size);
    assert_int_equal(tt_session_restore(t, bad, size, &err), TT_ERR_STATE);
    assert_null(strchr(err.message, 0x07));
    ok(tt_session_restore(t, good, size, &err), &err);
    same(s, t);
    free(good);
    free(bad);
    tt_session_close(&s);
    tt_session_close(&t);
    tt_session_close(&before);
    tt_model_close(&m);
}

static void logits_without_tokens_are_refused(void **state)
{
    tt_model *m = open_with(install("f", 0, 1), 8, CONTEXT, NULL, 0);
    tt_session *s = session_at(m, 0);
    tt_error err = {0};
    s->logits_valid = true; /* no way leads here but a hostile one */
    size_t size = 0;
    unsigned char *snap = snapshot(s, &size);
    s->logits_valid = false;
    assert_int_equal(tt_session_restore(s, snap, size, &err), TT_ERR_FORMAT);
    assert_non_null(strstr(err.message, "logits without tokens"));
    assert_null(tt_session_logits(s));
    free(snap);
    tt_session_close(&s);
    tt_model_close(&m);
}

static void the_buffer_must_fit_exactly(void **state)
{
    tt_model *m = open_with(install("lf", 0, 1), 8, CONTEXT, NULL, 0);
    tt_session *s = session_at(m, 10);
    tt_error err = {0};
    size_t size = tt_session_snapshot_size(s);
    unsigned char *b = malloc(size + 1);
    memset(b, 0x5a, size + 1);
    assert_int_equal(tt_session_snapshot(s, b, size - 1, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_snapshot(s, b, size + 1, &err), TT_ERR_INVALID);
    assert_int_equal(tt_session_snapshot(s, b, 0, &err), TT_ERR_INVALID);
    assert_int_equal(b[0], 0x5a);
    ok(tt_session_snapshot(s, b, size, &err), &err);
    assert_int_equal(b[size], 0x5a);
    free(b);
    tt_session_close(&s);
    tt_model_close(&m);
}

static int setup(void **state)
{
    tt_rng g = {7};
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = tt_rng_below(&g, 96);
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
        cmocka_unit_test(into_sessions_in_any_state),
        cmocka_unit_test(another_model_width_or_level_is_named),
        cmocka_unit_test(hostile_bytes_with_a_right_checksum),
        cmocka_unit_test(logits_without_tokens_are_refused),
        cmocka_unit_test(the_buffer_must_fit_exactly),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
