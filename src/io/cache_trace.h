/* cache_trace.h: what an expert cache was asked, as it happened, and the file that keeps it.
 *
 * Owns:      the events, the recorder that the cache tells them to, the file format
 *            (docs/bench.md) and its checks.
 * Not here:  playing a trace (cache_replay.h).
 * Laws:      (1) a file is published whole and ends with its checksum;  (2) load checks every event
 *            before it hands out the first: ids below the counts, distinct in an ask, leases that
 *            are held;  (3) hostile files get a status with file and offset.
 * Threads:   one at a time.
 */
#ifndef TT_IO_CACHE_TRACE_H
#define TT_IO_CACHE_TRACE_H

#include "base/buf.h"
#include "base/limits.h"
#include "base/status.h"
#include "io/cache_policy.h"

#define TT_TRACE_MAX        (4 * TT_GIB) /* bytes of a file; 40 layers take about 1 KB a token */
#define TT_TRACE_MAX_LEASES 4096u        /* held at once */

typedef enum tt_cache_event_kind {
    TT_TRACE_ASK,    /* layer, n, expert, weight, prefill: a lease begins */
    TT_TRACE_READY,  /* layer, expert[0]: its load ended well */
    TT_TRACE_FAILED, /* layer, expert[0]: its load failed */
    TT_TRACE_RELEASE /* lease, and n indexes into it whose loads had not ended */
} tt_cache_event_kind;

typedef struct tt_cache_event {
    tt_cache_event_kind kind;
    bool prefill;
    uint64_t lease; /* number of the ask, from 0 */
    uint32_t layer, n;
    const uint32_t *expert; /* [n]; of RELEASE the indexes */
    const float *weight;    /* [n], or NULL: 1 each */
} tt_cache_event;

/* Called on the caller's thread of the cache, while it works: must not call the cache. */
typedef struct tt_cache_recorder {
    void (*event)(void *ctx, const tt_cache_event *e);
    void *ctx;
} tt_cache_recorder;

/* What the recorded cache was. */
typedef struct tt_cache_trace_info {
    uint32_t n_layers, n_experts, top_k, slots;
    tt_cache_policy_kind policy;
    double half_life;
    uint64_t expert_bytes;
} tt_cache_trace_info;

/* ---- writing ---- */

typedef struct tt_cache_trace_writer {
    tt_cache_trace_info info;
    tt_buf buf;
    uint64_t asks;
} tt_cache_trace_writer;

/* Keeps events in memory, at most `max` bytes of them. */
void tt_cache_trace_begin(tt_cache_trace_writer *w, const tt_cache_trace_info *info, size_t max);
void tt_cache_trace_add(tt_cache_trace_writer *w, const tt_cache_event *e);
/* For tt_expert_cache_record. */
tt_cache_recorder tt_cache_trace_recorder(tt_cache_trace_writer *w);
/* Whether a trace could be published at `path`: to be asked before the work. A file that is there
 * is replaced only if it is a trace. */
TT_MUST_CHECK tt_status tt_cache_trace_check_target(const char *path, tt_error *err);
/* Publishes what came so far. Fails when events did not fit. */
TT_MUST_CHECK tt_status tt_cache_trace_publish(tt_cache_trace_writer *w, const char *path,
                                               tt_error *err);
void tt_cache_trace_end(tt_cache_trace_writer *w);

/* ---- reading ---- */

typedef struct tt_cache_trace {
    tt_cache_trace_info info;
    uint64_t asks, picks; /* ASK events, experts in them */
    const unsigned char *events;
    size_t event_bytes;
    char *bytes; /* owned; NULL when parsed from the caller's */
} tt_cache_trace;

TT_MUST_CHECK tt_status tt_cache_trace_load(const char *path, tt_cache_trace *out, tt_error *err);
/* The same from memory that stays the caller's (also the fuzz target); `file` is for errors. */
TT_MUST_CHECK tt_status tt_cache_trace_parse(const void *bytes, size_t n, const char *file,
                                             tt_cache_trace *out, tt_error *err);
void tt_cache_trace_free(tt_cache_trace *t);

/* Walks the events of a trace that load or parse accepted. */
typedef struct tt_cache_trace_cursor {
    const tt_cache_trace *trace;
    size_t at;
    uint64_t asks;
    uint32_t expert[TT_MAX_EXPERTS];
    float weight[TT_MAX_EXPERTS];
} tt_cache_trace_cursor;

void tt_cache_trace_rewind(tt_cache_trace_cursor *c, const tt_cache_trace *trace);
/* False at the end. What the event points to is valid until the next call. */
bool tt_cache_trace_next(tt_cache_trace_cursor *c, tt_cache_event *e);

#endif
