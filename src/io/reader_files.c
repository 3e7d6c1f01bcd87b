#include "io/reader_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"

/* The C library of Debian 12 does not know it; the number is the same on every machine. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

enum { SAMPLES = 16, SAMPLE_BYTES = 4096 }; /* of a file, held against its mirror */

struct cached_range {
    uint64_t offset, bytes;
};

struct cached_counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static long count_cached(int fd, uint64_t offset, uint64_t bytes)
{
    struct cached_range range = {offset, bytes};
    struct cached_counts counts = {0};
    if (syscall(SYS_cachestat, fd, &range, &counts, 0) != 0)
        return -1;
    return (long)counts.cached;
}

/* ---- names ---- */

void tt_file_system_name(int fd, char out[32])
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{0xEF53, "ext4"},         {0x58465342, "xfs"},       {0x9123683E, "btrfs"},
                 {0x01021994, "tmpfs"},    {0x794C7630, "overlayfs"}, {0x6969, "nfs"},
                 {0x65735546, "fuse"},     {0x2FC12FC1, "zfs"},       {0xF2F52010, "f2fs"},
                 {0xFF534D42, "cifs"},     {0xFE534D42, "smb"},       {0x01021997, "9p"},
                 {0x4D44, "vfat"},         {0x2011BAB0, "exfat"},     {0xCA451A4E, "bcachefs"},
                 {0x73717368, "squashfs"}, {0x7366746E, "ntfs"}};
    struct statfs fs;
    unsigned long magic = 0;
    if (fstatfs(fd, &fs) == 0)
        magic = (unsigned long)fs.f_type & 0xFFFFFFFFu;
    snprintf(out, 32, "file system %lx", magic);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].magic == magic)
            snprintf(out, 32, "%s", known[i].name);
}

const char *tt_reader_files_path(const tt_reader_files *f, uint32_t file)
{
    return file < f->n ? f->file[file].copy[0].path : "";
}

/* ---- open ---- */

static tt_status open_copy(tt_file_copy *c, const char *path, struct stat *sb, tt_error *err)
{
    c->path = strdup(path);
    if (c->path == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the paths of a reader");
    TT_TRY(tt_file_open(path, &c->cached, NULL, err));
    if (fstat(c->cached, sb) != 0)
        return tt_fail_errno(err, errno, path, "cannot stat %s", path);
    /* What is read through it is what was asked for and nothing around it. */
    (void)posix_fadvise(c->cached, 0, 0, POSIX_FADV_RANDOM);
    c->direct = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (c->direct < 0 && errno != EINVAL)
        return tt_fail_errno(err, errno, path, "cannot open %s", path);
    return TT_OK;
}

/* "DIR/name", else "DIR/folder/name": a copy of the files' folder or of the whole install. */
static tt_status mirror_path(const char *path, const char *dir, char out[TT_MAX_PATH],
                             tt_error *err)
{
    const char *name = strrchr(path, '/');
    name = name != NULL ? name + 1 : path;
    TT_TRY(tt_path_join(out, dir, name, err));
    if (tt_file_exists(out))
        return TT_OK;
    const char *folder = name > path ? name - 1 : path;
    while (folder > path && folder[-1] != '/')
        folder--;
    char deeper[TT_MAX_PATH];
    TT_TRY(tt_path_join(deeper, dir, folder, err));
    if (!tt_file_exists(deeper))
        return tt_fail_at(err, TT_ERR_NOT_FOUND, out, -1,
                          "the expert mirror %s has no file %s and no file %s: copy the expert "
                          "files there, or leave the mirror out",
                          dir, name, folder);
    memcpy(out, deeper, sizeof deeper);
    return TT_OK;
}

/* A copy of another model has the same sizes: some blocks are held against the original, whose
 * bytes are told apart here and not by a result that makes no sense. */
static tt_status compare_samples(const tt_reader_file *f, const char *path, uint64_t size,
                                 tt_error *err)
{
    unsigned char ours[SAMPLE_BYTES], theirs[SAMPLE_BYTES];
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t at = size > SAMPLE_BYTES
                          ? (size - SAMPLE_BYTES) * i / (SAMPLES - 1) / SAMPLE_BYTES * SAMPLE_BYTES
                          : 0;
        size_t n = size - at < SAMPLE_BYTES ? (size_t)(size - at) : SAMPLE_BYTES;
        TT_TRY(tt_file_pread(f->copy[0].cached, f->copy[0].path, ours, n, at, err));
        TT_TRY(tt_file_pread(f->copy[1].cached, path, theirs, n, at, err));
        if (memcmp(ours, theirs, n) != 0)
            return tt_fail_at(err, TT_ERR_FORMAT, path, (int64_t)at,
                              "%s of the expert mirror differs from the original at byte %llu or "
                              "soon after: copy it again",
                              path, (unsigned long long)at);
        for (int c = 0; c < 2; c++)
            (void)posix_fadvise(f->copy[c].cached, (off_t)at, SAMPLE_BYTES, POSIX_FADV_DONTNEED);
    }
    return TT_OK;
}

