#include "bench/synth_progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void synth_progress_init(synth_progress *p, const char *what, uint64_t total, bool quiet)
{
    *p = (synth_progress){.what = what,
                          .total = total,
                          .quiet = quiet,
                          .tty = isatty(STDERR_FILENO) == 1,
                          .start = tt_now()};
}

void synth_progress_show(synth_progress *p, uint64_t done)
{
    double now = tt_now(), took = now - p->start;
    double share = p->total > 0 ? (double)done / (double)p->total : 1;
    unsigned percent = share >= 1 ? 100 : (unsigned)(share * 100);
    bool due = p->tty ? now - p->shown >= 0.2 : percent / 10 > p->tenth;
    if (p->quiet || !due)
        return;
    p->shown = now;
    p->tenth = percent / 10;
    int left = share > 0 ? (int)(took / share - took + 0.5) : 0;
    fprintf(stderr, "%s%s %3u %%  %.1f of %.1f MB  %.1f MB/s  ETA %d:%02d min%s",
            p->tty ? "\r" : "", p->what, percent, (double)done / 1e6, (double)p->total / 1e6,
            took > 0 ? (double)done / took / 1e6 : 0, left / 60, left % 60,
            p->tty ? "\033[K" : "\n");
    p->line_open = p->tty;
}

void synth_progress_end(synth_progress *p)
{
    if (p->line_open)
        fputs("\r\033[K", stderr);
    p->line_open = false;
}

bool synth_progress_join(pthread_t thread)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}
