#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TT_STATUS_NAME_(name, number, text)                                                        \
    case TT_##name:                                                                                \
        return "TT_" #name;
#define TT_STATUS_TEXT_(name, number, text)                                                        \
    case TT_##name:                                                                                \
        return text;

const char *tt_status_name(tt_status status)
{
    switch (status) {
        TT_STATUS_LIST(TT_STATUS_NAME_)
    }
    return "TT_UNKNOWN";
}

const char *tt_status_text(tt_status status)
{
    switch (status) {
        TT_STATUS_LIST(TT_STATUS_TEXT_)
    }
    return "unknown status";
}

void tt_error_set_file(tt_error *err, const char *file)
{
    if (file == NULL)
        file = "";
    size_t len = strlen(file), cap = sizeof err->file - 1;
    if (len <= cap) {
        memcpy(err->file, file, len + 1);
        return;
    }
    /* The end of a path tells more than its beginning. */
    memcpy(err->file, "...", 3);
    memcpy(err->file + 3, file + len - (cap - 3), cap - 3 + 1);
}

tt_status tt_fail_at(tt_error *err, tt_status status, const char *file, int64_t offset,
                     const char *fmt, ...)
{
    if (err == NULL)
        return status;
    err->status = status;
    err->offset = offset;
    tt_error_set_file(err, file);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    return status;
}

static tt_status errno_status(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        return TT_ERR_NO_SPACE;
    case ENOENT:
        return TT_ERR_NOT_FOUND;
    case ENOMEM:
        return TT_ERR_NOMEM;
    default:
        return TT_ERR_IO;
    }
}

tt_status tt_fail_errno(tt_error *err, int errnum, const char *file, const char *fmt, ...)
{
    tt_status status = errno_status(errnum);
    if (err == NULL)
        return status;
    char what[512], text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const char *reason = strerror_r(errnum, text, sizeof text);
    return tt_fail_at(err, status, file, -1, "%s: %s%s", what, reason,
                      errnum == EMFILE ? "; ulimit -n allows more" : "");
}

tt_status tt_fail_context(tt_error *err, tt_status status, const char *fmt, ...)
{
    if (err == NULL)
        return status;
    char old[sizeof err->message], front[256];
    memcpy(old, err->message, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(front, sizeof front, fmt, ap);
    va_end(ap);
    snprintf(err->message, sizeof err->message, "%s: %.*s", front,
             (int)(sizeof old - sizeof front - 3), old);
    return err->status;
}
