/* tinytitan.h: the only door of the library.
 *
 * TinyTitan runs mixture-of-experts language models that are larger than the memory given to them:
 * tensors that every token needs stay resident, routed experts stream from the disk through a
 * bounded cache.
 *
 * Nouns and lifetimes
 *   tt_model: an opened install: architecture, resident weights, expert cache. Read-only after load
 * and shareable: several sessions may use one model, but only one call at a time may be made on
 * them (the expert cache has one caller). tt_session_decode_all is one call for several of them,
 * and may be made inside the callbacks of another one's prompt.
 *
 *   tt_session: one timeline on a model: tokens, KV rows, recurrent and convolution state, the last
 * logits. One thread at a time. The model must outlive it.
 *
 *   tt_sampler: a chooser of the next id with its own random state. Knows no model. One thread at a
 * time.
 *
 *   tt_tokenizer: text <-> ids, chat template, tool-call parsing. Opens without weights. Read-only
 * after load and usable from several threads; a tt_decoder belongs to one thread.
 *
 *   tt_state_cache: what prompts have left behind, for the sessions of one model: a prompt that
 * begins like one before it is not read again from its start. The model must outlive it, and it
 * the sessions that use it. Calls on it and on those sessions come from one thread at a time.
 *
 *   tt_grammar: a compiled language that answers can be held to; tt_lexicon: the tokens laid out
 * for that; tt_constraint: one answer's place in a grammar.
 *
 * Rules
 *   Every function that can fail returns tt_status (0 is success) and fills the caller's tt_error
 * when one is given. On failure outputs are untouched. The library never prints, never exits and
 * never reads the environment. close functions take the address of the handle, accept NULL or a
 * NULL handle, and clear it. Strings that the library allocates are released with tt_free(). Option
 * structs are filled by their _default function; `reserved` must stay zero.
 *
 * Determinism
 *   On one backend and CPU level, the same ids give the same bytes of logits whatever the cache
 * size, thread count, read size or disk timing. Prefill is byte-identical wherever it was cut at a
 * multiple of 64 tokens.
 */
#ifndef TINYTITAN_TINYTITAN_H
#define TINYTITAN_TINYTITAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_VERSION_MAJOR  0
#define TT_VERSION_MINOR  1
#define TT_VERSION_PATCH  0
#define TT_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define TT_MUST_CHECK   __attribute__((warn_unused_result))
#define TT_API          __attribute__((visibility("default")))
#define TT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TT_MUST_CHECK
#define TT_API
#define TT_PRINTF(f, a)
#endif

/* ---- status and error record ---- */

/* One list for every failure; the numbers are frozen. X(name, number, text) */
#define TT_STATUS_LIST(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(ERR_NOMEM, 1, "out of memory")                                                               \
    X(ERR_INVALID, 2, "invalid argument")                                                          \
    X(ERR_IO, 3, "input/output error")                                                             \
    X(ERR_NOT_FOUND, 4, "not found")                                                               \
    X(ERR_FORMAT, 5, "malformed data")                                                             \
    X(ERR_UNSUPPORTED, 6, "not supported")                                                         \
    X(ERR_CORRUPT, 7, "data does not match its checksum")                                          \
    X(ERR_LIMIT, 8, "limit exceeded")                                                              \
    X(ERR_BUDGET, 9, "does not fit in the memory budget")                                          \
    X(ERR_RECEIPT, 10, "install receipt does not match")                                           \
    X(ERR_EXISTS, 11, "already exists")                                                            \
    X(ERR_NO_SPACE, 12, "not enough disk space")                                                   \
    X(ERR_ABORTED, 13, "aborted by the caller")                                                    \
    X(ERR_NUMERIC, 14, "not a finite number")                                                      \
    X(ERR_CONTEXT, 15, "context is full")                                                          \
    X(ERR_STATE, 16, "not possible in this state")                                                 \
    X(ERR_TEMPLATE, 17, "chat template failed")                                                    \
    X(ERR_INTERNAL, 18, "internal error")

#define TT_STATUS_ENUM_(name, number, text) TT_##name = number,
typedef enum tt_status { TT_STATUS_LIST(TT_STATUS_ENUM_) } tt_status;

/* Filled once where a fault is first known; upper layers may only add context in front of
 * `message`. */
typedef struct tt_error {
    tt_status status;
    int64_t offset;    /* byte offset in `file`, or -1 */
    char file[256];    /* file concerned (end of the path kept when it is longer), or "" */
    char message[768]; /* one sentence: what, the value, the remedy */
} tt_error;

/* Name of a status ("TT_ERR_IO") and its text ("input/output error"); never NULL. */
TT_API const char *tt_status_name(tt_status status);
TT_API const char *tt_status_text(tt_status status);

/* Version of the library that is running, "major.minor.patch". */
TT_API const char *tt_version(void);

/* Releases a string or buffer that the library allocated. NULL is fine. */
TT_API void tt_free(void *p);

/* Called during long work. Return false to abort it (the call then returns TT_ERR_ABORTED). `done`
 * and `total` count in the unit that the call documents. Runs on the calling thread. */
typedef bool (*tt_progress_fn)(void *ctx, uint64_t done, uint64_t total);

/* ---- model ---- */

typedef struct tt_model tt_model;
typedef struct tt_session tt_session;
typedef struct tt_sampler tt_sampler;
typedef struct tt_tokenizer tt_tokenizer;
typedef struct tt_decoder tt_decoder;
typedef struct tt_lexicon tt_lexicon;
typedef struct tt_grammar tt_grammar;
typedef struct tt_constraint tt_constraint;
typedef struct tt_state_cache tt_state_cache;

