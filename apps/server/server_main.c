/* TinyTitanServer: one model for the programs of this machine. This file chooses what runs and how
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
#include "server/engine_library.h"
#include "server/http_policy.h"
#include "server/server.h"
#include "server/server_options.h"
#include "server/server_plan.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int fail(const tt_error *err)
{
    static const tt_arg_name names[] = {{"max_context", "--max-context"},
                                        {"ram_budget", "--ram-budget"},
                                        {"expert_slots", "--expert-cache-slots"},
                                        {"prefill_chunk", "--prefill-chunk"},
                                        {"kv_bits", "--kv-bits"},
                                        {"cpu_level", "--cpu-level"},
                                        {"expert_mirror", "--expert-mirror"},
                                        {"yarn_factor", "--rope-scaling"},
                                        {NULL, NULL}};
    tt_error e = *err;
    if (e.status == TT_ERR_ABORTED && tt_stop_signal() != 0) {
        fprintf(stderr, "TinyTitanServer: ended by %s\n", tt_stop_name(tt_stop_signal()));
        return tt_stop_code(tt_stop_signal());
    }
    tt_args_translate(names, &e);
    fprintf(stderr, "TinyTitanServer: %s%s%s\n", e.file, e.file[0] != '\0' ? ": " : "", e.message);
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

static int run_plan(const tt_server_options *o, tt_model_options *load)
{
    tt_error err = {.offset = -1};
    tt_plan plan = {0};
    tt_buf b;
    tt_status st = tt_server_plan(o, load, &plan, &err);
    if (st != TT_OK && (st != TT_ERR_BUDGET || plan.budget == 0))
        return fail(&err);
    tt_buf_init(&b, 1 << 20);
    tt_server_plan_write(o, &plan, &b);
    int rc = print(&b);
    tt_buf_free(&b);
    return st != TT_OK ? fail(&err) : rc;
}

/* ---- serving ---- */

static tt_status serve(const tt_server_options *o, const tt_server_engine *engine, const char *key,
                       int *sig, tt_error *err)
{
    tt_server *server = NULL;
    tt_server_config config = {.port = (uint16_t)o->port,
                               .unix_socket = o->unix_socket,
                               .origins = o->origins.items,
                               .n_origins = o->origins.n,
                               .key = key,
                               .queue_limit = o->queue_limit,
                               .signals = true,
                               .notify_socket = getenv("NOTIFY_SOCKET"),
                               .log = {.fd = STDERR_FILENO, .json = o->log_json}};
    tt_server_bounds_default(&config.bounds);
    TT_TRY(tt_server_create(&config, engine, &server, err));
    tt_status st = tt_server_run(server, sig, err);
    tt_server_close(&server);
    return st;
}

static int run(const tt_server_options *o, tt_model_options *load)
{
    tt_error err = {.offset = -1};
    char key[TT_API_KEY_MAX + 1];
    tt_library_engine *engine = NULL;
    tt_plan plan;
    int sig = 0;
    if (o->key_file != NULL && tt_api_key_load(o->key_file, key, &err) != TT_OK)
        return fail(&err);
    if (tt_server_plan(o, load, &plan, &err) != TT_OK ||
        tt_library_engine_open(o->model, load, o->model_id, tt_stop_progress, NULL, &engine,
                               &err) != TT_OK)
        return fail(&err);
    tt_server_engine seam = tt_library_engine_seam(engine);
    tt_status st = serve(o, &seam, o->key_file != NULL ? key : NULL, &sig, &err);
    tt_library_engine_close(&engine);
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
    char disks[TT_MAX_PATH], heat[TT_MAX_PATH];
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
    tt_model_options load = o.load;
    if (tt_disks_path(getenv("XDG_CACHE_HOME"), getenv("HOME"), disks))
        load.probe_file = disks;
    if (load.heat_profile == NULL && load.warm_seconds != 0.0f &&
        tt_heat_path(o.model, getenv("XDG_CACHE_HOME"), getenv("HOME"), heat))
        load.heat_profile = heat;
    return o.plan ? run_plan(&o, &load) : run(&o, &load);
}
