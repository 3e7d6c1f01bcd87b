/* journal.h: what an installation has done so far, on disk: one line a fact, appended.
 *
 * Owns:      the form of a line, its checksum, the end that a crash cut off.
 * Not here:  what the facts mean (hub_state.h).
 * Laws:      (1) lines are only ever appended;  (2) reading stops at the first line that is not
 *            whole, and what follows is cut off before anything is appended;  (3) a line says
 *            what was
 * done, never what will be.
 * Threads:   one at a time.
 */
#ifndef TT_REPACK_JOURNAL_H
#define TT_REPACK_JOURNAL_H

#include "base/limits.h"
#include "base/status.h"

#define TT_JOURNAL_MAX_LINE (256 * TT_KIB)
#define TT_JOURNAL_MAX      (256 * TT_MIB)

typedef struct tt_journal tt_journal;

/* Called for the text of every whole line, NUL-terminated. */
typedef tt_status (*tt_journal_fn)(void *ctx, char *text, tt_error *err);

/* Reads the bytes of a journal; *good is where its whole lines end. The fuzz target of journals. */
TT_MUST_CHECK tt_status tt_journal_parse(const char *bytes, size_t n, tt_journal_fn fn, void *ctx,
                                         size_t *good, tt_error *err);
/* Opens, or makes, a journal, and tells its lines. */
TT_MUST_CHECK tt_status tt_journal_open(const char *path, tt_journal_fn fn, void *ctx,
                                        tt_journal **out, tt_error *err);
/* Text without control characters. */
TT_MUST_CHECK tt_status tt_journal_append(tt_journal *j, tt_error *err, const char *fmt, ...)
    TT_PRINTF(3, 4);
/* What was appended survives a loss of power from here on. */
TT_MUST_CHECK tt_status tt_journal_sync(tt_journal *j, tt_error *err);
void tt_journal_close(tt_journal **j);

#endif
