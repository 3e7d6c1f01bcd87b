/* test_hub.h: a hub of our own on 127.0.0.1, with real sockets and every fault that a test asks
 * for.
 *
 * Serves the files of a directory as one repository. Large files (.safetensors) are redirected to a
 * second port, which counts as another host; small ones are served by the first. */
#ifndef TT_TEST_HUB_H
#define TT_TEST_HUB_H

#include <stdbool.h>
#include <stdint.h>

#define TEST_HUB_COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef struct test_hub test_hub;

typedef struct test_hub_request {
    const char *path, *file; /* file: its name, "" for a description */
    bool content;            /* asked of the second port */
    bool ranged;
    uint64_t begin, end; /* bytes [begin, end) */
    char token[256];     /* of the Authorization header, or "" */
    unsigned serial;     /* requests before this one */
} test_hub_request;

/* What is answered; filled with the truth before a fault may change it. */
typedef struct test_hub_answer {
    int status;
    char headers[2048]; /* further header lines, each with its line end */
    char etag[128], commit[65], linked_etag[128];
    char location[1024];         /* "" for none */
    bool say_range;              /* Content-Range is sent */
    uint64_t first, last, total; /* as Content-Range says */
    uint64_t length;             /* as Content-Length says */
    uint64_t cut;   /* bytes of the body after which the connection is dropped; UINT64_MAX: none */
    bool end_early; /* with cut: Content-Length is made to agree */
    bool stall;     /* after `cut` bytes nothing more comes until the other side gives up */
    bool drip;      /* after `cut` bytes the others come one by one, for ever */
    bool drip_head; /* so do the lines before the body */
    bool spoil;     /* one bit of the body is changed */
    bool drop;      /* no answer at all */
    const char *text;  /* instead of the file */
    unsigned together; /* waits until so many requests wait with it, but not for ever */
} test_hub_answer;

typedef void (*test_hub_fault)(void *ctx, const test_hub_request *r, test_hub_answer *a);

test_hub *test_hub_start(const char *dir, const char *repository);
/* Another commit than TEST_HUB_COMMIT, 40 digits; before anything is asked. */
void test_hub_set_commit(test_hub *h, const char *commit);
/* A fault: files are given only to those who accepted the terms, and nobody did. */
void test_hub_gate(void *ctx, const test_hub_request *r, test_hub_answer *a);
/* Called with the hub's lock held. */
void test_hub_set_fault(test_hub *h, test_hub_fault fault, void *ctx);
const char *test_hub_url(const test_hub *h);         /* "http://127.0.0.1:PORT" */
const char *test_hub_content_url(const test_hub *h); /* the second port */
unsigned test_hub_requests(test_hub *h);
/* How many requests waited together at most. */
unsigned test_hub_together(test_hub *h);
/* Bytes of bodies of large files that were sent, and how many of them had been sent before. */
uint64_t test_hub_sent(test_hub *h);
uint64_t test_hub_sent_again(test_hub *h);
/* Of one large file, between two places. */
uint64_t test_hub_sent_within(test_hub *h, const char *file, uint64_t begin, uint64_t end);
void test_hub_forget(test_hub *h); /* counts from zero */
void test_hub_stop(test_hub **h);

#endif
