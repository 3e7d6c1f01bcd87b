/* interrupt.h: Ctrl-C, and what ends the program, as a question that it asks when it suits it.
 *
 * Owns:      the handlers of SIGINT, SIGTERM, SIGHUP, SIGWINCH and SIGCONT; SIGPIPE and SIGXFSZ are
 *            ignored, so that a write fails.
 * Not here:  what an interruption means (generate.c, chat_loop.c).
 * Laws:      (1) handlers only set flags and write one byte to a pipe, so that a wait for input
 * cannot miss them;  (2) without `keep_running` the second Ctrl-C ends the program at once; the
 * second SIGTERM or SIGHUP always does;  (3) only Ctrl-C can be cleared.
 * Threads:   handlers may run on any thread; everything else belongs to the main one.
 */
#ifndef TT_CLI_INTERRUPT_H
#define TT_CLI_INTERRUPT_H

#include "base/status.h"

TT_MUST_CHECK tt_status tt_interrupt_install(bool keep_running, tt_error *err);
/* Whether Ctrl-C was pressed since the last clear, or the program has to end. */
bool tt_interrupted(void);
/* Whether the program has to end, whatever it does. */
bool tt_ended(void);
void tt_interrupt_clear(void);
/* What the program exits with when it was interrupted: 128 and the signal's number. */
int tt_interrupt_code(void);
/* "interrupted", "ended by SIGTERM". */
const char *tt_interrupt_words(void);

typedef enum tt_input_event {
    TT_INPUT_READY,
    TT_INPUT_INTERRUPTED,
    TT_INPUT_RESIZED, /* the terminal changed its size */
    TT_INPUT_RESUMED  /* the program was stopped and goes on */
} tt_input_event;

/* What to do while there is nothing to wait for but input: called again and again, as many seconds
 * after as it returns; no longer when that is below 0. NULL: nothing. */
typedef double (*tt_idle_fn)(void *ctx);
void tt_interrupt_while_idle(tt_idle_fn fn, void *ctx);

/* Waits until `fd` can be read (or is at its end) or a signal came. */
tt_input_event tt_interrupt_wait(int fd);

#endif
