/* bench.h: what the commands of TinyTitanBench share.
 *
 * Owns:      the model options and their defaults, opening a model from them, errors and results
 *            on their way out.
 * Not here:  the measurements (logits.c, perplexity.c, speed.c, disk.c, replay_trace.c, masks.c),
 *            models made for them (synth.h).
 * Laws:      (1) exit codes: 0 done, 1 failed, 2 the command line alone is wrong, 128 and a
 *            signal's number;  (2) results go to stdout, with --json as one object on its last
 *            line; everything else goes to stderr;  (3) a command that opened a model asks
 *            tt_stop_signal in its loops.
 * Threads:   one.
 */
#ifndef TT_BENCH_BENCH_H
#define TT_BENCH_BENCH_H

#include <jansson.h>

#include "base/args.h"
#include "base/limits.h"

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_GO_ON = -1 };

typedef struct bench_options {
    const char *model;
    const char *context_flag; /* what the command's context follows from, for messages */
    int backend, level, kv;   /* indexes into the words of bench.c */
    int reader;
    uint32_t threads, prefill_chunk, slots, io_depth, sequences; /* of those, 0: one */
    int draft;                                                   /* decode: tt_draft_kind */
    uint32_t draft_width;
    uint64_t io_piece, ram_budget;
    const char *expert_mirror;
    bool verify_reads, json, help, version;
} bench_options;

extern const char *const bench_backends[], *const bench_levels[], *const bench_kv_bits[];
extern const char *const bench_readers[];

enum { BENCH_KV_4, BENCH_KV_8, BENCH_KV_16, BENCH_KV_32 };

/* Rows of every command's table. `kv_text` states the command's default width. */
#define BENCH_MODEL_ROWS(o, kv_text)                                                               \
    TT_OPT_HEADING("Model:"),                                                                      \
        TT_OPT_STRING("model", &(o)->model, "DIR", "install to run (required)", .required = true), \
        TT_OPT_ENUM("backend", &(o)->backend, bench_backends,                                      \
                    "kernels: cpu takes the best level, ref is the scalar definition (cpu)"),      \
        TT_OPT_ENUM("cpu-level", &(o)->level, bench_levels, "instruction set of cpu (auto)"),      \
        TT_OPT_U32("threads", &(o)->threads, "N", 1, TT_MAX_THREADS,                               \
                   "threads, unless given one a physical core"),                                   \
        TT_OPT_ENUM("kv-bits", &(o)->kv, bench_kv_bits, "width of keys and values " kv_text),      \
        TT_OPT_U32("prefill-chunk", &(o)->prefill_chunk, "N", TT_BLOCK, 65536,                     \
                   "tokens a prefill step, a multiple of 64"),                                     \
        TT_OPT_U32("expert-cache-slots", &(o)->slots, "N", 1, TT_MAX_EXPERTS,                      \
                   "expert slots a layer, unless given as many as fit"),                           \
        TT_OPT_SIZE("ram-budget", &(o)->ram_budget, "SIZE", 1, UINT64_MAX / 2,                     \
                    "memory of the whole process, unless given what the machine can spare"),       \
        TT_OPT_FLAG("verify-reads", &(o)->verify_reads,                                            \
                    "check the checksum of every expert that is read"),                            \
        TT_OPT_ENUM("reader", &(o)->reader, bench_readers, "how experts are read (auto)"),         \
        TT_OPT_U32("io-depth", &(o)->io_depth, "N", 1, 256, "pieces of reads in flight (32)"),     \
        TT_OPT_SIZE("io-piece", &(o)->io_piece, "SIZE", 16 * TT_KIB, 16 * TT_MIB,                  \
                    "bytes of a piece, a multiple of 4K (512K)"),                                  \
        TT_OPT_STRING("expert-mirror", &(o)->expert_mirror, "DIR",                                 \
                      "a second copy of the expert files, on another disk")

#define BENCH_OTHER_ROWS(o)                                                                        \
    TT_OPT_HEADING("Other:"),                                                                      \
        TT_OPT_FLAG("json", &(o)->json, "print one JSON object on the last line of stdout"),       \
        TT_OPT_STOP("version", &(o)->version, "print the version"),                                \
        TT_OPT_STOP("help", &(o)->help, "print this text")

/* Parses a command's arguments: BENCH_GO_ON, or the exit code when nothing is left to do. */
int bench_parse(const char *command, const char *purpose, tt_arg *table, bench_options *o, int argc,
                char **argv);
/* Opens the model with room for `context` tokens and a session on it (unless `session` is NULL):
 * BENCH_GO_ON or an exit code with everything closed. Signals are caught from here on
 * (base/stop.h). */
int bench_open(const bench_options *o, uint32_t context, tt_model **model, tt_session **session);
/* Says on stderr what went wrong, or which signal stopped it. */
int bench_fail(const tt_error *err);
int bench_usage(const tt_error *err);
/* False when a signal has come; for tt_prefill_options.go_on and other loops. */
bool bench_goes_on(void *ctx);
/* An object with what identifies a run: command, model, backend, level, threads, widths. NULL when
 * out of memory. */
json_t *bench_context(const char *command, const tt_model *model);
/* Adds `value` (taken over) to `obj`. */
void bench_set(json_t *obj, const char *key, json_t *value);
/* Ends a command: prints `obj` (taken over) when JSON was asked for, flushes, and returns the exit
 * code. */
int bench_finish(const bench_options *o, json_t *obj);

int bench_logits(int argc, char **argv);
int bench_perplexity(int argc, char **argv);
int bench_decode(int argc, char **argv);
int bench_prefill(int argc, char **argv);
int bench_io(int argc, char **argv);
int bench_kernels(int argc, char **argv);
int bench_replay(int argc, char **argv);
int bench_chain(int argc, char **argv);
int bench_grammar(int argc, char **argv);
int bench_synth(int argc, char **argv);

#endif
