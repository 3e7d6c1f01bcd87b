#include "faulty_store.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

void faulty_store_clear(faulty_store *f)
{
    for (int i = 0; i < FAULTY_CALLS; i++)
        f->made[i] = f->fail[i] = 0;
    f->code = EIO;
    f->from_there = false;
    f->piecewise = false;
    f->space = -1;
    f->corrupt = f->all = f->die = 0;
    f->unsynced = f->most_unsynced = 0;
}

static bool fails(faulty_store *f, int call)
{
    unsigned long long n = ++f->made[call], at = f->fail[call];
    if (++f->all == f->die && call != FAULTY_WRITE)
        kill(getpid(), SIGKILL);
    if (at == 0 || !(n == at || (f->from_there && n > at)))
        return false;
    errno = f->code;
    return true;
}

static int create_one(void *ctx, int dir, const char *name)
{
    return fails(ctx, FAULTY_CREATE) ? -1 : tt_store_system_io.create(NULL, dir, name);
}

static int open_one(void *ctx, int dir, const char *name)
{
    return fails(ctx, FAULTY_OPEN) ? -1 : tt_store_system_io.open(NULL, dir, name);
}

/* Every third call is interrupted, the others do half. */
static size_t cut(const faulty_store *f, int call, size_t n)
{
    if (!f->piecewise)
        return n;
    return f->made[call] % 3 == 0 ? 0 : (n + 1) / 2;
}

static ssize_t read_one(void *ctx, int fd, void *buf, size_t n, uint64_t at)
{
    faulty_store *f = ctx;
    if (fails(f, FAULTY_READ))
        return -1;
    size_t part = cut(f, FAULTY_READ, n);
    if (part == 0) {
        errno = EINTR;
        return -1;
    }
    ssize_t r = tt_store_system_io.read(NULL, fd, buf, part, at);
    if (r > 0 && f->made[FAULTY_READ] == f->corrupt)
        ((char *)buf)[r / 2] ^= 4;
    return r;
}

static ssize_t write_one(void *ctx, int fd, const void *buf, size_t n, uint64_t at)
{
    faulty_store *f = ctx;
    if (fails(f, FAULTY_WRITE))
        return -1;
    size_t part = cut(f, FAULTY_WRITE, n);
    if (part == 0) {
        errno = EINTR;
        return -1;
    }
    if (f->space == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (f->space > 0 && part > (size_t)f->space)
        part = (size_t)f->space;
    bool dies = f->die > 0 && f->all >= f->die;
    ssize_t r = tt_store_system_io.write(NULL, fd, buf, dies ? part / 2 : part, at);
    if (dies)
        kill(getpid(), SIGKILL);
    if (r > 0 && f->space > 0)
        f->space -= r;
    f->unsynced += r > 0 ? (unsigned long long)r : 0;
    if (f->unsynced > f->most_unsynced)
        f->most_unsynced = (unsigned long long)f->unsynced;
    return r;
}

static int sync_one(void *ctx, int fd)
{
    (void)fd;
    ((faulty_store *)ctx)->unsynced = 0;
    return fails(ctx, FAULTY_SYNC) ? -1 : 0;
}

static int rename_one(void *ctx, int dir, const char *from, const char *to)
{
    return fails(ctx, FAULTY_RENAME) ? -1 : tt_store_system_io.rename(NULL, dir, from, to);
}

static int remove_one(void *ctx, int dir, const char *name)
{
    return fails(ctx, FAULTY_REMOVE) ? -1 : tt_store_system_io.remove(NULL, dir, name);
}

tt_store_io faulty_store_io(faulty_store *f)
{
    return (tt_store_io){.ctx = f,
                         .create = create_one,
                         .open = open_one,
                         .read = read_one,
                         .write = write_one,
                         .sync = sync_one,
                         .rename = rename_one,
                         .remove = remove_one};
}
