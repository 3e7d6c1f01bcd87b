#include "io/cache_trace.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/le.h"

/* Header: magic, version, layers, experts, top-k, slots, policy, half-life, bytes an expert, bytes
 * of events. */
#define MAGIC        "TTTRACE"
#define VERSION      1u
#define HEADER_BYTES 56u
#define CRC_BYTES    4u

/* A tag holds the kind in its two lowest bits. */
#define TAG_KIND     3u
#define TAG_PREFILL  4u
#define TAG_WEIGHTED 8u

static void put_number(tt_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        tt_buf_putc(b, (char)(v | 0x80));
    tt_buf_putc(b, (char)v);
}

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* ---- writing ---- */

void tt_cache_trace_begin(tt_cache_trace_writer *w, const tt_cache_trace_info *info, size_t max)
{
    char header[HEADER_BYTES] = {0};
    *w = (tt_cache_trace_writer){.info = *info};
    tt_buf_init(&w->buf,
                max < SIZE_MAX - HEADER_BYTES - CRC_BYTES ? max + HEADER_BYTES + CRC_BYTES : max);
    tt_buf_append(&w->buf, header, sizeof header);
}

void tt_cache_trace_add(tt_cache_trace_writer *w, const tt_cache_event *e)
{
    tt_buf *b = &w->buf;
    bool weighted = e->kind == TT_TRACE_ASK && e->weight != NULL;
    tt_buf_putc(b, (char)((unsigned)e->kind | (e->prefill ? TAG_PREFILL : 0) |
                          (weighted ? TAG_WEIGHTED : 0)));
    switch (e->kind) {
    case TT_TRACE_ASK:
        w->asks++;
        put_number(b, e->layer);
        put_number(b, e->n);
        break;
    case TT_TRACE_READY:
    case TT_TRACE_FAILED:
        put_number(b, e->layer);
        put_number(b, e->expert[0]);
        return;
    case TT_TRACE_RELEASE:
        put_number(b, w->asks - e->lease);
        put_number(b, e->n);
        break;
    }
    for (uint32_t i = 0; i < e->n; i++)
        put_number(b, e->expert[i]);
    for (uint32_t i = 0; weighted && i < e->n; i++) {
        char bytes[4];
        tt_put_u32(bytes, float_bits(e->weight[i]));
        tt_buf_append(b, bytes, sizeof bytes);
    }
}

static void on_event(void *ctx, const tt_cache_event *e)
{
    tt_cache_trace_add(ctx, e);
}

tt_cache_recorder tt_cache_trace_recorder(tt_cache_trace_writer *w)
{
    return (tt_cache_recorder){.event = on_event, .ctx = w};
}

static void fill_header(char *h, const tt_cache_trace_info *info, uint64_t event_bytes)
{
    uint64_t half_life;
    memcpy(&half_life, &info->half_life, sizeof half_life);
    memcpy(h, MAGIC, sizeof MAGIC);
    tt_put_u32(h + 8, VERSION);
    tt_put_u32(h + 12, info->n_layers);
    tt_put_u32(h + 16, info->n_experts);
    tt_put_u32(h + 20, info->top_k);
    tt_put_u32(h + 24, info->slots);
    tt_put_u32(h + 28, (uint32_t)info->policy);
    tt_put_u64(h + 32, half_life);
    tt_put_u64(h + 40, info->expert_bytes);
    tt_put_u64(h + 48, event_bytes);
}

tt_status tt_cache_trace_check_target(const char *path, tt_error *err)
{
    char dir[TT_MAX_PATH];
    TT_TRY(tt_file_check_replaced(path, "a trace", MAGIC, sizeof MAGIC, err));
    if (strlen(path) >= sizeof dir)
        return tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    strcpy(dir, path);
    if (access(dirname(dir), W_OK | X_OK) != 0)
        return tt_fail_errno(err, errno, path, "no file can be made in its folder");
    return TT_OK;
}

tt_status tt_cache_trace_publish(tt_cache_trace_writer *w, const char *path, tt_error *err)
{
    TT_TRY(tt_buf_status(&w->buf, err));
    size_t len = w->buf.len;
    char crc[CRC_BYTES];
    fill_header(w->buf.data, &w->info, len - HEADER_BYTES);
    tt_put_u32(crc, tt_crc32c(0, w->buf.data, len));
    tt_buf_append(&w->buf, crc, sizeof crc);
    tt_status st = tt_buf_status(&w->buf, err);
    if (st == TT_OK)
        st = tt_cache_trace_check_target(path, err);
    if (st == TT_OK)
        st = tt_file_publish(path, w->buf.data, w->buf.len, err);
    w->buf.len = len;
    return st;
}