typedef struct tt_model_options {
    const char *backend; /* "cpu" (default) or "ref" */
    const char
        *cpu_level;   /* NULL or "auto": best the machine has; or its name, "ref", "avx2", ... */
    uint32_t threads; /* 0: one a physical core */
    uint32_t max_context;   /* tokens; 0: min(the model's, 32768) */
    uint32_t kv_bits;       /* 32, 16, 8 (default), 4 */
    uint32_t prefill_chunk; /* prompt tokens a step, for which each expert is read once; a multiple
                               of 64; 0: chosen from the budget */
    uint32_t
        expert_slots; /* mean number of expert slots a layer; 0: as many as the budget allows */
    uint64_t
        ram_budget;    /* bytes for the whole process; 0: from cgroup limits and available memory */
    float yarn_factor; /* 0: as the model says; 1: none; up to 64: YaRN with this factor */
    bool verify_reads; /* check every expert's CRC-32C on every read */
    const char *reader; /* NULL or "auto": the first of "uring", "pool", "buffered" that works */
    uint32_t io_depth;  /* pieces of expert reads in flight, 1..256; 0: from the probe, else 32 */
    uint32_t io_piece;  /* bytes of a piece, a multiple of 4096 from 16 KiB to 16 MiB; 0: from the
                           probe, else 512 KiB */
    const char *expert_mirror; /* directory with a second copy of the expert files, on another disk,
                                  that takes half of the reads; NULL: none. Losing it later fails
                                  no request */
    const char *probe_file;    /* JSON file in which measurements of disks and memory are kept; what
                                  it lacks is measured, in less than two seconds. NULL: no probe */
    const char *heat_profile;  /* file that keeps which experts were used, from one run to the next:
                                  read at open, written at close. NULL: none. Nothing fails for it:
                                  see tt_plan.heat and tt_model_save_heat */
    float warm_seconds; /* with a profile: how long the experts that it names are read ahead while
                           nothing else is read. TT_WARM_AUTO (default): two minutes at most; 0: the
                           run begins cold and the profile is left alone */
    bool governor; /* give expert slots back, many at once, before the kernel runs out of memory
                      (default true) */
    uint64_t prompt_cache; /* bytes of the budget for a tt_state_cache; 0 (default): none.
                              TT_PROMPT_CACHE_AUTO: a tenth of the budget and at least two
                              checkpoints and 8,192 tokens of KV, but never more than half of what
                              the smallest plan leaves */
    uint32_t sequences;    /* sessions that the plan makes room for, TT_MOST_SEQUENCES at most; 0:
                              one. With more than one, tt_session_decode_all may be called inside
                              another session's prefill */
    uint32_t draft;        /* tt_draft_kind: where guesses of coming tokens come from, which
                              tt_session_decode then looks at ahead; TT_DRAFT_OFF (default) */
    uint32_t draft_width;  /* rows of a step with guesses, 1 (none) to TT_DRAFT_ROWS; 0 (default):
                              as many as pay, by what steps and guesses have cost and brought */
    uint64_t reserved[1];
} tt_model_options;

/* Guesses never change what is decoded, only how fast. */
typedef enum tt_draft_kind {
    TT_DRAFT_OFF = 0,
    TT_DRAFT_LOOKUP = 1, /* what followed the last tokens earlier in the same timeline */
    TT_DRAFT_MTP = 2     /* the draft layer of the install; TT_ERR_UNSUPPORTED without one */
} tt_draft_kind;

#define TT_DRAFT_ROWS 4u

#define TT_WARM_AUTO         (-1.0f)
#define TT_PROMPT_CACHE_AUTO UINT64_MAX

TT_API void tt_model_options_default(tt_model_options *opts);

#define TT_MOST_SEQUENCES 16u /* rows of a fused decode step */

/* What a model with its sessions will take, by kind, in bytes; asked before anything is loaded. */
typedef struct tt_plan {
    uint64_t weights;      /* resident tensors */
    uint64_t expert_slots; /* expert cache */
    uint64_t kv;           /* KV rows at max_context, of all sequences */
    uint64_t state;        /* recurrent and convolution state, with a session's one checkpoint, of
                              all sequences */
    uint64_t prompt_cache; /* state of prompts, for those that begin alike */
    uint64_t scratch;      /* activations of one prefill chunk, logits */
    uint64_t fixed;        /* program and its files, tokenizer, tables, thread stacks, and what the
                              kernel takes to map it all */
    uint64_t total;        /* sum of the above */
    uint64_t budget;       /* what it had to fit in */
    uint64_t machine_available; /* memory available when asked: the least of MemAvailable and cgroup
                                   limits */
    uint64_t weights_on_disk;   /* bytes of the install's payload files */
    uint64_t expert_bytes;      /* one expert (stride) */
    uint32_t slots_total;       /* over all layers */
    uint32_t slots_per_layer;   /* mean, rounded down */
    uint32_t experts_per_layer; /* 0 for dense models */
    uint32_t n_layers, n_moe_layers, top_k;
    uint32_t max_context, kv_bits, prefill_chunk, threads;
    char backend[16], cpu_level[16], family[32], model_id[96];
    char reader[320];  /* how experts are read, why, and the rate if it was measured */
    float yarn_factor; /* in force; 1 means none */
    bool budget_given; /* false: the default budget */
    bool governor;
    float warm_seconds; /* at most; 0: the cache begins cold */
    /* What decoding will be like once the cache is warm. Estimates. */
    double hit_rate;               /* share of expert uses that slots hold; 1 for dense models */
    double tokens_per_second;      /* 0: not known, `forecast` says why */
    double memory_rate, disk_rate; /* bytes a second that it is reckoned with; 0: not known */
    uint64_t token_bytes;  /* of memory that a token touches in a short context, experts included */
    char forecast[384];    /* what the estimates rest on */
    char heat[384];        /* what became of the heat profile, or "" without one */
    tt_status heat_status; /* TT_ERR_NOT_FOUND: there is none yet; others are failures */
    uint32_t vocab_size;   /* logits of a position */
    uint32_t sequences;    /* sessions that there is room for */
    uint64_t draft;        /* bytes for guessing tokens, part of total: the draft's weights, expert
                              slots and rows, and what undoes rows that were guessed wrong */
    uint32_t draft_kind, draft_width; /* as in tt_model_options */
    uint64_t ngram_table;             /* bytes of the n-gram table, which stays on disk; 0: none */
    uint64_t ngram_rows;              /* of it, that a token reads */
    uint64_t reserved[2];
} tt_plan;

