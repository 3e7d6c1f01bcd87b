/* http_policy.h: who may ask, decided from the head of a request alone.
 *
 * Owns:      Host, Origin and preflight, the key, content types.
 * Not here:  framing (http1.h); which paths there are; writing answers.
 * Laws:      (1) pure: no state, no clock, no allocation;  (2) the checks come in the order of
 *            section 2.2 of docs/http.md and the first that fails answers;  (3) the key is compared
 *            in a time that depends on the length of what was sent only;  (4) an origin that was
 * not named never gets a CORS field.
 * Threads:   any.
 */
#ifndef TT_SERVER_HTTP_POLICY_H
#define TT_SERVER_HTTP_POLICY_H

#include "server/http1.h"

typedef struct tt_http_policy {
    uint16_t port;              /* that the server listens on; 0 on a Unix socket */
    const char *const *origins; /* named with --allow-origin */
    size_t n_origins;
    const char *key; /* NULL: none is asked for */
} tt_http_policy;

/* What the answer has to be, or what every answer to the request must carry. */
typedef struct tt_http_verdict {
    int status; /* 0: go on */
    const char *code, *text;
    const char *allow_origin; /* for Access-Control-Allow-Origin, or NULL; lives with the request */
    const char *allow_headers; /* of a preflight: for Access-Control-Allow-Headers, or NULL */
    bool preflight;            /* answer with 204 and the methods of the path */
    bool ask_for_key;          /* the refusal carries WWW-Authenticate */
} tt_http_verdict;

/* Steps 2 to 5: fields that are there twice, Host, Origin, key. False when the verdict is a
 * refusal; `verdict` is filled either way. */
bool tt_http_admit(const tt_http_policy *policy, const tt_http1 *h, tt_http_verdict *verdict);

/* Step 7: a body where none belongs, the content type of a POST. Changes only status, code and
 * text. */
bool tt_http_check_content(const tt_http1 *h, tt_http_verdict *verdict);

/* What --allow-origin may name: scheme://host or scheme://host:port. */
bool tt_http_origin_valid(const char *origin);

/* Reads a key: a regular file of this user that nobody else may touch, with 1 to 512 visible ASCII
 * characters and perhaps a line end. */
TT_MUST_CHECK tt_status tt_api_key_load(const char *path, char key[TT_API_KEY_MAX + 1],
                                        tt_error *err);

#endif