void tt_cache_trace_end(tt_cache_trace_writer *w)
{
    tt_buf_free(&w->buf);
}

/* ---- reading ---- */

/* A number, or false at the end of the bytes or above 64 bits. */
static bool get_number(const unsigned char *p, size_t n, size_t *at, uint64_t *v)
{
    uint64_t x = 0;
    for (unsigned shift = 0; shift < 64 && *at < n; shift += 7) {
        unsigned char c = p[(*at)++];
        if (shift == 63 && c > 1)
            return false;
        x |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) {
            *v = x;
            return true;
        }
    }
    return false;
}

static bool get_ids(tt_cache_trace_cursor *c, uint32_t n, uint32_t below)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v;
        if (!get_number(c->trace->events, c->trace->event_bytes, &c->at, &v) || v >= below)
            return false;
        c->expert[i] = (uint32_t)v;
    }
    return true;
}

static bool get_weights(tt_cache_trace_cursor *c, uint32_t n)
{
    if (c->trace->event_bytes - c->at < (size_t)n * 4)
        return false;
    for (uint32_t i = 0; i < n; i++, c->at += 4) {
        c->weight[i] = float_of(tt_get_u32(c->trace->events + c->at));
        if (!(c->weight[i] >= 0.0f && c->weight[i] <= 1e9f))
            return false;
    }
    return true;
}

/* Reads one event; false when it is malformed. */
static bool get_event(tt_cache_trace_cursor *c, tt_cache_event *e)
{
    const tt_cache_trace *t = c->trace;
    unsigned tag = t->events[c->at++];
    uint64_t a, n;
    if (tag > (TAG_KIND | TAG_PREFILL | TAG_WEIGHTED))
        return false;
    *e = (tt_cache_event){.kind = (tt_cache_event_kind)(tag & TAG_KIND),
                          .prefill = (tag & TAG_PREFILL) != 0,
                          .expert = c->expert};
    if (e->kind != TT_TRACE_ASK && tag > TAG_KIND)
        return false;
    if (!get_number(t->events, t->event_bytes, &c->at, &a))
        return false;
    if (e->kind == TT_TRACE_RELEASE) {
        if (a == 0 || a > c->asks || !get_number(t->events, t->event_bytes, &c->at, &n) ||
            n > TT_MAX_EXPERTS || !get_ids(c, (uint32_t)n, TT_MAX_EXPERTS))
            return false;
        e->lease = c->asks - a;
        e->n = (uint32_t)n;
        return true;
    }
    if (a >= t->info.n_layers)
        return false;
    e->layer = (uint32_t)a;
    if (e->kind != TT_TRACE_ASK) {
        e->n = 1;
        return get_ids(c, 1, t->info.n_experts);
    }
    if (!get_number(t->events, t->event_bytes, &c->at, &n) || n > t->info.n_experts ||
        !get_ids(c, (uint32_t)n, t->info.n_experts))
        return false;
    e->n = (uint32_t)n;
    e->lease = c->asks++;
    if ((tag & TAG_WEIGHTED) != 0) {
        e->weight = c->weight;
        return get_weights(c, e->n);
    }
    return true;
}

void tt_cache_trace_rewind(tt_cache_trace_cursor *c, const tt_cache_trace *trace)
{
    c->trace = trace;
    c->at = 0;
    c->asks = 0;
}

bool tt_cache_trace_next(tt_cache_trace_cursor *c, tt_cache_event *e)
{
    return c->at < c->trace->event_bytes && get_event(c, e);
}

/* What parse keeps in mind of the events before. */
typedef struct checker {
    tt_cache_trace_cursor cursor;
    uint64_t stamp[TT_MAX_EXPERTS];        /* number of the event that named an index last */
    uint64_t lease[TT_TRACE_MAX_LEASES];   /* held */
    uint32_t experts[TT_TRACE_MAX_LEASES]; /* of each */
    uint32_t held;
    uint64_t events, picks;
} checker;

/* NULL, or what is wrong with the event. */
static const char *check_event(checker *k, const tt_cache_event *e)
{
    k->events++;
    for (uint32_t i = 0; i < e->n; i++) {
        if (k->stamp[e->expert[i]] == k->events)
            return "names an expert twice";
        k->stamp[e->expert[i]] = k->events;
    }
    if (e->kind == TT_TRACE_ASK) {
        if (k->held == TT_TRACE_MAX_LEASES)
            return "holds too many leases at once";
        k->lease[k->held] = e->lease;
        k->experts[k->held++] = e->n;
        k->picks += e->n;
    } else if (e->kind == TT_TRACE_RELEASE) {
        uint32_t i = k->held;
        while (i > 0 && k->lease[i - 1] != e->lease)
            i--;
        if (i-- == 0)
            return "releases a lease that is not held";
        for (uint32_t j = 0; j < e->n; j++)
            if (e->expert[j] >= k->experts[i])
                return "releases an expert that the lease has not";
        k->lease[i] = k->lease[--k->held];
        k->experts[i] = k->experts[k->held];
    }
    return NULL;
}