/* Fills `plan` for the install at `path`. TT_ERR_BUDGET (with `plan` filled) when it cannot fit:
 * the error's message says what was asked, what is there and what to change. Reads manifest and
 * index, opens the expert files, and measures disk and memory when `probe_file` asks for it. */
TT_API TT_MUST_CHECK tt_status tt_model_plan(const char *path, const tt_model_options *opts,
                                             tt_plan *plan, tt_error *err);

/* What an install says of itself, for lists of installs. */
typedef struct tt_install_info {
    char model_id[96], family[32];
    uint32_t weight_bits;   /* as in tt_model_info */
    uint32_t model_context; /* the model's own maximum */
    uint32_t vocab_size;
    int64_t installed_at;     /* seconds since 1970 */
    uint64_t bytes;           /* of all its files, as the manifest lists them */
    uint64_t tokenizer_bytes; /* of memory that its opened tokenizer takes, about */
    bool has_receipt;         /* without one every file is hashed at each load */
    uint64_t reserved[6];
} tt_install_info;

/* Reads the manifest, and the index where the install is whole. Whether it can be loaded is another
 * question, which tt_model_plan answers: files that are damaged or missing, and a receipt that does
 * not match, do not make this fail. */
TT_API TT_MUST_CHECK tt_status tt_install_describe(const char *path, tt_install_info *info,
                                                   tt_error *err);

/* Opens the install directory `path` and loads its resident weights. `progress` (may be NULL)
 * counts bytes. */
TT_API TT_MUST_CHECK tt_status tt_model_open(const char *path, const tt_model_options *opts,
                                             tt_progress_fn progress, void *progress_ctx,
                                             tt_model **model, tt_error *err);
TT_API void tt_model_close(tt_model **model);

/* Writes the heat profile as it is now, whole or not at all; nothing when there is none to write or
 * no expert was used since. tt_model_close does it too, and is silent when that fails. */
TT_API TT_MUST_CHECK tt_status tt_model_save_heat(tt_model *model, tt_error *err);
/* For a caller that waits for something else: reads experts ahead, looks after memory. Takes no
 * time to speak of. Returns after how many seconds it would like to be called again; below 0:
 * there is nothing to do. Every step does the same by itself. */
TT_API double tt_model_idle(tt_model *model);

typedef struct tt_model_info {
    const char *model_id, *family; /* owned by the model */
    const char *backend, *cpu_level;
    uint32_t vocab_size, hidden_size, n_layers, n_experts, top_k;
    uint32_t max_context;   /* configured */
    uint32_t model_context; /* the model's own maximum */
    uint32_t threads, kv_bits, prefill_chunk;
    uint32_t weight_bits; /* width of most weights: 4, 8, 16, 32 */
    int64_t installed_at; /* when the install was written, seconds since 1970; 0: not known */
    uint64_t reserved[6];
} tt_model_info;

TT_API void tt_model_get_info(const tt_model *model, tt_model_info *info);
/* The plan that the model was opened with. Owned by the model. */
TT_API const tt_plan *tt_model_get_plan(const tt_model *model);

/* Counters since the model was opened. */
typedef struct tt_model_stats {
    uint64_t expert_asks, expert_hits, expert_misses, expert_joins, expert_evictions;
    uint64_t expert_bytes_read;
    double expert_wait_seconds; /* compute waited for reads */
    double load_seconds;
    /* Of the bytes read: */
    uint64_t expert_bytes_disk, expert_bytes_cached; /* from the disk, out of the page cache */
    uint64_t expert_bytes_mirror;                    /* of those from the disk, from the mirror */
    bool expert_mirror_lost;       /* a read of it failed; the files alone serve since */
    uint32_t expert_slots;         /* in service */
    uint32_t slabs, slabs_retired; /* groups of slots that the governor gives back, that it gave */
    uint64_t warm_bytes;           /* read ahead; not in expert_bytes_read */
    char pressure[32]; /* why slots were given back last: "reserve", "limit hit", "stalls"; "" */
    uint64_t draft_guessed, draft_right; /* tokens, of all sessions (tt_draft_stats) */
    uint64_t reserved[2];
} tt_model_stats;

TT_API void tt_model_get_stats(const tt_model *model, tt_model_stats *stats);

/* ---- session ---- */

TT_API TT_MUST_CHECK tt_status tt_session_create(tt_model *model, tt_session **session,
                                                 tt_error *err);
TT_API void tt_session_close(tt_session **session);

/* Receives logits rows [vocab_size] in position order during prefill; `logits` is valid during the
 * call only. Return false to abort. */
typedef bool (*tt_logits_fn)(void *ctx, uint32_t position, const float *logits);

