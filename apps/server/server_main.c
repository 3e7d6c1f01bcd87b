/* TinyTitanServer: models for the programs of this machine. This file chooses what runs and how
 * it ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disks_path.h"
#include "base/heat_path.h"
#include "base/stop.h"
#include "server/http_policy.h"
#include "server/models_dir.h"
#include "server/server.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int fail(const tt_error *err)
{
    char sentence[TT_SENTENCE];
    if (err->status == TT_ERR_ABORTED && tt_stop_signal() != 0) {
        fprintf(stderr, "TinyTitanServer: ended by %s\n", tt_stop_name(tt_stop_signal()));
        return tt_stop_code(tt_stop_signal());
    }
    tt_server_options_sentence(err, sentence);
    fprintf(stderr, "TinyTitanServer: %s\n", sentence);
    return EXIT_FAILED;
}

static int print(const tt_buf *b)
{
    tt_error err = {.offset = -1};
    if (tt_buf_status(b, &err) != TT_OK)
        return fail(&err);
    if (fwrite(b->data, 1, b->len, stdout) != b->len || fflush(stdout) != 0)
        return EXIT_FAILED;
    return EXIT_DONE;
}

static int print_help(void)
{
    tt_buf b;
    tt_buf_init(&b, 1 << 20);
    tt_server_options_help(&b);
    int rc = print(&b);
    tt_buf_free(&b);
    return rc;
}

static int print_version(void)
{
    tt_buf b;
    tt_buf_init(&b, 128);
    tt_buf_printf(&b, "TinyTitanServer %s\n", tt_version());
    int rc = print(&b);
    tt_buf_free(&b);
    return rc;
}

/* ---- without serving ---- */

/* The install of --plan, and what the server takes beside it. */
static tt_status planned(const tt_server_options *o, const tt_models_places *places,
                         char install[TT_MAX_PATH], tt_server_memory *memory, tt_error *err)
{
    static const tt_server_log quiet = {.fd = -1};
    tt_models *models = NULL;
    size_t i = 0;
    snprintf(install, TT_MAX_PATH, "%s", o->model);
    if (o->models_dir == NULL) {
        /* What cannot be read is told by who plans it. */
        tt_install_info info = {0};
        (void)!tt_install_describe(install, &info, NULL);
        *memory = tt_server_memory_of(o->queue_limit, o->load.sequences, 0, info.vocab_size);
        return TT_OK;
    }
    TT_TRY(tt_models_open(o, places, &quiet, &models, err));
    tt_status st = tt_models_first(models, &i, err);
    if (st == TT_OK) {
        snprintf(install, TT_MAX_PATH, "%s", tt_models_install(models, i));
        *memory = *tt_models_memory(models);
    }
    tt_models_close(&models);
    return st;
}

static int run_plan(const tt_server_options *o, const tt_models_places *places)
{
    char install[TT_MAX_PATH], heat[TT_MAX_PATH];
    tt_error err = {.offset = -1};
    tt_model_options load = o->load;
    tt_server_memory memory;
    tt_plan plan = {0};
    tt_buf b;
    if (planned(o, places, install, &memory, &err) != TT_OK)
        return fail(&err);
    load.probe_file = places->probe;
    if (load.heat_profile == NULL && load.warm_seconds != 0.0f &&
        tt_heat_path(install, places->xdg_cache_home, places->home, heat))
        load.heat_profile = heat;
    tt_status st = tt_server_plan(install, memory.total, &load, &plan, &err);
    if (st != TT_OK && (st != TT_ERR_BUDGET || plan.budget == 0))
        return fail(&err);
    tt_buf_init(&b, 1 << 20);
    tt_server_plan_write(o, &memory, &plan, &b);
    int rc = print(&b);
    tt_buf_free(&b);
    return st != TT_OK ? fail(&err) : rc;
}

static int run_catalog(const tt_server_options *o, const tt_models_places *places)
{
    static const tt_server_log quiet = {.fd = -1};
    tt_error err = {.offset = -1};
    tt_models *models = NULL;
    tt_buf b;
    if (tt_models_open(o, places, &quiet, &models, &err) != TT_OK)
        return fail(&err);
    tt_buf_init(&b, 1 << 20);
    tt_models_catalog(models, isatty(STDOUT_FILENO) != 0, &b);
    int rc = print(&b);
    tt_buf_free(&b);
    tt_models_close(&models);
    return rc;
}

