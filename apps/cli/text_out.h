/* text_out.h: what reaches the user: text on standard output, notices and errors on standard error.
 *
 * Owns:      the state of both streams: closed, at the start of a line, a progress line standing.
 * Not here:  the wording of reports (report.c).
 * Laws:      (1) text is flushed piece by piece;  (2) once standard output cannot be written
 * nothing more is tried;  (3) progress is shown on a terminal only and leaves no trace;  (4)
 * control characters of text reach files and pipes byte for byte, and no terminal.
 * Threads:   one.
 */
#ifndef TT_CLI_TEXT_OUT_H
#define TT_CLI_TEXT_OUT_H

#include "base/status.h"

/* `quiet`: notices and progress are left out. */
void tt_out_init(bool quiet);
/* Text to standard output; false when it cannot be written (any more). */
bool tt_out_text(const char *text, size_t len);
bool tt_out_puts(const char *text);
/* Ends the line unless one has just begun. */
bool tt_out_end_line(void);
/* Whether standard output failed, and whether that was its reader going away. */
bool tt_out_failed(void);
bool tt_out_reader_left(void);
bool tt_out_is_terminal(void);

/* A line to standard error with the program's name in front, unless quiet. */
void tt_out_notice(const char *fmt, ...) TT_PRINTF(1, 2);
/* Text to standard error as it stands, unless quiet. */
void tt_out_report(const char *text);
/* "TinyTitanCLI: file: message"; never silenced. */
void tt_out_error(const tt_error *err);

/* A line that the next one replaces; nothing unless standard error is a terminal. */
void tt_out_progress(const char *fmt, ...) TT_PRINTF(1, 2);
void tt_out_progress_end(void);

#endif
