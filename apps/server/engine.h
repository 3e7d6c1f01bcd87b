/* engine.h: all that a protocol sees of a model that answers: describe, render, generate with
 * events, cancel.
 *
 * Owns:      the shape of that seam.
 * Not here:  the two that stand behind it: the library (engine_library.c), and a script in the
 *            tests (tests/support/scripted_engine.c); which of several models is in memory
 *            (model_set.h).
 * Laws:      (1) text comes in whole characters, sorted into thoughts, text and calls;  (2)
 *            whatever ends an answer leaves the engine fit for the next;  (3) once `cancel` is set
 *            generate returns before the next layer;  (4) describe and render need no weights.
 * Threads:   describe, look and render from any thread, also while one generates; generate from as
 *            many at once as the model has room for sequences, and stats meanwhile; load, unload
 *            and idle from one thread while nothing generates. describe never waits for work.
 */
#ifndef TT_SERVER_ENGINE_H
#define TT_SERVER_ENGINE_H

#include <stdatomic.h>

#include "base/buf.h"

#define TT_SENTENCE 1040u /* of an error: file and message */

/* Levels that a request may name, weakest first. */
typedef enum tt_effort {
    TT_EFFORT_NOT = -1, /* not named */
    TT_EFFORT_NONE,
    TT_EFFORT_MINIMAL,
    TT_EFFORT_LOW,
    TT_EFFORT_MEDIUM,
    TT_EFFORT_HIGH,
    TT_EFFORT_XHIGH,
    TT_EFFORT_MAX,
    TT_EFFORTS
} tt_effort;
extern const char *const tt_effort_words[TT_EFFORTS + 1]; /* NULL at the end */

typedef struct tt_engine_info {
    char model[128];      /* the id that requests name */
    int64_t created;      /* seconds since 1970 */
    uint32_t max_context; /* 0: not known, what stands there cannot be used */
    uint32_t vocab_size;
    tt_sampler_options sampling; /* defaults of the model */
    bool has_template;
    bool thinks;              /* thinking on and off render differently */
    bool efforts[TT_EFFORTS]; /* which words of reasoning_effort change what the template renders */
    bool loadable;            /* as far as was seen when it was last looked at or loaded */
    char reason[TT_SENTENCE]; /* why it is not, or what a load will be like that is not as usual; ""
                               */
    char cache_note[TT_SENTENCE]; /* of the directory of the prompt cache, or "" */
    tt_plan plan;                 /* zeros when there is no model behind it */
} tt_engine_info;

typedef struct tt_engine_render {
    const char *text; /* text as it stands; NULL: the conversation below */
    size_t len;
    bool special;         /* of text: special tokens written in it count as such */
    const char *messages; /* JSON array */
    const char *tools;    /* JSON array or NULL */
    const char *extra;    /* JSON object of template variables or NULL */
    tt_thinking thinking;
} tt_engine_render;

typedef struct tt_engine_prompt {
    uint32_t *ids; /* tt_free */
    size_t n;
    bool in_thought; /* the template has opened a thought for the model */
    bool may_think;  /* or the model may open one */
} tt_engine_prompt;

/* One token as log probabilities show it. `text` may be half a character. */
typedef struct tt_token_chance {
    char text[64];
    uint8_t len;
    float logprob;
} tt_token_chance;

#define TT_MOST_CHANCES 20u
typedef struct tt_token_report {
    tt_token_chance token, top[TT_MOST_CHANCES];
    uint32_t n_top;
} tt_token_report;

typedef enum tt_engine_event_kind {
    TT_EVENT_START,   /* first, before anything is computed: done of total are there already */
    TT_EVENT_PREFILL, /* done of total */
    TT_EVENT_THOUGHT,
    TT_EVENT_TEXT,
    TT_EVENT_CALL,
    TT_EVENT_BAD_CALL /* something that began like a call has become text */
} tt_engine_event_kind;

typedef struct tt_engine_event {
    tt_engine_event_kind kind;
    uint64_t done, total;           /* START: tokens of the prompt; PREFILL */
    const char *text;               /* THOUGHT, TEXT; CALL: arguments, a JSON object */
    size_t len;                     /* of text */
    const char *name;               /* CALL */
    const tt_token_report *reports; /* TEXT: of the tokens that it came from */
    size_t n_reports;
} tt_engine_event;

/* False: enough, the answer ends here. */
typedef bool (*tt_engine_event_fn)(void *ctx, const tt_engine_event *event);

typedef struct tt_engine_request {
    const uint32_t *ids;
    size_t n;
    bool in_thought, may_think;
    bool plain;        /* no thoughts and no calls: everything is text */
    const char *tools; /* JSON array: calls are looked for and typed by it; NULL: calls are text */
    const tt_grammar
        *grammar;  /* NULL: anything may be said. What it says begins behind a thought */
    bool document; /* of the grammar: what does not begin as a call is a document, and all text */
    tt_sampler_options sampling;
    uint32_t max_tokens; /* 0: the prompt is read and nothing more */
    bool logprobs;
    uint32_t top_logprobs;
    const atomic_bool *cancel;
} tt_engine_request;

typedef enum tt_engine_finish {
    TT_ENGINE_STOP,     /* the model's own end, or that of the grammar */
    TT_ENGINE_LENGTH,   /* max_tokens */
    TT_ENGINE_ENOUGH,   /* the event function said so */
    TT_ENGINE_CANCELLED /* *cancel was set */
} tt_engine_finish;

typedef struct tt_engine_result {
    tt_engine_finish finish;
    tt_session_reuse reuse;  /* tokens of the prompt that were not computed again */
    size_t generated_tokens; /* end token included */
    size_t thought_tokens;   /* of those */
    double prefill_seconds, decode_seconds;
} tt_engine_result;

typedef struct tt_engine_stats {
    tt_model_stats model;
    tt_state_cache_stats cache; /* zeros without one */
} tt_engine_stats;

typedef struct tt_server_engine {
    const struct tt_server_engine_ops *ops;
    void *self;
} tt_server_engine;

typedef struct tt_server_engine_ops {
    void (*describe)(void *self, tt_engine_info *info);
    /* Looks at the install anew, so that describe tells how it is now. Fails when it could not be
     * loaded however much memory were free. */
    tt_status (*look)(void *self, tt_error *err);
    /* After a look: makes it ready to generate. `go_on` is asked now and then, and false aborts. A
     * load that fails holds nothing. */
    tt_status (*load)(void *self, bool (*go_on)(void *ctx), void *ctx, tt_error *err);
    /* Gives back what load took. */
    void (*unload)(void *self);
    tt_status (*render)(void *self, const tt_engine_render *r, tt_engine_prompt *out,
                        tt_error *err);
    /* Loaded. `result` is filled also when this fails. */
    tt_status (*generate)(void *self, const tt_engine_request *r, tt_engine_event_fn fn, void *ctx,
                          tt_engine_result *result, tt_error *err);
    /* Loaded; counters since it was. */
    void (*stats)(void *self, tt_engine_stats *stats);
    /* Loaded; as tt_model_idle. */
    double (*idle)(void *self);
} tt_server_engine_ops;

#endif
