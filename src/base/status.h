/* status.h: the one status convention inside the library.
 *
 * Owns:      filling and prefixing tt_error records; the forwarding macro.
 * Not here:  the list of statuses and the record (include/tinytitan/tinytitan.h, the only header
 *            base may see).
 * Laws:      (1) a record is filled once, where the fault is first known;  (2) callers may only
 *            add context in front;  (3) outputs are untouched on failure;  (4) every function that
 *            returns tt_status is must-check.
 * Threads:   all functions are pure on their arguments.
 */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

#include "tinytitan/tinytitan.h"

/* Fills `err` (may be NULL) and returns `status`. `file` may be NULL; `offset` -1 when there is
 * none. */
tt_status tt_fail_at(tt_error *err, tt_status status, const char *file, int64_t offset,
                     const char *fmt, ...) TT_PRINTF(5, 6);

/* The same without a file. */
#define tt_fail(err, status, ...) tt_fail_at((err), (status), NULL, -1, __VA_ARGS__)

/* Same for a failed system call: appends ": " and the text of `errnum`; ENOSPC and EDQUOT become
 * TT_ERR_NO_SPACE, ENOENT TT_ERR_NOT_FOUND, ENOMEM TT_ERR_NOMEM, everything else TT_ERR_IO. */
tt_status tt_fail_errno(tt_error *err, int errnum, const char *file, const char *fmt, ...)
    TT_PRINTF(4, 5);

/* Replaces the file of an error; of a long path the end is kept. */
void tt_error_set_file(tt_error *err, const char *file);

/* Puts "context: " in front of the message. Returns err->status, or `status` when err is NULL. */
tt_status tt_fail_context(tt_error *err, tt_status status, const char *fmt, ...) TT_PRINTF(3, 4);

/* Forwards a failure to the caller. */
#define TT_TRY(expr)                                                                               \
    do {                                                                                           \
        tt_status tt_try_status_ = (expr);                                                         \
        if (tt_try_status_ != TT_OK)                                                               \
            return tt_try_status_;                                                                 \
    } while (0)

/* Forwards a failure to the function's cleanup label; needs a local `tt_status st`. */
#define TT_GOTO(expr, label)                                                                       \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != TT_OK)                                                                           \
            goto label;                                                                            \
    } while (0)

#endif
