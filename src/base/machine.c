#include "base/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* Value of the line "key number [kB]" in a file of such lines; false when it is not there. */
static bool line_value(const char *path, const char *key, uint64_t *value)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    char line[256];
    size_t len = strlen(key);
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, len) == 0 && (line[len] == ' ' || line[len] == ':')) {
            found = sscanf(line + len + 1, "%" SCNu64, value) == 1;
            if (strstr(line, " kB") != NULL)
                *value *= 1024;
        }
    }
    fclose(f);
    return found;
}

/* A file that holds one number; "max" and anything unreadable are no limit. */
static bool number(const char *path, uint64_t *value)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool ok = fscanf(f, "%" SCNu64, value) == 1;
    fclose(f);
    return ok;
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
    if (!number(path, &limit) || limit >= (uint64_t)1 << 62)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%.3000s/%s", dir, names->usage);
    (void)number(path, &usage);
    snprintf(path, sizeof path, "%.3000s/memory.stat", dir);
    for (int i = 0; i < 2; i++)
        (void)line_value(path, names->cache[i], &cache[i]);
    uint64_t dropped = cache[0] + cache[1], held = usage > dropped ? usage - dropped : 0;
    return limit > held ? limit - held : 0;
}

/* Walks from the group's own directory up to the mount point; the mount itself counts too, since a
 * container sees its own group there. */
static uint64_t tree_left(const char *mount, const char *group, const cgroup_files *names)
{
    char dir[TT_MAX_PATH];
    uint64_t least = UINT64_MAX;
    snprintf(dir, sizeof dir, "%.2000s%.1000s", mount, group);
    for (;;) {
        uint64_t left = directory_left(dir, names);
        least = left < least ? left : least;
        char *slash = strrchr(dir, '/');
        if (slash == NULL || strlen(dir) <= strlen(mount))
            return least;
        *slash = '\0';
    }
}

static uint64_t cgroup_left(const char *root)
{
    char path[TT_MAX_PATH], line[TT_MAX_PATH], mount[TT_MAX_PATH];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%.1000s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return least;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        controllers++;
        const cgroup_files *names = *controllers == '\0' ? &v2 : &v1;
        if (names == &v1 && strstr(controllers, "memory") == NULL)
            continue;
        snprintf(mount, sizeof mount, "%.1000s/sys/fs/cgroup%s", root,
                 names == &v2 ? "" : "/memory");
        uint64_t left = tree_left(mount, strcmp(group, "/") == 0 ? "" : group, names);
        least = left < least ? left : least;
    }
    fclose(f);
    return least;
}

uint64_t tt_machine_memory_available_at(const char *root)
{
    char path[TT_MAX_PATH];
    uint64_t available = UINT64_MAX, group = cgroup_left(root);
    snprintf(path, sizeof path, "%.1000s/proc/meminfo", root);
    (void)line_value(path, "MemAvailable", &available);
    return group < available ? group : available;
}

uint64_t tt_machine_memory_available(void)
{
    return tt_machine_memory_available_at("");
}

uint64_t tt_machine_peak_rss(void)
{
    uint64_t peak = 0;
    (void)line_value("/proc/self/status", "VmHWM", &peak);
    return peak;
}
