#include "repack/repack_progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"

static void eta(char *out, size_t n, double seconds)
{
    if (seconds < 60)
        snprintf(out, n, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(out, n, "%d:%02d min", (int)(seconds / 60), (int)seconds % 60);
    else
        snprintf(out, n, "%d:%02d h", (int)(seconds / 3600), (int)(seconds / 60) % 60);
}

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    repack_progress *p = ctx;
    double now = tt_now(), took = now - p->start;
    unsigned percent = total > 0 ? (unsigned)((double)done / (double)total * 100) : 100;
    if (tt_stop_signal() != 0)
        return false;
    if (p->quiet)
        return true;
    bool due = p->tty ? now - p->shown >= 0.2 || done == total : percent / 10 > p->tenth;
    if (!due)
        return true;
    p->shown = now;
    p->tenth = percent / 10;
    double rate = took > 0 ? (double)done / took : 0;
    char left[32] = "-";
    if (rate > 0 && done <= total)
        eta(left, sizeof left, (double)(total - done) / rate);
    fprintf(stderr, "%s%s %3u %%  %.1f of %.1f MB  %.1f MB/s  ETA %s%s%s%s", p->tty ? "\r" : "",
            p->what, percent, (double)done / 1e6, (double)total / 1e6, rate / 1e6, left,
            p->tty ? "  " : "", p->tty ? p->stage : "", p->tty ? "\033[K" : "\n");
    p->line_open = p->tty;
    return true;
}

void repack_progress_end(repack_progress *p)
{
    if (p->line_open)
        fputs("\r\033[K", stderr);
    p->line_open = false;
}

static void on_note(void *ctx, tt_note_kind kind, const char *text)
{
    repack_progress *p = ctx;
    if (kind == TT_NOTE_STAGE) {
        snprintf(p->stage, sizeof p->stage, "%.100s", text);
        return;
    }
    if (p->quiet && kind != TT_NOTE_WARNING)
        return;
    repack_progress_end(p);
    fprintf(stderr, "%s: %s\n", kind == TT_NOTE_WARNING ? "warning" : "note", text);
}

void repack_progress_init(repack_progress *p, const char *what, bool quiet)
{
    *p = (repack_progress){.what = what,
                           .quiet = quiet,
                           .tty = isatty(STDERR_FILENO) == 1,
                           .start = tt_now(),
                           .events = {p, on_progress, on_note}};
}