static tt_status check_events(tt_cache_trace *t, const char *file, tt_error *err)
{
    checker *k = calloc(1, sizeof *k);
    if (k == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for checking a trace");
    tt_status st = TT_OK;
    tt_cache_trace_rewind(&k->cursor, t);
    while (st == TT_OK && k->cursor.at < t->event_bytes) {
        tt_cache_event e;
        int64_t at = (int64_t)(HEADER_BYTES + k->cursor.at);
        const char *wrong = get_event(&k->cursor, &e) ? check_event(k, &e) : "cannot be read";
        if (wrong != NULL)
            st = tt_fail_at(err, TT_ERR_FORMAT, file, at, "event %llu of the trace %s",
                            (unsigned long long)k->events, wrong);
    }
    t->asks = k->cursor.asks;
    t->picks = k->picks;
    free(k);
    return st;
}

static tt_status check_info(const tt_cache_trace_info *i, const char *file, tt_error *err)
{
    if (i->n_layers < 1 || i->n_layers > TT_MAX_LAYERS || i->n_experts < 1 ||
        i->n_experts > TT_MAX_EXPERTS || i->top_k < 1 || i->top_k > i->n_experts)
        return tt_fail_at(err, TT_ERR_FORMAT, file, 12, "a trace of %u layers, %u of %u experts",
                          i->n_layers, i->top_k, i->n_experts);
    if (tt_cache_policy_name(i->policy) == NULL || !(i->half_life >= 0.0 && i->half_life <= 1e9))
        return tt_fail_at(err, TT_ERR_FORMAT, file, 28, "cache policy %u with half-life %g",
                          (unsigned)i->policy, i->half_life);
    return TT_OK;
}

tt_status tt_cache_trace_parse(const void *bytes, size_t n, const char *file, tt_cache_trace *out,
                               tt_error *err)
{
    const char *h = bytes;
    tt_cache_trace t = {0};
    if (n < HEADER_BYTES + CRC_BYTES || memcmp(h, MAGIC, sizeof MAGIC) != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, file, 0, "not a trace: it does not begin with %s",
                          MAGIC);
    if (tt_get_u32(h + 8) != VERSION)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, 8,
                          "a trace of version %u, this program reads %u", tt_get_u32(h + 8),
                          VERSION);
    if (tt_get_u64(h + 48) != n - HEADER_BYTES - CRC_BYTES)
        return tt_fail_at(err, TT_ERR_FORMAT, file, 48,
                          "%llu bytes of events announced, the file has room for %zu",
                          (unsigned long long)tt_get_u64(h + 48), n - HEADER_BYTES - CRC_BYTES);
    if (tt_crc32c(0, h, n - CRC_BYTES) != tt_get_u32(h + n - CRC_BYTES))
        return tt_fail_at(err, TT_ERR_CORRUPT, file, (int64_t)(n - CRC_BYTES),
                          "the trace does not match its checksum");
    uint64_t half_life = tt_get_u64(h + 32);
    t.info = (tt_cache_trace_info){.n_layers = tt_get_u32(h + 12),
                                   .n_experts = tt_get_u32(h + 16),
                                   .top_k = tt_get_u32(h + 20),
                                   .slots = tt_get_u32(h + 24),
                                   .policy = (tt_cache_policy_kind)tt_get_u32(h + 28),
                                   .expert_bytes = tt_get_u64(h + 40)};
    memcpy(&t.info.half_life, &half_life, sizeof half_life);
    TT_TRY(check_info(&t.info, file, err));
    t.events = (const unsigned char *)h + HEADER_BYTES;
    t.event_bytes = n - HEADER_BYTES - CRC_BYTES;
    TT_TRY(check_events(&t, file, err));
    *out = t;
    return TT_OK;
}

tt_status tt_cache_trace_load(const char *path, tt_cache_trace *out, tt_error *err)
{
    char *bytes = NULL;
    size_t n = 0;
    TT_TRY(tt_file_read(path, TT_TRACE_MAX, &bytes, &n, err));
    tt_status st = tt_cache_trace_parse(bytes, n, path, out, err);
    if (st == TT_OK)
        out->bytes = bytes;
    else
        tt_free(bytes);
    return st;
}

void tt_cache_trace_free(tt_cache_trace *t)
{
    tt_free(t->bytes);
    *t = (tt_cache_trace){0};
}
