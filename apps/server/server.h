/* server.h: the server: listeners, the event loop, admission, the end.
 *
 * Owns:      sockets, connections, the queue's bounds, what is logged and counted.
 * Not here:  the command line (server_main.c), computing (work.h), the seam (engine.h).
 * Laws:      (1) listens on 127.0.0.1 and a Unix socket and nowhere else;  (2) no callback of the
 *            loop computes or waits;  (3) every request that was read gets an answer, or its client
 *            has left.
 * Threads:   create, run and close from one; stop from any.
 */
#ifndef TT_SERVER_SERVER_H
#define TT_SERVER_SERVER_H

#include "server/model_set.h"
#include "server/server_log.h"

/* Deadlines and bounds that tests shorten; tt_server_bounds_default takes server_limits.h. */
typedef struct tt_server_bounds {
    double header, body, keep_alive, drained, heartbeat, shutdown; /* seconds */
    uint64_t outbox, request_memory;
    uint32_t connections; /* 0: as RLIMIT_NOFILE leaves, at most TT_CONNECTIONS */
} tt_server_bounds;
void tt_server_bounds_default(tt_server_bounds *b);

typedef struct tt_server_config {
    uint16_t port;           /* 0: a free one */
    const char *unix_socket; /* or NULL */
    const char *const *origins;
    size_t n_origins;
    const char *key;           /* or NULL */
    uint32_t queue_limit;      /* requests that wait */
    uint32_t sequences;        /* and those that run; 0: one */
    bool signals;              /* SIGTERM, SIGINT and SIGHUP end it */
    const char *notify_socket; /* what NOTIFY_SOCKET says, or NULL */
    tt_server_log log;
    tt_server_bounds bounds;
} tt_server_config;

typedef struct tt_server tt_server;

/* Listens. What `config` points to must outlive the server. */
TT_MUST_CHECK tt_status tt_server_create(const tt_server_config *config, tt_model_set *models,
                                         tt_server **out, tt_error *err);
uint16_t tt_server_port(const tt_server *s);
/* Until the end; the signal that brought it, or 0. */
TT_MUST_CHECK tt_status tt_server_run(tt_server *s, int *signal, tt_error *err);
/* Begins the end. */
void tt_server_stop(tt_server *s);
void tt_server_close(tt_server **s);

#endif