static tt_status open_mirror(tt_reader_file *f, const struct stat *original, const char *dir,
                             tt_error *err)
{
    char path[TT_MAX_PATH];
    struct stat sb;
    TT_TRY(mirror_path(f->copy[0].path, dir, path, err));
    TT_TRY(open_copy(&f->copy[1], path, &sb, err));
    if (sb.st_dev == original->st_dev && sb.st_ino == original->st_ino)
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "the expert mirror %s holds the very file that it is to mirror", path);
    if (sb.st_size != original->st_size)
        return tt_fail_at(err, TT_ERR_FORMAT, path, -1,
                          "%s of the expert mirror has %lld bytes, the original has %lld: copy it "
                          "again",
                          path, (long long)sb.st_size, (long long)original->st_size);
    return compare_samples(f, path, (uint64_t)sb.st_size, err);
}

/* Some file systems take the flag and refuse the reads. */
static bool direct_works(const tt_file_copy *c, uint64_t size)
{
    if (c->direct < 0)
        return false;
    void *page = NULL;
    if (size < TT_IO_ALIGN || posix_memalign(&page, TT_IO_ALIGN, TT_IO_ALIGN) != 0)
        return true;
    bool works = pread(c->direct, page, TT_IO_ALIGN, 0) >= 0 || errno != EINVAL;
    free(page);
    return works;
}

static void leave_direct(tt_reader_files *f, unsigned copy)
{
    for (uint32_t i = 0; i < f->n; i++) {
        tt_file_copy *c = &f->file[i].copy[copy];
        if (c->direct >= 0)
            close(c->direct);
        c->direct = -1;
    }
}

/* mincore tells of files that the process could change; of others it says that all is there. */
static bool map_files(tt_reader_files *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        tt_reader_file *file = &f->file[i];
        struct stat sb;
        bool told = fstat(file->copy[0].cached, &sb) == 0 &&
                    (sb.st_uid == geteuid() || access(file->copy[0].path, W_OK) == 0);
        void *map = MAP_FAILED;
        if (told && file->size > 0)
            map = mmap(NULL, file->size, PROT_READ, MAP_SHARED, file->copy[0].cached, 0);
        if (map != MAP_FAILED)
            file->map = map;
        else if (file->size > 0)
            return false;
    }
    return true;
}

static tt_residency find_residency(tt_reader_files *f)
{
    if (f->skip_page_cache || f->n == 0)
        return TT_RESIDENCY_NONE;
    if (count_cached(f->file[0].copy[0].cached, 0, TT_IO_ALIGN) >= 0)
        return TT_RESIDENCY_CACHESTAT;
    return map_files(f) ? TT_RESIDENCY_MINCORE : TT_RESIDENCY_NONE;
}

static tt_status open_all(tt_reader_files *f, const char *const *paths, const char *mirror_dir,
                          tt_error *err)
{
    for (uint32_t i = 0; i < f->n; i++) {
        tt_reader_file *file = &f->file[i];
        struct stat sb;
        TT_TRY(open_copy(&file->copy[0], paths[i], &sb, err));
        file->size = (uint64_t)sb.st_size;
        if (mirror_dir != NULL)
            TT_TRY(open_mirror(file, &sb, mirror_dir, err));
    }
    f->mirror = mirror_dir != NULL && f->n > 0;
    snprintf(f->mirror_dir, sizeof f->mirror_dir, "%s", mirror_dir != NULL ? mirror_dir : "");
    if (f->n == 0)
        return TT_OK;
    tt_file_system_name(f->file[0].copy[0].cached, f->system);
    f->direct = direct_works(&f->file[0].copy[0], f->file[0].size);
    if (!f->direct)
        leave_direct(f, 0);
    if (f->mirror && !direct_works(&f->file[0].copy[1], f->file[0].size))
        leave_direct(f, 1);
    f->residency = find_residency(f);
    return TT_OK;
}

