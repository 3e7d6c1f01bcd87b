/* line_input.h: one line at a time from the user: edited on a terminal, as it comes from a pipe.
 *
 * Owns:      libedit, the history and its file, the reader of plain lines.
 * Not here:  what a line means (chat_loop.c).
 * Laws:      (1) lines are UTF-8 whatever the locale;  (2) a history file is the user's alone (mode
 * 0600), and none is made without a terminal.
 * Threads:   one.
 */
#ifndef TT_CLI_LINE_INPUT_H
#define TT_CLI_LINE_INPUT_H

#include "base/status.h"

typedef struct tt_line_input tt_line_input;

typedef enum tt_line_event {
    TT_LINE_TEXT,
    TT_LINE_END,         /* end of input, Ctrl-D */
    TT_LINE_INTERRUPTED, /* Ctrl-C; what was typed is dropped */
    TT_LINE_FAILED       /* the error is filled */
} tt_line_event;

TT_MUST_CHECK tt_status tt_line_input_open(tt_line_input **in, tt_error *err);
void tt_line_input_close(tt_line_input **in);
/* Whether lines are edited; only then a prompt is shown. */
bool tt_line_input_edits(const tt_line_input *in);
/* The next line without its end, NUL-terminated, valid until the next call. */
tt_line_event tt_line_input_read(tt_line_input *in, const char **line, size_t *len, tt_error *err);

/* Path of the history file: $XDG_STATE_HOME (absolute, else `home`/.local/state) and
 * tinytitan/history. False when there is no place. `out` has TT_MAX_PATH bytes. */
bool tt_history_path(const char *state_home, const char *home, char *out);

#endif