/* Where checkpoints stand (docs/format-state.md). X(NAME, number, "name") */
#define TT_CHECKPOINT_LIST(X)                                                                      \
    X(SYSTEM, 1, "system")                                                                         \
    X(MEMORY, 2, "memory")                                                                         \
    X(TURN, 3, "turn")                                                                             \
    X(MESSAGE, 4, "message")                                                                       \
    X(PROMPT, 5, "prompt")                                                                         \
    X(GENERATION, 6, "generation")                                                                 \
    X(CANCEL, 7, "cancel")                                                                         \
    X(INTERVAL, 8, "interval")

#define TT_CHECKPOINT_ENUM_(name, number, text) TT_CHECKPOINT_##name = number,
typedef enum tt_checkpoint_kind {
    TT_CHECKPOINT_NONE = 0,
    TT_CHECKPOINT_LIST(TT_CHECKPOINT_ENUM_) TT_CHECKPOINTS
} tt_checkpoint_kind;

/* A place in a prompt, in tokens from its start, that later prompts may share. */
typedef struct tt_checkpoint {
    size_t at;
    tt_checkpoint_kind kind;
} tt_checkpoint;

#define TT_MOST_CHECKPOINTS 8u /* of one prompt, named by the caller */

typedef struct tt_prefill_options {
    tt_progress_fn progress; /* counts tokens; may be NULL; asked between chunks, and between the
                                layers of a chunk of more than 64 tokens */
    void *progress_ctx;
    tt_logits_fn logits; /* NULL: logits of the last position only */
    void *logits_ctx;
    bool (*go_on)(void *ctx); /* may be NULL; asked before every layer, every 512 rows of it and
                                 every few experts. Return false to abort, and lose what the chunk
                                 in work has computed */
    void *go_on_ctx;
    const tt_checkpoint *checkpoints; /* to keep in the session's cache; NULL: none are named.
                                         The end of the prompt and every 4,096th token are kept
                                         anyway */
    size_t n_checkpoints;             /* TT_MOST_CHECKPOINTS at most */
    uint64_t reserved[2];
} tt_prefill_options;

/* Brings the session to exactly the token prefix ids[0..n): begins at the longest prefix that has a
 * checkpoint, in the session or in its cache, prefills the rest in chunks, leaves the last
 * position's logits. Checkpoints stand at multiples of 64 tokens, so that what prefill made is the
 * same bytes as a cold run. `reused` (may be NULL) receives the tokens not computed again. When the
 * whole prefix is already there and its logits are current nothing is computed. With a logits sink
 * nothing is reused. On abort or failure the session is at a shorter consistent prefix. n must be
 * 1..max_context. `opts` may be NULL. */
TT_API TT_MUST_CHECK tt_status tt_session_sync(tt_session *session, const uint32_t *ids, size_t n,
                                               const tt_prefill_options *opts, size_t *reused,
                                               tt_error *err);

/* Appends one token and computes the logits after it. TT_ERR_CONTEXT when the context is full. A
 * step that fails while it computes leaves the session where it can be rewound to at once: its
 * present length for models without recurrent layers, otherwise its checkpoint or 0. */
TT_API TT_MUST_CHECK tt_status tt_session_decode(tt_session *session, uint32_t id, tt_error *err);

/* The same for n sessions of one model at once, 1 to TT_MOST_SEQUENCES different ones, where
 * sessions[i] takes ids[i]: weights and experts are read once for all of them. Each is then the
 * same bytes as if it had been decoded alone. Nothing has changed when this returns TT_ERR_INVALID,
 * TT_ERR_CONTEXT (one of them is full), TT_ERR_NOMEM or TT_ERR_STATE; any other failure is one of
 * the step that all share, and each session is where tt_session_decode leaves one.
 *
 * It may be called inside go_on and progress of another session's tt_session_sync, so that a long
 * prompt does not hold up those that answer, when the model has room for more sequences than one
 * (tt_model_options.sequences). TT_ERR_STATE when it has not, when one of the sessions is the one
 * that reads, or when the experts that the prompt holds leave too few slots at this moment: once
 * more later. */
TT_API TT_MUST_CHECK tt_status tt_session_decode_all(tt_session *const *sessions,
                                                     const uint32_t *ids, size_t n, tt_error *err);

/* A model that was opened with a draft looks ahead in tt_session_decode, and in
 * tt_session_decode_all of one session: a step may go over guesses of the coming tokens too, and
 * the decode of a token that was guessed then costs nothing. What any call returns, and what the
 * session is after it, are the same bytes as without; samplers, masks and stop conditions see
 * nothing of it. Tokens chosen with the same random numbers are the same tokens, so their
 * distribution is exactly the model's. Steps of several sessions do not guess. */
typedef struct tt_draft_stats {
    uint64_t steps[TT_DRAFT_ROWS + 1]; /* by rows: steps[1] are plain ones */
    double seconds[TT_DRAFT_ROWS + 1]; /* that they took, guesses included */
    uint64_t guessed, right;           /* tokens */
    uint32_t rows;                     /* that pay most by what is known; 1: guesses do not pay */
    double gain;                       /* expected speed at that width; plain decode is 1 */
    char failure[160];                 /* why the draft is not asked any more, "" */
    uint64_t reserved[4];
} tt_draft_stats;

/* Since the session was created; zeros for one that does not look ahead. */
TT_API void tt_session_get_draft_stats(const tt_session *session, tt_draft_stats *stats);

/* Logits [vocab_size] after the last token; NULL when there are none. Valid until the next call on
 * the session. */
TT_API const float *tt_session_logits(const tt_session *session);
TT_API size_t tt_session_n_tokens(const tt_session *session);
TT_API const uint32_t *tt_session_tokens(const tt_session *session);

