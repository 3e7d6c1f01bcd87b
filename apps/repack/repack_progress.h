/* repack_progress.h: what a user sees while the program works, on stderr; events for programs, on
 * stdout.
 *
 * Owns:      one line rewritten in place on a terminal, plain lines in a pipe; notes and
 *            warnings; with --json one object a line.
 * Not here:  results (repack_main.c).
 * Laws:      (1) without --json nothing goes to stdout;  (2) the rate is that of the present
 *            stage and of this run: what an earlier run did is not counted in.
 * Threads:   one.
 */
#ifndef TT_APP_REPACK_PROGRESS_H
#define TT_APP_REPACK_PROGRESS_H

#include "base/json.h"
#include "repack/tensor_plan.h"

typedef struct repack_progress {
    const char *what; /* "converting" */
    bool quiet, tty, json;
    bool line_open; /* a progress line stands on the terminal */
    double start, shown;
    double since;         /* when the present count of bytes began */
    uint64_t from, total; /* where it began */
    unsigned tenth;       /* tenths told in a pipe */
    char stage[128];
    tt_repack_events events;
} repack_progress;

void repack_progress_init(repack_progress *p, const char *what, bool quiet, bool json);
/* Ends the progress line. */
void repack_progress_end(repack_progress *p);
/* Prints an event and gives it up; `event` is an object. */
void repack_event(const char *name, json_t *event);

#endif
