/* readiness.h: tells a service manager that the server listens or ends (sd_notify, by hand).
 *
 * Owns:      one datagram.
 * Not here:  the environment (server_main.c).
 * Laws:      a manager that is not there, or does not listen, changes nothing.
 * Threads:   any.
 */
#ifndef TT_SERVER_READINESS_H
#define TT_SERVER_READINESS_H

#include <stdbool.h>

/* `path` is what NOTIFY_SOCKET says, or NULL. False when nothing was sent. */
bool tt_readiness_send(const char *path, const char *text);

#endif