/* Longest prefix length <= n_tokens that the session can rewind to by itself: any for models
 * without recurrent layers; otherwise n_tokens itself, its checkpoint, or 0. The checkpoint stands
 * at the last multiple of 64 tokens that the timeline has passed; after a restore, first where that
 * led. */
TT_API size_t tt_session_reusable(const tt_session *session, size_t n_tokens);
/* Rewinds to exactly n_tokens; TT_ERR_STATE when that position is not reachable. Logits are gone
 * afterwards unless n_tokens is the present length. */
TT_API TT_MUST_CHECK tt_status tt_session_rewind(tt_session *session, size_t n_tokens,
                                                 tt_error *err);

/* Snapshot: one self-describing, checksummed block with tokens, KV rows, recurrent and convolution
 * state and logits. Bound to model, backend level and KV width; anything else is refused with
 * TT_ERR_STATE naming what differs. Continuing from a restored snapshot gives the same bytes as
 * never having stopped. */
TT_API size_t tt_session_snapshot_size(const tt_session *session);
TT_API TT_MUST_CHECK tt_status tt_session_snapshot(const tt_session *session, void *buf,
                                                   size_t size, tt_error *err);
TT_API TT_MUST_CHECK tt_status tt_session_restore(tt_session *session, const void *buf, size_t size,
                                                  tt_error *err);

/* ---- state of prompts ---- */

/* Whatever happens to it, no prompt fails: what cannot be kept or found is computed. */

/* Where the beginning of a prompt came from. X(NAME, number, "name") */
#define TT_STATE_TIER_LIST(X)                                                                      \
    X(SESSION, 1, "session")                                                                       \
    X(RAM, 2, "ram")                                                                               \
    X(DISK, 3, "disk")

#define TT_STATE_TIER_ENUM_(name, number, text) TT_TIER_##name = number,
typedef enum tt_state_tier {
    TT_TIER_NONE = 0,
    TT_STATE_TIER_LIST(TT_STATE_TIER_ENUM_) TT_TIERS
} tt_state_tier;

/* Why something was not kept or not used (docs/format-state.md). X(NAME, number, "name") */
#define TT_STATE_REFUSAL_LIST(X)                                                                   \
    X(KEY, 1, "key")                                                                               \
    X(CONTEXT, 2, "context")                                                                       \
    X(TOO_LARGE, 3, "too_large")                                                                   \
    X(NO_MEMORY, 4, "no_memory")                                                                   \
    X(SNAPSHOT, 5, "snapshot")                                                                     \
    X(CORRUPT, 6, "corrupt")                                                                       \
    X(IO, 7, "io")                                                                                 \
    X(IN_USE, 8, "in_use")

#define TT_STATE_REFUSAL_ENUM_(name, number, text) TT_REFUSED_##name = number,
typedef enum tt_state_refusal {
    TT_REFUSED_NOTHING = 0,
    TT_STATE_REFUSAL_LIST(TT_STATE_REFUSAL_ENUM_) TT_REFUSALS
} tt_state_refusal;

/* "ram", "system", "too_large"; "none" for 0 and what is not in the list. Never NULL. */
TT_API const char *tt_state_tier_name(tt_state_tier tier);
TT_API const char *tt_checkpoint_name(tt_checkpoint_kind kind);
TT_API const char *tt_state_refusal_name(tt_state_refusal reason);

/* A cache of the size that the model was planned with (tt_model_options.prompt_cache), which must
 * not be 0: TT_ERR_INVALID. Memory is taken as it is needed. */
TT_API TT_MUST_CHECK tt_status tt_state_cache_create(tt_model *model, tt_state_cache **cache,
                                                     tt_error *err);
TT_API void tt_state_cache_close(tt_state_cache **cache);

/* The directory that keeps state from one run to the next (docs/format-state.md). */
typedef struct tt_state_disk_options {
    const char *dir; /* made when it is not there; must be the user's own, and closed to others */
    uint64_t limit;  /* bytes of its files; 0: 8 GiB */
    const char *render; /* how prompts are made of conversations: a word of a-z 0-9 _ . - that
                           state is bound to, such as "chat"; NULL: "none" */
    uint64_t reserved[4];
} tt_state_disk_options;

/* From now on the cache, which must be empty still, has a directory: what prompts leave is written
 * there while nothing else is to be done, and prompts begin with what is there. It takes an eighth
 * of the cache's memory at most. A directory that is another user's, or that others may write to,
 * is TT_ERR_INVALID; one that another process uses, or that cannot be read or written, is left
 * alone: TT_OK, counted as refused, and tt_state_cache_disk_note says so. */
TT_API TT_MUST_CHECK tt_status tt_state_cache_use_disk(tt_state_cache *cache,
                                                       const tt_state_disk_options *opts,
                                                       tt_error *err);
/* A sentence about the directory when there is something to say: why it is not used, or which line
 * of the key all that is there has otherwise. Else "". Owned by the cache. */
TT_API const char *tt_state_cache_disk_note(const tt_state_cache *cache);
/* Waits until what was left for the directory is written. Closing does it too. */
TT_API void tt_state_cache_flush(tt_state_cache *cache);

/* From now on the session finds and leaves its prompts there; NULL: nowhere. A cache of another
 * model is TT_ERR_INVALID. */
TT_API TT_MUST_CHECK tt_status tt_session_use_cache(tt_session *session, tt_state_cache *cache,
                                                    tt_error *err);
/* Leaves what the session has computed since its last prompt, at the end of an answer. The next
 * sync does it too, and closing. */
TT_API void tt_session_settle(tt_session *session);

