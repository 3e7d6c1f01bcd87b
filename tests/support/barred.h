/* barred.h: system calls that the kernel refuses to this process from now on.
 *
 * Owns:      seccomp filters, a child process to use them in.
 * Not here:  what is tested in there.
 * Laws:      (1) a filter cannot be taken away: use it in barred_child;  (2) a child ends where fn
 *            returns, without the parent's exit handlers.
 * Threads:   one.
 */
#ifndef TT_TEST_BARRED_H
#define TT_TEST_BARRED_H

#include <stdbool.h>
#include <stdint.h>

/* System call `number` fails with `errnum`; with `mask`, only where argument `argument` has one of
 * its bits. False when this system has no filters. */
bool barred_call(int number, int errnum, unsigned argument, uint32_t mask);
/* Takes CAP_IPC_LOCK away and sets RLIMIT_MEMLOCK. */
bool barred_memlock(uint64_t bytes);

/* Runs fn(ctx) in a child and returns what it returned, -1 when it died. */
int barred_child(int (*fn)(void *ctx), void *ctx);

#endif
