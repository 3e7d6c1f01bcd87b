/* stop.h: signals that end a program, as a question that the program asks when it suits it.
 *
 * Owns:      the handlers of SIGINT, SIGTERM and SIGHUP; SIGPIPE and SIGXFSZ, which are ignored so
 *            that a write fails and is cleaned up after.
 * Not here:  what is removed and said before the end (each program), TinyTitanCLI's Ctrl-C that
 *            ends an answer only (cli/interrupt.h).
 * Laws:      (1) a handler only sets a flag;  (2) the second signal of a kind ends the program at
 *            once;  (3) a SIGHUP that was ignored at the start (nohup) stays so;  (4) nothing
 *            happens in a program that does not ask for it.
 * Threads:   handlers may run on any thread; the questions may be asked on any.
 */
#ifndef TT_BASE_STOP_H
#define TT_BASE_STOP_H

#include "base/status.h"

void tt_stop_catch(void);
/* The signal that came, or 0. */
int tt_stop_signal(void);
/* The same for loops that take a flag. */
const volatile int *tt_stop_flag(void);
/* "SIGTERM" and so on. */
const char *tt_stop_name(int signal);
/* What the program exits with then: 128 and the signal's number, as a shell reports it. */
static inline int tt_stop_code(int signal)
{
    return 128 + signal;
}
/* A tt_progress_fn that aborts when a signal came; also an answer to "go on?". */
bool tt_stop_progress(void *ctx, uint64_t done, uint64_t total);

#endif