/* What the last sync of a session began with, and what its cache refused since the one before. */
typedef struct tt_session_reuse {
    size_t tokens; /* not computed again */
    tt_state_tier tier;
    tt_checkpoint_kind kind;
    bool cold;                /* every one of them came from prefill */
    tt_state_refusal refused; /* the last reason; TT_REFUSED_NOTHING: none */
    uint64_t reserved[3];
} tt_session_reuse;

TT_API void tt_session_get_reuse(const tt_session *session, tt_session_reuse *reuse);

/* Of the directory; zeros without one. */
typedef struct tt_state_disk_stats {
    uint64_t limit, bytes;        /* of its files */
    uint64_t blocks, checkpoints; /* there, those of other keys among them */
    uint64_t writes, written;     /* files of rows and checkpoints, and their bytes */
    uint64_t index_written;       /* bytes of indexes */
    uint64_t reads, read;         /* files and bytes */
    uint64_t waiting;             /* files that are to be written */
    uint64_t dropped;             /* files that were to be written and were not */
    uint64_t evicted;             /* checkpoints */
    uint64_t swept;               /* files that were not in the index, at the start */
    uint64_t reserved[4];
} tt_state_disk_stats;

typedef struct tt_state_cache_stats {
    uint64_t limit, bytes;                     /* of memory */
    uint64_t blocks, checkpoints;              /* in memory */
    uint64_t prompts;                          /* synced */
    uint64_t prompt_tokens;                    /* of those */
    uint64_t served[TT_TIERS][TT_CHECKPOINTS]; /* tokens that were not computed again */
    uint64_t refused[TT_REFUSALS];
    uint64_t evicted; /* checkpoints */
    tt_state_disk_stats disk;
    uint64_t reserved[8];
} tt_state_cache_stats;

TT_API void tt_state_cache_get_stats(const tt_state_cache *cache, tt_state_cache_stats *stats);

/* ---- sampler ---- */

typedef struct tt_sampler_options {
    float temperature;        /* 0: greedy. 0..100 */
    uint32_t top_k;           /* 0: off */
    float top_p;              /* 0 < p <= 1; 1: off */
    float min_p;              /* 0..1; 0: off */
    float repetition_penalty; /* > 0; 1: off. Divides positive and multiplies negative logits of
                                 seen ids */
    float presence_penalty;   /* -2..2; subtracted once from ids already generated */
    float frequency_penalty;  /* -2..2; subtracted per occurrence among generated ids */
    uint64_t seed;
    uint64_t reserved[4];
} tt_sampler_options;

TT_API void
tt_sampler_options_default(tt_sampler_options *opts); /* temperature 0, everything off, seed 0 */
TT_API TT_MUST_CHECK tt_status tt_sampler_create(const tt_sampler_options *opts,
                                                 uint32_t vocab_size, tt_sampler **sampler,
                                                 tt_error *err);
TT_API void tt_sampler_close(tt_sampler **sampler);
/* Forgets history and restarts the random stream from `seed`. */
TT_API void tt_sampler_reset(tt_sampler *sampler, uint64_t seed);
/* Tells the sampler a prompt id (repetition penalty only) or a generated id (all penalties). */
TT_API void tt_sampler_accept(tt_sampler *sampler, uint32_t id, bool generated);
/* Chooses from logits [vocab_size], which are not changed. A row with NaN or +Inf, or with no
 * finite value, is TT_ERR_NUMERIC. Ties go to the lower id. Does not call accept. */
TT_API TT_MUST_CHECK tt_status tt_sampler_sample(tt_sampler *sampler, const float *logits,
                                                 uint32_t *id, tt_error *err);
/* The same among the ids whose bit is set: bit i % 64 of mask[i / 64], as tt_constraint_mask has
 * it. One id alone is chosen without looking at logits, and takes no number of the random stream.
 * No id at all is TT_ERR_INVALID. NULL allows every id. */
TT_API TT_MUST_CHECK tt_status tt_sampler_sample_masked(tt_sampler *sampler, const float *logits,
                                                        const uint64_t *mask, uint32_t *id,
                                                        tt_error *err);

/* Chooses from the logits of `session` what tt_sampler_sample would, without walking the row where
 * options allow. TT_ERR_STATE when it has none, TT_ERR_INVALID when the sampler was made for
 * another vocabulary. */
TT_API TT_MUST_CHECK tt_status tt_session_sample(const tt_session *session, tt_sampler *sampler,
                                                 uint32_t *id, tt_error *err);

/* ---- tokenizer ---- */

/* Opens the tokenizer of an install directory, or a directory that holds tokenizer.json itself. A
 * directory without one is TT_ERR_NOT_FOUND naming the missing file. */
TT_API TT_MUST_CHECK tt_status tt_tokenizer_open(const char *dir, tt_tokenizer **tok,
                                                 tt_error *err);
TT_API void tt_tokenizer_close(tt_tokenizer **tok);

/* Text (UTF-8, `len` bytes) to ids. With `special`, added tokens in the text become their ids;
 * without, special tokens (added tokens marked special and every other added token) are encoded as
 * plain text. *ids is allocated (tt_free). Invalid UTF-8 is TT_ERR_FORMAT with its offset. */
TT_API TT_MUST_CHECK tt_status tt_tokenizer_encode(const tt_tokenizer *tok, const char *text,
                                                   size_t len, bool special, uint32_t **ids,
                                                   size_t *n, tt_error *err);
/* Ids to text, allocated and NUL-terminated; bytes that are no UTF-8 come out as U+FFFD. With
 * `skip_special`, tokens marked special are left out. Ids without an entry are TT_ERR_INVALID. */
