#include "mini_install.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static void check(bool ok, const char *what, const char *path)
{
    if (ok)
        return;
    fprintf(stderr, "mini install: %s: %s\n", what, path);
    abort();
}

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    return done <= total;
}

static void on_note(void *ctx, tt_note_kind kind, const char *text)
{
    static const char *const kinds[] = {"stage", "info", "warning"};
    mini_notes *n = ctx;
    size_t len = strlen(n->text);
    snprintf(n->text + len, sizeof n->text - len, "%s: %s\n", kinds[kind], text);
    n->lines++;
}

tt_repack_events mini_events(mini_notes *notes)
{
    *notes = (mini_notes){0};
    return (tt_repack_events){notes, on_progress, on_note};
}

tt_status mini_convert(const char *from, const char *to, uint32_t bits, tt_error *err)
{
    tt_repack_options o = {.input = from, .output = to, .model_id = "mini", .threads = 1};
    o.policy.build_bits = bits;
    return tt_repack_run(&o, NULL, NULL, err);
}

void mini_install(const char *dir, const char *name, const mini_options *o, uint32_t bits,
                  char path[600])
{
    char source[600];
    tt_error err = {0};
    snprintf(source, sizeof source, "%s/source-%s", dir, name);
    snprintf(path, 600, "%s/%s", dir, name);
    check(tt_dir_make(source, NULL) == TT_OK, "cannot make", source);
    mini_write(source, o);
    if (mini_convert(source, path, bits, &err) != TT_OK)
        check(false, err.message, source);
}

char *mini_slurp(const char *dir, const char *rel, size_t *len)
{
    char path[TT_MAX_PATH], *bytes = NULL;
    check(tt_path_join(path, dir, rel, NULL) == TT_OK, "path", rel);
    check(tt_file_read(path, TT_GIB, &bytes, len, NULL) == TT_OK, "cannot read", path);
    return bytes;
}

void mini_spew(const char *dir, const char *rel, const void *bytes, size_t len)
{
    char path[TT_MAX_PATH];
    check(tt_path_join(path, dir, rel, NULL) == TT_OK, "path", rel);
    check(tt_file_publish(path, bytes, len, NULL) == TT_OK, "cannot write", path);
}

void mini_poke(const char *dir, const char *rel, int64_t at, unsigned char xor, bool quietly)
{
    char path[TT_MAX_PATH];
    unsigned char byte;
    struct stat sb;
    check(tt_path_join(path, dir, rel, NULL) == TT_OK, "path", rel);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    check(fd >= 0 && fstat(fd, &sb) == 0, "cannot open", path);
    off_t place = at < 0 ? sb.st_size + at : at;
    check(pread(fd, &byte, 1, place) == 1, "cannot read", path);
    byte ^= xor;
    check(pwrite(fd, &byte, 1, place) == 1, "cannot write", path);
    if (quietly) {
        const struct timespec times[2] = {sb.st_atim, sb.st_mtim};
        check(futimens(fd, times) == 0, "cannot set the time of", path);
    }
    close(fd);
}

void mini_remove(const char *dir, const char *rel)
{
    char path[TT_MAX_PATH];
    check(tt_path_join(path, dir, rel, NULL) == TT_OK, "path", rel);
    check(unlink(path) == 0, "cannot remove", path);
}

void mini_copy(const char *from, const char *to)
{
    check(tt_dir_make(to, NULL) == TT_OK, "cannot make", to);
    DIR *d = opendir(from);
    struct dirent *e;
    check(d != NULL, "cannot open", from);
    while ((e = readdir(d)) != NULL) {
        char a[TT_MAX_PATH], b[TT_MAX_PATH];
        if (e->d_name[0] == '.')
            continue;
        check(tt_path_join(a, from, e->d_name, NULL) == TT_OK, "path", from);
        check(tt_path_join(b, to, e->d_name, NULL) == TT_OK, "path", to);
        if (tt_dir_exists(a)) {
            mini_copy(a, b);
            continue;
        }
        size_t len = 0;
        char *bytes = mini_slurp(from, e->d_name, &len);
        mini_spew(to, e->d_name, bytes, len);
        free(bytes);
    }
    closedir(d);
}

bool mini_same(const char *dir_a, const char *dir_b, const char *rel)
{
    size_t a = 0, b = 0;
    char *p = mini_slurp(dir_a, rel, &a), *q = mini_slurp(dir_b, rel, &b);
    bool same = a == b && memcmp(p, q, a) == 0;
    free(p);
    free(q);
    return same;
}