tt_status tt_reader_files_open(const char *const *paths, uint32_t n, const tt_reader_options *o,
                               tt_reader_files **out, tt_error *err)
{
    tt_reader_files *f = calloc(1, sizeof *f);
    tt_reader_file *file = calloc(n > 0 ? n : 1, sizeof *file);
    if (f == NULL || file == NULL) {
        free(f);
        free(file);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a reader of %u files", n);
    }
    f->n = n;
    f->file = file;
    f->skip_page_cache = o->skip_page_cache;
    pthread_mutex_init(&f->lock, NULL);
    for (uint32_t i = 0; i < n; i++)
        for (unsigned c = 0; c < 2; c++)
            file[i].copy[c].direct = file[i].copy[c].cached = -1;
    tt_status st = open_all(f, paths, o->mirror_dir, err);
    if (st != TT_OK)
        tt_reader_files_close(&f);
    else
        *out = f;
    return st;
}

void tt_reader_files_close(tt_reader_files **fp)
{
    if (fp == NULL || *fp == NULL)
        return;
    tt_reader_files *f = *fp;
    for (uint32_t i = 0; i < f->n; i++) {
        tt_reader_file *file = &f->file[i];
        if (file->map != NULL)
            munmap(file->map, file->size);
        for (unsigned c = 0; c < 2; c++) {
            if (file->copy[c].cached >= 0)
                close(file->copy[c].cached);
            if (file->copy[c].direct >= 0)
                close(file->copy[c].direct);
            free(file->copy[c].path);
        }
    }
    pthread_mutex_destroy(&f->lock);
    free(f->file);
    free(f);
    *fp = NULL;
}

/* ---- reads ---- */

tt_status tt_reader_files_start(tt_reader_files *f, tt_read *rd, tt_error *err)
{
    if (rd->file >= f->n)
        return tt_fail(err, TT_ERR_INVALID, "file %u asked, the reader has %u", rd->file, f->n);
    if (rd->state == TT_READ_QUEUED)
        return tt_fail(err, TT_ERR_STATE, "a read was started that is on its way");
    if (rd->bytes == 0 || rd->bytes % TT_IO_ALIGN != 0 || rd->offset % TT_IO_ALIGN != 0 ||
        (uintptr_t)rd->dst % TT_IO_ALIGN != 0 || rd->offset > INT64_MAX - rd->bytes)
        return tt_fail_at(err, TT_ERR_INVALID, tt_reader_files_path(f, rd->file), -1,
                          "read of %llu bytes at offset %llu to %p: all three must be multiples "
                          "of %u",
                          (unsigned long long)rd->bytes, (unsigned long long)rd->offset, rd->dst,
                          TT_IO_ALIGN);
    *rd = (tt_read){.file = rd->file,
                    .offset = rd->offset,
                    .bytes = rd->bytes,
                    .dst = rd->dst,
                    .state = TT_READ_QUEUED};
    return TT_OK;
}

tt_status tt_reader_files_result(const tt_reader_files *f, const tt_read *rd, tt_error *err)
{
    if (rd->state != TT_READ_DONE)
        return tt_fail(err, TT_ERR_STATE, "a read was waited for that had not been started");
    if (rd->status == TT_OK)
        return TT_OK;
    const char *path = f->file[rd->file].copy[0].path;
    unsigned long long bytes = rd->bytes, offset = rd->offset;
    if (rd->failed_errno == 0)
        return tt_fail_at(err, rd->status, path, (int64_t)rd->failed_at,
                          "file is truncated: wanted %llu bytes at offset %llu, it ends after "
                          "%llu; verify the install and convert it again",
                          bytes, offset, (unsigned long long)(rd->failed_at - rd->offset));
    tt_status st = tt_fail_errno(err, rd->failed_errno, path,
                                 "read of %llu bytes at offset %llu failed", bytes, offset);
    if (err != NULL)
        err->offset = (int64_t)rd->failed_at;
    return st;
}