TT_API TT_MUST_CHECK tt_status tt_tokenizer_decode(const tt_tokenizer *tok, const uint32_t *ids,
                                                   size_t n, bool skip_special, char **text,
                                                   size_t *len, tt_error *err);
/* Bytes of one token (not NUL-terminated, may be half a character); *special (may be NULL) says
 * whether it is marked special. NULL for an id without an entry. Owned by the tokenizer. */
TT_API const char *tt_tokenizer_piece(const tt_tokenizer *tok, uint32_t id, size_t *len,
                                      bool *special);
/* Id of an added token by its exact content, or -1. */
TT_API int64_t tt_tokenizer_special_id(const tt_tokenizer *tok, const char *content);
TT_API uint32_t tt_tokenizer_vocab_size(const tt_tokenizer *tok); /* highest id + 1 */

/* End-of-generation ids: generation_config.json's list joined with config's and tokenizer_config's
 * eos. */
TT_API const uint32_t *tt_tokenizer_stop_ids(const tt_tokenizer *tok, size_t *n);
/* Sampling defaults from generation_config.json over tt_sampler_options_default; false when the
 * file is missing
 * (`opts` then holds the plain defaults). */
TT_API bool tt_tokenizer_sampling_defaults(const tt_tokenizer *tok, tt_sampler_options *opts);

/* Streaming decode: feed ids, get only whole UTF-8 characters. The text is valid until the next
 * call. */
TT_API TT_MUST_CHECK tt_status tt_decoder_create(const tt_tokenizer *tok, bool skip_special,
                                                 tt_decoder **dec, tt_error *err);
TT_API void tt_decoder_close(tt_decoder **dec);
TT_API TT_MUST_CHECK tt_status tt_decoder_push(tt_decoder *dec, uint32_t id, const char **text,
                                               size_t *len, tt_error *err);
/* What is left of an unfinished character, as U+FFFD; clears the decoder. */
TT_API void tt_decoder_flush(tt_decoder *dec, const char **text, size_t *len);

/* ---- chat ---- */

typedef enum tt_thinking {
    TT_THINKING_DEFAULT = 0,
    TT_THINKING_ON = 1,
    TT_THINKING_OFF = 2
} tt_thinking;

typedef struct tt_chat_options {
    const char *tools_json;    /* JSON array of tools (OpenAI shape), or NULL */
    tt_thinking thinking;      /* default: enable_thinking is left undefined for the template */
    bool no_generation_prompt; /* true: end after the last message */
    const char *extra_json;    /* JSON object merged into the template's variables, or NULL */
    int64_t now; /* what the template's strftime_now() shows: seconds since 1970-01-01 00:00 of the
                    wall clock to be shown (add the zone's offset); 0: the present time in UTC */
    uint64_t reserved[3];
} tt_chat_options;

/* Whether the tokenizer's directory holds a chat template. */
TT_API bool tt_tokenizer_has_template(const tt_tokenizer *tok);
/* Reads the template without running it: TT_ERR_TEMPLATE names the line that no conversation could
 * get past. TT_OK when there is none. */
TT_API TT_MUST_CHECK tt_status tt_chat_check_template(const tt_tokenizer *tok, tt_error *err);
/* Renders messages (JSON array of {role, content, ...}) through the model's own template,
 * sandboxed. *text is allocated. TT_ERR_NOT_FOUND names the missing template file; TT_ERR_TEMPLATE
 * carries the template's own error, TT_ERR_LIMIT the limit that it passed. Arguments of tool calls
 * that are JSON text, as the OpenAI API has them, are handed to the template as objects. An empty
 * list of tools is none. */
TT_API TT_MUST_CHECK tt_status tt_chat_render(const tt_tokenizer *tok, const char *messages_json,
                                              const tt_chat_options *opts, char **text, size_t *len,
                                              tt_error *err);

/* Where a rendered conversation may be shared by later ones: the end of tools and system text, the
 * place before the last turn of the user, the end of the last message. Writes them in ascending
 * order to `out` [TT_MOST_CHECKPOINTS] and returns how many; none when the ids are no conversation
 * in a syntax that is known. */
TT_API size_t tt_chat_checkpoints(const tt_tokenizer *tok, const uint32_t *ids, size_t n,
                                  tt_checkpoint *out);

/* Splits an assistant answer in the Qwen 3.5 XML call format into reasoning, text and calls, as an
 * allocated JSON object: {"reasoning": "...", "content": "...", "tool_calls": [{"name": "...",
 * "arguments": {...}}, ...]}. `tools_json` (may be NULL) gives parameter types: strings stay raw,
 * everything else is read as JSON where it is valid and of the declared type, else kept as a
 * string. A call that is malformed or not finished stays in "content". An answer that begins with a
 * call has no reasoning. An end-of-turn token at the end is dropped. Invalid UTF-8 is
 * TT_ERR_FORMAT with its offset. */
TT_API TT_MUST_CHECK tt_status tt_chat_parse(const char *text, size_t len, const char *tools_json,
                                             char **json, tt_error *err);

/* ---- structured output ---- */

/* Languages that answers are held to. Compile a tt_grammar once, make a tt_constraint of it for
 * each answer, and for every token: ask the constraint for its mask, sample with it, tell the
 * constraint the id. docs/grammar.md says which JSON Schemas there are and how grammars are
 * written.
 *
 * A grammar knows no vocabulary and never changes; it may be shared between threads and outlive
 * what it was made from. */

/* JSON Schema (UTF-8, `len` bytes). What cannot be honoured is refused with TT_ERR_UNSUPPORTED, the
 * JSON pointer of the keyword in the message; a schema that nothing satisfies or that is malformed
 * is TT_ERR_INVALID or TT_ERR_FORMAT, one that is too large TT_ERR_LIMIT. {"type": "object"} is any
 * object. */
