#include "tempdir.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

static void give_up(const char *what, const char *path)
{
    perror(what);
    fprintf(stderr, "%s: %s\n", what, path);
    abort();
}

void tempdir_make(char path[512])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 512, "%s/tinytitan-test-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(path) == NULL)
        give_up("cannot make a directory", path);
}

void tempdir_remove(const char *path)
{
    if (tt_dir_remove(path, NULL) != TT_OK)
        give_up("cannot remove", path);
}

void tempdir_file(const char *dir, const char *name, const void *bytes, size_t n, char path[600])
{
    snprintf(path, 600, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    if (f == NULL || (n > 0 && fwrite(bytes, 1, n, f) != n) || fclose(f) != 0)
        give_up("cannot write", path);
}