void tt_reader_files_choose(tt_reader_files *f, tt_read *rd)
{
    if (rd->copy != 0)
        return;
    uint8_t copy = 0;
    if (f->mirror && !atomic_load(&f->mirror_lost))
        copy = f->busy[0] != f->busy[1] ? f->busy[1] < f->busy[0] : !f->turn;
    f->turn = copy;
    f->busy[copy] += rd->bytes;
    rd->copy = copy + 1;
}

void tt_reader_files_finish(tt_reader_files *f, const tt_read *rd, tt_reader_stats *s)
{
    if (rd->copy != 0)
        f->busy[rd->copy - 1] -= rd->bytes;
    s->reads++;
    s->failed_reads += rd->status != TT_OK;
}

/* ---- page cache ---- */

static bool map_resident(const tt_reader_file *file, uint64_t offset, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = offset + bytes;
    unsigned char there[64];
    if (file->map == NULL || end > file->size)
        return false;
    for (uint64_t at = offset / page * page; at < end;) {
        uint64_t n = (end - at + page - 1) / page;
        n = n < sizeof there ? n : sizeof there;
        if (mincore((char *)file->map + at, n * page, there) != 0)
            return false;
        for (uint64_t i = 0; i < n; i++)
            if (!(there[i] & 1))
                return false;
        at += n * page;
    }
    return true;
}

bool tt_reader_files_cached(const tt_reader_files *f, uint32_t file, uint64_t offset,
                            uint64_t bytes)
{
    const tt_reader_file *rf = &f->file[file];
    if (f->residency == TT_RESIDENCY_MINCORE)
        return map_resident(rf, offset, bytes);
    if (f->residency != TT_RESIDENCY_CACHESTAT)
        return false;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t pages = (offset + bytes + page - 1) / page - offset / page;
    long cached = count_cached(rf->copy[0].cached, offset, bytes);
    return cached > 0 && (uint64_t)cached >= pages;
}

/* ---- mirror and counters ---- */

void tt_reader_files_lose_mirror(tt_reader_files *f, uint32_t file, int errnum, uint64_t offset)
{
    char text[96] = "the file is truncated";
    if (errnum != 0) {
        char buf[96];
        snprintf(text, sizeof text, "%s", strerror_r(errnum, buf, sizeof buf));
    }
    pthread_mutex_lock(&f->lock);
    if (!atomic_load(&f->mirror_lost)) {
        const char *path = f->file[file].copy[1].path;
        size_t len = strlen(path);
        snprintf(f->note, sizeof f->note, "expert mirror left after %s%s, offset %llu: %s",
                 len > 100 ? "..." : "", len > 100 ? path + len - 100 : path,
                 (unsigned long long)offset, text);
        atomic_store(&f->mirror_lost, true);
    }
    pthread_mutex_unlock(&f->lock);
}

void tt_reader_files_stats(tt_reader_files *f, const tt_reader_stats *s, tt_reader_stats *out)
{
    *out = *s;
    pthread_mutex_lock(&f->lock);
    out->mirror_lost = atomic_load(&f->mirror_lost);
    memcpy(out->note, f->note, sizeof out->note);
    pthread_mutex_unlock(&f->lock);
}

void tt_reader_files_describe(const tt_reader_files *f, const char *what, bool direct,
                              uint32_t piece_bytes, char out[TT_READER_TEXT])
{
    static const char *const cache[] = {"page cache left alone", "page cache by cachestat",
                                        "page cache by mincore"};
    int n = snprintf(out, TT_READER_TEXT, "%s, pieces of %u KiB, %s on %s, %s", what,
                     (unsigned)(piece_bytes / TT_KIB), direct ? "O_DIRECT" : "buffered", f->system,
                     cache[f->residency]);
    if (f->mirror && n > 0 && (unsigned)n < TT_READER_TEXT)
        snprintf(out + n, TT_READER_TEXT - (unsigned)n, ", mirror %s", f->mirror_dir);
}
