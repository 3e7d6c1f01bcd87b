/* server_int.h: what server.c, connection.c, answers.c and pages.c share.
 *
 * Owns:      the server's and a connection's fields.
 * Not here:  anything that others may use.
 * Laws:      a connection has at most one request in work; its head stays until that is answered.
 * Threads:   the event loop's.
 */
#ifndef TT_SERVER_SERVER_INT_H
#define TT_SERVER_SERVER_INT_H

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "server/chat_page.h"
#include "server/metrics.h"
#include "server/reply.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/work.h"

#define TT_READ_AT_ONCE  65536u
#define TT_WRITE_AT_ONCE 262144u

typedef enum tt_conn_state {
    TT_CONN_READING,  /* a request, or the space before one */
    TT_CONN_WORKING,  /* one is in work */
    TT_CONN_DRAINING, /* told the last: what comes is dropped until the client has read it */
    TT_CONN_FLUSHING  /* the last answer goes out, then it drains */
} tt_conn_state;

typedef struct tt_conn {
    tt_server *server;
    struct tt_conn *prev, *next;
    int fd;
    bool local; /* a Unix socket */
    bool extra; /* over the bound: refused and drained */
    tt_conn_state state;
    struct event *read, *write, *timer;
    struct evbuffer *in, *out;
    tt_http1 http;
    /* the request in work */
    bool have_head;
    tt_route route;
    char model[128]; /* what stands for {id} */
    char request_id[TT_REQUEST_ID];
    tt_envelope envelope;
    tt_http_verdict verdict;
    tt_refusal refusal; /* told at the end of the request */
    unsigned retry_after;
    tt_buf body;
    uint64_t reserved; /* of request memory, for the body */
    tt_job *job;
    bool streaming; /* the head of a stream is out */
    bool told;      /* and an event behind it */
    bool paused;    /* there may be bytes that wait for room */
    /* times; 0: not now */
    double arrived, head_begun, moved, last_out, drain_end, armed;
    uint64_t drained;
} tt_conn;

struct tt_server {
    tt_server_config config;
    tt_server_bounds bounds;
    tt_model_set *models;
    uint32_t context; /* the largest of all models */
    tt_request_memory memory;
    tt_work *work;
    tt_response_store *responses;
    tt_grammar_shelf *grammars;
    struct event_base *base;
    struct evconnlistener *tcp, *local;
    struct event *woken, *signals[3], *last_call;
    int wake_fd;
    uint16_t port;
    uint32_t most_connections, n_connections, n_extra;
    tt_conn *connections;
    tt_metrics metrics;
    double begun;
    uint32_t preparing, admitted; /* jobs that are not finished */
    double mean_seconds;          /* that a request takes */
    bool stopping, flushing, ended;
    int signal;
    atomic_bool stop_asked;
    char page_fields[TT_CHAT_PAGE_FIELDS];
    bool bound_socket; /* the file of the Unix socket is ours */
    uint64_t socket_dev, socket_ino;
    char scratch[TT_READ_AT_ONCE]; /* bytes on their way to a connection */
};

/* server.c */
void tt_server_admit(tt_server *s, tt_conn *c);
/* The client of a job has left, or must not get more: cancels it. */
void tt_server_drop_job(tt_server *s, tt_job *job, tt_job_why why);
void tt_server_check_end(tt_server *s);

/* connection.c */
void tt_conn_accept(tt_server *s, int fd, bool local);
void tt_conn_close(tt_conn *c);
/* Sends what is in c->out as far as it goes now. False: the connection is gone. */
bool tt_conn_send(tt_conn *c);
/* The request in work is answered, and what it was is forgotten. False: the connection is gone. */
bool tt_conn_done(tt_conn *c);
/* Looks at deadlines anew. */
void tt_conn_arm(tt_conn *c);
/* No more requests: what comes is dropped until the client has read what goes out. */
void tt_conn_drain(tt_conn *c);

/* answers.c: they write to c->out and send nothing. */
void tt_answer_refusal(tt_conn *c, int status, const char *code, const char *param,
                       const char *message);
void tt_answer_text(tt_conn *c, int status, const char *type, const char *text, size_t len);
/* The chat page. */
void tt_answer_chat_page(tt_conn *c);
/* The same with JSON of any length, which is taken out of `text` and not copied. */
void tt_answer_json(tt_conn *c, tt_buf *text);
/* The head of JSON of that length; whether the JSON is to follow. */
bool tt_answer_json_head(tt_conn *c, size_t len);
void tt_answer_stream_head(tt_conn *c);
bool tt_conn_closes(const tt_conn *c);
/* Logs and counts an answer; `job` may be NULL. */
void tt_answer_log(tt_server *s, const tt_conn *c, const tt_job *job, const tt_job_news *news,
                   int status, const char *code);

/* response_pages.c: the answer of a path of stored responses. */
void tt_response_page(tt_conn *c);

/* pages.c: the answer of a path that needs no work. */
void tt_page_answer(tt_conn *c);

/* How long the callback took that began at `begun`. */
void tt_server_timed(tt_server *s, double begun);

#endif
