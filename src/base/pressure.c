#include "base/pressure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/machine.h"

#define LEAST_RESERVE (64 * TT_MIB)

struct tt_pressure {
    char root[1024];
    tt_pressure_options o;
    double next_look, next_stall;
    uint64_t hits_at_open, hits;
    tt_pressure_report report;
};

/* ---- what the files say ---- */

/* Times that a limit of a group was met. Of v2 the local counts: those of a parent would tell of
 * its other children too. */
static void add_hits(void *ctx, const char *dir, bool own, bool v2)
{
    static const char *const kinds[] = {"high", "max", "oom"};
    uint64_t *sum = ctx, n = 0;
    char path[TT_MAX_PATH];
    if (!v2) {
        snprintf(path, sizeof path, "%.3000s/memory.failcnt", dir);
        *sum += tt_machine_number(path, &n) ? n : 0;
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%.3000s/memory.events.local", dir);
        bool there = tt_machine_line_value(path, kinds[i], &n);
        if (!there && own) {
            snprintf(path, sizeof path, "%.3000s/memory.events", dir);
            there = tt_machine_line_value(path, kinds[i], &n);
        }
        *sum += there ? n : 0;
    }
}

static bool full_of(const char *path, double *percent)
{
    char text[512];
    if (!tt_machine_text(path, text, sizeof text))
        return false;
    const char *full = strstr(text, "full avg10=");
    return full != NULL && sscanf(full, "full avg10=%lf", percent) == 1;
}

typedef struct stalls {
    bool found;
    double percent;
} stalls;

static void take_stalls(void *ctx, const char *dir, bool own, bool v2)
{
    stalls *s = ctx;
    char path[TT_MAX_PATH];
    if (!own || !v2 || s->found)
        return;
    snprintf(path, sizeof path, "%.3000s/memory.pressure", dir);
    s->found = full_of(path, &s->percent);
}

/* Of the own group where it is told, else of the machine. */
static double full_stalls(const char *root)
{
    char path[TT_MAX_PATH];
    stalls s = {0};
    tt_machine_memory_groups(root, take_stalls, &s);
    if (s.found)
        return s.percent;
    snprintf(path, sizeof path, "%.1000s/proc/pressure/memory", root);
    return full_of(path, &s.percent) ? s.percent : 0.0;
}

/* ---- judging ---- */

tt_status tt_pressure_open(const tt_pressure_options *o, tt_pressure **out, tt_error *err)
{
    const char *root = o->root != NULL ? o->root : "";
    if (strlen(root) >= sizeof((tt_pressure *)0)->root)
        return tt_fail(err, TT_ERR_INVALID, "the path %s is too long", root);
    tt_pressure *p = calloc(1, sizeof *p);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for watching memory");
    snprintf(p->root, sizeof p->root, "%s", root);
    p->o = *o;
    p->o.root = NULL;
    p->report.left = tt_machine_memory_available_at(p->root);
    p->report.reserve = o->reserve;
    if (o->reserve == 0 && p->report.left != UINT64_MAX)
        p->report.reserve =
            p->report.left / 32 > LEAST_RESERVE ? p->report.left / 32 : LEAST_RESERVE;
    p->o.stall_percent = o->stall_percent > 0.0 ? o->stall_percent : 10.0;
    p->o.hold = o->hold > 0.0 ? o->hold : 10.0;
    p->report.cause = "";
    tt_machine_memory_groups(p->root, add_hits, &p->hits_at_open);
    p->hits = p->hits_at_open;
    *out = p;
    return TT_OK;
}

void tt_pressure_close(tt_pressure **p)
{
    if (p == NULL || *p == NULL)
        return;
    free(*p);
    *p = NULL;
}

static const char *judge(tt_pressure *p, bool hit, double now)
{
    const tt_pressure_report *r = &p->report;
    if (r->left < r->reserve)
        return "reserve";
    /* Page cache alone brings a group to its limit; it counts when little else is left to drop. */
    if (hit && r->left / 2 < r->reserve)
        return "limit hit";
    if (r->full_avg10 < p->o.stall_percent || now < p->next_stall)
        return "";
    p->next_stall = now + p->o.hold;
    return "stalls";
}

static tt_pressure_level look(tt_pressure *p, double now)
{
    tt_pressure_report *r = &p->report;
    uint64_t hits = 0;
    r->left = tt_machine_memory_available_at(p->root);
    r->full_avg10 = full_stalls(p->root);
    tt_machine_memory_groups(p->root, add_hits, &hits);
    bool hit = hits > p->hits;
    p->hits = hits;
    r->limit_hits = hits > p->hits_at_open ? hits - p->hits_at_open : 0;
    r->cause = judge(p, hit, now);
    r->level = r->cause[0] != '\0' ? TT_PRESSURE_TIGHT : TT_PRESSURE_NONE;
    r->looks++;
    r->tight += r->level == TT_PRESSURE_TIGHT;
    return r->level;
}

tt_pressure_level tt_pressure_poll(tt_pressure *p, tt_pressure_report *report)
{
    tt_pressure_level level = TT_PRESSURE_NONE;
    double now = tt_now();
    if (now >= p->next_look) {
        p->next_look = now + p->o.interval;
        level = look(p, now);
    }
    if (report != NULL)
        *report = p->report;
    return level;
}
