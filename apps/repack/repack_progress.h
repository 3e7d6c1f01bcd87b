/* repack_progress.h: what a user sees while a conversion runs, on stderr.
 *
 * Owns:      one line rewritten in place on a terminal, plain lines in a pipe; notes and warnings.
 * Not here:  results (repack_main.c).
 * Laws:      nothing goes to stdout.
 * Threads:   one.
 */
#ifndef TT_APP_REPACK_PROGRESS_H
#define TT_APP_REPACK_PROGRESS_H

#include "repack/tensor_plan.h"

typedef struct repack_progress {
    const char *what; /* "converting" */
    bool quiet, tty;
    bool line_open; /* a progress line stands on the terminal */
    double start, shown;
    unsigned tenth; /* tenths told in a pipe */
    char stage[128];
    tt_repack_events events;
} repack_progress;

void repack_progress_init(repack_progress *p, const char *what, bool quiet);
/* Ends the progress line. */
void repack_progress_end(repack_progress *p);

#endif
