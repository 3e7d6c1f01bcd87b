/* server_options.h: the command line of TinyTitanServer, read and checked before anything is
 * opened.
 *
 * Owns:      the option table and the listing of --help.
 * Not here:  options of an opened model (base/model_args.h), what an option does.
 * Laws:      nothing here touches a file.
 * Threads:   one.
 */
#ifndef TT_SERVER_SERVER_OPTIONS_H
#define TT_SERVER_SERVER_OPTIONS_H

#include "base/args.h"

typedef struct tt_server_options {
    bool help, version, plan;
    const char *model, *model_id, *unix_socket, *key_file; /* borrowed from argv */
    uint32_t port, queue_limit;
    tt_arg_list origins;
    bool log_json;
    tt_model_options load;
} tt_server_options;

/* argv[0..argc) without the program's name. TT_ERR_INVALID is a usage error. */
TT_MUST_CHECK tt_status tt_server_options_parse(tt_server_options *o, int argc, char *const *argv,
                                                tt_error *err);
/* The whole text of --help. */
void tt_server_options_help(tt_buf *out);

#endif
