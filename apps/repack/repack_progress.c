#include "repack/repack_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"

#define BAR 24

void repack_event(const char *name, json_t *event)
{
    json_object_set_new(event, "event", json_string(name));
    char *text = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS);
    if (text != NULL)
        printf("%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(event);
}

static void eta(char *out, size_t n, double seconds)
{
    if (seconds < 60)
        snprintf(out, n, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(out, n, "%d:%02d min", (int)(seconds / 60), (int)seconds % 60);
    else
        snprintf(out, n, "%d:%02d h", (int)(seconds / 3600), (int)(seconds / 60) % 60);
}

static void bar(char *out, unsigned width, unsigned percent)
{
    unsigned full = percent >= 100 ? width : percent * width / 100;
    *out++ = '[';
    for (unsigned i = 0; i < width; i++)
        *out++ = i < full ? '=' : i == full ? '>' : ' ';
    strcpy(out, "]");
}

static void amount(char *out, size_t n, uint64_t done, uint64_t total)
{
    bool large = total >= 10000000000u;
    double unit = large ? 1e9 : 1e6;
    snprintf(out, n, "%.1f of %.1f %s", (double)done / unit, (double)total / unit,
             large ? "GB" : "MB");
}

static unsigned columns(void)
{
    struct winsize w = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* One line that fits: a longer one would wrap, and could not be written over. Where the whole stage
 * has no room, its last word is shown, the file. */
static void show_bar(repack_progress *p, const char *how_much, const char *left, unsigned percent,
                     double rate)
{
    char drawn[BAR + 3], line[512];
    unsigned width = columns();
    if (width > sizeof line)
        width = sizeof line;
    bar(drawn, width >= 100 ? BAR : BAR / 2, percent);
    int n = snprintf(line, sizeof line, "%s %3u %%  %s  %.1f MB/s  ETA %s  ", drawn, percent,
                     how_much, rate / 1e6, left);
    const char *stage = p->stage, *word = strrchr(stage, ' ');
    if ((size_t)n + strlen(stage) >= width && word != NULL)
        stage = word + 1;
    snprintf(line + n, sizeof line - (size_t)n, "%s", stage);
    line[width - 1] = '\0';
    fprintf(stderr, "\r%s\033[K", line);
    p->line_open = true;
}

static void show(repack_progress *p, uint64_t done, unsigned percent, double rate)
{
    char left[32] = "-", how_much[64];
    double remaining = rate > 0 && done <= p->total ? (double)(p->total - done) / rate : -1;
    if (p->json) {
        json_t *e = json_pack("{s:s, s:I, s:I, s:f}", "stage", p->stage, "done", (json_int_t)done,
                              "total", (json_int_t)p->total, "rate", rate);
        if (remaining >= 0)
            json_object_set_new(e, "eta", json_real(remaining));
        repack_event("progress", e);
        return;
    }
    if (remaining >= 0)
        eta(left, sizeof left, remaining);
    amount(how_much, sizeof how_much, done, p->total);
    if (p->tty)
        show_bar(p, how_much, left, percent, rate);
    else
        fprintf(stderr, "%s %3u %%  %s  %.1f MB/s  ETA %s\n", p->what, percent, how_much,
                rate / 1e6, left);
}

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    repack_progress *p = ctx;
    if (tt_stop_signal() != 0)
        return false;
    if (total == 0 ||
        (p->quiet && !p->json)) /* without a total it is only asked whether to go on */
        return true;
    double now = tt_now();
    if (total != p->total || done < p->from) {
        p->total = total;
        p->from = done;
        p->since = now;
        p->tenth = 0;
        p->shown = 0;
    }
    unsigned percent = (unsigned)((double)done / (double)total * 100);
    bool due = p->tty || p->json ? now - p->shown >= 0.2 || done == total : percent / 10 > p->tenth;
    if (!due)
        return true;
    p->shown = now;
    p->tenth = percent / 10;
    double took = now - p->since;
    show(p, done, percent, took > 0 ? (double)(done - p->from) / took : 0);
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
    static const char *const kinds[] = {"stage", "note", "warning"};
    repack_progress *p = ctx;
    if (kind == TT_NOTE_STAGE)
        snprintf(p->stage, sizeof p->stage, "%.100s", text);
    if (p->json) {
        repack_event(kinds[kind], json_pack("{s:s}", "text", text));
        return;
    }
    if (kind == TT_NOTE_STAGE || (p->quiet && kind != TT_NOTE_WARNING))
        return;
    repack_progress_end(p);
    fprintf(stderr, "%s: %s\n", kinds[kind], text);
}

void repack_progress_init(repack_progress *p, const char *what, bool quiet, bool json)
{
    *p = (repack_progress){.what = what,
                           .quiet = quiet,
                           .json = json,
                           .tty = !json && isatty(STDERR_FILENO) == 1,
                           .start = tt_now(),
                           .events = {p, on_progress, on_note}};
}
