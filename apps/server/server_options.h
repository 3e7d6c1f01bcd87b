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
#include "server/engine.h"

typedef struct tt_server_options {
    bool help, version, plan, catalog;
    const char *model, *models_dir, *model_id, *unix_socket, *key_file; /* borrowed from argv */
    uint32_t port, queue_limit, idle_unload;
    tt_arg_list origins;
    bool log_json;
    tt_model_options load;
    tt_state_disk_options disk; /* dir NULL: none */
} tt_server_options;

/* argv[0..argc) without the program's name. TT_ERR_INVALID is a usage error. */
TT_MUST_CHECK tt_status tt_server_options_parse(tt_server_options *o, int argc, char *const *argv,
                                                tt_error *err);
/* What an error says, with our flags in the place of the library's options and the file in front
 * when the sentence does not name it. */
void tt_server_options_sentence(const tt_error *err, char out[TT_SENTENCE]);
/* The whole text of --help. */
void tt_server_options_help(tt_buf *out);

#endif
