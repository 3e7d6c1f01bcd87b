#include "base/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"

#define MOST_TEXT 16384 /* memory.stat has about 2 KiB */

bool tt_machine_text(const char *path, char *text, size_t cap)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (n < cap - 1) {
        ssize_t got = read(fd, text + n, cap - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    text[n] = '\0';
    return n > 0;
}

bool tt_machine_line_value(const char *path, const char *key, uint64_t *value)
{
    char text[MOST_TEXT];
    size_t len = strlen(key);
    if (!tt_machine_text(path, text, sizeof text))
        return false;
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (strncmp(line, key, len) == 0 && strchr(" :=", line[len]) != NULL &&
            sscanf(line + len + 1, "%" SCNu64, value) == 1) {
            const char *kb = strstr(line, " kB");
            if (kb != NULL && (end == NULL || kb < end))
                *value *= 1024;
            return true;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return false;
}

bool tt_machine_number(const char *path, uint64_t *value)
{
    char text[64];
    return tt_machine_text(path, text, sizeof text) && sscanf(text, "%" SCNu64, value) == 1;
}

typedef struct cgroup_files {
    const char *limit, *usage, *cache[2];
} cgroup_files;

/* Pages of files that were read often count as active, and can be dropped all the same: as the
 * kernel counts them for MemAvailable. */
static const cgroup_files v1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
static const cgroup_files v2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};

/* What one cgroup directory leaves, UINT64_MAX without a limit. */
static uint64_t directory_left(const char *dir, const cgroup_files *names)
{
    char path[TT_MAX_PATH];
    uint64_t limit, usage = 0, cache[2] = {0, 0};
    snprintf(path, sizeof path, "%.3000s/%s", dir, names->limit);
    if (!tt_machine_number(path, &limit) || limit >= (uint64_t)1 << 62)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%.3000s/%s", dir, names->usage);
    (void)tt_machine_number(path, &usage);
    snprintf(path, sizeof path, "%.3000s/memory.stat", dir);
    for (int i = 0; i < 2; i++)
        (void)tt_machine_line_value(path, names->cache[i], &cache[i]);
    uint64_t dropped = cache[0] + cache[1], held = usage > dropped ? usage - dropped : 0;
    return limit > held ? limit - held : 0;
}

/* Walks from the group's own directory up to the mount point. */
static void walk_up(const char *mount, const char *group, bool is_v2, tt_machine_group_fn fn,
                    void *ctx)
{
    char dir[TT_MAX_PATH];
    snprintf(dir, sizeof dir, "%.2000s%.1000s", mount, group);
    for (bool own = true;; own = false) {
        fn(ctx, dir, own, is_v2);
        char *slash = strrchr(dir, '/');
        if (slash == NULL || strlen(dir) <= strlen(mount))
            return;
        *slash = '\0';
    }
}

void tt_machine_memory_groups(const char *root, tt_machine_group_fn fn, void *ctx)
{
    char path[TT_MAX_PATH], text[MOST_TEXT], mount[TT_MAX_PATH];
    snprintf(path, sizeof path, "%.1000s/proc/self/cgroup", root);
    if (!tt_machine_text(path, text, sizeof text))
        return;
    for (char *line = text, *next = NULL; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        controllers++;
        bool is_v2 = *controllers == '\0';
        if (!is_v2 && strstr(controllers, "memory") == NULL)
            continue;
        snprintf(mount, sizeof mount, "%.1000s/sys/fs/cgroup%s", root, is_v2 ? "" : "/memory");
        walk_up(mount, strcmp(group, "/") == 0 ? "" : group, is_v2, fn, ctx);
    }
}

static void take_least(void *ctx, const char *dir, bool own, bool is_v2)
{
    uint64_t *least = ctx, left = directory_left(dir, is_v2 ? &v2 : &v1);
    (void)own;
    *least = left < *least ? left : *least;
}

uint64_t tt_machine_memory_available_at(const char *root)
{
    char path[TT_MAX_PATH];
    uint64_t available = UINT64_MAX, group = UINT64_MAX;
    tt_machine_memory_groups(root, take_least, &group);
    snprintf(path, sizeof path, "%.1000s/proc/meminfo", root);
    (void)tt_machine_line_value(path, "MemAvailable", &available);
    return group < available ? group : available;
}

uint64_t tt_machine_memory_available(void)
{
    return tt_machine_memory_available_at("");
}

uint64_t tt_machine_own_memory(void)
{
    uint64_t own = 0;
    (void)tt_machine_line_value("/proc/self/status", "RssAnon", &own);
    return own;
}

uint64_t tt_machine_peak_rss(void)
{
    uint64_t peak = 0;
    (void)tt_machine_line_value("/proc/self/status", "VmHWM", &peak);
    return peak;
}

uint64_t tt_machine_major_faults(void)
{
    struct rusage use = {0};
    (void)getrusage(RUSAGE_SELF, &use);
    return (uint64_t)use.ru_majflt;
}
