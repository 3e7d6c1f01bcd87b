/* A server whose model is a script, as a program: for clients that are programs themselves.
 *
 *   scripted_program SCRIPT CONTEXT     SCRIPT: a file, as scripted_engine.h says
 *
 * Its model is scripted_4-Bit. It takes a free port, names it on standard output, logs to standard
 * error, and ends on SIGTERM. Run in the root of the repository. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "server/prompt_render.h"
#include "server/server.h"
#include "support/scripted_engine.h"

#define MOST_SCRIPT (1u << 20)

static int serve(scripted_engine *engine)
{
    tt_server_engine seam = scripted_engine_seam(engine);
    tt_server_config config = {.queue_limit = 4, .signals = true, .log = {.fd = STDERR_FILENO}};
    tt_model_set_options options = {.log = &config.log};
    tt_model_set *set = NULL;
    tt_server *server = NULL;
    tt_error err = {.offset = -1};
    int sig = 0;
    tt_server_bounds_default(&config.bounds);
    tt_status st = tt_model_set_create(&seam, 1, &options, &set, &err);
    if (st == TT_OK)
        st = tt_server_create(&config, set, &server, &err);
    if (st == TT_OK) {
        printf("%u\n", tt_server_port(server));
        fflush(stdout);
        st = tt_server_run(server, &sig, &err);
    }
    tt_server_close(&server);
    tt_model_set_close(&set);
    if (st != TT_OK)
        fprintf(stderr, "scripted_program: %s\n", err.message);
    return st == TT_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    tt_error err = {.offset = -1};
    char *script = NULL;
    size_t n = 0;
    long context = argc == 3 ? atol(argv[2]) : 0;
    if (context < 1 || context > 1 << 20 ||
        tt_file_read(argv[1], MOST_SCRIPT, &script, &n, &err) != TT_OK) {
        fprintf(stderr, "scripted_program SCRIPT CONTEXT: %s\n", err.message);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    scripted_engine *engine = scripted_engine_open(script, (uint32_t)context, tt_prompt_render);
    int rc = serve(engine);
    scripted_engine_close(engine);
    tt_free(script);
    return rc;
}
