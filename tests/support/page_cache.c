#include "page_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        perror(path);
        abort();
    }
    return fd;
}

static uint64_t size_of(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) == 0 ? (uint64_t)sb.st_size : 0;
}

bool page_cache_drop(const char *path)
{
    int fd = open_file(path);
    uint64_t size = size_of(fd);
    bool ok = fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    close(fd);
    return ok && page_cache_count(path, 0, size) == 0;
}

void page_cache_load(const char *path, uint64_t offset, uint64_t bytes)
{
    char block[4096];
    int fd = open_file(path);
    /* Otherwise Linux brings more than was asked for. */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (uint64_t at = offset; at < offset + bytes; at += sizeof block)
        if (lseek(fd, (off_t)at, SEEK_SET) < 0 || read(fd, block, sizeof block) < 0)
            break;
    close(fd);
}

uint64_t page_cache_count(const char *path, uint64_t offset, uint64_t bytes)
{
    int fd = open_file(path);
    uint64_t size = size_of(fd), page = (uint64_t)sysconf(_SC_PAGESIZE), found = 0;
    void *map = size > 0 ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED)
        return 0;
    for (uint64_t at = offset / page * page; at < offset + bytes && at < size; at += page) {
        unsigned char there = 0;
        if (mincore((char *)map + at, page, &there) == 0 && (there & 1))
            found += page;
    }
    munmap(map, size);
    return found;
}
