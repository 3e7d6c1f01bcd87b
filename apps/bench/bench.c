/* TinyTitanBench: measurements that tests and people need. Finds the command and hands it the rest
 * of the line. */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"

#define PROGRAM "TinyTitanBench"

const char *const bench_backends[] = {"cpu", "ref", NULL};
const char *const bench_levels[] = {"auto",       "ref", "avx2", "avxvnni",      "avx512",
                                    "avx512vnni", "amx", "neon", "neon+dotprod", NULL};
const char *const bench_kv_bits[] = {"4", "8", "16", "32", NULL};

const char *const bench_readers[] = {"auto", "uring", "pool", "buffered", NULL};

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
} command;

static const command commands[] = {
    {"logits", bench_logits, "logits of every position of a list of ids, as safetensors"},
    {"perplexity", bench_perplexity, "nats per token of a text, in windows"},
    {"decode", bench_decode, "tokens a second, one after the other"},
    {"prefill", bench_prefill, "tokens a second of a prompt"},
    {"replay", bench_replay, "a trace of decode or prefill against cache policies and sizes"},
    {"chain", bench_chain, "the ids that a synthetic install was made for"},
    {"synth", bench_synth, "writes a model of random weights in a published geometry"},
    {"kernels", bench_kernels, "a level's kernels: proved, then timed beside the machine's limits"},
    {"grammar", bench_grammar, "masks of structured output: what they cost, and what they let out"},
    {"io", bench_io, "bytes a second of the disk, by reader, depth and piece size"},
};

#define N_COMMANDS (sizeof commands / sizeof *commands)

int bench_fail(const tt_error *err)
{
    int sig = tt_stop_signal();
    if (sig != 0 && err->status == TT_ERR_ABORTED) {
        fprintf(stderr, PROGRAM ": stopped by %s\n", tt_stop_name(sig));
        return tt_stop_code(sig);
    }
    fprintf(stderr, PROGRAM ": ");
    if (err->file[0] != '\0' && strstr(err->message, err->file) == NULL)
        fprintf(stderr, "%s: ", err->file);
    fprintf(stderr, "%s", err->message[0] != '\0' ? err->message : tt_status_text(err->status));
    if (err->offset >= 0)
        fprintf(stderr, " (byte %lld)", (long long)err->offset);
    fprintf(stderr, "\n");
    return BENCH_FAILED;
}

int bench_usage(const tt_error *err)
{
    bench_fail(err);
    return BENCH_USAGE;
}

static int end_of_output(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return BENCH_DONE;
    perror(PROGRAM ": cannot write to standard output");
    return BENCH_FAILED;
}

static int print_version(void)
{
    printf(PROGRAM " %s\n", tt_version());
    return end_of_output();
}

