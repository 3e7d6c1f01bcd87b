/* repack_options.h: the command line of TinyTitanRepack.
 *
 * Owns:      flags, their values, which go together.
 * Not here:  doing anything about them.
 * Laws:      unknown flags, unknown values, repetitions and flags of another mode are refused.
 * Threads:   start-up only.
 */
#ifndef TT_APP_REPACK_OPTIONS_H
#define TT_APP_REPACK_OPTIONS_H

#include "repack/policy.h"

typedef enum repack_mode {
    MODE_INSTALL,
    MODE_HUB,
    MODE_PLAN,
    MODE_DISCARD,
    MODE_LIST,
    MODE_VERIFY,
    MODE_INSPECT,
    MODE_EXPORT,
    MODE_HELP,
    MODE_VERSION
} repack_mode;

typedef struct repack_options {
    repack_mode mode;
    const char *snapshot, *output, *model_id, *gturbo;
    const char *model, *repository, *revision; /* of a hub */
    const char *against, *export_dir;
    tt_policy policy;
    unsigned threads;
    bool overwrite, json, quiet, resume, policy_given;
} repack_options;

extern const char repack_usage[];

/* False with a sentence in `why` for a wrong command line. */
bool repack_options_parse(int argc, char **argv, repack_options *o, char why[512]);

#endif