TT_API TT_MUST_CHECK tt_status tt_grammar_from_schema(const char *schema, size_t len,
                                                      tt_grammar **grammar, tt_error *err);
/* A grammar written as EBNF, see docs/grammar.md; the rule "root" is the answer. */
TT_API TT_MUST_CHECK tt_status tt_grammar_from_ebnf(const char *text, size_t len,
                                                    tt_grammar **grammar, tt_error *err);

typedef enum tt_tool_mode {
    TT_TOOLS_REQUIRED = 0, /* calls and nothing else */
    TT_TOOLS_AUTO = 1 /* any text, in which calls may come; a call is then held to its schema */
} tt_tool_mode;

typedef struct tt_tool_choice {
    tt_tool_mode mode;
    bool one_call;            /* at most one call */
    const char *const *names; /* the tools that may be called; NULL: all of them */
    size_t n_names;
    const char *document; /* with TT_TOOLS_REQUIRED: a JSON Schema; the answer may be a document of
                             it instead of calls. NULL: it may not */
    uint64_t reserved[2];
} tt_tool_choice;

/* Calls of `tools_json` (an array in OpenAI's shape) in the syntax of the Qwen 3.5 template, which
 * tt_chat_parse reads. Schemas of tools with "strict": true are honoured or refused as above; in
 * any other tool a keyword that cannot be honoured relaxes its place to any value of its type,
 * which tt_grammar_relaxed lists. A name that is none of the tools is TT_ERR_NOT_FOUND. The schema
 * of `document` is honoured or refused as tt_grammar_from_schema does. `choice` may be NULL. */
TT_API TT_MUST_CHECK tt_status tt_grammar_from_tools(const char *tools_json,
                                                     const tt_tool_choice *choice,
                                                     tt_grammar **grammar, tt_error *err);
TT_API void tt_grammar_close(tt_grammar **grammar);
/* What was relaxed: a JSON array of {"name": tool, "pointer", "keyword", "reason"}, "[]" when
 * nothing was. Owned by the grammar. */
TT_API const char *tt_grammar_relaxed(const tt_grammar *grammar);

typedef struct tt_grammar_info {
    uint32_t states, edges;
    size_t bytes; /* of memory */
    uint64_t reserved[4];
} tt_grammar_info;

TT_API void tt_grammar_get_info(const tt_grammar *grammar, tt_grammar_info *info);

/* The tokens of a tokenizer laid out for masks of `vocab_size` ids (the model's), made once and
 * shared by all constraints, also between threads; it remembers masks, in a bounded cache. The
 * tokenizer must outlive it. */
TT_API TT_MUST_CHECK tt_status tt_lexicon_create(const tt_tokenizer *tok, uint32_t vocab_size,
                                                 tt_lexicon **lexicon, tt_error *err);
TT_API void tt_lexicon_close(tt_lexicon **lexicon);
/* Memory that it takes at most, cache included. */
TT_API size_t tt_lexicon_bytes(const tt_lexicon *lexicon);

/* Where an answer begins. */
typedef enum tt_constraint_start {
    TT_START_ANSWER = 0,    /* with what the grammar says */
    TT_START_THOUGHT = 1,   /* inside a thought that the prompt has opened; the grammar says what
                               follows "</think>" and at most two newlines */
    TT_START_MAY_THINK = 2, /* with "<think>" and a thought, or with what the grammar says */
} tt_constraint_start;

typedef enum tt_constraint_place {
    TT_PLACE_OPEN = 0,    /* more has to come */
    TT_PLACE_MAY_END = 1, /* the answer may end here, or go on */
    TT_PLACE_OVER = 2     /* it is complete, and nothing can follow: stop */
} tt_constraint_place;

/* One answer's place in a grammar. Belongs to one thread at a time; grammar and lexicon must
 * outlive it. */
TT_API TT_MUST_CHECK tt_status tt_constraint_create(const tt_grammar *grammar, tt_lexicon *lexicon,
                                                    tt_constraint_start start,
                                                    tt_constraint **constraint, tt_error *err);
TT_API void tt_constraint_close(tt_constraint **constraint);
/* Memory of one constraint. */
TT_API size_t tt_constraint_bytes(const tt_lexicon *lexicon);
/* Back to the beginning of an answer. */
TT_API void tt_constraint_reset(tt_constraint *constraint, tt_constraint_start start);
/* The ids that may follow, one bit each, (vocab_size + 63) / 64 words, valid until the next call on
 * the constraint. End-of-generation ids are among them when the answer may end; other special
 * tokens only where the grammar names them. TT_ERR_STATE when no token of the vocabulary can go on.
 */
TT_API TT_MUST_CHECK tt_status tt_constraint_mask(tt_constraint *constraint, const uint64_t **mask,
                                                  tt_error *err);
/* Takes a token in. One that may not follow is TT_ERR_INVALID and changes nothing; so is any after
 * an end-of-generation id. */
TT_API TT_MUST_CHECK tt_status tt_constraint_accept(tt_constraint *constraint, uint32_t id,
                                                    tt_error *err);
TT_API tt_constraint_place tt_constraint_where(const tt_constraint *constraint);
/* `to` goes where `from` stands: to try tokens and come back. Both of one grammar and one lexicon,
 * else TT_ERR_INVALID. */
TT_API TT_MUST_CHECK tt_status tt_constraint_copy(tt_constraint *to, const tt_constraint *from,
                                                  tt_error *err);

#ifdef __cplusplus
}
#endif

#endif