/* ---- serving ---- */

static bool not_stopped(void *ctx)
{
    (void)ctx;
    return tt_stop_signal() == 0;
}

static tt_status load_first(tt_models *models, tt_error *err)
{
    size_t i = TT_MODEL_NONE;
    TT_TRY(tt_models_first(models, &i, err));
    return i == TT_MODEL_NONE ? TT_OK
                              : tt_model_set_use(tt_models_set(models), i, not_stopped, NULL, err);
}

/* What there is to say of the directory of the prompt cache. */
static void tell_cache(tt_models *models, const tt_server_log *log)
{
    tt_model_set *set = tt_models_set(models);
    size_t i = tt_model_set_loaded(set);
    tt_engine_info info = {0};
    if (i == TT_MODEL_NONE)
        return;
    tt_server_engine e = tt_model_set_engine(set, i, false);
    e.ops->describe(e.self, &info);
    if (info.cache_note[0] != '\0')
        tt_log_say(log, "prompt cache: %s", info.cache_note);
}

static tt_status serve(const tt_server_options *o, tt_model_set *models, const char *key,
                       const tt_server_log *log, int *sig, tt_error *err)
{
    tt_server *server = NULL;
    tt_server_config config = {.port = (uint16_t)o->port,
                               .unix_socket = o->unix_socket,
                               .origins = o->origins.items,
                               .n_origins = o->origins.n,
                               .key = key,
                               .queue_limit = o->queue_limit,
                               .sequences = o->load.sequences,
                               .signals = true,
                               .notify_socket = getenv("NOTIFY_SOCKET"),
                               .log = *log};
    tt_server_bounds_default(&config.bounds);
    TT_TRY(tt_server_create(&config, models, &server, err));
    tt_status st = tt_server_run(server, sig, err);
    tt_server_close(&server);
    return st;
}

static int run(const tt_server_options *o, const tt_models_places *places)
{
    tt_error err = {.offset = -1};
    char key[TT_API_KEY_MAX + 1];
    tt_server_log log = {.fd = STDERR_FILENO, .json = o->log_json};
    /* With one model that it begins and ends with nothing is to be told. */
    tt_server_log loads = {.fd = o->models_dir != NULL ? log.fd : -1, .json = log.json};
    tt_models *models = NULL;
    int sig = 0;
    if ((o->key_file != NULL && tt_api_key_load(o->key_file, key, &err) != TT_OK) ||
        tt_models_open(o, places, &loads, &models, &err) != TT_OK)
        return fail(&err);
    if (o->models_dir != NULL)
        tt_models_tell(models);
    tt_status st = load_first(models, &err);
    if (st == TT_OK && o->models_dir == NULL)
        tell_cache(models, &log);
    loads.fd = log.fd;
    if (st == TT_OK)
        st = serve(o, tt_models_set(models), o->key_file != NULL ? key : NULL, &log, &sig, &err);
    loads.fd = -1;
    tt_models_close(&models);
    if (st != TT_OK)
        return fail(&err);
    return sig != 0 ? tt_stop_code(sig) : EXIT_DONE;
}

/* A standard stream that the caller closed must not become the number of a file we open. */
static bool hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    tt_error err = {.offset = -1};
    tt_server_options o;
    char disks[TT_MAX_PATH];
    if (!hold_standard_streams())
        return EXIT_FAILED;
    if (tt_server_options_parse(&o, argc - 1, argv + 1, &err) != TT_OK) {
        fprintf(stderr, "TinyTitanServer: %s\n", err.message);
        return EXIT_USAGE;
    }
    if (o.help)
        return print_help();
    if (o.version)
        return print_version();
    tt_stop_catch();
    tt_models_places places = {.xdg_cache_home = getenv("XDG_CACHE_HOME"), .home = getenv("HOME")};
    if (tt_disks_path(places.xdg_cache_home, places.home, disks))
        places.probe = disks;
    if (o.catalog)
        return run_catalog(&o, &places);
    return o.plan ? run_plan(&o, &places) : run(&o, &places);
}
