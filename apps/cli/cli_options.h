/* cli_options.h: the command line of TinyTitanCLI, read and checked before anything is opened.
 *
 * Owns:      the option table, the listing of --help, which options go together.
 * Not here:  what an option does; printing and exiting (cli_main.c).
 * Laws:      (1) a combination that could not have an effect is refused;  (2) the table that parses
 * writes the listing;  (3) nothing here touches a file.
 * Threads:   one.
 */
#ifndef TT_CLI_OPTIONS_H
#define TT_CLI_OPTIONS_H

#include "base/args.h"
#include "tinytitan/tinytitan.h"

#define TT_CLI_MAX_NEW 512u /* tokens of an answer to --prompt and --messages */

/* Sampling options that were given; the others come from the model's generation_config.json. */
typedef struct tt_cli_sampling {
    bool temperature, top_k, top_p, min_p;
    bool repetition_penalty, presence_penalty, frequency_penalty;
    tt_sampler_options values;
} tt_cli_sampling;

typedef struct tt_cli_options {
    bool help, version;
    bool plan, stats, json, quiet;
    bool chat, raw, interactive;
    const char *model, *prompt, *messages, *system, *tools; /* borrowed from argv */
    const char *json_schema, *grammar;
    tt_thinking thinking;
    uint32_t max_new; /* 0: until the context is full */
    tt_arg_list stop;
    bool seed_given;
    bool cache_given; /* --warm, --heat-profile or --governor */
    tt_cli_sampling sampling;
    tt_model_options load;
    tt_state_disk_options disk; /* dir NULL: none */
} tt_cli_options;

/* argv[0..argc) without the program's name. TT_ERR_INVALID is a usage error. */
TT_MUST_CHECK tt_status tt_cli_options_parse(tt_cli_options *o, int argc, char *const *argv,
                                             tt_error *err);
/* The whole text of --help. */
void tt_cli_options_help(tt_buf *out);
/* Puts the options that were given over `defaults`; the seed too. */
void tt_cli_sampling_apply(const tt_cli_options *o, tt_sampler_options *defaults);

#endif
