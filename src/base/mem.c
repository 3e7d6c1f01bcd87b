#include "base/mem.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* In whole pages of the machine: 4 KiB, or 16 or 64 KiB on some of AArch64. */
static size_t mapped_bytes(size_t bytes)
{
    return round_up(bytes > 0 ? bytes : 1, (size_t)sysconf(_SC_PAGESIZE));
}

/* Maps with the start on a huge-page border when the block is large enough to use one. */
static void *map(size_t bytes, int prot, int flags)
{
    size_t len = mapped_bytes(bytes), slack = len >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *p = mmap(NULL, len + slack, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (slack == 0)
        return p;
    char *aligned = (char *)round_up((uintptr_t)p, HUGE_PAGE);
    size_t front = (size_t)(aligned - p), back = slack - front;
    if (front > 0)
        munmap(p, front);
    if (back > 0)
        munmap(aligned + len, back);
    return aligned;
}

tt_status tt_mem_alloc(size_t bytes, const char *what, void **out, tt_error *err)
{
    void *p = map(bytes, PROT_READ | PROT_WRITE, 0);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %s (%zu bytes)", what, bytes);
    if (bytes >= HUGE_PAGE)
        (void)madvise(p, mapped_bytes(bytes),
                      MADV_HUGEPAGE); /* advice only: small pages also work */
    *out = p;
    return TT_OK;
}

tt_status tt_mem_reserve(size_t bytes, const char *what, void **out, tt_error *err)
{
    void *p = map(bytes, PROT_NONE, MAP_NORESERVE);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "no address space for %s (%zu bytes)", what, bytes);
    *out = p;
    return TT_OK;
}

tt_status tt_mem_commit(void *base, size_t bytes, const char *what, tt_error *err)
{
    if (mprotect(base, mapped_bytes(bytes), PROT_READ | PROT_WRITE) != 0)
        return tt_fail_errno(err, errno, NULL, "cannot commit %zu bytes for %s", bytes, what);
    return TT_OK;
}

void tt_mem_free(void *base, size_t bytes)
{
    if (base != NULL)
        munmap(base, mapped_bytes(bytes));
}