static int print_commands(void)
{
    printf("Usage: " PROGRAM " COMMAND [OPTION...]\n\n"
           "Measures an install.\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].purpose);
    printf("\n" PROGRAM " COMMAND --help lists a command's options; --version prints the version.\n"
           "Exit codes: 0 done, 1 failed, 2 wrong command line, 128 and the number of the signal\n"
           "that stopped it.\n");
    return end_of_output();
}

/* What can be told from the command line alone; the rest is told once the model is known. */
static tt_status check_together(const bench_options *o, tt_error *err)
{
    if (o->prefill_chunk % TT_BLOCK != 0)
        return tt_fail(err, TT_ERR_INVALID, "--prefill-chunk is %u, must be a multiple of %u",
                       o->prefill_chunk, TT_BLOCK);
    if (o->io_piece % 4096 != 0)
        return tt_fail(err, TT_ERR_INVALID, "--io-piece is %llu bytes, must be a multiple of 4096",
                       (unsigned long long)o->io_piece);
    return tt_args_backend(bench_backends[o->backend], bench_levels[o->level], err);
}

int bench_parse(const char *name, const char *purpose, tt_arg *table, bench_options *o, int argc,
                char **argv)
{
    tt_error err = {0};
    if (tt_args_parse(table, argc, argv, &err) != TT_OK)
        return bench_usage(&err);
    if (o->version)
        return print_version();
    if (o->help) {
        tt_buf text;
        tt_buf_init(&text, 1 << 16);
        tt_args_help(table, &text);
        tt_status st = tt_buf_status(&text, &err);
        if (st == TT_OK)
            printf("Usage: " PROGRAM " %s%s [OPTION...]\n\n%s\n\n%s", name,
                   strstr(text.data, "--model") != NULL ? " --model DIR" : "", purpose, text.data);
        tt_buf_free(&text);
        return st == TT_OK ? end_of_output() : bench_fail(&err);
    }
    return check_together(o, &err) == TT_OK ? BENCH_GO_ON : bench_usage(&err);
}

int bench_open(const bench_options *o, uint32_t context, tt_model **model, tt_session **session)
{
    tt_error err = {0};
    tt_model_options mo;
    tt_model_options_default(&mo);
    mo.backend = bench_backends[o->backend];
    mo.cpu_level = bench_levels[o->level];
    mo.threads = o->threads;
    mo.max_context = context;
    mo.kv_bits = 4u << o->kv;
    mo.prefill_chunk = o->prefill_chunk;
    mo.expert_slots = o->slots;
    mo.ram_budget = o->ram_budget;
    mo.verify_reads = o->verify_reads;
    /* A word for the reader is refused by models that have no experts, even this one. */
    mo.reader = o->reader > 0 ? bench_readers[o->reader] : NULL;
    mo.io_depth = o->io_depth;
    mo.io_piece = (uint32_t)o->io_piece;
    mo.expert_mirror = o->expert_mirror;
    mo.sequences = o->sequences;
    mo.draft = (uint32_t)o->draft;
    mo.draft_width = o->draft_width;
    tt_model *m = NULL;
    tt_stop_catch();
    if (tt_model_open(o->model, &mo, tt_stop_progress, NULL, &m, &err) != TT_OK) {
        const tt_arg_name names[] = {
            {"max_context", o->context_flag},     {"expert_slots", "--expert-cache-slots"},
            {"prefill_chunk", "--prefill-chunk"}, {"kv_bits", "--kv-bits"},
            {"sequences", "--sequences"},         {NULL, NULL}};
        tt_args_translate(names, &err);
        return bench_fail(&err);
    }
    tt_model_info info;
    tt_model_get_info(m, &info);
    if (info.n_experts > 0 && o->slots > info.n_experts)
        fprintf(stderr, PROGRAM ": --expert-cache-slots %u is cut to the %u experts of a layer\n",
                o->slots, info.n_experts);
    if (session != NULL && tt_session_create(m, session, &err) != TT_OK) {
        tt_model_close(&m);
        return bench_fail(&err);
    }
    *model = m;
    return BENCH_GO_ON;
}

bool bench_goes_on(void *ctx)
{
    (void)ctx;
    return tt_stop_signal() == 0;
}

void bench_set(json_t *obj, const char *key, json_t *value)
{
    if (json_object_set_new(obj, key, value) != 0)
        fprintf(stderr, PROGRAM ": out of memory for the result \"%s\"\n", key);
}

json_t *bench_context(const char *name, const tt_model *model)
{
    tt_model_info info;
    tt_model_get_info(model, &info);
    json_t *obj = json_object();
    bench_set(obj, "command", json_string(name));
    bench_set(obj, "version", json_string(tt_version()));
    bench_set(obj, "model_id", json_string(info.model_id));
    bench_set(obj, "backend", json_string(info.backend));
    bench_set(obj, "cpu_level", json_string(info.cpu_level));
    bench_set(obj, "threads", json_integer(info.threads));
    bench_set(obj, "kv_bits", json_integer(info.kv_bits));
    bench_set(obj, "prefill_chunk", json_integer(info.prefill_chunk));
    bench_set(obj, "reader", json_string(tt_model_get_plan(model)->reader));
    const tt_plan *plan = tt_model_get_plan(model);
    bench_set(obj, "expert_slots", json_integer(plan->slots_per_layer));
    bench_set(obj, "max_context", json_integer(plan->max_context));
    bench_set(obj, "planned_bytes", json_integer((json_int_t)plan->total));
    bench_set(obj, "ram_budget", json_integer((json_int_t)plan->budget));
    return obj;
}

int bench_finish(const bench_options *o, json_t *obj)
{
    int rc = BENCH_DONE;
    if (o->json) {
        char *line = obj != NULL ? json_dumps(obj, JSON_COMPACT) : NULL;
        if (line != NULL)
            printf("%s\n", line);
        else
            rc = BENCH_FAILED;
        free(line);
        if (rc != BENCH_DONE)
            fprintf(stderr, PROGRAM ": out of memory for the result\n");
    }
    json_decref(obj);
    int end = end_of_output();
    return rc != BENCH_DONE ? rc : end;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    bool help = strcmp(name, "--help") == 0;
    if (help || strcmp(name, "--version") == 0) {
        if (argc == 2)
            return help ? print_commands() : print_version();
        fprintf(stderr, PROGRAM ": %s stands alone, not with \"%s\"\n", name, argv[2]);
        return BENCH_USAGE;
    }
    const char *words[N_COMMANDS + 1] = {0};
    for (size_t i = 0; i < N_COMMANDS; i++) {
        words[i] = commands[i].name;
        if (strcmp(name, words[i]) == 0)
            return commands[i].run(argc - 2, argv + 2);
    }
    const char *meant = tt_args_nearest(name, words);
    if (name[0] == '\0')
        fprintf(stderr, PROGRAM ": a command is needed; --help lists them\n");
    else if (meant != NULL)
        fprintf(stderr, PROGRAM ": unknown command \"%s\"; did you mean %s?\n", name, meant);
    else
        fprintf(stderr, PROGRAM ": unknown command \"%s\"; --help lists them\n", name);
    return BENCH_USAGE;
}
