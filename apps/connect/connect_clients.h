/* connect_clients.h: what each client needs to know of the server, and where it wants that written.
 *
 * Owns:      the clients, their settings files and members.
 * Not here:  reading and writing them (settings_json.h, connect_files.h).
 * Laws:      (1) a key is named by its file or by a variable and never copied;  (2) what belongs to
 *            the user and not to us is not touched;  (3) an answer gets a quarter of the context,
 *            because clients keep that much of it free.
 * Threads:   any.
 */
#ifndef TT_CONNECT_CONNECT_CLIENTS_H
#define TT_CONNECT_CONNECT_CLIENTS_H

#include <jansson.h>

#include "base/buf.h"
#include "base/limits.h"
#include "connect/connect_server.h"

#define TT_CONNECT_KEY_VARIABLE "TINYTITAN_API_KEY"

typedef struct tt_connect_wish {
    uint16_t port;
    const char *key_file; /* absolute, or NULL: the server asks for none */
    tt_connect_models models;
    /* of the environment; NULL where not set */
    const char *home, *config_home, *codex_home, *claude_dir;
} tt_connect_wish;

typedef enum tt_edit_kind { TT_EDIT_SET, TT_EDIT_REMOVE, TT_EDIT_REPLACE } tt_edit_kind;

/* One change of a file of JSON. */
typedef struct tt_connect_edit {
    tt_edit_kind kind;
    const char *path[5];   /* NULL at the end */
    const char *key, *own; /* REPLACE: as tt_settings_replace */
    json_t *value;         /* SET, REPLACE: owned */
} tt_connect_edit;

#define TT_CONNECT_EDITS 16u

typedef struct tt_connect_plan {
    char path[TT_MAX_PATH]; /* "" when there is no file */
    tt_connect_edit edits[TT_CONNECT_EDITS];
    size_t n;
    tt_buf text;  /* a file that is ours alone: all of it; or, without a file, what is to be told */
    tt_buf notes; /* how to go on, in lines */
} tt_connect_plan;

typedef struct tt_connect_client {
    const char *name, *title;
    tt_status (*make)(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err);
} tt_connect_client;

extern const tt_connect_client tt_connect_clients[]; /* ends with one without a name */

TT_MUST_CHECK tt_status tt_connect_make(const tt_connect_client *c, const tt_connect_wish *w,
                                        tt_connect_plan *p, tt_error *err);
void tt_connect_plan_free(tt_connect_plan *p);
/* All edits of `p` in a settings text. */
TT_MUST_CHECK tt_status tt_connect_apply(const tt_connect_plan *p, tt_buf *text, tt_error *err);

#endif
