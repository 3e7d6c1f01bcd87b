#include "server/server_options.h"

#include <stdio.h>
#include <string.h>

#include "base/model_args.h"
#include "server/http_policy.h"

#define MAX_ROWS     48
#define DEFAULT_PORT 8080u
#define MOST_ID      127u

static const char *const log_words[] = {"plain", "json", NULL};

typedef struct words {
    int log;
    tt_model_words model;
} words;

static size_t add_server_rows(tt_arg *table, tt_server_options *o, words *w)
{
    const tt_arg rows[] = {
        TT_OPT_HEADING("What to serve, and to whom"),
        TT_OPT_STRING("model", &o->model, "DIR",
                      "the .gturbo install, made by TinyTitanRepack; with --models-dir the id of "
                      "the one that is loaded at the start"),
        TT_OPT_STRING("models-dir", &o->models_dir, "DIR",
                      "serve every .gturbo in this folder, one at a time in memory, loaded when a "
                      "request names it"),
        TT_OPT_U32("idle-unload", &o->idle_unload, "SECONDS", 1, TT_IDLE_UNLOAD_MOST,
                   "give a model's memory back when nothing was asked for so long (default never)"),
        TT_OPT_STRING("model-id", &o->model_id, "ID",
                      "the name that requests give (default: the install's, and the width of its "
                      "weights)"),
        TT_OPT_U32("port", &o->port, "N", 0, 65535,
                   "of 127.0.0.1; 0 takes a free one and says which (default 8080)"),
        TT_OPT_STRING("unix-socket", &o->unix_socket, "PATH",
                      "listen on a socket of mode 0600 as well"),
        TT_OPT_LIST("allow-origin", &o->origins, "ORIGIN",
                    "let pages of this origin use the server, as https://host:port"),
        TT_OPT_STRING("api-key-file", &o->key_file, "FILE",
                      "ask every request but / and /health for the key in this file of mode 0600"),
        TT_OPT_U32("queue-limit", &o->queue_limit, "N", 0, TT_QUEUE_MOST,
                   "requests that may wait behind those that run (default 16)"),
        TT_OPT_U32("max-concurrent-sequences", &o->load.sequences, "N", 1, TT_MOST_SEQUENCES,
                   "answers made at once, which share what is read of the model; each takes the "
                   "memory of a whole context (default 1)"),
        TT_OPT_ENUM("log", &w->log, log_words, "form of the log on standard error (default plain)"),
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

static void fill_table(tt_arg table[MAX_ROWS], tt_server_options *o, words *w)
{
    const tt_arg last[] = {
        TT_OPT_HEADING("Reports"),
        TT_OPT_FLAG("catalog", &o->catalog,
                    "print the models, what they can do and whether they can be loaded: JSON, or a "
                    "table on a terminal"),
        TT_OPT_FLAG("plan", &o->plan,
                    "print what would run, the memory it takes and every limit; load nothing"),
        TT_OPT_STOP("version", &o->version, "print the version"),
        TT_OPT_STOP("help", &o->help, "print this"),
        TT_OPT_END,
    };
    size_t n = add_server_rows(table, o, w);
    n += tt_model_args_rows(table + n, &o->load, &w->model);
    memcpy(table + n, last, sizeof last);
}

static void set_defaults(tt_server_options *o, words *w)
{
    *o = (tt_server_options){.port = DEFAULT_PORT, .queue_limit = TT_QUEUE};
    *w = (words){0};
    tt_model_args_default(&o->load, &w->model);
    o->load.sequences = 1;
}

static tt_status check(const tt_server_options *o, tt_error *err)
{
    for (uint32_t i = 0; i < o->origins.n; i++)
        if (!tt_http_origin_valid(o->origins.items[i]))
            return tt_fail(err, TT_ERR_INVALID,
                           "--allow-origin is \"%s\", must be scheme://host or "
                           "scheme://host:port",
                           o->origins.items[i]);
    if (o->models_dir != NULL && o->model_id != NULL)
        return tt_fail(err, TT_ERR_INVALID,
                       "--model-id names one model, --models-dir has several: leave one of them");
    if (o->models_dir != NULL && (o->load.heat_profile != NULL || o->load.expert_mirror != NULL))
        return tt_fail(err, TT_ERR_INVALID,
                       "--%s is of one model, --models-dir has several: leave one of them",
                       o->load.heat_profile != NULL ? "heat-profile" : "expert-mirror");
    if (o->models_dir != NULL && o->plan && o->model == NULL)
        return tt_fail(err, TT_ERR_INVALID,
                       "--plan is for one model: name it with --model, or use --catalog");
    if (o->plan && o->catalog)
        return tt_fail(err, TT_ERR_INVALID, "--plan and --catalog exclude each other");
    if (o->model_id == NULL)
        return TT_OK;
    size_t n = strlen(o->model_id);
    for (size_t i = 0; i < n; i++)
        if (o->model_id[i] <= ' ' || o->model_id[i] > '~' || o->model_id[i] == '/')
            return tt_fail(err, TT_ERR_INVALID, "--model-id must be visible ASCII without a slash");
    return n > 0 && n <= MOST_ID
               ? TT_OK
               : tt_fail(err, TT_ERR_INVALID, "--model-id must have 1 to %u characters", MOST_ID);
}

tt_status tt_server_options_parse(tt_server_options *out, int argc, char *const *argv,
                                  tt_error *err)
{
    tt_arg table[MAX_ROWS];
    tt_server_options o;
    words w;
    set_defaults(&o, &w);
    fill_table(table, &o, &w);
    TT_TRY(tt_args_parse(table, argc, argv, err));
    if (!o.help && !o.version) {
        if (o.model == NULL && o.models_dir == NULL)
            return tt_fail(err, TT_ERR_INVALID,
                           "--model DIR is required, or --models-dir DIR; --help lists the "
                           "options");
        o.log_json = w.log == 1;
        TT_TRY(tt_model_args_apply(&o.load, &w.model, err));
        o.disk = w.model.disk;
        TT_TRY(check(&o, err));
    }
    *out = o;
    return TT_OK;
}

void tt_server_options_sentence(const tt_error *err, char out[TT_SENTENCE])
{
    static const tt_arg_name names[] = {{"max_context", "--max-context"},
                                        {"ram_budget", "--ram-budget"},
                                        {"expert_slots", "--expert-cache-slots"},
                                        {"prefill_chunk", "--prefill-chunk"},
                                        {"kv_bits", "--kv-bits"},
                                        {"sequences", "--max-concurrent-sequences"},
                                        {"prompt_cache", "--prompt-cache-memory"},
                                        {"cpu_level", "--cpu-level"},
                                        {"expert_mirror", "--expert-mirror"},
                                        {"yarn_factor", "--rope-scaling"},
                                        {NULL, NULL}};
    tt_error e = *err;
    tt_args_translate(names, &e);
    bool named = e.file[0] == '\0' || strstr(e.message, e.file) != NULL;
    snprintf(out, TT_SENTENCE, "%s%s%s", named ? "" : e.file, named ? "" : ": ", e.message);
}

void tt_server_options_help(tt_buf *out)
{
    tt_arg table[MAX_ROWS];
    tt_server_options o;
    words w;
    set_defaults(&o, &w);
    fill_table(table, &o, &w);
    tt_buf_puts(out, "TinyTitanServer: models for the programs of this machine, over HTTP.\n\n"
                     "  TinyTitanServer --model DIR [options]\n"
                     "  TinyTitanServer --models-dir DIR [--model ID] [options]\n"
                     "  TinyTitanServer --model DIR --plan [options]\n"
                     "  TinyTitanServer --models-dir DIR --catalog [options]\n\n");
    tt_args_help(table, out);
    tt_buf_puts(
        out, "\nIt listens on 127.0.0.1 alone and speaks OpenAI's Chat Completions and Responses;\n"
             "docs/http.md is its contract. The log goes to standard error.\n"
             "Environment: XDG_CACHE_HOME (else HOME/.cache) is where the speed of disks and\n"
             "memory is kept, in tinytitan/disks.json, and, of installs that cannot be written\n"
             "to, which experts were used, in tinytitan/heat; NOTIFY_SOCKET is where a service\n"
             "manager is told that the server listens.\n"
             "Exit: 1 failed, 2 wrong command line, 128 and the number of the signal that ended\n"
             "it.\n");
}
