#include "repack/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"

#define SUM_CHARS 8u /* CRC-32C of the text, then a space */

struct tt_journal {
    char path[TT_MAX_PATH];
    int fd;
    uint64_t at;
};

static bool read_sum(const char *s, uint32_t *sum)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < SUM_CHARS; i++) {
        const char *digits = "0123456789abcdef", *d = strchr(digits, s[i]);
        if (s[i] == '\0' || d == NULL)
            return false;
        v = v << 4 | (uint32_t)(d - digits);
    }
    *sum = v;
    return s[SUM_CHARS] == ' ';
}

static bool plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return true;
}

tt_status tt_journal_parse(const char *bytes, size_t n, tt_journal_fn fn, void *ctx, size_t *good,
                           tt_error *err)
{
    size_t at = 0;
    *good = 0;
    while (at < n) {
        const char *line = bytes + at, *end = memchr(line, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - line) : 0;
        uint32_t sum = 0;
        if (end == NULL || len <= SUM_CHARS + 1 || len > TT_JOURNAL_MAX_LINE ||
            !read_sum(line, &sum))
            break;
        const char *text = line + SUM_CHARS + 1;
        size_t text_len = len - SUM_CHARS - 1;
        if (!plain(text, text_len) || tt_crc32c(0, text, text_len) != sum)
            break;
        char *copy = tt_copy_text(text, text_len);
        if (copy == NULL)
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal");
        tt_status st = fn(ctx, copy, err);
        free(copy);
        TT_TRY(st);
        at += len + 1;
        *good = at;
    }
    return TT_OK;
}

static tt_status open_and_read(tt_journal *j, tt_journal_fn fn, void *ctx, tt_error *err)
{
    struct stat sb;
    size_t good = 0;
    j->fd = open(j->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (j->fd < 0 || fstat(j->fd, &sb) != 0)
        return tt_fail_errno(err, errno, j->path, "cannot open %s", j->path);
    if (!S_ISREG(sb.st_mode) || (uint64_t)sb.st_size > TT_JOURNAL_MAX)
        return tt_fail_at(err, TT_ERR_STATE, j->path, -1,
                          "%s is not a journal: discard the partial install", j->path);
    char *bytes = malloc((size_t)sb.st_size + 1);
    if (bytes == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal");
    tt_status st = tt_file_pread(j->fd, j->path, bytes, (size_t)sb.st_size, 0, err);
    if (st == TT_OK)
        st = tt_journal_parse(bytes, (size_t)sb.st_size, fn, ctx, &good, err);
    free(bytes);
    TT_TRY(st);
    if (ftruncate(j->fd, (off_t)good) != 0)
        return tt_fail_errno(err, errno, j->path, "cannot cut %s", j->path);
    j->at = good;
    return TT_OK;
}

tt_status tt_journal_open(const char *path, tt_journal_fn fn, void *ctx, tt_journal **out,
                          tt_error *err)
{
    tt_journal *j = calloc(1, sizeof *j);
    if (j == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal");
    j->fd = -1;
    tt_status st = TT_OK;
    if (snprintf(j->path, sizeof j->path, "%s", path) >= (int)sizeof j->path)
        st = tt_fail_at(err, TT_ERR_LIMIT, path, -1, "path is longer than %u bytes",
                        TT_MAX_PATH - 1);
    if (st == TT_OK)
        st = open_and_read(j, fn, ctx, err);
    if (st == TT_OK)
        *out = j;
    else
        tt_journal_close(&j);
    return st;
}

tt_status tt_journal_append(tt_journal *j, tt_error *err, const char *fmt, ...)
{
    tt_buf line;
    char *formatted = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&formatted, fmt, ap);
    va_end(ap);
    if (n < 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal");
    if ((size_t)n + SUM_CHARS + 1 > TT_JOURNAL_MAX_LINE || !plain(formatted, (size_t)n)) {
        free(formatted);
        return tt_fail_at(err, TT_ERR_INTERNAL, j->path, -1,
                          "a line of %d bytes is no journal line", n);
    }
    tt_buf_init(&line, TT_JOURNAL_MAX_LINE + 16);
    tt_buf_printf(&line, "%08x ", tt_crc32c(0, formatted, (size_t)n));
    tt_buf_append(&line, formatted, (size_t)n);
    tt_buf_putc(&line, '\n');
    free(formatted);
    tt_status st = tt_buf_status(&line, err);
    if (st == TT_OK)
        st = tt_file_pwrite(j->fd, j->path, line.data, line.len, j->at, err);
    /* What a full disk took of the line is written over by the next one, or cut off by a reader. */
    if (st == TT_OK)
        j->at += line.len;
    tt_buf_free(&line);
    return st;
}

tt_status tt_journal_sync(tt_journal *j, tt_error *err)
{
    if (fdatasync(j->fd) != 0)
        return tt_fail_errno(err, errno, j->path, "cannot sync %s", j->path);
    return TT_OK;
}

void tt_journal_close(tt_journal **journal)
{
    if (journal == NULL || *journal == NULL)
        return;
    if ((*journal)->fd >= 0)
        close((*journal)->fd);
    free(*journal);
    *journal = NULL;
}
