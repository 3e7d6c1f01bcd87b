/* chat_loop.h: --interactive: a dialogue that keeps its state from turn to turn.
 *
 * Owns:      the messages, the commands, what an interrupted or failed turn leaves behind.
 * Not here:  one answer (generate.c), editing (line_input.c).
 * Laws:      (1) Ctrl-C stops an answer, and on a terminal never the program;  (2) a turn that
 * failed leaves the conversation as it was before it.
 * Threads:   one.
 */
#ifndef TT_CLI_CHAT_LOOP_H
#define TT_CLI_CHAT_LOOP_H

#include "cli/cli_engine.h"

/* Talks until the input ends. *interrupted: Ctrl-C ended a dialogue from a pipe. */
TT_MUST_CHECK tt_status tt_chat_loop(tt_engine *e, bool *interrupted, tt_error *err);

/* The word of a "/command" line and where its text begins; false for a line that is a message: no
 * slash in front, or something like a path after it. */
bool tt_chat_command(const char *line, char word[16], const char **rest);

#endif
