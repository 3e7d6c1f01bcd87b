/* connect_server.h: which models the server on this machine has, asked of it.
 *
 * Owns:      one request to /v1/models on 127.0.0.1, the list that comes of it.
 * Not here:  what is done with it.
 * Laws:      nobody but 127.0.0.1 is asked, and the key goes nowhere else.
 * Threads:   any.
 */
#ifndef TT_CONNECT_CONNECT_SERVER_H
#define TT_CONNECT_CONNECT_SERVER_H

#include "base/status.h"

#define TT_CONNECT_MODELS 64u

typedef struct tt_connect_model {
    char id[128];
    uint32_t context;
} tt_connect_model;

typedef struct tt_connect_models {
    tt_connect_model list[TT_CONNECT_MODELS];
    size_t n, chosen;
} tt_connect_models;

/* `key` may be NULL. Models that cannot be loaded are left out; the one that is in memory is
 * chosen, else the first. */
TT_MUST_CHECK tt_status tt_connect_ask(uint16_t port, const char *key, tt_connect_models *out,
                                       tt_error *err);

#endif
