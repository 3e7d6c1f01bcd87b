/* hub_response.h: what a hub says about a file in the headers of its answers.
 *
 * Owns:      the meaning of each header line; nothing is kept of lines that are not known.
 * Not here:  asking (hub_client.h), what is done about a status (hub_judge.h).
 * Laws:      (1) a value that is too long or malformed counts as absent;  (2) what the hub itself
 *            said of a file survives the redirect to where its bytes are.
 * Threads:   plain data.
 */
#ifndef TT_REPACK_HUB_RESPONSE_H
#define TT_REPACK_HUB_RESPONSE_H

#include <stddef.h>

#include "base/status.h"

#define TT_HUB_UNKNOWN UINT64_MAX

typedef struct tt_hub_response {
    int status;           /* of the answer that is being read */
    uint64_t length;      /* Content-Length, or unknown */
    uint64_t first, last; /* Content-Range, both inclusive, or unknown */
    uint64_t total;       /* size of the whole file by Content-Range, or unknown */
    uint64_t retry_after; /* seconds, or unknown */
    char etag[160];       /* without quotes and W/ */
    char error_code[64];  /* X-Error-Code: "GatedRepo" */
    char error_text[256]; /* X-Error-Message */
    /* Said by the hub, kept over redirects. */
    char commit[65];       /* X-Repo-Commit */
    char linked_etag[160]; /* X-Linked-Etag: SHA-256 of an LFS file */
    uint64_t linked_size;  /* X-Linked-Size, or unknown */
} tt_hub_response;

void tt_hub_response_init(tt_hub_response *r);
/* One line as it came, with or without its line end. A status line begins the next answer. The fuzz
 * target of headers. */
void tt_hub_response_line(tt_hub_response *r, const char *line, size_t n);
/* What identifies the content: the linked ETag, else the ETag, else "". */
const char *tt_hub_response_id(const tt_hub_response *r);

#endif
