/* turn.h: what every protocol asks of the engine: n answers to one prompt, with stop strings.
 *
 * Owns:      a checked request in plain data; stop strings, ids of calls, the end of a turn after
 *            its first call, counting.
 * Not here:  reading requests and writing answers (the protocols).
 * Laws:      (1) nothing of a stop string is ever handed out;  (2) choice i uses seed + i;  (3)
 *            usage counts every token that was generated.
 * Threads:   one.
 */
#ifndef TT_SERVER_TURN_H
#define TT_SERVER_TURN_H

#include "server/engine.h"
#include "server/grammar_shelf.h"
#include "server/server_limits.h"

#define TT_CALL_ID 30u /* "call_", 24 hexadecimal digits, NUL */

typedef struct tt_turn_request {
    tt_engine_prompt prompt;
    bool plain;
    char *tools; /* JSON or NULL */
    tt_sampler_options sampling;
    uint32_t max_tokens;
    uint32_t n;
    char *stops[TT_STOP_STRINGS];
    uint32_t n_stops;
    bool logprobs;
    uint32_t top_logprobs;
    bool one_call;
    tt_lent_grammar *grammar; /* what the answer is held to, or NULL */
    bool document;            /* of the grammar: a document may come in place of calls */
} tt_turn_request;

void tt_turn_request_free(tt_turn_request *r);

typedef struct tt_turn_usage {
    size_t prompt, cached, generated, thought;
    tt_session_reuse reuse; /* where the cached ones came from */
    uint32_t bad_calls;
    double prefill_seconds, decode_seconds;
    const char
        *stopped_by; /* the stop string that ended the last choice, of the request, or NULL */
} tt_turn_usage;

typedef enum tt_turn_finish { TT_TURN_STOP, TT_TURN_LENGTH, TT_TURN_CALLS } tt_turn_finish;

/* Each may be told any number of times between begin and end; `i` is the choice. */
typedef struct tt_turn_sink {
    void *ctx;
    void (*begin)(void *ctx, uint32_t i);
    void (*thought)(void *ctx, uint32_t i, const char *text, size_t len);
    void (*text)(void *ctx, uint32_t i, const char *text, size_t len,
                 const tt_token_report *reports, size_t n);
    void (*call)(void *ctx, uint32_t i, uint32_t k, const char *id, const char *name,
                 const char *arguments, size_t len);
    void (*end)(void *ctx, uint32_t i, tt_turn_finish finish);
    void (*prefill)(void *ctx, uint64_t done, uint64_t total);
    /* Once, before anything is computed: `cached` tokens of the prompt are there. May be NULL. */
    void (*start)(void *ctx, uint64_t cached, uint64_t total);
} tt_turn_sink;

/* TT_ERR_ABORTED when *cancel was set. `usage` counts also when this fails. */
TT_MUST_CHECK tt_status tt_turn_run(const tt_server_engine *engine, const tt_turn_request *r,
                                    const tt_turn_sink *sink, const atomic_bool *cancel,
                                    tt_turn_usage *usage, tt_error *err);

/* PREFIX and 24 hexadecimal digits into `out` of strlen(prefix) + 25 bytes. */
void tt_random_id(const char *prefix, char *out);

#endif
