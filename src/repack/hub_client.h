/* hub_client.h: asks a hub for files and parts of files of one repository.
 *
 * Owns:      addresses, redirects, the token, the judgement of every answer, attempts and waiting.
 * Not here:  several parts in flight (hub_fetch.h), which files are needed (hub_source.h).
 * Laws:      (1) the token goes to the endpoint alone, and over plain http to this machine alone;
 *            (2) nothing is taken from the environment;  (3) bytes count only when status, range
 *            and length are those that were asked for;  (4) a file whose identity changes is an
 *            error.
 * Threads:   a hub and its files belong to one thread at a time.
 */
#ifndef TT_REPACK_HUB_CLIENT_H
#define TT_REPACK_HUB_CLIENT_H

#include <curl/curl.h>

#include "base/limits.h"
#include "repack/hub_response.h"
#include "repack/tensor_plan.h"

#define TT_HUB_MAX_URL  8192u
#define TT_HUB_MAX_REPO 200u

typedef struct tt_hub_options {
    const char *endpoint;   /* "https://huggingface.co" */
    const char *token;      /* NULL: none */
    const char *proxy;      /* NULL: none */
    const char *no_proxy;   /* NULL: none */
    const char *repository; /* "ORG/NAME" */
    const char *revision;   /* branch, tag or commit */
    unsigned second_ms;     /* what a second of waiting takes; 0: 1000. Tests wait less */
    unsigned stall_seconds; /* without 1 KiB/s for this long a connection is given up; 0: 30 */
} tt_hub_options;

typedef struct tt_hub tt_hub;

/* A file of the repository and what is known of it. Zeros but for the name at first. */
typedef struct tt_hub_file {
    char name[256];
    uint64_t size;            /* of the whole file; 0 while it is not known */
    char id[160];             /* linked ETag or ETag */
    char etag[160];           /* of the host that has the bytes */
    char url[TT_HUB_MAX_URL]; /* where the last redirect led; "" to ask the hub again */
} tt_hub_file;

/* One part of a file, or all of it, on its way. */
typedef struct tt_hub_request {
    tt_hub_file *file;
    const char *path;       /* instead of a file: an absolute path of the endpoint */
    uint64_t begin, end;    /* bytes [begin, end); end 0: the whole file */
    unsigned char *bytes;   /* of a part: room for end - begin; of a whole file allocated */
    uint64_t got, cap, max; /* max: of a whole file */
    tt_hub_response response;
    /* Inside. */
    tt_hub *hub;
    char url[TT_HUB_MAX_URL];
    struct curl_slist *headers;
    char curl_error[CURL_ERROR_SIZE];
    unsigned hops, fruitless, pushed_back;
    uint64_t got_before; /* bytes when this attempt began */
    double began;
    bool cached_url, too_long, wrong_range, no_memory, unranged, checked;
    uint64_t wait_ms; /* before the next attempt */
} tt_hub_request;

typedef enum tt_hub_verdict {
    TT_HUB_DONE,
    TT_HUB_AGAIN,       /* start it again, after wait_ms */
    TT_HUB_PUSHED_BACK, /* the same, and the hub wants to be asked less */
    TT_HUB_FAILED       /* err tells */
} tt_hub_verdict;

/* "ORG/NAME" of letters, digits, dots, dashes and underscores. */
bool tt_hub_repository_valid(const char *name);
/* 1 to 128 of letters, digits and "._/-". */
bool tt_hub_revision_valid(const char *revision);

TT_MUST_CHECK tt_status tt_hub_open(const tt_hub_options *o, const tt_repack_events *ev,
                                    tt_hub **out, tt_error *err);
void tt_hub_close(tt_hub **hub);
/* The commit that answers must come from, and that is asked for from now on: 40 digits. */
void tt_hub_pin(tt_hub *hub, const char *commit);
const char *tt_hub_commit(const tt_hub *hub);
const char *tt_hub_repository(const tt_hub *hub);

/* A whole file of at most `max` bytes, or an absolute path of the endpoint; allocated. */
TT_MUST_CHECK tt_status tt_hub_get(tt_hub *hub, tt_hub_file *file, const char *path, size_t max,
                                   unsigned char **bytes, size_t *len, tt_error *err);
/* Bytes received so far, of all kinds. */
uint64_t tt_hub_received(const tt_hub *hub);

/* Bytes a second of the longest answer so far, 0 when none was long enough to tell. */
double tt_hub_rate(const tt_hub *hub);

/* The steps of a request, for hub_fetch.c. `begin` sets a handle up for the next attempt. */
void tt_hub_request_init(tt_hub_request *r, tt_hub *hub, tt_hub_file *file, uint64_t begin,
                         uint64_t end, void *bytes);
TT_MUST_CHECK tt_status tt_hub_request_begin(tt_hub_request *r, CURL *easy, tt_error *err);
/* Bytes of the body of an answer whose headers were read; returns how many were taken. */
size_t tt_hub_request_body(tt_hub_request *r, const void *bytes, size_t n);
tt_hub_verdict tt_hub_request_judge(tt_hub_request *r, CURL *easy, CURLcode code, tt_error *err);
void tt_hub_request_free(tt_hub_request *r);

#endif
