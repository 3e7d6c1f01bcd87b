/* synth_progress.h: a line that says how far a long job is.
 *
 * Owns:      rate, time to go, the line on a terminal or a line a tenth elsewhere.
 * Not here:  the job.
 * Laws:      everything goes to stderr.
 * Threads:   one.
 */
#ifndef TT_BENCH_SYNTH_PROGRESS_H
#define TT_BENCH_SYNTH_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct synth_progress {
    const char *what;
    uint64_t total;
    bool quiet, tty, line_open;
    double start, shown;
    unsigned tenth;
} synth_progress;

void synth_progress_init(synth_progress *p, const char *what, uint64_t total, bool quiet);
void synth_progress_show(synth_progress *p, uint64_t done);
void synth_progress_end(synth_progress *p);
/* Waits a fifth of a second for a thread; true when it has ended. */
bool synth_progress_join(pthread_t thread);

#endif
